/* SPDX-License-Identifier: BSD-3-Clause */
/* place -- how a model comes in, is checked against every worker's, and gets its memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/base/pages.h"

#define PLACE_MODEL_BYTES_MAX (UINT64_C(1) << 30) /* of a model's description */
#define PLACE_PAGE UINT64_C(4096)
#define PLACE_SAY (UINT64_C(1) << 30) /* of so much memory it is said how far it is */

/* shard_model_get -- see inside.h. */
struct shard_model *shard_model_get(struct shard *shard, uint32_t number, uint64_t now)
{
    struct shard_model *model = shard->models[number];

    if (model != NULL)
        return model;
    model = calloc(1, sizeof(*model));
    if (model != NULL)
        model->shares = calloc(shard->config.workers, sizeof(*model->shares));
    if (model == NULL || model->shares == NULL ||
        (shard->config.number == 0 && shard->leads[number] == NULL && leader_model_new(shard, number) != 0)) {
        if (model != NULL)
            free(model->shares);
        free(model);
        error_set(STEPGATE_ENOMEM, 0, "", "no memory for model %u", number);
        shard_abort(shard, now);
        return NULL;
    }
    model->shard = shard;
    model->number = number;
    model->report_at = model->late_at = CLOCK_NEVER;
    shard->models[number] = model;
    if (shard->model_end <= number)
        shard->model_end = number + 1;
    return model;
}

/* shard_model_delete -- frees, sets NULL; lanes are gone by then. */
void shard_model_delete(struct shard_model **out)
{
    struct shard_model *model = *out;

    if (model == NULL)
        return;
    for (uint32_t w = 0; w < model->shard->config.workers; w++) {
        struct shard_share *share = &model->shares[w];
        if (share->region != NULL)
            share->region->transport->region_delete(&share->region);
        free(share->parts);
        free(share->absent);
        free(share->seals);
    }
    /* the first fabric's region owns the memory that the other one has registered */
    for (int f = LANE_FABRICS_MAX - 1; f >= 0; f--)
        if (model->parameters[f] != NULL)
            model->parameters[f]->transport->region_delete(&model->parameters[f]);
    for (size_t i = 0; i < model->memory_count; i++)
        munmap(model->memory[i].address, model->memory[i].bytes);
    free(model->memory);
    free(model->orders);
    free(model->tunes.list);
    shard_checkpoint_delete(model);
    free(model->board.aux_there);
    free(model->board.slots);
    free(model->board.order.set);
    free(model->board.measures);
    free(model->board.applied);
    free(model->board.arrived);
    free(model->shares);
    plan_delete(&model->plan);
    model_delete(&model->model);
    free(model);
    *out = NULL;
}

/* shard_model_part -- a piece of a model's description. */
void shard_model_part(struct shard *shard, uint32_t rank, const struct message *m, uint64_t now)
{
    struct shard_model *model = shard_model_get(shard, m->model, now);

    if (model == NULL)
        return;
    struct shard_share *share = &model->shares[rank];
    if (share->parts == NULL && m->total > 0 && m->total <= PLACE_MODEL_BYTES_MAX) {
        share->parts = malloc(m->total);
        share->parts_total = m->total;
        share->parts_there = 0;
    }
    if (share->parts == NULL || m->total != share->parts_total || m->offset != share->parts_there ||
        m->length == 0 || m->length > share->parts_total - share->parts_there || share->told) {
        error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                  "worker %u sent a part of model %u that does not fit", rank, m->model);
        shard_abort(shard, now);
        return;
    }
    memcpy(share->parts + share->parts_there, m->part, m->length);
    share->parts_there += m->length;
    if (rank == 0 || !share->asked || share->parts_there < share->parts_total)
        return;
    struct model *other;
    char difference[320] = "in a way that cannot be told";
    if (model_unpack(share->parts, share->parts_total, &other) == 0) {
        model_difference(model->model, other, difference, sizeof(difference));
        model_delete(&other);
    }
    error_set(STEPGATE_EMISMATCH, 0, "declare the same model in every worker",
              "the model of worker %u differs: %s", rank, difference);
    error_peer(STEPGATE_ROLE_WORKER, (int)rank, "", "");
    shard_abort(shard, now);
}

