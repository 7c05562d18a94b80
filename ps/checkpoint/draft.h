/* SPDX-License-Identifier: BSD-3-Clause */
/* draft -- a large file that is written beside its place and put there when it is on the disk; whoever looks sees all of it or nothing. */
#ifndef PS_CHECKPOINT_DRAFT_H
#define PS_CHECKPOINT_DRAFT_H

#include <limits.h>
#include <sodium.h>
#include <stddef.h>
#include <stdint.h>

struct draft {
    char path[PATH_MAX], part[PATH_MAX];
    int fd;
    uint64_t needed, done; /* bytes */
    crypto_hash_sha256_state hash;
};

/*
 * draft_open -- path will have so many bytes, and their room is taken where the file system can. Readable by its owner alone. Errors, here and below: ESYSTEM, with
 * the file, what was tried, the bytes needed and those there are. After an error nothing is left of it.
 */
int draft_open(struct draft *draft, const char *path, uint64_t bytes);
/* draft_put -- the next bytes. */
int draft_put(struct draft *draft, const void *data, size_t bytes);
/* draft_commit -- all is written: to the disk, and in place. digest: SHA-256 of all; NULL: not wanted. */
int draft_commit(struct draft *draft, uint8_t digest[crypto_hash_sha256_BYTES]);
/* draft_drop -- gives it up; the last error stays. */
void draft_drop(struct draft *draft);
/* draft_sync_folder -- what was made, renamed and removed in a folder is on the disk. Errors: ESYSTEM. */
int draft_sync_folder(const char *folder);

#endif
