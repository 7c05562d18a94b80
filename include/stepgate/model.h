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

/*
 * What an element of a variable is. f16 is IEEE 754 binary16, bf16 the upper half of an f32. An f64 variable is computed in f64, all
 * others in f32: of an f16 or bf16 variable an f32 master copy is updated, and its value is the master rounded to nearest even.
 */
enum stepgate_dtype { STEPGATE_F32 = 1, STEPGATE_F64 = 2, STEPGATE_F16 = 3, STEPGATE_BF16 = 4 };

/*
 * What happens to a variable:
 *   STEPGATE_TRAINED   every step takes a gradient of every element; the optimizer is applied to their mean
 *   STEPGATE_SPARSE    of rank >= 1; rows are dims[0]. A push holds some rows, at most rows_max; only rows that were pushed are updated
 *   STEPGATE_ASSIGNED  takes what was pushed, no optimizer: the mean, or the value of worker 0 (statistics of a batch normalisation)
 *   STEPGATE_AUX       private to each worker and only kept for it (state of a reader)
 */
enum stepgate_kind { STEPGATE_TRAINED = 1, STEPGATE_SPARSE = 2, STEPGATE_ASSIGNED = 3, STEPGATE_AUX = 4 };

#define STEPGATE_RANK_MAX 8     /* dimensions of a variable */
#define STEPGATE_NAME_BYTES 128 /* of a model or variable, with the terminating zero */

/* stepgate_model_new -- an empty model. Errors: EINVAL (name empty or too long), EALREADY (a model of that name exists in the job). */
int stepgate_model_new(struct stepgate_job *job, const char *name, struct stepgate_model **model);
/* stepgate_model_delete -- gives the handle back. The name stays taken, and memory and mappings stay, until the job is deleted, which deletes its models, too. */
void stepgate_model_delete(struct stepgate_model **model);

/*
 * stepgate_model_variable -- declares a variable; *id gets its number. rank 0 is a scalar (dims may be NULL); every dim > 0, their
 * product < 2^40. Values are row-major, little-endian.
 * Errors: EINVAL (also: a sparse variable of rank 0), EALREADY (name taken), ESTATE (after commit).
 */
int stepgate_model_variable(struct stepgate_model *model, const char *name, int kind, int dtype, int rank,
                            const uint64_t *dims, int *id);

/*
 * stepgate_model_variable_set -- an option of a declared variable, before commit. In brackets: what holds without it.
 *   of trained and sparse variables:
 *   "learning_rate_scale"  a number from 0 to 1e30      (1): the rate of this variable is learning_rate times this, a product in the type it is computed in
 *   "decays"               yes | no                     (yes): l2_decay and weight_decay hold; usually no for biases and normalisations
 *   "frozen"               yes | no                     (no): keeps its value; nothing is applied to it
 *   "average"              yes | no                     (yes with average_decay): has a moving average; never of a frozen one
 *   "gradient_dtype"       f32 | f64 | f16 | bf16       (the variable's): of the gradients that are pushed; widened before they are summed,
 *                                                       never wider than what the variable is computed in
 *   of sparse variables:
 *   "rows_max"             n >= 1, needed               most rows of one push, repeated ones counted each time; more than there
 *                                                     are is cut to all
 *   "row_mean"             rows | replicas              (rows): a row's sum is divided by the number of contributions that hold the row, as
 *                                                       TensorFlow does, or by the number of all contributions, as for a dense variable
 *   of assigned variables:
 *   "assign"               mean | rank0                 (mean): of what is pushed, the mean or what worker 0 pushed
 * Errors: ENOENT (no such option), EINVAL (the value, or an option that this kind of variable does not have), ESTATE (after commit).
 */
int stepgate_model_variable_set(struct stepgate_model *model, int id, const char *key, const char *text);

