/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slot -- the layout of the region that one worker writes into on one shard, for one model: the gradient arena and one header per span.
 * And the 32 bits of a notify.
 *
 *   | arena_offset: arena_bytes of gradients | header_offset: lanes x PLAN_GROUPS_MAX headers of 64 bytes |
 *
 * arena_offset is an odd multiple of a cache line, different from slot to slot: equal page offsets of the slots that are summed
 * together made a sum of four of them 3.4 times slower.
 *
 * The parameter region of a shard holds the arena twice, by parity of the step: parameters after k updates (of step k) lie
 * in parity k & 1. Each worker reads it, nobody but the lanes writes it.
 */
#ifndef PS_PROTOCOL_SLOT_H
#define PS_PROTOCOL_SLOT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "ps/protocol/plan.h"

enum slot_kind { SLOT_GRADIENT = 1, SLOT_INITIAL = 2 };

/* Written by the worker before the notify, on the same endpoint; copied by the lane before it is checked. Little-endian machines only. */
struct slot_header {
    uint64_t step;        /* the step this contribution is for */
    uint64_t incarnation; /* of the worker's process */
    uint64_t bytes;       /* of the span */
    uint32_t rank;
    uint32_t attempt; /* 0, or the number of the replay */
    uint32_t model;
    uint16_t lane, group;
    uint32_t kind;        /* enum slot_kind */
    uint32_t magic;       /* SLOT_MAGIC */
    uint8_t reserved[16]; /* zero */
};
#define SLOT_MAGIC 0x53474853u
static_assert(sizeof(struct slot_header) == 64,
              "a header is one cache line and fits every device's inline size");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arenas travel as they lie in memory");

#define SLOT_MODELS_MAX 256u

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

/* slot_header_offset -- byte offset of the header of (lane, group) behind the first header. */
static inline uint64_t slot_header_offset(uint32_t lane, uint32_t group)
{
    return ((uint64_t)lane * PLAN_GROUPS_MAX + group) * sizeof(struct slot_header);
}

/*
 * The 32 bits of a notify, both ways on a push endpoint: worker to lane "this span of `step` has arrived", lane to worker "this span of the
 * parameters of `step` may be read, and your slot's span may be rewritten".
 *   bits 0..7 group   8..15 model   16..31 low bits of the step
 */
static inline uint32_t slot_notify(uint32_t model, uint32_t group, uint64_t step)
{
    return (group & 0xffu) | (model & 0xffu) << 8 | (uint32_t)(step & 0xffffu) << 16;
}
static inline uint32_t slot_notify_group(uint32_t value)
{
    return value & 0xffu;
}
static inline uint32_t slot_notify_model(uint32_t value)
{
    return value >> 8 & 0xffu;
}
static inline uint32_t slot_notify_step(uint32_t value)
{
    return value >> 16;
}

#endif
