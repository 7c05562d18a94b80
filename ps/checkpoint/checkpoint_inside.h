/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoint_inside -- what the files of checkpoint share. */
#ifndef PS_CHECKPOINT_CHECKPOINT_INSIDE_H
#define PS_CHECKPOINT_CHECKPOINT_INSIDE_H

#include "ps/checkpoint/checkpoint.h"

/* checkpoint_path -- FOLDER/NAME. Errors: EINVAL. */
int checkpoint_path(char out[PATH_MAX], const char *folder, const char *name);
/* checkpoint_check_length -- is a file of so many bytes there? Errors: EPROTOCOL, ESYSTEM. */
int checkpoint_check_length(const char *path, uint64_t bytes);
/* checkpoint_no_folder -- the error for a folder that cannot be used. */
int checkpoint_no_folder(const char *dir, int os_errno);
/* checkpoint_drop_shards -- files of shards that m does not name, all if it is NULL, and their drafts. Errors: ESYSTEM. */
int checkpoint_drop_shards(const char *folder, const struct manifest *m);

#endif
