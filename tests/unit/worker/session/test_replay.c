/* SPDX-License-Identifier: BSD-3-Clause */
/* What is sent again over connections made anew where a worker gives several contributions to a step: all that has no token, each counted once. */
#include "tests/unit/worker/session/job.h"

#define REPLAY_ELEMENTS 9000 /* of the large variable: cut, and of several lanes */
#define REPLAY_WORKERS 2u
#define REPLAY_REPLICAS 7u /* worker 0 gives four of them, worker 1 three */
#define REPLAY_STEPS 6u
#define REPLAY_ROUNDS 12u
#define REPLAY_ROWS 3u

enum { LARGE = 0, TABLE = 1, SMALL = 2 };

/* A job, and what its workers have. */
struct replay {
    struct job job;
    struct random_source random; /* where it breaks */
    bool callers;
    float *own[REPLAY_WORKERS];
    unsigned breaks;
};

/* replay_value -- of a contribution: no two are equal, and sums of them are exact. */
static float replay_value(uint64_t step, uint32_t w, uint32_t i)
{
    return (float)(step * 100 + w * 10 + i + 1);
}

/* replay_up -- two ps, learning rate 1, R > T. */
static void replay_up(struct replay *r, bool mapped, bool callers, uint64_t seed)
{
    memset(r, 0, sizeof(*r));
    r->callers = callers;
    r->job.mapped = mapped;
    r->job.reconnect = 1000;
    r->job.shards = 2;
    r->job.lanes = 2;
    r->job.workers = REPLAY_WORKERS;
    r->job.group_bytes = 16384;
    r->job.cut_bytes = 20000;
    r->job.chunk_bytes = 4096;
    random_seed(&r->random, seed);
    job_up(&r->job, seed);
    job_variable(&r->job, "large", STEPGATE_TRAINED, STEPGATE_F32, REPLAY_ELEMENTS, 1);
    job_variable(&r->job, "table", STEPGATE_SPARSE, STEPGATE_F32, 50, 1);
    job_variable(&r->job, "small", STEPGATE_TRAINED, STEPGATE_F32, 33, 1);
    job_option(&r->job, TABLE, "rows_max", "10");
    job_option(&r->job, TABLE, "row_mean", "replicas");
    job_set(&r->job, "learning_rate", "7");
    job_set(&r->job, "replicas_to_aggregate", "7");
    job_commit(&r->job);
    for (uint32_t w = 0; callers && w < REPLAY_WORKERS; w++) {
        r->own[w] = calloc(REPLAY_ELEMENTS, sizeof(float));
        assert_non_null(r->own[w]);
        good(session_attach(r->job.worker[w].model, LARGE, STEPGATE_USE_GRADIENT, own(r->own[w]),
                            REPLAY_ELEMENTS * sizeof(float)));
    }
}

/* replay_down -- deletes everything. */
static void replay_down(struct replay *r)
{
    job_down(&r->job);
    for (uint32_t w = 0; w < REPLAY_WORKERS; w++)
        free(r->own[w]);
}

/* replay_break -- one of a worker's connections, if it stands; perhaps a little later than asked for. */
static void replay_break(struct replay *r, uint32_t w)
{
    struct session_shard *shard = &r->job.worker[w].session->shards[random_below(&r->random, 2)];
    uint32_t which = (uint32_t)random_below(&r->random, 3), lane = (uint32_t)random_below(&r->random, 2);
    struct link *link = which == 0   ? &shard->control.link
                        : which == 1 ? &shard->push[lane].link
                                     : &shard->pull[lane].link;

    for (uint64_t moves = random_below(&r->random, 30); moves > 0; moves--)
        job_move(&r->job);
    if (link->state != LINK_UP)
        return;
    world_disconnect(link->endpoint);
    r->breaks++;
}

/* replay_dense -- pushes a variable, all of the value; a buffer of the caller's is spoiled as soon as it may be. */
static void replay_dense(struct replay *r, uint32_t w, uint32_t v, float value)
{
    struct session_model *model = r->job.worker[w].model;
    uint64_t elements = session_model_declared(model)->variables[v].elements;
    void *gradient = NULL;

    while (session_is_idle(model, v) == 0)
        job_move(&r->job);
    good(session_gradient(model, v, &gradient));
    for (uint64_t i = 0; i < elements; i++)
        ((float *)gradient)[i] = value;
    good(session_push(model, v, job_now(&r->job)));
    if (v != LARGE || !r->callers || !random_chance(&r->random, 700))
        return;
    while (session_is_idle(model, v) == 0)
        job_move(&r->job);
    for (uint64_t i = 0; i < elements; i++)
        r->own[w][i] = -1e9f;
}

