/* SPDX-License-Identifier: BSD-3-Clause */
/* A ps ends in mid-training and is started again: the job goes back to a checkpoint (lost_ps=rewind). */
#include <ftw.h>
#include <sys/stat.h>

#include "tests/unit/worker/api/crowd.h"

static const uint64_t sizes[] = {3000, 7, 0};
static const char *const rewinds[] = {"lost_ps", "rewind", NULL};

static char folder[] = "/tmp/stepgate-rewind-XXXXXX";
static const char *const server_knobs[] = {"lost_ps", "rewind", "checkpoint", folder, NULL};

/* sweep -- for nftw: whatever there is, its contents first. */
static int sweep(const char *path, const struct stat *at, int kind, struct FTW *where)
{
    (void)at;
    (void)kind;
    return where->level > 0 ? remove(path) : 0;
}

/* make_folder, remove_folder -- for all tests. */
static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}
static int remove_folder(void **state)
{
    (void)state;
    nftw(folder, sweep, 8, FTW_DEPTH | FTW_PHYS);
    return rmdir(folder);
}

/* up -- two ps and workers that train from the beginning, each with whatever is declared beside. */
static void up(struct crowd *c, int workers, void (*declare)(struct crowd_worker *w))
{
    nftw(folder, sweep, 8, FTW_DEPTH | FTW_PHYS);
    crowd_serve(c, workers, 2, server_knobs);
    c->knobs = rewinds;
    crowd_join(c, NULL, sizes);
    for (int r = 0; r < workers && declare != NULL; r++)
        declare(&c->worker[r]);
    crowd_commit(c);
}

/* stop -- ps s ends; the job is lost. */
static void stop(struct crowd *c, int s)
{
    void *status = NULL;

    stepgate_server_stop(c->server[s]);
    pthread_join(c->thread[s], &status);
    assert_int_equal((int)(intptr_t)status, 0);
    stepgate_server_delete(&c->server[s]);
}

/* start -- it is started again. */
static void start(struct crowd *c, int s)
{
    crowd_listen(c, s, server_knobs);
    assert_int_equal(pthread_create(&c->thread[s], NULL, crowd_run_server, c->server[s]), 0);
}

/* noticed -- waits until a worker knows that the job goes back. */
static void noticed(struct crowd_worker *w)
{
    int64_t until = cluster_now() + CROWD_MS;
    int status;

    while ((status = stepgate_job_progress(w->job)) == 0) {
        assert_true(cluster_now() < until);
        cluster_pause(1);
    }
    assert_int_equal(status, -STEPGATE_EREWOUND);
}

/* begin -- of all workers in turn, with 0 ms each; they are let into `step`. */
static void begin(struct crowd *c, uint64_t step, int rewound)
{
    int64_t until = cluster_now() + CROWD_MS;
    bool done[CLUSTER_WORKERS_MAX] = {false};

    for (int left = c->workers; left > 0; cluster_pause(left > 0 ? 1 : 0)) {
        for (int r = 0; r < c->workers; r++) {
            struct stepgate_step_info info = {.size = sizeof(info), .rewound = -1};
            int status = done[r] ? 0 : stepgate_step_begin(c->worker[r].model, 0, &info);
            if (done[r] || status == -STEPGATE_EAGAIN)
                continue;
            must(status);
            assert_int_equal(info.step, step);
            assert_int_equal(info.rewound, rewound);
            done[r] = true;
            left--;
        }
        assert_true(cluster_now() < until);
    }
}

/* finish -- everybody contributes ones to the step that is open. */
static void finish(struct crowd *c)
{
    for (int r = 0; r < c->workers; r++) {
        must(crowd_ones(&c->worker[r]));
        must(stepgate_step_finish(c->worker[r].model, 1));
    }
}

/* values -- of the open step are all -step. */
static void values(struct crowd *c, uint64_t step)
{
    const void *value = NULL;

    for (int r = 0; r < c->workers; r++) {
        must(stepgate_step_pull(c->worker[r].model, STEPGATE_ALL, CROWD_MS, NULL));
        for (int v = 0; sizes[v] > 0; v++) {
            must(stepgate_buffer_parameter(c->worker[r].model, v, &value));
            crowd_same(value, sizes[v], -(float)step);
        }
    }
}

