/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/exchange_stepgate.h"

#include <stdlib.h>
#include <string.h>

#include "stepgate/stepgate.h"
#include "worker/examples/fashion/exchange_model.h"
#include "worker/examples/fashion/exchange_snapshot.h"
#include "worker/examples/fashion/observer.h"

struct exchange_stepgate {
    struct exchange exchange;
    struct exchange_link *link;
    struct stepgate_model *model;
    struct recipe recipe;
    struct observer *observer; /* somebody else's; NULL: there is none */
    bool together;             /* a pull of all variables, so that they are of one step */
    bool pulled;               /* all, since the last begin */
    /* With parameters of 16 bits only: */
    struct values widened;
    struct values gradients;
    bool wide[NETWORK_VARIABLES]; /* since the last begin */
};

/* exchange_stepgate_of -- what an exchange is the first member of */
static struct exchange_stepgate *exchange_stepgate_of(struct exchange *exchange)
{
    return (struct exchange_stepgate *)exchange;
}

/* exchange_stepgate_check -- as exchange_check; a job that goes back to a checkpoint is no fault */
static int exchange_stepgate_check(struct exchange *exchange, int code)
{
    if (code != -STEPGATE_EREWOUND)
        return exchange_check(exchange->fault, code);
    exchange->back = true;
    return -1;
}

/* exchange_stepgate_begin -- wait for the token of the next contribution */
static int exchange_stepgate_begin(struct exchange *exchange, struct exchange_step *step)
{
    struct exchange_stepgate *self = exchange_stepgate_of(exchange);
    struct stepgate_step_info info = {.size = sizeof info};
    exchange->back =
        false; /* what fails from here on is a fault, also if it is that the job cannot go back */
    int code = stepgate_step_begin(self->model, -1, &info);
    if (code < 0)
        return exchange_check(exchange->fault, code);
    *step =
        (struct exchange_step){.step = info.step, .rewound = info.rewound != 0, .staleness = info.staleness};
    self->pulled = false;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        self->wide[v] = false;
    if (self->observer != NULL)
        observer_tell(self->observer, info.step);
    return 0;
}

/* exchange_stepgate_pull -- one variable, or all where only that makes them one step's */
static int exchange_stepgate_pull(struct exchange_stepgate *self, unsigned variable)
{
    if (!self->together)
        return stepgate_step_pull(self->model, (int)variable, -1, NULL);
    if (self->pulled)
        return 0;
    int code = stepgate_step_pull(self->model, STEPGATE_ALL, -1, NULL);
    self->pulled = code >= 0;
    return code;
}

/* exchange_stepgate_parameter -- pull it; the second time in a step moves nothing */
static int exchange_stepgate_parameter(struct exchange *exchange, unsigned variable, const float **value)
{
    struct exchange_stepgate *self = exchange_stepgate_of(exchange);
    const void *pointer;
    int code = exchange_stepgate_pull(self, variable);
    if (code >= 0)
        code = stepgate_buffer_parameter(self->model, (int)variable, &pointer);
    if (code < 0)
        return exchange_stepgate_check(exchange, code);
    if (self->recipe.dtype == DTYPE_F32) {
        *value = pointer;
        return 0;
    }
    if (!self->wide[variable])
        dtype_widen(self->recipe.dtype, pointer, self->widened.of[variable],
                    network_variables()[variable].elements);
    self->wide[variable] = true;
    *value = self->widened.of[variable];
    return 0;
}

/* exchange_stepgate_gradient -- where to write it; over shm that is the ps's slot itself */
static int exchange_stepgate_gradient(struct exchange *exchange, unsigned variable, float **value)
{
    struct exchange_stepgate *self = exchange_stepgate_of(exchange);
    void *pointer;
    if (self->recipe.dtype != DTYPE_F32) {
        *value = self->gradients.of[variable];
        return 0;
    }
    int code = stepgate_buffer_gradient(self->model, (int)variable, &pointer);
    if (code >= 0)
        *value = pointer;
    return exchange_stepgate_check(exchange, code);
}

