/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/topology.h"

#include <stdlib.h>
#include <string.h>

#include "stepgate/error.h"
#include "transport/base/exit_status.h"
#include "transport/place/cpus.h"
#include "transport/place/layout.h"

#define TOPOLOGY_NICS 64
#define TOPOLOGY_WIDTH 100 /* of a frame on the screen */
#define TOPOLOGY_CELL 24   /* of a core in it */
#define TOPOLOGY_NAME 48

struct topology {
    struct machine *machine;
    struct layout *layout;
    struct nic nics[TOPOLOGY_NICS];
    unsigned nic_count;
    const struct nic *nic; /* beside which a ps would be; NULL: none */
    const char *bind;
};

/* topology_find -- the device that is asked for, or the first. */
static int topology_find(struct topology *topology, const char *device, char *text, size_t bytes)
{
    topology->nic_count = nic_list(NIC_SYS, topology->nics, TOPOLOGY_NICS);
    if (topology->nic_count > TOPOLOGY_NICS)
        topology->nic_count = TOPOLOGY_NICS;
    for (unsigned i = 0; topology->nic == NULL && i < topology->nic_count; i++)
        if (device == NULL || strcmp(topology->nics[i].name, device) == 0)
            topology->nic = &topology->nics[i];
    if (device == NULL || topology->nic != NULL)
        return 0;
    snprintf(text, bytes, "there is no RDMA device %s among %u here: leave --device out, or see ibv_devices",
             device, topology->nic_count);
    return -1;
}

/* topology_new -- see topology.h. */
int topology_new(const struct settings *settings, struct topology **out, char *text, size_t bytes)
{
    struct topology *topology = calloc(1, sizeof(*topology));
    int status;

    if (topology == NULL) {
        snprintf(text, bytes, "no memory for a topology");
        return -1;
    }
    topology->bind = settings->bind;
    if (topology_find(topology, settings->device, text, bytes) != 0) {
        topology_delete(&topology);
        return -1;
    }
    const struct layout_wish wish = {.bind = settings->bind,
                                     .nic = topology->nic,
                                     .servers = (unsigned)settings->shards,
                                     .lanes = (unsigned)settings->lanes,
                                     .workers = (unsigned)settings->workers.value[0]};
    status = machine_new(NULL, &topology->machine);
    if (status == 0)
        status = layout_choose(topology->machine, &wish, &topology->layout);
    if (status < 0) {
        exit_status_line(status, text, bytes);
        topology_delete(&topology);
        return -1;
    }
    *out = topology;
    return 0;
}

/* topology_delete -- see topology.h. */
void topology_delete(struct topology **topology)
{
    if (*topology == NULL)
        return;
    layout_delete(&(*topology)->layout);
    machine_delete(&(*topology)->machine);
    free(*topology);
    *topology = NULL;
}

/* topology_why -- see topology.h. */
const char *topology_why(const struct topology *topology)
{
    return topology->layout->why;
}

/* topology_lane -- which lane of all has a processor of this core; -1: none. */
static int topology_lane(const struct topology *topology, unsigned core)
{
    const struct layout *layout = topology->layout;

    for (unsigned l = 0; layout->pinned && l < layout->servers * layout->lanes; l++)
        if (machine_core_of(topology->machine, layout->lane_cpus[l]) == (int)core)
            return (int)l;
    return -1;
}

/* topology_worker -- which worker has this core; -1: none. */
static int topology_worker(const struct topology *topology, unsigned core)
{
    const struct layout *layout = topology->layout;

    for (unsigned w = 0; w < layout->workers; w++)
        for (unsigned i = layout->worker_first[w]; i < layout->worker_first[w + 1]; i++)
            if (machine_core_of(topology->machine, layout->worker_cpus[i]) == (int)core)
                return (int)w;
    return -1;
}

/* topology_who -- "ps 0 lane 1", "worker 2", ""; *role: "lane", "worker", "free". */
static const char *topology_who(const struct topology *topology, unsigned core, char *out, size_t bytes)
{
    int lane = topology_lane(topology, core), worker = topology_worker(topology, core);

    if (lane >= 0)
        snprintf(out, bytes, "ps %u lane %u", (unsigned)lane / topology->layout->lanes,
                 (unsigned)lane % topology->layout->lanes);
    else if (worker >= 0)
        snprintf(out, bytes, "worker %d", worker);
    else
        out[0] = '\0';
    return lane >= 0 ? "lane" : worker >= 0 ? "worker" : "free";
}