/* down -- everybody leaves, and both ps say that the job went well. */
static void down(struct crowd *c)
{
    crowd_leave(c);
    crowd_end(c);
}

static void whichever_ps_ends_comes_back_and_training_goes_on(void **state)
{
    char before[STEPGATE_ADDRESS_BYTES], after[STEPGATE_ADDRESS_BYTES];
    struct crowd c;
    uint64_t k = 0;

    (void)state;
    up(&c, 2, NULL);
    for (int s = 0; s < 2; s++) {
        must(stepgate_server_address(c.server[1 - s], before, sizeof(before)));
        for (uint64_t end = k + 3; k < end; k++) {
            begin(&c, k, 0);
            finish(&c);
        }
        begin(&c, k, 0);
        must(crowd_ones(&c.worker[0]));
        stop(&c, s);
        noticed(&c.worker[0]);
        noticed(&c.worker[1]);
        start(&c, s);
        begin(&c, k, 1);
        values(&c, k);
        finish(&c);
        k++;
        must(stepgate_server_address(c.server[1 - s], after, sizeof(after)));
        assert_string_equal(before, after);
    }
    begin(&c, k, 0);
    values(&c, k);
    down(&c);
}

static void every_call_but_begin_says_that_the_job_goes_back(void **state)
{
    struct stepgate_error error = {.size = sizeof(error)};
    struct stepgate_contributions counts = {.size = sizeof(counts)};
    struct stepgate_model *other = NULL;
    static float copy[3000];
    void *out = copy, *gradient = NULL;
    const void *value = NULL;
    const int id = 0;
    uint64_t step;
    struct crowd c;

    (void)state;
    up(&c, 1, NULL);
    struct crowd_worker *w = &c.worker[0];
    begin(&c, 0, 0);
    finish(&c);
    begin(&c, 1, 0);
    values(&c, 1);
    stop(&c, 1);
    noticed(w);
    refused(STEPGATE_EREWOUND, "ps 1 was stopped",
            stepgate_step_pull(w->model, STEPGATE_ALL, CROWD_MS, NULL));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_step_pulled(w->model, 0, &step, NULL));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_step_push(w->model, 0));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_step_absent(w->model, 0));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_step_finish(w->model, 1));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_step_abandon(w->model));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_buffer_gradient(w->model, 0, &gradient));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_buffer_parameter(w->model, 0, &value));
    refused(STEPGATE_EREWOUND, "ps 1",
            stepgate_buffer_attach(w->model, 0, STEPGATE_USE_PARAMETER, copy, sizeof(copy)));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_buffer_is_idle(w->model, 0));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_model_tune(w->model, "learning_rate", "2", 5));
    refused(STEPGATE_EREWOUND, "ps 1",
            stepgate_model_snapshot(w->model, STEPGATE_SNAPSHOT_PARAMETERS, &id, 1, &out, CROWD_MS, NULL));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_checkpoint(w->model, CROWD_MS, NULL));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_model_contributions(w->model, 0, CROWD_MS, &counts));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_job_barrier(w->job, CROWD_MS));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_job_leave(w->job, CROWD_MS));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_model_new(w->job, "other", &other));
    stepgate_error_last(&error);
    assert_non_null(strstr(error.remedy, "stepgate_step_begin"));
    assert_int_equal(error.role, STEPGATE_ROLE_PS);
    assert_int_equal(error.rank, 1);
    assert_int_equal(stepgate_error_class(-STEPGATE_EREWOUND), STEPGATE_CLASS_OPERATION);
    assert_int_equal(stepgate_job_error(w->job, &error), 0); /* nothing has failed for good */
    stepgate_job_interrupt(w->job);
    refused(STEPGATE_EINTR, "interrupted", stepgate_step_begin(w->model, CROWD_MS, NULL));
    refused(STEPGATE_ETIMEOUT, "", stepgate_step_begin(w->model, 50, NULL));
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_step_push(w->model, 0)); /* begin is not done */
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_job_barrier(w->job, CROWD_MS));
    start(&c, 1);
    begin(&c, 1, 1);
    values(&c, 1);
    must(stepgate_job_barrier(w->job, CROWD_MS));
    down(&c);
}

