/* SPDX-License-Identifier: BSD-3-Clause */
/* What is summed while contributions are still on their way changes no bit, and nothing of it is used for a set that it is not of. */
#include <math.h>

#include "board.h"

#include "ps/lane/prefix.h"
#include "transport/base/error.h"
#include "transport/base/random.h"

#define SEED 20261202
#define WORKERS 4
#define LARGE 40000 /* elements: three pieces */
#define PIECE 16384
#define WIDE 5000
#define NARROW 300
#define PLAYS 40
#define STEPS 4

/* A model twice: one sums ahead, the other one does not. */
struct bench {
    struct random_source random;
    struct model *model;
    struct board_case ahead, plain;
    struct arrival arrivals[WORKERS];
    struct board_contribution set[WORKERS];
    struct prefix *prefix; /* one more, that is asked what it has */
    uint64_t step;
};
static struct bench bench;
static union {
    float f32[LARGE];
    double f64[WIDE];
    uint16_t bf16[NARROW];
} values;

static const struct plan_options whole = {
    .shards = 1, .lanes = 1, .group_bytes = UINT64_C(1) << 40, .cut_bytes = UINT64_C(1) << 40};
static const struct plan_options parts = {
    .shards = 1, .lanes = 1, .group_bytes = 4096, .cut_bytes = UINT64_C(1) << 40};

/* bench_values -- of a variable, as random as its type allows. */
static const void *bench_values(uint32_t v)
{
    for (size_t i = 0; i < LARGE; i++) {
        double value = ldexp((double)(random_next(&bench.random) >> 11) - 0x1p52, -50);
        if (v == 0)
            values.f32[i] = (float)value;
        else if (v == 1 && i < WIDE)
            values.f64[i] = value;
        else if (i < NARROW)
            values.bf16[i] = (uint16_t)(random_next(&bench.random) & 0xbfffu); /* no NaN and no infinity */
    }
    return &values;
}

/* bench_open -- at step 0. */
static void bench_open(uint64_t seed, const struct plan_options *plan)
{
    const uint64_t dims[] = {LARGE, WIDE, NARROW};
    const int dtypes[] = {STEPGATE_F32, STEPGATE_F64, STEPGATE_BF16};
    const struct board_order order = {.kind = BOARD_INITIAL};
    struct board_case *cases[] = {&bench.ahead, &bench.plain};

    bench = (struct bench){0};
    random_seed(&bench.random, seed);
    assert_int_equal(model_new("m", &bench.model), 0);
    assert_int_equal(model_set(bench.model, "optimizer", "momentum"), 0);
    for (int v = 0; v < 3; v++)
        assert_true(model_add(bench.model,
                              v == 0   ? "large"
                              : v == 1 ? "wide"
                                       : "narrow",
                              STEPGATE_TRAINED, dtypes[v], 1, &dims[v]) >= 0);
    assert_int_equal(model_check_keys(bench.model), 0);
    for (int c = 0; c < 2; c++)
        board_open(cases[c], bench.model, WORKERS, 1, plan);
    struct board *board = &bench.ahead.shard[0].board;
    board->ahead = board_arena(&bench.ahead, (size_t)board->shard->state_bytes, BOARD_PATTERN);
    assert_int_equal(apply_watch(bench.ahead.shard[0].apply[0], bench.arrivals), 0);
    assert_int_equal(prefix_new(board, 0, bench.arrivals, &bench.prefix), 0);
    for (uint32_t v = 0; v < 3; v++) {
        bench_values(v);
        for (int c = 0; c < 2; c++)
            board_put_initial(cases[c], v, &values);
    }
    for (int c = 0; c < 2; c++)
        assert_int_equal(board_run(cases[c], &order), 0);
}

/* bench_close -- frees. */
static void bench_close(void)
{
    prefix_delete(&bench.prefix);
    assert_null(bench.prefix);
    board_close(&bench.ahead);
    board_close(&bench.plain);
    model_delete(&bench.model);
}

/* bench_push -- a worker's gradients lie in both slots; nobody knows of it yet. */
static void bench_push(uint32_t rank)
{
    for (uint32_t v = 0; v < 3; v++) {
        bench_values(v);
        board_put(&bench.ahead, rank, 0, v, &values);
        board_put(&bench.plain, rank, 0, v, &values);
    }
}

