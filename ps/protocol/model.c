/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/protocol/model.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/bytes.h"
#include "transport/base/error.h"

#define MODEL_ELEMENTS_MAX ((UINT64_C(1) << 40) - 1)
#define MODEL_RATE_MAX 1e30  /* fits f32 */
#define MODEL_STEPS_MAX 9e15 /* fits the whole numbers of a double */
#define MODEL_VARIABLES_MAX (UINT32_C(1) << 24)
#define MODEL_FORMAT 1
#define MODEL_DIGITS_BYTES 32

static_assert(MODEL_FINGERPRINT_BYTES == crypto_hash_sha256_BYTES, "the fingerprint is a SHA-256");

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
    model->update = MODEL_STRICT;
    model->non_finite = MODEL_PROPAGATE;
    model->initial_tokens = -1;
    model->optimizer = MODEL_SGD;
    model->schedule = MODEL_CONSTANT;
    model->learning_rate = 0.01;
    model->learning_rate_factor = 0.94;
    model->momentum = 0.9;
    model->rho = 0.9;
    model->beta1 = 0.9;
    model->beta2 = 0.999;
    model->epsilon = 1e-8;
    model->weight_decay = 0.01;
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

/* model_add -- declares a variable. */
int model_add(struct model *model, const char *name, int kind, int dtype, int rank, const uint64_t *dims)
{
    if (name == NULL || name[0] == 0 || strlen(name) >= STEPGATE_NAME_BYTES)
        return error_set(STEPGATE_EINVAL, 0, "", "a variable's name has 1 to %d characters",
                         STEPGATE_NAME_BYTES - 1);
    if (kind != STEPGATE_TRAINED)
        return error_set(STEPGATE_EINVAL, 0, "use STEPGATE_TRAINED", "variable %s: kind %d is unknown", name,
                         kind);
    if (dtype != STEPGATE_F32)
        return error_set(STEPGATE_EINVAL, 0, "use STEPGATE_F32", "variable %s: dtype %d is unknown", name,
                         dtype);
    if (rank < 0 || rank > STEPGATE_RANK_MAX || (rank > 0 && dims == NULL))
        return error_set(STEPGATE_EINVAL, 0, "", "variable %s: rank %d is not in 0..%d", name, rank,
                         STEPGATE_RANK_MAX);
    uint64_t elements = model_elements(rank, dims);
    if (elements == 0)
        return error_set(STEPGATE_EINVAL, 0, "",
                         "variable %s: every dimension must be > 0 and their product below 2^40", name);
    if (model->count >= MODEL_VARIABLES_MAX)
        return error_set(STEPGATE_EINVAL, 0, "", "more than %u variables", MODEL_VARIABLES_MAX);
    if ((model->count & (model->count - 1)) == 0 && model_grow(model) != 0) /* full */
        return -STEPGATE_ENOMEM;
    uint32_t *place = model_name(model, 2 * model_room(model->count), name);
    if (*place != 0)
        return error_set(STEPGATE_EALREADY, 0, "give each variable a name of its own",
                         "variable %s is declared twice in model %s", name, model->name);
    struct model_variable *variable = &model->variables[model->count];
    memset(variable, 0, sizeof(*variable));
    snprintf(variable->name, sizeof(variable->name), "%s", name);
    variable->kind = kind;
    variable->dtype = dtype;
    variable->rank = rank;
    for (int i = 0; i < rank; i++)
        variable->dims[i] = dims[i];
    variable->elements = elements;
    variable->bytes = elements * sizeof(float);
    variable->gradient_dtype = dtype;
    variable->gradient_bytes = variable->bytes;
    variable->learning_rate_scale = 1;
    variable->decays = true;
    *place = (uint32_t)model->count + 1;
    return (int)model->count++;
}

/* model_number -- a finite number in [low, high] from text. */
static int model_number(const char *key, const char *text, double low, double high, double *out)
{
    char *end;

    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end != 0 || errno == ERANGE || !isfinite(value) || value < low || value > high)
        return error_set(STEPGATE_EINVAL, 0, "", "%s: `%s` is not a number from %g to %g", key, text, low,
                         high);
    *out = value;
    return 0;
}

