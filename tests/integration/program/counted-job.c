/* SPDX-License-Identifier: BSD-3-Clause */
/* counted-job -- a ps and two workers in one process train over a transport that is registered at run time; prints what went over it. */
#include <pthread.h>
#include <stdio.h>

#include "stepgate/stepgate.h"
#include "worker/examples/transport/counted.h"

enum { JOB_WORKERS = 2, JOB_STEPS = 20 };

struct job_member {
    pthread_t thread;
    struct stepgate_server *server; /* of the ps */
    char rank[2], address[STEPGATE_ADDRESS_BYTES];
    float w[2];
    int rc;
};

/* job_fail -- prints the last error of this thread; returns its code */
static int job_fail(const char *who, int rc)
{
    struct stepgate_error error = {.size = sizeof error};

    stepgate_error_last(&error);
    fprintf(stderr, "counted-job: %s: %s; %s\n", who, error.text, error.remedy);
    return rc;
}

/* job_options -- what ps and workers have in common */
static int job_options(struct stepgate_options **options)
{
    int rc;

    if ((rc = stepgate_options_new(options)) == 0 &&
        (rc = stepgate_options_set(*options, "workers", "2")) == 0 &&
        (rc = stepgate_options_set(*options, "transport", "counted")) == 0)
        rc = stepgate_options_set(*options, "insecure", "on");
    return rc;
}

/* job_serve -- the thread of the ps */
static void *job_serve(void *context)
{
    struct job_member *ps = context;

    ps->rc = stepgate_server_run(ps->server);
    if (ps->rc < 0)
        job_fail("ps", ps->rc);
    return NULL;
}

/* job_steps -- the gradient is w minus the rank's own target, 0 or 2: w goes to their mean, 1 */
static int job_steps(struct job_member *worker, struct stepgate_job *job, struct stepgate_model *model,
                     int id)
{
    struct stepgate_step_info info = {.size = sizeof info};
    const void *value;
    void *gradient;
    int rc;

    while ((rc = stepgate_step_begin(model, -1, &info)) == 0 &&
           (rc = stepgate_step_pull(model, id, -1, NULL)) == 0 &&
           (rc = stepgate_buffer_parameter(model, id, &value)) == 0 && info.step < JOB_STEPS &&
           (rc = stepgate_buffer_gradient(model, id, &gradient)) == 0) {
        for (int i = 0; i < 2; i++)
            ((float *)gradient)[i] = ((const float *)value)[i] - 2.0F * (float)stepgate_job_rank(job);
        if ((rc = stepgate_step_push(model, id)) < 0 || (rc = stepgate_step_finish(model, 1.0)) < 0)
            return rc;
    }
    for (int i = 0; rc == 0 && i < 2; i++)
        worker->w[i] = ((const float *)value)[i];
    return rc < 0 ? rc : stepgate_job_leave(job, -1);
}

/* job_work -- the thread of a worker */
static void *job_work(void *context)
{
    struct job_member *worker = context;
    struct stepgate_options *options = NULL;
    struct stepgate_job *job = NULL;
    struct stepgate_model *model = NULL;
    const uint64_t dims[] = {2};
    int id;

    if ((worker->rc = job_options(&options)) == 0 &&
        (worker->rc = stepgate_options_set(options, "task_index", worker->rank)) == 0 &&
        (worker->rc = stepgate_options_set(options, "ps_hosts", worker->address)) == 0 &&
        (worker->rc = stepgate_job_join(options, -1, &job)) == 0 &&
        (worker->rc = stepgate_model_new(job, "mean", &model)) == 0 &&
        (worker->rc = stepgate_model_set(model, "learning_rate", "0.5")) == 0 &&
        (worker->rc = stepgate_model_variable(model, "w", STEPGATE_TRAINED, STEPGATE_F32, 1, dims, &id)) ==
            0 &&
        (worker->rc = stepgate_model_commit(model, -1, NULL)) == 0)
        worker->rc = job_steps(worker, job, model, id);
    if (worker->rc < 0)
        job_fail("worker", worker->rc);
    else if (worker->rank[0] == '0')
        printf("transport %s\n", stepgate_job_transport(job));
    stepgate_model_delete(&model);
    stepgate_job_delete(&job);
    stepgate_options_delete(&options);
    return NULL;
}

/* job_listen -- the ps, with its address in every member */
static int job_listen(struct stepgate_options **options, struct job_member *members)
{
    int rc;

    if ((rc = job_options(options)) == 0 &&
        (rc = stepgate_options_set(*options, "listen", "127.0.0.1:0")) == 0 &&
        (rc = stepgate_server_new(*options, &members[JOB_WORKERS].server)) == 0)
        for (int i = 0; rc == 0 && i < JOB_WORKERS; i++)
            rc = stepgate_server_address(members[JOB_WORKERS].server, members[i].address,
                                         sizeof members[i].address);
    return rc;
}

int main(void)
{
    struct job_member members[JOB_WORKERS + 1] = {0}; /* the last one is the ps */
    struct stepgate_options *options = NULL;
    struct counted_sum sum;
    int started = 0, bad = 0;

    int rc = stepgate_transport_register(counted_transport());
    if (rc == 0)
        rc = job_listen(&options, members);
    if (rc < 0)
        return job_fail("start", rc) != 0;
    for (; started <= JOB_WORKERS; started++) {
        members[started].rank[0] = (char)('0' + started);
        if (pthread_create(&members[started].thread, NULL, started < JOB_WORKERS ? job_work : job_serve,
                           &members[started]) != 0)
            break;
    }
    bad = started <= JOB_WORKERS;
    for (int i = 0; i < started; i++) {
        pthread_join(members[i].thread, NULL);
        bad |= members[i].rc != 0;
    }
    for (int i = 0; i < JOB_WORKERS && bad == 0; i++)
        printf("w %.3f %.3f\n", (double)members[i].w[0], (double)members[i].w[1]);
    counted_sum(&sum);
    printf("%s\n", sum.messages + sum.notifies > 2 * JOB_STEPS && sum.bytes > 0 ? "counted" : "not counted");
    stepgate_server_delete(&members[JOB_WORKERS].server);
    stepgate_options_delete(&options);
    return bad;
}
