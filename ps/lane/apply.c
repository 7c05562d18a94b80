/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/lane/apply.h"

#include <stdlib.h>
#include <string.h>

#include "ps/lane/prefix.h"
#include "ps/lane/table.h"
#include "ps/optimizer/mean.h"
#include "ps/optimizer/number.h"
#include "ps/protocol/model.h"
#include "transport/base/error.h"

struct apply {
    const struct board *board;
    uint32_t lane;
    const void **gradients; /* [workers * depth] */
    double *factors;        /* the same */
    struct table **tables;  /* [fragments of the plan]: of this lane's sparse fragments, NULL: another kind */
    double *present;        /* [the same]: tf, dense fragments: weights accumulated */
    struct prefix *prefix;  /* NULL: nothing is summed ahead */
};

/* A fragment with what is known of its variable. */
struct apply_part {
    const struct plan_fragment *fragment;
    const struct model_variable *variable;
    uint32_t group;
    size_t number; /* of the fragment, in the plan */
    uint64_t n;    /* elements */
};

/* apply_new -- see apply.h. */
int apply_new(const struct board *board, uint32_t lane, struct apply **out)
{
    struct apply *apply = calloc(1, sizeof(*apply));
    size_t members = (size_t)board->workers * board->depth, fragments = board->plan->fragment_count;
    int status = 0;

    if (apply == NULL)
        goto no_memory;
    apply->board = board;
    apply->lane = lane;
    apply->gradients = calloc(members, sizeof(*apply->gradients));
    apply->factors = calloc(members, sizeof(*apply->factors));
    apply->tables = calloc(fragments, sizeof(*apply->tables));
    apply->present = calloc(fragments, sizeof(*apply->present));
    if (apply->gradients == NULL || apply->factors == NULL || apply->tables == NULL || apply->present == NULL)
        goto delete_apply;
    for (uint32_t g = 0; status == 0 && g < board->shard->groups; g++) {
        const struct plan_span *span = &board->shard->spans[g][lane];
        for (size_t i = span->first_fragment; status == 0 && i < span->first_fragment + span->fragments; i++)
            if (board->declared->variables[board->plan->fragments[i].variable].kind == STEPGATE_SPARSE)
                status = table_new(board, &board->plan->fragments[i], &apply->tables[i]);
    }
    if (status != 0)
        goto delete_apply;
    *out = apply;
    return 0;

delete_apply:
    apply_delete(&apply);
no_memory:
    return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a lane of %u workers", board->workers);
}

/* apply_delete -- frees, sets NULL. */
void apply_delete(struct apply **out)
{
    struct apply *apply = *out;

    if (apply == NULL)
        return;
    for (size_t i = 0; apply->tables != NULL && i < apply->board->plan->fragment_count; i++)
        table_delete(&apply->tables[i]);
    prefix_delete(&apply->prefix);
    free(apply->gradients);
    free(apply->factors);
    free(apply->tables);
    free(apply->present);
    free(apply);
    *out = NULL;
}

/* apply_slot -- where a contribution's bytes of a fragment begin. */
static const uint8_t *apply_slot(const struct board *board, const struct board_contribution *c,
                                 const struct plan_fragment *fragment)
{
    return board->slots[c->rank].arena + c->slot * board->stride + fragment->slot_offset;
}

/* apply_there -- of an assigned or aux variable: did this contribution bring a value? */
static bool apply_there(const uint8_t *slot)
{
    uint64_t count;

    memcpy(&count, slot, sizeof(count));
    return count != 0;
}

/* apply_sum -- the set's gradients of a trained fragment. */
static struct mean_sum apply_sum(struct apply *apply, const struct apply_part *part)
{
    const struct board_order *order = &apply->board->order;

    for (uint32_t i = 0; i < order->count; i++) {
        apply->gradients[i] = apply_slot(apply->board, &order->set[i], part->fragment);
        apply->factors[i] = order->set[i].factor;
    }
    return (struct mean_sum){.gradients = apply->gradients,
                             .factors = order->factored ? apply->factors : NULL,
                             .count = order->count,
                             .divisor = order->accumulated ? apply->present[part->number] : order->divisor,
                             .dtype = part->variable->gradient_dtype};
}

