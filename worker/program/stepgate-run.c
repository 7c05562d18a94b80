/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-run -- starts a whole job on this machine: its ps, and a program as each of its workers. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stepgate/stepgate.h"
#include "transport/base/error.h"
#include "transport/base/exit_status.h"
#include "transport/base/help.h"
#include "transport/base/hosts.h"
#include "transport/base/knob.h"
#include "transport/base/limit.h"
#include "transport/base/streams.h"
#include "transport/verbs/verbs.h"
#include "worker/launch/crew.h"
#include "worker/launch/interface.h"
#include "worker/launch/seats.h"
#include "worker/launch/secret.h"

#define RUN_RESTARTS_MAX 9999

/* What the launcher finds out or sets itself. */
static const char *const run_own[] = {"ps_hosts",   "worker_hosts", "job_name",
                                      "task_index", "address_file", NULL};

/* run_help -- from the knob table. */
static void run_help(void)
{
    help_begin();
    printf(
        "usage: stepgate-run [--ps S] [--workers N] [--restarts N] [--spare-workers] [--transport shm|verbs] "
        "[--listen "
        "ADDRESS] [FLAGS] -- "
        "PROGRAM ARGS...\n\n"
        "Starts S ps (default 1) and PROGRAM as N workers (default 1) on this machine, gives them all "
        "they have to know in\n"
        "the environment, and labels what they write by role and rank. Signals go on to the workers; when "
        "one process\n"
        "fails, all are ended. Exit status: 0, that of the process that failed first (128 + signal if it "
        "was killed),\n"
        "2 usage, 75 worth another try. The ps listen on 127.0.0.1, with --transport verbs at the address "
        "of an RDMA device.\n\n"
        "  --ps S                             number of ps (1)\n"
        "  --restarts N                       how often a process that was killed by a signal or ended with "
        "status 75 is started\n"
        "                                     again as it was, all processes together (0)\n"
        "  --spare-workers                    a worker that fails does not end the others: for models whose "
        "update is tf, async\n"
        "                                     or bounded. Exit status 0 if any worker does well\n");
    help_write_knobs(stdout, run_own);
}

/* run_error -- a line of the launcher's; returns the status to exit with. */
static int run_error(int status, const char *text)
{
    char line[PATH_MAX + 256];

    snprintf(line, sizeof(line), "%s", text);
    error_one_line(line);
    fprintf(stderr, "stepgate-run: %s\n", line);
    return status;
}

/* run_fail -- the last error with its remedy. */
static int run_fail(int status, int code)
{
    char line[1024];

    exit_status_line(code, line, sizeof(line));
    return run_error(status, line);
}

/* run_value -- the value of a flag that stands at argv[*at] as FLAG=VALUE, or before its value; NULL: another flag. "" where there is none. */
static const char *run_value(const char *flag, char **argv, int *at)
{
    size_t n = strlen(flag);

    if (strncmp(argv[*at], flag, n) != 0 || (argv[*at][n] != '=' && argv[*at][n] != '\0'))
        return NULL;
    if (argv[*at][n] == '=')
        return argv[*at] + n + 1;
    return argv[*at + 1] != NULL ? argv[++*at] : "";
}

/* run_number -- a whole number of at most four digits. */
static int run_number(const char *flag, const char *value, unsigned least, unsigned most, unsigned *out)
{
    char line[512];
    size_t digits = strspn(value, "0123456789");
    unsigned long number = strtoul(value, NULL, 10);

    if (value[0] == '\0')
        snprintf(line, sizeof(line), "%s needs a value: give a whole number from %u to %u", flag, least,
                 most);
    else if (digits == 0 || digits > 4 || value[digits] != '\0' || number < least || number > most)
        snprintf(line, sizeof(line), "%s %.64s: give a whole number from %u to %u", flag, value, least, most);
    else {
        *out = (unsigned)number;
        return EXIT_STATUS_OK;
    }
    return run_error(EXIT_STATUS_USAGE, line);
}

