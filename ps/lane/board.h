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

#include "ps/protocol/plan.h"
#include "ps/protocol/slot.h"

enum board_order_kind { BOARD_INITIAL = 1, BOARD_APPLY = 2, BOARD_CARRY = 3 }; /* carry: nobody contributed */

/* What the lanes are to do for a step. Written by the shard while no order is under way. */
struct board_order {
    int kind;
    uint64_t step;
    float rate, momentum, divisor;
    uint32_t count;  /* contributors */
    uint32_t *ranks; /* [count], rising */
    float *weights;  /* [count] */
    bool weighted;
};

struct board_slot {
    uint8_t *arena;         /* the worker's gradients */
    const uint8_t *headers; /* behind them */
    uint64_t incarnation;
};

struct board {
    uint32_t model, workers, lanes, active_lanes; /* active: lanes with a span that is not empty */
    const struct plan_shard *plan;
    int optimizer;            /* enum model_optimizer */
    uint8_t *parameters[2];   /* by parity of the step */
    uint8_t *state;           /* optimizer arena, NULL for sgd */
    struct board_slot *slots; /* [workers] */
    struct board_order order;
    /* order_number: raised by the shard, release; loaded by lanes, acquire: the order's fields are visible. */
    _Atomic uint64_t order_number;
    /* applied[lane]: number of the last order the lane has done; stored by the lane, release (its parameter bytes come before);
     * loaded by the shard, acquire. */
    _Atomic uint64_t *applied;
    /* arrived[lane * workers + rank]: step + 1 for which every span of this lane has arrived from that rank (the initial values: 1 in
     * `arrived_initial`); stored by the lane, release; loaded by the shard, acquire: the gradient bytes are visible to whoever the
     * shard tells. */
    _Atomic uint64_t *arrived;
    _Atomic uint32_t
        arrived_initial; /* lanes that have all of rank 0's initial values; fetch_add release / load acquire */
    _Atomic uint64_t
        arrivals; /* counts arrivals, so that the shard scans only when something came; same pairing */
};

#endif