/*
 * apply_range -- the same from element `first` on, with what was summed ahead in the place of the contributions that are in it. Returns the end of the elements for
 * which that holds.
 */
static uint64_t apply_range(struct apply *apply, const struct apply_part *part, uint64_t first,
                            struct mean_sum *sum)
{
    uint64_t end = part->n;
    uint32_t ahead =
        apply->prefix != NULL ? prefix_count(apply->prefix, part->group, part->number, first, &end) : 0;

    *sum = apply_sum(apply, part);
    if (ahead > 0) {
        sum->gradients += ahead - 1;
        sum->count -= ahead - 1;
        apply->gradients[ahead - 1] = apply->board->ahead + part->fragment->state_offset;
    }
    return end;
}

/* apply_mean_f32 -- the mean of n elements from `first` on: of the set, or of what was accumulated. */
static void apply_mean_f32(const struct board *board, const struct mean_sum *sum, const float *sums,
                           uint64_t first, size_t n, float *mean)
{
    float divisor = (float)sum->divisor;

    if (!board->order.accumulated) {
        mean_f32(sum, first, n, mean);
        return;
    }
    for (size_t i = 0; i < n; i++)
        mean[i] = sums[first + i] / divisor;
}

/* apply_mean_f64 -- the same in double. */
static void apply_mean_f64(const struct board *board, const struct mean_sum *sum, const double *sums,
                           uint64_t first, size_t n, double *mean)
{
    double divisor = sum->divisor;

    if (!board->order.accumulated) {
        mean_f64(sum, first, n, mean);
        return;
    }
    for (size_t i = 0; i < n; i++)
        mean[i] = sums[first + i] / divisor;
}

/* apply_block -- the size of the next block. */
static size_t apply_block(uint64_t first, uint64_t n, size_t most)
{
    return n - first < most ? (size_t)(n - first) : most;
}

/* apply_at -- an arena from a fragment on; NULL stays NULL. */
static void *apply_at(uint8_t *arena, uint64_t offset)
{
    return arena != NULL ? arena + offset : NULL;
}

/* apply_whole -- is the fragment's step one pass over memory? Where gradients, or sums, and values are of the computing type. */
static bool apply_whole(const struct board *board, const struct model_variable *v)
{
    bool exact = v->dtype == STEPGATE_F32 || v->dtype == STEPGATE_F64;

    return exact && (board->order.accumulated || v->gradient_dtype == v->dtype);
}

/* apply_pass -- mean, rule and averages of a fragment in one pass: from one parity to the other. */
static void apply_pass(struct apply *apply, const struct apply_part *part)
{
    const struct board *board = apply->board;
    const struct board_order *order = &board->order;
    const struct model_variable *v = part->variable;
    const struct optimizer_variable options = {v->learning_rate_scale, v->decays};
    unsigned parity = (unsigned)(order->step & 1);
#ifdef STEPGATE_MUTANT_PARITY_SWAPPED
    parity ^= order->step % 7 == 3 ? 1u : 0u;
#endif
    uint64_t state = part->fragment->state_offset, offset = part->fragment->offset;
    const void *sums = apply_at(board->sums, state);
    struct mean_sum sum;
    struct optimizer_pass pass = {
        .sum = &sum,
        .now = board->rule->replaces ? NULL : board->parameters[parity] + offset,
        .next = board->parameters[parity ^ 1u] + offset,
        .slots = {apply_at(board->state[0], state), apply_at(board->state[1], state)},
        .average = v->average ? apply_at(board->average, state) : NULL,
        .stream = board->stream};

    for (uint64_t first = 0, end; first < part->n; first = end) {
        end = apply_range(apply, part, first, &sum);
        if (order->accumulated) {
            sum.gradients = &sums;
            sum.factors = NULL;
            sum.count = 1;
            sum.dtype = v->dtype == STEPGATE_F64 ? NUMBER_F64 : NUMBER_F32; /* whatever came over the wire */
        }
        if (v->dtype == STEPGATE_F64)
            optimizer_pass_f64(board->rule, board->kind, &options, &order->hyper, &pass, first, end - first);
        else
            optimizer_pass_f32(board->rule, board->kind, &options, &order->hyper, &pass, first, end - first);
    }
#ifdef STEPGATE_MUTANT_DOUBLE_APPLY
    pass.now = pass.next;
    if (order->step % 5 == 2 && v->dtype != STEPGATE_F64)
        optimizer_pass_f32(board->rule, board->kind, &options, &order->hyper, &pass, 0, part->n);
#endif
}

