/* SPDX-License-Identifier: BSD-3-Clause */
/* A model's description says all that the model is, and nothing but whole and sound descriptions are taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/protocol/model.h"
#include "transport/base/bytes.h"
#include "transport/base/error.h"
#include "transport/base/random.h"

#define SEED 20240602
#define DIMS_OVER (UINT64_C(1) << 40)

static const uint64_t dims_3_4[] = {3, 4};

/* model_sample -- three variables and no default left. */
static struct model *model_sample(void)
{
    struct model *model;

    assert_int_equal(model_new("sample", &model), 0);
    assert_int_equal(model_set(model, "optimizer", "momentum"), 0);
    assert_int_equal(model_set(model, "learning_rate", "0.1"), 0);
    assert_int_equal(model_set(model, "learning_rate_end", "0.01"), 0);
    assert_int_equal(model_set(model, "learning_rate_steps", "100"), 0);
    assert_int_equal(model_set(model, "momentum", "0.5"), 0);
    assert_int_equal(model_add(model, "w", STEPGATE_TRAINED, STEPGATE_F32, 2, dims_3_4), 0);
    assert_int_equal(model_add(model, "b", STEPGATE_TRAINED, STEPGATE_F32, 1, &dims_3_4[1]), 1);
    assert_int_equal(model_add(model, "s", STEPGATE_TRAINED, STEPGATE_F32, 0, NULL), 2);
    return model;
}

/* model_same -- every field is equal. */
static void model_same(const struct model *a, const struct model *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->optimizer, b->optimizer);
    assert_true(a->learning_rate == b->learning_rate);
    assert_true(a->learning_rate_end == b->learning_rate_end);
    assert_true(a->learning_rate_steps == b->learning_rate_steps);
    assert_true(a->momentum == b->momentum);
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct model_variable *v = &a->variables[i], *w = &b->variables[i];
        assert_string_equal(v->name, w->name);
        assert_int_equal(v->kind, w->kind);
        assert_int_equal(v->dtype, w->dtype);
        assert_int_equal(v->rank, w->rank);
        assert_memory_equal(v->dims, w->dims, sizeof(v->dims));
        assert_true(v->elements == w->elements);
        assert_true(v->bytes == w->bytes);
    }
}

/* model_random -- a model of up to 40 variables. */
static struct model *model_random(struct random_source *random)
{
    struct model *model;
    char text[64];

    snprintf(text, sizeof(text), "model-%u", (unsigned)random_below(random, 1000));
    assert_int_equal(model_new(text, &model), 0);
    assert_int_equal(model_set(model, "optimizer", random_chance(random, 500) ? "sgd" : "momentum"), 0);
    snprintf(text, sizeof(text), "%.17g", (double)random_below(random, 1000000) / 7e5);
    assert_int_equal(model_set(model, "learning_rate", text), 0);
    snprintf(text, sizeof(text), "%u", (unsigned)random_below(random, 1000000));
    assert_int_equal(model_set(model, "learning_rate_steps", text), 0);
    for (uint64_t i = random_below(random, 41); i > 0; i--) {
        uint64_t dims[STEPGATE_RANK_MAX];
        int rank = (int)random_below(random, STEPGATE_RANK_MAX + 1);
        for (int d = 0; d < rank; d++)
            dims[d] = 1 + random_below(random, 31);
        snprintf(text, sizeof(text), "variable/%u", (unsigned)i);
        assert_true(model_add(model, text, STEPGATE_TRAINED, STEPGATE_F32, rank, dims) >= 0);
    }
    return model;
}

static void a_description_comes_out_as_it_went_in(void **state)
{
    (void)state;
    struct random_source random;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int i = 0; i < 200; i++) {
        struct model *in = i == 0 ? model_sample() : model_random(&random), *out = NULL;
        uint8_t *bytes;
        size_t size;
        assert_int_equal(model_pack(in, &bytes, &size), 0);
        assert_int_equal(model_unpack(bytes, size, &out), 0);
        model_same(in, out);
        free(bytes);
        model_delete(&in);
        model_delete(&out);
    }
}

