/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/seam.h"

#include <errno.h>
#include <stddef.h>

static const struct seam_hook *seam_hook; /* tests only; NULL in production */

/* seam_hook_set -- installs a hook. */
void seam_hook_set(const struct seam_hook *hook)
{
    seam_hook = hook;
}

/* seam_fault -- the negative errno a test wants this call to fail with, or 0. */
static int seam_fault(const char *call)
{
    if (seam_hook == NULL || seam_hook->fault == NULL)
        return 0;
    int fault = seam_hook->fault(seam_hook->context, call);
    if (fault != 0)
        errno = fault;
    return -fault;
}

/* seam_result -- 0 or a negative errno from whatever convention. */
int seam_result(int ret)
{
    if (ret == 0)
        return 0;
    if (ret == -1)
        return errno > 0 ? -errno : -EIO;
    return ret > 0 ? -ret : ret;
}

/* seam_count -- tells the hook what the device took. */
static void seam_count(const struct ibv_send_wr *list, uint32_t posted)
{
    for (; posted > 0 && list != NULL; posted--, list = list->next) {
        uint64_t bytes = 0;
        for (int i = 0; i < list->num_sge; i++)
            bytes += list->sg_list[i].length;
        seam_hook->posted(seam_hook->context, list, bytes);
    }
}

/* seam_post_send -- posts a list of sends. */
int seam_post_send(struct ibv_qp *qp, struct ibv_send_wr *list, uint32_t *posted)
{
    struct ibv_send_wr *bad = NULL;
    int ret = seam_fault("ibv_post_send");

    *posted = 0;
    if (ret != 0)
        return ret;
    if (seam_hook != NULL && seam_hook->post_send != NULL)
        ret = seam_hook->post_send(qp, list, &bad);
    else
        ret = ibv_post_send(qp, list, &bad);
    if (ret != 0 && bad == NULL) /* a provider that does not say took nothing */
        bad = list;
    for (const struct ibv_send_wr *wr = list; wr != NULL && wr != bad; wr = wr->next)
        (*posted)++;
    if (seam_hook != NULL && seam_hook->posted != NULL)
        seam_count(list, *posted);
    if (ret == 0 && bad != NULL)
        return -ENOMEM;
    return seam_result(ret);
}

/* seam_post_recv -- posts a list of receives. */
int seam_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *list)
{
    struct ibv_recv_wr *bad = NULL;
    int ret = seam_fault("ibv_post_recv");

    if (ret != 0)
        return ret;
    if (seam_hook != NULL && seam_hook->post_recv != NULL)
        ret = seam_hook->post_recv(qp, list, &bad);
    else
        ret = ibv_post_recv(qp, list, &bad);
    if (ret == 0 && bad != NULL)
        return -ENOMEM;
    return seam_result(ret);
}

/* seam_poll_cq -- takes completions. */
int seam_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    int n = seam_fault("ibv_poll_cq");

    if (n != 0)
        return n;
    if (seam_hook != NULL && seam_hook->poll_cq != NULL)
        n = seam_hook->poll_cq(cq, count, wc);
    else
        n = ibv_poll_cq(cq, count, wc);
    return n < 0 ? seam_result(n) : n;
}

/* seam_req_notify -- asks for an event at the next completion. */
int seam_req_notify(struct ibv_cq *cq)
{
    int ret = seam_fault("ibv_req_notify_cq");
    return ret != 0 ? ret : seam_result(ibv_req_notify_cq(cq, 0));
}

/* seam_modify_qp -- changes attributes of a queue pair. */
int seam_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int ret = seam_fault("ibv_modify_qp");
    return ret != 0 ? ret : seam_result(ibv_modify_qp(qp, attr, mask));
}

/* seam_query_qp -- reads attributes of a queue pair. */
int seam_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct ibv_qp_init_attr unused;
    int ret = seam_fault("ibv_query_qp");
    return ret != 0 ? ret : seam_result(ibv_query_qp(qp, attr, mask, &unused));
}

/* seam_alloc_pd -- a protection domain. */
struct ibv_pd *seam_alloc_pd(struct ibv_context *context)
{
    return seam_fault("ibv_alloc_pd") != 0 ? NULL : ibv_alloc_pd(context);
}

