/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fleet -- a whole job of any number of workers over the simulated transport, in one thread and in virtual time: processors cost nothing there, so that a step lasts as long as
 * the workers compute and the network needs. The ps's shards and lanes and the workers' sessions are those of every job; only what moves the bytes is simulated.
 */
#ifndef PERF_MODEL_FLEET_H
#define PERF_MODEL_FLEET_H

#include <stddef.h>
#include <stdint.h>

struct fleet_plan {
    uint32_t workers, replicas; /* replicas: contributions of a step, R; workers: all of them */
    uint32_t shards, lanes;
    uint64_t parameters; /* f32 elements of the model, one variable */
    uint64_t warmup, steps;
    uint64_t latency_ns;       /* of the network, one way; at least 1 */
    uint64_t link_bytes_per_s; /* of everybody's connection to it, each way; 0: bytes take no time */
    /* How long a worker computes in a step; NULL: no time at all. */
    uint64_t (*compute_ns)(void *context, uint32_t worker, uint64_t step);
    void *context;
};

struct fleet_result {
    double
        step_ns; /* virtual: the mean of the steps after the warm-up, from the first worker that begins one to the first that begins the next */
    uint64_t
        compared; /* elements that were compared with a plain loop, all of them equal; 0 where R < T, since the sets are not known */
    uint64_t deliveries; /* of the simulated network */
};

/*
 * fleet_run -- the job from its first connection to its last. Every worker hands in another gradient in every step and element, so that sums are rounded; after the last step each worker's
 * parameters are compared to the bit with a plain loop in rank order. 0, or -1 with one line in `text`.
 */
int fleet_run(const struct fleet_plan *plan, struct fleet_result *result, char *text, size_t bytes);

#endif
