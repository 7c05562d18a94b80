/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model -- what one lane keeps of one model: which spans have arrived of each worker's contributions, how far the order of the shard is done, and which
 * groups every worker is still to be told of. It knows the board and no connection.
 */
#ifndef PS_LANE_MODEL_H
#define PS_LANE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/lane/apply.h"
#include "ps/lane/arrival.h"
#include "ps/lane/board.h"
#include "ps/protocol/model.h"

/* Bits are groups. */
struct lane_model {
    struct board *board;
    struct apply *apply;
    uint32_t lane;
    uint8_t all;   /* groups whose span of this lane is not empty */
    uint8_t told;  /* groups that were announced at least once */
    bool initial;  /* the initial values are awaited */
    uint64_t done; /* number of the last order done */
    bool applying;
    uint32_t next_group;
    uint64_t ready[PLAN_GROUPS_MAX]; /* step that may be read */
    struct arrival *arrivals;        /* [workers * depth] */
    uint8_t *announce;               /* [workers] bits: ready[group] is to be announced */
    bool *out;           /* [workers] lost, or back and not told of its slots: nothing is announced to it */
    uint64_t announcing; /* bits set in announce, over all workers */
};

enum lane_model_round {
    LANE_MODEL_IDLE,
    LANE_MODEL_SPAN,   /* a span is applied, or there was none left for one */
    LANE_MODEL_CLOSED, /* the order is done: the shard sees it on the board */
    LANE_MODEL_FAILED /* a span could not be applied, and nobody is told of it; the reason is this thread's last error */
};

/* lane_model_new -- waits for the initial values. The board stays the shard's. */
int lane_model_new(struct board *board, uint32_t lane, struct lane_model **out);
void lane_model_delete(struct lane_model **model);

/* lane_model_fits -- is the notify's span there, and is the worker? */
bool lane_model_fits(const struct lane_model *model, uint32_t rank, uint32_t value);
/* lane_model_header -- does a header, already copied, belong to the span and the slot that its notify names? */
bool lane_model_header(const struct lane_model *model, const struct slot_header *header, uint32_t rank,
                       uint32_t slot, uint32_t group);
/* lane_model_arrive -- a span of contribution `sequence`, in its slot; one that is whole now is counted on the board, for the shard. */
enum arrival_verdict lane_model_arrive(struct lane_model *model, uint32_t rank, uint32_t slot, uint32_t group,
                                       uint64_t sequence);

/* lane_model_round -- the next group of the shard's order, or its end. */
enum lane_model_round lane_model_round(struct lane_model *model);

/* lane_model_announce_again -- it may have missed what was announced. What it knows already it ignores. */
void lane_model_announce_again(struct lane_model *model, uint32_t rank);
/* lane_model_announced -- a group is told to a worker. */
void lane_model_announced(struct lane_model *model, uint32_t rank, uint32_t group);

/* lane_model_forget -- a worker is lost: what has arrived of it is not looked at again. */
void lane_model_forget(struct lane_model *model, uint32_t rank);
/* lane_model_back -- a worker that came back under its rank knows of the model. */
void lane_model_back(struct lane_model *model, uint32_t rank);

#endif
