/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "stepgate/job.h"

/* A signal handler has no argument of the program's, so these two are the process's. */
static volatile sig_atomic_t interrupt_came;
static _Atomic(struct stepgate_job *) interrupt_job;

/* interrupt_handle -- only calls that are safe in a signal handler */
static void interrupt_handle(int number)
{
    interrupt_came = number;
    /* Partner: the store in interrupt_watch; a job seen here is complete. */
    struct stepgate_job *job = atomic_load_explicit(&interrupt_job, memory_order_acquire);
    if (job != NULL)
        stepgate_job_interrupt(job);
}

/* interrupt_install -- catch the two signals from now on */
void interrupt_install(void)
{
    struct sigaction action = {.sa_handler = interrupt_handle};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    /* A reader of our output that went away is an error to report, not a reason to die without a
     * word. */
    signal(SIGPIPE, SIG_IGN);
    /* So is a limit of the size of files. */
    signal(SIGXFSZ, SIG_IGN);
}

/* interrupt_watch -- whose waits a signal ends; NULL = nobody's */
void interrupt_watch(struct stepgate_job *job)
{
    /* Partner: the load in interrupt_handle. */
    atomic_store_explicit(&interrupt_job, job, memory_order_release);
}

/* interrupt_signal -- the signal that came, 0 for none */
int interrupt_signal(void)
{
    return interrupt_came;
}