/* place_networked -- does a worker's connection copy, rather than map, what it carries? */
static bool place_networked(const struct shard *shard)
{
    for (uint32_t w = 0; w < shard->config.workers; w++) {
        struct stepgate_endpoint *endpoint = shard->members[w].control.endpoint;
        struct stepgate_capabilities has = {.size = sizeof(has)};
        if (endpoint != NULL && endpoint->transport->endpoint_capabilities(endpoint, &has) == 0 &&
            (has.can & STEPGATE_CAN_MAP) == 0)
            return true;
    }
    return false;
}

/* place_ahead -- is what has arrived of a step summed while the rest of it is under way? Only where it is certain to be in the step's set. */
static bool place_ahead(const struct shard_model *model)
{
    const struct shard *shard = model->shard;
    uint32_t workers = shard->config.workers;
    int policy = model->model->non_finite;

    if (shard->config.ahead == SHARD_AHEAD_OFF || workers < 2 || shard_late_some(shard) ||
        !model_lockstep(model->model, workers) || model_replicas(model->model, workers) != workers ||
        (policy != MODEL_PROPAGATE && policy != MODEL_FAIL))
        return false;
    return shard->config.ahead == SHARD_AHEAD_ON || (workers > 2 && place_networked(shard));
}

/* place_states -- how many state arenas there are: optimizer slots, master copies, averages, accumulators, sums made ahead. */
static uint32_t place_states(const struct shard_model *model)
{
    const struct model *m = model->model;
    bool narrow = false;

    for (size_t v = 0; v < m->count; v++)
        narrow = narrow || model_dtype_bytes(m->variables[v].dtype) < sizeof(float);
    return model_optimizer_slots(m) + narrow + (m->average_decay > 0) + (m->update == MODEL_TF) +
           model->ahead;
}

/* place_fits -- is there so much memory, and may so much of it be registered? */
static int place_fits(const struct shard_model *model, uint64_t total, uint64_t registered)
{
    const struct shard *shard = model->shard;
    uint64_t there = shard->config.memory_available != NULL ? shard->config.memory_available() : UINT64_MAX;
    uint64_t lockable = shard->config.memory_lockable != NULL ? shard->config.memory_lockable() : UINT64_MAX;

    if (total > there)
        return error_set(STEPGATE_ELIMIT, 0, "use more ps on more hosts, or free memory",
                         "model %s needs %llu MiB on ps %u, %llu MiB are available", model->model->name,
                         (unsigned long long)(total >> 20), shard->config.number,
                         (unsigned long long)(there >> 20));
    registered += shard->stats.memory_registered; /* of other models */
    if (registered > lockable && place_networked(shard))
        return error_set(STEPGATE_ELIMIT, 0, "ulimit -l unlimited, or --ulimit memlock=-1 for a container",
                         "with model %s ps %u registers %llu KiB, the memlock limit is %llu KiB",
                         model->model->name, shard->config.number,
                         (unsigned long long)(registered + 1023) >> 10, (unsigned long long)(lockable >> 10));
    return 0;
}

/* place_formula -- the memory that the model takes here, said before it is taken, and refused when it is not there. */
static int place_formula(struct shard_model *model)
{
    struct shard *shard = model->shard;
    const struct model *m = model->model;
    const struct plan_shard *plan = &model->plan->shard[shard->config.number];
    uint32_t states = place_states(model), workers = shard->config.workers;
    uint64_t registered = 2 * plan->arena_bytes + (uint64_t)model->depth * workers * plan->slot_bytes;
    uint64_t kept = shard_checkpoint_bytes(model);
    uint64_t total = registered + states * plan->state_bytes + workers * plan->aux_bytes + kept;
    char checkpoint[48] = "";

    if (kept > 0)
        snprintf(checkpoint, sizeof(checkpoint), " + checkpoint %llu", (unsigned long long)kept);

    log_line(&shard->config.log, LOG_INFO,
             "model %s, update %s, R %u of T %u, optimizer %s%s%s: memory 2 parameters x %llu + %u states x "
             "%llu + %u x %u "
             "workers' slots x %llu + %u x %llu aux%s = %llu bytes (%.1f MiB), %llu of them registered",
             m->name, model_update_name(m->update), model_replicas(m, workers), workers,
             model_optimizer_name(m), m->torch ? " (torch)" : "", model->ahead ? ", summed ahead" : "",
             (unsigned long long)plan->arena_bytes, states, (unsigned long long)plan->state_bytes,
             model->depth, workers, (unsigned long long)plan->slot_bytes, workers,
             (unsigned long long)plan->aux_bytes, checkpoint, (unsigned long long)total,
             (double)total / 1048576.0, (unsigned long long)registered);
    int status = place_fits(model, total, registered);
    if (status != 0)
        return status;
    shard->stats.memory_promised += total;
    model->memory_total = total;
    shard->stats.memory_registered += registered;
    return 0;
}

