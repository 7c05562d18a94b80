/* SPDX-License-Identifier: BSD-3-Clause */
/* register -- what it costs to make memory reachable for peers, by the kind of its pages. */
#include <stdio.h>
#include <string.h>

#include "perf/clock.h"
#include "perf/pages.h"
#include "perf/test/table.h"
#include "perf/trial.h"

static const struct report_column register_columns[] = {
    {"pages", "pages", 0, 0},
    {"size_bytes", "bytes", 1, 0},
    {"state", "state", 0, 0},
    {"register_ns_per_mib", "us/MiB", 1e3, 2},
};

/* register_once -- one region, made and deleted; *ns: the making. 0 or an error. */
static int register_once(struct wire *wire, const struct stepgate_region_options *options, uint64_t *ns)
{
    struct stepgate_region *region = NULL;
    uint64_t begin = perf_clock_now();
    int status = wire->transport->region_new(wire->domain, options, &region);

    *ns = perf_clock_now() - begin;
    wire->transport->region_delete(&region);
    return status;
}

/* register_measure -- regions of that memory, or of the transport's own. 0 or an error. */
static int register_measure(struct wire *wire, const struct settings *s, void *address, uint64_t size,
                            struct histogram *histogram)
{
    const struct stepgate_region_options options = {.size = sizeof(options),
                                                    .access = STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE,
                                                    .address = address,
                                                    .length = size};
    const struct stint warmup = stint_warmup(s);
    uint64_t ns;
    int status = 0;

    histogram_clear(histogram);
    for (uint64_t i = 0; status == 0 && stint_goes_on(&warmup, i, 1); i++)
        status = register_once(wire, &options, &ns);
    const struct stint stint = stint_measured(s);
    for (uint64_t i = 0; status == 0 && stint_goes_on(&stint, i, 1); i++) {
        status = register_once(wire, &options, &ns);
        if (status == 0)
            histogram_add(histogram, ns);
    }
    return status;
}

/* register_row -- why: of what could not be measured; "": it was. */
static void register_row(struct report *report, const char *pages, uint64_t size, const char *why,
                         const struct histogram *histogram)
{
    report_text(report, "pages", pages);
    report_number(report, "size_bytes", (double)size);
    report_text(report, "state", why[0] != '\0' ? why : "measured");
    if (why[0] == '\0') {
        report_number(report, "register_ns_per_mib",
                      histogram_percentile(histogram, 0.5) * 1048576 / (double)size);
        report_latency(report, histogram, 1);
    }
    report_row(report);
}

/* register_kind -- one kind of the caller's pages. 0 or an error. */
static int register_kind(struct wire *wire, const struct settings *s, enum pages_kind kind, uint64_t size,
                         struct report *report)
{
    static struct histogram histogram;
    struct pages pages;
    char why[64] = "";
    int status = 0;

    if (pages_new(&pages, kind, size, why, sizeof(why)) == 0) {
        status = register_measure(wire, s, pages.address, size, &histogram);
        pages_free(&pages);
    }
    if (status == -STEPGATE_ENOTSUP) {
        snprintf(why, sizeof(why), "not over %s", wire->transport->name);
        status = 0;
    }
    if (status == 0)
        register_row(report, pages_name(kind), size, why, &histogram);
    return status;
}

/* register_size -- the caller's memory of every kind, then the transport's own. 0 or -1. */
static int register_size(struct wire *wire, const struct settings *s, uint64_t size, struct report *report)
{
    static struct histogram histogram;
    int status = 0;

    for (int kind = 0; status == 0 && kind < PAGES_KINDS; kind++)
        status = register_kind(wire, s, (enum pages_kind)kind, size, report);
    if (status == 0)
        status = register_measure(wire, s, NULL, size, &histogram);
    if (status != 0)
        return wire_fail(wire, status, "memory for peers");
    register_row(report, "the transport's", size, "", &histogram);
    return 0;
}

/* register_run -- every size. */
static enum test_end register_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    static struct wire wire;
    const struct settings_list sizes = settings_sizes(s);

    if (strcmp(s->transport, "verbs") == 0 && s->address == NULL && s->device == NULL) {
        snprintf(text, bytes, "over verbs give --address, an address of the device, or --device");
        return TEST_REFUSED;
    }
    report_columns(report, register_columns, sizeof(register_columns) / sizeof(register_columns[0]));
    report_columns(report, report_latency_columns, report_latency_column_count);
    int status = wire_open(&wire, s, 1);
    if (status == 0)
        trial_place(report, wire.transport->name, wire.fabric->device, NULL);
    for (size_t i = 0; status == 0 && i < sizes.count; i++)
        status = register_size(&wire, s, sizes.value[i], report);
    wire_free(&wire);
    if (status != 0) {
        snprintf(text, bytes, "%s", wire.text);
        return TEST_FAILED;
    }
    report_note(report, "memory that was written before; the transport's: allocated, zeroed and registered");
    return TEST_OK;
}

/* register_defaults -- from one page to the slot of a large model. */
static void register_defaults(struct settings *s)
{
    trial_defaults(s);
    s->size = (struct settings_list){{1048576, 67108864}, 2};
    s->iterations = 20;
    s->warmup = 1;
}

const struct perf_test test_register = {
    .name = "register",
    .purpose = "what it costs to make memory reachable for peers, by the kind of its pages",
    .takes = SETTINGS_BIT(SETTINGS_TRANSPORT) | SETTINGS_BIT(SETTINGS_ADDRESS) |
             SETTINGS_BIT(SETTINGS_DEVICE) | SETTINGS_BIT(SETTINGS_ITERATIONS) |
             SETTINGS_BIT(SETTINGS_DURATION) | SETTINGS_BIT(SETTINGS_WARMUP) | SETTINGS_BIT(SETTINGS_SIZE) |
             SETTINGS_BIT(SETTINGS_ALL),
    .reads =
        "us/MiB: of the median. A kind of pages that the machine has none of has a row that says so; over "
        "shm only the transport's own\n"
        "memory can be reached.",
    .defaults = register_defaults,
    .run = register_run,
};
