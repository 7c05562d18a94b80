/* SPDX-License-Identifier: BSD-3-Clause */
/* A link comes up when both sides prove the secret, keeps messages in order, and says why it goes down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ps/protocol/link.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/simulated/world.h"

#define SEEDS 20
#define LIVENESS_MS 1000
#define LIVENESS_NS (LIVENESS_MS * CLOCK_MS)
#define ACTIVE 0
#define PASSIVE 1

/* How the passive side answers a request. */
enum answer {
    ANSWER_ACCEPT,        /* as it should */
    ANSWER_OTHER_VERSION, /* as if the hello were of another version */
    ANSWER_REFUSE,        /* with the reason `refuse` */
    ANSWER_ECHO           /* no link: sends back the hello, and then every message */
};

/* Two nodes, each with one link; "a" connects to "b". */
struct pair {
    const struct stepgate_transport_v1 *t;
    struct world *world;
    struct world_node *node[2];
    struct stepgate_fabric *fabric[2];
    struct stepgate_domain *domain[2];
    struct stepgate_queue *queue[2];
    struct stepgate_listener *listener;
    struct stepgate_endpoint *stranger; /* an endpoint without a link */
    struct proof_secret secret[2];
    struct hello hello[2];
    struct link link[2];
    enum answer answer;
    int refuse;
    bool silent[2]; /* this side does not run */
    int accepted;   /* what link_accept returned */
    unsigned came_up[2], went_down[2], notified[2], messages[2];
    uint64_t expected[2]; /* step of the next message */
};

/* pair_request -- the passive side's answer. */
static void pair_request(struct pair *p, const struct stepgate_event *event)
{
    uint8_t hello[STEPGATE_HELLO_BYTES];

    assert_int_equal(event->length, STEPGATE_HELLO_BYTES);
    memcpy(hello, event->data, sizeof(hello));
    switch (p->answer) {
    case ANSWER_OTHER_VERSION: hello[4]++; /* fall through */
    case ANSWER_ACCEPT:
        p->accepted = link_accept(&p->link[PASSIVE], event->request, p->queue[PASSIVE], p->domain[PASSIVE],
                                  &p->hello[PASSIVE], hello, sizeof(hello), world_now_ns(p->world));
        break;
    case ANSWER_REFUSE:
        hello_refusal(p->hello[PASSIVE].job, p->refuse, hello);
        p->t->request_refuse(event->request, hello, sizeof(hello));
        break;
    case ANSWER_ECHO:
        assert_int_equal(p->t->endpoint_accept(event->request, p->queue[PASSIVE], p->domain[PASSIVE], hello,
                                               sizeof(hello), NULL, &p->stranger),
                         0);
        break;
    }
}

/* pair_take -- one event of a link. */
static void pair_take(struct pair *p, int side, const struct stepgate_event *event)
{
    struct link *link = event->endpoint->user;

    assert_ptr_equal(link, &p->link[side]);
    switch (link_event(link, event, world_now_ns(p->world))) {
    case LINK_CAME_UP: p->came_up[side]++; break;
    case LINK_WENT_DOWN: p->went_down[side]++; break;
    case LINK_NOTIFY: p->notified[side]++; break;
    case LINK_MESSAGE:
        assert_int_equal(link->message.kind, MESSAGE_BARRIER);
        assert_true(link->message.step == p->expected[side]);
        p->expected[side]++;
        p->messages[side]++;
        break;
    default: break;
    }
}

/* pair_poll -- takes the events of one side and runs its link's timers. */
static void pair_poll(struct pair *p, int side)
{
    struct stepgate_event events[4];

    if (p->silent[side])
        return;
    int n = p->t->queue_poll(p->queue[side], events, 4);
    for (int i = 0; i < n; i++) {
        if (events[i].kind == STEPGATE_EVENT_REQUEST)
            pair_request(p, &events[i]);
        else if (events[i].endpoint == p->stranger && p->stranger != NULL) {
            if (events[i].kind == STEPGATE_EVENT_MESSAGE)
                assert_int_equal(p->t->endpoint_send(p->stranger, events[i].data, events[i].length), 0);
        } else
            pair_take(p, side, &events[i]);
    }
    p->went_down[side] += link_progress(&p->link[side], world_now_ns(p->world)) == LINK_WENT_DOWN;
}

