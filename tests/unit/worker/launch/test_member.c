/* SPDX-License-Identifier: BSD-3-Clause */
/* A member that is started again is the same to everybody else, and remembers nothing of how it ended before. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "stepgate/stepgate.h"
#include "transport/base/clock.h"
#include "worker/launch/member.h"

/* hear -- a line of its output; whether it was taken. */
static bool hear(struct member *member, const char *line)
{
    return member->child.out.taken(member->child.out.context, line, strlen(line));
}

static void a_ps_says_its_address_once_in_each_life(void **state)
{
    (void)state;
    struct member member;
    member_init(&member, true, 2);
    assert_string_equal(member.child.name, "ps 2");
    assert_false(hear(&member, "listening "));
    assert_false(hear(&member, "a line"));
    assert_true(hear(&member, "listening 127.0.0.1:5002"));
    assert_string_equal(member.address, "127.0.0.1:5002");
    assert_true(hear(&member, "listening 127.0.0.1:5002"));
    assert_false(hear(&member, "listening 127.0.0.1:500"));
    assert_false(hear(&member, "listening 127.0.0.1:50023"));
    assert_string_equal(member.address, "127.0.0.1:5002");
}

/* live -- starts it, and reads until it has ended and its outputs have. */
static void live(struct member *member, const struct crew_plan *plan, struct sink *sink)
{
    struct child *child = &member->child;

    assert_int_equal(member_start(member, plan, "127.0.0.1:1", sink, sink), 0);
    assert_true(child_is_running(child));
    assert_false(member_is_drained(member, false));
    assert_true(member_is_drained(member, true));
    while (child_is_running(child) || !member_is_drained(member, false)) {
        struct pollfd polled[] = {{.fd = child->out.fd, .events = POLLIN},
                                  {.fd = child->err.fd, .events = POLLIN}};
        poll(polled, 2, 10);
        if (child->out.fd >= 0)
            stream_read(&child->out);
        if (child->err.fd >= 0)
            stream_read(&child->err);
        child_look(child);
    }
}

static void a_life_begins_with_nothing_of_the_last_one(void **state)
{
    (void)state;
    char again[] = "[ -n \"$AGAIN\" ] || kill -KILL $$; [ $STEPGATE_TASK_INDEX = 3 ]";
    char *const program[] = {(char[]){"sh"}, (char[]){"-c"}, again, NULL};
    struct stepgate_options *options = NULL;
    struct member member;
    struct sink sink;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(null >= 0);
    assert_int_equal(stepgate_options_new(&options), 0);
    struct crew_plan plan = {.program = program,
                             .servers = 1,
                             .workers = 4,
                             .knobs = stepgate_options_knobs(options),
                             .secret = -1};
    sink_init(&sink, null);
    member_init(&member, false, 3);
    assert_true(member.start_at == CLOCK_NEVER);
    unsetenv("AGAIN");
    live(&member, &plan, &sink);
    assert_true(child_failed(&member.child));
    assert_int_equal(child_exit_status(&member.child), 128 + SIGKILL);
    child_clear(&member.child);
    assert_true(child_failed(&member.child)); /* what is known of it stays until it is started again */

    member.child.told = member.child.killed = true;
    setenv("AGAIN", "1", 1);
    live(&member, &plan, &sink);
    assert_false(child_failed(&member.child));
    assert_int_equal(child_exit_status(&member.child), 0);
    assert_false(member.child.told || member.child.killed);
    child_clear(&member.child);
    sink_clear(&sink);
    stepgate_options_delete(&options);
    close(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ps_says_its_address_once_in_each_life),
        cmocka_unit_test(a_life_begins_with_nothing_of_the_last_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
