/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan -- where each byte of a model lives. A pure function of model, shards, lanes and two sizes: every process computes the same.
 *
 * A variable is one piece on one shard, or, when it is larger than cut_bytes, several pieces on consecutive shards, cut between
 * rows and at multiples of PLAN_BLOCK elements. A shard's pieces lie in declaration order in its arena, each at a multiple of
 * PLAN_LINE bytes; the gaps are zero and stay zero.
 *
 *   arena of a shard   | piece | piece |..........piece..........| piece |
 *   groups             |<------ group 0 ------>|<------ group 1 ------>|      1..PLAN_GROUPS_MAX, about group_bytes each
 *   spans              |  lane 0  |  lane 1    |  lane 0  |  lane 1    |      one per (group, lane), maybe empty
 *
 * A span is the unit of arrival (one header and one notify per step and worker) and of readiness (one notify per step).
 */
#ifndef PS_PROTOCOL_PLAN_H
#define PS_PROTOCOL_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "ps/protocol/model.h"

#define PLAN_LINE 64u      /* bytes */
#define PLAN_BLOCK 4096u   /* elements: norms are added over blocks of this size, cuts fall between them */
#define PLAN_GROUPS_MAX 8u /* per shard */
#define PLAN_LANES_MAX 64u

struct plan_piece {
    uint32_t variable;
    uint32_t shard;
    uint64_t first;  /* byte within the variable */
    uint64_t bytes;  /* length */
    uint64_t offset; /* byte within the shard's arena */
};

struct plan_span {
    uint64_t begin, end; /* bytes within the arena, multiples of PLAN_LINE; begin == end: empty */
};

struct plan_shard {
    uint64_t arena_bytes; /* multiple of PLAN_LINE, at least PLAN_LINE */
    uint32_t groups;
    size_t first_piece, pieces;                              /* range in plan->by_shard */
    struct plan_span spans[PLAN_GROUPS_MAX][PLAN_LANES_MAX]; /* [group][lane] */
};

struct plan {
    uint32_t shards, lanes;
    size_t pieces;
    struct plan_piece *by_variable; /* ordered by (variable, first) */
    size_t *
        variable_first; /* index of variable v's first piece in by_variable; variable_first[count] = pieces */
    struct plan_piece *by_shard; /* ordered by (shard, offset) */
    struct plan_shard *shard;
};

struct plan_options {
    uint32_t shards, lanes;
    uint64_t group_bytes; /* 0: 1 MiB */
    uint64_t cut_bytes;   /* 0: 256 MiB */
};

/* plan_new -- Errors: EINVAL (no variable, lanes or shards out of range), ENOMEM. */
int plan_new(const struct model *model, const struct plan_options *options, struct plan **out);
void plan_delete(struct plan **plan);

#endif
