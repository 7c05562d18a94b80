/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer -- writes and reads of every size arrive whole. */
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/conformance/transfer.h"

#include "tests/conformance/promise.h"

#define TRANSFER_ALL (STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE)

/* transfer_open -- two parties, a source and a sink at [0], a target at [1]. */
int transfer_open(struct suite *suite, uint64_t bytes, struct party *party[2], struct link *link,
                  struct stepgate_region **source, struct stepgate_region **target,
                  struct stepgate_remote **remote)
{
    if (party_open(suite, 0, 0, &party[0]) < 0 || party_open(suite, 0, 0, &party[1]) < 0 ||
        link_open(party[0], party[1], link) < 0 || party_region(party[0], 0, bytes, source) < 0 ||
        party_region(party[1], TRANSFER_ALL, bytes, target) < 0)
        return -1;
    return link_grant(link->end[1], *target, TRANSFER_ALL, link->end[0], remote);
}

/* transfer_write -- writes, waits for the completion, notifies, waits for the notify. */
int transfer_write(struct suite *suite, struct link *link, struct stepgate_region *source, uint64_t from,
                   struct stepgate_remote *remote, uint64_t to, uint64_t length, int ms)
{
    uint32_t before = link->end[1]->arrival_count;
    uint32_t completed = end_completed(link->end[0], length);
    int rc;

    POST(suite, rc,
         suite->transport->endpoint_write(link->end[0]->endpoint, source, from, NULL, remote, to, length,
                                          STEPGATE_POST_COMPLETE, length));
    CHECK(suite, rc == 0, "endpoint_write of %llu bytes: %d, %s", (unsigned long long)length, rc,
          suite_error());
    POST(suite, rc, suite->transport->endpoint_notify(link->end[0]->endpoint, 1));
    CHECK(suite, rc == 0, "endpoint_notify: %d, %s", rc, suite_error());
    UNTIL(suite, link->end[1]->arrival_count > before && end_completed(link->end[0], length) > completed, ms);
    CHECK(suite, end_completed(link->end[0], length) == completed + 1,
          "the write of %llu bytes did not complete once", (unsigned long long)length);
    CHECK(suite, link->end[0]->completions[link->end[0]->completion_count - 1].status == 0,
          "the write failed: %d", link->end[0]->completions[link->end[0]->completion_count - 1].status);
    CHECK(suite, link->end[1]->arrival_count == before + 1, "the notify after %llu bytes did not come",
          (unsigned long long)length);
    return 0;
}

/* transfer_read -- reads and waits for the completion. */
int transfer_read(struct suite *suite, struct link *link, struct stepgate_region *sink, uint64_t to,
                  struct stepgate_remote *remote, uint64_t from, uint64_t length, int ms)
{
    uint32_t before = link->end[0]->completion_count;
    int rc;

    POST(suite, rc,
         suite->transport->endpoint_read(link->end[0]->endpoint, sink, to, remote, from, length,
                                         STEPGATE_POST_COMPLETE, 77));
    CHECK(suite, rc == 0, "endpoint_read of %llu bytes: %d, %s", (unsigned long long)length, rc,
          suite_error());
    UNTIL(suite, link->end[0]->completion_count > before, ms);
    CHECK(suite, link->end[0]->completion_count == before + 1, "the read of %llu bytes did not complete",
          (unsigned long long)length);
    CHECK(suite,
          link->end[0]->completions[before].status == 0 && link->end[0]->completions[before].context == 77,
          "the read failed: %d", link->end[0]->completions[before].status);
    return 0;
}

