/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/lane/lane.h"

#include <stdlib.h>
#include <string.h>

#include "ps/lane/model.h"
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

struct lane {
    struct lane_config config;
    struct mailbox mailbox;
    struct link_batch batch;
    struct lane_worker *workers; /* [places]: the workers, on lane 0 then the observers */
    uint32_t places;
    struct lane_model *models[SLOT_MODELS_MAX]; /* by number, NULL: not placed; any order of commits goes */
    uint32_t model_end;                         /* behind the highest number placed */
    struct letter *grants;                      /* [grant_count], waiting */
    size_t grant_count;
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
    lane->places = config->workers + (config->number == 0 ? LANE_OBSERVERS_MAX : 0);
    lane->workers = calloc(lane->places, sizeof(*lane->workers));
    if (lane->workers == NULL)
        goto free_lane;
    mailbox_init(&lane->mailbox);
    for (uint32_t w = 0; w < lane->places; w++) {
        lane->workers[w].push.tag = lane->workers[w].pull.tag = (int)w;
        link_init(&lane->workers[w].push, config->secret, 0);
        link_init(&lane->workers[w].pull, config->secret, 0);
    }
    *out = lane;
    return 0;

free_lane:
    free(lane->workers);
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
    for (uint32_t w = 0; w < lane->places; w++) {
        link_close(&lane->workers[w].push);
        link_close(&lane->workers[w].pull);
    }
    for (uint32_t m = 0; m < lane->model_end; m++)
        lane_model_delete(&lane->models[m]);
    mailbox_clear(&lane->mailbox);
    free(lane->grants);
    free(lane->workers);
    free(lane);
    *out = NULL;
}

/* lane_mailbox -- for the shard. */
struct mailbox *lane_mailbox(struct lane *lane)
{
    return &lane->mailbox;
}

/* lane_wake -- there is something new on a board. */
static void lane_wake(struct lane *lane)
{
    if (lane->config.wake_shard != NULL)
        lane->config.wake_shard(lane->config.wake_context);
}

/* lane_tell -- a letter to the shard. */
static void lane_tell(struct lane *lane, const struct letter *letter)
{
    if (mailbox_put(lane->config.to_shard, letter) == 0)
        lane_wake(lane);
}

/* lane_lost_link -- this thread's last error ends a worker's links, and the shard decides what that means. */
static void lane_lost_link(struct lane *lane, uint32_t rank, enum link_end end)
{
    struct letter letter = {.kind = LETTER_LOST, .rank = rank, .lane = lane->config.number, .end = (int)end};

    if (rank >= lane->config.workers || lane->workers[rank].lost)
        return; /* an observer is nobody's loss */
    lane->workers[rank].lost = true;
    error_save(&letter.error);
    lane_tell(lane, &letter);
}

/* lane_lost -- the same, where no other connection would help. */
static void lane_lost(struct lane *lane, uint32_t rank)
{
    lane_lost_link(lane, rank, LINK_END_REASON);
}

/* lane_take_board -- a new model. */
static void lane_take_board(struct lane *lane, struct board *board)
{
    if (lane_model_new(board, lane->config.number, &lane->models[board->model]) != 0)
        lane_lost(lane, 0);
    else if (lane->model_end <= board->model)
        lane->model_end = board->model + 1;
}

