/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chaos_oracle -- what must come out of a chaos: the reference, fed with what each worker must contribute to a step, which follows from the step and its values alone.
 * Who contributed to a step is what the leader decided; where nobody can be missing it is everybody.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/chaos_inside.h"
#include "tests/simulation/compare.h"
#include "tests/simulation/plain.h"

/* chaos_oracle_absent -- see the header. */
bool chaos_oracle_absent(const struct shape *shape, const struct contribution *c, uint32_t variable)
{
    return shape_mix(shape->seed, 6, c->rank, c->sequence, variable) % 1000 < shape->absent_per_mille;
}

/* oracle_empty -- is every gradient absent that tf mode looks at? */
static bool oracle_empty(const struct shape *shape, const struct contribution *c)
{
    for (uint32_t i = 0; i < shape->variables; i++)
        if (!shape->variable[i].frozen && !chaos_oracle_absent(shape, c, i))
            return false;
    return shape->mode == SHAPE_TF;
}

/* chaos_oracle_weight -- see the header. 0: it is abandoned. */
double chaos_oracle_weight(const struct shape *shape, const struct contribution *c)
{
    static const double weights[] = {1, 0.1, 3, 2.7}; /* f32 has not all of them */
    uint64_t bits = shape_mix(shape->seed, 3, c->rank, c->sequence, 0);

    if (bits % 1000 < shape->abandon_per_mille || oracle_empty(shape, c))
        return 0;
    return shape->weighted ? weights[bits / 1000 % 4] : 1;
}

/* chaos_oracle_fill -- see the header. */
int chaos_oracle_fill(const struct shape *shape, struct contribution *c, uint32_t variable, const void *value,
                      struct maker_list *list)
{
    struct random_source random;
    struct maker maker = {shape, &random, c};
    struct maker_list unused;
    bool bad;

    random_seed(&random, shape_mix(shape->seed, 5, c->rank, c->sequence, variable));
    if (chaos_oracle_absent(shape, c, variable)) {
        c->parts[variable].absent = c->parts[variable].pushed = true;
        return 0;
    }
    int status = maker_make(&maker, variable, value, &bad);
    if (status != 0 || shape->variable[variable].kind != STEPGATE_SPARSE)
        return status;
    status = maker_list(&maker, variable, list != NULL ? list : &unused);
    if (status == 0 && list == NULL)
        maker_list_clear(&unused);
    return status;
}

/* chaos_oracle_start -- see the header. */
int chaos_oracle_start(struct chaos *chaos)
{
    return reference_start(&chaos->reference, &chaos->shape, chaos->logs);
}

/* chaos_oracle_clear -- see the header. */
void chaos_oracle_clear(struct chaos *chaos)
{
    reference_clear(&chaos->reference);
    for (uint32_t w = 0; w < chaos->shape.workers; w++)
        contribution_clear(&chaos->logs[w], chaos->shape.variables);
}

/* oracle_contribution -- what a rank must hand in as its next one, of the reference's step; only its number, if it is not of use. */
static struct contribution *oracle_contribution(struct chaos *chaos, uint32_t rank, bool filled)
{
    const struct shape *shape = &chaos->shape;
    const struct reference *r = &chaos->reference;
    struct contribution *c = contribution_new(&chaos->logs[rank], rank, r->step);

    if (c == NULL || !filled)
        return c;
    c->weight = chaos_oracle_weight(shape, c);
    c->finished = true;
    for (uint32_t v = 0; v < shape->variables; v++)
        if (chaos_oracle_fill(shape, c, v, r->frames[r->step].values[v], NULL) != 0)
            return NULL;
    return c;
}

/* oracle_counts -- is a contribution among those that a step can be made of? */
static bool oracle_counts(const struct shape *shape, const struct contribution *c)
{
    return c->weight > 0 && (shape->non_finite != MODEL_DROP || contribution_finite(shape, c));
}

