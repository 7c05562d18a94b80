/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer is a process of its own, forked before anything is opened. */
#include "tests/unit/transport/shm/pair.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/base/error.h"

#define PEER_NOTIFIES 100U

/* peer_life -- what the peer does: connects, sends, closes or not, and waits to be killed. Its exit status says how far it came. */
static int peer_life(int from, bool closes)
{
    const struct stepgate_transport_v1 *t = shm_transport();
    struct stepgate_fabric_options options = {.size = sizeof(options)};
    char address[STEPGATE_ADDRESS_BYTES];
    struct stepgate_event event;
    struct side side = {0};
    uint64_t deadline = clock_after(clock_now(), PAIR_PATIENCE_MS);
    int n = 0;

    if (read(from, address, sizeof(address)) != (ssize_t)sizeof(address))
        return 1;
    if (t->fabric_open(&options, &side.fabric) < 0 || t->domain_new(side.fabric, &side.domain) < 0 ||
        t->queue_new(side.fabric, 1, &side.queue) < 0 ||
        t->endpoint_connect(side.queue, side.domain, address, NULL, 0, NULL, &side.endpoint) < 0)
        return 2;
    while (n == 0 && clock_now() < deadline)
        n = t->queue_poll(side.queue, &event, 1);
    if (n != 1 || event.kind != STEPGATE_EVENT_CONNECTED)
        return 3;
    for (uint32_t i = 0; i < PEER_NOTIFIES; i++)
        if (t->endpoint_notify(side.endpoint, i) < 0)
            return 4;
    if (closes)
        t->endpoint_delete(&side.endpoint);
    for (;;)
        pause();
}

/* peer_begin_that -- forks the peer and takes its connection. */
static pid_t peer_begin_that(struct pair *pair, bool closes)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        _exit(peer_life(ends[0], closes));
    }
    close(ends[0]);
    pair_listen(pair, 0);
    assert_int_equal(write(ends[1], pair->address, sizeof(pair->address)), sizeof(pair->address));
    close(ends[1]);
    pair_accept(pair);
    return pid;
}

/* peer_begin -- one that closes nothing. */
static pid_t peer_begin(struct pair *pair)
{
    return peer_begin_that(pair, false);
}

/* peer_sent -- waits until the peer has published all its notifies, without taking any. */
static void peer_sent(struct pair *pair)
{
    const struct shm_receiver *receiver = &side_shm(&pair->passive)->receiver;
    uint64_t deadline = clock_after(clock_now(), PAIR_PATIENCE_MS);

    while (atomic_load(&receiver->control->tail) < PEER_NOTIFIES * SHM_RECORD_HEADER &&
           clock_now() < deadline)
        usleep(1000);
    assert_int_equal(atomic_load(&receiver->control->tail), PEER_NOTIFIES * SHM_RECORD_HEADER);
}

/* peer_kill -- as the kernel does it when memory is short. */
static void peer_kill(pid_t pid)
{
    int status = 0;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status)); /* it had got as far as waiting */
}

/* peer_expect_end -- DISCONNECTED, and nothing else ever. */
static void peer_expect_end(struct pair *pair, uint64_t since)
{
    struct stepgate_error error = {.size = sizeof(error)};
    struct stepgate_event event;

    side_expect(&pair->passive, &event, STEPGATE_EVENT_DISCONNECTED);
    assert_int_equal(event.status, -STEPGATE_EPEER);
    assert_int_equal(event.value, STEPGATE_END_DIED);
    assert_true(clock_now() - since < 1000 * CLOCK_MS);
    assert_int_equal(stepgate_error_last(&error), 0);
    assert_int_equal(error.code, STEPGATE_EPEER);
    assert_non_null(strstr(error.text, "process"));
    assert_int_equal(side_next(&pair->passive, &event, 20), 0);
    assert_int_equal(shm_transport()->endpoint_notify(pair->passive.endpoint, 1), -STEPGATE_EPEER);
}