static void an_event_loop_is_told_when_to_go_on(void **state)
{
    struct stepgate_step_info info = {.size = sizeof(info)};
    struct crowd c;
    int status;

    (void)state;
    up(&c, 1, NULL);
    begin(&c, 0, 0);
    stop(&c, 1);
    noticed(&c.worker[0]);
    start(&c, 1);
    struct pollfd fd = {.fd = stepgate_job_fd(c.worker[0].job), .events = POLLIN};
    while ((status = stepgate_step_begin(c.worker[0].model, 0, &info)) == -STEPGATE_EAGAIN)
        assert_int_equal(poll(&fd, 1, CROWD_MS), 1);
    must(status);
    assert_int_equal(info.rewound, 1);
    down(&c);
}

/* come -- one more try of a process that is new as worker 1: 0 once it is in its first step. */
static int come(struct crowd *c, const struct stepgate_options *options, struct stepgate_model_info *info)
{
    struct crowd_worker *w = &c->worker[1];
    int status = w->model == NULL ? stepgate_job_join(options, 0, &w->job) : 0;

    if (status == 0 && w->model == NULL)
        status = crowd_declare(w);
    if (status == 0 && info->bytes == 0)
        status = stepgate_model_commit(w->model, 0, info);
    return status == 0 ? stepgate_step_begin(w->model, 0, NULL) : status;
}

static void a_worker_that_is_new_meanwhile_goes_on_with_the_others(void **state)
{
    struct stepgate_model_info info = {.size = sizeof(info)};
    struct stepgate_options *options;
    struct crowd c;
    int64_t until = cluster_now() + CROWD_MS;
    int old = -STEPGATE_EAGAIN, fresh = -STEPGATE_EAGAIN;

    (void)state;
    up(&c, 2, NULL);
    begin(&c, 0, 0);
    finish(&c);
    begin(&c, 1, 0);
    options = crowd_options(&c);
    must(stepgate_options_set(options, "task_index", "1"));
    must(stepgate_options_set(options, "lost_ps", "rewind"));
    stop(&c, 1);
    noticed(&c.worker[0]);
    noticed(&c.worker[1]);
    stepgate_job_delete(&c.worker[1].job);
    c.worker[1].model = NULL;
    start(&c, 1);
    while (old == -STEPGATE_EAGAIN || fresh == -STEPGATE_EAGAIN) {
        if (old == -STEPGATE_EAGAIN)
            old = stepgate_step_begin(c.worker[0].model, 0, NULL);
        if (fresh == -STEPGATE_EAGAIN)
            fresh = come(&c, options, &info);
        assert_true(cluster_now() < until);
        cluster_pause(1);
    }
    must(old);
    must(fresh);
    assert_int_equal(info.restored, 1);
    values(&c, 1);
    finish(&c);
    begin(&c, 2, 0);
    values(&c, 2);
    stepgate_options_delete(&options);
    down(&c);
}

/* declare_aux -- a value of the worker's own, which begins at 7. */
static void declare_aux(struct crowd_worker *w)
{
    const uint64_t elements = 2;
    const float seven[] = {7, 7};
    int id;

    must(stepgate_model_variable(w->model, "mine", STEPGATE_AUX, STEPGATE_F32, 1, &elements, &id));
    must(stepgate_model_initialize(w->model, id, seven, sizeof(seven)));
}

