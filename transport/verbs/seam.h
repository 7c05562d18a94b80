/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seam -- every call of libibverbs and librdmacm goes through here. One convention: 0 or a negative errno, whatever the
 * provider does (librdmacm returns -1 and errno, libibverbs a positive errno, siw a negative one, and siw returns 0 with bad_wr set
 * for a list that is too long). Functions that make an object return it, or NULL with errno set.
 */
#ifndef TRANSPORT_VERBS_SEAM_H
#define TRANSPORT_VERBS_SEAM_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>

/* What tests may put in between. Set before the first object is made and reset after the last is gone; never in production. */
struct seam_hook {
    void *context;
    /* asked before each call by name; a positive errno makes the call fail without being made. May be NULL. */
    int (*fault)(void *context, const char *call);
    /* told of every work request that was posted, with its bytes. May be NULL. */
    void (*posted)(void *context, const struct ibv_send_wr *wr, uint64_t bytes);
    /* replace the provider's functions. May be NULL. */
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
    int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
    int (*poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *wc);
};

/* seam_hook_set -- installs a hook; NULL removes it. */
void seam_hook_set(const struct seam_hook *hook);

/* seam_result -- a provider's return value as 0 or a negative errno. */
int seam_result(int ret);

/* seam_post_send -- posts a list; *posted says how many of its requests the device took. */
int seam_post_send(struct ibv_qp *qp, struct ibv_send_wr *list, uint32_t *posted);
int seam_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *list);
/* seam_poll_cq -- number of completions taken, or a negative errno. */
int seam_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int seam_req_notify(struct ibv_cq *cq);
int seam_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int seam_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

struct ibv_pd *seam_alloc_pd(struct ibv_context *context);
void seam_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *seam_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access);
/* seam_reg_dmabuf_mr -- registers a part of a dma-buf, which requests name by its offset. */
struct ibv_mr *seam_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, int fd, int access);
void seam_dereg_mr(struct ibv_mr *mr);
struct ibv_comp_channel *seam_comp_channel(struct ibv_context *context);
void seam_comp_channel_destroy(struct ibv_comp_channel *channel);
struct ibv_cq *seam_create_cq(struct ibv_context *context, int entries, void *user,
                              struct ibv_comp_channel *channel, int vector);
void seam_destroy_cq(struct ibv_cq *cq);
/* seam_cq_event -- takes one event of a non-blocking channel; -EAGAIN if there is none. */
int seam_cq_event(struct ibv_comp_channel *channel);
void seam_ack_cq_events(struct ibv_cq *cq, unsigned count);
int seam_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int seam_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
int seam_async_event(struct ibv_context *context, struct ibv_async_event *event);
void seam_ack_async_event(struct ibv_async_event *event);

struct rdma_event_channel *seam_cm_channel(void);
void seam_cm_channel_destroy(struct rdma_event_channel *channel);
int seam_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
void seam_ack_cm_event(struct rdma_cm_event *event);
int seam_create_id(struct rdma_event_channel *channel, void *context, struct rdma_cm_id **out);
void seam_destroy_id(struct rdma_cm_id *id);
int seam_bind(struct rdma_cm_id *id, struct sockaddr *address);
int seam_listen(struct rdma_cm_id *id, int backlog);
int seam_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms);
int seam_resolve_route(struct rdma_cm_id *id, int ms);
int seam_set_ack_timeout(struct rdma_cm_id *id, uint8_t exponent);
int seam_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void seam_destroy_qp(struct rdma_cm_id *id);
int seam_connect(struct rdma_cm_id *id, struct rdma_conn_param *parameter);
int seam_accept(struct rdma_cm_id *id, struct rdma_conn_param *parameter);
int seam_reject(struct rdma_cm_id *id, const void *data, uint8_t length);
int seam_disconnect(struct rdma_cm_id *id);
int seam_migrate(struct rdma_cm_id *id, struct rdma_event_channel *channel);
int seam_notify_established(struct rdma_cm_id *id);
/* seam_fork_safe -- lets the program fork (loaders of training data do) where the kernel needs to be asked for it. */
void seam_fork_safe(void);
struct ibv_context **seam_devices(int *count);
void seam_devices_free(struct ibv_context **devices);

#endif
