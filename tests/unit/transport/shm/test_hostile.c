/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that break the protocol: by raw sockets, and from the inside of an endpoint. */
#include "tests/unit/transport/shm/pair.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/base/error.h"
#include "transport/base/hosts.h"
#include "transport/shm/connection.h"
#include "transport/shm/doorbell.h"
#include "transport/shm/frame.h"
#include "transport/shm/listener.h"
#include "transport/shm/region.h"
#include "transport/shm/remote.h"
#include "transport/shm/socket.h"

/* hostile_call -- a socket that is connected to the pair's listener. */
static int hostile_call(const struct pair *pair)
{
    struct hosts_entry entry;
    int fd = shm_socket_new();

    assert_true(fd >= 0);
    assert_int_equal(shm_socket_parse(pair->address, false, &entry), 0);
    assert_int_equal(shm_socket_connect(fd, entry.port), 0);
    return fd;
}

/* hostile_hung_up -- polls the listener until the caller is hung up on; no event comes of it. */
static void hostile_hung_up(struct pair *pair, int fd)
{
    uint64_t deadline = clock_after(clock_now(), PAIR_PATIENCE_MS);
    struct stepgate_event event;
    struct shm_frame frame;
    int status = 0, events = 0;

    while (status >= 0 && clock_now() < deadline) {
        events += shm_transport()->queue_poll(pair->passive.queue, &event, 1);
        status = shm_frame_receive(fd, &frame);
        if (status == 1)
            assert_int_equal(frame.kind, SHM_FRAME_REFUSE);
    }
    assert_int_equal(status, -STEPGATE_EPEER);
    assert_int_equal(events, 0);
    close(fd);
}

static void caller_who_sends_nonsense_is_hung_up_on(void **state)
{
    static const char noise[300] = "noise";
    struct pair pair;

    (void)state;
    pair_listen(&pair, 0);
    for (size_t length = 1; length <= sizeof(noise); length += 127) {
        int fd = hostile_call(&pair);
        assert_int_equal(send(fd, noise, length, 0), (ssize_t)length);
        hostile_hung_up(&pair, fd);
    }
    pair_close(&pair);
}

static void caller_who_says_nothing_is_hung_up_on_in_the_end(void **state)
{
    struct pair pair;

    (void)state;
    pair_listen(&pair, 0); /* connect_timeout_ms is 1000 */
    uint64_t since = clock_now();
    hostile_hung_up(&pair, hostile_call(&pair));
    assert_in_range((clock_now() - since) / CLOCK_MS, 900, 3000);
    pair_close(&pair);
}

static void request_without_a_doorbell_is_refused(void **state)
{
    struct pair pair;
    int ends[2];

    (void)state;
    pair_listen(&pair, 0);
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    struct shm_frame frame = {.kind = SHM_FRAME_REQUEST, .operations = 256, .fds = {ends[1], -1}};
    int fd = hostile_call(&pair);
    assert_int_equal(shm_frame_send(fd, &frame), 0);
    hostile_hung_up(&pair, fd);
    close(ends[0]);
    close(ends[1]);
    pair_close(&pair);
}

