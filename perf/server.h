/* SPDX-License-Identifier: BSD-3-Clause */
/* server -- the other end of a wire: listens, and does its part of what it is ordered, until its client leaves. */
#ifndef PERF_SERVER_H
#define PERF_SERVER_H

#include "perf/wire.h"

#define SERVER_PORT 18520 /* unless -p says otherwise */

/* server_run -- started by hand: serves one client, and returns. 0, or -1 with `text` in the wire. */
int server_run(struct wire *wire, const struct settings *settings);
/* server_child -- in a process made here, wire->peer; where it listens goes to `address`. 0 or -1. */
int server_child(struct wire *wire, const struct settings *settings, char *address, size_t bytes);
/* server_stay -- serves one client after the other until a signal ends the process; returns only -1. `told`: where it listens is written there and that
 * is closed, an error, too, behind a `!`; negative: it is printed. */
int server_stay(struct wire *wire, const struct settings *settings, int told);
/* server_listen -- begins to listen, and tells where. 0 or -1. */
int server_listen(struct wire *wire, const struct settings *settings, bool free_port, char *address,
                  size_t bytes);
/* server_settle -- memory as large as the client asked for, to be used by it; the client's is to be used here. 0 or -1. */
int server_settle(struct wire *wire);
/* server_obey -- one order, which has come. 0 or -1. */
int server_obey(struct wire *wire);

#endif
