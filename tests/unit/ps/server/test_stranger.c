/* SPDX-License-Identifier: BSD-3-Clause */
/* Somebody who knows the address of a ps but not the secret of the job. */
#include "tests/unit/worker/api/cluster.h"

#include "transport/base/clock.h"
#include "transport/handshake/hello.h"
#include "transport/shm/shm.h"

struct stranger {
    struct stepgate_fabric *fabric;
    struct stepgate_domain *domain;
    struct stepgate_queue *queue;
    struct stepgate_endpoint *endpoints[64];
};

/* stranger_open -- somebody with a name, and no more. */
static void stranger_open(struct stranger *stranger)
{
    const struct stepgate_fabric_options options = {.size = sizeof(options)};
    const struct stepgate_transport_v1 *t = shm_transport();

    memset(stranger, 0, sizeof(*stranger));
    must(t->fabric_open(&options, &stranger->fabric));
    must(t->domain_new(stranger->fabric, &stranger->domain));
    must(t->queue_new(stranger->fabric, 64, &stranger->queue));
}

/* stranger_connect -- says that it is worker 0, and then nothing; waits for the answer. Returns the kind of the event that came. */
static int stranger_connect(struct stranger *stranger, unsigned number, const char *address)
{
    const struct hello hello = {.version = HELLO_VERSION,
                                .role = STEPGATE_ROLE_WORKER,
                                .purpose = HELLO_CONTROL,
                                .job = hello_job_hash("stepgate"),
                                .workers = 1,
                                .shards = 1};
    uint64_t deadline = clock_after(clock_now(), CLUSTER_MS);
    uint8_t bytes[STEPGATE_HELLO_BYTES];
    struct stepgate_event event;

    hello_pack(&hello, bytes);
    must(shm_transport()->endpoint_connect(stranger->queue, stranger->domain, address, bytes, sizeof(bytes),
                                           NULL, &stranger->endpoints[number]));
    while (clock_now() < deadline)
        if (shm_transport()->queue_poll(stranger->queue, &event, 1) == 1 &&
            event.endpoint == stranger->endpoints[number])
            return event.kind;
    return STEPGATE_EVENT_NONE;
}

/* stranger_close -- goes. */
static void stranger_close(struct stranger *stranger)
{
    const struct stepgate_transport_v1 *t = shm_transport();

    for (int i = 0; i < 64; i++)
        t->endpoint_delete(&stranger->endpoints[i]);
    t->queue_delete(&stranger->queue);
    t->domain_delete(&stranger->domain);
    t->fabric_delete(&stranger->fabric);
}

static void a_silent_stranger_does_not_keep_a_worker_out(void **state)
{
    struct stranger stranger;
    struct cluster c;

    (void)state;
    cluster_serve(&c, 1, NULL);
    stranger_open(&stranger);
    assert_int_equal(stranger_connect(&stranger, 0, c.address), STEPGATE_EVENT_CONNECTED);
    cluster_join(&c, NULL);
    must(stepgate_model_new(c.job[0], "m", &c.model[0]));
    cluster_variable(&c, "v", 3);
    cluster_commit(&c);
    cluster_begin(&c);
    /* the rank is taken by now, by one who has proved itself */
    assert_int_equal(stranger_connect(&stranger, 1, c.address), STEPGATE_EVENT_DISCONNECTED);
    cluster_push(&c, 0, 0, 1);
    cluster_finish(&c);
    cluster_begin(&c);
    cluster_down(&c);
    stranger_close(&stranger);
}

static void many_strangers_one_after_the_other_do_not_keep_a_worker_out(void **state)
{
    struct stranger stranger;
    struct cluster c;

    (void)state;
    cluster_serve(&c, 1, NULL);
    stranger_open(&stranger);
    for (unsigned i = 0; i < 60; i++)
        assert_int_not_equal(stranger_connect(&stranger, i, c.address), STEPGATE_EVENT_NONE);
    cluster_join(&c, NULL);
    must(stepgate_model_new(c.job[0], "m", &c.model[0]));
    cluster_variable(&c, "v", 3);
    cluster_commit(&c);
    cluster_begin(&c);
    cluster_down(&c);
    stranger_close(&stranger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_stranger_does_not_keep_a_worker_out),
        cmocka_unit_test(many_strangers_one_after_the_other_do_not_keep_a_worker_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
