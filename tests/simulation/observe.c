/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe -- stands between the leader and its mode, and between lanes and what they apply, by the linker's --wrap: passes everything through, and tells the referee and
 * the reference of the play that is observed. Whatever a ps thinks of a step is compared with what was decided.
 */
#include <stdlib.h>
#include <string.h>

#include "ps/lane/apply.h"
#include "tests/simulation/chaos_inside.h"
#include "tests/simulation/inside.h"
#include "transport/base/error.h"

static struct play *observed;

int __real_mode_contribute(struct mode *mode, const struct mode_contribution *contribution);
int __wrap_mode_contribute(struct mode *mode, const struct mode_contribution *contribution);
int __real_mode_applied(struct mode *mode, uint64_t step);
int __wrap_mode_applied(struct mode *mode, uint64_t step);
int __real_mode_gone(struct mode *mode, uint32_t rank, bool returns);
int __wrap_mode_gone(struct mode *mode, uint32_t rank, bool returns);
int __real_mode_rest(struct mode *mode, uint32_t rank);
int __wrap_mode_rest(struct mode *mode, uint32_t rank);
int __real_mode_meet(struct mode *mode);
int __wrap_mode_meet(struct mode *mode);
int __real_mode_decide(struct mode *mode, struct mode_decision *out);
int __wrap_mode_decide(struct mode *mode, struct mode_decision *out);
void __real_shard_order(struct shard *shard, const struct message *message, uint64_t now);
void __wrap_shard_order(struct shard *shard, const struct message *message, uint64_t now);
void __real_shard_send(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);
void __wrap_shard_send(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);
int __real_apply_new(const struct board *board, uint32_t lane, struct apply **out);
int __wrap_apply_new(const struct board *board, uint32_t lane, struct apply **out);
void __real_apply_begin(struct apply *apply);
void __wrap_apply_begin(struct apply *apply);

/* observe_start -- see inside.h. */
void observe_start(struct play *play)
{
    observed = play;
}

/* observe_end -- see inside.h. */
void observe_end(void)
{
    observed = NULL;
}

/* observe_contribution -- is it what its worker handed in, and is it there on every ps? */
static void observe_contribution(struct play *play, const struct mode_contribution *c)
{
    const struct contribution *made =
        c->rank < play->shape.workers ? contribution_at(&play->logs[c->rank], c->sequence) : NULL;
    bool looked_at = play->shape.non_finite != MODEL_PROPAGATE && c->weight > 0;

    if (made == NULL || !made->finished || made->step != c->step || made->weight != c->weight ||
        (looked_at && c->finite != contribution_finite(&play->shape, made))) {
        play_wrong(play, "contribution %llu of worker %u is not what it handed in",
                   (unsigned long long)c->sequence, c->rank);
        return;
    }
    for (uint32_t s = 0; s < play->shards; s++) {
        const struct shard_model *model = play->ps[s].shard->models[0];
        uint32_t there = 0;
        for (uint32_t l = 0; l < play->lanes; l++)
            there +=
                atomic_load(&model->board.arrived[board_arrived(
                    &model->board, l, c->rank, (uint32_t)(c->sequence % model->depth))]) == c->sequence + 1;
        if (shard_seal_of(model, c->rank, c->sequence) == NULL ||
            (c->weight > 0 && there != model->board.active_lanes))
            play_wrong(play, "contribution %llu of worker %u counts, and is not complete on ps %u",
                       (unsigned long long)c->sequence, c->rank, s);
    }
}

/* observe_refused -- nothing that a worker hands in is against the rules. */
static void observe_refused(struct play *play, const struct mode_contribution *c)
{
    struct stepgate_error error;

    error_save(&error);
    play_wrong(play, "contribution %llu of worker %u is refused: %s", (unsigned long long)c->sequence,
               c->rank, error.text);
}

