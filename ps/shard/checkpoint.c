/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checkpoint -- this shard's part of checkpoints. The leader puts a copy between two commits, so every shard makes it at the same step: the lanes copy
 * everything that the next step depends on into memory that is kept for this; training goes on, and the copy is handed to the archive aside.
 */
#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/error.h"

/* checkpoint_narrow -- has any variable a master copy? */
static bool checkpoint_narrow(const struct model *m)
{
    for (size_t v = 0; v < m->count; v++)
        if (model_dtype_bytes(m->variables[v].dtype) < sizeof(float))
            return true;
    return false;
}

/* shard_checkpoint_bytes -- see inside.h. What is accumulated (tf) is no part of a checkpoint. */
uint64_t shard_checkpoint_bytes(const struct shard_model *model)
{
    const struct shard_config *config = &model->shard->config;
    const struct plan_shard *plan = &model->plan->shard[config->number];
    const struct model *m = model->model;
    uint64_t states = model_optimizer_slots(m) + checkpoint_narrow(m) + (m->average_decay > 0);

    if (config->archive == NULL)
        return 0;
    return plan->arena_bytes + states * plan->state_bytes + config->workers * plan->aux_bytes;
}

/* shard_checkpoint_room -- see inside.h. */
int shard_checkpoint_room(struct shard_model *model)
{
    struct board *board = &model->board;
    struct board_copy *copy = &model->checkpoint.copy;
    const struct plan_shard *plan = board->shard;
    int status = shard_place_private(model, plan->arena_bytes, &copy->parameters);

    for (unsigned s = 0; status == 0 && s < board->rule->slots; s++)
        status = shard_place_private(model, plan->state_bytes, &copy->state[s]);
    if (status == 0 && board->master != NULL)
        status = shard_place_private(model, plan->state_bytes, &copy->master);
    if (status == 0 && board->average != NULL)
        status = shard_place_private(model, plan->state_bytes, &copy->average);
    if (status != 0 || board->aux == NULL)
        return status;
    size_t there = (size_t)board->workers * model->model->count;
    copy->aux_there = calloc(there, 1);
    if (copy->aux_there == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a checkpoint of model %s",
                         model->model->name);
    return shard_place_private(model, plan->aux_bytes * board->workers, &copy->aux);
}

/* shard_checkpoint_delete -- what is not in arenas. */
void shard_checkpoint_delete(struct shard_model *model)
{
    free(model->checkpoint.copy.aux_there);
    free(model->checkpoint.pieces);
    free(model->description);
}

/* checkpoint_add -- one more piece. */
static int checkpoint_add(struct shard_checkpoint *checkpoint, const struct archive_piece *piece)
{
    if (checkpoint->piece_count == checkpoint->piece_room) {
        size_t room = checkpoint->piece_room > 0 ? 2 * checkpoint->piece_room : 64;
        struct archive_piece *more = realloc(checkpoint->pieces, room * sizeof(*more));
        if (more == NULL)
            return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the pieces of a checkpoint");
        checkpoint->pieces = more;
        checkpoint->piece_room = room;
    }
    checkpoint->pieces[checkpoint->piece_count++] = *piece;
    return 0;
}

/* checkpoint_states -- what there is of a piece beside its values: slots, the master copy, the average. */
static int checkpoint_states(struct shard_model *model, const struct board_copy *from,
                             const struct plan_piece *planned, struct archive_piece piece)
{
    const struct model_variable *v = &model->model->variables[planned->variable];
    const struct optimizer_rule *rule = model->board.rule;
    int status = 0;

    piece.dtype = v->dtype == STEPGATE_F64 ? STEPGATE_F64 : STEPGATE_F32;
    for (unsigned s = 0; status == 0 && s < rule->slots; s++) {
        piece.kind = ARCHIVE_SLOT;
        piece.slot = rule->slot_names[s];
        piece.data = from->state[s] + planned->state_offset;
        status = checkpoint_add(&model->checkpoint, &piece);
    }
    piece.slot = NULL;
    if (status == 0 && model_dtype_bytes(v->dtype) < sizeof(float)) {
        piece.kind = ARCHIVE_MASTERS;
        piece.data = from->master + planned->state_offset;
        status = checkpoint_add(&model->checkpoint, &piece);
    }
    if (status == 0 && v->average && from->average != NULL) {
        piece.kind = ARCHIVE_AVERAGES;
        piece.data = from->average + planned->state_offset;
        status = checkpoint_add(&model->checkpoint, &piece);
    }
    return status;
}

