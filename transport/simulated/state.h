/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state -- what a world consists of, shared by the files of this folder and seen by nobody else. Deliveries name their objects by
 * number, never by address: an object that is gone is not found, so nothing is ever written into freed memory.
 */
#ifndef TRANSPORT_SIMULATED_STATE_H
#define TRANSPORT_SIMULATED_STATE_H

#include "transport/base/random.h"
#include "transport/simulated/world.h"

#define SIM_NAME_BYTES 64
#define SIM_NONE UINT32_MAX
#define SIM_RANGES 32        /* writes remembered since the last barrier, to find overlaps */
#define SIM_COPY_BYTES 65536 /* a longer write never completes early, and is cut off with its sender */

enum sim_kind {
    SIM_FABRIC,
    SIM_DOMAIN,
    SIM_REGION,
    SIM_QUEUE,
    SIM_LISTENER,
    SIM_REQUEST,
    SIM_ENDPOINT,
    SIM_REMOTE,
    SIM_KINDS
};

/* The objects of one kind by number; numbers are never used twice. */
struct sim_table {
    void **slots;
    uint32_t count, room;
};

enum sim_item_kind {
    SIM_CONNECT,         /* active side -> listener */
    SIM_ACCEPTED,        /* passive -> active */
    SIM_REFUSED,         /* passive -> active */
    SIM_READY,           /* active -> passive: connected on both sides */
    SIM_WRITE,           /* one piece */
    SIM_READ,            /* one piece, copied from the peer when due */
    SIM_NOTIFY,          /* value */
    SIM_MESSAGE,         /* data */
    SIM_GRANT,           /* what a mapped region's descriptor needs beside itself */
    SIM_CREDIT,          /* receiver has taken a notify or message */
    SIM_DONE,            /* a write may complete */
    SIM_CLOSE,           /* the other end is gone */
    SIM_CONNECT_TIMEOUT, /* own timers */
    SIM_PEER_TIMEOUT,
    SIM_DEPART /* a frame leaves a node's port (link.c) */
};

/* One pending delivery. */
struct sim_item {
    uint64_t due, seq; /* order of delivery; seq is the order of posting */
    int kind, status;
    uint32_t from, to;           /* endpoints (SIM_CONNECT: to = listener) */
    uint32_t from_node, to_node; /* nodes, for faults */
    uint32_t operation, generation;
    uint32_t region; /* target of a piece */
    uint32_t value;
    uint64_t key;    /* of the grant */
    uint64_t offset; /* of the piece in its operation */
    uint64_t remote_offset, length;
    uint64_t sent; /* of the bytes, by the port of their sender */
    bool asked;    /* a read's request has arrived */
    uint8_t *data; /* owned: message, hello, or the bytes of a write taken at the post */
    uint32_t data_bytes;
};

struct sim_agenda {
    struct sim_item **heap; /* by (due, seq) */
    uint32_t count, room;
    struct sim_item **parked; /* held back by a fault, in order of their turn */
    uint32_t parked_count, parked_room;
};

/* What a node sends and takes in, where the world has a rate (link.c). */
struct sim_port {
    struct sim_agenda waiting; /* the heap alone, by tag */
    struct sim_item *sending;  /* NULL: nothing, or it was cut off */
    uint64_t tag, taken;
};

struct sim_node {
    struct sim_port port;
    struct world_node base;
    char name[SIM_NAME_BYTES];
    bool killed, frozen, host_frozen;
    uint16_t next_port;
};

struct sim_pair {
    uint32_t a, b;
};

struct world {
    struct world_options options;
    struct random_source random;
    uint64_t now, seq, hash;
    struct sim_node **nodes;
    uint32_t node_count, node_room;
    struct sim_pair *partitions;
    uint32_t partition_count, partition_room;
    struct sim_table tables[SIM_KINDS];
    struct sim_agenda agenda;
    struct world_counts counts;
    uint64_t last_seq; /* highest seq performed, and its sender: to count reorders */
    uint32_t last_from;
    uint64_t connections;
};

struct sim_fabric {
    struct stepgate_fabric base;
    struct world *world;
    uint32_t id, node, operations;
    uint64_t peer_timeout_ns, connect_timeout_ns;
};

struct sim_domain {
    struct stepgate_domain base;
    struct sim_fabric *fabric;
    uint32_t id;
};

/* Memory that outlives its region while a peer has it mapped. */
struct sim_memory {
    uint8_t *bytes;
    uint64_t length;
    uint32_t references;
    bool owned;
};

struct sim_grant {
    uint64_t key;
    uint32_t peer_node;
    unsigned access;
    bool arrived;
};

