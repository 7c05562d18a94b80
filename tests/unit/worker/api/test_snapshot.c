/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of parameters, averages and optimizer slots, all as of one exact step, against plain loops. */
#include <math.h>

#include "tests/unit/worker/api/crowd.h"

#define STEPS 12
#define WIDE 40000 /* cut over two ps */
#define SAVED 7    /* variables that are compared */

enum { W, DOUBLE, HALF, RAW, TABLE, STAT, FROZEN, OWN };

static const uint64_t sizes[] = {WIDE, 10, 33, 6, 200, 4, 5, 3};

/* What one element of each trained variable is after each step; all elements of one have the same gradient. */
struct plain {
    float value[STEPS + 1][WIDE], slot[STEPS + 1][WIDE], average[STEPS + 1][WIDE];
    double wide_value[STEPS + 1], wide_slot[STEPS + 1], wide_average[STEPS + 1];
    float half_value[STEPS + 1], half_slot[STEPS + 1], half_average[STEPS + 1];
};

/* gradient -- of a worker in a step, for one element; a multiple of 1/64: exact in 16 bits. */
static float gradient(int worker, uint64_t step, uint64_t element)
{
    return (float)((element * 7 + step * 3 + (uint64_t)worker * 5) % 32) / 64 - 0.25f;
}

/* plain_new -- momentum and averages, step by step. */
static struct plain *plain_new(void)
{
    struct plain *p = calloc(1, sizeof(*p));
    float rate = 0.3f, momentum = 0.9f, share = (float)(1 - 0.8);

    assert_non_null(p);
    for (uint64_t k = 0; k < STEPS; k++) {
        for (uint64_t i = 0; i < WIDE; i++) {
            float mean = (gradient(0, k, i) + gradient(1, k, i)) / 2;
            p->slot[k + 1][i] = p->slot[k][i] * momentum + mean;
            p->value[k + 1][i] = p->value[k][i] - rate * p->slot[k + 1][i];
            p->average[k + 1][i] = p->average[k][i] - share * (p->average[k][i] - p->value[k + 1][i]);
        }
        double mean = ((double)gradient(0, k, 0) + (double)gradient(1, k, 0)) / 2;
        p->wide_slot[k + 1] = p->wide_slot[k] * 0.9 + mean;
        p->wide_value[k + 1] = p->wide_value[k] - 0.3 * p->wide_slot[k + 1];
        p->wide_average[k + 1] = p->wide_average[k] - (1 - 0.8) * (p->wide_average[k] - p->wide_value[k + 1]);
        float narrow = (gradient(0, k, 0) + gradient(1, k, 0)) / 2;
        p->half_slot[k + 1] = p->half_slot[k] * momentum + narrow;
        p->half_value[k + 1] = p->half_value[k] - rate * p->half_slot[k + 1];
        p->half_average[k + 1] = p->half_average[k] - share * (p->half_average[k] - p->half_value[k + 1]);
    }
    return p;
}

