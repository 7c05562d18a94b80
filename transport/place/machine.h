/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * machine -- the part of this machine that the process may use: its NUMA nodes, and the cores on which it may run, read with hwloc and
 * cut down to the set of processors that the calling thread has inherited (taskset, a batch system, a container).
 */
#ifndef TRANSPORT_PLACE_MACHINE_H
#define TRANSPORT_PLACE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

struct machine_node {
    unsigned number; /* the system's */
    unsigned cores;  /* usable */
    uint64_t bytes;  /* of memory */
};

/* A core with at least one processor that may be used; its processors are those from `first` on in `cpus`. */
struct machine_core {
    unsigned node; /* place in `nodes` */
    unsigned first, count;
};

struct machine {
    struct machine_node *nodes; /* by number */
    struct machine_core *cores; /* as hwloc numbers them: neighbours are near */
    unsigned *cpus;             /* the system's numbers */
    unsigned node_count, core_count, cpu_count;
    unsigned
        at_once; /* processors that may be used at once: a control group's quota may be less than cpu_count */
    void *topology; /* hwloc's */
    bool real;      /* false: described by a text, so that nothing can be bound to it */
};

/* machine_new -- synthetic: hwloc's description of another machine ("node:2 core:4 pu:1"), for tests and drawings; NULL: this one (or what
 * hwloc's own variables say, such as HWLOC_SYNTHETIC). Errors: EINVAL (description), ENOMEM, ESYSTEM. */
int machine_new(const char *synthetic, struct machine **out);
/* machine_delete -- sets NULL, safe on NULL. */
void machine_delete(struct machine **machine);
/* machine_node_of -- the place of the node with the system's number; -1: there is none. */
int machine_node_of(const struct machine *machine, int number);
/* machine_core_of -- the place of the core of a processor; -1: it may not be used. */
int machine_core_of(const struct machine *machine, unsigned cpu);

#endif
