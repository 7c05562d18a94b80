/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/result.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "worker/examples/fashion/output.h"

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

/* result_check -- what is said when the system does not let the file be written */
static int result_check(const char *path, int code, struct fault *fault)
{
    if (code == 0)
        return 0;
    return fault_set(fault, FAULT_PERMANENT,
                     "can't write %s (%s): give a file that can be written with --json", path,
                     strerror(code));
}

/* result_try -- find out now, not after the training, that the file can't be written */
int result_try(const char *path, struct fault *fault)
{
    return result_check(path, output_try(path), fault);
}

/* result_write -- write the file whole, or leave what was there */
int result_write(const char *path, const struct result *result, const struct settings *settings,
                 struct fault *fault)
{
    struct output output;
    json_t *json = result_json(result, settings);
    if (json == NULL)
        return fault_set(fault, FAULT_PERMANENT, "no memory for the result");
    int code = output_open(&output, path);
    if (code == 0) {
        errno = 0;
        int dumped = json_dumpf(json, output.file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        int dump_code = dumped < 0 && errno == 0 ? EIO : errno;
        code = output_close(&output, dumped == 0);
        if (dumped < 0)
            code = dump_code;
    }
    json_decref(json);
    return result_check(path, code, fault);
}
