/* SPDX-License-Identifier: BSD-3-Clause */
/* The guard ends what it was told of when the launcher is gone, and nothing else, whatever else comes through its pipe. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/launch/guard.h"

/* sleeper -- a process that leads a group of its own. */
static pid_t sleeper(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        for (;;)
            pause();
    }
    setpgid(pid, pid);
    return pid;
}

/* launcher_dies -- what the guard sees of it. */
static void launcher_dies(struct guard *guard)
{
    close(guard->pipe);
    assert_int_equal(waitpid(guard->pid, NULL, 0), guard->pid);
}

/* signal_of -- how the process ended, after a signal of our own that comes too late if the guard has sent one. */
static int signal_of(pid_t pid)
{
    int status = 0;

    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WTERMSIG(status);
}

static void put(struct guard *guard, const void *bytes, size_t n)
{
    assert_int_equal(write(guard->pipe, bytes, n), n);
}

static void a_watched_group_is_killed_when_the_launcher_dies(void **state)
{
    (void)state;
    struct guard guard;
    pid_t first = sleeper(), second = sleeper(), other = sleeper();
    assert_int_equal(guard_start(&guard), 0);
    guard_watch(&guard, first);
    guard_watch(&guard, second);
    launcher_dies(&guard);
    assert_int_equal(signal_of(first), SIGKILL);
    assert_int_equal(signal_of(second), SIGKILL);
    assert_int_equal(signal_of(other), SIGTERM);
}

static void nobody_is_killed_after_the_release(void **state)
{
    (void)state;
    struct guard guard;
    pid_t pid = sleeper();
    assert_int_equal(guard_start(&guard), 0);
    guard_watch(&guard, pid);
    guard_release(&guard);
    assert_int_equal(signal_of(pid), SIGTERM);
}

static void a_forgotten_group_is_left_alone(void **state)
{
    (void)state;
    struct guard guard;
    pid_t first = sleeper(), second = sleeper(), third = sleeper();
    assert_int_equal(guard_start(&guard), 0);
    guard_watch(&guard, first);
    guard_watch(&guard, second);
    guard_watch(&guard, third);
    guard_forget(&guard, first);
    launcher_dies(&guard);
    assert_int_equal(signal_of(first), SIGTERM);
    assert_int_equal(signal_of(second), SIGKILL);
    assert_int_equal(signal_of(third), SIGKILL);
}

static void bytes_of_somebody_else_are_no_group(void **state)
{
    (void)state;
    struct guard guard;
    pid_t pid = sleeper();
    assert_int_equal(guard_start(&guard), 0);
    for (int i = 0; i < 3; i++)
        put(&guard, &pid, sizeof(pid));
    launcher_dies(&guard);
    assert_int_equal(signal_of(pid), SIGTERM);
}

static void a_frame_is_found_behind_bytes_of_somebody_else(void **state)
{
    (void)state;
    struct guard guard;
    pid_t pid = sleeper();
    assert_int_equal(guard_start(&guard), 0);
    put(&guard, "a line\nstep", 11);
    guard_watch(&guard, pid);
    put(&guard, "x", 1);
    launcher_dies(&guard);
    assert_int_equal(signal_of(pid), SIGKILL);
}

static void a_frame_without_a_group_is_dropped(void **state)
{
    (void)state;
    struct guard guard;
    pid_t pid = sleeper();
    assert_int_equal(guard_start(&guard), 0);
    guard_watch(&guard, -pid); /* kill(pid) would be the one, not its group */
    launcher_dies(&guard);
    assert_int_equal(signal_of(pid), SIGTERM);
}

static void its_pipe_never_gets_the_number_of_an_output(void **state)
{
    (void)state;
    struct guard guard;
    int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
    if (saved >= 0)
        close(STDIN_FILENO);
    int code = guard_start(&guard);
    int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (saved >= 0) {
        dup2(saved, STDIN_FILENO);
        close(saved);
    }
    assert_int_equal(code, 0);
    assert_true(guard.pipe > STDERR_FILENO);
    assert_int_equal(lowest, saved >= 0 ? STDIN_FILENO : lowest);
    guard_release(&guard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_watched_group_is_killed_when_the_launcher_dies),
        cmocka_unit_test(nobody_is_killed_after_the_release),
        cmocka_unit_test(a_forgotten_group_is_left_alone),
        cmocka_unit_test(bytes_of_somebody_else_are_no_group),
        cmocka_unit_test(a_frame_is_found_behind_bytes_of_somebody_else),
        cmocka_unit_test(a_frame_without_a_group_is_dropped),
        cmocka_unit_test(its_pipe_never_gets_the_number_of_an_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
