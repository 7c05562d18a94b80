/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * binding -- carries out a layout for the threads of one ps: each on its processor, and their memory on its NUMA node. Memory is only
 * preferred there, so that a node that is full does not end a job.
 */
#ifndef TRANSPORT_PLACE_BINDING_H
#define TRANSPORT_PLACE_BINDING_H

#include <stddef.h>

#include "transport/place/layout.h"

struct binding;
struct binding_past; /* what a thread was bound to before */

/* binding_choose -- for ps number `server` of those that share this machine. Errors: those of machine_new and layout_choose. */
int binding_choose(const struct layout_wish *wish, unsigned server, struct binding **out);
/* binding_new -- for the threads of one process, from a list of processors, "node:N" for the cores of a node, or "none". */
int binding_new(const char *text, struct binding **out);
/* binding_delete -- sets NULL, safe on NULL. */
void binding_delete(struct binding **binding);

/* binding_apply -- binds the calling thread as thread `index`. Errors: ESYSTEM. */
int binding_apply(const struct binding *binding, unsigned index);
/* binding_apply_memory -- what the calling thread touches first from now on lies on the node, unless whoever started the process has said where
 * (numactl). Errors: ESYSTEM. */
int binding_apply_memory(const struct binding *binding);
/* binding_save -- what the calling thread is bound to now; NULL if it cannot be told. */
struct binding_past *binding_save(const struct binding *binding);
/* binding_restore -- sets NULL, safe on NULL; by the thread that saved it. */
void binding_restore(const struct binding *binding, struct binding_past **past);

/* binding_describe -- one phrase for the log, such as "none", "auto (4,5)" or "0-3". */
void binding_describe(const struct binding *binding, char *out, size_t bytes);
/* binding_explain -- the same as a sentence: lanes, memory, and what decided. */
void binding_explain(const struct binding *binding, char *out, size_t bytes);

#endif