/* pair_run -- lets so much time pass, both sides running. */
static void pair_run(struct pair *p, uint64_t ns)
{
    uint64_t until = world_now_ns(p->world) + ns;

    for (;;) {
        for (int i = 0; i < 20; i++)
            pair_poll(p, i & 1);
        uint64_t now = world_now_ns(p->world), next = world_next_time(p->world);
        if (now >= until)
            return;
        for (int side = 0; side < 2; side++) {
            uint64_t deadline = p->silent[side] ? CLOCK_NEVER : link_deadline(&p->link[side]);
            next = deadline < next && deadline > now ? deadline : next;
        }
        world_advance(p->world, (next < until ? next : until) - now);
    }
}

/* pair_open -- two nodes with links that are not connected. */
static void pair_open(struct pair *p, uint64_t seed, uint32_t depth)
{
    struct world_options options;

    memset(p, 0, sizeof(*p));
    p->t = simulated_transport();
    world_options_default(&options, seed);
    if (depth != 0)
        options.depth = depth;
    assert_int_equal(world_new(&options, &p->world), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(world_node_new(p->world, i == ACTIVE ? "a" : "b", &p->node[i]), 0);
        struct stepgate_fabric_options fabric = {.size = sizeof(fabric), .world = p->node[i]};
        assert_int_equal(p->t->fabric_open(&fabric, &p->fabric[i]), 0);
        assert_int_equal(p->t->domain_new(p->fabric[i], &p->domain[i]), 0);
        assert_int_equal(p->t->queue_new(p->fabric[i], 1, &p->queue[i]), 0);
        p->secret[i].bytes = 32;
        memset(p->secret[i].data, 0x5a, 32);
        p->hello[i] = (struct hello){.role = i == ACTIVE ? STEPGATE_ROLE_WORKER : STEPGATE_ROLE_PS,
                                     .purpose = HELLO_CONTROL,
                                     .job = hello_job_hash("job"),
                                     .workers = 1,
                                     .shards = 1};
        link_init(&p->link[i], &p->secret[i], LIVENESS_MS);
    }
    assert_int_equal(p->t->listener_new(p->queue[PASSIVE], "b:7000", &p->listener), 0);
}

/* pair_connect -- starts to connect and lets half of the liveness time pass. */
static void pair_connect(struct pair *p)
{
    assert_int_equal(link_connect(&p->link[ACTIVE], p->queue[ACTIVE], p->domain[ACTIVE], "b:7000",
                                  &p->hello[ACTIVE], world_now_ns(p->world)),
                     0);
    pair_run(p, LIVENESS_NS / 2);
}

/* pair_up -- opens and connects; both links are up. */
static void pair_up(struct pair *p, uint64_t seed, uint32_t depth)
{
    pair_open(p, seed, depth);
    pair_connect(p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p->link[i].state, LINK_UP);
        assert_int_equal(p->came_up[i], 1);
        assert_int_equal(p->went_down[i], 0);
    }
}

/* pair_close -- deletes everything; nothing is left. */
static void pair_close(struct pair *p)
{
    p->t->endpoint_delete(&p->stranger);
    for (int i = 0; i < 2; i++)
        link_close(&p->link[i]);
    p->t->listener_delete(&p->listener);
    for (int i = 0; i < 2; i++) {
        p->t->queue_delete(&p->queue[i]);
        p->t->domain_delete(&p->domain[i]);
        p->t->fabric_delete(&p->fabric[i]);
    }
    while (world_step(p->world) > 0)
        continue;
    assert_int_equal(world_objects(p->world), 0);
    world_delete(&p->world);
}

/* pair_send -- a numbered message. */
static int pair_send(struct pair *p, int side, uint64_t number)
{
    const struct message m = {.kind = MESSAGE_BARRIER, .step = number};

    return link_send(&p->link[side], &m, world_now_ns(p->world));
}

