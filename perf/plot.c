/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/plot.h"

#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/topology.h"

#define PLOT_LINES_MAX 8

extern char **environ;

/* plot_terminal -- gnuplot's name for the kind of picture; NULL: unknown. */
static const char *plot_terminal(const char *path)
{
    size_t length = strlen(path);

    if (length > 4 && strcmp(path + length - 4, ".png") == 0)
        return "pngcairo size 1200,720 background '#ffffff' font 'DejaVu Sans,13'";
    if (length > 4 && strcmp(path + length - 4, ".svg") == 0)
        return "svg size 1200,720 background '#ffffff' font 'DejaVu Sans,13'";
    return NULL;
}

/* plot_quoted -- a text for gnuplot, between single quotes. */
static void plot_quoted(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text != '\0'; text++)
        fputs(*text == '\'' ? "''" : (char[2]){*text, '\0'}, to);
    fputc('\'', to);
}

/* plot_lines -- the rows' keys that are drawn, with a name and the factor to the unit of the axis. */
struct plot_line {
    const char *key, *name;
    double scale;
};
static const struct plot_line plot_bandwidth[] = {{"bw_bytes_per_s", "mean", 1e9},
                                                  {"bw_bytes_per_s_min", "slowest 100 ms", 1e9},
                                                  {"bw_bytes_per_s_max", "fastest 100 ms", 1e9}};
static const struct plot_line plot_latency[] = {
    {"lat_ns_p50", "median", 1e3}, {"lat_ns_p99", "99 %", 1e3}, {"lat_ns_min", "least", 1e3}};

/* plot_script -- the whole drawing. */
static void plot_script(FILE *to, const json_t *result, bool bandwidth)
{
    const struct plot_line *lines = bandwidth ? plot_bandwidth : plot_latency;
    const json_t *rows = json_object_get(result, "rows"), *row;
    const char *test = json_string_value(json_object_get(result, "test"));
    size_t index;

    fputs("set title ", to);
    plot_quoted(to, test != NULL ? test : "");
    fprintf(to,
            " noenhanced\nset logscale x 2\nset xlabel 'bytes of a message'\nset ylabel '%s'\nset yrange "
            "[0:*]\nset grid lc rgb '#dddddd'\n"
            "set border 3 lc rgb '#666666'\nset tics nomirror\nset key left top\nset format x '%%.0f'\nset "
            "xtics rotate by -35\n",
            bandwidth ? "GB/s" : "microseconds");
    for (int i = 0; i < 3; i++) {
        fprintf(to, "$line%d << END\n", i);
        json_array_foreach(rows, index, row)
        {
            const json_t *x = json_object_get(row, "size_bytes"), *y = json_object_get(row, lines[i].key);
            if (json_is_number(x) && json_is_number(y))
                fprintf(to, "%.17g %.17g\n", json_number_value(x), json_number_value(y) / lines[i].scale);
        }
        fputs("END\n", to);
    }
    fprintf(to,
            "plot $line0 with linespoints lw 3 pt 7 lc rgb '#1f6fb4' title '%s', $line1 with lines lw 1.5 lc "
            "rgb '#d1731e' title '%s',"
            " $line2 with lines lw 1.5 lc rgb '#4a9a4a' title '%s'\n",
            lines[0].name, lines[1].name, lines[2].name);
}

/* plot_steps -- projected steps over workers, a line for each algorithm and size. */
static void plot_steps(FILE *to, const json_t *rows)
{
    const json_t *row;
    const char *names[PLOT_LINES_MAX], *name;
    size_t count = 0, index, i;

    fputs("set title 'a step, projected'\nset logscale xy\nset xlabel 'workers'\nset ylabel 'ms'\n"
          "set grid lc rgb '#dddddd'\nset border 3 lc rgb '#666666'\nset tics nomirror\nset key left top\n",
          to);
    json_array_foreach(rows, index, row)
    {
        name = json_string_value(json_object_get(row, "algorithm"));
        for (i = 0; i < count && strcmp(names[i], name) != 0; i++)
            continue;
        if (i == count && count < PLOT_LINES_MAX)
            names[count++] = name;
    }
    for (i = 0; i < count; i++) {
        double before = 0;
        fprintf(to, "$line%zu << END\n", i);
        json_array_foreach(rows, index, row)
        {
            double workers = json_number_value(json_object_get(row, "workers_count"));
            if (strcmp(names[i], json_string_value(json_object_get(row, "algorithm"))) != 0)
                continue;
            if (workers <= before)
                fputc('\n', to); /* the next size: another line */
            fprintf(to, "%.17g %.17g\n", workers, json_number_value(json_object_get(row, "step_ns")) / 1e6);
            before = workers;
        }
        fputs("END\n", to);
    }
    for (i = 0; i < count; i++)
        fprintf(to, "%s$line%zu with linespoints lw 2 pt 7 title '%s'%s", i == 0 ? "plot " : ", ", i,
                names[i], i + 1 == count ? "\n" : "");
}

/* plot_gnuplot -- draws a script. */
static int plot_gnuplot(const char *script, char *text, size_t bytes)
{
    char *const argv[] = {(char *)"gnuplot", (char *)script, NULL};
    int status;
    pid_t pid;
    int error = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);

    if (error != 0) {
        snprintf(text, bytes, "cannot start gnuplot (%s): apt-get install gnuplot-nox", strerror(error));
        return -1;
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        snprintf(text, bytes, "gnuplot could not draw: its own words are above");
        return -1;
    }
    return 0;
}

/* plot_draw -- see plot.h. */
int plot_draw(const json_t *result, const char *path, char *text, size_t bytes)
{
    const json_t *rows = json_object_get(result, "rows"), *first = json_array_get(rows, 0);
    char script[32];

    if (plot_terminal(path) == NULL) {
        snprintf(text, bytes, "cannot tell what picture %s is to be: end its name in .png or .svg", path);
        return -1;
    }
    const json_t *topology = json_object_get(result, "topology");
    bool steps = json_object_get(first, "algorithm") != NULL;
    if (topology == NULL && !steps &&
        (json_array_size(rows) < 2 || json_object_get(first, "size_bytes") == NULL)) {
        snprintf(text, bytes, "there is nothing to draw with one size: give --all, or several sizes");
        return -1;
    }
    int fd = memfd_create("stepgate-plot", 0); /* gnuplot inherits it */
    FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (to == NULL) {
        snprintf(text, bytes, "cannot make a file in memory: %m");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    snprintf(script, sizeof(script), "/dev/fd/%d", fd);
    fprintf(to, "set terminal %s\nset output ", plot_terminal(path));
    plot_quoted(to, path);
    fputc('\n', to);
    if (topology != NULL)
        topology_plot(to, topology);
    else if (steps)
        plot_steps(to, rows);
    else
        plot_script(to, result, json_object_get(first, "bw_bytes_per_s") != NULL);
    int status = -1;
    if (fflush(to) == 0)
        status = plot_gnuplot(script, text, bytes);
    else
        snprintf(text, bytes, "cannot write a file in memory: %m");
    fclose(to);
    return status;
}
