/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/lane/lane.h"

#include <stdlib.h>
#include <string.h>

#include "ps/lane/kernel.h"
#include "ps/protocol/model.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

#define LANE_EVENTS 32
#define LANE_RETRY_NS                                                                                        \
    (CLOCK_MS / 5) /* how soon an announcement is tried again that an endpoint did not take */

/* A worker as a lane sees it. */
struct lane_worker {
    struct link push, pull;
    bool lost; /* the shard was told */
};

/* What a lane keeps of one model. Bits are groups. */
struct lane_model {
    struct board *board;
    uint8_t all;                       /* groups whose span of this lane is not empty */
    uint64_t awaited[PLAN_GROUPS_MAX]; /* step whose gradients a group takes now */
    bool initial;                      /* the initial values are awaited */
    uint64_t done;                     /* number of the last order done */
    bool applying;
    uint32_t next_group;
    uint8_t *arrived;    /* [workers] bits: this span has arrived for awaited[group] */
    uint8_t *announce;   /* [workers] bits: awaited[group] is to be announced */
    uint64_t announcing; /* bits set in announce, over all workers */
};

struct lane {
    struct lane_config config;
    struct mailbox mailbox;
    struct link_batch batch;
    struct lane_worker *workers;
    struct lane_model *models[SLOT_MODELS_MAX]; /* by number, NULL: not placed; any order of commits goes */
    uint32_t model_end;                         /* behind the highest number placed */
    struct letter *grants;                      /* [grant_count], waiting */
    size_t grant_count;
    const float **gradients; /* [workers], for the kernel */
    uint64_t attend_at;
    struct lane_stats stats;
};

/* lane_new -- a lane without links or models. */
int lane_new(const struct lane_config *config, struct lane **out)
{
    struct lane *lane = calloc(1, sizeof(*lane));

    if (lane == NULL)
        goto no_memory;
    lane->config = *config;
    lane->workers = calloc(config->workers, sizeof(*lane->workers));
    lane->gradients = calloc(config->workers, sizeof(*lane->gradients));
    if (lane->workers == NULL || lane->gradients == NULL)
        goto free_lane;
    mailbox_init(&lane->mailbox);
    for (uint32_t w = 0; w < config->workers; w++) {
        lane->workers[w].push.tag = lane->workers[w].pull.tag = (int)w;
        link_init(&lane->workers[w].push, config->secret, 0);
        link_init(&lane->workers[w].pull, config->secret, 0);
    }
    *out = lane;
    return 0;

free_lane:
    free(lane->workers);
    free(lane->gradients);
    free(lane);
no_memory:
    return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a lane of %u workers", config->workers);
}

/* lane_delete -- closes its links. */
void lane_delete(struct lane **out)
{
    struct lane *lane = *out;

    if (lane == NULL)
        return;
    for (uint32_t w = 0; w < lane->config.workers; w++) {
        link_close(&lane->workers[w].push);
        link_close(&lane->workers[w].pull);
    }
    for (uint32_t m = 0; m < lane->model_end; m++) {
        if (lane->models[m] == NULL)
            continue;
        free(lane->models[m]->arrived);
        free(lane->models[m]->announce);
        free(lane->models[m]);
    }
    mailbox_clear(&lane->mailbox);
    free(lane->grants);
    free(lane->workers);
    free(lane->gradients);
    free(lane);
    *out = NULL;
}

/* lane_mailbox -- for the shard. */
struct mailbox *lane_mailbox(struct lane *lane)
{
    return &lane->mailbox;
}

/* lane_tell -- a letter to the shard. */
static void lane_tell(struct lane *lane, const struct letter *letter)
{
    if (mailbox_put(lane->config.to_shard, letter) == 0 && lane->config.wake_shard != NULL)
        lane->config.wake_shard(lane->config.wake_context);
}

/* lane_lost -- this thread's last error ends a worker's links, and the shard decides what that means. */
static void lane_lost(struct lane *lane, uint32_t rank)
{
    struct letter letter = {.kind = LETTER_LOST, .rank = rank, .lane = lane->config.number};

    if (lane->workers[rank].lost)
        return;
    lane->workers[rank].lost = true;
    error_save(&letter.error);
    lane_tell(lane, &letter);
}

/* lane_span -- this lane's part of a group. */
static const struct plan_span *lane_span(const struct lane *lane, const struct lane_model *model,
                                         uint32_t group)
{
    return &model->board->plan->spans[group][lane->config.number];
}

