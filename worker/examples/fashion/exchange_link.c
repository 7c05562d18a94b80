/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/exchange_link.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepgate/stepgate.h"
#include "worker/examples/fashion/interrupt.h"

enum { EXCHANGE_LEAVE_MS = 2000 };

/* exchange_fault -- hand on the library's last error: text and remedy in one line */
int exchange_fault(struct fault *fault, int status, int code)
{
    struct stepgate_error error = {.size = sizeof error};
    if (stepgate_error_last(&error) < 0 || error.code != -code || error.text[0] == '\0')
        return fault_set(fault, status, "%s", stepgate_strerror(code));
    if (error.remedy[0] == '\0')
        return fault_set(fault, status, "%s", error.text);
    return fault_set(fault, status, "%s: %s", error.text, error.remedy);
}

/* exchange_check -- 0 for what went well, else -1 with the fault set; after a signal that asks for
 * the end the library's words are of no use, and the trainer has better ones */
int exchange_check(struct fault *fault, int code)
{
    if (code >= 0)
        return 0;
    return interrupt_signal() != 0 ? -1 : exchange_fault(fault, stepgate_exit_status(code), code);
}

/* exchange_log -- what the library has to say goes to stderr, one line each */
static void exchange_log(void *context, int level, const char *line)
{
    (void)context;
    (void)level;
    fprintf(stderr, "stepgate-fashion: %s\n", line);
}

/* exchange_link_new -- options from the environment, then from argv */
struct exchange_link *exchange_link_new(int *argc, char **argv, struct fault *fault)
{
    struct exchange_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        fault_set(fault, FAULT_PERMANENT, "no memory for the options");
        return NULL;
    }
    int code = stepgate_options_new(&link->options);
    if (code == 0)
        code = stepgate_options_log(link->options, exchange_log, NULL, STEPGATE_LOG_INFO);
    if (code == 0)
        code = stepgate_options_from_env(link->options);
    if (code == 0)
        code = stepgate_options_from_args(link->options, argc, argv);
    if (code < 0) {
        bool argument = stepgate_error_class(code) == STEPGATE_CLASS_ARGUMENT;
        exchange_fault(fault, argument ? FAULT_USAGE : FAULT_PERMANENT, code);
        exchange_link_delete(&link);
        return NULL;
    }
    return link;
}

/* exchange_link_help -- write the flags of stepgate to stdout, from its own table */
void exchange_link_help(void)
{
    struct stepgate_knob knob;
    printf("\nflags of stepgate:\n\n");
    for (size_t i = 0; stepgate_options_list(i, &knob) == 0; i++) {
        char flag[64];
        snprintf(flag, sizeof(flag), "%s %s", knob.flag, knob.value);
        printf("  %-34s %s%s%s%s\n", flag, knob.help, knob.fallback[0] != '\0' ? " (" : "", knob.fallback,
               knob.fallback[0] != '\0' ? ")" : "");
    }
}

/* exchange_link_join -- connect to all ps; a signal ends the wait */
int exchange_link_join(struct exchange_link *link, struct fault *fault)
{
    struct stepgate_job *job = NULL;
    /* With 0 the unfinished job comes back at once, so that a signal has something to interrupt. */
    int code = stepgate_job_join(link->options, 0, &job);
    link->job = job;
    interrupt_watch(job);
    if (code == -STEPGATE_EAGAIN)
        code = interrupt_signal() != 0 ? -STEPGATE_EINTR : stepgate_job_join(link->options, -1, &link->job);
    if (code == -STEPGATE_EINVAL)
        return exchange_fault(fault, FAULT_USAGE, code);
    return exchange_check(fault, code);
}

/* exchange_link_workers -- workers in the job, after the join */
unsigned exchange_link_workers(const struct exchange_link *link)
{
    return (unsigned)stepgate_job_size(link->job);
}

/* exchange_link_rank -- of this worker among them, after the join */
unsigned exchange_link_rank(const struct exchange_link *link)
{
    return (unsigned)stepgate_job_rank(link->job);
}

/* exchange_link_copy -- every knob that is not at its default, but those that say who this is */
static int exchange_link_copy(const struct stepgate_options *from, struct stepgate_options *to)
{
    struct stepgate_knob knob;
    int code = 0;
    for (size_t i = 0; code == 0 && stepgate_options_list(i, &knob) == 0; i++) {
        const char *text;
        if (strcmp(knob.name, "job_name") == 0 || strcmp(knob.name, "task_index") == 0)
            continue;
        code = stepgate_options_get(from, knob.name, &text);
        if (code == 0 && strcmp(text, knob.fallback) != 0)
            code = stepgate_options_set(to, knob.name, text);
    }
    return code;
}

/* exchange_link_observe -- options of an observer of the same job */
int exchange_link_observe(const struct exchange_link *link, struct stepgate_options **out)
{
    struct stepgate_options *options = NULL;
    int code = stepgate_options_new(&options);
    if (code == 0)
        code = exchange_link_copy(link->options, options);
    if (code == 0)
        code = stepgate_options_set(options, "job_name", "observer");
    if (code == 0)
        *out = options;
    else
        stepgate_options_delete(&options);
    return code;
}

/* exchange_link_rewinds -- whether the job goes back to a checkpoint when a ps is lost */
bool exchange_link_rewinds(const struct exchange_link *link)
{
    const char *text = "";
    return stepgate_options_get(link->options, "lost_ps", &text) == 0 && strcmp(text, "rewind") == 0;
}

/* exchange_link_leave -- a job that has failed, or is not joined, needs no good-bye */
void exchange_link_leave(struct exchange_link *link)
{
    if (link->job != NULL)
        (void)stepgate_job_leave(link->job, EXCHANGE_LEAVE_MS);
}

/* exchange_link_delete -- leave nothing behind; set NULL; safe on NULL */
void exchange_link_delete(struct exchange_link **link)
{
    if (*link == NULL)
        return;
    interrupt_watch(NULL);
    stepgate_job_delete(&(*link)->job);
    stepgate_options_delete(&(*link)->options);
    free(*link);
    *link = NULL;
}
