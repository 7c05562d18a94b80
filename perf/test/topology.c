/* SPDX-License-Identifier: BSD-3-Clause */
/* topology -- measures nothing: shows the machine, and where the ps and workers of a job on it would be. */
#include "perf/topology.h"

#include "perf/test/table.h"

static const struct report_column topology_columns[] = {
    {"who", "who", 0, 0}, {"processors", "processors", 0, 0}, {"node", "node", 1, 0}};

/* topology_defaults -- a small job. */
static void topology_defaults(struct settings *settings)
{
    settings->bind = "auto";
    settings->lanes = 1;
    settings->shards = 1;
    settings->workers = (struct settings_list){.value = {2}, .count = 1};
}

/* topology_run -- draws, and lists. */
static enum test_end topology_run(const struct settings *settings, struct report *report, char *text,
                                  size_t bytes)
{
    struct topology *topology;

    if (settings->workers.count != 1) {
        snprintf(text, bytes, "--workers takes one number here");
        return TEST_REFUSED;
    }
    if (topology_new(settings, &topology, text, bytes) != 0)
        return TEST_REFUSED;
    json_object_set_new(report_object(report), "topology", topology_object(topology));
    topology_draw(topology, report_screen(report));
    report_columns(report, topology_columns, sizeof(topology_columns) / sizeof(topology_columns[0]));
    topology_rows(topology, report);
    report_note(report, "%s", topology_why(topology));
    topology_delete(&topology);
    return TEST_OK;
}

const struct perf_test test_topology = {
    .name = "topology",
    .purpose = "the machine, its RDMA devices, and where lanes, memory and workers of a job would be",
    .takes = SETTINGS_BIT(SETTINGS_DEVICE) | SETTINGS_BIT(SETTINGS_LANES) | SETTINGS_BIT(SETTINGS_SHARDS) |
             SETTINGS_BIT(SETTINGS_WORKERS) | SETTINGS_BIT(SETTINGS_BIND) | SETTINGS_BIT(SETTINGS_PLOT),
    .reads = "Measures nothing. Chosen as a ps and stepgate-run choose, for ps and workers that share this "
             "machine. --plot draws it.",
    .defaults = topology_defaults,
    .run = topology_run,
};
