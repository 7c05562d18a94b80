/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tf_model -- what a job in tf mode must do: conditional accumulators for one dense and one sparse variable, SGD, and one queue of tokens, in
 * plain loops over plain arrays. Shares nothing with the mode and the accumulators that it judges.
 */
#ifndef TESTS_REFERENCE_TF_MODEL_H
#define TESTS_REFERENCE_TF_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define TF_MODEL_WORKERS 8
#define TF_MODEL_DENSE 3
#define TF_MODEL_ROWS 5
#define TF_MODEL_WIDTH 2
#define TF_MODEL_TOKENS 4096 /* of one job, all steps together */

/* What became of the last contribution of a worker. */
enum tf_model_fate { TF_MODEL_COUNTED = 1, TF_MODEL_DROPPED = 2, TF_MODEL_EMPTY = 3 };

struct tf_model_gradient {
    bool abandoned;
    double dense[TF_MODEL_DENSE];
    int rows; /* of the sparse variable, each index once, in any order */
    int index[TF_MODEL_ROWS];
    double row[TF_MODEL_ROWS][TF_MODEL_WIDTH];
};

struct tf_model_worker {
    bool gone, waits;
    int fate;
    uint64_t local_step;
    uint64_t counted, dropped, empty; /* contributions */
};

struct tf_model {
    int replicas, workers, tokens_per_step;
    double rate;
    uint64_t step; /* global step, which is also that of the accumulators */
    bool applying; /* a step is taken, and not applied everywhere yet */
    double dense[TF_MODEL_DENSE], table[TF_MODEL_ROWS][TF_MODEL_WIDTH];
    int count; /* contributions in the accumulators */
    double dense_sum[TF_MODEL_DENSE], row_sum[TF_MODEL_ROWS][TF_MODEL_WIDTH];
    int row_count[TF_MODEL_ROWS];
    uint64_t tokens[TF_MODEL_TOKENS];
    int first_token, last_token; /* the queue is tokens[first_token .. last_token - 1] */
    int line[TF_MODEL_WORKERS];  /* who waits for a token, the first that came at the front */
    int line_length;
    struct tf_model_worker worker[TF_MODEL_WORKERS];
};

/* tf_model_start -- values 0, everybody at `step`, initial_tokens tokens in the queue. */
void tf_model_start(struct tf_model *model, int replicas, int workers, int initial_tokens, uint64_t step,
                    double rate);
/* tf_model_push -- a worker that does not wait hands in the gradient it computed at its local step, then waits for a token. */
void tf_model_push(struct tf_model *model, int worker, const struct tf_model_gradient *gradient);
/* tf_model_applied -- the taken step is applied everywhere: the next one may be taken. */
void tf_model_applied(struct tf_model *model);
/* tf_model_gone -- a worker is no more. */
void tf_model_gone(struct tf_model *model, int worker);
/* tf_model_is_stuck -- somebody is there, all who are there wait, and no token will ever come. */
bool tf_model_is_stuck(const struct tf_model *model);

#endif
