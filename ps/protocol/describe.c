/* SPDX-License-Identifier: BSD-3-Clause */
/* describe -- a model as bytes: its description, fingerprint, and how one differs from another. */
#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/protocol/check.h"
#include "ps/protocol/key.h"
#include "transport/base/bytes.h"
#include "transport/base/error.h"

#define DESCRIBE_FORMAT 3
#define DESCRIBE_NUMBER_BYTES 8 /* at most, of one key or option */

static_assert(MODEL_FINGERPRINT_BYTES == crypto_hash_sha256_BYTES, "the fingerprint is a SHA-256");

/* model_pack -- the serialised form: what is equal here is the same model. */
int model_pack(const struct model *model, uint8_t **bytes, size_t *size)
{
    size_t bound = 64 + 2 * STEPGATE_NAME_BYTES + key_count() * DESCRIBE_NUMBER_BYTES;

    for (size_t i = 0; i < model->count; i++)
        bound += strlen(model->variables[i].name) + 2 + 3 + 8 * (size_t)model->variables[i].rank +
                 option_count() * DESCRIBE_NUMBER_BYTES;
    uint8_t *data = malloc(bound);
    if (data == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory to serialise model %s", model->name);
    struct bytes_writer w = {data, bound, 0, false};
    bytes_put_u16(&w, DESCRIBE_FORMAT);
    bytes_put_text(&w, model->name);
    for (size_t k = 0; k < key_count(); k++)
        value_pack(&key_at(k)->value, model, &w);
    bytes_put_u32(&w, (uint32_t)model->count);
    for (size_t i = 0; i < model->count; i++) {
        const struct model_variable *v = &model->variables[i];
        bytes_put_text(&w, v->name);
        bytes_put_u8(&w, (uint8_t)v->kind);
        bytes_put_u8(&w, (uint8_t)v->dtype);
        bytes_put_u8(&w, (uint8_t)v->rank);
        for (int d = 0; d < v->rank; d++)
            bytes_put_u64(&w, v->dims[d]);
        for (size_t o = 0; o < option_count(); o++)
            value_pack(&option_at(o)->value, v, &w);
    }
    if (w.overflow) {
        free(data);
        return error_set(STEPGATE_EINVAL, 0, "", "model %s cannot be serialised", model->name);
    }
    *bytes = data;
    *size = w.used;
    return 0;
}

/* describe_keys -- every key that the model uses is one that could have been set, every other one is at its default. */
static int describe_keys(struct bytes_reader *r, struct model *model)
{
    char why[128], remedy[128];

    for (size_t k = 0; k < key_count(); k++)
        value_unpack(&key_at(k)->value, model, r);
    for (size_t k = 0; k < key_count(); k++) /* who uses a key is looked up by these */
        if (key_at(k)->value.kind == VALUE_CHOICE && !value_sound(&key_at(k)->value, model))
            return error_set(STEPGATE_EPROTOCOL, 0, "", "a model's description is damaged: %s",
                             key_at(k)->value.name);
    for (size_t k = 0; k < key_count() && !r->underflow; k++) {
        const struct value *value = &key_at(k)->value;
        double number = value_get(value, model);
        bool common =
            number == key_default(key_at(k), model); /* may be one that cannot be set: no initial tokens */
        bool used =
            value_sound(&key_at(k)->value, model) && !key_unused(key_at(k), model, why, remedy, sizeof(why));
        if (!common && !used)
            return error_set(STEPGATE_EPROTOCOL, 0, "", "a model's description is damaged: %s", value->name);
        if (used &&
            !(value->off && number == 0)) /* as if it had been set: checked again, it stays as it is */
            model->set |= UINT64_C(1) << k;
    }
    return r->underflow ? error_set(STEPGATE_EPROTOCOL, 0, "", "a model's description is damaged") : 0;
}

/* describe_options -- the same for a variable. */
static int describe_options(struct bytes_reader *r, const struct model *model, struct model_variable *v)
{
    for (size_t o = 0; o < option_count(); o++)
        value_unpack(&option_at(o)->value, v, r);
    bool sound = !r->underflow;
    for (size_t o = 0; o < option_count() && sound; o++) {
        const struct option *option = option_at(o);
        bool used = option_used(option, model, v);
        sound = used ? value_sound(&option->value, v)
                     : value_get(&option->value, v) == option_default(option, model, v);
        if (used)
            v->set |= UINT32_C(1) << o;
    }
    if (!sound || (v->gradient_dtype == STEPGATE_F64 && v->dtype != STEPGATE_F64) || v->rows_max > v->rows)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "the description of variable %s is damaged", v->name);
    v->gradient_bytes = v->elements * model_dtype_bytes(v->gradient_dtype);
    return 0;
}

