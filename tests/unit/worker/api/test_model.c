/* SPDX-License-Identifier: BSD-3-Clause */
/* What is declared is described, and what does not fit is refused before anybody trains. */
#include "tests/unit/worker/api/cluster.h"

/* model_variable -- declares [4, 3] on worker 0. */
static int model_variable(struct cluster *c, const char *name, int kind, int dtype)
{
    const uint64_t dims[2] = {4, 3};
    int id = -1;

    must(stepgate_model_variable(c->model[0], name, kind, dtype, 2, dims, &id));
    return id;
}

static void a_variable_is_described_with_its_options(void **state)
{
    struct stepgate_variable_info info = {.size = sizeof(info)};
    struct cluster c;

    (void)state;
    cluster_up(&c, 1);
    int w = model_variable(&c, "w", STEPGATE_TRAINED, STEPGATE_F64);
    int emb = model_variable(&c, "emb", STEPGATE_SPARSE, STEPGATE_BF16);
    must(stepgate_model_describe(c.model[0], w, &info));
    assert_int_equal(info.bytes, 96);
    assert_int_equal(info.gradient_dtype, STEPGATE_F64);
    assert_int_equal(info.gradient_bytes, 96);
    assert_int_equal(info.rows_max, 0);
    must(stepgate_model_variable_set(c.model[0], w, "gradient_dtype", "f16"));
    must(stepgate_model_variable_set(c.model[0], emb, "rows_max", "9"));
    must(stepgate_model_describe(c.model[0], w, &info));
    assert_int_equal(info.bytes, 96);
    assert_int_equal(info.gradient_dtype, STEPGATE_F16);
    assert_int_equal(info.gradient_bytes, 24);
    must(stepgate_model_describe(c.model[0], emb, &info));
    assert_int_equal(info.kind, STEPGATE_SPARSE);
    assert_int_equal(info.dtype, STEPGATE_BF16);
    assert_int_equal(info.bytes, 24);
    assert_int_equal(info.rows_max, 4);
    cluster_clear(&c);
}

static void an_option_that_makes_no_sense_is_refused(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 1);
    int w = model_variable(&c, "w", STEPGATE_TRAINED, STEPGATE_F32);
    struct stepgate_model *m = c.model[0];
    refused(STEPGATE_ENOENT, "scale", stepgate_model_variable_set(m, w, "scale", "1"));
    refused(STEPGATE_EINVAL, "rows_max", stepgate_model_variable_set(m, w, "rows_max", "1"));
    refused(STEPGATE_EINVAL, "f64", stepgate_model_variable_set(m, w, "gradient_dtype", "f64"));
    refused(STEPGATE_EINVAL, "maybe", stepgate_model_variable_set(m, w, "decays", "maybe"));
    refused(STEPGATE_EINVAL, "no variable 1", stepgate_model_variable_set(m, 1, "decays", "no"));
    refused(STEPGATE_EINVAL, "one variable", stepgate_model_variable_set(m, -1, "decays", "no"));
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_variable_set(m, w, NULL, "no"));
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_variable_set(m, w, "decays", NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_variable_set(NULL, w, "decays", "no"));
    cluster_commit(&c);
    refused(STEPGATE_ESTATE, "committed", stepgate_model_variable_set(m, w, "decays", "no"));
    cluster_begin(&c);
    cluster_clear(&c);
}

static void an_initial_value_is_in_the_dtype_of_its_variable(void **state)
{
    const uint8_t value[96] = {0};
    static const int bytes[] = {48, 96, 24, 24};
    struct cluster c;

    (void)state;
    cluster_up(&c, 1);
    for (int dtype = STEPGATE_F32; dtype <= STEPGATE_BF16; dtype++) {
        char name[2] = {(char)('a' + dtype), 0};
        int id = model_variable(&c, name, STEPGATE_TRAINED, dtype);
        for (int i = 0; i < 3; i++) {
            int size = i == 0 ? 48 : i == 1 ? 96 : 24;
            int status = stepgate_model_initialize(c.model[0], id, value, (uint64_t)size);
            assert_int_equal(status, size == bytes[dtype - 1] ? 0 : -STEPGATE_EINVAL);
        }
    }
    cluster_clear(&c);
}

static void commit_refuses_what_does_not_fit_and_may_be_repeated(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 1);
    struct stepgate_model *m = c.model[0];
    model_variable(&c, "w", STEPGATE_TRAINED, STEPGATE_F32);
    must(stepgate_model_set(m, "total_num_replicas", "2"));
    refused(STEPGATE_EINVAL, "the job has 1 workers", stepgate_model_commit(m, CLUSTER_MS, NULL));
    must(stepgate_model_set(m, "total_num_replicas", "1"));
    must(stepgate_model_set(m, "replicas_to_aggregate", "33"));
    refused(STEPGATE_EINVAL, "replicas_to_aggregate 33", stepgate_model_commit(m, CLUSTER_MS, NULL));
    must(stepgate_model_set(m, "replicas_to_aggregate", "1"));
    must(stepgate_model_set(m, "schedule", "cosine"));
    refused(STEPGATE_EINVAL, "learning_rate_steps", stepgate_model_commit(m, CLUSTER_MS, NULL));
    must(stepgate_model_set(m, "learning_rate_steps", "10"));
    cluster_commit(&c);
    cluster_begin(&c);
    cluster_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_is_described_with_its_options),
        cmocka_unit_test(an_option_that_makes_no_sense_is_refused),
        cmocka_unit_test(an_initial_value_is_in_the_dtype_of_its_variable),
        cmocka_unit_test(commit_refuses_what_does_not_fit_and_may_be_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
