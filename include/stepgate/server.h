/* SPDX-License-Identifier: BSD-3-Clause */
/* SERVER -- a ps inside any process. */
#ifndef STEPGATE_SERVER_H
#define STEPGATE_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "stepgate/option.h"

struct stepgate_server;

/*
 * stepgate_server_check -- looks whether the system's limits are large enough for a ps with these options (descriptors; of an RDMA device queue pairs, memory regions and memory that may be
 * locked), without listening; `tell` gets a line for each, with what is needed and what there is. stepgate_server_new looks at the same ones. What a model needs is known, and
 * looked at, when it is declared. Errors: ELIMIT (of the first that is too small), and those of stepgate_server_new.
 */
int stepgate_server_check(const struct stepgate_options *options,
                          void (*tell)(void *context, const char *line), void *context);

/* stepgate_server_new -- listens (options: ps_hosts, worker_hosts or workers, task_index, listen, ...). Errors: EBUSY (port in use), EADDRESS, ENODEVICE, EINVAL, ELIMIT (a limit of the system is too small: both numbers). */
int stepgate_server_new(const struct stepgate_options *options, struct stepgate_server **server);
/* stepgate_server_run -- serves until the job ends (0), is stopped (0, where it has not failed before), or fails (EJOIN, ELOST, ...). EFORKED in a child after fork. With the option lost_ps=rewind (which needs
 * checkpoint) the loss of another ps does not end it: it lets everything go, listens again at the same address, waits join_timeout for everybody, and goes on from the newest checkpoint. */
int stepgate_server_run(struct stepgate_server *server);
/* stepgate_server_stop -- async-signal-safe; run returns soon. */
void stepgate_server_stop(struct stepgate_server *server);
/* stepgate_server_address -- the address workers connect to, as text. */
int stepgate_server_address(const struct stepgate_server *server, char *text, size_t bytes);

struct stepgate_server_stats {
    size_t size;    /* set by the caller: sizeof(struct stepgate_server_stats) */
    uint64_t steps; /* steps applied, over all models, since it listens or went back to a checkpoint */
    uint64_t bytes_promised; /* memory that the formula gives; 0 before a model is there */
    uint64_t bytes_registered;
    uint32_t workers; /* connected now */
};
int stepgate_server_stats(const struct stepgate_server *server, struct stepgate_server_stats *stats);
/* stepgate_server_delete -- bounded; sets NULL. */
void stepgate_server_delete(struct stepgate_server **server);

#ifdef __cplusplus
}
#endif
#endif