/* model_set -- the keys of stepgate_model_set. */
int model_set(struct model *model, const char *key, const char *text)
{
    double number = 0;

    if (key == NULL || text == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "key and value must not be NULL");
    if (strcmp(key, "optimizer") == 0) {
        if (strcmp(text, "sgd") == 0)
            model->optimizer = MODEL_SGD;
        else if (strcmp(text, "momentum") == 0)
            model->optimizer = MODEL_MOMENTUM;
        else
            return error_set(STEPGATE_EINVAL, 0, "use sgd or momentum", "optimizer `%s` is unknown", text);
        return 0;
    }
    if (strcmp(key, "learning_rate") == 0)
        return model_number(key, text, -MODEL_RATE_MAX, MODEL_RATE_MAX, &model->learning_rate);
    if (strcmp(key, "learning_rate_end") == 0)
        return model_number(key, text, -MODEL_RATE_MAX, MODEL_RATE_MAX, &model->learning_rate_end);
    if (strcmp(key, "momentum") == 0) {
        int status = model_number(key, text, 0, 1, &model->momentum);
        model->set |= status == 0;
        return status;
    }
    if (strcmp(key, "learning_rate_steps") == 0) {
        int status = model_number(key, text, 0, MODEL_STEPS_MAX, &number);
        if (status == 0 && number != floor(number))
            status = error_set(STEPGATE_EINVAL, 0, "", "%s: `%s` is not a whole number", key, text);
        if (status == 0)
            model->learning_rate_steps = (uint64_t)number;
        return status;
    }
    return error_set(STEPGATE_ENOENT, 0,
                     "keys: optimizer learning_rate learning_rate_end learning_rate_steps momentum",
                     "a model has no key `%s`", key);
}

/* model_optimizer_name -- as model_set takes it. */
const char *model_optimizer_name(const struct model *model)
{
    return model->optimizer == MODEL_MOMENTUM ? "momentum" : "sgd";
}

/* model_check_keys -- what was set for nothing was meant otherwise. */
int model_check_keys(struct model *model)
{
    if (model->set != 0 && model->optimizer != MODEL_MOMENTUM)
        return error_set(STEPGATE_EINVAL, 0, "set optimizer to momentum, or leave momentum out",
                         "model %s: momentum is set, but the optimizer is %s", model->name,
                         model_optimizer_name(model));
    return 0;
}

/* model_pack -- the serialised form: what is equal here is the same model. */
int model_pack(const struct model *model, uint8_t **bytes, size_t *size)
{
    size_t bound = 64 + 2 * STEPGATE_NAME_BYTES;

    for (size_t i = 0; i < model->count; i++)
        bound += strlen(model->variables[i].name) + 2 + 3 + 8 * (size_t)model->variables[i].rank;
    uint8_t *data = malloc(bound);
    if (data == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory to serialise model %s", model->name);
    struct bytes_writer w = {data, bound, 0, false};
    bytes_put_u16(&w, MODEL_FORMAT);
    bytes_put_text(&w, model->name);
    bytes_put_u8(&w, (uint8_t)model->optimizer);
    bytes_put_f64(&w, model->learning_rate);
    bytes_put_f64(&w, model->learning_rate_end);
    bytes_put_u64(&w, model->learning_rate_steps);
    bytes_put_f64(&w, model->momentum);
    bytes_put_u32(&w, (uint32_t)model->count);
    for (size_t i = 0; i < model->count; i++) {
        const struct model_variable *v = &model->variables[i];
        bytes_put_text(&w, v->name);
        bytes_put_u8(&w, (uint8_t)v->kind);
        bytes_put_u8(&w, (uint8_t)v->dtype);
        bytes_put_u8(&w, (uint8_t)v->rank);
        for (int d = 0; d < v->rank; d++)
            bytes_put_u64(&w, v->dims[d]);
    }
    if (w.overflow) {
        free(data);
        return error_set(STEPGATE_EINVAL, 0, "", "model %s cannot be serialised", model->name);
    }
    *bytes = data;
    *size = w.used;
    return 0;
}

/* model_unpack_body -- fills an empty model from the reader; every value passes the checks of the public calls. */
static int model_unpack_body(struct bytes_reader *r, struct model *model)
{
    model->optimizer = bytes_get_u8(r);
    model->learning_rate = bytes_get_f64(r);
    model->learning_rate_end = bytes_get_f64(r);
    model->learning_rate_steps = bytes_get_u64(r);
    model->momentum = bytes_get_f64(r);
    uint32_t count = bytes_get_u32(r);
    if (r->underflow || (model->optimizer != MODEL_SGD && model->optimizer != MODEL_MOMENTUM) ||
        !(fabs(model->learning_rate) <= MODEL_RATE_MAX) ||
        !(fabs(model->learning_rate_end) <= MODEL_RATE_MAX) ||
        model->learning_rate_steps > (uint64_t)MODEL_STEPS_MAX ||
        !(model->momentum >= 0 && model->momentum <= 1) || count > MODEL_VARIABLES_MAX)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "a model's description is damaged");
    for (uint32_t i = 0; i < count; i++) {
        char name[STEPGATE_NAME_BYTES];
        uint64_t dims[STEPGATE_RANK_MAX] = {0};
        bytes_get_text(r, name, sizeof(name));
        int kind = bytes_get_u8(r), dtype = bytes_get_u8(r), rank = bytes_get_u8(r);
        if (r->underflow || rank > STEPGATE_RANK_MAX)
            return error_set(STEPGATE_EPROTOCOL, 0, "", "a variable's description is damaged");
        for (int d = 0; d < rank; d++)
            dims[d] = bytes_get_u64(r);
        int id = r->underflow ? -STEPGATE_EPROTOCOL : model_add(model, name, kind, dtype, rank, dims);
        if (id == -STEPGATE_ENOMEM)
            return id;
        if (id < 0)
            return error_set(STEPGATE_EPROTOCOL, 0, "", "the description of variable %u is damaged", i);
    }
    if (r->used != r->size)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "a model's description is too long");
    return 0;
}

