/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "worker/examples/fashion/batch.h"

static const struct batch_shape shapes[] = {
    {.seed = 1, .images = 1000, .batch = 32, .parts = 4},
    {.seed = 2, .images = 1000, .batch = 32, .parts = 3},
    {.seed = 3, .images = 1013, .batch = 10, .parts = 4, .uneven = true},
    {.seed = 4, .images = 64, .batch = 16, .parts = 4},
    {.seed = 5, .images = 7, .batch = 100, .parts = 3},
    {.seed = 6, .images = 500, .batch = 8, .parts = 1, .uneven = true},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void parts_of_an_epoch_are_each_image_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct batch_shape *shape = &shapes[i];
        struct batch_order *order = batch_order_new(shape);
        assert_non_null(order);
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            unsigned char *seen = calloc(shape->images, 1);
            size_t all = 0;
            assert_non_null(seen);
            for (uint64_t s = 0; s < batch_steps(shape); s++)
                for (size_t r = 0; r < shape->parts; r++) {
                    struct batch_part part = batch_part_of(shape, epoch * batch_steps(shape) + s, r);
                    assert_int_equal(part.epoch, epoch);
                    assert_true(part.count >= 1 && part.count <= batch_capacity(shape));
                    for (size_t n = 0; n < part.count; n++, all++) {
                        size_t image = batch_order_at(order, epoch, part.first + n);
                        assert_true(image < shape->images);
                        assert_int_equal(seen[image], 0);
                        seen[image] = 1;
                    }
                }
            assert_int_equal(all, shape->images);
            free(seen);
        }
        batch_order_delete(&order);
        assert_null(order);
    }
}

static void left_over_images_too_few_for_all_parts_sit_out(void **state)
{
    (void)state;
    struct batch_shape shape = {.seed = 1, .images = 131, .batch = 32, .parts = 4};
    assert_int_equal(batch_steps(&shape), 1);
    shape.images = 132;
    assert_int_equal(batch_steps(&shape), 2);
}

static void too_few_images_for_a_step_are_told(void **state)
{
    (void)state;
    struct batch_shape shape = {.seed = 1, .images = 3, .batch = 32, .parts = 4};
    assert_int_equal(batch_steps(&shape), 0);
    /* One image per part, shared out unevenly, leaves the first part none. */
    shape = (struct batch_shape){.seed = 1, .images = 100, .batch = 1, .parts = 4, .uneven = true};
    assert_int_equal(batch_steps(&shape), 0);
}

static void equal_parts_weigh_one_and_others_what_they_count(void **state)
{
    (void)state;
    struct batch_shape shape = {.seed = 1, .images = 1002, .batch = 32, .parts = 4};
    for (uint64_t s = 0; s < batch_steps(&shape); s++)
        for (size_t r = 0; r < shape.parts; r++) {
            struct batch_part part = batch_part_of(&shape, s, r);
            /* 1002 = 7 x 128 + 106, and 106 = 27 + 27 + 26 + 26 */
            assert_int_equal(part.count, s < 7 ? 32 : r < 2 ? 27 : 26);
            assert_int_equal(part.weight, s < 7 ? 1 : part.count);
        }
}

static void uneven_parts_are_unequal_in_every_step(void **state)
{
    (void)state;
    struct batch_shape shape = {.seed = 1, .images = 880, .batch = 22, .parts = 4, .uneven = true};
    /* 88 images by 4 : 5 : 6 : 7 */
    static const size_t counts[] = {16, 20, 24, 28};
    for (uint64_t s = 0; s < batch_steps(&shape); s++)
        for (size_t r = 0; r < shape.parts; r++) {
            assert_int_equal(batch_part_of(&shape, s, r).count, counts[r]);
            assert_int_equal(batch_part_of(&shape, s, r).weight, counts[r]);
        }
}

static void the_order_depends_on_seed_and_epoch_alone(void **state)
{
    (void)state;
    struct batch_shape other = shapes[0];
    other.seed = 9;
    struct batch_order *a = batch_order_new(&shapes[0]);
    struct batch_order *b = batch_order_new(&shapes[0]);
    struct batch_order *c = batch_order_new(&other);
    size_t epoch_differs = 0;
    size_t seed_differs = 0;
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    batch_order_at(b, 5, 0); /* what was asked before leaves no trace */
    for (size_t i = 0; i < shapes[0].images; i++) {
        size_t image = batch_order_at(a, 3, i);
        assert_int_equal(image, batch_order_at(b, 3, i));
        seed_differs += image != batch_order_at(c, 3, i);
    }
    for (size_t i = 0; i < shapes[0].images; i++)
        epoch_differs += batch_order_at(a, 4, i) != batch_order_at(b, 3, i);
    assert_true(epoch_differs > 900);
    assert_true(seed_differs > 900);
    batch_order_delete(&a);
    batch_order_delete(&b);
    batch_order_delete(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_an_epoch_are_each_image_once),
        cmocka_unit_test(left_over_images_too_few_for_all_parts_sit_out),
        cmocka_unit_test(too_few_images_for_a_step_are_told),
        cmocka_unit_test(equal_parts_weigh_one_and_others_what_they_count),
        cmocka_unit_test(uneven_parts_are_unequal_in_every_step),
        cmocka_unit_test(the_order_depends_on_seed_and_epoch_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