/* place_got -- so many bytes are there; of a large model it is said now and then. */
static void place_got(struct shard_model *model, uint64_t bytes)
{
    uint64_t step = model->memory_total / 8 > PLACE_SAY ? model->memory_total / 8 : PLACE_SAY;

    model->memory_got += bytes;
    if (model->memory_got - model->memory_said < step)
        return;
    model->memory_said = model->memory_got;
    log_line(&model->shard->config.log, LOG_INFO, "model %s: %llu of %llu MiB of memory are there",
             model->model->name, (unsigned long long)(model->memory_got >> 20),
             (unsigned long long)(model->memory_total >> 20));
}

/* place_parameters -- both parities, and the words of readers, in one region per fabric, over the same memory. */
static int place_parameters(struct shard_model *model)
{
    struct shard *shard = model->shard;
    uint64_t arena = model->plan->shard[shard->config.number].arena_bytes;
    uint64_t half = (arena + 2 * PLACE_PAGE - 1) / PLACE_PAGE * PLACE_PAGE;
    struct stepgate_region_options options = {.size = sizeof(options),
                                              .access = STEPGATE_ACCESS_READ,
                                              .length =
                                                  2 * half + shard->config.lanes * sizeof(struct slot_words)};

    model->parity_offset[0] = slot_skew(1);
    model->parity_offset[1] = half + slot_skew(2);
    model->words_offset = 2 * half;
    for (unsigned f = 0; f < LANE_FABRICS_MAX && shard->config.fabrics[f].fabric != NULL; f++) {
        const struct stepgate_transport_v1 *transport = shard->config.fabrics[f].fabric->transport;
        int status = transport->region_new(shard->shared[f], &options, &model->parameters[f]);
        if (status != 0)
            return status;
        options.address = model->parameters[0]->address;
    }
    place_got(model, 2 * arena);
    for (int p = 0; p < 2; p++)
        model->board.parameters[p] = (uint8_t *)model->parameters[0]->address + model->parity_offset[p];
    model->board.words =
        (struct slot_words *)(void *)((uint8_t *)model->parameters[0]->address + model->words_offset);
    return 0;
}

/* shard_place_private -- an arena of private memory, zeroed, at its own place in its page. */
int shard_place_private(struct shard_model *model, uint64_t bytes, uint8_t **out)
{
    struct shard_memory *more = realloc(model->memory, (model->memory_count + 1) * sizeof(*more));
    uint64_t length;

    if (more != NULL)
        model->memory = more;
    void *memory = more != NULL ? pages_map(bytes + PLACE_PAGE, &length) : NULL;
    if (memory == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "use more ps, or free memory",
                         "no memory for %llu bytes of model %s", (unsigned long long)(bytes + PLACE_PAGE),
                         model->model->name);
    *out = (uint8_t *)memory + slot_skew(model->memory_count + 3);
    model->memory[model->memory_count++] = (struct shard_memory){memory, length};
    place_got(model, bytes);
    return 0;
}

/* place_state -- optimizer slots, masters, averages, accumulators, and what workers keep for themselves. */
static int place_state(struct shard_model *model)
{
    const struct plan_shard *plan = &model->plan->shard[model->shard->config.number];
    const struct model *m = model->model;
    struct board *board = &model->board;
    bool narrow = false;
    int status = 0;

    for (size_t v = 0; v < m->count; v++)
        narrow = narrow || model_dtype_bytes(m->variables[v].dtype) < sizeof(float);
    for (unsigned i = 0; status == 0 && i < board->rule->slots; i++)
        status = shard_place_private(model, plan->state_bytes, &board->state[i]);
    if (status == 0 && narrow)
        status = shard_place_private(model, plan->state_bytes, &board->master);
    if (status == 0 && m->average_decay > 0)
        status = shard_place_private(model, plan->state_bytes, &board->average);
    if (status == 0 && m->update == MODEL_TF)
        status = shard_place_private(model, plan->state_bytes, &board->sums);
    if (status == 0 && model->ahead)
        status = shard_place_private(model, plan->state_bytes, &board->ahead);
    if (status == 0 && plan->aux_bytes > 0) {
        status = shard_place_private(model, plan->aux_bytes * board->workers, &board->aux);
        board->aux_there = calloc((size_t)board->workers * m->count, 1);
        if (status == 0 && board->aux_there == NULL)
            status =
                error_set(STEPGATE_ENOMEM, 0, "", "no memory for the aux variables of model %s", m->name);
    }
    if (status == 0 && model->shard->config.archive != NULL)
        status = shard_checkpoint_room(model);
    return status;
}

