/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/place/layout.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"
#include "transport/place/cpus.h"

#define LAYOUT_NODE "node:"
#define LAYOUT_REMEDY "give auto, none, node:N, or a list such as 0-3,8"

/* layout_node -- the number behind "node:"; -1: it is no such text. */
static int layout_node(const char *bind)
{
    size_t prefix = sizeof(LAYOUT_NODE) - 1, digits;

    if (strncmp(bind, LAYOUT_NODE, prefix) != 0)
        return -1;
    digits = strspn(bind + prefix, "0123456789");
    return digits > 0 && digits < 6 && bind[prefix + digits] == '\0' ? atoi(bind + prefix) : -1;
}

/* layout_is_list -- hwloc takes an open range (0-) and stops at what it does not know, so the characters and the end are looked at here. */
static bool layout_is_list(const char *bind)
{
    size_t n = strlen(bind);

    return n > 0 && strspn(bind, "0123456789,-") == n && bind[n - 1] >= '0';
}

/* layout_check -- see layout.h. */
bool layout_check(const char *bind)
{
    return strcmp(bind, "auto") == 0 || strcmp(bind, "none") == 0 || layout_node(bind) >= 0 ||
           layout_is_list(bind);
}

/* layout_new -- with nothing chosen. */
static int layout_new(const struct machine *machine, const struct layout_wish *wish, unsigned lanes,
                      struct layout **out)
{
    struct layout *layout = calloc(1, sizeof(*layout));
    unsigned servers = wish->servers > 0 ? wish->servers : 1;