/* model_unpack -- checks every field. */
int model_unpack(const uint8_t *bytes, size_t size, struct model **out)
{
    struct bytes_reader r = {bytes, size, 0, false};
    struct model *model;
    char name[STEPGATE_NAME_BYTES];
    unsigned format = bytes_get_u16(&r);

    bytes_get_text(&r, name, sizeof(name));
    if (r.underflow || format != MODEL_FORMAT || name[0] == 0)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "a model's description is damaged");
    int status = model_new(name, &model);
    if (status != 0)
        return status;
    status = model_unpack_body(&r, model);
    if (status != 0) {
        model_delete(&model);
        return status;
    }
    *out = model;
    return 0;
}

/* model_fingerprint -- SHA-256 of the packed form. */
int model_fingerprint(const struct model *model, uint8_t out[MODEL_FINGERPRINT_BYTES])
{
    uint8_t *bytes;
    size_t size;
    int status = model_pack(model, &bytes, &size);

    if (status != 0)
        return status;
    crypto_hash_sha256(out, bytes, size);
    free(bytes);
    return 0;
}

/* model_shape -- words a variable's shape: [3, 4]. */
static void model_shape(const struct model_variable *v, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");

    for (int d = 0; d < v->rank && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%llu", d > 0 ? ", " : "",
                                 (unsigned long long)v->dims[d]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

/* model_digits -- a number with as many digits as tell it from every other. */
static void model_digits(double number, char text[MODEL_DIGITS_BYTES])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, MODEL_DIGITS_BYTES, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            return;
    }
}

/* model_rate -- words the learning rate. */
static void model_rate(const struct model *model, char *text, size_t size)
{
    char from[MODEL_DIGITS_BYTES], to[MODEL_DIGITS_BYTES];

    model_digits(model->learning_rate, from);
    model_digits(model->learning_rate_end, to);
    if (model->learning_rate_steps == 0)
        snprintf(text, size, "%s", from);
    else
        snprintf(text, size, "%s to %s in %llu steps", from, to,
                 (unsigned long long)model->learning_rate_steps);
}

/* model_difference -- words the first difference. */
int model_difference(const struct model *first, const struct model *other, char *text, size_t size)
{
    char a[160], b[160];

    if (strcmp(first->name, other->name) != 0) {
        snprintf(text, size, "name %s, not %s as on worker 0", other->name, first->name);
        return 1;
    }
    for (size_t i = 0; i < first->count && i < other->count; i++) {
        const struct model_variable *v = &first->variables[i], *w = &other->variables[i];
        model_shape(v, a, sizeof(a));
        model_shape(w, b, sizeof(b));
        if (strcmp(v->name, w->name) != 0 || strcmp(a, b) != 0 || v->kind != w->kind ||
            v->dtype != w->dtype) {
            snprintf(text, size, "variable %zu is %s %s, on worker 0 it is %s %s", i, w->name, b, v->name, a);
            return 1;
        }
    }
    if (first->count != other->count) {
        snprintf(text, size, "%zu variables, on worker 0 there are %zu", other->count, first->count);
        return 1;
    }
    if (first->optimizer != other->optimizer) {
        snprintf(text, size, "optimizer %s, on worker 0 %s", model_optimizer_name(other),
                 model_optimizer_name(first));
        return 1;
    }
    if (memcmp(&first->learning_rate, &other->learning_rate, sizeof(double)) != 0 ||
        memcmp(&first->learning_rate_end, &other->learning_rate_end, sizeof(double)) != 0 ||
        first->learning_rate_steps != other->learning_rate_steps) {
        model_rate(other, b, sizeof(b));
        model_rate(first, a, sizeof(a));
        snprintf(text, size, "learning rate %s, on worker 0 %s", b, a);
        return 1;
    }
    if (memcmp(&first->momentum, &other->momentum, sizeof(double)) != 0) {
        model_digits(other->momentum, b);
        model_digits(first->momentum, a);
        snprintf(text, size, "momentum %s, on worker 0 %s", b, a);
        return 1;
    }
    return 0;
}

/* model_learning_rate -- constant, or linear to learning_rate_end and constant from there. */
float model_learning_rate(const struct model *model, uint64_t step)
{
    double rate = model->learning_rate;

    if (model->learning_rate_steps > 0) {
        if (step >= model->learning_rate_steps)
            rate = model->learning_rate_end;
        else
            rate = model->learning_rate_end + (rate - model->learning_rate_end) *
                                                  (1.0 - (double)step / (double)model->learning_rate_steps);
    }
    return (float)rate;
}

/* model_optimizer_slots -- arenas of optimizer state. */
unsigned model_optimizer_slots(const struct model *model)
{
    return model->optimizer == MODEL_MOMENTUM ? 1 : 0;
}