/* place_board -- what the lanes are given. */
static int place_board(struct shard_model *model)
{
    struct shard *shard = model->shard;
    struct board *board = &model->board;
    const struct plan_shard *plan = &model->plan->shard[shard->config.number];

    board->model = model->number;
    board->workers = shard->config.workers;
    board->lanes = shard->config.lanes;
    board->depth = model->depth;
    board->declared = model->model;
    board->plan = model->plan;
    board->shard = plan;
    board->rule = optimizer_rule(model->model->optimizer, model->model->torch);
    board->kind = shard->config.kernels;
    board->stream = shard->config.cache_bytes > 0 && plan->arena_bytes > shard->config.cache_bytes;
    board->stride = slot_stride(plan->slot_bytes);
    size_t contributions = (size_t)board->workers * board->depth;
    board->slots = calloc(board->workers, sizeof(*board->slots));
    board->order.set = calloc(contributions, sizeof(*board->order.set));
    board->measures = calloc(board->lanes, sizeof(*board->measures));
    board->applied = calloc(board->lanes, sizeof(*board->applied));
    board->arrived = calloc(board->lanes * contributions, sizeof(*board->arrived));
    if (board->slots == NULL || board->order.set == NULL || board->measures == NULL ||
        board->applied == NULL || board->arrived == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the board of model %s", model->model->name);
    for (uint32_t l = 0; l < board->lanes; l++) {
        bool active = false;
        for (uint32_t g = 0; g < plan->groups; g++)
            active = active || plan->spans[g][l].fragments > 0;
        board->active_lanes += active;
    }
    return 0;
}

/* shard_place_slot -- see inside.h. Worker 0's takes the initial values, too. */
int shard_place_slot(struct shard_model *model, uint32_t rank)
{
    struct shard *shard = model->shard;
    struct shard_member *member = &shard->members[rank];
    struct shard_share *share = &model->shares[rank];
    const struct plan_shard *plan = &model->plan->shard[shard->config.number];
    uint64_t headers = slot_header_offset(shard->config.lanes, model->depth, 0, 0);
    uint64_t arenas = model->depth * model->board.stride;
    if (rank == 0 && arenas < plan->arena_bytes)
        arenas = plan->arena_bytes;
    const struct stepgate_region_options options = {
        .size = sizeof(options), .access = STEPGATE_ACCESS_WRITE, .length = headers + PLACE_PAGE + arenas};

    share->seals = calloc(2u * model->depth, sizeof(*share->seals));
    size_t bitmap = model->model->update == MODEL_TF ? (model->model->count + 7) / 8 : 0;
    share->absent = bitmap > 0 ? calloc(2u * model->depth, bitmap) : NULL;
    for (uint32_t i = 0; share->seals != NULL && share->absent != NULL && i < 2u * model->depth; i++)
        share->seals[i].absent = share->absent + i * bitmap;
    if (share->seals == NULL || (bitmap > 0 && share->absent == NULL))
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for worker %u", rank);
    int status = member->domain->transport->region_new(member->domain, &options, &share->region);
    if (status != 0)
        return status;
    place_got(model, (uint64_t)model->depth * plan->slot_bytes);
    struct board_slots *slots = &model->board.slots[rank];
    uint8_t *start = share->region->address;
    slots->headers = start;
    slots->arena = start + headers + (slot_skew(rank + 4u) - headers) % PLACE_PAGE;
    slots->incarnation = member->control.theirs.incarnation;
    return 0;
}

/* place_memory -- what takes long: parameters, state, slots. */
static int place_memory(struct shard_model *model)
{
    int status = place_parameters(model);

    if (status == 0)
        status = place_state(model);
    for (uint32_t w = 0; status == 0 && w < model->shard->config.workers; w++)
        if (!model->shares[w].late)
            status = shard_place_slot(model, w);
    return status;
}

/* place_aside -- the same, in a thread of its own. */
static void place_aside(void *what)
{
    struct shard_model *model = what;

    model->place_status = place_memory(model);
    if (model->place_status != 0)
        error_save(&model->place_error);
    atomic_store_explicit(&model->placed, true, memory_order_release); /* pairs with shard_place_over */
}

/* place_model -- worker 0's description is complete and every worker's check has come: what the memory must be. */
static int place_model(struct shard_model *model)
{
    struct shard *shard = model->shard;
    const struct plan_options options = {shard->config.shards, shard->config.lanes, shard->config.group_bytes,
                                         shard->config.cut_bytes};
    int status = model_check_workers(model->model, shard->config.workers);

    model->depth = model_slot_depth(model->model, shard->config.workers);
    /* Whoever may be lost and come back, or comes late, is counted alone. */
    model->together = model_lockstep(model->model, shard->config.workers) &&
                      model->model->non_finite == MODEL_PROPAGATE && shard->config.lost == MODE_LOST_FAIL &&
                      !shard_late_some(shard);
    if (status == 0)
        status = shard_late_place(model);
    if (status == 0 && shard->config.lost == MODE_LOST_WAIT && model->model->update != MODEL_STRICT)
        status = error_set(
            STEPGATE_EINVAL, 0, "use lost_worker=fail or shrink, or update=strict",
            "lost_worker=wait, but model %s has update=%s: a worker comes back in strict mode alone",
            model->model->name, model_update_name(model->model->update));
    model->ahead = place_ahead(model);
    if (status == 0)
        status = plan_new(model->model, &options, &model->plan);
    if (status == 0)
        status = place_formula(model);
    if (status == 0)
        status = place_board(model);
    return status;
}

/* shard_place_tell -- lane 0 tells a worker where the parameters are. */
int shard_place_tell(struct shard_model *model, uint32_t rank)
{
    const struct shard_config *config = &model->shard->config;
    const struct letter grant = {
        .kind = LETTER_GRANT,
        .message = MESSAGE_PARAMETERS,
        .rank = rank,
        .model = model->number,
        .region = model->parameters[model->shard->members[rank].fabric],
        .offsets = {model->parity_offset[0], model->parity_offset[1], model->words_offset}};
    int status = mailbox_put(lane_mailbox(config->lane_list[0]), &grant);

    if (status == 0 && config->wake_lane != NULL)
        config->wake_lane(config->wake_context, 0);
    return status;
}

/* place_tell -- lanes first, then workers: their slots on the control connection, the parameters on lane 0's pull connection. */
static int place_tell(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    const struct letter board = {.kind = LETTER_BOARD, .board = &model->board};
    int status = 0;

    for (uint32_t l = 0; status == 0 && l < shard->config.lanes; l++)
        status = mailbox_put(lane_mailbox(shard->config.lane_list[l]), &board);
    for (uint32_t w = 0; status == 0 && w < shard->config.workers; w++)
        if (!model->shares[w].late)
            status = shard_place_tell(model, w);
    for (uint32_t l = 0; shard->config.wake_lane != NULL && l < shard->config.lanes; l++)
        shard->config.wake_lane(shard->config.wake_context, l);
    (void)now;
    return status;
}

/* place_grant -- tells one worker where its slots are; false when the endpoint does not take it yet. */
static bool place_grant(struct shard_model *model, uint32_t rank, uint64_t now)
{
    struct shard *shard = model->shard;
    struct shard_share *share = &model->shares[rank];
    struct stepgate_endpoint *endpoint = shard->members[rank].control.endpoint;
    if (shard->members[rank].control.state != LINK_UP)
        return false;
    struct message ok = {.kind = MESSAGE_MODEL_OK, .model = model->number, .step = model->step};
    if (model->phase == PHASE_RUNNING)
        ok.kept = MESSAGE_KEPT_RUNNING;
    const struct board_slots *slot = &model->board.slots[rank];

    ok.arena_offset = (uint64_t)(slot->arena - (uint8_t *)share->region->address);
    ok.header_offset = (uint64_t)(slot->headers - (const uint8_t *)share->region->address);
    int status =
        endpoint->transport->endpoint_export(endpoint, share->region, STEPGATE_ACCESS_WRITE, &ok.descriptor);
    if (status == -STEPGATE_EAGAIN || status == -STEPGATE_EPEER)
        return false;
    if (status != 0) {
        shard_abort(shard, now);
        return false;
    }
    share->told = true;
    model->again -= share->again;
    share->again = false;
    shard_send(shard, rank, &ok, now);
    return true;
}

/* place_unpack -- worker 0's description. */
static int place_unpack(struct shard_model *model)
{
    struct shard_share *first = &model->shares[0];
    int status;

    if (first->parts == NULL || first->parts_there != first->parts_total)
        return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                         "worker 0 checks model %u before it has sent it", model->number);
    status = model_unpack(first->parts, first->parts_total, &model->model);
    if (status == 0)
        status = model_fingerprint(model->model, model->fingerprint);
    if (model->shard->config.archive != NULL) {
        model->description = first->parts;
        model->description_bytes = first->parts_total;
    } else {
        free(first->parts);
    }
    first->parts = NULL;
    return status;
}

