/* SPDX-License-Identifier: BSD-3-Clause */
/* grid -- what lies between each host and each server, and which cells are slower than the others. */
#ifndef PERF_GRID_H
#define PERF_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define GRID_MOST 64 /* hosts, and servers */
#define GRID_NAME 80
#define GRID_REASON 256

struct grid_names {
    char name[GRID_MOST][GRID_NAME];
    size_t count;
};

struct grid_cell {
    double write, read;        /* bytes per second; 0: not measured */
    double median, percentile; /* of latencies, ns: half of them, and 99 of 100, are no longer */
    double share;              /* of the medians of all cells: the lesser one of write and read */
    bool slow;
    char reason[GRID_REASON]; /* why it was not measured; "": it was */
};

struct grid {
    struct grid_names hosts, servers;
    struct grid_cell *cells;                      /* host by host */
    double write_median, read_median, lat_median; /* of the cells that were measured; 0: none was */
};

enum grid_figure { GRID_WRITE, GRID_READ, GRID_LATENCY };

/* grid_split -- "a,b:1": names without what a shell would understand otherwise. 0, or -1: one is empty, too long or has such a character, or there are too many. */
int grid_split(const char *list, struct grid_names *names);
/* grid_plain -- is it such a name, or such a list? */
bool grid_plain(const char *text);
/* grid_new -- no cell is measured. NULL: no memory. */
struct grid *grid_new(const struct grid_names *hosts, const struct grid_names *servers);
/* grid_delete -- sets NULL, safe on NULL. */
void grid_delete(struct grid **grid);
/* grid_at -- a cell. */
struct grid_cell *grid_at(const struct grid *grid, size_t host, size_t server);
/* grid_judge -- medians, shares, and what is slow: below `least` of a median. How many cells are slow or were not measured. */
size_t grid_judge(struct grid *grid, double least);
/* grid_host_slow, grid_server_slow -- are all of its cells, two or more, slow or not measured, while others are not? Then it is no single link. */
bool grid_host_slow(const struct grid *grid, size_t host);
bool grid_server_slow(const struct grid *grid, size_t server);
/* grid_print -- one figure: a line for each host, a column for each server; a star marks what is slow in it, a dash what was not measured. */
void grid_print(const struct grid *grid, enum grid_figure figure, double least, FILE *to);

#endif
