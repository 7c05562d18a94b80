/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An order does to the bytes of a model what plain loops do to its numbers, whatever the kinds and types, the optimizer, and how shards, groups
 * and lanes cut it: to the bit.
 */
#include "plain.h"

#include <stdio.h>

#include "transport/base/error.h"
#include "transport/base/random.h"

#define SEED 20240618
#define WORKERS 3
#define DEPTH 2
#define VARIABLES 10
#define STEPS 5
#define ELEMENTS_MAX 12000

enum { OPTIMIZERS = MODEL_ADAMW + 1 };
static const int dtypes[] = {STEPGATE_F32, STEPGATE_F64, STEPGATE_F16, STEPGATE_BF16};
static const char *const updates[] = {"", "strict", "tf", "async"};
static const char *const optimizers[] = {"",        "sgd",     "momentum", "none", "nesterov",
                                         "adagrad", "rmsprop", "adam",     "adamw"};

/* A model twice: on boards, and plain. */
struct play {
    struct random_source random;
    struct model *model;
    struct board_case boards;
    struct plain plain;
    uint64_t step;
    double accumulated;
    struct board_contribution set[WORKERS * DEPTH];
};
static struct play play;
static double room[ELEMENTS_MAX], other[ELEMENTS_MAX]; /* bytes of any type */

/* play_number -- one of the type: zeros of both signs, and mostly numbers of all digits. */
static double play_number(int dtype)
{
    double value = ldexp((double)(random_next(&play.random) >> 11) - 0x1p52, -53), out;
    float narrow = (float)value;
    uint16_t bits;

    if (random_below(&play.random, 16) == 0)
        return random_below(&play.random, 2) ? 0.0 : -0.0;
    if (dtype == STEPGATE_F64)
        return value;
    if (dtype == STEPGATE_F32)
        return (double)narrow;
    number_narrow_f32(dtype, &narrow, &bits, 1);
    number_widen_f64(dtype, &bits, &out, 1);
    return out;
}

/* play_encode -- doubles that the type has, as its bytes, in `room`. */
static const void *play_encode(int dtype, const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float narrow = (float)values[i];
        if (dtype == STEPGATE_F64)
            room[i] = values[i];
        else
            number_narrow_f32(dtype, &narrow, (uint8_t *)room + i * number_bytes(dtype), 1);
    }
    return room;
}

/* play_set -- a key of a variable. */
static void play_set(uint32_t v, const char *key, const char *text)
{
    assert_int_equal(model_variable_set(play.model, v, key, text), 0);
}

/* play_options -- of a variable that was just declared. */
static void play_options(uint32_t v)
{
    const struct model_variable *x = &play.model->variables[v];
    struct random_source *r = &play.random;

    if (x->kind == STEPGATE_ASSIGNED && random_below(r, 2))
        play_set(v, "assign", "rank0");
    if (x->kind != STEPGATE_TRAINED && x->kind != STEPGATE_SPARSE)
        return;
    if (x->kind == STEPGATE_SPARSE) {
        char rows[24];
        snprintf(rows, sizeof(rows), "%llu", (unsigned long long)(1 + random_below(r, x->rows)));
        play_set(v, "rows_max", rows);
        if (random_below(r, 2))
            play_set(v, "row_mean", "replicas");
    }
    if (random_below(r, 5) == 0)
        play_set(v, "frozen", "yes");
    if (play.model->optimizer != MODEL_NONE && random_below(r, 3) == 0)
        play_set(v, "learning_rate_scale", "0.3");
    if (play.model->optimizer != MODEL_NONE && random_below(r, 3) == 0)
        play_set(v, "decays", "no");
    if (random_below(r, 2) == 0) {
        int narrower = dtypes[random_below(r, 4)];
        if (narrower != STEPGATE_F64 || x->dtype == STEPGATE_F64)
            play_set(v, "gradient_dtype", model_dtype_name(narrower));
    }
    if (play.model->average_decay > 0 && random_below(r, 3) == 0)
        play_set(v, "average", "no");
}