/* place_ask -- whoever has another model than worker 0 is asked what it looks like. Returns whether everybody who is to come has checked the same. */
static bool place_ask(struct shard_model *model, uint64_t now)
{
    const struct message ask = {.kind = MESSAGE_MODEL_ASK, .model = model->number};
    struct shard *shard = model->shard;
    bool all = true;

    for (uint32_t w = 0; w < shard->config.workers; w++) {
        struct shard_share *share = &model->shares[w];
        share->matched =
            share->checked && memcmp(share->fingerprint, model->fingerprint, sizeof(model->fingerprint)) == 0;
        all = all && (share->matched || shard->members[w].late);
        if (share->checked && !share->matched && !share->asked) {
            share->asked = true;
            shard_send(shard, w, &ask, now);
        }
    }
    return all;
}

/* shard_place_look -- see inside.h. */
int shard_place_look(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;

    if (model->model == NULL || !place_ask(model, now) || model->phase != PHASE_DECLARED || model->placing)
        return 0;
    int status = place_model(model);
    model->placing = status == 0;
    if (status == 0 && shard->config.aside != NULL)
        status = shard->config.aside(shard->config.aside_context, place_aside, model);
    else if (status == 0)
        place_aside(model);
    shard_place_over(model, now);
    return status;
}

/* shard_model_check -- a worker says what its model looks like. The model is placed when all have. */
void shard_model_check(struct shard *shard, uint32_t rank, const struct message *m, uint64_t now)
{
    struct shard_model *model = shard_model_get(shard, m->model, now);
    int status = 0;

    if (model == NULL)
        return;
    struct shard_share *share = &model->shares[rank];
    if (model->phase == PHASE_RUNNING && !share->checked) {
        shard_absence_check(model, rank, m, now);
        return;
    }
    if (share->checked) {
        error_set(STEPGATE_EPROTOCOL, 0, "", "worker %u checks model %u twice", rank, m->model);
        shard_abort(shard, now);
        return;
    }
    share->checked = true;
    memcpy(share->fingerprint, m->fingerprint, sizeof(share->fingerprint));
    if (rank == 0)
        status = place_unpack(model);
    if (status == 0)
        status = shard_place_look(model, now);
    if (status != 0)
        shard_abort(shard, now);
}

