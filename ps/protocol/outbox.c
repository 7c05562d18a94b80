/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/protocol/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "ps/protocol/message.h"
#include "transport/base/error.h"

#define OUTBOX_BYTES_MIN 2048

/* outbox_counts -- see outbox.h. */
bool outbox_counts(int kind)
{
    return kind != MESSAGE_PROOF && kind != MESSAGE_HEARTBEAT && kind != MESSAGE_MODEL_OK &&
           kind != MESSAGE_PARAMETERS && kind != MESSAGE_SNAPSHOT_READY;
}

/* outbox_at -- the message that begins there. */
static const uint8_t *outbox_at(const struct outbox *outbox, size_t at, uint16_t *length)
{
    memcpy(length, outbox->bytes + at, sizeof(*length));
    return outbox->bytes + at + sizeof(*length);
}

/* outbox_drop -- done with the oldest one. */
static void outbox_drop(struct outbox *outbox)
{
    uint16_t length;
    const uint8_t *data = outbox_at(outbox, outbox->head, &length);

    outbox->acknowledged += outbox_counts(data[0]);
    outbox->head += sizeof(length) + length;
    if (outbox->head == outbox->used)
        outbox->head = outbox->next = outbox->used = 0;
}

/* outbox_room -- makes room at the end. What lies in front is moved only where that is less work than growing: its cost is bounded by what was sent. */
static int outbox_room(struct outbox *outbox, size_t bytes)
{
    if (outbox->used + bytes <= outbox->size)
        return 0;
    if (outbox->head >= outbox->size / 2 && outbox->head >= bytes) {
        memmove(outbox->bytes, outbox->bytes + outbox->head, outbox->used - outbox->head);
        outbox->used -= outbox->head;
        outbox->next -= outbox->head;
        outbox->head = 0;
        return 0;
    }
    size_t size = outbox->size == 0 ? OUTBOX_BYTES_MIN : outbox->size * 2;
    uint8_t *larger = size > OUTBOX_BYTES_MAX ? NULL : realloc(outbox->bytes, size);
    if (larger == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no room for messages that a peer does not take");
    outbox->bytes = larger;
    outbox->size = size;
    return 0;
}

/* outbox_put -- see outbox.h. */
int outbox_put(struct outbox *outbox, const uint8_t *data, uint16_t length)
{
    int status = outbox_room(outbox, sizeof(length) + length);

    if (status != 0)
        return status;
    memcpy(outbox->bytes + outbox->used, &length, sizeof(length));
    memcpy(outbox->bytes + outbox->used + sizeof(length), data, length);
    outbox->used += sizeof(length) + length;
    return 0;
}

/* outbox_next -- see outbox.h. */
const uint8_t *outbox_next(const struct outbox *outbox, uint16_t *length)
{
    return outbox->next < outbox->used ? outbox_at(outbox, outbox->next, length) : NULL;
}

/* outbox_settle -- what is sent and not counted has nothing to wait for once it is the oldest. */
static void outbox_settle(struct outbox *outbox)
{
    uint16_t length;

    while (outbox->head < outbox->next && !outbox_counts(outbox_at(outbox, outbox->head, &length)[0]))
        outbox_drop(outbox);
}

/* outbox_sent -- see outbox.h. */
void outbox_sent(struct outbox *outbox)
{
    uint16_t length;

    (void)outbox_at(outbox, outbox->next, &length);
    outbox->next += sizeof(length) + length;
    outbox_settle(outbox);
}

/* outbox_acknowledge -- see outbox.h. */
int outbox_acknowledge(struct outbox *outbox, uint64_t received)
{
    while (outbox->acknowledged < received && outbox->head < outbox->next) {
        outbox_drop(outbox);
        outbox_settle(outbox);
    }
    if (outbox->acknowledged == received)
        return 0;
    return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                     "the peer says it has received %llu messages, and cannot have more or less than %llu",
                     (unsigned long long)received, (unsigned long long)outbox->acknowledged);
}

/* outbox_hold -- see outbox.h. */
void outbox_hold(struct outbox *outbox)
{
    size_t kept = outbox->head, next = outbox->head;
    uint16_t length;

    for (size_t at = outbox->head, size; at < outbox->used; at += size) {
        const uint8_t *data = outbox_at(outbox, at, &length);
        size = sizeof(length) + length;
        if (outbox_counts(data[0])) {
            memmove(outbox->bytes + kept, outbox->bytes + at, size);
            kept += size;
        }
        if (at + size <= outbox->next)
            next = kept;
    }
    outbox->used = kept;
    outbox->next = next;
    if (outbox->head == outbox->used)
        outbox->head = outbox->next = outbox->used = 0;
}

/* outbox_again -- see outbox.h. */
int outbox_again(struct outbox *outbox, uint64_t received)
{
    int status = outbox_acknowledge(outbox, received);

    if (status != 0)
        return status;
    outbox->next = outbox->head;
#ifdef STEPGATE_MUTANT_MESSAGE_NOT_SENT_AGAIN
    while (outbox->head < outbox->used)
        outbox_drop(outbox);
#endif
    return 0;
}

/* outbox_idle -- see outbox.h. */
bool outbox_idle(const struct outbox *outbox)
{
    return outbox->next == outbox->used;
}

/* outbox_kept -- see outbox.h. */
bool outbox_kept(const struct outbox *outbox)
{
    return outbox->head < outbox->used;
}

/* outbox_clear -- see outbox.h. */
void outbox_clear(struct outbox *outbox)
{
    free(outbox->bytes);
    *outbox = (struct outbox){0};
}
