/* SPDX-License-Identifier: BSD-3-Clause */
/* Hyper-parameters that change while a model trains, and what became of contributions. */
#include <math.h>

#include "tests/unit/worker/api/crowd.h"

static const uint64_t small[] = {1000, 7, 0};

/* train_step -- one step of all workers, by hand, with gradients of 1; worker 0 tunes in it if there is something. */
static void train_step(struct crowd *c, const char *key, const char *value, uint64_t from)
{
    for (int r = 0; r < c->workers; r++)
        must(stepgate_step_begin(c->worker[r].model, CROWD_MS, NULL));
    if (key != NULL)
        must(stepgate_model_tune(c->worker[0].model, key, value, from));
    for (int r = 0; r < c->workers; r++) {
        must(crowd_ones(&c->worker[r]));
        must(stepgate_step_finish(c->worker[r].model, 1));
    }
}

/* expect -- begins the next step everywhere, and looks at both variables. The step is left without a contribution. */
static void expect(struct crowd *c, float value)
{
    const void *values = NULL;

    for (int r = 0; r < c->workers; r++) {
        must(stepgate_step_begin(c->worker[r].model, CROWD_MS, NULL));
        must(stepgate_step_pull(c->worker[r].model, STEPGATE_ALL, CROWD_MS, NULL));
        for (int v = 0; c->sizes[v] > 0; v++) {
            must(stepgate_buffer_parameter(c->worker[r].model, v, &values));
            crowd_same(values, c->sizes[v], value);
        }
    }
    for (int r = 0; r < c->workers; r++)
        must(stepgate_step_abandon(c->worker[r].model));
}

/* close_job -- everybody knows what became of its last contribution, and leaves. */
static void close_job(struct crowd *c)
{
    for (int r = 0; r < c->workers; r++)
        must(stepgate_step_begin(c->worker[r].model, CROWD_MS, NULL));
    crowd_leave(c);
    crowd_end(c);
}

static void a_rate_holds_from_the_step_it_was_set_for(void **state)
{
    struct crowd c;

    (void)state;
    for (int servers = 1; servers <= 2; servers++) {
        crowd_serve(&c, 2, servers, NULL);
        crowd_join(&c, NULL, small);
        crowd_commit(&c);
        train_step(&c, "learning_rate", "2", 0); /* step 0: in time, worker 0 has not finished it */
        expect(&c, -2);                          /* step 1 */
        train_step(&c, "learning_rate", "16", 5);
        expect(&c, -4); /* step 3 */
        train_step(&c, NULL, NULL, 0);
        expect(&c, -6); /* step 5: nobody contributes, the rate has changed */
        train_step(&c, NULL, NULL, 0);
        expect(&c, -22);
        train_step(&c, "learning_rate", "1",
                   3); /* step 8: long gone, so it holds from the next that is decided */
        expect(&c, -23);
        train_step(&c, "learning_rate", "0.5", 10); /* of two for one step the last one counts */
        must(stepgate_model_tune(c.worker[0].model, "learning_rate", "32", 12));
        must(stepgate_model_tune(c.worker[0].model, "learning_rate", "64", 12));
        expect(&c, -23.5f); /* step 11 */
        train_step(&c, NULL, NULL, 0);
        expect(&c, -87.5f);
        close_job(&c);
    }
}

static void a_schedule_goes_on_from_the_new_rate(void **state)
{
    static const char *const keys[] = {"learning_rate", "8", "learning_rate_steps", "8", NULL};
    struct crowd c;

    (void)state;
    crowd_serve(&c, 1, 2, NULL);
    crowd_join(&c, keys, small);
    crowd_commit(&c);
    train_step(&c, NULL, NULL, 0);
    expect(&c, -8);
    train_step(&c, "learning_rate", "16", 2);
    expect(&c, -8 - 16 * 0.75f);
    close_job(&c);
}

static void every_optimizers_numbers_can_change(void **state)
{
    static const char *const keys[] = {"optimizer",        "momentum", "momentum", "0.5",
                                       "clip_global_norm", "1000",     NULL};
    struct crowd c;
    float slot = 0, value = 0;

    (void)state;
    crowd_serve(&c, 2, 2, NULL);
    crowd_join(&c, keys, (const uint64_t[]){8, 8, 0}); /* 16 ones: a norm of 4 */
    crowd_commit(&c);
    train_step(&c, NULL, NULL, 0);
    slot = slot * 0.5f + 1;
    value -= slot;
    expect(&c, value);
    train_step(&c, "momentum", "0.25", 2);
    slot = slot * 0.25f + 1;
    value -= slot;
    expect(&c, value);
    train_step(&c, "clip_global_norm", "2", 4);
    slot = slot * 0.25f + 0.5f;
    value -= slot;
    expect(&c, value);
    close_job(&c);
}

