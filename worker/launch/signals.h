/* SPDX-License-Identifier: BSD-3-Clause */
/* signals -- those that the launcher acts on or hands on come through a descriptor, so that it deals with them one after another. */
#ifndef WORKER_LAUNCH_SIGNALS_H
#define WORKER_LAUNCH_SIGNALS_H

/* signals_take -- *fd: a signalfd. The end of whoever reads the launcher's output is no signal any more. Errors: ESYSTEM. */
int signals_take(int *fd);
/* signals_release -- they do again what they usually do. */
void signals_release(void);

#endif