struct sim_region {
    struct stepgate_region base;
    struct world *world;
    uint32_t id, node, domain;
    unsigned access;
    struct sim_memory *memory;
    struct sim_grant *grants;
    uint32_t grant_count, grant_room;
};

struct sim_event {
    struct stepgate_event event;
    uint8_t *data;      /* owned */
    uint32_t credit_to; /* endpoint that gets a credit when this is taken; SIM_NONE: none */
};

struct sim_queue {
    struct stepgate_queue base;
    struct sim_fabric *fabric;
    uint32_t id;
    struct sim_event *events;
    uint32_t first, count, room;
    uint8_t **taken; /* data of the events of the last poll */
    uint32_t taken_count, taken_room;
};

struct sim_listener {
    struct stepgate_listener base;
    struct sim_queue *queue;
    uint32_t id, node;
    uint16_t port;
};

struct sim_request {
    struct stepgate_request base;
    struct world *world;
    uint32_t id, node, listener;
    uint32_t active, active_node; /* the endpoint that asks */
    uint64_t connection;
};

enum sim_state { SIM_CONNECTING, SIM_ACCEPTING, SIM_CONNECTED, SIM_DEAD };

struct sim_operation {
    bool used, read, done;
    unsigned flags;
    uint32_t generation, left; /* pieces that have not landed yet */
    uint32_t local_region;     /* SIM_NONE: the bytes travel in the items */
    uint64_t order, context, local_offset;
};

struct sim_range {
    uint32_t region;
    uint64_t from, to;
};

struct sim_endpoint {
    struct stepgate_endpoint base;
    struct sim_queue *queue;
    struct sim_domain *domain;
    struct world *world;
    uint32_t id, node, peer, peer_node; /* peer: SIM_NONE until known */
    uint64_t connection;
    int state;
    bool active, heard, timer;
    /* The outgoing direction: nothing posted from now on lands before `barrier`; `tail` is when all so far has landed; `signal` is
     * when the last notify or message arrives. */
    uint64_t barrier, tail, signal;
    uint64_t tag; /* at its port: of the last byte that it sends */
    struct sim_range ranges[SIM_RANGES];
    uint32_t range_count;
    struct sim_operation *operations;
    uint32_t depth, in_flight, signals;
    uint64_t posted;
    char address[STEPGATE_ADDRESS_BYTES]; /* where the active side wanted to go */
};

struct sim_remote {
    struct stepgate_remote base;
    struct world *world;
    uint32_t id, node, peer_node, region;
    uint64_t key;
    struct sim_memory *memory; /* referenced while mapped */
};

/* table.c */
int sim_table_add(struct sim_table *table, void *object, uint32_t *id);
void *sim_table_get(const struct sim_table *table, uint32_t id);
void sim_table_drop(struct sim_table *table, uint32_t id);
int sim_grow(void *array, uint32_t *room, uint32_t needed, size_t bytes);

/* agenda.c */
struct sim_item *sim_item_new(struct world *world, int kind, const struct sim_endpoint *from);
void sim_item_delete(struct sim_item *item);
int sim_agenda_reserve(struct world *world, uint32_t more);
void sim_agenda_put(struct world *world, struct sim_item *item);
struct sim_item *sim_agenda_top(const struct world *world);
struct sim_item *sim_agenda_pop(struct world *world);
void sim_agenda_park(struct world *world, struct sim_item *item);
void sim_agenda_unpark(struct world *world);
void sim_agenda_cut(struct world *world, struct sim_endpoint *from);
bool sim_agenda_holds(const struct world *world, uint32_t from);
void sim_agenda_clear(struct world *world);
/* sim_item_at -- what happens to a node, whoever is connected to it. NULL: out of memory. */
struct sim_item *sim_item_at(struct world *world, int kind, uint32_t node);
int sim_heap_put(struct sim_agenda *agenda, struct sim_item *item);
struct sim_item *sim_heap_pop(struct sim_agenda *agenda);
void sim_heap_cut(struct world *world, struct sim_agenda *agenda, uint32_t from);

/* link.c */
void sim_link_put(struct sim_endpoint *sender, struct sim_item *item);
void sim_link_depart(struct world *world, uint32_t node);
void sim_link_cut(struct world *world, const struct sim_endpoint *from);
void sim_link_free(struct sim_port *port);

/* world.c */
uint64_t sim_latency(struct world *world);
struct sim_node *sim_node(const struct world *world, uint32_t index);
bool sim_blocked(const struct world *world, uint32_t from, uint32_t to);
void sim_trace(struct world *world, const char *what, uint32_t from, uint32_t to, uint64_t a, uint64_t b);

