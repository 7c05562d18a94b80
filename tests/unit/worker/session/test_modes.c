/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker's session does in each mode, with slots mapped and with slots behind a network: one job per row of a table. */
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ps/optimizer/number.h"
#include "tests/unit/worker/session/job.h"

#define MODES_ELEMENTS 9000 /* of the large variable: cut, and of several lanes */
#define MODES_ROWS 50
#define MODES_WIDTH 3

/* Variables of modes_model. */
enum { LARGE = 0, SMALL = 1, TABLE = 2, FROZEN = 3, STATISTICS = 4, STATE = 5, MODES_VARIABLES = 6 };

/* modes_model -- one variable of each kind; lr 1, so that gradients of 1 give the value -k after k updates. */
static void modes_model(struct job *j)
{
    float frozen[4] = {5, 6, 7, 8};
    double state[2] = {0.5, 0.25};

    job_variable(j, "large", STEPGATE_TRAINED, STEPGATE_F32, MODES_ELEMENTS, 1);
    job_variable(j, "small", STEPGATE_TRAINED, STEPGATE_F16, 1, 33);
    job_variable(j, "table", STEPGATE_SPARSE, STEPGATE_F64, MODES_ROWS, MODES_WIDTH);
    job_variable(j, "frozen", STEPGATE_TRAINED, STEPGATE_F32, 2, 2);
    job_variable(j, "statistics", STEPGATE_ASSIGNED, STEPGATE_F32, 1, 5);
    job_variable(j, "state", STEPGATE_AUX, STEPGATE_F64, 1, 2);
    job_option(j, TABLE, "rows_max", "10");
    job_option(j, FROZEN, "frozen", "yes");
    job_set(j, "learning_rate", "1");
    for (uint32_t w = 0; w < j->workers; w++) {
        state[1] = w;
        good(session_model_initialize(j->worker[w].model, FROZEN, frozen, sizeof(frozen)));
        good(session_model_initialize(j->worker[w].model, STATE, state, sizeof(state)));
    }
}

/* modes_up -- a job of that shape, before the commit. */
static void modes_up(struct job *j, bool mapped, uint32_t shards, uint32_t workers, uint64_t seed)
{
    memset(j, 0, sizeof(*j));
    j->mapped = mapped;
    j->shards = shards;
    j->lanes = 2;
    j->workers = workers;
    j->group_bytes = 16384;
    j->cut_bytes = 20000;
    j->chunk_bytes = 4096;
    job_up(j, seed);
}

/* modes_begin -- of one worker. */
static struct stepgate_step_info modes_begin(struct job *j, uint32_t w)
{
    struct stepgate_step_info info = {.size = sizeof(info)};

    awaited(j, session_begin_try(j->worker[w].model, job_now(j), &info));
    return info;
}

/* modes_fill -- the gradient of a dense variable, all of the value. */
static void modes_fill(struct job *j, uint32_t w, uint32_t v, float value)
{
    struct session_model *model = j->worker[w].model;
    const struct model_variable *declared = &session_model_declared(model)->variables[v];
    void *gradient = NULL;

    while (session_is_idle(model, v) == 0)
        job_move(j);
    good(session_gradient(model, v, &gradient));
    for (uint64_t i = 0; i < declared->elements; i++) {
        if (declared->dtype == STEPGATE_F64)
            ((double *)gradient)[i] = (double)value;
        else
            number_narrow_f32(declared->dtype, &value,
                              (uint8_t *)gradient + i * model_dtype_bytes(declared->dtype), 1);
    }
    good(session_push(model, v, job_now(j)));
}

/* modes_rows -- pushes rows of the table, all of the value; the first one in two halves. */
static void modes_rows(struct job *j, uint32_t w, const uint64_t *indices, uint64_t count, double value)
{
    double values[11 * MODES_WIDTH];
    uint64_t with_twice[11];

    assert_true(count <= 9);
    for (uint64_t i = 0; i <= count; i++) {
        with_twice[i] = i < count ? indices[i] : indices[0];
        for (int k = 0; k < MODES_WIDTH; k++)
            values[i * MODES_WIDTH + (uint64_t)k] = i == 0 || i == count ? value / 2 : value;
    }
    good(session_push_rows(j->worker[w].model, TABLE, with_twice, count > 0 ? count + 1 : 0, values,
                           job_now(j)));
}

