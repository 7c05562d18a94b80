/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "worker/examples/fashion/settings.h"

enum { ARGUMENTS_MAX = 40 };

/* read_line -- settings of a command line, split at blanks */
static int read_line(const char *line, struct settings *settings, struct fault *fault)
{
    static char copy[512]; /* settings keep the strings */
    char *argv[ARGUMENTS_MAX] = {(char *)"stepgate-fashion"};
    int argc = 1;
    *fault = (struct fault){0};
    strncpy(copy, line, sizeof copy - 1);
    for (char *word = strtok(copy, " "); word != NULL && argc < ARGUMENTS_MAX; word = strtok(NULL, " "))
        argv[argc++] = word;
    return settings_read(settings, argc, argv, fault);
}

static void every_flag_is_understood(void **state)
{
    (void)state;
    struct settings s;
    struct fault fault;
    assert_int_equal(
        read_line("--epochs 3 --images=500 --batch 16 --lr 0.5 --optimizer sgd --seed 7 --data /d", &s,
                  &fault),
        0);
    assert_int_equal(s.epochs, 3);
    assert_int_equal(s.images, 500);
    assert_int_equal(s.batch, 16);
    assert_true(s.recipe.schedule.rate == 0.5);
    assert_int_equal(s.recipe.optimizer, RECIPE_SGD);
    assert_int_equal(s.recipe.seed, 7);
    assert_string_equal(s.data, "/d");
    assert_int_equal(
        read_line("--single --parts 4 --json=f --uneven --constant --progress rewrite", &s, &fault), 0);
    assert_true(s.single && s.uneven && s.constant);
    assert_int_equal(s.recipe.schedule.shape, SCHEDULE_CONSTANT);
    assert_int_equal(s.parts, 4);
    assert_string_equal(s.json, "f");
    assert_int_equal(s.progress, PROGRESS_REWRITE);
}

static void every_flag_of_the_recipe_is_understood(void **state)
{
    (void)state;
    struct settings s;
    struct fault fault;
    assert_int_equal(
        read_line(
            "--update bounded:3 --optimizer adamw --formula torch --beta1 0.8 --beta2 0.99 --epsilon 1e-4 "
            "--weight-decay 0.2 --l2-decay 0.3 --ema 0.99 --clip-worker-norm 2 --clip-value 3 "
            "--non-finite skip --dtype bf16 --straggle 0.5:20 --evaluate-every 10 --warmup 7",
            &s, &fault),
        0);
    assert_int_equal(s.recipe.update, RECIPE_BOUNDED);
    assert_int_equal(s.recipe.bound, 3);
    assert_int_equal(s.recipe.optimizer, RECIPE_ADAMW);
    assert_int_equal(s.recipe.formula, RECIPE_FORMULA_TORCH);
    assert_true(s.recipe.beta1 == 0.8 && s.recipe.beta2 == 0.99 && s.recipe.epsilon == 1e-4);
    assert_true(s.recipe.weight_decay == 0.2 && s.recipe.l2_decay == 0.3 && s.recipe.average_decay == 0.99);
    assert_true(s.recipe.clip_norm == 2.0 && s.recipe.clip_value == 3.0);
    assert_int_equal(s.recipe.non_finite, RECIPE_SKIP);
    assert_int_equal(s.recipe.dtype, DTYPE_BF16);
    assert_true(s.straggle.probability == 0.5 && s.straggle.ms == 20);
    assert_int_equal(s.evaluate_every, 10);
    assert_int_equal(s.recipe.schedule.warmup, 7);
    assert_int_equal(
        read_line("--update tf --replicas_to_aggregate 4 --initial-tokens 0 --clip-norm 1", &s, &fault), 0);
    assert_int_equal(s.recipe.update, RECIPE_TF);
    assert_int_equal(s.recipe.replicas, 4);
    assert_int_equal(s.recipe.initial_tokens, 0);
    assert_true(s.recipe.clip_global_norm == 1.0);
}

static void the_recipe_of_inception_is_understood(void **state)
{
    (void)state;
    struct settings s;
    struct fault fault;
    assert_int_equal(
        read_line("--optimizer rmsprop --momentum 0.9 --rho 0.9 --epsilon 1.0 --lr 0.045 "
                  "--lr-schedule exponential:0.94:2000:staircase --ema 0.9999 --replicas-to-aggregate 2",
                  &s, &fault),
        0);
    assert_int_equal(s.recipe.optimizer, RECIPE_RMSPROP);
    assert_true(s.recipe.momentum == 0.9 && s.recipe.rho == 0.9 && s.recipe.epsilon == 1.0);
    assert_true(s.recipe.schedule.rate == 0.045 && s.recipe.schedule.factor == 0.94);
    assert_int_equal(s.recipe.schedule.shape, SCHEDULE_EXPONENTIAL);
    assert_int_equal(s.recipe.schedule.steps, 2000);
    assert_true(s.recipe.schedule.staircase && s.recipe.average_decay == 0.9999);
}

