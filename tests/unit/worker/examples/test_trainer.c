/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
/* Whole runs of one process, on few images made up here: what may change the parameters, and what must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/examples/fashion/random.h"
#include "worker/examples/fashion/reference.h"
#include "worker/examples/fashion/trainer.h"

enum { TRAIN = 150, TEST = 50 };

static void split_make(struct dataset_split *split, size_t count, uint64_t index)
{
    struct random_stream stream = random_stream_of(11, 12, index);
    split->count = count;
    split->images.bytes = malloc(count * DATASET_PIXELS);
    split->labels.bytes = malloc(count);
    assert_non_null(split->images.bytes);
    assert_non_null(split->labels.bytes);
    for (size_t n = 0; n < count; n++) {
        /* The class is how far down a bright bar lies: easy to learn. */
        unsigned label = (unsigned)random_below(&stream, DATASET_CLASSES);
        split->labels.bytes[n] = (uint8_t)label;
        for (size_t i = 0; i < DATASET_PIXELS; i++) {
            bool bar = i / DATASET_SIDE / 2 == label + 2;
            split->images.bytes[n * DATASET_PIXELS + i] =
                (uint8_t)(random_below(&stream, 64) + (bar ? 180 : 0));
        }
    }
}

static int setup(void **state)
{
    struct dataset *data = calloc(1, sizeof *data);
    assert_non_null(data);
    split_make(&data->train, TRAIN, 0);
    split_make(&data->test, TEST, 1);
    *state = data;
    return 0;
}

static int teardown(void **state)
{
    struct dataset *data = *state;
    dataset_clear(data);
    free(data);
    return 0;
}

static struct settings usual(void)
{
    return (struct settings){
        .epochs = 2,
        .batch = 8,
        .recipe =
            {
                .optimizer = RECIPE_MOMENTUM,
                .initial_tokens = RECIPE_NO_TOKENS,
                .schedule = {.shape = SCHEDULE_LINEAR, .rate = 0.05},
                .momentum = 0.9,
                .seed = 1,
            },
        .single = true,
        .progress = PROGRESS_NONE,
    };
}

/* train -- a run of so many parts */
static void train(const struct dataset *data, const struct settings *settings, unsigned parts,
                  struct result *result)
{
    struct fault fault = {0};
    struct recipe recipe;
    *result = (struct result){0};
    assert_int_equal(trainer_recipe(settings, data, parts, &recipe, &fault), 0);
    unsigned all = share_of(recipe_replicas(&recipe, parts), parts, 0).parts;
    struct exchange *exchange = reference_new(&recipe, all, &fault);
    assert_non_null(exchange);
    assert_int_equal(trainer_run(settings, &recipe, data, exchange, result), 0);
    exchange->operations->close(exchange);
    history_clear(&result->history);
    free(result->counts);
    result->counts = NULL;
}

static void the_same_run_twice_gives_the_same_parameters(void **state)
{
    struct settings settings = usual();
    struct result a, b;
    train(*state, &settings, 4, &a);
    train(*state, &settings, 4, &b);
    assert_int_equal(strlen(a.params_sha256), 64);
    assert_string_equal(a.params_sha256, b.params_sha256);
    assert_int_equal(a.blas_threads, 1);
    /* 150 images are 4 full batches of 32 and one of 22, twice. */
    assert_int_equal(a.global_step, 10);
    assert_true(a.final_loss == b.final_loss);
}

/* assert_other -- changed settings give other parameters */
static void assert_other(const struct dataset *data, const struct settings *changed, unsigned parts)
{
    struct settings settings = usual();
    struct result a, b;
    train(data, &settings, 4, &a);
    train(data, changed, parts, &b);
    assert_string_not_equal(a.params_sha256, b.params_sha256);
}

static void another_seed_gives_others(void **state)
{
    struct settings settings = usual();
    settings.recipe.seed = 2;
    assert_other(*state, &settings, 4);
}

static void another_optimizer_gives_others(void **state)
{
    struct settings settings = usual();
    settings.recipe.optimizer = RECIPE_SGD;
    assert_other(*state, &settings, 4);
}

static void a_constant_rate_gives_others(void **state)
{
    struct settings settings = usual();
    settings.recipe.schedule.shape = SCHEDULE_CONSTANT;
    assert_other(*state, &settings, 4);
}

static void unequal_parts_give_others(void **state)
{
    struct settings settings = usual();
    settings.uneven = true;
    assert_other(*state, &settings, 4);
}