/* promise_large -- a transfer longer than a piece is split inside and arrives whole, written and read. */
int promise_large(struct suite *suite)
{
    const uint64_t most = suite->soft ? UINT64_C(24) << 20 : UINT64_C(256) << 20;
    struct party *party[2];
    struct link link, probe;
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;

    if (party_open(suite, 0, 0, &party[0]) < 0 || party_open(suite, 0, 0, &party[1]) < 0 ||
        link_open(party[0], party[1], &probe) < 0)
        return -1;
    uint64_t piece = end_can(probe.end[0]).piece_bytes;
    CHECK(suite, piece > 0, "piece_bytes is 0");
    end_delete(probe.end[0]);
    end_delete(probe.end[1]);
    party_close(party[1]);
    party_close(party[0]);
    uint64_t length = (piece < most / 3 ? 2 * piece : most / 2) + 12345;
    if (length < (UINT64_C(3) << 20))
        length = (UINT64_C(3) << 20) + 12345;
    if (transfer_open(suite, length + 100, party, &link, &source, &target, &remote) < 0)
        return -1;
    suite_fill((uint8_t *)source->address + 3, length, 42);
    if (transfer_write(suite, &link, source, 3, remote, 9, length, 60000) < 0)
        return -1;
    int64_t at = suite_differs((uint8_t *)target->address + 9, length, 42);
    CHECK(suite, at < 0, "after a write of %llu bytes, byte %lld is wrong", (unsigned long long)length,
          (long long)at);
    suite_fill((uint8_t *)target->address + 9, length, 43);
    if (transfer_read(suite, &link, source, 3, remote, 9, length, 60000) < 0)
        return -1;
    at = suite_differs((uint8_t *)source->address + 3, length, 43);
    CHECK(suite, at < 0, "after a read of %llu bytes, byte %lld is wrong", (unsigned long long)length,
          (long long)at);
    return 0;
}

/* promise_beyond_4_gib -- lengths and offsets of 64 bits. The source is memory that was never touched but at both ends. */
int promise_beyond_4_gib(struct suite *suite)
{
    const uint64_t length = (UINT64_C(4) << 30) + 65536 + 5, edge = 1 << 20;
    struct party *party[2];
    struct link link;
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;
    int rc = 0;

    if (suite->soft)
        return suite_left_out(suite,
                              "a software device in an emulated machine would need a minute and 5 GiB");
    if (suite->quick && !suite->simulated)
        return suite_left_out(suite, "needs 4 GiB of memory and 20 s; run without --quick");
    uint8_t *bytes =
        mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(suite, bytes != MAP_FAILED, "no address space");
    (void)madvise(bytes, length, MADV_HUGEPAGE); /* a million small pages would take a minute */
    suite_fill(bytes, edge, 1);
    suite_fill(bytes + length - edge, edge, 2);
    if (party_open(suite, 0, 0, &party[0]) < 0 || party_open(suite, 0, 0, &party[1]) < 0 ||
        link_open(party[0], party[1], &link) < 0 ||
        party_region_of(party[0], party[0]->domain, 0, bytes, length, &source) < 0 ||
        party_region(party[1], TRANSFER_ALL, length, &target) < 0 ||
        link_grant(link.end[1], target, TRANSFER_ALL, link.end[0], &remote) < 0)
        rc = -1;
    if (rc == 0 && (!suite->simulated || !suite->quick)) {
        rc = transfer_write(suite, &link, source, 0, remote, 0, length, 120000);
    } else if (rc == 0) {
        rc = transfer_write(suite, &link, source, 0, remote, 0, edge, 10000);
        if (rc == 0)
            rc = transfer_write(suite, &link, source, length - edge, remote, length - edge, edge, 10000);
    }
    uint8_t *landed = rc == 0 ? target->address : NULL;
    int64_t first = rc == 0 ? suite_differs(landed, edge, 1) : 0;
    int64_t last = rc == 0 ? suite_differs(landed + length - edge, edge, 2) : 0;
    if (rc == 0)
        rc = transfer_read(suite, &link, source, 0, remote, length - edge, edge, 60000);
    int64_t back = rc == 0 ? suite_differs(bytes, edge, 2) : 0;
    for (int i = 0; i < 2 && suite->party_count > 0; i++) /* before the memory goes */
        party_close(suite->parties[suite->party_count - 1]);
    munmap(bytes, length);
    if (rc < 0)
        return rc;
    CHECK(suite, first < 0, "the first part of 4 GiB differs at %lld", (long long)first);
    CHECK(suite, last < 0, "the last part of 4 GiB differs at %lld", (long long)last);
    CHECK(suite, back < 0, "a read from beyond 4 GiB differs at %lld", (long long)back);
    return 0;
}