/* lane_take_board -- a new model. */
static void lane_take_board(struct lane *lane, struct board *board)
{
    struct lane_model *model = calloc(1, sizeof(*model));

    if (model == NULL)
        goto fail;
    model->board = board;
    model->initial = true;
    model->arrived = calloc(board->workers, 1);
    model->announce = calloc(board->workers, 1);
    if (model->arrived == NULL || model->announce == NULL)
        goto fail;
    for (uint32_t g = 0; g < board->plan->groups; g++)
        if (lane_span(lane, model, g)->end > lane_span(lane, model, g)->begin)
            model->all |= (uint8_t)(1u << g);
    lane->models[board->model] = model;
    if (lane->model_end <= board->model)
        lane->model_end = board->model + 1;
    return;

fail:
    if (model != NULL) {
        free(model->arrived);
        free(model->announce);
    }
    free(model);
    error_set(STEPGATE_ENOMEM, 0, "", "no memory for model %u in a lane", board->model);
    lane_lost(lane, 0);
}

/* lane_grant -- tells a worker where the parameters are, over the pull link; false when it must be tried again. */
static bool lane_grant(struct lane *lane, const struct letter *letter, uint64_t now)
{
    struct link *pull = &lane->workers[letter->rank].pull;
    struct message message = {.kind = MESSAGE_PARAMETERS,
                              .model = letter->board->model,
                              .arena_offset = letter->offsets[0],
                              .header_offset = letter->offsets[1]};

    if (pull->state == LINK_DOWN)
        return true;
    if (pull->state != LINK_UP)
        return false;
    int status = pull->endpoint->transport->endpoint_export(pull->endpoint, letter->region,
                                                            STEPGATE_ACCESS_READ, &message.descriptor);
    if (status == 0)
        status = link_send(pull, &message, now);
    if (status == -STEPGATE_EAGAIN)
        return false;
    if (status != 0 && status != -STEPGATE_EPEER)
        lane_lost(lane, letter->rank);
    return true;
}

/* lane_keep_grant -- for the next round. */
static void lane_keep_grant(struct lane *lane, const struct letter *letter)
{
    struct letter *more = realloc(lane->grants, (lane->grant_count + 1) * sizeof(*more));

    if (more == NULL) {
        error_set(STEPGATE_ENOMEM, 0, "", "no memory for a grant");
        lane_lost(lane, letter->rank);
        return;
    }
    lane->grants = more;
    lane->grants[lane->grant_count++] = *letter;
}

/* lane_accept -- a worker's connection, checked by the shard before. */
static void lane_accept(struct lane *lane, const struct letter *letter, uint64_t now)
{
    struct lane_worker *worker = &lane->workers[letter->rank];
    struct link *link = letter->purpose == HELLO_PUSH ? &worker->push : &worker->pull;
    struct hello hello = {.role = STEPGATE_ROLE_PS,
                          .purpose = letter->purpose,
                          .rank = lane->config.shard,
                          .lane = (uint16_t)lane->config.number,
                          .job = lane->config.job,
                          .incarnation = lane->config.incarnation,
                          .workers = lane->config.workers,
                          .shards = lane->config.shards};

    if (link->state == LINK_UP || link->state == LINK_PROVING || link->state == LINK_CONNECTING) {
        uint8_t refusal[STEPGATE_HELLO_BYTES];
        hello_refusal(lane->config.job, STEPGATE_EBUSY, refusal);
        letter->request->transport->request_refuse(letter->request, refusal, sizeof(refusal));
        return;
    }
    link_forget(link, &lane->batch);
    link_close(link);
    link_init(link, lane->config.secret, 0);
    link->owner = lane;
    if (link_accept(link, letter->request, lane->config.queues[letter->fabric], letter->domain, &hello,
                    letter->hello, sizeof(letter->hello), now) != 0) {
        link_close(link);
        link_init(link, lane->config.secret, 0); /* the worker tries again */
    }
}

/* lane_letters -- what the shard wants. */
static int lane_letters(struct lane *lane, uint64_t now)
{
    struct letter letter;
    int busy = 0;

    while (mailbox_take(&lane->mailbox, &letter)) {
        busy = 1;
        switch (letter.kind) {
        case LETTER_ACCEPT: lane_accept(lane, &letter, now); break;
        case LETTER_BOARD: lane_take_board(lane, letter.board); break;
        case LETTER_GRANT:
            if (!lane_grant(lane, &letter, now))
                lane_keep_grant(lane, &letter);
            break;
        default: break;
        }
    }
    return busy;
}