/* tune_clip -- worker 0 changes the clip in every step. */
static int tune_clip(struct crowd_worker *w, uint64_t step)
{
    return w->rank != 0 ? 0
                        : stepgate_model_tune(w->model, "clip_norm", step % 2 == 0 ? "1000" : "2",
                                              step % 3 == 0 ? 0 : step + 1);
}

static void every_ps_changes_at_the_same_step(void **state)
{
    static const char *const strict[] = {"replicas_to_aggregate", "2", "clip_norm", "1000", NULL};
    static const char *const tf[] = {"update", "tf", "replicas_to_aggregate", "2", "clip_norm", "1000", NULL};
    static const uint64_t two[] = {8, 8, 0}; /* one on each ps; a norm of 4 */
    struct crowd c;

    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        crowd_serve(&c, 3, 2, NULL);
        c.each = tune_clip;
        crowd_join(&c, mode == 0 ? strict : tf, two);
        struct stepgate_job *job = crowd_observer(&c);
        atomic_store(&c.held, 400 / CROWD_SCALE);
        crowd_start(&c, UINT64_MAX);
        struct stepgate_model *model = crowd_attach(job);
        for (uint64_t step = 0; step < 400 / CROWD_SCALE;) {
            const void *first = NULL, *second = NULL;
            must(stepgate_step_pull(model, STEPGATE_ALL, CROWD_MS, &step));
            must(stepgate_buffer_parameter(model, 0, &first));
            must(stepgate_buffer_parameter(model, 1, &second));
            assert_memory_equal(first, second, 8 * sizeof(float));
        }
        stepgate_job_delete(&job);
        crowd_stop(&c);
    }
}

static void what_cannot_change_is_refused(void **state)
{
    struct stepgate_model *early = NULL;
    struct crowd c;

    (void)state;
    crowd_serve(&c, 2, 1, NULL);
    crowd_join(&c, NULL, small);
    refused(STEPGATE_ESTATE, "commit", stepgate_model_tune(c.worker[0].model, "learning_rate", "2", 0));
    crowd_commit(&c);
    struct stepgate_model *model = c.worker[0].model;
    refused(STEPGATE_ESTATE, "worker 1", stepgate_model_tune(c.worker[1].model, "learning_rate", "2", 0));
    refused(STEPGATE_ENOENT, "speed", stepgate_model_tune(model, "speed", "2", 0));
    refused(STEPGATE_EINVAL, "learning_rate", stepgate_model_tune(model, "learning_rate", "fast", 0));
    refused(STEPGATE_EINVAL, "optimizer", stepgate_model_tune(model, "optimizer", "adam", 0));
    refused(STEPGATE_EINVAL, "momentum", stepgate_model_tune(model, "momentum", "0.5", 0)); /* sgd has none */
    refused(STEPGATE_EINVAL, "clip_norm",
            stepgate_model_tune(model, "clip_norm", "5", 0)); /* off at commit */
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_tune(model, NULL, "5", 0));
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_tune(early, "learning_rate", "5", 0));
    train_step(&c, NULL, NULL, 0);
    expect(&c, -1); /* nothing of it has changed anything */
    close_job(&c);
}

/* expect_counts -- what the ps say of a worker's contributions. */
static void expect_counts(struct stepgate_model *model, int rank, uint64_t accepted, uint64_t stale,
                          uint64_t non_finite, uint64_t empty)
{
    struct stepgate_contributions counts = {.size = sizeof(counts)};

    must(stepgate_model_contributions(model, rank, CROWD_MS, &counts));
    assert_int_equal(counts.accepted, accepted);
    assert_int_equal(counts.stale, stale);
    assert_int_equal(counts.non_finite, non_finite);
    assert_int_equal(counts.empty, empty);
}