/* replay_contribute -- one contribution to a step; a connection breaks before, amid, or behind it. */
static void replay_contribute(struct replay *r, uint64_t step, uint32_t w, uint32_t i)
{
    static const uint64_t rows[REPLAY_ROWS] = {49, 0, 25};
    struct session_model *model = r->job.worker[w].model;
    struct stepgate_step_info info = {.size = sizeof(info)};
    float value = replay_value(step, w, i), values[REPLAY_ROWS] = {value, value, value};
    uint64_t when = random_below(&r->random, 6);

    awaited(&r->job, session_begin_try(model, job_now(&r->job), &info));
    assert_int_equal(info.step, step);
    assert_int_equal(info.verdict, step > 0 && i == 0 ? STEPGATE_VERDICT_APPLIED : STEPGATE_VERDICT_NONE);
    if (when == 0)
        replay_break(r, w);
    replay_dense(r, w, LARGE, value);
    if (when == 1)
        replay_break(r, w);
    good(session_push_rows(model, TABLE, rows, 1 + i % REPLAY_ROWS, values, job_now(&r->job)));
    if (when == 2)
        replay_break(r, w);
    replay_dense(r, w, SMALL, value);
    good(session_finish(model, 1, job_now(&r->job)));
    if (when == 3)
        replay_break(r, w);
}

/* replay_ends -- what worker w reads of a variable at the end; of the table, the row that is in every push. */
static void replay_ends(struct replay *r, uint32_t w, uint32_t v, float expected)
{
    struct session_model *model = r->job.worker[w].model;
    uint64_t elements = session_model_declared(model)->variables[v].elements, step = UINT64_MAX;
    const void *value = NULL;

    awaited(&r->job, session_pull_try(model, (int)v, job_now(&r->job), &step));
    assert_int_equal(step, REPLAY_STEPS);
    good(session_parameter(model, v, &value));
    for (uint64_t i = 0; v != TABLE && i < elements; i++)
        if (((const float *)value)[i] != expected)
            fail_msg("element %llu of variable %u is %g, not %g", (unsigned long long)i, v,
                     (double)((const float *)value)[i], (double)expected);
    assert_true(((const float *)value)[v == TABLE ? 49 : 0] == expected);
}

/* replay_job -- steps over connections that break; ends with the values of a job in which none does. Returns how often one broke. */
static unsigned replay_job(bool mapped, bool callers, uint64_t seed)
{
    struct replay r;
    float expected = 0;
    struct stepgate_step_info info = {.size = sizeof(info)};

    replay_up(&r, mapped, callers, seed);
    for (uint64_t k = 0; k < REPLAY_STEPS; k++) {
        for (uint32_t i = 0; i < REPLAY_REPLICAS; i++) {
            replay_contribute(&r, k, i % REPLAY_WORKERS, i / REPLAY_WORKERS);
            expected -= replay_value(k, i % REPLAY_WORKERS, i / REPLAY_WORKERS);
        }
    }
    for (uint32_t w = 0; w < REPLAY_WORKERS; w++) {
        awaited(&r.job, session_begin_try(r.job.worker[w].model, job_now(&r.job), &info));
        for (uint32_t v = LARGE; v <= SMALL; v++)
            replay_ends(&r, w, v, expected);
    }
    replay_down(&r);
    return r.breaks;
}

/* replay_jobs -- many, so that connections break everywhere. */
static void replay_jobs(bool mapped, bool callers)
{
    unsigned breaks = 0;

    for (uint64_t seed = 1; seed <= REPLAY_ROUNDS; seed++)
        breaks += replay_job(mapped, callers, seed);
    assert_true(breaks > REPLAY_ROUNDS * REPLAY_STEPS);
}

static void each_contribution_to_a_step_counts_once_over_connections_made_anew(void **state)
{
    (void)state;
    replay_jobs(true, false);
    replay_jobs(false, false);
}

static void a_callers_buffer_that_is_idle_may_be_written_though_what_it_held_is_sent_again(void **state)
{
    (void)state;
    replay_jobs(true, true);
    replay_jobs(false, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_contribution_to_a_step_counts_once_over_connections_made_anew),
        cmocka_unit_test(a_callers_buffer_that_is_idle_may_be_written_though_what_it_held_is_sent_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