/* checkpoint_aux -- what each worker has of a piece. */
static int checkpoint_aux(struct shard_model *model, const struct board_copy *from,
                          const struct plan_piece *planned, struct archive_piece piece)
{
    const struct board *board = &model->board;
    int status = 0;

    piece.kind = ARCHIVE_AUX;
    for (piece.rank = 0; status == 0 && piece.rank < board->workers; piece.rank++) {
        piece.data = from->aux + piece.rank * board->shard->aux_bytes + planned->state_offset;
        piece.there = from->aux_there[board_aux(board, piece.rank, planned->variable)] != 0;
        status = checkpoint_add(&model->checkpoint, &piece);
    }
    return status;
}

/* checkpoint_pieces -- everything that this shard has, in arenas laid out like the board's. */
static int checkpoint_pieces(struct shard_model *model, const struct board_copy *from)
{
    const struct plan_shard *shard = model->board.shard;
    int status = 0;

    model->checkpoint.piece_count = 0;
    for (size_t p = shard->first_piece; status == 0 && p < shard->first_piece + shard->pieces; p++) {
        const struct plan_piece *planned = &model->plan->by_shard[p];
        const struct model_variable *v = &model->model->variables[planned->variable];
        struct archive_piece piece = {.kind = ARCHIVE_PARAMETERS,
                                      .variable = planned->variable,
                                      .first_element = planned->first_element,
                                      .elements = planned->elements,
                                      .dtype = v->dtype,
                                      .there = true};
        if (v->kind == STEPGATE_AUX) {
            status = checkpoint_aux(model, from, planned, piece);
            continue;
        }
        piece.data = from->parameters + planned->offset;
        status = checkpoint_add(&model->checkpoint, &piece);
        if (status == 0 && v->kind != STEPGATE_ASSIGNED && !v->frozen)
            status = checkpoint_states(model, from, planned, piece);
    }
    return status;
}

/* checkpoint_part -- this shard's, of the pieces that are listed. */
static struct archive_part checkpoint_part(const struct shard_model *model)
{
    return (struct archive_part){.model = model->model,
                                 .step = model->checkpoint.step,
                                 .shard = model->shard->config.number,
                                 .shards = model->shard->config.shards,
                                 .pieces = model->checkpoint.pieces,
                                 .count = model->checkpoint.piece_count};
}

/* checkpoint_over -- what went on aside ends with this status. */
static void checkpoint_over(struct shard_checkpoint *checkpoint, int status)
{
    checkpoint->status = status;
    if (status != 0)
        error_save(&checkpoint->error);
    atomic_store_explicit(&checkpoint->over, true,
                          memory_order_release); /* pairs with shard_checkpoint_progress */
}

/* checkpoint_write -- aside: the copy goes to the archive. */
static void checkpoint_write(void *what)
{
    struct shard_model *model = what;
    const struct archive *archive = model->shard->config.archive;
    int status = checkpoint_pieces(model, &model->checkpoint.copy);
    const struct archive_part part = checkpoint_part(model);

    if (status == 0)
        status = archive->save(archive->context, &part, &model->checkpoint.receipt);
    checkpoint_over(&model->checkpoint, status);
}

/* checkpoint_fill -- what was read of the others is in its place; this is not. */
static void checkpoint_fill(struct shard_model *model, const struct archive_part *part)
{
    struct board *board = &model->board;
    unsigned parity = (unsigned)(part->step & 1);

    /* Rows and what is frozen lie in both parities, until something is written. */
#ifndef STEPGATE_MUTANT_ONE_PARITY_READ
    memcpy(board->parameters[parity ^ 1u], board->parameters[parity], board->shard->arena_bytes);
#endif
    for (size_t i = 0; i < part->count; i++)
        if (part->pieces[i].kind == ARCHIVE_AUX)
            board->aux_there[board_aux(board, part->pieces[i].rank, part->pieces[i].variable)] =
                part->pieces[i].there;
}

/* checkpoint_read -- aside: everything comes from the archive into the model's own arenas, which nobody looks at yet. */
static void checkpoint_read(void *what)
{
    struct shard_model *model = what;
    const struct archive *archive = model->shard->config.archive;
    const struct board *board = &model->board;
    const struct board_copy to = {.parameters = board->parameters[model->checkpoint.step & 1],
                                  .state = {board->state[0], board->state[1]},
                                  .master = board->master,
                                  .average = board->average,
                                  .aux = board->aux,
                                  .aux_there = board->aux_there};
    int status = checkpoint_pieces(model, &to);
    struct archive_part part = checkpoint_part(model);

    if (status == 0)
        status = archive->load(archive->context, &part);
    if (status == 0)
        checkpoint_fill(model, &part);
    checkpoint_over(&model->checkpoint, status);
}

