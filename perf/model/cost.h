/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cost -- what a step costs, by formulas: the latency and bandwidth of a network (Hockney 1994: time = L + bytes / W), the bandwidth M of the memory of one host, and order statistics for workers that
 * are not equally fast (straggler.h). With T workers, R contributions to a step, S ps, each on a host of its own, B = 4 bytes of each parameter, A arrays of the optimizer's state:
 *
 *   ps over a network
 *     compute    C + E[the R-th of T stragglers]
 *     push       L + max(B, T B / S) / W                     a worker's port sends B, a ps's port takes in T B / S
 *     apply      (R + 2 + 2 A) B / S / M                     one pass: slots read, parameters read and written, state likewise
 *     token      L; S > 1: 3 L                               commit -> token and ready; before it complete and commit, to and from the leader
 *     pull       2 L + max(B, T B / S) / W                   a read; R < T: 6 L, since the lanes' words are read before and after
 *
 *   ps over shared memory, all on one host: L is that of a notify
 *     push       L + 2 T B / M                               workers write their gradients into the slots; a store reads the line that it writes
 *     apply      (R + 2 + 2 A) B / M
 *     token      L; S > 1: 3 L
 *     pull       0                                           parameters are mapped
 *
 *   all-reduce: a ring of n = T workers (Patarasuk and Yuan 2009: 2 (n - 1) messages of B / n bytes), then everybody's own optimizer
 *     compute    C + E[the slowest of T]
 *     push       half of 2 (n - 1) / n B / W + 2 (n - 1) L   the first round sums,
 *     pull       the other half                              the second hands out
 *     apply      (1 + 2 + 2 A) B / M
 *
 * What is left out: that groups of parameters are pulled while later ones are still being applied, and that gradients are pushed while earlier layers still compute (both make a step shorter); headers, seals
 * and heartbeats; processor time of messages; that a model of a few frames is pulled by one worker after the other, so that the first may already push.
 */
#ifndef PERF_MODEL_COST_H
#define PERF_MODEL_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "perf/model/straggler.h"

enum cost_kind { COST_PS, COST_ALLREDUCE };

struct cost_machine {
    double memory_bytes_per_s; /* of a host, by the lanes of its ps; 0: summing and applying takes no time */
    double link_bytes_per_s;   /* of a host's port, each way */
    double latency_s;          /* one way */
    bool shared;               /* one host: bytes are moved by memory, not by a network */
};

struct cost_job {
    enum cost_kind kind;
    uint64_t workers, replicas, shards, parameters;
    unsigned state; /* arrays */
    double compute_s;
    struct straggler straggler;
};

/* Seconds. */
struct cost_step {
    double compute, push, apply, token, pull, all;
};

struct cost_step cost_step(const struct cost_machine *machine, const struct cost_job *job);

#endif
