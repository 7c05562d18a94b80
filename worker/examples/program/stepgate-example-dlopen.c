/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-example-dlopen -- trains without being linked with the library: it is opened, and one symbol gives all functions. Start it with
 *
 *     stepgate-run --ps 1 --workers 2 -- stepgate-example-dlopen [LIBRARY]
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stepgate/api.h"

enum { EXAMPLE_STEPS = 200, EXAMPLE_POINTS = 16 };

typedef const struct stepgate_api_v1 *example_get(void);

/* example_open -- the table of a library; NULL: why was printed. It stays open as long as the process lives. */
static const struct stepgate_api_v1 *example_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    example_get *get = NULL;
    void *symbol = library != NULL ? dlsym(library, "stepgate_api_v1") : NULL;

    if (symbol == NULL) {
        fprintf(stderr, "stepgate-example-dlopen: %s\n", dlerror());
        return NULL;
    }
    memcpy(&get, &symbol, sizeof get); /* ISO C has no cast from an object's pointer to a function's */
    const struct stepgate_api_v1 *table = get();
    if (table->size >= sizeof *table)
        return table;
    fprintf(stderr, "stepgate-example-dlopen: %s is older than this program: it is %s\n", path,
            table->version());
    return NULL;
}

/* example_gradient -- of a line's squared error, on points that depend on step and rank alone */
static void example_gradient(uint64_t step, int rank, const float *w, float *gradient)
{
    gradient[0] = gradient[1] = gradient[2] = 0.0F;
    for (int i = 0; i < EXAMPLE_POINTS; i++) {
        float a = sinf((float)(step * 31 + (uint64_t)(rank * 17 + i * 7)));
        float b = cosf((float)(step * 13 + (uint64_t)(rank * 29 + i * 3)));
        float error = w[0] * a + w[1] * b + w[2] - (3.0F * a - 2.0F * b + 1.0F);
        gradient[0] += error * a / EXAMPLE_POINTS;
        gradient[1] += error * b / EXAMPLE_POINTS;
        gradient[2] += error / EXAMPLE_POINTS;
    }
}

/* example_steps -- all steps; 0, or the first error */
static int example_steps(const struct stepgate_api_v1 *stepgate, struct stepgate_job *job,
                         struct stepgate_model *model, int id, float *result)
{
    struct stepgate_step_info info = {.size = sizeof info};
    const void *value;
    void *gradient;
    int rc;

    for (;;) {
        if ((rc = stepgate->step_begin(model, -1, &info)) < 0 ||
            (rc = stepgate->step_pull(model, id, -1, NULL)) < 0 ||
            (rc = stepgate->buffer_parameter(model, id, &value)) < 0 ||
            (rc = stepgate->buffer_gradient(model, id, &gradient)) < 0)
            return rc;
        if (info.step >= EXAMPLE_STEPS)
            break;
        example_gradient(info.step, stepgate->job_rank(job), value, gradient);
        if ((rc = stepgate->step_push(model, id)) < 0 || (rc = stepgate->step_finish(model, 1.0)) < 0)
            return rc;
    }
    memcpy(result, value, 3 * sizeof *result);
    return stepgate->job_leave(job, -1);
}

/* example_train -- join, declare, commit, train */
static int example_train(const struct stepgate_api_v1 *stepgate, struct stepgate_options *options,
                         struct stepgate_job **job, struct stepgate_model **model, float *result)
{
    const uint64_t dims[] = {3};
    int id, rc;

    if ((rc = stepgate->options_from_env(options)) < 0 || (rc = stepgate->job_join(options, -1, job)) < 0 ||
        (rc = stepgate->model_new(*job, "line", model)) < 0 ||
        (rc = stepgate->model_set(*model, "learning_rate", "0.5")) < 0 ||
        (rc = stepgate->model_variable(*model, "w", STEPGATE_TRAINED, STEPGATE_F32, 1, dims, &id)) < 0 ||
        (rc = stepgate->model_commit(*model, -1, NULL)) < 0)
        return rc;
    return example_steps(stepgate, *job, *model, id, result);
}

int main(int argc, char **argv)
{
    struct stepgate_options *options = NULL;
    struct stepgate_job *job = NULL;
    struct stepgate_model *model = NULL;
    float w[3] = {0};

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        puts("usage: stepgate-run --ps S --workers N -- stepgate-example-dlopen [LIBRARY]\n\n"
             "Fits a line with a library that is opened (libstepgate.so.0), not linked.");
        return 0;
    }
    if (argc > 2) {
        fprintf(stderr, "stepgate-example-dlopen: unknown argument %s: it takes the path of a library\n",
                argv[2]);
        return 2;
    }
    const struct stepgate_api_v1 *stepgate = example_open(argc > 1 ? argv[1] : "libstepgate.so.0");
    if (stepgate == NULL)
        return 1;
    int rc = stepgate->options_new(&options);
    if (rc == 0)
        rc = example_train(stepgate, options, &job, &model, w);
    if (rc < 0) {
        struct stepgate_error error = {.size = sizeof error};
        stepgate->error_last(&error);
        fprintf(stderr, "stepgate-example-dlopen: %s%s%s\n", error.text, error.remedy[0] != '\0' ? ": " : "",
                error.remedy);
    } else {
        printf("y = %.3f a + %.3f b + %.3f\n", (double)w[0], (double)w[1], (double)w[2]);
    }
    stepgate->model_delete(&model);
    stepgate->job_delete(&job);
    stepgate->options_delete(&options);
    return stepgate->exit_status(rc);
}
