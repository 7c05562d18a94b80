/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/ring.h"

#include <string.h>

#include "stepgate/error.h"

#define RING_PER_OPERATION 512U
#define RING_LEAST (UINT64_C(32) << 10)
#define RING_KIND_SHIFT 24
#define RING_LENGTH_MASK 0xffffffU

static_assert(RING_LEAST >= 4 * (SHM_RECORD_HEADER + SHM_MESSAGE_BYTES), "a few of the longest messages fit");
static_assert(RING_LEAST % 8 == 0 && RING_PER_OPERATION % 8 == 0, "a header is never cut");
static_assert(SHM_MESSAGE_BYTES <= RING_LENGTH_MASK, "a length fits into its bits");

/* ring_size -- bytes that a record takes. */
static uint64_t ring_size(uint32_t length)
{
    return SHM_RECORD_HEADER + (((uint64_t)length + 7) & ~UINT64_C(7));
}

/* ring_ahead -- a position, moved on within the ring. */
static uint64_t ring_ahead(uint64_t at, uint64_t bytes, uint64_t capacity)
{
    at += bytes;
    return at >= capacity ? at - capacity : at;
}

/* ring_header -- where the header of a record at a position is, beside tail. */
static _Atomic uint64_t *ring_header(struct shm_ring_control *control, uint64_t position)
{
    return &control->header[position / 8 % SHM_HEADERS];
}

/* shm_ring_bytes -- room for that many records of 504 bytes of data. */
uint64_t shm_ring_bytes(uint32_t operations)
{
    uint64_t bytes = (uint64_t)operations * RING_PER_OPERATION;

    return bytes < RING_LEAST ? RING_LEAST : bytes;
}

/* shm_sender_init -- at the beginning. */
void shm_sender_init(struct shm_sender *sender, void *control, void *data, uint64_t capacity)
{
    *sender = (struct shm_sender){.control = control, .data = data, .capacity = capacity};
}

/* shm_receiver_init -- at the beginning. */
void shm_receiver_init(struct shm_receiver *receiver, void *control, const void *data, uint64_t capacity)
{
    *receiver = (struct shm_receiver){.control = control, .data = data, .capacity = capacity};
}

/* sender_sees -- takes over the consumer's position; false: it cannot be. */
static bool sender_sees(struct shm_sender *sender, uint64_t head)
{
    if (head % 8 != 0 || head - sender->head > sender->tail - sender->head)
        return false;
    sender->head = head;
    return true;
}

/* sender_room -- is there room for a record? 0, -EAGAIN or -EPROTOCOL. */
static int sender_room(struct shm_sender *sender, uint64_t size)
{
    struct shm_ring_control *control = sender->control;

    if (sender->capacity - (sender->tail - sender->head) >= size)
        return 0;
    /* acquire: pairs with the store of head in shm_receiver_release; the consumer has read what is overwritten now */
    if (!sender_sees(sender, atomic_load_explicit(&control->head, memory_order_acquire)))
        return -STEPGATE_EPROTOCOL;
    if (sender->capacity - (sender->tail - sender->head) >= size)
        return 0;
    /* Store wanted, then load head; shm_receiver_release stores head, then loads wanted. All four are seq_cst, so at least one side sees
     * the other's store: either there is room here, or the consumer rings. */
    atomic_store_explicit(&control->wanted, 1, memory_order_seq_cst);
    if (!sender_sees(sender, atomic_load_explicit(&control->head, memory_order_seq_cst)))
        return -STEPGATE_EPROTOCOL;
    if (sender->capacity - (sender->tail - sender->head) >= size)
        return 0;
    sender->blocked = true;
    return -STEPGATE_EAGAIN;
}

/* shm_sender_put -- writes the record behind everything published, then publishes it. */
int shm_sender_put(struct shm_sender *sender, uint32_t kind, uint32_t value, const void *data,
                   uint32_t length)
{
    const uint32_t header[2] = {kind << RING_KIND_SHIFT | length, value};
    uint64_t size = ring_size(length), word;
    int status = sender_room(sender, size);

    if (status < 0)
        return status;
    memcpy(sender->data + sender->at, header, sizeof(header));
    memcpy(&word, header, sizeof(word));
    if (length > 0) {
        uint64_t at = ring_ahead(sender->at, SHM_RECORD_HEADER, sender->capacity);
        uint64_t first = sender->capacity - at < length ? sender->capacity - at : length;
        memcpy(sender->data + at, data, first);
        if (first < length)
            memcpy(sender->data, (const uint8_t *)data + first, length - first);
    }
    /* release: pairs with the load in receiver_header; who reads this word sees the tail that was published before it */
#ifdef STEPGATE_MUTANT_RELAXED_TAIL
    atomic_store_explicit(ring_header(sender->control, sender->tail), word, memory_order_relaxed);
#else
    atomic_store_explicit(ring_header(sender->control, sender->tail), word, memory_order_release);
#endif
    sender->at = ring_ahead(sender->at, size, sender->capacity);
    sender->tail += size;
    sender->blocked = false;
    /* release: pairs with the load of tail in shm_receiver_take; the consumer sees the record, and every write into mapped memory before
     * it. seq_cst: for shm_sender_must_ring. */
#ifdef STEPGATE_MUTANT_RELAXED_TAIL
    atomic_store_explicit(&sender->control->tail, sender->tail, memory_order_relaxed);
#else
    atomic_store_explicit(&sender->control->tail, sender->tail, memory_order_seq_cst);
#endif
    return 0;
}

