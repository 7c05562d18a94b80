/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * archive -- where checkpoints go and come from: what a shard asks of whoever keeps them. The shard knows no files; a server has them, tests have memory.
 * One checkpoint is of one model at one step. Every shard hands in its pieces; when all are kept, the leader closes the checkpoint with what it knows.
 */
#ifndef PS_SHARD_ARCHIVE_H
#define PS_SHARD_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ps/optimizer/hyper.h"
#include "ps/protocol/message.h"

enum archive_kind {
    ARCHIVE_PARAMETERS = 1, /* in the variable's dtype, as workers read them */
    ARCHIVE_AVERAGES = 2,   /* these and the next two: in the type that the variable is computed in */
    ARCHIVE_MASTERS = 3,
    ARCHIVE_SLOT = 4,
    ARCHIVE_AUX = 5 /* of one worker, in the variable's dtype */
};

/* Elements of a variable, side by side. */
struct archive_piece {
    int kind;         /* enum archive_kind */
    const char *slot; /* ARCHIVE_SLOT: its name */
    uint32_t rank;    /* ARCHIVE_AUX: whose */
    uint32_t variable;
    uint64_t first_element, elements;
    int dtype;
    void *data;
    bool there; /* ARCHIVE_AUX: there is such a value; load says so of the others, too */
};

/* What one shard has of a checkpoint. */
struct archive_part {
    const struct model *model;
    uint64_t step;
    uint32_t shard, shards;
    struct archive_piece *pieces; /* [count] */
    size_t count;
};

#define ARCHIVE_DIGEST_BYTES 32
/* What a shard's part has become. */
struct archive_receipt {
    uint64_t bytes;
    uint8_t digest[ARCHIVE_DIGEST_BYTES];
};

/* A hyper-parameter that was changed: from that step on. */
struct archive_change {
    uint64_t step;
    char key[MESSAGE_TEXT_BYTES], value[MESSAGE_TEXT_BYTES];
};

/* What became of a worker's contributions. */
struct archive_counts {
    uint64_t accepted, stale, non_finite, empty;
};

/* Who contributed to a step. */
struct archive_set {
    uint64_t step;
    uint32_t count, *ranks; /* malloc'ed */
};
#define ARCHIVE_SETS_MAX 256 /* steps whose sets a checkpoint has */

/* What the leader adds, and what it begins again with. archive_state_clear frees what it has. */
struct archive_state {
    uint64_t step;
    uint32_t shards, workers;
    struct optimizer_powers powers;
    struct archive_counts *counts; /* [workers], malloc'ed; NULL: not known */
    struct archive_set *
        sets; /* [set_count], malloc'ed: of the last steps, the oldest first, where each step decides who contributes */
    size_t set_count;
    struct archive_change
        *changes; /* [count], malloc'ed: those that hold by now (of that step), then those to come */
    size_t count;
};

/* archive_state_add_set -- one more at the end. Errors: ENOMEM. */
int archive_state_add_set(struct archive_state *state, uint64_t step, const uint32_t *ranks, uint32_t count);
/* archive_state_copy -- all of it; `to` holds nothing. Errors: ENOMEM. */
int archive_state_copy(const struct archive_state *from, struct archive_state *to);
void archive_state_clear(struct archive_state *state);

/* A model, for the leader's calls. */
struct archive_model {
    const char *name;
    const uint8_t *description; /* packed, as it was declared */
    size_t bytes;
    const uint8_t *fingerprint;
};

/*
 * Those that say `aside` are called in threads of their own, one at a time for each model; several models at once. A status of theirs is 0 or an error, which is
 * that thread's last one.
 */
struct archive {
    void *context;
    /* when the leader has one made by itself; 0: never */
    uint64_t every_steps;
    int64_t every_ms;
    /* aside: keeps a part. */
    int (*save)(void *context, const struct archive_part *part, struct archive_receipt *receipt);
    /* aside, leader: every part is kept: the checkpoint is complete. receipts: [state->shards]. */
    int (*complete)(void *context, const struct archive_model *model, const struct archive_state *state,
                    const struct archive_receipt *receipts);
    /*
     * aside, leader: the newest complete checkpoint of a step below `below`; state, which holds nothing, is filled. Errors: ENOENT: there is none, begin anew; others end
     * the job: the model is another one, or what there is may not be gone on with.
     */
    int (*find)(void *context, const struct archive_model *model, uint64_t below,
                struct archive_state *state);
    /* aside: fills the pieces of a part. */
    int (*load)(void *context, struct archive_part *part);
    /* leader: by what other ps see that theirs is the same archive, a text. */
    const char *(*token)(void *context);
    /* Is it? Errors: whatever says why not. */
    int (*seen)(void *context, const char *token);
};

#endif