/* describe_variable -- one more, with the checks of the public calls. */
static int describe_variable(struct bytes_reader *r, struct model *model, uint32_t number)
{
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
        return error_set(STEPGATE_EPROTOCOL, 0, "", "the description of variable %u is damaged", number);
    return describe_options(r, model, &model->variables[id]);
}

/* describe_body -- fills an empty model from the reader. */
static int describe_body(struct bytes_reader *r, struct model *model)
{
    int status = describe_keys(r, model);
    uint32_t count = bytes_get_u32(r);

    for (uint32_t i = 0; status == 0 && i < count; i++)
        status = describe_variable(r, model, i);
    if (status != 0)
        return status;
    if (r->underflow || r->used != r->size)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "a model's description is too short or too long");
    if (check_rest(model) != 0)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "a model's description contradicts itself");
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
    if (r.underflow || format != DESCRIBE_FORMAT || name[0] == 0)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "a model's description is damaged");
    int status = model_new(name, &model);
    if (status != 0)
        return status;
    status = describe_body(&r, model);
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

/* describe_shape -- words a variable's shape: [3, 4]. */
static void describe_shape(const struct model_variable *v, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");

    for (int d = 0; d < v->rank && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%llu", d > 0 ? ", " : "",
                                 (unsigned long long)v->dims[d]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

/* describe_variable_difference -- words the first difference of variable `number`; returns 0 if there is none. */
static int describe_variable_difference(size_t number, const struct model_variable *first,
                                        const struct model_variable *other, char *text, size_t size)
{
    char a[VALUE_TEXT_BYTES], b[VALUE_TEXT_BYTES], shape_a[160], shape_b[160];

    describe_shape(first, shape_a, sizeof(shape_a));
    describe_shape(other, shape_b, sizeof(shape_b));
    if (strcmp(first->name, other->name) != 0 || strcmp(shape_a, shape_b) != 0) {
        snprintf(text, size, "variable %zu is %s %s, on worker 0 it is %s %s", number, other->name, shape_b,
                 first->name, shape_a);
        return 1;
    }
    if (first->kind != other->kind || first->dtype != other->dtype) {
        snprintf(text, size, "variable %zu (%s): %s of %s, on worker 0 it is %s of %s", number, other->name,
                 model_kind_name(other->kind), model_dtype_name(other->dtype), model_kind_name(first->kind),
                 model_dtype_name(first->dtype));
        return 1;
    }
    for (size_t o = 0; o < option_count(); o++) {
        const struct value *value = &option_at(o)->value;
        if (value_same(value, first, other))
            continue;
        value_text(value, first, a);
        value_text(value, other, b);
        snprintf(text, size, "variable %zu (%s): %s %s, on worker 0 it is %s", number, other->name,
                 value->name, b, a);
        return 1;
    }
    return 0;
}

/* model_difference -- words the first difference. */
int model_difference(const struct model *first, const struct model *other, char *text, size_t size)
{
    char a[VALUE_TEXT_BYTES], b[VALUE_TEXT_BYTES];

    if (strcmp(first->name, other->name) != 0) {
        snprintf(text, size, "name %s, not %s as on worker 0", other->name, first->name);
        return 1;
    }
    for (size_t i = 0; i < first->count && i < other->count; i++)
        if (describe_variable_difference(i, &first->variables[i], &other->variables[i], text, size) != 0)
            return 1;
    if (first->count != other->count) {
        snprintf(text, size, "%zu variables, on worker 0 there are %zu", other->count, first->count);
        return 1;
    }
    for (size_t k = 0; k < key_count(); k++) {
        const struct value *value = &key_at(k)->value;
        if (value_same(value, first, other))
            continue;
        value_text(value, first, a);
        value_text(value, other, b);
        snprintf(text, size, "%s %s, on worker 0 it is %s", value->name, b, a);
        return 1;
    }
    return 0;
}