/* promise_zero_length -- writes and reads of nothing complete like any other and touch nothing. */
int promise_zero_length(struct suite *suite)
{
    struct party *party[2];
    struct link link;
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;
    int rc;

    if (transfer_open(suite, 4096, party, &link, &source, &target, &remote) < 0)
        return -1;
    suite_fill(source->address, 4096, 1);
    suite_fill(target->address, 4096, 2);
    if (transfer_write(suite, &link, source, 0, remote, 0, 0, 10000) < 0 ||
        transfer_write(suite, &link, source, 4096, remote, 4096, 0, 10000) < 0 ||
        transfer_read(suite, &link, source, 0, remote, 0, 0, 10000) < 0)
        return -1;
    uint32_t before = link.end[0]->completion_count;
    POST(suite, rc,
         suite->transport->endpoint_write(link.end[0]->endpoint, NULL, 0, "", remote, 0, 0,
                                          STEPGATE_POST_COMPLETE | STEPGATE_WRITE_INLINE, 5));
    CHECK(suite, rc == 0, "inline write of nothing: %d, %s", rc, suite_error());
    UNTIL(suite, link.end[0]->completion_count > before, 10000);
    CHECK(suite, end_completed(link.end[0], 5) == 1, "the inline write of nothing did not complete");
    CHECK(suite, suite_differs(source->address, 4096, 1) < 0 && suite_differs(target->address, 4096, 2) < 0,
          "bytes were changed");
    return 0;
}

/* promise_read -- reads of random sizes bring exactly the peer's bytes, and no others. */
int promise_read(struct suite *suite)
{
    const uint32_t rounds = suite->simulated ? 40 : suite->quick || suite->soft ? 200 : 2000;
    const uint32_t bytes = 65536;
    struct party *party[2];
    struct link link;
    struct stepgate_region *sink, *target;
    struct stepgate_remote *remote;
    uint8_t *expected;

    if (transfer_open(suite, bytes, party, &link, &sink, &target, &remote) < 0)
        return -1;
    suite_fill(target->address, bytes, 7);
    expected = malloc(bytes);
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t from = random_below(&suite->random, bytes);
        uint64_t length = random_below(&suite->random, bytes - from + 1);
        uint64_t to = random_below(&suite->random, bytes - length + 1);
        memset(sink->address, (int)(i & 255), bytes);
        memset(expected, (int)(i & 255), bytes);
        memcpy(expected + to, (uint8_t *)target->address + from, length);
        int rc = transfer_read(suite, &link, sink, to, remote, from, length, 10000);
        bool same = memcmp(expected, sink->address, bytes) == 0;
        if (rc < 0 || !same) {
            free(expected);
            CHECK(suite, rc < 0, "read %u of %llu bytes brought other bytes", i, (unsigned long long)length);
            return rc;
        }
    }
    free(expected);
    return 0;
}

