/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan puts every byte of a model in one place, the same for everybody, aligned, cut where it may be and in balance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/protocol/plan.h"
#include "transport/base/error.h"
#include "transport/base/random.h"

#define SEED 20240603
#define MODELS 300
#define SHARDS_MAX 5
#define LANES_MAX 4
#define KIB UINT64_C(1024)
#define GIB (KIB * KIB * KIB)
#define CUT_ROOM (UINT64_C(4) * PLAN_BLOCK) /* bytes of a block */

/* plan_variable -- declares one more variable. */
static void plan_variable(struct model *model, int rank, const uint64_t *dims)
{
    char name[32];

    snprintf(name, sizeof(name), "v%zu", model->count);
    assert_true(model_add(model, name, STEPGATE_TRAINED, STEPGATE_F32, rank, dims) >= 0);
}

/* plan_model -- an empty model. */
static struct model *plan_model(void)
{
    struct model *model;

    assert_int_equal(model_new("m", &model), 0);
    return model;
}

/* plan_dim -- often small, sometimes large, sometimes whole blocks. */
static uint64_t plan_dim(struct random_source *random)
{
    switch (random_below(random, 4)) {
    case 0: return 1 + random_below(random, 4);
    case 1: return 1 + random_below(random, 5000);
    case 2: return UINT64_C(1) << random_below(random, 14);
    default: return 1 + random_below(random, 100);
    }
}

/* plan_random_model -- 1 to 30 variables. */
static struct model *plan_random_model(struct random_source *random)
{
    struct model *model = plan_model();

    for (uint64_t i = 1 + random_below(random, 30); i > 0; i--) {
        uint64_t dims[3] = {plan_dim(random), plan_dim(random), 1 + random_below(random, 5)};
        plan_variable(model, (int)random_below(random, 4), dims);
    }
    return model;
}

/* A model, options and their plan; made from random numbers. */
struct plan_case {
    struct model *model;
    struct plan_options options;
    struct plan *plan;
};

/* plan_case_make -- draws a model and options and plans. */
static void plan_case_make(struct random_source *random, struct plan_case *c)
{
    c->model = plan_random_model(random);
    c->options = (struct plan_options){
        .shards = 1 + (uint32_t)random_below(random, SHARDS_MAX),
        .lanes = 1 + (uint32_t)random_below(random, LANES_MAX),
        .group_bytes = random_below(random, 4) == 0 ? 0 : 1 + random_below(random, 100 * KIB),
        .cut_bytes = 1 + random_below(random, 256 * KIB)};
    assert_int_equal(plan_new(c->model, &c->options, &c->plan), 0);
    assert_int_equal(c->plan->shards, c->options.shards);
    assert_int_equal(c->plan->lanes, c->options.lanes);
}

/* plan_case_free -- the opposite. */
static void plan_case_free(struct plan_case *c)
{
    plan_delete(&c->plan);
    assert_null(c->plan);
    model_delete(&c->model);
}

/* plan_each -- calls check for random cases. */
static void plan_each(void (*check)(const struct plan_case *c))
{
    struct random_source random;

    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int i = 0; i < MODELS; i++) {
        struct plan_case c;
        plan_case_make(&random, &c);
        check(&c);
        plan_case_free(&c);
    }
}

/* check_bytes -- the pieces of each variable follow one another from its first byte to its last. */
static void check_bytes(const struct plan_case *c)
{
    const struct plan *plan = c->plan;

    assert_int_equal(plan->variable_first[0], 0);
    assert_int_equal(plan->variable_first[c->model->count], plan->pieces);
    for (size_t v = 0; v < c->model->count; v++) {
        uint64_t next = 0;
        assert_true(plan->variable_first[v] < plan->variable_first[v + 1]);
        for (size_t p = plan->variable_first[v]; p < plan->variable_first[v + 1]; p++) {
            const struct plan_piece *piece = &plan->by_variable[p];
            assert_int_equal(piece->variable, v);
            assert_true(piece->first == next);
            assert_true(piece->bytes > 0);
            next += piece->bytes;
        }
        assert_true(next == c->model->variables[v].bytes);
    }
}