/* pair_is_down -- a side went down once, for the reason given, and says so in words. */
static void pair_is_down(struct pair *p, int side, int code, const char *word)
{
    assert_int_equal(p->link[side].state, LINK_DOWN);
    assert_int_equal(p->went_down[side], 1);
    assert_int_equal(p->link[side].error.code, code);
    assert_non_null(strstr(p->link[side].error.text, word));
}

static void a_link_comes_up_when_both_know_the_secret(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        pair_up(&p, seed, 0);
        assert_true(p.link[ACTIVE].active);
        assert_false(p.link[PASSIVE].active);
        assert_memory_equal(p.link[ACTIVE].theirs_bytes, p.link[PASSIVE].mine_bytes, STEPGATE_HELLO_BYTES);
        assert_memory_equal(p.link[PASSIVE].theirs_bytes, p.link[ACTIVE].mine_bytes, STEPGATE_HELLO_BYTES);
        pair_close(&p);
    }
}

static void every_connection_has_nonces_of_its_own(void **state)
{
    (void)state;
    struct pair p, q;
    pair_up(&p, 1, 0);
    pair_up(&q, 1, 0);
    assert_memory_not_equal(p.link[ACTIVE].mine.nonce, q.link[ACTIVE].mine.nonce, 16);
    assert_memory_not_equal(p.link[PASSIVE].mine.nonce, q.link[PASSIVE].mine.nonce, 16);
    assert_memory_not_equal(p.link[ACTIVE].mine.nonce, p.link[PASSIVE].mine.nonce, 16);
    pair_close(&p);
    pair_close(&q);
}

static void with_different_secrets_both_sides_say_so(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        pair_open(&p, seed, 0);
        p.secret[seed % 2].data[31] ^= 1;
        pair_connect(&p);
        link_close(&p.link[ACTIVE]); /* as its user does */
        pair_run(&p, LIVENESS_NS);
        pair_is_down(&p, ACTIVE, STEPGATE_EAUTH, "secret");
        pair_is_down(&p, PASSIVE, STEPGATE_EAUTH, "secret");
        assert_int_equal(p.came_up[ACTIVE] + p.came_up[PASSIVE], 0);
        pair_close(&p);
    }
}

static void whoever_is_refused_gets_no_second_try(void **state)
{
    (void)state;
    struct pair p;
    struct message right = {.kind = MESSAGE_PROOF};
    uint8_t data[MESSAGE_BYTES_MAX];
    pair_open(&p, 3, 0);
    p.secret[ACTIVE].data[0] ^= 1;
    pair_connect(&p);
    assert_int_not_equal(p.link[PASSIVE].state, LINK_UP);
    proof_make(&p.secret[PASSIVE], p.link[ACTIVE].mine_bytes, p.link[PASSIVE].mine_bytes, right.part);
    int length = message_pack(&right, data);
    assert_int_equal(p.t->endpoint_send(p.link[ACTIVE].endpoint, data, (uint32_t)length), 0);
    pair_run(&p, LIVENESS_NS);
    pair_is_down(&p, PASSIVE, STEPGATE_EAUTH, "secret");
    assert_int_equal(p.came_up[PASSIVE], 0);
    pair_close(&p);
}

static void whoever_echoes_knows_no_secret(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, 4, 0);
    p.answer = ANSWER_ECHO;
    pair_connect(&p);
    pair_is_down(&p, ACTIVE, STEPGATE_EAUTH, "secret");
    assert_int_equal(p.came_up[ACTIVE], 0);
    pair_close(&p);
}

static void another_version_is_refused_and_the_reason_arrives(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, 5, 0);
    p.answer = ANSWER_OTHER_VERSION;
    pair_connect(&p);
    assert_int_equal(p.accepted, -STEPGATE_EVERSION);
    assert_int_equal(p.link[PASSIVE].state, LINK_DOWN);
    assert_int_equal(p.link[PASSIVE].error.code, STEPGATE_EVERSION);
    pair_is_down(&p, ACTIVE, STEPGATE_EVERSION, "version");
    pair_close(&p);
}

