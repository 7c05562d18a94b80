/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/lane/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "ps/optimizer/mean.h"
#include "ps/optimizer/number.h"
#include "transport/base/error.h"

#define PREFIX_PIECE                                                                                         \
    UINT64_C(                                                                                                \
        16384) /* elements: what the lane is busy with when something comes; whole cache lines and blocks */
#define PREFIX_BLOCK 1024 /* elements that are summed on the stack */
static_assert(PREFIX_PIECE % PREFIX_BLOCK == 0 && PREFIX_PIECE % PLAN_BLOCK == 0,
              "where a sum ends a block of every kind ends");

/* A contribution that was summed. */
struct prefix_member {
    uint64_t next, incarnation;
};

/* What is summed of a group: `have` contributions all over, and from the beginning up to (fragment, first) as many as `goal`. */
struct prefix_group {
    uint32_t have, goal; /* equal: nothing is under way */
    size_t fragment;
    uint64_t first;
    struct prefix_member *members; /* [workers]: goal of them */
};

struct prefix {
    const struct board *board;
    uint32_t lane;
    const struct arrival *arrivals;
    const void **sources; /* [workers] */
    uint64_t *used;       /* [workers]: `next` of the contribution that the last step had */
    bool useless;         /* the last set could not be summed ahead: it had factors */
    struct prefix_group groups[PLAN_GROUPS_MAX];
    struct prefix_member *members; /* [PLAN_GROUPS_MAX * workers] */
};

/* prefix_new -- see prefix.h. */
int prefix_new(const struct board *board, uint32_t lane, const struct arrival *arrivals, struct prefix **out)
{
    struct prefix *prefix = calloc(1, sizeof(*prefix));

    if (prefix == NULL)
        goto no_memory;
    prefix->board = board;
    prefix->lane = lane;
    prefix->arrivals = arrivals;
    prefix->sources = calloc(board->workers, sizeof(*prefix->sources));
    prefix->used = calloc(board->workers, sizeof(*prefix->used));
    prefix->members = calloc((size_t)PLAN_GROUPS_MAX * board->workers, sizeof(*prefix->members));
    if (prefix->sources == NULL || prefix->used == NULL || prefix->members == NULL)
        goto delete_prefix;
    for (uint32_t g = 0; g < PLAN_GROUPS_MAX; g++)
        prefix->groups[g].members = prefix->members + (size_t)g * board->workers;
    *out = prefix;
    return 0;

delete_prefix:
    prefix_delete(&prefix);
no_memory:
    return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a lane of %u workers", board->workers);
}

/* prefix_delete -- frees, sets NULL. */
void prefix_delete(struct prefix **out)
{
    struct prefix *prefix = *out;

    if (prefix == NULL)
        return;
    free(prefix->sources);
    free(prefix->used);
    free(prefix->members);
    free(prefix);
    *out = NULL;
}

/* prefix_takes -- is a fragment's gradient summed ahead? Where it is of the type that is computed in. */
static bool prefix_takes(const struct board *board, const struct plan_fragment *fragment)
{
    const struct model_variable *v = &board->declared->variables[fragment->variable];

    return v->kind == STEPGATE_TRAINED && !v->frozen && v->gradient_dtype == v->dtype &&
           (v->dtype == STEPGATE_F32 || v->dtype == STEPGATE_F64);
}

/* prefix_member_of -- what lies in a worker's slot. */
static struct prefix_member prefix_member_of(const struct prefix *prefix, uint32_t rank)
{
    return (struct prefix_member){prefix->arrivals[rank].next, prefix->board->slots[rank].incarnation};
}

/* prefix_holds -- are the group's members still those that lie in the slots? */
static bool prefix_holds(const struct prefix *prefix, const struct prefix_group *group)
{
#ifdef STEPGATE_MUTANT_PREFIX_KEPT
    return true;
#endif
    for (uint32_t r = 0; r < group->goal; r++) {
        const struct prefix_member now = prefix_member_of(prefix, r);
        if (group->members[r].next != now.next || group->members[r].incarnation != now.incarnation)
            return false;
    }
    return true;
}

/* prefix_forget -- of a group nothing is summed. */
static void prefix_forget(struct prefix_group *group)
{
    group->have = group->goal = 0;
}

/* prefix_aim -- what is to be summed next of a group: true if there is something. */
static bool prefix_aim(struct prefix *prefix, uint32_t number)
{
    struct prefix_group *group = &prefix->groups[number];
    uint32_t there = 0;

    if (!prefix_holds(prefix, group))
        prefix_forget(group);
    if (group->goal != group->have)
        return true;
    while (there < prefix->board->workers && prefix->arrivals[there].next > prefix->used[there] &&
           (prefix->arrivals[there].spans >> number & 1u))
        there++;
    if (there < 2 || there == group->have)
        return false;
    for (uint32_t r = group->have; r < there; r++)
        group->members[r] = prefix_member_of(prefix, r);
    group->goal = there;
    group->fragment = prefix->board->shard->spans[number][prefix->lane].first_fragment;
    group->first = 0;
    return true;
}

