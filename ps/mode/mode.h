/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mode -- decides, without I/O and without bytes, what becomes of each contribution, when a step is taken, and who gets which token. One per
 * model, on the leader, in one thread. Events go in; decisions come out in the order in which they must be carried out.
 *
 * Everybody starts at settings.step; no token for that comes from here. A contribution comes in when it is complete on every shard, once, in
 * rising sequence per rank; an abandoned one (weight 0) when it is sealed on every shard. Every contribution is answered by exactly one token,
 * except in strict mode with R > T, where the token answers the last one of the quota.
 */
#ifndef PS_MODE_MODE_H
#define PS_MODE_MODE_H

#include <stdbool.h>
#include <stdint.h>

/* Strict: what to do when fewer workers are left than a step takes contributions of. */
enum mode_lost {
    MODE_LOST_FAIL = 0,
    MODE_LOST_WAIT = 1,  /* for one that may come back */
    MODE_LOST_SHRINK = 2 /* R becomes what those that are left can give */
};

struct mode_settings {
    int update;                 /* enum model_update */
    int non_finite;             /* enum model_non_finite */
    int lost;                   /* enum mode_lost; strict */
    uint32_t workers, replicas; /* T, R */
    uint32_t tokens_per_step;   /* tf */
    uint64_t initial_tokens;    /* tf */
    uint32_t bound;             /* bounded */
    uint64_t step;              /* gs at the start */
    /* Recorded sets (strict, R < T): the ranks that step took, rising; false: not recorded, decide freely. NULL: none. The array lives until the next call. */
    bool (*replay)(void *context, uint64_t step, const uint32_t **ranks, uint32_t *count);
    void *replay_context;
};

struct mode_contribution {
    uint32_t rank;
    uint64_t sequence; /* of this worker's contributions, from 0 */
    uint64_t step;     /* its local step */
    double weight;     /* 0: abandoned */
    bool finite;
};

enum mode_decision_kind {
    MODE_ACCUMULATE = 1, /* tf: add (rank, sequence) to the accumulators; its slot is free after that */
    MODE_RELEASE = 2,    /* tf, async, bounded: (rank, sequence) counts for nothing; its slot is free */
    MODE_COMMIT = 3,     /* `step` is decided; gs is step + 1 from here on */
    MODE_TOKEN = 4,      /* to `rank` */
    MODE_FAIL = 5        /* the job must end: enum mode_failure */
};
enum mode_failure {
    MODE_FAIL_NON_FINITE = 1, /* policy fail: of rank, in step */
    /* rank (the lowest that is gone and will not come back) left, and the others cannot complete the step without it */
    MODE_FAIL_GONE = 2,
    /* tf: everybody who is there waits for a token, and none can come; rank: the lowest that is gone, UINT32_MAX: nobody is */
    MODE_FAIL_STUCK = 3
};

struct mode_member {
    uint32_t rank;
    uint64_t sequence;
    double weight;
};

struct mode_decision {
    int kind;
    uint32_t rank;
    uint64_t sequence;
    uint64_t step; /* COMMIT: the step that is taken; TOKEN: the local step it gives */
    /* COMMIT: strict, async, bounded: the contributors by (rank, sequence); tf: NULL, the accumulators hold `count`. count 0: nothing is applied, the step moves on (carry).
     * Valid until the next call of a mode function. */
    const struct mode_member *set;
    uint32_t count;
    /* TOKEN */
    int verdict; /* enum stepgate_verdict, of contribution `sequence` */
    /* the step that it was for (stale, empty, non-finite), or that it became part of (applied, skipped) */
    uint64_t verdict_step;
    uint64_t staleness; /* async, bounded: gs at apply - local step */
    int failure;        /* FAIL */
};

struct mode_counts {
    uint64_t accepted, stale, non_finite, empty;
};

struct mode;

/* mode_new -- Errors: EINVAL (settings that model_check_workers would refuse), ENOMEM. */
int mode_new(const struct mode_settings *settings, struct mode **out);
void mode_delete(struct mode **mode);
/* mode_contribute -- of a rank that is gone it is ignored. Errors (nothing changed): EPROTOCOL (a sequence that is not the next of its rank, a rank, step or weight that cannot be), ENOMEM. */
int mode_contribute(struct mode *mode, const struct mode_contribution *contribution);
/* mode_applied -- the step that was committed last is applied on every shard: the next one may be committed. Errors: EPROTOCOL (another step), ENOMEM. */
int mode_applied(struct mode *mode, uint64_t step);
/*
 * mode_gone -- a worker left or was lost: what it has not completed never counts. `returns`: it may come back, and is waited for where the settings say so. May be repeated; without
 * `returns` it is not waited for any longer. Errors: EPROTOCOL (no such rank), ENOMEM.
 */
int mode_gone(struct mode *mode, uint32_t rank, bool returns);
/* mode_holds -- does a step that is not decided yet have something of this rank? Strict. */
bool mode_holds(const struct mode *mode, uint32_t rank);
/*
 * mode_back -- a rank that was gone is there again, and nothing of it is held: it may contribute to the step that is awaited, from contribution `sequence` on, which
 * is not below the next one. Strict. Errors: EPROTOCOL.
 */
int mode_back(struct mode *mode, uint32_t rank, uint64_t sequence);
/* mode_needed -- contributions that the step which is awaited takes: R, or less where it has shrunk. */
uint32_t mode_needed(const struct mode *mode);
/* mode_there -- ranks that are not gone. */
uint32_t mode_there(const struct mode *mode);
/*
 * mode_rest -- a worker waits in a barrier: bounded: until it hands in again it holds nobody back, for it would wait there for those it holds.
 * Errors: EPROTOCOL (no such rank), ENOMEM.
 */
int mode_rest(struct mode *mode, uint32_t rank);
/* mode_meet -- everybody was in the barrier: bounded: from here on nobody is ahead. Errors: ENOMEM. */
int mode_meet(struct mode *mode);
/* mode_decide -- 1 and the next decision, or 0. Nothing comes after MODE_FAIL. */
int mode_decide(struct mode *mode, struct mode_decision *out);
uint64_t mode_step(const struct mode *mode); /* gs */
void mode_counts(const struct mode *mode, uint32_t rank, struct mode_counts *out);
/* mode_recount -- a job goes on: what had become of a rank's contributions before. */
void mode_recount(struct mode *mode, uint32_t rank, const struct mode_counts *counts);
/* mode_wasted -- tf, async, bounded: what a rank has handed in for nothing, ever, or since the last step was taken. */
void mode_wasted(const struct mode *mode, uint32_t rank, bool ever, struct mode_counts *out);
/* mode_wasted_count -- of all ranks since the last step was taken. */
uint64_t mode_wasted_count(const struct mode *mode);
/* mode_missing -- does the step that is awaited lack a contribution of this rank (that is there)? For reports of who is waited for. */
bool mode_missing(const struct mode *mode, uint32_t rank);

#endif
