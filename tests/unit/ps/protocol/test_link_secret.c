/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends of a link that know one secret or two, over shm within this process. */
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
#include "transport/shm/shm.h"

#define SECRET_MS 5000 /* deadline of every wait */

struct secret_end {
    struct stepgate_queue *queue;
    struct stepgate_domain *domain;
    struct proof_secret secret;
    struct link link;
    int told; /* last enum link_event_kind other than nothing */
};

struct secret_pair {
    struct stepgate_fabric *fabric;
    struct stepgate_listener *listener;
    struct secret_end active, passive;
};

/* secret_hello -- of a worker or ps of a job of one each. */
static struct hello secret_hello(uint8_t role)
{
    return (struct hello){
        .role = role, .purpose = HELLO_CONTROL, .job = hello_job_hash("test"), .workers = 1, .shards = 1};
}

/* secret_end_new -- an end with a secret of 32 equal bytes. */
static void secret_end_new(struct stepgate_fabric *fabric, int byte, struct secret_end *end)
{
    assert_int_equal(fabric->transport->queue_new(fabric, 1, &end->queue), 0);
    assert_int_equal(fabric->transport->domain_new(fabric, &end->domain), 0);
    memset(end->secret.data, byte, 32);
    end->secret.bytes = 32;
    link_init(&end->link, &end->secret, 0);
}

/* secret_begin -- both ends, and the active one on its way. */
static void secret_begin(struct secret_pair *pair, int active_byte, int passive_byte)
{
    const struct stepgate_transport_v1 *t = shm_transport();
    const struct stepgate_fabric_options options = {.size = sizeof(options)};
    const struct hello hello = secret_hello(STEPGATE_ROLE_WORKER);
    char address[STEPGATE_ADDRESS_BYTES];

    memset(pair, 0, sizeof(*pair));
    assert_int_equal(t->fabric_open(&options, &pair->fabric), 0);
    secret_end_new(pair->fabric, active_byte, &pair->active);
    secret_end_new(pair->fabric, passive_byte, &pair->passive);
    assert_int_equal(t->listener_new(pair->passive.queue, "127.0.0.1:0", &pair->listener), 0);
    assert_int_equal(t->listener_address(pair->listener, address, sizeof(address)), 0);
    assert_int_equal(link_connect(&pair->active.link, pair->active.queue, pair->active.domain, address,
                                  &hello, clock_now()),
                     0);
}

/* secret_take -- what has come to one end; a request is accepted. */
static void secret_take(struct secret_end *end)
{
    const struct hello hello = secret_hello(STEPGATE_ROLE_PS);
    struct stepgate_event events[8];
    int n = end->queue->transport->queue_poll(end->queue, events, 8);

    for (int i = 0; i < n; i++) {
        int told = LINK_NOTHING;
        if (events[i].kind == STEPGATE_EVENT_REQUEST)
            assert_int_equal(link_accept(&end->link, events[i].request, end->queue, end->domain, &hello,
                                         events[i].data, events[i].length, clock_now()),
                             0);
        else
            told = link_event(&end->link, &events[i], clock_now());
        end->told = told != LINK_NOTHING ? told : end->told;
    }
}

/* secret_run -- until both ends are up or down. */
static void secret_run(struct secret_pair *pair)
{
    uint64_t deadline = clock_after(clock_now(), SECRET_MS);

    while ((pair->active.told == LINK_NOTHING || pair->passive.told == LINK_NOTHING) &&
           clock_now() < deadline) {
        secret_take(&pair->active);
        secret_take(&pair->passive);
    }
}

/* secret_end_delete -- the other way round. */
static void secret_end_delete(struct secret_end *end)
{
    const struct stepgate_transport_v1 *t = end->queue->transport;

    link_close(&end->link);
    t->domain_delete(&end->domain);
    t->queue_delete(&end->queue);
}

/* secret_finish -- everything is given back. */
static void secret_finish(struct secret_pair *pair)
{
    pair->fabric->transport->listener_delete(&pair->listener);
    secret_end_delete(&pair->active);
    secret_end_delete(&pair->passive);
    pair->fabric->transport->fabric_delete(&pair->fabric);
}

static void one_secret_brings_both_ends_up(void **state)
{
    struct secret_pair pair;

    (void)state;
    secret_begin(&pair, 'a', 'a');
    secret_run(&pair);
    assert_int_equal(pair.active.told, LINK_CAME_UP);
    assert_int_equal(pair.passive.told, LINK_CAME_UP);
    secret_finish(&pair);
}

static void two_secrets_are_named_on_both_ends_at_once(void **state)
{
    struct secret_pair pair;

    (void)state;
    secret_begin(&pair, 'a', 'b');
    secret_run(&pair);
    assert_int_equal(pair.passive.told, LINK_WENT_DOWN);
    assert_int_equal(pair.passive.link.error.code, STEPGATE_EAUTH);
    assert_int_equal(pair.active.told, LINK_WENT_DOWN);
    assert_int_equal(pair.active.link.error.code, STEPGATE_EAUTH);
    assert_non_null(strstr(pair.active.link.error.text, "secret"));
    secret_finish(&pair);
}

/* secret_words -- what the active end makes of an abort with a code, from a peer that has proved nothing. */
static int secret_words(int code)
{
    const struct message abort = {.kind = MESSAGE_ABORT,
                                  .error = {.code = code, .text = "words of a stranger"}};
    uint8_t data[MESSAGE_BYTES_MAX];
    struct secret_pair pair;

    secret_begin(&pair, 'a', 'a');
    uint64_t deadline = clock_after(clock_now(), SECRET_MS);
    while (pair.active.link.state != LINK_PROVING && clock_now() < deadline) {
        secret_take(&pair.active);
        if (pair.passive.link.state == LINK_NEW)
            secret_take(&pair.passive);
    }
    assert_int_equal(pair.active.link.state, LINK_PROVING);
    const struct stepgate_event event = {
        .kind = STEPGATE_EVENT_MESSAGE, .data = data, .length = (uint32_t)message_pack(&abort, data)};
    assert_int_equal(link_event(&pair.active.link, &event, clock_now()), LINK_WENT_DOWN);
    assert_null(strstr(pair.active.link.error.text, "stranger"));
    code = pair.active.link.error.code;
    secret_finish(&pair);
    return code;
}

static void a_peer_that_proved_nothing_is_believed_no_other_reason(void **state)
{
    (void)state;
    assert_int_equal(secret_words(STEPGATE_EAUTH), STEPGATE_EAUTH);
    assert_int_equal(secret_words(STEPGATE_ELOST), STEPGATE_EPROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_secret_brings_both_ends_up),
        cmocka_unit_test(two_secrets_are_named_on_both_ends_at_once),
        cmocka_unit_test(a_peer_that_proved_nothing_is_believed_no_other_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