/* play_declare -- variables of every kind and type. */
static void play_declare(void)
{
    for (uint32_t v = 0; v < VARIABLES; v++) {
        struct random_source *r = &play.random;
        int kind = v < 4 ? (int)v + 1 : 1 + (int)random_below(r, 4);
        uint64_t dims[2] = {1 + random_below(r, 40), 1 + random_below(r, random_below(r, 3) ? 20 : 300)};
        char name[16];
        snprintf(name, sizeof(name), "v%u", v);
        assert_true(model_add(play.model, name, kind, dtypes[random_below(r, 4)], 2, dims) >= 0);
        play_options(v);
    }
}

/* play_open -- a model, its initial values, and both of its forms at step 0. */
static void play_open(int update, int optimizer, bool torch, uint64_t seed, const struct plan_options *plan)
{
    play = (struct play){0};
    random_seed(&play.random, seed);
    assert_int_equal(model_new("m", &play.model), 0);
    assert_int_equal(model_set(play.model, "update", updates[update]), 0);
    assert_int_equal(model_set(play.model, "optimizer", optimizers[optimizer]), 0);
    if (torch)
        assert_int_equal(model_set(play.model, "formula", "torch"), 0);
    if (optimizer != MODEL_NONE && random_below(&play.random, 2))
        assert_int_equal(model_set(play.model, "average_decay", "0.9"), 0);
    play_declare();
    assert_int_equal(model_check_keys(play.model), 0);
    board_open(&play.boards, play.model, WORKERS, DEPTH, plan);
    plain_open(&play.plain, play.model, WORKERS, DEPTH);
    for (uint32_t v = 0; v < play.model->count; v++) {
        struct plain_variable *x = &play.plain.variables[v];
        if (x->v->kind == STEPGATE_AUX)
            continue;
        for (uint64_t i = 0; i < x->v->elements; i++)
            x->now[i] = play_number(x->v->dtype);
        board_put_initial(&play.boards, v, play_encode(x->v->dtype, x->now, x->v->elements));
    }
    const struct board_order initial = {.kind = BOARD_INITIAL};
    assert_int_equal(board_run(&play.boards, &initial), 0);
    plain_initial(&play.plain);
}

/* play_close -- frees. */
static void play_close(void)
{
    board_gaps(&play.boards);
    board_close(&play.boards);
    plain_close(&play.plain);
    model_delete(&play.model);
}

/* play_rows -- rising indices, at most rows_max. */
static void play_rows(const struct plain_variable *x, struct plain_push *push)
{
    uint64_t most = x->v->rows_max, rows = x->v->rows;

    push->rows = 0;
    for (uint64_t row = 0; row < rows && push->rows < most; row++)
        if (random_below(&play.random, 3) == 0)
            push->indices[push->rows++] = row;
}

/* play_push -- a contribution of every variable into a slot. */
static void play_push(uint32_t rank, uint32_t slot)
{
    for (uint32_t v = 0; v < play.model->count; v++) {
        struct plain_variable *x = &play.plain.variables[v];
        struct plain_push *push = plain_push_of(&play.plain, v, rank, slot);
        size_t n = (size_t)x->v->elements;
        if (x->v->frozen)
            continue;
        push->there = x->v->kind == STEPGATE_TRAINED || random_below(&play.random, 4) > 0;
        if (x->v->kind == STEPGATE_SPARSE) {
            play_rows(x, push);
            n = push->rows * (size_t)x->v->row_elements;
        }
        for (size_t i = 0; i < n; i++)
            push->values[i] = play_number(x->v->gradient_dtype);
        const void *bytes = play_encode(x->v->gradient_dtype, push->values, n);
        if (x->v->kind == STEPGATE_SPARSE)
            board_put_rows(&play.boards, rank, slot, v, push->indices, push->rows, bytes);
        else
            board_put(&play.boards, rank, slot, v, push->there ? bytes : NULL);
    }
}

/* play_hyper -- scalars as a leader could send them: those of f64 are not those of f32, widened. */
static struct optimizer_hyper play_hyper(void)
{
    struct random_source *r = &play.random;
    double rate = 0.05 / (double)(1 + random_below(r, 9));
    struct optimizer_scalars_f64 h = {.rate = rate,
                                      .momentum = random_below(r, 3) ? 0.9 : 0,
                                      .rho = 0.9,
                                      .one_minus_rho = 1 - 0.9,
                                      .beta1 = 0.9,
                                      .beta2 = 0.999,
                                      .one_minus_beta1 = 1 - 0.9,
                                      .one_minus_beta2 = 1 - 0.999,
                                      .epsilon = 1e-8,
                                      .alpha = rate * 0.7,
                                      .root2 = 0.3,
                                      .decay = rate * 0.01,
                                      .l2 = random_below(r, 2) ? 1e-3 : 0,
                                      .clip_value = random_below(r, 2) ? 0.5 : 0,
                                      .average_rate = play.model->average_decay > 0 ? 0.1 : 0,
                                      .scale = random_below(r, 2) ? 0.37 : 1};
    struct optimizer_hyper hyper = {.in_f64 = h};
    double wide[OPTIMIZER_SCALARS];
    float narrow[OPTIMIZER_SCALARS];

