/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run was and what came out of it, as JSON. */
#ifndef FASHION_RESULT_H
#define FASHION_RESULT_H

#include <stdint.h>

#include "worker/examples/fashion/digest.h"
#include "worker/examples/fashion/exchange.h"
#include "worker/examples/fashion/fault.h"
#include "worker/examples/fashion/history.h"
#include "worker/examples/fashion/observer.h"
#include "worker/examples/fashion/recipe.h"
#include "worker/examples/fashion/settings.h"

struct result {
    const char *transport;
    unsigned workers;
    unsigned ps;
    unsigned parts;    /* of a global batch */
    unsigned replicas; /* contributions of a step */
    int blas_threads;
    uint64_t images; /* of an epoch */
    uint64_t global_step;
    double final_loss; /* mean over the first training images, with the final parameters */
    double test_accuracy;
    double test_loss;
    double test_accuracy_average;   /* with the averages; negative = there are none */
    struct exchange_counts *counts; /* [workers] */
    uint64_t staleness_max;         /* async, bounded: of the contributions of worker 0 */
    double seconds;
    double images_per_second;
    char params_sha256[DIGEST_TEXT_BYTES];
    struct history history;
    const struct observer_point *points; /* somebody else's; NULL: there are none */
    size_t points_count;
};

/* result_clear -- free what the trainer has put there */
void result_clear(struct result *result);

/* result_try -- find out now, not after the training, that the file can't be written */
int result_try(const char *path, struct fault *fault);

/* result_write -- write the file whole, or leave what was there; as output.h says */
int result_write(const char *path, const struct result *result, const struct settings *settings,
                 const struct recipe *recipe, struct fault *fault);

#endif
