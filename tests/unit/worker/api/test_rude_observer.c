/* SPDX-License-Identifier: BSD-3-Clause */
/* Observers that break every rule do the job no harm. These speak to the ps themselves, over links of their own. */
#include "ps/protocol/link.h"
#include "ps/protocol/slot.h"
#include "tests/unit/worker/api/crowd.h"
#include "transport/base/clock.h"
#include "transport/shm/shm.h"

static const uint64_t small[] = {1000, 7, 0};
static const struct proof_secret no_secret;

/* A connection or two to ps 0. */
struct rude {
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue;
    struct stepgate_domain *domain;
    struct hello hello;
    char address[STEPGATE_ADDRESS_BYTES];
    struct link control, view;
    uint64_t heard; /* messages */
};

/* rude_turn -- what there is. */
static void rude_turn(struct rude *r)
{
    struct stepgate_event events[32];
    int n = r->queue->transport->queue_poll(r->queue, events, 32);

    for (int i = 0; i < n; i++)
        if (events[i].endpoint != NULL)
            r->heard += link_event(events[i].endpoint->user, &events[i], clock_now()) == LINK_MESSAGE;
    link_progress(&r->control, clock_now());
    link_progress(&r->view, clock_now());
}

/* rude_until -- a link has come to that state. */
static void rude_until(struct rude *r, const struct link *link, enum link_state state)
{
    int64_t until = cluster_now() + CROWD_MS;

    while (link->state != state) {
        assert_true(cluster_now() < until);
        rude_turn(r);
        cluster_pause(1);
    }
}

/* rude_connect -- one more connection. */
static void rude_connect(struct rude *r, struct link *link, uint8_t purpose, uint16_t lane)
{
    struct hello hello = r->hello;

    hello.purpose = purpose;
    hello.lane = lane;
    link_init(link, &no_secret, 0);
    assert_int_equal(link_connect(link, r->queue, r->domain, r->address, &hello, clock_now()), 0);
}

/* rude_up -- an observer as any other, so far. */
static void rude_up(struct rude *r, const struct crowd *c)
{
    const struct stepgate_transport_v1 *shm = shm_transport();
    const struct stepgate_fabric_options options = {.size = sizeof(options)};

    memset(r, 0, sizeof(*r));
    snprintf(r->address, sizeof(r->address), "%.*s", (int)strcspn(c->hosts, ","), c->hosts);
    r->hello = (struct hello){.role = STEPGATE_ROLE_OBSERVER,
                              .job = hello_job_hash("stepgate"),
                              .incarnation = (uint64_t)(uintptr_t)r ^ clock_now(),
                              .workers = (uint32_t)c->workers,
                              .shards = (uint32_t)c->servers};
    assert_int_equal(shm->fabric_open(&options, &r->fabric), 0);
    assert_int_equal(shm->queue_new(r->fabric, 2, &r->queue), 0);
    assert_int_equal(shm->domain_new(r->fabric, &r->domain), 0);
    rude_connect(r, &r->control, HELLO_CONTROL, 0);
    rude_until(r, &r->control, LINK_UP);
    rude_connect(r, &r->view, HELLO_PULL, 0);
    rude_until(r, &r->view, LINK_UP);
}

/* rude_down -- gone, without a word. */
static void rude_down(struct rude *r)
{
    link_close(&r->view);
    link_close(&r->control);
    r->domain->transport->domain_delete(&r->domain);
    r->queue->transport->queue_delete(&r->queue);
    r->fabric->transport->fabric_delete(&r->fabric);
}

/* check_goes_on -- the job trains, and others can look at it. */
static void check_goes_on(struct crowd *c)
{
    struct stepgate_job *job = crowd_observer(c);
    struct stepgate_model *model = crowd_attach(job);
    const void *values = NULL;
    uint64_t step = 0;

    crowd_reach(c, atomic_load(&c->reached) + 5);
    must(stepgate_step_pull(model, STEPGATE_ALL, CROWD_MS, &step));
    must(stepgate_buffer_parameter(model, 0, &values));
    crowd_same(values, small[0], -(float)step);
    stepgate_job_delete(&job);
}

static void what_is_not_for_observers_ends_their_connection(void **state)
{
    static const struct message bad[] = {
        {.kind = MESSAGE_SEAL, .weight = 1, .finite = true},
        {.kind = MESSAGE_COMMIT, .slot_kind = SLOT_GRADIENT, .set_kind = MESSAGE_SET_ALL},
        {.kind = MESSAGE_MODEL_CHECK},
        {.kind = MESSAGE_TUNE, .key = "learning_rate", .value = "100"},
        {.kind = MESSAGE_BARRIER, .step = 1},
        {.kind = MESSAGE_WATCH, .model = 200},
        {.kind = MESSAGE_SNAPSHOT, .model = 200, .what = 1},
        {.kind = MESSAGE_SNAPSHOT, .model = 0, .what = 2},
        {.kind = MESSAGE_ABORT, .error = {.size = sizeof(struct stepgate_error), .code = STEPGATE_ELOST}},
    };
    struct crowd c;

    (void)state;
    crowd_serve(&c, 2, 2, NULL);
    crowd_join(&c, NULL, small);
    crowd_start(&c, UINT64_MAX);
    crowd_reach(&c, 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rude r;
        rude_up(&r, &c);
        assert_int_equal(link_send(&r.control, &bad[i], clock_now()), 0);
        rude_until(&r, &r.control, LINK_DOWN);
        rude_until(&r, &r.view, LINK_DOWN);
        rude_down(&r);
    }
    check_goes_on(&c);
    crowd_stop(&c);
}