static void request_of_another_version_is_told_so(void **state)
{
    struct pair pair;
    struct stepgate_event event;
    struct shm_frame answer;
    uint8_t bytes[SHM_FRAME_BYTES] = {'S', 'G', 'S', 'H', SHM_FRAME_VERSION + 1, 0, SHM_FRAME_REQUEST};
    uint64_t deadline = clock_after(clock_now(), PAIR_PATIENCE_MS);
    int status = 0;

    (void)state;
    pair_listen(&pair, 0);
    int fd = hostile_call(&pair);
    assert_int_equal(send(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    while (status == 0 && clock_now() < deadline) {
        assert_int_equal(shm_transport()->queue_poll(pair.passive.queue, &event, 1), 0);
        status = shm_frame_receive(fd, &answer);
    }
    assert_int_equal(status, 1);
    assert_int_equal(answer.kind, SHM_FRAME_REFUSE);
    assert_int_equal(answer.status, STEPGATE_EVERSION);
    close(fd);
    pair_close(&pair);
}

/* hostile_answer -- a raw listener answers a connect with a frame; returns the status of DISCONNECTED. */
static int hostile_answer(struct shm_frame *answer)
{
    struct stepgate_event event;
    struct side side;
    char address[64];
    uint16_t port = 0;
    int listener = shm_socket_listen(&port);

    assert_true(listener >= 0);
    side_open(&side, 0);
    snprintf(address, sizeof(address), "localhost:%u", port);
    assert_int_equal(
        shm_transport()->endpoint_connect(side.queue, side.domain, address, NULL, 0, NULL, &side.endpoint),
        0);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(shm_frame_send(fd, answer), 0);
    side_expect(&side, &event, STEPGATE_EVENT_DISCONNECTED);
    int status = event.status;
    assert_int_equal(side_next(&side, &event, 10), 0);
    side_close(&side);
    close(fd);
    close(listener);
    return status;
}

/* hostile_rings -- a segment as large as both rings; sealed or not. */
static int hostile_rings(uint64_t length, int seals)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)length), 0);
    assert_int_equal(fallocate(fd, 0, 0, (off_t)length), 0);
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void answer_that_makes_no_sense_ends_the_connection(void **state)
{
    const uint64_t length = 4096 + 2 * shm_ring_bytes(256);
    int bell = shm_doorbell_new(), blocking = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int sealed = hostile_rings(length, F_SEAL_SHRINK | F_SEAL_GROW), open_ended = hostile_rings(length, 0);
    int shorter = hostile_rings(length - 4096, F_SEAL_SHRINK | F_SEAL_GROW);
    const struct shm_frame good = {
        .kind = SHM_FRAME_ACCEPT, .operations = 256, .length = length, .fds = {sealed, bell}};
    struct shm_frame answers[6];

    (void)state;
    for (size_t i = 0; i < 6; i++)
        answers[i] = good;
    answers[0].fds[0] = open_ended;
    answers[1].fds[0] = shorter;
    answers[2].fds[1] = blocking;
    answers[3].operations = 257; /* more than was asked for */
    answers[4].operations = 1;
    answers[5].length = length + 8;
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(hostile_answer(&answers[i]), -STEPGATE_EPROTOCOL);
    struct shm_frame grant = {.kind = SHM_FRAME_GRANT, .length = 1, .access = 1, .fds = {sealed, -1}};
    assert_int_equal(hostile_answer(&grant), -STEPGATE_EPROTOCOL);
    close(bell);
    close(blocking);
    close(sealed);
    close(open_ended);
    close(shorter);
}

static void listener_of_nobody_answers_in_time(void **state)
{
    struct stepgate_event event;
    struct side side;
    char address[64];
    uint16_t port = 0;
    int listener = shm_socket_listen(&port);

    (void)state;
    assert_true(listener >= 0);
    side_open(&side, 0);
    snprintf(address, sizeof(address), "localhost:%u", port);
    uint64_t since = clock_now();
    assert_int_equal(
        shm_transport()->endpoint_connect(side.queue, side.domain, address, "x", 1, NULL, &side.endpoint), 0);
    side_expect(&side, &event, STEPGATE_EVENT_DISCONNECTED);
    assert_int_equal(event.status, -STEPGATE_EUNREACHABLE);
    assert_int_equal(event.length, 0);
    assert_in_range((clock_now() - since) / CLOCK_MS, 900, 3000);
    side_close(&side);
    close(listener);
}

static void ring_that_makes_no_sense_ends_the_connection(void **state)
{
    struct pair pair;
    struct stepgate_event event;

    (void)state;
    pair_open(&pair, 0);
    struct shm_sender *sender = &side_shm(&pair.active)->sender;
    assert_int_equal(shm_transport()->endpoint_notify(pair.active.endpoint, 3), 0);
    atomic_store(&sender->control->tail, sender->tail + 8); /* a record of zeros */
    side_expect(&pair.passive, &event, STEPGATE_EVENT_NOTIFY);
    side_expect(&pair.passive, &event, STEPGATE_EVENT_DISCONNECTED);
    assert_int_equal(event.status, -STEPGATE_EPROTOCOL);
    assert_int_equal(side_next(&pair.passive, &event, 10), 0);
    assert_int_equal(shm_transport()->endpoint_notify(pair.passive.endpoint, 1), -STEPGATE_EPEER);
    pair_close(&pair);
}

