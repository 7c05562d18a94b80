/* SPDX-License-Identifier: BSD-3-Clause */
/* A job begins without a worker that comes late, under a rank that was not there before (start_workers), while ps with several lanes and the others go on in threads of theirs. */
#include "tests/unit/worker/api/crowd.h"

static const uint64_t sizes[] = {5000, 7, 300, 0};
static const char *const fails[] = {"start_workers", "2", "start_after", "200ms", NULL};
static const char *const waits[] = {"start_workers", "2",    "start_after", "200ms",
                                    "lost_worker",   "wait", NULL};
static const char *const shrinks[] = {"start_workers", "2",      "start_after", "200ms",
                                      "lost_worker",   "shrink", NULL};
static const char *const fewer[] = {"replicas_to_aggregate", "2", NULL};
static const char *const tf[] = {"update", "tf", NULL};

static atomic_ullong first, met; /* of the late worker: its first step, and how many it has begun */

/* look -- the parameters are what the step says. */
static int look(struct crowd_worker *w, uint64_t step)
{
    uint64_t read = step;
    const void *value = NULL;
    int status = stepgate_step_pull(w->model, 0, CROWD_MS, &read);

    if (w->rank == 2 && atomic_fetch_add(&met, 1) == 0)
        atomic_store(&first, step);
    if (status == 0)
        status = stepgate_buffer_parameter(w->model, 0, &value);
    for (uint64_t i = 0; status == 0 && i < sizes[0]; i += 97)
        status = ((const float *)value)[i] == -(float)read ? 0 : -1;
    return status;
}

/* run -- a worker trains, in a thread of its own. */
static void run(struct crowd *c, int r)
{
    assert_int_equal(pthread_create(&c->worker[r].thread, NULL, crowd_run_worker, &c->worker[r]), 0);
    c->worker[r].runs = true;
}

/* up -- two ps, and two workers of three. */
static void up(struct crowd *c, const char *const *knobs, const char *const *keys)
{
    crowd_serve(c, 3, 2, knobs);
    c->keys = keys;
    c->sizes = sizes;
    c->each = look;
    atomic_store(&c->steps, UINT64_MAX);
    atomic_store(&met, 0);
    for (int r = 0; r < 2; r++) {
        crowd_enter(c, r);
        run(c, r);
    }
}

/* come -- the third one, which then has some steps with the others. */
static void come(struct crowd *c)
{
    int64_t until = cluster_now() + CROWD_MS;

    crowd_enter(c, 2);
    run(c, 2);
    while (atomic_load(&met) < 5) {
        assert_true(cluster_now() < until);
        cluster_pause(1);
    }
    atomic_store(&c->steps, atomic_load(&c->reached) + 10);
    crowd_end(c);
}

static void the_others_begin_with_a_smaller_r(void **state)
{
    struct crowd c;

    (void)state;
    up(&c, shrinks, NULL);
    crowd_reach(&c, 20);
    come(&c);
    assert_true(atomic_load(&first) >= 20);
}

static void the_others_are_enough(void **state)
{
    struct crowd c;

    (void)state;
    up(&c, fails, fewer);
    crowd_reach(&c, 20);
    come(&c);
    assert_true(atomic_load(&first) >= 20);
}

static void the_others_wait_with_the_first_step(void **state)
{
    struct crowd c;

    (void)state;
    up(&c, waits, NULL);
    cluster_pause(600);
    assert_int_equal(atomic_load(&c.reached), 0);
    come(&c);
    assert_int_equal(atomic_load(&first), 0);
}

/* ended -- the job of the two that are there has failed, and each knows why. */
static void ended(struct crowd *c, int code, const char *word)
{
    for (int r = 0; r < 2; r++) {
        pthread_join(c->worker[r].thread, NULL);
        assert_int_equal(c->worker[r].status, -code);
        refused(code, word, stepgate_step_begin(c->worker[r].model, 0, NULL));
        stepgate_job_delete(&c->worker[r].job);
    }
    for (int s = 0; s < c->servers; s++) {
        void *status = NULL;
        pthread_join(c->thread[s], &status);
        assert_int_equal((int)(intptr_t)status, -code);
        stepgate_server_delete(&c->server[s]);
    }
}

static void a_step_that_needs_it_names_it(void **state)
{
    struct crowd c;

    (void)state;
    up(&c, fails, NULL);
    ended(&c, STEPGATE_ELOST, "worker 2 is missing: it had not come when the job began");
}

static void nobody_comes_late_in_other_modes(void **state)
{
    struct crowd c;

    (void)state;
    up(&c, fails, tf);
    ended(&c, STEPGATE_EINVAL, "a worker comes late in strict mode alone");
}

static void more_than_there_are_is_refused(void **state)
{
    static const char *const many[] = {"listen", "127.0.0.1:0", "start_workers", "4", NULL};
    struct crowd c = {.workers = 3, .hosts = "127.0.0.1:1"};
    struct stepgate_options *options = crowd_options(&c);
    struct stepgate_server *server = NULL;

    (void)state;
    for (int i = 0; many[i] != NULL; i += 2)
        must(stepgate_options_set(options, many[i], many[i + 1]));
    refused(STEPGATE_EINVAL, "start_workers is 4, and there are 3 workers",
            stepgate_server_new(options, &server));
    stepgate_options_delete(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_others_begin_with_a_smaller_r),
        cmocka_unit_test(the_others_are_enough),
        cmocka_unit_test(the_others_wait_with_the_first_step),
        cmocka_unit_test(a_step_that_needs_it_names_it),
        cmocka_unit_test(nobody_comes_late_in_other_modes),
        cmocka_unit_test(more_than_there_are_is_refused),
    };

    return crowd_main(tests);
}