/* check_places -- both lists hold the same pieces, and those of a shard lie apart, in declaration order, inside its arena. */
static void check_places(const struct plan_case *c)
{
    const struct plan *plan = c->plan;
    size_t next = 0;

    for (uint32_t s = 0; s < plan->shards; s++) {
        const struct plan_shard *shard = &plan->shard[s];
        uint64_t end = 0;
        size_t seen = 0;
        assert_int_equal(shard->first_piece, next);
        next += shard->pieces;
        for (size_t p = 0; p < plan->pieces; p++) {
            const struct plan_piece *piece = &plan->by_variable[p];
            if (piece->shard != s)
                continue;
            assert_true(seen < shard->pieces);
            assert_memory_equal(&plan->by_shard[shard->first_piece + seen], piece, sizeof(*piece));
            assert_true(piece->offset >= end);
            assert_true(piece->offset - end < PLAN_LINE);
            end = piece->offset + piece->bytes;
            seen++;
        }
        assert_int_equal(seen, shard->pieces);
        assert_true(end <= shard->arena_bytes);
        assert_true(shard->arena_bytes - end <= PLAN_LINE);
    }
    assert_int_equal(next, plan->pieces); /* so no piece is on a shard that is not there */
}

/* check_lines -- every piece and every arena begins and ends with a line. */
static void check_lines(const struct plan_case *c)
{
    for (size_t p = 0; p < c->plan->pieces; p++)
        assert_true(c->plan->by_variable[p].offset % PLAN_LINE == 0);
    for (uint32_t s = 0; s < c->plan->shards; s++) {
        assert_true(c->plan->shard[s].arena_bytes >= PLAN_LINE);
        assert_true(c->plan->shard[s].arena_bytes % PLAN_LINE == 0);
    }
}

/* check_cuts -- a variable is cut between rows and between blocks. */
static void check_cuts(const struct plan_case *c)
{
    for (size_t p = 0; p < c->plan->pieces; p++) {
        const struct plan_piece *piece = &c->plan->by_variable[p];
        const struct model_variable *v = &c->model->variables[piece->variable];
        if (piece->first == 0)
            continue;
        assert_true(v->rank > 0);
        assert_true(piece->first % (v->bytes / v->dims[0]) == 0);
        assert_true(piece->first % CUT_ROOM == 0);
    }
}

/* plan_unit -- bytes of the smallest number of rows that are whole blocks, counted out. */
static uint64_t plan_unit(const struct model_variable *v)
{
    uint64_t row = v->rank > 0 ? v->bytes / v->dims[0] : v->bytes, unit = row;

    while (unit < v->bytes && unit % CUT_ROOM != 0)
        unit += row;
    return unit;
}

/* check_parts -- a variable is cut when it is larger than cut_bytes, into as many pieces as that takes and shards and rows allow. */
static void check_parts(const struct plan_case *c)
{
    for (size_t v = 0; v < c->model->count; v++) {
        const struct model_variable *variable = &c->model->variables[v];
        size_t parts = c->plan->variable_first[v + 1] - c->plan->variable_first[v];
        uint64_t unit = plan_unit(variable), units = (variable->bytes - 1) / unit + 1;
        uint64_t wanted = (variable->bytes - 1) / c->options.cut_bytes + 1;
        if (wanted > c->options.shards)
            wanted = c->options.shards;
        assert_int_equal(parts, wanted > units ? units : wanted);
        for (size_t p = c->plan->variable_first[v]; p < c->plan->variable_first[v + 1]; p++)
            assert_true(c->plan->by_variable[p].bytes <= variable->bytes / parts + unit);
    }
}

/* check_neighbours -- the pieces of a variable lie on consecutive shards. */
static void check_neighbours(const struct plan_case *c)
{
    for (size_t p = 1; p < c->plan->pieces; p++)
        if (c->plan->by_variable[p].variable == c->plan->by_variable[p - 1].variable)
            assert_int_equal(c->plan->by_variable[p].shard,
                             (c->plan->by_variable[p - 1].shard + 1) % c->plan->shards);
}

