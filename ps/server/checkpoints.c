/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/server/checkpoints.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ps/checkpoint/checkpoint.h"
#include "ps/protocol/model.h"
#include "transport/base/error.h"

static_assert(ARCHIVE_DIGEST_BYTES == TENSORS_DIGEST_BYTES, "a receipt has the digest of a file");

struct checkpoints {
    char dir[PATH_MAX];
    char token[CHECKPOINT_TOKEN_BYTES]; /* ps 0: of the file by which others see that the folder is theirs */
    int lock;                           /* ps 0: of the folder; -1: there is none */
    uint32_t number;
    unsigned keep;
    bool resume;
    struct log_sink log;
    struct archive archive;
};

/* -- Writing -- */

/* checkpoints_row -- elements of one row of a variable. */
static uint64_t checkpoints_row(const struct model_variable *v)
{
    return v->rank > 0 && v->dims[0] > 0 ? v->elements / v->dims[0] : 1;
}

/* checkpoints_name -- what the whole variable is called that a piece is of. */
static void checkpoints_name(const struct model *model, const struct archive_piece *piece,
                             char out[NAME_TENSOR_BYTES])
{
    const char *variable = model->variables[piece->variable].name;

    switch (piece->kind) {
    case ARCHIVE_AVERAGES: name_averages(variable, out); return;
    case ARCHIVE_MASTERS: name_masters(variable, out); return;
    case ARCHIVE_SLOT: name_slots(piece->slot, variable, out); return;
    case ARCHIVE_AUX: name_aux(piece->rank, variable, out); return;
    default: name_parameters(variable, out); return;
    }
}

/* checkpoints_entry -- a piece as an array of its own. */
static void checkpoints_entry(const struct model *model, const struct archive_piece *piece,
                              struct tensors_entry *out)
{
    const struct model_variable *v = &model->variables[piece->variable];

    checkpoints_name(model, piece, out->name);
    out->dtype = piece->dtype;
    out->rank = v->rank;
    memcpy(out->dims, v->dims, sizeof(out->dims));
    if (piece->elements < v->elements) {
        name_piece(out->name, piece->first_element / checkpoints_row(v), out->name);
        out->dims[0] = piece->elements / checkpoints_row(v);
    }
    out->data = piece->data;
    out->bytes = piece->elements * model_dtype_bytes(piece->dtype);
}

/* checkpoints_save -- see archive.h. */
static int checkpoints_save(void *context, const struct archive_part *part, struct archive_receipt *receipt)
{
    const struct checkpoints *checkpoints = context;
    struct tensors_entry *entries = calloc(part->count + 1, sizeof(*entries));
    char folder[PATH_MAX];
    struct manifest_file file;
    size_t count = 0;

    if (entries == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the names of %zu arrays", part->count);
    for (size_t i = 0; i < part->count; i++)
        if (part->pieces[i].there)
            checkpoints_entry(part->model, &part->pieces[i], &entries[count++]);
    int status = checkpoint_begin(checkpoints->dir, part->model->name, part->step, folder);
    if (status == 0) {
        status = checkpoint_write_shard(folder, part->model->name, part->step, part->shard, part->shards,
                                        entries, count, &file);
        if (status != 0)
            checkpoint_give_up(folder);
    }
    free(entries);
    if (status != 0)
        return status;
    receipt->bytes = file.bytes;
    memcpy(receipt->digest, file.digest, sizeof(receipt->digest));
    return 0;
}

/* checkpoints_folder -- of a step; it is there. */
static int checkpoints_folder(const struct checkpoints *checkpoints, const char *model, uint64_t step,
                              char out[PATH_MAX])
{
    char model_folder[NAME_FILE_BYTES], step_folder[NAME_FILE_BYTES];

    name_model(model, model_folder);
    name_step(step, step_folder);
    int length = snprintf(out, PATH_MAX, "%s/%s/%s", checkpoints->dir, model_folder, step_folder);
    if (length < 0 || length >= PATH_MAX)
        return error_set(STEPGATE_EINVAL, 0, "give a folder with a shorter name",
                         "the name of a checkpoint below %.200s is too long", checkpoints->dir);
    return 0;
}

/* checkpoints_bits32, checkpoints_bits64 -- of a number. */
static uint64_t checkpoints_bits32(float number)
{
    uint32_t bits;

    memcpy(&bits, &number, sizeof(bits));
    return bits;
}
static uint64_t checkpoints_bits64(double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof(bits));
    return bits;
}

