/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs of very many workers, in one thread: equal to the bit to a plain loop, and of a cost that grows with the workers and not with their square. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "perf/clock.h"
#include "perf/model/fleet.h"

/* run -- a job that must succeed. */
static struct fleet_result run(const struct fleet_plan *plan)
{
    struct fleet_result result = {0};
    char text[512] = "";

    if (fleet_run(plan, &result, text, sizeof(text)) != 0)
        fail_msg("%s", text);
    return result;
}

static void a_job_of_1000_workers_ends_with_the_bits_of_a_plain_loop(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 2; shards++) {
        const struct fleet_plan plan = {.workers = 1000,
                                        .replicas = 1000,
                                        .shards = shards,
                                        .lanes = 1,
                                        .parameters = 2500,
                                        .steps = 4,
                                        .latency_ns = 1000};
        uint64_t before = perf_clock_cpu();
        assert_int_equal(run(&plan).compared, 1000 * 2500);
        print_message("%u ps: %.1f s of processor time\n", shards, (double)(perf_clock_cpu() - before) / 1e9);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        struct rusage usage;
        assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
        assert_in_range(usage.ru_maxrss, 0, 512 * 1024);
        assert_in_range(perf_clock_cpu() - before, 0, UINT64_C(30000000000));
#endif
    }
}

static void a_job_of_1000_workers_goes_on_without_the_last_of_them(void **state)
{
    const struct fleet_plan plan = {.workers = 1000,
                                    .replicas = 950,
                                    .shards = 1,
                                    .lanes = 1,
                                    .parameters = 500,
                                    .steps = 4,
                                    .latency_ns = 1000};

    (void)state;
    assert_true(run(&plan).step_ns > 0);
}

static void what_a_job_sends_grows_with_its_workers_and_not_with_their_square(void **state)
{
    struct fleet_plan plan = {.workers = 200,
                              .replicas = 200,
                              .shards = 2,
                              .lanes = 2,
                              .parameters = 20000,
                              .steps = 4,
                              .latency_ns = 1000};

    (void)state;
    double some = (double)run(&plan).deliveries;
    plan.workers = plan.replicas = 400;
    assert_true((double)run(&plan).deliveries < 2.05 * some);
}

static void a_fleet_repeats_itself(void **state)
{
    const struct fleet_plan plan = {.workers = 5,
                                    .replicas = 5,
                                    .shards = 2,
                                    .lanes = 2,
                                    .parameters = 30000,
                                    .steps = 4,
                                    .latency_ns = 2000,
                                    .link_bytes_per_s = UINT64_C(1000000000)};

    (void)state;
    assert_true(run(&plan).step_ns == run(&plan).step_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_of_1000_workers_ends_with_the_bits_of_a_plain_loop),
        cmocka_unit_test(a_job_of_1000_workers_goes_on_without_the_last_of_them),
        cmocka_unit_test(what_a_job_sends_grows_with_its_workers_and_not_with_their_square),
        cmocka_unit_test(a_fleet_repeats_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
