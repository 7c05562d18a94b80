/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/scenario/scenario.h"

#include <math.h>
#include <string.h>

#include "stepgate/error.h"

/* stage_open -- see scenario.h. */
int stage_open(struct stage *stage, const struct cluster_job *job, struct cluster **out)
{
    if (stage->job_count == SCENARIO_JOBS_MAX)
        return cluster_fail(stage->ground, __FILE__, __LINE__, "too many jobs");
    TRY(cluster_open(stage->ground, job, &stage->jobs[stage->job_count]));
    *out = stage->jobs[stage->job_count++];
    return 0;
}

/* stage_close -- see scenario.h. */
int stage_close(struct stage *stage)
{
    return cluster_close(&stage->jobs[--stage->job_count]);
}

/* stage_drop -- see scenario.h. */
void stage_drop(struct stage *stage)
{
    cluster_drop(&stage->jobs[--stage->job_count]);
}

/* scenario_run -- see RUN. */
int scenario_run(struct cluster *c, size_t count, const uint32_t *workers, const char *file, int line)
{
    char why[sizeof(c->ground->why)];

    for (size_t i = 0; i < count; i++)
        if (cluster_run(c, workers[i]) != 0) {
            memcpy(why, c->ground->why, sizeof(why));
            return cluster_fail(c->ground, file, line, "%s", why);
        }
    return 0;
}

/* scenario_gs -- see GS. */
int scenario_gs(struct cluster *c, uint64_t step, const char *file, int line)
{
    uint64_t until = 0;

    do
        if (cluster_gs(c) == step)
            return 0;
    while (cluster_patience(c, &until));
    return cluster_fail(c->ground, file, line, "the step is %lld, not %lld", (long long)cluster_gs(c),
                        (long long)step);
}

/* scenario_value -- see NEAR and EXACT. */
int scenario_value(const struct cluster *c, const char *what, double is, double must_be, bool exact,
                   const char *file, int line)
{
    double near = exact ? 0 : 3e-7 * (fabs(must_be) > 1 ? fabs(must_be) : 1);

    if ((isnan(is) && isnan(must_be)) || fabs(is - must_be) <= near || is == must_be)
        return 0;
    return cluster_fail(c->ground, file, line, "%s is %.17g, not %.17g", what, is, must_be);
}

/* scenario_waits -- see WAITS. */
int scenario_waits(const struct cluster *c, uint32_t w, const char *file, int line)
{
    if (c->worker[w].state == CLUSTER_WAITS)
        return 0;
    return cluster_fail(c->ground, file, line, "worker %u does not wait (state %d, step %llu) %s", w,
                        c->worker[w].state, (unsigned long long)c->worker[w].info.step, c->worker[w].text);
}

/* scenario_local -- see LOCAL. */
int scenario_local(struct cluster *c, uint32_t w, uint64_t step, const char *file, int line)
{
    uint64_t until = 0;

    while (c->worker[w].state == CLUSTER_WAITS && cluster_patience(c, &until))
        continue;
    if (c->worker[w].state != CLUSTER_HAS_TOKEN)
        return cluster_fail(c->ground, file, line, "worker %u has no token (state %d) %s", w,
                            c->worker[w].state, c->worker[w].text);
    if (c->worker[w].info.step == step)
        return 0;
    return cluster_fail(c->ground, file, line, "the local step of worker %u is %llu, not %llu", w,
                        (unsigned long long)c->worker[w].info.step, (unsigned long long)step);
}

/* scenario_verdict -- see VERDICT. */
int scenario_verdict(struct cluster *c, uint32_t w, int verdict, uint64_t step, const char *file, int line)
{
    const struct stepgate_step_info *info = &c->worker[w].info;
    uint64_t until = 0;

    while (c->worker[w].state == CLUSTER_WAITS && cluster_patience(c, &until))
        continue;
    if (c->worker[w].state != CLUSTER_HAS_TOKEN)
        return cluster_fail(c->ground, file, line, "worker %u has no token (state %d) %s", w,
                            c->worker[w].state, c->worker[w].text);
    if (info->verdict == verdict && info->verdict_step == step)
        return 0;
    return cluster_fail(c->ground, file, line,
                        "worker %u is told verdict %d for step %llu, not %d for step %llu", w, info->verdict,
                        (unsigned long long)info->verdict_step, verdict, (unsigned long long)step);
}

/* scenario_counted -- see COUNTED. */
int scenario_counted(struct cluster *c, uint32_t w, uint64_t accepted, uint64_t stale, const char *file,
                     int line)
{
    struct mode_counts counts;
    uint64_t until = 0;

    do {
        counts = cluster_counts(c, w);
        if (counts.accepted == accepted && counts.stale == stale)
            return 0;
    } while (cluster_patience(c, &until));
    return cluster_fail(c->ground, file, line,
                        "of worker %u %llu contributions are accepted and %llu stale, not %llu and %llu", w,
                        (unsigned long long)counts.accepted, (unsigned long long)counts.stale,
                        (unsigned long long)accepted, (unsigned long long)stale);
}

/* scenario_failed -- see FAILED. */
int scenario_failed(struct cluster *c, uint32_t w, int code, const char *word, const char *file, int line)
{
    const struct cluster_worker *worker = &c->worker[w];

    cluster_await_end(c, w);
    if (worker->state == CLUSTER_FAILED && worker->error == -code && strstr(worker->text, word) != NULL)
        return 0;
    return cluster_fail(c->ground, file, line, "worker %u: state %d, error %d (%s), not %d with \"%s\"", w,
                        worker->state, worker->error, worker->text, -code, word);
}