/* checkpoints_powers -- as numbers of the model. */
static int checkpoints_powers(struct manifest *m, const struct optimizer_powers *powers)
{
    int status = manifest_add_number(m, MANIFEST_NO_RANK, "updates", powers->updates);

    if (status == 0)
        status =
            manifest_add_number(m, MANIFEST_NO_RANK, "beta1_power", checkpoints_bits32(powers->beta1_power));
    if (status == 0)
        status =
            manifest_add_number(m, MANIFEST_NO_RANK, "beta2_power", checkpoints_bits32(powers->beta2_power));
    if (status == 0)
        status = manifest_add_number(m, MANIFEST_NO_RANK, "wide_beta1_power",
                                     checkpoints_bits64(powers->wide_beta1_power));
    if (status == 0)
        status = manifest_add_number(m, MANIFEST_NO_RANK, "wide_beta2_power",
                                     checkpoints_bits64(powers->wide_beta2_power));
    return status;
}

/* What a worker's counters are called, in the order of struct archive_counts. */
static const char *const checkpoints_counters[] = {"accepted", "stale", "non_finite", "empty"};
#define CHECKPOINTS_COUNTERS (sizeof(checkpoints_counters) / sizeof(checkpoints_counters[0]))
static_assert(sizeof(struct archive_counts) == CHECKPOINTS_COUNTERS * sizeof(uint64_t), "each has a name");

/* checkpoints_history -- counters of workers, contributors of steps. */
static int checkpoints_history(struct manifest *m, const struct archive_state *state)
{
    int status = 0;

    for (uint32_t w = 0; state->counts != NULL && w < state->workers; w++) {
        uint64_t counts[CHECKPOINTS_COUNTERS];
        memcpy(counts, &state->counts[w], sizeof(counts));
        for (size_t i = 0; status == 0 && i < CHECKPOINTS_COUNTERS; i++)
            status = manifest_add_number(m, w, checkpoints_counters[i], counts[i]);
    }
    for (size_t i = 0; status == 0 && i < state->set_count; i++)
        status = manifest_add_set(m, state->sets[i].step, state->sets[i].ranks, state->sets[i].count);
    return status;
}

/* checkpoints_fill -- what the leader knows. */
static int checkpoints_fill(struct manifest *m, const struct archive_state *state,
                            const struct archive_receipt *receipts)
{
    m->step = state->step;
    m->shards = state->shards;
    m->workers = state->workers;
    int status = checkpoints_powers(m, &state->powers);
    if (status == 0)
        status = checkpoints_history(m, state);
    for (size_t i = 0; status == 0 && i < state->count; i++) {
        const struct archive_change *change = &state->changes[i];
        status = change->step <= state->step
                     ? manifest_add_key(m, change->key, change->value)
                     : manifest_add_change(m, change->step, change->key, change->value);
    }
    for (uint32_t s = 0; status == 0 && s < state->shards; s++) {
        struct manifest_file file = {.bytes = receipts[s].bytes};
        name_shard(s, state->shards, file.name);
        memcpy(file.digest, receipts[s].digest, sizeof(file.digest));
        status = manifest_add_file(m, &file);
    }
    return status;
}

/* checkpoints_prune -- what is too old goes; that it cannot is no fault of the new one. */
static void checkpoints_prune(const struct checkpoints *checkpoints, const char *model)
{
    struct stepgate_error error;

    if (checkpoint_prune(checkpoints->dir, model, checkpoints->keep, NULL) == 0)
        return;
    error_save(&error);
    log_line(&checkpoints->log, LOG_WARN, "an old checkpoint of model %s stays: %s", model, error.text);
}