/* promise_inline -- an inline write of up to inline_bytes from anywhere; the source may be changed at once. */
int promise_inline(struct suite *suite)
{
    const uint32_t rounds = suite->simulated ? 60 : 500;
    struct party *party[2];
    struct link link;
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;
    int rc;

    if (transfer_open(suite, 65536, party, &link, &source, &target, &remote) < 0)
        return -1;
    uint32_t most = end_can(link.end[0]).inline_bytes;
    CHECK(suite, most >= 64, "inline_bytes is %u, at least 64 are promised", most);
    uint32_t size = most < 1024 ? most : 1024;
    for (uint32_t i = 0; i < rounds; i++) {
        uint8_t bytes[1024];
        uint32_t length = i % 3 == 0 ? 64 : i % size + 1, before = link.end[1]->arrival_count;
        uint64_t at = i * 97 % (65536 - 1024);
        suite_fill(bytes, length, i);
        POST(suite, rc,
             suite->transport->endpoint_write(link.end[0]->endpoint, NULL, 0, bytes, remote, at, length,
                                              STEPGATE_WRITE_INLINE, 0));
        memset(bytes, 0xee, sizeof(bytes));
        CHECK(suite, rc == 0, "inline write of %u bytes: %d, %s", length, rc, suite_error());
        POST(suite, rc, suite->transport->endpoint_notify(link.end[0]->endpoint, i));
        CHECK(suite, rc == 0, "endpoint_notify: %d", rc);
        UNTIL(suite, link.end[1]->arrival_count > before, 10000);
        CHECK(suite, suite_differs((uint8_t *)target->address + at, length, i) < 0,
              "inline write %u of %u bytes is not whole", i, length);
    }
    if ((uint64_t)most + 1 <= 65536) {
        POST(suite, rc,
             suite->transport->endpoint_write(link.end[0]->endpoint, NULL, 0, source->address, remote, 0,
                                              most + 1, STEPGATE_WRITE_INLINE, 0));
        CHECK(suite, rc == -STEPGATE_EINVAL, "an inline write of inline_bytes + 1 was answered with %d", rc);
    }
    return 0;
}

/* promise_callers_memory -- memory of the caller's serves peers where the transport says so, and local use everywhere. */
int promise_callers_memory(struct suite *suite)
{
    const uint64_t bytes = 3 * 4096;
    struct party *party[2];
    struct link link;
    struct stepgate_region *source, *target, *own = NULL;
    struct stepgate_remote *remote, *owned;
    uint8_t *memory = aligned_alloc(4096, bytes);
    int rc = transfer_open(suite, bytes, party, &link, &source, &target, &remote);

    if (rc == 0)
        rc = party_region_of(party[0], party[0]->domain, 0, memory, bytes, &own);
    if (rc == 0) {
        suite_fill(memory, bytes, 11);
        rc = transfer_write(suite, &link, own, 0, remote, 0, bytes, 10000);
        if (rc == 0 && (own->address != memory || suite_differs(target->address, bytes, 11) >= 0))
            rc =
                suite_fail(suite, __FILE__, __LINE__, "a write from the caller's memory brought other bytes");
        suite_fill(target->address, bytes, 12);
        if (rc == 0)
            rc = transfer_read(suite, &link, own, 0, remote, 0, bytes, 10000);
        if (rc == 0 && suite_differs(memory, bytes, 12) >= 0)
            rc = suite_fail(suite, __FILE__, __LINE__, "a read into the caller's memory brought other bytes");
        party_region_delete(party[0], own);
    }
    bool can = rc == 0 && (end_can(link.end[0]).can & STEPGATE_CAN_USE_CALLERS) != 0;
    if (rc == 0 && can) {
        rc = party_region_of(party[1], party[1]->domain, TRANSFER_ALL, memory, bytes, &own);
        if (rc == 0)
            rc = link_grant(link.end[1], own, TRANSFER_ALL, link.end[0], &owned);
        suite_fill(source->address, bytes, 13);
        if (rc == 0)
            rc = transfer_write(suite, &link, source, 0, owned, 0, bytes, 10000);
        if (rc == 0 && suite_differs(memory, bytes, 13) >= 0)
            rc = suite_fail(suite, __FILE__, __LINE__, "a write into the caller's memory did not arrive");
    } else if (rc == 0) {
        struct stepgate_region_options options = {
            .size = sizeof(options), .access = TRANSFER_ALL, .address = memory, .length = bytes};
        int answer = suite->transport->region_new(party[1]->domain, &options, &own);
        if (answer != -STEPGATE_ENOTSUP)
            rc = suite_fail(suite, __FILE__, __LINE__,
                            "region_new with the caller's memory was answered with %d", answer);
    }
    while (suite->party_count > 0) /* before the memory goes */
        party_close(suite->parties[suite->party_count - 1]);
    free(memory);
    return rc;
}