/* exchange_stepgate_push -- hand it in, rounded to the type of gradients */
static int exchange_stepgate_push(struct exchange *exchange, unsigned variable)
{
    struct exchange_stepgate *self = exchange_stepgate_of(exchange);
    void *pointer;
    int code = 0;
    if (self->recipe.dtype != DTYPE_F32)
        code = stepgate_buffer_gradient(self->model, (int)variable, &pointer);
    if (code >= 0 && self->recipe.dtype != DTYPE_F32)
        dtype_narrow(self->recipe.dtype, self->gradients.of[variable], pointer,
                     network_variables()[variable].elements);
    if (code >= 0)
        code = stepgate_step_push(self->model, (int)variable);
    return exchange_stepgate_check(exchange, code);
}

/* exchange_stepgate_finish -- seal the contribution */
static int exchange_stepgate_finish(struct exchange *exchange, uint32_t weight)
{
    return exchange_stepgate_check(exchange,
                                   stepgate_step_finish(exchange_stepgate_of(exchange)->model, weight));
}

/* exchange_stepgate_settle -- when all are here, nobody has a contribution under way */
static int exchange_stepgate_settle(struct exchange *exchange)
{
    return exchange_stepgate_check(exchange,
                                   stepgate_job_barrier(exchange_stepgate_of(exchange)->link->job, -1));
}

/* exchange_stepgate_copy -- of one exact step */
static int exchange_stepgate_copy(struct exchange *exchange, enum exchange_what what, struct values *out,
                                  uint64_t *step)
{
    struct exchange_stepgate *self = exchange_stepgate_of(exchange);
    return exchange_stepgate_check(exchange,
                                   exchange_snapshot(self->model, what, self->recipe.dtype, out, step));
}

/* exchange_stepgate_counts -- what the ps have counted */
static int exchange_stepgate_counts(struct exchange *exchange, unsigned worker, struct exchange_counts *out)
{
    struct stepgate_contributions counts = {.size = sizeof counts};
    int code = stepgate_model_contributions(exchange_stepgate_of(exchange)->model, (int)worker, -1, &counts);
    if (code >= 0)
        *out = (struct exchange_counts){
            .accepted = counts.accepted, .stale = counts.stale, .non_finite = counts.non_finite};
    return exchange_stepgate_check(exchange, code);
}

/* exchange_stepgate_leave -- all leave together, so that nobody's last look at the parameters finds
 * the ps gone */
static int exchange_stepgate_leave(struct exchange *exchange)
{
    struct exchange_stepgate *self = exchange_stepgate_of(exchange);
    if (self->observer != NULL)
        observer_finish(self->observer);
    int code = stepgate_job_barrier(self->link->job, -1);
    if (code >= 0)
        code = stepgate_job_leave(self->link->job, -1);
    return exchange_stepgate_check(exchange, code);
}

/* exchange_stepgate_close -- the model; the link is somebody else's */
static void exchange_stepgate_close(struct exchange *exchange)
{
    struct exchange_stepgate *self = exchange_stepgate_of(exchange);
    stepgate_model_delete(&self->model);
    values_clear(&self->widened);
    values_clear(&self->gradients);
    free(self);
}

static const struct exchange_operations exchange_stepgate_operations = {
    .begin = exchange_stepgate_begin,
    .parameter = exchange_stepgate_parameter,
    .gradient = exchange_stepgate_gradient,
    .push = exchange_stepgate_push,
    .finish = exchange_stepgate_finish,
    .settle = exchange_stepgate_settle,
    .copy = exchange_stepgate_copy,
    .counts = exchange_stepgate_counts,
    .leave = exchange_stepgate_leave,
    .close = exchange_stepgate_close,
};

/* exchange_stepgate_watch -- tell an observer of each step that begins */
void exchange_stepgate_watch(struct exchange *exchange, struct observer *observer)
{
    exchange_stepgate_of(exchange)->observer = observer;
}

