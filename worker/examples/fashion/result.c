/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/result.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* result_history -- an array of the measurements */
static json_t *result_history(const struct history *history)
{
    json_t *array = json_array();
    for (size_t i = 0; i < history->count; i++) {
        const struct history_point *point = &history->points[i];
        json_t *object = json_pack("{sIsfsf}", "step", (json_int_t)point->step, "seconds", point->seconds,
                                   "loss", point->loss);
        if (point->accuracy >= 0.0)
            json_object_set_new(object, "accuracy", json_real(point->accuracy));
        json_array_append_new(array, object);
    }
    return array;
}

/* result_json -- all of it */
static json_t *result_json(const struct result *result, const struct settings *settings)
{
    return json_pack("{sssisisisIsfsfsfsfsfsssisIsIsIsIsssfsfsbso}", "transport", result->transport,
                     "workers", (int)result->workers, "ps", (int)result->ps, "parts", (int)result->parts,
                     "global_step", (json_int_t)result->global_step, "final_loss", result->final_loss,
                     "test_accuracy", result->test_accuracy, "test_loss", result->test_loss, "seconds",
                     result->seconds, "images_per_second", result->images_per_second, "params_sha256",
                     result->params_sha256, "blas_threads", result->blas_threads, "seed",
                     (json_int_t)settings->seed, "epochs", (json_int_t)settings->epochs, "images",
                     (json_int_t)result->images, "batch", (json_int_t)settings->batch, "optimizer",
                     settings_rule_name(settings->rule), "lr", settings->rate, "momentum",
                     settings->rule == EXCHANGE_MOMENTUM ? settings->momentum : 0.0, "uneven",
                     (int)settings->uneven, "history", result_history(&result->history));
}

/* result_beside -- the name of the file that becomes the result once it is whole */
static int result_beside(const char *path, char beside[PATH_MAX], struct fault *fault)
{
    int length = snprintf(beside, PATH_MAX, "%s.%ld", path, (long)getpid());
    if (length < 0 || length >= PATH_MAX)
        return fault_set(fault, FAULT_USAGE, "the name given with --json is too long: shorten it");
    return 0;
}

/* result_refused -- what is said when the system does not let the file be written */
static int result_refused(const char *path, int code, struct fault *fault)
{
    return fault_set(fault, FAULT_PERMANENT,
                     "can't write %s (%s): give a file that can be written with --json", path,
                     strerror(code));
}

/* result_try -- find out now, not after the training, that the file can't be written */
int result_try(const char *path, struct fault *fault)
{
    char beside[PATH_MAX];
    if (result_beside(path, beside, fault) < 0)
        return -1;
    FILE *file = fopen(beside, "w");
    if (file == NULL)
        return result_refused(path, errno, fault);
    fclose(file);
    unlink(beside);
    return 0;
}

/* result_write -- write the file whole, or leave what was there */
int result_write(const char *path, const struct result *result, const struct settings *settings,
                 struct fault *fault)
{
    char beside[PATH_MAX];
    if (result_beside(path, beside, fault) < 0)
        return -1;

    json_t *json = result_json(result, settings);
    if (json == NULL)
        return fault_set(fault, FAULT_PERMANENT, "no memory for the result");
    errno = 0;
    int rc = json_dump_file(json, beside, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(json);
    if (rc < 0 || rename(beside, path) < 0) {
        int code = errno;
        unlink(beside);
        return result_refused(path, code, fault);
    }
    return 0;
}