/* run_plan -- reads what is left of the launcher's own arguments. */
static int run_plan(char **argv, struct crew_plan *plan)
{
    const char *value;
    char line[512];
    int status = EXIT_STATUS_OK;

    for (int i = 1; argv[i] != NULL && status == EXIT_STATUS_OK; i++) {
        if (strcmp(argv[i], "--spare-workers") == 0) {
            plan->spare = true;
        } else if ((value = run_value("--ps", argv, &i)) != NULL) {
            status = run_number("--ps", value, 1, HOSTS_MAX, &plan->servers);
        } else if ((value = run_value("--restarts", argv, &i)) != NULL) {
            status = run_number("--restarts", value, 0, RUN_RESTARTS_MAX, &plan->restarts);
        } else {
            exit_status_unknown(argv[i], line, sizeof(line));
            status = run_error(EXIT_STATUS_USAGE, line);
        }
    }
    return status;
}

/* run_check -- refuses flags of what the launcher finds out or sets itself; these are the flags alone, without the environment. */
static int run_check(const struct knobs *flags)
{
    char line[256];

    for (size_t i = 0; run_own[i] != NULL; i++)
        if (knob_given(flags, run_own[i])) {
            snprintf(line, sizeof(line),
                     "%s is set by stepgate-run for each process: leave it out, or start stepgate-ps and the "
                     "workers by hand",
                     knob_row_find(run_own[i], strlen(run_own[i]))->flag);
            return run_error(EXIT_STATUS_USAGE, line);
        }
    return EXIT_STATUS_OK;
}

/* run_executable_at -- whether there is a program of that name; a directory has the same bit in its mode. */
static bool run_executable_at(const char *name)
{
    struct stat at;

    return stat(name, &at) == 0 && S_ISREG(at.st_mode) && access(name, X_OK) == 0;
}

/* run_executable -- whether a program can be started; looked for as the shell does. */
static bool run_executable(const char *program)
{
    char name[PATH_MAX];
    const char *path = getenv("PATH");

    if (strchr(program, '/') != NULL)
        return run_executable_at(program);
    if (path == NULL)
        path = "/bin:/usr/bin";
    for (const char *at = path;; at++) {
        size_t n = strcspn(at, ":");
        snprintf(name, sizeof(name), "%.*s/%s", n > 0 ? (int)n : 1, n > 0 ? at : ".", program);
        if (run_executable_at(name))
            return true;
        at += n;
        if (*at == '\0')
            return false;
    }
}

/* run_server_program -- stepgate-ps beside this program. */
static int run_server_program(char *out, size_t bytes)
{
    static const char name[] = "stepgate-ps";
    char line[PATH_MAX + 128];
    ssize_t n = readlink("/proc/self/exe", out, bytes - sizeof(name));

    if (n < 0)
        return run_error(EXIT_STATUS_PERMANENT, "cannot find out where this program lies: is /proc mounted?");
    out[n] = '\0';
    char *slash = strrchr(out, '/');
    memcpy(slash != NULL ? slash + 1 : out, name, sizeof(name));
    if (run_executable_at(out))
        return EXIT_STATUS_OK;
    snprintf(line, sizeof(line), "there is no %s: install stepgate-ps beside stepgate-run", out);
    return run_error(EXIT_STATUS_PERMANENT, line);
}

/* run_listen -- where the ps listen: as told, or at an address of an RDMA device if verbs is wanted, or on this host alone. */
static int run_listen(const struct knobs *knobs, unsigned servers, struct hosts_entry *out)
{
    char host[STEPGATE_ADDRESS_BYTES] = "127.0.0.1", line[256];
    const char *text = knob_given(knobs, "listen") ? knob_text(knobs, "listen") : host;
    int code = 0;

    if (text == host && knob_int(knobs, "transport") == KNOB_TRANSPORT_VERBS)
        code = interface_find(verbs_transport(), knob_text(knobs, "device"), host, sizeof(host));
    if (code < 0)
        return run_fail(stepgate_exit_status(code), code);
    code = hosts_parse_listen("listen", text, out);
    if (code < 0)
        return run_fail(EXIT_STATUS_USAGE, code);
    if (out->port != 0 && out->port + servers - 1 > UINT16_MAX) {
        snprintf(line, sizeof(line),
                 "%u ps do not find room from port %u on: give a lower port, or 0 for free ones", servers,
                 out->port);
        return run_error(EXIT_STATUS_USAGE, line);
    }
    return EXIT_STATUS_OK;
}

