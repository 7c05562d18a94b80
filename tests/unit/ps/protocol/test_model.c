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

/* model_sample -- three variables and no default left, checked. */
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
    assert_int_equal(model_check_keys(model), 0);
    return model;
}

/* model_rich -- every kind and dtype, options, and numbers of most keys. */
static struct model *model_rich(void)
{
    static const char *const keys[][2] = {
        {"update", "tf"},
        {"replicas_to_aggregate", "3"},
        {"total_num_replicas", "2"},
        {"tokens_per_step", "4"},
        {"initial_tokens", "1"},
        {"non_finite", "skip"},
        {"optimizer", "rmsprop"},
        {"formula", "torch"},
        {"momentum", "0.25"},
        {"rho", "0.75"},
        {"epsilon", "1e-3"},
        {"l2_decay", "1e-4"},
        {"clip_norm", "2"},
        {"clip_global_norm", "3"},
        {"clip_value", "4"},
        {"average_decay", "0.99"},
        {"average_by_step", "yes"},
        {"learning_rate", "0.5"},
        {"schedule", "cosine"},
        {"learning_rate_end", "0.125"},
        {"learning_rate_steps", "1000"},
        {"warmup_steps", "10"},
    };
    struct model *model;

    assert_int_equal(model_new("rich", &model), 0);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_int_equal(model_set(model, keys[i][0], keys[i][1]), 0);
    assert_int_equal(model_add(model, "emb", STEPGATE_SPARSE, STEPGATE_BF16, 2, dims_3_4), 0);
    assert_int_equal(model_add(model, "w", STEPGATE_TRAINED, STEPGATE_F64, 2, dims_3_4), 1);
    assert_int_equal(model_add(model, "mean", STEPGATE_ASSIGNED, STEPGATE_F32, 1, dims_3_4), 2);
    assert_int_equal(model_add(model, "reader", STEPGATE_AUX, STEPGATE_F16, 0, NULL), 3);
    assert_int_equal(model_variable_set(model, 0, "rows_max", "2"), 0);
    assert_int_equal(model_variable_set(model, 0, "row_mean", "replicas"), 0);
    assert_int_equal(model_variable_set(model, 0, "gradient_dtype", "f32"), 0);
    assert_int_equal(model_variable_set(model, 0, "average", "no"), 0);
    assert_int_equal(model_variable_set(model, 1, "learning_rate_scale", "0.3"), 0);
    assert_int_equal(model_variable_set(model, 1, "decays", "no"), 0);
    assert_int_equal(model_variable_set(model, 1, "frozen", "yes"), 0);
    assert_int_equal(model_variable_set(model, 2, "assign", "rank0"), 0);
    assert_int_equal(model_check_keys(model), 0);
    return model;
}

/* model_same -- every field is equal. */
static void model_same(const struct model *a, const struct model *b)
{
    struct model x = *a, y = *b;

    assert_int_equal(a->count, b->count);
    x.names = y.names = NULL;
    x.variables = y.variables = NULL;
    x.set = y.set = 0; /* does not travel */
    assert_string_equal(x.name, y.name);
    memset(x.name, 0, sizeof(x.name));
    memset(y.name, 0, sizeof(y.name));
    assert_memory_equal(&x, &y, sizeof(x)); /* both began as zeros: so did what lies between the fields */
    for (size_t i = 0; i < a->count; i++) {
        const struct model_variable *v = &a->variables[i], *w = &b->variables[i];
        assert_string_equal(v->name, w->name);
        assert_int_equal(v->kind, w->kind);
        assert_int_equal(v->dtype, w->dtype);
        assert_int_equal(v->rank, w->rank);
        assert_memory_equal(v->dims, w->dims, sizeof(v->dims));
        assert_true(v->elements == w->elements);
        assert_true(v->bytes == w->bytes);
        assert_int_equal(v->gradient_dtype, w->gradient_dtype);
        assert_true(v->gradient_bytes == w->gradient_bytes);
        assert_true(v->rows == w->rows && v->row_elements == w->row_elements && v->rows_max == w->rows_max);
        assert_true(v->learning_rate_scale == w->learning_rate_scale);
        assert_true(v->decays == w->decays && v->frozen == w->frozen && v->average == w->average);
        assert_int_equal(v->row_mean, w->row_mean);
        assert_int_equal(v->assign, w->assign);
    }
}

