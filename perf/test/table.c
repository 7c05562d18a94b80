/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/test/table.h"

static const struct perf_test *const test_table[] = {
    &test_step,     &test_aggregate,  &test_apply,     &test_write_bw,   &test_write_lat,  &test_read_bw,
    &test_read_lat, &test_notify_lat, &test_token_rtt, &test_slot_push,  &test_param_pull, &test_incast,
    &test_matrix,   &test_connect,    &test_register,  &test_peer_death, &test_topology,   &test_project};

/* test_at -- see table.h. */
const struct perf_test *test_at(size_t i)
{
    return i < sizeof(test_table) / sizeof(test_table[0]) ? test_table[i] : NULL;
}
