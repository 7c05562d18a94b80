/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of a sparse variable: only those that are pushed, and those of the step before, are touched; a push that breaks the rules is refused and
 * changes nothing; and a norm over rows is the norm of the same numbers in a dense variable.
 */
#include "board.h"

#include "transport/base/error.h"

#define WORKERS 2
#define ROWS 64
#define WIDTH 1024 /* a row of f32 is a page */

/* A table whose rows are pages, with momentum and averages. */
struct bench {
    struct model *model;
    struct board_case boards;
    struct board_contribution set[WORKERS];
    uint64_t step;
};
static struct bench bench;
static float values[ROWS * WIDTH];

/* bench_open -- a table on two shards, from 0 on. */
static void bench_open(const char *update, uint32_t shards, const char *rows_max)
{
    const uint64_t dims[2] = {ROWS, WIDTH};
    const struct plan_options options = {.shards = shards, .lanes = 1, .cut_bytes = 1};
    const struct board_order initial = {.kind = BOARD_INITIAL};

    bench = (struct bench){0};
    assert_int_equal(model_new("m", &bench.model), 0);
    assert_int_equal(model_set(bench.model, "update", update), 0);
    assert_int_equal(model_set(bench.model, "optimizer", "momentum"), 0);
    assert_int_equal(model_set(bench.model, "average_decay", "0.9"), 0);
    assert_int_equal(model_add(bench.model, "v", STEPGATE_SPARSE, STEPGATE_F32, 2, dims), 0);
    assert_int_equal(model_variable_set(bench.model, 0, "rows_max", rows_max), 0);
    assert_int_equal(model_check_keys(bench.model), 0);
    board_open(&bench.boards, bench.model, WORKERS, 1, &options);
    memset(values, 0, sizeof(values));
    board_put_initial(&bench.boards, 0, values);
    assert_int_equal(board_run(&bench.boards, &initial), 0);
}

/* bench_close -- frees. */
static void bench_close(void)
{
    board_close(&bench.boards);
    model_delete(&bench.model);
}

/* bench_push -- rows of ones. */
static void bench_push(uint32_t rank, const uint64_t *indices, size_t n)
{
    for (size_t i = 0; i < n * WIDTH; i++)
        values[i] = 1;
    board_put_rows(&bench.boards, rank, 0, 0, indices, n, values);
}

/* bench_order -- of everybody who has pushed. */
static struct board_order bench_order(int kind, uint32_t count)
{
    struct board_order order = {
        .kind = kind,
        .step = bench.step,
        .hyper = {.in_f32 = {.rate = 1, .momentum = 0, .average_rate = 0.5F, .scale = 1},
                  .in_f64 = {.rate = 1, .average_rate = 0.5, .scale = 1}},
        .set = bench.set,
        .count = count,
        .divisor = (double)count};

    for (uint32_t w = 0; w < count; w++)
        bench.set[w] = (struct board_contribution){.rank = w, .weight = 1, .factor = 1};
    return order;
}

/* bench_run -- and the step moves on, if the order makes one. */
static int bench_run(const struct board_order *order)
{
    int status = board_run(&bench.boards, order);

    if (status == 0 && (order->kind == BOARD_APPLY || order->kind == BOARD_CARRY))
        bench.step++;
    return status;
}

/* bench_protect -- the table's pages in every arena: out of bounds, but for `rows`; none at the end: all are there again. */
static void bench_protect(const uint64_t *rows, size_t n, bool all)
{
    const enum board_place places[] = {BOARD_EVEN, BOARD_ODD, BOARD_FIRST, BOARD_AVERAGE};

    for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++)
        for (uint64_t row = 0; row < ROWS; row++) {
            int access = all ? PROT_READ | PROT_WRITE : PROT_NONE;
            for (size_t i = 0; i < n; i++)
                access = rows[i] == row ? PROT_READ | PROT_WRITE : access;
            uint8_t *arena = board_at(&bench.boards.shard[0].board, places[p]);
            assert_int_equal(mprotect(arena + row * WIDTH * sizeof(float), BOARD_PAGE, access), 0);
        }
}

/* bench_row -- the first element of a row, in a parity. */
static float bench_row(uint64_t parity, uint64_t row)
{
    board_get(&bench.boards, BOARD_EVEN + (parity & 1), false, 0, values);
    return values[row * WIDTH];
}

