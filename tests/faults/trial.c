/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/faults/trial.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRIAL_MS 60000 /* longer than all deadlines of a job together */

/* Where the program begins in memory (ld). */
extern const char __executable_start[];

/* trial_now -- see trial.h. */
uint64_t trial_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* trial_new -- see trial.h. */
struct trial *trial_new(void)
{
    struct trial *trial = calloc(1, sizeof(*trial));

    if (trial == NULL)
        return NULL;
    trial->report =
        mmap(NULL, sizeof(*trial->report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trial->report == MAP_FAILED) {
        free(trial);
        return NULL;
    }
    return trial;
}

/* trial_delete -- see trial.h. */
void trial_delete(struct trial **trial)
{
    if (*trial == NULL)
        return;
    munmap((*trial)->report, sizeof(*(*trial)->report));
    free(*trial);
    *trial = NULL;
}

/* trial_starved -- how many processes the kernel has killed for want of memory. */
static uint64_t trial_starved(void)
{
    char line[128];
    unsigned long long count = 0;
    FILE *file = fopen("/proc/vmstat", "re");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "oom_kill %llu", &count) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return count;
}

/* trial_start -- see trial.h. */
int trial_start(struct trial *trial, const struct job_plan *plan, const struct job_ground *ground,
                const char *work, uint64_t number)
{
    memset(trial->report, 0, sizeof(*trial->report));
    snprintf(trial->folder, sizeof(trial->folder), "%s/%" PRIu64, work, number);
    if (mkdir(trial->folder, 0700) != 0)
        return -1;
    trial->number = number;
    trial->overdue = false;
    trial->begun = trial_now();
    trial->until = trial->begun + TRIAL_MS * (uint64_t)ground->slowness;
    trial->starved = trial_starved();
    fflush(NULL);
    trial->pid = fork();
    if (trial->pid == 0) {
        job_run(plan, ground, trial->folder, number, trial->report);
        _exit(0);
    }
    return trial->pid > 0 ? 0 : -1;
}

/* trial_sweep -- for nftw: whatever there is, its contents first. */
static int trial_sweep(const char *path, const struct stat *at, int kind, struct FTW *where)
{
    (void)at;
    (void)kind;
    (void)where;
    return remove(path);
}

/* trial_ended -- see trial.h. */
bool trial_ended(struct trial *trial, int *status)
{
    pid_t pid = waitpid(trial->pid, status, WNOHANG);

    if (pid == 0 && trial_now() >= trial->until) {
        trial->overdue = true;
        kill(trial->pid, SIGKILL);
        pid = waitpid(trial->pid, status, 0);
    }
    if (pid == 0)
        return false;
    trial->pid = 0;
    nftw(trial->folder, trial_sweep, 8, FTW_DEPTH | FTW_PHYS);
    return true;
}

static const char *const trial_actors[JOB_ACTORS] = {"worker 0", "worker 1", "ps 0", "ps 1", "observer"};

/* trial_wrong -- says what is wrong, and all that is known of the job. */
static enum trial_verdict trial_wrong(const struct trial *trial, const struct job_plan *plan,
                                      const char *what)
{
    const struct job_report *report = trial->report;
    const struct point *failed = &report->failed;

    printf("FAILED %s, point %" PRIu64 ": %s\n", plan->name, trial->number, what);
    if (failed->number != 0)
        printf("  failed: %s (%s), called from 0x%zx of the program\n", failed->call,
               failed->words != NULL ? failed->words : strerror(failed->os_errno),
               (size_t)((const char *)failed->place - __executable_start));
    for (int a = 0; a < JOB_ACTORS; a++)
        if (report->end[a].status != 0)
            printf("  %s: %d %s: %s\n", trial_actors[a], report->end[a].status,
                   stepgate_strerror(report->end[a].status), report->end[a].error.text);
    printf("  log:\n%.*s\n", (int)sizeof(report->log), report->log);
    return TRIAL_WRONG;
}

/* trial_names -- does a text say what failed? */
static bool trial_names(const char *text, const struct point *failed)
{
    if (strstr(text, failed->words != NULL ? failed->words : strerror(failed->os_errno)) != NULL)
        return true;
    return failed->os_errno == ENOMEM && strstr(text, "memory") != NULL;
}

/* trial_judge -- see trial.h. */
enum trial_verdict trial_judge(const struct trial *trial, const struct job_plan *plan, int status,
                               uint64_t values)
{
    const struct job_report *report = trial->report;
    const struct point *failed = &report->failed;
    char what[160];
    bool refused = false, named = trial_names(report->log, failed);

    if (trial->overdue) {
        snprintf(what, sizeof(what), "it does not end, and was killed from here after %" PRIu64 " ms",
                 trial_now() - trial->begun);
        return trial_wrong(trial, plan, what);
    }
    if (WIFSIGNALED(status)) {
        snprintf(what, sizeof(what),
                 "signal %d (%s) after %" PRIu64 " ms, not from here; the kernel killed %" PRIu64
                 " processes for want of memory meanwhile",
                 WTERMSIG(status), strsignal(WTERMSIG(status)), trial_now() - trial->begun,
                 trial_starved() - trial->starved);
        return trial_wrong(trial, plan, what);
    }
    if (WEXITSTATUS(status) != 0 || !report->whole)
        return trial_wrong(trial, plan, "the process ended in the middle");
    for (int a = 0; a < JOB_ACTORS; a++) {
        const struct job_end *end = &report->end[a];
        refused = refused || end->status != 0;
        named = named || (end->status != 0 && trial_names(end->error.text, failed));
        if (end->status != 0 && (end->error.text[0] == '\0' || end->error.code != -end->status))
            return trial_wrong(trial, plan, "an error without a text of its own");
        if (end->status == -STEPGATE_ESTATE)
            return trial_wrong(trial, plan, "whoever called is blamed");
    }
    if (report->descriptors != 0 || report->kept.threads != 0 || report->kept.mappings != 0 ||
        report->kept.objects != 0) {
        snprintf(what, sizeof(what), "kept: %ld descriptors, %ld threads, %ld mappings, %ld of verbs",
                 report->descriptors, report->kept.threads, report->kept.mappings, report->kept.objects);
        return trial_wrong(trial, plan, what);
    }
    if (report->leaks)
        return trial_wrong(trial, plan, "memory is lost");
    if (refused && failed->number == 0)
        return trial_wrong(trial, plan, "nothing failed, and the job did");
    if (refused && failed->harmless)
        return trial_wrong(trial, plan, "what does no harm ended the job");
    if (refused && !named)
        return trial_wrong(trial, plan, "nobody says what failed");
    if (!refused && values != 0 && report->values != values)
        return trial_wrong(trial, plan, "it ends well, with other values");
    return refused ? TRIAL_REFUSED : failed->number != 0 ? TRIAL_SAME : TRIAL_WHOLE;
}