/* lane_grant -- tells a worker or observer where the parameters, or a snapshot, are, over the pull link; false when it must be tried again. */
static bool lane_grant(struct lane *lane, const struct letter *letter, uint64_t now)
{
    struct link *pull = &lane->workers[letter->rank].pull;
    struct message message = {.kind = letter->message,
                              .model = letter->model,
                              .step = letter->step,
                              .arena_offset = letter->offsets[0],
                              .header_offset = letter->offsets[1],
                              .words_offset = letter->offsets[2]};

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

/* lane_drop -- no grant of this region is under way any more. */
static void lane_drop(struct lane *lane, const struct letter *letter)
{
    const struct letter dropped = {.kind = LETTER_DROPPED, .region = letter->region};
    size_t kept = 0;

    for (size_t i = 0; i < lane->grant_count; i++)
        if (lane->grants[i].region != letter->region)
            lane->grants[kept++] = lane->grants[i];
    lane->grant_count = kept;
    lane_tell(lane, &dropped);
}

/* lane_close_view -- ends an observer's connection: what it still sends costs nothing any more. */
static void lane_close_view(struct lane *lane, struct link *link)
{
    link_forget(link, &lane->batch);
    link_close(link);
}

/* lane_forget_grants -- nothing is granted to it: who comes next to its place is another one. */
static void lane_forget_grants(struct lane *lane, uint32_t rank)
{
    size_t kept = 0;

    for (size_t i = 0; i < lane->grant_count; i++)
        if (lane->grants[i].rank != rank)
            lane->grants[kept++] = lane->grants[i];
    lane->grant_count = kept;
}

/* lane_forget_view -- an observer is gone. */
static void lane_forget_view(struct lane *lane, uint32_t rank)
{
    lane_forget_grants(lane, rank);
    lane_close_view(lane, &lane->workers[rank].pull);
}

/* lane_forget -- its connections end; what is still under way on them lands nowhere. */
static void lane_forget(struct lane *lane, uint32_t rank)
{
    const struct letter forgot = {.kind = LETTER_FORGOT, .rank = rank, .lane = lane->config.number};
    struct lane_worker *worker = &lane->workers[rank];

    lane_forget_grants(lane, rank);
    lane_close_view(lane, &worker->push);
    lane_close_view(lane, &worker->pull);
    link_init(&worker->push, lane->config.secret, 0);
    link_init(&worker->pull, lane->config.secret, 0);
    worker->lost = false;
    for (uint32_t m = 0; m < lane->model_end; m++)
        if (lane->models[m] != NULL)
            lane_model_forget(lane->models[m], rank);
    lane_tell(lane, &forgot);
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
    if (link->came_up) {
        link_hold(link);
    } else {
        link_close(link);
        link_init(link, lane->config.secret, 0);
    }
    link->owner = lane;
    if (link_accept(link, letter->request, lane->config.queues[letter->fabric], letter->domain, &hello,
                    letter->hello, sizeof(letter->hello), now) != 0) {
        link_hold(link); /* the worker tries again */
    }
}

/*
 * lane_hold -- a worker makes its connections anew. What they still had under way does not count from here on: their endpoints are gone. What has
 * arrived has.
 */
static void lane_hold(struct lane *lane, uint32_t rank)
{
    const struct letter held = {.kind = LETTER_HELD, .rank = rank, .lane = lane->config.number};
    struct lane_worker *worker = &lane->workers[rank];

    link_forget(&worker->push, &lane->batch);
    link_forget(&worker->pull, &lane->batch);
    link_hold(&worker->push);
    link_hold(&worker->pull);
    worker->lost = false;
    lane_tell(lane, &held);
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
        case LETTER_DROP: lane_drop(lane, &letter); break;
        case LETTER_CLOSE: lane_forget_view(lane, letter.rank); break;
        case LETTER_HOLD: lane_hold(lane, letter.rank); break;
        case LETTER_FORGET: lane_forget(lane, letter.rank); break;
        case LETTER_BACK: lane_model_back(lane->models[letter.model], letter.rank); break;
        default: break;
        }
    }
    return busy;
}

/* lane_violation -- a worker breaks the protocol on one of its links; or an observer, which is nobody's loss. */
static void lane_violation(struct lane *lane, uint32_t rank, struct link *link, const char *what)
{
    if (rank >= lane->config.workers) {
        lane_close_view(lane, link);
        return;
    }
    error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere", "worker %u sent %s", rank,
              what);
    link_fail(link);
    lane_lost(lane, rank);
}

/* lane_model_of -- the model that a notify is about; NULL after a violation. */
static struct lane_model *lane_model_of(struct lane *lane, uint32_t rank, uint32_t value, uint64_t now)
{
    uint32_t number = slot_notify_model(value);

    if (lane->models[number] == NULL || lane->models[number]->out[rank])
        lane_letters(lane, now); /* the shard tells lanes of a model before it tells workers */
    struct lane_model *model = lane->models[number];
    if (model == NULL || !lane_model_fits(model, rank, value)) {
        lane_violation(lane, rank, &lane->workers[rank].push, "a notify for a span that is not there");
        return NULL;
    }
    return model;
}

/*
 * lane_notify -- a span has arrived. The notify's low bits tell one of a contribution that is no longer in the slot; the header, copied before it is
 * checked, proves the rest.
 */
