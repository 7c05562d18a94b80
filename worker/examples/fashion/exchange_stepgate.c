/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/exchange_stepgate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "stepgate/stepgate.h"
#include "worker/examples/fashion/interrupt.h"

struct exchange_link {
    struct stepgate_options *options;
    struct stepgate_job *job;
};

struct exchange_stepgate {
    struct exchange exchange;
    struct exchange_link *link;
    struct stepgate_model *model;
};

/* exchange_fault -- hand on the library's last error: text and remedy in one line */
static int exchange_fault(struct fault *fault, int status, int code)
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
static int exchange_check(struct fault *fault, int code)
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

/* exchange_stepgate_of -- what an exchange is the first member of */
static struct exchange_stepgate *exchange_stepgate_of(struct exchange *exchange)
{
    return (struct exchange_stepgate *)exchange;
}

/* exchange_stepgate_begin -- wait for the token of the next step */
static int exchange_stepgate_begin(struct exchange *exchange, uint64_t *step)
{
    struct stepgate_step_info info = {.size = sizeof info};
    int code = stepgate_step_begin(exchange_stepgate_of(exchange)->model, -1, &info);
    if (code >= 0)
        *step = info.step;
    return exchange_check(exchange->fault, code);
}

/* exchange_stepgate_parameter -- pull it; the second time in a step moves nothing */
static int exchange_stepgate_parameter(struct exchange *exchange, unsigned variable, const float **value)
{
    struct stepgate_model *model = exchange_stepgate_of(exchange)->model;
    const void *pointer;
    int code = stepgate_step_pull(model, (int)variable, -1, NULL);
    if (code >= 0)
        code = stepgate_buffer_parameter(model, (int)variable, &pointer);
    if (code >= 0)
        *value = pointer;
    return exchange_check(exchange->fault, code);
}

/* exchange_stepgate_gradient -- where to write it; over shm that is the ps's slot itself */
static int exchange_stepgate_gradient(struct exchange *exchange, unsigned variable, float **value)
{
    void *pointer;
    int code = stepgate_buffer_gradient(exchange_stepgate_of(exchange)->model, (int)variable, &pointer);
    if (code >= 0)
        *value = pointer;
    return exchange_check(exchange->fault, code);
}

/* exchange_stepgate_push -- hand it in */
static int exchange_stepgate_push(struct exchange *exchange, unsigned variable)
{
    return exchange_check(exchange->fault,
                          stepgate_step_push(exchange_stepgate_of(exchange)->model, (int)variable));
}

/* exchange_stepgate_finish -- seal the contribution */
static int exchange_stepgate_finish(struct exchange *exchange, uint32_t weight)
{
    return exchange_check(exchange->fault,
                          stepgate_step_finish(exchange_stepgate_of(exchange)->model, weight));
}

/* exchange_stepgate_leave -- all leave together, so that nobody's last look at the parameters finds
 * the ps gone */
static int exchange_stepgate_leave(struct exchange *exchange)
{
    struct stepgate_job *job = exchange_stepgate_of(exchange)->link->job;
    int code = stepgate_job_barrier(job, -1);
    if (code >= 0)
        code = stepgate_job_leave(job, -1);
    return exchange_check(exchange->fault, code);
}

/* exchange_stepgate_close -- the model; the link is somebody else's */
static void exchange_stepgate_close(struct exchange *exchange)
{
    struct exchange_stepgate *self = exchange_stepgate_of(exchange);
    stepgate_model_delete(&self->model);
    free(self);
}

static const struct exchange_operations exchange_stepgate_operations = {
    .begin = exchange_stepgate_begin,
    .parameter = exchange_stepgate_parameter,
    .gradient = exchange_stepgate_gradient,
    .push = exchange_stepgate_push,
    .finish = exchange_stepgate_finish,
    .leave = exchange_stepgate_leave,
    .close = exchange_stepgate_close,
};

/* exchange_set -- a number of the recipe, with all its digits */
static int exchange_set(struct stepgate_model *model, const char *key, double number)
{
    char text[40];
    snprintf(text, sizeof text, "%.17g", number);
    return stepgate_model_set(model, key, text);
}

/* exchange_declare_recipe -- the optimizer and its numbers */
static int exchange_declare_recipe(struct stepgate_model *model, const struct exchange_recipe *recipe)
{
    int code = stepgate_model_set(model, "optimizer", recipe->rule == EXCHANGE_MOMENTUM ? "momentum" : "sgd");
    if (code >= 0)
        code = exchange_set(model, "learning_rate", recipe->schedule.rate);
    if (code >= 0 && recipe->rule == EXCHANGE_MOMENTUM)
        code = exchange_set(model, "momentum", recipe->momentum);
    if (code >= 0 && recipe->schedule.steps > 0)
        code = exchange_set(model, "learning_rate_end", 0.0);
    if (code >= 0 && recipe->schedule.steps > 0)
        code = exchange_set(model, "learning_rate_steps", (double)recipe->schedule.steps);
    return code;
}

/* exchange_declare_variable -- one variable; worker 0 also gives its first value */
static int exchange_declare_variable(struct stepgate_model *model, unsigned variable, bool initial,
                                     uint64_t seed)
{
    const struct network_variable *v = &network_variables()[variable];
    int id;
    int code =
        stepgate_model_variable(model, v->name, STEPGATE_TRAINED, STEPGATE_F32, (int)v->rank, v->dims, &id);
    if (code < 0 || !initial)
        return code;
    float *value = malloc(v->elements * sizeof *value);
    if (value == NULL)
        return -STEPGATE_ENOMEM;
    network_initial(variable, seed, value);
    code = stepgate_model_initialize(model, id, value, v->elements * sizeof *value);
    free(value);
    return code;
}

/* exchange_stepgate_new -- declare and commit the network's variables */
struct exchange *exchange_stepgate_new(struct exchange_link *link, const struct exchange_recipe *recipe,
                                       struct fault *fault)
{
    struct exchange_stepgate *self = calloc(1, sizeof *self);
    if (self == NULL) {
        fault_set(fault, FAULT_PERMANENT, "no memory for the exchange");
        return NULL;
    }
    unsigned rank = (unsigned)stepgate_job_rank(link->job);
    self->link = link;
    self->exchange = (struct exchange){
        .operations = &exchange_stepgate_operations,
        .transport = stepgate_job_transport(link->job),
        .workers = (unsigned)stepgate_job_size(link->job),
        .ps = (unsigned)stepgate_job_servers(link->job),
        .rank = rank,
        .parts = (unsigned)stepgate_job_size(link->job),
        .first = rank,
        .count = 1,
        .fault = fault,
    };
    int code = stepgate_model_new(link->job, "fashion", &self->model);
    if (code >= 0)
        code = exchange_declare_recipe(self->model, recipe);
    for (unsigned v = 0; code >= 0 && v < NETWORK_VARIABLES; v++)
        code = exchange_declare_variable(self->model, v, rank == 0, recipe->seed);
    if (code >= 0)
        code = stepgate_model_commit(self->model, -1, NULL);
    if (exchange_check(fault, code) < 0) {
        exchange_stepgate_close(&self->exchange);
        return NULL;
    }
    return &self->exchange;
}
