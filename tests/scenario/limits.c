/* SPDX-License-Identifier: BSD-3-Clause */
/* limits -- what a model needs is compared with what there is before any of it is taken. */
#include <string.h>

#include "tests/scenario/inside.h"
#include "tests/scenario/scenario.h"

/* 100,000 f32 elements, momentum, two workers: 2 copies and 2 slots are registered, which is 1,563 KiB; the momentum is not. */
#define LIMITS_ELEMENTS 100000

/* limits_little, limits_enough -- bytes. */
static uint64_t limits_little(void)
{
    return UINT64_C(1) << 20;
}
static uint64_t limits_enough(void)
{
    return UINT64_C(1) << 23;
}

/* limits_job -- with so much memory. */
static struct cluster_job limits_job(uint64_t (*memory)(void), uint64_t (*lockable)(void))
{
    return (struct cluster_job){.workers = 2,
                                .keys = "optimizer=momentum",
                                .variables = {{.name = "v", .dims = {LIMITS_ELEMENTS, 1}}},
                                .memory = memory,
                                .lockable = lockable};
}

/* limits_refused -- ends at the start with these words. */
static int limits_refused(struct stage *stage, const struct cluster_job *job, const char *word)
{
    struct cluster *c;

    if (cluster_open(stage->ground, job, &c) == 0) {
        cluster_drop(&c);
        return FAIL(stage->ground, "a model is taken for which there is no room");
    }
    if (strstr(stage->ground->why, word) == NULL)
        return -1;
    stage->ground->why[0] = 0;
    return 0;
}

/* limits_memory -- more than there is. */
static int limits_memory(struct stage *stage)
{
    const struct cluster_job little = limits_job(limits_little, NULL),
                             enough = limits_job(limits_enough, NULL);
    struct cluster *c;

    TRY(limits_refused(stage, &little, "model m needs 1 MiB on ps 0, 1 MiB are available"));
    TRY(stage_open(stage, &enough, &c));
    RUN(c, 0, 1);
    GS(c, 1);
    return 0;
}

/* limits_maps -- does this ground's transport map, and register nothing with a device? */
static bool limits_maps(const struct ground *ground)
{
    return ground->simulated ? ground->mapped : strcmp(ground->transport->name, "shm") == 0;
}

/* limits_locked -- more than may be registered, where it is registered with a device. */
static int limits_locked(struct stage *stage)
{
    const struct cluster_job little = limits_job(limits_enough, limits_little),
                             enough = limits_job(limits_enough, limits_enough);
    bool maps = limits_maps(stage->ground);
    struct cluster *c;

    if (!maps)
        TRY(limits_refused(stage, &little,
                           "with model m ps 0 registers 1563 KiB, the memlock limit is 1024 KiB"));
    TRY(stage_open(stage, maps ? &little : &enough, &c));
    RUN(c, 0, 1);
    GS(c, 1);
    return 0;
}

const struct scenario scenario_limits[] = {
    {"limit_of_memory_is_looked_at_before_it_is_taken", limits_memory, false},
    {"limit_of_registered_memory_counts_over_a_network", limits_locked, false},
    {NULL, NULL, false}};
