/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/session/pull.h"

#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

#ifdef __SANITIZE_THREAD__
/* The sanitizer is right that the copy races with the lanes; that is why it is verified. */
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#define PULL_RACE_BEGIN AnnotateIgnoreReadsBegin(__FILE__, __LINE__)
#define PULL_RACE_END AnnotateIgnoreReadsEnd(__FILE__, __LINE__)
#else
#define PULL_RACE_BEGIN ((void)0)
#define PULL_RACE_END ((void)0)
#endif

/* pull_new -- see the header. */
int pull_new(struct pull *pull, uint32_t shards, uint32_t lanes_each)
{
    *pull = (struct pull){.shard_count = shards, .lanes_each = lanes_each};
    pull->lanes = calloc((size_t)shards * lanes_each, sizeof(*pull->lanes));
    pull->seats = calloc((size_t)shards * lanes_each, sizeof(*pull->seats));
    if (pull->lanes == NULL || pull->seats == NULL) {
        pull_clear(pull);
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the words of %u ps", shards);
    }
    return 0;
}

/* pull_clear -- frees. */
void pull_clear(struct pull *pull)
{
    free(pull->units);
    free(pull->lanes);
    free(pull->seats);
    *pull = (struct pull){0};
}

/* pull_seat -- where a lane's seat is noted. */
static uint32_t *pull_seat(struct pull *pull, uint32_t shard, uint32_t lane)
{
    return &pull->seats[(size_t)shard * pull->lanes_each + lane];
}

/* pull_start -- only the seats that were taken are cleared. */
void pull_start(struct pull *pull, bool each, uint64_t least)
{
    for (size_t l = 0; l < pull->lane_count; l++)
        *pull_seat(pull, pull->lanes[l].shard, pull->lanes[l].lane) = 0;
    pull->lane_count = pull->count = 0;
    pull->each = each;
    pull->least = least;
}

/* pull_add -- see the header. */
int pull_add(struct pull *pull, const struct pull_unit *unit)
{
    if (pull->count == pull->room) {
        size_t room = pull->room > 0 ? 2 * pull->room : 64;
        struct pull_unit *more = realloc(pull->units, room * sizeof(*more));
        if (more == NULL)
            return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu reads", room);
        pull->units = more;
        pull->room = room;
    }
    uint32_t *seat = pull_seat(pull, unit->shard, unit->lane);
    if (*seat == 0) {
        pull->lanes[pull->lane_count++] = (struct pull_lane){.shard = unit->shard, .lane = unit->lane};
        *seat = (uint32_t)pull->lane_count;
    }
    struct pull_unit *out = &pull->units[pull->count++];
    *out = *unit;
    out->seat = *seat - 1;
    out->step = 0;
    out->chosen = out->done = false;
    return 0;
}

/* pull_holds -- does the step lie in its parity, and nothing newer? */
static bool pull_holds(const struct pull *pull, const struct pull_unit *unit, uint64_t step)
{
    return pull->lanes[unit->seat].words.writing[step & 1] == step;
}

/* pull_applied -- newest step of a unit. */
static uint64_t pull_applied(const struct pull *pull, const struct pull_unit *unit)
{
    return pull->lanes[unit->seat].words.applied[unit->group];
}

/* pull_choose_one_step -- the newest step that all have. */
static int pull_choose_one_step(struct pull *pull)
{
    uint64_t step = UINT64_MAX;

    for (size_t u = 0; u < pull->count; u++) {
        uint64_t applied = pull_applied(pull, &pull->units[u]);
        step = applied < step ? applied : step;
    }
    if (step < pull->least)
        return PULL_WAIT;
    for (size_t u = 0; u < pull->count; u++) {
        if (!pull_holds(pull, &pull->units[u], step))
            return PULL_AGAIN;
        pull->units[u].step = step;
        pull->units[u].chosen = true;
    }
    return PULL_READ;
}

/* pull_choose_each -- of each that is not done the newest. */
static int pull_choose_each(struct pull *pull)
{
    int choice = PULL_WAIT;

    for (size_t u = 0; u < pull->count; u++) {
        struct pull_unit *unit = &pull->units[u];
        uint64_t step = pull_applied(pull, unit);
        unit->chosen = false;
        if (unit->done || step < pull->least)
            continue;
        unit->step = step;
        unit->chosen = pull_holds(pull, unit, step);
        if (unit->chosen)
            choice = PULL_READ;
        else if (choice == PULL_WAIT)
            choice = PULL_AGAIN;
    }
    return choice;
}

/* pull_choose -- see the header. */
int pull_choose(struct pull *pull)
{
    return pull->each ? pull_choose_each(pull) : pull_choose_one_step(pull);
}

/* pull_judge -- see the header. */
size_t pull_judge(struct pull *pull)
{
    size_t left = 0, torn = 0;

    for (size_t u = 0; u < pull->count; u++) {
        struct pull_unit *unit = &pull->units[u];
#ifdef STEPGATE_MUTANT_TORN_READ_TAKEN
        unit->done = unit->done || unit->chosen;
#endif
        if (unit->chosen && pull_holds(pull, unit, unit->step))
            unit->done = true;
        else
            torn += unit->chosen;
        unit->chosen = false;
        left += !unit->done;
    }
    pull->torn += pull->each || torn == 0 ? torn : 1;
    if (left == 0 || pull->each)
        return left;
    for (size_t u = 0; u < pull->count; u++)
        pull->units[u].done = false;
    return pull->count;
}

/* pull_look -- acquire: pairs with the lane's release of applied[] after the last byte of the group. */
void pull_look(const struct slot_words *from, struct pull_words *out)
{
    for (unsigned g = 0; g < PLAN_GROUPS_MAX; g++)
        out->applied[g] = atomic_load_explicit(&from->applied[g], memory_order_acquire);
    for (unsigned p = 0; p < 2; p++)
        out->writing[p] = atomic_load_explicit(&from->writing[p], memory_order_acquire);
}

/* pull_copy -- the compiler may not merge it with what comes after the fence. */
void pull_copy(void *to, const void *from, size_t bytes)
{
    PULL_RACE_BEGIN;
    memcpy(to, from, bytes);
    PULL_RACE_END;
}

/* pull_fence -- acquire: pairs with the lane's release fence between its store to writing[] and its first byte of the step. */
void pull_fence(void)
{
    atomic_thread_fence(memory_order_acquire);
}
