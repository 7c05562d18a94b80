/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/mode/accumulator.h"

#include <stdlib.h>
#include <string.h>

#include "ps/mode/accumulator_gate.h"
#include "ps/mode/accumulator_rows.h"
#include "ps/optimizer/number.h"
#include "transport/base/error.h"

struct accumulator_served {
    struct accumulator_taken taken;
    struct accumulator_served *next;
};

struct accumulator {
    struct accumulator_settings settings;
    struct accumulator_gate gate;
    bool wide; /* computed in f64 */
    struct accumulator_shape
        round; /* of the first gradient since the last take; sparse: of its rows, dims[0] ANY */
    void *sum; /* dense */
    struct accumulator_rows rows; /* sparse */
    struct accumulator_served *first, **last;
};

/* accumulator_elements -- of the dimensions from `from` on; false: too many. */
static bool accumulator_elements(const struct accumulator_shape *shape, int from, size_t *out)
{
    size_t elements = 1;

    for (int d = from; d < shape->rank; d++)
        if (__builtin_mul_overflow(elements, shape->dims[d], &elements))
            return false;
    *out = elements;
    return elements <= SIZE_MAX / sizeof(double);
}

/* accumulator_fits -- is `shape` one of those that `declared` allows? */
static bool accumulator_fits(const struct accumulator_shape *shape, const struct accumulator_shape *declared,
                             int from)
{
    if (declared->rank == ACCUMULATOR_NO_SHAPE)
        return true;
    if (shape->rank != declared->rank)
        return false;
    for (int d = from; d < shape->rank; d++)
        if (declared->dims[d] != ACCUMULATOR_ANY && declared->dims[d] != shape->dims[d])
            return false;
    return true;
}

