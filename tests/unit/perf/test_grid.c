/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perf/grid.h"

/* a_grid -- every cell as fast as the others. */
static struct grid *a_grid(const char *hosts, const char *servers)
{
    struct grid_names rows, columns;

    assert_int_equal(grid_split(hosts, &rows), 0);
    assert_int_equal(grid_split(servers, &columns), 0);
    struct grid *grid = grid_new(&rows, &columns);
    assert_non_null(grid);
    for (size_t i = 0; i < rows.count * columns.count; i++)
        grid->cells[i] = (struct grid_cell){.write = 1e9, .read = 2e9, .median = 5000, .percentile = 9000};
    return grid;
}

static void names_are_split_at_commas(void **state)
{
    struct grid_names names;
    (void)state;

    assert_int_equal(grid_split("a,10.0.0.2:18520,user@c-d.e_f", &names), 0);
    assert_int_equal(names.count, 3);
    assert_string_equal(names.name[0], "a");
    assert_string_equal(names.name[1], "10.0.0.2:18520");
    assert_string_equal(names.name[2], "user@c-d.e_f");
}

static void names_that_a_shell_would_understand_are_refused(void **state)
{
    static const char *const bad[] = {"", "a,", ",a", "a,,b", "a;b", "$(a)", "a b", "a'", "-a", "b,-oProxy"};
    struct grid_names names = {.count = 7};
    (void)state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(grid_split(bad[i], &names), -1);
    assert_int_equal(names.count, 7); /* not written */
}

static void names_that_are_too_many_or_too_long_are_refused(void **state)
{
    char many[2 * GRID_MOST + 2] = "", longest[GRID_NAME + 1];
    struct grid_names names;
    (void)state;

    for (size_t i = 0; i < GRID_MOST; i++)
        strcat(many, i == 0 ? "a" : ",a");
    assert_int_equal(grid_split(many, &names), 0);
    strcat(many, ",a");
    assert_int_equal(grid_split(many, &names), -1);
    memset(longest, 'a', sizeof(longest));
    longest[GRID_NAME] = '\0';
    assert_int_equal(grid_split(longest, &names), -1);
    longest[GRID_NAME - 1] = '\0';
    assert_int_equal(grid_split(longest, &names), 0);
}

static void equal_cells_are_all_good(void **state)
{
    struct grid *grid = a_grid("a,b", "x,y");
    (void)state;

    assert_int_equal(grid_judge(grid, 1), 0);
    assert_true(grid->write_median == 1e9 && grid->read_median == 2e9 && grid->lat_median == 5000);
    assert_true(grid_at(grid, 1, 1)->share == 1);
    grid_delete(&grid);
    assert_null(grid);
}

static void a_cell_is_slow_by_the_slower_direction(void **state)
{
    struct grid *grid = a_grid("a,b,c", "x,y");
    (void)state;

    grid_at(grid, 1, 0)->write = 0.79e9;
    grid_at(grid, 2, 1)->read = 1e9;
    grid_at(grid, 0, 0)->write = 0.81e9;
    assert_int_equal(grid_judge(grid, 0.8), 2);
    assert_true(grid_at(grid, 1, 0)->slow && grid_at(grid, 2, 1)->slow && !grid_at(grid, 0, 0)->slow);
    assert_true(grid_at(grid, 2, 1)->share == 0.5);
    assert_false(grid_host_slow(grid, 1) || grid_server_slow(grid, 0));
    grid_delete(&grid);
}

static void an_empty_cell_is_bad_and_not_in_the_median(void **state)
{
    struct grid *grid = a_grid("a,b", "x,y");
    (void)state;

    *grid_at(grid, 0, 1) = (struct grid_cell){.reason = "no route"};
    grid_at(grid, 0, 0)->write = 3e9;
    assert_int_equal(grid_judge(grid, 0.8), 1);
    assert_true(grid->write_median == 1e9);
    assert_false(grid_at(grid, 0, 1)->slow);
    grid_delete(&grid);
}

static void nothing_measured_has_no_median(void **state)
{
    struct grid *grid = a_grid("a", "x,y");
    (void)state;

    for (size_t i = 0; i < 2; i++)
        *grid_at(grid, 0, i) = (struct grid_cell){.reason = "off"};
    assert_int_equal(grid_judge(grid, 0.8), 2);
    assert_true(grid->write_median == 0 && grid->lat_median == 0);
    assert_false(grid_host_slow(grid, 0)); /* nobody is better */
    grid_delete(&grid);
}

static void a_host_and_a_server_with_no_good_cell_are_found(void **state)
{
    struct grid *grid = a_grid("a,b,c,d", "x,y,z");
    (void)state;

    for (size_t i = 0; i < 3; i++)
        grid_at(grid, 1, i)->write = 1e8;
    assert_int_equal(grid_judge(grid, 0.8), 3);
    assert_true(grid_host_slow(grid, 1));
    assert_false(grid_host_slow(grid, 0) || grid_server_slow(grid, 0));
    for (size_t i = 0; i < 4; i++)
        snprintf(grid_at(grid, i, 2)->reason, GRID_REASON, "off");
    assert_int_equal(grid_judge(grid, 0.8), 6);
    assert_true(grid_server_slow(grid, 2));
    grid_delete(&grid);
}

static void the_table_marks_what_is_slow_and_what_is_empty(void **state)
{
    struct grid *grid = a_grid("a,b", "x,y");
    char *text = NULL;
    size_t bytes = 0;
    (void)state;

    grid_at(grid, 0, 0)->write = 1e8;
    *grid_at(grid, 1, 1) = (struct grid_cell){.reason = "off"};
    (void)grid_judge(grid, 0.8);
    FILE *to = open_memstream(&text, &bytes);
    grid_print(grid, GRID_WRITE, 0.8, to);
    grid_print(grid, GRID_LATENCY, 0.8, to);
    fclose(to);
    assert_string_equal(text, "write GB/s           x            y \n"
                              "a                0.100*       1.000 \n"
                              "b                1.000            - \n"
                              "lat us               x            y \n"
                              "a                 5.00         5.00 \n"
                              "b                 5.00            - \n");
    free(text);
    grid_delete(&grid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_split_at_commas),
        cmocka_unit_test(names_that_a_shell_would_understand_are_refused),
        cmocka_unit_test(names_that_are_too_many_or_too_long_are_refused),
        cmocka_unit_test(equal_cells_are_all_good),
        cmocka_unit_test(a_cell_is_slow_by_the_slower_direction),
        cmocka_unit_test(an_empty_cell_is_bad_and_not_in_the_median),
        cmocka_unit_test(nothing_measured_has_no_median),
        cmocka_unit_test(a_host_and_a_server_with_no_good_cell_are_found),
        cmocka_unit_test(the_table_marks_what_is_slow_and_what_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
