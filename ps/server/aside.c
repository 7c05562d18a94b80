/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/server/aside.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "transport/base/error.h"
#include "transport/wait/waiter.h"

struct aside {
    struct asides *all;
    struct aside *next;
    void (*work)(void *what);
    void *what;
    pthread_t thread;
    atomic_bool over; /* it can be joined at once: release store at its end, acquire in asides_reap */
};

/* aside_run -- the thread. */
static void *aside_run(void *context)
{
    struct aside *aside = context;

    aside->work(aside->what);
    waiter_wake(aside->all->waiter);
    atomic_store_explicit(&aside->over, true, memory_order_release); /* pairs with asides_reap */
    return NULL;
}

/* aside_join -- waits for one, and takes it out of the list. */
static void aside_join(struct aside **at)
{
    struct aside *aside = *at;

    *at = aside->next;
    pthread_join(aside->thread, NULL);
    free(aside);
}

/* asides_reap -- of those that are over nothing is left: a job writes many checkpoints. */
static void asides_reap(struct asides *asides)
{
    for (struct aside **at = &asides->list; *at != NULL;)
        if (atomic_load_explicit(&(*at)->over, memory_order_acquire)) /* pairs with aside_run */
            aside_join(at);
        else
            at = &(*at)->next;
}

/* asides_begin -- see aside.h. */
int asides_begin(void *context, void (*work)(void *what), void *what)
{
    struct asides *asides = context;
    struct aside *aside = calloc(1, sizeof(*aside));
    sigset_t all, before;

    if (aside == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a thread");
    asides_reap(asides);
    *aside = (struct aside){.all = asides, .next = asides->list, .work = work, .what = what};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    int status = pthread_create(&aside->thread, NULL, aside_run, aside);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != 0) {
        free(aside);
        return error_set(STEPGATE_ESYSTEM, status, "raise the limit of threads: ulimit -u",
                         "no thread for memory or checkpoints");
    }
    asides->list = aside;
    return 0;
}

/* asides_end -- see aside.h. */
void asides_end(struct asides *asides)
{
    while (asides->list != NULL)
        aside_join(&asides->list);
}