/* accumulator_new -- nothing is pushed. */
int accumulator_new(const struct accumulator_settings *settings, struct accumulator **out)
{
    int dtype = settings->dtype, rank = settings->shape.rank;

    if (dtype != STEPGATE_F16 && dtype != STEPGATE_F32 && dtype != STEPGATE_F64)
        return error_set(STEPGATE_EINVAL, 0, "use f16, f32 or f64", "an accumulator of dtype %d", dtype);
    if (rank < ACCUMULATOR_NO_SHAPE || rank > STEPGATE_RANK_MAX || (settings->sparse && rank == 0))
        return error_set(STEPGATE_EINVAL, 0, "", "an accumulator of rank %d", rank);
    struct accumulator *a = calloc(1, sizeof(*a));
    if (a == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for an accumulator");
    a->settings = *settings;
    a->wide = dtype == STEPGATE_F64;
    a->round.rank = ACCUMULATOR_NO_SHAPE;
    a->last = &a->first;
    accumulator_gate_start(&a->gate, settings->step);
    accumulator_rows_start(&a->rows, a->wide ? STEPGATE_F64 : STEPGATE_F32, 1);
    *out = a;
    return 0;
}

/* accumulator_delete -- frees, sets NULL. */
void accumulator_delete(struct accumulator **accumulator)
{
    struct accumulator *a = *accumulator;

    if (a == NULL)
        return;
    while (a->first != NULL) {
        struct accumulator_served *served = a->first;
        a->first = served->next;
        accumulator_taken_free(&served->taken);
        free(served);
    }
    accumulator_gate_clear(&a->gate);
    accumulator_rows_free(&a->rows);
    free(a->sum);
    free(a);
    *accumulator = NULL;
}

/* accumulator_widen -- a copy in the computing type, which the caller frees. */
static int accumulator_widen(const struct accumulator *a, const void *values, size_t n, void **out)
{
    void *wide = malloc(n > 0 ? n * (a->wide ? sizeof(double) : sizeof(float)) : 1);

    if (wide == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu elements", n);
    if (a->wide)
        number_widen_f64(a->settings.dtype, values, wide, n);
    else
        number_widen_f32(a->settings.dtype, values, wide, n);
    *out = wide;
    return 0;
}

/* accumulator_add -- sum += more, in the computing type. */
static void accumulator_add(const struct accumulator *a, void *sum, const void *more, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a->wide)
            ((double *)sum)[i] += ((const double *)more)[i];
        else
            ((float *)sum)[i] += ((const float *)more)[i];
}

/* accumulator_narrow -- n numbers of the computing type, divided, as the dtype. `values` are changed. */
static void accumulator_narrow(const struct accumulator *a, void *values, size_t n, double divisor, void *out)
{
    for (size_t i = 0; i < n; i++)
        if (a->wide)
            ((double *)values)[i] /= divisor;
        else
            ((float *)values)[i] /= (float)divisor;
    if (a->settings.dtype == STEPGATE_F16)
        number_narrow_f32(NUMBER_F16, values, out, n);
    else
        memcpy(out, values, n * number_bytes(a->settings.dtype));
}

/* accumulator_take_dense -- the values of a take that is ready. */
static int accumulator_take_dense(struct accumulator *a, struct accumulator_taken *taken)
{
    size_t n = 0;

    (void)accumulator_elements(&a->round, 0, &n);
    taken->values = malloc(n > 0 ? n * number_bytes(a->settings.dtype) : 1);
    if (taken->values == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu elements", n);
    taken->shape = a->round;
    accumulator_narrow(a, a->sum, n, a->settings.sum ? 1 : (double)a->gate.count, taken->values);
    free(a->sum);
    a->sum = NULL;
    return 0;
}

/* accumulator_take_sparse -- rows by rising index, each by the number of contributions that held it. */
static int accumulator_take_sparse(struct accumulator *a, struct accumulator_taken *taken)
{
    size_t count = accumulator_rows_count(&a->rows), width = a->rows.width;
    size_t bytes = number_bytes(a->settings.dtype);
    void *row = malloc(width > 0 ? width * sizeof(double) : 1);

    taken->indices = malloc(count > 0 ? count * sizeof(*taken->indices) : 1);
    taken->values = malloc(count * width > 0 ? count * width * bytes : 1);
    if (row == NULL || taken->indices == NULL || taken->values == NULL) {
        free(row);
        accumulator_taken_free(taken);
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu rows", count);
    }
    taken->shape = a->round;
    taken->shape.dims[0] = count;
    for (size_t i = 0; i < count; i++) {
        taken->indices[i] = accumulator_rows_index(&a->rows, i);
        accumulator_rows_mean(&a->rows, i, a->settings.sum ? 1 : 0, row);
        accumulator_narrow(a, row, width, 1, (char *)taken->values + i * width * bytes);
    }
    free(row);
    accumulator_rows_clear(&a->rows);
    return 0;
}

/* accumulator_settle -- serves every take that has what it needs. */
static int accumulator_settle(struct accumulator *a)
{
    while (accumulator_gate_ready(&a->gate)) {
        struct accumulator_served *served = calloc(1, sizeof(*served));
        int status = served == NULL       ? error_set(STEPGATE_ENOMEM, 0, "", "no memory for a take")
                     : a->settings.sparse ? accumulator_take_sparse(a, &served->taken)
                                          : accumulator_take_dense(a, &served->taken);
        if (status != 0) {
            free(served);
            return status;
        }
        (void)accumulator_gate_serve(&a->gate, &served->taken.ticket, &served->taken.count);
        a->round.rank = ACCUMULATOR_NO_SHAPE;
        *a->last = served;
        a->last = &served->next;
    }
    return 0;
}

/* accumulator_count_in -- a gradient is in; a take that lacks memory now is served later. */
static int accumulator_count_in(struct accumulator *a, uint64_t step, const struct accumulator_shape *shape)
{
    (void)accumulator_gate_push(&a->gate, step);
    a->round = *shape;
    (void)accumulator_settle(a);
    return 1;
}

/* accumulator_push -- dense. */
int accumulator_push(struct accumulator *a, uint64_t step, const struct accumulator_shape *shape,
                     const void *values)
{
    size_t n = 0;
    void *wide = NULL;

    if (a->settings.sparse)
        return error_set(STEPGATE_EINVAL, 0, "push rows", "a dense gradient to a sparse accumulator");
    if (!accumulator_gate_accepts(&a->gate, step))
        return 0;
    if (shape->rank < 0 || shape->rank > STEPGATE_RANK_MAX || !accumulator_elements(shape, 0, &n))
        return error_set(STEPGATE_EINVAL, 0, "", "a gradient of rank %d", shape->rank);
    if (!accumulator_fits(shape, &a->settings.shape, 0))
        return error_set(STEPGATE_EINVAL, 0, "", "a gradient has another shape than was declared");
    if (!accumulator_fits(shape, &a->round, 0))
        return error_set(STEPGATE_EINVAL, 0, "declare the shape",
                         "a gradient has another shape than the first one since the last take");
    int status = accumulator_widen(a, values, n, &wide);
    if (status != 0)
        return status;
    if (a->sum == NULL) {
        a->sum = wide;
    } else {
        accumulator_add(a, a->sum, wide, n);
        free(wide);
    }
    return accumulator_count_in(a, step, shape);
}

/* accumulator_check_sparse -- the rules for indices and values. */
static int accumulator_check_sparse(const struct accumulator *a, const struct accumulator_sparse *g,
                                    size_t *width)
{
    const struct accumulator_shape *shape = &g->value_shape;
    size_t n = 0;

    if (g->index_bits != 32 && g->index_bits != 64)
        return error_set(STEPGATE_EINVAL, 0, "use 32 or 64 bits", "indices of %d bits", g->index_bits);
    if (g->index_shape.rank != 1)
        return error_set(STEPGATE_EINVAL, 0, "", "the indices must be a vector, not of rank %d",
                         g->index_shape.rank);
    if (shape->rank < 1 || shape->rank > STEPGATE_RANK_MAX)
        return error_set(STEPGATE_EINVAL, 0, "", "the rows have rank %d; at least 1 is needed", shape->rank);
    if (shape->dims[0] != g->index_shape.dims[0])
        return error_set(STEPGATE_EINVAL, 0, "give one row per index", "%llu indices for %llu rows",
                         (unsigned long long)g->index_shape.dims[0], (unsigned long long)shape->dims[0]);
    if (!accumulator_elements(shape, 1, width) || !accumulator_elements(shape, 0, &n))
        return error_set(STEPGATE_EINVAL, 0, "", "a gradient of too many elements");
    if (!accumulator_fits(shape, &a->settings.shape, 1))
        return error_set(STEPGATE_EINVAL, 0, "", "the rows have another shape than was declared");
    if (!accumulator_fits(shape, &a->round, 1))
        return error_set(STEPGATE_EINVAL, 0, "declare the shape",
                         "the rows have another shape than the first ones since the last take");
    return 0;
}

/* A row of a gradient: its index, and which it is. */
struct accumulator_pick {
    uint64_t index;
    size_t at;
};

/* accumulator_by_index -- for qsort; equal ones in the order of the gradient. */
static int accumulator_by_index(const void *a, const void *b)
{
    const struct accumulator_pick *x = a, *y = b;

    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* accumulator_pick_rows -- indices as unsigned numbers, sorted. */
static int accumulator_pick_rows(const struct accumulator *a, const struct accumulator_sparse *g, size_t n,
                                 struct accumulator_pick *picks)
{
    const struct accumulator_shape *declared = &a->settings.shape;

    for (size_t i = 0; i < n; i++) {
        int64_t index =
            g->index_bits == 32 ? ((const int32_t *)g->indices)[i] : ((const int64_t *)g->indices)[i];
        if (index < 0 || (declared->rank != ACCUMULATOR_NO_SHAPE && declared->dims[0] != ACCUMULATOR_ANY &&
                          (uint64_t)index >= declared->dims[0]))
            return error_set(STEPGATE_EINVAL, 0, "", "there is no row %lld", (long long)index);
        picks[i] = (struct accumulator_pick){(uint64_t)index, i};
    }
    qsort(picks, n, sizeof(*picks), accumulator_by_index);
    return 0;
}

/* accumulator_merge_rows -- equal indices of one gradient are summed first, since it is one contribution to that row. */
static int accumulator_merge_rows(struct accumulator *a, const struct accumulator_pick *picks, size_t n,
                                  const char *wide, size_t width)
{
    size_t bytes = width * (a->wide ? sizeof(double) : sizeof(float)), count = 0;
    uint64_t *indices = malloc((n + 1) * sizeof(*indices));
    char *rows = malloc(n * bytes + 1);
    int status = 0;

    if (indices == NULL || rows == NULL)
        status = error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu rows", n);
    for (size_t i = 0; i < n && status == 0; i++) {
        const char *row = wide + picks[i].at * bytes;
        if (count > 0 && indices[count - 1] == picks[i].index) {
            accumulator_add(a, rows + (count - 1) * bytes, row, width);
            continue;
        }
        memcpy(rows + count * bytes, row, bytes);
        indices[count++] = picks[i].index;
    }
    if (status == 0)
        status = accumulator_rows_add(&a->rows, indices, rows, count, 1);
    free(indices);
    free(rows);
    return status;
}

/* accumulator_add_sparse -- a checked gradient. */
static int accumulator_add_sparse(struct accumulator *a, const struct accumulator_sparse *g, size_t width)
{
    size_t n = g->value_shape.dims[0];
    struct accumulator_pick *picks = malloc((n + 1) * sizeof(*picks));
    void *wide = NULL;

    if (picks == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu rows", n);
    int status = accumulator_pick_rows(a, g, n, picks);
    if (status == 0)
        status = accumulator_widen(a, g->values, n * width, &wide);
    if (status == 0 && a->round.rank == ACCUMULATOR_NO_SHAPE && a->rows.width != width) {
        accumulator_rows_free(&a->rows);
        a->rows.width = width;
    }
    if (status == 0)
        status = accumulator_merge_rows(a, picks, n, wide, width);
    free(wide);
    free(picks);
    return status;
}

/* accumulator_push_sparse -- rows. */
int accumulator_push_sparse(struct accumulator *a, uint64_t step, const struct accumulator_sparse *gradient)
{
    size_t width = 0;

    if (!a->settings.sparse)
        return error_set(STEPGATE_EINVAL, 0, "push a dense gradient", "rows for a dense accumulator");
    if (!accumulator_gate_accepts(&a->gate, step))
        return 0;
    int status = accumulator_check_sparse(a, gradient, &width);
    if (status == 0)
        status = accumulator_add_sparse(a, gradient, width);
    if (status != 0)
        return status;
    struct accumulator_shape shape = gradient->value_shape;
    shape.dims[0] = ACCUMULATOR_ANY;
    return accumulator_count_in(a, step, &shape);
}

/* accumulator_take -- served at once if that much is there and nobody is before it. */
int accumulator_take(struct accumulator *a, int64_t n, uint64_t *ticket)
{
    int status = accumulator_gate_take(&a->gate, n, ticket);

    if (status == 0)
        (void)accumulator_settle(a);
    return status;
}

/* accumulator_fetch -- in the order of the tickets. */
int accumulator_fetch(struct accumulator *a, struct accumulator_taken *out)
{
    int status = accumulator_settle(a);
    struct accumulator_served *served = a->first;

    if (served == NULL)
        return status;
    *out = served->taken;
    a->first = served->next;
    if (a->first == NULL)
        a->last = &a->first;
    free(served);
    return 1;
}

/* accumulator_taken_free -- frees what a take gave. */
void accumulator_taken_free(struct accumulator_taken *taken)
{
    free(taken->indices);
    free(taken->values);
    taken->indices = NULL;
    taken->values = NULL;
}

/* accumulator_set_step -- unconditional. */
bool accumulator_set_step(struct accumulator *a, uint64_t step)
{
    return accumulator_gate_set_step(&a->gate, step);
}

/* accumulator_step -- what is older is stale. */
uint64_t accumulator_step(const struct accumulator *a)
{
    return a->gate.step;
}

/* accumulator_count -- contributions since the last take. */
uint64_t accumulator_count(const struct accumulator *a)
{
    return a->gate.count;
}