/* apply_f32 -- one step of a fragment that is computed in f32: in place of the other parity, or through its master copy. */
static void apply_f32(struct apply *apply, const struct apply_part *part)
{
    const struct board *board = apply->board;
    const struct model_variable *v = part->variable;
    const struct optimizer_variable options = {v->learning_rate_scale, v->decays};
    struct mean_sum sum = apply_sum(apply, part);
    unsigned parity = (unsigned)(board->order.step & 1);
#ifdef STEPGATE_MUTANT_PARITY_SWAPPED
    parity ^= board->order.step % 7 == 3 ? 1u : 0u;
#endif
    uint64_t state = part->fragment->state_offset;
    uint8_t *next = board->parameters[parity ^ 1u] + part->fragment->offset;
    bool narrow = v->dtype != STEPGATE_F32;
    float *from =
        narrow ? apply_at(board->master, state) : apply_at(board->parameters[parity], part->fragment->offset);
    float *to = narrow ? from : (float *)(void *)next;
    float *average = v->average ? apply_at(board->average, state) : NULL,
          *sums = apply_at(board->sums, state);
    float *slots[OPTIMIZER_SLOTS_MAX] = {apply_at(board->state[0], state), apply_at(board->state[1], state)};
    float mean[OPTIMIZER_BLOCK];

    for (uint64_t first = 0; first < part->n; first += OPTIMIZER_BLOCK) {
        size_t n = apply_block(first, part->n, OPTIMIZER_BLOCK);
        float *at[OPTIMIZER_SLOTS_MAX] = {slots[0] != NULL ? slots[0] + first : NULL,
                                          slots[1] != NULL ? slots[1] + first : NULL};
        apply_mean_f32(board, &sum, sums, first, n, mean);
        optimizer_apply_f32(board->rule, &options, &board->order.hyper, mean, from + first, to + first, at,
                            average != NULL ? average + first : NULL, n);
        if (narrow)
            number_narrow_f32(v->dtype, to + first, next + first * number_bytes(v->dtype), n);
#ifdef STEPGATE_MUTANT_DOUBLE_APPLY
        if (board->order.step % 5 == 2)
            optimizer_apply_f32(board->rule, &options, &board->order.hyper, mean, to + first, to + first, at,
                                average != NULL ? average + first : NULL, n);
#endif
    }
}

/* apply_f64 -- one step of a fragment that is computed in f64. */
static void apply_f64(struct apply *apply, const struct apply_part *part)
{
    const struct board *board = apply->board;
    const struct model_variable *v = part->variable;
    const struct optimizer_variable options = {v->learning_rate_scale, v->decays};
    struct mean_sum sum = apply_sum(apply, part);
    unsigned parity = (unsigned)(board->order.step & 1);
    uint64_t state = part->fragment->state_offset, offset = part->fragment->offset;
    double *from = apply_at(board->parameters[parity], offset),
           *to = apply_at(board->parameters[parity ^ 1u], offset);
    double *average = v->average ? apply_at(board->average, state) : NULL,
           *sums = apply_at(board->sums, state);
    double *slots[OPTIMIZER_SLOTS_MAX] = {apply_at(board->state[0], state), apply_at(board->state[1], state)};
    double mean[OPTIMIZER_BLOCK];

    for (uint64_t first = 0; first < part->n; first += OPTIMIZER_BLOCK) {
        size_t n = apply_block(first, part->n, OPTIMIZER_BLOCK);
        double *at[OPTIMIZER_SLOTS_MAX] = {slots[0] != NULL ? slots[0] + first : NULL,
                                           slots[1] != NULL ? slots[1] + first : NULL};
        apply_mean_f64(board, &sum, sums, first, n, mean);
        optimizer_apply_f64(board->rule, &options, &board->order.hyper, mean, from + first, to + first, at,
                            average != NULL ? average + first : NULL, n);
    }
}

