/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs -- stands in front of the seam, through which all calls of libibverbs and librdmacm go, as wrap does in front of the system. What these libraries tell
 * later fails, too: a completion has an error for its status and its queue pair is in error from then on, an event of the connection manager tells of
 * the opposite, an asynchronous one comes that says what is lost. Left out are calls whose number depends on time (looks at queues in which nothing
 * is, requests to be woken), and those that give something back.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "tests/faults/wrap.h"
#include "transport/verbs/seam.h"

#define VERBS_PAIRS 64 /* queue pairs of a job at a time */

static atomic_long verbs_objects;
static pthread_mutex_t verbs_lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct ibv_qp *verbs_pairs[VERBS_PAIRS];
static struct ibv_async_event verbs_event; /* comes next */
static bool verbs_event_due;

/* wrap_objects -- see wrap.h. */
long wrap_objects(void)
{
    return atomic_load(&verbs_objects);
}

/* verbs_made -- counts what a function has made; returns it. */
static void *verbs_made(void *object)
{
    if (object != NULL)
        atomic_fetch_add(&verbs_objects, 1);
    return object;
}

/* verbs_made_if -- likewise, where the status tells. */
static int verbs_made_if(int status)
{
    if (status == 0)
        atomic_fetch_add(&verbs_objects, 1);
    return status;
}

/* A function seam_`name` for `call`, which returns a negative errno where it is to fail. */
#define VERBS(name, call, error, parameters, arguments)                                                      \
    int __real_seam_##name parameters;                                                                       \
    int __wrap_seam_##name parameters;                                                                       \
    int __wrap_seam_##name parameters                                                                        \
    {                                                                                                        \
        return point_reached(POINT_VERBS, call, error, __builtin_return_address(0))                          \
                   ? -error                                                                                  \
                   : __real_seam_##name arguments;                                                           \
    }
