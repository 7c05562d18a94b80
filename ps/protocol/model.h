/* SPDX-License-Identifier: BSD-3-Clause */
/* model -- what a model is: variables and how they are updated; its serialised form and fingerprint. */
#ifndef PS_PROTOCOL_MODEL_H
#define PS_PROTOCOL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepgate/model.h"

enum model_optimizer { MODEL_SGD = 1, MODEL_MOMENTUM = 2 };

struct model_variable {
    char name[STEPGATE_NAME_BYTES];
    int kind, dtype, rank;
    uint64_t dims[STEPGATE_RANK_MAX];
    uint64_t elements; /* product of dims, 1 for a scalar */
    uint64_t bytes;
};

struct model {
    char name[STEPGATE_NAME_BYTES];
    int optimizer; /* enum model_optimizer */
    double learning_rate, learning_rate_end;
    uint64_t learning_rate_steps; /* 0: constant */
    double momentum;
    bool momentum_set; /* here, by model_set: it does not travel */
    size_t count;
    struct model_variable *variables;
    uint32_t *names; /* a table from names to numbers + 1; twice as many places as `variables` has room */
};

#define MODEL_FINGERPRINT_BYTES 32

int model_new(const char *name, struct model **out);
void model_delete(struct model **model);
/* model_add -- returns the variable's number. Errors: EINVAL, EALREADY, ENOMEM. */
int model_add(struct model *model, const char *name, int kind, int dtype, int rank, const uint64_t *dims);
/* model_set -- the keys of stepgate_model_set. */
int model_set(struct model *model, const char *key, const char *text);
/* model_optimizer_name -- as model_set takes it. */
const char *model_optimizer_name(const struct model *model);
/* model_check_keys -- keys that only another optimizer knows. Errors: EINVAL. */
int model_check_keys(const struct model *model);
/* model_pack -- *bytes is malloc'ed, the caller frees it. */
int model_pack(const struct model *model, uint8_t **bytes, size_t *size);
/* model_unpack -- checks every field; nothing is trusted. Errors: EPROTOCOL, ENOMEM. */
int model_unpack(const uint8_t *bytes, size_t size, struct model **out);
/* model_fingerprint -- SHA-256 of the packed form. */
int model_fingerprint(const struct model *model, uint8_t out[MODEL_FINGERPRINT_BYTES]);
/* model_difference -- words the first difference between worker 0's model and another; returns 0 if they are equal, 1 if not. */
int model_difference(const struct model *first, const struct model *other, char *text, size_t size);
/* model_learning_rate -- the rate of `step`, computed in double, rounded to f32 once. */
float model_learning_rate(const struct model *model, uint64_t step);
/* model_optimizer_slots -- arenas of optimizer state beside the parameters: 0 sgd, 1 momentum. */
unsigned model_optimizer_slots(const struct model *model);

#endif