    if (layout == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a layout");
    layout->servers = servers;
    layout->lanes = lanes;
    layout->workers = wish->workers;
    layout->lane_cpus = calloc((size_t)servers * lanes, sizeof(*layout->lane_cpus));
    layout->memory = calloc(servers, sizeof(*layout->memory));
    layout->worker_cpus = calloc(machine->cpu_count + 1u, sizeof(*layout->worker_cpus));
    layout->worker_first = calloc((size_t)wish->workers + 1, sizeof(*layout->worker_first));
    if (layout->lane_cpus == NULL || layout->memory == NULL || layout->worker_cpus == NULL ||
        layout->worker_first == NULL) {
        layout_delete(&layout);
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a layout");
    }
    for (unsigned s = 0; s < servers; s++)
        layout->memory[s] = -1;
    *out = layout;
    return 0;
}

/* layout_delete -- see layout.h. */
void layout_delete(struct layout **layout)
{
    if (*layout == NULL)
        return;
    free((*layout)->lane_cpus);
    free((*layout)->memory);
    free((*layout)->worker_cpus);
    free((*layout)->worker_first);
    free(*layout);
    *layout = NULL;
}

/* layout_busiest -- the node with the most usable cores. */
static unsigned layout_busiest(const struct machine *machine)
{
    unsigned most = 0;

    for (unsigned n = 1; n < machine->node_count; n++)
        if (machine->nodes[n].cores > machine->nodes[most].cores)
            most = n;
    return most;
}

/* layout_home -- the place of the node to be near to, and why; -1: none is better than another. *sure: memory belongs there even if nothing is pinned. */
static int layout_home(const struct machine *machine, const struct layout_wish *wish, bool *sure, char *why,
                       size_t bytes)
{
    int forced = layout_node(wish->bind), home;
    char device[128] = "";

    *sure = true;
    if (forced >= 0) {
        snprintf(why, bytes, "node %d was asked for", forced);
        return machine_node_of(machine, forced);
    }
    if (wish->nic != NULL)
        nic_describe(wish->nic, device, sizeof(device));
    home = wish->nic != NULL ? machine_node_of(machine, wish->nic->node) : -1;
    if (home >= 0 && machine->nodes[home].cores > 0) {
        snprintf(why, bytes, "node %u is that of %s", machine->nodes[home].number, device);
        return home;
    }
    *sure = false;
    if (machine->node_count == 1) {
        if (wish->nic != NULL)
            snprintf(why, bytes, "node %u is the only one", machine->nodes[0].number);
        else
            snprintf(why, bytes, "there is one node, and no RDMA device to be near");
        return wish->nic != NULL ? 0 : -1;
    }
    unsigned most = layout_busiest(machine);
    if (home >= 0)
        snprintf(why, bytes, "%s is at node %d, of which no processor may be used here: node %u has most",
                 device, wish->nic->node, machine->nodes[most].number);
    else if (wish->nic != NULL)
        snprintf(why, bytes, "%s does not say at which node it is: node %u has most of the usable cores",
                 device, machine->nodes[most].number);
    else
        snprintf(why, bytes, "no RDMA device to be near: node %u has most of the usable cores",
                 machine->nodes[most].number);
    return (int)most;
}

/* layout_sort -- cores: those of the home node, then the others, each in hwloc's order. */
static unsigned *layout_sort(const struct machine *machine, unsigned home)
{
    unsigned *order = calloc(machine->core_count + 1u, sizeof(*order)), n = 0;

    for (int pass = 0; order != NULL && pass < 2; pass++)
        for (unsigned c = 0; c < machine->core_count; c++)
            if ((machine->cores[c].node == home) == (pass == 0))
                order[n++] = c;
    return order;
}

/* layout_order -- for qsort. */
static int layout_order(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

    return x < y ? -1 : x > y;
}

/* layout_divide -- whole cores to `workers` workers from `rank` on, neighbours together, as equal as it goes. */
static void layout_divide(const struct machine *machine, struct layout *layout, const unsigned *cores,
                          unsigned count, unsigned rank, unsigned workers)
{
    for (unsigned w = 0; w < workers; w++) {
        unsigned used = layout->worker_first[rank + w], first = used;
        unsigned end = (unsigned)((uint64_t)(w + 1) * count / workers);
        for (unsigned i = (unsigned)((uint64_t)w * count / workers); i < end; i++) {
            const struct machine_core *core = &machine->cores[cores[i]];
            memcpy(layout->worker_cpus + used, machine->cpus + core->first,
                   core->count * sizeof(*machine->cpus));
            used += core->count;
        }
        qsort(layout->worker_cpus + first, used - first, sizeof(*layout->worker_cpus), layout_order);
        layout->worker_first[rank + w + 1] = used;
    }
}

/* layout_share -- no worker's cores lie on two nodes: each node takes workers in the measure of its cores, of which there are enough in all. */
static void layout_share(const struct machine *machine, struct layout *layout, const unsigned *cores,
                         unsigned count)
{
    unsigned rank = 0, end;

    for (unsigned first = 0; first < count && rank < layout->workers; first = end) {
        unsigned left = count - first, todo = layout->workers - rank;
        for (end = first + 1;
             end < count && machine->cores[cores[end]].node == machine->cores[cores[first]].node;)
            end++;
        unsigned size = end - first, least = todo > left - size ? todo - (left - size) : 0;
        unsigned take = (unsigned)(((uint64_t)todo * size + left / 2) / left);
        take = take < least ? least : take > size ? size : take;
        take = take > todo ? todo : take;
        layout_divide(machine, layout, cores + first, size, rank, take);
        rank += take;
    }
}

/* layout_remember -- memory on the node of the ps's first lane: that is where the thread that takes it runs. */
static void layout_remember(const struct machine *machine, struct layout *layout)
{
    for (unsigned s = 0; machine->node_count > 1 && s < layout->servers; s++) {
        int core = machine_core_of(machine, layout->lane_cpus[s * layout->lanes]);
        if (core >= 0)
            layout->memory[s] = (int)machine->nodes[machine->cores[core].node].number;
    }
}

/* layout_pin -- lanes first, workers behind them. */
static int layout_pin(const struct machine *machine, struct layout *layout, unsigned home)
{
    unsigned lanes = layout->servers * layout->lanes, beside = machine->nodes[home].cores;
    unsigned *order = layout_sort(machine, home);

    if (order == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a layout");
    for (unsigned l = 0; l < lanes; l++)
        layout->lane_cpus[l] = machine->cpus[machine->cores[order[l]].first];
    layout_share(machine, layout, order + lanes, machine->core_count - lanes);
    layout->pinned = true;
    layout_remember(machine, layout);
    size_t used = strlen(layout->why);
    if (lanes > beside)
        snprintf(layout->why + used, sizeof(layout->why) - used, "; %u of %u lanes find no core there",
                 lanes - beside, lanes);
    free(order);
    return 0;
}

/* layout_few -- says why nothing is pinned; memory lies beside the device all the same. */
static void layout_few(const struct machine *machine, struct layout *layout, unsigned cores, int home)
{
    char near[sizeof(layout->why)];

    snprintf(near, sizeof(near), "%s", layout->why);
    snprintf(layout->why, sizeof(layout->why),
             "nothing is pinned, for there %s %u core%s for %u lane%s and %u worker%s%s%.120s",
             cores == 1 ? "is" : "are", cores, cores == 1 ? "" : "s", layout->servers * layout->lanes,
             layout->servers * layout->lanes == 1 ? "" : "s", layout->workers,
             layout->workers == 1 ? "" : "s", home >= 0 ? "; " : "", home >= 0 ? near : "");
    for (unsigned s = 0; home >= 0 && machine->node_count > 1 && s < layout->servers; s++)
        layout->memory[s] = (int)machine->nodes[home].number;
}

/* layout_near -- auto and node:N. */
static int layout_near(const struct machine *machine, const struct layout_wish *wish, struct layout *layout)
{
    bool sure;
    int home = layout_home(machine, wish, &sure, layout->why, sizeof(layout->why));
    int forced = layout_node(wish->bind);
    uint64_t needed = (uint64_t)layout->servers * layout->lanes + layout->workers;
    unsigned cores = machine->core_count < machine->at_once ? machine->core_count : machine->at_once;

    if (forced >= 0 && (home < 0 || machine->nodes[home].cores == 0))
        return error_set(STEPGATE_EINVAL, 0,
                         "name a node with processors that this process may use (stepgate-perf topology)",
                         "bind: node %d %s", forced,
                         home < 0 ? "is not on this machine" : "has no processor that may be used");
    if (home < 0)
        return 0;
    if (needed > cores) {
        layout_few(machine, layout, cores, sure ? home : -1);
        return 0;
    }
    return layout_pin(machine, layout, (unsigned)home);
}

/* layout_others -- cores of which no processor is in a list go to the workers, if there are enough. */
static int layout_others(const struct machine *machine, struct layout *layout, const unsigned *list,
                         unsigned count)
{
    unsigned *others = calloc(machine->core_count + 1u, sizeof(*others)), n = 0;

    if (others == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a layout");
    for (unsigned c = 0; c < machine->core_count; c++) {
        bool free_core = true;
        for (unsigned i = 0; i < count; i++)
            free_core = free_core && machine_core_of(machine, list[i]) != (int)c;
        if (free_core)
            others[n++] = c;
    }
    if (n >= layout->workers)
        layout_share(machine, layout, others, n);
    free(others);
    return 0;
}

/* layout_list -- the processors of a list, all of which must be usable; *count of them are put into `list`. */
static int layout_list(const struct machine *machine, const char *bind, unsigned *list, unsigned *count)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    char allowed[128];
    int code = 0;

    if (set == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a set of processors");
    if (hwloc_bitmap_list_sscanf(set, bind) != 0 || hwloc_bitmap_iszero(set))
        code = error_set(STEPGATE_EINVAL, 0, LAYOUT_REMEDY, "bind: '%.64s' is no list of processors", bind);
    *count = 0;
    for (int cpu = hwloc_bitmap_first(set); code == 0 && cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
        if (machine_core_of(machine, (unsigned)cpu) >= 0) {
            list[(*count)++] = (unsigned)cpu;
            continue;
        }
        unsigned *usable = calloc(machine->cpu_count + 1u, sizeof(*usable));
        if (usable != NULL) {
            memcpy(usable, machine->cpus, machine->cpu_count * sizeof(*usable));
            qsort(usable, machine->cpu_count, sizeof(*usable), layout_order);
            cpus_text(usable, machine->cpu_count, allowed, sizeof(allowed));
        }
        code = error_set(STEPGATE_EINVAL, 0, "name allowed processors only",
                         "bind: '%.64s' holds a processor that this process may not use; allowed: %s", bind,
                         usable != NULL ? allowed : "?");
        free(usable);
    }
    hwloc_bitmap_free(set);
    return code;
}

/* layout_listed -- a list of processors: lanes in turn. */
static int layout_listed(const struct machine *machine, const struct layout_wish *wish, struct layout **out)
{
    unsigned *list = calloc(machine->cpu_count + 1u, sizeof(*list)), count = 0;
    struct layout *layout = NULL;
    int code = list == NULL ? error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a layout")
                            : layout_list(machine, wish->bind, list, &count);

    if (code == 0)
        code = layout_new(machine, wish, wish->lanes > 0 ? wish->lanes : count, &layout);
    if (code == 0)
        code = layout_others(machine, layout, list, count);
    if (code < 0) {
        layout_delete(&layout);
        free(list);
        return code;
    }
    for (unsigned l = 0; l < layout->servers * layout->lanes; l++)
        layout->lane_cpus[l] = list[l % count];
    layout->pinned = true;
    layout_remember(machine, layout);
    snprintf(layout->why, sizeof(layout->why), "these processors were asked for");
    free(list);
    *out = layout;
    return 0;
}

/* layout_lanes -- where their number is not said, a node that is asked for gets one for each of its cores. */
static unsigned layout_lanes(const struct machine *machine, const struct layout_wish *wish)
{
    int node = machine_node_of(machine, layout_node(wish->bind));

    if (wish->lanes > 0)
        return wish->lanes;
    return node >= 0 && machine->nodes[node].cores > 0 ? machine->nodes[node].cores : 1;
}

/* layout_choose -- see layout.h. */
int layout_choose(const struct machine *machine, const struct layout_wish *wish, struct layout **out)
{
    struct layout *layout = NULL;

    if (!layout_check(wish->bind))
        return error_set(STEPGATE_EINVAL, 0, LAYOUT_REMEDY, "bind: '%.64s' is no list of processors",
                         wish->bind);
    if (layout_is_list(wish->bind))
        return layout_listed(machine, wish, out);
    int code = layout_new(machine, wish, layout_lanes(machine, wish), &layout);
    if (code == 0 && strcmp(wish->bind, "none") == 0)
        snprintf(layout->why, sizeof(layout->why), "nothing was to be pinned");
    else if (code == 0)
        code = layout_near(machine, wish, layout);
    if (code < 0) {
        layout_delete(&layout);
        return code;
    }
    *out = layout;
    return 0;
}