/* shm_sender_must_ring -- tail was stored, now armed is loaded; shm_receiver_arm stores armed, then loads tail. All four are seq_cst, so
 * at least one side sees the other's store: either the ringing happens here, or the consumer does not go to sleep. */
bool shm_sender_must_ring(struct shm_sender *sender)
{
    _Atomic uint32_t *armed = &sender->control->armed;

    return atomic_load_explicit(armed, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(armed, 0, memory_order_seq_cst) != 0; /* one ring for one arming */
}

/* shm_sender_unblocked -- the ring of a consumer that made room in the meantime was cleared before anybody went to sleep on it. Pairs, like
 * the second load in sender_room, with the store of head in shm_receiver_release: wanted is set, so that later room rings again. */
bool shm_sender_unblocked(struct shm_sender *sender)
{
    if (!sender->blocked ||
        atomic_load_explicit(&sender->control->head, memory_order_seq_cst) == sender->head)
        return false;
    sender->blocked = false;
    return true;
}

/* receiver_sees -- takes over the producer's position; false: it cannot be. */
static bool receiver_sees(struct shm_receiver *receiver, uint64_t tail)
{
    if (tail % 8 != 0 || tail - receiver->head > receiver->capacity ||
        tail - receiver->head < receiver->tail - receiver->head)
        return false;
    receiver->tail = tail;
    return true;
}

/*
 * receiver_header -- of the record at head: from beside tail if it is one of the newest, else from the ring. A record that takes its place there
 * begins SHM_HEADERS * 8 bytes or more behind this one, and everything before it was published before its header was stored: whoever
 * reads that header (acquire) and then tail sees tail that far ahead, and reads the ring instead.
 */
static void receiver_header(const struct shm_receiver *receiver, uint32_t header[2])
{
    const uint64_t newest = SHM_HEADERS * UINT64_C(8);

    if (receiver->tail - receiver->head < newest) {
        uint64_t word =
            atomic_load_explicit(ring_header(receiver->control, receiver->head), memory_order_acquire);
        if (atomic_load_explicit(&receiver->control->tail, memory_order_acquire) - receiver->head < newest) {
            memcpy(header, &word, sizeof(word));
            return;
        }
    }
    memcpy(header, receiver->data + receiver->at, 2 * sizeof(header[0]));
}

/* shm_receiver_take -- everything is copied before it is checked: the memory is the producer's to change. */
int shm_receiver_take(struct shm_receiver *receiver, struct shm_record *record, void *buffer, size_t room)
{
    uint32_t header[2];

    if (receiver->head == receiver->tail) {
        /* acquire: pairs with the store of tail in shm_sender_put */
        uint64_t tail = atomic_load_explicit(&receiver->control->tail, memory_order_acquire);
        if (tail == receiver->tail)
            return 0;
        if (!receiver_sees(receiver, tail))
            return -STEPGATE_EPROTOCOL;
    }
    receiver_header(receiver, header);
    uint32_t kind = header[0] >> RING_KIND_SHIFT, length = header[0] & RING_LENGTH_MASK;
    uint64_t size = ring_size(length);
    bool valid = kind == SHM_RECORD_NOTIFY
                     ? length == 0
                     : kind == SHM_RECORD_MESSAGE && length > 0 && length <= SHM_MESSAGE_BYTES;
    if (!valid || size > receiver->tail - receiver->head)
        return -STEPGATE_EPROTOCOL;
    if (length > room)
        return -STEPGATE_EAGAIN;
    if (length > 0) {
        uint64_t at = ring_ahead(receiver->at, SHM_RECORD_HEADER, receiver->capacity);
        uint64_t first = receiver->capacity - at < length ? receiver->capacity - at : length;
        memcpy(buffer, receiver->data + at, first);
        if (first < length)
            memcpy((uint8_t *)buffer + first, receiver->data, length - first);
    }
    *record = (struct shm_record){.kind = kind, .length = length, .value = header[1]};
    receiver->at = ring_ahead(receiver->at, size, receiver->capacity);
    receiver->head += size;
    return 1;
}

/* shm_receiver_release -- once for many records. */
bool shm_receiver_release(struct shm_receiver *receiver)
{
    _Atomic uint32_t *wanted = &receiver->control->wanted;

    if (receiver->released == receiver->head)
        return false;
    receiver->released = receiver->head;
    /* release: pairs with the loads of head in sender_room; what was taken is copied. seq_cst: see there. */
    atomic_store_explicit(&receiver->control->head, receiver->head, memory_order_seq_cst);
    return atomic_load_explicit(wanted, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(wanted, 0, memory_order_seq_cst) != 0;
}

/* shm_receiver_arm -- see shm_sender_must_ring. A position that cannot be counts as something: the next take finds out. */
bool shm_receiver_arm(struct shm_receiver *receiver)
{
    atomic_store_explicit(&receiver->control->armed, 1, memory_order_seq_cst);
    return receiver->head != receiver->tail ||
           atomic_load_explicit(&receiver->control->tail, memory_order_seq_cst) != receiver->tail;
}

/* shm_receiver_disarm -- relaxed: a producer that still sees it armed rings once too often, which is no harm. */
void shm_receiver_disarm(struct shm_receiver *receiver)
{
    atomic_store_explicit(&receiver->control->armed, 0, memory_order_relaxed);
}