/* modes_push -- everything of one contribution; trained gradients and rows are `value`. */
static void modes_push(struct job *j, uint32_t w, float value)
{
    static const uint64_t indices[] = {40, 0, 49, 24, 25};

    modes_fill(j, w, LARGE, value);
    modes_fill(j, w, SMALL, value);
    modes_rows(j, w, indices, 5, (double)value);
    modes_fill(j, w, FROZEN, 100);
    modes_fill(j, w, STATISTICS, value + (float)w);
    modes_fill(j, w, STATE, value + 10 * (float)w);
}

/* modes_contribute -- and finish. */
static void modes_contribute(struct job *j, uint32_t w, float value)
{
    modes_push(j, w, value);
    good(session_finish(j->worker[w].model, 1, job_now(j)));
}

/* modes_value -- one element of what was pulled. */
static double modes_value(struct job *j, uint32_t w, uint32_t v, uint64_t i)
{
    const struct model_variable *declared = &session_model_declared(j->worker[w].model)->variables[v];
    const void *value = NULL;
    double out;

    good(session_parameter(j->worker[w].model, v, &value));
    number_widen_f64(declared->dtype, (const uint8_t *)value + i * model_dtype_bytes(declared->dtype), &out,
                     1);
    return out;
}

/* modes_all -- every element of what was pulled of a variable is the value. */
static void modes_all(struct job *j, uint32_t w, uint32_t v, double value)
{
    uint64_t elements = session_model_declared(j->worker[w].model)->variables[v].elements;

    for (uint64_t i = 0; i < elements; i++)
        if (modes_value(j, w, v, i) != value)
            fail_msg("element %llu of variable %u is %g, not %g", (unsigned long long)i, v,
                     modes_value(j, w, v, i), value);
}

/* modes_pull -- returns the step that was read. */
static uint64_t modes_pull(struct job *j, uint32_t w, int v)
{
    uint64_t step = UINT64_MAX;

    awaited(j, session_pull_try(j->worker[w].model, v, job_now(j), &step));
    return step;
}

/* modes_rows_read -- some rows of the table, also one twice; each is -(step that was read) if it was pushed in every step. Returns that step. */
static uint64_t modes_rows_read(struct job *j, uint32_t w)
{
    static const uint64_t indices[] = {49, 1, 0, 49, 24, 25, 2};
    double rows[7 * MODES_WIDTH];
    uint64_t step = UINT64_MAX;

    awaited(j, session_pull_rows_try(j->worker[w].model, TABLE, indices, 7, rows, job_now(j), &step));
    for (int r = 0; r < 7; r++)
        for (int k = 0; k < MODES_WIDTH; k++)
            assert_true(rows[r * MODES_WIDTH + k] == (r == 1 || r == 6 ? 0 : -(double)step));
    return step;
}

/* modes_one_step -- what a pull of everything gave is of one step, whose values are known. */
static void modes_one_step(struct job *j, uint32_t w, uint64_t step)
{
    modes_all(j, w, LARGE, -(double)step);
    modes_all(j, w, SMALL, -(double)step);
    for (int i = 0; i < 4; i++)
        assert_true(modes_value(j, w, FROZEN, (uint64_t)i) == 5 + i);
}

/* modes_lockstep -- strict, all workers in every step. */
static void modes_lockstep(bool mapped, uint32_t shards)
{
    struct job j;

    modes_up(&j, mapped, shards, 2, shards + 10 * mapped);
    modes_model(&j);
    job_commit(&j);
    for (uint64_t k = 0; k < 6; k++) {
        for (uint32_t w = 0; w < 2; w++) {
            assert_int_equal(modes_begin(&j, w).step, k);
            assert_int_equal(modes_pull(&j, w, STEPGATE_ALL), k);
            modes_one_step(&j, w, k);
            assert_int_equal(modes_rows_read(&j, w), k);
            assert_true(modes_value(&j, w, STATISTICS, 4) == (k == 0 ? 0 : 1.5));
            assert_true(modes_value(&j, w, STATE, 1) == (k == 0 ? w : 1 + 10 * w));
            assert_int_equal(modes_pull(&j, w, TABLE), k);
            assert_true(modes_value(&j, w, TABLE, 40 * MODES_WIDTH) == -(double)k);
            assert_true(modes_value(&j, w, TABLE, 41 * MODES_WIDTH) == 0);
        }
        for (uint32_t w = 0; w < 2; w++)
            modes_contribute(&j, w, 1);
    }
    job_down(&j);
}

static void lockstep_gives_every_kind_its_own(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 3; shards++) {
        modes_lockstep(true, shards);
        modes_lockstep(false, shards);
    }
}

