/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario -- what a scenario is written with: an order of acts, and what must hold between them. A scenario opens jobs and runs them; those
 * that it leaves open are closed, and must end well, unless it says that they have failed.
 */
#ifndef TESTS_SCENARIO_SCENARIO_H
#define TESTS_SCENARIO_SCENARIO_H

#include "stepgate/model.h"
#include "stepgate/step.h"
#include "tests/scenario/cluster.h"

#define SCENARIO_JOBS_MAX 40

struct stage {
    struct ground *ground;
    struct cluster *jobs[SCENARIO_JOBS_MAX];
    uint32_t job_count;
};

struct scenario {
    const char *name;
    int (*run)(struct stage *stage); /* 0: everything held; -1: ground->why says what did not */
    bool everywhere;                 /* short, and played over verbs, too */
};

/* Each file has a list, ended by a name that is NULL. */
extern const struct scenario scenario_examples[], scenario_steps[], scenario_tf[], scenario_strict[],
    scenario_absence[], scenario_modes[], scenario_optimizers[], scenario_dtypes[], scenario_sparse[],
    scenario_checkpoints[], scenario_resumes[], scenario_limits[];

/* TRY -- goes on if the call succeeds. */
#define TRY(call)                                                                                            \
    do {                                                                                                     \
        if ((call) != 0)                                                                                     \
            return -1;                                                                                       \
    } while (0)
/* CHECK -- what must hold of a job, and what to say if it does not. */
#define CHECK(c, condition, ...)                                                                             \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return cluster_fail((c)->ground, __FILE__, __LINE__, __VA_ARGS__);                               \
    } while (0)

/* RUN -- these workers run a step, one after the other. */
#define RUN(c, ...)                                                                                          \
    TRY(scenario_run((c), sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                        \
                     (const uint32_t[]){__VA_ARGS__}, __FILE__, __LINE__))
/* GRADIENT -- a worker pushes these values of a variable from now on. */
#define GRADIENT(c, w, v, ...)                                                                               \
    cluster_gradient((c), (w), (v), sizeof((const double[]){__VA_ARGS__}) / sizeof(double),                  \
                     (const double[]){__VA_ARGS__})
#define INDICES(...)                                                                                         \
    sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (const uint64_t[])                           \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define VALUES(...)                                                                                          \
    sizeof((const double[]){__VA_ARGS__}) / sizeof(double), (const double[])                                 \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

/* GS -- every shard is at this step. */
#define GS(c, step) TRY(scenario_gs((c), (step), __FILE__, __LINE__))
/* NEAR, EXACT -- an element of a variable, to seven digits, or to the bit. */
#define NEAR(c, v, element, value)                                                                           \
    TRY(scenario_value((c), "variable", cluster_value((c), (v), (element)), (value), false, __FILE__,        \
                       __LINE__))
#define EXACT(c, v, element, value)                                                                          \
    TRY(scenario_value((c), "variable", cluster_value((c), (v), (element)), (value), true, __FILE__,         \
                       __LINE__))
/* SLOT, AVERAGE -- the same of an optimizer's slot, and of the moving average. */
#define SLOT(c, v, slot, element, value)                                                                     \
    TRY(scenario_value((c), "slot", cluster_slot((c), (v), (slot), (element)), (value), false, __FILE__,     \
                       __LINE__))
#define AVERAGE(c, v, element, value)                                                                        \
    TRY(scenario_value((c), "average", cluster_average((c), (v), (element)), (value), false, __FILE__,       \
                       __LINE__))
/* PULLED -- an element as a worker has pulled it last. */
#define PULLED(c, w, v, element, value)                                                                      \
    TRY(scenario_value((c), "pulled", cluster_pulled((c), (w), (v), (element)), (value), false, __FILE__,    \
                       __LINE__))
/* WAITS -- a worker waits for its token. */
#define WAITS(c, w) TRY(scenario_waits((c), (w), __FILE__, __LINE__))
/* LOCAL -- a worker has a token, and its local step is this. */
#define LOCAL(c, w, step) TRY(scenario_local((c), (w), (step), __FILE__, __LINE__))
/* VERDICT -- a worker has a token, which says this of its last contribution. */
#define VERDICT(c, w, verdict, step)                                                                         \
    TRY(scenario_verdict((c), (w), STEPGATE_VERDICT_##verdict, (step), __FILE__, __LINE__))
/* COUNTED -- contributions of a worker that were accepted, and that were stale. */
#define COUNTED(c, w, accepted, stale)                                                                       \
    TRY(scenario_counted((c), (w), (accepted), (stale), __FILE__, __LINE__))
/* FAILED -- the job has failed for a worker, with that code, and the word in the reason. */
#define FAILED(c, w, code, word) TRY(scenario_failed((c), (w), (code), (word), __FILE__, __LINE__))

/* stage_open -- a job; closed at the end of the scenario. */
int stage_open(struct stage *stage, const struct cluster_job *job, struct cluster **out);
/* stage_close -- closes the newest job now. */
int stage_close(struct stage *stage);
/* stage_drop -- the newest job has failed, as it should: it is deleted as it is. */
void stage_drop(struct stage *stage);

int scenario_run(struct cluster *c, size_t count, const uint32_t *workers, const char *file, int line);
int scenario_gs(struct cluster *c, uint64_t step, const char *file, int line);
int scenario_value(const struct cluster *c, const char *what, double is, double must_be, bool exact,
                   const char *file, int line);
int scenario_waits(const struct cluster *c, uint32_t w, const char *file, int line);
int scenario_local(struct cluster *c, uint32_t w, uint64_t step, const char *file, int line);
int scenario_verdict(struct cluster *c, uint32_t w, int verdict, uint64_t step, const char *file, int line);
int scenario_counted(struct cluster *c, uint32_t w, uint64_t accepted, uint64_t stale, const char *file,
                     int line);
int scenario_failed(struct cluster *c, uint32_t w, int code, const char *word, const char *file, int line);

#endif