static void lane_notify(struct lane *lane, uint32_t rank, uint32_t value, uint64_t now)
{
    uint32_t slot = slot_notify_slot(value), group = slot_notify_group(value);
    struct slot_header header;
    static_assert(SLOT_MODELS_MAX == 256, "a notify's model is always an index");

    lane->stats.notifies++;
    struct lane_model *model = lane_model_of(lane, rank, value, now);
    if (model == NULL)
        return;
    slot_header_load(&header, model->board->slots[rank].headers +
                                  slot_header_offset(model->board->lanes, slot, lane->config.number, group));
    if (!model->initial && header.kind == SLOT_INITIAL) {
        lane->stats.stale++; /* the initial values have the number 0 like the first contribution */
        return;
    }
#if !defined(STEPGATE_MUTANT_SEQUENCE_IGNORED) && !defined(STEPGATE_MUTANT_LATE_CHUNK_ACCEPTED)
    if (slot_notify_number(value) != (header.sequence & 0xffffu)) {
        lane->stats.stale++;
        return;
    }
#endif
    if (!lane_model_header(model, &header, rank, slot, group) || (model->initial && rank != 0)) {
        lane_violation(lane, rank, &lane->workers[rank].push, "a header that does not fit its notify");
        return;
    }
    switch (lane_model_arrive(model, rank, slot, group, header.sequence)) {
    case ARRIVAL_STALE: lane->stats.stale++; return;
    case ARRIVAL_AGAIN: lane->stats.duplicates++; return;
    case ARRIVAL_WHOLE: lane_wake(lane); return;
    default: return;
    }
}

/* lane_announce_again -- the connections of a worker stand again. */
static void lane_announce_again(struct lane *lane, uint32_t rank)
{
    for (uint32_t m = 0; m < lane->model_end; m++)
        if (lane->models[m] != NULL)
            lane_model_announce_again(lane->models[m], rank);
}

/* lane_event -- one event of the queue. */
static void lane_event(struct lane *lane, const struct stepgate_event *event, uint64_t now)
{
    if (event->kind == STEPGATE_EVENT_DEVICE) {
        struct letter letter = {.kind = LETTER_DEVICE, .end = link_device(event)};
        error_save(&letter.error);
        lane_tell(lane, &letter);
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
        lane_violation(lane, rank, link, "a notify on a pull connection");
        break;
    case LINK_CAME_UP:
        if (push && rank < lane->config.workers)
            lane_announce_again(lane, rank);
        break;
    case LINK_MESSAGE: lane_violation(lane, rank, link, "a message on a data connection"); break;
    case LINK_WENT_DOWN:
        if (rank >= lane->config.workers) {
            lane_close_view(lane, link); /* its end is seen on its control connection */
        } else if (was_up) {
            error_restore(&link->error);
            lane_lost_link(lane, rank, link->end);
        } /* else it was never proved: whoever it was may try again, lane_accept cleans up */
        break;
    default: break;
    }
}

/* lane_apply -- the next group of an order, or nothing. */
static int lane_apply(struct lane *lane, struct lane_model *model)
{
    enum lane_model_round round = lane_model_round(model);

    if (round == LANE_MODEL_FAILED)
        lane_lost(lane, 0); /* the shard ends the job: the reason is this thread's last error */
    if (round == LANE_MODEL_SPAN || round == LANE_MODEL_FAILED)
        lane->stats.applied_spans++;
    if (round == LANE_MODEL_CLOSED)
        lane_wake(lane);
    return round != LANE_MODEL_IDLE;
}

/* lane_announcements -- what endpoints did not take before. To a worker that is not there all is announced when it is. */
static int lane_announcements(struct lane *lane, struct lane_model *model)
{
    int busy = 0;

    for (uint32_t w = 0; w < model->board->workers && model->announcing > 0; w++) {
        struct link *push = &lane->workers[w].push;
        while (model->announce[w] != 0) {
            uint32_t group = (uint32_t)__builtin_ctz(model->announce[w]);
            if (push->state == LINK_UP) {
                uint32_t value = slot_notify(model->board->model, 0, group, model->ready[group]);
                int status = push->endpoint->transport->endpoint_notify(push->endpoint, value);
                if (status == -STEPGATE_EAGAIN)
                    break;
            }
            lane_model_announced(model, w, group);
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
    for (uint32_t w = 0; w < lane->places; w++) {
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

/* lane_ahead -- nothing else is to be done: sums a piece of what has arrived of a step. */
static int lane_ahead(struct lane *lane)
{
    for (uint32_t m = 0; m < lane->model_end; m++)
        if (lane->models[m] != NULL && !lane->models[m]->initial && apply_ahead(lane->models[m]->apply))
            return 1;
    return 0;
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
    return busy | (busy == 0 && lane_ahead(lane));
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
