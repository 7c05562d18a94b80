/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bits-worker -- a worker, or all of a job in one process, whose every bit is given: contributions follow from rank, step, number within the
 * step and the parameters that were pulled. Variables are of every kind and type.
 *
 *     bits-worker [--steps N] [--delay MS] [--weights] [--each] [--set KEY=VALUE]...   a worker
 *     bits-worker --single T [the same]                                               T workers' parts summed here, by plain loops
 *
 * --delay: rests at random, at most so long, before each push and each finish, and pushes in random order. --weights: contributions weigh
 * differently. Prints "bits_sha256 HEX": over the bytes of all variables but aux, in order of declaration, then their slots, then their
 * averages. --each: and that of each variable.
 */
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stepgate/stepgate.h"

enum {
    BITS_VARIABLES = 12,
    BITS_KEYS_MAX = 24,
    BITS_WORKERS_MAX = 16,
    BITS_EACH_MAX = 4,
    BITS_SLOTS = 2,
    BITS_BLOCK = 4096
};

struct bits_variable {
    const char *name;
    int kind, dtype, gradient, rank;
    uint64_t dims[2];
    const char *keys[4]; /* key, value, key, value */
};
static const struct bits_variable bits_variables[BITS_VARIABLES] = {
    {"dense", STEPGATE_TRAINED, STEPGATE_F32, STEPGATE_F32, 2, {300, 64}, {NULL}},
    {"half", STEPGATE_TRAINED, STEPGATE_F16, STEPGATE_F16, 2, {700, 10}, {NULL}},
    {"brain", STEPGATE_TRAINED, STEPGATE_BF16, STEPGATE_BF16, 2, {90, 40}, {NULL}},
    {"mixed",
     STEPGATE_TRAINED,
     STEPGATE_F32,
     STEPGATE_BF16,
     1,
     {9000},
     {"gradient_dtype", "bf16", "learning_rate_scale", "0.5"}},
    {"wide",
     STEPGATE_TRAINED,
     STEPGATE_F64,
     STEPGATE_F32,
     2,
     {33, 5},
     {"gradient_dtype", "f32", "decays", "no"}},
    {"frozen", STEPGATE_TRAINED, STEPGATE_F32, STEPGATE_F32, 1, {128}, {"frozen", "yes"}},
    {"table", STEPGATE_SPARSE, STEPGATE_F32, STEPGATE_F32, 2, {500, 24}, {"rows_max", "40"}},
    {"words",
     STEPGATE_SPARSE,
     STEPGATE_F16,
     STEPGATE_F16,
     2,
     {300, 9},
     {"rows_max", "30", "row_mean", "replicas"}},
    {"places",
     STEPGATE_SPARSE,
     STEPGATE_F64,
     STEPGATE_F32,
     2,
     {64, 3},
     {"rows_max", "64", "gradient_dtype", "f32"}},
    {"mean", STEPGATE_ASSIGNED, STEPGATE_F32, STEPGATE_F32, 1, {40}, {NULL}},
    {"first", STEPGATE_ASSIGNED, STEPGATE_F64, STEPGATE_F64, 1, {7}, {"assign", "rank0"}},
    {"own", STEPGATE_AUX, STEPGATE_F32, STEPGATE_F32, 1, {5}, {NULL}},
};

struct bits_flags {
    uint64_t steps;
    long delay;
    int weights, single, each;
    const char *keys[BITS_KEYS_MAX], *values[BITS_KEYS_MAX];
    int key_count;
};

/* A contribution as doubles that the gradient's type has. */
struct bits_part {
    int absent;
    uint64_t rows, *indices;
    double *values;
};

/* bits_elements -- of a variable. */
static uint64_t bits_elements(const struct bits_variable *v)
{
    return v->dims[0] * (v->rank > 1 ? v->dims[1] : 1);
}

/* bits_width -- elements of a row. */
static uint64_t bits_width(const struct bits_variable *v)
{
    return v->rank > 1 ? v->dims[1] : 1;
}

/* bits_bytes -- of an element. */
static size_t bits_bytes(int dtype)
{
    return dtype == STEPGATE_F64 ? 8 : dtype == STEPGATE_F32 ? 4 : 2;
}

/* bits_single -- rounded to f32. gcc 12 leaves out what (double)(float)value rounds where it makes vectors of it, but nothing that is volatile. */
static double bits_single(double value)
{
    volatile float single = (float)value;

    return (double)single;
}

/* bits_round -- a number as its type has it; of 16 bits by what is left of a significand. */
static double bits_round(int dtype, double value)
{
    int digits = dtype == STEPGATE_F16 ? 10 : 7, least = dtype == STEPGATE_F16 ? -14 : -126;

    if (dtype == STEPGATE_F64)
        return value;
    value = bits_single(value);
    if (dtype == STEPGATE_F32 || value == 0)
        return value;
    int exponent = ilogb(value) > least ? ilogb(value) : least;
    double unit = ldexp(1, exponent - digits);
    return rint(value / unit) * unit;
}

