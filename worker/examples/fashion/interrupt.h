/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGTERM and SIGINT: the training ends at the next step, or at once where it waits for others. */
#ifndef FASHION_INTERRUPT_H
#define FASHION_INTERRUPT_H

struct stepgate_job;

/* interrupt_install -- catch the two signals from now on */
void interrupt_install(void);

/* interrupt_watch -- whose waits a signal ends; NULL = nobody's. The job must outlive the watch. */
void interrupt_watch(struct stepgate_job *job);

/* interrupt_signal -- the signal that came, 0 for none */
int interrupt_signal(void);

#endif