/*
 * stepgate_model_set -- a key of the model, before commit; numbers are read as strtod reads them. In brackets: what holds without the key.
 * A key that was set although nothing uses it (momentum with the optimizer sgd) is refused by commit, so that nobody trains with a number
 * that does not count; where 0 means off or absent, setting 0 is as good as not setting the key.
 *
 * When a step is taken (T: the job's workers)
 *   "update"                strict | tf | async | bounded   (strict)
 *        strict   exactly the contributions of a step, at most one of each worker (R <= T), summed in order of rank
 *        tf       TensorFlow's SyncReplicasOptimizer: at least R contributions that are not stale, from whomever they come
 *        async    each contribution alone, at once; the step counts contributions
 *        bounded  like async, but nobody gets more than `bound` contributions ahead of the slowest worker
 *   "bound"                 n >= 0                     bounded, needed there
 *   "replicas_to_aggregate" R >= 1                     (0: T) strict, tf: contributions of a step. strict: at most 32 T; above T rank r
 *                                                      supplies floor(R / T) + (r < R mod T) of them
 *   "total_num_replicas"    n                          (0: T) must be T: for programs that state it, as TensorFlow's do
 *   "tokens_per_step"       n >= R                     (0: max(T, R)) tf: tokens that a taken step hands out
 *   "initial_tokens"        n >= R - T                 (R) tf: tokens before the first step; 0 with R <= T is lockstep
 *   "non_finite"            propagate | drop | fail | skip   (propagate): what a contribution with an infinity or a NaN does: it counts like
 *                                                      any other; it is left out like a stale one; the job fails; nobody's contribution
 *                                                      is applied. What was left out or made everybody skip is counted in `non_finite` (tune.h).
 *                                                      Contributions are looked at one by one, as they are pushed: that their sum, or a
 *                                                      weight times a gradient, is too large for the type (3e38 + 3e38) is not seen by any of
 *                                                      these; the mean is then infinite and is applied as with propagate
 *
 * The optimizer. g is the mean of the step's contributions, v the variable, lr the rate of the step; every operation is rounded to f32
 * (f64 for an f64 variable), in the order written; so is the mean: s = w1 * g1; s = s + w2 * g2; ...; g = s / (w1 + w2 + ...), where weights that are all
 * 1 form no product. The formulas are those of the kernels of TensorFlow 1.x
 * (core/kernels/training_ops.cc), with formula=torch those of the documentation of torch.optim.
 *   "optimizer"             none | sgd | momentum | nesterov | adagrad | rmsprop | adam | adamw   (sgd)
 *        none      v = g: for trainers with an optimizer of their own; not with async and bounded
 *        sgd       v -= lr * g
 *        momentum  a = momentum * a + g; v -= lr * a
 *        nesterov  a = momentum * a + g; v -= lr * (g + momentum * a), the latter in f64 until it is rounded to the type of v
 *        adagrad   a += g * g; v -= lr * g / sqrt(a)                               torch: v -= lr * (g / (sqrt(a) + epsilon))
 *        rmsprop   s += (g * g - s) * (1 - rho); m = momentum * m + lr * g / sqrt(s + epsilon); v -= m; s starts at 1, m at 0
 *                  torch: s = rho * s + (1 - rho) * g * g; m = momentum * m + g / (sqrt(s) + epsilon); v -= lr * m; both start at 0
 *        adam      m += (g - m) * (1 - beta1); s += (g * g - s) * (1 - beta2); v -= m * lr_t / (sqrt(s) + epsilon) with
 *                  lr_t = lr * sqrt(1 - beta2^t) / (1 - beta1^t), t = updates so far + 1 (a skipped step is none)
 *                  The numbers of an optimizer (rates, betas, powers) have the type that the variable is computed in, as in TensorFlow's kernels:
 *                  f64 for f64 variables, f32 for all others; so have 1 - beta and lr_t. With torch, 1 - beta, lr / (1 - beta1^t) and the root of
 *                  1 - beta2^t are computed in f64, as Python does, and rounded once
 *                  torch: the same m, s = beta2 * s + (1 - beta2) * g * g;
 *                  v -= lr / (1 - beta1^t) * (m / (sqrt(s) / sqrt(1 - beta2^t) + epsilon))
 *        adamw     v -= lr * weight_decay * v, then adam
 *   "formula"               tf | torch                 (tf) all but none; sgd, momentum and nesterov are the same in both
 *   "momentum"              from 0 to 1                (0.9; rmsprop: 0) momentum, nesterov, rmsprop
 *   "rho"                   from 0 to 1                (0.9; torch: 0.99) rmsprop
 *   "beta1", "beta2"        from 0 to below 1          (0.9, 0.999) adam, adamw
 *   "epsilon"               from 0 to 1e30             (1e-8; rmsprop of tf and adagrad of torch: 1e-10) rmsprop, adam, adamw, adagrad of torch
 *   "initial_accumulator"   from 0 to 1e30             (0.1; torch: 0) adagrad: what a starts at; above 0 for tf
 *   "weight_decay"          from 0 to 1e30             (0.01) adamw: the decoupled decay
 *   "l2_decay"              from 0 to 1e30             (0: off) all but none: g += l2_decay * v before the formula; not the same as
 *                                                      weight_decay where the optimizer scales g
 *   "clip_norm"             from 0 to 1e30             (0: off): a worker's gradient whose norm, over all variables that are not frozen, is greater is scaled down to it before it
 *                                                      is summed
 *   "clip_global_norm"      from 0 to 1e30             (0: off) strict, tf: the mean is scaled down to this norm over all variables together
 *   "clip_value"            from 0 to 1e30             (0: off): then each element of g is clipped to [-clip_value, clip_value]
 *   The order is clip_norm, mean, clip_global_norm, clip_value, l2_decay, formula, average.
 *
 * Moving averages (TensorFlow's ExponentialMovingAverage), updated in the same pass as the values and starting at the initial ones
 *   "average_decay"         from 0 to below 1          (0: off) all but none: average -= (1 - d) * (average - v), d = average_decay
 *   "average_by_step"       yes | no                   (no) d = min(average_decay, (1 + n) / (10 + n)) with n = step + 1
 *
 * The rate of step k, computed in double and, but for f64 variables, rounded to f32 once; k counts the steps taken before
 *   "learning_rate"         from -1e30 to 1e30         (0.01) all but none, as all keys of the rate
 *   "schedule"              constant | linear | exponential | cosine   (linear when learning_rate_steps is set, else constant)
 *        constant     learning_rate
 *        linear       end + (learning_rate - end) * (1 - k / n); end from step n on
 *        exponential  learning_rate * factor^(k / n)
 *        cosine       end + (learning_rate - end) * 0.5 * (1 + cos(pi * min(k, n) / n))
 *   "learning_rate_end"     from -1e30 to 1e30         (0) linear, cosine
 *   "learning_rate_steps"   n                          (0) linear, exponential, cosine, needed there
 *   "learning_rate_factor"  from 0 to 1e30             (0.94) exponential
 *   "staircase"             yes | no                   (no) exponential: floor(k / n) instead of k / n
 *   "warmup_steps"          w                          (0) the rate of a step k < w is learning_rate * (k + 1) / w; from then on the schedule's
 *                                                      at k, as if there were no warm-up
 *
 * Errors: ENOENT (no such key), EINVAL (the value), ESTATE (after commit).
 */