    memcpy(wide, &h, sizeof(wide));
    for (size_t i = 0; i < OPTIMIZER_SCALARS; i++)
        narrow[i] = (float)wide[i];
    memcpy(&hyper.in_f32, narrow, sizeof(narrow));
    return hyper;
}

/* play_member -- a contribution as the shard describes it. */
static struct board_contribution play_member(uint32_t rank, uint32_t slot, bool factored)
{
    struct board_contribution c = {.rank = rank, .slot = slot, .weight = 1, .factor = 1};

    if (factored) {
        c.weight = (double)(1 + random_below(&play.random, 100)) / 7;
        c.factor = random_below(&play.random, 3) ? c.weight : c.weight * 0.3; /* a norm was clipped */
    }
    return c;
}

/* play_order -- an order of this step; strict, async: a random set, by (rank, slot), that has just been pushed. */
static struct board_order play_order(int kind)
{
    struct board_order order = {
        .kind = kind, .step = play.step, .hyper = play_hyper(), .set = play.set, .divisor = play.accumulated};
    bool factored = random_below(&play.random, 2);

    order.accumulated = play.model->update == MODEL_TF && kind != BOARD_ACCUMULATE;
    if (order.accumulated || kind == BOARD_CARRY)
        return order;
    uint32_t only = play.model->update == MODEL_STRICT && kind == BOARD_APPLY
                        ? UINT32_MAX
                        : (uint32_t)random_below(&play.random, WORKERS * DEPTH);
    order.divisor = 0;
    for (uint32_t c = 0; c < WORKERS * DEPTH; c++) {
        if (only == UINT32_MAX ? random_below(&play.random, 3) == 0 : c != only)
            continue;
        play_push(c / DEPTH, c % DEPTH);
        play.set[order.count] = play_member(c / DEPTH, c % DEPTH, factored);
        order.factored = order.factored || play.set[order.count].factor != 1;
        order.divisor += play.set[order.count++].weight;
    }
    if (order.count == 0)
        order.kind = BOARD_CARRY;
    return order;
}

/* check_bytes -- an arena against plain numbers. */
static void check_bytes(const char *what, enum board_place place, bool state, uint32_t v,
                        const double *values)
{
    const struct model_variable *x = &play.model->variables[v];
    int dtype = !state ? x->dtype : x->dtype == STEPGATE_F64 ? STEPGATE_F64 : STEPGATE_F32;
    size_t n = (size_t)x->elements, bytes = number_bytes(dtype);

    play_encode(dtype, values, n);
    board_get(&play.boards, place, state, v, other);
    for (size_t i = 0; i < n; i++)
        if (memcmp((uint8_t *)room + i * bytes, (uint8_t *)other + i * bytes, bytes) != 0)
            fail_msg("step %llu: %s of %s %s %s, element %zu of %zu: %a expected",
                     (unsigned long long)play.step, what, x->name, model_kind_name(x->kind),
                     model_dtype_name(x->dtype), i, n, values[i]);
}

/* check_aux -- what each worker has kept. */
static void check_aux(uint32_t v)
{
    const struct model_variable *x = &play.model->variables[v];
    const struct plan_piece *piece = &play.boards.plan->by_variable[play.boards.plan->variable_first[v]];
    const struct board *board = &play.boards.shard[piece->shard].board;

    for (uint32_t w = 0; w < WORKERS; w++) {
        play_encode(x->dtype, play.plain.variables[v].aux + w * x->elements, (size_t)x->elements);
        assert_memory_equal(board->aux + w * board->shard->aux_bytes + piece->state_offset, room, x->bytes);
    }
}

