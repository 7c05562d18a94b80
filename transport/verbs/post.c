/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/post.h"

#include <string.h>

#include "transport/base/error.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/pump.h"
#include "transport/verbs/region.h"

#define POST_FLAGS ((unsigned)(STEPGATE_POST_COMPLETE | STEPGATE_POST_MORE))

/* post_take -- the next operation of an endpoint, or why there is none. */
static int post_take(struct endpoint *endpoint, struct ring_op **op)
{
    if (endpoint->state >= ENDPOINT_CLOSING) {
        (void)error_set(STEPGATE_EPEER, 0, endpoint->remedy, "the connection is gone: %s", endpoint->why);
        return -STEPGATE_EPEER;
    }
    if (endpoint->state != ENDPOINT_UP)
        return -STEPGATE_EAGAIN;
    *op = ring_push(&endpoint->ring);
    if (*op != NULL)
        return 0;
    pump(endpoint); /* what was held back waits for nothing that can be posted */
    return -STEPGATE_EAGAIN;
}

/* post_commit -- puts it into the ring and, unless more is to follow, moves on; a connection that breaks in this call is reported by its event. */
static int post_commit(struct endpoint *endpoint, bool more)
{
    ring_commit(&endpoint->ring);
    if (more)
        queue_hold_back(endpoint->queue, endpoint);
    else
        pump(endpoint);
    return 0;
}

/* post_range -- is [offset, offset + length) within size? */
static bool post_range(uint64_t offset, uint64_t length, uint64_t size)
{
    return offset <= size && length <= size - offset;
}

/* post_remote -- checks the far range and its access. */
static int post_remote(const struct stepgate_remote *remote, uint64_t offset, uint64_t length,
                       unsigned access)
{
    if (remote == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "no remote region given");
    if ((remote->access & access) == 0)
        return error_set(STEPGATE_EACCESS, 0, NULL, "the peer did not grant %s",
                         access == STEPGATE_ACCESS_READ ? "reading" : "writing");
    if (!post_range(offset, length, remote->length))
        return error_set(
            STEPGATE_EACCESS, 0, NULL, "%llu bytes at %llu are outside the peer's region of %llu",
            (unsigned long long)length, (unsigned long long)offset, (unsigned long long)remote->length);
    return 0;
}

/* post_local -- checks the near range. */
static int post_local(const struct endpoint *endpoint, const struct stepgate_region *local, uint64_t offset,
                      uint64_t length)
{
    const struct region *region = (const struct region *)local;

    if (local == NULL)
        return length == 0 ? 0 : error_set(STEPGATE_EINVAL, 0, NULL, "no local region given");
    if (region->domain != endpoint->domain)
        return error_set(STEPGATE_EINVAL, 0, NULL,
                         "the local region belongs to another domain than the endpoint");
    if (!post_range(offset, length, local->length))
        return error_set(STEPGATE_EINVAL, 0, NULL, "%llu bytes at %llu are outside the local region of %llu",
                         (unsigned long long)length, (unsigned long long)offset,
                         (unsigned long long)local->length);
    return 0;
}

/* post_transfer -- a checked write or read. */
static int post_transfer(struct endpoint *endpoint, enum ring_kind kind, const struct stepgate_region *local,
                         uint64_t local_offset, const void *data, const struct stepgate_remote *remote,
                         uint64_t remote_offset, uint64_t length, unsigned flags, uint64_t context)
{
    const struct remote *far = (const struct remote *)remote;
    struct ring_op *op;
    int ret = post_take(endpoint, &op);

    if (ret != 0)
        return ret;
    op->complete = (flags & STEPGATE_POST_COMPLETE) != 0;
    op->context = context;
    op->length = length;
    if (length == 0) {
        if (!op->complete)
            return 0; /* nothing to move, nobody to tell */
        op->kind = RING_NOTHING;
        return post_commit(endpoint, (flags & STEPGATE_POST_MORE) != 0);
    }
    op->kind = (uint8_t)kind;
    op->remote = far->address + remote_offset;
    op->rkey = far->rkey;
    if (flags & STEPGATE_WRITE_INLINE) {
        op->is_inline = true;
        memcpy(op->data, data, (size_t)length);
    } else {
        op->local = (uint64_t)(uintptr_t)local->address + local_offset;
        op->lkey = ((const struct region *)local)->local->lkey;
    }
    return post_commit(endpoint, (flags & STEPGATE_POST_MORE) != 0);
}