/* apply_carry -- the bytes of a dense fragment go over to the other parity. */
static void apply_carry(const struct board *board, const struct apply_part *part)
{
    unsigned parity = (unsigned)(board->order.step & 1);
    uint64_t offset = part->fragment->offset;

    memcpy(board->parameters[parity ^ 1u] + offset, board->parameters[parity] + offset,
           part->n * number_bytes(part->variable->dtype));
}

/* apply_forget -- what was accumulated of a dense fragment is used up. */
static void apply_forget(struct apply *apply, const struct apply_part *part)
{
#ifdef STEPGATE_MUTANT_SUMS_NOT_CLEARED
    if (apply->board->order.step % 3 == 1)
        return;
#endif
    apply->present[part->number] = 0;
}

/* apply_missing -- tf: was it absent from every contribution? It then stays as it is, with all its state. */
static bool apply_missing(const struct apply *apply, const struct apply_part *part)
{
    return apply->board->order.accumulated && !(apply->present[part->number] > 0);
}

/* apply_trained -- one order on a fragment of a trained variable. */
static void apply_trained(struct apply *apply, const struct apply_part *part)
{
    const struct board_order *order = &apply->board->order;

    if (part->variable->frozen)
        return; /* both parities hold the initial value */
    if (order->kind == BOARD_CARRY || apply_missing(apply, part))
        apply_carry(apply->board, part);
    else if (apply_whole(apply->board, part->variable))
        apply_pass(apply, part);
    else if (part->variable->dtype == STEPGATE_F64)
        apply_f64(apply, part);
    else
        apply_f32(apply, part);
    if (order->accumulated)
        apply_forget(apply, part);
}

/* apply_measure -- adds the squares of a trained fragment's mean, block by block. */
static void apply_measure(struct apply *apply, const struct apply_part *part)
{
    const struct board *board = apply->board;
    struct mean_sum sum;
    uint64_t state = part->fragment->state_offset;
    bool wide = part->variable->dtype == STEPGATE_F64;
    union {
        float f32[PLAN_BLOCK];
        double f64[PLAN_BLOCK];
    } mean;
    static_assert(PLAN_BLOCK == NUMBER_NORM_MAX, "squares are added block by block");

    if (apply_missing(apply, part))
        return;

    for (uint64_t first = 0, end = 0; first < part->n; first += PLAN_BLOCK) {
        size_t n = apply_block(first, part->n, PLAN_BLOCK);
        if (first >= end)
            end = apply_range(apply, part, first, &sum);
        if (wide)
            apply_mean_f64(board, &sum, apply_at(board->sums, state), first, n, mean.f64);
        else
            apply_mean_f32(board, &sum, apply_at(board->sums, state), first, n, mean.f32);
        exact_add(&board->measures[apply->lane], number_norm(wide ? NUMBER_F64 : NUMBER_F32, &mean, n));
    }
}

/* apply_add_f32 -- n fresh elements are added to the sums, or are their beginning. */
static void apply_add_f32(float *sums, const float *fresh, bool first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sums[i] = first ? fresh[i] : sums[i] + fresh[i];
}

/* apply_add_f64 -- the same in double. */
static void apply_add_f64(double *sums, const double *fresh, bool first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sums[i] = first ? fresh[i] : sums[i] + fresh[i];
}

/*
 * apply_add -- one contribution's value of a dense fragment is added to what is accumulated. The first one is copied: 0 + -0 would be 0, and what was
 * accumulated for the step before need not be cleared.
 */
static void apply_add(struct apply *apply, const struct apply_part *part, const void *gradient, double factor,
                      double weight)
{
    void *sums = apply_at(apply->board->sums, part->fragment->state_offset);
    double *present = &apply->present[part->number];
    const void *one[1] = {gradient};
    struct mean_sum sum = {one, factor == 1 ? NULL : &factor, 1, 1, part->variable->gradient_dtype};
    union {
        float f32[OPTIMIZER_BLOCK];
        double f64[OPTIMIZER_BLOCK];
    } fresh;

    for (uint64_t first = 0; first < part->n; first += OPTIMIZER_BLOCK) {
        size_t n = apply_block(first, part->n, OPTIMIZER_BLOCK);
        if (part->variable->dtype == STEPGATE_F64) {
            mean_f64(&sum, first, n, fresh.f64);
            apply_add_f64((double *)sums + first, fresh.f64, !(*present > 0), n);
        } else {
            mean_f32(&sum, first, n, fresh.f32);
            apply_add_f32((float *)sums + first, fresh.f32, !(*present > 0), n);
        }
    }
    *present += weight;
}

