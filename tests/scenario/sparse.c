/* SPDX-License-Identifier: BSD-3-Clause */
/* sparse -- rows: what is pushed of them, how they are merged, and what is refused. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "stepgate/error.h"
#include "tests/scenario/scenario.h"

/* sparse_says -- does the last error have all of these in it? */
static bool sparse_says(const char *first, const char *second, const char *third)
{
    struct stepgate_error error = {.size = sizeof(error)};

    return stepgate_error_last(&error) >= 0 && strstr(error.text, first) != NULL &&
           strstr(error.text, second) != NULL && strstr(error.text, third) != NULL;
}

/* sparse_too_many -- both numbers are named, nothing is changed: the step goes on with a push that fits. */
static int sparse_too_many(struct stage *stage)
{
    static const struct cluster_job job = {
        .keys = "learning_rate=1",
        .variables = {{.name = "table", .kind = STEPGATE_SPARSE, .dims = {9, 1}, .options = "rows_max=2"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    int status = cluster_push_rows(c, 0, 0, INDICES(1, 2, 3), VALUES(5));
    CHECK(c, status == -STEPGATE_EINVAL && sparse_says("3", "table", "2"), "3 rows of 2 give %d", status);
    cluster_rows(c, 0, 0, INDICES(1, 8), VALUES(5));
    RUN(c, 0);
    GS(c, 1);
    EXACT(c, 0, 1, -5);
    EXACT(c, 0, 2, 0);
    EXACT(c, 0, 8, -5);
    return 0;
}

/* sparse_out_of_range -- variable, index and bound are named; it counts for nothing. */
static int sparse_out_of_range(struct stage *stage)
{
    static const char *const updates[] = {"learning_rate=1", "learning_rate=1 update=tf initial_tokens=0",
                                          "learning_rate=1 update=async"};
    static const uint64_t wrong[] = {7, UINT64_MAX, UINT64_C(1) << 32};
    static const char *const names[] = {"7", "18446744073709551615", "4294967296"};
    struct cluster *c;

    for (size_t u = 0; u < 3; u++) {
        const struct cluster_job job = {
            .keys = updates[u],
            .variables = {
                {.name = "table", .kind = STEPGATE_SPARSE, .dims = {7, 2}, .options = "rows_max=3"}}};
        TRY(stage_open(stage, &job, &c));
        for (size_t i = 0; i < 3; i++) {
            const uint64_t indices[2] = {2, wrong[i]};
            int status = cluster_push_rows(c, 0, 0, 2, indices, VALUES(5));
            CHECK(c, status == -STEPGATE_EINVAL && sparse_says("table", names[i], "7 rows"),
                  "row %s gives %d", names[i], status);
        }
        cluster_rows(c, 0, 0, INDICES(6), VALUES(3, 4));
        RUN(c, 0);
        GS(c, 1);
        COUNTED(c, 0, 1, 0);
        EXACT(c, 0, 4, 0);
        EXACT(c, 0, 12, -3);
        EXACT(c, 0, 13, -4);
    }
    return 0;
}

/* sparse_duplicates -- rows of one index are summed: one contribution of that row. */
static int sparse_duplicates(struct stage *stage)
{
    static const char *const updates[] = {"learning_rate=1", "learning_rate=1 update=tf initial_tokens=0"};
    struct cluster *c;

    for (size_t u = 0; u < 2; u++) {
        const struct cluster_job job = {
            .workers = 2,
            .keys = updates[u],
            .variables = {
                {.name = "table", .kind = STEPGATE_SPARSE, .dims = {4, 2}, .options = "rows_max=4"}}};
        TRY(stage_open(stage, &job, &c));
        cluster_rows(c, 0, 0, INDICES(2, 0, 2, 2), VALUES(1, 10, 7, 70, 2, 20, 3, 30));
        cluster_rows(c, 1, 0, INDICES(2), VALUES(4, 40));
        RUN(c, 0, 1);
        EXACT(c, 0, 0, -7);
        EXACT(c, 0, 1, -70);
        EXACT(c, 0, 4, -5);
        EXACT(c, 0, 5, -50);
    }
    return 0;
}

/* sparse_order -- of rows does not matter: the same bits, in every layout. */
static int sparse_order(struct stage *stage)
{
    static const uint64_t orders[3][4] = {{0, 3, 5, 8}, {8, 5, 3, 0}, {3, 8, 0, 5}};
    struct cluster *c;

    for (uint32_t i = 0; i < 3; i++) {
        const struct cluster_job job = {.workers = 2,
                                        .shards = 1 + i,
                                        .lanes = 1 + i,
                                        .keys = "optimizer=adagrad learning_rate=1",
                                        .variables = {{.name = "a"},
                                                      {.name = "table",
                                                       .kind = STEPGATE_SPARSE,
                                                       .dims = {9, 1},
                                                       .options = "rows_max=4"}},
                                        .cut_bytes = i == 2 ? 16 : 0};
        double values[4];
        TRY(stage_open(stage, &job, &c));
        for (uint32_t w = 0; w < 2; w++) {
            for (uint32_t r = 0; r < 4; r++)
                values[r] = 0.1 + (double)orders[i][r] + w;
            cluster_rows(c, w, 1, 4, orders[i], 4, values);
        }
        RUN(c, 1, 0);
        RUN(c, 0, 1);
        for (uint64_t row = 0; row < 9; row++) {
            bool pushed = row == 0 || row == 3 || row == 5 || row == 8;
            CHECK(c, (cluster_value(c, 1, row) != 0) == pushed, "row %llu is %g", (unsigned long long)row,
                  cluster_value(c, 1, row));
            EXACT(c, 1, row, cluster_value(stage->jobs[0], 1, row));
        }
    }
    return 0;
}

/* sparse_mean_over_all -- row_mean = replicas: divided by all contributions, as a dense variable is. */
static int sparse_mean_over_all(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2,
        .keys = "learning_rate=1",
        .variables = {{.name = "rows", .kind = STEPGATE_SPARSE, .dims = {3, 1}, .options = "rows_max=2"},
                      {.name = "all",
                       .kind = STEPGATE_SPARSE,
                       .dims = {3, 1},
                       .options = "rows_max=2 row_mean=replicas"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t v = 0; v < 2; v++) {
        cluster_rows(c, 0, v, INDICES(0, 1), VALUES(2, 6));
        cluster_rows(c, 1, v, INDICES(1), VALUES(10));
    }
    RUN(c, 0, 1);
    EXACT(c, 0, 0, -2);
    EXACT(c, 0, 1, -8);
    EXACT(c, 1, 0, -1);
    EXACT(c, 1, 1, -8);
    return 0;
}

/* sparse_without_rows -- none is a contribution, too; and so is an absent one in strict mode. */
static int sparse_without_rows(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2,
        .keys = "learning_rate=1",
        .variables = {{.name = "table", .kind = STEPGATE_SPARSE, .dims = {3, 1}, .options = "rows_max=2"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    cluster_rows(c, 0, 0, 0, NULL, 0, NULL);
    cluster_rows(c, 1, 0, INDICES(2), VALUES(4));
    RUN(c, 0, 1);
    GS(c, 1);
    EXACT(c, 0, 2, -4);
    cluster_absent(c, 1, 0);
    RUN(c, 0, 1);
    GS(c, 2);
    EXACT(c, 0, 2, -4);
    VERDICT(c, 1, APPLIED, 1);
    return 0;
}

/* sparse_many_steps -- rows that one step moves are there in all steps behind it, wherever they lie. */
static int sparse_many_steps(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2,
        .shards = 2,
        .keys = "learning_rate=1",
        .variables = {{.name = "table", .kind = STEPGATE_SPARSE, .dims = {6, 1}, .options = "rows_max=1"}},
        .cut_bytes = 12};
    double rows[6] = {0};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint64_t step = 0; step < 9; step++) {
        for (uint32_t w = 0; w < 2; w++) {
            uint64_t row = (step * 5 + w * 3) % 6;
            cluster_rows(c, w, 0, INDICES(row), VALUES(1 + (double)step));
            rows[row] -= 1 + (double)step;
        }
        RUN(c, 1, 0);
        for (uint64_t row = 0; row < 6; row++)
            EXACT(c, 0, row, rows[row]);
    }
    return 0;
}

/* sparse_misuse -- rows of what has none, a gradient of what is rows, twice, and a declaration that says not how many. */
static int sparse_misuse(struct stage *stage)
{
    static const struct cluster_job job = {
        .variables = {{.name = "dense", .dims = {4}},
                      {.name = "table", .kind = STEPGATE_SPARSE, .dims = {4, 1}, .options = "rows_max=2"}}};
    static const struct cluster_job unbounded = {
        .variables = {{.name = "table", .kind = STEPGATE_SPARSE, .dims = {4, 1}}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    struct session_model *model = c->worker[0].model;
    CHECK(c, session_push(model, 1, cluster_now(c)) == -STEPGATE_EINVAL && sparse_says("table", "sparse", ""),
          "a whole sparse gradient is taken");
    int status = session_push_rows(model, 0, (const uint64_t[]){1}, 1, (const float[]){1}, cluster_now(c));
    CHECK(c, status == -STEPGATE_EINVAL && sparse_says("dense", "not sparse", ""),
          "rows of a dense one give %d", status);
    status = session_push_rows(model, 1, NULL, 1, NULL, cluster_now(c));
    CHECK(c, status == -STEPGATE_EINVAL, "no indices give %d", status);
    CHECK(c, cluster_push_rows(c, 0, 1, INDICES(1), VALUES(1)) == 0, "rows are refused");
    status = cluster_push_rows(c, 0, 1, INDICES(2), VALUES(1));
    CHECK(c, status == -STEPGATE_EALREADY, "rows, twice, give %d", status);
    CHECK(c, session_finish(model, 0, cluster_now(c)) == 0, "it cannot be abandoned");
    c->worker[0].state = CLUSTER_WAITS;
    TRY(cluster_settle(c));
    VERDICT(c, 0, EMPTY, 0);
    EXACT(c, 1, 1, 0);
    return cluster_refused(stage->ground, &unbounded, STEPGATE_EINVAL, "no rows_max");
}

const struct scenario scenario_sparse[] = {
    {"sparse_too_many_rows_name_both_numbers", sparse_too_many, false},
    {"sparse_an_index_out_of_range_counts_for_nothing", sparse_out_of_range, false},
    {"sparse_rows_of_one_index_are_summed", sparse_duplicates, false},
    {"sparse_order_does_not_matter", sparse_order, false},
    {"sparse_rows_may_be_divided_by_all", sparse_mean_over_all, false},
    {"sparse_no_rows_are_a_contribution", sparse_without_rows, false},
    {"sparse_rows_stay_where_a_step_left_them", sparse_many_steps, false},
    {"sparse_misuse_is_refused", sparse_misuse, false},
    {NULL, NULL, false}};
