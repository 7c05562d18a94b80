/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring -- one direction of a connection: a ring of bytes in shared memory with one producer and one consumer.
 *
 *   record:  0 u32 kind (high 8 bits) and length (low 24) | 4 u32 value | 8 data, filled up to a multiple of 8
 *
 * Positions count bytes since the beginning and never wrap; a record lies at its position modulo the capacity, its data may be cut at
 * the end of the ring. Each side keeps its own position in private memory and never reads it back; what it reads of the other side is
 * checked, since the other side may be broken or hostile.
 */
#ifndef TRANSPORT_SHM_RING_H
#define TRANSPORT_SHM_RING_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_LINE 128 /* two cache lines: the processor fetches them in pairs */
#define SHM_RECORD_HEADER 8U
#define SHM_MESSAGE_BYTES 4096U

enum shm_record_kind { SHM_RECORD_NOTIFY = 1, SHM_RECORD_MESSAGE = 2 };

#define SHM_HEADERS 7U /* fill the cache line of tail */

/* In shared memory. Each word is alone on its line, but for the headers behind tail. */
struct shm_ring_control {
    alignas(SHM_LINE) _Atomic uint64_t tail; /* the producer's position: everything before it is published */
    /* Headers of the newest records, by position / 8 modulo their number, once more: who waits for a notify finds it in the line that told of it. */
    _Atomic uint64_t header[SHM_HEADERS];
    alignas(SHM_LINE) _Atomic uint64_t
        head; /* the consumer's position: everything before it may be overwritten */
    alignas(SHM_LINE) _Atomic uint32_t armed;  /* the consumer wants its doorbell rung at the next record */
    alignas(SHM_LINE) _Atomic uint32_t wanted; /* the producer wants its doorbell rung when there is room */
};
static_assert(sizeof(struct shm_ring_control) == 4 * SHM_LINE, "the layout is what two processes agree on");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
              "only lock-free atomics work between processes");

/* The producer's side, in its private memory. */
struct shm_sender {
    struct shm_ring_control *control;
    uint8_t *data;
    uint64_t capacity;
    uint64_t tail, at; /* position, and the same modulo the capacity */
    uint64_t head;     /* last seen */
    bool blocked;      /* the last put found no room, and nobody was told since that there is */
};

/* The consumer's side, in its private memory. */
struct shm_receiver {
    struct shm_ring_control *control;
    const uint8_t *data;
    uint64_t capacity;
    uint64_t head, at;
    uint64_t tail;     /* last seen */
    uint64_t released; /* the head that the producer knows */
};

struct shm_record {
    uint32_t kind, length, value;
};

/* shm_ring_bytes -- the capacity of a ring for a number of operations; a multiple of 8. */
uint64_t shm_ring_bytes(uint32_t operations);

/* shm_sender_init, shm_receiver_init -- both ends of a ring whose control words are zero. */
void shm_sender_init(struct shm_sender *sender, void *control, void *data, uint64_t capacity);
void shm_receiver_init(struct shm_receiver *receiver, void *control, const void *data, uint64_t capacity);

/* shm_sender_put -- publishes a record. Errors, without a text: EAGAIN (no room: the peer rings our doorbell when there is), EPROTOCOL
 * (the peer's position cannot be). */
int shm_sender_put(struct shm_sender *sender, uint32_t kind, uint32_t value, const void *data,
                   uint32_t length);
/* shm_sender_must_ring -- after a put: does the consumer sleep? */
bool shm_sender_must_ring(struct shm_sender *sender);

/* shm_sender_unblocked -- has there come room since a put found none? Says so once. */
bool shm_sender_unblocked(struct shm_sender *sender);

/* shm_receiver_take -- copies the next record out; its data goes to `buffer`. Returns 1, 0: empty, or without a text EAGAIN (its data is
 * longer than room; nothing was taken) and EPROTOCOL (position or record cannot be). */
int shm_receiver_take(struct shm_receiver *receiver, struct shm_record *record, void *buffer, size_t room);
/* shm_receiver_release -- gives the room of what was taken back; true: the producer waits for it, ring its doorbell. */
bool shm_receiver_release(struct shm_receiver *receiver);
/* shm_receiver_arm -- asks to be rung for; true: there is something already. */
bool shm_receiver_arm(struct shm_receiver *receiver);
/* shm_receiver_disarm -- no more. */
void shm_receiver_disarm(struct shm_receiver *receiver);

#endif
