/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job -- a whole job on this machine to be measured: ps and workers, each a process of its own as a user would have them, training one model whose gradients
 * are known. Workers do nothing but what a trainer must: begin, pull, write their gradients (or leave them as they are), push, finish.
 */
#ifndef PERF_JOB_H
#define PERF_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/histogram.h"
#include "perf/settings.h"
#include "stepgate/transport.h"

#define JOB_COUNTERS 8192

struct job_plan {
    const char *transport, *address; /* address: of the device (verbs), or NULL */
    const char *optimizer, *wait, *bind;
    uint64_t workers, shards, lanes, parameters, variables; /* parameters: f32 elements of the whole model */
    uint64_t warmup, iterations;
    double duration; /* seconds, instead of iterations; 0: count iterations */
    bool rewrite;    /* gradients are written anew in every step */
};

struct job_result {
    struct histogram step;             /* nanoseconds of a step at worker 0: from one token to the next */
    uint64_t elapsed_ns;               /* of the measured steps */
    uint64_t ps_cpu_ns, worker_cpu_ns; /* in that time, all ps together, all workers together */
    uint64_t steps;                    /* measured */
    uint64_t bytes_pushed, bytes_pulled, bytes_copied; /* of worker 0, in all steps, warm-up included */
    uint64_t all_steps;
    char transport[32];
    struct stepgate_capabilities can; /* of worker 0's connection to ps 0 */
    char counters[JOB_COUNTERS]; /* JSON: what its device had counted before the first step; "": too much */
};

/* job_plan_of -- from settings that have the fields; workers and parameters are one of their lists each. */
struct job_plan job_plan_of(const struct settings *settings, uint64_t workers, uint64_t parameters);
/*
 * job_measure -- runs it to its end. Every parameter of worker 0 is compared at the end with a plain loop over the steps, where the optimizer is sgd or momentum. 0, or -1 with one line in
 * `text`: whose error it is and which.
 */
int job_measure(const struct job_plan *plan, struct job_result *result, char *text, size_t bytes);

#endif