static void a_contribution_that_comes_too_late_is_counted_as_stale(void **state)
{
    static const char *const keys[] = {"replicas_to_aggregate", "1", NULL};
    struct crowd c;

    (void)state;
    crowd_serve(&c, 2, 2, NULL);
    crowd_join(&c, keys, small);
    crowd_commit(&c);
    struct stepgate_model *model = c.worker[0].model, *other = c.worker[1].model;
    must(stepgate_step_begin(other, CROWD_MS, NULL)); /* step 0, of which it will be too late */
    for (int step = 0; step < 3; step++) {
        must(stepgate_step_begin(model, CROWD_MS, NULL));
        must(crowd_ones(&c.worker[0]));
        must(stepgate_step_finish(model, 1));
    }
    must(stepgate_step_begin(model, CROWD_MS, NULL));
    expect_counts(model, 0, 3, 0, 0, 0);
    must(crowd_ones(&c.worker[1]));
    must(stepgate_step_finish(other, 1));
    must(stepgate_step_begin(other, CROWD_MS, NULL));
    expect_counts(model, 1, 0, 1, 0, 0);
    crowd_leave(&c);
    crowd_end(&c);
}

static void contributions_are_counted_by_what_became_of_them(void **state)
{
    static const char *const keys[] = {"non_finite", "drop", NULL};
    struct stepgate_contributions counts = {.size = sizeof(counts)};
    struct crowd c;
    void *gradient = NULL;

    (void)state;
    crowd_serve(&c, 2, 2, NULL);
    crowd_join(&c, keys, small);
    crowd_commit(&c);
    for (int step = 0; step < 5; step++) {
        for (int r = 0; r < 2; r++) {
            must(stepgate_step_begin(c.worker[r].model, CROWD_MS, NULL));
            must(crowd_ones(&c.worker[r]));
        }
        must(stepgate_step_finish(c.worker[0].model, 1));
        must(step < 2 ? stepgate_step_abandon(c.worker[1].model)
                      : stepgate_step_finish(c.worker[1].model, 1));
    }
    for (int r = 0; r < 2; r++)
        must(stepgate_step_begin(c.worker[r].model, CROWD_MS, NULL));
    must(stepgate_step_pull(c.worker[1].model, STEPGATE_ALL, CROWD_MS,
                            NULL)); /* the buffer is free from here on */
    must(stepgate_buffer_gradient(c.worker[1].model, 1, &gradient));
    ((float *)gradient)[3] = NAN;
    for (int r = 0; r < 2; r++) {
        must(crowd_ones(&c.worker[r]));
        must(stepgate_step_finish(c.worker[r].model, 1));
    }
    for (int r = 0; r < 2; r++)
        must(stepgate_step_begin(c.worker[r].model, CROWD_MS, NULL));
    expect_counts(c.worker[1].model, 0, 6, 0, 0, 0);
    struct stepgate_job *job = crowd_observer(&c);
    struct stepgate_model *observer = crowd_attach(job);
    expect_counts(observer, 1, 3, 0, 1, 2);
    int status = -STEPGATE_EAGAIN; /* without waiting, and about one after the other */
    stepgate_model_contributions(observer, 0, 0, &counts);
    for (int64_t until = cluster_now() + CROWD_MS; status == -STEPGATE_EAGAIN && cluster_now() < until;)
        status = stepgate_model_contributions(observer, 1, 0, &counts);
    must(status);
    assert_int_equal(counts.non_finite, 1);
    refused(STEPGATE_EINVAL, "2", stepgate_model_contributions(observer, 2, 0, &counts));
    refused(STEPGATE_EINVAL, "-1", stepgate_model_contributions(observer, -1, 0, &counts));
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_contributions(observer, 0, 0, NULL));
    counts.size = 8;
    refused(STEPGATE_EINVAL, "size", stepgate_model_contributions(observer, 0, 0, &counts));
    stepgate_job_delete(&job);
    crowd_leave(&c);
    crowd_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_holds_from_the_step_it_was_set_for),
        cmocka_unit_test(a_schedule_goes_on_from_the_new_rate),
        cmocka_unit_test(every_optimizers_numbers_can_change),
        cmocka_unit_test(every_ps_changes_at_the_same_step),
        cmocka_unit_test(what_cannot_change_is_refused),
        cmocka_unit_test(a_contribution_that_comes_too_late_is_counted_as_stale),
        cmocka_unit_test(contributions_are_counted_by_what_became_of_them),
    };

    return crowd_main(tests);
}
