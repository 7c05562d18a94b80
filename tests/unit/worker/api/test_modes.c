/* SPDX-License-Identifier: BSD-3-Clause */
/* Modes in which workers do not wait for each other, over shm with the ps in a thread of its own: what is read while it changes, rows, and addresses. */
#include "tests/unit/worker/api/cluster.h"

#define MODES_ELEMENTS 20000
#define MODES_STEPS 300
#define MODES_WIDTH 4

/* modes_up -- a dense variable and a table. */
static void modes_up(struct cluster *c, int workers, const char *update, const char *replicas)
{
    const uint64_t dims[] = {100, MODES_WIDTH};
    int id = -1;

    cluster_up(c, workers);
    cluster_variable(c, "dense", MODES_ELEMENTS);
    for (int w = 0; w < workers; w++) {
        must(stepgate_model_variable(c->model[w], "table", STEPGATE_SPARSE, STEPGATE_F32, 2, dims, &id));
        must(stepgate_model_variable_set(c->model[w], id, "rows_max", "8"));
        must(stepgate_model_set(c->model[w], "update", update));
        if (replicas != NULL)
            must(stepgate_model_set(c->model[w], "replicas_to_aggregate", replicas));
    }
    cluster_commit(c);
}

/* modes_contribute -- gradients of 1: k updates make every element -k. */
static void modes_contribute(struct cluster *c, int w)
{
    static const uint64_t indices[] = {99, 0};
    float rows[2 * MODES_WIDTH];

    for (int i = 0; i < 2 * MODES_WIDTH; i++)
        rows[i] = 1;
    for (int64_t until = cluster_now() + CLUSTER_MS; stepgate_buffer_is_idle(c->model[w], 0) == 0;)
        assert_true(cluster_now() < until);
    cluster_push(c, w, 0, 1);
    must(stepgate_step_push_rows(c->model[w], 1, indices, 2, rows));
    must(stepgate_step_finish(c->model[w], 1));
}

/* A worker that never reads, in a thread. */
struct modes_rabbit {
    struct cluster *c;
    int worker;
};

/* modes_run -- as fast as it can. */
static void *modes_run(void *context)
{
    struct modes_rabbit *rabbit = context;

    for (int k = 0; k < MODES_STEPS; k++) {
        must(stepgate_step_begin(rabbit->c->model[rabbit->worker], CLUSTER_MS, NULL));
        modes_contribute(rabbit->c, rabbit->worker);
    }
    return NULL;
}

/* modes_read -- reads until the step is reached; everything of one pull is of one step. Returns the copies that were repeated. */
static uint64_t modes_read(struct cluster *c, int w, uint64_t last)
{
    static const uint64_t indices[] = {0, 1, 99, 0};
    struct stepgate_job_stats stats = {.size = sizeof(stats)};
    float rows[4 * MODES_WIDTH];
    uint64_t step = 0, lowest = 0, highest = 0;
    const void *address = NULL, *first = NULL;

    while (step < last) {
        must(stepgate_step_begin(c->model[w], CLUSTER_MS, NULL));
        must(stepgate_step_pull(c->model[w], STEPGATE_ALL, CLUSTER_MS, &step));
        must(stepgate_step_pulled(c->model[w], 0, &lowest, &highest));
        assert_true(lowest == step && highest == step);
        must(stepgate_buffer_parameter(c->model[w], 0, &address)); /* once: each call is a system call, too */
        for (size_t i = 0; i < MODES_ELEMENTS; i++)
            if (((const float *)address)[i] != -(float)step)
                assert_float_equal(((const float *)address)[i], -(float)step, 0);
        first = first == NULL ? address : first;
        assert_ptr_equal(address, first);
        must(stepgate_step_pull_rows(c->model[w], 1, indices, 4, rows, CLUSTER_MS, &step));
        for (int i = 0; i < 4 * MODES_WIDTH; i++)
            assert_float_equal(rows[i], (i / MODES_WIDTH == 1 ? 0 : -(float)step), 0);
        modes_contribute(c, w);
    }
    must(stepgate_job_stats(c->job[w], &stats));
    assert_true(stats.bytes_pulled > 0);
    return stats.pull_retries;
}

/* modes_race -- one worker reads while another one makes steps. */
static void modes_race(const char *update)
{
    pthread_t thread;
    struct cluster c;

    modes_up(&c, 2, update, "1");
    struct modes_rabbit rabbit = {&c, 1};
    assert_int_equal(pthread_create(&thread, NULL, modes_run, &rabbit), 0);
    print_message("%s: %llu copies were repeated\n", update,
                  (unsigned long long)modes_read(&c, 0, MODES_STEPS));
    pthread_join(thread, NULL);
    cluster_clear(&c);
}

static void what_is_read_while_others_make_steps_is_whole(void **state)
{
    (void)state;
    modes_race("strict");
    modes_race("tf");
}

static void what_a_model_says_of_copies_is_true(void **state)
{
    static const char *const updates[] = {"strict", "tf", "async"};

    (void)state;
    for (int u = 0; u < 3; u++) {
        struct stepgate_model_info info = {.size = sizeof(info)};
        struct stepgate_job_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
        struct cluster c;
        cluster_up(&c, 1);
        cluster_variable(&c, "dense", MODES_ELEMENTS);
        must(stepgate_model_set(c.model[0], "update", updates[u]));
        must(stepgate_model_commit(c.model[0], CLUSTER_MS, &info));
        assert_int_equal(info.in_place, u == 0);
        assert_int_equal(info.copies_push, 0);
        assert_int_equal(info.copies_pull, u != 0);
        cluster_begin(&c);
        must(stepgate_job_stats(c.job[0], &before));
        assert_int_equal(before.bytes_copied, info.copies_pull * MODES_ELEMENTS * sizeof(float));
        cluster_push(&c, 0, 0, 1);
        cluster_finish(&c);
        must(stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
        must(stepgate_job_stats(c.job[0], &after));
        assert_int_equal(after.bytes_copied, before.bytes_copied);
        cluster_clear(&c);
    }
}

static void rows_are_handed_over_with_their_push(void **state)
{
    uint64_t indices[] = {5, 5};
    float rows[2 * MODES_WIDTH] = {1, 1, 1, 1, 2, 2, 2, 2};
    struct cluster c;

    (void)state;
    modes_up(&c, 1, "strict", NULL);
    must(stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    must(stepgate_step_pull(c.model[0], STEPGATE_ALL, CLUSTER_MS, NULL)); /* mapped in place: the table too */
    assert_float_equal(cluster_value(&c, 0, 1, 20), 0, 0);
    must(stepgate_step_push_rows(c.model[0], 1, indices, 2, rows));
    for (int i = 0; i < 2 * MODES_WIDTH; i++)
        rows[i] = 1000;
    indices[0] = indices[1] = 6;
    must(stepgate_step_absent(c.model[0], 0));
    must(stepgate_step_finish(c.model[0], 1));
    must(stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    must(stepgate_step_pull_rows(c.model[0], 1, indices, 1, rows, CLUSTER_MS, NULL));
    assert_float_equal(rows[0], 0, 0);
    indices[0] = 5;
    must(stepgate_step_pull_rows(c.model[0], 1, indices, 1, rows, CLUSTER_MS, NULL));
    assert_float_equal(rows[3], -3, 0);
    cluster_down(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_while_others_make_steps_is_whole),
        cmocka_unit_test(what_a_model_says_of_copies_is_true),
        cmocka_unit_test(rows_are_handed_over_with_their_push),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