/* checkpoints_complete -- see archive.h. */
static int checkpoints_complete(void *context, const struct archive_model *declared,
                                const struct archive_state *state, const struct archive_receipt *receipts)
{
    const struct checkpoints *checkpoints = context;
    struct manifest m = {0};
    struct model *model;
    char folder[PATH_MAX];
    int status = model_unpack(declared->description, declared->bytes, &model);

    if (status != 0)
        return status;
    status = manifest_describe(&m, model);
    model_delete(&model);
    if (status == 0)
        status = checkpoints_fill(&m, state, receipts);
    if (status == 0)
        status = checkpoints_folder(checkpoints, declared->name, state->step, folder);
    if (status == 0)
        status = checkpoint_finish(folder, &m);
    manifest_clear(&m);
    if (status == 0) {
        /* every ps has seen the probe: each has written its file */
        checkpoint_probe_end(checkpoints->dir, checkpoints->token);
        checkpoints_prune(checkpoints, declared->name);
    }
    return status;
}

/* -- Reading -- */

/* checkpoints_number -- one that must be there. */
static int checkpoints_number(const struct manifest *m, const char *name, void *out, size_t bytes)
{
    uint64_t bits;

    if (!manifest_number(m, MANIFEST_NO_RANK, name, &bits))
        return error_set(STEPGATE_EPROTOCOL, 0, "", "its manifest has no %s", name);
    memcpy(out, &bits, bytes); /* little-endian machines only */
    return 0;
}