/* One that makes an object. */
#define VERBS_MAKE(type, name, call, error, parameters, arguments)                                           \
    type *__real_seam_##name parameters;                                                                     \
    type *__wrap_seam_##name parameters;                                                                     \
    type *__wrap_seam_##name parameters                                                                      \
    {                                                                                                        \
        return point_reached(POINT_VERBS, call, error, __builtin_return_address(0))                          \
                   ? NULL                                                                                    \
                   : verbs_made(__real_seam_##name arguments);                                               \
    }
/* One that gives an object back. */
#define VERBS_BACK(type, name)                                                                               \
    void __real_seam_##name(type *object);                                                                   \
    void __wrap_seam_##name(type *object);                                                                   \
    void __wrap_seam_##name(type *object)                                                                    \
    {                                                                                                        \
        atomic_fetch_sub(&verbs_objects, 1);                                                                 \
        __real_seam_##name(object);                                                                          \
    }

VERBS(query_device, "ibv_query_device", EIO, (struct ibv_context * context, struct ibv_device_attr *out),
      (context, out))
VERBS(query_port, "ibv_query_port", EIO,
      (struct ibv_context * context, uint8_t port, struct ibv_port_attr *out), (context, port, out))
VERBS(modify_qp, "ibv_modify_qp", EINVAL, (struct ibv_qp * pair, struct ibv_qp_attr *attr, int mask),
      (pair, attr, mask))
VERBS(query_qp, "ibv_query_qp", EINVAL, (struct ibv_qp * pair, struct ibv_qp_attr *attr, int mask),
      (pair, attr, mask))
VERBS(post_recv, "ibv_post_recv", ENOMEM, (struct ibv_qp * pair, struct ibv_recv_wr *list), (pair, list))
VERBS(bind, "rdma_bind_addr", EADDRINUSE, (struct rdma_cm_id * id, struct sockaddr *address), (id, address))
VERBS(listen, "rdma_listen", ENOMEM, (struct rdma_cm_id * id, int backlog), (id, backlog))
VERBS(resolve_addr, "rdma_resolve_addr", ENETUNREACH,
      (struct rdma_cm_id * id, struct sockaddr *from, struct sockaddr *to, int ms), (id, from, to, ms))
VERBS(resolve_route, "rdma_resolve_route", EHOSTUNREACH, (struct rdma_cm_id * id, int ms), (id, ms))
VERBS(set_ack_timeout, "rdma_set_option", ENOSYS, (struct rdma_cm_id * id, uint8_t exponent), (id, exponent))
VERBS(connect, "rdma_connect", ENOMEM, (struct rdma_cm_id * id, struct rdma_conn_param *parameter),
      (id, parameter))
VERBS(accept, "rdma_accept", ENOMEM, (struct rdma_cm_id * id, struct rdma_conn_param *parameter),
      (id, parameter))
VERBS(reject, "rdma_reject", EINVAL, (struct rdma_cm_id * id, const void *data, uint8_t length),
      (id, data, length))
VERBS(disconnect, "rdma_disconnect", EINVAL, (struct rdma_cm_id * id), (id))
VERBS(migrate, "rdma_migrate_id", ENOMEM, (struct rdma_cm_id * id, struct rdma_event_channel *channel),
      (id, channel))
VERBS(notify_established, "rdma_notify", EINVAL, (struct rdma_cm_id * id), (id))

VERBS_MAKE(struct ibv_pd, alloc_pd, "ibv_alloc_pd", ENOMEM, (struct ibv_context * context), (context))
VERBS_BACK(struct ibv_pd, dealloc_pd)
VERBS_MAKE(struct ibv_mr, reg_mr, "ibv_reg_mr", ENOMEM,
           (struct ibv_pd * domain, void *address, size_t length, int access),
           (domain, address, length, access))
VERBS_BACK(struct ibv_mr, dereg_mr)
VERBS_MAKE(struct ibv_comp_channel, comp_channel, "ibv_create_comp_channel", EMFILE,
           (struct ibv_context * context), (context))
VERBS_BACK(struct ibv_comp_channel, comp_channel_destroy)
VERBS_MAKE(struct rdma_event_channel, cm_channel, "rdma_create_event_channel", EMFILE, (void), ())
VERBS_BACK(struct rdma_event_channel, cm_channel_destroy)
VERBS_MAKE(struct ibv_context *, devices, "rdma_get_devices", ENOMEM, (int *count), (count))
VERBS_BACK(struct ibv_context *, devices_free)
VERBS_BACK(struct rdma_cm_id, destroy_id)

int __real_seam_create_id(struct rdma_event_channel *channel, void *context, struct rdma_cm_id **out);
int __wrap_seam_create_id(struct rdma_event_channel *channel, void *context, struct rdma_cm_id **out);
/* __wrap_seam_create_id -- counted, to be given back. */
int __wrap_seam_create_id(struct rdma_event_channel *channel, void *context, struct rdma_cm_id **out)
{
    if (point_reached(POINT_VERBS, "rdma_create_id", ENOMEM, __builtin_return_address(0)))
        return -ENOMEM;
    return verbs_made_if(__real_seam_create_id(channel, context, out));
}

/* verbs_comes -- an asynchronous event is the next one. */
static void verbs_comes(struct ibv_async_event event)
{
    pthread_mutex_lock(&verbs_lock);
    verbs_event = event;
    verbs_event_due = true;
    pthread_mutex_unlock(&verbs_lock);
}

/* verbs_goes -- no event of something that is given back. */
static void verbs_goes(const void *object)
{
    pthread_mutex_lock(&verbs_lock);
    if (verbs_event_due && (verbs_event.element.qp == object || verbs_event.element.cq == object))
        verbs_event_due = false;
    for (int i = 0; i < VERBS_PAIRS; i++)
        if (verbs_pairs[i] == object)
            verbs_pairs[i] = NULL;
    pthread_mutex_unlock(&verbs_lock);
}

/* verbs_break -- the queue pair of a number is in error: whatever is posted to it is flushed. */
static void verbs_break(uint32_t number)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    pthread_mutex_lock(&verbs_lock);
    for (int i = 0; i < VERBS_PAIRS; i++)
        if (verbs_pairs[i] != NULL && verbs_pairs[i]->qp_num == number)
            (void)ibv_modify_qp(verbs_pairs[i], &attr, IBV_QP_STATE);
    pthread_mutex_unlock(&verbs_lock);
}

