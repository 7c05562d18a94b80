/* SPDX-License-Identifier: BSD-3-Clause */
/* store -- an archive in memory, for tests: it outlives the jobs that write to it. */
#ifndef TESTS_SCENARIO_STORE_H
#define TESTS_SCENARIO_STORE_H

#include "ps/shard/archive.h"

#define STORE_STEPS_MAX 64
#define STORE_SHARDS_MAX 8

/* What a shard has written of an array; what it points to is malloc'ed, and so is the name of a slot. */
struct store_piece {
    uint32_t shard;
    struct archive_piece array;
};

/* One checkpoint. */
struct store_step {
    bool begun, complete, damaged; /* damaged: it is complete, and cannot be read */
    struct archive_state state;
    uint8_t fingerprint[MODEL_FINGERPRINT_BYTES];
    struct archive_receipt receipts[STORE_SHARDS_MAX];
    struct store_piece *pieces; /* [count] */
    size_t count;
};

struct store {
    struct archive archive;
    uint64_t shift; /* steps are told to be so many later than they were: those of a long job */
    bool refuses;   /* the next part cannot be written, as on a full disk */
    bool held;      /* nothing goes on aside */
    unsigned saved, loaded, completed;
    struct store_step steps[STORE_STEPS_MAX];
};

/* store_start -- empty; one checkpoint every so many steps, 0: only when somebody asks. */
void store_start(struct store *store, uint64_t every_steps);
void store_clear(struct store *store);
/* store_newest -- the step of the newest complete checkpoint; UINT64_MAX: there is none. */
uint64_t store_newest(const struct store *store);

#endif