/* check_spans -- the fragments of a shard's spans follow one another through every piece, from its first element to its last. */
static void check_spans(const struct plan_case *c)
{
    size_t next = 0;

    for (uint32_t s = 0; s < c->plan->shards; s++) {
        const struct plan_shard *shard = &c->plan->shard[s];
        size_t piece = shard->first_piece;
        uint64_t done = 0;
        assert_in_range(shard->groups, 1, PLAN_GROUPS_MAX);
        for (uint32_t g = 0; g < shard->groups; g++)
            for (uint32_t l = 0; l < c->plan->lanes; l++) {
                const struct plan_span *span = &shard->spans[g][l];
                uint64_t bytes = 0;
                if (span->fragments > 0)
                    assert_int_equal(span->first_fragment, next);
                next += span->fragments;
                for (size_t i = next - span->fragments; i < next; i++) {
                    const struct plan_fragment *f = &c->plan->fragments[i];
                    const struct plan_piece *p = &c->plan->by_shard[piece];
                    assert_true(f->group == g && f->lane == l && f->piece == piece &&
                                f->variable == p->variable);
                    assert_true(f->elements > 0 && f->first_element == p->first_element + done);
                    assert_true(f->offset == p->offset + 4 * done &&
                                f->slot_offset == p->slot_offset + 4 * done &&
                                f->state_offset == p->state_offset + 4 * done);
                    done += f->elements;
                    bytes += 4 * f->elements;
                    assert_true(done == p->elements || (p->first_element + done) % PLAN_BLOCK == 0);
                    if (done == p->elements) {
                        done = 0;
                        piece++;
                    }
                }
                assert_true(bytes == span->slot_bytes);
            }
        assert_int_equal(piece, shard->first_piece + shard->pieces);
        assert_true(done == 0);
    }
    assert_int_equal(next, c->plan->fragment_count);
}

/* check_groups -- there are as many as group_bytes asks for, about equally large. */
static void check_groups(const struct plan_case *c)
{
    uint64_t wanted = c->options.group_bytes != 0 ? c->options.group_bytes : KIB * KIB;

    for (uint32_t s = 0; s < c->plan->shards; s++) {
        const struct plan_shard *shard = &c->plan->shard[s];
        uint64_t groups = shard->slot_bytes / wanted;
        assert_int_equal(shard->groups, groups < 1 ? 1 : groups > PLAN_GROUPS_MAX ? PLAN_GROUPS_MAX : groups);
        for (uint32_t g = 0; g < shard->groups; g++) {
            uint64_t bytes = 0;
            for (uint32_t l = 0; l < c->plan->lanes; l++)
                bytes += shard->spans[g][l].slot_bytes;
            assert_true(bytes <= shard->slot_bytes / shard->groups + CUT_ROOM + shard->groups);
        }
    }
}

/* check_lanes -- in a group no lane has much more than its part. */
static void check_lanes(const struct plan_case *c)
{
    for (uint32_t s = 0; s < c->plan->shards; s++) {
        const struct plan_shard *shard = &c->plan->shard[s];
        for (uint32_t g = 0; g < shard->groups; g++)
            for (uint32_t l = 0; l < c->plan->lanes; l++)
                assert_true(shard->spans[g][l].slot_bytes <=
                            shard->slot_bytes / shard->groups / c->plan->lanes + CUT_ROOM + shard->groups);
    }
}

/* check_balance -- the fullest and the emptiest shard are not further apart than twice the largest piece. */
static void check_balance(const struct plan_case *c)
{
    uint64_t load[SHARDS_MAX] = {0}, largest = 0, most = 0, least = UINT64_MAX;

    for (size_t p = 0; p < c->plan->pieces; p++) {
        const struct plan_piece *piece = &c->plan->by_variable[p];
        load[piece->shard] += piece->bytes;
        largest = piece->bytes > largest ? piece->bytes : largest;
    }
    for (uint32_t s = 0; s < c->plan->shards; s++) {
        most = load[s] > most ? load[s] : most;
        least = load[s] < least ? load[s] : least;
    }
    assert_true(most - least <= 2 * largest);
}

/* check_again -- planned once more, nothing is different. */
static void check_again(const struct plan_case *c)
{
    struct plan *again;

    assert_int_equal(plan_new(c->model, &c->options, &again), 0);
    assert_int_equal(again->pieces, c->plan->pieces);
    assert_memory_equal(again->by_variable, c->plan->by_variable,
                        again->pieces * sizeof(*again->by_variable));
    assert_memory_equal(again->by_shard, c->plan->by_shard, again->pieces * sizeof(*again->by_shard));
    assert_memory_equal(again->variable_first, c->plan->variable_first,
                        (c->model->count + 1) * sizeof(*again->variable_first));
    assert_memory_equal(again->shard, c->plan->shard, again->shards * sizeof(*again->shard));
    plan_delete(&again);
}

static void every_byte_of_a_variable_lies_in_one_piece(void **state)
{
    (void)state;
    plan_each(check_bytes);
}