/* bits_encode -- the bits of a number that a 16-bit type has. */
static uint16_t bits_encode(int dtype, double value)
{
    int digits = dtype == STEPGATE_F16 ? 10 : 7, least = dtype == STEPGATE_F16 ? -14 : -126;
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    int exponent = value != 0 && ilogb(value) > least ? ilogb(value) : least;
    unsigned units = (unsigned)ldexp(fabs(value), digits - exponent); /* whole */
    unsigned field = units >> digits != 0 ? (unsigned)(exponent - least + 1) << digits : 0;

    return (uint16_t)(sign | field | (units & ((1U << digits) - 1)));
}

/* bits_put -- element i of an array of a type. */
static void bits_put(int dtype, void *array, uint64_t i, double value)
{
    float single = (float)value;
    uint16_t half;

    switch (dtype) {
    case STEPGATE_F64: memcpy((char *)array + 8 * i, &value, 8); break;
    case STEPGATE_F32: memcpy((char *)array + 4 * i, &single, 4); break;
    default: half = bits_encode(dtype, value); memcpy((char *)array + 2 * i, &half, 2);
    }
}

/* bits_get -- the same the other way. */
static double bits_get(int dtype, const void *array, uint64_t i)
{
    int digits = dtype == STEPGATE_F16 ? 10 : 7, least = dtype == STEPGATE_F16 ? -14 : -126;
    double value;
    float single;
    uint16_t half;

    if (dtype == STEPGATE_F64)
        return memcpy(&value, (const char *)array + 8 * i, 8), value;
    if (dtype == STEPGATE_F32)
        return memcpy(&single, (const char *)array + 4 * i, 4), (double)single;
    memcpy(&half, (const char *)array + 2 * i, 2);
    unsigned field = (half & 0x7fffU) >> digits, units = half & ((1U << digits) - 1);
    value = ldexp((double)(field != 0 ? units | 1U << digits : units),
                  least - digits + (field != 0 ? (int)field - 1 : 0));
    return half & 0x8000U ? -value : value;
}

