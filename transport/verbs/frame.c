/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/frame.h"

#include "transport/base/bytes.h"

/* frame_pack -- writes the header. */
void frame_pack(const struct frame *frame, uint8_t *out)
{
    struct bytes_writer w = {.data = out, .size = FRAME_HEADER_BYTES};

    bytes_put_u8(&w, FRAME_MAGIC);
    bytes_put_u8(&w, frame->kind);
    bytes_put_u16(&w, frame->credits);
    bytes_put_u32(&w, frame->value);
}

/* frame_unpack -- reads the header, and checks that the frame is as long as it says. */
bool frame_unpack(const uint8_t *in, uint32_t bytes, struct frame *out)
{
    struct bytes_reader r = {.data = in, .size = bytes};

    if (bytes < FRAME_HEADER_BYTES || bytes_get_u8(&r) != FRAME_MAGIC)
        return false;
    out->kind = bytes_get_u8(&r);
    out->credits = bytes_get_u16(&r);
    out->value = bytes_get_u32(&r);
    switch (out->kind) {
    case FRAME_MESSAGE:
        return out->value > 0 && out->value <= FRAME_MESSAGE_BYTES &&
               bytes == FRAME_HEADER_BYTES + out->value;
    case FRAME_OPEN:
    case FRAME_NOTIFY:
    case FRAME_CREDIT: return bytes == FRAME_HEADER_BYTES;
    default: return false;
    }
}
