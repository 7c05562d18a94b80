/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker asks for a checkpoint; the next job goes on from it. */
#include <ftw.h>
#include <sys/stat.h>

#include "tests/unit/worker/api/crowd.h"

static const uint64_t sizes[] = {3000, 7, 0};

/* train -- one step of all workers, by hand; the one that they are in must be `step`. */
static void train(struct crowd *c, uint64_t step)
{
    struct stepgate_step_info info = {.size = sizeof(info)};

    for (int r = 0; r < c->workers; r++) {
        must(stepgate_step_begin(c->worker[r].model, CROWD_MS, &info));
        assert_int_equal(info.step, step);
    }
    for (int r = 0; r < c->workers; r++) {
        must(crowd_ones(&c->worker[r]));
        must(stepgate_step_finish(c->worker[r].model, 1));
    }
}

/* close_job -- in step k all parameters are -k; then everybody leaves. */
static void close_job(struct crowd *c, uint64_t step)
{
    struct stepgate_step_info info = {.size = sizeof(info)};
    const void *values = NULL;

    for (int r = 0; r < c->workers; r++) {
        must(stepgate_step_begin(c->worker[r].model, CROWD_MS, &info));
        assert_int_equal(info.step, step);
        must(stepgate_step_pull(c->worker[r].model, STEPGATE_ALL, CROWD_MS, NULL));
        for (int v = 0; sizes[v] > 0; v++) {
            must(stepgate_buffer_parameter(c->worker[r].model, v, &values));
            crowd_same(values, sizes[v], -(float)step);
        }
    }
    crowd_leave(c);
    crowd_end(c);
}

/* commit -- of all workers in turn; each is told the same. */
static void commit(struct crowd *c, struct stepgate_model_info *info)
{
    int64_t until = cluster_now() + CROWD_MS;
    bool done[CLUSTER_WORKERS_MAX] = {false};

    *info = (struct stepgate_model_info){.size = sizeof(*info)};
    for (int left = c->workers; left > 0; cluster_pause(left > 0 ? 1 : 0)) {
        for (int r = 0; r < c->workers; r++) {
            int status = done[r] ? 0 : stepgate_model_commit(c->worker[r].model, 0, info);
            if (status != -STEPGATE_EAGAIN)
                must(status);
            left -= !done[r] && status == 0;
            done[r] = done[r] || status == 0;
        }
        assert_true(cluster_now() < until);
    }
}

/* sweep -- for nftw: whatever there is, its contents first. */
static int sweep(const char *path, const struct stat *at, int kind, struct FTW *where)
{
    (void)at;
    (void)kind;
    (void)where;
    return remove(path);
}

static void a_worker_asks_and_the_next_job_goes_on_from_there(void **state)
{
    char folder[] = "/tmp/stepgate-checkpoint-XXXXXX";
    const char *const knobs[] = {"checkpoint", folder, NULL};
    struct stepgate_model_info info;
    struct crowd c;
    uint64_t step = 0;

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int servers = 2; servers > 0; servers--) { /* the second time another number of them */
        uint64_t first = servers == 2 ? 0 : 3;
        crowd_serve(&c, 2, servers, knobs);
        crowd_join(&c, NULL, sizes);
        commit(&c, &info);
        assert_int_equal(info.checkpoints, 1);
        assert_int_equal(info.restored, first > 0);
        assert_int_equal(info.step, first);
        for (uint64_t k = first; k < first + 3; k++)
            train(&c, k);
        must(stepgate_checkpoint(c.worker[1].model, CROWD_MS, &step));
        assert_true(step == first + 2 || step == first + 3); /* the last update may be under way */
        while (step < first + 3)
            must(stepgate_checkpoint(c.worker[0].model, CROWD_MS, &step));
        close_job(&c, first + 3);
    }
    assert_int_equal(nftw(folder, sweep, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void without_a_folder_it_is_an_error_that_says_what_to_do(void **state)
{
    struct stepgate_error error = {.size = sizeof(error)};
    struct stepgate_model_info info;
    struct crowd c;

    (void)state;
    refused(STEPGATE_EINVAL, "NULL", stepgate_checkpoint(NULL, 0, NULL));
    crowd_serve(&c, 1, 1, NULL);
    crowd_join(&c, NULL, sizes);
    refused(STEPGATE_ESTATE, "not committed", stepgate_checkpoint(c.worker[0].model, CROWD_MS, NULL));
    commit(&c, &info);
    assert_int_equal(info.checkpoints, 0);
    assert_int_equal(info.restored, 0);
    refused(STEPGATE_ESTATE, "no folder for checkpoints",
            stepgate_checkpoint(c.worker[0].model, CROWD_MS, NULL));
    stepgate_error_last(&error);
    assert_non_null(strstr(error.remedy, "--checkpoint"));
    train(&c, 0);
    close_job(&c, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_asks_and_the_next_job_goes_on_from_there),
        cmocka_unit_test(without_a_folder_it_is_an_error_that_says_what_to_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