/* mode_contribute -- passed through. */
int __wrap_mode_contribute(struct mode *mode, const struct mode_contribution *contribution)
{
    if (observed != NULL)
        observe_contribution(observed, contribution);
    if (chaos_played != NULL)
        chaos_fault_arrow(chaos_played, CHAOS_COUNTED, chaos_played->ps[0].shard);
    int status = __real_mode_contribute(mode, contribution);
    if (observed != NULL && status == 0)
        referee_contribute(&observed->referee, contribution);
    else if (observed != NULL)
        observe_refused(observed, contribution);
    return status;
}

/* mode_applied -- passed through. */
int __wrap_mode_applied(struct mode *mode, uint64_t step)
{
    int status = __real_mode_applied(mode, step);

    for (uint32_t s = 0; observed != NULL && s < observed->shards; s++)
        for (uint32_t l = 0; l < observed->lanes; l++)
            if (observed->ps[s].seen[l].steps != step + 1)
                play_wrong(
                    observed,
                    "step %llu is said to be applied everywhere, lane %u of ps %u has begun %llu steps",
                    (unsigned long long)step, l, s, (unsigned long long)observed->ps[s].seen[l].steps);
    if (observed != NULL)
        referee_applied(&observed->referee, step);
    if (chaos_played != NULL)
        chaos_fault_arrow(chaos_played, CHAOS_APPLIED, chaos_played->ps[0].shard);
    return status;
}

/* mode_gone -- passed through. */
int __wrap_mode_gone(struct mode *mode, uint32_t rank, bool returns)
{
    int status = __real_mode_gone(mode, rank, returns);

    if (observed != NULL)
        referee_gone(&observed->referee, rank);
    return status;
}

/* mode_rest -- passed through. */
int __wrap_mode_rest(struct mode *mode, uint32_t rank)
{
    int status = __real_mode_rest(mode, rank);

    if (observed != NULL)
        referee_rest(&observed->referee, rank);
    return status;
}

/* mode_meet -- passed through. */
int __wrap_mode_meet(struct mode *mode)
{
    int status = __real_mode_meet(mode);

    if (observed != NULL)
        referee_meet(&observed->referee);
    return status;
}

/* observe_commit -- the reference takes the step, too. */
static void observe_commit(struct play *play, const struct mode_decision *d)
{
    struct reference_member set[SHAPE_WORKERS_MAX * REFEREE_ROUNDS_MAX];
    bool tf = play->shape.mode == SHAPE_TF;

    if (play->referee.wrong[0] != 0 || play->wrong[0] != 0)
        return;
    for (uint32_t i = 0; !tf && i < d->count; i++) {
        set[i] = (struct reference_member){d->set[i].rank, d->set[i].sequence};
        const struct contribution *c = contribution_at(&play->logs[set[i].rank], set[i].sequence);
        if (c == NULL || !c->finished || c->taken || c->weight == 0) {
            play_wrong(play, "step %llu takes contribution %llu of worker %u, which it can't",
                       (unsigned long long)d->step, (unsigned long long)set[i].sequence, set[i].rank);
            return;
        }
    }
    if (reference_take(&play->reference, tf ? NULL : set, d->count) != 0)
        play_wrong(play, "no memory");
    const struct reference *r = &play->reference;
    if (play->shape.small && (memcmp(play->referee.tf.dense, r->now.arrays[0][REFERENCE_VALUE],
                                     sizeof(play->referee.tf.dense)) != 0 ||
                              memcmp(play->referee.tf.table, r->now.arrays[1][REFERENCE_VALUE],
                                     sizeof(play->referee.tf.table)) != 0))
        play_wrong(play, "the model of tf mode has other values after step %llu",
                   (unsigned long long)d->step);
}

