/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport contract -- the only definition of how bytes move between peers.
 *
 * A transport is one table of functions (struct stepgate_transport_v1). There are three: verbs, shm, simulated. None knows
 * of gradients, steps or tokens. Nothing blocks: everything is posted, and answered by an event on a queue.
 *
 *   fabric    an opened transport: a device, the shared memory of this host, or a simulated node.
 *   domain    a protection domain: the peer of an endpoint reaches regions of the endpoint's own domain and no other.
 *   region    memory made available to peers of a domain, with the access that it grants.
 *   queue     where the events of a set of endpoints arrive. A queue belongs to one thread at a time, with every endpoint,
 *             remote and listener on it: no function below may run in two threads at once for objects of one queue.
 *   listener  accepts connections at an address.
 *   request   an incoming connection, not yet accepted. It may be handed to another thread and accepted there on a queue
 *             of that thread; whoever holds it must accept or refuse it exactly once.
 *   endpoint  a connection to one peer.
 *   remote    a region of the peer, as seen from here.
 *
 * Ordering. On one endpoint: when a notify or a message posted after some writes arrives, every byte of those writes is
 * visible to the peer's processors (an acquire at the poll that returns it pairs with everything before the post). Notifies and
 * messages of an endpoint arrive in the order in which they were posted. Reads are not ordered with anything but their
 * own completion. Between endpoints there is no order.
 *
 * Completion. A completion says that the local buffer may be reused (write), or that the bytes have arrived (read). It never
 * says that the peer has seen anything: only a message or notify from the peer does.
 *
 * Failure. When a connection breaks, every flagged operation in flight completes with a negative status, then exactly
 * one STEPGATE_EVENT_DISCONNECTED arrives, and nothing after it; posting returns -STEPGATE_EPEER from then on. The endpoint
 * exists until endpoint_delete.
 */
#ifndef STEPGATE_TRANSPORT_H
#define STEPGATE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stepgate_transport_v1;

/*
 * Every object of a transport begins with this header; the implementation embeds it as its first member. `transport` is set by
 * the implementation and never changes; `user` belongs to the caller.
 */
struct stepgate_fabric {
    const struct stepgate_transport_v1 *transport;
    void *user;
    const char
        *device; /* "rxe0", "mlx5_0", or the name of the transport where there is no device; the fabric's */
};
struct stepgate_domain {
    const struct stepgate_transport_v1 *transport;
    void *user;
};
struct stepgate_region {
    const struct stepgate_transport_v1 *transport;
    void *user;
    void *address;   /* local address; set by region_new */
    uint64_t length; /* bytes */
};
struct stepgate_queue {
    const struct stepgate_transport_v1 *transport;
    void *user;
};
struct stepgate_listener {
    const struct stepgate_transport_v1 *transport;
    void *user;
};
struct stepgate_request {
    const struct stepgate_transport_v1 *transport;
    void *user;
};
struct stepgate_endpoint {
    const struct stepgate_transport_v1 *transport;
    void *user; /* set from the argument of endpoint_connect or endpoint_accept */
};
struct stepgate_remote {
    const struct stepgate_transport_v1 *transport;
    void *user;
    uint64_t length; /* bytes that may be reached */
    unsigned access; /* enum stepgate_access */
    void *mapped;    /* local address of the peer's memory where the transport maps it, else NULL */
};

/* What the peer may do with a region. */
enum stepgate_access { STEPGATE_ACCESS_READ = 1, STEPGATE_ACCESS_WRITE = 2 };

enum stepgate_capability {
    STEPGATE_CAN_MAP = 1,         /* remotes are mapped: loads and stores instead of read and write */
    STEPGATE_CAN_USE_CALLERS = 2, /* region_new takes memory of the caller's for peers' access */
    STEPGATE_CAN_IMMEDIATE = 4,   /* information: notify is write-with-immediate */
    STEPGATE_CAN_ATOMICS = 8      /* information: the device has atomics; nothing depends on it */
};

/* How a device's connection travels: information, nothing depends on it. What there is none of, or the device does not tell, is 0. */
struct stepgate_path {
    uint32_t port; /* of the device */
    uint32_t mtu_bytes;
    uint32_t gid_index;
    uint8_t gid[16];         /* of this end */
    uint64_t ack_timeout_ns; /* until a packet that is not acknowledged is sent again */
    uint32_t retries;        /* so many times */
    uint32_t rnr_retries;    /* where the peer was not ready to receive */
};