/* checkpoints_past -- counters of workers, if they are there, and contributors of steps. */
static int checkpoints_past(const struct manifest *m, struct archive_state *state)
{
    int status = 0;

    state->counts = calloc(m->workers + 1u, sizeof(*state->counts));
    if (state->counts == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the counters of %u workers", m->workers);
    for (size_t i = 0; i < m->number_count; i++) {
        const struct manifest_number *n = &m->numbers[i];
        for (size_t k = 0; n->rank < m->workers && k < CHECKPOINTS_COUNTERS; k++)
            if (strcmp(n->name, checkpoints_counters[k]) == 0)
                memcpy((uint64_t *)(void *)&state->counts[n->rank] + k, &n->bits, sizeof(n->bits));
    }
    for (size_t i = 0; status == 0 && i < m->set_count; i++)
        status = archive_state_add_set(state, m->sets[i].step, m->sets[i].ranks, m->sets[i].count);
    return status;
}

/* checkpoints_state -- what the leader begins with. */
static int checkpoints_state(const struct manifest *m, struct archive_state *out)
{
    struct archive_state state = {.step = m->step, .shards = m->shards, .workers = m->workers};
    struct optimizer_powers *powers = &state.powers;
    int status = checkpoints_number(m, "updates", &powers->updates, sizeof(powers->updates));

    if (status == 0)
        status = checkpoints_number(m, "beta1_power", &powers->beta1_power, sizeof(powers->beta1_power));
    if (status == 0)
        status = checkpoints_number(m, "beta2_power", &powers->beta2_power, sizeof(powers->beta2_power));
    if (status == 0)
        status = checkpoints_number(m, "wide_beta1_power", &powers->wide_beta1_power,
                                    sizeof(powers->wide_beta1_power));
    if (status == 0)
        status = checkpoints_number(m, "wide_beta2_power", &powers->wide_beta2_power,
                                    sizeof(powers->wide_beta2_power));
    if (status != 0)
        return status;
    state.changes = calloc(m->key_count + m->change_count + 1, sizeof(*state.changes));
    status = state.changes == NULL
                 ? error_set(STEPGATE_ENOMEM, 0, "", "no memory for changes of hyper-parameters")
                 : checkpoints_past(m, &state);
    if (status != 0) {
        archive_state_clear(&state);
        return status;
    }
    for (size_t i = 0; i < m->key_count + m->change_count; i++) {
        bool now = i < m->key_count;
        const struct manifest_key *key = now ? &m->keys[i] : &m->changes[i - m->key_count];
        struct archive_change *change = &state.changes[state.count++];
        static_assert(MANIFEST_WORD_BYTES <= MESSAGE_TEXT_BYTES, "what was written travels");
        change->step = now ? m->step : key->step;
        memcpy(change->key, key->key, sizeof(key->key));
        memcpy(change->value, key->value, sizeof(key->value));
    }
    *out = state;
    return 0;
}

/* checkpoints_differ -- words how the model of a checkpoint is not the one of the job. */
static int checkpoints_differ(const struct checkpoints *checkpoints, const struct manifest *m,
                              const struct archive_model *declared)
{
    char difference[320] = "in a way that cannot be told";
    struct model *then = NULL, *now = NULL;

    if (model_unpack(m->description, m->description_bytes, &then) == 0 &&
        model_unpack(declared->description, declared->bytes, &now) == 0)
        model_difference(now, then, difference, sizeof(difference));
    model_delete(&then);
    model_delete(&now);
    return error_set(STEPGATE_EMISMATCH, 0,
                     "give another folder (--checkpoint) to begin anew, or declare the model as it was",
                     "the checkpoint of step %llu in %.200s is of another model %s: %s",
                     (unsigned long long)m->step, checkpoints->dir, declared->name, difference);
}

/* checkpoints_take -- is this the one? ENOENT: no, look for an older one. */
static int checkpoints_take(const struct checkpoints *checkpoints, const struct checkpoint_entry *entry,
                            const struct archive_model *declared, struct archive_state *out)
{
    struct stepgate_error error;
    struct manifest m;
    int status = manifest_read(entry->folder, &m);

    if (status == 0 && memcmp(m.fingerprint, declared->fingerprint, sizeof(m.fingerprint)) != 0) {
        status = checkpoints_differ(checkpoints, &m, declared);
        manifest_clear(&m);
        return status;
    }
    if (status == 0) {
        status = checkpoints_state(&m, out);
        manifest_clear(&m);
    }
    if (status == 0 || status == -STEPGATE_ENOMEM)
        return status;
    error_save(&error);
    log_line(&checkpoints->log, LOG_WARN, "model %s: the checkpoint of step %llu is not taken: %s",
             declared->name, (unsigned long long)entry->step, error.text);
    return -STEPGATE_ENOENT;
}

/* checkpoints_refuse -- a job that begins anew does not write over what another one has left. */
static int checkpoints_refuse(const struct checkpoints *checkpoints, const struct checkpoint_entry *entry)
{
    return error_set(
        STEPGATE_EINVAL, 0, "give another folder, or leave out --no-resume to go on from what is there",
        "%.200s has a checkpoint of model %s already, of step %llu, and the job is to begin anew",
        checkpoints->dir, entry->model, (unsigned long long)entry->step);
}

/* checkpoints_choose -- the newest one of the list below that step. */
static int checkpoints_choose(const struct checkpoints *checkpoints, const struct checkpoint_list *list,
                              const struct archive_model *declared, uint64_t below, struct archive_state *out)
{
    bool refused = below != UINT64_MAX;

    for (size_t i = 0; i < list->count; i++) {
        const struct checkpoint_entry *entry = &list->entries[i];
        if (entry->step >= below || entry->state == CHECKPOINT_PARTIAL)
            continue;
        if (!checkpoints->resume && entry->state == CHECKPOINT_COMPLETE)
            return checkpoints_refuse(checkpoints, entry);
        if (!checkpoints->resume)
            continue;
        refused = true;
        if (entry->state != CHECKPOINT_COMPLETE) {
            log_line(&checkpoints->log, LOG_WARN, "model %s: the checkpoint of step %llu is not taken: %s",
                     entry->model, (unsigned long long)entry->step, entry->why);
            continue;
        }
        int status = checkpoints_take(checkpoints, entry, declared, out);
        if (status != -STEPGATE_ENOENT)
            return status;
    }
    if (refused)
        return error_set(
            STEPGATE_EPROTOCOL, 0,
            "put a sound checkpoint there (stepgate-ckpt verify says what is wrong with each), or "
            "give another folder to begin anew",
            "none of the checkpoints of model %s in %.200s can be read", declared->name, checkpoints->dir);
    return error_set(STEPGATE_ENOENT, 0, "", "there is no checkpoint of model %s", declared->name);
}

/* checkpoints_find -- see archive.h. */
static int checkpoints_find(void *context, const struct archive_model *declared, uint64_t below,
                            struct archive_state *state)
{
    const struct checkpoints *checkpoints = context;
    struct checkpoint_list list;
    int status = checkpoint_list(checkpoints->dir, declared->name, &list);

    if (status != 0)
        return status == -STEPGATE_ENOENT
                   ? error_set(STEPGATE_ESYSTEM, 0, "leave the folder where it is while the job runs",
                               "the folder of checkpoints, %.200s, is gone", checkpoints->dir)
                   : status;
    status = checkpoints_choose(checkpoints, &list, declared, below, state);
    checkpoint_list_clear(&list);
    return status;
}

/* checkpoints_sound -- the files are as the manifest says: each ps looks at its share of them. */
static int checkpoints_sound(const struct manifest *m, const char *folder, const struct archive_part *part)
{
    for (size_t i = part->shard; i < m->file_count; i += part->shards) {
        uint8_t digest[TENSORS_DIGEST_BYTES];
        char path[PATH_MAX + NAME_FILE_BYTES];
        uint64_t bytes;
        snprintf(path, sizeof(path), "%s/%s", folder, m->files[i].name);
        int status = tensors_digest(path, digest, &bytes);
        if (status != 0)
            return status;
        if (memcmp(digest, m->files[i].digest, sizeof(digest)) != 0)
            return error_set(STEPGATE_EPROTOCOL, 0, "",
                             "%s is damaged: it has not the SHA-256 of the manifest", m->files[i].name);
    }
    return 0;
}

/* checkpoints_fetch -- one piece, from whichever files hold it. */
static int checkpoints_fetch(const struct checkpoint *checkpoint, const struct model *model,
                             struct archive_piece *piece)
{
    char name[NAME_TENSOR_BYTES];

    checkpoints_name(model, piece, name);
    /* Not every worker of now was there then, or has handed in a value. */
    piece->there = piece->kind != ARCHIVE_AUX || checkpoint_find(checkpoint, name) != NULL;
    if (!piece->there)
        return 0;
    return checkpoint_read(checkpoint, name, piece->dtype, piece->first_element, piece->elements,
                           piece->data);
}

/* checkpoints_load -- see archive.h. */
static int checkpoints_load(void *context, struct archive_part *part)
{
    const struct checkpoints *checkpoints = context;
    struct checkpoint *checkpoint = NULL;
    char folder[PATH_MAX];
    int status = checkpoints_folder(checkpoints, part->model->name, part->step, folder);

    if (status == 0)
        status = checkpoint_open(folder, &checkpoint);
    if (status != 0)
        return status;
    status = checkpoints_sound(checkpoint_manifest(checkpoint), folder, part);
    for (size_t i = 0; status == 0 && i < part->count; i++)
        status = checkpoints_fetch(checkpoint, part->model, &part->pieces[i]);
    checkpoint_close(&checkpoint);
    return status;
}

/* -- Where it is -- */

/* checkpoints_token -- see archive.h. */
static const char *checkpoints_token(void *context)
{
    const struct checkpoints *checkpoints = context;

    return checkpoints->token;
}

/* checkpoints_seen -- see archive.h. */
static int checkpoints_seen(void *context, const char *token)
{
    const struct checkpoints *checkpoints = context;

    return checkpoint_probe_seen(checkpoints->dir, token);
}

/* checkpoints_idle -- a knob that does nothing without a folder. */
static int checkpoints_idle(const struct knobs *knobs)
{
    const char *idle = knob_int(knobs, "checkpoint_steps") > 0     ? "checkpoint_steps"
                       : knob_int(knobs, "checkpoint_seconds") > 0 ? "checkpoint_seconds"
                                                                   : NULL;

    if (idle == NULL)
        return 0;
    return error_set(STEPGATE_EINVAL, 0, "say where with --checkpoint DIR",
                     "%s is given, and no folder for checkpoints", idle);
}

/* checkpoints_take_folder -- ps 0 takes it for its job, and leaves a file that the others look for; they only look whether they can write there. */
static int checkpoints_take_folder(struct checkpoints *checkpoints, const char *job)
{
    char who[256], host[128] = "";
    int status = 0;

    if (checkpoints->number == 0) {
        (void)gethostname(host, sizeof(host) - 1);
        snprintf(who, sizeof(who), "by job %.64s, ps 0 on %s, process %ld", job, host, (long)getpid());
        status = checkpoint_lock(checkpoints->dir, who, &checkpoints->lock);
        if (status == 0 && checkpoints->lock >= 0)
            checkpoint_probe_sweep(checkpoints->dir);
        else if (status == 0)
            log_line(&checkpoints->log, LOG_WARN,
                     "the file system of %.200s has no locks: see that no other job writes there",
                     checkpoints->dir);
    }
    if (status == 0)
        status = checkpoint_probe(checkpoints->dir, checkpoints->token);
    if (status == 0 && checkpoints->number != 0) {
        checkpoint_probe_end(checkpoints->dir, checkpoints->token);
        checkpoints->token[0] = 0;
    }
    return status;
}

/* checkpoints_open -- see checkpoints.h. */
int checkpoints_open(const struct knobs *knobs, uint32_t number, struct checkpoints **out)
{
    const char *dir = knob_text(knobs, "checkpoint");

    if (dir == NULL || dir[0] == 0)
        return checkpoints_idle(knobs);
    struct checkpoints *checkpoints = calloc(1, sizeof(*checkpoints));
    if (checkpoints == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for checkpoints");
    *checkpoints =
        (struct checkpoints){.lock = -1,
                             .number = number,
                             .keep = (unsigned)knob_int(knobs, "keep"),
                             .resume = knob_bool(knobs, "resume"),
                             .log = knobs->log,
                             .archive = {.context = checkpoints,
                                         .every_steps = (uint64_t)knob_int(knobs, "checkpoint_steps"),
                                         .every_ms = INT64_C(1000) * knob_int(knobs, "checkpoint_seconds"),
                                         .save = checkpoints_save,
                                         .complete = checkpoints_complete,
                                         .find = checkpoints_find,
                                         .load = checkpoints_load,
                                         .token = checkpoints_token,
                                         .seen = checkpoints_seen}};
    int length = snprintf(checkpoints->dir, sizeof(checkpoints->dir), "%s", dir);
    int status = length >= PATH_MAX ? error_set(STEPGATE_EINVAL, 0, "give a shorter name",
                                                "the name of the folder for checkpoints is too long")
                                    : checkpoints_take_folder(checkpoints, knob_text(knobs, "job"));
    if (status != 0) {
        checkpoint_unlock(&checkpoints->lock);
        free(checkpoints);
        return status;
    }
    *out = checkpoints;
    return 0;
}

/* checkpoints_close -- see checkpoints.h. */
void checkpoints_close(struct checkpoints **out)
{
    struct checkpoints *checkpoints = *out;

    if (checkpoints == NULL)
        return;
    if (checkpoints->token[0] != 0)
        checkpoint_probe_end(checkpoints->dir, checkpoints->token);
    checkpoint_unlock(&checkpoints->lock);
    free(checkpoints);
    *out = NULL;
}

/* checkpoints_archive -- see checkpoints.h. */
const struct archive *checkpoints_archive(const struct checkpoints *checkpoints)
{
    return checkpoints != NULL ? &checkpoints->archive : NULL;
}
