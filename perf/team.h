/* SPDX-License-Identifier: BSD-3-Clause */
/* team -- threads that do the same work together, each its part, timed from the moment all may start to the moment the last is done. */
#ifndef PERF_TEAM_H
#define PERF_TEAM_H

#include <stddef.h>
#include <stdint.h>

struct team;

/* What one thread does: number `index` of `count`. */
typedef void (*team_work)(void *context, unsigned index, unsigned count);

/*
 * team_new -- the caller is thread 0, count - 1 more are started, each bound to a processor of its own where bind is not "none" ("auto": the processors allowed, in
 * turn; or a list). 0 or -1 with one line in `text`.
 */
int team_new(unsigned count, const char *bind, struct team **out, char *text, size_t bytes);
/* team_delete -- the threads end; the caller is bound as before. */
void team_delete(struct team **team);
/* team_run -- everybody works once. Nanoseconds. The others spin while they wait for the start, so call it again soon. */
uint64_t team_run(struct team *team, team_work work, void *context);

#endif
