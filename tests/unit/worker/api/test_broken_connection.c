/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection over shared memory that breaks while both ends live is made anew: the step goes on, and gives what it would have given. */
#include <sys/socket.h>

#include "tests/unit/worker/api/cluster.h"
#include "transport/shm/endpoint.h"
#include "worker/api/inside.h"
#include "worker/session/inside.h"

#define BROKEN_STEPS 18
#define BROKEN_ELEMENTS 5000

enum broken_phase { BROKEN_BEFORE = 0, BROKEN_PUSHING = 1, BROKEN_FINISHED = 2 };

/* broken_up -- a ps and its workers, with one variable. */
static int broken_up(struct cluster *c, int workers, const char *reconnect)
{
    const char *const knobs[] = {"reconnect", reconnect, NULL};

    cluster_serve(c, workers, knobs);
    cluster_join(c, knobs);
    for (int w = 0; w < workers; w++) {
        must(stepgate_model_new(c->job[w], "m", &c->model[w]));
        must(stepgate_model_set(c->model[w], "learning_rate", "1"));
    }
    int id = cluster_variable(c, "v", BROKEN_ELEMENTS);
    cluster_commit(c);
    return id;
}

/* broken_link -- one of a worker's connections to the ps: control, push or pull. */
static struct link *broken_link(struct stepgate_job *job, int which)
{
    struct session_shard *shard = &job->session->shards[0];

    return which == 0 ? &shard->control.link : which == 1 ? &shard->push[0].link : &shard->pull[0].link;
}

/* broken_await -- until a worker's connections were made anew so often. */
static void broken_await(struct cluster *c, int w, uint64_t times)
{
    struct stepgate_job_stats stats = {.size = sizeof(stats)};
    int64_t from = cluster_now();

    while (stats.reconnects < times && cluster_now() - from < CLUSTER_MS) {
        cluster_pause(1);
        must(stepgate_job_stats(c->job[w], &stats));
    }
    assert_true(stats.reconnects == times);
}

/* broken_break -- its socket goes, as if something between the two had cut it. */
static void broken_break(struct stepgate_job *job, int which)
{
    pthread_mutex_lock(&job->lock);
    struct link *link = broken_link(job, which);
    assert_int_equal(link->state, LINK_UP);
    shutdown(((struct shm_endpoint *)link->endpoint)->fd, SHUT_RDWR);
    pthread_mutex_unlock(&job->lock);
}

static void a_connection_that_breaks_is_made_anew_and_the_step_replayed(void **state)
{
    struct cluster c;
    float expected = 0;
    uint64_t broken[2] = {0, 0};

    (void)state;
    int id = broken_up(&c, 2, "100");
    for (int step = 0; step < BROKEN_STEPS; step++) {
        int phase = step % 3, which = step / 3 % 3, w = step & 1;
        cluster_begin(&c);
        assert_true(cluster_value(&c, 0, id, BROKEN_ELEMENTS - 1) == expected);
        broken_await(&c, w, broken[w]++);
        if (phase == BROKEN_BEFORE)
            broken_break(c.job[w], which);
        cluster_push(&c, w, id, 0.1f * (float)(step + w));
        if (phase == BROKEN_PUSHING)
            broken_break(c.job[w], which);
        cluster_push(&c, 1 - w, id, 0.1f * (float)(step + 1 - w));
        cluster_finish(&c);
        if (phase == BROKEN_FINISHED)
            broken_break(c.job[w], which);
        float sum = 0.1f * (float)step + 0.1f * (float)(step + 1);
        float mean = sum / 2.0f;
        expected -= mean;
    }
    cluster_begin(&c);
    assert_true(cluster_value(&c, 0, id, 0) == expected);
    assert_true(cluster_value(&c, 1, id, BROKEN_ELEMENTS - 1) == expected);
    for (int w = 0; w < 2; w++)
        broken_await(&c, w, broken[w]);
    cluster_down(&c);
}

static void without_reconnect_a_connection_that_breaks_ends_the_job(void **state)
{
    struct cluster c;

    (void)state;
    broken_up(&c, 1, "0");
    broken_break(c.job[0], 0);
    refused(STEPGATE_ELOST, "ps 0", stepgate_job_barrier(c.job[0], CLUSTER_MS));
    assert_int_equal(cluster_served(&c), -STEPGATE_ELOST);
    cluster_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_that_breaks_is_made_anew_and_the_step_replayed),
        cmocka_unit_test(without_reconnect_a_connection_that_breaks_ends_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
