/* SPDX-License-Identifier: BSD-3-Clause */
/* Stragglers: distributions as their words say, and order statistics against closed forms. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "perf/model/straggler.h"

/* of -- a distribution by its words. */
static struct straggler of(const char *words)
{
    struct straggler s;
    char text[256] = "";

    if (straggler_parse(words, &s, text, sizeof(text)) != 0)
        fail_msg("%s", text);
    return s;
}

/* near -- to a share. */
static void near(double got, double expected, double share)
{
    if (!(fabs(got - expected) <= share * fabs(expected)))
        fail_msg("%.9g, not %.9g", got, expected);
}

static void durations_have_units(void **state)
{
    (void)state;
    near(of("exp:5ms").mean, 5e-3, 1e-12);
    near(of("normal:200us:10us").second, 1e-5, 1e-12);
    near(of("pareto:1:2.5").second, 2.5, 1e-12);
    assert_int_equal(of("none").kind, STRAGGLER_NONE);
}

static void what_is_no_distribution_is_refused_with_the_forms_that_there_are(void **state)
{
    static const char *const bad[] = {
        "",           "fast",         "exp",        "exp:",         "exp:-1",
        "exp:5 ms",   "exp:5ms:1",    "normal:5ms", "normal:5ms:",  "pareto:5ms:1",
        "pareto:5ms", "pareto:5ms:x", "exp:nan",    "pareto:1:2ms", "none:1"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct straggler s;
        char text[256] = "";
        assert_int_equal(straggler_parse(bad[i], &s, text, sizeof(text)), -1);
        assert_non_null(strstr(text, "normal:5ms:1ms"));
    }
}

static void a_quantile_undoes_its_distribution(void **state)
{
    static const char *const words[] = {"exp:1", "normal:2:0.5", "pareto:1:3"};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (double u = 0.01; u < 1; u += 0.01) {
            const struct straggler s = of(words[i]);
            near(straggler_below(&s, straggler_quantile(&s, u)), u, 1e-9);
        }
}

static void a_binomial_tail_is_the_incomplete_beta_function(void **state)
{
    (void)state;
    for (int k = 1; k <= 10; k++)
        for (double p = 0.05; p < 1; p += 0.1) {
            double tail = 0;
            for (int i = k; i <= 10; i++)
                tail += exp(lgamma(11) - lgamma(i + 1) - lgamma(11 - i)) * pow(p, i) * pow(1 - p, 10 - i);
            near(straggler_more(p, k, 11 - k), tail, 1e-10);
        }
    near(straggler_more(0.95, 3891, 206), 0.5, 0.1);
}

static void the_mean_of_one_is_the_mean(void **state)
{
    static const char *const words[] = {"exp:3", "normal:3:0.5", "normal:3:0.0001", "pareto:3:2",
                                        "pareto:3:1.5"};

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const struct straggler s = of(words[i]);
        near(straggler_order(&s, 1, 1), 3, 1e-6);
    }
}

static void order_statistics_have_their_closed_forms(void **state)
{
    const struct straggler exponential = of("exp:2"), normal = of("normal:10:1"), pareto = of("pareto:1:3");

    (void)state;
    near(straggler_order(&exponential, 4, 4), 2 * (1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4), 1e-12);
    near(straggler_order(&exponential, 3, 4), 2 * (1.0 / 2 + 1.0 / 3 + 1.0 / 4), 1e-12);
    near(straggler_order(&normal, 2, 2), 10 + 1 / sqrt(M_PI), 1e-8);
    near(straggler_order(&normal, 1, 2), 10 - 1 / sqrt(M_PI), 1e-8);
    near(straggler_order(&normal, 3, 3), 10 + 1.5 / sqrt(M_PI), 1e-8);
    /* scale * (T! Gamma(1 - 1/shape) / Gamma(T + 1 - 1/shape) - 1) */
    near(straggler_order(&pareto, 1000, 1000),
         2 * (exp(lgamma(1001) + lgamma(2.0 / 3) - lgamma(1000 + 2.0 / 3)) - 1), 1e-6);
}

static void all_ranks_of_a_sample_have_its_mean(void **state)
{
    const struct straggler s = of("pareto:1:2.5");
    double sum = 0;

    (void)state;
    for (uint64_t r = 1; r <= 20; r++)
        sum += straggler_order(&s, r, 20);
    near(sum / 20, 1, 1e-6);
}

static void whoever_is_late_makes_the_next_step_later_too(void **state)
{
    const struct straggler s = of("exp:1");

    (void)state;
    assert_true(straggler_backup(&s, 14, 16, 0, 1) > straggler_order(&s, 14, 16));
    assert_true(straggler_backup(&s, 14, 16, 0, 1) < straggler_order(&s, 16, 16));
    /* where everything else takes long nobody is late for the next step */
    near(straggler_backup(&s, 14, 16, 50, 100), straggler_order(&s, 14, 16), 1e-3);
    near(straggler_backup(&s, 16, 16, 0, 1), straggler_order(&s, 16, 16), 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_have_units),
        cmocka_unit_test(what_is_no_distribution_is_refused_with_the_forms_that_there_are),
        cmocka_unit_test(a_quantile_undoes_its_distribution),
        cmocka_unit_test(a_binomial_tail_is_the_incomplete_beta_function),
        cmocka_unit_test(the_mean_of_one_is_the_mean),
        cmocka_unit_test(order_statistics_have_their_closed_forms),
        cmocka_unit_test(all_ranks_of_a_sample_have_its_mean),
        cmocka_unit_test(whoever_is_late_makes_the_next_step_later_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