/* lane_complete -- every span of this lane has arrived from a rank: counts it for the shard. */
static void lane_complete(struct lane *lane, struct lane_model *model, uint32_t rank)
{
    struct board *board = model->board;

    if (model->initial) {
        atomic_fetch_add_explicit(&board->arrived_initial, 1,
                                  memory_order_release); /* pairs with the shard's load */
    } else {
        uint64_t step = model->awaited[(unsigned)__builtin_ctz(model->all)];
        /* pairs with the shard's acquire load */
        atomic_store_explicit(&board->arrived[(size_t)lane->config.number * board->workers + rank], step + 1,
                              memory_order_release);
    }
    atomic_fetch_add_explicit(&board->arrivals, 1,
                              memory_order_release); /* pairs with the shard's acquire load */
    if (lane->config.wake_shard != NULL)
        lane->config.wake_shard(lane->config.wake_context);
}

/* lane_violation -- a worker breaks the protocol. */
static void lane_violation(struct lane *lane, uint32_t rank, const char *what)
{
    error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere", "worker %u sent %s", rank,
              what);
    link_fail(&lane->workers[rank].push);
    lane_lost(lane, rank);
}

/* lane_header -- does a header, already copied, fit what is awaited? */
static bool lane_header(const struct lane *lane, const struct lane_model *model,
                        const struct slot_header *header, uint32_t rank, uint32_t group)
{
    const struct plan_span *span = lane_span(lane, model, group);
    uint32_t kind = model->initial ? SLOT_INITIAL : SLOT_GRADIENT;

    return header->magic == SLOT_MAGIC && header->model == model->board->model &&
           header->lane == lane->config.number && header->group == group && header->rank == rank &&
           header->bytes == span->end - span->begin &&
           header->incarnation == model->board->slots[rank].incarnation && header->kind == kind
#ifndef STEPGATE_MUTANT_LATE_CHUNK_ACCEPTED
           && header->step == model->awaited[group]
#endif
        ;
}

/* lane_notify -- a span has arrived. The notify's low bits tell an old one; the header, copied before it is checked, proves the rest. */
static void lane_notify(struct lane *lane, uint32_t rank, uint32_t value, uint64_t now)
{
    uint32_t number = slot_notify_model(value), group = slot_notify_group(value);
    struct slot_header header;

    lane->stats.notifies++;
    if (number < SLOT_MODELS_MAX && lane->models[number] == NULL)
        lane_letters(lane, now); /* the shard tells lanes of a model before it tells workers */
    struct lane_model *model = number < SLOT_MODELS_MAX ? lane->models[number] : NULL;
    if (model == NULL || group >= PLAN_GROUPS_MAX || !(model->all & (1u << group))) {
        lane_violation(lane, rank, "a notify for a span that is not there");
        return;
    }
#if !defined(STEPGATE_MUTANT_SEQUENCE_IGNORED) && !defined(STEPGATE_MUTANT_LATE_CHUNK_ACCEPTED)
    if (slot_notify_step(value) != (model->awaited[group] & 0xffffu)) {
        lane->stats.stale++;
        return;
    }
#endif
    if (model->arrived[rank] & (1u << group)) {
        lane->stats.duplicates++;
        return;
    }
    memcpy(&header, model->board->slots[rank].headers + slot_header_offset(lane->config.number, group),
           sizeof(header));
    if (!model->initial && header.kind == SLOT_INITIAL) {
        lane->stats.stale++; /* the initial values are of step 0 like the first gradients */
        return;
    }
    if (!lane_header(lane, model, &header, rank, group) || (model->initial && rank != 0)) {
        lane_violation(lane, rank, "a header that does not fit its notify");
        return;
    }
    model->arrived[rank] |= (uint8_t)(1u << group);
    if (model->arrived[rank] == model->all && !model->applying)
        lane_complete(lane, model, rank);
}

/* lane_event -- one event of the queue. */
static void lane_event(struct lane *lane, const struct stepgate_event *event, uint64_t now)
{
    if (event->kind == STEPGATE_EVENT_DEVICE) {
        error_set(STEPGATE_EDEVICE, 0, "look at the device (ibv_devinfo) and at the kernel's log",
                  "the RDMA device reports an error");
        for (uint32_t w = 0; w < lane->config.workers; w++)
            lane_lost(lane, w);
        return;
    }
    if (event->endpoint == NULL)
        return;
    struct link *link = event->endpoint->user;
    uint32_t rank = (uint32_t)link->tag;
    bool push = link == &lane->workers[rank].push;
    bool was_up = link->state == LINK_UP;
    switch (link_event(link, event, now)) {
    case LINK_NOTIFY:
        if (push) {
            lane_notify(lane, rank, event->value, now);
            break;
        }
        lane_violation(lane, rank, "a notify on a pull connection");
        break;
    case LINK_MESSAGE: lane_violation(lane, rank, "a message on a data connection"); break;
    case LINK_WENT_DOWN:
        if (was_up) {
            error_restore(&link->error);
            lane_lost(lane, rank);
        } /* else it was never proved: whoever it was may try again, lane_accept cleans up */
        break;
    default: break;
    }
}

