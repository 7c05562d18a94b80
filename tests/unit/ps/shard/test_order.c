/* SPDX-License-Identifier: BSD-3-Clause */
/* What must not happen: an order that this ps cannot carry out ends the job, and never gives it another mean than the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/shard/inside.h"
#include "transport/base/error.h"

/* A ps of two workers and one running model, without lanes. */
struct alone {
    struct shard shard;
    struct shard_member members[2];
    struct shard_model model;
    struct shard_share shares[2];
    struct shard_seal seals[2][2];
    struct board_contribution set[2];
    struct model declared;
};

/* alone_start -- step 0 is awaited, and worker 0 alone has sealed its contribution. */
static void alone_start(struct alone *a)
{
    memset(a, 0, sizeof(*a));
    a->shard.config.workers = 2;
    a->shard.config.shards = 1;
    a->shard.config.number = 1;
    a->shard.members = a->members;
    a->shard.models[0] = &a->model;
    a->shard.model_end = 1;
    strcpy(a->declared.name, "m");
    a->declared.update = MODEL_STRICT;
    a->model.shard = &a->shard;
    a->model.model = &a->declared;
    a->model.phase = PHASE_RUNNING;
    a->model.depth = 1;
    a->model.shares = a->shares;
    a->model.board.workers = 2;
    a->model.board.order.set = a->set;
    for (int w = 0; w < 2; w++)
        a->shares[w].seals = a->seals[w];
    a->seals[0][0] = (struct shard_seal){.next = 1, .weight = 1, .finite = true};
    a->shares[0].sealed_next = 1;
}

/* alone_order -- the leader wants step 0 made of this set. */
static void alone_order(struct alone *a, const struct message *order)
{
    shard_order(&a->shard, order, 1);
    free(a->model.orders);
}

/* alone_commit -- of the first contribution of this worker alone. */
static void alone_commit(struct alone *a, uint32_t rank)
{
    alone_order(a, &(struct message){.kind = MESSAGE_COMMIT,
                                     .slot_kind = SLOT_GRADIENT,
                                     .set_kind = MESSAGE_SET_ONE,
                                     .rank = rank});
}

/* alone_many -- of so many contributions of both workers. */
static void alone_many(struct alone *a, int kind, uint32_t set_kind, uint32_t count)
{
    struct message order = {
        .kind = kind, .slot_kind = SLOT_GRADIENT, .set_kind = set_kind, .count = count, .length = 1};

    order.part[0] = (uint8_t)(count == 2 ? 3 : 1);
    alone_order(a, &order);
}

static void a_contribution_that_is_here_goes_to_the_lanes(void **state)
{
    struct alone a;

    (void)state;
    alone_start(&a);
    alone_commit(&a, 0);
    assert_false(a.shard.failed);
    assert_true(a.model.ordered);
    assert_int_equal(a.model.board.order.count, 1);
}

static void a_weight_goes_to_the_lanes_as_it_was_given(void **state)
{
    struct alone a;

    (void)state;
    alone_start(&a);
    a.declared.clip_norm = 0.7;
    a.seals[0][0].weight = 0.1; /* f32 has neither this nor what the norm makes of it */
    a.seals[0][0].norm = 9;
    alone_commit(&a, 0);
    assert_true(a.set[0].weight == 0.1);
    assert_true(a.set[0].factor == 0.1 * (0.7 / 3));
    assert_true(a.model.board.order.divisor == 0.1);
    assert_true(a.model.board.order.factored);
}

static void a_contribution_without_a_seal_ends_the_job(void **state)
{
    struct alone a;

    (void)state;
    alone_start(&a);
    alone_commit(&a, 1);
    assert_true(a.shard.failed);
    assert_false(a.model.ordered);
    assert_int_equal(a.shard.failure.code, STEPGATE_EPROTOCOL);
    assert_non_null(strstr(a.shard.failure.text,
                           "internal error: ps 1 is to apply contribution 0 of worker 1 to model m"));
    assert_non_null(strstr(a.shard.failure.remedy, "report it"));
}

static void a_set_of_many_of_which_one_has_no_seal_ends_the_job(void **state)
{
    static const int kinds[] = {MESSAGE_COMMIT, MESSAGE_MEASURE};
    static const uint32_t sets[] = {MESSAGE_SET_ALL, MESSAGE_SET_RANKS};

    (void)state;
    for (int k = 0; k < 2; k++)
        for (int s = 0; s < 2; s++) {
            struct alone a;
            alone_start(&a);
            alone_many(&a, kinds[k], sets[s], 2);
            assert_true(a.shard.failed);
            assert_false(a.model.ordered);
            assert_int_equal(a.shard.failure.code, STEPGATE_EPROTOCOL);
            assert_non_null(strstr(a.shard.failure.text,
                                   "internal error: ps 1 is to apply 2 contributions to "
                                   "step 0 of model m, and has seals of 1"));
            alone_start(&a);
            alone_many(&a, kinds[k], sets[s], 1);
            assert_false(a.shard.failed);
            assert_true(a.model.ordered);
        }
}

/* alone_take -- the leader wants a checkpoint of this step. */
static void alone_take(struct alone *a, uint64_t step)
{
    alone_order(a, &(struct message){.kind = MESSAGE_CHECKPOINT_TAKE, .step = step});
}

static void a_checkpoint_is_copied_between_two_commits(void **state)
{
    static const struct archive archive = {.every_steps = 1};
    struct alone a;

    (void)state;
    alone_start(&a);
    a.shard.config.archive = &archive;
    alone_take(&a, 0);
    assert_false(a.shard.failed);
    assert_true(a.model.ordered);
    assert_int_equal(a.model.board.order.kind, BOARD_CHECKPOINT);
    assert_ptr_equal(a.model.board.order.copy, &a.model.checkpoint.copy);
    assert_int_equal(a.model.checkpoint.keeping, KEEPING_COPY);
}

static void a_checkpoint_of_another_step_or_without_an_archive_ends_the_job(void **state)
{
    static const struct archive archive = {.every_steps = 1};

    (void)state;
    for (int there = 0; there < 2; there++) {
        struct alone a;
        alone_start(&a);
        a.shard.config.archive = there ? &archive : NULL;
        alone_take(&a, there ? 1 : 0);
        assert_true(a.shard.failed);
        assert_false(a.model.ordered);
        assert_int_equal(a.shard.failure.code, STEPGATE_EPROTOCOL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_contribution_that_is_here_goes_to_the_lanes),
        cmocka_unit_test(a_weight_goes_to_the_lanes_as_it_was_given),
        cmocka_unit_test(a_contribution_without_a_seal_ends_the_job),
        cmocka_unit_test(a_set_of_many_of_which_one_has_no_seal_ends_the_job),
        cmocka_unit_test(a_checkpoint_is_copied_between_two_commits),
        cmocka_unit_test(a_checkpoint_of_another_step_or_without_an_archive_ends_the_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