static void what_a_killed_peer_had_sent_arrives_before_its_end(void **state)
{
    struct pair pair;
    struct stepgate_event event;
    pid_t pid = peer_begin(&pair);

    (void)state;
    peer_sent(&pair);
    peer_kill(pid);
    usleep(20000);
    uint64_t since = clock_now();
    for (uint32_t i = 0; i < PEER_NOTIFIES; i++) {
        side_expect(&pair.passive, &event, STEPGATE_EVENT_NOTIFY);
        assert_int_equal(event.value, i);
    }
    peer_expect_end(&pair, since);
    pair_close(&pair);
}

/* peer_take_all -- takes the peer's notifies. */
static void peer_take_all(struct pair *pair)
{
    struct stepgate_event event;

    for (uint32_t i = 0; i < PEER_NOTIFIES; i++)
        side_expect(&pair->passive, &event, STEPGATE_EVENT_NOTIFY);
}

static void busy_poller_sees_a_killed_peer_within_a_second(void **state)
{
    struct pair pair;
    pid_t pid = peer_begin(&pair);

    (void)state;
    peer_take_all(&pair);
    uint64_t since = clock_now();
    peer_kill(pid);
    peer_expect_end(&pair, since);
    pair_close(&pair);
}

static void sleeper_is_woken_by_the_death_of_its_peer(void **state)
{
    struct pair pair;
    struct stepgate_event event;
    pid_t pid = peer_begin(&pair);

    (void)state;
    peer_take_all(&pair);
    struct pollfd fd = {.fd = shm_transport()->queue_fd(pair.passive.queue), .events = POLLIN};
    while (shm_transport()->queue_arm(pair.passive.queue) == 1)
        assert_int_equal(shm_transport()->queue_poll(pair.passive.queue, &event, 1), 0);
    assert_int_equal(poll(&fd, 1, 20), 0);
    uint64_t since = clock_now();
    peer_kill(pid);
    assert_int_equal(poll(&fd, 1, PAIR_PATIENCE_MS), 1);
    peer_expect_end(&pair, since);
    while (shm_transport()->queue_arm(pair.passive.queue) ==
           1) /* a dead peer does not keep the queue awake */
        assert_int_equal(shm_transport()->queue_poll(pair.passive.queue, &event, 1), 0);
    assert_int_equal(poll(&fd, 1, 20), 0);
    pair_close(&pair);
}

static void peer_that_nobody_has_waited_for_is_dead_as_well(void **state)
{
    struct pair pair;
    pid_t pid = peer_begin(&pair);

    (void)state;
    peer_take_all(&pair);
    uint64_t since = clock_now();
    assert_int_equal(kill(pid, SIGKILL), 0);
    peer_expect_end(&pair, since);
    peer_kill(pid);
    pair_close(&pair);
}

static void peer_that_closes_and_lives_has_closed(void **state)
{
    struct pair pair;
    struct stepgate_event event;
    pid_t pid = peer_begin_that(&pair, true);

    (void)state;
    peer_take_all(&pair);
    struct pollfd fd = {.fd = shm_transport()->queue_fd(pair.passive.queue), .events = POLLIN};
    int n = 0;
    while (n == 0) { /* asleep, as one that has nothing else to do */
        while (shm_transport()->queue_arm(pair.passive.queue) == 0)
            assert_int_equal(poll(&fd, 1, PAIR_PATIENCE_MS), 1);
        n = shm_transport()->queue_poll(pair.passive.queue, &event, 1);
    }
    assert_int_equal(event.kind, STEPGATE_EVENT_DISCONNECTED);
    assert_int_equal(event.status, -STEPGATE_EPEER);
    assert_int_equal(event.value, STEPGATE_END_CLOSED);
    peer_kill(pid);
    pair_close(&pair);
}

static void nothing_stays_behind_a_killed_listener(void **state)
{
    int ends[2];
    char address[STEPGATE_ADDRESS_BYTES];
    struct pair pair;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pair_listen(&pair, 0);
        if (write(ends[1], pair.address, sizeof(pair.address)) != (ssize_t)sizeof(pair.address))
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], address, sizeof(address)), sizeof(address));
    close(ends[0]);
    close(ends[1]);
    side_open(&pair.passive, 0);
    pair.listener = NULL;
    assert_int_equal(shm_transport()->listener_new(pair.passive.queue, address, &pair.listener),
                     -STEPGATE_EBUSY);
    peer_kill(pid);
    assert_int_equal(shm_transport()->listener_new(pair.passive.queue, address, &pair.listener), 0);
    shm_transport()->listener_delete(&pair.listener);
    side_close(&pair.passive);
}

