/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * suite -- what the promises of the transport contract are tested with. A party stands for a process: a fabric, a domain and a queue.
 * All parties of a run live in this process and are polled in turn by suite_progress(); on the simulated transport that also moves
 * the world on. An end is one side of a connection together with everything that has arrived there.
 */
#ifndef TESTS_CONFORMANCE_SUITE_H
#define TESTS_CONFORMANCE_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "stepgate/transport.h"
#include "transport/base/random.h"
#include "transport/simulated/world.h"

#define SUITE_PARTIES 4
#define SUITE_REQUESTS 128
#define SUITE_REGIONS 128
#define SUITE_REMOTES 16
#define SUITE_LEFT_OUT 1 /* a promise that has no meaning here; suite.why says why */

struct suite {
    const struct stepgate_transport_v1 *transport;
    const char *host;    /* where listeners are made; NULL: the transport's own */
    const char *library; /* the shared object that the transport came from; NULL: it is the library's own */
    const char *self;    /* path of this program */
    bool quick, simulated;
    bool soft; /* verbs: counts are cut, since the device may be software in an emulated machine */
    uint64_t seed;
    bool mapped; /* simulated: remotes are mapped */
    struct random_source random;
    struct world *world; /* simulated only */
    struct party *parties[SUITE_PARTIES];
    uint32_t party_count, node_count;
    uint64_t deadline;
    uint32_t idle;
    uint32_t ghosts; /* events of endpoints that were deleted: never allowed */
    char why[512];
};

struct party {
    struct suite *suite;
    struct world_node *node; /* simulated only */
    struct stepgate_fabric *fabric;
    struct stepgate_domain *domain;
    struct stepgate_queue *queue;
    struct stepgate_listener *listener;
    char address[STEPGATE_ADDRESS_BYTES];
    bool frozen; /* not polled */
    struct {
        struct stepgate_request *request;
        uint8_t hello[256];
        uint32_t hello_bytes;
    } requests[SUITE_REQUESTS]; /* not answered yet */
    uint32_t request_count;
    struct end *ends;              /* of this party, linked */
    struct stepgate_domain *other; /* a second domain, or NULL */
    struct stepgate_region *regions[SUITE_REGIONS];
    uint32_t region_count;
};

struct arrival {
    int kind; /* STEPGATE_EVENT_NOTIFY or _MESSAGE */
    uint32_t value, length;
    uint8_t *data; /* of a message, owned */
};

struct completion {
    uint64_t context;
    int status;
};

struct end {
    struct party *party;
    struct end *next;
    struct stepgate_endpoint *endpoint;
    bool deleted;
    uint32_t connected, disconnected, late; /* late: events after DISCONNECTED */
    int status;                             /* of DISCONNECTED */
    char text[512];                         /* last error of the poller when DISCONNECTED came */
    uint8_t hello[256];
    uint32_t hello_bytes;
    struct arrival *arrivals;
    uint32_t arrival_count, arrival_room;
    struct stepgate_remote *remotes[SUITE_REMOTES]; /* imported over this end */
    uint32_t remote_count;
    struct completion *completions;
    uint32_t completion_count, completion_room;
    void (*on_notify)(struct end *end, uint32_t value); /* called at once when it arrives */
    void *context;
};

/* A connection between two parties: [0] is the active side. */
struct link {
    struct end *end[2];
};

struct promise {
    const char *name;
    int (*run)(struct suite *suite); /* 0: kept; SUITE_LEFT_OUT; negative: broken, suite->why says how */
    bool once;                       /* simulated: one seed is enough */
};

extern const struct promise suite_promises[];

/* suite_fail -- notes why a promise is broken; returns -1. */
int suite_fail(struct suite *suite, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* suite_left_out -- notes why a promise has no meaning here. */
int suite_left_out(struct suite *suite, const char *why);

#define CHECK(suite, condition, ...)                                                                         \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return suite_fail((suite), __FILE__, __LINE__, __VA_ARGS__);                                     \
    } while (0)
