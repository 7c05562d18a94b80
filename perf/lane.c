/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/lane.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "ps/protocol/message.h"
#include "ps/protocol/slot.h"

static_assert(LANE_WORDS >= sizeof(struct slot_header) &&
                  LANE_WORDS + sizeof(struct slot_words) <= LANE_ARENA && LANE_ARENA / PLAN_LINE % 2 == 1,
              "header, words and arena lie apart, the arena as those of the ps do");

/* lane_header -- see lane.h. */
int lane_header(struct wire *wire, uint64_t sequence, uint64_t bytes)
{
    const struct slot_header header = {
        .step = sequence, .sequence = sequence, .bytes = bytes, .kind = SLOT_GRADIENT, .magic = SLOT_MAGIC};

    if (wire->remote->mapped != NULL) {
        memcpy(wire->remote->mapped, &header, sizeof(header));
    } else {
        memcpy(wire_outbound(wire), &header, sizeof(header));
        if (wire_write(wire, 0, sizeof(header), STEPGATE_POST_MORE) != 0)
            return -1;
    }
    return wire_notify(wire, slot_notify(0, 0, 0, sequence));
}

/* lane_token -- see lane.h. */
int lane_token(struct wire *wire, uint64_t sequence)
{
    struct message token;

    for (uint64_t from = wire->messages; wire->messages == from;)
        if (wire_progress(wire) < 0)
            return -1;
    if (message_unpack(wire->message, wire->message_bytes, &token) != 0 || token.kind != MESSAGE_TOKEN ||
        token.sequence != sequence || token.step != sequence + 1)
        return wire_wrong(wire, "a token answers another contribution");
    return 0;
}

/* lane_write -- the arena, in chunks, which go to the device together with header and notify. */
static int lane_write(struct wire *wire, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += LANE_CHUNK) {
        uint64_t chunk = bytes - at < LANE_CHUNK ? bytes - at : LANE_CHUNK;
        if (wire_write(wire, LANE_ARENA + at, chunk, STEPGATE_POST_MORE) != 0)
            return -1;
    }
    return 0;
}

/* lane_push -- see lane.h. */
int lane_push(struct wire *wire, uint64_t sequence, uint64_t bytes)
{
    uint64_t from = wire->notifies;

    if (lane_write(wire, bytes) != 0 || lane_header(wire, sequence, bytes) != 0)
        return -1;
    while (wire->notifies == from)
        if (wire_progress(wire) < 0)
            return -1;
    return slot_notify_number(wire->notified) == ((sequence + 1) & 0xffff)
               ? 0
               : wire_wrong(wire, "the lane confirms another contribution");
}

/* lane_look -- reads the words. */
static int lane_look(struct wire *wire, struct slot_words *words)
{
    uint64_t until = wire->completed + 1;

    if (wire_read(wire, LANE_WORDS, sizeof(*words), 0) != 0)
        return -1;
    while (wire->completed < until)
        if (wire_progress(wire) < 0)
            return -1;
    memcpy(words, wire_outbound(wire) + LANE_WORDS, sizeof(*words));
    return 0;
}

/* lane_pull -- see lane.h. */
int lane_pull(struct wire *wire, uint64_t step, uint64_t bytes)
{
    struct slot_words words;

    if (lane_look(wire, &words) != 0)
        return -1;
    if (words.applied[0] < step)
        return wire_wrong(wire, "the parameters are of an older step");
    uint64_t until = wire->completed + (bytes + LANE_CHUNK - 1) / LANE_CHUNK;
    for (uint64_t at = 0; at < bytes; at += LANE_CHUNK)
        if (wire_read(wire, LANE_ARENA + at, bytes - at < LANE_CHUNK ? bytes - at : LANE_CHUNK, 0) != 0)
            return -1;
    while (wire->completed < until)
        if (wire_progress(wire) < 0)
            return -1;
    if (lane_look(wire, &words) != 0)
        return -1;
    return words.writing[step & 1] == step ? 0 : wire_wrong(wire, "the parameters were torn");
}

/* lane_take -- the next header, copied before it is looked at, as a lane does. 1, 0: there is none, or -1. */
static int lane_take(struct wire *wire, struct slot_header *header)
{
    if (wire->notifies == wire->taken)
        return 0;
    wire->taken++;
    memcpy(header, wire_inbound(wire), sizeof(*header));
    if (header->magic != SLOT_MAGIC || header->kind != SLOT_GRADIENT ||
        (header->sequence & 0xffff) != slot_notify_number(wire->notified) ||
        header->bytes > wire->half - LANE_ARENA)
        return wire_wrong(wire, "a header does not fit its notify");
    return 1;
}

/* lane_give -- answers a header by a token. */
static int lane_give(struct wire *wire, const struct slot_header *header)
{
    struct message token;
    uint8_t data[MESSAGE_BYTES_MAX];

    message_begin(&token, MESSAGE_TOKEN);
    token.step = header->step + 1;
    token.sequence = header->sequence;
    int length = message_pack(&token, data);

    return length < 0 ? wire_fail(wire, length, "a token") : wire_send(wire, data, (uint32_t)length);
}

/* lane_tokens -- see lane.h. */
int lane_tokens(struct wire *wire)
{
    struct slot_header header;

    for (wire->taken = wire->notifies; !wire->heard;) {
        int status = lane_take(wire, &header);
        if (status < 0 || (status > 0 && lane_give(wire, &header) != 0) || wire_progress(wire) < 0)
            return -1;
    }
    return 0;
}

/* lane_confirm -- see lane.h. */
int lane_confirm(struct wire *wire)
{
    struct slot_header header;
    int status = lane_take(wire, &header);

    return status > 0 ? wire_notify(wire, slot_notify(0, 0, 0, header.step + 1)) : status;
}

/* lane_slots -- see lane.h. */
int lane_slots(struct wire *wire)
{
    for (wire->taken = wire->notifies; !wire->heard;)
        if (lane_confirm(wire) < 0 || wire_progress(wire) < 0)
            return -1;
    return 0;
}

/* lane_publish -- see lane.h. */
void lane_publish(struct wire *wire, uint64_t step)
{
    struct slot_words *words = (struct slot_words *)(void *)(wire_inbound(wire) + LANE_WORDS);

    atomic_store_explicit(&words->writing[step & 1], step, memory_order_relaxed);
    atomic_store_explicit(&words->applied[0], step,
                          memory_order_release); /* pairs with nothing but the answer's */
}