static void what_does_not_fit_into_one_poll_arrives_before_the_end(void **state)
{
    struct pair pair;
    struct stepgate_event events[128];
    char bytes[SHM_MESSAGE_BYTES] = {0};
    uint32_t sent = 0, taken = 0, polls = 0;
    int n;

    (void)state;
    pair_open(&pair, 1024);
    while (shm_transport()->endpoint_send(pair.active.endpoint, bytes, sizeof(bytes)) == 0)
        bytes[0] = (char)++sent;
    assert_in_range(sent, 64, 127);
    shm_transport()->endpoint_delete(&pair.active.endpoint);
    usleep(20000);
    while ((n = shm_transport()->queue_poll(pair.passive.queue, events, 128)) > 0) {
        polls++;
        for (int i = 0; i < n && events[i].kind == STEPGATE_EVENT_MESSAGE; i++)
            assert_int_equal(((const char *)events[i].data)[0], (char)taken++);
        if (events[n - 1].kind == STEPGATE_EVENT_DISCONNECTED)
            break;
    }
    assert_true(n > 0);
    assert_true(polls > 1);
    assert_int_equal(taken, sent);
    pair_close(&pair);
}

/* peer_foreign_name -- the abstract name of a port of this process's user, whoever uses it. */
static socklen_t peer_foreign_name(unsigned port, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n =
        snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "stepgate.%u.%u", (unsigned)geteuid(), port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static void process_of_another_user_is_not_let_in(void **state)
{
    struct pair pair;
    struct stepgate_event event;
    struct sockaddr_un name;
    int status = 0;

    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can become somebody else */
    pair_listen(&pair, 0);
    socklen_t length = peer_foreign_name((unsigned)strtoul(strrchr(pair.address, ':') + 1, NULL, 10), &name);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char byte;
        alarm(5);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (setresuid(65534, 65534, 65534) != 0 || connect(fd, (struct sockaddr *)&name, length) != 0)
            _exit(1);
        while (recv(fd, &byte, 1, 0) > 0) /* the refusal, then the end */
            continue;
        _exit(0);
    }
    assert_int_equal(side_next(&pair.passive, &event, 200), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pair_close(&pair);
}

static void listener_of_another_user_is_not_trusted(void **state)
{
    struct side side;
    struct stepgate_error error = {.size = sizeof(error)};
    struct stepgate_event event;
    struct sockaddr_un name;
    char address[64], ready;
    int ends[2];
    const unsigned port = 19000 + (unsigned)getpid() % 1000;

    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can become somebody else */
    socklen_t length = peer_foreign_name(port, &name);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (setresuid(65534, 65534, 65534) != 0 || bind(fd, (struct sockaddr *)&name, length) != 0 ||
            listen(fd, 8) != 0 || write(ends[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &ready, 1), 1);
    close(ends[0]);
    side_open(&side, 0);
    snprintf(address, sizeof(address), "localhost:%u", port);
    assert_int_equal(
        shm_transport()->endpoint_connect(side.queue, side.domain, address, NULL, 0, NULL, &side.endpoint),
        0);
    side_expect(&side, &event, STEPGATE_EVENT_DISCONNECTED);
    assert_int_equal(event.status, -STEPGATE_EREFUSED);
    assert_int_equal(stepgate_error_last(&error), 0);
    assert_non_null(strstr(error.text, "another user"));
    side_close(&side);
    peer_kill(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_killed_peer_had_sent_arrives_before_its_end),
        cmocka_unit_test(busy_poller_sees_a_killed_peer_within_a_second),
        cmocka_unit_test(sleeper_is_woken_by_the_death_of_its_peer),
        cmocka_unit_test(peer_that_nobody_has_waited_for_is_dead_as_well),
        cmocka_unit_test(peer_that_closes_and_lives_has_closed),
        cmocka_unit_test(nothing_stays_behind_a_killed_listener),
        cmocka_unit_test(process_of_another_user_is_not_let_in),
        cmocka_unit_test(listener_of_another_user_is_not_trusted),
        cmocka_unit_test(what_does_not_fit_into_one_poll_arrives_before_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
