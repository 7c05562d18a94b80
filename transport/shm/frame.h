/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frame -- what travels over the socket of a connection, with descriptors beside it:
 *
 *   REQUEST  active -> passive   operations, domain, hello                       | the doorbell of the active side's queue
 *   ACCEPT   passive -> active   operations, domain, connection, length, hello   | the segment with both rings, the doorbell
 *   REFUSE   passive -> active   status (positive code, 0: the program refused), hello
 *   GRANT    either way          number, length, access                          | the memory
 *
 *   0 "SGSH" | 4 u16 version | 6 u16 kind | 8 u32 status | 12 u32 operations | 16 u32 access | 20 u32 bytes of hello
 *   24 u64 domain | 32 u64 connection | 40 u64 number | 48 u64 length | 56 zero | 64 hello | 120 zero (128 bytes, little-endian)
 */
#ifndef TRANSPORT_SHM_FRAME_H
#define TRANSPORT_SHM_FRAME_H

#include <stdint.h>

#include "stepgate/transport.h"

#define SHM_FRAME_BYTES 128
#define SHM_FRAME_VERSION 1
#define SHM_FRAME_FDS 2

enum shm_frame_kind {
    SHM_FRAME_REQUEST = 1,
    SHM_FRAME_ACCEPT = 2,
    SHM_FRAME_REFUSE = 3,
    SHM_FRAME_GRANT = 4
};

struct shm_frame {
    enum shm_frame_kind kind;
    uint32_t status, operations, access, hello_bytes;
    uint64_t domain, connection, number, length;
    uint8_t hello[STEPGATE_HELLO_BYTES];
    int fds[SHM_FRAME_FDS]; /* in the order of the table above; -1: none */
};

/* shm_frame_send -- the descriptors stay the caller's. Errors, without a text: EAGAIN (no room), EPEER, ELIMIT, ESYSTEM (see errno). */
int shm_frame_send(int socket, const struct shm_frame *frame);
/* shm_frame_receive -- 1: a valid frame with all descriptors of its kind, which are the caller's now; 0: nothing yet; or without a text
 * EPEER (the end), EPROTOCOL, EVERSION, ELIMIT (no descriptor free). */
int shm_frame_receive(int socket, struct shm_frame *out);
/* shm_frame_drop -- closes the descriptors. */
void shm_frame_drop(struct shm_frame *frame);

#endif