static void more_replicas_are_more_parts(void **state)
{
    struct settings settings = usual();
    struct result a, b;
    train(*state, &settings, 4, &a);
    settings.recipe.replicas = 4;
    train(*state, &settings, 2, &b);
    assert_string_equal(a.params_sha256, b.params_sha256);
    settings.recipe.replicas = 5;
    train(*state, &settings, 2, &b);
    assert_string_not_equal(a.params_sha256, b.params_sha256);
}

static void averages_change_nothing_but_themselves(void **state)
{
    struct settings settings = usual();
    struct result a, b;
    train(*state, &settings, 2, &a);
    settings.recipe.average_decay = 0.9999;
    train(*state, &settings, 2, &b);
    assert_string_equal(a.params_sha256, b.params_sha256);
    assert_true(a.test_accuracy_average < 0.0);
    assert_in_range((uint64_t)(100.0 * b.test_accuracy_average), 0, 100);
}

static void the_history_ends_with_the_last_judgement(void **state)
{
    struct settings settings = usual();
    struct fault fault = {0};
    struct recipe recipe;
    struct result result = {0};
    assert_int_equal(trainer_recipe(&settings, *state, 2, &recipe, &fault), 0);
    struct exchange *exchange = reference_new(&recipe, 2, &fault);
    assert_non_null(exchange);
    assert_int_equal(trainer_run(&settings, &recipe, *state, exchange, &result), 0);
    /* 150 images are 9 batches of 16 and one of 6, twice: a point for each. */
    assert_int_equal(result.history.count, 20);
    for (size_t i = 0; i < result.history.count; i++)
        assert_int_equal(result.history.points[i].step, i + 1);
    assert_true(result.history.points[19].accuracy == result.test_accuracy);
    assert_int_equal(result.counts[0].accepted, 40);
    assert_int_equal(result.counts[0].stale, 0);
    exchange->operations->close(exchange);
    result_clear(&result);
}

static void what_only_a_job_can_do_is_refused(void **state)
{
    struct recipe recipe;
    struct settings late = usual(), other = usual();
    struct fault fault = {0};
    late.recipe.replicas = 2;
    assert_int_equal(trainer_recipe(&late, *state, 3, &recipe, &fault), -1);
    assert_int_equal(fault.status, FAULT_USAGE);
    fault = (struct fault){0};
    other.recipe.update = RECIPE_ASYNC;
    assert_int_equal(trainer_recipe(&other, *state, 3, &recipe, &fault), -1);
    assert_int_equal(fault.status, FAULT_USAGE);
}

static void alone_a_pass_takes_more_steps(void **state)
{
    struct recipe recipe;
    struct settings settings = usual();
    struct fault fault = {0};
    settings.single = false;
    assert_int_equal(trainer_recipe(&settings, *state, 3, &recipe, &fault), 0);
    uint64_t steps = recipe.steps;
    settings.recipe.update = RECIPE_ASYNC;
    assert_int_equal(trainer_recipe(&settings, *state, 3, &recipe, &fault), 0);
    assert_int_equal(recipe.steps, 3 * steps);
    assert_int_equal(recipe.schedule.steps, 3 * steps);
}

static void training_learns(void **state)
{
    struct settings settings = usual();
    struct result result;
    settings.epochs = 25;
    settings.recipe.schedule.rate = 0.02;
    train(*state, &settings, 2, &result);
    assert_true(result.test_accuracy > 0.9);
    assert_true(result.final_loss < 0.3);
}

static void a_rate_too_high_is_told(void **state)
{
    struct settings settings = usual();
    struct fault fault = {0};
    struct recipe recipe;
    struct result result = {0};
    settings.recipe.schedule.rate = 1e6;
    assert_int_equal(trainer_recipe(&settings, *state, 2, &recipe, &fault), 0);
    struct exchange *exchange = reference_new(&recipe, 2, &fault);
    assert_non_null(exchange);
    assert_int_equal(trainer_run(&settings, &recipe, *state, exchange, &result), -1);
    assert_int_equal(fault.status, FAULT_PERMANENT);
    assert_non_null(strstr(fault.text, "smaller --lr"));
    exchange->operations->close(exchange);
    result_clear(&result);
}

/* spoiled -- a reference whose parameters are sometimes replaced by ones that no loss can be computed from */
struct spoiled {
    struct exchange exchange;
    struct exchange *inner;
    float *values[NETWORK_VARIABLES];
    uint64_t begun, spoiled_from, spoiled_until;
    float with; /* what the first parameters of each variable become */
};