/* What an endpoint can carry. All limits are per endpoint, after both ends were taken into account. */
struct stepgate_capabilities {
    size_t size;
    unsigned can;             /* set of enum stepgate_capability */
    uint32_t inline_bytes;    /* largest write with STEPGATE_WRITE_INLINE; at least 64 */
    uint32_t operations;      /* writes, reads, notifies and messages taken before -STEPGATE_EAGAIN */
    uint32_t reads_in_flight; /* reads the device runs at once; more are queued */
    uint32_t message_bytes;   /* largest message; at least 1024 */
    uint64_t piece_bytes; /* a longer write or read is split into pieces of this size, inside the transport */
    char device[64];      /* e.g. "rxe0", "shm", "simulated" */
    struct stepgate_path path;
};

/* A region as it travels to the peer: opaque, fixed size, no pointers to follow. */
#define STEPGATE_DESCRIPTOR_BYTES 64
struct stepgate_descriptor {
    uint8_t bytes[STEPGATE_DESCRIPTOR_BYTES];
};

/* Bytes that travel with a connection request, its acceptance or refusal. */
#define STEPGATE_HELLO_BYTES 56

/* An address in text, with the terminating zero: "host:port", "[v6]:port". */
#define STEPGATE_ADDRESS_BYTES 128

enum stepgate_event_kind {
    STEPGATE_EVENT_NONE = 0,
    STEPGATE_EVENT_REQUEST = 1, /* listener, request, data/length = the peer's hello */
    STEPGATE_EVENT_CONNECTED =
        2, /* endpoint; data/length = the hello of the accepting side (active side only) */
    STEPGATE_EVENT_DISCONNECTED =
        3, /* endpoint, status, value = enum stepgate_end; for a refused connect data/length = the refuser's hello */
    STEPGATE_EVENT_COMPLETION = 4, /* endpoint, context, status */
    STEPGATE_EVENT_NOTIFY = 5,     /* endpoint, value */
    STEPGATE_EVENT_MESSAGE = 6,    /* endpoint, data/length */
    STEPGATE_EVENT_DEVICE =
        7 /* fabric-wide: status (0: worth a line, no more), why, remedy; without why, the text is that of stepgate_error_last() of the poller */
};

/* What is known of the end of a connection: `value` of its DISCONNECTED event. */
enum stepgate_end {
    STEPGATE_END_UNKNOWN = 0, /* the network, a device, or nobody knows */
    STEPGATE_END_CLOSED = 1,  /* the other side has closed it; of a process that is gone, its kernel has */
    STEPGATE_END_DIED = 2     /* the process at the other side is gone: it will not connect anew */
};

/* One event. data is valid until the next queue_poll of the same queue. */
struct stepgate_event {
    int kind;
    int status; /* 0, or a negative code */
    uint32_t value;
    uint32_t length;
    uint64_t context;
    const void *data;
    struct stepgate_endpoint *endpoint;
    struct stepgate_listener *listener;
    struct stepgate_request *request;
    const char *why,
        *remedy; /* in words, or NULL; of DISCONNECTED valid until the endpoint is deleted, of DEVICE until the next poll */
};

struct stepgate_fabric_options {
    size_t size;
    const char *address;    /* local address to use ("host" or "host:port"); NULL: any */
    const char *device;     /* device name; NULL: chosen by the address */
    int peer_timeout_ms;    /* a peer's hardware that does not answer for this long is gone; 0: 10,000 */
    int connect_timeout_ms; /* one attempt to connect; 0: 5,000 */
    uint32_t operations;    /* wanted depth per endpoint; 0: 256 */
    void *world;            /* simulated transport: the world and node to open; others: NULL */
    const char *
        peer; /* "host:port" of a peer: with neither address nor device, the device that has the route to it */
    uint32_t
        vector; /* verbs: completion vector (interrupt) of the first queue; each further queue takes the next one */
};

/* A range of memory that another driver has exported, for example that of a GPU. */
struct stepgate_dmabuf {
    int fd;          /* used during region_new alone */
    uint64_t offset; /* bytes into it */
};

struct stepgate_region_options {
    size_t size;
    unsigned
        access; /* the most that can be granted to peers; 0: local use only (source of writes, target of reads) */
    void *address;   /* memory of the caller's, or NULL: allocated, zeroed and pre-faulted by the transport */
    uint64_t length; /* bytes; > 0 */
    const struct stepgate_dmabuf *
        dmabuf; /* this instead of `address`, which is NULL; for local use only. The region's address is none of this process then. NULL: none */
};

