/* SPDX-License-Identifier: BSD-3-Clause */
/* buffer -- where the caller puts gradients and finds values: the library's buffers, and its own. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

/* buffer_elsewhere -- stands for the address that a dma-buf does not have. */
static char buffer_elsewhere;

/* buffer_nowhere -- whoever asks for its address has it already, if there is one. */
static int buffer_nowhere(const struct session_model *model, uint32_t variable)
{
    return error_set(STEPGATE_EINVAL, 0, "ask whoever exported it",
                     "variable %s lies in a dma-buf: it has no address here",
                     model->model->variables[variable].name);
}

/* buffer_need_placed -- buffers exist from commit on. */
static int buffer_need_placed(const struct session_model *model)
{
    if (model->state < MODEL_PLACED)
        return error_set(STEPGATE_ESTATE, 0, "call commit first", "model %s is not committed",
                         model->model->name);
    return 0;
}

/* buffer_need_dense -- rows have no buffer: they are handed over with the push. */
static int buffer_need_dense(const struct session_model *model, uint32_t variable)
{
    if (model->model->variables[variable].kind == STEPGATE_SPARSE)
        return error_set(STEPGATE_EINVAL, 0, "hand in its rows with push_rows",
                         "variable %s is sparse: its gradient has no buffer",
                         model->model->variables[variable].name);
    return 0;
}

/* buffer_need_use -- gradient or parameter; an observer gives no gradients. */
static int buffer_need_use(const struct session_model *model, int use)
{
    if (use != STEPGATE_USE_GRADIENT && use != STEPGATE_USE_PARAMETER)
        return error_set(STEPGATE_EINVAL, 0, "", "use %d is neither gradient nor parameter", use);
    return use == STEPGATE_USE_GRADIENT ? session_need_worker(model->session, "have gradients") : 0;
}

/* session_gradient -- where to put that of the open contribution, or of the next one. */
int session_gradient(struct session_model *model, uint32_t variable, void **pointer)
{
    int status = buffer_need_placed(model);

    if (status == 0)
        status = buffer_need_use(model, STEPGATE_USE_GRADIENT);
    if (status == 0)
        status = buffer_need_dense(model, variable);
    if (status != 0)
        return status;
    void *callers = model->variables[variable].caller_gradient;
    if (callers == &buffer_elsewhere)
        return buffer_nowhere(model, variable);
    *pointer = callers != NULL ? callers : session_gradient_of(model, variable, model->sequence);
    return 0;
}

/* session_parameter -- where the value of the last pull is. */
int session_parameter(struct session_model *model, uint32_t variable, const void **pointer)
{
    int status = buffer_need_placed(model);

    if (status != 0)
        return status;
    const struct session_variable *v = &model->variables[variable];
    if (v->pulled_at == 0)
        return error_set(STEPGATE_ESTATE, 0, "pull it first", "variable %s was not pulled yet",
                         model->model->variables[variable].name);
    if (v->caller_parameter == &buffer_elsewhere)
        return buffer_nowhere(model, variable);
    if (v->caller_parameter != NULL) {
        *pointer = v->caller_parameter;
    } else if (!v->in_place) {
        *pointer = v->value;
    } else {
        const struct plan_piece *piece = &model->plan->by_variable[model->plan->variable_first[variable]];
        const struct session_place *place = &model->places[piece->shard];
        uint64_t parity = v->lowest & 1;
#ifdef STEPGATE_MUTANT_PARITY_READ_SWAPPED
        parity ^= 1;
#endif
        *pointer = (const uint8_t *)place->parameters->mapped + place->parity[parity] + piece->offset;
    }
    return 0;
}

/* session_pulled -- of the last pull of a variable, or of all that were pulled. */
int session_pulled(struct session_model *model, int variable, uint64_t *lowest, uint64_t *highest)
{
    int status = buffer_need_placed(model);
    uint64_t low = UINT64_MAX, high = 0;
    uint32_t first = variable == STEPGATE_ALL ? 0 : (uint32_t)variable;
    uint32_t end = variable == STEPGATE_ALL ? (uint32_t)model->model->count : first + 1;
    bool any = false;

    for (uint32_t i = first; status == 0 && i < end; i++) {
        const struct session_variable *v = &model->variables[i];
        bool own = variable == STEPGATE_ALL && model->model->variables[i].kind == STEPGATE_AUX;
        if (v->pulled_at == 0 || own) /* what comes from this worker is of no step of the ps */
            continue;
        any = true;
        low = v->lowest < low ? v->lowest : low;
        high = v->highest > high ? v->highest : high;
    }
    if (status == 0 && !any)
        status = error_set(STEPGATE_ESTATE, 0, "pull first", "nothing was pulled yet");
    if (status != 0)
        return status;
    *lowest = low;
    *highest = high;
    return 0;
}