/* UNTIL -- makes progress until the condition holds or the time is over. */
#define UNTIL(suite, condition, ms)                                                                          \
    for (suite_clock((suite), (ms)); !(condition) && suite_progress(suite);)                                 \
    continue
/* POST -- repeats a call while it says -STEPGATE_EAGAIN. */
#define POST(suite, rc, call)                                                                                \
    for (suite_clock((suite), 20000); ((rc) = (call)) == -STEPGATE_EAGAIN && suite_progress(suite);)         \
    continue

/* suite_clock -- starts a time limit for suite_progress. */
void suite_clock(struct suite *suite, int ms);
/* suite_progress -- polls every party; false when the time limit has passed. */
bool suite_progress(struct suite *suite);
/* suite_now -- nanoseconds, real or virtual. */
uint64_t suite_now(const struct suite *suite);
/* suite_settle -- progress for a while. */
void suite_settle(struct suite *suite, int ms);
/* suite_begin, suite_end -- around each run of a promise: makes the world, deletes what a failed promise left behind. */
int suite_begin(struct suite *suite);
int suite_end(struct suite *suite);
/* suite_error -- the text of the last error of this thread. */
const char *suite_error(void);
/* suite_fill, suite_differs -- a pattern that depends on a key and the position; differs returns the first wrong position, or -1. */
void suite_fill(void *bytes, uint64_t length, uint64_t key);
int64_t suite_differs(const void *bytes, uint64_t length, uint64_t key);

/* party_open -- a fabric, a domain and a queue, with default options but those given (0: default). */
int party_open(struct suite *suite, uint32_t operations, int connect_timeout_ms, struct party **out);
/* party_listen -- makes the party's listener at a free port. */
int party_listen(struct party *party);
/* party_close -- deletes the party with everything it still has. */
void party_close(struct party *party);
/* party_region -- a region that the transport allocates; deleted with the party. */
int party_region(struct party *party, unsigned access, uint64_t length, struct stepgate_region **out);
/* party_region_of -- the same with memory of the caller's (or NULL) and in a domain of one's choice. */
int party_region_of(struct party *party, struct stepgate_domain *domain, unsigned access, void *address,
                    uint64_t length, struct stepgate_region **out);
/* party_region_delete -- deletes one before its party. */
void party_region_delete(struct party *party, struct stepgate_region *region);
/* party_other_domain -- makes the second domain. */
int party_other_domain(struct party *party);

/* end_connect -- starts to connect; the end is the party's. */
int end_connect(struct party *party, const char *address, const void *hello, uint32_t hello_bytes,
                struct end **out);
/* end_accept -- accepts the party's oldest request. */
int end_accept(struct party *party, const void *hello, uint32_t hello_bytes, struct end **out);
/* party_take_request -- takes the oldest request away without answering it. */
struct stepgate_request *party_take_request(struct party *party);
/* end_delete -- deletes the endpoint and its remotes; the end stays, to notice events that must not come. */
void end_delete(struct end *end);
/* end_count -- arrivals of a kind. */
uint32_t end_count(const struct end *end, int kind);
/* end_completed -- completions of a context. */
uint32_t end_completed(const struct end *end, uint64_t context);

/* link_open -- connects a to b (which gets a listener if it has none). */
int link_open(struct party *a, struct party *b, struct link *out);
/* link_grant -- exports a region from one end and imports it at the other, where the remote is deleted with the end. */
int link_grant(struct end *from, struct stepgate_region *region, unsigned access, struct end *to,
               struct stepgate_remote **out);
/* end_can -- the capabilities of an endpoint. */
struct stepgate_capabilities end_can(const struct end *end);

/* peer -- a process of its own: connects, grants a region, then takes what comes. Not for the simulated transport. */
struct peer {
    int pid;
    struct end *end;                /* our side */
    struct stepgate_remote *remote; /* 1 MiB of the peer's, readable and writable */
};
int peer_start(struct suite *suite, struct party *party, struct peer *out);
void peer_stop(struct peer *peer);
/* peer_main -- what the process does; returns its exit status. */
int peer_main(struct suite *suite, const char *address);

#define PEER_BYTES (1 << 20)

#endif