static void pieces_lie_apart_in_declaration_order(void **state)
{
    (void)state;
    plan_each(check_places);
}

static void pieces_and_arenas_are_aligned_to_lines(void **state)
{
    (void)state;
    plan_each(check_lines);
}

static void cuts_fall_between_rows_and_between_blocks(void **state)
{
    (void)state;
    plan_each(check_cuts);
}

static void a_variable_is_cut_only_when_too_large_and_then_as_often_as_needed(void **state)
{
    (void)state;
    plan_each(check_parts);
}

static void pieces_of_a_variable_lie_on_consecutive_shards(void **state)
{
    (void)state;
    plan_each(check_neighbours);
}

static void spans_partition_the_arena(void **state)
{
    (void)state;
    plan_each(check_spans);
}

static void groups_are_as_many_as_asked_for_and_equal(void **state)
{
    (void)state;
    plan_each(check_groups);
}

static void lanes_have_equal_parts(void **state)
{
    (void)state;
    plan_each(check_lanes);
}

static void shards_are_in_balance(void **state)
{
    (void)state;
    plan_each(check_balance);
}

static void the_same_input_gives_the_same_plan(void **state)
{
    (void)state;
    plan_each(check_again);
}

/* plan_all_checks -- everything that must hold of one plan. */
static void plan_all_checks(const struct plan_case *c)
{
    check_bytes(c);
    check_places(c);
    check_lines(c);
    check_cuts(c);
    check_neighbours(c);
    check_spans(c);
    check_groups(c);
    check_lanes(c);
    check_balance(c);
}

static void random_models_are_cut_often_enough_to_tell(void **state)
{
    (void)state;
    struct random_source random;
    size_t cut = 0;
    random_seed(&random, SEED);
    for (int i = 0; i < MODELS; i++) {
        struct plan_case c;
        plan_case_make(&random, &c);
        cut += c.plan->pieces - c.model->count;
        plan_case_free(&c);
    }
    assert_true(cut > 100);
}

static void variables_of_terabytes_do_not_overflow(void **state)
{
    (void)state;
    static const uint64_t shapes[][2] = {
        {(UINT64_C(1) << 40) - 1, 1},
        {1, (UINT64_C(1) << 40) - 1}, /* one row: never cut */
        {UINT64_C(1) << 20, (UINT64_C(1) << 20) - 1},
        {(UINT64_C(1) << 20) - 1, UINT64_C(1) << 20},
        {3, UINT64_C(1) << 38},
        {UINT64_C(1) << 31, 4097 / 17},
    };
    for (uint32_t shards = 1; shards <= SHARDS_MAX; shards++)
        for (uint32_t lanes = 1; lanes <= LANES_MAX; lanes++) {
            struct plan_case c = {.model = plan_model(), .options = {.shards = shards, .lanes = lanes}};
            for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
                plan_variable(c.model, 2, shapes[i]);
            assert_int_equal(plan_new(c.model, &c.options, &c.plan), 0);
            assert_true(c.plan->shard[0].arena_bytes > 4 * GIB);
            plan_all_checks(&c);
            plan_case_free(&c);
        }
}

static void a_variable_beyond_four_gibibytes_is_cut_into_equal_parts(void **state)
{
    (void)state;
    const uint64_t dims[2] = {5 * GIB / 4096, 1024}; /* 5 GiB in rows of 4 KiB */
    struct plan_case c = {.model = plan_model(), .options = {.shards = 5, .lanes = 1}};
    plan_variable(c.model, 2, dims);
    assert_int_equal(plan_new(c.model, &c.options, &c.plan), 0);
    assert_int_equal(c.plan->pieces, 5);
    for (uint32_t s = 0; s < 5; s++) {
        assert_true(c.plan->by_variable[s].first == s * GIB);
        assert_true(c.plan->by_variable[s].bytes == GIB);
        assert_true(c.plan->shard[s].arena_bytes == GIB);
    }
    plan_case_free(&c);
}

static void the_largest_sizes_in_the_options_cut_nothing(void **state)
{
    (void)state;
    const uint64_t dims[1] = {3 * GIB};
    struct plan_case c = {
        .model = plan_model(),
        .options = {.shards = 3, .lanes = 2, .group_bytes = UINT64_MAX, .cut_bytes = UINT64_MAX}};
    plan_variable(c.model, 1, dims);
    assert_int_equal(plan_new(c.model, &c.options, &c.plan), 0);
    assert_int_equal(c.plan->pieces, 1);
    plan_all_checks(&c);
    plan_case_free(&c);
}