static void the_longest_names_and_most_dimensions_come_out_as_they_went_in(void **state)
{
    (void)state;
    char name[STEPGATE_NAME_BYTES];
    const uint64_t dims[STEPGATE_RANK_MAX] = {31, 31, 31, 31, 31, 31, 31, 31};
    struct model *in, *out;
    uint8_t *bytes;
    size_t size;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    assert_int_equal(model_new(name, &in), 0);
    assert_int_equal(model_add(in, name, STEPGATE_TRAINED, STEPGATE_F32, STEPGATE_RANK_MAX, dims), 0);
    assert_int_equal(model_pack(in, &bytes, &size), 0);
    assert_int_equal(model_unpack(bytes, size, &out), 0);
    model_same(in, out);
    free(bytes);
    model_delete(&in);
    model_delete(&out);
}

static void equal_models_have_equal_fingerprints(void **state)
{
    (void)state;
    struct model *a = model_sample(), *b = model_sample();
    uint8_t first[MODEL_FINGERPRINT_BYTES], second[MODEL_FINGERPRINT_BYTES];
    char text[512];
    memset(b->variables[2].name + 2, 'x', 8); /* behind the end of a name lies nothing that counts */
    assert_int_equal(model_fingerprint(a, first), 0);
    assert_int_equal(model_fingerprint(b, second), 0);
    assert_memory_equal(first, second, sizeof(first));
    assert_int_equal(model_difference(a, b, text, sizeof(text)), 0);
    model_delete(&a);
    model_delete(&b);
}

/* model_differs -- another fingerprint than the sample's, and words for the difference that hold `word`. */
static void model_differs(struct model *other, const char *word)
{
    struct model *sample = model_sample();
    uint8_t first[MODEL_FINGERPRINT_BYTES], second[MODEL_FINGERPRINT_BYTES];
    char text[512] = "";

    assert_int_equal(model_fingerprint(sample, first), 0);
    assert_int_equal(model_fingerprint(other, second), 0);
    assert_memory_not_equal(first, second, sizeof(first));
    assert_int_equal(model_difference(sample, other, text, sizeof(text)), 1);
    assert_non_null(strstr(text, word));
    model_delete(&sample);
    model_delete(&other);
}

static void another_name_of_the_model_shows(void **state)
{
    (void)state;
    struct model *other = model_sample();
    strcpy(other->name, "simple");
    model_differs(other, "simple");
}

static void another_name_of_a_variable_shows(void **state)
{
    (void)state;
    struct model *other = model_sample();
    strcpy(other->variables[1].name, "c");
    model_differs(other, "c [4]");
}

static void another_shape_of_equal_size_shows(void **state)
{
    (void)state;
    struct model *other = model_sample();
    other->variables[0].dims[0] = 4;
    other->variables[0].dims[1] = 3;
    model_differs(other, "[4, 3]");
}

static void a_scalar_is_not_a_vector_of_one(void **state)
{
    (void)state;
    struct model *other = model_sample();
    other->variables[2].rank = 1;
    other->variables[2].dims[0] = 1;
    model_differs(other, "[1]");
}

static void another_order_of_declaration_shows(void **state)
{
    (void)state;
    struct model *other = model_sample();
    struct model_variable first = other->variables[0];
    other->variables[0] = other->variables[1];
    other->variables[1] = first;
    model_differs(other, "variable 0");
}

static void a_missing_variable_shows(void **state)
{
    (void)state;
    struct model *other = model_sample();
    other->count--;
    model_differs(other, "2 variables");
}

static void a_variable_more_shows(void **state)
{
    (void)state;
    struct model *other = model_sample();
    assert_int_equal(model_add(other, "more", STEPGATE_TRAINED, STEPGATE_F32, 0, NULL), 3);
    model_differs(other, "4 variables");
}

static void every_other_hyper_parameter_shows(void **state)
{
    (void)state;
    static const char *const changes[][3] = {
        {"optimizer", "sgd", "optimizer sgd, on worker 0 momentum"},
        {"learning_rate", "0.10000000000000002", "learning rate 0.10000000000000002 to"},
        {"learning_rate_end", "0.02", "learning rate"},
        {"learning_rate_steps", "101", "101"},
        {"momentum", "0.6", "momentum"},
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct model *other = model_sample();
        assert_int_equal(model_set(other, changes[i][0], changes[i][1]), 0);
        model_differs(other, changes[i][2]);
    }
}