/* apply_assign -- writes a mean in the computing type as the value of the next step. */
static void apply_assign(struct apply *apply, const struct apply_part *part, struct mean_sum *sum,
                         double divisor)
{
    const struct board *board = apply->board;
    const struct model_variable *v = part->variable;
    unsigned parity = (unsigned)(board->order.step & 1);
    uint8_t *next = board->parameters[parity ^ 1u] + part->fragment->offset;
    const void *sums[1] = {apply_at(board->sums, part->fragment->state_offset)};
    struct mean_sum accumulated = {sums, NULL, 1, divisor,
                                   v->dtype == STEPGATE_F64 ? NUMBER_F64 : NUMBER_F32};
    float mean[OPTIMIZER_BLOCK];

    if (sum == NULL)
        sum = &accumulated;
    sum->divisor = divisor;
    if (v->dtype == STEPGATE_F64) {
        mean_f64(sum, 0, part->n, (double *)(void *)next);
        return;
    }
    for (uint64_t first = 0; first < part->n; first += OPTIMIZER_BLOCK) {
        size_t n = apply_block(first, part->n, OPTIMIZER_BLOCK);
        mean_f32(sum, first, n, mean);
        number_narrow_f32(v->dtype, mean, next + first * number_bytes(v->dtype), n);
    }
}

/* apply_assigned -- one order on an assigned variable: the mean of the values that came, or worker 0's; none: it stays. */
static void apply_assigned(struct apply *apply, const struct apply_part *part)
{
    const struct board *board = apply->board;
    const struct board_order *order = &board->order;
    bool first_only = part->variable->assign == MODEL_ASSIGN_RANK0, weighted = false;
    struct mean_sum sum = {apply->gradients, NULL, 0, 1, part->variable->gradient_dtype};
    double divisor = 0;

    if (order->accumulated && order->kind == BOARD_APPLY && apply->present[part->number] > 0) {
        apply_assign(apply, part, NULL, apply->present[part->number]);
        apply_forget(apply, part);
        return;
    }
    for (uint32_t i = 0; order->kind == BOARD_APPLY && !order->accumulated && i < order->count; i++) {
        const uint8_t *slot = apply_slot(board, &order->set[i], part->fragment);
        if (!apply_there(slot) || (first_only && order->set[i].rank != 0))
            continue;
        if (first_only)
            sum.count = 0; /* of several values of worker 0 the last one holds */
        apply->gradients[sum.count] = slot + plan_values(part->variable->kind);
        apply->factors[sum.count++] = first_only ? 1 : order->set[i].weight;
        weighted = weighted || (!first_only && order->set[i].weight != 1);
        divisor = first_only ? 1 : divisor + order->set[i].weight;
    }
    sum.factors = weighted ? apply->factors : NULL;
    if (sum.count > 0)
        apply_assign(apply, part, &sum, divisor);
    else
        apply_carry(board, part);
    if (order->accumulated)
        apply_forget(apply, part);
}

/* apply_aux -- keeps what the contributors hand in of their own. */
static void apply_aux(const struct board *board, const struct apply_part *part)
{
    const struct board_order *order = &board->order;

    for (uint32_t i = 0; i < order->count; i++) {
        const struct board_contribution *c = &order->set[i];
        const uint8_t *slot = apply_slot(board, c, part->fragment);
        if (!apply_there(slot))
            continue;
        if (board->aux_there != NULL)
            board->aux_there[board_aux(board, c->rank, part->fragment->variable)] = 1;
        memcpy(board->aux + c->rank * board->shard->aux_bytes + part->fragment->state_offset,
               slot + plan_values(STEPGATE_AUX), part->n * number_bytes(part->variable->dtype));
    }
}

/* apply_absent -- has the contribution no gradient of this variable? */
static bool apply_absent(const struct board_contribution *c, const struct apply_part *part)
{
    uint32_t v = part->fragment->variable;

    return c->absent != NULL && ((unsigned)c->absent[v / 8] >> (v % 8) & 1u) != 0;
}