static int spoiled_begin(struct exchange *exchange, struct exchange_step *step)
{
    struct spoiled *spoiled = (struct spoiled *)(void *)exchange;
    spoiled->begun++;
    return spoiled->inner->operations->begin(spoiled->inner, step);
}

static int spoiled_parameter(struct exchange *exchange, unsigned variable, const float **value)
{
    struct spoiled *spoiled = (struct spoiled *)(void *)exchange;
    const float *sound;
    if (spoiled->inner->operations->parameter(spoiled->inner, variable, &sound) < 0)
        return -1;
    uint64_t elements = network_variables()[variable].elements;
    memcpy(spoiled->values[variable], sound, elements * sizeof *sound);
    for (uint64_t i = 0; i < elements; i++)
        if (spoiled->begun >= spoiled->spoiled_from && spoiled->begun < spoiled->spoiled_until)
            spoiled->values[variable][i] = spoiled->with;
    *value = spoiled->values[variable];
    return 0;
}

static int spoiled_gradient(struct exchange *exchange, unsigned variable, float **value)
{
    struct spoiled *spoiled = (struct spoiled *)(void *)exchange;
    return spoiled->inner->operations->gradient(spoiled->inner, variable, value);
}

static int spoiled_push(struct exchange *exchange, unsigned variable)
{
    struct spoiled *spoiled = (struct spoiled *)(void *)exchange;
    return spoiled->inner->operations->push(spoiled->inner, variable);
}

static int spoiled_finish(struct exchange *exchange, uint32_t weight)
{
    struct spoiled *spoiled = (struct spoiled *)(void *)exchange;
    return spoiled->inner->operations->finish(spoiled->inner, weight);
}

static int spoiled_end(struct exchange *exchange)
{
    (void)exchange;
    return 0;
}

static int spoiled_counts(struct exchange *exchange, unsigned worker, struct exchange_counts *out)
{
    struct spoiled *spoiled = (struct spoiled *)(void *)exchange;
    return spoiled->inner->operations->counts(spoiled->inner, worker, out);
}

/* train_spoiled -- a run in which contributions from .. until - 1 (from 1) are computed from such parameters */
static int train_spoiled(const struct dataset *data, enum recipe_non_finite policy, float with, uint64_t from,
                         uint64_t until, struct fault *fault)
{
    static const struct exchange_operations operations = {.begin = spoiled_begin,
                                                          .parameter = spoiled_parameter,
                                                          .gradient = spoiled_gradient,
                                                          .push = spoiled_push,
                                                          .finish = spoiled_finish,
                                                          .settle = spoiled_end,
                                                          .counts = spoiled_counts,
                                                          .leave = spoiled_end};
    struct settings settings = usual();
    struct recipe recipe;
    struct result result = {0};
    settings.recipe.non_finite = policy;
    assert_int_equal(trainer_recipe(&settings, data, 1, &recipe, fault), 0);
    struct exchange *inner = reference_new(&recipe, 1, fault);
    assert_non_null(inner);
    struct spoiled spoiled = {.exchange = *inner, .inner = inner, .spoiled_from = from, .with = with};
    spoiled.spoiled_until = until;
    spoiled.exchange.operations = &operations;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        spoiled.values[v] = calloc(network_variables()[v].elements, sizeof(float));
        assert_non_null(spoiled.values[v]);
    }
    int rc = trainer_run(&settings, &recipe, data, &spoiled.exchange, &result);
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        free(spoiled.values[v]);
    inner->operations->close(inner);
    result_clear(&result);
    return rc;
}

static void a_loss_that_cannot_recover_ends_training_under_every_policy(void **state)
{
    static const enum recipe_non_finite policies[] = {RECIPE_DROP, RECIPE_SKIP};
    for (size_t i = 0; i < 2; i++) {
        struct fault fault = {0};
        /* the parameters are no numbers */
        assert_int_equal(train_spoiled(*state, policies[i], NAN, 5, 6, &fault), -1);
        assert_int_equal(fault.status, FAULT_PERMANENT);
        assert_non_null(
            strstr(fault.text, "the loss of step 4 is not a number any more, nor are the parameters"));
        /* they are, but too large for any loss to be one */
        fault = (struct fault){0};
        assert_int_equal(train_spoiled(*state, policies[i], 1e30F, 5, UINT64_MAX, &fault), -1);
        assert_int_equal(fault.status, FAULT_PERMANENT);
        assert_non_null(strstr(fault.text, "is not a number, nor were the 9 before it: give a smaller --lr"));
    }
}

