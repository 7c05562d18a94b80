/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/batch.h"

#include <stdlib.h>

#include "worker/examples/fashion/random.h"

enum { BATCH_PURPOSE = 1 }; /* keeps the order's random numbers apart from those of initial values */

struct batch_order {
    uint64_t seed;
    size_t count;
    uint64_t epoch; /* that places holds; UINT64_MAX before the first */
    uint32_t places[];
};

/* batch_edge -- where part r of a global batch of so many images begins */
static size_t batch_edge(const struct batch_shape *shape, size_t images, size_t r)
{
    size_t t = shape->parts;
    if (!shape->uneven)
        /* The first images % t parts have one image more. */
        return images / t * r + (r < images % t ? r : images % t);
    size_t before = t * r + r * (r - (r > 0)) / 2;
    size_t all = t * t + t * (t - 1) / 2;
    return images * before / all;
}

/* batch_fills_all -- whether a global batch of so many images gives every part at least one */
static bool batch_fills_all(const struct batch_shape *shape, size_t images)
{
    for (size_t r = 0; r < shape->parts; r++)
        if (batch_edge(shape, images, r) == batch_edge(shape, images, r + 1))
            return false;
    return true;
}

/* batch_steps -- steps in an epoch */
uint64_t batch_steps(const struct batch_shape *shape)
{
    size_t global = shape->batch * shape->parts;
    size_t rest = shape->images % global;
    if (!batch_fills_all(shape, global))
        return 0;
    return shape->images / global + (rest > 0 && batch_fills_all(shape, rest));
}

/* batch_capacity -- the largest count that batch_part_of gives */
size_t batch_capacity(const struct batch_shape *shape)
{
    size_t largest = 0;
    size_t global = shape->batch * shape->parts;
    for (size_t r = 0; r < shape->parts; r++) {
        size_t count = batch_edge(shape, global, r + 1) - batch_edge(shape, global, r);
        largest = count > largest ? count : largest;
    }
    return largest;
}

/* batch_part_of -- what part r of a step consists of */
struct batch_part batch_part_of(const struct batch_shape *shape, uint64_t step, size_t r)
{
    uint64_t steps = batch_steps(shape);
    size_t global = shape->batch * shape->parts;
    size_t start = (size_t)(step % steps) * global;
    size_t images = shape->images - start < global ? shape->images - start : global;
    size_t edge = batch_edge(shape, images, r);
    size_t count = batch_edge(shape, images, r + 1) - edge;
    bool equal = !shape->uneven && images % shape->parts == 0;
    return (struct batch_part){
        .epoch = step / steps,
        .first = start + edge,
        .count = count,
        .weight = equal ? 1 : (uint32_t)count,
    };
}

/* batch_order_new -- room for an epoch's order; NULL without memory */
struct batch_order *batch_order_new(const struct batch_shape *shape)
{
    struct batch_order *order = malloc(sizeof *order + shape->images * sizeof order->places[0]);
    if (order != NULL)
        *order = (struct batch_order){.seed = shape->seed, .count = shape->images, .epoch = UINT64_MAX};
    return order;
}

/* batch_order_shuffle -- make the order of an epoch, from seed and epoch alone */
static void batch_order_shuffle(struct batch_order *order, uint64_t epoch)
{
    struct random_stream stream = random_stream_of(order->seed, BATCH_PURPOSE, epoch);
    for (size_t i = 0; i < order->count; i++)
        order->places[i] = (uint32_t)i;
    for (size_t i = order->count; i > 1; i--) {
        size_t j = (size_t)random_below(&stream, i);
        uint32_t held = order->places[i - 1];
        order->places[i - 1] = order->places[j];
        order->places[j] = held;
    }
    order->epoch = epoch;
}

/* batch_order_at -- which image stands at a place of an epoch's order */
size_t batch_order_at(struct batch_order *order, uint64_t epoch, size_t place)
{
    if (order->epoch != epoch)
        batch_order_shuffle(order, epoch);
    return order->places[place];
}

/* batch_order_delete -- free it and set NULL; safe on NULL */
void batch_order_delete(struct batch_order **order)
{
    free(*order);
    *order = NULL;
}
