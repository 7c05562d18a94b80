/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/scenario/store.h"

#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

/* store_bytes -- of a piece. */
static size_t store_bytes(const struct archive_piece *piece)
{
    return (size_t)piece->elements * model_dtype_bytes(piece->dtype);
}

/* store_drop -- the pieces of one shard: it writes them anew. */
static void store_drop(struct store_step *step, uint32_t shard)
{
    size_t kept = 0;

    for (size_t i = 0; i < step->count; i++) {
        struct store_piece *piece = &step->pieces[i];
        if (piece->shard != shard) {
            step->pieces[kept++] = *piece;
            continue;
        }
        free(piece->array.data);
        free((char *)(uintptr_t)piece->array.slot);
    }
    step->count = kept;
}

/* store_forget -- everything of a step. */
static void store_forget(struct store_step *step)
{
    for (uint32_t s = 0; s < STORE_SHARDS_MAX; s++)
        store_drop(step, s);
    free(step->pieces);
    archive_state_clear(&step->state);
    memset(step, 0, sizeof(*step));
}

/* store_same -- are these pieces of the same array? */
static bool store_same(const struct archive_piece *a, const struct archive_piece *b)
{
    return a->kind == b->kind && a->variable == b->variable && a->rank == b->rank && a->dtype == b->dtype &&
           (a->kind != ARCHIVE_SLOT || strcmp(a->slot, b->slot) == 0);
}

/* store_save -- copies of the pieces. */
static int store_save(void *context, const struct archive_part *part, struct archive_receipt *receipt)
{
    struct store *store = context;

    if (store->refuses)
        return error_set(STEPGATE_ESYSTEM, 0, "free space", "ps %u has no room for its part", part->shard);
    if (part->step >= STORE_STEPS_MAX || store->shift > 0)
        return error_set(STEPGATE_EINVAL, 0, "", "too many steps for a test");
    struct store_step *step = &store->steps[part->step];
    if (step->complete)
        store_forget(step);
    store_drop(step, part->shard);
    step->begun = true;
    step->pieces = realloc(step->pieces, (step->count + part->count + 1) * sizeof(*step->pieces));
    *receipt = (struct archive_receipt){.bytes = 0};
    for (size_t i = 0; i < part->count; i++) {
        if (!part->pieces[i].there)
            continue;
        step->pieces[step->count] = (struct store_piece){part->shard, part->pieces[i]};
        struct archive_piece *piece = &step->pieces[step->count++].array;
        piece->data = malloc(store_bytes(piece) + 1);
        memcpy(piece->data, part->pieces[i].data, store_bytes(piece));
        if (piece->slot != NULL)
            piece->slot = strdup(piece->slot);
        receipt->bytes += store_bytes(piece);
    }
    receipt->digest[0] = (uint8_t)part->shard;
    receipt->digest[1] = (uint8_t)part->step;
    store->saved++;
    return 0;
}

/* store_complete -- what was written is what the shards say. */
static int store_complete(void *context, const struct archive_model *model, const struct archive_state *state,
                          const struct archive_receipt *receipts)
{
    struct store *store = context;
    struct store_step *step = &store->steps[state->step];
    uint64_t bytes = 0, told = 0;

    for (size_t i = 0; i < step->count; i++)
        bytes += store_bytes(&step->pieces[i].array);
    for (uint32_t s = 0; s < state->shards; s++) {
        told += receipts[s].bytes;
        if (receipts[s].digest[0] != s || receipts[s].digest[1] != (uint8_t)state->step)
            return error_set(STEPGATE_EPROTOCOL, 0, "", "the receipt of ps %u is of another part", s);
    }
    if (bytes != told)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "%llu bytes are there, %llu were written",
                         (unsigned long long)bytes, (unsigned long long)told);
    archive_state_clear(&step->state);
    if (archive_state_copy(state, &step->state) != 0)
        return -STEPGATE_ENOMEM;
    memcpy(step->fingerprint, model->fingerprint, sizeof(step->fingerprint));
    step->complete = true;
    store->completed++;
    return 0;
}

