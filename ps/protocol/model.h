/* SPDX-License-Identifier: BSD-3-Clause */
/* model -- what a model is: variables and how they are updated; its serialised form and fingerprint. */
#ifndef PS_PROTOCOL_MODEL_H
#define PS_PROTOCOL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepgate/model.h"

enum model_update { MODEL_STRICT = 1, MODEL_TF = 2, MODEL_ASYNC = 3, MODEL_BOUNDED = 4 };
enum model_non_finite { MODEL_PROPAGATE = 1, MODEL_DROP = 2, MODEL_FAIL = 3, MODEL_SKIP = 4 };
enum model_optimizer {
    MODEL_SGD = 1,
    MODEL_MOMENTUM = 2,
    MODEL_NONE = 3,
    MODEL_NESTEROV = 4,
    MODEL_ADAGRAD = 5,
    MODEL_RMSPROP = 6,
    MODEL_ADAM = 7,
    MODEL_ADAMW = 8
};
enum model_schedule { MODEL_CONSTANT = 1, MODEL_LINEAR = 2, MODEL_EXPONENTIAL = 3, MODEL_COSINE = 4 };
enum model_row_mean { MODEL_ROW_MEAN_ROWS = 1, MODEL_ROW_MEAN_REPLICAS = 2 };
enum model_assign { MODEL_ASSIGN_MEAN = 1, MODEL_ASSIGN_RANK0 = 2 };

/* A variable; what its kind does not have is 0 or false, and learning_rate_scale 1. */
struct model_variable {
    char name[STEPGATE_NAME_BYTES];
    int kind, dtype, rank;
    uint64_t dims[STEPGATE_RANK_MAX];
    uint64_t elements;            /* product of dims, 1 for a scalar */
    uint64_t bytes;               /* elements x size of dtype */
    int gradient_dtype;           /* of what is pushed; aux and assigned: dtype */
    uint64_t gradient_bytes;      /* elements x size of gradient_dtype, as if every row were pushed */
    uint64_t rows, row_elements;  /* sparse: rows x row_elements == elements */
    uint64_t rows_max;            /* sparse: most rows of one push; from commit on 1..rows */
    double learning_rate_scale;   /* trained, sparse */
    bool decays, frozen, average; /* trained, sparse; average is resolved by model_check_keys */
    int row_mean;                 /* sparse: enum model_row_mean */
    int assign;                   /* assigned: enum model_assign */
    uint32_t set;                 /* bits of the options that were set (key.h): they do not travel */
};

/* A model; the fields are named like the keys of stepgate_model_set. What depends on other keys is resolved by model_check_keys. */
struct model {
    char name[STEPGATE_NAME_BYTES];
    int update;                                                                 /* enum model_update */
    uint32_t bound, replicas_to_aggregate, total_num_replicas, tokens_per_step; /* 0: absent */
    int64_t initial_tokens;                                                     /* -1: absent */
    int non_finite;                                                             /* enum model_non_finite */
    int optimizer;                                                              /* enum model_optimizer */
    bool torch;                                                                 /* formula=torch */
    double learning_rate, momentum, rho, beta1, beta2, epsilon, initial_accumulator, weight_decay, l2_decay;
    double clip_value, clip_norm, clip_global_norm; /* 0: off */
    double average_decay;                           /* 0: off */
    bool average_by_step;
    int schedule; /* enum model_schedule */
    double learning_rate_end, learning_rate_factor;
    uint64_t learning_rate_steps, warmup_steps;
    bool staircase;
    uint64_t set; /* bits of the keys that were set (key.h): they do not travel */
    uint64_t
        started; /* bits of the keys that were on when the model was checked or unpacked: what needs memory cannot be turned on later */
    size_t count;
    struct model_variable *variables;
    uint32_t *names; /* a table from names to numbers + 1; twice as many places as `variables` has room */
};

#define MODEL_FINGERPRINT_BYTES 32

int model_new(const char *name, struct model **out);
void model_delete(struct model **model);
/* model_add -- returns the variable's number. Errors: EINVAL, EALREADY, ENOMEM. */
int model_add(struct model *model, const char *name, int kind, int dtype, int rank, const uint64_t *dims);
/* model_variable_set -- the options of stepgate_model_variable_set. Errors: ENOENT, EINVAL. */
int model_variable_set(struct model *model, uint32_t id, const char *key, const char *text);
/* model_set -- the keys of stepgate_model_set. Errors: ENOENT, EINVAL. */
int model_set(struct model *model, const char *key, const char *text);
/*
 * model_tune -- changes a hyper-parameter of a model in training: the numbers of the rate, the optimizer, the decays and the clips. The same
 * checks as at commit; a clip or average that was off then has no memory and stays off. Errors: ENOENT, EINVAL.
 */
int model_tune(struct model *model, const char *key, const char *text);
/*
 * model_check_keys -- once everything is declared, and before the model is packed: resolves the defaults that depend on other keys, and
 * refuses what was set for nothing or does not fit. May be repeated, after putting something right or not. Errors: EINVAL.
 */
int model_check_keys(struct model *model);
/* model_check_workers -- of a checked model: does it fit a job of so many workers? Errors: EINVAL. */
int model_check_workers(const struct model *model, uint32_t workers);

/* model_pack -- of a checked model; *bytes is malloc'ed, the caller frees it. */
int model_pack(const struct model *model, uint8_t **bytes, size_t *size);
/* model_unpack -- checks every field; nothing is trusted. Errors: EPROTOCOL, ENOMEM. */
int model_unpack(const uint8_t *bytes, size_t size, struct model **out);
/* model_fingerprint -- SHA-256 of the packed form. */
int model_fingerprint(const struct model *model, uint8_t out[MODEL_FINGERPRINT_BYTES]);
/* model_difference -- words the first difference between worker 0's model and another; returns 0 if they are equal, 1 if not. */
int model_difference(const struct model *first, const struct model *other, char *text, size_t size);

/* Names, as the keys take them. */
const char *model_optimizer_name(const struct model *model);
const char *model_update_name(int update);
const char *model_non_finite_name(int non_finite);
const char *model_schedule_name(int schedule);
const char *model_dtype_name(int dtype);
const char *model_kind_name(int kind);
/* model_dtype_bytes -- the size of an element; 0 of an unknown dtype. */
size_t model_dtype_bytes(int dtype);

/* model_learning_rate -- the rate of `step`, computed in double, rounded to f32 once. */
float model_learning_rate(const struct model *model, uint64_t step);
/* model_optimizer_slots -- arenas of optimizer state beside the parameters: 0 sgd, none; 1 momentum, nesterov, adagrad; 2 the others. */
unsigned model_optimizer_slots(const struct model *model);

/* model_replicas -- R: contributions of one step; 1 in async and bounded. */
uint32_t model_replicas(const struct model *model, uint32_t workers);
/* model_tokens_per_step -- tokens that one taken step hands out. */
uint32_t model_tokens_per_step(const struct model *model, uint32_t workers);
/* model_initial_tokens -- tokens there are before the first step; nobody's first push needs one. strict: R - T where R > T, else 0. */
uint32_t model_initial_tokens(const struct model *model, uint32_t workers);
/* model_lockstep -- strict, and every worker is in every step. */
bool model_lockstep(const struct model *model, uint32_t workers);
/* model_slot_depth -- gradients of one worker that may lie in its slots at once. */
uint32_t model_slot_depth(const struct model *model, uint32_t workers);
/* model_quota -- contributions that worker `rank` supplies to one step; 1 unless strict with R > T. */
uint32_t model_quota(const struct model *model, uint32_t workers, uint32_t rank);

#endif
