/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/observer.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "stepgate/stepgate.h"
#include "worker/examples/fashion/evaluation.h"
#include "worker/examples/fashion/exchange_model.h"
#include "worker/examples/fashion/exchange_snapshot.h"

struct observer {
    const struct exchange_link *link;
    const struct recipe *recipe;
    const struct dataset *data;
    uint64_t every;
    enum progress_style style;
    pthread_t thread;
    bool joined; /* the thread, by observer_finish */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t told;    /* with the lock held, as what follows */
    bool finishing;   /* no more steps */
    atomic_bool stop; /* at once */
    /* Partner: observer_stop interrupts the job that it finds here; the thread's others are its own. */
    _Atomic(struct stepgate_job *) job;
    struct stepgate_model *model;
    struct network *network;
    struct values copies[2]; /* by what they are of: parameters, averages */
    const struct values *judged;
    struct observer_point *points;
    size_t count;
    size_t room;
};

/* observer_failed -- one line; the training goes on */
static void observer_failed(const struct observer *observer, int code)
{
    struct fault fault = {0};
    if (atomic_load(&observer->stop))
        return;
    exchange_fault(&fault, FAULT_PERMANENT, code);
    fprintf(stderr, "stepgate-fashion: nothing is judged beside the training any more: %s\n", fault.text);
}

/* observer_join -- become an observer of the job, and learn the model */
static int observer_join(struct observer *observer)
{
    struct stepgate_options *options = NULL;
    struct stepgate_job *job = NULL;
    int code = exchange_link_observe(observer->link, &options);
    if (code < 0)
        return code;
    /* With 0 the unfinished job comes back at once, so that a stop has something to interrupt. */
    code = stepgate_job_join(options, 0, &job);
    atomic_store(&observer->job, job);
    if (code == -STEPGATE_EAGAIN)
        code = atomic_load(&observer->stop) ? -STEPGATE_EINTR : stepgate_job_join(options, -1, &job);
    stepgate_options_delete(&options);
    return code < 0 ? code : stepgate_model_attach(job, EXCHANGE_MODEL_NAME, -1, &observer->model);
}

/* observer_parameter -- as values_traffic has it, but a stop ends the judging */
static int observer_parameter(void *context, unsigned variable, const float **value)
{
    struct observer *observer = context;
    *value = observer->judged->of[variable];
    return atomic_load(&observer->stop) ? -STEPGATE_EINTR : 0;
}

/* observer_copy -- parameters or averages as they are now */
static int observer_copy(struct observer *observer, enum exchange_what what, uint64_t *step)
{
    return exchange_snapshot(observer->model, what, observer->recipe->dtype, &observer->copies[what], step);
}

/* observer_judge -- what was copied */
static int observer_judge(struct observer *observer, enum exchange_what what, double *accuracy)
{
    const struct network_traffic traffic = {.context = observer, .parameter = observer_parameter};
    struct evaluation_result judged;
    observer->judged = &observer->copies[what];
    int code = evaluation_run(observer->network, &observer->data->test, observer->data->test.count, &traffic,
                              &judged);
    if (code >= 0)
        *accuracy = judged.accuracy;
    return code;
}

/* observer_keep -- a point; -ENOMEM without memory */
static int observer_keep(struct observer *observer, const struct observer_point *point)
{
    if (observer->count == observer->room) {
        size_t room = 2 * observer->room + 16;
        struct observer_point *points = realloc(observer->points, room * sizeof *points);
        if (points == NULL)
            return -STEPGATE_ENOMEM;
        observer->points = points;
        observer->room = room;
    }
    observer->points[observer->count++] = *point;
    return 0;
}

/* observer_measure -- one judgement and its line. Averages are copied right after the parameters; if training has
 * gone on meanwhile, the line says of which step they are. */
static int observer_measure(struct observer *observer)
{
    bool averages = observer->recipe->average_decay > 0.0;
    struct observer_point point = {.average_accuracy = -1.0};
    uint64_t average_step;
    char average[64] = "", of[40] = "", line[160];
    int code = observer_copy(observer, EXCHANGE_PARAMETERS, &point.step);
    if (code >= 0 && averages)
        code = observer_copy(observer, EXCHANGE_AVERAGES, &average_step);
    if (code >= 0)
        code = observer_judge(observer, EXCHANGE_PARAMETERS, &point.accuracy);
    if (code >= 0 && averages)
        code = observer_judge(observer, EXCHANGE_AVERAGES, &point.average_accuracy);
    if (code < 0)
        return code;
    if (averages && average_step != point.step)
        snprintf(of, sizeof of, " of step %" PRIu64, average_step);
    if (averages)
        snprintf(average, sizeof average, " (average %.4f%s)", point.average_accuracy, of);
    snprintf(line, sizeof line, "step %" PRIu64 " test accuracy %.4f%s", point.step, point.accuracy, average);
    progress_note(observer->style, line);
    return observer_keep(observer, &point);
}

