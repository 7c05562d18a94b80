/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/ring.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

/* ring_init -- allocates the operations. */
int ring_init(struct ring *ring, uint32_t capacity)
{
    memset(ring, 0, sizeof(*ring));
    ring->ops = calloc(capacity, sizeof(*ring->ops));
    if (ring->ops == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for %u operations", capacity);
    ring->capacity = capacity;
    return 0;
}

/* ring_fini -- frees them. */
void ring_fini(struct ring *ring)
{
    free(ring->ops);
    memset(ring, 0, sizeof(*ring));
}

/* ring_place -- counters wrap at 2^32: the capacity is a power of two, so that places stay in step. */
uint32_t ring_place(const struct ring *ring, uint32_t counter)
{
    return counter & (ring->capacity - 1);
}

/* ring_push -- prepares the next operation. */
struct ring_op *ring_push(struct ring *ring)
{
    if (ring->tail - ring->head >= ring->capacity)
        return NULL;
    struct ring_op *op = &ring->ops[ring_place(ring, ring->tail)];
    memset(op, 0, offsetof(struct ring_op, data));
    return op;
}

/* ring_commit -- counts it. */
void ring_commit(struct ring *ring)
{
    ring->tail++;
}

/* ring_waiting -- the next operation for the device. */
struct ring_op *ring_waiting(struct ring *ring)
{
    return ring->next == ring->tail ? NULL : &ring->ops[ring_place(ring, ring->next)];
}

/* ring_advance -- the device has all of it. */
void ring_advance(struct ring *ring, uint32_t last)
{
    ring->ops[ring_place(ring, ring->next)].last = last;
    ring->next++;
}

/* ring_retire -- takes off one operation that has ended. */
struct ring_op *ring_retire(struct ring *ring, uint32_t number)
{
    if (ring->head == ring->next)
        return NULL;
    struct ring_op *op = &ring->ops[ring_place(ring, ring->head)];
    if ((int32_t)(op->last - number) > 0)
        return NULL;
    ring->head++;
    return op;
}

/* ring_drop -- takes off one operation of a broken connection. */
struct ring_op *ring_drop(struct ring *ring)
{
    if (ring->head == ring->tail)
        return NULL;
    struct ring_op *op = &ring->ops[ring_place(ring, ring->head)];
    if (ring->next == ring->head)
        ring->next++;
    ring->head++;
    return op;
}

/* ring_piece -- what is left, at most one piece. */
uint32_t ring_piece(const struct ring_op *op, uint64_t piece_bytes)
{
    uint64_t left = op->length - op->done;
    return (uint32_t)(left < piece_bytes ? left : piece_bytes);
}
