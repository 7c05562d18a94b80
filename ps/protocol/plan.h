/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan -- where each byte of a model lives. A pure function of model, shards, lanes and two sizes: every process computes the same.
 *
 * A variable is one piece on one shard, or, when it is larger than cut_bytes, several pieces on consecutive shards, cut between
 * rows and at multiples of PLAN_BLOCK elements. A shard lays its pieces out in declaration order, each at a multiple of PLAN_LINE bytes, in
 *
 *   the parameter arena  values as they are published, in the variable's dtype (nothing of aux variables)
 *   the slot arena       what one worker pushes: gradients in their own dtype; nothing of frozen variables
 *                          trained         elements
 *                          assigned, aux   a line with a count (u64: 1 there, 0 absent), elements
 *                          sparse          a line with a count (u64: rows), indices (u64, of the variable) x rows_max, rows x rows_max
 *   the state arenas     one per optimizer slot, for master copies, averages and what is accumulated: elements in the type they are computed in
 *                        (trained and sparse; in tf mode assigned, too; nothing of frozen variables)
 *   the aux arena        one per worker: the aux variables' elements
 *
 *   slot arena of a shard   | piece | piece |..........piece..........| piece |
 *   groups                  |<------ group 0 ------>|<------ group 1 ------>|      1..PLAN_GROUPS_MAX, about group_bytes each
 *   spans                   |  lane 0  |  lane 1    |  lane 0  |  lane 1    |      one per (group, lane), maybe empty
 *   fragments               |  |  |    |  |         |          |            |      the part of one piece that lies in one span
 *
 * A span is the unit of arrival (one header and one notify per contribution) and of readiness (one notify per step). Only pieces of trained variables
 * are cut by spans, at multiples of PLAN_BLOCK elements of the variable, so that what is added per block does not depend on the plan.
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
    uint64_t first_element, elements; /* of the variable */
    uint64_t first, bytes;            /* the same in bytes of its dtype */
    uint64_t offset;                  /* byte within the parameter arena; 0 for aux */
    uint64_t slot_offset, slot_bytes; /* within the slot arena; slot_bytes 0: nothing is pushed */
    uint64_t state_offset;            /* byte within each state arena; for aux within the aux arena */
    uint64_t rows_max;                /* sparse: rows of one push that may lie in this piece */
};

struct plan_fragment {
    size_t piece; /* index into by_shard */
    uint32_t variable;
    uint16_t group, lane;
    uint64_t first_element, elements; /* of the variable */
    uint64_t offset, slot_offset,
        state_offset; /* of its first element; of a piece that is not trained: of the piece */
};

struct plan_span {
    size_t first_fragment, fragments; /* range in plan->fragments; fragments 0: empty */
    uint64_t slot_bytes;              /* of the slot arena, of its fragments */
};

struct plan_shard {
    uint64_t arena_bytes; /* of the parameter arena: multiple of PLAN_LINE, at least PLAN_LINE */
    uint64_t slot_bytes;  /* of the slot arena: the same */
    uint64_t state_bytes; /* of one state arena; 0: nothing in it */
    uint64_t aux_bytes;   /* of one worker's aux arena */
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
    struct plan_piece *by_shard; /* ordered by (shard, declaration) */
    size_t fragment_count;
    struct plan_fragment *fragments; /* ordered by (shard, group, lane, declaration) */
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
/* plan_sparse_rows -- byte offset of the first row within the slot of a sparse piece; its indices begin at PLAN_LINE. */
uint64_t plan_sparse_rows(uint64_t rows_max);
/* plan_values -- byte offset of the elements within the slot of a piece that is not sparse: 0 or PLAN_LINE. */
uint64_t plan_values(int kind);
/* plan_state_element -- bytes of an element in the type it is computed in: 8 for f64, 4 for all others. */
uint64_t plan_state_element(int dtype);

#endif
