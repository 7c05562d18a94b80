/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slot -- the layout of the region that one worker writes into on one shard, for one model: headers, then a ring of slots. The words by which
 * readers tell which step they have read. And the 32 bits of a notify.
 *
 *   | header_offset: depth x lanes x PLAN_GROUPS_MAX headers of 64 bytes | arena_offset: depth slot arenas, slot_stride apart |
 *
 * Contribution number `sequence` of a worker (from 0, one per finish or abandon) lies in slot sequence % depth. A worker's initial values lie in a parameter arena at arena_offset.
 *
 * arena_offset is an odd multiple of a cache line, different from slot to slot: equal page offsets of the slots that are summed
 * together made a sum of four of them 3.4 times slower.
 *
 * The parameter region of a shard holds the arena twice, by parity of the step: parameters after k updates (of step k) lie
 * in parity k & 1. Each worker reads it, nobody but the lanes writes it. Behind the arenas lie the words, one block per lane.
 */
#ifndef PS_PROTOCOL_SLOT_H
#define PS_PROTOCOL_SLOT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "ps/protocol/plan.h"

enum slot_kind { SLOT_GRADIENT = 1, SLOT_INITIAL = 2 };

/* Written by the worker before the notify, on the same endpoint; copied by the lane before it is checked. Little-endian machines only. */
struct slot_header {
    uint64_t step;        /* the worker's local step; 0 of initial values */
    uint64_t sequence;    /* of this worker's contributions */
    uint64_t incarnation; /* of the worker's process */
    uint64_t bytes;       /* of the span, in the slot arena; of initial values: 0 */
    uint32_t rank;
    uint32_t model;
    uint16_t lane, group;
    uint32_t kind;     /* enum slot_kind */
    uint32_t slot;     /* sequence % depth */
    uint32_t attempt;  /* 0, or the number of the replay */
    uint32_t magic;    /* SLOT_MAGIC */
    uint32_t reserved; /* zero */
};
#define SLOT_MAGIC 0x53474853u
static_assert(sizeof(struct slot_header) == 64,
              "a header is one cache line and fits every device's inline size");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arenas travel as they lie in memory");

#define SLOT_MODELS_MAX 256u
#define SLOT_DEPTH_MAX 32u /* slots of one worker in one model: what a notify has bits for */

/*
 * Of one lane. A reader of step s copies parity s & 1, then looks: it has read step s and nothing else if writing[s & 1] is still s in the block of every lane whose bytes it
 * copied. The lane stores writing[] before its first byte of a step, applied[group] after the last byte of that group.
 */
struct slot_words {
    _Atomic uint64_t writing[2]; /* by parity: the step that lies there, or is being written there */
    _Atomic uint64_t applied[PLAN_GROUPS_MAX]; /* newest step that may be read */
    uint64_t reserved[6];
};
static_assert(sizeof(struct slot_words) == 128, "lanes do not share a cache line, nor a pair of them");

/*
 * slot_header_store, slot_header_load -- into mapped memory, and out of it. A lane that is late with the notify of an abandoned contribution may read its header while the
 * worker writes that of the next one into the same slot. Relaxed, word by word: the notify orders them where it counts. Else the lane may see words of both, which
 * differ in step and sequence alone, and the sequence tells whether the notify is of this contribution.
 */
static inline void slot_header_store(void *at, const struct slot_header *header)
{
    _Atomic uint64_t *to = at;
    uint64_t words[sizeof(*header) / sizeof(uint64_t)];

    memcpy(words, header, sizeof(words));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        atomic_store_explicit(&to[i], words[i], memory_order_relaxed);
}
static inline void slot_header_load(struct slot_header *header, const void *at)
{
    const _Atomic uint64_t *from = at;
    uint64_t words[sizeof(*header) / sizeof(uint64_t)];

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        words[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
    memcpy(header, words, sizeof(words));
}

/* slot_weight_fits -- of a contribution: 0 (it is empty), or far enough from the ends of f32 that every worker's together are in it. */
static inline bool slot_weight_fits(double weight)
{
    return weight == 0 || (weight >= 1e-30 && weight <= 1e30);
}

/* slot_skew -- where in its page arena number `index` of a shard begins: an odd multiple of a line, below one page. */
static inline uint64_t slot_skew(uint64_t index)
{
    return (uint64_t)PLAN_LINE * (2u * ((index * 5u) % 32u) + 1u);
}

/* slot_header_offset -- byte offset of the header of (slot, lane, group) behind the first header. */
static inline uint64_t slot_header_offset(uint32_t lanes, uint32_t slot, uint32_t lane, uint32_t group)
{
    return (((uint64_t)slot * lanes + lane) * PLAN_GROUPS_MAX + group) * sizeof(struct slot_header);
}

/* slot_stride -- distance of two slot arenas of one worker: an odd number of lines, so that they lie differently in their pages. */
static inline uint64_t slot_stride(uint64_t slot_bytes)
{
    return slot_bytes + ((slot_bytes / PLAN_LINE) % 2 == 0 ? PLAN_LINE : 2u * PLAN_LINE);
}

/*
 * The 32 bits of a notify. Worker to lane, on a push endpoint: "this span of contribution `number` is in its slot" (0 of initial values).
 * Lane to worker: "this span of the parameters of step `number` may be read, and slots of contributions to the steps before it may be rewritten here" (slot 0).
 *   bits 0..2 group   3..7 slot   8..15 model   16..31 low bits of the number
 */
static inline uint32_t slot_notify(uint32_t model, uint32_t slot, uint32_t group, uint64_t number)
{
    return (group & 7u) | (slot & 31u) << 3 | (model & 0xffu) << 8 | (uint32_t)(number & 0xffffu) << 16;
}
static inline uint32_t slot_notify_group(uint32_t value)
{
    return value & 7u;
}
static inline uint32_t slot_notify_slot(uint32_t value)
{
    return value >> 3 & 31u;
}
static inline uint32_t slot_notify_model(uint32_t value)
{
    return value >> 8 & 0xffu;
}
static inline uint32_t slot_notify_number(uint32_t value)
{
    return value >> 16;
}

#endif
