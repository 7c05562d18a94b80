/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/protocol/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/protocol/key.h"
#include "transport/base/error.h"

#define MODEL_ELEMENTS_MAX ((UINT64_C(1) << 40) - 1)
#define MODEL_VARIABLES_MAX (UINT32_C(1) << 24)
#define MODEL_LIST_BYTES 512

/* model_new -- an empty model with the defaults of stepgate_model_set. */
int model_new(const char *name, struct model **out)
{
    if (name == NULL || name[0] == 0 || strlen(name) >= STEPGATE_NAME_BYTES)
        return error_set(STEPGATE_EINVAL, 0, "", "a model's name has 1 to %d characters",
                         STEPGATE_NAME_BYTES - 1);
    struct model *model = calloc(1, sizeof(*model));
    if (model == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for model %s", name);
    snprintf(model->name, sizeof(model->name), "%s", name);
    for (size_t k = 0; k < key_count(); k++)
        value_put(&key_at(k)->value, model, key_at(k)->standard);
    for (size_t k = 0; k < key_count(); k++) /* what depends on others comes behind them all */
        value_put(&key_at(k)->value, model, key_default(key_at(k), model));
    *out = model;
    return 0;
}

/* model_delete -- frees, sets NULL. */
void model_delete(struct model **model)
{
    if (*model == NULL)
        return;
    free((*model)->variables);
    free((*model)->names);
    free(*model);
    *model = NULL;
}

/* model_elements -- the product of the dims, or 0 when it is not in 1..MODEL_ELEMENTS_MAX. */
static uint64_t model_elements(int rank, const uint64_t *dims)
{
    uint64_t elements = 1;

    for (int i = 0; i < rank; i++) {
        if (dims[i] == 0 || dims[i] > MODEL_ELEMENTS_MAX / elements)
            return 0;
        elements *= dims[i];
    }
    return elements;
}

/* model_name -- the place of a name in the table, or the empty place where it belongs. There is always one. */
static uint32_t *model_name(const struct model *model, size_t places, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (const char *c = name; *c != 0; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    size_t place = (size_t)hash & (places - 1);
    while (model->names[place] != 0 && strcmp(model->variables[model->names[place] - 1].name, name) != 0)
        place = (place + 1) & (places - 1);
    return &model->names[place];
}

/* model_room -- room for variables: the next power of two above their number. */
static size_t model_room(size_t count)
{
    size_t room = 1;

    while (room <= count)
        room *= 2;
    return room;
}

/* model_grow -- room for twice as many variables. */
static int model_grow(struct model *model)
{
    size_t room = model_room(model->count), places = 2 * room;
    struct model_variable *more = realloc(model->variables, room * sizeof(*more));

    if (more != NULL)
        model->variables = more;
    uint32_t *names = more == NULL ? NULL : calloc(places, sizeof(*names));
    if (names == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu variables", room);
    free(model->names);
    model->names = names;
    for (size_t i = 0; i < model->count; i++)
        *model_name(model, places, model->variables[i].name) = (uint32_t)i + 1;
    return 0;
}

/* model_add_check -- may there be such a variable? */
static int model_add_check(const char *name, int kind, int dtype, int rank, const uint64_t *dims)
{
    if (name == NULL || name[0] == 0 || strlen(name) >= STEPGATE_NAME_BYTES)
        return error_set(STEPGATE_EINVAL, 0, "", "a variable's name has 1 to %d characters",
                         STEPGATE_NAME_BYTES - 1);
    if (kind < STEPGATE_TRAINED || kind > STEPGATE_AUX)
        return error_set(STEPGATE_EINVAL, 0,
                         "use STEPGATE_TRAINED, STEPGATE_SPARSE, STEPGATE_ASSIGNED or STEPGATE_AUX",
                         "variable %s: kind %d is unknown", name, kind);
    if (model_dtype_bytes(dtype) == 0)
        return error_set(STEPGATE_EINVAL, 0, "use STEPGATE_F32, STEPGATE_F64, STEPGATE_F16 or STEPGATE_BF16",
                         "variable %s: dtype %d is unknown", name, dtype);
    if (rank > 0 && dims == NULL)
        return error_set(STEPGATE_EINVAL, 0, "give as many dims as the rank says, or rank 0 for a scalar",
                         "variable %s: rank %d, but dims is NULL", name, rank);
    if (rank < 0 || rank > STEPGATE_RANK_MAX)
        return error_set(STEPGATE_EINVAL, 0, "", "variable %s: rank %d is not in 0..%d", name, rank,
                         STEPGATE_RANK_MAX);
    if (kind == STEPGATE_SPARSE && rank == 0)
        return error_set(STEPGATE_EINVAL, 0, "give it at least the dimension that counts its rows",
                         "variable %s is sparse, but a scalar", name);
    if (model_elements(rank, dims) == 0)
        return error_set(STEPGATE_EINVAL, 0, "",
                         "variable %s: every dimension must be > 0 and their product below 2^40", name);
    return 0;
}

/* model_add -- declares a variable. */
int model_add(struct model *model, const char *name, int kind, int dtype, int rank, const uint64_t *dims)
{
    int status = model_add_check(name, kind, dtype, rank, dims);

    if (status != 0)
        return status;
    if (model->count >= MODEL_VARIABLES_MAX)
        return error_set(STEPGATE_EINVAL, 0, "", "more than %u variables", MODEL_VARIABLES_MAX);
    if ((model->count & (model->count - 1)) == 0 && model_grow(model) != 0) /* full */
        return -STEPGATE_ENOMEM;
    uint32_t *place = model_name(model, 2 * model_room(model->count), name);
    if (*place != 0)
        return error_set(STEPGATE_EALREADY, 0, "give each variable a name of its own",
                         "variable %s is declared twice in model %s", name, model->name);
    struct model_variable *v = &model->variables[model->count];
    memset(v, 0, sizeof(*v));
    snprintf(v->name, sizeof(v->name), "%s", name);
    v->kind = kind;
    v->dtype = dtype;
    v->rank = rank;
    for (int i = 0; i < rank; i++)
        v->dims[i] = dims[i];
    v->elements = model_elements(rank, dims);
    v->bytes = v->elements * model_dtype_bytes(dtype);
    v->gradient_bytes = v->bytes;
    if (kind == STEPGATE_SPARSE) {
        v->rows = dims[0];
        v->row_elements = v->elements / dims[0];
    }
    for (size_t i = 0; i < option_count(); i++)
        value_put(&option_at(i)->value, v, option_default(option_at(i), model, v));
    *place = (uint32_t)model->count + 1;
    return (int)model->count++;
}

/* model_unknown -- names all that there are. */
static int model_unknown(const char *whose, const char *key, size_t count, const char *(*name)(size_t))
{
    char list[MODEL_LIST_BYTES] = "";
    size_t used = 0;

    for (size_t i = 0; i < count && used < sizeof(list); i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", name(i));
    return error_set(STEPGATE_ENOENT, 0, "the keys are in stepgate/model.h", "%s has no key `%.30s`, but%s",
                     whose, key, list);
}

/* model_key_name -- of a number. */
static const char *model_key_name(size_t number)
{
    return key_at(number)->value.name;
}

/* model_option_name -- of a number. */
static const char *model_option_name(size_t number)
{
    return option_at(number)->value.name;
}

/* model_set -- the keys of stepgate_model_set. */
int model_set(struct model *model, const char *key, const char *text)
{
    if (key == NULL || text == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "key and value must not be NULL");
    int number = key_find(key);
    if (number < 0)
        return model_unknown("a model", key, key_count(), model_key_name);
    const struct value *value = &key_at((size_t)number)->value;
    int status = value_read(value, model, text);
    if (status != 0)
        return status;
    uint64_t bit = UINT64_C(1) << number;
    model->set = value->off && value_get(value, model) == 0 ? model->set & ~bit : model->set | bit;
    return 0;
}

/* model_gradient_check -- a gradient is never wider than what its variable is computed in. */
static int model_gradient_check(const struct model_variable *v)
{
    if (v->gradient_dtype == STEPGATE_F64 && v->dtype != STEPGATE_F64)
        return error_set(STEPGATE_EINVAL, 0, "use f32, or a variable of f64",
                         "variable %s of %s is computed in f32: its gradients cannot be f64", v->name,
                         model_dtype_name(v->dtype));
    return 0;
}

/* model_variable_set -- the options of stepgate_model_variable_set. */
int model_variable_set(struct model *model, uint32_t id, const char *key, const char *text)
{
    if (id >= model->count || key == NULL || text == NULL)
        return error_set(STEPGATE_EINVAL, 0, "",
                         "there is no variable %u, or key or value are NULL: the model has %zu", id,
                         model->count);
    struct model_variable *v = &model->variables[id];
    int number = option_find(key);
    if (number < 0)
        return model_unknown("a variable", key, option_count(), model_option_name);
    const struct option *option = option_at((size_t)number);
    if ((option->kinds & 1u << v->kind) == 0)
        return error_set(STEPGATE_EINVAL, 0, "leave it out, or declare the variable of another kind",
                         "variable %s is %s: it has no %s", v->name, model_kind_name(v->kind), key);
    struct model_variable next = *v;
    int status = value_read(&option->value, &next, text);
    if (status == 0)
        status = model_gradient_check(&next);
    if (status != 0)
        return status;
    next.set |= UINT32_C(1) << number;
    next.gradient_bytes = next.elements * model_dtype_bytes(next.gradient_dtype);
    if (next.rows_max > next.rows)
        next.rows_max = next.rows;
    *v = next;
    return 0;
}

/* model_tune -- changes a hyper-parameter of a model in training. */
int model_tune(struct model *model, const char *name, const char *text)
{
    char why[128], remedy[128];

    if (name == NULL || text == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "key and value must not be NULL");
    int number = key_find(name);
    if (number < 0)
        return model_unknown("a model", name, key_count(), model_key_name);
    const struct key *key = key_at((size_t)number);
    if (!key->tuned)
        return error_set(STEPGATE_EINVAL, 0, "set it before commit", "model %s: %s cannot change in training",
                         model->name, name);
    if (key_unused(key, model, why, remedy, sizeof(why)))
        return error_set(STEPGATE_EINVAL, 0, "", "model %s: %s cannot change: %s", model->name, name, why);
    if (key->started && (model->started >> number & 1) == 0)
        return error_set(STEPGATE_EINVAL, 0, "set it to a great number before commit",
                         "model %s: %s was off at commit and stays off", model->name, name);
    struct model next = *model;
    int status = value_read(&key->value, &next, text);
    if (status != 0)
        return status;
    if (next.average_decay == 0 && model->average_decay != 0)
        return error_set(STEPGATE_EINVAL, 0, "", "model %s: the averages cannot be turned off", model->name);
    *model = next;
    return 0;
}

/* model_optimizer_name -- as model_set takes it. */
const char *model_optimizer_name(const struct model *model)
{
    return value_word(key_optimizers, model->optimizer);
}

/* model_update_name -- as model_set takes it. */
const char *model_update_name(int update)
{
    return value_word(key_updates, update);
}

/* model_non_finite_name -- as model_set takes it. */
const char *model_non_finite_name(int non_finite)
{
    return value_word(key_non_finite, non_finite);
}

/* model_schedule_name -- as model_set takes it. */
const char *model_schedule_name(int schedule)
{
    return value_word(key_schedules, schedule);
}

/* model_dtype_name -- as gradient_dtype is set. */
const char *model_dtype_name(int dtype)
{
    return value_word(key_dtypes, dtype);
}

/* model_kind_name -- as this header's enum spells it. */
const char *model_kind_name(int kind)
{
    return value_word(key_kinds, kind);
}

/* model_dtype_bytes -- the size of an element. */
size_t model_dtype_bytes(int dtype)
{
    switch (dtype) {
    case STEPGATE_F64: return 8;
    case STEPGATE_F32: return 4;
    case STEPGATE_F16:
    case STEPGATE_BF16: return 2;
    default: return 0;
    }
}

/* model_optimizer_slots -- arenas of optimizer state. */
unsigned model_optimizer_slots(const struct model *model)
{
    switch (model->optimizer) {
    case MODEL_SGD:
    case MODEL_NONE: return 0;
    case MODEL_RMSPROP:
    case MODEL_ADAM:
    case MODEL_ADAMW: return 2;
    default: return 1;
    }
}
