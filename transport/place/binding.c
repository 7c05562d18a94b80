/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/place/binding.h"

#include <errno.h>
#include <hwloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"
#include "transport/place/cpus.h"

struct binding {
    struct machine *machine; /* NULL: nothing is bound */
    struct layout *layout;   /* likewise */
    unsigned server;
    char text[64]; /* the knob's */
};

struct binding_past {
    hwloc_bitmap_t cpus;
    bool memory; /* was wherever the system puts it */
};

/* binding_choose -- nothing is read of the machine if nothing is to be bound. */
int binding_choose(const struct layout_wish *wish, unsigned server, struct binding **out)
{
    struct binding *binding = calloc(1, sizeof(*binding));
    int code = 0;

    if (binding == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a binding");
    snprintf(binding->text, sizeof(binding->text), "%.63s", wish->bind);
    binding->server = server;
    if (strcmp(wish->bind, "none") != 0)
        code = machine_new(NULL, &binding->machine);
    if (binding->machine != NULL)
        code = layout_choose(binding->machine, wish, &binding->layout);
    if (code < 0) {
        binding_delete(&binding);
        return code;
    }
    *out = binding;
    return 0;
}

/* binding_new -- as many lanes as there are processors to choose from. */
int binding_new(const char *text, struct binding **out)
{
    const struct layout_wish wish = {.bind = text, .servers = 1};

    return binding_choose(&wish, 0, out);
}

/* binding_delete -- sets NULL. */
void binding_delete(struct binding **binding)
{
    if (*binding == NULL)
        return;
    layout_delete(&(*binding)->layout);
    machine_delete(&(*binding)->machine);
    free(*binding);
    *binding = NULL;
}

/* binding_pins -- are threads bound? */
static bool binding_pins(const struct binding *binding)
{
    return binding->layout != NULL && binding->layout->pinned;
}

/* binding_cpus -- of the lanes of this ps. */
static const unsigned *binding_cpus(const struct binding *binding)
{
    return binding->layout->lane_cpus + binding->server % binding->layout->servers * binding->layout->lanes;
}

/* binding_node -- of its memory; -1: any. */
static int binding_node(const struct binding *binding)
{
    return binding->layout != NULL ? binding->layout->memory[binding->server % binding->layout->servers] : -1;
}

/* binding_apply -- binds the calling thread. */
int binding_apply(const struct binding *binding, unsigned index)
{
    if (!binding_pins(binding))
        return 0;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (set == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a set of processors");
    hwloc_bitmap_only(set, binding_cpus(binding)[index % binding->layout->lanes]);
    int status = hwloc_set_cpubind(binding->machine->topology, set, HWLOC_CPUBIND_THREAD);
    int os_errno = errno;
    hwloc_bitmap_free(set);
    if (status != 0)
        return error_set(STEPGATE_ESYSTEM, os_errno, "set bind=none",
                         "cannot bind thread %u to its processor", index);
    return 0;
}

/* binding_usual -- is the memory of the calling thread wherever the system puts it? */
static bool binding_usual(const struct binding *binding)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    hwloc_membind_policy_t policy = HWLOC_MEMBIND_BIND;
    bool usual = set != NULL &&
                 hwloc_get_membind(binding->machine->topology, set, &policy,
                                   HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) == 0 &&
                 (policy == HWLOC_MEMBIND_DEFAULT || policy == HWLOC_MEMBIND_FIRSTTOUCH);

    hwloc_bitmap_free(set);
    return usual;
}

/* binding_apply_memory -- without HWLOC_MEMBIND_STRICT another node is taken when this one is full. */
int binding_apply_memory(const struct binding *binding)
{
    int node = binding_node(binding), status, os_errno;

    if (node < 0 || !binding_usual(binding))
        return 0;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (set == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a set of nodes");
    hwloc_bitmap_only(set, (unsigned)node);
    status = hwloc_set_membind(binding->machine->topology, set, HWLOC_MEMBIND_BIND,
                               HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
    os_errno = errno;
    hwloc_bitmap_free(set);
    if (status == 0)
        return 0;
    return error_set(STEPGATE_ESYSTEM, os_errno,
                     "let the container use set_mempolicy, or set bind=none; the job goes on without it",
                     "cannot ask for memory on node %d", node);
}

/* binding_save -- see binding.h. */
struct binding_past *binding_save(const struct binding *binding)
{
    if (binding->machine == NULL)
        return NULL;
    struct binding_past *past = calloc(1, sizeof(*past));
    if (past == NULL)
        return NULL;
    past->cpus = hwloc_bitmap_alloc();
    if (past->cpus == NULL ||
        hwloc_get_cpubind(binding->machine->topology, past->cpus, HWLOC_CPUBIND_THREAD) != 0) {
        hwloc_bitmap_free(past->cpus);
        past->cpus = NULL;
    }
    past->memory = binding_node(binding) >= 0 && binding_usual(binding);
    return past;
}

/* binding_restore -- failures change nothing that counts. */
void binding_restore(const struct binding *binding, struct binding_past **past)
{
    if (*past == NULL)
        return;
    if ((*past)->cpus != NULL && binding_pins(binding))
        (void)hwloc_set_cpubind(binding->machine->topology, (*past)->cpus, HWLOC_CPUBIND_THREAD);
    if ((*past)->memory) {
        hwloc_const_nodeset_t all = hwloc_topology_get_topology_nodeset(binding->machine->topology);
        (void)hwloc_set_membind(binding->machine->topology, all, HWLOC_MEMBIND_DEFAULT,
                                HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
    }
    hwloc_bitmap_free((*past)->cpus);
    free(*past);
    *past = NULL;
}

/* binding_lanes -- the processors of its lanes, as text, in the order of the lanes. */
static void binding_lanes(const struct binding *binding, char *out, size_t bytes)
{
    cpus_text(binding_cpus(binding), binding->layout->lanes, out, bytes);
}

/* binding_describe -- for the log. */
void binding_describe(const struct binding *binding, char *out, size_t bytes)
{
    char list[96];
    bool named = strncmp(binding->text, "auto", 4) == 0 || strncmp(binding->text, "node", 4) == 0;

    if (!binding_pins(binding)) {
        snprintf(out, bytes, "none");
        return;
    }
    binding_lanes(binding, list, sizeof(list));
    if (named)
        snprintf(out, bytes, "%s (%s)", binding->text, list);
    else
        snprintf(out, bytes, "%s", list);
}

/* binding_explain -- for the log. */
void binding_explain(const struct binding *binding, char *out, size_t bytes)
{
    char list[96] = "", memory[32] = "any node";
    int node = binding_node(binding);

    if (binding->layout == NULL) {
        snprintf(out, bytes, "lanes on any processor, memory on any node: nothing was to be bound");
        return;
    }
    if (binding_pins(binding))
        binding_lanes(binding, list, sizeof(list));
    if (node >= 0)
        snprintf(memory, sizeof(memory), "node %d", node);
    else if (binding->machine->node_count == 1)
        snprintf(memory, sizeof(memory), "the only node");
    if (binding_pins(binding))
        snprintf(out, bytes, "lanes on processor%s %s, memory on %s: %s",
                 binding->layout->lanes > 1 ? "s" : "", list, memory, binding->layout->why);
    else
        snprintf(out, bytes, "lanes on any processor, memory on %s: %s", memory, binding->layout->why);
}
