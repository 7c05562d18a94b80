/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "transport/base/error.h"
#include "transport/base/exit_status.h"

/* An output of a child: [0] is read by the launcher, [1] written by the child. */
struct child_output {
    int end[2];
};

/* child_output_terminal -- a terminal that passes characters on as they are; false: there is none to be had. */
static bool child_output_terminal(struct child_output *output, size_t label)
{
    char name[64];
    struct termios mode;
    struct winsize window;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (master < 0)
        return false;
    if (grantpt(master) != 0 || unlockpt(master) != 0 || ptsname_r(master, name, sizeof(name)) != 0)
        goto close_master;
    int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        goto close_master;
    if (tcgetattr(slave, &mode) != 0)
        goto close_slave;
    cfmakeraw(&mode);
    if (tcsetattr(slave, TCSANOW, &mode) != 0)
        goto close_slave;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > label) {
        window.ws_col = (unsigned short)(window.ws_col - label);
        ioctl(slave, TIOCSWINSZ, &window);
    }
    *output = (struct child_output){{master, slave}};
    return true;
close_slave:
    close(slave);
close_master:
    close(master);
    return false;
}

/* child_output_close -- both ends. */
static void child_output_close(struct child_output *output)
{
    close(output->end[0]);
    close(output->end[1]);
}

/* child_output_new -- a terminal if wanted and possible, else a pipe; the launcher's end does not block. */
static int child_output_new(struct child_output *output, bool *terminal, size_t label)
{
    *terminal = *terminal && child_output_terminal(output, label);
    if (!*terminal && pipe2(output->end, O_CLOEXEC) != 0)
        return error_set(STEPGATE_ELIMIT, errno, "raise the limit: ulimit -n", "cannot make a pipe");
    int flags = fcntl(output->end[0], F_GETFL);
    if (flags >= 0 && fcntl(output->end[0], F_SETFL, flags | O_NONBLOCK) == 0)
        return 0;
    int code = error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot set up a pipe");
    child_output_close(output);
    return code;
}

/*
 * child_reset_signals -- what the launcher blocks or ignores is as usual in the child; so are the signals of the keyboard, which a shell
 * without job control ignores for what it starts in the background: the launcher hands them on.
 */
static void child_reset_signals(void)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t none;

    sigaction(SIGPIPE, &usual, NULL);
    sigaction(SIGXFSZ, &usual, NULL);
    sigaction(SIGINT, &usual, NULL);
    sigaction(SIGQUIT, &usual, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* child_not_started -- one line that says why and what to do; returns the exit status, as a shell would choose it. */
static int child_not_started(const char *program, int os_errno)
{
    const char *remedy;
    char line[512];

    switch (os_errno) {
    case ENOENT: remedy = "install the interpreter or loader that it names"; break;
    case EACCES: remedy = "let this user execute it and the interpreter that it names"; break;
    case E2BIG: remedy = "give it fewer arguments and variables, or raise the limit: ulimit -s"; break;
    case EAGAIN: remedy = "raise the limit: ulimit -u"; break;
    case ETXTBSY: remedy = "wait until nobody writes it any more"; break;
    default: remedy = "try to start it without stepgate-run"; break;
    }
    snprintf(line, sizeof(line), "cannot start %.256s: %s: %s", program, strerror(os_errno), remedy);
    error_one_line(line);
    dprintf(STDERR_FILENO, "%s\n", line);
    return os_errno == ENOENT ? 127 : 126;
}

/* child_bind -- to its processors; without them it runs all the same. */
static void child_bind(const struct child_start *start)
{
    unsigned most = 0;

    for (unsigned i = 0; i < start->cpu_count; i++)
        most = start->cpus[i] > most ? start->cpus[i] : most;
    cpu_set_t *set = start->cpu_count > 0 ? CPU_ALLOC(most + 1u) : NULL;
    if (set == NULL)
        return;
    CPU_ZERO_S(CPU_ALLOC_SIZE(most + 1u), set);
    for (unsigned i = 0; i < start->cpu_count; i++)
        CPU_SET_S(start->cpus[i], CPU_ALLOC_SIZE(most + 1u), set);
    if (sched_setaffinity(0, CPU_ALLOC_SIZE(most + 1u), set) != 0)
        dprintf(STDERR_FILENO,
                "cannot be put on its processors (%s): it runs on any; --bind none asks for that\n",
                strerror(errno));
    CPU_FREE(set);
}

/* child_main -- in the new process: never returns. */
static void child_main(const struct child_start *start, int out, int err, pid_t launcher)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) /* it died before the line above */
        _exit(EXIT_STATUS_PERMANENT);
    child_reset_signals();
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(err, STDERR_FILENO) < 0)
        _exit(EXIT_STATUS_PERMANENT);
    if (null > STDERR_FILENO)
        close(null);
    if (start->secret >= 0)
        fcntl(start->secret, F_SETFD, 0);
    child_bind(start);
    for (size_t i = 0; i < start->count; i++) {
        const struct child_setting *setting = &start->settings[i];
        if ((setting->value != NULL ? setenv(setting->name, setting->value, 1) : unsetenv(setting->name)) !=
            0)
            _exit(EXIT_STATUS_PERMANENT);
    }
    execvp(start->argv[0], start->argv);
    _exit(child_not_started(start->argv[0], errno));
}

