/* SPDX-License-Identifier: BSD-3-Clause */
/* key -- the table of everything that a model can be told, and of what may be told of one variable. */
#ifndef PS_PROTOCOL_KEY_H
#define PS_PROTOCOL_KEY_H

#include "ps/protocol/model.h"
#include "ps/protocol/value.h"

struct key {
    struct value value;
    double standard;                         /* what holds without the key, unless `depends` says */
    double (*depends)(const struct model *); /* what holds without the key, from other keys */
    unsigned updates, optimizers, schedules; /* who uses it: bits 1 << number; 0: all */
    bool (*used)(const struct model *);      /* what else must hold for it to be used; NULL: nothing */
    const char *needs;                       /* that, as what is to be set */
    bool tuned;                              /* may change in training */
    bool started; /* takes memory or work from the start: what was off at commit stays off */
};

struct option {
    struct value value;
    unsigned kinds;      /* of variables, bits 1 << number */
    unsigned optimizers; /* bits; 0: all */
};

#define KEY_MAX 64 /* of each: a set of them is one number */

/* key_count, key_at, key_find -- the keys of a model in the order in which they are packed; NULL and -1: there is no such key. */
size_t key_count(void);
const struct key *key_at(size_t number);
int key_find(const char *name);
/* key_default -- what holds without the key, given those it depends on. */
double key_default(const struct key *key, const struct model *model);
/* key_unused -- why the model does not use the key, in words, and what to set; returns false if it does use it. */
bool key_unused(const struct key *key, const struct model *model, char *why, char *remedy, size_t size);

/* option_count, option_at, option_find -- the same for the options of variables. */
size_t option_count(void);
const struct option *option_at(size_t number);
int option_find(const char *name);
/* option_default -- what holds of this variable without the option. */
double option_default(const struct option *option, const struct model *model, const struct model_variable *v);
/* option_used -- does a variable of this kind have the option, and the model's optimizer a use for it? */
bool option_used(const struct option *option, const struct model *model, const struct model_variable *v);

extern const char *const key_updates[],
    *const key_non_finite[], *const key_optimizers[], *const key_schedules[], *const key_dtypes[],
                                                                                  *const key_kinds[];

#endif