/* model_random_variables -- up to 40 of them, with options that fit. */
static void model_random_variables(struct random_source *random, struct model *model)
{
    char text[64];

    for (uint64_t i = random_below(random, 41); i > 0; i--) {
        uint64_t dims[STEPGATE_RANK_MAX];
        int kind = 1 + (int)random_below(random, 4), dtype = 1 + (int)random_below(random, 4);
        int rank = (int)random_below(random, STEPGATE_RANK_MAX + 1);
        rank = kind == STEPGATE_SPARSE && rank == 0 ? 1 : rank;
        for (int d = 0; d < rank; d++)
            dims[d] = 1 + random_below(random, 31);
        snprintf(text, sizeof(text), "variable/%u", (unsigned)i);
        int id = model_add(model, text, kind, dtype, rank, dims);
        assert_true(id >= 0);
        snprintf(text, sizeof(text), "%u", 1 + (unsigned)random_below(random, 40));
        if (kind == STEPGATE_SPARSE)
            assert_int_equal(model_variable_set(model, (uint32_t)id, "rows_max", text), 0);
        if (kind <= STEPGATE_SPARSE && random_chance(random, 500))
            assert_int_equal(model_variable_set(model, (uint32_t)id, "frozen", "yes"), 0);
        if (kind <= STEPGATE_SPARSE && random_chance(random, 500))
            assert_int_equal(model_variable_set(model, (uint32_t)id, "gradient_dtype", "f16"), 0);
    }
}

/* model_random -- a model of keys that fit each other, found by trying. */
static struct model *model_random(struct random_source *random)
{
    static const char *const optimizers[] = {"none",    "sgd",     "momentum", "nesterov",
                                             "adagrad", "rmsprop", "adam",     "adamw"};
    static const char *const keys[][2] = {
        {"update", "async"},      {"update", "tf"},           {"non_finite", "drop"},
        {"formula", "torch"},     {"learning_rate", "0.3"},   {"learning_rate_steps", "17"},
        {"schedule", "cosine"},   {"momentum", "0.1"},        {"rho", "0.2"},
        {"beta1", "0.3"},         {"epsilon", "0.4"},         {"initial_accumulator", "0.5"},
        {"weight_decay", "0.6"},  {"l2_decay", "0.7"},        {"clip_norm", "0.8"},
        {"average_decay", "0.9"}, {"average_by_step", "yes"}, {"warmup_steps", "11"},
    };

    for (int tries = 0; tries < 100000; tries++) {
        struct model *model;
        char text[64];
        snprintf(text, sizeof(text), "model-%u", (unsigned)random_below(random, 1000));
        assert_int_equal(model_new(text, &model), 0);
        assert_int_equal(model_set(model, "optimizer", optimizers[random_below(random, 8)]), 0);
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
            if (random_chance(random, 250))
                assert_int_equal(model_set(model, keys[i][0], keys[i][1]), 0);
        if (model_check_keys(model) == 0) {
            model_random_variables(random, model);
            assert_int_equal(model_check_keys(model), 0);
            return model;
        }
        model_delete(&model);
    }
    fail();
    return NULL;
}

