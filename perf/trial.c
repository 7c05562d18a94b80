/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/trial.h"

#include <stdio.h>
#include <string.h>

#include "perf/clock.h"
#include "perf/port.h"
#include "perf/server.h"
#include "transport/place/cpus.h"

const struct report_column trial_cpu_column = {"cpu_percent", "cpu %", 1, 0};

/* trial_defaults -- see trial.h. */
void trial_defaults(struct settings *s)
{
    s->transport = "shm";
    s->bind = "auto";
    s->depth = 128;
    s->cq_moderation = 1;
    s->post_list = 1;
    s->inline_bytes = 64;
    s->iterations = 10000;
    s->warmup = 500;
    s->size = (struct settings_list){{2}, 1};
}

/* trial_largest -- see trial.h. */
uint64_t trial_largest(const struct settings *s)
{
    const struct settings_list sizes = settings_sizes(s);
    uint64_t most = 1;

    for (size_t i = 0; i < sizes.count; i++)
        most = sizes.value[i] > most ? sizes.value[i] : most;
    return most;
}

/* trial_lost -- see trial.h. */
enum test_end trial_lost(struct trial *t)
{
    snprintf(t->text, t->bytes, "%s", t->wire.text);
    return TEST_REQUEUE;
}

/* trial_measure -- see trial.h. */
int trial_measure(struct trial *t, trial_loop loop)
{
    const struct stint warmup = stint_warmup(t->settings);

    histogram_clear(&t->histogram);
    if (warmup.iterations > 0 && loop(t, &warmup, false) != 0)
        return -1;
    uint64_t cpu = perf_clock_cpu(), begin = perf_clock_now();
    const struct stint measured = stint_measured(t->settings);
    if (loop(t, &measured, true) != 0)
        return -1;
    t->cpu_ns = perf_clock_cpu() - cpu;
    t->elapsed_ns = perf_clock_now() - begin;
    return 0;
}

/* trial_cpu -- see trial.h. */
void trial_cpu(struct trial *t)
{
    report_number(t->report, "cpu_percent", 100 * (double)t->cpu_ns / (double)t->elapsed_ns);
}

/* trial_serves -- see trial.h. */
bool trial_serves(const struct settings *s)
{
    return strcmp(s->transport, "verbs") == 0 && s->server == NULL && s->address == NULL;
}

/* trial_place -- see trial.h. */
void trial_place(struct report *report, const char *transport, const char *device,
                 const struct stepgate_path *path)
{
    json_t *port = port_new(device, path);

    report_condition(report, "transport", json_string(transport));
    report_condition(report, "device", json_string(device));
    if (port != NULL)
        report_condition(report, "rdma", port);
}

/* trial_conditions -- of the connection. */
static void trial_conditions(struct trial *t)
{
    const struct stepgate_capabilities *can = &t->wire.can;

    trial_place(t->report, t->wire.transport->name, can->device, &can->path);
    report_condition(t->report, "inline_bytes", json_integer(t->wire.inline_most));
    report_condition(t->report, "reads_in_flight", json_integer(can->reads_in_flight));
}

/* trial_counted -- what the device has counted, in one line. */
static void trial_counted(struct report *report, json_t *deltas)
{
    char line[1024] = "";
    size_t used = 0;
    const char *name;
    json_t *value;

    json_object_foreach(deltas, name, value)
    {
        if (used < sizeof(line))
            used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s %lld", used > 0 ? ", " : "",
                                     name, (long long)json_integer_value(value));
    }
    if (used > 0)
        report_note(report, "counted by the device: %s", line);
}

/* trial_port -- see trial.h. */
void trial_port(struct report *report, const struct stepgate_capabilities *can, const char *more,
                json_t *before)
{
    json_t *port = port_new(can->device, &can->path), *after = port_counters(can->device, can->path.port);
    char line[512];

    if (port != NULL) {
        port_line(port, line, sizeof(line));
        report_note(report, "%s, %u reads at once%s", line, can->reads_in_flight, more);
    }
    if (port != NULL && before != NULL) {
        json_t *deltas = port_deltas(before, after);
        trial_counted(report, deltas);
        report_condition(report, "hw_counters_delta", deltas);
    }
    json_decref(port);
    json_decref(before);
    json_decref(after);
}

/* trial_software -- see trial.h. */
void trial_software(struct report *report, const char *device)
{
    if (strncmp(device, "rxe", 3) == 0 || strncmp(device, "siw", 3) == 0)
        report_note(report, "%s is a software device: not representative", device);
}

/* trial_notes -- what takes from the figures' worth. */
static void trial_notes(struct trial *t, unsigned processors)
{
    trial_software(t->report, t->wire.can.device);
    if (t->wire.peer > 0 && processors < 2)
        report_note(t->report, "both ends share one processor: these times are the scheduler's");
}

/* trial_run -- see trial.h. */
enum test_end trial_run(const struct settings *s, uint64_t half, trial_cases cases, const void *kind,
                        struct report *report, char *text, size_t bytes)
{
    static struct trial t;
    char more[64];
    unsigned processors = cpus_allowed(); /* before each end is bound to one */

    t = (struct trial){.settings = s, .report = report, .text = text, .bytes = bytes};
    if (trial_serves(s))
        return server_run(&t.wire, s) == 0 ? TEST_OK : trial_lost(&t);
    if (wire_client(&t.wire, s, half) != 0)
        return trial_lost(&t);
    trial_conditions(&t);
    json_t *counters = port_counters(t.wire.can.device, t.wire.can.path.port);
    enum test_end end = cases(&t, kind);
    snprintf(more, sizeof(more), ", %u bytes inline", t.wire.inline_most);
    trial_port(report, &t.wire.can, more, counters);
    if (end == TEST_OK)
        trial_notes(&t, processors);
    if (wire_close(&t.wire) != 0 && end == TEST_OK) {
        snprintf(text, bytes, "the server's process failed");
        end = TEST_FAILED;
    }
    return end;
}