static void numbers_that_are_not_given_are_the_usual_ones(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        double rate, momentum, rho, epsilon, beta1, beta2, decay;
    } rows[] = {
        {"", 0.05, 0.9, 0, 0, 0, 0, 0},
        {"--optimizer none", 0.05, 0, 0, 0, 0, 0, 0},
        {"--optimizer sgd --formula torch", 0.05, 0, 0, 0, 0, 0, 0},
        {"--optimizer nesterov", 0.05, 0.9, 0, 0, 0, 0, 0},
        {"--optimizer adagrad", 0.01, 0, 0, 0, 0, 0, 0},
        {"--optimizer adagrad --formula torch", 0.01, 0, 0, 1e-10, 0, 0, 0},
        {"--optimizer rmsprop", 0.001, 0, 0.9, 1e-10, 0, 0, 0},
        {"--optimizer rmsprop --formula torch", 0.001, 0, 0.99, 1e-8, 0, 0, 0},
        {"--optimizer adam", 0.001, 0, 0, 1e-8, 0.9, 0.999, 0},
        {"--optimizer adamw --formula torch", 0.001, 0, 0, 1e-8, 0.9, 0.999, 0.01},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct settings s;
        struct fault fault;
        assert_int_equal(read_line(rows[i].line, &s, &fault), 0);
        assert_true(s.recipe.schedule.rate == rows[i].rate && s.recipe.momentum == rows[i].momentum);
        assert_true(s.recipe.rho == rows[i].rho && s.recipe.epsilon == rows[i].epsilon);
        assert_true(s.recipe.beta1 == rows[i].beta1 && s.recipe.beta2 == rows[i].beta2);
        assert_true(s.recipe.weight_decay == rows[i].decay);
    }
}

static void what_makes_no_sense_together_is_refused_with_a_remedy(void **state)
{
    (void)state;
    static const char *const lines[][3] = {
        {"--update bounded", "bounded", "bounded:S"},
        {"--update bounded:x", "bounded:x", "bounded:S"},
        {"--update async:3", "async:3", "give one of"},
        {"--update sync", "sync", "give one of"},
        {"--update async --replicas-to-aggregate 2", "async", "leave out --replicas-to-aggregate"},
        {"--update async --clip-norm 1", "--clip-norm", "--clip-worker-norm"},
        {"--initial-tokens 3", "--initial-tokens", "--update tf"},
        {"--optimizer sgd --momentum 0.5", "--momentum", "leave it out"},
        {"--optimizer adam --rho 0.5", "--rho", "leave it out"},
        {"--beta1 0.5", "--beta1", "leave it out"},
        {"--optimizer adagrad --epsilon 1", "adagrad of tf", "leave it out"},
        {"--optimizer adam --weight-decay 0.1", "adamw", "leave it out"},
        {"--beta2 1 --optimizer adam", "--beta2 1", "from 0"},
        {"--ema 1", "--ema 1", "from 0"},
        {"--optimizer none --update async", "every step", "--update strict"},
        {"--optimizer none --ema 0.9", "no averages", "--ema"},
        {"--optimizer none --formula torch", "no formula", "--formula"},
        {"--optimizer none --l2-decay 1", "no decay", "--l2-decay"},
        {"--optimizer none --dtype f16", "f32", "leave out --dtype"},
        {"--optimizer none --non-finite drop", "left out", "--non-finite fail"},
        {"--optimizer none --evaluate-every 5", "--evaluate-every", "leave one of them out"},
        {"--single --update tf", "--single", "leave out --update"},
        {"--single --parts 3 --replicas-to-aggregate 2", "--single", "give --replicas-to-aggregate 3"},
        {"--single --straggle 0.1:5", "--straggle", "leave it out"},
        {"--single --evaluate-every 5", "--evaluate-every", "leave one of them out"},
        {"--constant --lr-schedule cosine", "--constant", "give one of them"},
        {"--lr-schedule cosines", "cosines", "give one of"},
        {"--lr-schedule exponential:0.9", "exponential:0.9", "FACTOR:STEPS"},
        {"--straggle 2:5", "--straggle 2:5", "0.1:50"},
        {"--dtype f64", "f64", "f32|f16|bf16"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct settings s;
        struct fault fault;
        if (read_line(lines[i][0], &s, &fault) != -1)
            fail_msg("%s was taken", lines[i][0]);
        assert_int_equal(fault.status, FAULT_USAGE);
        if (strstr(fault.text, lines[i][1]) == NULL || strstr(fault.text, lines[i][2]) == NULL)
            fail_msg("%s gives: %s", lines[i][0], fault.text);
    }
}

static void bad_lines_are_refused_with_a_remedy(void **state)
{
    (void)state;
    static const char *const lines[][3] = {
        {"--epoch 3", "--epoch", "--help"},         {"--epochs", "--epochs needs a value", "--epochs N"},
        {"--epochs x", "--epochs x", "whole"},      {"--epochs 0", "--epochs 0", "from 1"},
        {"--epochs 1.5", "--epochs 1.5", "whole"},  {"--epochs 3x", "--epochs 3x", "whole"},
        {"--batch -1", "--batch -1", "from 1"},     {"--lr nan", "--lr nan", "number"},
        {"--lr 1e99", "--lr 1e99", "number"},       {"--optimizer adams", "adams", "sgd|momentum"},
        {"--optimizer mom", "mom", "sgd|momentum"}, {"--single=1", "takes no value", "leave out"},
        {"--parts 4", "--parts", "--single"},       {"extra", "extra", "--help"},
        {"--plot a", "--plot", "RESULT.json"},      {"--seed 0x10z", "--seed", "whole"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct settings s;
        struct fault fault;
        if (read_line(lines[i][0], &s, &fault) != -1)
            fail_msg("%s was taken", lines[i][0]);
        assert_int_equal(fault.status, FAULT_USAGE);
        if (strstr(fault.text, lines[i][1]) == NULL || strstr(fault.text, lines[i][2]) == NULL)
            fail_msg("%s gives: %s", lines[i][0], fault.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flag_is_understood),
        cmocka_unit_test(every_flag_of_the_recipe_is_understood),
        cmocka_unit_test(the_recipe_of_inception_is_understood),
        cmocka_unit_test(numbers_that_are_not_given_are_the_usual_ones),
        cmocka_unit_test(what_makes_no_sense_together_is_refused_with_a_remedy),
        cmocka_unit_test(bad_lines_are_refused_with_a_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
