/* SPDX-License-Identifier: BSD-3-Clause */
/* table -- all tests by name. */
#ifndef PERF_TEST_TABLE_H
#define PERF_TEST_TABLE_H

#include "perf/test.h"

extern const struct perf_test test_aggregate, test_apply, test_step, test_write_lat, test_read_lat,
    test_notify_lat, test_write_bw, test_read_bw, test_token_rtt, test_slot_push, test_param_pull,
    test_incast, test_connect, test_register, test_peer_death;
extern const struct perf_test test_topology, test_project, test_matrix;

/* test_at -- test number i in the order of --help; NULL: no more. */
const struct perf_test *test_at(size_t i);

#endif