static void a_name_is_neither_empty_nor_too_long(void **state)
{
    (void)state;
    char longest[STEPGATE_NAME_BYTES + 1];
    struct model *model = NULL;
    memset(longest, 'n', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    assert_int_equal(model_new("", &model), -STEPGATE_EINVAL);
    assert_int_equal(model_new(NULL, &model), -STEPGATE_EINVAL);
    assert_int_equal(model_new(longest, &model), -STEPGATE_EINVAL);
    assert_null(model);
    model = model_sample();
    assert_int_equal(model_add(model, "", STEPGATE_TRAINED, STEPGATE_F32, 0, NULL), -STEPGATE_EINVAL);
    assert_int_equal(model_add(model, NULL, STEPGATE_TRAINED, STEPGATE_F32, 0, NULL), -STEPGATE_EINVAL);
    assert_int_equal(model_add(model, longest, STEPGATE_TRAINED, STEPGATE_F32, 0, NULL), -STEPGATE_EINVAL);
    assert_int_equal(model->count, 3);
    model_delete(&model);
}

static void a_name_is_taken_once(void **state)
{
    (void)state;
    struct model *model = model_sample();
    assert_int_equal(model_add(model, "b", STEPGATE_TRAINED, STEPGATE_F32, 0, NULL), -STEPGATE_EALREADY);
    assert_int_equal(model->count, 3);
    model_delete(&model);
}

static void kind_dtype_and_rank_out_of_range_are_refused(void **state)
{
    (void)state;
    struct model *model = model_sample();
    const uint64_t dims[STEPGATE_RANK_MAX + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_int_equal(model_add(model, "x", 0, STEPGATE_F32, 0, NULL), -STEPGATE_EINVAL);
    assert_int_equal(model_add(model, "x", 2, STEPGATE_F32, 0, NULL), -STEPGATE_EINVAL);
    assert_int_equal(model_add(model, "x", STEPGATE_TRAINED, 0, 0, NULL), -STEPGATE_EINVAL);
    assert_int_equal(model_add(model, "x", STEPGATE_TRAINED, 2, 0, NULL), -STEPGATE_EINVAL);
    assert_int_equal(model_add(model, "x", STEPGATE_TRAINED, STEPGATE_F32, -1, dims), -STEPGATE_EINVAL);
    assert_int_equal(model_add(model, "x", STEPGATE_TRAINED, STEPGATE_F32, STEPGATE_RANK_MAX + 1, dims),
                     -STEPGATE_EINVAL);
    assert_int_equal(model_add(model, "x", STEPGATE_TRAINED, STEPGATE_F32, 1, NULL), -STEPGATE_EINVAL);
    assert_int_equal(model->count, 3);
    model_delete(&model);
}

static void dimensions_are_positive_and_their_product_is_below_two_to_the_forty(void **state)
{
    (void)state;
    static const struct {
        int rank;
        uint64_t dims[4];
        bool fits;
    } cases[] = {
        {1, {0}, false},
        {2, {3, 0}, false},
        {2, {0, UINT64_MAX}, false},
        {1, {DIMS_OVER - 1}, true},
        {1, {DIMS_OVER}, false},
        {1, {UINT64_MAX}, false},
        {2, {UINT64_C(1) << 20, UINT64_C(1) << 20}, false},
        {2, {UINT64_C(1) << 20, (UINT64_C(1) << 20) - 1}, true},
        {2, {UINT64_C(1) << 32, UINT64_C(1) << 32}, false},       /* 2^64 is 0 */
        {2, {UINT64_C(1) << 33, (UINT64_C(1) << 31) + 1}, false}, /* 2^64 + 2^33 is 2^33 */
        {4, {UINT64_C(1) << 16, UINT64_C(1) << 16, UINT64_C(1) << 16, (UINT64_C(1) << 16) + 1}, false},
        {3, {1, 1, DIMS_OVER - 1}, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model *model;
        assert_int_equal(model_new("m", &model), 0);
        int id = model_add(model, "v", STEPGATE_TRAINED, STEPGATE_F32, cases[i].rank, cases[i].dims);
        assert_int_equal(id, cases[i].fits ? 0 : -STEPGATE_EINVAL);
        assert_int_equal(model->count, cases[i].fits);
        if (cases[i].fits)
            assert_true(model->variables[0].bytes == model->variables[0].elements * 4);
        model_delete(&model);
    }
}

static void values_that_make_no_sense_are_refused_and_change_nothing(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"optimizer", "adam"},
        {"optimizer", ""},
        {"learning_rate", ""},
        {"learning_rate", "x"},
        {"learning_rate", "0.1x"},
        {"learning_rate", "nan"},
        {"learning_rate", "inf"},
        {"learning_rate", "1e31"},
        {"learning_rate", "1e999"},
        {"learning_rate_end", "-inf"},
        {"learning_rate_end", "."},
        {"learning_rate_steps", "-1"},
        {"learning_rate_steps", "1.5"},
        {"learning_rate_steps", "1e16"},
        {"momentum", "-0.1"},
        {"momentum", "1.1"},
        {"momentum", "nan"},
    };
    struct model *model = model_sample(), *sample = model_sample();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(model_set(model, bad[i][0], bad[i][1]), -STEPGATE_EINVAL);
        model_same(model, sample);
    }
    assert_int_equal(model_set(model, "momentun", "0.5"), -STEPGATE_ENOENT);
    assert_int_equal(model_set(model, NULL, "0.5"), -STEPGATE_EINVAL);
    assert_int_equal(model_set(model, "momentum", NULL), -STEPGATE_EINVAL);
    model_same(model, sample);
    model_delete(&model);
    model_delete(&sample);
}