/* bench_arrive -- a span has come. */
static void bench_arrive(uint32_t rank, uint32_t group)
{
    uint8_t all = (uint8_t)((1u << bench.ahead.shard[0].board.shard->groups) - 1);
    enum arrival_verdict verdict = arrival_add(&bench.arrivals[rank], all, group, bench.step);

    assert_true(verdict == ARRIVAL_NEW || verdict == ARRIVAL_WHOLE);
}

/* bench_order -- of everybody. */
static struct board_order bench_order(int kind)
{
    struct board_order order = {.kind = kind,
                                .step = bench.step,
                                .hyper = {.in_f32 = {.rate = 0.1F, .momentum = 0.9F, .scale = 1},
                                          .in_f64 = {.rate = 0.1, .momentum = 0.9, .scale = 1}},
                                .set = bench.set,
                                .count = WORKERS,
                                .divisor = WORKERS};

    for (uint32_t w = 0; w < WORKERS; w++)
        bench.set[w] = (struct board_contribution){.rank = w, .weight = 1, .factor = 1};
    return order;
}

/* bench_run -- an order on both. */
static void bench_run(const struct board_order *order)
{
    assert_int_equal(board_run(&bench.ahead, order), 0);
    apply_over(bench.ahead.shard[0].apply[0]);
    assert_int_equal(board_run(&bench.plain, order), 0);
    if (order->kind == BOARD_MEASURE) {
        double got = board_measured(&bench.ahead), expected = board_measured(&bench.plain);
        assert_memory_equal(&got, &expected, sizeof(got));
        return;
    }
    for (int p = 0; p < 2; p++)
        assert_memory_equal(bench.ahead.shard[0].board.parameters[p],
                            bench.plain.shard[0].board.parameters[p],
                            bench.plain.shard[0].board.shard->arena_bytes);
    assert_memory_equal(bench.ahead.shard[0].board.state[0], bench.plain.shard[0].board.state[0],
                        bench.plain.shard[0].board.shard->state_bytes);
    bench.step++;
}

/* bench_step -- one step: spans arrive in any order, and in between it is summed for a while, or not. */
static void bench_step(void)
{
    struct random_source *r = &bench.random;
    uint32_t groups = bench.ahead.shard[0].board.shard->groups, spans[WORKERS * PLAN_GROUPS_MAX];

    for (uint32_t w = 0; w < WORKERS; w++)
        bench_push(w);
    for (uint32_t i = 0; i < WORKERS * groups; i++) {
        uint32_t at = (uint32_t)random_below(r, i + 1);
        spans[i] = spans[at];
        spans[at] = i;
    }
    for (uint32_t i = 0; i < WORKERS * groups; i++) {
        bench_arrive(spans[i] / groups, spans[i] % groups);
        for (uint64_t n = random_below(r, 3); n > 0; n--)
            apply_ahead(bench.ahead.shard[0].apply[0]);
    }
    struct board_order order = bench_order(BOARD_MEASURE);
    if (random_below(r, 2))
        bench_run(&order);
    order.kind = random_below(r, 6) == 0 ? BOARD_CARRY : BOARD_APPLY;
    if (random_below(r, 6) == 0) { /* one is left out */
        memmove(bench.set, bench.set + 1, (WORKERS - 1) * sizeof(bench.set[0]));
        order.count--;
    } else if (random_below(r, 6) == 0) {
        order.factored = true;
        bench.set[1].factor = 0.5;
    }
    bench_run(&order);
}

static void what_is_summed_ahead_changes_no_bit(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < PLAYS; i++) {
        bench_open(SEED + i, i % 2 ? &parts : &whole);
        for (int s = 0; s < STEPS; s++)
            bench_step();
        bench_close();
    }
}

/* bench_count -- how many are summed at an element of the large variable, which is the first fragment of its group. */
static uint32_t bench_count(uint64_t first, uint64_t *end)
{
    *end = LARGE;
    return prefix_count(bench.prefix, 0, 0, first, end);
}