static void the_reason_of_a_refusal_arrives(void **state)
{
    (void)state;
    static const int reasons[] = {STEPGATE_EWRONGJOB, STEPGATE_EVERSION, STEPGATE_ERANK, STEPGATE_EMISMATCH,
                                  STEPGATE_EENDED};
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        struct pair p;
        pair_open(&p, 6 + i, 0);
        p.answer = ANSWER_REFUSE;
        p.refuse = reasons[i];
        pair_connect(&p);
        pair_is_down(&p, ACTIVE, reasons[i], "refused: ");
        pair_close(&p);
    }
}

static void the_active_side_does_not_prove_itself_to_another_job(void **state)
{
    (void)state;
    struct pair p;
    struct world_counts counts;
    pair_open(&p, 7, 0);
    p.hello[PASSIVE].job++;
    pair_connect(&p);
    pair_is_down(&p, ACTIVE, STEPGATE_EWRONGJOB, "another job");
    world_counters(p.world, &counts);
    assert_true(counts.messages == 0);
    pair_close(&p);
}

static void the_active_side_checks_the_counts_of_workers_and_shards(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, 8, 0);
    p.hello[PASSIVE].shards++;
    pair_connect(&p);
    pair_is_down(&p, ACTIVE, STEPGATE_EMISMATCH, "2 ps");
    pair_close(&p);
}

static void where_nobody_listens_a_link_goes_down(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, 9, 0);
    p.t->listener_delete(&p.listener);
    assert_int_equal(link_connect(&p.link[ACTIVE], p.queue[ACTIVE], p.domain[ACTIVE], "b:7000",
                                  &p.hello[ACTIVE], world_now_ns(p.world)),
                     0);
    pair_run(&p, 20 * LIVENESS_NS);
    assert_int_equal(p.link[ACTIVE].state, LINK_DOWN);
    assert_int_equal(p.went_down[ACTIVE], 1);
    assert_int_equal(stepgate_error_class(p.link[ACTIVE].error.code), STEPGATE_CLASS_PEER);
    pair_close(&p);
}

/* pair_stranger -- connects to the passive side without a link; it is awaited to prove itself. */
static void pair_stranger(struct pair *p)
{
    uint8_t hello[STEPGATE_HELLO_BYTES];

    p->hello[ACTIVE].version = HELLO_VERSION;
    hello_pack(&p->hello[ACTIVE], hello);
    assert_int_equal(p->t->endpoint_connect(p->queue[ACTIVE], p->domain[ACTIVE], "b:7000", hello,
                                            sizeof(hello), NULL, &p->stranger),
                     0);
    pair_run(p, LIVENESS_NS);
    assert_int_equal(p->link[PASSIVE].state, LINK_PROVING);
}

static void a_message_before_the_proof_is_a_violation(void **state)
{
    (void)state;
    struct pair p;
    const uint8_t leave[1] = {MESSAGE_LEAVE};
    pair_open(&p, 10, 0);
    pair_stranger(&p);
    assert_int_equal(p.t->endpoint_send(p.stranger, leave, sizeof(leave)), 0);
    pair_run(&p, LIVENESS_NS);
    pair_is_down(&p, PASSIVE, STEPGATE_EPROTOCOL, "leave before the proof");
    assert_int_equal(p.messages[PASSIVE], 0);
    pair_close(&p);
}

static void a_message_before_the_connection_is_a_violation(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, 11, 0);
    p.link[ACTIVE].state = LINK_CONNECTING;
    const uint8_t leave[1] = {MESSAGE_LEAVE};
    const struct stepgate_event event = {.kind = STEPGATE_EVENT_MESSAGE, .data = leave, .length = 1};
    assert_int_equal(link_event(&p.link[ACTIVE], &event, 1), LINK_WENT_DOWN);
    assert_int_equal(p.link[ACTIVE].error.code, STEPGATE_EPROTOCOL);
    pair_close(&p);
}