/* seam_dealloc_pd -- gives a protection domain back. */
void seam_dealloc_pd(struct ibv_pd *pd)
{
    (void)ibv_dealloc_pd(pd);
}

/* seam_reg_mr -- registers memory. */
struct ibv_mr *seam_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    return seam_fault("ibv_reg_mr") != 0 ? NULL : ibv_reg_mr(pd, address, length, (unsigned)access);
}

/* seam_reg_dmabuf_mr -- registers memory of another device. */
struct ibv_mr *seam_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, int fd, int access)
{
    return seam_fault("ibv_reg_dmabuf_mr") != 0 ? NULL
                                                : ibv_reg_dmabuf_mr(pd, offset, length, offset, fd, access);
}

/* seam_dereg_mr -- ends a registration. */
void seam_dereg_mr(struct ibv_mr *mr)
{
    (void)ibv_dereg_mr(mr);
}

/* seam_comp_channel -- a completion channel. */
struct ibv_comp_channel *seam_comp_channel(struct ibv_context *context)
{
    return seam_fault("ibv_create_comp_channel") != 0 ? NULL : ibv_create_comp_channel(context);
}

/* seam_comp_channel_destroy -- ends a completion channel. */
void seam_comp_channel_destroy(struct ibv_comp_channel *channel)
{
    (void)ibv_destroy_comp_channel(channel);
}

/* seam_create_cq -- a completion queue. */
struct ibv_cq *seam_create_cq(struct ibv_context *context, int entries, void *user,
                              struct ibv_comp_channel *channel, int vector)
{
    if (seam_fault("ibv_create_cq") != 0)
        return NULL;
    return ibv_create_cq(context, entries, user, channel, vector);
}

/* seam_destroy_cq -- ends a completion queue; its events must have been acknowledged. */
void seam_destroy_cq(struct ibv_cq *cq)
{
    (void)ibv_destroy_cq(cq);
}

/* seam_cq_event -- takes one completion event. */
int seam_cq_event(struct ibv_comp_channel *channel)
{
    struct ibv_cq *cq;
    void *user;
    return seam_result(ibv_get_cq_event(channel, &cq, &user));
}

/* seam_ack_cq_events -- acknowledges completion events. */
void seam_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    ibv_ack_cq_events(cq, count);
}

/* seam_query_device -- limits of a device. */
int seam_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    int ret = seam_fault("ibv_query_device");
    return ret != 0 ? ret : seam_result(ibv_query_device(context, attr));
}

/* seam_query_port -- state and limits of a port. */
int seam_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    int ret = seam_fault("ibv_query_port");
    return ret != 0 ? ret : seam_result(ibv_query_port(context, port, attr));
}

/* seam_async_event -- takes one asynchronous event of a non-blocking context. */
int seam_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    return seam_result(ibv_get_async_event(context, event));
}

/* seam_ack_async_event -- acknowledges an asynchronous event. */
void seam_ack_async_event(struct ibv_async_event *event)
{
    ibv_ack_async_event(event);
}

/* seam_cm_channel -- an event channel of the connection manager. */
struct rdma_event_channel *seam_cm_channel(void)
{
    return seam_fault("rdma_create_event_channel") != 0 ? NULL : rdma_create_event_channel();
}

/* seam_cm_channel_destroy -- ends an event channel. */
void seam_cm_channel_destroy(struct rdma_event_channel *channel)
{
    rdma_destroy_event_channel(channel);
}

/* seam_cm_event -- takes one event of a non-blocking channel; -EAGAIN if there is none. */
int seam_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    return seam_result(rdma_get_cm_event(channel, event));
}

/* seam_ack_cm_event -- acknowledges an event of the connection manager. */
void seam_ack_cm_event(struct rdma_cm_event *event)
{
    (void)rdma_ack_cm_event(event);
}

/* seam_create_id -- a communication identifier. */
int seam_create_id(struct rdma_event_channel *channel, void *context, struct rdma_cm_id **out)
{
    int ret = seam_fault("rdma_create_id");
    return ret != 0 ? ret : seam_result(rdma_create_id(channel, out, context, RDMA_PS_TCP));
}