/* bits_noise -- a number in [-1, 1) that follows from others. */
static double bits_noise(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t z = (a + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (b + 1) * UINT64_C(0xbf58476d1ce4e5b9) ^
                 (c + 1) * UINT64_C(0x94d049bb133111eb) ^ (d + 1) * UINT64_C(0xd6e8feb86659fd93);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

/* bits_initial -- of element i of variable v. */
static double bits_initial(int v, uint64_t i)
{
    return bits_round(bits_variables[v].dtype, 0.5 * bits_noise(99, 99, (uint64_t)v, i));
}

/* bits_weight -- of a contribution. */
static double bits_weight(const struct bits_flags *flags, int rank, uint64_t step, uint64_t number)
{
    return flags->weights ? 1 + 0.3 * (double)(((uint64_t)rank * 7 + step + number) % 4) : 1;
}

/* bits_rows -- which rows a contribution holds, rising. */
static void bits_rows(int v, int rank, uint64_t step, uint64_t number, struct bits_part *part)
{
    const struct bits_variable *variable = &bits_variables[v];
    uint64_t most = strtoull(variable->keys[1], NULL, 10);

    part->rows = 0;
    for (uint64_t row = 0; row < variable->dims[0] && part->rows < most; row++)
        if (bits_noise((uint64_t)rank * 8 + number, step, (uint64_t)v + 100, row) < -0.7)
            part->indices[part->rows++] = row;
}

/* bits_part -- what a worker contributes of a variable; now: its values as read, of a sparse one the rows of the part, in their order. */
static void bits_part(int v, int rank, uint64_t step, uint64_t number, const double *now,
                      struct bits_part *part)
{
    const struct bits_variable *variable = &bits_variables[v];
    uint64_t width = bits_width(variable), key = (uint64_t)rank * 8 + number;
    uint64_t n = variable->kind == STEPGATE_SPARSE ? part->rows * width : bits_elements(variable);

    part->absent = (step + (uint64_t)(rank + v) + number) % 7 == 3;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t element =
            variable->kind == STEPGATE_SPARSE ? part->indices[i / width] * width + i % width : i;
        part->values[i] =
            bits_round(variable->gradient, 0.3 * now[i] + bits_noise(key, step, (uint64_t)v, element));
    }
}

/* bits_trains -- has it a gradient, and so slots and an average? */
static int bits_trains(int v)
{
    return bits_variables[v].kind <= STEPGATE_SPARSE && strcmp(bits_variables[v].name, "frozen") != 0;
}

/* bits_type -- what a variable is computed in. */
static int bits_type(int v)
{
    return bits_variables[v].dtype == STEPGATE_F64 ? STEPGATE_F64 : STEPGATE_F32;
}

/* What a training ends with: values, then slots, then averages, NULL where there are none. */
struct bits_end {
    void *arrays[1 + BITS_SLOTS + 1][BITS_VARIABLES];
};

/* bits_size -- in bytes, of what is at that place of an end. */
static uint64_t bits_size(int what, int v)
{
    return bits_elements(&bits_variables[v]) * bits_bytes(what == 0 ? bits_variables[v].dtype : bits_type(v));
}

/* bits_sum -- prints a name and the SHA-256 of everything of the variables first .. end. */
static void bits_sum(const char *name, const struct bits_end *at, int first, int end)
{
    crypto_hash_sha256_state state;
    unsigned char hash[crypto_hash_sha256_BYTES];
    char text[2 * crypto_hash_sha256_BYTES + 1];

    crypto_hash_sha256_init(&state);
    for (int what = 0; what < 1 + BITS_SLOTS + 1; what++)
        for (int v = first; v < end; v++)
            if (bits_variables[v].kind != STEPGATE_AUX && at->arrays[what][v] != NULL)
                crypto_hash_sha256_update(&state, at->arrays[what][v], bits_size(what, v));
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(text, sizeof(text), hash, sizeof(hash));
    printf("%s %s\n", name, text);
}

/* bits_digest -- prints it. */
static void bits_digest(const struct bits_flags *flags, const struct bits_end *end)
{
    for (int v = 0; flags->each && v < BITS_VARIABLES; v++)
        bits_sum(bits_variables[v].name, end, v, v + 1);
    bits_sum("bits_sha256", end, 0, BITS_VARIABLES);
    fflush(stdout);
}

/* bits_key -- the value of a key that was set; NULL: it was not. */
static const char *bits_key(const struct bits_flags *flags, const char *key)
{
    for (int k = flags->key_count; k-- > 0;)
        if (strcmp(flags->keys[k], key) == 0)
            return flags->values[k];
    return NULL;
}

/* bits_room -- zeroed memory, or the end. */
static void *bits_room(uint64_t bytes)
{
    void *room = calloc(1, bytes);

    if (room == NULL) {
        fprintf(stderr, "bits-worker: no memory\n");
        exit(1);
    }
    return room;
}

/* bits_part_room -- for the contribution to a variable. */
static void bits_part_room(int v, struct bits_part *part)
{
    part->values = bits_room(bits_elements(&bits_variables[v]) * sizeof(double));
    part->indices = bits_room(bits_variables[v].dims[0] * sizeof(uint64_t));
}

/* ---- the worker ---- */

struct bits_worker {
    const struct bits_flags *flags;
    struct stepgate_job *job;
    struct stepgate_model *model;
    int rank;
    struct bits_part part;
    double *now; /* of one variable */
    void *bytes; /* the same, or rows that are pushed, in their type */
    struct bits_end end;
    unsigned seed;
};

/* worker_rest -- a random time. */
static void worker_rest(struct bits_worker *w)
{
    if (w->flags->delay > 0) {
        long us = (long)rand_r(&w->seed) % (w->flags->delay * 1000);
        const struct timespec time = {us / 1000000, us % 1000000 * 1000};
        nanosleep(&time, NULL);
    }
}

/* worker_declare -- the model. */
static int worker_declare(struct bits_worker *w)
{
    int rc = stepgate_model_new(w->job, "bits", &w->model);

    for (int k = 0; rc >= 0 && k < w->flags->key_count; k++)
        rc = stepgate_model_set(w->model, w->flags->keys[k], w->flags->values[k]);
    for (int v = 0; rc >= 0 && v < BITS_VARIABLES; v++) {
        const struct bits_variable *x = &bits_variables[v];
        uint64_t n = bits_elements(x);
        int id;
        rc = stepgate_model_variable(w->model, x->name, x->kind, x->dtype, x->rank, x->dims, &id);
        for (int k = 0; rc >= 0 && k < 4 && x->keys[k] != NULL; k += 2)
            rc = stepgate_model_variable_set(w->model, id, x->keys[k], x->keys[k + 1]);
        for (uint64_t i = 0; i < n; i++)
            bits_put(x->dtype, w->bytes, i, bits_initial(v, i));
        if (rc >= 0)
            rc = stepgate_model_initialize(w->model, id, w->bytes, n * bits_bytes(x->dtype));
    }
    return rc < 0 ? rc : stepgate_model_commit(w->model, -1, NULL);
}

/* worker_rows -- pulls the rows that it contributes to, and pushes their gradient. */
static int worker_rows(struct bits_worker *w, int v, uint64_t step, uint64_t number)
{
    const struct bits_variable *x = &bits_variables[v];
    uint64_t width = bits_width(x);

    bits_rows(v, w->rank, step, number, &w->part);
    int rc = stepgate_step_pull_rows(w->model, v, w->part.indices, w->part.rows, w->bytes, -1, NULL);
    for (uint64_t i = 0; i < w->part.rows * width; i++)
        w->now[i] = bits_get(x->dtype, w->bytes, i);
    bits_part(v, w->rank, step, number, w->now, &w->part);
    for (uint64_t i = 0; i < w->part.rows * width; i++)
        bits_put(x->gradient, w->bytes, i, w->part.values[i]);
    if (rc < 0)
        return rc;
    worker_rest(w);
    return w->part.absent ? stepgate_step_absent(w->model, v)
                          : stepgate_step_push_rows(w->model, v, w->part.indices, w->part.rows, w->bytes);
}

/* worker_push -- one variable's part of the contribution. */
static int worker_push(struct bits_worker *w, int v, uint64_t step, uint64_t number)
{
    const struct bits_variable *x = &bits_variables[v];
    const void *value;
    void *gradient;
    int rc;

    if (x->kind == STEPGATE_SPARSE)
        return worker_rows(w, v, step, number);
    if ((rc = stepgate_step_pull(w->model, v, -1, NULL)) < 0 ||
        (rc = stepgate_buffer_parameter(w->model, v, &value)) < 0)
        return rc;
    for (uint64_t i = 0; i < bits_elements(x); i++)
        w->now[i] = bits_get(x->dtype, value, i);
    bits_part(v, w->rank, step, number, w->now, &w->part);
    worker_rest(w);
    if (w->part.absent)
        return stepgate_step_absent(w->model, v);
    if ((rc = stepgate_buffer_gradient(w->model, v, &gradient)) < 0)
        return rc;
    for (uint64_t i = 0; i < bits_elements(x); i++)
        bits_put(x->gradient, gradient, i, w->part.values[i]);
    return stepgate_step_push(w->model, v);
}

/* worker_values -- those of the last step. */
static int worker_values(struct bits_worker *w)
{
    const void *value;
    int rc = 0;

    for (int v = 0; rc >= 0 && v < BITS_VARIABLES; v++) {
        if ((rc = stepgate_step_pull(w->model, v, -1, NULL)) < 0 ||
            (rc = stepgate_buffer_parameter(w->model, v, &value)) < 0)
            break;
        memcpy(w->end.arrays[0][v], value, bits_size(0, v));
    }
    return rc;
}

/* worker_state -- slots and averages, of the last step, too. */
static int worker_state(struct bits_worker *w)
{
    const char *name;
    uint64_t step = w->flags->steps;
    int rc = 0;

    for (int v = 0; rc >= 0 && v < BITS_VARIABLES; v++) {
        for (unsigned i = 0;
             rc >= 0 && bits_trains(v) && (name = stepgate_model_slot_name(w->model, i)) != NULL; i++) {
            w->end.arrays[1 + i][v] = bits_room(bits_size(1, v));
            rc = stepgate_model_slot(w->model, v, name, -1, w->end.arrays[1 + i][v], bits_size(1, v), &step);
        }
        if (rc < 0 || !bits_trains(v) || bits_key(w->flags, "average_decay") == NULL)
            continue;
        w->end.arrays[1 + BITS_SLOTS][v] = bits_room(bits_size(1, v));
        rc = stepgate_model_snapshot(w->model, STEPGATE_SNAPSHOT_AVERAGES, &v, 1,
                                     &w->end.arrays[1 + BITS_SLOTS][v], -1, &step);
    }
    if (rc >= 0 && step != w->flags->steps)
        fprintf(stderr, "bits-worker: slots of step %llu\n", (unsigned long long)step);
    return rc;
}

/* worker_end -- what it ends with, and good-bye when everybody has it. */
static int worker_end(struct bits_worker *w)
{
    int rc = worker_values(w);

    if (rc >= 0)
        rc = worker_state(w);
    if (rc < 0 || (rc = stepgate_job_barrier(w->job, -1)) < 0)
        return rc;
    bits_digest(w->flags, &w->end);
    return stepgate_job_leave(w->job, -1);
}

/* worker_train -- all steps. */
static int worker_train(struct bits_worker *w)
{
    struct stepgate_step_info info = {.size = sizeof(info)};
    uint64_t last = UINT64_MAX, number = 0;
    int rc = worker_declare(w);

    while (rc >= 0) {
        if ((rc = stepgate_step_begin(w->model, -1, &info)) < 0)
            return rc;
        if (info.step >= w->flags->steps)
            return worker_end(w);
        number = info.step == last ? number + 1 : 0;
        last = info.step;
        int first = w->flags->delay > 0 ? rand_r(&w->seed) % BITS_VARIABLES : 0;
        for (int i = 0; rc >= 0 && i < BITS_VARIABLES; i++)
            rc = worker_push(w, (first + i) % BITS_VARIABLES, info.step, number);
        worker_rest(w);
        if (rc >= 0)
            rc = stepgate_step_finish(w->model, bits_weight(w->flags, w->rank, info.step, number));
    }
    return rc;
}

/* worker_run -- joins, trains. */
static int worker_run(const struct bits_flags *flags)
{
    struct bits_worker w = {.flags = flags, .seed = (unsigned)getpid() ^ (unsigned)time(NULL)};
    struct stepgate_options *options = NULL;
    uint64_t most = 0;
    int rc;

    for (int v = 0; v < BITS_VARIABLES; v++) {
        uint64_t n = bits_elements(&bits_variables[v]);
        most = n > most ? n : most;
        w.end.arrays[0][v] = bits_room(n * sizeof(double));
    }
    w.now = bits_room(most * sizeof(double));
    w.bytes = bits_room(most * sizeof(double));
    w.part.values = bits_room(most * sizeof(double));
    w.part.indices = bits_room(most * sizeof(uint64_t));
    if ((rc = stepgate_options_new(&options)) == 0 && (rc = stepgate_options_from_env(options)) == 0 &&
        (rc = stepgate_job_join(options, -1, &w.job)) == 0) {
        w.rank = stepgate_job_rank(w.job);
        rc = worker_train(&w);
    }
    if (rc < 0) {
        struct stepgate_error error = {.size = sizeof(error)};
        stepgate_error_last(&error);
        fprintf(stderr, "bits-worker: %s\n", error.text);
    }
    stepgate_job_delete(&w.job);
    stepgate_options_delete(&options);
    for (int v = 0; v < BITS_VARIABLES; v++)
        for (int what = 0; what < 1 + BITS_SLOTS + 1; what++)
            free(w.end.arrays[what][v]);
    free(w.now);
    free(w.bytes);
    free(w.part.values);
    free(w.part.indices);
    return rc < 0;
}

/* ---- all of it in one process ---- */

struct single_variable {
    double *now, *exact; /* as published; before it is rounded to 16 bits */
    double *first, *second, *average, *mean,
        *divisor; /* slots; the mean, and what it was divided by: 0: nothing came */
};

struct single {
    const struct bits_flags *flags;
    int workers, replicas, optimizer;
    double rate, average_decay, momentum, l2, clip_value, clip_norm, clip_global_norm;
    float power1, power2;
    double wide_power1, wide_power2; /* of f64 variables */
    int count;                       /* contributions of a step, by (rank, number) */
    int ranks[BITS_WORKERS_MAX * BITS_EACH_MAX];
    double weights[BITS_WORKERS_MAX * BITS_EACH_MAX], factors[BITS_WORKERS_MAX * BITS_EACH_MAX];
    struct bits_part parts[BITS_WORKERS_MAX * BITS_EACH_MAX][BITS_VARIABLES];
    struct single_variable variables[BITS_VARIABLES];
};

/* single_squares -- of at most a block, in eight partial sums. */
static double single_squares(const double *values, uint64_t n)
{
    double p[8] = {0};

    for (uint64_t i = 0; i < n; i++)
        p[i % 8] += values[i] * values[i];
    return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
}

/* A sum without rounding: parts that do not overlap, each far smaller than the next (Shewchuk). */
struct single_exact {
    double parts[64];
    int count;
};

/* single_add -- adds x. */
static void single_add(struct single_exact *sum, double x)
{
    int kept = 0;

    for (int i = 0; i < sum->count; i++) {
        double y = sum->parts[i], larger = fabs(x) < fabs(y) ? y : x, smaller = fabs(x) < fabs(y) ? x : y;
        double high = larger + smaller, low = smaller - (high - larger);
        if (low != 0)
            sum->parts[kept++] = low;
        x = high;
    }
    sum->parts[kept++] = x;
    sum->count = kept;
}

/* single_total -- rounded once. All parts are positive sums of squares, yet a part may be negative. */
static double single_total(const struct single_exact *sum)
{
    int i = sum->count - 1;
    double high = i >= 0 ? sum->parts[i] : 0, low = 0;

    while (i > 0 && low == 0) {
        double y = sum->parts[--i], x = high;
        high = x + y;
        low = y - (high - x);
    }
    if (i > 0 && ((low < 0 && sum->parts[i - 1] < 0) || (low > 0 && sum->parts[i - 1] > 0))) {
        double twice = low * 2, x = high + twice; /* a tie that the rest decides */
        if (twice == x - high)
            high = x;
    }
    return high;
}

/* single_norm -- the squares of a contribution, as its worker sums them. */
static double single_norm(const struct bits_part parts[BITS_VARIABLES])
{
    double norm = 0;

    for (int v = 0; v < BITS_VARIABLES; v++) {
        const struct bits_variable *x = &bits_variables[v];
        uint64_t sparse = x->kind == STEPGATE_SPARSE, unit = sparse ? bits_width(x) : BITS_BLOCK;
        uint64_t n = sparse ? parts[v].rows * unit : bits_elements(x);
        double own = 0;
        for (uint64_t i = 0; bits_trains(v) && !parts[v].absent && i < n; i += unit)
            own += single_squares(parts[v].values + i, n - i < unit ? n - i : unit);
        norm += own;
    }
    return norm;
}

/* single_contribute -- what everybody contributes to a step. */
static void single_contribute(struct single *s, uint64_t step)
{
    s->count = 0;
    for (int rank = 0; rank < s->workers; rank++) {
        int quota = s->replicas / s->workers + (rank < s->replicas % s->workers);
        for (int number = 0; number < quota; number++) {
            struct bits_part *parts = s->parts[s->count];
            double weight = bits_weight(s->flags, rank, step, (uint64_t)number), norm;
            for (int v = 0; v < BITS_VARIABLES; v++) {
                uint64_t width = bits_width(&bits_variables[v]);
                double *now = s->variables[v].now;
                if (bits_variables[v].kind == STEPGATE_SPARSE) {
                    bits_rows(v, rank, step, (uint64_t)number, &parts[v]);
                    now = bits_room((parts[v].rows * width + 1) * sizeof(double));
                    for (uint64_t i = 0; i < parts[v].rows * width; i++)
                        now[i] = s->variables[v].now[parts[v].indices[i / width] * width + i % width];
                }
                bits_part(v, rank, step, (uint64_t)number, now, &parts[v]);
                if (now != s->variables[v].now)
                    free(now);
            }
            norm = s->clip_norm > 0 ? sqrt(single_norm(parts)) : 0;
            s->ranks[s->count] = rank;
            s->weights[s->count] = weight;
            s->factors[s->count++] = weight * (norm > s->clip_norm ? s->clip_norm / norm : 1);
        }
    }
}

/* single_sum -- one element's part is added; divisor 0: it is the first one. */
static void single_sum(struct single_variable *x, int type, uint64_t i, double factor, double value,
                       double weight)
{
    double part = bits_round(type, bits_round(type, factor) * value);

    x->mean[i] = x->divisor[i] == 0 ? part : bits_round(type, x->mean[i] + part);
    x->divisor[i] += weight;
}

/* single_sum_all -- one contribution's part of a variable. */
static void single_sum_all(struct single *s, int v, int c)
{
    const struct bits_variable *variable = &bits_variables[v];
    const struct bits_part *part = &s->parts[c][v];
    struct single_variable *x = &s->variables[v];
    int assigned = variable->kind == STEPGATE_ASSIGNED, first = strcmp(variable->name, "first") == 0;
    double factor = assigned ? s->weights[c] : s->factors[c], weight = s->weights[c];
    uint64_t n = bits_elements(variable), width = bits_width(variable);

    if (first && s->ranks[c] == 0 && !part->absent) { /* the last value of worker 0 */
        memset(x->divisor, 0, n * sizeof(double));
        factor = weight = 1;
    }
    if (part->absent ? variable->kind != STEPGATE_TRAINED : first && s->ranks[c] != 0)
        return;
    if (variable->kind == STEPGATE_SPARSE)
        for (uint64_t i = 0; i < part->rows * width; i++)
            single_sum(x, bits_type(v), part->indices[i / width] * width + i % width, factor, part->values[i],
                       weight);
    else
        for (uint64_t i = 0; i < n; i++)
            single_sum(x, bits_type(v), i, factor, part->absent ? 0 : part->values[i], weight);
}

/* single_mean -- of a variable. */
static void single_mean(struct single *s, int v)
{
    struct single_variable *x = &s->variables[v];
    uint64_t n = bits_elements(&bits_variables[v]);
    double all = 0;

    memset(x->divisor, 0, n * sizeof(double));
    for (int c = 0; c < s->count; c++) {
        single_sum_all(s, v, c);
        all += s->weights[c];
    }
    for (uint64_t i = 0; i < n; i++) {
        double by = strcmp(bits_variables[v].name, "words") == 0 ? all : x->divisor[i];
        if (x->divisor[i] != 0)
            x->mean[i] = bits_round(bits_type(v), x->mean[i] / bits_round(bits_type(v), by));
    }
}

/* single_scale -- by the norm of the mean. */
static double single_scale(const struct single *s)
{
    struct single_exact sum = {.count = 0};

    if (s->clip_global_norm == 0)
        return 1;
    for (int v = 0; v < BITS_VARIABLES; v++) {
        const struct bits_variable *x = &bits_variables[v];
        uint64_t unit = x->kind == STEPGATE_SPARSE ? bits_width(x) : BITS_BLOCK, n = bits_elements(x);
        for (uint64_t i = 0; bits_trains(v) && i < n; i += unit)
            if (s->variables[v].divisor[i] != 0)
                single_add(&sum, single_squares(s->variables[v].mean + i, n - i < unit ? n - i : unit));
    }
    double norm = sqrt(single_total(&sum));
    return norm > s->clip_global_norm ? s->clip_global_norm / norm : 1;
}

/* single_alpha -- adam's rate, in the type of the variable. */
static double single_alpha(const struct single *s, int type)
{
    double rate = bits_round(type, s->rate);
    double first = type == STEPGATE_F64 ? s->wide_power1 : (double)s->power1,
           second = type == STEPGATE_F64 ? s->wide_power2 : (double)s->power2;

    double root = bits_round(type, sqrt(bits_round(type, 1 - second)));
    return bits_round(type, bits_round(type, rate * root) / bits_round(type, 1 - first));
}

/* single_element -- the optimizer on one element with gradient g. */
static double single_element(const struct single *s, int v, uint64_t i, double g)
{
    int type = bits_type(v), scaled = strcmp(bits_variables[v].name, "mixed") == 0;
    double rate = bits_round(type, s->rate) * (scaled ? 0.5 : 1),
           alpha = single_alpha(s, type) * (scaled ? 0.5 : 1);
    double m = bits_round(type, s->momentum), *a = &s->variables[v].first[i], *b = &s->variables[v].second[i];
    double var = s->variables[v].exact[i];
#define R(value) bits_round(type, (value))
    switch (s->optimizer) {
    case 's': return R(var - R(rate * g));
    case 'm': *a = R(R(m * *a) + g); return R(var - R(rate * *a));
    case 'r':
        *a = R(*a + R(R(R(g * g) - *a) * R(1 - R(0.9))));
        *b = R(R(m * *b) + R(R(rate * g) / R(sqrt(R(*a + R(1e-10))))));
        return R(var - *b);
    default:
        *a = R(*a + R(R(g - *a) * R(1 - R(0.9))));
        *b = R(*b + R(R(R(g * g) - *b) * R(1 - R(0.999))));
        return R(var - R(R(*a * alpha) / R(R(sqrt(*b)) + R(1e-8))));
    }
#undef R
}

/* single_apply -- one step of a variable. */
static void single_apply(const struct single *s, int v, double scale)
{
    const struct single_variable *x = &s->variables[v];
    int type = bits_type(v), decays = strcmp(bits_variables[v].name, "wide") != 0;
    double clip = bits_round(type, s->clip_value), l2 = bits_round(type, s->l2);

    scale = bits_round(type, scale);
    for (uint64_t i = 0; i < bits_elements(&bits_variables[v]); i++) {
        double g = x->mean[i];
        if (x->divisor[i] == 0)
            continue;
        if (bits_variables[v].kind == STEPGATE_ASSIGNED) {
            x->now[i] = bits_round(bits_variables[v].dtype, g);
            continue;
        }
        if (scale != 1)
            g = bits_round(type, scale * g);
        if (clip != 0)
            g = g > clip ? clip : g < -clip ? -clip : g;
        if (l2 != 0 && decays)
            g = bits_round(type, g + bits_round(type, l2 * x->exact[i]));
        x->exact[i] = single_element(s, v, i, g);
        x->now[i] = bits_round(bits_variables[v].dtype, x->exact[i]);
        double change = bits_round(type, x->average[i] - x->exact[i]);
        x->average[i] = bits_round(
            type, x->average[i] - bits_round(type, bits_round(type, 1 - s->average_decay) * change));
    }
}

/* single_step -- everybody's contributions make the next step. */
static void single_step(struct single *s, uint64_t step)
{
    single_contribute(s, step);
    for (int v = 0; v < BITS_VARIABLES; v++)
        if (bits_trains(v) || bits_variables[v].kind == STEPGATE_ASSIGNED)
            single_mean(s, v);
    double scale = single_scale(s);
    for (int v = 0; v < BITS_VARIABLES; v++)
        if (bits_trains(v) || bits_variables[v].kind == STEPGATE_ASSIGNED)
            single_apply(s, v, scale);
    s->power1 *= 0.9F;
    s->power2 *= 0.999F;
    s->wide_power1 *= 0.9;
    s->wide_power2 *= 0.999;
}

/* single_keys -- the keys that are known here; returns 0, or 1 after a word about the one that is not. */
static int single_keys(struct single *s)
{
    const struct {
        const char *name;
        double *value;
    } numbers[] = {{"learning_rate", &s->rate},
                   {"average_decay", &s->average_decay},
                   {"momentum", &s->momentum},
                   {"l2_decay", &s->l2},
                   {"clip_value", &s->clip_value},
                   {"clip_norm", &s->clip_norm},
                   {"clip_global_norm", &s->clip_global_norm}};

    for (int k = 0; k < s->flags->key_count; k++) {
        const char *key = s->flags->keys[k], *value = s->flags->values[k];
        size_t n = 0;
        while (n < sizeof(numbers) / sizeof(numbers[0]) && strcmp(key, numbers[n].name) != 0)
            n++;
        if (n < sizeof(numbers) / sizeof(numbers[0]))
            *numbers[n].value = strtod(value, NULL);
        else if (strcmp(key, "replicas_to_aggregate") == 0)
            s->replicas = atoi(value);
        else if (strcmp(key, "optimizer") == 0)
            s->optimizer = value[0];
        else
            return fprintf(stderr, "bits-worker: --single does not know %s\n", key), 1;
    }
    if (s->replicas < s->workers || s->replicas > s->workers * BITS_EACH_MAX ||
        strchr("smra", s->optimizer) == NULL)
        return fprintf(stderr, "bits-worker: --single does not know how\n"), 1;
    return 0;
}

/* single_end -- what there is at the end, as bytes. */
static void single_end(const struct single *s, struct bits_end *end)
{
    int slots = s->optimizer == 's' ? 0 : s->optimizer == 'm' ? 1 : 2;

    for (int v = 0; v < BITS_VARIABLES; v++) {
        const struct single_variable *x = &s->variables[v];
        const double *arrays[1 + BITS_SLOTS + 1] = {x->now, slots > 0 ? x->first : NULL,
                                                    slots > 1 ? x->second : NULL,
                                                    s->average_decay > 0 ? x->average : NULL};
        for (int what = 0; what < 1 + BITS_SLOTS + 1; what++) {
            if (arrays[what] == NULL || (what > 0 && !bits_trains(v)))
                continue;
            end->arrays[what][v] = bits_room(bits_size(what, v));
            for (uint64_t i = 0; i < bits_elements(&bits_variables[v]); i++)
                bits_put(what == 0 ? bits_variables[v].dtype : bits_type(v), end->arrays[what][v], i,
                         arrays[what][i]);
        }
    }
}

/* single_run -- trains, and prints the digest. */
static int single_run(const struct bits_flags *flags)
{
    static struct single *s; /* what is taken here ends with the process */
    static struct bits_end end;

    s = bits_room(sizeof(*s));
    *s = (struct single){.flags = flags,
                         .workers = flags->single,
                         .replicas = flags->single,
                         .optimizer = 's',
                         .rate = 0.01,
                         .power1 = 0.9F,
                         .wide_power1 = 0.9,
                         .wide_power2 = 0.999,
                         .power2 = 0.999F};
    for (int k = 0; k < flags->key_count; k++) /* what holds without the key */
        if (strcmp(flags->keys[k], "optimizer") == 0 && strcmp(flags->values[k], "momentum") == 0)
            s->momentum = 0.9;
    if (single_keys(s) != 0)
        return 2;
    for (int v = 0; v < BITS_VARIABLES; v++) {
        struct single_variable *x = &s->variables[v];
        uint64_t n = bits_elements(&bits_variables[v]);
        double **all[] = {&x->now, &x->exact, &x->first, &x->second, &x->average, &x->mean, &x->divisor};
        for (size_t a = 0; a < sizeof(all) / sizeof(all[0]); a++)
            *all[a] = bits_room(n * sizeof(double));
        for (uint64_t i = 0; i < n; i++) {
            x->now[i] = x->exact[i] = x->average[i] = bits_initial(v, i);
            x->first[i] = s->optimizer == 'r';
        }
        for (int c = 0; c < s->replicas; c++)
            bits_part_room(v, &s->parts[c][v]);
    }
    for (uint64_t step = 0; step < flags->steps; step++)
        single_step(s, step);
    single_end(s, &end);
    bits_digest(flags, &end);
    return 0;
}

/* bits_flags -- returns 0, or 2 for what it does not know. */
static int bits_flags(int argc, char **argv, struct bits_flags *flags)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int *flag = strcmp(argv[i], "--weights") == 0 ? &flags->weights
                    : strcmp(argv[i], "--each") == 0  ? &flags->each
                                                      : NULL;
        if (flag != NULL) {
            *flag = 1;
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--steps") == 0) {
            flags->steps = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i - 1], "--delay") == 0) {
            flags->delay = strtol(value, NULL, 10);
        } else if (strcmp(argv[i - 1], "--single") == 0) {
            flags->single = atoi(value);
        } else if (strcmp(argv[i - 1], "--set") == 0 && strchr(value, '=') != NULL &&
                   flags->key_count < BITS_KEYS_MAX) {
            char *equals = strchr(argv[i], '=');
            *equals = 0;
            flags->keys[flags->key_count] = argv[i];
            flags->values[flags->key_count++] = equals + 1;
        } else {
            return fprintf(stderr, "bits-worker: %s %s is not known\n", argv[i - 1], value), 2;
        }
    }
    return flags->single < 0 || flags->single > BITS_WORKERS_MAX ? 2 : 0;
}

int main(int argc, char **argv)
{
    struct bits_flags flags = {.steps = 10};
    int status = bits_flags(argc, argv, &flags);

    if (status == 0)
        status = flags.single > 0 ? single_run(&flags) : worker_run(&flags);
    return status;
}