/* model_refused -- a description that must not be taken; the copy is exact, so that reading beyond it is seen. */
static void model_refused(const uint8_t *bytes, size_t size)
{
    struct model *out = NULL;
    uint8_t *exact = malloc(size > 0 ? size : 1);

    assert_non_null(exact);
    if (size > 0)
        memcpy(exact, bytes, size);
    assert_int_equal(model_unpack(exact, size, &out), -STEPGATE_EPROTOCOL);
    assert_null(out);
    free(exact);
}

static void a_description_cut_short_anywhere_is_refused(void **state)
{
    (void)state;
    struct model *model = model_sample();
    uint8_t *bytes;
    size_t size;
    assert_int_equal(model_pack(model, &bytes, &size), 0);
    for (size_t cut = 0; cut < size; cut++)
        model_refused(bytes, cut);
    free(bytes);
    model_delete(&model);
}

static void a_description_with_a_byte_too_many_is_refused(void **state)
{
    (void)state;
    struct model *model = model_sample();
    uint8_t *bytes, longer[1024] = {0};
    size_t size;
    assert_int_equal(model_pack(model, &bytes, &size), 0);
    memcpy(longer, bytes, size);
    model_refused(longer, size + 1);
    free(bytes);
    model_delete(&model);
}

/* What a description says, one field wrong at a time. */
struct model_words {
    unsigned format;
    const char *name;
    int optimizer;
    double rate, rate_end, momentum;
    uint64_t steps;
    uint32_t count; /* as written; two variables follow */
    const char *names[2];
    int kind, dtype, rank; /* of the second */
    uint64_t dims[3];      /* of the second, as many as rank, at most three */
};

static const struct model_words words_sound = {.format = 1,
                                               .name = "m",
                                               .optimizer = MODEL_SGD,
                                               .rate = 0.1,
                                               .momentum = 0.9,
                                               .count = 2,
                                               .names = {"a", "b"},
                                               .kind = STEPGATE_TRAINED,
                                               .dtype = STEPGATE_F32,
                                               .rank = 2,
                                               .dims = {3, 4, 5}};

/* words_pack -- writes the description by hand. */
static size_t words_pack(const struct model_words *words, uint8_t *out, size_t size)
{
    struct bytes_writer w = {out, size, 0, false};

    bytes_put_u16(&w, (uint16_t)words->format);
    bytes_put_text(&w, words->name);
    bytes_put_u8(&w, (uint8_t)words->optimizer);
    bytes_put_f64(&w, words->rate);
    bytes_put_f64(&w, words->rate_end);
    bytes_put_u64(&w, words->steps);
    bytes_put_f64(&w, words->momentum);
    bytes_put_u32(&w, words->count);
    bytes_put_text(&w, words->names[0]);
    bytes_put_u8(&w, STEPGATE_TRAINED);
    bytes_put_u8(&w, STEPGATE_F32);
    bytes_put_u8(&w, 0);
    bytes_put_text(&w, words->names[1]);
    bytes_put_u8(&w, (uint8_t)words->kind);
    bytes_put_u8(&w, (uint8_t)words->dtype);
    bytes_put_u8(&w, (uint8_t)words->rank);
    for (int d = 0; d < words->rank; d++)
        bytes_put_u64(&w, d < 3 ? words->dims[d] : 1);
    assert_false(w.overflow);
    return w.used;
}

/* words_refused -- the description is not taken. */
static void words_refused(struct model_words words)
{
    uint8_t bytes[1024];

    model_refused(bytes, words_pack(&words, bytes, sizeof(bytes)));
}