/* observe_accumulate -- one more in the accumulators. */
static void observe_accumulate(struct play *play, const struct mode_decision *d)
{
    struct contribution *c = contribution_at(&play->logs[d->rank], d->sequence);

    if (play->accumulate_count == play->accumulate_room) {
        size_t room = play->accumulate_room > 0 ? 2 * play->accumulate_room : 64;
        struct reference_member *more = realloc(play->accumulates, room * sizeof(*more));
        if (more == NULL) {
            play_wrong(play, "no memory");
            return;
        }
        play->accumulates = more;
        play->accumulate_room = room;
    }
    play->accumulates[play->accumulate_count++] = (struct reference_member){d->rank, d->sequence};
    if (c == NULL || !c->finished || c->taken || c->weight == 0)
        play_wrong(play, "contribution %llu of worker %u is accumulated, which can't be",
                   (unsigned long long)d->sequence, d->rank);
    else
        reference_accumulate(&play->reference, c);
}

/* observe_token -- what a worker will be told. */
static void observe_token(struct play *play, const struct mode_decision *d)
{
    struct contribution *c = contribution_at(&play->logs[d->rank], d->sequence);

    play->worker[d->rank].old_token = play->worker[d->rank].last_token;
    play->worker[d->rank].last_token = (struct message){.kind = MESSAGE_TOKEN,
                                                        .step = d->step,
                                                        .sequence = d->sequence,
                                                        .verdict = (uint32_t)d->verdict,
                                                        .verdict_step = d->verdict_step,
                                                        .staleness = d->staleness};
    if (c == NULL)
        return;
    c->answer.times++;
    c->answer.verdict = d->verdict;
    c->answer.verdict_step = d->verdict_step;
    c->answer.staleness = d->staleness;
    c->answer.step = d->step;
}

/* mode_decide -- passed through. */
int __wrap_mode_decide(struct mode *mode, struct mode_decision *out)
{
    int some = __real_mode_decide(mode, out);

    if (chaos_played != NULL && some != 0 && out->kind == MODE_COMMIT) {
        chaos_oracle_decided(chaos_played, out);
        chaos_fault_arrow(chaos_played, CHAOS_DECIDED, chaos_played->ps[0].shard);
    }
    if (some == 0 || observed == NULL)
        return some;
    referee_decision(&observed->referee, out);
    switch (out->kind) {
    case MODE_COMMIT: observe_commit(observed, out); break;
    case MODE_ACCUMULATE: observe_accumulate(observed, out); break;
    case MODE_TOKEN: observe_token(observed, out); break;
    default: break;
    }
    return some;
}

/* shard_order -- passed through; some commit is kept, to be repeated when it is old. */
void __wrap_shard_order(struct shard *shard, const struct message *message, uint64_t now)
{
    if (observed != NULL && message->kind == MESSAGE_COMMIT && message->slot_kind == SLOT_GRADIENT &&
        (!observed->old_commit_there || message->step % 2 == 0)) {
        observed->old_commit = *message;
        observed->old_commit_there = true;
    }
    if (chaos_played != NULL && message->kind == MESSAGE_COMMIT) {
        chaos_repeat_order(chaos_played, shard, message);
        chaos_fault_arrow(chaos_played, CHAOS_ORDERED, shard);
    }
    __real_shard_order(shard, message, now);
}

/* observe_released -- no lane of a ps may still have to read a slot that is given back. */
static void observe_released(struct play *play, uint32_t s, uint32_t rank, uint64_t sequence)
{
    const struct contribution *c = contribution_at(&play->logs[rank], sequence);
    bool tf = play->shape.mode == SHAPE_TF;
    size_t place = 0;

    if (c == NULL || !c->taken)
        return;
    while (tf && (play->accumulates[place].rank != rank || play->accumulates[place].sequence != sequence))
        place++;
    for (uint32_t l = 0; l < play->lanes; l++) {
        const struct play_lane *lane = &play->ps[s].seen[l];
        uint64_t begun = tf ? lane->accumulated : lane->steps, needed = (tf ? place : c->taken_step) + 1;
        bool under_way = atomic_load(&lane->board->applied[l]) != atomic_load(&lane->board->order_number);
        if (begun < needed || (begun == needed && under_way && lane->board->order.kind != BOARD_SNAPSHOT))
            play_wrong(
                play,
                "ps %u gives the slot of contribution %llu of worker %u back before lane %u has read it", s,
                (unsigned long long)sequence, rank, l);
    }
}

