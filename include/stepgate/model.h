/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MODEL -- a list of variables with one optimizer and one step counter. Every worker declares the same model; worker 0's is the one
 * that counts, the others are checked against it by fingerprint. Variables are numbered from 0 in order of declaration.
 */
#ifndef STEPGATE_MODEL_H
#define STEPGATE_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "stepgate/job.h"

struct stepgate_model;

enum stepgate_dtype { STEPGATE_F32 = 1 };
enum stepgate_kind { STEPGATE_TRAINED = 1 };

#define STEPGATE_RANK_MAX 8     /* dimensions of a variable */
#define STEPGATE_NAME_BYTES 128 /* of a model or variable, with the terminating zero */

/* stepgate_model_new -- an empty model. Errors: EINVAL (name empty or too long), EALREADY (a model of that name exists in the job). */
int stepgate_model_new(struct stepgate_job *job, const char *name, struct stepgate_model **model);
/* stepgate_model_delete -- frees this process's side; deleting a job deletes its models. */
void stepgate_model_delete(struct stepgate_model **model);

/*
 * stepgate_model_variable -- declares a variable; *id gets its number. rank 0 is a scalar (dims may be NULL); every dim > 0, their
 * product < 2^40. Values are row-major, little-endian.
 * Errors: EINVAL, EALREADY (name taken), ESTATE (after commit).
 */
int stepgate_model_variable(struct stepgate_model *model, const char *name, int kind, int dtype, int rank,
                            const uint64_t *dims, int *id);
/*
 * stepgate_model_set -- before commit; the text of a number as strtod reads it. Keys, with what holds without them:
 *   "optimizer"            "sgd" | "momentum"   (sgd)
 *   "learning_rate"        a number             (0.01)
 *   "momentum"             a number             (0.9); without the optimizer momentum commit refuses it
 *   "learning_rate_end"    a number             (0)
 *   "learning_rate_steps"  n                    (0: the rate is constant): it falls linearly from learning_rate to learning_rate_end over n
 *                                               steps and stays there. Computed in double, rounded to f32 once per step
 * Formulas (TensorFlow 1.x kernels), in f32:
 *   sgd:      var -= lr * g          momentum: accum = momentum * accum + g; var -= lr * accum
 * with g = the mean of the step's contributions. Errors: ENOENT, EINVAL, ESTATE.
 */
int stepgate_model_set(struct stepgate_model *model, const char *key, const char *text);
/* stepgate_model_initialize -- the initial value of a variable; needed on worker 0 for each variable not to start at zero, ignored elsewhere;
 * copied. bytes must be the variable's size. */
int stepgate_model_initialize(struct stepgate_model *model, int id, const void *data, uint64_t bytes);

struct stepgate_model_info {
    size_t size;          /* set by the caller: sizeof(struct stepgate_model_info) */
    uint64_t step;        /* the model's step */
    uint64_t bytes;       /* of all variables */
    int restored;         /* 1: a checkpoint won over the initial values */
    int in_place;         /* 1: parameters are mapped in place */
    uint32_t copies_push; /* times the CPU copies a gradient on its way: 0 or 1 (library's buffers) */
    uint32_t copies_pull;
};
/*
 * stepgate_model_commit -- collective: every worker declares the same; places, registers, takes initial values. info may be NULL.
 * Errors: EMISMATCH (names the first difference known), EINVAL (no variable), EAGAIN, ETIMEOUT, EJOIN (not everybody within
 * join_timeout), ELOST, ELIMIT.
 */
int stepgate_model_commit(struct stepgate_model *model, int ms, struct stepgate_model_info *info);

int stepgate_model_count(const struct stepgate_model *model);

struct stepgate_variable_info {
    size_t size;      /* set by the caller: sizeof(struct stepgate_variable_info) */
    const char *name; /* valid as long as the model */
    int kind, dtype, rank;
    uint64_t dims[STEPGATE_RANK_MAX];
    uint64_t elements, bytes;
};
int stepgate_model_describe(const struct stepgate_model *model, int id, struct stepgate_variable_info *info);

#ifdef __cplusplus
}
#endif
#endif