/* modes_quota -- strict with R = 5, T = 2: worker 0 gives three contributions to a step, worker 1 two. */
static void modes_quota(bool mapped)
{
    struct job j;

    modes_up(&j, mapped, 2, 2, 21 + mapped);
    modes_model(&j);
    job_set(&j, "replicas_to_aggregate", "5");
    job_commit(&j);
    for (uint64_t k = 0; k < 5; k++) {
        for (uint32_t w = 0; w < 2; w++)
            for (uint32_t i = 0; i < 3 - w; i++) {
                struct stepgate_step_info info = modes_begin(&j, w);
                assert_int_equal(info.step, k);
                assert_int_equal(info.verdict,
                                 k > 0 && i == 0 ? STEPGATE_VERDICT_APPLIED : STEPGATE_VERDICT_NONE);
                assert_int_equal(modes_pull(&j, w, STEPGATE_ALL), k);
                modes_one_step(&j, w, k);
                modes_contribute(&j, w, 1);
            }
    }
    for (uint32_t w = 0; w < 2; w++) {
        modes_begin(&j, w);
        assert_int_equal(modes_pull(&j, w, STEPGATE_ALL), 5);
        modes_one_step(&j, w, 5);
    }
    job_down(&j);
}

static void more_replicas_than_workers_take_several_contributions_of_each(void **state)
{
    (void)state;
    modes_quota(true);
    modes_quota(false);
}

/* A worker of a race: what it does next. */
enum { RACE_BEGIN, RACE_SMALL, RACE_ALL, RACE_ROWS, RACE_TABLE, RACE_PUSH };
struct modes_racer {
    int state;
    bool reads; /* else it is always ahead of those who do */
    uint64_t step, newest, begins;
    double rows[3 * MODES_WIDTH];
};

/* modes_racer_read -- what a pull that is done gave: of one step, this or newer, and never older than what was read before. */
static void modes_racer_read(struct job *j, uint32_t w, struct modes_racer *racer, uint64_t step)
{
    assert_true(step >= racer->step && step >= racer->newest);
    racer->newest = step;
    if (racer->state == RACE_SMALL)
        modes_all(j, w, SMALL, -(double)step);
    else if (racer->state == RACE_ALL)
        modes_one_step(j, w, step);
    else if (racer->state == RACE_TABLE)
        for (uint64_t i = 0; i < MODES_WIDTH; i++) {
            assert_true(modes_value(j, w, TABLE, i) == -(double)step);
            assert_true(modes_value(j, w, TABLE, 49 * MODES_WIDTH + i) == -(double)step);
        }
    else
        for (int i = 0; i < 3 * MODES_WIDTH; i++)
            assert_true(racer->rows[i] == -(double)step);
}

/* modes_racer_move -- one try of whatever is next. */
static void modes_racer_move(struct job *j, uint32_t w, struct modes_racer *racer)
{
    static const uint64_t rows[] = {49, 0, 25};
    static const int variable[] = {[RACE_SMALL] = SMALL, [RACE_ALL] = STEPGATE_ALL, [RACE_TABLE] = TABLE};
    struct session_model *model = j->worker[w].model;
    struct stepgate_step_info info = {.size = sizeof(info)};
    uint64_t step = UINT64_MAX;
    int status = 0;

    switch (racer->state) {
    case RACE_BEGIN:
        status = session_begin_try(model, job_now(j), &info);
        racer->step = status == 0 ? info.step : racer->step;
        racer->begins += status == 0;
        break;
    case RACE_PUSH: modes_contribute(j, w, 1); break;
    case RACE_ROWS:
        status = session_pull_rows_try(model, TABLE, rows, 3, racer->rows, job_now(j), &step);
        break;
    default: status = session_pull_try(model, variable[racer->state], job_now(j), &step);
    }
    if (status == -STEPGATE_EAGAIN)
        return;
    good(status);
    if (step != UINT64_MAX)
        modes_racer_read(j, w, racer, step);
    racer->state = racer->state == RACE_PUSH ? RACE_BEGIN : racer->reads ? racer->state + 1 : RACE_PUSH;
}

/* modes_race -- workers that do not wait for each other. Returns the copies that had to be repeated. */
static uint64_t modes_race(bool mapped, const char *update, uint32_t workers, uint64_t seed)
{
    struct modes_racer racer[JOB_WORKERS_MAX] = {0};
    uint64_t retries = 0, begins = 0;
    struct job j;

    modes_up(&j, mapped, (uint32_t)(1 + seed % 3), workers, seed);
    modes_model(&j);
    job_set(&j, "update", update);
    job_set(&j, "replicas_to_aggregate", workers > 2 ? "2" : "1");
    job_commit(&j);
    racer[workers - 1].reads = true;
    for (int turn = 0; turn < 10000; turn++) {
        uint32_t w = (uint32_t)random_below(&j.random, workers);
        modes_racer_move(&j, w, &racer[w]);
        job_move(&j);
    }
    for (uint32_t w = 0; w < workers; w++) {
        retries += j.worker[w].session->stats.pull_retries;
        begins += racer[w].begins;
    }
    assert_true(begins > 20);
    job_down(&j);
    return retries;
}