static void the_first_ranks_are_summed_piece_by_piece(void **state)
{
    (void)state;
    uint64_t end;

    bench_open(SEED, &whole);
    assert_int_equal(prefix_progress(bench.prefix), 0);
    bench_arrive(1, 0);
    bench_arrive(2, 0);
    assert_int_equal(prefix_progress(bench.prefix), 0); /* the first one is not there */
    bench_arrive(0, 0);
    assert_int_equal(prefix_progress(bench.prefix), 1);
    assert_int_equal(bench_count(0, &end), 3);
    assert_int_equal(end, PIECE);
    assert_int_equal(bench_count(PIECE, &end), 0);
    assert_int_equal(end, LARGE);
    while (prefix_progress(bench.prefix))
        ;
    assert_int_equal(bench_count(0, &end), 3);
    assert_int_equal(end, LARGE);
    bench_arrive(3, 0);
    assert_int_equal(prefix_progress(bench.prefix), 1);
    assert_int_equal(bench_count(0, &end), 4);
    assert_int_equal(bench_count(PIECE, &end), 3);
    end = NARROW;
    assert_int_equal(prefix_count(bench.prefix, 0, 2, 0, &end), 0); /* 16 bits are summed when all is there */
    bench_close();
}

/* bench_summed -- everybody's contribution has come, and is summed. */
static void bench_summed(void)
{
    uint64_t end;

    for (uint32_t w = 0; w < WORKERS; w++)
        bench_arrive(w, 0);
    while (prefix_progress(bench.prefix))
        ;
    assert_int_equal(bench_count(0, &end), WORKERS);
}

/* bench_begun -- how many are used of what is summed, for an order. */
static uint32_t bench_begun(const struct board_order *order)
{
    struct board *board = &bench.ahead.shard[0].board;
    struct board_contribution *set = board->order.set;
    uint64_t end;

    memcpy(set, order->set, WORKERS * sizeof(*set));
    board->order = *order;
    board->order.set = set;
    prefix_begin(bench.prefix);
    return bench_count(0, &end);
}

static void what_does_not_fit_the_order_is_not_used(void **state)
{
    (void)state;
    for (int what = 0; what < 6; what++) {
        bench_open(SEED, &whole);
        bench_summed();
        struct board_order order = bench_order(what % 2 ? BOARD_MEASURE : BOARD_APPLY);
        switch (what) {
        case 0: order.count--; break;
        case 1: order.factored = true; break;
        case 2: order.accumulated = true; break;
        case 3: bench.set[1].rank = 2; break;
        case 4: bench.arrivals[2].next++; break;
        default: bench.ahead.shard[0].board.slots[1].incarnation++; break;
        }
        assert_int_equal(bench_begun(&order), 0);
        bench_close();
    }
}

static void what_fits_is_used_once(void **state)
{
    (void)state;
    bench_open(SEED, &whole);
    bench_summed();
    struct board_order order = bench_order(BOARD_SNAPSHOT);
    assert_int_equal(bench_begun(&order), WORKERS);
    order.kind = BOARD_MEASURE;
    assert_int_equal(bench_begun(&order), WORKERS);
    prefix_over(bench.prefix);
    order.kind = BOARD_APPLY;
    assert_int_equal(bench_begun(&order), WORKERS);
    prefix_over(bench.prefix);
    assert_int_equal(bench_begun(&order), 0);
    assert_int_equal(prefix_progress(bench.prefix), 0); /* all of it was in the step */
    bench.step++;
    bench_summed();
    bench_close();
}

static void a_set_with_factors_is_not_summed_ahead_the_next_time(void **state)
{
    (void)state;
    bench_open(SEED, &whole);
    bench_summed();
    struct board_order order = bench_order(BOARD_APPLY);
    order.factored = true;
    bench_begun(&order);
    prefix_over(bench.prefix);
    bench.step++;
    for (uint32_t w = 0; w < WORKERS; w++)
        bench_arrive(w, 0);
    assert_int_equal(prefix_progress(bench.prefix), 0);
    order.factored = false;
    bench_begun(&order);
    prefix_over(bench.prefix);
    bench.step++;
    bench_summed();
    bench_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_summed_ahead_changes_no_bit),
        cmocka_unit_test(the_first_ranks_are_summed_piece_by_piece),
        cmocka_unit_test(what_does_not_fit_the_order_is_not_used),
        cmocka_unit_test(what_fits_is_used_once),
        cmocka_unit_test(a_set_with_factors_is_not_summed_ahead_the_next_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
