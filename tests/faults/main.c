/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-faults -- every call that can fail does so once, in a job of its own; until one ends in which none failed. */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/faults/trial.h"

#define MAIN_BESIDE 12 /* jobs at a time, most of which wait */
#define MAIN_WHOLE                                                                                           \
    20 /* in a row in which nothing failed: the threads do not come to their points in the same order each time */
#define MAIN_PLACES 4096

static const char *const main_momentum[] = {"optimizer", "momentum", "learning_rate", "0.1", NULL};
static const char *const main_adam[] = {"optimizer", "adam",       "average_decay", "0.9", "clip_global_norm",
                                        "5",         "non_finite", "skip",          NULL};

static const struct job_plan main_plans[] = {
    {.name = "training", .keys = main_adam},
    {.name = "looks", .keys = main_momentum, .looks = true},
    {.name = "checkpoints", .keys = main_momentum, .checkpoints = true},
    {.name = "resumes", .keys = main_momentum, .checkpoints = true, .resumes = true},
};

struct main_count {
    uint64_t trials, wrong, refused, same, points, values;
    uint64_t whole; /* in a row */
    const void *place[MAIN_PLACES];
    size_t places;
};

/* main_usage -- to `out`; returns the status to exit with. */
static int main_usage(FILE *out, int status)
{
    fputs("usage: stepgate-faults [--plan NAME] [--point N] [--every N] [--transport shm|verbs] [--host "
          "ADDRESS]\n"
          "Runs a small job once for each call that can fail, which does. --every N: for each Nth alone.\n",
          out);
    return status;
}

/* main_place -- one more place at which something failed. */
static void main_place(struct main_count *count, const void *place)
{
    for (size_t i = 0; i < count->places; i++)
        if (count->place[i] == place)
            return;
    if (count->places < MAIN_PLACES)
        count->place[count->places++] = place;
}

/* main_count_in -- what came of a trial. */
static void main_count_in(struct main_count *count, const struct trial *trial, enum trial_verdict verdict)
{
    const struct job_report *report = trial->report;

    count->trials++;
    count->wrong += verdict == TRIAL_WRONG;
    count->refused += verdict == TRIAL_REFUSED;
    count->same += verdict == TRIAL_SAME;
    count->whole = report->failed.number == 0 && verdict == TRIAL_WHOLE ? count->whole + 1 : 0;
    if (report->failed.number == 0)
        return;
    if (report->failed.number > count->points)
        count->points = report->failed.number;
    main_place(count, report->failed.place);
}

/* main_first -- a job in which nothing fails, whose values are those of all that end well; false: it does not end well. */
static bool main_first(const struct job_plan *plan, const struct trial_ground *ground, struct trial *trial,
                       struct main_count *count)
{
    int status;

    if (trial_start(trial, plan, ground, 0) != 0)
        return false;
    while (!trial_ended(trial, &status))
        poll(NULL, 0, 2);
    count->values = trial->report->values;
    return trial_judge(trial, plan, status, 0) == TRIAL_WHOLE;
}

/* main_plan -- all points of a plan from `from` on; 0 only if there were some, and none was wrong. */
static int main_plan(const struct job_plan *plan, const struct trial_ground *ground, uint64_t from,
                     uint64_t every, bool alone)
{
    static struct main_count count;
    struct trial *trials[MAIN_BESIDE] = {NULL};
    uint64_t next = from, begun = trial_now();
    int status, running = 0, room = 0;

    memset(&count, 0, sizeof(count));
    for (; room < MAIN_BESIDE; room++)
        if ((trials[room] = trial_new()) == NULL)
            break;
    bool goes = room > 0 && main_first(plan, ground, trials[0], &count);
    while (goes || running > 0) {
        for (int i = 0; i < room; i++) {
            struct trial *trial = trials[i];
            if (trial->pid != 0 && trial_ended(trial, &status)) {
                running--;
                main_count_in(&count, trial, trial_judge(trial, plan, status, count.values));
                goes = goes && count.whole < MAIN_WHOLE;
            }
            if (trial->pid != 0 || !goes)
                continue;
            if (trial_start(trial, plan, ground, next) != 0) {
                printf("FAILED %s: no process for point %" PRIu64 "\n", plan->name, next);
                count.wrong++;
                goes = false;
                continue;
            }
            running++;
            next += every;
            goes = !alone;
        }
        poll(NULL, 0, 1);
    }
    for (int i = 0; i < room; i++)
        trial_delete(&trials[i]);
    printf("note: %s: %" PRIu64 " points at %zu places: %" PRIu64 " errors, %" PRIu64
           " jobs that ended well in spite of it, %" PRIu64 " wrong, %.1f s\n",
           plan->name, count.points, count.places, count.refused, count.same, count.wrong,
           (double)(trial_now() - begun) / 1000);
    return count.wrong != 0 || count.refused + count.same == 0;
}

/* main_allocate -- for the library that reads and writes JSON: its allocations are the project's. */
static void *main_allocate(size_t bytes)
{
    return malloc(bytes);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"plan", required_argument, NULL, 'p'},
                                            {"point", required_argument, NULL, 'n'},
                                            {"every", required_argument, NULL, 'e'},
                                            {"transport", required_argument, NULL, 't'},
                                            {"host", required_argument, NULL, 'a'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct trial_ground ground = {.transport = "shm", .host = "127.0.0.1"};
    char work[] = P_tmpdir "/stepgate-faults-XXXXXX";
    const char *only = NULL;
    uint64_t every = 1, point = 0;
    unsigned passed = 0, failed = 0;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'p': only = optarg; break;
        case 'n': point = strtoull(optarg, NULL, 0); break;
        case 'e': every = strtoull(optarg, NULL, 0); break;
        case 't': ground.transport = optarg; break;
        case 'a': ground.host = optarg; break;
        case 'h': return main_usage(stdout, 0);
        default: return main_usage(stderr, 2);
        }
    }
    if (optind < argc || every == 0)
        return main_usage(stderr, 2);
    if (mkdtemp(work) == NULL) {
        perror(work);
        return 1;
    }
    ground.work = work;
    json_set_alloc_funcs(main_allocate, free);
    signal(SIGPIPE, SIG_IGN);
    for (size_t p = 0; p < sizeof(main_plans) / sizeof(main_plans[0]); p++) {
        if (only != NULL && strcmp(only, main_plans[p].name) != 0)
            continue;
        bool wrong = main_plan(&main_plans[p], &ground, point != 0 ? point : 1, every, point != 0) != 0;
        passed += !wrong;
        failed += wrong;
    }
    rmdir(work);
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0 || passed == 0;
}