/* modes_races -- mapped and not, ps from one to three. */
static void modes_races(const char *update)
{
    uint64_t retries = 0;

    for (uint64_t seed = 1; seed <= 12; seed++)
        retries += modes_race(seed % 2 == 0, update, (uint32_t)(2 + seed / 2 % 2), seed);
    print_message("%llu copies were repeated\n", (unsigned long long)retries);
    assert_true(retries > 0);
}

static void a_step_without_everybody_is_read_whole(void **state)
{
    (void)state;
    modes_races("strict");
}

static void tf_reads_whole_steps(void **state)
{
    (void)state;
    modes_races("tf");
}

/* modes_alone -- async or bounded: elements between the lowest and highest step that was read. */
static void modes_alone(bool mapped, bool bounded, uint64_t seed)
{
    struct job j;

    modes_up(&j, mapped, (uint32_t)(1 + seed % 3), 2, seed);
    modes_model(&j);
    job_set(&j, "update", bounded ? "bounded" : "async");
    if (bounded)
        job_set(&j, "bound", "2");
    job_commit(&j);
    for (int turn = 0; turn < 30; turn++) {
        uint32_t w = bounded ? (uint32_t)turn % 2 : (uint32_t)random_below(&j.random, 2);
        uint64_t low = 0, high = 0;
        struct stepgate_step_info info = modes_begin(&j, w);
        uint64_t step = modes_pull(&j, w, STEPGATE_ALL);
        good(session_pulled(j.worker[w].model, STEPGATE_ALL, &low, &high));
        assert_true(low >= info.step && low <= high && step == low);
        good(session_pulled(j.worker[w].model, LARGE, &low, &high));
        for (uint64_t i = 0; i < MODES_ELEMENTS; i++) {
            double value = -modes_value(&j, w, LARGE, i);
            assert_true(value >= (double)low && value <= (double)high);
        }
        good(session_pulled(j.worker[w].model, SMALL, &low, &high));
        assert_int_equal(low, high); /* one span */
        modes_all(&j, w, SMALL, -(double)low);
        modes_contribute(&j, w, 1);
    }
    job_down(&j);
}

static void async_and_bounded_read_what_there_is(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++)
        modes_alone(seed % 2 == 0, seed % 4 < 2, seed);
}

/* modes_errors -- what is refused, and that nothing has changed after it. */
static void modes_errors(bool mapped)
{
    uint64_t indices[12] = {1, 2, 50};
    double rows[12 * MODES_WIDTH] = {0}, out[3 * MODES_WIDTH];
    void *pointer = NULL;
    struct job j;

    modes_up(&j, mapped, 2, 1, 31);
    modes_model(&j);
    job_set(&j, "update", "tf");
    job_set(&j, "initial_tokens", "5");
    job_commit(&j);
    struct session_model *model = j.worker[0].model;
    refused(STEPGATE_ESTATE, "outside a step",
            session_push_rows(model, TABLE, indices, 2, rows, job_now(&j)));
    modes_begin(&j, 0);
    refused(STEPGATE_EINVAL, "is sparse", session_push(model, TABLE, job_now(&j)));
    refused(STEPGATE_EINVAL, "is sparse", session_gradient(model, TABLE, &pointer));
    refused(STEPGATE_EINVAL, "not sparse", session_push_rows(model, LARGE, indices, 2, rows, job_now(&j)));
    refused(STEPGATE_EINVAL, "push of 11 rows of table, rows_max is 10",
            session_push_rows(model, TABLE, indices, 11, rows, job_now(&j)));
    refused(STEPGATE_EINVAL, "row 50 of table: it has 50 rows",
            session_push_rows(model, TABLE, indices, 3, rows, job_now(&j)));
    refused(STEPGATE_EINVAL, "NULL", session_push_rows(model, TABLE, indices, 1, NULL, job_now(&j)));
    refused(STEPGATE_EINVAL, "row 50 of table: it has 50 rows",
            session_pull_rows_try(model, TABLE, indices, 3, out, job_now(&j), NULL));
    refused(STEPGATE_EINVAL, "private",
            session_pull_rows_try(model, STATE, indices, 0, out, job_now(&j), NULL));
    refused(STEPGATE_ESTATE, "nothing was pulled", session_pulled(model, TABLE, &indices[0], &indices[1]));
    indices[0] = 1;
    good(session_push_rows(model, TABLE, NULL, 0, NULL, job_now(&j)));
    refused(STEPGATE_EALREADY, "table", session_push_rows(model, TABLE, indices, 2, rows, job_now(&j)));
    good(session_finish(model, 0, job_now(&j)));
    modes_begin(&j, 0);
    for (uint32_t v = 0; v < MODES_VARIABLES; v++)
        good(session_absent(model, v, job_now(&j)));
    refused(STEPGATE_EINVAL, "every gradient is absent", session_finish(model, 1, job_now(&j)));
    good(session_finish(model, 0, job_now(&j)));
    assert_int_equal(modes_begin(&j, 0).verdict, STEPGATE_VERDICT_EMPTY);
    job_down(&j);
}

