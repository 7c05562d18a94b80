/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoints -- the archive of a ps: the files of a folder that all ps share (ps/checkpoint). */
#ifndef PS_SERVER_CHECKPOINTS_H
#define PS_SERVER_CHECKPOINTS_H

#include <stdint.h>

#include "ps/shard/archive.h"
#include "transport/base/knob.h"

struct checkpoints;

/*
 * checkpoints_open -- as the knobs say: without a folder *out stays NULL. `number` is that of this ps; knobs must live as long. Errors: ENOENT (there is no such
 * folder), ESYSTEM (it cannot be written), EINVAL (knobs that do nothing without a folder), ENOMEM.
 */
int checkpoints_open(const struct knobs *knobs, uint32_t number, struct checkpoints **out);
/* checkpoints_close -- once nothing is written any more. Sets NULL. */
void checkpoints_close(struct checkpoints **checkpoints);
/* checkpoints_archive -- for the shard; NULL if there are none. Lives as long. */
const struct archive *checkpoints_archive(const struct checkpoints *checkpoints);

#endif