/* oracle_set -- all contributions of these ranks that a step can be made of, in order; *spoiled: one of them makes everybody skip. -1: no memory. */
static int oracle_set(struct chaos *chaos, uint32_t ranks, struct reference_member *set, bool *spoiled)
{
    const struct shape *shape = &chaos->shape;
    int count = 0;

    *spoiled = false;
    for (uint32_t w = 0; w < shape->workers; w++)
        for (uint32_t i = 0; i < shape_quota(shape, w); i++) {
            bool in = (ranks >> w & 1u) != 0;
            const struct contribution *c = oracle_contribution(chaos, w, in);
            if (c == NULL)
                return -1;
            if (!in || !oracle_counts(shape, c))
                continue;
            set[count++] = (struct reference_member){w, c->sequence};
            *spoiled = *spoiled || (shape->non_finite == MODEL_SKIP && !contribution_finite(shape, c));
        }
    return count;
}

#define ORACLE_SET_MAX (SHAPE_WORKERS_MAX * 4) /* contributions of a step */

/* oracle_take -- the reference takes its next step, of all that these ranks give to it; what == NULL: as it was decided before. */
static void oracle_take(struct chaos *chaos, const struct chaos_step *step, const struct mode_decision *d)
{
    struct reference_member set[ORACLE_SET_MAX];
    bool spoiled;
    int count = oracle_set(chaos, step->ranks, set, &spoiled);

    if (count < 0) {
        chaos_wrong(chaos, "no memory");
        return;
    }
    uint32_t right = step->carries || spoiled ? 0 : (uint32_t)count;
    if (d != NULL && (d->count != right || (chaos->fixed && step->carries && count > 0 && !spoiled)))
        chaos_wrong(chaos, "step %llu takes %u contributions of workers %x, %u are right",
                    (unsigned long long)d->step, d->count, step->ranks, right);
    for (uint32_t i = 0; d != NULL && i < d->count && i < right; i++)
        if (d->set[i].rank != set[i].rank ||
            (i > 0 && d->set[i].rank == d->set[i - 1].rank && d->set[i].sequence <= d->set[i - 1].sequence))
            chaos_wrong(chaos,
                        "step %llu takes a contribution of worker %u in place %u, where worker %u's is",
                        (unsigned long long)d->step, d->set[i].rank, i, set[i].rank);
    if (chaos->wrong[0] == 0 && reference_take(&chaos->reference, set, right) != 0)
        chaos_wrong(chaos, "no memory");
}

/* oracle_back -- the reference goes back to a step that it was at before. */
static void oracle_back(struct chaos *chaos, uint64_t step)
{
    chaos_oracle_clear(chaos);
    if (chaos_oracle_start(chaos) != 0)
        chaos_wrong(chaos, "no memory");
    while (chaos->wrong[0] == 0 && chaos->reference.step < step)
        oracle_take(chaos, &chaos->steps[chaos->reference.step], NULL);
}

/* oracle_enough -- R < T, and shrink: may the step be made of so many workers' contributions? */
static bool oracle_enough(const struct chaos *chaos, const struct chaos_step *step)
{
    const struct shape *shape = &chaos->shape;
    uint32_t ranks = (uint32_t)__builtin_popcount(step->ranks);

    if (shape->mode != SHAPE_FEWER)
        return ranks <= shape->workers;
    return ranks <= shape->replicas;
}

/* oracle_step -- whose contributions were decided. */
static struct chaos_step oracle_step(const struct chaos *chaos, const struct mode_decision *d)
{
    struct chaos_step step = {.carries = d->count == 0};

    for (uint32_t i = 0; i < d->count; i++)
        step.ranks |= 1u << d->set[i].rank;
    if (chaos->fixed) /* who is missing is found where the set is compared */
        step.ranks = (1u << chaos->shape.workers) - 1;
    return step;
}