/* observer_wait -- until the training has come to a step; false: it never will */
static bool observer_wait(struct observer *observer, uint64_t step)
{
    pthread_mutex_lock(&observer->lock);
    while (observer->told < step && !observer->finishing && !atomic_load(&observer->stop))
        pthread_cond_wait(&observer->changed, &observer->lock);
    bool there = observer->told >= step && !atomic_load(&observer->stop);
    pthread_mutex_unlock(&observer->lock);
    return there;
}

/* observer_run -- the thread */
static void *observer_run(void *context)
{
    struct observer *observer = context;
    int code = observer_join(observer);
    uint64_t due = observer->every;
    while (code >= 0 && observer_wait(observer, due)) {
        code = observer_measure(observer);
        if (code >= 0)
            due = (observer->points[observer->count - 1].step / observer->every + 1) * observer->every;
    }
    if (code < 0)
        observer_failed(observer, code);
    return NULL;
}

/* observer_start -- the thread, which leaves the signals to others */
static int observer_start(struct observer *observer)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&observer->thread, NULL, observer_run, observer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    observer->joined = code != 0;
    return code == 0 ? 0 : -1;
}

/* observer_new -- begin to judge after every so many steps */
struct observer *observer_new(const struct exchange_link *link, const struct recipe *recipe,
                              const struct dataset *data, uint64_t every, enum progress_style style,
                              struct fault *fault)
{
    struct observer *observer = calloc(1, sizeof *observer);
    if (observer == NULL) {
        fault_set(fault, FAULT_PERMANENT, "no memory for the observer");
        return NULL;
    }
    observer->link = link;
    observer->recipe = recipe;
    observer->data = data;
    observer->every = every;
    observer->style = style;
    observer->joined = true;
    observer->network = network_new(EVALUATION_BATCH);
    pthread_mutex_init(&observer->lock, NULL);
    pthread_cond_init(&observer->changed, NULL);
    if (!values_take(&observer->copies[EXCHANGE_PARAMETERS]) ||
        !values_take(&observer->copies[EXCHANGE_AVERAGES]) || observer->network == NULL ||
        observer_start(observer) < 0) {
        fault_set(fault, FAULT_PERMANENT,
                  "no memory or no thread for the observer: leave out --evaluate-every");
        observer_delete(&observer);
    }
    return observer;
}

/* observer_tell -- training has come to a step */
void observer_tell(struct observer *observer, uint64_t step)
{
    pthread_mutex_lock(&observer->lock);
    observer->told = step > observer->told ? step : observer->told;
    pthread_cond_signal(&observer->changed);
    pthread_mutex_unlock(&observer->lock);
}

/* observer_end -- the thread; stop: at once */
static void observer_end(struct observer *observer, bool stop)
{
    if (observer->joined)
        return;
    pthread_mutex_lock(&observer->lock);
    observer->finishing = true;
    atomic_store(&observer->stop, stop);
    pthread_cond_signal(&observer->changed);
    pthread_mutex_unlock(&observer->lock);
    struct stepgate_job *job = atomic_load(&observer->job);
    if (stop && job != NULL)
        stepgate_job_interrupt(job);
    pthread_join(observer->thread, NULL);
    observer->joined = true;
}

/* observer_finish -- waits for what is due, and leaves */
void observer_finish(struct observer *observer)
{
    observer_end(observer, false);
    struct stepgate_job *job = atomic_load(&observer->job);
    stepgate_model_delete(&observer->model);
    if (job != NULL)
        stepgate_job_leave(job, -1);
    stepgate_job_delete(&job);
    atomic_store(&observer->job, NULL);
}

/* observer_points -- after observer_finish */
const struct observer_point *observer_points(const struct observer *observer, size_t *count)
{
    *count = observer->count;
    return observer->points;
}

/* observer_delete -- at once */
void observer_delete(struct observer **observer)
{
    struct observer *it = *observer;
    if (it == NULL)
        return;
    observer_end(it, true);
    struct stepgate_job *job = atomic_load(&it->job);
    stepgate_model_delete(&it->model);
    stepgate_job_delete(&job);
    network_delete(&it->network);
    values_clear(&it->copies[EXCHANGE_PARAMETERS]);
    values_clear(&it->copies[EXCHANGE_AVERAGES]);
    pthread_cond_destroy(&it->changed);
    pthread_mutex_destroy(&it->lock);
    free(it->points);
    free(it);
    *observer = NULL;
}