/* place_finish -- the memory is there: lanes and workers may know. */
static int place_finish(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    int status = model->place_status != 0 ? error_restore(&model->place_error) : 0;

    if (status == 0 && shard->config.number == 0)
        status = leader_place(model);
    if (status == 0)
        status = place_tell(model, now);
    if (status != 0)
        return status;
    model->phase = PHASE_INITIAL;
    model->look = true;
    for (uint32_t w = 0; w < shard->config.workers && !shard->failed; w++)
        place_grant(model, w, now);
    return 0;
}

/* shard_place_over -- see inside.h. */
int shard_place_over(struct shard_model *model, uint64_t now)
{
    if (!model->placing ||
        !atomic_load_explicit(&model->placed, memory_order_acquire)) /* pairs with place_aside */
        return 0;
    model->placing = false;
    if (place_finish(model, now) != 0)
        shard_abort(model->shard, now);
    return 1;
}

/* shard_place_retry -- grants that an endpoint did not take. */
void shard_place_retry(struct shard_model *model, uint64_t now)
{
    for (uint32_t w = 0; w < model->shard->config.workers && !model->shard->failed; w++)
        if (((!model->shares[w].told && model->phase == PHASE_INITIAL) || model->shares[w].again) &&
            model->shard->members[w].control.state == LINK_UP && place_grant(model, w, now))
            model->look = true;
}