static void what_cannot_be_pushed_or_pulled_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    modes_errors(true);
    modes_errors(false);
}

/* modes_absent -- what is not there has no part in a mean of those that are; a trained variable counts as zeros. */
static void modes_absent(bool mapped)
{
    static const uint64_t row[] = {7};
    struct job j;

    modes_up(&j, mapped, 2, 2, 41);
    modes_model(&j);
    job_commit(&j);
    for (uint32_t w = 0; w < 2; w++)
        modes_begin(&j, w);
    modes_fill(&j, 0, LARGE, 2);
    modes_fill(&j, 0, SMALL, 2);
    modes_rows(&j, 0, row, 1, 2);
    modes_fill(&j, 0, FROZEN, 2);
    modes_fill(&j, 0, STATISTICS, 2);
    modes_fill(&j, 0, STATE, 2);
    good(session_finish(j.worker[0].model, 1, job_now(&j)));
    for (uint32_t v = 0; v < MODES_VARIABLES; v++)
        good(session_absent(j.worker[1].model, v, job_now(&j)));
    good(session_finish(j.worker[1].model, 1, job_now(&j)));
    for (uint32_t w = 0; w < 2; w++) {
        modes_begin(&j, w);
        modes_pull(&j, w, STEPGATE_ALL);
        modes_pull(&j, w, TABLE);
        modes_one_step(&j, w, 1);
        assert_true(modes_value(&j, w, TABLE, 7 * MODES_WIDTH) == -2);
        assert_true(modes_value(&j, w, STATISTICS, 0) == 2);
        assert_true(modes_value(&j, w, STATE, 1) == (w == 0 ? 2 : 1));
    }
    job_down(&j);
}

static void what_is_absent_is_zeros_or_not_there(void **state)
{
    (void)state;
    modes_absent(true);
    modes_absent(false);
}

/* modes_numbers -- what the ps is told of a contribution: its norm, over all kinds that are gradients, and whether it is finite. */
static void modes_numbers(bool mapped)
{
    static const uint64_t rows[] = {3, 49};
    struct job j;

    modes_up(&j, mapped, 3, 2, 61);
    modes_model(&j);
    job_set(&j, "clip_norm", "0.5");
    job_set(&j, "non_finite", "skip");
    job_commit(&j);
    for (uint64_t k = 0; k < 3; k++)
        for (uint32_t w = 0; w < 2; w++) {
            struct stepgate_step_info info = modes_begin(&j, w);
            assert_int_equal(info.verdict, k == 0   ? STEPGATE_VERDICT_NONE
                                           : k == 1 ? STEPGATE_VERDICT_APPLIED
                                                    : STEPGATE_VERDICT_SKIPPED);
            modes_pull(&j, w, STEPGATE_ALL);
            /* the squares of 9000, 33 and 2 rows of 3 elements, each 2; all others are no gradients */
            double clipped = 2 * 0.5 / sqrt(4.0 * (9000 + 33 + 2 * 3));
            for (uint64_t i = 0; i < MODES_ELEMENTS; i += MODES_ELEMENTS - 1)
                assert_true(fabs(modes_value(&j, w, LARGE, i) + (k == 0 ? 0 : clipped)) < 1e-8);
            modes_fill(&j, w, LARGE, 2);
            modes_fill(&j, w, SMALL, 2);
            modes_rows(&j, w, rows, 2, k == 1 && w == 1 ? (double)NAN : 2);
            modes_fill(&j, w, FROZEN, INFINITY);
            modes_fill(&j, w, STATISTICS, 1000);
            modes_fill(&j, w, STATE, INFINITY);
            good(session_finish(j.worker[w].model, 1, job_now(&j)));
        }
    job_down(&j);
}

