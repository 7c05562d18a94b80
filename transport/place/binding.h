/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * binding -- on which processors the threads of a ps run, from the knob "bind".
 *
 *   none    wherever the system puts them
 *   auto    beside the device, on the processors its bus is attached to; none where that is not
 * known 0-3,8   thread i on the i-th processor of the list, again from the first behind the last
 */
#ifndef TRANSPORT_PLACE_BINDING_H
#define TRANSPORT_PLACE_BINDING_H

#include <stddef.h>

struct binding;

/* binding_new -- device: name of an RDMA device, or NULL. Errors: EINVAL (malformed, or a processor
 * that is not allowed), ENOMEM. */
int binding_new(const char *text, const char *device, struct binding **out);
/* binding_delete -- sets NULL, safe on NULL. */
void binding_delete(struct binding **binding);
/* binding_apply -- binds the calling thread as thread `index`. Errors: ESYSTEM. */
int binding_apply(const struct binding *binding, unsigned index);
/* binding_describe -- one phrase for the log, such as "none", "auto (0-15)" or "0-3". */
void binding_describe(const struct binding *binding, char *out, size_t bytes);

#endif