/* post_write -- a write into the peer's memory. */
int post_write(struct stepgate_endpoint *endpoint, struct stepgate_region *local, uint64_t local_offset,
               const void *data, struct stepgate_remote *remote, uint64_t remote_offset, uint64_t length,
               unsigned flags, uint64_t context)
{
    struct endpoint *inner = (struct endpoint *)endpoint;
    int ret;

    if ((flags & ~(POST_FLAGS | STEPGATE_WRITE_INLINE)) != 0)
        return error_set(STEPGATE_EINVAL, 0, NULL, "unknown flags %#x", flags);
    if (flags & STEPGATE_WRITE_INLINE) {
        uint32_t limit = inner->inline_bytes != 0 ? inner->inline_bytes : 64;
        if (local != NULL || length > limit || (data == NULL && length > 0))
            return error_set(STEPGATE_EINVAL, 0, NULL,
                             "an inline write takes a source of at most %u bytes and no region", limit);
    } else if ((ret = post_local(inner, local, local_offset, length)) != 0) {
        return ret;
    }
    if ((ret = post_remote(remote, remote_offset, length, STEPGATE_ACCESS_WRITE)) != 0)
        return ret;
    return post_transfer(inner, RING_WRITE, local, local_offset, data, remote, remote_offset, length, flags,
                         context);
}

/* post_read -- a read of the peer's memory. */
int post_read(struct stepgate_endpoint *endpoint, struct stepgate_region *local, uint64_t local_offset,
              struct stepgate_remote *remote, uint64_t remote_offset, uint64_t length, unsigned flags,
              uint64_t context)
{
    struct endpoint *inner = (struct endpoint *)endpoint;
    int ret;

    if ((flags & ~POST_FLAGS) != 0)
        return error_set(STEPGATE_EINVAL, 0, NULL, "unknown flags %#x", flags);
    if ((ret = post_local(inner, local, local_offset, length)) != 0 ||
        (ret = post_remote(remote, remote_offset, length, STEPGATE_ACCESS_READ)) != 0)
        return ret;
    return post_transfer(inner, RING_READ, local, local_offset, NULL, remote, remote_offset, length, flags,
                         context);
}

/* post_notify -- a 32-bit value behind all earlier writes. */
int post_notify(struct stepgate_endpoint *endpoint, uint32_t value)
{
    struct endpoint *inner = (struct endpoint *)endpoint;
    struct ring_op *op;
    int ret = post_take(inner, &op);

    if (ret != 0)
        return ret;
    op->kind = RING_NOTIFY;
    op->value = value;
    return post_commit(inner, false);
}

/* post_send -- a message, copied into the store. */
int post_send(struct stepgate_endpoint *endpoint, const void *data, uint32_t length)
{
    struct endpoint *inner = (struct endpoint *)endpoint;
    struct ring_op *op;

    if (data == NULL || length == 0 || length > FRAME_MESSAGE_BYTES)
        return error_set(STEPGATE_EINVAL, 0, NULL, "a message has 1 to %u bytes, not %u", FRAME_MESSAGE_BYTES,
                         length);
    int ret = post_take(inner, &op);
    if (ret != 0)
        return ret;
    op->kind = RING_MESSAGE;
    op->value = length;
    memcpy(inner->store + (size_t)ring_place(&inner->ring, inner->ring.tail) * FRAME_STRIDE +
               FRAME_HEADER_BYTES,
           data, length);
    return post_commit(inner, false);
}