int __real_seam_create_qp(struct rdma_cm_id *id, struct ibv_pd *domain, struct ibv_qp_init_attr *attr);
int __wrap_seam_create_qp(struct rdma_cm_id *id, struct ibv_pd *domain, struct ibv_qp_init_attr *attr);
/* __wrap_seam_create_qp -- a queue pair that was made can still be lost. */
int __wrap_seam_create_qp(struct rdma_cm_id *id, struct ibv_pd *domain, struct ibv_qp_init_attr *attr)
{
    if (point_reached(POINT_VERBS, "rdma_create_qp", ENOMEM, __builtin_return_address(0)))
        return -ENOMEM;
    int status = verbs_made_if(__real_seam_create_qp(id, domain, attr));
    if (status != 0)
        return status;
    pthread_mutex_lock(&verbs_lock);
    for (int i = 0; i < VERBS_PAIRS; i++) {
        if (verbs_pairs[i] != NULL)
            continue;
        verbs_pairs[i] = id->qp;
        break;
    }
    pthread_mutex_unlock(&verbs_lock);
    if (point_told("IBV_EVENT_QP_FATAL", "queue pair is in error", __builtin_return_address(0)))
        verbs_comes((struct ibv_async_event){.element.qp = id->qp, .event_type = IBV_EVENT_QP_FATAL});
    return 0;
}

void __real_seam_destroy_qp(struct rdma_cm_id *id);
void __wrap_seam_destroy_qp(struct rdma_cm_id *id);
/* __wrap_seam_destroy_qp -- gives one back. */
void __wrap_seam_destroy_qp(struct rdma_cm_id *id)
{
    atomic_fetch_sub(&verbs_objects, 1);
    verbs_goes(id->qp);
    __real_seam_destroy_qp(id);
}

struct ibv_cq *__real_seam_create_cq(struct ibv_context *context, int entries, void *user,
                                     struct ibv_comp_channel *channel, int vector);
struct ibv_cq *__wrap_seam_create_cq(struct ibv_context *context, int entries, void *user,
                                     struct ibv_comp_channel *channel, int vector);
/* __wrap_seam_create_cq -- a completion queue that was made can still be lost. */
struct ibv_cq *__wrap_seam_create_cq(struct ibv_context *context, int entries, void *user,
                                     struct ibv_comp_channel *channel, int vector)
{
    if (point_reached(POINT_VERBS, "ibv_create_cq", ENOMEM, __builtin_return_address(0)))
        return NULL;
    struct ibv_cq *made = verbs_made(__real_seam_create_cq(context, entries, user, channel, vector));
    if (made != NULL && user != NULL &&
        point_told("IBV_EVENT_CQ_ERR", "is in error", __builtin_return_address(0)))
        verbs_comes((struct ibv_async_event){.element.cq = made, .event_type = IBV_EVENT_CQ_ERR});
    return made;
}

void __real_seam_destroy_cq(struct ibv_cq *cq);
void __wrap_seam_destroy_cq(struct ibv_cq *cq);
/* __wrap_seam_destroy_cq -- gives one back. */
void __wrap_seam_destroy_cq(struct ibv_cq *cq)
{
    atomic_fetch_sub(&verbs_objects, 1);
    verbs_goes(cq);
    __real_seam_destroy_cq(cq);
}

int __real_seam_async_event(struct ibv_context *context, struct ibv_async_event *event);
int __wrap_seam_async_event(struct ibv_context *context, struct ibv_async_event *event);
/* __wrap_seam_async_event -- the one that is due, before those that are real. */
int __wrap_seam_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    pthread_mutex_lock(&verbs_lock);
    bool due = verbs_event_due;
    verbs_event_due = false;
    if (due)
        *event = verbs_event;
    pthread_mutex_unlock(&verbs_lock);
    return due ? 0 : __real_seam_async_event(context, event);
}