/* exchange_stepgate_sets -- a record that nobody writes is noticed now, and not at the end */
static int exchange_stepgate_sets(const struct exchange_stepgate *self,
                                  const struct stepgate_model_info *info, struct fault *fault)
{
    static const char *const keys[][2] = {{"record_sets", "--record-sets"}, {"replay_sets", "--replay-sets"}};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *file = "";
        (void)stepgate_options_get(self->link->options, keys[i][0], &file);
        if (file[0] != '\0' && !info->sets)
            return fault_set(fault, FAULT_USAGE,
                             "%s %s is for the ps, which have not got it: give it to stepgate-run, before "
                             "the --, or to ps 0",
                             keys[i][1], file);
    }
    return 0;
}

/* exchange_stepgate_resume -- what the ps have been told of checkpoints, and what this process has, must fit */
static int exchange_stepgate_resume(struct exchange_stepgate *self, const struct stepgate_model_info *info,
                                    struct fault *fault)
{
    const char *folder = "", *resume = "";
    (void)stepgate_options_get(self->link->options, "checkpoint", &folder);
    (void)stepgate_options_get(self->link->options, "resume", &resume);
    bool anew = strcmp(resume, "off") == 0 || strcmp(resume, "no") == 0 || strcmp(resume, "false") == 0 ||
                strcmp(resume, "0") == 0;
    if (folder[0] != '\0' && !info->checkpoints)
        return fault_set(
            fault, FAULT_USAGE,
            "--checkpoint %s is for the ps, which have not got it: give it to stepgate-run, before "
            "the --, or to each stepgate-ps",
            folder);
    if (info->restored == 1 && anew)
        return fault_set(
            fault, FAULT_USAGE,
            "--no-resume is for the ps, which have not got it: give it to stepgate-run, before the "
            "--, or to each stepgate-ps");
    if (info->restored && self->recipe.optimizer == RECIPE_NONE)
        return fault_set(
            fault, FAULT_USAGE,
            "with --optimizer none the parameters are the workers', and no checkpoint has them: give "
            "another folder to --checkpoint, or another optimizer");
    self->exchange.joins = info->restored == 2;
    self->exchange.step = info->restored ? info->step : 0;
    return 0;
}

/* exchange_stepgate_commit -- what does not fit the number of workers is the command line's fault */
static int exchange_stepgate_commit(struct exchange_stepgate *self, struct fault *fault)
{
    struct stepgate_model_info info = {.size = sizeof info};
    int code = stepgate_model_new(self->link->job, EXCHANGE_MODEL_NAME, &self->model);
    if (code >= 0)
        code = exchange_model_declare(self->model, &self->recipe, self->exchange.rank == 0);
    if (code >= 0)
        code = stepgate_model_commit(self->model, -1, &info);
    if (code == -STEPGATE_EINVAL)
        return exchange_fault(fault, FAULT_USAGE, code);
    if (exchange_check(fault, code) < 0)
        return -1;
    if (exchange_stepgate_sets(self, &info, fault) < 0)
        return -1;
    return exchange_stepgate_resume(self, &info, fault);
}

/* exchange_stepgate_new -- declare and commit the network's variables */
struct exchange *exchange_stepgate_new(struct exchange_link *link, const struct recipe *recipe,
                                       struct fault *fault)
{
    struct exchange_stepgate *self = calloc(1, sizeof *self);
    unsigned rank = exchange_link_rank(link), workers = exchange_link_workers(link);
    if (self == NULL ||
        (recipe->dtype != DTYPE_F32 && (!values_take(&self->widened) || !values_take(&self->gradients)))) {
        fault_set(fault, FAULT_PERMANENT, "no memory for the exchange");
        if (self != NULL)
            exchange_stepgate_close(&self->exchange);
        return NULL;
    }
    self->link = link;
    self->recipe = *recipe;
    self->together = !recipe_is_lockstep(recipe, workers);
    self->exchange = (struct exchange){
        .operations = &exchange_stepgate_operations,
        .transport = stepgate_job_transport(link->job),
        .workers = workers,
        .ps = (unsigned)stepgate_job_servers(link->job),
        .rank = rank,
        .share = share_of(recipe_replicas(recipe, workers), workers, rank),
        .fault = fault,
    };
    if (exchange_stepgate_commit(self, fault) < 0) {
        exchange_stepgate_close(&self->exchange);
        return NULL;
    }
    return &self->exchange;
}
