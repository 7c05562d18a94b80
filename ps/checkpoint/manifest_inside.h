/* SPDX-License-Identifier: BSD-3-Clause */
/* manifest_inside -- what writing and reading of a manifest share. */
#ifndef PS_CHECKPOINT_MANIFEST_INSIDE_H
#define PS_CHECKPOINT_MANIFEST_INSIDE_H

#include <stddef.h>

#include "ps/checkpoint/manifest.h"

#define MANIFEST_BYTES_MAX (256u << 20) /* of the file */
#define MANIFEST_HEX_BYTES (2 * TENSORS_DIGEST_BYTES + 1)
/* The last line of the file is the object's last member: the hash of all bytes before it. */
#define MANIFEST_TAIL_BEFORE ",\n \"sha256\": \""
#define MANIFEST_TAIL_BEHIND "\"\n}\n"
#define MANIFEST_TAIL_BYTES                                                                                  \
    (sizeof(MANIFEST_TAIL_BEFORE) - 1 + MANIFEST_HEX_BYTES - 1 + sizeof(MANIFEST_TAIL_BEHIND) - 1)

/* manifest_check -- does it fit itself? NULL, or what is wrong. */
const char *manifest_check(const struct manifest *m);

#endif
