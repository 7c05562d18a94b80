/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/verbs/device.h"
#include "transport/verbs/seam.h"

#define LIST 4U

/* What the fake provider answers. */
static int fake_ret;
static int fake_bad; /* index of the bad request; -1: bad_wr is left alone */
static uint64_t fake_bytes, fake_requests;

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    (void)qp;
    for (int i = 0; fake_bad >= 0 && wr != NULL; i++, wr = wr->next)
        if (i == fake_bad)
            *bad = wr;
    return fake_ret;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp;
    if (fake_bad >= 0)
        *bad = wr;
    return fake_ret;
}

static int fake_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    (void)cq;
    (void)count;
    (void)wc;
    return fake_ret;
}

static void fake_posted(void *context, const struct ibv_send_wr *wr, uint64_t bytes)
{
    (void)context;
    (void)wr;
    fake_bytes += bytes;
    fake_requests++;
}

static int fake_fault(void *context, const char *call)
{
    return strcmp(call, context) == 0 ? ENOBUFS : 0;
}

/* fake_list -- posts a list of 4 requests of 100 bytes; returns the result, and how many were taken. */
static int fake_list(uint32_t *posted)
{
    struct ibv_send_wr wr[LIST];
    struct ibv_sge sge = {.length = 100};

    memset(wr, 0, sizeof(wr));
    for (uint32_t i = 0; i < LIST; i++) {
        wr[i].next = i + 1 < LIST ? &wr[i + 1] : NULL;
        wr[i].sg_list = &sge;
        wr[i].num_sge = 1;
    }
    fake_bytes = fake_requests = 0;
    return seam_post_send(NULL, wr, posted);
}

static const struct seam_hook provider = {
    .post_send = fake_post_send, .post_recv = fake_post_recv, .poll_cq = fake_poll_cq, .posted = fake_posted};

static int install(void **state)
{
    (void)state;
    seam_hook_set(&provider);
    return 0;
}

static int removed(void **state)
{
    (void)state;
    seam_hook_set(NULL);
    return 0;
}

static void every_convention_becomes_zero_or_a_negative_errno(void **state)
{
    (void)state;
    errno = EADDRINUSE;
    assert_int_equal(seam_result(0), 0);
    assert_int_equal(seam_result(-1), -EADDRINUSE);  /* librdmacm */
    assert_int_equal(seam_result(ENOMEM), -ENOMEM);  /* libibverbs */
    assert_int_equal(seam_result(-EINVAL), -EINVAL); /* siw */
    errno = 0;
    assert_int_equal(seam_result(-1), -EIO);
}

static void wholly_posted_list_counts_all(void **state)
{
    uint32_t posted;

    (void)state;
    fake_ret = 0;
    fake_bad = -1;
    assert_int_equal(fake_list(&posted), 0);
    assert_int_equal(posted, LIST);
    assert_true(fake_bytes == 100 * LIST && fake_requests == LIST);
}

static void success_with_bad_wr_is_a_failure(void **state)
{
    uint32_t posted;
    struct ibv_recv_wr wr = {.next = NULL};

    (void)state;
    fake_ret = 0;
    fake_bad = 3;
    assert_int_equal(fake_list(&posted), -ENOMEM);
    assert_int_equal(posted, 3);
    assert_true(fake_requests == 3);
    assert_int_equal(seam_post_recv(NULL, &wr), -ENOMEM);
}

static void errors_of_either_sign_say_how_many_were_taken(void **state)
{
    uint32_t posted;

    (void)state;
    fake_bad = 1;
    fake_ret = ENOMEM;
    assert_int_equal(fake_list(&posted), -ENOMEM);
    assert_int_equal(posted, 1);
    fake_ret = -EINVAL;
    assert_int_equal(fake_list(&posted), -EINVAL);
    assert_int_equal(posted, 1);
    fake_bad = -1; /* does not say which */
    assert_int_equal(fake_list(&posted), -EINVAL);
    assert_int_equal(posted, 0);
}

static void poll_errors_are_negative_and_counts_are_kept(void **state)
{
    struct ibv_wc wc;

    (void)state;
    fake_ret = 7;
    assert_int_equal(seam_poll_cq(NULL, 16, &wc), 7);
    fake_ret = -EIO;
    assert_int_equal(seam_poll_cq(NULL, 16, &wc), -EIO);
}

static void injected_fault_keeps_the_call_from_being_made(void **state)
{
    char call[] = "ibv_post_send";
    const struct seam_hook hook = {.context = call, .fault = fake_fault, .post_send = fake_post_send};
    uint32_t posted;

    (void)state;
    fake_ret = 0;
    fake_bad = -1;
    seam_hook_set(&hook);
    assert_int_equal(fake_list(&posted), -ENOBUFS);
    assert_int_equal(posted, 0);
    seam_hook_set(&provider);
    assert_int_equal(fake_list(&posted), 0);
}

static void retries_fit_into_half_the_peer_timeout(void **state)
{
    (void)state;
    for (int ms = 1000; ms <= 60000; ms += 500) {
        uint8_t t = device_ack_timeout(ms);
        assert_in_range(t, 14, 21);
        if (t > 14)
            assert_true((DEVICE_RETRIES + 1) * (UINT64_C(4096) << t) <= (uint64_t)ms * 500000);
        if (t < 21)
            assert_true((DEVICE_RETRIES + 1) * (UINT64_C(4096) << (t + 1)) > (uint64_t)ms * 500000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_convention_becomes_zero_or_a_negative_errno),
        cmocka_unit_test_setup_teardown(wholly_posted_list_counts_all, install, removed),
        cmocka_unit_test_setup_teardown(success_with_bad_wr_is_a_failure, install, removed),
        cmocka_unit_test_setup_teardown(errors_of_either_sign_say_how_many_were_taken, install, removed),
        cmocka_unit_test_setup_teardown(poll_errors_are_negative_and_counts_are_kept, install, removed),
        cmocka_unit_test_setup_teardown(injected_fault_keeps_the_call_from_being_made, install, removed),
        cmocka_unit_test(retries_fit_into_half_the_peer_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
