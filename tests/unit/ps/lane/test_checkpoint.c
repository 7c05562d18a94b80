/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy for a checkpoint is exact and whole, however many lanes make it; and an order that begins with a checkpoint changes nothing. */
#include "board.h"

#include "transport/base/random.h"

#define WORKERS 3
#define VARIABLES 6

/* A model with all kinds, and the memory that a checkpoint of it takes. */
struct kept {
    struct model *model;
    struct board_case boards;
    struct board_copy copy;
};

/* kept_model -- trained, of 16 bits, sparse, assigned, frozen, aux. */
static struct model *kept_model(void)
{
    static const uint64_t large[] = {20000}, table[] = {50, 3}, small[] = {7};
    struct model *m;

    assert_int_equal(model_new("m", &m), 0);
    assert_int_equal(model_set(m, "optimizer", "adam"), 0);
    assert_int_equal(model_set(m, "average_decay", "0.9"), 0);
    assert_int_equal(model_add(m, "large", STEPGATE_TRAINED, STEPGATE_F32, 1, large), 0);
    assert_int_equal(model_add(m, "half", STEPGATE_TRAINED, STEPGATE_F16, 1, large), 1);
    assert_int_equal(model_add(m, "table", STEPGATE_SPARSE, STEPGATE_F64, 2, table), 2);
    assert_int_equal(model_variable_set(m, 2, "rows_max", "4"), 0);
    assert_int_equal(model_add(m, "statistics", STEPGATE_ASSIGNED, STEPGATE_F32, 1, small), 3);
    assert_int_equal(model_add(m, "still", STEPGATE_TRAINED, STEPGATE_F32, 1, small), 4);
    assert_int_equal(model_variable_set(m, 4, "frozen", "yes"), 0);
    assert_int_equal(model_add(m, "mine", STEPGATE_AUX, STEPGATE_F32, 1, small), 5);
    assert_int_equal(model_check_keys(m), 0);
    return m;
}

/* kept_fill -- some bytes. */
static void kept_fill(struct random_source *random, uint8_t *at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)random_next(random);
}

/* kept_open -- arenas full of noise, and room for a copy. */
static void kept_open(struct kept *k, uint32_t lanes)
{
    const struct plan_options options = {.shards = 1, .lanes = lanes, .group_bytes = 16384};
    struct random_source random;
    struct board_copy *copy = &k->copy;

    memset(k, 0, sizeof(*k));
    k->model = kept_model();
    board_open(&k->boards, k->model, WORKERS, 1, &options);
    struct board *board = &k->boards.shard[0].board;
    const struct plan_shard *plan = board->shard;
    board->aux_there = board_arena(&k->boards, (size_t)WORKERS * VARIABLES, 0);
    board->aux_there[board_aux(board, 1, 5)] = 1;
    random_seed(&random, 7 + lanes);
    for (int p = 0; p < 2; p++)
        kept_fill(&random, board->parameters[p], plan->arena_bytes);
    for (int s = 0; s < 2; s++)
        kept_fill(&random, board->state[s], plan->state_bytes);
    kept_fill(&random, board->master, plan->state_bytes);
    kept_fill(&random, board->average, plan->state_bytes);
    kept_fill(&random, board->aux, plan->aux_bytes * WORKERS);
    copy->parameters = board_arena(&k->boards, (size_t)plan->arena_bytes, 0);
    for (int s = 0; s < 2; s++)
        copy->state[s] = board_arena(&k->boards, (size_t)plan->state_bytes, 0);
    copy->master = board_arena(&k->boards, (size_t)plan->state_bytes, 0);
    copy->average = board_arena(&k->boards, (size_t)plan->state_bytes, 0);
    copy->aux = board_arena(&k->boards, (size_t)plan->aux_bytes * WORKERS, 0);
    copy->aux_there = board_arena(&k->boards, (size_t)WORKERS * VARIABLES, 0xff);
}

/* kept_close -- frees. */
static void kept_close(struct kept *k)
{
    board_close(&k->boards);
    model_delete(&k->model);
}

static void everything_of_the_step_is_copied_by_any_number_of_lanes(void **state)
{
    (void)state;
    for (uint32_t lanes = 1; lanes <= 4; lanes *= 2)
        for (uint64_t step = 4; step < 6; step++) {
            struct kept k;
            kept_open(&k, lanes);
            const struct board *board = &k.boards.shard[0].board;
            const struct board_order order = {.kind = BOARD_CHECKPOINT, .step = step, .copy = &k.copy};
            assert_int_equal(board_run(&k.boards, &order), 0);
            for (uint32_t v = 0; v < VARIABLES - 1; v++) {
                const struct plan_piece *piece =
                    &k.boards.plan->by_variable[k.boards.plan->variable_first[v]];
                uint64_t wide = piece->elements * plan_state_element(k.model->variables[v].dtype);
                assert_memory_equal(k.copy.parameters + piece->offset,
                                    board->parameters[step & 1] + piece->offset, piece->bytes);
                if (v > 2)
                    continue; /* has values alone */
                for (int s = 0; s < 2; s++)
                    assert_memory_equal(k.copy.state[s] + piece->state_offset,
                                        board->state[s] + piece->state_offset, wide);
                assert_memory_equal(k.copy.master + piece->state_offset, board->master + piece->state_offset,
                                    wide);
                assert_memory_equal(k.copy.average + piece->state_offset,
                                    board->average + piece->state_offset, wide);
            }
            for (uint32_t w = 0; w < WORKERS; w++) { /* the end of a line is nobody's */
                uint64_t at = w * board->shard->aux_bytes;
                assert_memory_equal(k.copy.aux + at, board->aux + at, 7 * sizeof(float));
                assert_int_equal(k.copy.aux_there[board_aux(board, w, 5)], w == 1);
            }
            kept_close(&k);
        }
}

static void a_model_that_begins_with_a_checkpoint_stays_as_it_was_read(void **state)
{
    struct kept k;

    (void)state;
    kept_open(&k, 2);
    const struct board *board = &k.boards.shard[0].board;
    uint64_t bytes = board->shard->arena_bytes, states = board->shard->state_bytes;
    uint8_t *before = malloc(bytes + states);
    assert_non_null(before);
    memcpy(before, board->parameters[1], bytes);
    memcpy(before + bytes, board->state[0], states);
    const struct board_order order = {.kind = BOARD_INITIAL, .step = 5, .restored = true};
    assert_int_equal(board_run(&k.boards, &order), 0);
    assert_memory_equal(before, board->parameters[1], bytes);
    assert_memory_equal(before + bytes, board->state[0], states);
    free(before);
    kept_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_of_the_step_is_copied_by_any_number_of_lanes),
        cmocka_unit_test(a_model_that_begins_with_a_checkpoint_stays_as_it_was_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
