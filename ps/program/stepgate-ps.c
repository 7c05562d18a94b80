/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-ps -- one parameter server: holds its shard of the job's parameters until the job is over. */
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "stepgate/stepgate.h"
#include "stepgate/transport.h"
#include "transport/base/error.h"
#include "transport/base/exit_status.h"
#include "transport/base/file.h"
#include "transport/base/help.h"
#include "transport/base/limit.h"
#include "transport/base/streams.h"

/* A signal handler has no argument of the program's, so these two are the process's. */
static volatile sig_atomic_t ps_signal;
static _Atomic(struct stepgate_server *) ps_server;

/* ps_name -- starts every line: "ps 0". */
static char ps_name[32] = "stepgate-ps";

/* ps_handle -- only calls that are safe in a signal handler. */
static void ps_handle(int number)
{
    ps_signal = number;
    /* Partner: the stores in ps_serve; a server seen here is complete. */
    struct stepgate_server *server = atomic_load_explicit(&ps_server, memory_order_acquire);
    if (server != NULL)
        stepgate_server_stop(server);
}

/* ps_install -- stops on the signals that ask a server to stop; a reader of our output that went away is no reason to. */
static void ps_install(void)
{
    static const int stopping[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction action = {.sa_handler = ps_handle};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(stopping) / sizeof(stopping[0]); i++)
        sigaction(stopping[i], &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

/* ps_log -- one line to stderr in one piece, so that lines of several threads do not mix. */
static void ps_log(void *context, int level, const char *line)
{
    (void)context;
    (void)level;
    fprintf(stderr, "%s: %s\n", ps_name, line);
}

/* ps_fail -- the last error with its remedy in one line; returns the status to exit with. */
static int ps_fail(int status, int code)
{
    char line[1024];

    exit_status_line(code, line, sizeof(line));
    ps_log(NULL, STEPGATE_LOG_ERROR, line);
    return status;
}

/* ps_help -- from the knob table, without what is the workers' own. */
static void ps_help(void)
{
    static const char *const workers_own[] = {"service", "chunk_bytes", NULL};

    help_begin();
    printf(
        "usage: stepgate-ps --ps-hosts LIST --task-index I --workers N [FLAGS]\n"
        "       stepgate-ps --check --workers N [FLAGS]\n\n"
        "Serves one shard of a job's parameters until the job is over; with --check says only whether the\n"
        "system's limits are large enough for that: a line each, status 1 if one is not. Prints `listening "
        "ADDRESS` when "
        "workers can\n"
        "come. Exit status: 0 the job is over, 2 usage, 1 permanent error, 75 a peer was lost or late: "
        "worth another\n"
        "try, 128 + signal when a signal ended it.\n\n");
    help_write_knobs(stdout, workers_own);
}

/* ps_announce -- says where workers can come; returns the exit status so far. */
static int ps_announce(const struct stepgate_options *options, const struct stepgate_server *server)
{
    char address[STEPGATE_ADDRESS_BYTES], line[STEPGATE_ADDRESS_BYTES + 2];
    const char *path = "";
    int code = stepgate_server_address(server, address, sizeof(address));

    if (code >= 0)
        code = stepgate_options_get(options, "address_file", &path);
    if (code < 0)
        return ps_fail(stepgate_exit_status(code), code);
    snprintf(line, sizeof(line), "%s\n", address);
    int os_errno = path[0] != '\0' ? file_write(path, line) : 0;
    if (os_errno != 0) {
        char text[PATH_MAX + 256];
        snprintf(text, sizeof(text),
                 "cannot write the address file %s: %s: name a file in a folder that can be written", path,
                 strerror(os_errno));
        error_one_line(text);
        ps_log(NULL, STEPGATE_LOG_ERROR, text);
        return EXIT_STATUS_PERMANENT;
    }
    printf("listening %s\n", address);
    return streams_finish(ps_name, EXIT_STATUS_OK);
}

/* ps_serve -- until the job is over, a signal comes, or something fails; returns the exit status. */
static int ps_serve(const struct stepgate_options *options)
{
    struct stepgate_server *server = NULL;
    int code = stepgate_server_new(options, &server);

    if (code < 0)
        return ps_fail(code == -STEPGATE_EINVAL ? EXIT_STATUS_USAGE : stepgate_exit_status(code), code);
    /* Partner: the load in ps_handle. */
    atomic_store_explicit(&ps_server, server, memory_order_release);
    int status = ps_announce(options, server);
    /* A signal before the store above stopped nothing; one from here on does. */
    if (status == EXIT_STATUS_OK && ps_signal == 0) {
        code = stepgate_server_run(server);
        if (code < 0)
            status = ps_fail(stepgate_exit_status(code), code);
    }
    /* Partner: the load in ps_handle, which runs in this thread only (the others are the server's and end with it). */
    atomic_store_explicit(&ps_server, NULL, memory_order_release);
    stepgate_server_delete(&server);
    if (status == EXIT_STATUS_OK && ps_signal != 0)
        return 128 + ps_signal;
    return status;
}

/* ps_tell -- a line of --check. */
static void ps_tell(void *context, const char *line)
{
    (void)context;
    printf("%s\n", line);
}

/* ps_check -- the limits alone; returns the status to exit with. Nothing listens, so that no secret is needed, and no address but that of a device. */
static int ps_check(struct stepgate_options *options)
{
    const char *hosts = "", *listen = "";
    int code = stepgate_options_get(options, "ps_hosts", &hosts);

    if (code >= 0)
        code = stepgate_options_get(options, "listen", &listen);
    if (code >= 0 && hosts[0] == '\0' && listen[0] == '\0')
        code = stepgate_options_set(options, "listen", "127.0.0.1:0");
    if (code >= 0)
        code = stepgate_options_set(options, "insecure", "on");
    if (code >= 0)
        code = stepgate_server_check(options, ps_tell, NULL);
    if (code < 0)
        return ps_fail(code == -STEPGATE_EINVAL ? EXIT_STATUS_USAGE : stepgate_exit_status(code), code);
    printf("enough for this job\n");
    return streams_finish(ps_name, EXIT_STATUS_OK);
}

/* ps_take -- takes a flag of the program's own out of argv; was it there? */
static bool ps_take(int *argc, char **argv, const char *flag)
{
    int kept = 1;

    for (int i = 1; i < *argc; i++)
        if (strcmp(argv[i], flag) != 0)
            argv[kept++] = argv[i];
    bool there = kept < *argc;
    argv[kept] = NULL;
    *argc = kept;
    return there;
}

/* ps_read -- options from the environment and argv, and whether they fit a ps; returns the exit status so far. */
static int ps_read(struct stepgate_options *options, int argc, char **argv)
{
    const char *role = "", *index = "0";
    int code = stepgate_options_log(options, ps_log, NULL, STEPGATE_LOG_INFO);

    if (code >= 0)
        code = stepgate_options_from_env(options);
    if (code >= 0)
        code = stepgate_options_from_args(options, &argc, argv);
    if (code >= 0)
        code = stepgate_options_get(options, "job_name", &role);
    if (code >= 0)
        code = stepgate_options_get(options, "task_index", &index);
    if (code < 0)
        return ps_fail(code == -STEPGATE_ENOMEM ? EXIT_STATUS_PERMANENT : EXIT_STATUS_USAGE, code);
    if (argc > 1) {
        char line[512];
        exit_status_unknown(argv[1], line, sizeof(line));
        ps_log(NULL, STEPGATE_LOG_ERROR, line);
        return EXIT_STATUS_USAGE;
    }
    if (strcmp(role, "worker") == 0) {
        ps_log(NULL, STEPGATE_LOG_ERROR,
               "job-name is worker, but this program is a ps: give --job-name ps, or leave it out");
        return EXIT_STATUS_USAGE;
    }
    snprintf(ps_name, sizeof(ps_name), "ps %s", index);
    return EXIT_STATUS_OK;
}

/* main -- see ps_help. */
int main(int argc, char **argv)
{
    struct stepgate_options *options = NULL;

    streams_ensure();
    limit_raise_descriptors();
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            ps_help();
            return streams_finish(ps_name, EXIT_STATUS_OK);
        }
    int code = stepgate_options_new(&options);
    if (code < 0)
        return ps_fail(stepgate_exit_status(code), code);
    ps_install();
    bool checks = ps_take(&argc, argv, "--check");
    int status = ps_read(options, argc, argv);
    if (status == EXIT_STATUS_OK)
        status = checks ? ps_check(options) : ps_serve(options);
    stepgate_options_delete(&options);
    return status;
}
