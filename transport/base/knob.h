/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * knob -- the one table of knobs, and a set of their values. Values are checked and turned into
 * numbers when they are set, so the getters cannot fail. Names are those of the table; `-` and `_`
 * are the same.
 *
 *   kind     text                                  number (knob_int, knob_time_ms, knob_bytes)
 *   int      decimal                               the value; 0 if there is no default and none was
 * given bool     on|off, true|false, yes|no, 1|0       1 or 0 choice   one of the table's words its
 * place among them from 0; -1 if none was given time     500, 500ms, 10s, 2min, off milliseconds;
 * -1: off size     4096, 64KiB, 256M, 1GiB               bytes text, hosts, address 0
 */
#ifndef TRANSPORT_BASE_KNOB_H
#define TRANSPORT_BASE_KNOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/base/log.h"

enum knob_kind {
    KNOB_TEXT,
    KNOB_INT,
    KNOB_BOOL,
    KNOB_CHOICE,
    KNOB_TRANSPORT, /* a choice, or the name of one that was registered */
    KNOB_TIME,
    KNOB_SIZE,
    KNOB_HOSTS,
    KNOB_NAMES, /* hosts, whose ports may be missing */
    KNOB_ADDRESS
};

/* One row of the table. */
struct knob_row {
    const char *name;
    const char *environment;
    const char *flag;
    const char *unit;
    const char *fallback; /* the default, as text; "": none */
    const char *help;
    enum knob_kind kind;
    int64_t low, high;   /* of a number */
    bool off;            /* a time may be off */
    const char *choices; /* "spin|adaptive|sleep" */
};

/* Places in the choices of the table; from KNOB_TRANSPORT_OTHERS on those of the registry. */
enum knob_transport {
    KNOB_TRANSPORT_AUTO = 0,
    KNOB_TRANSPORT_SHM = 1,
    KNOB_TRANSPORT_VERBS = 2,
    KNOB_TRANSPORT_OTHERS = 3
};
enum knob_wait { KNOB_WAIT_SPIN = 0, KNOB_WAIT_ADAPTIVE = 1, KNOB_WAIT_SLEEP = 2 };
enum knob_role { KNOB_ROLE_NONE = -1, KNOB_ROLE_PS = 0, KNOB_ROLE_WORKER = 1, KNOB_ROLE_OBSERVER = 2 };

enum knob_lost_ps { KNOB_LOST_PS_FAIL = 0, KNOB_LOST_PS_REWIND = 1 };

#define KNOBS_MAX 48 /* rows the table may have */

struct knob_value {
    char *text; /* as given; NULL: the default */
    int64_t number;
};

/* A value for every row, and where log lines go (log.level follows the knob "log"). Copied with
 * knobs_copy only. */
struct knobs {
    struct knob_value values[KNOBS_MAX];
    struct log_sink log;
};

/* The public options object is nothing but its knobs. */
struct stepgate_options {
    struct knobs knobs;
};

/* stepgate_options_knobs -- the knobs of an options object. */
static inline const struct knobs *stepgate_options_knobs(const struct stepgate_options *options)
{
    return &options->knobs;
}

/* knob_row -- row `index`; NULL behind the end. */
const struct knob_row *knob_row(size_t index);
/* knob_row_find -- the row of a name of n characters; NULL if there is none. */
const struct knob_row *knob_row_find(const char *name, size_t n);
/* knob_row_nearest -- the row whose name differs least from this one; NULL if none is near. */
const struct knob_row *knob_row_nearest(const char *name, size_t n);

/* knobs_init -- all at their defaults. */
void knobs_init(struct knobs *knobs);
/* knobs_clear -- frees the texts. */
void knobs_clear(struct knobs *knobs);
/* knobs_copy -- *to is overwritten, not cleared before. Errors: ENOMEM (then *to is not touched).
 */
int knobs_copy(const struct knobs *from, struct knobs *to);

/* knob_set -- Errors: ENOENT (names the nearest), EINVAL (names knob, value and what is allowed),
 * ENOMEM. Nothing changes on an error. */
int knob_set(struct knobs *knobs, const char *name, const char *text);

/* knob_unknown -- the error for a name that is in no row: ENOENT, which names the nearest. */
int knob_unknown(const char *name);

/* Getters. An unknown name gives NULL, 0, false: a unit test asks for every name in use. */
const char *knob_text(const struct knobs *knobs, const char *name);
int knob_int(const struct knobs *knobs, const char *name);
bool knob_bool(const struct knobs *knobs, const char *name);
int64_t knob_time_ms(const struct knobs *knobs, const char *name); /* -1: off */
uint64_t knob_bytes(const struct knobs *knobs, const char *name);
/* knob_given -- whether it was set, to whatever value. */
bool knob_given(const struct knobs *knobs, const char *name);

/* knobs_workers -- the number of workers, from worker_hosts or workers. Errors: EINVAL (neither, or
 * they contradict each other). */
int knobs_workers(const struct knobs *knobs);

#endif