static void a_description_comes_out_as_it_went_in(void **state)
{
    (void)state;
    struct random_source random;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int i = 0; i < 200; i++) {
        struct model *in = i == 0 ? model_sample() : i == 1 ? model_rich() : model_random(&random);
        struct model *out = NULL;
        uint8_t *bytes;
        size_t size;
        assert_int_equal(model_pack(in, &bytes, &size), 0);
        assert_int_equal(model_unpack(bytes, size, &out), 0);
        model_same(in, out);
        assert_int_equal(model_check_keys(out), 0); /* once more changes nothing */
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
        {"optimizer", "sgd", "optimizer sgd, on worker 0 it is momentum"},
        {"learning_rate", "0.10000000000000002", "learning_rate 0.10000000000000002, on worker 0 it is 0.1"},
        {"learning_rate_end", "0.02", "learning_rate_end 0.02, on worker 0 it is 0.01"},
        {"learning_rate_steps", "101", "learning_rate_steps 101, on worker 0 it is 100"},
        {"momentum", "0.6", "momentum 0.6, on worker 0 it is 0.5"},
        {"update", "tf", "update tf, on worker 0 it is strict"},
        {"non_finite", "drop", "non_finite drop, on worker 0 it is propagate"},
        {"formula", "torch", "formula torch, on worker 0 it is tf"},
        {"staircase", "yes", "staircase yes, on worker 0 it is no"},
        {"clip_norm", "1e-3", "clip_norm 0.001, on worker 0 it is 0"},
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct model *other = model_sample();
        assert_int_equal(model_set(other, changes[i][0], changes[i][1]), 0);
        model_differs(other, changes[i][2]);
    }
}

static void every_other_kind_dtype_and_option_shows(void **state)
{
    (void)state;
    static const struct {
        uint32_t id;
        const char *key, *text, *words;
    } changes[] = {
        {0, "rows_max", "1", "variable 0 (emb): rows_max 1, on worker 0 it is 2"},
        {0, "row_mean", "rows", "variable 0 (emb): row_mean rows, on worker 0 it is replicas"},
        {0, "gradient_dtype", "bf16", "variable 0 (emb): gradient_dtype bf16, on worker 0 it is f32"},
        {0, "average", "yes", "variable 0 (emb): average yes, on worker 0 it is no"},
        {1, "learning_rate_scale", "0.4", "variable 1 (w): learning_rate_scale 0.4, on worker 0 it is 0.3"},
        {1, "decays", "yes", "variable 1 (w): decays yes, on worker 0 it is no"},
        {1, "frozen", "no", "variable 1 (w): frozen no, on worker 0 it is yes"},
        {2, "assign", "mean", "variable 2 (mean): assign mean, on worker 0 it is rank0"},
    };
    char text[512];
    struct model *rich = model_rich(), *other;
    uint8_t first[MODEL_FINGERPRINT_BYTES], second[MODEL_FINGERPRINT_BYTES];
    assert_int_equal(model_fingerprint(rich, first), 0);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        other = model_rich();
        assert_int_equal(model_variable_set(other, changes[i].id, changes[i].key, changes[i].text), 0);
        assert_int_equal(model_fingerprint(other, second), 0);
        assert_memory_not_equal(first, second, sizeof(first));
        assert_int_equal(model_difference(rich, other, text, sizeof(text)), 1);
        assert_string_equal(text, changes[i].words);
        model_delete(&other);
    }
    other = model_rich();
    other->variables[3].kind = STEPGATE_TRAINED;
    assert_int_equal(model_difference(rich, other, text, sizeof(text)), 1);
    assert_string_equal(text, "variable 3 (reader): trained of f16, on worker 0 it is aux of f16");
    model_delete(&other);
    model_delete(&rich);
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
    assert_int_equal(model_add(model, "x", 5, STEPGATE_F32, 0, NULL), -STEPGATE_EINVAL);
    assert_int_equal(model_add(model, "x", STEPGATE_SPARSE, STEPGATE_F32, 0, NULL), -STEPGATE_EINVAL);
    assert_int_equal(model_add(model, "x", STEPGATE_TRAINED, 0, 0, NULL), -STEPGATE_EINVAL);
    assert_int_equal(model_add(model, "x", STEPGATE_TRAINED, 5, 0, NULL), -STEPGATE_EINVAL);
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
    struct model *model = model_rich();
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

/* What a description says, one field wrong at a time: an rmsprop of three numbers, the rest as it is without keys. */
struct model_words {
    unsigned format;
    const char *name;
    int update, optimizer, schedule;
    unsigned torch;
    double rate, rate_end, momentum, rho, beta1, clip, average_decay;
    uint32_t replicas;
    uint64_t initial_tokens, steps;
    uint32_t count; /* as written; two variables follow */
    const char *names[2];
    int kind, dtype, rank; /* of the second */
    uint64_t dims[3];      /* of the second, as many as rank, at most three */
    int gradient_dtype, row_mean, assign;
    uint64_t rows_max;
    uint64_t scale_bits;
    unsigned decays, frozen, average;
};

