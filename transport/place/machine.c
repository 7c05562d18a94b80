/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/place/machine.h"

#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>

#include "transport/base/error.h"
#include "transport/place/cpus.h"

/* machine_load -- without input and output devices: hwloc may look up their names in a large file. */
static int machine_load(const char *synthetic, hwloc_topology_t *out)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0)
        return error_set(STEPGATE_ENOMEM, errno, NULL, "cannot start reading the topology");
    if (synthetic != NULL && hwloc_topology_set_synthetic(topology, synthetic) != 0) {
        hwloc_topology_destroy(topology);
        return error_set(STEPGATE_EINVAL, 0, "such as node:2 core:4 pu:1",
                         "'%.64s' does not describe a machine", synthetic);
    }
    if (hwloc_topology_load(topology) != 0) {
        int os_errno = errno;
        hwloc_topology_destroy(topology);
        return error_set(STEPGATE_ESYSTEM, os_errno, "set bind=none",
                         "cannot read the topology of this machine");
    }
    *out = topology;
    return 0;
}

/* machine_usable -- what the thread may use, of what the machine has. */
static void machine_usable(const struct machine *machine, hwloc_bitmap_t set)
{
    hwloc_topology_t topology = machine->topology;

    if (!machine->real || hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_THREAD) != 0)
        hwloc_bitmap_copy(set, hwloc_topology_get_allowed_cpuset(topology));
    hwloc_bitmap_and(set, set, hwloc_topology_get_allowed_cpuset(topology));
}

/* machine_nodes -- all, by number, which is the order of their bits. */
static int machine_nodes(struct machine *machine)
{
    hwloc_topology_t topology = machine->topology;
    int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    hwloc_const_nodeset_t all = hwloc_topology_get_topology_nodeset(topology);

    machine->nodes = calloc(count > 0 ? (size_t)count : 1, sizeof(*machine->nodes));
    if (machine->nodes == NULL)
        return -1;
    for (int bit = hwloc_bitmap_first(all); bit >= 0; bit = hwloc_bitmap_next(all, bit)) {
        hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(topology, (unsigned)bit);
        if (node == NULL || machine->node_count == (unsigned)count)
            continue;
        machine->nodes[machine->node_count++] =
            (struct machine_node){.number = (unsigned)bit, .bytes = node->attr->numanode.local_memory};
    }
    return 0;
}

/* machine_core -- takes the usable processors of a core. */
static void machine_core(struct machine *machine, hwloc_obj_t object, hwloc_const_bitmap_t usable)
{
    struct machine_core core = {.first = machine->cpu_count};
    int node = machine_node_of(machine, hwloc_bitmap_first(object->nodeset));

    for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(object->cpuset, cpu))
        if (hwloc_bitmap_isset(usable, (unsigned)cpu))
            machine->cpus[machine->cpu_count++] = (unsigned)cpu;
    core.count = machine->cpu_count - core.first;
    core.node = node >= 0 ? (unsigned)node : 0;
    if (core.count == 0)
        return;
    machine->cores[machine->core_count++] = core;
    if (core.node < machine->node_count)
        machine->nodes[core.node].cores++;
}

/* machine_cores -- where hwloc knows no cores each processor is one. */
static int machine_cores(struct machine *machine)
{
    hwloc_topology_t topology = machine->topology;
    hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    size_t pus = (size_t)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    hwloc_bitmap_t usable = hwloc_bitmap_alloc();
    hwloc_obj_t object = NULL;

    machine->cores = calloc(pus, sizeof(*machine->cores));
    machine->cpus = calloc(pus, sizeof(*machine->cpus));
    if (usable == NULL || machine->cores == NULL || machine->cpus == NULL) {
        hwloc_bitmap_free(usable);
        return -1;
    }
    machine_usable(machine, usable);
    while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != NULL)
        machine_core(machine, object, usable);
    hwloc_bitmap_free(usable);
    return 0;
}

/* machine_new -- see machine.h. */
int machine_new(const char *synthetic, struct machine **out)
{
    hwloc_topology_t topology = NULL;
    struct machine *machine = calloc(1, sizeof(*machine));
    int code = machine == NULL ? error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a machine")
                               : machine_load(synthetic, &topology);

    if (code < 0) {
        free(machine);
        return code;
    }
    machine->topology = topology;
    machine->real = hwloc_topology_is_thissystem(topology) != 0;
    if (machine_nodes(machine) != 0 || machine_cores(machine) != 0) {
        machine_delete(&machine);
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a machine");
    }
    machine->at_once = machine->real ? cpus_allowed() : machine->cpu_count;
    *out = machine;
    return 0;
}

/* machine_delete -- with hwloc's part. */
void machine_delete(struct machine **machine)
{
    if (*machine == NULL)
        return;
    if ((*machine)->topology != NULL)
        hwloc_topology_destroy((*machine)->topology);
    free((*machine)->nodes);
    free((*machine)->cores);
    free((*machine)->cpus);
    free(*machine);
    *machine = NULL;
}

/* machine_node_of -- few enough to be looked through. */
int machine_node_of(const struct machine *machine, int number)
{
    for (unsigned n = 0; number >= 0 && n < machine->node_count; n++)
        if (machine->nodes[n].number == (unsigned)number)
            return (int)n;
    return -1;
}

/* machine_core_of -- likewise. */
int machine_core_of(const struct machine *machine, unsigned cpu)
{
    for (unsigned c = 0; c < machine->core_count; c++)
        for (unsigned i = 0; i < machine->cores[c].count; i++)
            if (machine->cpus[machine->cores[c].first + i] == cpu)
                return (int)c;
    return -1;
}
