/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/grid.h"

#include <stdlib.h>
#include <string.h>

/* grid_plain -- see grid.h. */
bool grid_plain(const char *text)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:,@-";

    return text[0] != '\0' && text[0] != '-' && strspn(text, good) == strlen(text);
}

/* grid_split -- see grid.h. */
int grid_split(const char *list, struct grid_names *out)
{
    struct grid_names names = {.count = 0};

    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        if (names.count == GRID_MOST || length == 0 || length >= GRID_NAME)
            return -1;
        memcpy(names.name[names.count], at, length);
        if (!grid_plain(names.name[names.count++])) /* the array came with zeros */
            return -1;
        at += length;
        if (*at == '\0')
            break;
    }
    *out = names;
    return 0;
}

/* grid_new -- see grid.h. */
struct grid *grid_new(const struct grid_names *hosts, const struct grid_names *servers)
{
    struct grid *grid = calloc(1, sizeof(*grid));

    if (grid == NULL)
        return NULL;
    grid->hosts = *hosts;
    grid->servers = *servers;
    grid->cells = calloc(hosts->count * servers->count, sizeof(*grid->cells));
    if (grid->cells == NULL)
        grid_delete(&grid);
    return grid;
}

/* grid_delete -- see grid.h. */
void grid_delete(struct grid **grid)
{
    if (*grid != NULL)
        free((*grid)->cells);
    free(*grid);
    *grid = NULL;
}

/* grid_at -- see grid.h. */
struct grid_cell *grid_at(const struct grid *grid, size_t host, size_t server)
{
    return &grid->cells[host * grid->servers.count + server];
}

/* grid_figure -- one of a cell's. */
static double grid_figure(const struct grid_cell *cell, enum grid_figure figure)
{
    return figure == GRID_WRITE ? cell->write : figure == GRID_READ ? cell->read : cell->median;
}

/* grid_order -- for qsort. */
static int grid_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* grid_median -- of the cells that were measured; of an even number the mean of the middle two. */
static double grid_median(const struct grid *grid, enum grid_figure figure)
{
    size_t all = grid->hosts.count * grid->servers.count, n = 0;
    double values[GRID_MOST * GRID_MOST];

    for (size_t i = 0; i < all; i++)
        if (grid->cells[i].reason[0] == '\0')
            values[n++] = grid_figure(&grid->cells[i], figure);
    if (n == 0)
        return 0;
    qsort(values, n, sizeof(values[0]), grid_order);
    return n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* grid_judge -- see grid.h. */
size_t grid_judge(struct grid *grid, double least)
{
    size_t all = grid->hosts.count * grid->servers.count, bad = 0;

    grid->write_median = grid_median(grid, GRID_WRITE);
    grid->read_median = grid_median(grid, GRID_READ);
    grid->lat_median = grid_median(grid, GRID_LATENCY);
    for (size_t i = 0; i < all; i++) {
        struct grid_cell *cell = &grid->cells[i];
        bool measured = cell->reason[0] == '\0';
        double write = measured && grid->write_median > 0 ? cell->write / grid->write_median : 0;
        double read = measured && grid->read_median > 0 ? cell->read / grid->read_median : 0;
        cell->share = write < read ? write : read;
        cell->slow = measured && cell->share < least;
        bad += cell->slow || !measured;
    }
    return bad;
}

/* grid_bad -- slow or not measured. */
static bool grid_bad(const struct grid_cell *cell)
{
    return cell->slow || cell->reason[0] != '\0';
}

/* grid_alone -- `own` of `length` cells are bad in one row or column, `bad` of all. */
static bool grid_alone(const struct grid *grid, size_t own, size_t length)
{
    size_t all = grid->hosts.count * grid->servers.count, bad = 0;

    for (size_t i = 0; i < all; i++)
        bad += grid_bad(&grid->cells[i]);
    return length >= 2 && own == length && bad < all;
}

/* grid_host_slow -- see grid.h. */
bool grid_host_slow(const struct grid *grid, size_t host)
{
    size_t own = 0;

    for (size_t i = 0; i < grid->servers.count; i++)
        own += grid_bad(grid_at(grid, host, i));
    return grid_alone(grid, own, grid->servers.count);
}

/* grid_server_slow -- see grid.h. */
bool grid_server_slow(const struct grid *grid, size_t server)
{
    size_t own = 0;

    for (size_t i = 0; i < grid->hosts.count; i++)
        own += grid_bad(grid_at(grid, i, server));
    return grid_alone(grid, own, grid->hosts.count);
}

/* grid_width -- of the longest name, and a figure. */
static int grid_width(const struct grid_names *names)
{
    size_t width = 10;

    for (size_t i = 0; i < names->count; i++)
        width = strlen(names->name[i]) > width ? strlen(names->name[i]) : width;
    return (int)width;
}

/* grid_print -- see grid.h. */
void grid_print(const struct grid *grid, enum grid_figure figure, double least, FILE *to)
{
    static const char *const titles[] = {"write GB/s", "read GB/s", "lat us"};
    int left = grid_width(&grid->hosts), width = grid_width(&grid->servers);
    double median = figure == GRID_WRITE ? grid->write_median : grid->read_median;

    fprintf(to, "%-*s", left, titles[figure]);
    for (size_t i = 0; i < grid->servers.count; i++)
        fprintf(to, "  %*s ", width, grid->servers.name[i]);
    fputc('\n', to);
    for (size_t host = 0; host < grid->hosts.count; host++) {
        fprintf(to, "%-*s", left, grid->hosts.name[host]);
        for (size_t i = 0; i < grid->servers.count; i++) {
            const struct grid_cell *cell = grid_at(grid, host, i);
            double value = grid_figure(cell, figure);
            if (cell->reason[0] != '\0')
                fprintf(to, "  %*s ", width, "-");
            else if (figure == GRID_LATENCY)
                fprintf(to, "  %*.2f ", width, value / 1e3);
            else
                fprintf(to, "  %*.3f%c", width, value / 1e9, value < least * median ? '*' : ' ');
        }
        fputc('\n', to);
    }
}