static const struct model_words words_sound = {.format = 3,
                                               .name = "m",
                                               .update = MODEL_STRICT,
                                               .optimizer = MODEL_RMSPROP,
                                               .schedule = MODEL_LINEAR,
                                               .rate = 0.1,
                                               .rate_end = 0.01,
                                               .steps = 100,
                                               .momentum = 0.9,
                                               .rho = 0.9,
                                               .beta1 = 0.9,
                                               .initial_tokens = UINT64_MAX,
                                               .count = 2,
                                               .names = {"a", "b"},
                                               .kind = STEPGATE_TRAINED,
                                               .dtype = STEPGATE_F32,
                                               .rank = 2,
                                               .dims = {3, 4, 5},
                                               .gradient_dtype = STEPGATE_F32,
                                               .scale_bits = UINT64_C(0x3ff0000000000000),
                                               .decays = 1};

/* words_pack_keys -- all keys, written by hand. */
static void words_pack_keys(const struct model_words *words, struct bytes_writer *w)
{
    bytes_put_u8(w, (uint8_t)words->update);
    bytes_put_u32(w, 0); /* bound */
    bytes_put_u32(w, words->replicas);
    bytes_put_u32(w, 0); /* total_num_replicas */
    bytes_put_u32(w, 0); /* tokens_per_step */
    bytes_put_u64(w, words->initial_tokens);
    bytes_put_u8(w, MODEL_PROPAGATE);
    bytes_put_u8(w, (uint8_t)words->optimizer);
    bytes_put_u8(w, (uint8_t)words->torch);
    bytes_put_f64(w, words->rate);
    bytes_put_u64(w, words->steps);
    bytes_put_u8(w, (uint8_t)words->schedule);
    bytes_put_f64(w, words->rate_end);
    bytes_put_f64(w, 0.94); /* learning_rate_factor */
    bytes_put_u8(w, 0);     /* staircase */
    bytes_put_u64(w, 0);    /* warmup_steps */
    bytes_put_f64(w, words->momentum);
    bytes_put_f64(w, words->rho);
    bytes_put_f64(w, words->beta1);
    bytes_put_f64(w, 0.999); /* beta2 */
    bytes_put_f64(w, 1e-10); /* epsilon */
    bytes_put_f64(w, 0.1);   /* initial_accumulator */
    bytes_put_f64(w, 0.01);  /* weight_decay */
    bytes_put_f64(w, 0);     /* l2_decay */
    bytes_put_f64(w, words->clip);
    bytes_put_f64(w, 0); /* clip_global_norm */
    bytes_put_f64(w, 0); /* clip_value */
    bytes_put_f64(w, words->average_decay);
    bytes_put_u8(w, 0); /* average_by_step */
}

/* words_pack_options -- of one variable. */
static void words_pack_options(const struct model_words *words, struct bytes_writer *w)
{
    bytes_put_u8(w, (uint8_t)words->gradient_dtype);
    bytes_put_u64(w, words->rows_max);
    bytes_put_u8(w, (uint8_t)words->row_mean);
    bytes_put_u8(w, (uint8_t)words->assign);
    bytes_put_u64(w, words->scale_bits);
    bytes_put_u8(w, (uint8_t)words->decays);
    bytes_put_u8(w, (uint8_t)words->frozen);
    bytes_put_u8(w, (uint8_t)words->average);
}