/* deliver.c */
void sim_deliver(struct world *world, struct sim_item *item);
bool sim_moot(const struct world *world, const struct sim_item *item);

/* queue.c */
int sim_queue_new(struct stepgate_fabric *fabric, uint32_t endpoints, struct stepgate_queue **out);
void sim_queue_delete(struct stepgate_queue **queue);
int sim_queue_poll(struct stepgate_queue *queue, struct stepgate_event *events, int max);
int sim_queue_arm(struct stepgate_queue *queue);
int sim_queue_fd(struct stepgate_queue *queue);
void sim_queue_push(struct sim_queue *queue, const struct stepgate_event *event, uint8_t *data,
                    uint32_t credit_to);
void sim_queue_forget(struct sim_queue *queue, const struct stepgate_endpoint *endpoint);
void sim_queue_refuse(struct sim_queue *queue, const struct stepgate_listener *listener);
void sim_queue_free(struct sim_queue *queue);

/* region.c */
int sim_fabric_open(const struct stepgate_fabric_options *options, struct stepgate_fabric **out);
void sim_fabric_delete(struct stepgate_fabric **fabric);
int sim_domain_new(struct stepgate_fabric *fabric, struct stepgate_domain **out);
void sim_domain_delete(struct stepgate_domain **domain);
int sim_region_new(struct stepgate_domain *domain, const struct stepgate_region_options *options,
                   struct stepgate_region **out);
void sim_region_delete(struct stepgate_region **region);
void sim_region_free(struct sim_region *region);
struct sim_region *sim_region_live(const struct world *world, uint32_t id);
struct sim_grant *sim_region_grant(struct sim_region *region, uint64_t key);
int sim_endpoint_export(struct stepgate_endpoint *endpoint, struct stepgate_region *region, unsigned access,
                        struct stepgate_descriptor *out);
int sim_endpoint_import(struct stepgate_endpoint *endpoint, const struct stepgate_descriptor *descriptor,
                        struct stepgate_remote **out);
void sim_remote_delete(struct stepgate_remote **remote);

/* endpoint.c */
int sim_listener_new(struct stepgate_queue *queue, const char *address, struct stepgate_listener **out);
int sim_listener_address(struct stepgate_listener *listener, char *text, size_t bytes);
void sim_listener_delete(struct stepgate_listener **listener);
int sim_endpoint_connect(struct stepgate_queue *queue, struct stepgate_domain *domain, const char *address,
                         const void *hello, uint32_t hello_bytes, void *user, struct stepgate_endpoint **out);
int sim_endpoint_accept(struct stepgate_request *request, struct stepgate_queue *queue,
                        struct stepgate_domain *domain, const void *hello, uint32_t hello_bytes, void *user,
                        struct stepgate_endpoint **out);
void sim_request_refuse(struct stepgate_request *request, const void *hello, uint32_t hello_bytes);
void sim_endpoint_delete(struct stepgate_endpoint **endpoint);
void sim_endpoint_free(struct sim_endpoint *endpoint);
void sim_endpoint_trouble(const struct stepgate_endpoint *endpoint, char *text, size_t bytes);
int sim_endpoint_capabilities(struct stepgate_endpoint *endpoint, struct stepgate_capabilities *out);
struct sim_endpoint *sim_endpoint_live(const struct world *world, uint32_t id);
void sim_endpoint_break(struct sim_endpoint *endpoint, int status, uint8_t *hello, uint32_t hello_bytes,
                        bool tell);
void sim_endpoint_close_peer(struct sim_endpoint *endpoint);

/* post.c */
int sim_endpoint_write(struct stepgate_endpoint *endpoint, struct stepgate_region *local,
                       uint64_t local_offset, const void *data, struct stepgate_remote *remote,
                       uint64_t remote_offset, uint64_t length, unsigned flags, uint64_t context);
int sim_endpoint_read(struct stepgate_endpoint *endpoint, struct stepgate_region *local,
                      uint64_t local_offset, struct stepgate_remote *remote, uint64_t remote_offset,
                      uint64_t length, unsigned flags, uint64_t context);
int sim_endpoint_notify(struct stepgate_endpoint *endpoint, uint32_t value);
int sim_endpoint_send(struct stepgate_endpoint *endpoint, const void *data, uint32_t length);
void sim_signal_put(struct sim_endpoint *endpoint, struct sim_item *item);
void sim_operation_retire(struct sim_endpoint *endpoint);

#endif