static void asking_twice_ends_the_connection(void **state)
{
    static const struct message twice[] = {{.kind = MESSAGE_WATCH},
                                           {.kind = MESSAGE_SNAPSHOT, .offset = 1, .what = 1}};
    struct crowd c;

    (void)state;
    crowd_serve(&c, 2, 1, NULL);
    crowd_join(&c, NULL, small);
    crowd_start(&c, UINT64_MAX);
    crowd_reach(&c, 1);
    for (size_t i = 0; i < sizeof(twice) / sizeof(twice[0]); i++) {
        struct rude r;
        rude_up(&r, &c);
        for (int n = 0; n < 2; n++)
            link_send(&r.control, &twice[i], clock_now());
        rude_until(&r, &r.control, LINK_DOWN);
        rude_down(&r);
    }
    check_goes_on(&c);
    crowd_stop(&c);
}

static void a_word_on_the_pull_connection_ends_it(void **state)
{
    const struct message leave = {.kind = MESSAGE_LEAVE};
    struct crowd c;
    struct rude r;

    (void)state;
    crowd_serve(&c, 2, 1, NULL);
    crowd_join(&c, NULL, small);
    crowd_start(&c, UINT64_MAX);
    rude_up(&r, &c);
    assert_int_equal(link_send(&r.view, &leave, clock_now()), 0);
    rude_until(&r, &r.view, LINK_DOWN);
    assert_int_equal(r.control.state, LINK_UP);
    link_close(&r.view);
    rude_connect(&r, &r.view, HELLO_PULL, 0); /* and may come again */
    rude_until(&r, &r.view, LINK_UP);
    assert_int_equal(r.view.endpoint->transport->endpoint_notify(r.view.endpoint, slot_notify(0, 0, 0, 1)),
                     0);
    rude_until(&r, &r.view, LINK_DOWN);
    check_goes_on(&c);
    rude_down(&r);
    crowd_stop(&c);
}

static void one_who_keeps_talking_is_not_waited_for(void **state)
{
    const struct message find = {.kind = MESSAGE_FIND, .key = "m"}, counts = {.kind = MESSAGE_COUNTS_ASK},
                         leave = {.kind = MESSAGE_LEAVE};
    struct crowd c;
    struct rude r, deaf;

    (void)state;
    crowd_serve(&c, 2, 1, NULL);
    crowd_join(&c, NULL, small);
    crowd_start(&c, UINT64_MAX);
    crowd_reach(&c, 1);
    rude_up(&r, &c);
    rude_up(&deaf, &c);
    for (int i = 0; i < 20000 / CROWD_SCALE; i++) {
        link_send(&r.control, i % 2 == 0 ? &find : &counts, clock_now());
        link_send(&deaf.control, &find, clock_now()); /* and never hears the answers */
        if (i % 8 == 0)
            rude_turn(&r);
    }
    check_goes_on(&c);
    assert_true(r.heard > 0);
    link_send(&r.control, &leave, clock_now());
    for (int i = 0; i < 100; i++) /* even after its good-bye */
        link_send(&r.control, &find, clock_now());
    rude_until(&r, &r.control, LINK_DOWN);
    check_goes_on(&c);
    rude_down(&r);
    crowd_stop(&c); /* the deaf one is not waited for, either */
    rude_down(&deaf);
}

static void places_that_are_taken_come_free(void **state)
{
    struct crowd c;
    struct rude r[70];

    (void)state;
    crowd_serve(&c, 1, 1, NULL);
    crowd_join(&c, NULL, small);
    crowd_start(&c, UINT64_MAX);
    crowd_reach(&c, 1);
    for (int i = 0; i < 64; i++)
        rude_up(&r[i], &c);
    rude_down(&r[10]);
    check_goes_on(&c); /* which needs a place */
    for (int i = 0; i < 64; i++)
        if (i != 10)
            rude_down(&r[i]);
    crowd_stop(&c);
}

static void a_ps_never_takes_an_observer_for_a_member(void **state)
{
    struct crowd c;
    struct rude r;

    (void)state;
    crowd_serve(&c, 2, 1, NULL);
    crowd_join(&c, NULL, small);
    crowd_start(&c, UINT64_MAX);
    rude_up(&r, &c);
    struct link push = {.state = LINK_NEW}, lane = {.state = LINK_NEW};
    rude_connect(&r, &push, HELLO_PUSH, 0);
    rude_until(&r, &push, LINK_DOWN);
    rude_connect(&r, &lane, HELLO_PULL, 1); /* there is no need of another lane's */
    rude_until(&r, &lane, LINK_DOWN);
    struct link again = {.state = LINK_NEW};
    rude_connect(&r, &again, HELLO_CONTROL, 0); /* the same one twice */
    rude_until(&r, &again, LINK_DOWN);
    assert_int_equal(r.control.state, LINK_UP);
    link_close(&push);
    link_close(&lane);
    link_close(&again);
    check_goes_on(&c);
    rude_down(&r);
    crowd_stop(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_for_observers_ends_their_connection),
        cmocka_unit_test(asking_twice_ends_the_connection),
        cmocka_unit_test(a_word_on_the_pull_connection_ends_it),
        cmocka_unit_test(one_who_keeps_talking_is_not_waited_for),
        cmocka_unit_test(places_that_are_taken_come_free),
        cmocka_unit_test(a_ps_never_takes_an_observer_for_a_member),
    };

    return crowd_main(tests);
}
