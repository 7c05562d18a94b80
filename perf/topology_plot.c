/* SPDX-License-Identifier: BSD-3-Clause */
/* topology_plot -- the picture: a box for each node, with its devices, its memory, and a square for each core in the colour of its use. */
#include <stdio.h>
#include <string.h>

#include "perf/topology.h"

#define PLOT_PER_ROW 8 /* cores */
#define PLOT_NODES 2   /* side by side */
#define PLOT_WIDTH 10.0
#define PLOT_HEAD 3.2 /* above the cores: title, devices, memory */

/* plot_label -- a text at a place. */
static void plot_label(FILE *to, double x, double y, const char *text, const char *how)
{
    fputs("set label '", to);
    for (; *text != '\0'; text++)
        fputs(*text == '\'' ? "''" : (char[2]){*text, '\0'}, to);
    fprintf(to, "' at %g,%g noenhanced %s\n", x, y, how);
}

/* plot_box -- a rectangle in a colour. */
static void plot_box(FILE *to, double x, double y, double width, double height, const char *colour)
{
    fprintf(to, "set object rectangle from %g,%g to %g,%g fc rgb '%s' fs solid border lc rgb '#666666'\n", x,
            y, x + width, y + height, colour);
}

/* plot_colour -- of a role. */
static const char *plot_colour(const char *role)
{
    return strcmp(role, "lane") == 0 ? "#f2b36b" : strcmp(role, "worker") == 0 ? "#9cc7e8" : "#f4f4f4";
}

/* plot_list -- "words a, b"; an empty list is a dash. */
static void plot_list(const json_t *list, const char *words, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "%s", words), index;
    const json_t *one;

    json_array_foreach(list, index, one)
    {
        char number[32];
        snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(one));
        if (used + 80 < bytes)
            used += (size_t)snprintf(out + used, bytes - used, "%s%.64s", index > 0 ? ", " : " ",
                                     json_is_string(one) ? json_string_value(one) : number);
    }
    if (json_array_size(list) == 0)
        snprintf(out + used, bytes - used, " -");
}

/* plot_core -- its processors, and below them who has it, without the space that a square has not. */
static void plot_core(FILE *to, double x, double y, const json_t *core)
{
    const char *who = json_string_value(json_object_get(core, "who"));
    const json_t *cpus = json_object_get(core, "processors"), *cpu;
    char text[64] = "";
    size_t index, used = 0;
    unsigned a, b;

    plot_box(to, x, y, 1.08, 0.9, plot_colour(json_string_value(json_object_get(core, "role"))));
    json_array_foreach(cpus, index, cpu) if (used + 16 < sizeof(text)) used += (size_t)snprintf(
        text + used, sizeof(text) - used, "%s%lld", index > 0 ? "," : "", (long long)json_integer_value(cpu));
    plot_label(to, x + 0.54, y + 0.62, text, "center font ',11'");
    if (sscanf(who, "ps %u lane %u", &a, &b) == 2)
        snprintf(text, sizeof(text), "ps %u.%u", a, b);
    else if (sscanf(who, "worker %u", &a) == 1)
        snprintf(text, sizeof(text), "w %u", a);
    else
        text[0] = '\0';
    plot_label(to, x + 0.54, y + 0.25, text, "center font ',9'");
}

/* plot_node -- its box, whose upper left corner is at x, y. */
static void plot_node(FILE *to, double x, double y, double height, const json_t *node)
{
    const json_t *cores = json_object_get(node, "cores"), *core;
    char text[256];
    size_t index;

    plot_box(to, x, y - height, PLOT_WIDTH, height, "#ffffff");
    snprintf(text, sizeof(text), "node %lld, %.1f GiB",
             (long long)json_integer_value(json_object_get(node, "node")),
             json_number_value(json_object_get(node, "memory_bytes")) / 1073741824.0);
    plot_label(to, x + 0.3, y - 0.5, text, "left font ',14'");
    plot_list(json_object_get(node, "devices"), "NIC", text, sizeof(text));
    plot_box(to, x + 0.3, y - 1.75, 4.5, 0.8,
             json_array_size(json_object_get(node, "devices")) > 0 ? "#a8d8a0" : "#f4f4f4");
    plot_label(to, x + 0.5, y - 1.35, text, "left");
    plot_list(json_object_get(node, "memory_of_ps"), "memory of ps", text, sizeof(text));
    plot_box(to, x + 5.1, y - 1.75, 4.6, 0.8,
             json_array_size(json_object_get(node, "memory_of_ps")) > 0 ? "#f2b36b" : "#f4f4f4");
    plot_label(to, x + 5.3, y - 1.35, text, "left");
    json_array_foreach(cores, index, core)
        plot_core(to, x + 0.3 + 1.18 * (double)(index % PLOT_PER_ROW),
                  y - PLOT_HEAD + 0.1 - (double)(index / PLOT_PER_ROW), core);
}

/* plot_height -- of the nodes' boxes: that of the one with most cores. */
static double plot_height(const json_t *nodes)
{
    size_t most = 0, index;
    const json_t *node;

    json_array_foreach(nodes, index, node)
    {
        size_t cores = json_array_size(json_object_get(node, "cores"));
        most = cores > most ? cores : most;
    }
    return PLOT_HEAD + (double)((most + PLOT_PER_ROW - 1) / PLOT_PER_ROW) - 0.7;
}

/* topology_plot -- see topology.h. */
void topology_plot(FILE *to, const json_t *object)
{
    const json_t *nodes = json_object_get(object, "nodes"), *node;
    const char *why = json_string_value(json_object_get(object, "why"));
    double height = plot_height(nodes), step = height + 0.5;
    size_t count = json_array_size(nodes), rows = (count + PLOT_NODES - 1) / PLOT_NODES, index;

    json_array_foreach(nodes, index, node) plot_node(to, (PLOT_WIDTH + 0.5) * (double)(index % PLOT_NODES),
                                                     -step * (double)(index / PLOT_NODES), height, node);
    plot_label(to, 0, 0.6, why != NULL ? why : "", "left font ',12'");
    plot_label(to, 0, -step * (double)rows - 0.2,
               "orange: ps P, lane L (ps P.L); blue: worker N (w N); green: RDMA device", "left font ',11'");
    fprintf(to,
            "unset border\nunset tics\nunset key\nset margins 2,2,1,1\nplot [-0.3:%g] [%g:1.2] NaN notitle\n",
            (PLOT_WIDTH + 0.5) * PLOT_NODES, -step * (double)rows - 0.8);
}