enum stepgate_post_flag {
    STEPGATE_POST_COMPLETE = 1, /* deliver STEPGATE_EVENT_COMPLETION with the context */
    STEPGATE_WRITE_INLINE =
        2, /* the source is copied at once, need not be in a region, at most inline_bytes long */
    STEPGATE_POST_MORE =
        4 /* another operation of this endpoint follows at once: this one may be held back until it is posted, or until
                            * the queue is polled, so that the device is told of both in one call */
};

struct stepgate_transport_v1 {
    size_t size;
    const char *name; /* "shm", "verbs", "simulated" */

    /* fabric_open -- opens a device or the like. Errors: ENODEVICE, EADDRESS, ENOMEM, ELIMIT, ESYSTEM. */
    int (*fabric_open)(const struct stepgate_fabric_options *options, struct stepgate_fabric **out);
    /* fabric_delete -- everything made from it must be deleted before. Bounded. Sets NULL, safe on NULL. */
    void (*fabric_delete)(struct stepgate_fabric **fabric);

    int (*domain_new)(struct stepgate_fabric *fabric, struct stepgate_domain **out);
    void (*domain_delete)(struct stepgate_domain **domain);

    /* region_new -- memory for peers of the domain, or for local use. Errors: ENOTSUP (caller's memory, a dma-buf), EINVAL (no dma-buf, or not so long), ELIMIT (memlock), ENOMEM. */
    int (*region_new)(struct stepgate_domain *domain, const struct stepgate_region_options *options,
                      struct stepgate_region **out);
    /* region_delete -- after it returns no peer can write into the memory through the transport's device; a mapped peer keeps
     * its mapping of memory that nobody else uses any more. */
    void (*region_delete)(struct stepgate_region **region);

    /* queue_new -- room for the events of at least `endpoints` endpoints. Errors: ELIMIT, ENOMEM, ESYSTEM. */
    int (*queue_new)(struct stepgate_fabric *fabric, uint32_t endpoints, struct stepgate_queue **out);
    void (*queue_delete)(struct stepgate_queue **queue);
    /* queue_poll -- takes up to max events; returns their number, 0 if there is none. Never blocks. Also moves queued work on. */
    int (*queue_poll)(struct stepgate_queue *queue, struct stepgate_event *events, int max);
    /* queue_arm -- asks that queue_fd turns readable at the next event. Returns 0: armed, nothing pending, sleep now; 1: something
     * is pending, poll again first. */
    int (*queue_arm)(struct stepgate_queue *queue);
    /* queue_fd -- a descriptor to poll() for readability; the queue owns it. -1: this transport never sleeps (simulated). */
    int (*queue_fd)(struct stepgate_queue *queue);

    /* listener_new -- port 0 takes a free one. Errors: EBUSY (port in use), EADDRESS, ENODEVICE. */
    int (*listener_new)(struct stepgate_queue *queue, const char *address, struct stepgate_listener **out);
    /* listener_address -- the bound address as text. */
    int (*listener_address)(struct stepgate_listener *listener, char *text, size_t bytes);
    void (*listener_delete)(struct stepgate_listener **listener); /* refuses what was not taken yet */

    /* endpoint_connect -- starts to connect; the answer is CONNECTED, or DISCONNECTED with EREFUSED, EUNREACHABLE, ... within
     * connect_timeout_ms. hello: at most STEPGATE_HELLO_BYTES. The active side sends first. */
    int (*endpoint_connect)(struct stepgate_queue *queue, struct stepgate_domain *domain, const char *address,
                            const void *hello, uint32_t hello_bytes, void *user,
                            struct stepgate_endpoint **out);
    /* endpoint_accept -- consumes the request, whatever is returned; CONNECTED follows on `queue` (or DISCONNECTED). */
    int (*endpoint_accept)(struct stepgate_request *request, struct stepgate_queue *queue,
                           struct stepgate_domain *domain, const void *hello, uint32_t hello_bytes,
                           void *user, struct stepgate_endpoint **out);
    /* request_refuse -- consumes the request; the hello reaches the other side with its DISCONNECTED event. */
    void (*request_refuse)(struct stepgate_request *request, const void *hello, uint32_t hello_bytes);
    /* endpoint_delete -- bounded (100 ms at the very most), whatever the peer does: after it returns, no event of this endpoint arrives
     * and the peer can write nothing through it. Work in flight is abandoned. Remotes that were imported over it stay as they are. */
    void (*endpoint_delete)(struct stepgate_endpoint **endpoint);
    int (*endpoint_capabilities)(struct stepgate_endpoint *endpoint, struct stepgate_capabilities *out);
    /* endpoint_trouble -- what the device has counted of trouble at this endpoint's port since the fabric was opened (packets sent again, out of sequence, ...), in words that can be put behind
     * those of an error; "" where there was none, or nothing is counted. Also of an endpoint that is broken. bytes > 0; the text is cut to them. */
    void (*endpoint_trouble)(const struct stepgate_endpoint *endpoint, char *text, size_t bytes);

