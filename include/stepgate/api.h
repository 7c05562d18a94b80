/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * API -- every function of the library in one table, for programs that open it with dlopen and look up a single symbol:
 *
 *     const struct stepgate_api_v1 *(*get)(void) = (const struct stepgate_api_v1 *(*)(void))dlsym(library, "stepgate_api_v1");
 *     const struct stepgate_api_v1 *stepgate = get();
 *
 * A member is what the function stepgate_<its name> does, see the header that is named. Later versions put new members at the end: look at
 * `size` before you use one that the library you have may not know. Do not dlclose the library while a job or a server of it lives.
 */
#ifndef STEPGATE_API_H
#define STEPGATE_API_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "stepgate/buffer.h"
#include "stepgate/job.h"
#include "stepgate/log.h"
#include "stepgate/model.h"
#include "stepgate/option.h"
#include "stepgate/server.h"
#include "stepgate/step.h"
#include "stepgate/transport.h"
#include "stepgate/tune.h"
#include "stepgate/version.h"

struct stepgate_api_v1 {
    size_t size; /* of the table that this library has */
    /* error.h */
    const char *(*strerror)(int code);
    int (*error_class)(int code);
    int (*exit_status)(int code);
    int (*error_last)(struct stepgate_error *error);
    /* option.h */
    int (*options_new)(struct stepgate_options **options);
    void (*options_delete)(struct stepgate_options **options);
    int (*options_set)(struct stepgate_options *options, const char *name, const char *text);
    int (*options_get)(const struct stepgate_options *options, const char *name, const char **text);
    int (*options_from_env)(struct stepgate_options *options);
    int (*options_from_args)(struct stepgate_options *options, int *argc, char **argv);
    int (*options_list)(size_t index, struct stepgate_knob *knob);
    int (*options_log)(struct stepgate_options *options, stepgate_log_function *function, void *context,
                       int level);
    /* job.h */
    int (*job_join)(const struct stepgate_options *options, int ms, struct stepgate_job **job);
    void (*job_delete)(struct stepgate_job **job);
    int (*job_role)(const struct stepgate_job *job);
    int (*job_rank)(const struct stepgate_job *job);
    int (*job_size)(const struct stepgate_job *job);
    int (*job_servers)(const struct stepgate_job *job);
    const char *(*job_transport)(const struct stepgate_job *job);
    int (*job_fd)(struct stepgate_job *job);
    int (*job_progress)(struct stepgate_job *job);
    void (*job_interrupt)(struct stepgate_job *job);
    int (*job_barrier)(struct stepgate_job *job, int ms);
    int (*job_leave)(struct stepgate_job *job, int ms);
    int (*job_error)(const struct stepgate_job *job, struct stepgate_error *error);
    int (*job_stats)(const struct stepgate_job *job, struct stepgate_job_stats *stats);
    /* model.h */
    int (*model_new)(struct stepgate_job *job, const char *name, struct stepgate_model **model);
    void (*model_delete)(struct stepgate_model **model);
    int (*model_variable)(struct stepgate_model *model, const char *name, int kind, int dtype, int rank,
                          const uint64_t *dims, int *id);
    int (*model_variable_set)(struct stepgate_model *model, int id, const char *key, const char *text);
    int (*model_set)(struct stepgate_model *model, const char *key, const char *text);
    int (*model_initialize)(struct stepgate_model *model, int id, const void *data, uint64_t bytes);
    int (*model_commit)(struct stepgate_model *model, int ms, struct stepgate_model_info *info);
    int (*model_count)(const struct stepgate_model *model);
    int (*model_describe)(const struct stepgate_model *model, int id, struct stepgate_variable_info *info);
    /* buffer.h */
    int (*buffer_gradient)(struct stepgate_model *model, int id, void **pointer);
    int (*buffer_parameter)(struct stepgate_model *model, int id, const void **pointer);
    int (*buffer_attach)(struct stepgate_model *model, int id, int use, void *pointer, uint64_t bytes);
    int (*buffer_attach_dmabuf)(struct stepgate_model *model, int id, int use, int fd, uint64_t offset,
                                uint64_t bytes);
    int (*buffer_detach)(struct stepgate_model *model, int id, int use);
    int (*buffer_is_idle)(struct stepgate_model *model, int id);
    /* step.h */
    int (*step_begin)(struct stepgate_model *model, int ms, struct stepgate_step_info *info);
    int (*step_pull)(struct stepgate_model *model, int id, int ms, uint64_t *step_read);
    int (*step_pull_rows)(struct stepgate_model *model, int id, const uint64_t *indices, uint64_t n,
                          void *out, int ms, uint64_t *step_read);
    int (*step_pulled)(struct stepgate_model *model, int id, uint64_t *lowest, uint64_t *highest);
    int (*step_push)(struct stepgate_model *model, int id);
    int (*step_push_rows)(struct stepgate_model *model, int id, const uint64_t *indices, uint64_t n,
                          const void *rows);
    int (*step_absent)(struct stepgate_model *model, int id);
    int (*step_finish)(struct stepgate_model *model, double weight);
    int (*step_abandon)(struct stepgate_model *model);
    /* tune.h */
    int (*model_attach)(struct stepgate_job *job, const char *name, int ms, struct stepgate_model **model);
    int (*model_tune)(struct stepgate_model *model, const char *key, const char *value, uint64_t from_step);
    const char *(*model_slot_name)(const struct stepgate_model *model, unsigned index);
    int (*model_slot)(struct stepgate_model *model, int id, const char *name, int ms, void *out,
                      uint64_t bytes, uint64_t *step);
    int (*model_snapshot)(struct stepgate_model *model, int what, const int *ids, size_t n, void *const *out,
                          int ms, uint64_t *step);
    int (*checkpoint)(struct stepgate_model *model, int ms, uint64_t *step);
    int (*model_contributions)(struct stepgate_model *model, int rank, int ms,
                               struct stepgate_contributions *counts);
    /* server.h */
    int (*server_check)(const struct stepgate_options *options, void (*tell)(void *context, const char *line),
                        void *context);
    int (*server_new)(const struct stepgate_options *options, struct stepgate_server **server);
    int (*server_run)(struct stepgate_server *server);
    void (*server_stop)(struct stepgate_server *server);
    int (*server_address)(const struct stepgate_server *server, char *text, size_t bytes);
    int (*server_stats)(const struct stepgate_server *server, struct stepgate_server_stats *stats);
    void (*server_delete)(struct stepgate_server **server);
    /* version.h */
    const char *(*version)(void);
    /* transport.h */
    int (*transport_register)(const struct stepgate_transport_v1 *table);
    int (*transport_find)(const char *name, const struct stepgate_transport_v1 **table);
};

/* stepgate_api_v1 -- the table: constant, the same one in every call, there as long as the library is. Never NULL. Thread-safe. */
const struct stepgate_api_v1 *stepgate_api_v1(void);

#ifdef __cplusplus
}
#endif
#endif
