/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board -- what the shard's thread and its lanes' threads share about one model. Everything that is not atomic is written by the
 * shard before the lanes are told of the board (mailbox), or, the order, before order_number is raised.
 */
#ifndef PS_LANE_BOARD_H
#define PS_LANE_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ps/optimizer/exact.h"
#include "ps/optimizer/rule.h"
#include "ps/protocol/model.h"
#include "ps/protocol/plan.h"
#include "ps/protocol/slot.h"

enum board_order_kind {
    BOARD_INITIAL =
        1, /* worker 0's initial values become step 0, or a checkpoint was read and its step begins */
    BOARD_APPLY = 2,      /* the mean of the set, or of what was accumulated, makes the next step */
    BOARD_CARRY = 3,      /* nobody contributes: the values go over to the next step as they are */
    BOARD_ACCUMULATE = 4, /* the one contribution of the set is added to the accumulators */
    BOARD_MEASURE = 5,    /* the squares of the mean of the set, or of what was accumulated, are summed */
    BOARD_SNAPSHOT = 6,   /* something of this step is copied for a reader */
    BOARD_CHECKPOINT = 7  /* everything of this step is copied, to be written */
};

enum board_what {
    BOARD_PARAMETERS = 1,
    BOARD_AVERAGES = 2,
    BOARD_SLOT = 3 /* and up: slot what - BOARD_SLOT */
};

struct board_contribution {
    uint32_t rank, slot;
    double weight;
    const uint8_t *absent; /* tf: a bit for each variable that it has no gradient of; NULL: it has all */
    double factor; /* weight, scaled down where the norm of this contribution is clipped; for gradients */
};

/* All that there is of a model at one step, each in an arena laid out like its source; NULL: there is none. */
struct board_copy {
    uint8_t *parameters;
    uint8_t *state[OPTIMIZER_SLOTS_MAX], *master, *average, *aux;
    uint8_t *aux_there; /* as in the board */
};

/* What the lanes are to do. Written by the shard while no order is under way. */
struct board_order {
    int kind;
    uint64_t step;
    struct optimizer_hyper hyper;
    bool factored;                  /* some factor is not 1 */
    bool accumulated;               /* from the accumulators: set is empty */
    double divisor;                 /* of trained variables */
    uint32_t count;                 /* of the set */
    struct board_contribution *set; /* [workers * depth], by (rank, sequence) */
    int what;                       /* snapshot: enum board_what */
    uint8_t *target;                /* snapshot: an arena laid out like its source */
    bool restored; /* initial: everything was read from a checkpoint, and lies where it belongs */
    const struct board_copy *copy; /* checkpoint: where it goes */
};

struct board_slots {
    uint8_t *arena; /* of slot 0; the others lie slot_stride apart; worker 0's initial values likewise */
    const uint8_t *headers; /* of slot 0 */
    uint64_t incarnation;
};

struct board {
    uint32_t model, workers, lanes, depth;
    uint32_t active_lanes; /* lanes with a span that is not empty */
    const struct model *declared;
    const struct plan *plan;
    const struct plan_shard *shard; /* this shard's part of the plan */
    const struct optimizer_rule *rule;
    enum optimizer_kind kind;            /* of instructions, of the kernels */
    bool stream;                         /* parameters are too many for a cache: written past it */
    uint64_t stride;                     /* of slot arenas */
    uint8_t *parameters[2];              /* by parity of the step */
    struct slot_words *words;            /* [lanes], behind the parameters */
    uint8_t *state[OPTIMIZER_SLOTS_MAX]; /* NULL: the rule has no such slot */
    uint8_t *master;                     /* f32 copies of 16-bit variables; NULL: there are none */
    uint8_t *average;                    /* NULL: none */
    uint8_t *sums;                       /* tf: what is accumulated; NULL in other modes */
    uint8_t
        *ahead;   /* sums of contributions of a step of which others are on their way; NULL: none are made */
    uint8_t *aux; /* one aux arena per worker; NULL: none */
    uint8_t *
        aux_there; /* [workers][variables]: 1: that worker's value of an aux variable is in its arena; NULL: there are none */
    struct board_slots *slots; /* [workers] */
    struct board_order order;
    /* order_number: raised by the shard, release; loaded by lanes, acquire: the order's fields are visible. */
    _Atomic uint64_t order_number;
    /* applied[lane]: number of the last order the lane has done; stored by the lane, release (its parameter bytes, measures and copies come before);
     * loaded by the shard, acquire. */
    _Atomic uint64_t *applied;
    /* arrived[board_arrived()]: sequence + 1 of the contribution of which every span of this lane has arrived in this slot; stored by the lane, release; loaded by the
     * shard, acquire: the gradient bytes are visible to whoever the shard tells. */
    _Atomic uint64_t *arrived;
    _Atomic uint32_t
        arrived_initial; /* lanes that have all of rank 0's initial values; fetch_add release / load acquire */
    _Atomic uint64_t
        arrivals; /* counts arrivals, so that the shard scans only when something came; same pairing */
    struct exact_sum *measures; /* [lanes]: written by the lane in a BOARD_MEASURE, ordered by `applied` */
};

/* board_arrived -- the place of (lane, rank, slot) in `arrived`. */
static inline size_t board_arrived(const struct board *board, uint32_t lane, uint32_t rank, uint32_t slot)
{
    return ((size_t)lane * board->workers + rank) * board->depth + slot;
}

/* board_aux -- the place of (rank, variable) in `aux_there`. */
static inline size_t board_aux(const struct board *board, uint32_t rank, uint32_t variable)
{
    return (size_t)rank * board->declared->count + variable;
}

#endif
