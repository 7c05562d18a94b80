/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region -- registered memory. One registration serves local use; each set of rights granted to peers has one of its own, so that a key
 * given away grants no more than it says (on iWARP the target of a read needs remote write: that key is never given away).
 */
#ifndef TRANSPORT_VERBS_REGION_H
#define TRANSPORT_VERBS_REGION_H

#include <pthread.h>

#include "stepgate/transport.h"
#include "transport/verbs/device.h"

struct region {
    struct stepgate_region base;
    struct domain *domain;
    unsigned access;
    size_t mapped;             /* bytes to unmap; 0: the caller's memory */
    struct ibv_mr *local;      /* for local use */
    struct ibv_mr *granted[4]; /* by enum stepgate_access; may be == local */
    pthread_mutex_t lock;      /* granted[] is filled by whichever thread exports first */
};

/* A peer's region. */
struct remote {
    struct stepgate_remote base;
    uint64_t address;
    uint32_t rkey;
};

int region_new(struct stepgate_domain *domain, const struct stepgate_region_options *options,
               struct stepgate_region **out);
void region_delete(struct stepgate_region **region);
/* region_export -- the descriptor that grants `access`, a part of the region's own. Errors: EACCESS, ELIMIT, ENOMEM, ESYSTEM. */
int region_export(struct region *region, unsigned access, struct stepgate_descriptor *out);
/* region_import -- a remote from a peer's descriptor. Errors: EPROTOCOL, ENOMEM. */
int region_import(const struct stepgate_descriptor *descriptor, struct stepgate_remote **out);
void region_remote_delete(struct stepgate_remote **remote);

#endif
