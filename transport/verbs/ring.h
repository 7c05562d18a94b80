/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring -- the operations of an endpoint, in the order in which they were posted:
 *
 *      head ....... next ....... tail
 *      on the device     waiting         counters run freely, the place is counter % capacity
 *
 * Work requests carry a running number; a completion of number s retires every operation whose last request is s or earlier.
 */
#ifndef TRANSPORT_VERBS_RING_H
#define TRANSPORT_VERBS_RING_H

#include <stdbool.h>
#include <stdint.h>

#define RING_INLINE_BYTES 128U

enum ring_kind { RING_WRITE = 1, RING_READ = 2, RING_NOTIFY = 3, RING_MESSAGE = 4, RING_NOTHING = 5 };

struct ring_op {
    uint8_t kind;
    bool complete;  /* its end is to be reported */
    bool is_inline; /* write: the source is in data[] */
    bool staged;    /* message: occupies a staging slot until retired */
    uint32_t last;  /* number of its last work request; valid between head and next */
    uint32_t value; /* notify: the value; message: bytes */
    uint32_t lkey, rkey;
    uint64_t local, remote; /* addresses */
    uint64_t length, done;  /* bytes, and those already handed to the device */
    uint64_t context;
    uint8_t data[RING_INLINE_BYTES];
};

struct ring {
    struct ring_op *ops;
    uint32_t capacity;
    uint32_t head, next, tail;
};

/* ring_init -- room for capacity operations, a power of two; -STEPGATE_ENOMEM. */
int ring_init(struct ring *ring, uint32_t capacity);
void ring_fini(struct ring *ring);
/* ring_place -- the place of a running counter. */
uint32_t ring_place(const struct ring *ring, uint32_t counter);
/* ring_push -- the next free operation, its descriptive fields zeroed, not yet part of the ring; NULL: full. */
struct ring_op *ring_push(struct ring *ring);
/* ring_commit -- makes the operation of the last ring_push part of the ring. */
void ring_commit(struct ring *ring);
/* ring_waiting -- the first operation that is not wholly on the device, or NULL. */
struct ring_op *ring_waiting(struct ring *ring);
/* ring_advance -- that operation is wholly on the device now, its last request has number `last`. */
void ring_advance(struct ring *ring, uint32_t last);
/* ring_retire -- takes off the oldest operation if request `number` or an earlier one ended it; NULL: none. It stays readable until
 * the next ring_push. */
struct ring_op *ring_retire(struct ring *ring, uint32_t number);
/* ring_drop -- takes off the oldest operation, whatever its state; NULL: the ring is empty. */
struct ring_op *ring_drop(struct ring *ring);
/* ring_piece -- bytes of the next piece of an operation. */
uint32_t ring_piece(const struct ring_op *op, uint64_t piece_bytes);

#endif