/* buffer_need_quiet -- nothing is read into or sent out of the caller's memory. */
static int buffer_need_quiet(struct session_model *model, uint32_t variable, int use)
{
    const char *name = model->model->variables[variable].name;

    if (use == STEPGATE_USE_GRADIENT && session_is_idle(model, variable) != 1)
        return error_set(STEPGATE_EBUSY, 0, "wait until stepgate_buffer_is_idle says 1",
                         "the gradient of %s is still being sent", name);
    if (use == STEPGATE_USE_PARAMETER && session_reading(model, variable))
        return error_set(STEPGATE_EBUSY, 0, "repeat the pull until it is done",
                         "the value of %s is still being read", name);
    return 0;
}

/* buffer_need_device -- a dma-buf: may no processor have to touch what is in it? */
static int buffer_need_device(const struct session_model *model, uint32_t variable, int use)
{
    const struct model_variable *v = &model->model->variables[variable];

    for (uint32_t s = 0; s < model->session->shard_count; s++)
        if (session_mapped(&model->places[s]))
            return error_set(STEPGATE_ENOTSUP, 0, "copy between the device and the library's buffers",
                             "ps %u is reached over shm, where a processor moves what is in a dma-buf", s);
    if (v->kind == STEPGATE_AUX)
        return error_set(STEPGATE_ENOTSUP, 0, "", "aux variable %s is kept by this process, not by a device",
                         v->name);
    if (use != STEPGATE_USE_GRADIENT)
        return 0;
    if (v->kind == STEPGATE_TRAINED &&
        (model->model->clip_norm > 0 || model->model->non_finite != MODEL_PROPAGATE))
        return error_set(
            STEPGATE_ENOTSUP, 0, "leave out clip_norm and non_finite, or attach memory of this process",
            "the gradient of %s must be looked at before it is pushed, and lies in a dma-buf", v->name);
    if (model->quota > 1 && model->session->reconnect > 0)
        return error_set(STEPGATE_ENOTSUP, 0, "give reconnect=0",
                         "the gradient of %s may have to be sent again, and a dma-buf cannot be kept aside",
                         v->name);
    return 0;
}

/* session_forget_memory -- see inside.h. */
void session_forget_memory(struct session_variable *v, int use)
{
    struct session_memory *own = &v->callers_own[use - 1];

    if (own->dmabuf)
        close(own->part.fd);
    *own = (struct session_memory){0};
}

/* buffer_own -- the variable's own note of what is attached: a descriptor of its own, for the caller may close its. */
static int buffer_own(const struct session_memory *memory, struct session_memory *own)
{
    *own = *memory;
    if (memory->dmabuf)
        own->part.fd = fcntl(memory->part.fd, F_DUPFD_CLOEXEC, 0);
    if (!memory->dmabuf || own->part.fd >= 0)
        return 0;
    return error_set(errno == EBADF ? STEPGATE_EINVAL : STEPGATE_ESYSTEM, errno, "",
                     "descriptor %d of a dma-buf cannot be kept", memory->part.fd);
}

