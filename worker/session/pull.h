/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull -- tells whether what was copied out of parameters that lanes go on changing is of one step. It moves nothing itself:
 *
 *   pull_start, pull_add ...          what is to be read
 *   look at the words of each lane    pull_look, or a read over the network
 *   pull_choose                       which step each unit is read of, that is, from which parity
 *   copy the units that it marked     pull_copy, or reads over the network, all of them done
 *   look at the words again
 *   pull_judge                        does what was copied hold? If not: look, choose and copy again
 *
 * In one step (each == false): all units hold together, of the newest step that every lane concerned has applied, or none does. Each for itself: a unit holds as
 * soon as its own lane left it alone meanwhile; units may be of different steps.
 *
 * A byte of a later step in the copy was stored after writing[] of its parity; so the second look, which comes after the copy, finds writing[] changed.
 */
#ifndef WORKER_SESSION_PULL_H
#define WORKER_SESSION_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ps/protocol/slot.h"

/* What was seen of a lane's words. */
struct pull_words {
    uint64_t writing[2], applied[PLAN_GROUPS_MAX];
};

struct pull_lane {
    uint32_t shard, lane;
    struct pull_words words; /* set by whoever looks */
};

/* Bytes of one span that lie together. */
struct pull_unit {
    uint32_t variable, shard;
    uint16_t lane, group;
    uint64_t first;  /* byte within where it goes to */
    uint64_t offset; /* byte within a parameter arena */
    uint64_t bytes;
    /* set here */
    uint32_t seat; /* of its lane in lanes */
    uint64_t step; /* chosen, and once done: read */
    bool chosen, done;
};

struct pull {
    bool each;
    uint64_t least; /* no older step will do */
    uint64_t torn;  /* copies that did not hold, ever */
    struct pull_unit *units;
    size_t count, room;
    struct pull_lane *lanes; /* those concerned */
    size_t lane_count;
    uint32_t shard_count, lanes_each;
    uint32_t *seats; /* [shard][lane]: place in lanes + 1; 0: not concerned */
};

enum pull_choice {
    PULL_WAIT = 0,  /* a lane has not applied the least step yet */
    PULL_AGAIN = 1, /* a lane has moved on while it was looked at: look again */
    PULL_READ = 2
};

/* pull_new -- room for the lanes of a job. Errors: ENOMEM. */
int pull_new(struct pull *pull, uint32_t shards, uint32_t lanes_each);
void pull_clear(struct pull *pull);
/* pull_start -- nothing is to be read yet. */
void pull_start(struct pull *pull, bool each, uint64_t least);
/* pull_add -- one more unit: the fields in the upper half of it. Errors: ENOMEM. */
int pull_add(struct pull *pull, const struct pull_unit *unit);
/* pull_choose -- after a look: marks the units to be copied now. Returns enum pull_choice. */
int pull_choose(struct pull *pull);
/* pull_judge -- after the copy and a second look: the number of units that have to be read again; 0: all are done. */
size_t pull_judge(struct pull *pull);

/* pull_look -- reads a lane's words in this host's memory. What lies there of the steps in applied[] can be read afterwards. */
void pull_look(const struct slot_words *from, struct pull_words *out);
/* pull_copy -- copies what may be written meanwhile; every look after pull_fence comes after it. */
void pull_copy(void *to, const void *from, size_t bytes);
/* pull_fence -- between the copies and the second look. */
void pull_fence(void);

#endif