static void norms_and_non_finite_numbers_are_told(void **state)
{
    (void)state;
    modes_numbers(true);
    modes_numbers(false);
}

/* modes_callers -- everything from and to memory of the caller's. */
static void modes_callers(bool mapped, const char *update, const char *replicas)
{
    static float memory[MODES_ELEMENTS + 1], value[MODES_ELEMENTS];
    void *gradient = (uint8_t *)memory + 1; /* any alignment will do */
    static double table[MODES_ROWS * MODES_WIDTH];
    static const uint64_t row[] = {3};
    struct job j;

    modes_up(&j, mapped, 2, 1, 51);
    modes_model(&j);
    job_set(&j, "update", update);
    job_set(&j, "replicas_to_aggregate", replicas);
    job_set(&j, "clip_norm", "1000");
    job_commit(&j);
    struct session_model *model = j.worker[0].model;
    good(session_attach(model, LARGE, STEPGATE_USE_GRADIENT, own(gradient), sizeof(value)));
    good(session_attach(model, LARGE, STEPGATE_USE_PARAMETER, own(value), sizeof(value)));
    good(session_attach(model, TABLE, STEPGATE_USE_PARAMETER, own(table), sizeof(table)));
    refused(STEPGATE_EINVAL, "sparse",
            session_attach(model, TABLE, STEPGATE_USE_GRADIENT, own(table), sizeof(table)));
    for (int k = 0; k < 4; k++) {
        modes_begin(&j, 0);
        uint64_t step = modes_pull(&j, 0, STEPGATE_ALL);
        assert_true(value[0] == -(float)step && value[MODES_ELEMENTS - 1] == -(float)step);
        step = modes_pull(&j, 0, TABLE);
        assert_true(table[3 * MODES_WIDTH] == -(double)step);
        while (session_is_idle(model, LARGE) == 0)
            job_move(&j);
        for (uint64_t i = 0; i < MODES_ELEMENTS; i++)
            memcpy((uint8_t *)gradient + 4 * i, &(float){1}, 4);
        good(session_push(model, LARGE, job_now(&j)));
        for (uint32_t v = SMALL; v < MODES_VARIABLES; v++)
            if (v != TABLE)
                modes_fill(&j, 0, v, 1);
        modes_rows(&j, 0, row, 1, 1);
        good(session_finish(model, 1, job_now(&j)));
    }
    job_down(&j);
}

static void memory_of_the_callers_serves_in_every_mode(void **state)
{
    (void)state;
    for (int mapped = 0; mapped < 2; mapped++) {
        modes_callers(mapped, "strict", "1");
        modes_callers(mapped, "strict", "3");
        modes_callers(mapped, "tf", "1");
        modes_callers(mapped, "async", "0");
    }
}

#define DEVICE_OFFSET 4096 /* what is attached lies behind something else */

/* device_memory -- what stands for a GPU's: a descriptor, and the device's own view of the elements. */
static int device_memory(float **view)
{
    uint64_t bytes = DEVICE_OFFSET + MODES_ELEMENTS * sizeof(float);
    int fd = memfd_create("device", MFD_CLOEXEC);

    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(memory != MAP_FAILED);
    *view = (float *)(void *)(memory + DEVICE_OFFSET);
    return fd;
}

/* device_memory_delete -- the descriptor is closed already. */
static void device_memory_delete(float *view)
{
    munmap((uint8_t *)view - DEVICE_OFFSET, DEVICE_OFFSET + MODES_ELEMENTS * sizeof(float));
}

/* device_attach -- of a variable; the descriptor is not needed afterwards. */
static int device_attach(struct session_model *model, uint32_t variable, int use, int fd)
{
    const struct session_memory memory = {.dmabuf = true, .part = {.fd = fd, .offset = DEVICE_OFFSET}};
    int status = session_attach(model, variable, use, &memory, MODES_ELEMENTS * sizeof(float));

    close(fd);
    return status;
}