/* session_attach -- memory of the caller's; registered on each route whose slots are not mapped. */
int session_attach(struct session_model *model, uint32_t variable, int use,
                   const struct session_memory *memory, uint64_t bytes)
{
    struct session_memory own;

    int status = buffer_need_placed(model);

    if (status != 0)
        return status;
    const struct model_variable *declared = &model->model->variables[variable];
    struct session_variable *v = &model->variables[variable];
    bool gradient = use == STEPGATE_USE_GRADIENT;
    uint64_t needed = gradient ? declared->gradient_bytes : declared->bytes;
    if (model->open)
        return error_set(STEPGATE_ESTATE, 0, "attach between steps", "attach while step %llu is open",
                         (unsigned long long)model->step);
    status = gradient ? buffer_need_dense(model, variable) : 0;
    if (status != 0)
        return status;
    if ((memory->address == NULL && !memory->dmabuf) || bytes != needed)
        return error_set(STEPGATE_EINVAL, 0, "", "%s %s has %llu bytes, the buffer %llu",
                         gradient && needed != declared->bytes ? "the gradient of" : "variable",
                         declared->name, (unsigned long long)needed, (unsigned long long)bytes);
    status = buffer_need_use(model, use);
    if (status == 0 && memory->dmabuf)
        status = buffer_need_device(model, variable, use);
    if (status == 0)
        status = buffer_need_quiet(model, variable, use);
    if (status == 0)
        status = buffer_own(memory, &own);
    if (status != 0)
        return status;
    session_detach(model, variable, use);
    v->callers_own[use - 1] = own;
    status = session_register_memory(model, &own, bytes,
                                     gradient ? v->caller_gradient_region : v->caller_parameter_region);
    if (status != 0) {
        session_forget_memory(v, use);
        return status;
    }
    *(gradient ? &v->caller_gradient : &v->caller_parameter) = own.dmabuf ? &buffer_elsewhere : own.address;
    if (!gradient)
        v->pulled_at = v->pulling_next = 0;
    return 0;
}

/* session_detach -- back to the library's buffer. */
int session_detach(struct session_model *model, uint32_t variable, int use)
{
    int status = buffer_need_placed(model);

    if (status == 0)
        status = buffer_need_use(model, use);
    if (status != 0)
        return status;
    struct session_variable *v = &model->variables[variable];
    if (model->open)
        return error_set(STEPGATE_ESTATE, 0, "detach between steps", "detach while step %llu is open",
                         (unsigned long long)model->step);
    bool gradient = use == STEPGATE_USE_GRADIENT;
    void **callers = gradient ? &v->caller_gradient : &v->caller_parameter;
    if (*callers == NULL)
        return 0;
    status = buffer_need_quiet(model, variable, use);
    if (status != 0)
        return status;
    session_unregister(gradient ? v->caller_gradient_region : v->caller_parameter_region);
    session_forget_memory(v, use);
    *callers = NULL;
    if (!gradient)
        v->pulled_at = v->pulling_next = 0;
    return 0;
}

/* buffer_left -- has what the caller's buffer held in the newest push left it? */
static bool buffer_left(const struct session_model *model, uint32_t variable)
{
    const struct session_variable *v = &model->variables[variable];

    if (v->writes_done < v->writes_posted)
        return false;
    for (uint32_t i = 0; i < model->pending_count; i++)
        if (model->slot_kind == SLOT_GRADIENT && model->parts[model->pending[i]].variable == variable &&
            !model->parts[model->pending[i]].kept)
            return false;
    return true;
}

/* buffer_use -- the contribution that the caller's buffer was pushed in last; NULL: its slot has been written again since, so it is over. */
static const struct session_use *buffer_use(const struct session_model *model, uint64_t sequence)
{
    const struct session_use *use = &model->slots[sequence % model->depth];

    if (use->used && use->sequence == sequence)
        return use;
    return model->before.used && model->before.sequence == sequence ? &model->before : NULL;
}

/*
 * session_is_idle -- of the library's buffer: its slot's last contribution is over in each of its spans, and nothing was put into it since. Of
 * the caller's: the newest push of it is over; where further contributions to the same step are due before that, it is enough that the bytes have left.
 */
int session_is_idle(struct session_model *model, uint32_t variable)
{
    int status = buffer_need_placed(model);

    if (status == 0)
        status = buffer_need_use(model, STEPGATE_USE_GRADIENT);
    if (status != 0)
        return status;
    const struct session_variable *v = &model->variables[variable];
    const struct session_use *use =
        model->open ? &model->before : &model->slots[model->sequence % model->depth];
    if (v->caller_gradient != NULL) {
        if (v->pushed_next == 0)
            return 1;
        if (model->quota > 1)
            return buffer_left(model, variable);
        use = buffer_use(model, v->pushed_next - 1);
    } else if (model->open && v->pushed) {
        return 0;
    }
    for (uint32_t i = 0; use != NULL && i < v->parts; i++) {
        const struct session_part *part = &model->parts[v->first_part + i];
        if (!session_use_over(model, part->shard, session_span_of(model, part), use))
            return 0;
    }
    return 1;
}
