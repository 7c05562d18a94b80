/* SPDX-License-Identifier: BSD-3-Clause */
/* An observer's session, and snapshots, over a network that tears reads and over mapped memory, while workers race. */
#include "tests/unit/worker/session/job.h"

#define ELEMENTS 9000 /* of the large variable: cut, and of several lanes */
#define ROWS 50
#define WIDTH 3

enum { LARGE = 0, SMALL = 1, TABLE = 2 };

/* What an observer does next. */
enum { READ_ALL, READ_SMALL, READ_TABLE, READ_ROWS, COPY_VALUES, COPY_SLOT, READ_COUNTS, READS };

struct watcher {
    struct job_worker self;
    int state;
    uint64_t done[READS];
    double rows[2 * WIDTH];
    float large[ELEMENTS];
    double table[ROWS * WIDTH];
    uint64_t newest; /* of the copies: the leader's order only moves on */
};

/* watcher_up -- joins while the others wait, and learns the model. */
static void watcher_up(struct job *j, struct watcher *o, uint64_t incarnation)
{
    const struct stepgate_transport_v1 *transport = simulated_transport();
    const char *addresses[JOB_SHARDS_MAX];
    struct job_worker *self = &o->self;

    good(world_node_new(j->world, "observer", &self->node));
    struct stepgate_fabric_options options = {.size = sizeof(options), .world = self->node};
    good(transport->fabric_open(&options, &self->fabric));
    good(transport->queue_new(self->fabric, 64, &self->queue));
    good(transport->domain_new(self->fabric, &self->domain));
    for (uint32_t s = 0; s < j->shards; s++)
        addresses[s] = j->addresses[s];
    const struct session_config config = {.observer = true,
                                          .workers = j->workers,
                                          .shards = j->shards,
                                          .addresses = addresses,
                                          .routes = {{self->queue, self->domain}},
                                          .job = "job",
                                          .secret = j->secret,
                                          .incarnation = incarnation,
                                          .chunk_bytes = j->chunk_bytes,
                                          .join_timeout_ms = 2000,
                                          .liveness_ms = 1000};
    good(session_new(&config, job_now(j), &self->session));
    awaited(j, session_join_try(self->session, job_now(j)));
    good(session_observe(self->session, "m", &self->model));
    awaited(j, session_observe_try(self->model, job_now(j)));
}

/* watcher_down -- with or without a word. */
static void watcher_down(struct job *j, struct watcher *o, bool leaves)
{
    if (leaves)
        awaited(j, session_leave_try(o->self.session, job_now(j)));
    session_delete(&o->self.session);
    o->self.domain->transport->domain_delete(&o->self.domain);
    o->self.queue->transport->queue_delete(&o->self.queue);
    o->self.fabric->transport->fabric_delete(&o->self.fabric);
}

/* same_f32, same_f64 -- every element has that value. */
static void same_f32(const float *values, uint64_t count, float value)
{
    for (uint64_t i = 0; i < count; i++)
        if (values[i] != value)
            fail_msg("element %llu is %g, not %g", (unsigned long long)i, (double)values[i], (double)value);
}
static void same_f64(const double *values, uint64_t count, double value)
{
    for (uint64_t i = 0; i < count; i++)
        if (values[i] != value)
            fail_msg("element %llu is %g, not %g", (unsigned long long)i, values[i], value);
}

/* watcher_read -- looks at what a call that is done gave: all of that step. */
static void watcher_read(struct watcher *o, uint64_t step, const struct session_count *count)
{
    const void *value = NULL;

    switch (o->state) {
    case READ_ALL:
    case READ_SMALL:
        good(session_parameter(o->self.model, SMALL, &value));
        same_f64(value, 33, -(double)step);
        if (o->state == READ_SMALL)
            break;
        good(session_parameter(o->self.model, LARGE, &value));
        same_f32(value, ELEMENTS, -(float)step);
        break;
    case READ_TABLE:
        good(session_parameter(o->self.model, TABLE, &value));
        same_f64((const double *)value + 49 * WIDTH, WIDTH, -(double)step);
        same_f64((const double *)value + 48 * WIDTH, WIDTH, 0);
        break;
    case READ_ROWS:
        same_f64(o->rows, WIDTH, -(double)step);
        same_f64(o->rows + WIDTH, WIDTH, 0);
        break;
    case COPY_VALUES:
        same_f32(o->large, ELEMENTS, -(float)step);
        same_f64(o->table + 49 * WIDTH, WIDTH, -(double)step);
        same_f64(o->table, WIDTH, -(double)step);
        same_f64(o->table + WIDTH, WIDTH, 0);
        break;
    case COPY_SLOT: same_f32(o->large, ELEMENTS, step > 0 ? 1 : 0); break;
    default: assert_true(count->non_finite == 0 && count->empty == 0); return;
    }
    if (o->state == COPY_VALUES || o->state == COPY_SLOT) {
        assert_true(step >= o->newest);
        o->newest = step;
    }
}