/* modes_device -- a gradient and a value in memory that this process does not look at. */
static void modes_device(const char *update, const char *replicas)
{
    float *gradient, *value;
    const void *pointer;
    void *place;
    struct job j;

    modes_up(&j, false, 2, 1, 51);
    j.worker[0].session->reconnect = 0;
    modes_model(&j);
    job_set(&j, "update", update);
    job_set(&j, "replicas_to_aggregate", replicas);
    job_commit(&j);
    struct session_model *model = j.worker[0].model;
    good(device_attach(model, LARGE, STEPGATE_USE_GRADIENT, device_memory(&gradient)));
    good(device_attach(model, LARGE, STEPGATE_USE_PARAMETER, device_memory(&value)));
    refused(STEPGATE_EINVAL, "it has no address here", session_gradient(model, LARGE, &place));
    for (int k = 0; k < 4; k++) {
        modes_begin(&j, 0);
        uint64_t step = modes_pull(&j, 0, STEPGATE_ALL);
        assert_true(value[0] == -(float)step && value[MODES_ELEMENTS - 1] == -(float)step);
        refused(STEPGATE_EINVAL, "it has no address here", session_parameter(model, LARGE, &pointer));
        while (session_is_idle(model, LARGE) == 0)
            job_move(&j);
        for (uint64_t i = 0; i < MODES_ELEMENTS; i++)
            gradient[i] = 1;
        good(session_push(model, LARGE, job_now(&j)));
        for (uint32_t v = SMALL; v < MODES_VARIABLES; v++)
            if (v != TABLE)
                modes_fill(&j, 0, v, 1);
        good(session_push_rows(model, TABLE, NULL, 0, NULL, job_now(&j)));
        good(session_finish(model, 1, job_now(&j)));
    }
    job_down(&j);
    device_memory_delete(gradient);
    device_memory_delete(value);
}

static void memory_of_a_device_serves_in_every_mode(void **state)
{
    (void)state;
    modes_device("strict", "1");
    modes_device("strict", "3");
    modes_device("tf", "1");
    modes_device("async", "0");
}

/* device_refused -- a job in which memory of a device cannot serve. */
static void device_refused(bool mapped, const char *key, const char *text, uint32_t variable, int use,
                           const char *word)
{
    float *view;
    struct job j;

    modes_up(&j, mapped, 2, 1, 51);
    modes_model(&j);
    if (key != NULL)
        job_set(&j, key, text);
    job_commit(&j);
    j.worker[0].session->reconnect = 3;
    refused(STEPGATE_ENOTSUP, word, device_attach(j.worker[0].model, variable, use, device_memory(&view)));
    device_memory_delete(view);
    job_down(&j);
}

static void memory_of_a_device_is_refused_where_a_processor_must_look_at_it(void **state)
{
    struct job j;

    (void)state;
    device_refused(true, NULL, NULL, LARGE, STEPGATE_USE_PARAMETER, "reached over shm");
    device_refused(false, "clip_norm", "1", LARGE, STEPGATE_USE_GRADIENT, "must be looked at");
    device_refused(false, "non_finite", "drop", LARGE, STEPGATE_USE_GRADIENT, "must be looked at");
    device_refused(false, "replicas_to_aggregate", "3", LARGE, STEPGATE_USE_GRADIENT,
                   "may have to be sent again");
    modes_up(&j, false, 2, 1, 51);
    modes_model(&j);
    job_commit(&j);
    const struct session_memory none = {.dmabuf = true, .part = {.fd = -1}};
    refused(STEPGATE_ENOTSUP, "aux variable state",
            session_attach(j.worker[0].model, STATE, STEPGATE_USE_PARAMETER, &none, 2 * sizeof(double)));
    refused(STEPGATE_EINVAL, "descriptor -1",
            device_attach(j.worker[0].model, LARGE, STEPGATE_USE_GRADIENT, -1));
    job_down(&j);
}

static void memory_that_is_being_read_into_is_not_let_go(void **state)
{
    static float value[MODES_ELEMENTS];
    struct job j;

    (void)state;
    for (int u = 0; u < 2; u++) {
        modes_up(&j, false, 2, 1, 71);
        modes_model(&j);
        job_set(&j, "update", u == 0 ? "strict" : "async");
        job_commit(&j);
        struct session_model *model = j.worker[0].model;
        good(session_attach(model, LARGE, STEPGATE_USE_PARAMETER, own(value), sizeof(value)));
        modes_begin(&j, 0);
        while (!session_reading(model, LARGE)) {
            assert_int_equal(session_pull_try(model, LARGE, job_now(&j), NULL), -STEPGATE_EAGAIN);
            if (!session_reading(model, LARGE))
                job_move(&j);
        }
        good(session_finish(model, 0, job_now(&j)));
        refused(STEPGATE_EBUSY, "still being read", session_detach(model, LARGE, STEPGATE_USE_PARAMETER));
        while (session_reading(model, LARGE))
            job_move(&j);
        good(session_detach(model, LARGE, STEPGATE_USE_PARAMETER));
        modes_begin(&j, 0);
        modes_pull(&j, 0, LARGE);
        modes_all(&j, 0, LARGE, 0);
        job_down(&j);
    }
}