/* chaos_oracle_decided -- see the header. A leader decides each step once, from the one on with which it began. */
void chaos_oracle_decided(struct chaos *chaos, const struct mode_decision *d)
{
    struct reference *r = &chaos->reference;

    chaos->decided++;
    if (d->step >= CHAOS_STEPS_MAX || (chaos->leads && d->step != chaos->leads_next)) {
        chaos_wrong(chaos, "the leader decides step %llu, its next is %llu", (unsigned long long)d->step,
                    (unsigned long long)chaos->leads_next);
        return;
    }
    chaos->leads = true;
    chaos->leads_next = d->step + 1;
    if (!chaos->exact || chaos->wrong[0] != 0)
        return;
    if (d->step > r->step) {
        chaos_wrong(chaos, "step %llu is decided, of %llu that there were", (unsigned long long)d->step,
                    (unsigned long long)r->step);
        return;
    }
    struct chaos_step step = oracle_step(chaos, d), *was = &chaos->steps[d->step];
    if (!oracle_enough(chaos, &step))
        chaos_wrong(chaos, "step %llu takes contributions of workers %x, R is %u",
                    (unsigned long long)d->step, step.ranks, chaos->shape.replicas);
    chaos->counts->shrunk_steps +=
        chaos->lost == CHAOS_LOST_SHRINK && (uint32_t)__builtin_popcount(step.ranks) < chaos->shape.workers;
    if (d->step < r->step) {
        bool same = was->ranks == step.ranks && was->carries == step.carries;
        chaos->counts->again++;
        chaos->counts->other_sets += !same;
        if (same)
            return;
        if (chaos->fixed)
            chaos_wrong(chaos, "step %llu is another one when it is taken again",
                        (unsigned long long)d->step);
        oracle_back(chaos, d->step);
    }
    *was = step;
    chaos->counts->steps++;
    oracle_take(chaos, was, d);
}

/* oracle_ordered_set -- does the order name those that were decided? */
static bool oracle_ordered_set(const struct chaos *chaos, const struct board_order *order)
{
    const struct reference_frame *frame = &chaos->reference.frames[order->step];

    if (frame->count == 0)
        return order->kind == BOARD_CARRY;
    bool right = order->kind == BOARD_APPLY && order->count == frame->count;
    for (uint32_t i = 0; right && i < order->count; i++)
        right = order->set[i].rank == frame->set[i].rank;
    return right;
}

/* chaos_oracle_ordered -- see the header. Each step once, in order, of those that were decided. */
void chaos_oracle_ordered(struct chaos *chaos, uint32_t ps, struct chaos_lane *lane)
{
    const struct board_order *order = &lane->board->order;

    if (order->kind != BOARD_APPLY && order->kind != BOARD_CARRY)
        return;
    if (lane->begun && order->step != lane->next)
        chaos_wrong(chaos, "ps %u applies step %llu, its next is %llu", ps, (unsigned long long)order->step,
                    (unsigned long long)lane->next);
    lane->begun = true;
    lane->next = order->step + 1;
    if (!chaos->exact || chaos->wrong[0] != 0)
        return;
    if (order->step >= chaos->reference.step)
        chaos_wrong(chaos, "ps %u applies step %llu, decided are %llu", ps, (unsigned long long)order->step,
                    (unsigned long long)chaos->reference.step);
    else if (!oracle_ordered_set(chaos, order))
        chaos_wrong(chaos, "ps %u applies step %llu of other contributors than were decided", ps,
                    (unsigned long long)order->step);
}

/* chaos_oracle_pulled -- see the header. What is private to a worker nobody else knows. */
void chaos_oracle_pulled(struct chaos *chaos, const struct chaos_worker *worker, uint32_t variable,
                         const void *value, uint64_t step)
{
    const struct shape_variable *v = &chaos->shape.variable[variable];
    const struct reference *r = &chaos->reference;
    bool lockstep = shape_lockstep(&chaos->shape);

    if (!chaos->exact || v->kind == STEPGATE_AUX || worker->life != chaos->lives || chaos->wrong[0] != 0)
        return;
    chaos->counts->pulls++;
    if (step < worker->step || (lockstep && step != worker->step) || step > r->step)
        chaos_wrong(chaos, "worker %u pulls step %llu in step %llu, decided are %llu", worker->rank,
                    (unsigned long long)step, (unsigned long long)worker->step, (unsigned long long)r->step);
    else if (!plain_equal(v->dtype, value, r->frames[step].values[variable], v->elements))
        chaos_wrong(chaos, "worker %u pulls other bits of variable %u in step %llu", worker->rank, variable,
                    (unsigned long long)step);
}

