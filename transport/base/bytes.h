/* SPDX-License-Identifier: BSD-3-Clause */
/* bytes -- little-endian packing and unpacking of what travels, with a sticky bound check. */
#ifndef TRANSPORT_BASE_BYTES_H
#define TRANSPORT_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes_writer {
    uint8_t *data;
    size_t size;
    size_t used;
    bool overflow; /* sticky: something did not fit, nothing was written beyond size */
};

struct bytes_reader {
    const uint8_t *data;
    size_t size;
    size_t used;
    bool underflow; /* sticky: something was missing; what was read since is zero */
};

/* bytes_put -- appends raw bytes. */
static inline void bytes_put(struct bytes_writer *w, const void *data, size_t n)
{
    if (w->overflow || n > w->size - w->used) {
        w->overflow = true;
        return;
    }
    if (n > 0)
        memcpy(w->data + w->used, data, n);
    w->used += n;
}

/* bytes_put_uint -- appends the low n bytes of value, lowest first. */
static inline void bytes_put_uint(struct bytes_writer *w, uint64_t value, size_t n)
{
    uint8_t out[8];

    for (size_t i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> (8 * i));
    bytes_put(w, out, n);
}

static inline void bytes_put_u8(struct bytes_writer *w, uint8_t v)
{
    bytes_put_uint(w, v, 1);
}
static inline void bytes_put_u16(struct bytes_writer *w, uint16_t v)
{
    bytes_put_uint(w, v, 2);
}
static inline void bytes_put_u32(struct bytes_writer *w, uint32_t v)
{
    bytes_put_uint(w, v, 4);
}
static inline void bytes_put_u64(struct bytes_writer *w, uint64_t v)
{
    bytes_put_uint(w, v, 8);
}
/* bytes_put_f64 -- the bits of a double. */
static inline void bytes_put_f64(struct bytes_writer *w, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    bytes_put_uint(w, bits, 8);
}
/* bytes_put_text -- a length (u16) and the characters without the zero. */
static inline void bytes_put_text(struct bytes_writer *w, const char *text)
{
    size_t n = strlen(text);

    if (n > UINT16_MAX) {
        w->overflow = true;
        return;
    }
    bytes_put_u16(w, (uint16_t)n);
    bytes_put(w, text, n);
}

/* bytes_get -- takes n raw bytes, or zeros and underflow. */
static inline void bytes_get(struct bytes_reader *r, void *data, size_t n)
{
    if (r->underflow || n > r->size - r->used) {
        r->underflow = true;
        memset(data, 0, n);
        return;
    }
    if (n > 0)
        memcpy(data, r->data + r->used, n);
    r->used += n;
}

/* bytes_get_uint -- takes an unsigned number of n bytes. */
static inline uint64_t bytes_get_uint(struct bytes_reader *r, size_t n)
{
    uint8_t in[8] = {0};
    uint64_t value = 0;

    bytes_get(r, in, n);
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

static inline uint8_t bytes_get_u8(struct bytes_reader *r)
{
    return (uint8_t)bytes_get_uint(r, 1);
}
static inline uint16_t bytes_get_u16(struct bytes_reader *r)
{
    return (uint16_t)bytes_get_uint(r, 2);
}
static inline uint32_t bytes_get_u32(struct bytes_reader *r)
{
    return (uint32_t)bytes_get_uint(r, 4);
}
static inline uint64_t bytes_get_u64(struct bytes_reader *r)
{
    return bytes_get_uint(r, 8);
}
static inline double bytes_get_f64(struct bytes_reader *r)
{
    uint64_t bits = bytes_get_uint(r, 8);
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}
/* bytes_get_text -- takes a text into out (zero-terminated); too long for out, or a zero inside, counts as underflow. */
static inline void bytes_get_text(struct bytes_reader *r, char *out, size_t size)
{
    size_t n = bytes_get_u16(r);

    if (n >= size) {
        r->underflow = true;
        n = 0;
    }
    bytes_get(r, out, n);
    out[n] = 0;
    if (n > 0 && memchr(out, 0, n) != NULL) {
        r->underflow = true;
        out[0] = 0;
    }
}

#endif