/* modes_rows_of -- rows of a dense variable that is cut and of several chunks, more than fit the first memory for them. */
static void modes_rows_of(bool mapped, const char *update)
{
    enum { MANY = 20000 };
    static uint64_t indices[MANY];
    static float initial[MODES_ELEMENTS], rows[MANY];
    uint64_t step = UINT64_MAX;
    struct job j;

    modes_up(&j, mapped, 3, 1, 81);
    modes_model(&j);
    job_set(&j, "update", update);
    for (uint64_t i = 0; i < MODES_ELEMENTS; i++)
        initial[i] = (float)i;
    good(session_model_initialize(j.worker[0].model, LARGE, initial, sizeof(initial)));
    job_commit(&j);
    for (uint64_t i = 0; i < MANY; i++)
        indices[i] = i * 7919 % 8999 + (i % 3 == 0);
    modes_begin(&j, 0);
    awaited(&j, session_pull_rows_try(j.worker[0].model, TABLE, indices, 0, rows, job_now(&j), &step));
    assert_int_equal(step, 0);
    for (uint64_t n = 100; n <= MANY; n += MANY - 100) {
        awaited(&j, session_pull_rows_try(j.worker[0].model, LARGE, indices, n, rows, job_now(&j), &step));
        assert_int_equal(step, 0);
        for (uint64_t i = 0; i < n; i++)
            assert_true(rows[i] == (float)indices[i]);
    }
    for (uint32_t v = 0; v < MODES_VARIABLES; v++)
        modes_pull(&j, 0, (int)v);
    uint64_t pulls = j.worker[0].session->stats.pulls;
    assert_int_equal(modes_pull(&j, 0, STEPGATE_ALL), 0); /* all are there, and of one step */
    assert_int_equal(j.worker[0].session->stats.pulls, pulls);
    modes_all(&j, 0, STATISTICS, 0);
    job_down(&j);
}

static void any_rows_can_be_read(void **state)
{
    (void)state;
    for (int mapped = 0; mapped < 2; mapped++) {
        modes_rows_of(mapped, "strict");
        modes_rows_of(mapped, "tf");
        modes_rows_of(mapped, "async");
    }
}

/* modes_early -- rows that are pushed before the slot of the last ones is summed. Returns whether that was ever so. */
static bool modes_early(bool mapped, uint64_t seed)
{
    static const uint64_t indices[] = {1, 26, 48};
    struct job j;

    modes_up(&j, mapped, 2, 2, seed);
    modes_model(&j);
    job_commit(&j);
    for (int k = 0; k < 30; k++)
        for (uint32_t w = 0; w < 2; w++) {
            modes_begin(&j, w);
            modes_rows(&j, w, indices, 3, 1);
            for (uint32_t v = 0; v < MODES_VARIABLES; v++)
                if (v != TABLE)
                    good(session_absent(j.worker[w].model, v, job_now(&j)));
            good(session_finish(j.worker[w].model, 1, job_now(&j)));
        }
    modes_begin(&j, 0);
    modes_pull(&j, 0, TABLE);
    for (uint64_t r = 0; r < MODES_ROWS; r++)
        assert_true(modes_value(&j, 0, TABLE, r * MODES_WIDTH) == (r == 1 || r == 26 || r == 48 ? -30 : 0));
    bool early = j.worker[0].model->variables[TABLE].rows_own;
    job_down(&j);
    return early;
}

static void rows_may_be_pushed_before_the_last_ones_are_summed(void **state)
{
    bool early = false;

    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        early = modes_early(true, seed) || early;
        assert_false(modes_early(false, seed));
    }
    assert_true(early);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lockstep_gives_every_kind_its_own),
        cmocka_unit_test(more_replicas_than_workers_take_several_contributions_of_each),
        cmocka_unit_test(a_step_without_everybody_is_read_whole),
        cmocka_unit_test(tf_reads_whole_steps),
        cmocka_unit_test(async_and_bounded_read_what_there_is),
        cmocka_unit_test(what_cannot_be_pushed_or_pulled_is_refused_and_changes_nothing),
        cmocka_unit_test(what_is_absent_is_zeros_or_not_there),
        cmocka_unit_test(norms_and_non_finite_numbers_are_told),
        cmocka_unit_test(memory_of_the_callers_serves_in_every_mode),
        cmocka_unit_test(memory_of_a_device_serves_in_every_mode),
        cmocka_unit_test(memory_of_a_device_is_refused_where_a_processor_must_look_at_it),
        cmocka_unit_test(memory_that_is_being_read_into_is_not_let_go),
        cmocka_unit_test(any_rows_can_be_read),
        cmocka_unit_test(rows_may_be_pushed_before_the_last_ones_are_summed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
