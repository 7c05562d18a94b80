/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment -- memory that can be shared: a memfd that can neither shrink nor grow, every page of which exists, mapped into this process.
 * Counted references; the last one unmaps.
 */
#ifndef TRANSPORT_SHM_SEGMENT_H
#define TRANSPORT_SHM_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct shm_segment {
    uint8_t *bytes;
    uint64_t length; /* of the mapping, whole pages */
    int fd;          /* of who made it; -1: mapped from a peer's */
    bool writable;
    /* in the list of mappings that are shared inside this process */
    bool listed;
    uint64_t device, inode;
    struct shm_segment *next;
    atomic_uint references;
};

/* How others may map a segment. */
enum shm_segment_seal {
    SHM_SEGMENT_OPEN = 0,    /* for reading and writing */
    SHM_SEGMENT_READONLY = 1 /* nobody gets another writable mapping, ever */
};

/* shm_segment_new -- zeroed memory, every page in place, sealed. Errors: ENOMEM (both numbers in the text), ELIMIT, ENOTSUP, ESYSTEM. */
int shm_segment_new(uint64_t length, enum shm_segment_seal seal, struct shm_segment **out);
/* shm_segment_map -- maps a descriptor that came from a peer, which stays the caller's, after checking that it is a sealed memfd of at
 * least that length. Errors: EPROTOCOL (it is not), EACCESS (it may not be written), ENOMEM, ELIMIT. */
int shm_segment_map(int fd, uint64_t length, bool writable, struct shm_segment **out);
/* shm_segment_readable_fd -- a new descriptor of a segment, open for reading alone. Errors: ELIMIT, ESYSTEM. */
int shm_segment_readable_fd(const struct shm_segment *segment);
/* shm_segment_close -- closes the descriptor early; the mapping stays. */
void shm_segment_close(struct shm_segment *segment);
/* shm_segment_ref -- one more user. */
struct shm_segment *shm_segment_ref(struct shm_segment *segment);
/* shm_segment_unref -- one user less; sets NULL, safe on NULL. */
void shm_segment_unref(struct shm_segment **segment);
/* shm_segment_share -- see shm_share_mappings. */
void shm_segment_share(bool share);

#endif