/* child_start -- forks. */
int child_start(struct child *child, const struct child_start *start)
{
    struct child_output out, err;
    bool live = start->live, never = false;
    pid_t launcher = getpid();

    snprintf(child->label, sizeof(child->label), "%.28s: ", child->name);
    int code = child_output_new(&out, &live, strlen(child->label));
    if (code < 0)
        return code;
    code = child_output_new(&err, &never, 0);
    if (code < 0)
        goto close_out;
    pid_t pid = fork();
    if (pid < 0) {
        code =
            error_set(STEPGATE_ESYSTEM, errno, "raise the limit: ulimit -u", "cannot start %s", child->name);
        goto close_err;
    }
    if (pid == 0)
        child_main(start, out.end[1], err.end[1], launcher);
    setpgid(pid, pid); /* here too, so that it holds before either goes on */
    close(out.end[1]);
    close(err.end[1]);
    child->pid = pid;
    child->ended = child->told = child->killed = false;
    child->status = child->signal = 0;
    child->out.fd = out.end[0];
    child->out.sink = start->out;
    child->out.live = live;
    child->err.fd = err.end[0];
    child->err.sink = start->err;
    child->out.label = child->err.label = child->label;
    return 0;
close_err:
    child_output_close(&err);
close_out:
    child_output_close(&out);
    return code;
}

/* child_look -- leaves it unreaped. */
bool child_look(struct child *child)
{
    siginfo_t info = {0};

    if (!child_is_running(child) ||
        waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return false;
    child->ended = true;
    if (info.si_code == CLD_EXITED)
        child->status = info.si_status;
    else
        child->signal = info.si_status;
    return true;
}

/* child_is_running -- started and not ended. */
bool child_is_running(const struct child *child)
{
    return child->pid > 0 && !child->ended;
}

/* child_signal -- to the group. */
void child_signal(struct child *child, int number)
{
    if (!child_is_running(child))
        return;
    child->killed = child->killed || number == SIGKILL;
    kill(-child->pid, number);
}

/* child_failed -- ended badly. */
bool child_failed(const struct child *child)
{
    return child->ended && (child->status != 0 || child->signal != 0);
}

/* child_exit_status -- as a shell tells it. */
int child_exit_status(const struct child *child)
{
    return child->signal != 0 ? 128 + child->signal : child->status;
}

/* child_describe -- in words. */
void child_describe(const struct child *child, char *out, size_t bytes)
{
    const char *words = child->signal != 0 ? sigdescr_np(child->signal) : NULL;

    if (child->signal != 0)
        snprintf(out, bytes, "%s was killed by signal %d (%s)", child->name, child->signal,
                 words != NULL ? words : "unknown");
    else if (child->status == EXIT_STATUS_REQUEUE)
        snprintf(out, bytes, "%s ended with status %d: a peer or device was lost or late, worth another try",
                 child->name, child->status);
    else
        snprintf(out, bytes, "%s ended with status %d", child->name, child->status);
}

/* child_sweep -- what is left of the group. */
void child_sweep(const struct child *child)
{
    if (child->pid > 0)
        kill(-child->pid, SIGKILL);
}

/* child_clear -- reaps. */
void child_clear(struct child *child)
{
    if (child->pid == 0)
        return;
    stream_close(&child->out);
    stream_close(&child->err);
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    child->pid = 0;
}