/* bfloat -- rounded to nearest even. */
static uint16_t bfloat(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* declare -- one variable of each kind. */
static void declare(struct crowd_worker *w)
{
    static const struct {
        const char *name;
        int kind, dtype, rank;
    } all[] = {{"w", STEPGATE_TRAINED, STEPGATE_F32, 1},      {"double", STEPGATE_TRAINED, STEPGATE_F64, 1},
               {"half", STEPGATE_TRAINED, STEPGATE_BF16, 1},  {"raw", STEPGATE_TRAINED, STEPGATE_F32, 1},
               {"table", STEPGATE_SPARSE, STEPGATE_F32, 2},   {"stat", STEPGATE_ASSIGNED, STEPGATE_F32, 1},
               {"frozen", STEPGATE_TRAINED, STEPGATE_F32, 1}, {"own", STEPGATE_AUX, STEPGATE_F32, 1}};
    const uint64_t table[] = {50, 4};
    int id;

    must(stepgate_model_new(w->job, "m", &w->model));
    for (int v = 0; v < 8; v++)
        must(stepgate_model_variable(w->model, all[v].name, all[v].kind, all[v].dtype, all[v].rank,
                                     v == TABLE ? table : &sizes[v], &id));
    must(stepgate_model_variable_set(w->model, TABLE, "rows_max", "5"));
    must(stepgate_model_variable_set(w->model, FROZEN, "frozen", "yes"));
    must(stepgate_model_variable_set(w->model, RAW, "average", "no"));
    must(stepgate_model_set(w->model, "optimizer", "momentum"));
    must(stepgate_model_set(w->model, "learning_rate", "0.3"));
    must(stepgate_model_set(w->model, "average_decay", "0.8"));
    const float frozen[] = {1, 2, 3, 4, 5};
    must(stepgate_model_initialize(w->model, FROZEN, frozen, sizeof(frozen)));
}

/* push_all -- what a worker contributes to a step. */
static void push_all(struct crowd_worker *w, uint64_t step)
{
    const uint64_t row = 17;
    float rows[4];
    void *to[8] = {NULL};

    for (int v = 0; v < 8; v++)
        if (v != TABLE)
            must(stepgate_buffer_gradient(w->model, v, &to[v]));
    for (uint64_t i = 0; i < WIDE; i++)
        ((float *)to[W])[i] = gradient(w->rank, step, i);
    for (uint64_t i = 0; i < sizes[DOUBLE]; i++)
        ((double *)to[DOUBLE])[i] = (double)gradient(w->rank, step, 0);
    for (uint64_t i = 0; i < sizes[HALF]; i++)
        ((uint16_t *)to[HALF])[i] = bfloat(gradient(w->rank, step, 0));
    for (uint64_t i = 0; i < sizes[RAW]; i++)
        ((float *)to[RAW])[i] = gradient(w->rank, step, i);
    for (uint64_t i = 0; i < sizes[STAT]; i++)
        ((float *)to[STAT])[i] = (float)step;
    for (int i = 0; i < 4; i++)
        rows[i] = gradient(w->rank, step, (uint64_t)i);
    for (int v = 0; v < 8; v++)
        must(v == TABLE ? stepgate_step_push_rows(w->model, v, &row, 1, rows)
                        : stepgate_step_push(w->model, v));
}

/* check_values -- a snapshot of all that others can read. */
static void check_values(struct stepgate_model *model, const struct plain *p, uint64_t least)
{
    static float w[WIDE], raw[6], table[200], stat[4], frozen[5];
    static double wide[10];
    static uint16_t half[33];
    const int ids[SAVED] = {FROZEN, W, STAT, DOUBLE, HALF, TABLE, RAW};
    void *const out[SAVED] = {frozen, w, stat, wide, half, table, raw};
    uint64_t k = UINT64_MAX;

    must(stepgate_model_snapshot(model, STEPGATE_SNAPSHOT_PARAMETERS, ids, SAVED, out, CROWD_MS, &k));
    assert_in_range(k, least, STEPS);
    assert_memory_equal(w, p->value[k], sizeof(w));
    assert_memory_equal(raw, p->value[k], sizeof(raw));
    for (int i = 0; i < 10; i++)
        assert_true(wide[i] == p->wide_value[k]);
    for (int i = 0; i < 33; i++)
        assert_int_equal(half[i], bfloat(p->half_value[k]));
    for (int i = 0; i < 200; i++)
        assert_float_equal(table[i], (i / 4 == 17 ? p->value[k][i % 4] : 0), 0);
    for (int i = 0; i < 4; i++)
        assert_float_equal(stat[i], (k > 0 ? (float)(k - 1) : 0), 0);
    for (int i = 0; i < 5; i++)
        assert_float_equal(frozen[i], (float)(i + 1), 0);
}

/* check_averages -- of those that have one. */
static void check_averages(struct stepgate_model *model, const struct plain *p, uint64_t least)
{
    static float w[WIDE], half[33];
    static double wide[10];
    const int ids[] = {W, DOUBLE, HALF};
    void *const out[] = {w, wide, half};
    uint64_t k = UINT64_MAX;

    must(stepgate_model_snapshot(model, STEPGATE_SNAPSHOT_AVERAGES, ids, 3, out, CROWD_MS, &k));
    assert_in_range(k, least, STEPS);
    assert_memory_equal(w, p->average[k], sizeof(w));
    for (int i = 0; i < 10; i++)
        assert_true(wide[i] == p->wide_average[k]);
    for (int i = 0; i < 33; i++)
        assert_float_equal(half[i], p->half_average[k], 0);
}

/* check_slots -- of each variable that has one. */
static void check_slots(struct stepgate_model *model, const struct plain *p, uint64_t least)
{
    static float w[WIDE], half[33], table[200];
    static double wide[10];
    uint64_t k = UINT64_MAX;

    assert_string_equal(stepgate_model_slot_name(model, 0), "momentum");
    assert_null(stepgate_model_slot_name(model, 1));
    must(stepgate_model_slot(model, W, "momentum", CROWD_MS, w, sizeof(w), &k));
    assert_in_range(k, least, STEPS);
    assert_memory_equal(w, p->slot[k], sizeof(w));
    must(stepgate_model_slot(model, DOUBLE, "momentum", CROWD_MS, wide, sizeof(wide), &k));
    for (int i = 0; i < 10; i++)
        assert_true(wide[i] == p->wide_slot[k]);
    must(stepgate_model_slot(model, HALF, "momentum", CROWD_MS, half, sizeof(half), &k));
    for (int i = 0; i < 33; i++)
        assert_float_equal(half[i], p->half_slot[k], 0);
    must(stepgate_model_slot(model, TABLE, "momentum", CROWD_MS, table, sizeof(table), &k));
    for (int i = 0; i < 200; i++)
        assert_float_equal(table[i], (i / 4 == 17 ? p->slot[k][i % 4] : 0), 0);
}

static void copies_are_those_of_plain_loops(void **state)
{
    static const char *const knobs[] = {"cut_bytes", "64KiB", "group_bytes", "32KiB", NULL};
    struct plain *p = plain_new();
    struct crowd c;

    (void)state;
    for (int servers = 1; servers <= 3; servers += 2) {
        crowd_serve(&c, 2, servers, knobs);
        crowd_join(&c, NULL, NULL);
        for (int r = 0; r < 2; r++)
            declare(&c.worker[r]);
        crowd_commit(&c);
        struct stepgate_job *job = crowd_observer(&c);
        struct stepgate_model *model = crowd_attach(job);
        for (uint64_t step = 0; step < STEPS; step++) {
            for (int r = 0; r < 2; r++)
                must(stepgate_step_begin(c.worker[r].model, CROWD_MS, NULL));
            check_values(step % 3 == 0 ? c.worker[1].model : model, p, step);
            check_averages(step % 3 == 1 ? c.worker[0].model : model, p, step);
            check_slots(step % 3 == 2 ? c.worker[0].model : model, p, step);
            for (int r = 0; r < 2; r++) {
                push_all(&c.worker[r], step);
                must(stepgate_step_finish(c.worker[r].model, 1));
            }
            check_slots(model, p, step); /* of this step or of the next one */
        }
        stepgate_job_delete(&job);
        crowd_leave(&c);
        crowd_end(&c);
    }
    free(p);
}

/* lines -- mappings of this process. */
static size_t lines(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    size_t count = 0;

    assert_non_null(maps);
    for (int c = fgetc(maps); c != EOF; c = fgetc(maps))
        count += c == '\n';
    fclose(maps);
    return count;
}

/* powers_of_half -- after k steps with a gradient of 1, momentum 0.5 and a rate of 1. */
static void powers_of_half(uint64_t k, float *value, float *slot)
{
    *value = *slot = 0;
    for (uint64_t i = 0; i < k; i++) {
        *slot = *slot * 0.5f + 1;
        *value -= *slot;
    }
}

static void copies_are_whole_while_training_runs(void **state)
{
    static const char *const keys[] = {"optimizer", "momentum", "momentum", "0.5", "replicas_to_aggregate",
                                       "2",         NULL};
    static const uint64_t two[] = {300000, 200001, 0};
    static float first[300000], second[200001];
    const int ids[] = {0, 1};
    void *const out[] = {first, second};
    struct crowd c;
    size_t before = 0;

    (void)state;
    crowd_serve(&c, 3, 2, NULL);
    crowd_join(&c, keys, two);
    crowd_start(&c, UINT64_MAX);
    struct stepgate_job *job = crowd_observer(&c);
    struct stepgate_model *model = crowd_attach(job);
    for (int i = 0; i < 60 / CROWD_SCALE; i++) {
        float value, slot;
        uint64_t k;
        must(stepgate_model_snapshot(model, STEPGATE_SNAPSHOT_PARAMETERS, ids, 2, out, CROWD_MS, &k));
        powers_of_half(k, &value, &slot);
        crowd_same(first, two[0], value);
        crowd_same(second, two[1], value);
        must(stepgate_model_slot(model, 1, "momentum", CROWD_MS, second, sizeof(second), &k));
        powers_of_half(k, &value, &slot);
        crowd_same(second, two[1], slot);
        if (i == 2)
            before = lines();
    }
    assert_in_range(lines(), 1, before + 8); /* a copy takes the place of the one before */
    stepgate_job_delete(&job);
    crowd_stop(&c);
}

static void a_snapshot_gives_way_to_the_next(void **state)
{
    static const uint64_t two[] = {30000, 9, 0};
    static float first[30000], second[9];
    void *const out[] = {first, second};
    struct crowd c;
    uint64_t k = 0;

    (void)state;
    crowd_serve(&c, 2, 2, NULL);
    crowd_join(&c, NULL, two);
    crowd_start(&c, UINT64_MAX);
    struct stepgate_job *job = crowd_observer(&c);
    struct stepgate_model *model = crowd_attach(job);
    for (int i = 0; i < 300 / CROWD_SCALE; i++) {
        const int ids[] = {i % 2, 1 - i % 2};
        int status = stepgate_model_snapshot(model, STEPGATE_SNAPSHOT_PARAMETERS, ids, 1, &out[i % 2], 0, &k);
        if (status != 0)
            assert_int_equal(status, -STEPGATE_EAGAIN);
        if (i % 5 == 0) { /* that one is given up */
            must(stepgate_model_snapshot(model, STEPGATE_SNAPSHOT_PARAMETERS, ids, 2,
                                         i % 2 == 0 ? out : (void *const[]){second, first}, CROWD_MS, &k));
            crowd_same(first, two[0], -(float)k);
            crowd_same(second, two[1], -(float)k);
        }
    }
    int status = -STEPGATE_EAGAIN; /* in one with others that are under way: repeated until it is done */
    for (int64_t until = cluster_now() + CROWD_MS; status == -STEPGATE_EAGAIN && cluster_now() < until;)
        status = stepgate_model_snapshot(model, STEPGATE_SNAPSHOT_PARAMETERS, (const int[]){0}, 1,
                                         (void *const[]){first}, 0, &k);
    must(status);
    crowd_same(first, two[0], -(float)k);
    /* and one whose reader goes meanwhile is nobody's concern */
    stepgate_model_snapshot(model, STEPGATE_SNAPSHOT_PARAMETERS, (const int[]){1}, 1, (void *const[]){second},
                            0, &k);
    stepgate_job_delete(&job);
    job = crowd_observer(&c);
    model = crowd_attach(job);
    must(stepgate_model_snapshot(model, STEPGATE_SNAPSHOT_PARAMETERS, (const int[]){1}, 1,
                                 (void *const[]){second}, CROWD_MS, &k));
    crowd_same(second, two[1], -(float)k);
    stepgate_job_delete(&job);
    crowd_stop(&c);
}

static void adams_powers_are_slots_of_the_model(void **state)
{
    static const char *const keys[] = {"optimizer", "adam", "beta1", "0.5", "beta2", "0.75", NULL};
    static const uint64_t one[] = {4, 0};
    struct crowd c;
    float power, slot[4];
    uint64_t k;

    (void)state;
    crowd_serve(&c, 1, 2, NULL);
    crowd_join(&c, keys, one);
    crowd_commit(&c);
    struct crowd_worker *w = &c.worker[0];
    for (uint64_t step = 0; step < 4; step++) {
        must(stepgate_step_begin(w->model, CROWD_MS, NULL));
        must(stepgate_model_slot(w->model, 0, "beta1_power", CROWD_MS, &power, sizeof(power), &k));
        assert_int_equal(k, step);
        assert_float_equal(power, powf(0.5f, (float)(step + 1)), 0);
        must(stepgate_model_slot(w->model, -1, "beta2_power", CROWD_MS, &power, sizeof(power), NULL));
        assert_float_equal(power, powf(0.75f, (float)(step + 1)), 0);
        must(stepgate_model_slot(w->model, 0, "first_moment", CROWD_MS, slot, sizeof(slot), &k));
        assert_int_equal(k, step);
        assert_float_equal(slot[3], 1 - powf(0.5f, (float)step), 0);
        must(crowd_ones(w));
        must(stepgate_step_finish(w->model, 1));
    }
    assert_string_equal(stepgate_model_slot_name(w->model, 0), "first_moment");
    assert_string_equal(stepgate_model_slot_name(w->model, 1), "second_moment");
    assert_null(stepgate_model_slot_name(w->model, 2));
    refused(STEPGATE_EINVAL, "beta1_power",
            stepgate_model_slot(w->model, 0, "beta1_power", CROWD_MS, slot, sizeof(slot), NULL));
    crowd_leave(&c);
    crowd_end(&c);
}

static void what_cannot_be_copied_is_refused(void **state)
{
    float out[WIDE];
    void *const to[] = {out}, *const nowhere[] = {NULL};
    struct crowd c;
    const int parameters = STEPGATE_SNAPSHOT_PARAMETERS, averages = STEPGATE_SNAPSHOT_AVERAGES;

    (void)state;
    crowd_serve(&c, 1, 1, NULL);
    crowd_join(&c, NULL, NULL);
    struct crowd_worker *w = &c.worker[0];
    declare(w);
    refused(STEPGATE_ESTATE, "commit",
            stepgate_model_snapshot(w->model, parameters, &(int){W}, 1, to, 0, NULL));
    crowd_commit(&c);
    refused(STEPGATE_EINVAL, "7", stepgate_model_snapshot(w->model, 7, &(int){W}, 1, to, 0, NULL));
    refused(STEPGATE_EINVAL, "8", stepgate_model_snapshot(w->model, parameters, &(int){8}, 1, to, 0, NULL));
    refused(STEPGATE_EINVAL, "-1", stepgate_model_snapshot(w->model, parameters, &(int){-1}, 1, to, 0, NULL));
    refused(STEPGATE_EINVAL, "", stepgate_model_snapshot(w->model, parameters, &(int){W}, 0, to, 0, NULL));
    refused(STEPGATE_EINVAL, "NULL",
            stepgate_model_snapshot(w->model, parameters, &(int){W}, 1, nowhere, 0, NULL));
    refused(STEPGATE_EINVAL, "own",
            stepgate_model_snapshot(w->model, parameters, &(int){OWN}, 1, to, 0, NULL));
    refused(STEPGATE_EINVAL, "raw", stepgate_model_snapshot(w->model, averages, &(int){RAW}, 1, to, 0, NULL));
    refused(STEPGATE_EINVAL, "stat",
            stepgate_model_snapshot(w->model, averages, &(int){STAT}, 1, to, 0, NULL));
    refused(STEPGATE_EINVAL, "frozen",
            stepgate_model_snapshot(w->model, averages, &(int){FROZEN}, 1, to, 0, NULL));
    refused(STEPGATE_EINVAL, "frozen", stepgate_model_slot(w->model, FROZEN, "momentum", 0, out, 20, NULL));
    refused(STEPGATE_EINVAL, "stat", stepgate_model_slot(w->model, STAT, "momentum", 0, out, 16, NULL));
    refused(STEPGATE_EINVAL, "24", stepgate_model_slot(w->model, RAW, "momentum", 0, out, 23, NULL));
    refused(STEPGATE_EINVAL, "8", stepgate_model_slot(w->model, 8, "momentum", 0, out, 24, NULL));
    refused(STEPGATE_ENOENT, "mean_square",
            stepgate_model_slot(w->model, RAW, "mean_square", 0, out, 24, NULL));
    refused(STEPGATE_ENOENT, "beta1_power",
            stepgate_model_slot(w->model, RAW, "beta1_power", 0, out, 4, NULL));
    crowd_leave(&c);
    crowd_end(&c);

    static const uint64_t one[] = {4, 0};
    crowd_serve(&c, 1, 1, NULL);
    crowd_join(&c, NULL, one);
    crowd_commit(&c);
    refused(STEPGATE_ENOENT, "averages",
            stepgate_model_snapshot(c.worker[0].model, averages, &(int){0}, 1, to, 0, NULL));
    assert_null(stepgate_model_slot_name(c.worker[0].model, 0));
    crowd_leave(&c);
    crowd_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_those_of_plain_loops),
        cmocka_unit_test(copies_are_whole_while_training_runs),
        cmocka_unit_test(a_snapshot_gives_way_to_the_next),
        cmocka_unit_test(adams_powers_are_slots_of_the_model),
        cmocka_unit_test(what_cannot_be_copied_is_refused),
    };

    return crowd_main(tests);
}
