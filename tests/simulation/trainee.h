/* SPDX-License-Identifier: BSD-3-Clause */
/* trainee -- a worker's program in a simulated job: joins, declares, and contributes through the session, one small move at a time. Checks what it reads and what it is told. */
#ifndef TESTS_SIMULATION_TRAINEE_H
#define TESTS_SIMULATION_TRAINEE_H

#include "stepgate/error.h"
#include "tests/simulation/reference.h"
#include "worker/session/session.h"

#define TRAINEE_ROWS_MAX 12 /* of one pull of rows */

enum trainee_state {
    TRAINEE_JOINING,
    TRAINEE_COMMITTING,
    TRAINEE_BEGINNING,
    TRAINEE_PULLING,
    TRAINEE_PUSHING,
    TRAINEE_BARRIER,
    TRAINEE_LEAVING,
    TRAINEE_DONE,
    TRAINEE_FAILED
};

struct trainee_counts {
    uint64_t contributions, rows, duplicates, pulls_of_rows, pulls_of_all, mixed_pulls, newer_pulls, sleeps,
        bad, abandoned, absent, waits;
};

struct trainee {
    const struct shape *shape;
    struct reference *reference;
    struct contribution_log *log;
    uint32_t rank;
    struct session *session;
    struct session_model *model;
    struct random_source random;
    int state;
    struct stepgate_error error; /* it failed with */
    char wrong[320];             /* what it saw that must not be; "": nothing */
    bool callers;                /* uses buffers of its own */
    bool barrier;                /* waits for the others before it leaves */
    unsigned slow_per_mille;     /* how often it does nothing for a while */
    unsigned pass_per_mille;     /* pulls that it leaves out where it may */
    uint64_t wake_at;
    uint64_t quits;     /* leaves after so many contributions; 0: when it is done */
    bool quits_at_once; /* then without waiting for the answer */
    bool left_early;
    bool deletes; /* its session, as soon as it has left */
    void *own_gradient[SHAPE_VARIABLES_MAX], *own_parameter[SHAPE_VARIABLES_MAX];
    uint8_t *private[SHAPE_VARIABLES_MAX]; /* aux: what it pushed last */
    uint64_t step;                         /* begun */
    struct contribution *open;
    bool done;                        /* pulls for the last time */
    bool all;                         /* pulls everything at once */
    bool passed[SHAPE_VARIABLES_MAX]; /* not pulled in this contribution */
    uint32_t order[SHAPE_VARIABLES_MAX], next, count;
    uint64_t indices[TRAINEE_ROWS_MAX]; /* of the pull of rows that is next */
    uint64_t rows;                      /* 0: none */
    uint32_t rows_of;
    uint8_t *rows_out;
    struct trainee_counts counts;
};

/* trainee_move -- one move; returns 1 if something was done. */
int trainee_move(struct trainee *trainee, uint64_t now);
/* trainee_deadline -- when it wants to move at the latest. */
uint64_t trainee_deadline(const struct trainee *trainee);
/* trainee_over -- done or failed. */
bool trainee_over(const struct trainee *trainee);
void trainee_clear(struct trainee *trainee);

/* trainee_wrong -- the first thing that is wrong. */
void trainee_wrong(struct trainee *trainee, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* trainee_check -- is what was pulled of a variable what the reference has? */
void trainee_check(struct trainee *trainee, uint32_t variable, uint64_t step_read);
/* trainee_check_rows -- the same of the rows that were pulled. */
void trainee_check_rows(struct trainee *trainee, uint64_t step_read);
/* trainee_check_told -- is what begin says of the last contribution what was decided? */
void trainee_check_told(struct trainee *trainee, const struct stepgate_step_info *info);

#endif