static void only_pushed_rows_and_those_of_the_step_before_are_touched(void **state)
{
    (void)state;
    static const uint64_t first[] = {3, 40}, second[] = {7}, third[] = {7, 63}, both[] = {3, 7, 40};
    bench_open("strict", 1, "64");
    struct board_order order = bench_order(BOARD_APPLY, 1);
    bench_push(0, first, 2);
    bench_protect(first, 2, false);
    assert_int_equal(bench_run(&order), 0);
    bench_push(0, second, 1);
    order = bench_order(BOARD_APPLY, 1);
    bench_protect(both, 3, false);
    assert_int_equal(bench_run(&order), 0);
    bench_push(0, third, 2);
    order = bench_order(BOARD_APPLY, 1);
    bench_protect(third, 2, false);
    assert_int_equal(bench_run(&order), 0);
    order = bench_order(BOARD_CARRY, 0);
    assert_int_equal(bench_run(&order), 0);
    bench_protect(NULL, 0, false); /* nothing was pushed in the step before, and nothing is now */
    order = bench_order(BOARD_CARRY, 0);
    assert_int_equal(bench_run(&order), 0);
    bench_protect(NULL, 0, true);
    for (uint64_t parity = 0; parity < 2; parity++) {
        assert_true(bench_row(parity, 3) == -1 && bench_row(parity, 40) == -1 && bench_row(parity, 63) == -1);
        assert_true(bench_row(parity, 7) == -2 && bench_row(parity, 8) == 0);
    }
    bench_close();
}

static void a_norm_of_rows_touches_no_row_of_the_table(void **state)
{
    (void)state;
    static const uint64_t rows[] = {3, 40};
    bench_open("strict", 1, "64");
    struct board_order order = bench_order(BOARD_MEASURE, 1);
    bench_push(0, rows, 2);
    bench_protect(NULL, 0, false);
    assert_int_equal(bench_run(&order), 0);
    bench_protect(NULL, 0, true);
    assert_true(board_measured(&bench.boards) == 2 * WIDTH);
    bench_close();
}

static void after_a_step_the_parity_before_still_holds_the_step_before(void **state)
{
    (void)state;
    static const uint64_t rows[] = {5}, others[] = {6};
    bench_open("strict", 1, "64");
    struct board_order order = bench_order(BOARD_APPLY, 1);
    bench_push(0, rows, 1);
    assert_int_equal(bench_run(&order), 0);
    assert_true(bench_row(0, 5) == 0 && bench_row(1, 5) == -1);
    bench_push(0, others, 1);
    order = bench_order(BOARD_APPLY, 1);
    assert_int_equal(bench_run(&order), 0);
    assert_true(bench_row(0, 5) == -1 && bench_row(0, 6) == -1);
    assert_true(bench_row(1, 5) == -1 && bench_row(1, 6) == 0);
    order = bench_order(BOARD_CARRY, 0);
    assert_int_equal(bench_run(&order), 0);
    assert_true(bench_row(1, 5) == -1 && bench_row(1, 6) == -1);
    bench_close();
}

/* bench_count -- what the slot of a piece says. */
static void bench_count(uint32_t rank, size_t piece, uint64_t count)
{
    memcpy(board_slot(&bench.boards, rank, 0, &bench.boards.plan->by_variable[piece]), &count, sizeof(count));
}

/* bench_index -- writes an index into the slot of a piece, past every check. */
static void bench_index(uint32_t rank, size_t piece, size_t i, uint64_t index)
{
    memcpy(board_slot(&bench.boards, rank, 0, &bench.boards.plan->by_variable[piece]) + PLAN_LINE +
               i * sizeof(index),
           &index, sizeof(index));
}

/* check_unchanged -- both parities of a piece hold zeros. */
static void check_unchanged(size_t piece)
{
    const struct plan_piece *p = &bench.boards.plan->by_variable[piece];

    for (uint64_t parity = 0; parity < 2; parity++) {
        board_get(&bench.boards, BOARD_EVEN + (parity & 1), false, 0, values);
        for (uint64_t i = p->first_element; i < p->first_element + p->elements; i++)
            assert_true(values[i] == 0);
    }
}

/* check_refused -- worker 1's push to a piece, whichever order looks at it; and a proper one goes on from there. */
static void check_refused(size_t piece)
{
    static const int kinds[] = {BOARD_MEASURE, BOARD_APPLY};
    static const uint64_t rows[] = {1, 33};
    struct stepgate_error error;

    for (size_t k = 0; k < 2; k++) {
        struct board_order order = bench_order(kinds[k], 2);
        assert_int_equal(bench_run(&order), -STEPGATE_EPROTOCOL);
        error_save(&error);
        assert_non_null(strstr(error.text, "worker 1"));
        check_unchanged(piece);
    }
    bench_push(1, rows, 2);
    struct board_order order = bench_order(BOARD_APPLY, 2);
    assert_int_equal(bench_run(&order), 0);
    assert_true(bench_row(1, 1) == -1 && bench_row(1, 33) == -1 && bench_row(0, 1) == 0);
    bench_close();
}