static void a_notify_before_the_proof_is_a_violation(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, 12, 0);
    pair_stranger(&p);
    assert_int_equal(p.t->endpoint_notify(p.stranger, 1), 0);
    pair_run(&p, LIVENESS_NS);
    pair_is_down(&p, PASSIVE, STEPGATE_EPROTOCOL, "notify before the proof");
    assert_int_equal(p.notified[PASSIVE], 0);
    pair_close(&p);
}

static void a_second_proof_is_a_violation(void **state)
{
    (void)state;
    struct pair p;
    const struct message proof = {.kind = MESSAGE_PROOF};
    pair_up(&p, 13, 0);
    assert_int_equal(link_send(&p.link[ACTIVE], &proof, world_now_ns(p.world)), 0);
    pair_run(&p, LIVENESS_NS / 2);
    pair_is_down(&p, PASSIVE, STEPGATE_EPROTOCOL, "proof");
    pair_close(&p);
}

static void a_damaged_message_takes_the_link_down(void **state)
{
    (void)state;
    struct pair p;
    const uint8_t bytes[2] = {MESSAGE_LEAVE, 0};
    pair_up(&p, 14, 0);
    assert_int_equal(p.t->endpoint_send(p.link[ACTIVE].endpoint, bytes, sizeof(bytes)), 0);
    pair_run(&p, LIVENESS_NS / 2);
    pair_is_down(&p, PASSIVE, STEPGATE_EPROTOCOL, "damaged");
    pair_close(&p);
}

static void messages_keep_their_order_behind_a_full_queue(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        pair_up(&p, seed, 4);
        for (uint64_t i = 0; i < 300; i++) {
            assert_int_equal(pair_send(&p, ACTIVE, i), 0);
            assert_int_equal(pair_send(&p, PASSIVE, i), 0);
            if (i % 7 == seed % 7)
                pair_poll(&p, (int)(i & 1));
        }
        assert_false(link_idle(&p.link[ACTIVE])); /* else nothing waited */
        pair_run(&p, LIVENESS_NS);
        assert_int_equal(p.messages[ACTIVE], 300);
        assert_int_equal(p.messages[PASSIVE], 300);
        assert_true(link_idle(&p.link[ACTIVE]));
        assert_true(link_idle(&p.link[PASSIVE]));
        pair_close(&p);
    }
}

static void a_peer_that_takes_nothing_is_not_kept_for_ever(void **state)
{
    (void)state;
    struct pair p;
    struct message m = {.kind = MESSAGE_MODEL_PART, .length = MESSAGE_PART_BYTES};
    int status = 0;
    pair_up(&p, 15, 0);
    for (int i = 0; i < 200000 && status == 0; i++)
        status = link_send(&p.link[ACTIVE], &m, world_now_ns(p.world));
    assert_int_equal(status, -STEPGATE_ENOMEM);
    pair_close(&p);
}

static void a_link_that_is_not_up_takes_no_message(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, 16, 0);
    assert_int_equal(pair_send(&p, ACTIVE, 0), -STEPGATE_EPEER);
    p.secret[ACTIVE].data[0] ^= 1;
    pair_connect(&p);
    assert_int_equal(pair_send(&p, ACTIVE, 0), -STEPGATE_EPEER);
    assert_int_equal(pair_send(&p, PASSIVE, 0), -STEPGATE_EPEER);
    pair_close(&p);
}

static void heartbeats_keep_an_idle_link_up(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        pair_up(&p, seed, 0);
        pair_run(&p, 20 * LIVENESS_NS);
        assert_int_equal(p.link[ACTIVE].state, LINK_UP);
        assert_int_equal(p.link[PASSIVE].state, LINK_UP);
        assert_int_equal(p.messages[ACTIVE] + p.messages[PASSIVE], 0); /* they are the link's own */
        pair_close(&p);
    }
}