static void attached_buffers_own_values_and_tunes_stay(void **state)
{
    static float gradient[3000], parameter[3000];
    struct stepgate_job_stats stats = {.size = sizeof(stats)};
    const void *value = NULL;
    struct crowd c;

    (void)state;
    up(&c, 1, declare_aux);
    struct stepgate_model *m = c.worker[0].model;
    must(stepgate_buffer_attach(m, 0, STEPGATE_USE_GRADIENT, gradient, sizeof(gradient)));
    must(stepgate_buffer_attach(m, 0, STEPGATE_USE_PARAMETER, parameter, sizeof(parameter)));
    must(stepgate_model_tune(m, "learning_rate", "0.5", 1));
    begin(&c, 0, 0);
    must(crowd_ones(&c.worker[0]));
    must(stepgate_step_absent(m, 2));
    must(stepgate_step_finish(m, 1));
    begin(&c, 1, 0);
    stop(&c, 0);
    noticed(&c.worker[0]);
    start(&c, 0);
    begin(&c, 1, 1);
    must(stepgate_step_pull(m, STEPGATE_ALL, CROWD_MS, NULL));
    must(stepgate_buffer_parameter(m, 0, &value));
    assert_ptr_equal(value, parameter);
    crowd_same(parameter, 3000, -1);
    must(stepgate_step_pull(m, 2, CROWD_MS, NULL));
    must(stepgate_buffer_parameter(m, 2, &value));
    assert_true(((const float *)value)[0] == 7 && ((const float *)value)[1] == 7);
    must(crowd_ones(&c.worker[0]));
    must(stepgate_step_absent(m, 2));
    must(stepgate_step_finish(m, 1));
    begin(&c, 2, 0);
    must(stepgate_step_pull(m, 0, CROWD_MS, NULL));
    crowd_same(parameter, 3000, -1.5F);
    must(stepgate_job_stats(c.worker[0].job, &stats));
    assert_int_equal(stats.steps, 4); /* those before count, too */
    down(&c);
}

static void two_models_go_back_together_and_each_is_told(void **state)
{
    const uint64_t elements = 50;
    struct stepgate_step_info info = {.size = sizeof(info)};
    struct stepgate_model *other = NULL;
    void *old = NULL, *fresh = NULL;
    struct crowd c;
    int id;

    (void)state;
    up(&c, 1, NULL);
    must(stepgate_model_new(c.worker[0].job, "n", &other));
    must(stepgate_model_variable(other, "v", STEPGATE_TRAINED, STEPGATE_F32, 1, &elements, &id));
    must(stepgate_model_set(other, "learning_rate", "1"));
    must(stepgate_model_commit(other, CROWD_MS, NULL));
    begin(&c, 0, 0);
    finish(&c);
    begin(&c, 1, 0);
    must(stepgate_step_begin(other, CROWD_MS, NULL));
    must(stepgate_buffer_gradient(other, id, &old));
    stop(&c, 1);
    noticed(&c.worker[0]);
    start(&c, 1);
    begin(&c, 1, 1);
    memset(old, 0, elements * sizeof(float)); /* whoever computes on it has not been told yet */
    refused(STEPGATE_EREWOUND, "ps 1", stepgate_step_push(other, id));
    must(stepgate_step_begin(other, CROWD_MS, &info));
    assert_int_equal(info.rewound, 1);
    assert_int_equal(info.step, 0);
    must(stepgate_buffer_gradient(other, id, &fresh));
    for (uint64_t i = 0; i < elements; i++)
        ((float *)fresh)[i] = 1;
    must(stepgate_step_push(other, id));
    must(stepgate_step_finish(other, 1));
    must(stepgate_step_begin(other, CROWD_MS, &info));
    assert_int_equal(info.rewound, 0);
    assert_int_equal(info.step, 1);
    down(&c);
}

