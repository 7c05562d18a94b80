/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-example-loop -- how a trainer's loop of your own uses stepgate: join, declare, commit;
 * then begin, pull, compute, push, finish. It fits y = 3 a - 2 b + 1 to points that each worker
 * draws by itself. Start it with
 *
 *     stepgate-run --ps 1 --workers 2 -- stepgate-example-loop
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stepgate/stepgate.h"

enum { LOOP_STEPS = 200, LOOP_POINTS = 16 };

/* loop_gradient -- the part that is yours: of the squared error, on points that depend on step and
 * rank alone */
static void loop_gradient(uint64_t step, int rank, const float *w, float *gradient)
{
    gradient[0] = gradient[1] = gradient[2] = 0.0F;
    for (int i = 0; i < LOOP_POINTS; i++) {
        float a = sinf((float)(step * 31 + (uint64_t)(rank * 17 + i * 7)));
        float b = cosf((float)(step * 13 + (uint64_t)(rank * 29 + i * 3)));
        float error = w[0] * a + w[1] * b + w[2] - (3.0F * a - 2.0F * b + 1.0F);
        gradient[0] += error * a / LOOP_POINTS;
        gradient[1] += error * b / LOOP_POINTS;
        gradient[2] += error / LOOP_POINTS;
    }
}

/* loop_steps -- all steps, from wherever begin says; -STEPGATE_EREWOUND: begin has more to say, since the job goes
 * back to a checkpoint (--lost-ps rewind) */
static int loop_steps(struct stepgate_job *job, struct stepgate_model *model, int w, float *result)
{
    struct stepgate_step_info info = {.size = sizeof info};
    const void *value;
    void *gradient;
    int rc;
    for (;;) {
        if ((rc = stepgate_step_begin(model, -1, &info)) < 0 ||
            (rc = stepgate_step_pull(model, w, -1, NULL)) < 0 ||
            (rc = stepgate_buffer_parameter(model, w, &value)) < 0 ||
            (rc = stepgate_buffer_gradient(model, w, &gradient)) < 0)
            return rc;
        if (info.step >= LOOP_STEPS) /* not ==: outside lockstep a worker need not see every step */
            break;
        loop_gradient(info.step, stepgate_job_rank(job), value, gradient);
        if ((rc = stepgate_step_push(model, w)) < 0 || (rc = stepgate_step_finish(model, 1.0)) < 0)
            return rc;
    }
    for (int i = 0; i < 3; i++)
        result[i] = ((const float *)value)[i];
    return stepgate_job_leave(job, -1);
}

/* loop_train -- all that stepgate asks of a trainer; 0, or the first error */
static int loop_train(struct stepgate_job *job, struct stepgate_model **model, float *result)
{
    const uint64_t dims[] = {3};
    int w, rc;
    if ((rc = stepgate_model_new(job, "line", model)) < 0 ||
        (rc = stepgate_model_set(*model, "learning_rate", "0.5")) < 0 ||
        (rc = stepgate_model_variable(*model, "w", STEPGATE_TRAINED, STEPGATE_F32, 1, dims, &w)) < 0 ||
        (rc = stepgate_model_commit(*model, -1, NULL)) < 0)
        return rc;
    do
        rc = loop_steps(job, *model, w, result);
    while (rc == -STEPGATE_EREWOUND);
    return rc;
}

/* loop_log -- what the library has to say, such as who is missing; it writes nothing by itself */
static void loop_log(void *context, int level, const char *line)
{
    (void)context;
    (void)level;
    fprintf(stderr, "stepgate-example-loop: %s\n", line);
}

int main(int argc, char **argv)
{
    struct stepgate_options *options = NULL;
    struct stepgate_job *job = NULL;
    struct stepgate_model *model = NULL;
    float w[3] = {0};
    int rc;
    if ((rc = stepgate_options_new(&options)) == 0 &&
        (rc = stepgate_options_log(options, loop_log, NULL, STEPGATE_LOG_INFO)) == 0 &&
        (rc = stepgate_options_from_env(options)) == 0)
        rc = stepgate_options_from_args(options, &argc, argv);
    if (rc == 0 && argc == 2 && strcmp(argv[1], "--help") == 0) {
        puts("usage: stepgate-run --ps S --workers N -- stepgate-example-loop\n\n"
             "Fits a line, to show a trainer's loop. stepgate-run --help lists the flags.");
        stepgate_options_delete(&options);
        return 0;
    }
    if (rc == 0 && argc > 1) { /* what is left is for the program itself, and this one has no flags */
        fprintf(stderr, "stepgate-example-loop: unknown argument %s: stepgate-run --help lists the flags\n",
                argv[1]);
        stepgate_options_delete(&options);
        return 2;
    }
    if (rc == 0 && (rc = stepgate_job_join(options, -1, &job)) == 0 && (rc = loop_train(job, &model, w)) == 0)
        printf("y = %.3f a + %.3f b + %.3f after %d steps\n", (double)w[0], (double)w[1], (double)w[2],
               LOOP_STEPS);
    if (rc < 0) {
        struct stepgate_error error = {.size = sizeof error};
        stepgate_error_last(&error);
        fprintf(stderr, "stepgate-example-loop: %s%s%s\n", error.text, error.remedy[0] != '\0' ? ": " : "",
                error.remedy);
    }
    stepgate_model_delete(&model);
    stepgate_job_delete(&job);
    stepgate_options_delete(&options);
    if (rc < 0)
        return rc == -STEPGATE_EINVAL ? 2 : stepgate_exit_status(rc);
    return fabsf(w[0] - 3.0F) > 0.01F || fabsf(w[1] + 2.0F) > 0.01F || fabsf(w[2] - 1.0F) > 0.01F;
}
