/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/post.h"

#include <string.h>

#include "transport/base/error.h"
#include "transport/shm/doorbell.h"
#include "transport/shm/endpoint.h"
#include "transport/shm/region.h"
#include "transport/shm/remote.h"

/* post_check -- may anything be posted now? EAGAIN has no text: it is not rare, and text takes time. */
static int post_check(const struct shm_endpoint *endpoint)
{
    if (endpoint->broken)
        return error_set(STEPGATE_EPEER, 0, NULL, "the connection is gone: %s", endpoint->why);
    return endpoint->state == SHM_ENDPOINT_UP ? 0 : -STEPGATE_EAGAIN;
}

/* post_local -- is [offset, offset + length) inside the region, and the region the endpoint's to use? */
static int post_local(const struct shm_endpoint *endpoint, const struct stepgate_region *local,
                      uint64_t offset, uint64_t length)
{
    if (local == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "no local region");
    if (((const struct shm_region *)local)->domain != endpoint->domain->number)
        return error_set(STEPGATE_EINVAL, 0, NULL,
                         "the local region belongs to another domain than the endpoint");
    if (offset > local->length || length > local->length - offset)
        return error_set(STEPGATE_EINVAL, 0, NULL, "outside the local region");
    return 0;
}

/* post_remote -- does the remote allow it? */
static int post_remote(const struct shm_endpoint *endpoint, const struct stepgate_remote *remote,
                       uint64_t offset, uint64_t length, unsigned access)
{
    if (remote == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "no remote");
    if (((const struct shm_remote *)remote)->domain != endpoint->peer_domain)
        return error_set(STEPGATE_EACCESS, 0, NULL,
                         "the remote belongs to another peer, or another domain of it");
    if ((remote->access & access) == 0)
        return error_set(STEPGATE_EACCESS, 0, NULL, "the peer did not grant this access");
    if (offset > remote->length || length > remote->length - offset)
        return error_set(STEPGATE_EACCESS, 0, NULL, "outside the remote");
    return 0;
}

/* post_has_room -- for the completion of an operation. */
static bool post_has_room(const struct shm_endpoint *endpoint, unsigned flags)
{
    return (flags & STEPGATE_POST_COMPLETE) == 0 || endpoint->completed < endpoint->operations;
}

/* post_complete -- the operation is done; says so at the next poll if that was asked for. */
static int post_complete(struct shm_endpoint *endpoint, unsigned flags, uint64_t context)
{
    if ((flags & STEPGATE_POST_COMPLETE) == 0)
        return 0;
    uint32_t at = endpoint->completed_first + endpoint->completed++;
    endpoint->contexts[at < endpoint->operations ? at : at - endpoint->operations] = context;
    shm_queue_stir(endpoint->queue);
    return 0;
}

/* shm_endpoint_write -- memmove: within one process source and target may be the same memory. */
int shm_endpoint_write(struct stepgate_endpoint *base, struct stepgate_region *local, uint64_t local_offset,
                       const void *data, struct stepgate_remote *remote, uint64_t remote_offset,
                       uint64_t length, unsigned flags, uint64_t context)
{
    struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
    bool is_inline = (flags & STEPGATE_WRITE_INLINE) != 0;
    int status = post_check(endpoint);

    if (status < 0)
        return status;
    if (is_inline && (local != NULL || length > SHM_INLINE_BYTES || (data == NULL && length > 0)))
        return error_set(STEPGATE_EINVAL, 0, NULL, "an inline write takes at most %u bytes from a pointer",
                         SHM_INLINE_BYTES);
    if (!is_inline && (status = post_local(endpoint, local, local_offset, length)) < 0)
        return status;
    status = post_remote(endpoint, remote, remote_offset, length, STEPGATE_ACCESS_WRITE);
    if (status < 0)
        return status;
    if (!post_has_room(endpoint, flags))
        return -STEPGATE_EAGAIN;
    if (length > 0)
        memmove((uint8_t *)remote->mapped + remote_offset,
                is_inline ? data : (const uint8_t *)local->address + local_offset, length);
    return post_complete(endpoint, flags, context);
}

/* shm_endpoint_read -- the other way round. */
int shm_endpoint_read(struct stepgate_endpoint *base, struct stepgate_region *local, uint64_t local_offset,
                      struct stepgate_remote *remote, uint64_t remote_offset, uint64_t length, unsigned flags,
                      uint64_t context)
{
    struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
    int status = post_check(endpoint);

    if (status < 0)
        return status;
    if ((flags & STEPGATE_WRITE_INLINE) != 0)
        return error_set(STEPGATE_EINVAL, 0, NULL, "a read cannot be inline");
    if ((status = post_local(endpoint, local, local_offset, length)) < 0 ||
        (status = post_remote(endpoint, remote, remote_offset, length, STEPGATE_ACCESS_READ)) < 0)
        return status;
    if (!post_has_room(endpoint, flags))
        return -STEPGATE_EAGAIN;
    if (length > 0)
        memmove((uint8_t *)local->address + local_offset, (const uint8_t *)remote->mapped + remote_offset,
                length);
    return post_complete(endpoint, flags, context);
}

/* post_record -- into the ring; rings the peer's doorbell if it sleeps. */
static int post_record(struct shm_endpoint *endpoint, uint32_t kind, uint32_t value, const void *data,
                       uint32_t length)
{
    int status = shm_sender_put(&endpoint->sender, kind, value, data, length);

    if (status == -STEPGATE_EPROTOCOL) {
        shm_endpoint_break(endpoint, STEPGATE_EPROTOCOL, "use the same version on both sides",
                           "the peer, process %d, has read more than was sent", endpoint->pid);
        return error_set(STEPGATE_EPEER, 0, endpoint->remedy, "%s", endpoint->why);
    }
    if (status == 0 && shm_sender_must_ring(&endpoint->sender))
        shm_doorbell_ring(endpoint->bell);
    return status;
}

/* shm_endpoint_notify -- behind every write so far: those are done. */
int shm_endpoint_notify(struct stepgate_endpoint *base, uint32_t value)
{
    struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
    int status = post_check(endpoint);

    return status < 0 ? status : post_record(endpoint, SHM_RECORD_NOTIFY, value, NULL, 0);
}

/* shm_endpoint_send -- copied into the ring. */
int shm_endpoint_send(struct stepgate_endpoint *base, const void *data, uint32_t length)
{
    struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
    int status = post_check(endpoint);

    if (status < 0)
        return status;
    if (length == 0 || length > SHM_MESSAGE_BYTES || data == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "a message has 1 to %u bytes, not %u", SHM_MESSAGE_BYTES,
                         length);
    return post_record(endpoint, SHM_RECORD_MESSAGE, 0, data, length);
}