/* checkpoint_aside -- begins it; nothing else uses the pieces meanwhile. */
static void checkpoint_aside(struct shard_model *model, int keeping, uint64_t step)
{
    struct shard_checkpoint *checkpoint = &model->checkpoint;
    const struct shard_config *config = &model->shard->config;
    void (*work)(void *) = keeping == KEEPING_WRITE ? checkpoint_write : checkpoint_read;
    int status = 0;

    checkpoint->keeping = keeping;
    checkpoint->step = step;
    atomic_store_explicit(&checkpoint->over, false, memory_order_relaxed); /* nobody is aside */
    if (config->aside != NULL)
        status = config->aside(config->aside_context, work, model);
    else
        work(model);
    if (status != 0)
        checkpoint_over(checkpoint, status);
}

/* shard_checkpoint_begin -- see inside.h. */
bool shard_checkpoint_begin(struct shard_model *model, const struct message *take, uint64_t now)
{
    struct shard *shard = model->shard;

    if (shard->config.archive == NULL || model->phase != PHASE_RUNNING || model->step != take->step ||
        model->checkpoint.keeping != KEEPING_NOTHING) {
        error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                  "ps %u is to write a checkpoint of step %llu of model %s, which cannot be",
                  shard->config.number, (unsigned long long)take->step, model->model->name);
        shard_abort(shard, now);
        return false;
    }
    model->checkpoint.keeping = KEEPING_COPY;
    model->board.order.copy = &model->checkpoint.copy;
    return true;
}

/* shard_checkpoint_copied -- see inside.h. */
void shard_checkpoint_copied(struct shard_model *model, uint64_t now)
{
    checkpoint_aside(model, KEEPING_WRITE, model->step);
    shard_checkpoint_progress(model, now);
}

/* shard_checkpoint_restore -- see inside.h. The leader may be ahead of this shard, which has no memory for the model yet. */
void shard_checkpoint_restore(struct shard_model *model, const struct message *m, uint64_t now)
{
    if (model->shard->config.archive == NULL || model->phase == PHASE_RUNNING ||
        model->checkpoint.keeping != KEEPING_NOTHING) {
        error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                  "ps %u is to read a checkpoint of model %u, which cannot be", model->shard->config.number,
                  model->number);
        shard_abort(model->shard, now);
        return;
    }
    model->checkpoint.wanted = true;
    model->checkpoint.wanted_step = m->step;
}

/* checkpoint_tell -- the leader, what has become of it. */
static void checkpoint_tell(struct shard_model *model, int keeping, uint64_t now)
{
    struct shard_checkpoint *checkpoint = &model->checkpoint;
    struct message answer = {
        .kind = MESSAGE_CHECKPOINT_FAILED, .model = model->number, .step = checkpoint->step};

    if (checkpoint->status != 0) {
        answer.error = checkpoint->error;
    } else if (keeping == KEEPING_READ) {
        answer.kind = MESSAGE_RESTORED;
    } else {
        answer.kind = MESSAGE_CHECKPOINT_WRITTEN;
        answer.total = checkpoint->receipt.bytes;
        static_assert(sizeof(answer.fingerprint) == ARCHIVE_DIGEST_BYTES, "a digest travels as it is");
        memcpy(answer.fingerprint, checkpoint->receipt.digest, sizeof(answer.fingerprint));
    }
    if (model->shard->config.number == 0)
        leader_checkpoint_answer(model->shard, 0, &answer, now);
    else
        shard_post(model->shard, &model->shard->leader, &answer, now);
}

/* shard_checkpoint_progress -- see inside.h. */
int shard_checkpoint_progress(struct shard_model *model, uint64_t now)
{
    struct shard_checkpoint *checkpoint = &model->checkpoint;
    int keeping = checkpoint->keeping;

    if (keeping == KEEPING_NOTHING && checkpoint->wanted && model->phase == PHASE_INITIAL) {
        checkpoint->wanted = false;
        checkpoint_aside(model, KEEPING_READ, checkpoint->wanted_step);
        return 1;
    }
    if ((keeping != KEEPING_WRITE && keeping != KEEPING_READ) ||
        !atomic_load_explicit(&checkpoint->over, memory_order_acquire)) /* pairs with checkpoint_over */
        return 0;
    checkpoint->keeping = KEEPING_NOTHING;
    if (keeping == KEEPING_READ)
        checkpoint->restored = checkpoint->status == 0;
    checkpoint_tell(model, keeping, now);
    return 1;
}

