/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepgate/buffer.h"

#include "transport/base/error.h"
#include "worker/api/inside.h"

/* buffer_check -- one variable, and somewhere to put the answer. */
static int buffer_check(const struct stepgate_model *model, int id, const void *out)
{
    int status = model_check(model, id);

    if (status == 0 && (id < 0 || out == NULL))
        status = error_set(STEPGATE_EINVAL, 0, "", "name one variable, and a pointer that is not NULL");
    return status;
}

/* stepgate_buffer_gradient -- where to put the gradient. */
int stepgate_buffer_gradient(struct stepgate_model *model, int id, void **pointer)
{
    int status = buffer_check(model, id, pointer);

    if (status == 0)
        status = model_enter(model);
    if (status != 0)
        return status;
    status = session_error(model->job->session);
    if (status == 0)
        status = session_gradient(model->session, (uint32_t)id, pointer);
    return model_leave(model, status);
}

/* stepgate_buffer_parameter -- where the value is. */
int stepgate_buffer_parameter(struct stepgate_model *model, int id, const void **pointer)
{
    int status = buffer_check(model, id, pointer);

    if (status == 0)
        status = model_enter(model);
    if (status != 0)
        return status;
    status = session_error(model->job->session);
    if (status == 0)
        status = session_parameter(model->session, (uint32_t)id, pointer);
    return model_leave(model, status);
}

/* buffer_attach -- memory of the caller's, whatever it is. */
static int buffer_attach(struct stepgate_model *model, int id, int use, const struct session_memory *memory,
                         uint64_t bytes)
{
    int status = model_enter(model);

    if (status != 0)
        return status;
    status = session_error(model->job->session);
    if (status == 0)
        status = session_attach(model->session, (uint32_t)id, use, memory, bytes);
    return model_leave(model, status);
}

/* stepgate_buffer_attach -- memory of this process. */
int stepgate_buffer_attach(struct stepgate_model *model, int id, int use, void *pointer, uint64_t bytes)
{
    const struct session_memory memory = {.address = pointer};
    int status = buffer_check(model, id, pointer);

    return status == 0 ? buffer_attach(model, id, use, &memory, bytes) : status;
}

/* stepgate_buffer_attach_dmabuf -- memory of a device. */
int stepgate_buffer_attach_dmabuf(struct stepgate_model *model, int id, int use, int fd, uint64_t offset,
                                  uint64_t bytes)
{
    const struct session_memory memory = {.dmabuf = true, .part = {.fd = fd, .offset = offset}};
    int status = buffer_check(model, id, model);

    return status == 0 ? buffer_attach(model, id, use, &memory, bytes) : status;
}

/* stepgate_buffer_detach -- back to the library's. */
int stepgate_buffer_detach(struct stepgate_model *model, int id, int use)
{
    int status = buffer_check(model, id, model);

    if (status == 0)
        status = model_enter(model);
    if (status != 0)
        return status;
    status = session_error(model->job->session);
    if (status == 0)
        status = session_detach(model->session, (uint32_t)id, use);
    return model_leave(model, status);
}

/* stepgate_buffer_is_idle -- may the gradient buffer be rewritten? Looks for news first, so that asking in a loop ends. */
int stepgate_buffer_is_idle(struct stepgate_model *model, int id)
{
    int status = buffer_check(model, id, model);

    if (status == 0)
        status = model_enter(model);
    if (status != 0)
        return status;
    session_progress(model->job->session, clock_now());
    status = session_error(model->job->session); /* a loop until it is idle must end */
    if (status == 0)
        status = session_is_idle(model->session, (uint32_t)id);
    return model_leave(model, status);
}
