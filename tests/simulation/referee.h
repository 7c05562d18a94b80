/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * referee -- what must become of every contribution, in each mode: plain rules, in the order in which things came to the leader. It is told what comes and
 * what was decided, and says what is wrong with that. tf mode is left to tests/reference/tf_model.
 */
#ifndef TESTS_SIMULATION_REFEREE_H
#define TESTS_SIMULATION_REFEREE_H

#include "ps/mode/mode.h"
#include "tests/reference/tf_model.h"
#include "tests/simulation/reference.h"

#define REFEREE_ROUNDS_MAX 4   /* contributions of one worker to one step */
#define REFEREE_CHANGES_MAX 64 /* decisions about slots that wait to be seen */

enum referee_state { REFEREE_IN = 1, REFEREE_LATE, REFEREE_EMPTY, REFEREE_DROPPED };

/* A contribution to the step that is awaited (strict). */
struct referee_entry {
    uint64_t sequence;
    int state; /* enum referee_state */
    bool finite;
};

/* What a worker must be told. */
struct referee_token {
    bool due;
    uint64_t sequence, step, verdict_step, staleness;
    int verdict;
};

struct referee_worker {
    bool gone;
    uint64_t next; /* contributions that came */
    bool rests;    /* bounded: it is in a barrier, where nobody waits for it */
    uint64_t base; /* bounded: `next` when everybody met there last */
    struct mode_counts counts;
    struct referee_token token;
    /* strict */
    uint32_t handed; /* to this step */
    struct referee_entry entries[REFEREE_ROUNDS_MAX];
    /* async, bounded, tf: handed in, and not answered yet */
    bool waits;
    struct referee_token answer;
    uint64_t round; /* tf: its contributions in the accumulators */
};

struct referee {
    const struct shape *shape;
    struct reference *reference;
    uint64_t step; /* gs, with all that was decided */
    uint64_t told; /* the same, of commits that were seen */
    bool applying; /* step - 1 is decided, and not applied everywhere */
    bool full;     /* strict: the set is complete */
    struct referee_worker worker[SHAPE_WORKERS_MAX];
    uint32_t line[SHAPE_WORKERS_MAX], line_length; /* async: whose contribution waits to be a step */
    /* what must come next of each kind */
    bool commit_due;
    struct reference_member set[SHAPE_WORKERS_MAX * REFEREE_ROUNDS_MAX];
    uint32_t set_count;
    struct {
        int kind;
        uint32_t rank;
        uint64_t sequence;
    } changes[REFEREE_CHANGES_MAX]; /* of slots, in order */
    uint32_t change_first, change_count;
    uint64_t changes_all, commit_after; /* of them so far; of those the ones that come before the commit */
    int failure;                        /* enum mode_failure; 0: none */
    uint32_t failure_rank;
    uint64_t failure_step;
    bool failure_seen;
    struct tf_model tf;
    bool spoiled; /* tf: this round holds something that is not finite */
    /* what there was */
    uint64_t held, larger, stale, dropped, skipped, empty, applied, carried, accumulated;
    char wrong[256]; /* "": nothing */
};

void referee_start(struct referee *referee, const struct shape *shape, struct reference *reference);
/* What comes to the leader. */
void referee_contribute(struct referee *referee, const struct mode_contribution *c);
void referee_applied(struct referee *referee, uint64_t step);
void referee_gone(struct referee *referee, uint32_t rank);
void referee_rest(struct referee *referee, uint32_t rank);
void referee_meet(struct referee *referee);
/* referee_decision -- what the leader has decided. */
void referee_decision(struct referee *referee, const struct mode_decision *d);
/* referee_over -- nothing that had to be decided is missing. */
void referee_over(struct referee *referee);
/* referee_wrong -- the first thing that is wrong. */
void referee_wrong(struct referee *referee, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