/* lane_announce -- tells every worker that a group may be read and its slot be written. */
static void lane_announce(struct lane_model *model, uint32_t group)
{
    for (uint32_t w = 0; w < model->board->workers; w++)
        if (!(model->announce[w] & (1u << group))) {
            model->announce[w] |= (uint8_t)(1u << group);
            model->announcing++;
        }
}

/* lane_sum -- which gradients, with which weights, for one span. */
static struct kernel_sum lane_sum(struct lane *lane, const struct board *board, uint64_t offset)
{
    const struct board_order *order = &board->order;

    for (uint32_t i = 0; i < order->count; i++)
        lane->gradients[i] = (const float *)(const void *)(board->slots[order->ranks[i]].arena + offset);
    return (struct kernel_sum){lane->gradients, order->weighted ? order->weights : NULL, order->count,
                               order->divisor};
}

/* lane_apply_span -- one pass over this lane's part of a group. */
static void lane_apply_span(struct lane *lane, struct lane_model *model, uint32_t group)
{
    const struct board *board = model->board;
    const struct board_order *order = &board->order;
    const struct plan_span *span = lane_span(lane, model, group);
    uint64_t bytes = span->end - span->begin;
    size_t n = bytes / sizeof(float);
    unsigned parity = (unsigned)(order->step & 1);

#ifdef STEPGATE_MUTANT_PARITY_SWAPPED
    parity ^= order->step % 7 == 3 ? 1u : 0u;
#endif
    uint8_t *now = board->parameters[parity] + span->begin,
            *next = board->parameters[parity ^ 1u] + span->begin;
    const float *from = (const float *)(const void *)now;
    float *to = (float *)(void *)next;
    if (order->kind == BOARD_INITIAL) {
        memcpy(board->parameters[0] + span->begin, board->slots[0].arena + span->begin, bytes);
        memcpy(board->parameters[1] + span->begin, board->slots[0].arena + span->begin, bytes);
    } else if (order->kind == BOARD_CARRY) {
        memcpy(next, now, bytes);
    } else {
        struct kernel_sum sum = lane_sum(lane, board, span->begin);
        if (board->optimizer == MODEL_MOMENTUM)
            kernel_momentum(&sum, from, to, (float *)(void *)(board->state + span->begin), order->rate,
                            order->momentum, n);
        else
            kernel_sgd(&sum, from, to, order->rate, n);
#ifdef STEPGATE_MUTANT_DOUBLE_APPLY
        if (order->step % 5 == 2)
            kernel_sgd(&sum, to, to, order->rate, n);
#endif
    }
    lane->stats.applied_spans++;
}

/* lane_apply -- the next group of an order, or nothing. */
static int lane_apply(struct lane *lane, struct lane_model *model)
{
    struct board *board = model->board;
    /* pairs with the shard's release: the order's fields are visible */
    uint64_t number = atomic_load_explicit(&board->order_number, memory_order_acquire);

    if (number == model->done)
        return 0;
    if (!model->applying) {
        model->applying = true;
        model->next_group = 0;
#ifdef STEPGATE_MUTANT_SLOT_FREED_EARLY
        for (uint32_t g = 0; g < board->plan->groups; g++)
            if (model->all >> g & 1u && board->order.kind != BOARD_INITIAL) {
                for (uint32_t w = 0; w < board->workers; w++)
                    model->arrived[w] &= (uint8_t) ~(1u << g);
                model->awaited[g] = board->order.step + 1;
                lane_announce(model, g);
            }
        return 1;
#endif
    }
    while (model->next_group < board->plan->groups && !(model->all & (1u << model->next_group)))
        model->next_group++;
    if (model->next_group < board->plan->groups) {
        uint32_t group = model->next_group++;
        lane_apply_span(lane, model, group);
#ifdef STEPGATE_MUTANT_SLOT_FREED_EARLY
        if (board->order.kind == BOARD_INITIAL) {
#endif
            for (uint32_t w = 0; w < board->workers; w++)
                model->arrived[w] &= (uint8_t) ~(1u << group);
            model->awaited[group] = board->order.kind == BOARD_INITIAL ? 0 : board->order.step + 1;
            lane_announce(model, group);
#ifdef STEPGATE_MUTANT_SLOT_FREED_EARLY
        }
#endif
        return 1;
    }
    bool was_initial = model->initial;
    model->initial = false;
    model->applying = false;
    model->done = number;
    atomic_store_explicit(&board->applied[lane->config.number], number,
                          memory_order_release); /* pairs with the shard */
    /* a fast worker's spans of the next step came while this one was being applied */
    for (uint32_t w = 0; w < board->workers && !was_initial; w++)
        if (model->all != 0 && model->arrived[w] == model->all)
            lane_complete(lane, model, w);
    if (lane->config.wake_shard != NULL)
        lane->config.wake_shard(lane->config.wake_context);
    return 1;
}

