/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frame -- what a SEND carries. All numbers little-endian.
 *
 *   byte 0      FRAME_MAGIC
 *        1      kind (enum frame_kind)
 *        2..3   credits: receives that the sender has posted again
 *        4..7   message: bytes that follow; notify: the value; open: FRAME_VERSION and CREDIT_RECEIVES (u16 each); credit: 0
 *        8..    the message
 *
 * The active side sends `open` as its first frame, and the passive side posts nothing before it has come: on iWARP the active side must
 * speak first, and on InfiniBand it stands in for a lost last packet of the handshake.
 */
#ifndef TRANSPORT_VERBS_FRAME_H
#define TRANSPORT_VERBS_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#define FRAME_MAGIC 0x5aU
#define FRAME_VERSION 1U
#define FRAME_HEADER_BYTES 8U
#define FRAME_MESSAGE_BYTES 4096U
#define FRAME_BYTES (FRAME_HEADER_BYTES + FRAME_MESSAGE_BYTES)
#define FRAME_STRIDE 4160U /* a frame on its own cache lines */

enum frame_kind { FRAME_OPEN = 1, FRAME_MESSAGE = 2, FRAME_NOTIFY = 3, FRAME_CREDIT = 4 };

struct frame {
    uint8_t kind;
    uint16_t credits;
    uint32_t value;
};

/* frame_pack -- writes the header. */
void frame_pack(const struct frame *frame, uint8_t *out);
/* frame_unpack -- reads and checks a header of a frame of `bytes` bytes in all; false: no valid frame. */
bool frame_unpack(const uint8_t *in, uint32_t bytes, struct frame *out);

#endif