/* seam_destroy_id -- ends an identifier; all its events must have been acknowledged. */
void seam_destroy_id(struct rdma_cm_id *id)
{
    (void)rdma_destroy_id(id);
}

/* seam_bind -- binds an identifier to a local address. */
int seam_bind(struct rdma_cm_id *id, struct sockaddr *address)
{
    int ret = seam_fault("rdma_bind_addr");
    return ret != 0 ? ret : seam_result(rdma_bind_addr(id, address));
}

/* seam_listen -- listens. */
int seam_listen(struct rdma_cm_id *id, int backlog)
{
    int ret = seam_fault("rdma_listen");
    return ret != 0 ? ret : seam_result(rdma_listen(id, backlog));
}

/* seam_resolve_addr -- starts to resolve an address. */
int seam_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
    int ret = seam_fault("rdma_resolve_addr");
    return ret != 0 ? ret : seam_result(rdma_resolve_addr(id, from, to, ms));
}

/* seam_resolve_route -- starts to resolve the route. */
int seam_resolve_route(struct rdma_cm_id *id, int ms)
{
    int ret = seam_fault("rdma_resolve_route");
    return ret != 0 ? ret : seam_result(rdma_resolve_route(id, ms));
}

/* seam_set_ack_timeout -- sets the exponent of the acknowledgement time-out, 4.096 us * 2^exponent. */
int seam_set_ack_timeout(struct rdma_cm_id *id, uint8_t exponent)
{
    int ret = seam_fault("rdma_set_option");
    if (ret != 0)
        return ret;
    return seam_result(
        rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, sizeof(exponent)));
}

/* seam_create_qp -- makes the queue pair of an identifier. */
int seam_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    int ret = seam_fault("rdma_create_qp");
    return ret != 0 ? ret : seam_result(rdma_create_qp(id, pd, attr));
}

/* seam_destroy_qp -- destroys the queue pair of an identifier. */
void seam_destroy_qp(struct rdma_cm_id *id)
{
    rdma_destroy_qp(id);
}

/* seam_connect -- sends the connection request. */
int seam_connect(struct rdma_cm_id *id, struct rdma_conn_param *parameter)
{
    int ret = seam_fault("rdma_connect");
    return ret != 0 ? ret : seam_result(rdma_connect(id, parameter));
}

/* seam_accept -- accepts a connection request. */
int seam_accept(struct rdma_cm_id *id, struct rdma_conn_param *parameter)
{
    int ret = seam_fault("rdma_accept");
    return ret != 0 ? ret : seam_result(rdma_accept(id, parameter));
}

/* seam_reject -- refuses a connection request. */
int seam_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
    int ret = seam_fault("rdma_reject");
    return ret != 0 ? ret : seam_result(rdma_reject(id, data, length));
}

/* seam_disconnect -- tells the peer, and moves the queue pair to error. */
int seam_disconnect(struct rdma_cm_id *id)
{
    return seam_result(rdma_disconnect(id));
}

/* seam_migrate -- moves an identifier to another event channel. */
int seam_migrate(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    int ret = seam_fault("rdma_migrate_id");
    return ret != 0 ? ret : seam_result(rdma_migrate_id(id, channel));
}

/* seam_notify_established -- tells the connection manager that data came before its last packet. */
int seam_notify_established(struct rdma_cm_id *id)
{
    return seam_result(rdma_notify(id, IBV_EVENT_COMM_EST));
}

/* seam_fork_safe -- newer kernels copy pages at fork, and asking would only cost mappings. */
void seam_fork_safe(void)
{
    if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
        (void)ibv_fork_init(); /* too late when somebody has registered memory before: then as it was */
}

/* seam_devices -- the contexts that librdmacm has opened, ended by NULL. */
struct ibv_context **seam_devices(int *count)
{
    return seam_fault("rdma_get_devices") != 0 ? NULL : rdma_get_devices(count);
}

/* seam_devices_free -- frees that list, not the contexts. */
void seam_devices_free(struct ibv_context **devices)
{
    rdma_free_devices(devices);
}
