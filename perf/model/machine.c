/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/model/machine.h"

#include <stdio.h>
#include <string.h>

#include "perf/clock.h"
#include "perf/kernels.h"
#include "perf/trial.h"

#define MACHINE_PASSES 20 /* at least, and for MACHINE_PASSES_NS */
#define MACHINE_PASSES_NS UINT64_C(200000000)
#define MACHINE_NOTIFIES 2000
#define MACHINE_NOTIFY_NS UINT64_C(200000000) /* of all of them, where others use the processors, too */

/* machine_add -- the widest ordinary a = a + b that the processor has. */
static const struct stream_kernel *machine_add(void)
{
    static const char *const kinds[] = {"avx512", "avx2", "plain"};

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        const struct stream_kernel *kernels = stream_kernels(kinds[k]);
        for (; kernels != NULL && kernels->name != NULL; kernels++)
            if (strcmp(kernels->name, "add") == 0)
                return kernels;
    }
    return NULL;
}

/* machine_memory -- bytes per second. */
static int machine_memory(uint64_t lanes, uint64_t parameters, double *out, char *text, size_t bytes)
{
    const struct stream_kernel *add = machine_add();
    struct kernels kernels;
    struct team *team;
    uint64_t best = UINT64_MAX, n = (parameters + STREAM_UNIT - 1) / STREAM_UNIT * STREAM_UNIT;

    if (kernels_new(&kernels, "sgd", "auto", 1, n, MEMORY_HUGE, text, bytes) != 0)
        return -1;
    if (team_new((unsigned)lanes, "none", &team, text, bytes) != 0) {
        kernels_free(&kernels);
        return -1;
    }
    uint64_t start = perf_clock_now();
    for (int pass = 0; pass < MACHINE_PASSES || perf_clock_now() - start < MACHINE_PASSES_NS; pass++) {
        uint64_t time = kernels_stream(&kernels, team, add);
        best = time < best ? time : best;
    }
    *out = add->bytes * (double)n * 1e9 / (double)(best > 0 ? best : 1);
    team_delete(&team);
    kernels_free(&kernels);
    return 0;
}

/* machine_notify -- one notify each way, often. */
static int machine_notify(struct wire *wire, struct histogram *histogram)
{
    struct wire_order order = {.what = WIRE_NOTIFY};

    if (wire_ask(wire, &order) != 0)
        return -1;
    uint64_t from = wire->notifies, start = perf_clock_now();
    for (uint64_t i = 0; i < MACHINE_NOTIFIES && perf_clock_now() - start < MACHINE_NOTIFY_NS; i++) {
        uint64_t begin = perf_clock_now();
        if (wire_notify(wire, (uint32_t)i) != 0)
            return -1;
        while (wire->notifies <= from + i)
            if (wire_progress(wire) < 0)
                return -1;
        histogram_add(histogram, perf_clock_now() - begin);
    }
    return 0;
}

/* machine_latency -- seconds, one way. */
static int machine_latency(double *out, char *text, size_t bytes)
{
    static struct histogram histogram;
    struct settings settings = {0};
    struct wire wire;

    trial_defaults(&settings);
    histogram_clear(&histogram);
    if (wire_client(&wire, &settings, 4096) != 0) {
        snprintf(text, bytes, "%s", wire.text);
        return -1;
    }
    int status = machine_notify(&wire, &histogram);
    if (status != 0)
        snprintf(text, bytes, "%s", wire.text);
    if (wire_close(&wire) != 0 && status == 0) {
        snprintf(text, bytes, "the other process of the measurement failed");
        status = -1;
    }
    if (status == 0)
        *out = (double)histogram.min / 2 / 1e9;
    return status;
}

/* machine_measure -- see machine.h. */
int machine_measure(uint64_t lanes, uint64_t parameters, struct cost_machine *out, char *text, size_t bytes)
{
    struct cost_machine machine = {.shared = true};

    if (machine_memory(lanes, parameters, &machine.memory_bytes_per_s, text, bytes) != 0 ||
        machine_latency(&machine.latency_s, text, bytes) != 0)
        return -1;
    *out = machine;
    return 0;
}