/* check_all -- everything of every variable, in both parities. */
static void check_all(void)
{
    const struct optimizer_rule *rule = optimizer_rule(play.model->optimizer, play.model->torch);

    for (uint32_t v = 0; v < play.model->count; v++) {
        const struct plain_variable *x = &play.plain.variables[v];
        if (x->v->kind == STEPGATE_AUX) {
            check_aux(v);
            continue;
        }
        check_bytes("value", BOARD_EVEN + (play.step & 1), false, v, x->now);
        check_bytes("value before", BOARD_ODD - (play.step & 1), false, v, x->old);
        if (x->v->kind == STEPGATE_ASSIGNED || x->v->frozen)
            continue;
        for (unsigned s = 0; s < rule->slots; s++)
            check_bytes(rule->slot_names[s], BOARD_FIRST + s, true, v, x->slots[s]);
        if (x->v->average)
            check_bytes("average", BOARD_AVERAGE, true, v, x->average);
        if (number_bytes(x->v->dtype) == 2)
            check_bytes("master", BOARD_MASTER, true, v, x->exact);
    }
}

/* check_copy -- a snapshot of one kind of arena; other: it is as it was, target included. */
static void check_copy(int what)
{
    const struct board_order order = {.kind = BOARD_SNAPSHOT, .step = play.step, .what = what};
    size_t arenas = play.boards.arena_count;

    for (uint32_t s = 0; s < play.boards.shards; s++) {
        struct board *board = &play.boards.shard[s].board;
        board->order.target =
            board_arena(&play.boards,
                        what == BOARD_PARAMETERS ? board->shard->arena_bytes : board->shard->state_bytes, 1);
    }
    assert_int_equal(board_run(&play.boards, &order), 0);
    for (uint32_t v = 0; v < play.model->count; v++) {
        const struct plain_variable *x = &play.plain.variables[v];
        bool trained = (x->v->kind == STEPGATE_TRAINED || x->v->kind == STEPGATE_SPARSE) && !x->v->frozen;
        if (what == BOARD_PARAMETERS && x->v->kind != STEPGATE_AUX)
            check_bytes("copy", BOARD_TARGET, false, v, x->now);
        else if (what == BOARD_AVERAGES && trained && x->v->average)
            check_bytes("copy of the average", BOARD_TARGET, true, v, x->average);
        else if (what >= BOARD_SLOT && trained)
            check_bytes("copy of a slot", BOARD_TARGET, true, v, x->slots[what - BOARD_SLOT]);
    }
    while (play.boards.arena_count > arenas) {
        const struct board_arena *arena = &play.boards.arenas[--play.boards.arena_count];
        munmap(arena->memory, arena->length);
    }
    check_all();
}

/* check_copies -- of everything there is. */
static void check_copies(void)
{
    check_copy(BOARD_PARAMETERS);
    if (play.model->average_decay > 0)
        check_copy(BOARD_AVERAGES);
    for (unsigned s = 0; s < optimizer_rule(play.model->optimizer, play.model->torch)->slots; s++)
        check_copy(BOARD_SLOT + (int)s);
}

/* play_accumulate -- some contributions, one order each; the first of a step may be without. */
static void play_accumulate(void)
{
    play.accumulated = 0;
    for (uint64_t n = random_below(&play.random, 5); n > 0; n--) {
        struct board_order order = play_order(BOARD_ACCUMULATE);
        order.factored = order.set[0].factor != 1;
        order.kind = BOARD_ACCUMULATE;
        assert_int_equal(order.count, 1);
        assert_int_equal(board_run(&play.boards, &order), 0);
        plain_run(&play.plain, &order);
        play.accumulated += order.divisor;
        check_all();
    }
}

/* play_measure -- before a step is applied; it changes nothing. */
static void play_measure(const struct board_order *apply)
{
    struct board_order order = *apply;

    order.kind = BOARD_MEASURE;
    assert_int_equal(board_run(&play.boards, &order), 0);
    double got = board_measured(&play.boards), expected = plain_measure(&play.plain, &order);
    if (memcmp(&got, &expected, sizeof(got)) != 0)
        fail_msg("step %llu: the squares are %a, not %a", (unsigned long long)play.step, got, expected);
    check_all();
}