static void who_does_not_come_back_is_named_with_the_cause(void **state)
{
    static const char *const soon[] = {"lost_ps", "rewind", "join_timeout", "1s", "checkpoint", folder, NULL};
    static const char *const worker_knobs[] = {"lost_ps", "rewind", "join_timeout", "1s", NULL};
    struct stepgate_error error = {.size = sizeof(error)};
    struct crowd c;
    void *status = NULL;

    (void)state;
    nftw(folder, sweep, 8, FTW_DEPTH | FTW_PHYS);
    crowd_serve(&c, 1, 2, soon);
    c.knobs = worker_knobs;
    crowd_join(&c, NULL, sizes);
    crowd_commit(&c);
    begin(&c, 0, 0);
    stop(&c, 1);
    refused(STEPGATE_EJOIN, "ps 1 was stopped; going back to a checkpoint failed: ",
            stepgate_step_begin(c.worker[0].model, -1, NULL));
    assert_int_equal(stepgate_job_error(c.worker[0].job, &error), -STEPGATE_EJOIN);
    refused(STEPGATE_EJOIN, "missing: ps 1", stepgate_step_pull(c.worker[0].model, 0, 0, NULL));
    stepgate_job_delete(&c.worker[0].job);
    pthread_join(c.thread[0], &status);
    assert_int_equal((int)(intptr_t)status, -STEPGATE_EJOIN);
    stepgate_server_delete(&c.server[0]);
}

/* ended -- the job has failed for good, also for ps s. */
static void ended(struct crowd *c, int s, int code)
{
    void *status = NULL;

    pthread_join(c->thread[s], &status);
    assert_int_equal((int)(intptr_t)status, -code);
    stepgate_server_delete(&c->server[s]);
}

static void a_ps_that_is_lost_again_and_again_ends_the_job(void **state)
{
    struct crowd c;

    (void)state;
    up(&c, 1, NULL);
    begin(&c, 0, 0);
    for (int times = 0; times < 3; times++) {
        stop(&c, 1);
        noticed(&c.worker[0]);
        start(&c, 1);
        begin(&c, 0, 1);
    }
    stop(&c, 1);
    noticed(&c.worker[0]);
    refused(STEPGATE_ELOST, "3 times in a row, without a step",
            stepgate_step_begin(c.worker[0].model, CROWD_MS, NULL));
    refused(STEPGATE_ELOST, "3 times in a row, without a step",
            stepgate_step_pull(c.worker[0].model, 0, 0, NULL));
    ended(&c, 0, STEPGATE_ELOST);
    stepgate_job_delete(&c.worker[0].job);
}

static void without_what_was_trained_nobody_begins_anew(void **state)
{
    char model[64];
    struct crowd c;

    (void)state;
    up(&c, 1, NULL);
    begin(&c, 0, 0);
    finish(&c);
    begin(&c, 1, 0);
    stop(&c, 0);
    noticed(&c.worker[0]);
    snprintf(model, sizeof(model), "%s/m", folder); /* the folder itself is in use */
    nftw(model, sweep, 8, FTW_DEPTH | FTW_PHYS);
    start(&c, 0);
    refused(STEPGATE_ELOST, "there was no checkpoint of model m",
            stepgate_step_begin(c.worker[0].model, CROWD_MS, NULL));
    ended(&c, 0, STEPGATE_ELOST);
    ended(&c, 1, STEPGATE_ELOST);
    stepgate_job_delete(&c.worker[0].job);
}

/* lost -- ps 1 ends and comes again; worker r knows by then. */
static void lost(struct crowd *c, int r)
{
    int64_t until = cluster_now() + CROWD_MS;

    stop(c, 1);
    while (stepgate_job_progress(c->worker[r].job) == 0) {
        assert_true(cluster_now() < until);
        cluster_pause(1);
    }
    start(c, 1);
}

/* first -- worker 0 gives the first value of variable 0. */
static void first(struct crowd *c, float value)
{
    static float values[3000];

    for (int i = 0; i < 3000; i++)
        values[i] = value;
    must(stepgate_model_initialize(c->worker[0].model, 0, values, sizeof(values)));
}