/* apply_accumulate -- one contribution to a dense fragment's accumulator. */
static void apply_accumulate(struct apply *apply, const struct apply_part *part)
{
    const struct board_contribution *c = &apply->board->order.set[0];
    const uint8_t *slot = apply_slot(apply->board, c, part->fragment);
    bool first_only = part->variable->assign == MODEL_ASSIGN_RANK0;

    if (part->variable->frozen || apply_absent(c, part))
        return; /* nothing of it is pushed */
    switch (part->variable->kind) {
    case STEPGATE_TRAINED: apply_add(apply, part, slot, c->factor, c->weight); return;
    case STEPGATE_AUX: apply_aux(apply->board, part); return;
    default: break;
    }
    if (!apply_there(slot) || (first_only && c->rank != 0))
        return;
    double weight = first_only ? 1 : c->weight;
    if (first_only)
        apply_forget(apply, part); /* of several values of worker 0 the last one holds */
    apply_add(apply, part, slot + plan_values(part->variable->kind), weight, weight);
}

/* apply_fill -- n elements of a state arena. */
static void apply_fill(uint8_t *arena, const struct apply_part *part, double value)
{
    bool wide = part->variable->dtype == STEPGATE_F64;
    void *at = arena + part->fragment->state_offset;

    for (uint64_t i = 0; i < part->n; i++)
        if (wide)
            ((double *)at)[i] = value;
        else
            ((float *)at)[i] = (float)value;
}

/* apply_widened -- a state arena takes over the values as they are computed with. */
static void apply_widened(uint8_t *arena, const struct apply_part *part, const void *values)
{
    void *at = arena + part->fragment->state_offset;

    if (part->variable->dtype == STEPGATE_F64)
        memcpy(at, values, part->n * sizeof(double));
    else
        number_widen_f32(part->variable->dtype, values, at, part->n);
}

/* apply_initial -- worker 0's values are step 0, in both parities; optimizer slots, masters and averages start from them. */
static void apply_initial(const struct board *board, const struct apply_part *part)
{
    const struct model_variable *v = part->variable;
    const uint8_t *values = board->slots[0].arena + part->fragment->offset;
    uint64_t bytes = part->n * number_bytes(v->dtype);

    if (v->kind == STEPGATE_AUX)
        return;
    for (int p = 0; p < 2; p++)
        memcpy(board->parameters[p] + part->fragment->offset, values, bytes);
    if (v->kind == STEPGATE_ASSIGNED || v->frozen)
        return;
    for (unsigned s = 0; s < board->rule->slots; s++)
        apply_fill(board->state[s], part,
                   optimizer_slot_initial(board->rule, s, board->declared->initial_accumulator));
    if (board->master != NULL && v->dtype != STEPGATE_F64 && v->dtype != STEPGATE_F32)
        apply_widened(board->master, part, values);
    if (board->average != NULL)
        apply_widened(board->average, part, values);
}

/* apply_copy -- a snapshot of a fragment. */
static void apply_copy(const struct board *board, const struct apply_part *part)
{
    const struct board_order *order = &board->order;
    const struct model_variable *v = part->variable;
    bool values = order->what == BOARD_PARAMETERS;
    uint64_t offset = values ? part->fragment->offset : part->fragment->state_offset;
    uint64_t bytes = part->n * (values ? number_bytes(v->dtype) : plan_state_element(v->dtype));
    const uint8_t *source = values                          ? board->parameters[order->step & 1]
                            : order->what == BOARD_AVERAGES ? board->average
                                                            : board->state[order->what - BOARD_SLOT];

    if (v->kind == STEPGATE_AUX || (!values && (v->kind == STEPGATE_ASSIGNED || v->frozen)))
        return;
    memcpy(order->target + offset, source + offset, bytes);
}

/* apply_keep_aux -- a checkpoint of what each worker has of its own. */
static void apply_keep_aux(const struct board *board, const struct apply_part *part)
{
    const struct board_copy *copy = board->order.copy;
    uint64_t bytes = part->n * number_bytes(part->variable->dtype);

    for (uint32_t w = 0; w < board->workers; w++) {
        size_t there = board_aux(board, w, part->fragment->variable);
        uint64_t at = w * board->shard->aux_bytes + part->fragment->state_offset;
        copy->aux_there[there] = board->aux_there[there];
        memcpy(copy->aux + at, board->aux + at, bytes);
    }
}