static void silence_takes_a_link_down_when_liveness_has_passed_and_not_before(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        pair_up(&p, seed, 0);
        int silent = (int)(seed % 2), other = 1 - silent;
        p.silent[silent] = true;
        pair_run(&p, LIVENESS_NS / 2); /* what was under way has arrived */
        uint64_t heard = p.link[other].last_heard;
        pair_run(&p, heard + LIVENESS_NS - world_now_ns(p.world));
        assert_int_equal(p.link[other].state, LINK_UP);
        assert_true(link_deadline(&p.link[other]) == heard + LIVENESS_NS + 1);
        pair_run(&p, 1);
        pair_is_down(&p, other, STEPGATE_EPEER, "nothing was heard");
        assert_true(p.link[other].error.waited_ms == LIVENESS_MS);
        pair_close(&p);
    }
}

/* trouble -- of a device that has counted some. */
static void trouble(const struct stepgate_endpoint *endpoint, char *text, size_t bytes)
{
    (void)endpoint;
    snprintf(text, bytes, " (rxe0 port 1 since the start: retry 3)");
}

static void silence_is_told_with_what_the_device_has_counted(void **state)
{
    struct stepgate_transport_v1 counting;
    struct pair p;

    (void)state;
    pair_up(&p, 1, 0);
    p.silent[PASSIVE] = true;
    counting = *p.link[ACTIVE].endpoint->transport;
    counting.endpoint_trouble = trouble;
    p.link[ACTIVE].endpoint->transport = &counting;
    pair_run(&p, 2 * LIVENESS_NS);
    pair_is_down(&p, ACTIVE, STEPGATE_EPEER, "ms (rxe0 port 1 since the start: retry 3)");
    pair_close(&p);
}

static void a_process_that_was_stopped_gives_its_peer_that_time_again(void **state)
{
    (void)state;
    struct pair p;
    pair_up(&p, 16, 0);
    pair_run(&p, LIVENESS_NS);
    /* neither side runs for three times liveness; then both do */
    p.silent[ACTIVE] = p.silent[PASSIVE] = true;
    pair_run(&p, 3 * LIVENESS_NS);
    p.silent[ACTIVE] = p.silent[PASSIVE] = false;
    pair_run(&p, 2 * LIVENESS_NS);
    for (int side = 0; side < 2; side++) {
        assert_int_equal(p.link[side].state, LINK_UP);
        assert_true(p.link[side].stopped_ms >= 2 * LIVENESS_MS);
    }
    pair_close(&p);
}

static void without_liveness_silence_is_no_fault(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, 17, 0);
    link_init(&p.link[ACTIVE], &p.secret[ACTIVE], 0);
    pair_connect(&p);
    assert_int_equal(p.link[ACTIVE].state, LINK_UP);
    assert_true(link_deadline(&p.link[ACTIVE]) == CLOCK_NEVER);
    p.silent[PASSIVE] = true;
    pair_run(&p, 100 * LIVENESS_NS);
    assert_int_equal(p.link[ACTIVE].state, LINK_UP);
    pair_close(&p);
}

static void whoever_does_not_prove_itself_is_let_go(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, 18, 0);
    pair_stranger(&p);
    uint64_t heard = p.link[PASSIVE].last_heard, limit = UINT64_C(10000) * CLOCK_MS;
    assert_true(link_deadline(&p.link[PASSIVE]) == heard + limit + 1);
    pair_run(&p, heard + limit - world_now_ns(p.world));
    assert_int_equal(p.link[PASSIVE].state, LINK_PROVING);
    pair_run(&p, 1);
    pair_is_down(&p, PASSIVE, STEPGATE_EUNREACHABLE, "prove");
    pair_close(&p);
}

static void a_killed_peer_takes_the_link_down_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        pair_up(&p, seed, 0);
        world_kill(p.node[PASSIVE]);
        p.silent[PASSIVE] = true;
        pair_run(&p, LIVENESS_NS / 2);
        assert_int_equal(p.link[ACTIVE].state, LINK_DOWN);
        assert_int_equal(p.link[ACTIVE].error.code, STEPGATE_EPEER);
        pair_run(&p, 5 * LIVENESS_NS);
        assert_int_equal(p.went_down[ACTIVE], 1);
        pair_close(&p);
    }
}