static void a_shard_without_variables_has_an_arena_of_one_line(void **state)
{
    (void)state;
    struct plan_case c = {.model = plan_model(), .options = {.shards = 2, .lanes = 4}};
    plan_variable(c.model, 0, NULL);
    assert_int_equal(plan_new(c.model, &c.options, &c.plan), 0);
    assert_int_equal(c.plan->shard[0].pieces, 1);
    assert_int_equal(c.plan->shard[1].pieces, 0);
    assert_true(c.plan->shard[1].arena_bytes == PLAN_LINE);
    plan_all_checks(&c);
    plan_case_free(&c);
}

static void equal_variables_are_dealt_out_in_turn(void **state)
{
    (void)state;
    const uint64_t dims[1] = {1000};
    struct plan_case c = {.model = plan_model(), .options = {.shards = 3, .lanes = 1}};
    for (int i = 0; i < 9; i++)
        plan_variable(c.model, 1, dims);
    assert_int_equal(plan_new(c.model, &c.options, &c.plan), 0);
    for (uint32_t p = 0; p < 9; p++)
        assert_int_equal(c.plan->by_variable[p].shard, p % 3);
    plan_case_free(&c);
}

static void the_largest_variables_are_placed_first(void **state)
{
    (void)state;
    static const uint64_t dims[] = {1024, 1024, 1024,
                                    3 * 1024}; /* in this order the last would tip the scales */
    struct plan_case c = {.model = plan_model(), .options = {.shards = 2, .lanes = 1}};
    for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++)
        plan_variable(c.model, 1, &dims[i]);
    assert_int_equal(plan_new(c.model, &c.options, &c.plan), 0);
    assert_true(c.plan->shard[0].arena_bytes == c.plan->shard[1].arena_bytes);
    plan_case_free(&c);
}

static void what_cannot_be_planned_is_refused(void **state)
{
    (void)state;
    static const struct plan_options wrong[] = {
        {.shards = 0, .lanes = 1}, {.shards = 1, .lanes = 0}, {.shards = 1, .lanes = PLAN_LANES_MAX + 1}};
    const struct plan_options right = {.shards = 1, .lanes = PLAN_LANES_MAX};
    struct model *model = plan_model();
    struct plan *plan = NULL;
    assert_int_equal(plan_new(model, &right, &plan), -STEPGATE_EINVAL); /* no variable */
    plan_variable(model, 0, NULL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(plan_new(model, &wrong[i], &plan), -STEPGATE_EINVAL);
    assert_null(plan);
    assert_int_equal(plan_new(model, &right, &plan), 0);
    plan_delete(&plan);
    plan_delete(&plan); /* safe on NULL */
    model_delete(&model);
}

/* A model of all kinds and types with random options, and how it is laid out. */

/* plan_mixed_set -- a key of variable v. */
static void plan_mixed_set(struct model *model, uint32_t v, const char *key, const char *text)
{
    assert_int_equal(model_variable_set(model, v, key, text), 0);
}

/* plan_mixed_variable -- one more, of any kind. */
static void plan_mixed_variable(struct random_source *random, struct model *model)
{
    static const char *const dtypes[] = {"f32", "f64", "f16", "bf16"};
    uint32_t v = (uint32_t)model->count;
    int kind = 1 + (int)random_below(random, 4), dtype = 1 + (int)random_below(random, 4);
    uint64_t dims[3] = {plan_dim(random), plan_dim(random), 1 + random_below(random, 5)};
    int rank = (int)random_below(random, 4), narrower = (int)random_below(random, 4);
    char text[32];

    snprintf(text, sizeof(text), "v%u", v);
    if (kind == STEPGATE_SPARSE && rank == 0)
        rank = 1;
    assert_true(model_add(model, text, kind, dtype, rank, dims) >= 0);
    if (kind == STEPGATE_SPARSE) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)(1 + random_below(random, 2 * dims[0])));
        plan_mixed_set(model, v, "rows_max", text);
    }
    if (kind != STEPGATE_TRAINED && kind != STEPGATE_SPARSE)
        return;
    if (random_below(random, 2) && (narrower != 1 || dtype == STEPGATE_F64))
        plan_mixed_set(model, v, "gradient_dtype", dtypes[narrower]);
    if (random_below(random, 4) == 0)
        plan_mixed_set(model, v, "frozen", "yes");
}