int stepgate_model_set(struct stepgate_model *model, const char *key, const char *text);
/*
 * stepgate_model_initialize -- the initial value of a variable, in its dtype; needed on worker 0 for each variable not to start at zero,
 * ignored elsewhere; copied. bytes must be the variable's size. Errors: EINVAL, ENOMEM, ESTATE.
 */
int stepgate_model_initialize(struct stepgate_model *model, int id, const void *data, uint64_t bytes);

struct stepgate_model_info {
    size_t size;    /* set by the caller: sizeof(struct stepgate_model_info) */
    uint64_t step;  /* the model's step */
    uint64_t bytes; /* of all variables */
    int restored; /* 1: a checkpoint won over the initial values; 2: this worker came back to a job that goes on */
    int in_place;         /* 1: parameters are mapped in place */
    uint32_t copies_push; /* times the CPU copies a gradient on its way: 0 or 1 (library's buffers) */
    uint32_t copies_pull;
    int checkpoints; /* 1: the ps have a folder for checkpoints */
    int sets;        /* 1: the ps record the contributors of each step, or repeat recorded ones */
};
/*
 * stepgate_model_commit -- collective: every worker declares the same; places, registers, takes initial values. info may be NULL.
 * Errors: EMISMATCH (names the first difference known), EINVAL (no variable; keys or options that do not fit each other or the number of
 * workers), EAGAIN, ETIMEOUT, EJOIN (not everybody within
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
    int gradient_dtype;
    uint64_t rows_max;       /* sparse: most rows of one push; else 0 */
    uint64_t gradient_bytes; /* of a gradient of every element, in gradient_dtype */
};
/* stepgate_model_describe -- what was declared; rows_max is final after commit. Errors: EINVAL. */
int stepgate_model_describe(const struct stepgate_model *model, int id, struct stepgate_variable_info *info);

#ifdef __cplusplus
}
#endif
#endif
