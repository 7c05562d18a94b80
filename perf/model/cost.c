/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/model/cost.h"

/* cost_of_memory -- so many bytes moved by processors. */
static double cost_of_memory(const struct cost_machine *m, double bytes)
{
    return m->memory_bytes_per_s > 0 ? bytes / m->memory_bytes_per_s : 0;
}

/* cost_ps -- all parts but the computing. */
static void cost_ps(const struct cost_machine *m, const struct cost_job *j, struct cost_step *out)
{
    double bytes = 4.0 * (double)j->parameters, share = bytes / (double)j->shards,
           workers = (double)j->workers, hosts = m->shared ? 1 : (double)j->shards;
    double port = workers * share > bytes ? workers * share : bytes;
    double trips = j->replicas < j->workers ? 6 : 2;

    out->push =
        m->latency_s + (m->shared ? cost_of_memory(m, 2 * workers * bytes) : port / m->link_bytes_per_s);
    out->apply = cost_of_memory(m, ((double)j->replicas + 2 + 2 * j->state) * bytes / hosts);
    out->token = (j->shards > 1 ? 3 : 1) * m->latency_s;
    out->pull = m->shared ? 0 : trips * m->latency_s + port / m->link_bytes_per_s;
}

/* cost_ring -- all parts but the computing. */
static void cost_ring(const struct cost_machine *m, const struct cost_job *j, struct cost_step *out)
{
    double bytes = 4.0 * (double)j->parameters, workers = (double)j->workers;
    double rate = m->shared ? m->memory_bytes_per_s / workers : m->link_bytes_per_s;
    double way = rate > 0 ? (workers - 1) / workers * bytes / rate : 0;

    out->push = out->pull = way + (workers - 1) * m->latency_s;
    out->apply = cost_of_memory(m, (1 + 2 + 2.0 * j->state) * bytes * (m->shared ? workers : 1));
}

/* cost_step -- see cost.h. */
struct cost_step cost_step(const struct cost_machine *m, const struct cost_job *j)
{
    struct cost_step out = {0};
    bool ring = j->kind == COST_ALLREDUCE;

    if (ring)
        cost_ring(m, j, &out);
    else
        cost_ps(m, j, &out);
    double others = out.push + out.apply + out.token + out.pull;
    out.compute = j->compute_s + (ring || j->replicas == j->workers
                                      ? straggler_order(&j->straggler, j->workers, j->workers)
                                      : straggler_backup(&j->straggler, j->replicas, j->workers, out.apply,
                                                         j->compute_s + others));
    out.all = out.compute + others;
    return out;
}