static void hostile_position_is_noticed_while_sleeping_too(void **state)
{
    struct pair pair;

    (void)state;
    pair_open(&pair, 0);
    atomic_store(&side_shm(&pair.active)->sender.control->tail, UINT64_MAX);
    assert_int_equal(shm_transport()->queue_arm(pair.passive.queue), 1);
    pair_close(&pair);
}

static void importer_cannot_resize_or_overwrite_what_it_may_read(void **state)
{
    struct pair pair;
    struct stepgate_descriptor descriptor;
    struct stepgate_remote *remote = NULL, *again = NULL;

    (void)state;
    pair_open(&pair, 0);
    struct stepgate_region *region = pair_region(&pair, STEPGATE_ACCESS_READ, 8192);
    assert_int_equal(
        shm_transport()->endpoint_export(pair.passive.endpoint, region, STEPGATE_ACCESS_READ, &descriptor),
        0);
    struct shm_frame frame; /* what a hostile importer has in its hands */
    assert_int_equal(shm_frame_receive(side_shm(&pair.active)->fd, &frame), 1);
    assert_int_equal(frame.kind, SHM_FRAME_GRANT);
    assert_int_equal(ftruncate(frame.fds[0], 0), -1);
    assert_int_equal(errno, EPERM);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, frame.fds[0], 0), MAP_FAILED);
    shm_frame_drop(&frame);
    pair_close(&pair);

    pair_open(&pair, 0); /* and what an honest one can do */
    struct stepgate_region *other = pair_region(&pair, STEPGATE_ACCESS_READ, 8192);
    assert_int_equal(
        shm_transport()->endpoint_export(pair.passive.endpoint, other, STEPGATE_ACCESS_READ, &descriptor), 0);
    descriptor.bytes[4] |= STEPGATE_ACCESS_WRITE;
    assert_int_equal(shm_transport()->endpoint_import(pair.active.endpoint, &descriptor, &remote),
                     -STEPGATE_EACCESS);
    descriptor.bytes[4] = STEPGATE_ACCESS_READ;
    assert_int_equal(shm_transport()->endpoint_import(pair.active.endpoint, &descriptor, &remote), 0);
    assert_int_equal(mprotect(remote->mapped, 4096, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(shm_transport()->endpoint_import(pair.active.endpoint, &descriptor, &again), 0);
    assert_ptr_equal(again->mapped, remote->mapped);
    shm_transport()->remote_delete(&remote);
    assert_int_equal(((const uint8_t *)again->mapped)[8191], 0); /* the other one still has it */
    shm_transport()->remote_delete(&again);
    shm_transport()->region_delete(&region);
    shm_transport()->region_delete(&other);
    pair_close(&pair);
}

/* hostile_grant -- the passive side grants a descriptor of its own making; returns the code of the import. */
static int hostile_grant(int fd, uint64_t length, unsigned access)
{
    struct pair pair;
    struct stepgate_descriptor descriptor;
    struct stepgate_remote *remote = NULL;

    pair_open(&pair, 0);
    struct stepgate_region *region = pair_region(&pair, PAIR_ALL, length);
    assert_int_equal(shm_transport()->endpoint_export(pair.passive.endpoint, region, access, &descriptor), 0);
    struct shm_frame frame;
    assert_int_equal(shm_frame_receive(side_shm(&pair.active)->fd, &frame), 1);
    shm_frame_drop(&frame);
    frame.fds[0] = fd; /* the same grant with other memory */
    assert_int_equal(shm_frame_send(side_shm(&pair.passive)->fd, &frame), 0);
    int status = shm_transport()->endpoint_import(pair.active.endpoint, &descriptor, &remote);
    assert_null(remote);
    shm_transport()->region_delete(&region);
    pair_close(&pair);
    return status;
}

static void granted_memory_that_is_not_what_it_seems_is_refused(void **state)
{
    int unsealed = hostile_rings(8192, 0), shorter = hostile_rings(4096, F_SEAL_SHRINK | F_SEAL_GROW);
    int sealed = hostile_rings(8192, F_SEAL_SHRINK | F_SEAL_GROW | 0x0010 /* future write */);
    int file = open("/dev/zero", O_RDWR | O_CLOEXEC);

    (void)state;
    assert_int_equal(hostile_grant(unsealed, 8192, PAIR_ALL), -STEPGATE_EPROTOCOL);
    assert_int_equal(hostile_grant(shorter, 8192, PAIR_ALL), -STEPGATE_EPROTOCOL);
    assert_int_equal(hostile_grant(file, 8192, STEPGATE_ACCESS_READ), -STEPGATE_EPROTOCOL);
    assert_int_equal(hostile_grant(sealed, 8192, PAIR_ALL), -STEPGATE_EACCESS);
    close(unsealed);
    close(shorter);
    close(sealed);
    close(file);
}

static void descriptor_that_never_came_is_still_under_way(void **state)
{
    struct pair pair;
    struct stepgate_descriptor descriptor;
    struct stepgate_remote *remote = NULL;

    (void)state;
    pair_open(&pair, 0);
    struct stepgate_region *region = pair_region(&pair, PAIR_ALL, 4096);
    assert_int_equal(shm_transport()->endpoint_export(pair.passive.endpoint, region, PAIR_ALL, &descriptor),
                     0);
    descriptor.bytes[8] ^= 1;
    assert_int_equal(shm_transport()->endpoint_import(pair.active.endpoint, &descriptor, &remote),
                     -STEPGATE_EAGAIN);
    shm_transport()->endpoint_delete(&pair.passive.endpoint); /* now it can never come */
    assert_int_equal(shm_transport()->endpoint_import(pair.active.endpoint, &descriptor, &remote),
                     -STEPGATE_EPEER);
    descriptor.bytes[8] ^= 1; /* this one had come */
    assert_int_equal(shm_transport()->endpoint_import(pair.active.endpoint, &descriptor, &remote), 0);
    shm_transport()->remote_delete(&remote);
    shm_transport()->region_delete(&region);
    pair_close(&pair);
}

/* hostile_open_fds -- how many descriptors this process has open. */
static int hostile_open_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void no_descriptor_is_left_open(void **state)
{
    struct pair pair;
    int before = hostile_open_fds();

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct stepgate_descriptor descriptor;
        struct stepgate_remote *remote = NULL;
        pair_open(&pair, 0);
        struct stepgate_region *region = pair_region(&pair, PAIR_ALL, 4096);
        assert_int_equal(
            shm_transport()->endpoint_export(pair.passive.endpoint, region, PAIR_ALL, &descriptor), 0);
        assert_int_equal(shm_transport()->endpoint_export(pair.passive.endpoint, region, STEPGATE_ACCESS_READ,
                                                          &descriptor),
                         0);
        if (i > 0)
            assert_int_equal(shm_transport()->endpoint_import(pair.active.endpoint, &descriptor, &remote), 0);
        shm_transport()->remote_delete(&remote);
        shm_transport()->region_delete(&region);
        pair_close(&pair);
        assert_int_equal(hostile_open_fds(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caller_who_sends_nonsense_is_hung_up_on),
        cmocka_unit_test(caller_who_says_nothing_is_hung_up_on_in_the_end),
        cmocka_unit_test(request_without_a_doorbell_is_refused),
        cmocka_unit_test(request_of_another_version_is_told_so),
        cmocka_unit_test(answer_that_makes_no_sense_ends_the_connection),
        cmocka_unit_test(listener_of_nobody_answers_in_time),
        cmocka_unit_test(ring_that_makes_no_sense_ends_the_connection),
        cmocka_unit_test(hostile_position_is_noticed_while_sleeping_too),
        cmocka_unit_test(importer_cannot_resize_or_overwrite_what_it_may_read),
        cmocka_unit_test(granted_memory_that_is_not_what_it_seems_is_refused),
        cmocka_unit_test(descriptor_that_never_came_is_still_under_way),
        cmocka_unit_test(no_descriptor_is_left_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
