/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "perf/clock.h"
#include "stepgate/error.h"
#include "transport/base/exit_status.h"
#include "transport/place/binding.h"

struct team_member {
    struct team *team;
    unsigned index;
    pthread_t thread;
    uint64_t end;
};

struct team {
    unsigned count, started;
    struct binding *binding;
    cpu_set_t before;
    team_work work;
    void *context;
    /* round: raised by thread 0, release, when work and context are set; loaded by the others, acquire. */
    _Atomic uint64_t round;
    /* done: raised by each, release, when its part and its `end` are written; loaded by thread 0, acquire. */
    _Atomic unsigned done;
    atomic_bool over; /* before the last round is raised, whose acquire load shows it */
    struct team_member *members;
};

/* team_pause -- between two looks: spins, and after a while lets others run. */
static void team_pause(unsigned *looks)
{
    if (++*looks < 2000) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        return;
    }
    if (*looks < 20000)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* team_thread -- one of the others. */
static void *team_thread(void *argument)
{
    struct team_member *member = argument;
    struct team *team = member->team;

    if (team->binding != NULL)
        (void)binding_apply(team->binding, member->index); /* thread 0 has shown that it works */
    for (uint64_t round = 1;; round++) {
        unsigned looks = 0;
        while (atomic_load_explicit(&team->round, memory_order_acquire) < round) /* pairs with team_round */
            team_pause(&looks);
        if (atomic_load_explicit(&team->over, memory_order_relaxed))
            return NULL;
        team->work(team->context, member->index, team->count);
        member->end = perf_clock_now();
        atomic_fetch_add_explicit(&team->done, 1, memory_order_release); /* pairs with team_run */
    }
}

/* team_new -- see team.h. */
int team_new(unsigned count, const char *bind, struct team **out, char *text, size_t bytes)
{
    struct team *team = calloc(1, sizeof(*team));

    if (team == NULL || (team->members = calloc(count, sizeof(*team->members))) == NULL) {
        free(team);
        snprintf(text, bytes, "no memory for %u threads", count);
        return -1;
    }
    team->count = count;
    sched_getaffinity(0, sizeof(team->before), &team->before);
    if (strcmp(bind, "none") != 0) {
        char list[1024] = "";
        size_t length = 0;
        for (unsigned i = 0; i < CPU_SETSIZE && length < sizeof(list) - 8; i++)
            if (CPU_ISSET(i, &team->before))
                length +=
                    (size_t)snprintf(list + length, sizeof(list) - length, "%s%u", length > 0 ? "," : "", i);
        if (binding_new(strcmp(bind, "auto") == 0 ? list : bind, &team->binding) != 0 ||
            binding_apply(team->binding, 0) != 0) {
            exit_status_line(-STEPGATE_EINVAL, text, bytes);
            team_delete(&team);
            return -1;
        }
    }
    for (unsigned i = 1; i < count; i++) {
        team->members[i] = (struct team_member){.team = team, .index = i};
        int error = pthread_create(&team->members[i].thread, NULL, team_thread, &team->members[i]);
        if (error != 0) {
            snprintf(text, bytes, "no thread number %u: %s: ask for fewer --threads", i, strerror(error));
            team_delete(&team);
            return -1;
        }
        team->started++;
    }
    *out = team;
    return 0;
}

/* team_delete -- see team.h. */
void team_delete(struct team **out)
{
    struct team *team = *out;

    if (team == NULL)
        return;
    atomic_store_explicit(&team->over, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&team->round, 1, memory_order_release); /* pairs with team_thread */
    for (unsigned i = 1; i <= team->started; i++)
        pthread_join(team->members[i].thread, NULL);
    if (team->binding != NULL)
        sched_setaffinity(0, sizeof(team->before), &team->before);
    binding_delete(&team->binding);
    free(team->members);
    free(team);
    *out = NULL;
}

/* team_run -- see team.h. */
uint64_t team_run(struct team *team, team_work work, void *context)
{
    unsigned looks = 0;

    team->work = work;
    team->context = context;
    atomic_store_explicit(&team->done, 0, memory_order_relaxed); /* nobody works now */
    uint64_t begin = perf_clock_now();
    atomic_fetch_add_explicit(&team->round, 1, memory_order_release); /* pairs with team_thread */
    work(context, 0, team->count);
    uint64_t end = perf_clock_now();
    while (atomic_load_explicit(&team->done, memory_order_acquire) <
           team->count - 1) /* pairs with team_thread */
        team_pause(&looks);
    for (unsigned i = 1; i < team->count; i++)
        end = team->members[i].end > end ? team->members[i].end : end;
    return end - begin;
}