static void a_description_written_by_hand_is_taken(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    struct model *model;
    assert_int_equal(model_unpack(bytes, words_pack(&words_sound, bytes, sizeof(bytes)), &model), 0);
    assert_string_equal(model->name, "m");
    assert_true(model->learning_rate == 0.1);
    assert_int_equal(model->count, 2);
    assert_int_equal(model->variables[0].elements, 1);
    assert_int_equal(model->variables[1].elements, 12);
    model_delete(&model);
}

static void a_description_of_another_format_is_refused(void **state)
{
    (void)state;
    struct model_words words = words_sound;
    words.format = 2;
    words_refused(words);
}

static void a_description_with_two_variables_of_one_name_is_refused(void **state)
{
    (void)state;
    struct model_words words = words_sound;
    words.names[1] = "a";
    words_refused(words);
}

static void a_description_with_a_wrong_count_is_refused(void **state)
{
    (void)state;
    static const uint32_t wrong[] = {0, 1, 3, 1u << 24, (1u << 24) + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct model_words words = words_sound;
        words.count = wrong[i];
        words_refused(words);
    }
}

static void a_description_with_an_empty_or_too_long_name_is_refused(void **state)
{
    (void)state;
    char longest[STEPGATE_NAME_BYTES + 1];
    memset(longest, 'n', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    for (int i = 0; i < 2; i++) {
        struct model_words words = words_sound;
        words.name = i == 0 ? "" : longest;
        words_refused(words);
        words = words_sound;
        words.names[1] = i == 0 ? "" : longest;
        words_refused(words);
    }
}

static void a_description_with_a_zero_inside_a_name_is_refused(void **state)
{
    (void)state;
    struct model_words words = words_sound;
    uint8_t bytes[1024];
    words.name = "m?n";
    size_t size = words_pack(&words, bytes, sizeof(bytes));
    assert_int_equal(bytes[5], '?');
    bytes[5] = 0;
    model_refused(bytes, size);
}

static void a_description_with_dimensions_that_overflow_is_refused(void **state)
{
    (void)state;
    static const uint64_t wrong[][3] = {
        {0, 4, 5},
        {4, 0, 5},
        {DIMS_OVER, 1, 1},
        {UINT64_C(1) << 32, UINT64_C(1) << 32, 1},
        {UINT64_C(1) << 33, (UINT64_C(1) << 31) + 1, 1},
        {UINT64_MAX, UINT64_MAX, 1}, /* the product is 1 */
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct model_words words = words_sound;
        words.rank = 3;
        memcpy(words.dims, wrong[i], sizeof(words.dims));
        words_refused(words);
    }
}

static void a_description_with_unknown_kind_dtype_or_rank_is_refused(void **state)
{
    (void)state;
    struct model_words words = words_sound;
    words.kind = 2;
    words_refused(words);
    words = words_sound;
    words.dtype = 0;
    words_refused(words);
    words = words_sound;
    words.rank = STEPGATE_RANK_MAX + 1;
    words_refused(words);
}

static void a_description_with_hyper_parameters_that_cannot_be_set_is_refused(void **state)
{
    (void)state;
    static const double rates[] = {1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0, 1e31, -1e300};
    static const double momenta[] = {-0.1, 1.5, 0.0 / 0.0};
    struct model_words words;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        words = words_sound;
        words.rate = rates[i];
        words_refused(words);
        words = words_sound;
        words.rate_end = rates[i];
        words_refused(words);
    }
    for (size_t i = 0; i < sizeof(momenta) / sizeof(momenta[0]); i++) {
        words = words_sound;
        words.momentum = momenta[i];
        words_refused(words);
    }
    words = words_sound;
    words.steps = UINT64_C(9000000000000001);
    words_refused(words);
    words = words_sound;
    words.optimizer = 3;
    words_refused(words);
}

static void damaged_descriptions_are_refused_or_pack_to_the_same_again(void **state)
{
    (void)state;
    struct random_source random;
    struct model *model = model_sample(), *out;
    uint8_t *bytes, *again, damaged[512];
    size_t size, size_again;
    int taken = 0, refused = 0;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    assert_int_equal(model_pack(model, &bytes, &size), 0);
    assert_true(size <= sizeof(damaged));
    for (int i = 0; i < 20000; i++) {
        memcpy(damaged, bytes, size);
        for (uint64_t n = 1 + random_below(&random, 3); n > 0; n--)
            damaged[random_below(&random, size)] = (uint8_t)random_next(&random);
        int status = model_unpack(damaged, size, &out);
        if (status != 0) {
            assert_int_equal(status, -STEPGATE_EPROTOCOL);
            refused++;
            continue;
        }
        taken++;
        assert_int_equal(model_pack(out, &again, &size_again), 0);
        assert_int_equal(size_again, size);
        assert_memory_equal(again, damaged, size);
        free(again);
        model_delete(&out);
    }
    assert_true(taken > 100);
    assert_true(refused > 100);
    free(bytes);
    model_delete(&model);
}

