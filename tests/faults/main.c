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

#define MAIN_BESIDE 12 /* jobs at a time, at most; most of them wait */
#define MAIN_WHOLE                                                                                           \
    20 /* in a row in which nothing failed: the threads do not come to their points in the same order each time */
#define MAIN_PLACES 4096

static const char *const main_momentum[] = {"optimizer", "momentum", "learning_rate", "0.1", NULL};
static const char *const main_adam[] = {"optimizer", "adam",       "average_decay", "0.9", "clip_global_norm",
                                        "5",         "non_finite", "skip",          NULL};
static const char *const main_tf[] = {"update", "tf", "optimizer", "rmsprop", NULL};

static const struct job_plan main_plans[] = {
    {.name = "training", .keys = main_adam},
    {.name = "looks", .keys = main_momentum, .looks = true},
    {.name = "checkpoints", .keys = main_momentum, .checkpoints = true},
    {.name = "resumes", .keys = main_momentum, .checkpoints = true, .again = true},
    {.name = "two ps", .keys = main_adam, .two = true, .secret = true, .observes = true},
    {.name = "records", .keys = main_momentum, .sets = true},
    {.name = "replays", .keys = main_momentum, .sets = true, .again = true},
    {.name = "tf", .keys = main_tf, .varies = true},
    {.name = "program", .keys = main_momentum, .program = true},
    {.name = "rewinds", .keys = main_momentum, .checkpoints = true, .two = true, .loses = true},
};

struct main_count {
    uint64_t trials, wrong, refused, same, points, values;
    uint64_t whole; /* in a row */
    const void *place[MAIN_PLACES];
    size_t places;
};

/* What is asked for. */
struct main_order {
    struct job_ground ground;
    const char *work;      /* folder for those of the trials */
    uint64_t point, every; /* 0: all points, or each of so many */
    int beside;
    bool list;
};

/* main_usage -- to `out`; returns the status to exit with. */
static int main_usage(FILE *out, int status)
{
    fputs("usage: stepgate-faults [--plan NAME] [--point N] [--every N] [--transport shm|verbs] [--host "
          "ADDRESS]\n"
          "                       [--only-verbs] [--call NAME] [--slowness N] [--beside N] [--list]\n"
          "Runs a small job once for each call that can fail, which does.\n"
          "  --every N     for each Nth alone\n"
          "  --only-verbs  calls of libibverbs and librdmacm, and what these tell\n"
          "  --call NAME   this one alone\n"
          "  --slowness N  with deadlines N times as long\n"
          "  --beside N    so many jobs at a time\n"
          "  --list        a line for each\n",
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

/* main_tell -- one line on a trial in which something failed. */
static void main_tell(const struct trial *trial, enum trial_verdict verdict)
{
    const struct job_report *report = trial->report;
    const char *text = "";

    if (report->failed.number == 0)
        return;
    for (int a = 0; a < JOB_ACTORS; a++)
        if (text[0] == 0 && report->end[a].status != 0)
            text = report->end[a].error.text;
    printf("point %" PRIu64 ": %s: %s%s\n", trial->number, report->failed.call,
           verdict == TRIAL_SAME ? "ends well" : "", text);
}

/* main_first -- a job in which nothing fails, whose values are those of all that end well; false: it does not end well. */
static bool main_first(const struct job_plan *plan, const struct main_order *order, struct trial *trial,
                       struct main_count *count)
{
    int status;

    if (trial_start(trial, plan, &order->ground, order->work, 0) != 0)
        return false;
    while (!trial_ended(trial, &status))
        poll(NULL, 0, 2);
    count->values = plan->varies ? 0 : trial->report->values;
    count->points = trial->report->points;
    return trial_judge(trial, plan, status, 0) == TRIAL_WHOLE;
}

/* main_plan -- the points of a plan; 0 only if there were some, and none was wrong. */
static int main_plan(const struct job_plan *plan, const struct main_order *order)
{
    static struct main_count count;
    struct trial *trials[MAIN_BESIDE] = {NULL};
    uint64_t next = order->point != 0 ? order->point : 1, begun = trial_now();
    uint64_t enough = order->every == 1 ? MAIN_WHOLE : 1;
    int status, running = 0, room = 0;

    memset(&count, 0, sizeof(count));
    for (; room < MAIN_BESIDE && room < order->beside; room++)
        if ((trials[room] = trial_new()) == NULL)
            break;
    bool goes = room > 0 && main_first(plan, order, trials[0], &count);
    while (goes || running > 0) {
        for (int i = 0; i < room; i++) {
            struct trial *trial = trials[i];
            if (trial->pid != 0 && trial_ended(trial, &status)) {
                enum trial_verdict verdict = trial_judge(trial, plan, status, count.values);
                running--;
                main_count_in(&count, trial, verdict);
                if (order->list)
                    main_tell(trial, verdict);
                goes = goes && count.whole < enough;
            }
            if (trial->pid != 0 || !goes)
                continue;
            if (trial_start(trial, plan, &order->ground, order->work, next) != 0) {
                printf("FAILED %s: no process for point %" PRIu64 "\n", plan->name, next);
                count.wrong++;
                goes = false;
                continue;
            }
            running++;
            next += order->every;
            goes = order->point == 0;
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
    static const struct option options[] = {
        {"plan", required_argument, NULL, 'p'},   {"point", required_argument, NULL, 'n'},
        {"every", required_argument, NULL, 'e'},  {"transport", required_argument, NULL, 't'},
        {"host", required_argument, NULL, 'a'},   {"slowness", required_argument, NULL, 's'},
        {"only-verbs", no_argument, NULL, 'v'},   {"call", required_argument, NULL, 'c'},
        {"beside", required_argument, NULL, 'b'}, {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    struct main_order order = {.ground = {.transport = "shm",
                                          .host = "127.0.0.1",
                                          .kinds = POINT_SYSTEM | POINT_VERBS,
                                          .slowness = 1},
                               .every = 1,
                               .beside = MAIN_BESIDE};
    char work[] = P_tmpdir "/stepgate-faults-XXXXXX";
    const char *only = NULL;
    unsigned passed = 0, failed = 0;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'p': only = optarg; break;
        case 'n': order.point = strtoull(optarg, NULL, 0); break;
        case 'e': order.every = strtoull(optarg, NULL, 0); break;
        case 't': order.ground.transport = optarg; break;
        case 'a': order.ground.host = optarg; break;
        case 'c': order.ground.call = optarg; break;
        case 'b': order.beside = atoi(optarg); break;
        case 'l': order.list = true; break;
        case 'v': order.ground.kinds = POINT_VERBS; break;
        case 's': order.ground.slowness = atoi(optarg); break;
        case 'h': return main_usage(stdout, 0);
        default: return main_usage(stderr, 2);
        }
    }
    if (optind < argc || order.every == 0 || order.ground.slowness < 1 || order.beside < 1)
        return main_usage(stderr, 2);
    if (mkdtemp(work) == NULL) {
        perror(work);
        return 1;
    }
    order.work = work;
    json_set_alloc_funcs(main_allocate, free);
    signal(SIGPIPE, SIG_IGN);
    for (size_t p = 0; p < sizeof(main_plans) / sizeof(main_plans[0]); p++) {
        if (only != NULL && strcmp(only, main_plans[p].name) != 0)
            continue;
        bool wrong = main_plan(&main_plans[p], &order) != 0;
        passed += !wrong;
        failed += wrong;
    }
    rmdir(work);
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0 || passed == 0;
}
