/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine -- everything of a ps that is made anew when it goes back to a checkpoint: transports, lanes, shard, checkpoints. One engine is one incarnation; who
 * made it sees to it that there is one at a time.
 */
#ifndef PS_SERVER_ENGINE_H
#define PS_SERVER_ENGINE_H

#include <stdatomic.h>

#include "ps/server/settings.h"
#include "ps/shard/shard.h"
#include "transport/place/binding.h"
#include "transport/wait/waiter.h"

struct engine;

/* engine_waiter -- a waiter for one of its threads. */
int engine_waiter(const struct settings *settings, struct waiter **out);
/* engine_open -- opens the transports; settings and waiter must outlive it. *out is set also where it fails, unless there was no memory for it. */
int engine_open(const struct settings *settings, struct waiter *waiter, struct engine **out);
/* engine_device -- the name of its device; NULL: it has none. */
const char *engine_device(const struct engine *engine);
/* engine_need -- are the system's limits large enough? tell: see need.h. */
int engine_need(const struct engine *engine, void (*tell)(void *context, const char *line), void *context);
/* engine_make -- lanes and shard, which listens; again: the ps goes back to a checkpoint, which must be there. The binding must outlive it. Errors: those of shard_new, sets_open, checkpoints_open. */
int engine_make(struct engine *engine, const struct binding *binding, bool again);
/* engine_serve -- until the job ends, or *stop is set and the waiter woken (then 0). In the caller's thread, and in threads of lanes. */
int engine_serve(struct engine *engine, atomic_bool *stop);
/* engine_can_rewind -- after it has failed: may this ps go back to a checkpoint? */
bool engine_can_rewind(const struct engine *engine);
/* engine_has_trained -- see shard_has_trained. */
bool engine_has_trained(const struct engine *engine);
/* engine_address -- where it listens. */
const char *engine_address(const struct engine *engine);
void engine_stats(const struct engine *engine, struct shard_stats *out);
/* engine_transports -- words what it opened. */
void engine_transports(const struct engine *engine, char *text, size_t size);
/* engine_delete -- bounded; sets NULL. The thread's last error stays. */
void engine_delete(struct engine **engine);

#endif