/* watcher_move -- one try of whatever is next; now and then it gives up. */
static void watcher_move(struct job *j, struct watcher *o)
{
    static const uint64_t rows[] = {49, 1};
    static const int both[] = {TABLE, LARGE}, large[] = {LARGE};
    void *const copies[] = {o->table, o->large}, *const copy[] = {o->large};
    struct session_model *model = o->self.model;
    struct session_count count = {0};
    uint64_t step = UINT64_MAX;
    int status;

    switch (o->state) {
    case READ_ALL: status = session_pull_try(model, STEPGATE_ALL, job_now(j), &step); break;
    case READ_SMALL: status = session_pull_try(model, SMALL, job_now(j), &step); break;
    case READ_TABLE: status = session_pull_try(model, TABLE, job_now(j), &step); break;
    case READ_ROWS: status = session_pull_rows_try(model, TABLE, rows, 2, o->rows, job_now(j), &step); break;
    case COPY_VALUES:
        status = session_snapshot_try(model, SESSION_PARAMETERS, both, 2, copies, job_now(j), &step);
        break;
    case COPY_SLOT:
        status = session_snapshot_try(model, SESSION_SLOT, large, 1, copy, job_now(j), &step);
        break;
    default: status = session_counts_try(model, 0, job_now(j), &count);
    }
    if (status != -STEPGATE_EAGAIN) {
        good(status);
        o->done[o->state]++;
        watcher_read(o, step, &count);
    } else if (!random_chance(&j->random, 5)) {
        return;
    } else if (o->state == READ_COUNTS) {
        session_counts_cancel(model);
    } else if (random_chance(&j->random, 500)) {
        session_snapshot_cancel(model, job_now(j));
    }
    o->state = (int)random_below(&j->random, READS);
}

/* worker_push -- gradients of ones, of the small variable, the large one and two rows. */
static void worker_push(struct job *j, uint32_t w)
{
    static const uint64_t rows[] = {0, 49};
    const double ones[2 * WIDTH] = {1, 1, 1, 1, 1, 1};
    struct session_model *model = j->worker[w].model;
    void *gradient = NULL;

    while (session_is_idle(model, LARGE) == 0 || session_is_idle(model, SMALL) == 0)
        job_move(j);
    good(session_gradient(model, LARGE, &gradient));
    for (int i = 0; i < ELEMENTS; i++)
        ((float *)gradient)[i] = 1;
    good(session_gradient(model, SMALL, &gradient));
    for (int i = 0; i < 33; i++)
        ((double *)gradient)[i] = 1;
    good(session_push(model, SMALL, job_now(j)));
    good(session_push(model, LARGE, job_now(j)));
    good(session_push_rows(model, TABLE, rows, 2, ones, job_now(j)));
    good(session_finish(model, 1, job_now(j)));
}

/* race_open -- a job of two workers that have committed. */
static void race_open(struct job *j, const char *update, uint32_t replicas, uint64_t seed)
{
    char text[16];

    job_up(j, seed);
    job_variable(j, "large", STEPGATE_TRAINED, STEPGATE_F32, ELEMENTS, 1);
    job_variable(j, "small", STEPGATE_TRAINED, STEPGATE_F64, 1, 33);
    job_variable(j, "table", STEPGATE_SPARSE, STEPGATE_F64, ROWS, WIDTH);
    job_option(j, TABLE, "rows_max", "10");
    job_set(j, "learning_rate", "1");
    job_set(j, "optimizer", "momentum");
    job_set(j, "momentum", "0");
    job_set(j, "update", update);
    if (replicas > 0) {
        snprintf(text, sizeof(text), "%u", replicas);
        job_set(j, "replicas_to_aggregate", text);
    }
    job_commit(j);
}

