/* SPDX-License-Identifier: BSD-3-Clause */
/* restart -- jobs that are played twice, or in two parts: what each worker contributes is given by the step, and what comes out is compared to the bit. */
#ifndef TESTS_SCENARIO_RESTART_H
#define TESTS_SCENARIO_RESTART_H

#include "tests/scenario/scenario.h"
#include "tests/scenario/store.h"

#define RESTART_EVERY 4 /* steps from one checkpoint to the next */
#define RESTART_KILL 6  /* steps that a job takes before all of it is killed */
#define RESTART_END 9   /* and those that there are */

/* restart_job -- variables of all types and kinds; one is cut, where there are several ps. */
struct cluster_job restart_job(const char *keys, uint32_t workers, uint32_t shards, uint32_t lanes);
/* restart_gradients -- what a worker contributes to a step is given by the step. */
void restart_gradients(struct cluster *c, uint32_t w, uint64_t step);
/* restart_step -- everybody contributes, as often as it must; who begins depends on `salt`. */
int restart_step(struct cluster *c, uint64_t step, uint64_t salt);
/* restart_play -- all steps from `from` to `to`. */
int restart_play(struct cluster *c, uint64_t from, uint64_t to, uint64_t salt);
/* restart_element -- one number of two jobs; NaN: neither has it. */
int restart_element(const struct cluster *c, const char *what, uint32_t v, uint64_t element, double is,
                    double must_be);
/* restart_same -- values, slots and averages of two jobs have the same bits. */
int restart_same(const struct cluster *c, const struct cluster *other);
/* restart_written -- until the newest checkpoint is of that step: a thread of its own writes it. */
int restart_written(struct cluster *c, uint64_t step);
/* restart_began -- every worker knows where it goes on. */
int restart_began(struct cluster *c, uint64_t step);
/* restart_in -- a scenario with a store of its own. */
int restart_in(struct stage *stage, uint64_t every, int (*play)(struct stage *stage, struct store *store));

#endif