/* apply_keep -- a checkpoint of a fragment: its values, and all that the next step depends on. */
static void apply_keep(const struct board *board, const struct apply_part *part)
{
    const struct board_copy *copy = board->order.copy;
    const struct model_variable *v = part->variable;
    uint64_t offset = part->fragment->offset, state = part->fragment->state_offset,
             wide = part->n * plan_state_element(v->dtype);

    if (v->kind == STEPGATE_AUX) {
        apply_keep_aux(board, part);
        return;
    }
    memcpy(copy->parameters + offset, board->parameters[board->order.step & 1] + offset,
           part->n * number_bytes(v->dtype));
    if (v->kind == STEPGATE_ASSIGNED || v->frozen)
        return;
    for (unsigned s = 0; s < board->rule->slots; s++)
        memcpy(copy->state[s] + state, board->state[s] + state, wide);
    if (copy->master != NULL)
        memcpy(copy->master + state, board->master + state, wide);
    if (copy->average != NULL)
        memcpy(copy->average + state, board->average + state, wide);
}

/* apply_part_of -- one order on one fragment. */
static int apply_part_of(struct apply *apply, const struct apply_part *part)
{
    const struct board *board = apply->board;
    bool sparse = part->variable->kind == STEPGATE_SPARSE && !part->variable->frozen;

    switch (board->order.kind) {
    case BOARD_INITIAL:
        if (!board->order.restored)
            apply_initial(board, part);
        return 0;
    case BOARD_SNAPSHOT: apply_copy(board, part); return 0;
    case BOARD_CHECKPOINT: apply_keep(board, part); return 0;
    case BOARD_MEASURE:
        if (sparse)
            return table_measure(apply->tables[part->number], &board->measures[apply->lane]);
        if (part->variable->kind == STEPGATE_TRAINED && !part->variable->frozen)
            apply_measure(apply, part);
        return 0;
    case BOARD_ACCUMULATE:
        if (sparse)
            return table_add(apply->tables[part->number], &board->order.set[0]);
        apply_accumulate(apply, part);
        return 0;
    default: break;
    }
    switch (part->variable->kind) {
    case STEPGATE_TRAINED: apply_trained(apply, part); return 0;
    case STEPGATE_ASSIGNED: apply_assigned(apply, part); return 0;
    case STEPGATE_AUX:
        if (board->order.kind == BOARD_APPLY)
            apply_aux(board, part);
        return 0;
    default: return sparse ? table_step(apply->tables[part->number]) : 0;
    }
}

/* apply_watch -- see apply.h. */
int apply_watch(struct apply *apply, const struct arrival *arrivals)
{
    return apply->board->ahead != NULL ? prefix_new(apply->board, apply->lane, arrivals, &apply->prefix) : 0;
}

/* apply_ahead -- see apply.h. */
int apply_ahead(struct apply *apply)
{
    return apply->prefix != NULL ? prefix_progress(apply->prefix) : 0;
}

/* apply_begin -- before the first span of an order. */
void apply_begin(struct apply *apply)
{
    if (apply->board->order.kind == BOARD_MEASURE)
        exact_clear(&apply->board->measures[apply->lane]);
    if (apply->prefix != NULL)
        prefix_begin(apply->prefix);
}

/* apply_over -- behind the last span of an order. */
void apply_over(struct apply *apply)
{
    if (apply->prefix != NULL)
        prefix_over(apply->prefix);
}

/* apply_span -- see apply.h. */
int apply_span(struct apply *apply, uint32_t group)
{
    const struct board *board = apply->board;
    const struct plan_span *span = &board->shard->spans[group][apply->lane];
    int status = 0;

    for (size_t i = span->first_fragment; status == 0 && i < span->first_fragment + span->fragments; i++) {
        const struct plan_fragment *fragment = &board->plan->fragments[i];
        const struct apply_part part = {fragment, &board->declared->variables[fragment->variable], group, i,
                                        fragment->elements};
        status = apply_part_of(apply, &part);
    }
    return status;
}