static void a_few_losses_that_are_no_numbers_end_nothing_with_drop_or_skip(void **state)
{
    struct fault fault = {0};
    assert_int_equal(train_spoiled(*state, RECIPE_DROP, 1e30F, 5, 14, &fault), 0);
    assert_int_equal(train_spoiled(*state, RECIPE_SKIP, 1e30F, 5, 14, &fault), 0);
}

static void too_few_images_are_told(void **state)
{
    struct settings settings = usual();
    struct fault fault = {0};
    struct recipe recipe;
    assert_int_equal(trainer_recipe(&settings, *state, TRAIN + 1, &recipe, &fault), -1);
    assert_int_equal(fault.status, FAULT_USAGE);
}

static void a_loss_that_is_no_number_is_null_in_the_result(void **state)
{
    (void)state;
    struct settings settings = usual();
    struct fault fault = {0};
    struct history_point point = {.step = 1, .loss = INFINITY, .accuracy = -1.0};
    struct result result = {.transport = "single",
                            .workers = 1,
                            .final_loss = NAN,
                            .test_loss = 2.5,
                            .test_accuracy_average = -1.0};
    char path[] = "/tmp/stepgate-test-XXXXXX";
    char text[4096] = "";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(history_add(&result.history, &point), 0);
    assert_int_equal(result_write(path, &result, &settings, &settings.recipe, &fault), 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    close(fd);
    unlink(path);
    assert_non_null(strstr(text, "\"final_loss\": null"));
    assert_non_null(strstr(text, "\"loss\": null"));
    assert_non_null(strstr(text, "\"test_loss\": 2.5"));
    result_clear(&result);
}

static void the_digest_is_over_the_bytes_in_declaration_order(void **state)
{
    (void)state;
    const float *values[NETWORK_VARIABLES];
    uint64_t elements = 0;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        elements += network_variables()[v].elements;
    float *all = malloc(elements * sizeof *all);
    uint8_t *bytes = malloc(elements * 4);
    assert_non_null(all);
    assert_non_null(bytes);
    uint64_t at = 0;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        values[v] = all + at;
        network_initial(v, 3, all + at);
        at += network_variables()[v].elements;
    }
    for (uint64_t i = 0; i < elements; i++) {
        uint32_t bits;
        memcpy(&bits, &all[i], sizeof bits);
        bytes[4 * i] = (uint8_t)bits;
        bytes[4 * i + 1] = (uint8_t)(bits >> 8);
        bytes[4 * i + 2] = (uint8_t)(bits >> 16);
        bytes[4 * i + 3] = (uint8_t)(bits >> 24);
    }
    unsigned char hash[crypto_hash_sha256_BYTES];
    char expected[DIGEST_TEXT_BYTES], got[DIGEST_TEXT_BYTES];
    crypto_hash_sha256(hash, bytes, elements * 4);
    sodium_bin2hex(expected, sizeof expected, hash, sizeof hash);
    digest_of(values, DTYPE_F32, got);
    assert_string_equal(got, expected);
    free(all);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_run_twice_gives_the_same_parameters, setup, teardown),
        cmocka_unit_test_setup_teardown(another_seed_gives_others, setup, teardown),
        cmocka_unit_test_setup_teardown(another_optimizer_gives_others, setup, teardown),
        cmocka_unit_test_setup_teardown(a_constant_rate_gives_others, setup, teardown),
        cmocka_unit_test_setup_teardown(unequal_parts_give_others, setup, teardown),
        cmocka_unit_test_setup_teardown(more_replicas_are_more_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(averages_change_nothing_but_themselves, setup, teardown),
        cmocka_unit_test_setup_teardown(the_history_ends_with_the_last_judgement, setup, teardown),
        cmocka_unit_test_setup_teardown(what_only_a_job_can_do_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(alone_a_pass_takes_more_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(training_learns, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rate_too_high_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loss_that_cannot_recover_ends_training_under_every_policy, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_few_losses_that_are_no_numbers_end_nothing_with_drop_or_skip, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(too_few_images_are_told, setup, teardown),
        cmocka_unit_test(a_loss_that_is_no_number_is_null_in_the_result),
        cmocka_unit_test(the_digest_is_over_the_bytes_in_declaration_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