/* topology_line -- a line of a frame. */
static void topology_line(FILE *to, const char *text)
{
    fprintf(to, "| %-*.*s |\n", TOPOLOGY_WIDTH - 4, TOPOLOGY_WIDTH - 4, text);
}

/* topology_rule -- the upper or lower end of a frame. */
static void topology_rule(FILE *to, const char *title)
{
    int used = fprintf(to, "+--%s", title);

    while (used++ < TOPOLOGY_WIDTH - 1)
        fputc('-', to);
    fputs("+\n", to);
}

/* topology_memory -- whose memory lies on a node: "of ps 0, 1: parameters, slots, states"; "": nobody's. */
static void topology_memory(const struct topology *topology, unsigned node, char *out, size_t bytes)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned s = 0; s < topology->layout->servers && used + 64 < bytes; s++)
        if (topology->layout->memory[s] == (int)node)
            used += (size_t)snprintf(out + used, bytes - used, "%s%u", used > 0 ? ", " : "of ps ", s);
    if (used > 0)
        snprintf(out + used, bytes - used, ": parameters, slots, optimizer's state");
}

/* topology_cores -- the cores of a node, some to a line. */
static void topology_cores(const struct topology *topology, unsigned place, FILE *to)
{
    const struct machine *machine = topology->machine;
    char line[TOPOLOGY_WIDTH] = "", who[TOPOLOGY_NAME], cpus[32], cell[96];

    for (unsigned c = 0; c < machine->core_count; c++) {
        if (machine->cores[c].node != place)
            continue;
        cpus_text(machine->cpus + machine->cores[c].first, machine->cores[c].count, cpus, sizeof(cpus));
        (void)topology_who(topology, c, who, sizeof(who));
        int n = snprintf(cell, sizeof(cell), "[%s] %s", cpus, who);
        if (strlen(line) + (size_t)(n > TOPOLOGY_CELL ? n : TOPOLOGY_CELL) > TOPOLOGY_WIDTH - 4) {
            topology_line(to, line);
            line[0] = '\0';
        }
        size_t used = strlen(line);
        snprintf(line + used, sizeof(line) - used, "%-*s", TOPOLOGY_CELL, cell);
    }
    if (line[0] != '\0')
        topology_line(to, line);
}

/* topology_node -- one frame. */
static void topology_node(const struct topology *topology, unsigned place, FILE *to)
{
    const struct machine_node *node = &topology->machine->nodes[place];
    char text[256], memory[200], name[128];

    snprintf(text, sizeof(text), " node %u, %.1f GiB, %u core%s ", node->number,
             (double)node->bytes / 1073741824.0, node->cores, node->cores == 1 ? "" : "s");
    topology_rule(to, text);
    for (unsigned i = 0; i < topology->nic_count; i++) {
        if (machine_node_of(topology->machine, topology->nics[i].node) != (int)place)
            continue;
        nic_describe(&topology->nics[i], name, sizeof(name));
        snprintf(text, sizeof(text), "NIC     %s", name);
        topology_line(to, text);
    }
    topology_memory(topology, node->number, memory, sizeof(memory));
    snprintf(text, sizeof(text), "memory  %s", memory);
    topology_line(to, text);
    topology_cores(topology, place, to);
    topology_rule(to, "");
}

/* topology_draw -- see topology.h. */
void topology_draw(const struct topology *topology, FILE *to)
{
    char name[128];

    for (unsigned n = 0; n < topology->machine->node_count; n++)
        topology_node(topology, n, to);
    for (unsigned i = 0; i < topology->nic_count; i++) {
        if (machine_node_of(topology->machine, topology->nics[i].node) >= 0)
            continue;
        nic_describe(&topology->nics[i], name, sizeof(name));
        fprintf(to, "NIC %s does not say at which node it is\n", name);
    }
    if (topology->nic_count == 0)
        fputs("no RDMA device\n", to);
}

/* topology_node_of -- the system's number of the node of a processor; -1: unknown. */
static int topology_node_of(const struct topology *topology, unsigned cpu)
{
    const struct machine *machine = topology->machine;
    int core = machine_core_of(machine, cpu);

    return core >= 0 ? (int)machine->nodes[machine->cores[core].node].number : -1;
}