    /* endpoint_export -- grants the region (or less than its access) to this peer; the descriptor is of use to this peer only,
     * who imports it over its end of this same endpoint. What a descriptor needs beside itself (a file descriptor) is sent here,
     * ahead of anything posted later. Errors: EACCESS (other domain, or more than the region has), EAGAIN (no room to send). */
    int (*endpoint_export)(struct stepgate_endpoint *endpoint, struct stepgate_region *region,
                           unsigned access, struct stepgate_descriptor *out);
    /* endpoint_import -- makes a peer's descriptor usable, on every endpoint to the same peer whose far end is in the region's domain: those that are made
     * later, too, and if this one is gone, as long as the region is there.
     * Every field is checked. Errors: EAGAIN (its file descriptor is still under way), EPEER (the peer is gone, or has taken the memory back), EPROTOCOL (no valid descriptor), EACCESS. */
    int (*endpoint_import)(struct stepgate_endpoint *endpoint, const struct stepgate_descriptor *descriptor,
                           struct stepgate_remote **out);
    void (*remote_delete)(struct stepgate_remote **remote);

    /*
     * Posting. All return 0, -STEPGATE_EAGAIN (queues full: poll, then repeat), -STEPGATE_EPEER (disconnected),
     * -STEPGATE_EACCESS (outside the remote, or not granted; the connection is unharmed), -STEPGATE_EINVAL. Any length, also
     * 0 (completes like any other); longer than a device's largest message is split inside. Local memory: within `local`
     * at local_offset; for STEPGATE_WRITE_INLINE local is NULL and `local_offset` ignored, `data` is the source.
     */
    int (*endpoint_write)(struct stepgate_endpoint *endpoint, struct stepgate_region *local,
                          uint64_t local_offset, const void *data, struct stepgate_remote *remote,
                          uint64_t remote_offset, uint64_t length, unsigned flags, uint64_t context);
    int (*endpoint_read)(struct stepgate_endpoint *endpoint, struct stepgate_region *local,
                         uint64_t local_offset, struct stepgate_remote *remote, uint64_t remote_offset,
                         uint64_t length, unsigned flags, uint64_t context);
    /* endpoint_notify -- a 32-bit value, delivered after every earlier write of this endpoint is visible to the peer. */
    int (*endpoint_notify)(struct stepgate_endpoint *endpoint, uint32_t value);
    /* endpoint_send -- a message of 1..message_bytes bytes, copied. */
    int (*endpoint_send)(struct stepgate_endpoint *endpoint, const void *data, uint32_t length);
};

/*
 * stepgate_transport_register -- makes a transport of somebody else's known to this process, under its name: the knob `transport` takes it from then on, here and so for
 * the jobs and servers of this process; every process of a job must know it. The table, its name and its functions must live as long as the process. Registering the same table again is
 * nothing new. It must keep the promises above: stepgate-conformance --transport NAME --transport-library FILE tests them. A ps listens with it as with verbs: with a secret, or insecure=on.
 * Errors: EINVAL (the size, the name, a function that is NULL), EALREADY (the name is taken), ELIMIT. Thread-safe.
 */
int stepgate_transport_register(const struct stepgate_transport_v1 *table);
/* stepgate_transport_find -- the table of "shm", "verbs", or of one that was registered: for programs that move bytes without a job. Errors: ENOENT, EINVAL. Thread-safe. */
int stepgate_transport_find(const char *name, const struct stepgate_transport_v1 **table);

#ifdef __cplusplus
}
#endif
#endif