/* play_steps -- a short training. */
static void play_steps(void)
{
    check_all();
    for (int i = 0; i < STEPS; i++) {
        bool tf = play.model->update == MODEL_TF;
        if (tf)
            play_accumulate();
        struct board_order order = play_order(random_below(&play.random, 6) ? BOARD_APPLY : BOARD_CARRY);
        if (tf && play.accumulated == 0)
            order.kind = BOARD_CARRY;
        if (order.kind == BOARD_APPLY && random_below(&play.random, 2))
            play_measure(&order);
        assert_int_equal(board_run(&play.boards, &order), 0);
        plain_run(&play.plain, &order);
        play.step++;
        play.accumulated = 0;
        check_all();
    }
    check_copies();
}

/* play_layouts -- ways to cut a model. */
static const struct plan_options layouts[] = {
    {.shards = 1, .lanes = 1, .group_bytes = UINT64_C(1) << 40, .cut_bytes = UINT64_C(1) << 40},
    {.shards = 1, .lanes = 2, .group_bytes = 4096, .cut_bytes = UINT64_C(1) << 40},
    {.shards = 2, .lanes = 3, .group_bytes = 1000, .cut_bytes = 1024},
    {.shards = 3, .lanes = 4, .group_bytes = 20000, .cut_bytes = 1024},
    {.shards = 4, .lanes = 1, .group_bytes = 1, .cut_bytes = 1},
};
#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

/* play_each -- every optimizer and formula in a mode, cut in every way. */
static void play_each(int update)
{
    for (int optimizer = 1; optimizer < OPTIMIZERS; optimizer++)
        for (int torch = 0; torch < 2; torch++) {
            if (optimizer == MODEL_NONE && (torch || update == MODEL_ASYNC))
                continue;
            for (size_t l = 0; l < LAYOUTS; l++) {
                play_open(update, optimizer, torch, SEED + (uint64_t)optimizer * 7 + l, &layouts[l]);
                play_steps();
                play_close();
            }
        }
}

static void a_step_has_the_bits_of_plain_loops(void **state)
{
    (void)state;
    play_each(MODEL_STRICT);
}

static void what_is_accumulated_has_the_bits_of_plain_loops(void **state)
{
    (void)state;
    play_each(MODEL_TF);
}

static void a_contribution_that_is_applied_alone_has_the_bits_of_plain_loops(void **state)
{
    (void)state;
    play_each(MODEL_ASYNC);
}

/* play_of_layout -- a strict job in a layout: its values and measures, to be compared with others. */
static void play_of_layout(const struct plan_options *layout, uint64_t seed, double *measures,
                           uint8_t *values)
{
    play_open(MODEL_STRICT, MODEL_MOMENTUM, false, seed, layout);
    for (int i = 0; i < STEPS; i++) {
        struct board_order order = play_order(BOARD_APPLY);
        play_measure(&order);
        measures[i] = board_measured(&play.boards);
        assert_int_equal(board_run(&play.boards, &order), 0);
        plain_run(&play.plain, &order);
        play.step++;
    }
    for (uint32_t v = 0; v < play.model->count; v++) {
        if (play.model->variables[v].kind == STEPGATE_AUX)
            continue;
        board_get(&play.boards, BOARD_EVEN + (play.step & 1), false, v, values);
        values += play.model->variables[v].bytes;
    }
    play_close();
}

static void lanes_groups_and_shards_change_no_bit_not_even_of_the_norm(void **state)
{
    (void)state;
    static uint8_t one[VARIABLES * ELEMENTS_MAX * 8], many[VARIABLES * ELEMENTS_MAX * 8];
    for (uint64_t seed = SEED; seed < SEED + 10; seed++) {
        double first[STEPS], measures[STEPS];
        memset(one, 0, sizeof(one));
        memset(many, 0, sizeof(many));
        play_of_layout(&layouts[0], seed, first, one);
        for (size_t l = 1; l < LAYOUTS; l++) {
            play_of_layout(&layouts[l], seed, measures, many);
            assert_memory_equal(first, measures, sizeof(first));
            assert_memory_equal(one, many, sizeof(one));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_has_the_bits_of_plain_loops),
        cmocka_unit_test(what_is_accumulated_has_the_bits_of_plain_loops),
        cmocka_unit_test(a_contribution_that_is_applied_alone_has_the_bits_of_plain_loops),
        cmocka_unit_test(lanes_groups_and_shards_change_no_bit_not_even_of_the_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