/* topology_row -- one of them; count 0: `any` is what is said of its processors. */
static void topology_row(const struct topology *topology, struct report *report, const char *who,
                         const unsigned *cpus, unsigned count, const char *any, int node)
{
    char list[256];

    cpus_text(cpus, count, list, sizeof(list));
    report_text(report, "who", who);
    report_text(report, "processors", count > 0 ? list : any);
    node = count > 0 ? topology_node_of(topology, cpus[0]) : node;
    if (node >= 0)
        report_number(report, "node", node);
    report_row(report);
}

/* topology_rows -- see topology.h. */
void topology_rows(const struct topology *topology, struct report *report)
{
    const struct layout *layout = topology->layout;
    char who[TOPOLOGY_NAME];

    for (unsigned l = 0; l < layout->servers * layout->lanes; l++) {
        snprintf(who, sizeof(who), "ps %u lane %u", l / layout->lanes, l % layout->lanes);
        topology_row(topology, report, who, layout->lane_cpus + l, layout->pinned, "any", -1);
    }
    for (unsigned s = 0; s < layout->servers; s++) {
        snprintf(who, sizeof(who), "ps %u memory", s);
        topology_row(topology, report, who, NULL, 0, "", layout->memory[s]);
    }
    for (unsigned w = 0; w < layout->workers; w++) {
        unsigned first = layout->worker_first[w];
        snprintf(who, sizeof(who), "worker %u", w);
        topology_row(topology, report, who, layout->worker_cpus + first, layout->worker_first[w + 1] - first,
                     "any", -1);
    }
}

/* topology_core -- as an object. */
static json_t *topology_core(const struct topology *topology, unsigned place)
{
    const struct machine_core *core = &topology->machine->cores[place];
    char who[TOPOLOGY_NAME];
    const char *role = topology_who(topology, place, who, sizeof(who));
    json_t *cpus = json_array();

    for (unsigned i = 0; i < core->count; i++)
        json_array_append_new(cpus, json_integer(topology->machine->cpus[core->first + i]));
    return json_pack("{s:o, s:s, s:s}", "processors", cpus, "role", role, "who", who);
}

/* topology_node_object -- with its cores, devices and whose memory it has. */
static json_t *topology_node_object(const struct topology *topology, unsigned place)
{
    const struct machine_node *node = &topology->machine->nodes[place];
    json_t *cores = json_array(), *memory = json_array(), *devices = json_array();

    for (unsigned c = 0; c < topology->machine->core_count; c++)
        if (topology->machine->cores[c].node == place)
            json_array_append_new(cores, topology_core(topology, c));
    for (unsigned s = 0; s < topology->layout->servers; s++)
        if (topology->layout->memory[s] == (int)node->number)
            json_array_append_new(memory, json_integer(s));
    for (unsigned i = 0; i < topology->nic_count; i++)
        if (topology->nics[i].node == (int)node->number)
            json_array_append_new(devices, json_string(topology->nics[i].name));
    return json_pack("{s:i, s:I, s:o, s:o, s:o}", "node", (int)node->number, "memory_bytes",
                     (json_int_t)node->bytes, "devices", devices, "memory_of_ps", memory, "cores", cores);
}

/* topology_object -- see topology.h. */
json_t *topology_object(const struct topology *topology)
{
    json_t *nodes = json_array(), *devices = json_array();

    for (unsigned n = 0; n < topology->machine->node_count; n++)
        json_array_append_new(nodes, topology_node_object(topology, n));
    for (unsigned i = 0; i < topology->nic_count; i++) {
        const struct nic *nic = &topology->nics[i];
        json_array_append_new(devices, json_pack("{s:s, s:o, s:s}", "name", nic->name, "node",
                                                 nic->node >= 0 ? json_integer(nic->node) : json_null(),
                                                 "interface", nic->interface));
    }
    return json_pack("{s:s, s:b, s:s, s:o, s:o, s:o}", "bind", topology->bind, "pinned",
                     topology->layout->pinned, "why", topology->layout->why, "device",
                     topology->nic != NULL ? json_string(topology->nic->name) : json_null(), "devices",
                     devices, "nodes", nodes);
}
