/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the modes share. */
#ifndef PS_MODE_INSIDE_H
#define PS_MODE_INSIDE_H

#include <stddef.h>

#include "ps/mode/accumulator_gate.h"
#include "ps/mode/mode.h"

#define MODE_NOBODY UINT32_MAX

/* The last contribution of a rank, and what its token will say. */
struct mode_answer {
    uint64_t sequence, step;
    double weight;
    bool finite;
    int verdict;
    uint64_t verdict_step, token_step, staleness;
};

struct mode_rank {
    bool gone;
    bool returns;  /* it is gone, and may come back */
    bool waiting;  /* tf, async, bounded: its last contribution is not answered yet */
    uint64_t next; /* sequence of its next contribution; so many it has handed in */
    bool resting;  /* bounded: in a barrier: it holds nobody back */
    uint64_t base; /* bounded: what `next` was when everybody last met in a barrier */
    struct mode_counts counts;
    /* tf, async, bounded: for nothing, ever, and while wasted_step was awaited */
    struct mode_counts wasted_ever, wasted;
    uint64_t wasted_step;
    struct mode_answer answer; /* tf, async, bounded */
};

/* Ranks in the order in which they came; each at most once. */
struct mode_line {
    uint32_t *ranks;
    uint32_t length;
};

/* A mode as its file implements it. */
struct mode_kind {
    int update; /* enum model_update */
    int (*start)(struct mode *mode);
    /* Changes nothing that shows; what it lets pass, contribute cannot refuse. */
    int (*check)(struct mode *mode, const struct mode_contribution *contribution);
    void (*contribute)(struct mode *mode, const struct mode_contribution *contribution);
    int (*applied)(struct mode *mode);
    void (*gone)(struct mode *mode, uint32_t rank);
    /* NULL: nobody comes back. */
    bool (*holds)(const struct mode *mode, uint32_t rank);
    /* NULL: R. */
    uint32_t (*needed)(const struct mode *mode);
    /* Who is how far ahead has changed without a contribution; NULL: nobody asks. */
    void (*clocks)(struct mode *mode);
    bool (*missing)(const struct mode *mode, uint32_t rank);
    void (*clear)(struct mode *mode);
};
extern const struct mode_kind mode_kind_strict, mode_kind_tf, mode_kind_async, mode_kind_bounded;

struct strict;
struct tf;
struct async;

struct mode {
    struct mode_settings settings;
    const struct mode_kind *kind;
    uint64_t step;                /* gs */
    bool applying;                /* step - 1 is committed and not applied yet */
    bool failed;                  /* nothing comes after a failure */
    uint64_t wasted, wasted_step; /* so many counted for nothing while that step was awaited */
    struct mode_rank *ranks;
    struct mode_member *set; /* of the commit that was decided last */
    /* decisions that nobody has fetched yet: a ring */
    struct mode_decision *decisions;
    size_t first, count, room;
    /* of the mode itself; the others are NULL */
    struct strict *strict;
    struct tf *tf;
    struct async *async;
};

/* mode_say -- queues a decision; every event has room for one per rank and some more. */
void mode_say(struct mode *mode, const struct mode_decision *decision);
/* mode_token -- the token of a rank, unless it is gone. */
void mode_token(struct mode *mode, uint32_t rank, const struct mode_answer *answer);
/* mode_release -- the slot of a contribution that counts for nothing is free. */
void mode_release(struct mode *mode, uint32_t rank, uint64_t sequence);
/* mode_commit -- the current step is decided, with the first `count` of mode->set, or (own false) with what is accumulated. */
void mode_commit(struct mode *mode, bool own, uint32_t count);
/* mode_fail -- the job must end. */
void mode_fail(struct mode *mode, int failure, uint32_t rank, uint64_t step);
/* mode_lowest_gone -- MODE_NOBODY if all are there. */
uint32_t mode_lowest_gone(const struct mode *mode);
/* mode_refuse -- what a contribution is that counts for nothing whatever its step (enum stepgate_verdict), or 0; counts it. */
int mode_refuse(struct mode *mode, const struct mode_contribution *contribution);
/* mode_waste -- notes a contribution that counts for nothing (enum stepgate_verdict: stale, empty, non-finite). */
void mode_waste(struct mode *mode, uint32_t rank, int verdict);
/* mode_check_ahead -- a step nobody can have been let into. Errors: EPROTOCOL. */
int mode_check_ahead(const struct mode *mode, const struct mode_contribution *contribution);
/* mode_check_waiting -- a rank that waits for its token hands in nothing. Errors: EPROTOCOL. */
int mode_check_waiting(const struct mode *mode, const struct mode_contribution *contribution);

int mode_line_start(struct mode_line *line, uint32_t workers);
void mode_line_join(struct mode_line *line, uint32_t rank);
void mode_line_leave(struct mode_line *line, uint32_t rank);

#endif