/* plan_mixed_make -- draws a checked model and options and plans. */
static void plan_mixed_make(struct random_source *random, struct plan_case *c)
{
    c->model = plan_model();
    if (random_below(random, 2))
        assert_int_equal(model_set(c->model, "update", "tf"), 0);
    for (uint64_t i = 1 + random_below(random, 20); i > 0; i--)
        plan_mixed_variable(random, c->model);
    assert_int_equal(model_check_keys(c->model), 0);
    c->options = (struct plan_options){
        .shards = 1 + (uint32_t)random_below(random, SHARDS_MAX),
        .lanes = 1 + (uint32_t)random_below(random, LANES_MAX),
        .group_bytes = random_below(random, 4) == 0 ? 0 : 1 + random_below(random, 100 * KIB),
        .cut_bytes = 1 + random_below(random, 256 * KIB)};
    assert_int_equal(plan_new(c->model, &c->options, &c->plan), 0);
}

/* plan_mixed_each -- calls check for random cases. */
static void plan_mixed_each(void (*check)(const struct plan_case *c))
{
    struct random_source random;

    random_seed(&random, SEED + 1);
    for (int i = 0; i < MODELS; i++) {
        struct plan_case c;
        plan_mixed_make(&random, &c);
        check(&c);
        plan_case_free(&c);
    }
}

/* plan_lines -- up to whole lines. */
static uint64_t plan_lines(uint64_t bytes)
{
    return (bytes + PLAN_LINE - 1) / PLAN_LINE * PLAN_LINE;
}

/* plan_pushed -- bytes that one push of a piece takes, as plan.h draws them. */
static uint64_t plan_pushed(const struct model_variable *v, const struct plan_piece *p)
{
    uint64_t element = model_dtype_bytes(v->gradient_dtype), rows = 0;

    if (v->frozen)
        return 0;
    switch (v->kind) {
    case STEPGATE_TRAINED: return p->elements * element;
    case STEPGATE_SPARSE:
        rows = p->elements / v->row_elements;
        rows = v->rows_max < rows ? v->rows_max : rows;
        return PLAN_LINE + plan_lines(8 * rows) + rows * v->row_elements * element;
    default: return PLAN_LINE + p->elements * element;
    }
}

/* plan_computed -- bytes of a piece in a state arena. */
static uint64_t plan_computed(const struct model *model, const struct model_variable *v,
                              const struct plan_piece *p)
{
    bool accumulated = v->kind == STEPGATE_ASSIGNED && model->update == MODEL_TF;

    if (v->frozen || v->kind == STEPGATE_AUX || (v->kind == STEPGATE_ASSIGNED && !accumulated))
        return 0;
    return p->elements * (v->dtype == STEPGATE_F64 ? 8 : 4);
}

/* check_sizes -- what a push takes, by kind and type. */
static void check_sizes(const struct plan_case *c)
{
    for (size_t i = 0; i < c->plan->pieces; i++) {
        const struct plan_piece *p = &c->plan->by_variable[i];
        const struct model_variable *v = &c->model->variables[p->variable];
        uint64_t rows = v->kind == STEPGATE_SPARSE ? p->elements / v->row_elements : 0;
        assert_true(p->bytes == p->elements * model_dtype_bytes(v->dtype));
        assert_true(p->first == p->first_element * model_dtype_bytes(v->dtype));
        assert_true(p->slot_bytes == plan_pushed(v, p));
        if (v->kind == STEPGATE_SPARSE && !v->frozen)
            assert_true(p->rows_max == (v->rows_max < rows ? v->rows_max : rows) && p->rows_max > 0);
        else
            assert_true(p->rows_max == 0);
    }
}

/* check_arena -- pieces follow one another line by line up to the end of an arena; of each, its bytes and where it begins. */
static void check_arena(uint64_t *end, uint64_t offset, uint64_t bytes)
{
    if (bytes == 0)
        return;
    assert_true(offset == *end);
    *end = plan_lines(offset + bytes);
}