void __real_seam_ack_async_event(struct ibv_async_event *event);
void __wrap_seam_ack_async_event(struct ibv_async_event *event);
/* __wrap_seam_ack_async_event -- nobody waits for an answer to one that is not real. */
void __wrap_seam_ack_async_event(struct ibv_async_event *event)
{
    pthread_mutex_lock(&verbs_lock);
    bool real = event->event_type != verbs_event.event_type || event->element.qp != verbs_event.element.qp;
    pthread_mutex_unlock(&verbs_lock);
    if (real)
        __real_seam_ack_async_event(event);
}

int __real_seam_post_send(struct ibv_qp *pair, struct ibv_send_wr *list, uint32_t *posted);
int __wrap_seam_post_send(struct ibv_qp *pair, struct ibv_send_wr *list, uint32_t *posted);
/* __wrap_seam_post_send -- the device takes nothing. */
int __wrap_seam_post_send(struct ibv_qp *pair, struct ibv_send_wr *list, uint32_t *posted)
{
    *posted = 0;
    if (point_reached(POINT_VERBS, "ibv_post_send", ENOMEM, __builtin_return_address(0)))
        return -ENOMEM;
    return __real_seam_post_send(pair, list, posted);
}

int __real_seam_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int __wrap_seam_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
/* __wrap_seam_poll_cq -- a send has failed after its retries, a receive was flushed, or all that came is lost. */
int __wrap_seam_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    const void *place = __builtin_return_address(0);
    int n = __real_seam_poll_cq(cq, count, wc);

    if (n > 0 && point_told("ibv_poll_cq", "is in error", place))
        return -EIO;
    for (int i = 0; i < n; i++) {
        if (wc[i].status != IBV_WC_SUCCESS)
            continue;
        bool receive = (wc[i].opcode & IBV_WC_RECV) != 0;
        enum ibv_wc_status status = receive ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR;
        if (!point_told(receive ? "completion of a receive" : "completion of a send",
                        receive ? "the connection was closed" : ibv_wc_status_str(status), place))
            continue;
        wc[i].status = status;
        verbs_break(wc[i].qp_num);
    }
    return n;
}

/* verbs_opposite -- what the connection manager says where an event of that kind does not come; returns the words for it, or NULL: it always comes. */
static const char *verbs_opposite(enum rdma_cm_event_type type, enum rdma_cm_event_type *opposite)
{
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED: *opposite = RDMA_CM_EVENT_ADDR_ERROR; return "there is no route";
    case RDMA_CM_EVENT_ROUTE_RESOLVED: *opposite = RDMA_CM_EVENT_ROUTE_ERROR; return "there is no route";
    case RDMA_CM_EVENT_ESTABLISHED: *opposite = RDMA_CM_EVENT_UNREACHABLE; return "no answer";
    default: return NULL;
    }
}

int __real_seam_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int __wrap_seam_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
/* __wrap_seam_cm_event -- tells of the opposite, or that the device is lost; an identifier that comes with a request is to be given back. */
int __wrap_seam_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    const void *place = __builtin_return_address(0);
    enum rdma_cm_event_type opposite;
    int status = __real_seam_cm_event(channel, event);

    if (status != 0)
        return status;
    if ((*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST)
        atomic_fetch_add(&verbs_objects, 1);
    const char *words = verbs_opposite((*event)->event, &opposite);
    if (words == NULL)
        return 0;
    if (point_told(rdma_event_str(opposite), words, place)) {
        (*event)->event = opposite;
        (*event)->status = -ETIMEDOUT;
    } else if ((*event)->event == RDMA_CM_EVENT_ESTABLISHED) {
        if (point_told(rdma_event_str(RDMA_CM_EVENT_DEVICE_REMOVAL), "was removed", place))
            (*event)->event = RDMA_CM_EVENT_DEVICE_REMOVAL;
        if (point_told("IBV_EVENT_DEVICE_FATAL", "is in error", place))
            verbs_comes((struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
        if (point_told("IBV_EVENT_GID_CHANGE", NULL, place))
            verbs_comes((struct ibv_async_event){.event_type = IBV_EVENT_GID_CHANGE});
    }
    return 0;
}