static void a_closed_link_can_be_connected_anew(void **state)
{
    (void)state;
    struct pair p;
    pair_up(&p, 19, 0);
    for (uint64_t i = 0; i < 3; i++) {
        for (int side = 0; side < 2; side++) {
            link_close(&p.link[side]);
            link_init(&p.link[side], &p.secret[side], LIVENESS_MS);
        }
        pair_connect(&p);
        assert_int_equal(p.link[ACTIVE].state, LINK_UP);
        assert_int_equal(p.link[PASSIVE].state, LINK_UP);
        assert_int_equal(pair_send(&p, ACTIVE, i), 0);
        pair_run(&p, LIVENESS_NS / 2);
        assert_int_equal(p.messages[PASSIVE], i + 1);
    }
    pair_close(&p);
}

/* pair_break -- the connection goes at a moment that the seed decides, with messages under way; both sides hold their links. */
static void pair_break(struct pair *p, uint64_t seed)
{
    pair_run(p, seed * 1000);
    world_disconnect(p->link[ACTIVE].endpoint);
    pair_run(p, 10 * CLOCK_MS);
    for (int side = 0; side < 2; side++) {
        assert_int_equal(p->link[side].state, LINK_DOWN);
        assert_int_equal(p->link[side].end, LINK_END_BROKEN);
        link_hold(&p->link[side]);
    }
}

static void what_was_lost_with_a_connection_comes_over_the_next_one_once_and_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair p;
        uint64_t sent = 0;
        pair_up(&p, seed, 4); /* most wait behind a full queue */
        for (int round = 0; round < 4; round++) {
            for (int i = 0; i < 100; i++, sent++)
                for (int side = 0; side < 2; side++)
                    assert_int_equal(pair_send(&p, side, sent), 0);
            pair_break(&p, seed);
            for (int side = 0; side < 2; side++) /* a held link takes messages, too */
                assert_int_equal(pair_send(&p, side, sent), 0);
            sent++;
            pair_connect(&p);
            assert_int_equal(p.link[ACTIVE].state, LINK_UP);
            assert_int_equal(p.link[PASSIVE].state, LINK_UP);
        }
        pair_run(&p, 3 * LIVENESS_NS);
        for (int side = 0; side < 2; side++) {
            assert_true(p.messages[side] == sent);
            assert_false(link_kept(&p.link[side])); /* heartbeats acknowledge the rest */
        }
        pair_close(&p);
    }
}

static void a_held_link_is_for_the_process_that_it_was_up_with(void **state)
{
    (void)state;
    struct pair p;
    pair_up(&p, 1, 0);
    pair_break(&p, 1);
    p.hello[PASSIVE].incarnation++;
    pair_connect(&p);
    assert_int_equal(p.link[ACTIVE].state, LINK_DOWN);
    assert_int_equal(p.link[ACTIVE].error.code, STEPGATE_ELOST);
    pair_close(&p);
}

/* broken_send -- of a connection that is gone. A transport need not say more. */
static int broken_send(struct stepgate_endpoint *endpoint, const void *data, uint32_t length)
{
    (void)endpoint;
    (void)data;
    (void)length;
    return -STEPGATE_EPEER;
}

