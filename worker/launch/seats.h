/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seats -- where the processes of a job on this machine sit: the ps choose for themselves, from the same facts and by the same rules
 * (transport/place/layout.h); the launcher puts the workers on what is left.
 */
#ifndef WORKER_LAUNCH_SEATS_H
#define WORKER_LAUNCH_SEATS_H

#include "transport/base/hosts.h"
#include "transport/base/knob.h"
#include "transport/place/layout.h"

/* seats_choose -- listen: where the ps will listen, which tells the device. *out NULL: nobody is put anywhere. Errors: EINVAL (the knob bind), ENOMEM, ESYSTEM. */
int seats_choose(const struct knobs *knobs, unsigned servers, unsigned workers,
                 const struct hosts_entry *listen, struct layout **out);
/* seats_describe -- "worker 0 on processors 6-7, worker 1 on 0-3"; "": no worker is put anywhere. */
void seats_describe(const struct layout *layout, char *out, size_t bytes);
/* seats_of -- the processors of a worker; returns their number, 0: any. */
unsigned seats_of(const struct layout *layout, unsigned rank, const unsigned **cpus);

#endif
