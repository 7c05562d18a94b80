/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * OPTION -- the knobs of a job. Every knob stands in one table with its name, environment variable, flag, unit, default and help.
 * A worker needs ps_hosts, workers (or worker_hosts) and task_index; a ps workers and listen, or ps_hosts and task_index. All knobs
 * are those that `stepgate-run --help` and `stepgate-ps --help` list, and stepgate_options_list tells; `-` and `_` are the same.
 * Not thread-safe: one thread at a time per options object; a join or server copies what it needs.
 */
#ifndef STEPGATE_OPTION_H
#define STEPGATE_OPTION_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "stepgate/log.h"

struct stepgate_options;

/* stepgate_options_new -- all knobs at their defaults. Errors: EINVAL, ENOMEM. */
int stepgate_options_new(struct stepgate_options **options);
/* stepgate_options_delete -- frees, sets NULL; safe on NULL. */
void stepgate_options_delete(struct stepgate_options **options);

/* stepgate_options_set -- sets a knob from text; `-` and `_` in the name are the same. Errors: ENOENT (no such knob; the text names the nearest),
 * EINVAL (value out of range or malformed; the text names the knob, the value and what is allowed). */
int stepgate_options_set(struct stepgate_options *options, const char *name, const char *text);
/* stepgate_options_get -- the effective value as text, valid until the next call for this object. Errors: ENOENT. */
int stepgate_options_get(const struct stepgate_options *options, const char *name, const char **text);
/* stepgate_options_from_env -- takes STEPGATE_<NAME> for every knob that is set in the environment. Errors: as _set. */
int stepgate_options_from_env(struct stepgate_options *options);
/*
 * stepgate_options_from_args -- takes --name value and --name=value for every knob, and removes them from argv; what it does not know
 * stays in argv, in order; `--` ends it (and is removed). A knob that needs a value and has none is EINVAL.
 */
int stepgate_options_from_args(struct stepgate_options *options, int *argc, char **argv);

/* One row of the knob table. */
struct stepgate_knob {
    const char *name;        /* "join_timeout" */
    const char *environment; /* "STEPGATE_JOIN_TIMEOUT" */
    const char *flag;        /* "--join-timeout" */
    const char *unit;        /* "ms", "bytes", "" */
    const char *fallback;    /* the default, as text */
    const char *help;        /* one line */
    const char *value;       /* what stands for a value in a help text: "N", "TIME", "on|off" */
};
/* stepgate_options_list -- row `index` of the table; returns 0, or -STEPGATE_ENOENT behind its end. Thread-safe. */
int stepgate_options_list(size_t index, struct stepgate_knob *knob);

/* stepgate_options_log -- where log lines go; function NULL: nowhere (the default). Lines above `level` are dropped. */
int stepgate_options_log(struct stepgate_options *options, stepgate_log_function *function, void *context,
                         int level);

#ifdef __cplusplus
}
#endif
#endif