/* checkpoint_send_aux -- one value, part by part. */
static void checkpoint_send_aux(struct shard_model *model, uint32_t rank, const struct plan_piece *piece,
                                uint64_t now)
{
    const struct board *board = &model->board;
    const uint8_t *value = board->aux + rank * board->shard->aux_bytes + piece->state_offset;
    struct message part;

    for (uint64_t at = 0; at < piece->bytes; at += part.length) {
        uint64_t left = piece->bytes - at;
        message_begin(&part, MESSAGE_AUX);
        part.model = model->number;
        part.what = piece->variable;
        part.offset = piece->first + at;
        part.length = (uint32_t)(left < MESSAGE_PART_BYTES ? left : MESSAGE_PART_BYTES);
        memcpy(part.part, value + at, part.length);
        shard_send(model->shard, rank, &part, now);
    }
}

/* shard_checkpoint_aux -- see inside.h. */
void shard_checkpoint_aux(struct shard_model *model, uint32_t w, uint64_t now)
{
    const struct message end = {.kind = MESSAGE_AUX, .model = model->number, .what = MESSAGE_EVERYTHING};
    const struct board *board = &model->board;
    bool some = false;

    for (size_t v = 0; v < model->model->count; v++)
        some = some || model->model->variables[v].kind == STEPGATE_AUX;
    if (!some)
        return;
    for (size_t i = 0; i < board->shard->pieces; i++) {
        const struct plan_piece *piece = &model->plan->by_shard[board->shard->first_piece + i];
        if (model->model->variables[piece->variable].kind == STEPGATE_AUX &&
            board->aux_there[board_aux(board, w, piece->variable)])
            checkpoint_send_aux(model, w, piece, now);
    }
    shard_send(model->shard, w, &end, now);
}

/* shard_checkpoints_busy -- see inside.h. */
bool shard_checkpoints_busy(const struct shard *shard)
{
    for (uint32_t m = 0; m < shard->model_end; m++) {
        if (shard->models[m] != NULL && (shard->models[m]->checkpoint.keeping == KEEPING_COPY ||
                                         shard->models[m]->checkpoint.keeping == KEEPING_WRITE))
            return true;
        if (shard->leads[m] != NULL && shard->leads[m]->checkpoint.making)
            return true;
    }
    return false;
}

/* shard_checkpoint_probe -- see inside.h. */
void shard_checkpoint_probe(struct shard *shard, const struct message *probe, uint64_t now)
{
    const struct archive *archive = shard->config.archive;
    int status = archive == NULL ? error_set(STEPGATE_EINVAL, 0, "give every ps the same --checkpoint",
                                             "ps 0 writes checkpoints, and ps %u has no folder for them",
                                             shard->config.number)
                                 : archive->seen(archive->context, probe->key);

    if (status != 0)
        shard_abort(shard, now);
}

/*
 * shard_parting -- see inside.h. The leader ends the job when every model has a checkpoint; the others wait for its word, a little longer than it may take.
 */
void shard_parting(struct shard *shard, uint64_t now)
{
    bool over = now >= shard->parting_until, lacks = false;

    if (!shard->parting || shard->ending)
        return;
    for (uint32_t m = 0; shard->config.number == 0 && m < shard->model_end; m++)
        lacks = lacks || (shard->leads[m] != NULL && shard->leads[m]->checkpoint.final != FINAL_NONE &&
                          shard->leads[m]->checkpoint.final != FINAL_DONE);
    if (!over && (lacks || shard->config.number != 0))
        return;
    if (lacks)
        log_line(&shard->config.log, LOG_WARN,
                 "there is no time left for a checkpoint: the job ends without one of its newest step");
    shard->parting = false;
    error_set(STEPGATE_ELOST, 0, "start the job again", "ps %u was stopped", shard->parting_ps);
    error_peer(STEPGATE_ROLE_PS, (int)shard->parting_ps,
               shard->parting_ps == shard->config.number ? shard->address : "", "");
    shard_abort(shard, now);
    shard->lingers = false; /* whoever stopped it waits for its end */
}