/* lane_announcements -- what endpoints did not take before. */
static int lane_announcements(struct lane *lane, struct lane_model *model)
{
    int busy = 0;

    for (uint32_t w = 0; w < model->board->workers && model->announcing > 0; w++) {
        struct link *push = &lane->workers[w].push;
        while (model->announce[w] != 0) {
            uint32_t group = (uint32_t)__builtin_ctz(model->announce[w]);
            if (push->state == LINK_UP) {
                uint32_t value = slot_notify(model->board->model, group, model->awaited[group]);
                int status = push->endpoint->transport->endpoint_notify(push->endpoint, value);
                if (status == -STEPGATE_EAGAIN)
                    break;
            } else if (push->state != LINK_DOWN) {
                break;
            }
            model->announce[w] &= (uint8_t) ~(1u << group);
            model->announcing--;
            lane->stats.announced++;
            busy = 1;
        }
    }
    return busy;
}

/* lane_attend -- timers of links that are not up yet, outboxes, grants. */
static void lane_attend(struct lane *lane, uint64_t now)
{
    uint64_t next = CLOCK_NEVER;
    size_t kept = 0;

    for (size_t i = 0; i < lane->grant_count; i++)
        if (!lane_grant(lane, &lane->grants[i], now))
            lane->grants[kept++] = lane->grants[i];
    lane->grant_count = kept;
    if (kept > 0)
        next = now + LANE_RETRY_NS;
    for (uint32_t w = 0; w < lane->config.workers; w++) {
        struct link *links[2] = {&lane->workers[w].push, &lane->workers[w].pull};
        for (int i = 0; i < 2; i++) {
            link_progress(links[i], now);
            uint64_t deadline = link_deadline(links[i]);
            if (!link_idle(links[i]) && deadline > now + LANE_RETRY_NS)
                deadline = now + LANE_RETRY_NS;
            next = deadline < next ? deadline : next;
        }
    }
    lane->attend_at = next;
}

/* lane_progress -- see lane.h. */
int lane_progress(struct lane *lane, uint64_t now)
{
    struct stepgate_event events[LANE_EVENTS];
    int busy = lane_letters(lane, now);

    for (unsigned f = 0; f < LANE_FABRICS_MAX && lane->config.queues[f] != NULL; f++) {
        struct stepgate_queue *queue = lane->config.queues[f];
        int n = queue->transport->queue_poll(queue, events, LANE_EVENTS);
        lane->batch = (struct link_batch){events, n};
        for (int i = 0; i < n; i++)
            lane_event(lane, &events[i], now);
        lane->batch = (struct link_batch){NULL, 0};
        busy |= n > 0;
    }
    if (busy || now >= lane->attend_at)
        lane_attend(lane, now);
    for (uint32_t m = 0; m < lane->model_end; m++) {
        if (lane->models[m] == NULL)
            continue;
        busy |= lane_apply(lane, lane->models[m]);
        if (lane->models[m]->announcing > 0)
            busy |= lane_announcements(lane, lane->models[m]);
    }
    return busy;
}

/* lane_deadline -- an announcement that waits is tried again soon. */
uint64_t lane_deadline(const struct lane *lane)
{
    for (uint32_t m = 0; m < lane->model_end; m++)
        if (lane->models[m] != NULL && lane->models[m]->announcing > 0)
            return 0;
    return lane->attend_at;
}

/* lane_stats -- a copy of the counters. */
void lane_stats(const struct lane *lane, struct lane_stats *out)
{
    *out = lane->stats;
}