static void the_rate_falls_linearly_to_its_end_and_stays(void **state)
{
    (void)state;
    struct model *model = model_sample();
    assert_true(model_learning_rate(model, 0) == 0.1f);
    assert_true(model_learning_rate(model, 50) > 0.0549f && model_learning_rate(model, 50) < 0.0551f);
    for (uint64_t step = 1; step <= 100; step++)
        assert_true(model_learning_rate(model, step) < model_learning_rate(model, step - 1));
    assert_true(model_learning_rate(model, 100) == 0.01f);
    assert_true(model_learning_rate(model, 101) == 0.01f);
    assert_true(model_learning_rate(model, UINT64_MAX) == 0.01f);
    model_delete(&model);
}

static void the_rate_is_constant_without_steps(void **state)
{
    (void)state;
    struct model *model = model_sample();
    assert_int_equal(model_set(model, "learning_rate_steps", "0"), 0);
    assert_true(model_learning_rate(model, 0) == 0.1f);
    assert_true(model_learning_rate(model, UINT64_MAX) == 0.1f);
    model_delete(&model);
}

static void momentum_has_one_slot_and_sgd_none(void **state)
{
    (void)state;
    struct model *model = model_sample();
    assert_int_equal(model_optimizer_slots(model), 1);
    assert_int_equal(model_set(model, "optimizer", "sgd"), 0);
    assert_int_equal(model_optimizer_slots(model), 0);
    model_delete(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_description_comes_out_as_it_went_in),
        cmocka_unit_test(the_longest_names_and_most_dimensions_come_out_as_they_went_in),
        cmocka_unit_test(equal_models_have_equal_fingerprints),
        cmocka_unit_test(another_name_of_the_model_shows),
        cmocka_unit_test(another_name_of_a_variable_shows),
        cmocka_unit_test(another_shape_of_equal_size_shows),
        cmocka_unit_test(a_scalar_is_not_a_vector_of_one),
        cmocka_unit_test(another_order_of_declaration_shows),
        cmocka_unit_test(a_missing_variable_shows),
        cmocka_unit_test(a_variable_more_shows),
        cmocka_unit_test(every_other_hyper_parameter_shows),
        cmocka_unit_test(a_name_is_neither_empty_nor_too_long),
        cmocka_unit_test(a_name_is_taken_once),
        cmocka_unit_test(kind_dtype_and_rank_out_of_range_are_refused),
        cmocka_unit_test(dimensions_are_positive_and_their_product_is_below_two_to_the_forty),
        cmocka_unit_test(values_that_make_no_sense_are_refused_and_change_nothing),
        cmocka_unit_test(a_description_cut_short_anywhere_is_refused),
        cmocka_unit_test(a_description_with_a_byte_too_many_is_refused),
        cmocka_unit_test(a_description_written_by_hand_is_taken),
        cmocka_unit_test(a_description_of_another_format_is_refused),
        cmocka_unit_test(a_description_with_two_variables_of_one_name_is_refused),
        cmocka_unit_test(a_description_with_a_wrong_count_is_refused),
        cmocka_unit_test(a_description_with_an_empty_or_too_long_name_is_refused),
        cmocka_unit_test(a_description_with_a_zero_inside_a_name_is_refused),
        cmocka_unit_test(a_description_with_dimensions_that_overflow_is_refused),
        cmocka_unit_test(a_description_with_unknown_kind_dtype_or_rank_is_refused),
        cmocka_unit_test(a_description_with_hyper_parameters_that_cannot_be_set_is_refused),
        cmocka_unit_test(damaged_descriptions_are_refused_or_pack_to_the_same_again),
        cmocka_unit_test(the_rate_falls_linearly_to_its_end_and_stays),
        cmocka_unit_test(the_rate_is_constant_without_steps),
        cmocka_unit_test(momentum_has_one_slot_and_sgd_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