static void before_anything_is_trained_what_was_declared_stays(void **state)
{
    const void *value = NULL;
    struct crowd c;

    (void)state;
    for (int begun = 0; begun < 2; begun++) {
        nftw(folder, sweep, 8, FTW_DEPTH | FTW_PHYS);
        crowd_serve(&c, 2, 2, server_knobs);
        c.knobs = rewinds;
        c.sizes = sizes;
        crowd_enter(&c, 0);
        first(&c, 5);
        crowd_enter(&c, 1);
        if (begun) /* one of them has begun to commit, and has given its values away */
            assert_int_equal(stepgate_model_commit(c.worker[0].model, 100, NULL), -STEPGATE_ETIMEOUT);
        lost(&c, 0);
        must(stepgate_model_set(c.worker[1].model, "learning_rate", "1"));
        if (!begun)
            first(&c, 7);
        crowd_commit(&c);
        begin(&c, 0, 0);
        for (int r = 0; r < 2; r++) {
            must(stepgate_step_pull(c.worker[r].model, STEPGATE_ALL, CROWD_MS, NULL));
            must(stepgate_buffer_parameter(c.worker[r].model, 0, &value));
            crowd_same(value, sizes[0], begun ? 5 : 7);
        }
        finish(&c);
        begin(&c, 1, 0);
        down(&c);
    }
}

static void before_anything_is_trained_the_job_begins_as_it_came(void **state)
{
    struct crowd c;

    (void)state;
    nftw(folder, sweep, 8, FTW_DEPTH | FTW_PHYS);
    crowd_serve(&c, 2, 2, server_knobs);
    c.knobs = rewinds;
    c.sizes = sizes;
    crowd_enter(&c, 1); /* worker 0 comes later: nobody has committed */
    lost(&c, 1);
    crowd_enter(&c, 0);
    crowd_commit(&c);
    for (uint64_t k = 0; k < 3; k++) {
        begin(&c, k, 0);
        values(&c, k);
        finish(&c);
    }
    begin(&c, 3, 0);
    down(&c);
}

static void a_ps_that_waits_for_another_one_can_be_stopped(void **state)
{
    struct crowd c;

    (void)state;
    up(&c, 1, NULL);
    begin(&c, 0, 0);
    stop(&c, 1);
    noticed(&c.worker[0]);
    assert_int_equal(stepgate_step_begin(c.worker[0].model, 0, NULL), -STEPGATE_EAGAIN);
    stepgate_job_delete(&c.worker[0].job); /* in the middle of it */
    stop(&c, 0);
}

static void without_a_checkpoint_to_go_back_to_it_is_refused_at_the_start(void **state)
{
    static const char *const none[] = {"listen", "127.0.0.1:0", "lost_ps", "rewind", NULL};
    struct crowd c = {.workers = 1, .hosts = "127.0.0.1:1"};
    struct stepgate_error error = {.size = sizeof(error)};
    struct stepgate_options *options = crowd_options(&c);
    struct stepgate_server *server = NULL;

    (void)state;
    for (int i = 0; none[i] != NULL; i += 2)
        must(stepgate_options_set(options, none[i], none[i + 1]));
    refused(STEPGATE_EINVAL, "no checkpoints to go back to", stepgate_server_new(options, &server));
    stepgate_error_last(&error);
    assert_non_null(strstr(error.remedy, "--checkpoint"));
    must(stepgate_options_set(options, "checkpoint", folder));
    must(stepgate_options_set(options, "record_sets", "/tmp/never-made"));
    refused(STEPGATE_EINVAL, "record of sets", stepgate_server_new(options, &server));
    stepgate_options_delete(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whichever_ps_ends_comes_back_and_training_goes_on),
        cmocka_unit_test(every_call_but_begin_says_that_the_job_goes_back),
        cmocka_unit_test(an_event_loop_is_told_when_to_go_on),
        cmocka_unit_test(a_worker_that_is_new_meanwhile_goes_on_with_the_others),
        cmocka_unit_test(attached_buffers_own_values_and_tunes_stay),
        cmocka_unit_test(two_models_go_back_together_and_each_is_told),
        cmocka_unit_test(who_does_not_come_back_is_named_with_the_cause),
        cmocka_unit_test(a_ps_that_is_lost_again_and_again_ends_the_job),
        cmocka_unit_test(without_what_was_trained_nobody_begins_anew),
        cmocka_unit_test(before_anything_is_trained_the_job_begins_as_it_came),
        cmocka_unit_test(before_anything_is_trained_what_was_declared_stays),
        cmocka_unit_test(a_ps_that_waits_for_another_one_can_be_stopped),
        cmocka_unit_test(without_a_checkpoint_to_go_back_to_it_is_refused_at_the_start),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