/* run_start -- everything is read: find the rest, and go. */
static int run_start(const struct knobs *knobs, struct crew_plan plan, char **program)
{
    char server[PATH_MAX], line[512];
    unsigned servers = plan.servers;
    int workers = knob_int(knobs, "workers");

    plan.server = server;
    plan.program = program;
    plan.knobs = knobs;
    plan.workers = workers > 0 ? (unsigned)workers : 1;
    if (!run_executable(program[0])) {
        snprintf(line, sizeof(line),
                 "there is no program %.256s: give its path, or a name that is found in PATH", program[0]);
        return run_error(EXIT_STATUS_USAGE, line);
    }
    int status = run_listen(knobs, servers, &plan.listen);
    if (status == EXIT_STATUS_OK)
        status = run_server_program(server, sizeof(server));
    if (status != EXIT_STATUS_OK)
        return status;
    struct layout *seats = NULL;
    int code = seats_choose(knobs, servers, plan.workers, &plan.listen, &seats);
    if (code < 0)
        return run_fail(code == -STEPGATE_EINVAL ? EXIT_STATUS_USAGE : stepgate_exit_status(code), code);
    plan.seats = seats;
    if (!knob_given(knobs, "secret_file"))
        code = secret_new(&plan.secret);
    status = code < 0 ? run_fail(stepgate_exit_status(code), code) : crew_run(&plan);
    if (plan.secret >= 0)
        close(plan.secret);
    layout_delete(&seats);
    return status;
}

/* run_read -- the launcher's arguments up to the `--`, then start. */
static int run_read(struct stepgate_options *flags, struct stepgate_options *options, int argc, char **argv,
                    char **program)
{
    struct crew_plan plan = {.servers = 1, .secret = -1};
    int original_argc = argc;
    char **copy = calloc((size_t)argc + 1, sizeof(*copy));
    int status = EXIT_STATUS_OK;

    if (copy == NULL)
        return run_error(EXIT_STATUS_PERMANENT, "no memory for the arguments");
    memcpy(copy, argv, (size_t)argc * sizeof(*copy));
    int code = stepgate_options_from_args(flags, &original_argc, copy);
    free(copy);
    if (code >= 0)
        code = stepgate_options_from_env(options);
    if (code >= 0)
        code = stepgate_options_from_args(options, &argc, argv);
    if (code < 0)
        return run_fail(code == -STEPGATE_ENOMEM ? EXIT_STATUS_PERMANENT : EXIT_STATUS_USAGE, code);
    status = run_check(stepgate_options_knobs(flags));
    if (status == EXIT_STATUS_OK)
        status = run_plan(argv, &plan);
    if (status == EXIT_STATUS_OK)
        status = run_start(stepgate_options_knobs(options), plan, program);
    return status;
}

/* main -- see run_help. */
int main(int argc, char **argv)
{
    struct stepgate_options *flags = NULL, *options = NULL;
    int end = 1;

    streams_ensure();
    limit_raise_descriptors();
    for (; end < argc && strcmp(argv[end], "--") != 0; end++)
        if (strcmp(argv[end], "--help") == 0 || strcmp(argv[end], "-h") == 0) {
            run_help();
            return streams_finish("stepgate-run", EXIT_STATUS_OK);
        }
    if (end + 1 >= argc)
        return run_error(EXIT_STATUS_USAGE,
                         "no program is given: put `-- PROGRAM ARGS...` at the end; --help says more");
    argv[end] = NULL;
    int code = stepgate_options_new(&flags);
    if (code >= 0)
        code = stepgate_options_new(&options);
    int status = code < 0 ? run_fail(stepgate_exit_status(code), code)
                          : run_read(flags, options, end, argv, argv + end + 1);
    stepgate_options_delete(&options);
    stepgate_options_delete(&flags);
    return status;
}
