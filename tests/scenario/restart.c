/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/scenario/restart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/scenario/inside.h"
#include "transport/base/clock.h"

/* restart_job -- see restart.h. */
struct cluster_job restart_job(const char *keys, uint32_t workers, uint32_t shards, uint32_t lanes)
{
    return (struct cluster_job){
        .workers = workers,
        .shards = shards,
        .lanes = lanes,
        .keys = keys,
        .cut_bytes = 17000,
        .group_bytes = 9000,
        .variables = {
            {.name = "a", .dims = {9000}, .initial_count = 3, .initial = {1, -2, 0.25}},
            {.name = "half", .dtype = STEPGATE_F16, .dims = {5000}, .initial_count = 2, .initial = {0.5, 3}},
            {.name = "table",
             .kind = STEPGATE_SPARSE,
             .dtype = STEPGATE_F64,
             .dims = {40, 3},
             .options = "rows_max=4",
             .initial_count = 2,
             .initial = {-1, 1}},
            {.name = "statistics", .kind = STEPGATE_ASSIGNED, .dims = {7}}}};
}

/* restart_number -- some number for a worker's part of a step: many digits, and the same in every run. */
static double restart_number(uint64_t step, uint32_t w, uint32_t v, uint32_t i)
{
    uint64_t mixed =
        (step + 1) * 2654435761u ^ (w + 1u) * 40503u ^ (v + 1u) * 9176263u ^ (i + 1u) * 73856093u;

    mixed ^= mixed >> 15;
    return ((double)(mixed % 4001) - 2000) / 1024;
}

/* restart_gradients -- see restart.h. */
void restart_gradients(struct cluster *c, uint32_t w, uint64_t step)
{
    const struct model *declared = session_model_declared(c->worker[w].model);

    for (uint32_t v = 0; v < c->variables; v++) {
        double values[6];
        for (uint32_t i = 0; i < 6; i++)
            values[i] = restart_number(step, w, v, i);
        const uint64_t rows[2] = {(step * 5 + w) % 19, 20 + (step * 3 + v) % 19};
        if (declared->variables[v].kind == STEPGATE_SPARSE)
            cluster_rows(c, w, v, 2, rows, 6, values);
        else
            cluster_gradient(c, w, v, 5, values);
    }
}

/* restart_step -- see restart.h. */
int restart_step(struct cluster *c, uint64_t step, uint64_t salt)
{
    const struct model *declared = session_model_declared(c->worker[0].model);

    for (uint32_t i = 0; i < model_quota(declared, c->workers, 0); i++)
        for (uint32_t k = 0; k < c->workers; k++) {
            uint32_t w = (uint32_t)((k + step * 7 + salt) % c->workers);
            if (i >= model_quota(declared, c->workers, w))
                continue;
            restart_gradients(c, w, step * 10 + i);
            RUN(c, w);
        }
    GS(c, step + 1);
    return 0;
}

/* restart_play -- see restart.h. */
int restart_play(struct cluster *c, uint64_t from, uint64_t to, uint64_t salt)
{
    for (uint64_t step = from; step < to; step++)
        TRY(restart_step(c, step, salt));
    return 0;
}

/* restart_element -- see restart.h. */
int restart_element(const struct cluster *c, const char *what, uint32_t v, uint64_t element, double is,
                    double must_be)
{
    CHECK(c, memcmp(&is, &must_be, sizeof(is)) == 0 || (isnan(is) && isnan(must_be)),
          "%s %llu of variable %u is %.17g, not %.17g", what, (unsigned long long)element, v, is, must_be);
    return 0;
}

/* restart_same -- see restart.h. */
int restart_same(const struct cluster *c, const struct cluster *other)
{
    const struct model *declared = session_model_declared(c->worker[0].model);

    for (uint32_t v = 0; v < c->variables; v++) {
        bool states = (declared->variables[v].kind == STEPGATE_TRAINED ||
                       declared->variables[v].kind == STEPGATE_SPARSE) &&
                      !declared->variables[v].frozen;
        for (uint64_t i = 0; i < c->elements[v] && declared->variables[v].kind != STEPGATE_AUX; i++) {
            TRY(restart_element(c, "element", v, i, cluster_value(c, v, i), cluster_value(other, v, i)));
            for (unsigned s = 0; states && s < model_optimizer_slots(declared); s++)
                TRY(restart_element(c, "slot element", v, i, cluster_slot(c, v, s, i),
                                    cluster_slot(other, v, s, i)));
            if (states && declared->average_decay > 0)
                TRY(restart_element(c, "average element", v, i, cluster_average(c, v, i),
                                    cluster_average(other, v, i)));
        }
    }
    return 0;
}

/* restart_written -- see restart.h. */
int restart_written(struct cluster *c, uint64_t step)
{
    uint64_t until = clock_after(cluster_now(c), CLUSTER_LIMIT_MS);

    while (store_newest(c->job.store) != step && cluster_now(c) < until)
        cluster_pass(c, until);
    CHECK(c, store_newest(c->job.store) == step, "the newest checkpoint is of step %lld, not %llu",
          (long long)store_newest(c->job.store), (unsigned long long)step);
    return 0;
}

/* restart_began -- see restart.h. */
int restart_began(struct cluster *c, uint64_t step)
{
    for (uint32_t w = 0; w < c->workers; w++) {
        CHECK(c, c->worker[w].start.restored == 1 && c->worker[w].start.step == step,
              "commit tells worker %u: restored %d, step %llu", w, c->worker[w].start.restored,
              (unsigned long long)c->worker[w].start.step);
        LOCAL(c, w, step);
    }
    GS(c, step);
    return 0;
}

/* restart_in -- see restart.h. */
int restart_in(struct stage *stage, uint64_t every, int (*play)(struct stage *stage, struct store *store))
{
    struct store store;

    store_start(&store, every);
    int status = play(stage, &store);
    while (status != 0 && stage->job_count > 0)
        stage_drop(stage);
    while (status == 0 && stage->job_count > 0)
        status = stage_close(stage);
    store_clear(&store);
    return status;
}