/* check_apart -- in each of a shard's four arenas pieces lie one behind the other. */
static void check_apart(const struct plan_case *c)
{
    for (uint32_t s = 0; s < c->plan->shards; s++) {
        const struct plan_shard *shard = &c->plan->shard[s];
        uint64_t parameters = 0, slots = 0, state = 0, aux = 0;
        for (size_t i = shard->first_piece; i < shard->first_piece + shard->pieces; i++) {
            const struct plan_piece *p = &c->plan->by_shard[i];
            const struct model_variable *v = &c->model->variables[p->variable];
            bool own = v->kind == STEPGATE_AUX;
            check_arena(&parameters, p->offset, own ? 0 : p->bytes);
            check_arena(&slots, p->slot_offset, p->slot_bytes);
            check_arena(&state, p->state_offset, plan_computed(c->model, v, p));
            check_arena(&aux, p->state_offset, own ? p->bytes : 0);
        }
        assert_true(shard->arena_bytes == (parameters > 0 ? parameters : PLAN_LINE));
        assert_true(shard->slot_bytes == (slots > 0 ? slots : PLAN_LINE));
        assert_true(shard->state_bytes == state && shard->aux_bytes == aux);
    }
}

/* check_whole -- assigned and aux variables are one piece; sparse ones are cut between rows; each of their pieces is one fragment. */
static void check_whole(const struct plan_case *c)
{
    size_t fragments[30 * SHARDS_MAX] = {0};

    for (size_t i = 0; i < c->plan->fragment_count; i++)
        fragments[c->plan->fragments[i].piece]++;
    for (size_t i = 0; i < c->plan->pieces; i++) {
        const struct plan_piece *p = &c->plan->by_shard[i];
        const struct model_variable *v = &c->model->variables[p->variable];
        assert_true(fragments[i] > 0);
        if (v->kind != STEPGATE_TRAINED)
            assert_int_equal(fragments[i], 1);
        if (v->kind == STEPGATE_ASSIGNED || v->kind == STEPGATE_AUX)
            assert_true(p->elements == v->elements);
        if (v->kind == STEPGATE_SPARSE)
            assert_true(p->first_element % v->row_elements == 0 && p->elements % v->row_elements == 0);
        if (v->kind == STEPGATE_TRAINED)
            assert_true(p->first_element % PLAN_BLOCK == 0);
    }
}

/* check_fragments -- each begins where its piece's elements do, in every arena; together they are each span's bytes. */
static void check_fragments(const struct plan_case *c)
{
    for (uint32_t s = 0; s < c->plan->shards; s++) {
        const struct plan_shard *shard = &c->plan->shard[s];
        uint64_t pushed = 0, pieces = 0;
        for (size_t i = shard->first_piece; i < shard->first_piece + shard->pieces; i++)
            pieces += c->plan->by_shard[i].slot_bytes;
        for (uint32_t g = 0; g < shard->groups; g++)
            for (uint32_t l = 0; l < c->plan->lanes; l++) {
                const struct plan_span *span = &shard->spans[g][l];
                uint64_t bytes = 0;
                for (size_t i = span->first_fragment; i < span->first_fragment + span->fragments; i++) {
                    const struct plan_fragment *f = &c->plan->fragments[i];
                    const struct plan_piece *p = &c->plan->by_shard[f->piece];
                    const struct model_variable *v = &c->model->variables[f->variable];
                    uint64_t done = f->first_element - p->first_element;
                    uint64_t gradient =
                        v->kind == STEPGATE_TRAINED && !v->frozen ? model_dtype_bytes(v->gradient_dtype) : 0;
                    assert_true(f->variable == p->variable && f->group == g && f->lane == l);
                    assert_true(done % PLAN_BLOCK == 0 && done + f->elements <= p->elements);
                    assert_true(f->offset == p->offset + done * model_dtype_bytes(v->dtype));
                    assert_true(f->slot_offset == p->slot_offset + done * gradient);
                    assert_true(f->state_offset ==
                                p->state_offset + done * (v->dtype == STEPGATE_F64 ? 8 : 4));
                    bytes += v->kind == STEPGATE_TRAINED ? f->elements * gradient : p->slot_bytes;
                }
                assert_true(span->slot_bytes == bytes);
                pushed += bytes;
            }
        assert_true(pushed == pieces);
    }
}

static void a_push_takes_what_its_kind_and_type_need(void **state)
{
    (void)state;
    plan_mixed_each(check_sizes);
}

static void pieces_of_all_kinds_lie_apart_in_every_arena(void **state)
{
    (void)state;
    plan_mixed_each(check_apart);
    plan_mixed_each(check_bytes);
    plan_mixed_each(check_neighbours);
}

static void only_trained_variables_are_cut_by_spans(void **state)
{
    (void)state;
    plan_mixed_each(check_whole);
}