/* shard_send -- passed through. */
void __wrap_shard_send(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now)
{
    for (uint32_t s = 0; observed != NULL && message->kind == MESSAGE_RELEASED && s < observed->shards; s++)
        if (observed->ps[s].shard == shard)
            observe_released(observed, s, rank, message->sequence);
    if (chaos_played != NULL && message->kind == MESSAGE_TOKEN) {
        chaos_repeat_token(chaos_played, shard, rank, message);
        chaos_fault_arrow(chaos_played, CHAOS_TOLD, shard);
    }
    __real_shard_send(shard, rank, message, now);
}

/* apply_new -- passed through; the lane is remembered. */
int __wrap_apply_new(const struct board *board, uint32_t lane, struct apply **out)
{
    int status = __real_apply_new(board, lane, out);

    if (chaos_played != NULL && status == 0)
        chaos_see_lane(board, lane, *out);
    for (uint32_t s = 0; observed != NULL && status == 0 && s < observed->shards; s++) {
        const struct shard_model *model = observed->ps[s].shard->models[0];
        if (model != NULL && board == &model->board)
            observed->ps[s].seen[lane] = (struct play_lane){.apply = *out, .board = board};
    }
    return status;
}

/* observe_set -- does the order name the contributors that were decided? */
static bool observe_set(const struct play *play, const struct board *board,
                        const struct reference_frame *frame)
{
    const struct board_order *order = &board->order;

    if (frame->count == 0)
        return order->kind == BOARD_CARRY;
    if (order->kind != BOARD_APPLY)
        return false;
    if (play->shape.mode == SHAPE_TF)
        return order->accumulated && order->count == 0;
    bool right = order->count == frame->count;
    for (uint32_t i = 0; right && i < order->count; i++)
        right = order->set[i].rank == frame->set[i].rank &&
                order->set[i].slot == frame->set[i].sequence % board->depth;
    return right;
}

/* observe_order -- each step once, as it was decided; each accumulation once, in the order decided. */
static void observe_order(struct play *play, uint32_t s, struct play_lane *lane)
{
    const struct board_order *order = &lane->board->order;
    const struct reference *r = &play->reference;

    if (order->kind == BOARD_APPLY || order->kind == BOARD_CARRY) {
        if (order->step != lane->steps || order->step >= r->step || !r->frames[order->step].decided)
            play_wrong(play, "ps %u applies step %llu after %llu steps, of %llu that were decided", s,
                       (unsigned long long)order->step, (unsigned long long)lane->steps,
                       (unsigned long long)r->step);
        else if (!observe_set(play, lane->board, &r->frames[order->step]))
            play_wrong(play, "ps %u applies step %llu of other contributors than were decided", s,
                       (unsigned long long)order->step);
        lane->steps++;
    } else if (order->kind == BOARD_ACCUMULATE) {
        size_t n = lane->accumulated++;
        if (n >= play->accumulate_count || order->count != 1 ||
            play->accumulates[n].rank != order->set[0].rank ||
            play->accumulates[n].sequence % lane->board->depth != order->set[0].slot)
            play_wrong(play,
                       "ps %u accumulates something else than was decided, or in another order: %zu of %zu, "
                       "%u, %u.%u",
                       s, n, play->accumulate_count, order->count, order->set[0].rank, order->set[0].slot);
    }
}

/* apply_begin -- passed through. */
void __wrap_apply_begin(struct apply *apply)
{
    if (chaos_played != NULL)
        chaos_see_apply(apply);
    for (uint32_t s = 0; observed != NULL && s < observed->shards; s++)
        for (uint32_t l = 0; l < observed->lanes; l++)
            if (observed->ps[s].seen[l].apply == apply)
                observe_order(observed, s, &observed->ps[s].seen[l]);
    __real_apply_begin(apply);
}