/* store_find -- the newest one. */
static int store_find(void *context, const struct archive_model *model, uint64_t below,
                      struct archive_state *state)
{
    struct store *store = context;
    uint64_t end = below < STORE_STEPS_MAX + store->shift ? below - store->shift : STORE_STEPS_MAX;

    for (uint64_t s = end; s-- > 0;) {
        const struct store_step *step = &store->steps[s];
        if (!step->complete)
            continue;
        if (memcmp(step->fingerprint, model->fingerprint, sizeof(step->fingerprint)) != 0)
            return error_set(STEPGATE_EMISMATCH, 0, "", "the checkpoint is of another model %s", model->name);
        int status = archive_state_copy(&step->state, state);
        state->step += store->shift;
        return status;
    }
    if (below != UINT64_MAX)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "no checkpoint of %s can be read", model->name);
    return error_set(STEPGATE_ENOENT, 0, "", "there is no checkpoint of %s", model->name);
}

/* store_gather -- the elements of a piece, from all pieces that hold some. */
static uint64_t store_gather(const struct store_step *step, struct archive_piece *piece)
{
    uint64_t there = 0, end = piece->first_element + piece->elements;
    size_t element = model_dtype_bytes(piece->dtype);

    for (size_t i = 0; i < step->count; i++) {
        const struct archive_piece *from = &step->pieces[i].array;
        if (!store_same(from, piece))
            continue;
        uint64_t first =
                     from->first_element > piece->first_element ? from->first_element : piece->first_element,
                 last = from->first_element + from->elements;
        last = last < end ? last : end;
        if (first >= last)
            continue;
        memcpy((uint8_t *)piece->data + (first - piece->first_element) * element,
               (const uint8_t *)from->data + (first - from->first_element) * element,
               (size_t)(last - first) * element);
        there += last - first;
    }
    return there;
}

/* store_load -- all pieces of a part. */
static int store_load(void *context, struct archive_part *part)
{
    struct store *store = context;
    const struct store_step *step = &store->steps[part->step - store->shift];

    store->loaded++;
    for (size_t i = 0; i < part->count; i++) {
        struct archive_piece *piece = &part->pieces[i];
        uint64_t there = store_gather(step, piece);
        piece->there = piece->kind != ARCHIVE_AUX || there == piece->elements;
        /* what is found to be damaged is found late: something was read by then */
        if ((piece->there && there != piece->elements) || (step->damaged && i + 1 == part->count))
            return error_set(STEPGATE_EPROTOCOL, 0, "", "the part of step %llu is damaged",
                             (unsigned long long)part->step);
    }
    return 0;
}

/* store_token -- there is one store in a process. */
static const char *store_token(void *context)
{
    (void)context;
    return "the store";
}

/* store_seen -- see store_token. */
static int store_seen(void *context, const char *token)
{
    (void)context;
    return strcmp(token, "the store") == 0 ? 0 : error_set(STEPGATE_ENOENT, 0, "", "another store");
}

/* store_start -- see store.h. */
void store_start(struct store *store, uint64_t every_steps)
{
    *store = (struct store){.archive = {.context = store,
                                        .every_steps = every_steps,
                                        .save = store_save,
                                        .complete = store_complete,
                                        .find = store_find,
                                        .load = store_load,
                                        .token = store_token,
                                        .seen = store_seen}};
}

/* store_clear -- frees. */
void store_clear(struct store *store)
{
    for (size_t s = 0; s < STORE_STEPS_MAX; s++)
        store_forget(&store->steps[s]);
}

/* store_newest -- see store.h. */
uint64_t store_newest(const struct store *store)
{
    for (uint64_t s = STORE_STEPS_MAX; s-- > 0;)
        if (store->steps[s].complete)
            return s;
    return UINT64_MAX;
}