/* bench_both -- a table on two shards, rows 0..31 and 32..63, and both workers have pushed rows 1 and 33. */
static void bench_both(void)
{
    static const uint64_t rows[] = {1, 33};

    bench_open("strict", 2, "4");
    assert_int_equal(bench.boards.plan->pieces, 2);
    bench_push(0, rows, 2);
    bench_push(1, rows, 2);
}

static void more_rows_than_were_declared_are_refused(void **state)
{
    (void)state;
    static const uint64_t counts[] = {5, ROWS, UINT64_C(1) << 32, UINT64_C(1) << 61, UINT64_MAX};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        bench_both();
        bench_count(1, 0, counts[i]);
        check_refused(0);
    }
}

static void a_row_that_is_not_in_the_piece_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t piece;
        uint64_t index;
    } wrong[] = {{0, 32}, {0, ROWS}, {0, UINT64_MAX}, {1, 31}, {1, 0}, {1, ROWS}, {1, UINT64_C(1) << 63}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        bench_both();
        bench_index(1, wrong[i].piece, 0, wrong[i].index);
        check_refused(wrong[i].piece);
    }
}

static void rows_that_do_not_rise_are_refused(void **state)
{
    (void)state;
    static const uint64_t wrong[][3] = {{4, 4, 5}, {5, 4, 6}, {1, 6, 6}, {1, 6, 2}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        bench_both();
        bench_count(1, 0, 3);
        for (size_t row = 0; row < 3; row++)
            bench_index(1, 0, row, wrong[i][row]);
        check_refused(0);
    }
}

static void a_refused_push_is_not_accumulated(void **state)
{
    (void)state;
    static const uint64_t rows[] = {1, 2};
    bench_open("tf", 1, "4");
    bench_push(0, rows, 2);
    struct board_order order = bench_order(BOARD_ACCUMULATE, 1);
    assert_int_equal(bench_run(&order), 0);
    bench_push(0, rows, 2);
    bench_index(0, 0, 1, 1);
    order = bench_order(BOARD_ACCUMULATE, 1);
    assert_int_equal(bench_run(&order), -STEPGATE_EPROTOCOL);
    check_unchanged(0);
    order = bench_order(BOARD_APPLY, 0);
    order.accumulated = true;
    order.divisor = 1;
    assert_int_equal(bench_run(&order), 0);
    assert_true(bench_row(1, 1) == -1 && bench_row(1, 2) == -1 && bench_row(1, 3) == 0);
    bench_close();
}

static void a_norm_of_rows_is_that_of_a_dense_variable_with_the_same_numbers(void **state)
{
    (void)state;
    static const uint64_t dims[2] = {50, 7};
    for (uint32_t shards = 1; shards <= BOARD_SHARDS_MAX; shards++) {
        const struct plan_options options = {
            .shards = shards, .lanes = 2, .group_bytes = 512, .cut_bytes = 100};
        double norms[2];
        for (int sparse = 0; sparse < 2; sparse++) {
            struct model *model;
            struct board_case boards;
            struct board_contribution set[1] = {{.weight = 1, .factor = 1}};
            float pushed[350];
            uint64_t indices[50];
            for (size_t i = 0; i < 350; i++)
                pushed[i] = (float)(i * 37 % 256) - 100; /* squares that are added without rounding */
            for (size_t i = 0; i < 50; i++)
                indices[i] = i;
            assert_int_equal(model_new("m", &model), 0);
            assert_int_equal(
                model_add(model, "v", sparse ? STEPGATE_SPARSE : STEPGATE_TRAINED, STEPGATE_F32, 2, dims), 0);
            if (sparse)
                assert_int_equal(model_variable_set(model, 0, "rows_max", "50"), 0);
            assert_int_equal(model_check_keys(model), 0);
            board_open(&boards, model, 1, 1, &options);
            if (sparse)
                board_put_rows(&boards, 0, 0, 0, indices, 50, pushed);
            else
                board_put(&boards, 0, 0, 0, pushed);
            const struct board_order order = {.kind = BOARD_MEASURE, .set = set, .count = 1, .divisor = 1};
            assert_int_equal(board_run(&boards, &order), 0);
            norms[sparse] = board_measured(&boards);
            board_close(&boards);
            model_delete(&model);
        }
        assert_true(norms[0] > 0 && norms[0] == norms[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_pushed_rows_and_those_of_the_step_before_are_touched),
        cmocka_unit_test(a_norm_of_rows_touches_no_row_of_the_table),
        cmocka_unit_test(after_a_step_the_parity_before_still_holds_the_step_before),
        cmocka_unit_test(more_rows_than_were_declared_are_refused),
        cmocka_unit_test(a_row_that_is_not_in_the_piece_is_refused),
        cmocka_unit_test(rows_that_do_not_rise_are_refused),
        cmocka_unit_test(a_refused_push_is_not_accumulated),
        cmocka_unit_test(a_norm_of_rows_is_that_of_a_dense_variable_with_the_same_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