/* race -- workers that train, and observers that come and go. */
static uint64_t race(bool mapped, const char *update, uint32_t replicas, uint64_t seed)
{
    static struct watcher watcher[2];
    uint64_t retries = 0;
    struct job j = {.mapped = mapped,
                    .shards = (uint32_t)(1 + seed % 3),
                    .lanes = 2,
                    .workers = 2,
                    .group_bytes = 16384,
                    .cut_bytes = 20000,
                    .chunk_bytes = 4096};

    race_open(&j, update, replicas, seed);
    memset(watcher, 0, sizeof(watcher));
    for (uint32_t o = 0; o < 2; o++)
        watcher_up(&j, &watcher[o], 2000 + o);
    for (int turn = 0; turn < 6000; turn++) {
        uint32_t who = (uint32_t)random_below(&j.random, 4);
        int status = who < 2 ? session_begin_try(j.worker[who].model, job_now(&j), NULL) : 0;
        if (who >= 2)
            watcher_move(&j, &watcher[who - 2]);
        else if (status == 0)
            worker_push(&j, who);
        else
            assert_int_equal(status, -STEPGATE_EAGAIN);
        if (turn == 3000) { /* one goes in the midst of whatever it does, another one comes */
            watcher_down(&j, &watcher[1], seed % 2 == 0);
            memset(&watcher[1], 0, sizeof(watcher[1]));
            watcher_up(&j, &watcher[1], 3000);
        }
        job_move(&j);
    }
    for (int r = 0; r < READS; r++)
        if (watcher[0].done[r] + watcher[1].done[r] == 0)
            print_message("seed %llu: nothing of kind %d was done\n", (unsigned long long)seed, r);
    assert_true(watcher[0].done[COPY_VALUES] + watcher[1].done[COPY_VALUES] > 0);
    assert_true(watcher[0].done[READ_ALL] + watcher[1].done[READ_ALL] > 0);
    assert_true(j.worker[0].session->stats.steps > 10);
    for (uint32_t o = 0; o < 2; o++) {
        retries += watcher[o].self.session->stats.pull_retries;
        watcher_down(&j, &watcher[o], false);
    }
    job_down(&j);
    return retries;
}

/* races -- mapped and not, ps from one to three. */
static void races(const char *update, uint32_t replicas)
{
    uint64_t retries = 0;

    for (uint64_t seed = 1; seed <= 12; seed++)
        retries += race(seed % 2 == 0, update, replicas, seed);
    print_message("%llu copies were repeated\n", (unsigned long long)retries);
}

static void observers_read_whole_steps_in_lockstep(void **state)
{
    (void)state;
    races("strict", 0);
}

static void observers_read_whole_steps_without_everybody(void **state)
{
    (void)state;
    races("strict", 1);
}

static void observers_read_whole_steps_of_tf_and_async(void **state)
{
    (void)state;
    races("tf", 1);
    races("async", 0);
}

static void who_gives_up_a_copy_of_a_lost_ps_keeps_the_reason(void **state)
{
    static struct watcher watcher;
    static const int large[] = {LARGE};
    struct job j = {
        .mapped = true, .shards = 2, .lanes = 1, .workers = 2, .group_bytes = 16384, .cut_bytes = 20000};
    void *const copy[] = {watcher.large};
    struct stepgate_error lost, after;
    int status;
    (void)state;

    race_open(&j, "strict", 0, 1);
    watcher_up(&j, &watcher, 2000);
    world_partition(j.ps[0].node, watcher.self.node);
    do {
        job_move(&j);
        status =
            session_snapshot_try(watcher.self.model, SESSION_PARAMETERS, large, 1, copy, job_now(&j), NULL);
    } while (status == -STEPGATE_EAGAIN);
    error_save(&lost);
    assert_int_equal(status, -STEPGATE_ELOST);
    assert_non_null(strstr(lost.text, "ps 0"));
    session_snapshot_cancel(watcher.self.model, job_now(&j));
    error_save(&after);
    assert_int_equal(after.code, lost.code);
    assert_string_equal(after.text, lost.text);
    watcher_down(&j, &watcher, false);
    job_down(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(observers_read_whole_steps_in_lockstep),
        cmocka_unit_test(observers_read_whole_steps_without_everybody),
        cmocka_unit_test(observers_read_whole_steps_of_tf_and_async),
        cmocka_unit_test(who_gives_up_a_copy_of_a_lost_ps_keeps_the_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