static void a_connection_that_breaks_before_the_proof_is_said_by_its_end(void **state)
{
    (void)state;
    static const struct stepgate_transport_v1 broken = {.size = sizeof(broken), .endpoint_send = broken_send};
    struct stepgate_endpoint gone = {.transport = &broken};
    struct pair p;
    uint8_t theirs[STEPGATE_HELLO_BYTES];
    pair_open(&p, 1, 0);
    struct link *link = &p.link[ACTIVE];
    assert_int_equal(link_connect(link, p.queue[ACTIVE], p.domain[ACTIVE], "b:7000", &p.hello[ACTIVE], 0), 0);
    struct stepgate_endpoint *whole = link->endpoint;
    link->endpoint = &gone;
    p.hello[PASSIVE].version = HELLO_VERSION;
    hello_pack(&p.hello[PASSIVE], theirs);
    struct stepgate_event event = {
        .kind = STEPGATE_EVENT_CONNECTED, .data = theirs, .length = sizeof(theirs), .endpoint = &gone};
    assert_int_equal(link_event(link, &event, 1), LINK_NOTHING);
    event = (struct stepgate_event){.kind = STEPGATE_EVENT_DISCONNECTED,
                                    .status = -STEPGATE_EPEER,
                                    .endpoint = &gone,
                                    .why = "a cable is out",
                                    .remedy = "put it in"};
    assert_int_equal(link_event(link, &event, 2), LINK_WENT_DOWN);
    assert_int_equal(link->error.code, STEPGATE_EPEER);
    assert_int_equal(link->end, LINK_END_BROKEN);
    assert_string_equal(link->error.text, "a cable is out");
    assert_string_equal(link->error.remedy, "put it in");
    link->endpoint = whole;
    pair_close(&p);
}

static void what_a_device_says_is_the_end_only_where_it_is_lost(void **state)
{
    (void)state;
    struct stepgate_error error;
    struct stepgate_event event = {
        .kind = STEPGATE_EVENT_DEVICE, .status = 0, .why = "a port came up", .remedy = "none"};
    assert_false(link_device(&event));
    error_save(&error);
    assert_int_equal(error.code, STEPGATE_EDEVICE);
    assert_string_equal(error.text, "a port came up");
    event.status = -STEPGATE_EDEVICE;
    event.why = NULL;
    assert_true(link_device(&event));
    error_save(&error);
    assert_string_equal(error.text, "a port came up"); /* the last one stays, which is the transport's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_lost_with_a_connection_comes_over_the_next_one_once_and_in_order),
        cmocka_unit_test(a_held_link_is_for_the_process_that_it_was_up_with),
        cmocka_unit_test(a_link_comes_up_when_both_know_the_secret),
        cmocka_unit_test(every_connection_has_nonces_of_its_own),
        cmocka_unit_test(with_different_secrets_both_sides_say_so),
        cmocka_unit_test(whoever_is_refused_gets_no_second_try),
        cmocka_unit_test(whoever_echoes_knows_no_secret),
        cmocka_unit_test(another_version_is_refused_and_the_reason_arrives),
        cmocka_unit_test(the_reason_of_a_refusal_arrives),
        cmocka_unit_test(the_active_side_does_not_prove_itself_to_another_job),
        cmocka_unit_test(the_active_side_checks_the_counts_of_workers_and_shards),
        cmocka_unit_test(where_nobody_listens_a_link_goes_down),
        cmocka_unit_test(a_message_before_the_proof_is_a_violation),
        cmocka_unit_test(a_message_before_the_connection_is_a_violation),
        cmocka_unit_test(a_notify_before_the_proof_is_a_violation),
        cmocka_unit_test(a_second_proof_is_a_violation),
        cmocka_unit_test(a_damaged_message_takes_the_link_down),
        cmocka_unit_test(messages_keep_their_order_behind_a_full_queue),
        cmocka_unit_test(a_peer_that_takes_nothing_is_not_kept_for_ever),
        cmocka_unit_test(a_link_that_is_not_up_takes_no_message),
        cmocka_unit_test(heartbeats_keep_an_idle_link_up),
        cmocka_unit_test(silence_takes_a_link_down_when_liveness_has_passed_and_not_before),
        cmocka_unit_test(silence_is_told_with_what_the_device_has_counted),
        cmocka_unit_test(a_process_that_was_stopped_gives_its_peer_that_time_again),
        cmocka_unit_test(without_liveness_silence_is_no_fault),
        cmocka_unit_test(whoever_does_not_prove_itself_is_let_go),
        cmocka_unit_test(a_killed_peer_takes_the_link_down_once),
        cmocka_unit_test(a_closed_link_can_be_connected_anew),
        cmocka_unit_test(a_connection_that_breaks_before_the_proof_is_said_by_its_end),
        cmocka_unit_test(what_a_device_says_is_the_end_only_where_it_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