/* words_pack -- writes the description by hand. */
static size_t words_pack(const struct model_words *words, uint8_t *out, size_t size)
{
    struct bytes_writer w = {out, size, 0, false};

    bytes_put_u16(&w, (uint16_t)words->format);
    bytes_put_text(&w, words->name);
    words_pack_keys(words, &w);
    bytes_put_u32(&w, words->count);
    bytes_put_text(&w, words->names[0]);
    bytes_put_u8(&w, STEPGATE_TRAINED);
    bytes_put_u8(&w, STEPGATE_F32);
    bytes_put_u8(&w, 0);
    words_pack_options(&words_sound, &w);
    bytes_put_text(&w, words->names[1]);
    bytes_put_u8(&w, (uint8_t)words->kind);
    bytes_put_u8(&w, (uint8_t)words->dtype);
    bytes_put_u8(&w, (uint8_t)words->rank);
    for (int d = 0; d < words->rank; d++)
        bytes_put_u64(&w, d < 3 ? words->dims[d] : 1);
    words_pack_options(words, &w);
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
    assert_int_equal(model->optimizer, MODEL_RMSPROP);
    assert_true(model->momentum == 0.9 && model->epsilon == 1e-10);
    assert_int_equal(model->initial_tokens, -1);
    assert_int_equal(model->count, 2);
    assert_int_equal(model->variables[0].elements, 1);
    assert_int_equal(model->variables[1].elements, 12);
    model_delete(&model);
}

static void a_description_of_another_format_is_refused(void **state)
{
    (void)state;
    struct model_words words = words_sound;
    words.format = 1;
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
    words.kind = 5;
    words_refused(words);
    words = words_sound;
    words.dtype = 0;
    words_refused(words);
    words = words_sound;
    words.dtype = 5;
    words_refused(words);
    words = words_sound;
    words.rank = STEPGATE_RANK_MAX + 1;
    words_refused(words);
}

static void a_description_with_options_that_cannot_be_set_is_refused(void **state)
{
    (void)state;
    struct model_words words;
#define REFUSED(field, wrong)                                                                                \
    words = words_sound;                                                                                     \
    words.field = (wrong);                                                                                   \
    words_refused(words)
    REFUSED(gradient_dtype, 0);
    REFUSED(gradient_dtype, 5);
    REFUSED(gradient_dtype, STEPGATE_F64);
    REFUSED(rows_max, 1);
    REFUSED(row_mean, 1);
    REFUSED(assign, 1);
    REFUSED(scale_bits, UINT64_C(0x7ff8000000000000));
    REFUSED(scale_bits, UINT64_C(0xbff0000000000000));
    REFUSED(decays, 2);
    REFUSED(frozen, 255);
    REFUSED(average, 1);            /* without averages */
    REFUSED(kind, STEPGATE_SPARSE); /* without rows_max */
    REFUSED(kind, STEPGATE_AUX);    /* which does not decay */
    static const uint64_t rows[] = {0, 1, 3, 4, UINT64_MAX};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct model *model;
        uint8_t bytes[1024];
        words = words_sound;
        words.kind = STEPGATE_SPARSE;
        words.row_mean = MODEL_ROW_MEAN_ROWS;
        words.rows_max = rows[i];
        if (rows[i] < 1 || rows[i] > 3) {
            words_refused(words);
            continue;
        }
        assert_int_equal(model_unpack(bytes, words_pack(&words, bytes, sizeof(bytes)), &model), 0);
        assert_int_equal(model->variables[1].row_elements, 4);
        model_delete(&model);
    }
}

static void a_description_with_hyper_parameters_that_cannot_be_set_is_refused(void **state)
{
    (void)state;
    static const double rates[] = {1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0, 1e31, -1e300};
    static const double momenta[] = {-0.1, 1.5, 0.0 / 0.0};
    struct model_words words;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        REFUSED(rate, rates[i]);
        REFUSED(rate_end, rates[i]);
        REFUSED(clip, rates[i]);
        REFUSED(average_decay, rates[i]);
    }
    for (size_t i = 0; i < sizeof(momenta) / sizeof(momenta[0]); i++) {
        REFUSED(momentum, momenta[i]);
        REFUSED(rho, momenta[i]);
    }
    REFUSED(steps, UINT64_C(9000000000000001));
    REFUSED(steps, 0);
    REFUSED(optimizer, 0);
    REFUSED(optimizer, 9);
    REFUSED(schedule, 0);
    REFUSED(schedule, 5);
    REFUSED(update, 0);
    REFUSED(update, 5);
    REFUSED(torch, 2);
    REFUSED(clip, 1e-60);
    REFUSED(average_decay, 1);
    REFUSED(replicas, UINT32_MAX);
    REFUSED(initial_tokens, UINT64_MAX - 1);
}

