/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/base/random.h"
#include "transport/verbs/credit.h"

#define WIRE 4096U

/* One end of a connection: frames under way to it, receives waiting to be posted again, frames it still has to send. */
struct side {
    struct credit credit;
    uint32_t wire[WIRE]; /* credits announced in each frame */
    uint32_t from, to;
    uint32_t posted; /* receives that are posted */
    uint32_t unposted;
    uint32_t wanted;
};

/* side_send -- sends one frame; the other end must have a receive for it. */
static void side_send(struct side *side, struct side *peer)
{
    assert_true(side->credit.available > 0);
    credit_take(&side->credit);
    peer->wire[peer->to++ % WIRE] = credit_claim(&side->credit);
}

/* side_step -- lets an end do one thing; false: it can do nothing. */
static bool side_step(struct side *side, struct side *peer, bool receive)
{
    if (receive && side->from != side->to) {
        assert_true(side->posted > 0); /* else the device would find no receive */
        side->posted--;
        assert_true(credit_gain(&side->credit, side->wire[side->from++ % WIRE]));
        if (++side->unposted == CREDIT_REPOST) {
            side->unposted = 0;
            side->posted += CREDIT_REPOST;
            credit_owe(&side->credit, CREDIT_REPOST);
        }
        return true;
    }
    if (credit_may_return(&side->credit)) {
        side_send(side, peer);
        return true;
    }
    if (side->wanted > 0 && credit_may_send(&side->credit)) {
        side->wanted--;
        side_send(side, peer);
        return true;
    }
    return false;
}

static void two_ends_never_run_out_and_never_overrun(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        static struct side side[2];
        struct random_source random;
        random_seed(&random, seed);
        for (int i = 0; i < 2; i++) {
            side[i] = (struct side){.posted = CREDIT_RECEIVES};
            credit_init(&side[i].credit);
            side[i].wanted = (uint32_t)random_below(&random, 5000);
        }
        unsigned lazy =
            (unsigned)random_below(&random, 1000); /* how often an end would rather send than receive */
        for (;;) {
            unsigned first = (unsigned)random_below(&random, 2);
            if (side_step(&side[first], &side[1 - first], !random_chance(&random, lazy)))
                continue;
            if (!side_step(&side[0], &side[1], true) && !side_step(&side[1], &side[0], true))
                break;
        }
        assert_int_equal(side[0].wanted, 0);
        assert_int_equal(side[1].wanted, 0);
    }
}

static void reserve_is_for_credit_frames_only(void **state)
{
    struct credit credit;

    (void)state;
    credit_init(&credit);
    for (uint32_t i = 0; i < CREDIT_RECEIVES - CREDIT_RESERVE; i++) {
        assert_true(credit_may_send(&credit));
        credit_take(&credit);
    }
    assert_false(credit_may_send(&credit));
    assert_false(credit_may_return(&credit));
    credit_owe(&credit, CREDIT_THRESHOLD);
    assert_true(credit_may_return(&credit));
    assert_int_equal(credit_claim(&credit), CREDIT_THRESHOLD);
    assert_false(credit_may_return(&credit));
}

static void more_credits_than_receives_are_refused(void **state)
{
    struct credit credit;

    (void)state;
    credit_init(&credit);
    assert_false(credit_gain(&credit, 1));
    credit_take(&credit);
    assert_false(credit_gain(&credit, 2));
    assert_false(credit_gain(&credit, UINT32_MAX));
    assert_true(credit_gain(&credit, 1));
    assert_int_equal(credit.available, CREDIT_RECEIVES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ends_never_run_out_and_never_overrun),
        cmocka_unit_test(reserve_is_for_credit_frames_only),
        cmocka_unit_test(more_credits_than_receives_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
