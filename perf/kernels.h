/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels -- what the tests aggregate and apply, and the comparison with memory, have in common: slots, parameters and state of one f32 variable, the ps's own
 * kernels on them, and the streaming kernels in turns with them.
 */
#ifndef PERF_KERNELS_H
#define PERF_KERNELS_H

#include "perf/memory.h"
#include "perf/stream.h"
#include "perf/team.h"
#include "ps/optimizer/mean.h"
#include "ps/optimizer/rule.h"

#define KERNELS_SLOTS_MAX 64

enum kernels_what { KERNELS_AGGREGATE, KERNELS_APPLY };

struct kernels {
    struct memory memory;
    size_t n;
    const struct optimizer_rule *rule, *none; /* none: the mean alone */
    enum optimizer_kind kind;
    bool stream_stores; /* past the caches */
    const float *slots[KERNELS_SLOTS_MAX];
    size_t slot_count; /* that exist; each run says how many it sums */
    float *parameters[2], *state[OPTIMIZER_SLOTS_MAX];
    struct stream_arrays stream; /* arrays of their own, of the same size and kind of pages */
    struct optimizer_hyper hyper;
};

/* kernels_new -- arrays for `slots` contributions of n elements, on these pages; kind: of instructions, "auto" is the best. 0, or -1 with one line in `text`. */
int kernels_new(struct kernels *kernels, const char *optimizer, const char *kind, size_t slots, size_t n,
                enum memory_pages pages, char *text, size_t bytes);
void kernels_free(struct kernels *kernels);
/* kernels_bytes -- what one pass over one element must move: (slots + 1) * 4 for the mean alone, (slots + 2 + 2 * state) * 4 with the rule. */
double kernels_bytes(const struct kernels *kernels, enum kernels_what what, size_t slots);
/* kernels_run -- one pass. Nanoseconds. */
uint64_t kernels_run(struct kernels *kernels, struct team *team, enum kernels_what what, size_t slots);
/* kernels_stream -- one pass of a streaming kernel. Nanoseconds. */
uint64_t kernels_stream(struct kernels *kernels, struct team *team, const struct stream_kernel *kernel);
/* kernels_check -- one pass, compared to the bit with plain loops over some elements of every part. 0, or -1 with one line in `text`. */
int kernels_check(struct kernels *kernels, struct team *team, enum kernels_what what, size_t slots,
                  char *text, size_t bytes);

#endif