static void a_description_with_a_number_that_nothing_uses_is_refused(void **state)
{
    (void)state;
    struct model_words words;
    REFUSED(beta1, 0.5);
    REFUSED(initial_tokens, 0);
    REFUSED(schedule, MODEL_CONSTANT); /* with steps and an end */
    REFUSED(optimizer, MODEL_NONE);
    words = words_sound;
    words.update = MODEL_ASYNC;
    words.replicas = 2;
    words_refused(words);
}

/* model_damaged -- is the damaged description refused? Else it packs to the same again. */
static bool model_damaged(const uint8_t *damaged, size_t size)
{
    struct model *out;
    uint8_t *again;
    size_t size_again;
    int status = model_unpack(damaged, size, &out);

    if (status != 0) {
        assert_int_equal(status, -STEPGATE_EPROTOCOL);
        return true;
    }
    assert_int_equal(model_pack(out, &again, &size_again), 0);
    assert_int_equal(size_again, size);
    assert_memory_equal(again, damaged, size);
    assert_int_equal(model_check_keys(out), 0);
    for (uint32_t workers = 1; workers < 4; workers++)
        (void)model_check_workers(out, workers);
    for (uint64_t step = 0; step < 3; step++)
        (void)model_learning_rate(out, step);
    free(again);
    model_delete(&out);
    return false;
}

static void every_single_damaged_byte_is_refused_or_packs_to_the_same_again(void **state)
{
    (void)state;
    int taken = 0, refused = 0;
    for (int which = 0; which < 2; which++) {
        struct model *model = which == 0 ? model_sample() : model_rich();
        uint8_t *bytes;
        size_t size;
        assert_int_equal(model_pack(model, &bytes, &size), 0);
        for (size_t at = 0; at < size; at++) {
            uint8_t right = bytes[at];
            for (unsigned wrong = 0; wrong < 256; wrong++) {
                bytes[at] = (uint8_t)wrong;
                if (wrong != right && model_damaged(bytes, size))
                    refused++;
                else
                    taken++;
            }
            bytes[at] = right;
        }
        free(bytes);
        model_delete(&model);
    }
    assert_true(taken > 1000);
    assert_true(refused > 1000);
}

static void damaged_descriptions_are_refused_or_pack_to_the_same_again(void **state)
{
    (void)state;
    struct random_source random;
    struct model *model = model_rich();
    uint8_t *bytes, damaged[1024];
    size_t size;
    int taken = 0, refused = 0;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    assert_int_equal(model_pack(model, &bytes, &size), 0);
    assert_true(size <= sizeof(damaged));
    for (int i = 0; i < 20000; i++) {
        memcpy(damaged, bytes, size);
        for (uint64_t n = 1 + random_below(&random, 3); n > 0; n--)
            damaged[random_below(&random, size)] = (uint8_t)random_next(&random);
        if (model_damaged(damaged, size))
            refused++;
        else
            taken++;
    }
    assert_true(taken > 100);
    assert_true(refused > 100);
    free(bytes);
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
        cmocka_unit_test(every_other_kind_dtype_and_option_shows),
        cmocka_unit_test(a_name_is_neither_empty_nor_too_long),
        cmocka_unit_test(a_name_is_taken_once),
        cmocka_unit_test(kind_dtype_and_rank_out_of_range_are_refused),
        cmocka_unit_test(dimensions_are_positive_and_their_product_is_below_two_to_the_forty),
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
        cmocka_unit_test(a_description_with_options_that_cannot_be_set_is_refused),
        cmocka_unit_test(a_description_with_hyper_parameters_that_cannot_be_set_is_refused),
        cmocka_unit_test(a_description_with_a_number_that_nothing_uses_is_refused),
        cmocka_unit_test(every_single_damaged_byte_is_refused_or_packs_to_the_same_again),
        cmocka_unit_test(damaged_descriptions_are_refused_or_pack_to_the_same_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