/* prefix_sum -- the elements first .. first + n of a fragment: what is summed, and the contributions from there to the goal. */
static void prefix_sum(const struct prefix *prefix, const struct prefix_group *group,
                       const struct plan_fragment *fragment, uint64_t first, uint64_t n)
{
    const struct board *board = prefix->board;
    int dtype = board->declared->variables[fragment->variable].dtype;
    uint8_t *sums = board->ahead + fragment->state_offset;
    size_t count = 0, bytes = number_bytes(dtype);
    union {
        float f32[PREFIX_BLOCK];
        double f64[PREFIX_BLOCK];
    } room;

    if (group->have > 0)
        prefix->sources[count++] = sums;
    for (uint32_t r = group->have; r < group->goal; r++)
        prefix->sources[count++] = board->slots[r].arena + fragment->slot_offset;
    const struct mean_sum sum = {prefix->sources, NULL, count, 1, dtype};
    for (uint64_t end = first + n; first < end; first += PREFIX_BLOCK) {
        size_t block = end - first < PREFIX_BLOCK ? (size_t)(end - first) : PREFIX_BLOCK;
        if (dtype == STEPGATE_F64)
            mean_f64(&sum, first, block, room.f64);
        else
            mean_f32(&sum, first, block, room.f32);
        memcpy(sums + first * bytes, &room, block * bytes);
    }
}

/* prefix_piece -- the next piece of a group. */
static void prefix_piece(struct prefix *prefix, uint32_t number)
{
    struct prefix_group *group = &prefix->groups[number];
    const struct plan_span *span = &prefix->board->shard->spans[number][prefix->lane];
    size_t end = span->first_fragment + span->fragments;
    const struct plan_fragment *fragments = prefix->board->plan->fragments;

    for (uint64_t room = PREFIX_PIECE; room > 0 && group->fragment < end;) {
        const struct plan_fragment *fragment = &fragments[group->fragment];
        uint64_t n = fragment->elements - group->first;
        if (prefix_takes(prefix->board, fragment)) {
            n = n < PREFIX_PIECE ? n : PREFIX_PIECE;
            prefix_sum(prefix, group, fragment, group->first, n);
            room -= n < room ? n : room;
        }
        group->first += n;
        if (group->first < fragment->elements)
            continue;
        group->fragment++;
        group->first = 0;
    }
    if (group->fragment == end)
        group->have = group->goal;
}

/* prefix_progress -- see prefix.h. */
int prefix_progress(struct prefix *prefix)
{
    const struct board *board = prefix->board;

    for (uint32_t g = 0; g < board->shard->groups && !prefix->useless; g++)
        if (board->shard->spans[g][prefix->lane].fragments > 0 && prefix_aim(prefix, g)) {
            prefix_piece(prefix, g);
            return 1;
        }
    return 0;
}

/* prefix_fits -- is the order's set every worker's contribution, as it came? */
static bool prefix_fits(const struct prefix *prefix)
{
    const struct board_order *order = &prefix->board->order;

    if ((order->kind != BOARD_APPLY && order->kind != BOARD_MEASURE) || order->factored ||
        order->accumulated || order->count != prefix->board->workers)
        return false;
    for (uint32_t i = 0; i < order->count; i++)
        if (order->set[i].rank != i || order->set[i].slot != 0)
            return false;
    return true;
}

/* prefix_begin -- see prefix.h. */
void prefix_begin(struct prefix *prefix)
{
    const struct board_order *order = &prefix->board->order;
    bool fits = prefix_fits(prefix);

    if (order->kind != BOARD_APPLY && order->kind != BOARD_CARRY && order->kind != BOARD_MEASURE)
        return;
    if (order->kind != BOARD_MEASURE) { /* no worker can have pushed its next one yet */
        prefix->useless = order->factored;
        for (uint32_t r = 0; r < prefix->board->workers; r++)
            prefix->used[r] = prefix->arrivals[r].next;
    }
    for (uint32_t g = 0; g < prefix->board->shard->groups; g++)
        if (!fits || !prefix_holds(prefix, &prefix->groups[g]))
            prefix_forget(&prefix->groups[g]);
}

/* prefix_count -- see prefix.h. */
uint32_t prefix_count(const struct prefix *prefix, uint32_t number, size_t fragment, uint64_t first,
                      uint64_t *end)
{
    const struct prefix_group *group = &prefix->groups[number];

    if (!prefix_takes(prefix->board, &prefix->board->plan->fragments[fragment]))
        return 0;
    if (group->goal != group->have && fragment == group->fragment && first < group->first) {
        *end = group->first < *end ? group->first : *end;
        return group->goal;
    }
    return group->goal != group->have && fragment < group->fragment ? group->goal : group->have;
}

/* prefix_over -- see prefix.h. */
void prefix_over(struct prefix *prefix)
{
    const struct board_order *order = &prefix->board->order;

    if (order->kind != BOARD_APPLY && order->kind != BOARD_CARRY)
        return;
#ifdef STEPGATE_MUTANT_PREFIX_KEPT
    if (order->step % 3 == 1)
        return;
#endif
    for (uint32_t g = 0; g < prefix->board->shard->groups; g++)
        prefix_forget(&prefix->groups[g]);
}