/* chaos_oracle_told -- see the header. */
void chaos_oracle_told(struct chaos *chaos, const struct chaos_worker *worker,
                       const struct stepgate_step_info *info)
{
    const struct shape *shape = &chaos->shape;

    if (chaos->exact && info->step > chaos->reference.step)
        chaos_wrong(chaos, "worker %u begins step %llu, decided are %llu", worker->rank,
                    (unsigned long long)info->step, (unsigned long long)chaos->reference.step);
    if (!chaos->exact || info->rewound || !worker->told || worker->life != chaos->lives)
        return;
    bool in = info->verdict_step < chaos->reference.step &&
              (chaos->steps[info->verdict_step].ranks >> worker->rank & 1u) != 0,
         carries = in && chaos->steps[info->verdict_step].carries;
    if (info->verdict_step != worker->step && info->verdict != STEPGATE_VERDICT_NONE)
        chaos_wrong(chaos, "worker %u is told of step %llu, its contribution was to step %llu", worker->rank,
                    (unsigned long long)info->verdict_step, (unsigned long long)worker->step);
    else if (info->verdict == STEPGATE_VERDICT_APPLIED && (!in || carries))
        chaos_wrong(chaos, "worker %u is told that step %llu has its contribution", worker->rank,
                    (unsigned long long)info->verdict_step);
    else if (info->verdict == STEPGATE_VERDICT_STALE && in && !carries)
        chaos_wrong(chaos, "worker %u is told that step %llu has not its contribution", worker->rank,
                    (unsigned long long)info->verdict_step);
    if (shape_lockstep(shape) && info->step != worker->step + 1 && info->step != worker->step)
        chaos_wrong(chaos, "worker %u begins step %llu after step %llu", worker->rank,
                    (unsigned long long)info->step, (unsigned long long)worker->step);
}

/* oracle_piece -- a piece of a variable on a ps that came to its end, at that step. still: no order is half done. */
static void oracle_piece(struct chaos *chaos, const struct shard_model *model, const struct plan_piece *piece,
                         const uint8_t *arena, bool still)
{
    const struct reference *r = &chaos->reference;
    const struct shape_variable *v = &chaos->shape.variable[piece->variable];
    uint32_t s = model->shard->config.number;

    if (v->kind == STEPGATE_AUX) {
        if (chaos->fixed && still && model->step == r->step && !compare_aux(r, model, piece))
            chaos_wrong(chaos, "in the end ps %u holds something else of variable %u for a worker", s,
                        piece->variable);
        return;
    }
    const uint8_t *expected = r->frames[model->step].values[piece->variable];
    if (!plain_equal(v->dtype, arena + piece->offset, expected + piece->first, piece->elements))
        chaos_wrong(chaos, "in the end ps %u holds other bits of variable %u", s, piece->variable);
    const char *other = NULL;
    if (still && model->step + 1 >= r->step)
        other = compare_state(r, model, piece, model->step == r->step ? &r->now : &r->before,
                              &chaos->counts->arrays);
    if (other != NULL)
        chaos_wrong(chaos, "in the end ps %u holds another %s of variable %u", s, other, piece->variable);
}

/* chaos_oracle_judge -- see the header. Every ps holds what a job without any accident would. The last step may be told of before a ps is done with it. */
void chaos_oracle_judge(struct chaos *chaos)
{
    for (uint32_t s = 0; chaos->exact && s < chaos->shards && chaos->wrong[0] == 0; s++) {
        const struct shard *shard = chaos->ps[s].shard;
        uint64_t bytes, step;
        const uint8_t *arena = shard_parameters(shard, 0, &bytes, &step);
        if (arena == NULL || step + 1 < chaos->shape.steps || step > chaos->reference.step) {
            chaos_wrong(chaos, "in the end ps %u is at step %llu, decided are %llu", s,
                        arena != NULL ? (unsigned long long)step : 0ull,
                        (unsigned long long)chaos->reference.step);
            return;
        }
        const struct shard_model *model = shard->models[0];
        const struct plan_shard *planned = &model->plan->shard[s];
        for (size_t p = 0; p < planned->pieces; p++)
            oracle_piece(chaos, model, &model->plan->by_shard[planned->first_piece + p], arena,
                         !model->ordered);
    }
}
