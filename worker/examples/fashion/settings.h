/* SPDX-License-Identifier: BSD-3-Clause */
/* The trainer's own command line. Flags that belong to stepgate are taken out before it is read. */
#ifndef FASHION_SETTINGS_H
#define FASHION_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/examples/fashion/fault.h"
#include "worker/examples/fashion/progress.h"
#include "worker/examples/fashion/recipe.h"
#include "worker/examples/fashion/straggle.h"

struct settings {
    uint64_t epochs;
    uint64_t images;      /* 0 = all */
    uint64_t test_images; /* 0 = all */
    uint64_t batch;       /* of one part */
    struct recipe recipe; /* checked; its schedule has no steps yet where the run's are meant */
    bool constant;        /* as the schedule of that name */
    struct straggle straggle;
    uint64_t evaluate_every; /* 0 = never */
    const char *data;
    const char *json; /* NULL = no result file */
    bool single;
    uint64_t parts; /* of a single process */
    bool uneven;
    enum progress_style progress;
    bool help;
    const char *plot_result;  /* with --plot: from here ... */
    const char *plot_picture; /* ... to here */
};

/* settings_read -- defaults, and what argv[1] ... argv[argc - 1] change in them. - and _ are the
 * same in a name;
 * --name VALUE and --name=VALUE too. The strings of argv are kept. */
int settings_read(struct settings *settings, int argc, char **argv, struct fault *fault);

/* settings_is_single -- whether argv asks for a run without ps, or for something that is no run at
 * all */
bool settings_is_single(int argc, char **argv);

/* settings_help -- write the help text to stdout */
void settings_help(void);

#endif
