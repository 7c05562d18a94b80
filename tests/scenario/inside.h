/* SPDX-License-Identifier: BSD-3-Clause */
/* inside -- what the files of the cluster share. */
#ifndef TESTS_SCENARIO_INSIDE_H
#define TESTS_SCENARIO_INSIDE_H

#include <stddef.h>

#include "tests/scenario/cluster.h"

#define CLUSTER_LIMIT_MS 20000 /* no wait lasts longer */

#define FAIL(ground, ...) cluster_fail((ground), __FILE__, __LINE__, __VA_ARGS__)

/* cluster_error -- this thread's last error as the reason of a failure; returns -1. */
int cluster_error(struct ground *ground, const char *what, int status);
/* cluster_declare -- the job's model on one worker; returns the library's code. */
int cluster_declare(struct cluster *cluster, uint32_t worker);
/* cluster_asides -- what a ps has to do aside: one of it, or all of it. Returns 1 if something was done. */
int cluster_asides(struct cluster *cluster, uint32_t shard, bool all);
/* cluster_round -- everybody once. Returns 1 if anybody did something. */
int cluster_round(struct cluster *cluster, bool all);
/* cluster_move -- a round, or time passes. Returns 0 when nothing will happen by itself soon. */
int cluster_move(struct cluster *cluster);
/* cluster_record -- values of steps that a shard has just come to. */
void cluster_record(struct cluster *cluster, uint32_t shard);
/* cluster_note -- keeps what a worker has pulled. */
void cluster_note(struct cluster *cluster, uint32_t worker);
/* cluster_check_pulls -- what was pulled is what the shards held. */
int cluster_check_pulls(struct cluster *cluster);
/* cluster_narrow, cluster_widen -- from and to the type of an element. */
void cluster_narrow(int dtype, const double *from, uint64_t count, void *to, uint64_t elements);
double cluster_widen(int dtype, const void *values, uint64_t element);

#endif