static void fragments_of_all_kinds_lie_where_their_piece_does(void **state)
{
    (void)state;
    plan_mixed_each(check_fragments);
}

static void mixed_models_have_the_same_plan_twice(void **state)
{
    (void)state;
    plan_mixed_each(check_again);
}

static void rows_of_one_push_are_never_more_than_a_piece_has(void **state)
{
    (void)state;
    const uint64_t dims[2] = {10, 3};
    struct plan_case c = {.model = plan_model(), .options = {.shards = 4, .lanes = 1, .cut_bytes = 1}};
    assert_true(model_add(c.model, "v", STEPGATE_SPARSE, STEPGATE_F16, 2, dims) >= 0);
    plan_mixed_set(c.model, 0, "rows_max", "3");
    assert_int_equal(model_check_keys(c.model), 0);
    assert_int_equal(plan_new(c.model, &c.options, &c.plan), 0);
    assert_int_equal(c.plan->pieces, 4); /* of 2, 3, 2 and 3 rows */
    for (size_t i = 0; i < 4; i++) {
        const struct plan_piece *p = &c.plan->by_variable[i];
        assert_int_equal(p->elements, i % 2 ? 9 : 6);
        assert_int_equal(p->rows_max, i % 2 ? 3 : 2);
        assert_int_equal(plan_sparse_rows(p->rows_max), 2 * PLAN_LINE);
        assert_int_equal(p->slot_bytes, 2 * PLAN_LINE + p->rows_max * 3 * 2);
    }
    plan_case_free(&c);
}

static void a_shard_of_frozen_variables_takes_no_push(void **state)
{
    (void)state;
    const uint64_t dims[1] = {10000};
    struct plan_case c = {.model = plan_model(), .options = {.shards = 1, .lanes = 2, .group_bytes = 100}};
    for (int i = 0; i < 3; i++) {
        plan_variable(c.model, 1, dims);
        plan_mixed_set(c.model, (uint32_t)i, "frozen", "yes");
    }
    assert_int_equal(plan_new(c.model, &c.options, &c.plan), 0);
    assert_int_equal(c.plan->fragment_count, 3); /* yet its lanes hold the initial values */
    assert_true(c.plan->shard[0].slot_bytes == PLAN_LINE && c.plan->shard[0].state_bytes == 0);
    plan_case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_of_a_variable_lies_in_one_piece),
        cmocka_unit_test(pieces_lie_apart_in_declaration_order),
        cmocka_unit_test(pieces_and_arenas_are_aligned_to_lines),
        cmocka_unit_test(cuts_fall_between_rows_and_between_blocks),
        cmocka_unit_test(a_variable_is_cut_only_when_too_large_and_then_as_often_as_needed),
        cmocka_unit_test(pieces_of_a_variable_lie_on_consecutive_shards),
        cmocka_unit_test(spans_partition_the_arena),
        cmocka_unit_test(groups_are_as_many_as_asked_for_and_equal),
        cmocka_unit_test(lanes_have_equal_parts),
        cmocka_unit_test(shards_are_in_balance),
        cmocka_unit_test(the_same_input_gives_the_same_plan),
        cmocka_unit_test(random_models_are_cut_often_enough_to_tell),
        cmocka_unit_test(variables_of_terabytes_do_not_overflow),
        cmocka_unit_test(a_variable_beyond_four_gibibytes_is_cut_into_equal_parts),
        cmocka_unit_test(the_largest_sizes_in_the_options_cut_nothing),
        cmocka_unit_test(a_shard_without_variables_has_an_arena_of_one_line),
        cmocka_unit_test(equal_variables_are_dealt_out_in_turn),
        cmocka_unit_test(the_largest_variables_are_placed_first),
        cmocka_unit_test(what_cannot_be_planned_is_refused),
        cmocka_unit_test(a_push_takes_what_its_kind_and_type_need),
        cmocka_unit_test(pieces_of_all_kinds_lie_apart_in_every_arena),
        cmocka_unit_test(only_trained_variables_are_cut_by_spans),
        cmocka_unit_test(fragments_of_all_kinds_lie_where_their_piece_does),
        cmocka_unit_test(mixed_models_have_the_same_plan_twice),
        cmocka_unit_test(rows_of_one_push_are_never_more_than_a_piece_has),
        cmocka_unit_test(a_shard_of_frozen_variables_takes_no_push),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
