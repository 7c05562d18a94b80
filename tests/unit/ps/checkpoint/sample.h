/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sample -- a small checkpoint with arrays of every type and group, of which the variable w is cut over all shards. Element i of any array is
 * ((7 i + length of the array's name + step) mod 101 - 50) / 4, which every type holds exactly.
 */
#ifndef TESTS_UNIT_PS_CHECKPOINT_SAMPLE_H
#define TESTS_UNIT_PS_CHECKPOINT_SAMPLE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/checkpoint/checkpoint.h"
#include "ps/optimizer/number.h"

#define SAMPLE_WORKERS 2u
#define SAMPLE_ARRAYS 9
#define SAMPLE_CUT_ROWS 10u /* rows of what is cut */
#define SAMPLE_NUMBER UINT64_C(0x8000000000000001)

/* The arrays in whole. */
struct sample_array {
    char name[NAME_TENSOR_BYTES];
    int dtype, rank;
    uint64_t dims[STEPGATE_RANK_MAX], elements;
};

/* sample_value -- of an element. */
static inline double sample_value(const char *name, uint64_t step, uint64_t i)
{
    return ((double)((7 * i + strlen(name) + step) % 101) - 50) / 4;
}

/* sample_fill -- elements first .. first + n of an array, in its type. */
static inline void sample_fill(const struct sample_array *a, uint64_t step, uint64_t first, uint64_t n,
                               void *out)
{
    for (uint64_t i = 0; i < n; i++) {
        double wide = sample_value(a->name, step, first + i);
        float narrow = (float)wide;
        char *to = (char *)out + i * model_dtype_bytes(a->dtype);
        if (a->dtype == STEPGATE_F64)
            memcpy(to, &wide, sizeof(wide));
        else
            number_narrow_f32(a->dtype, &narrow, to, 1);
    }
}

/* sample_model -- what it is of; NULL: it could not be made. */
static inline struct model *sample_model(const char *name)
{
    static const uint64_t matrix[] = {SAMPLE_CUT_ROWS, 4}, seven[] = {7}, table[] = {9, 2};
    struct model *m = NULL;

    if (model_new(name, &m) != 0)
        return NULL;
    if (model_add(m, "dense/w", STEPGATE_TRAINED, STEPGATE_F32, 2, matrix) < 0 ||
        model_add(m, "half", STEPGATE_TRAINED, STEPGATE_F16, 1, seven) < 0 ||
        model_add(m, "brain", STEPGATE_TRAINED, STEPGATE_BF16, 1, seven) < 0 ||
        model_add(m, "table", STEPGATE_SPARSE, STEPGATE_F64, 2, table) < 0 ||
        model_variable_set(m, 3, "rows_max", "5") != 0 ||
        model_add(m, "odd#1 100%", STEPGATE_ASSIGNED, STEPGATE_F32, 0, NULL) < 0 ||
        model_add(m, "own", STEPGATE_AUX, STEPGATE_F32, 1, seven) < 0 ||
        model_set(m, "optimizer", "momentum") != 0 || model_set(m, "momentum", "0.9") != 0 ||
        model_set(m, "learning_rate", "0.5") != 0 || model_check_keys(m) != 0)
        model_delete(&m);
    return m;
}

/* sample_array -- one of them. */
static inline struct sample_array sample_array(int number)
{
    struct sample_array a = {.dtype = STEPGATE_F32, .rank = 1, .dims = {7}, .elements = 7};
    const struct sample_array matrix = {
        .dtype = STEPGATE_F32, .rank = 2, .dims = {SAMPLE_CUT_ROWS, 4}, .elements = 40};

    if (number == 1 || number == 2)
        a = matrix;
    switch (number) {
    case 0: name_parameters("odd#1 100%", a.name), a.rank = 0, a.dims[0] = 0, a.elements = 1; break;
    case 1: name_parameters("dense/w", a.name); break;
    case 2: name_slots("momentum", "dense/w", a.name); break;
    case 3: name_parameters("half", a.name), a.dtype = STEPGATE_F16; break;
    case 4: name_masters("half", a.name); break;
    case 5: name_parameters("brain", a.name), a.dtype = STEPGATE_BF16; break;
    case 6:
        name_parameters("table", a.name), a.dtype = STEPGATE_F64, a.rank = 2, a.dims[0] = 9, a.dims[1] = 2,
                                          a.elements = 18;
        break;
    case 7: name_aux(0, "own", a.name); break;
    default: name_aux(1, "own", a.name); break;
    }
    return a;
}

/* sample_entry -- what a shard holds of an array; its data is malloc'ed, NULL: nothing. */
static inline struct tensors_entry sample_entry(int number, uint64_t step, uint32_t shard, uint32_t shards)
{
    struct sample_array a = sample_array(number);
    struct tensors_entry e = {.dtype = a.dtype, .rank = a.rank};
    bool cut = shards > 1 && (number == 1 || number == 2);
    uint64_t first = 0, n = a.elements;

    memcpy(e.dims, a.dims, sizeof(e.dims));
    memcpy(e.name, a.name, sizeof(e.name));
    if (cut) {
        uint64_t row = SAMPLE_CUT_ROWS * shard / shards, end = SAMPLE_CUT_ROWS * (shard + 1) / shards;
        name_piece(a.name, row, e.name);
        e.dims[0] = end - row;
        first = row * 4;
        n = (end - row) * 4;
    } else if ((uint32_t)number % shards != shard) {
        return e;
    }
    e.bytes = n * model_dtype_bytes(a.dtype);
    char *data = malloc((size_t)e.bytes + 1);
    if (data != NULL)
        sample_fill(&a, step, first, n, data);
    e.data = data;
    return e;
}

/* sample_shard -- the file of one shard. */
static inline int sample_shard(const char *folder, const char *name, uint64_t step, uint32_t shard,
                               uint32_t shards, struct manifest_file *file)
{
    struct tensors_entry entries[SAMPLE_ARRAYS];
    size_t used = 0;

    for (int i = 0; i < SAMPLE_ARRAYS; i++) {
        entries[used] = sample_entry(i, step, shard, shards);
        used += entries[used].data != NULL;
    }
    int status = checkpoint_write_shard(folder, name, step, shard, shards, entries, used, file);
    for (size_t i = 0; i < used; i++)
        free((void *)(uintptr_t)entries[i].data);
    return status;
}

/* sample_describe -- the manifest, without the files. */
static inline int sample_describe(struct manifest *m, const char *name, uint64_t step, uint32_t shards)
{
    static const uint32_t ranks[] = {0, 1};
    struct model *model = sample_model(name);

    if (model == NULL || manifest_describe(m, model) != 0)
        return -1;
    model_delete(&model);
    m->step = step;
    m->shards = shards;
    m->workers = SAMPLE_WORKERS;
    m->written = 1700000000;
    return manifest_add_key(m, "learning_rate", "0.25") == 0 &&
                   manifest_add_change(m, step + 10, "learning_rate", "0.125") == 0 &&
                   manifest_add_number(m, MANIFEST_NO_RANK, "beta1_power", SAMPLE_NUMBER) == 0 &&
                   manifest_add_number(m, 1, "accepted", step) == 0 &&
                   manifest_add_set(m, step, ranks, 2) == 0
               ? 0
               : -1;
}

/* sample_files -- all but the manifest, which is left in m. */
static inline int sample_files(const char *dir, const char *name, uint64_t step, uint32_t shards,
                               struct manifest *m, char folder[PATH_MAX])
{
    struct manifest_file file;
    int status = sample_describe(m, name, step, shards);

    if (status == 0)
        status = checkpoint_begin(dir, name, step, folder);
    for (uint32_t s = 0; status == 0 && s < shards; s++) {
        status = sample_shard(folder, name, step, s, shards, &file);
        if (status == 0)
            status = manifest_add_file(m, &file);
    }
    return status;
}

/* sample_write -- a whole checkpoint. */
static inline int sample_write(const char *dir, const char *name, uint64_t step, uint32_t shards,
                               char folder[PATH_MAX])
{
    struct manifest m;
    int status = sample_files(dir, name, step, shards, &m, folder);

    if (status == 0)
        status = checkpoint_finish(folder, &m);
    manifest_clear(&m);
    return status;
}

#endif
