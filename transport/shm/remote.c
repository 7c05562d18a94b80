/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/base/bytes.h"
#include "transport/base/error.h"
#include "transport/shm/endpoint.h"
#include "transport/shm/frame.h"
#include "transport/shm/region.h"
#include "transport/shm/shm.h"

#define REMOTE_GRANTS_MOST 65536U
#define REMOTE_ACCESS (unsigned)(STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE)

static const char remote_magic[4] = {'S', 'G', 'S', 'D'};

/* remote_grow -- room for one element more; NULL: no memory, the old array stays. */
static void *remote_grow(void *array, uint32_t count, uint32_t *room, size_t bytes)
{
    if (count < *room)
        return array;
    uint32_t larger = *room == 0 ? 4 : *room * 2;
    void *grown = realloc(array, larger * bytes);
    if (grown != NULL)
        *room = larger;
    return grown;
}

/* remote_describe -- what the peer is to be told of a grant. */
static void remote_describe(const struct shm_endpoint *endpoint, const struct shm_given *given,
                            uint64_t length, struct stepgate_descriptor *out)
{
    struct bytes_writer writer = {.data = out->bytes, .size = sizeof(out->bytes)};

    memset(out, 0, sizeof(*out));
    bytes_put(&writer, remote_magic, sizeof(remote_magic));
    bytes_put_u32(&writer, given->access);
    bytes_put_u64(&writer, given->number);
    bytes_put_u64(&writer, length);
    bytes_put_u64(&writer, endpoint->connection);
}

/* remote_give -- sends the memory. A region that may be written is lent for reading as a descriptor that can't be mapped otherwise. */
static int remote_give(struct shm_endpoint *endpoint, const struct shm_region *region,
                       const struct shm_given *given)
{
    bool narrowed =
        (region->access & STEPGATE_ACCESS_WRITE) != 0 && (given->access & STEPGATE_ACCESS_WRITE) == 0;
    int fd = narrowed ? shm_segment_readable_fd(region->segment) : region->segment->fd;

    if (fd < 0)
        return fd;
    const struct shm_frame frame = {.kind = SHM_FRAME_GRANT,
                                    .number = given->number,
                                    .length = region->base.length,
                                    .access = given->access,
                                    .fds = {fd, -1}};
    int status = shm_frame_send(endpoint->fd, &frame);
    int os_errno = errno;
    if (narrowed)
        close(fd);
    switch (status) {
    case 0: return 0;
    case -STEPGATE_EAGAIN:
        return error_set(STEPGATE_EAGAIN, 0, NULL, "the peer has not taken earlier grants yet");
    case -STEPGATE_EPEER:
        return error_set(STEPGATE_EPEER, 0, NULL, "the peer, process %d, is gone", endpoint->pid);
    default:
        return error_set(-status, os_errno, "raise the limit: ulimit -n", "cannot send memory to process %d",
                         endpoint->pid);
    }
}

/* shm_endpoint_export -- the same grant twice is one grant. */
int shm_endpoint_export(struct stepgate_endpoint *base, struct stepgate_region *region_base, unsigned access,
                        struct stepgate_descriptor *out)
{
    struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
    const struct shm_region *region = (const struct shm_region *)region_base;
    struct shm_given given = {.region = region->number, .access = access};

    if (endpoint->broken)
        return error_set(STEPGATE_EPEER, 0, NULL, "the connection is gone");
    if (endpoint->state != SHM_ENDPOINT_UP)
        return error_set(STEPGATE_EAGAIN, 0, NULL, "the connection is not made yet");
    if (region->domain != endpoint->domain->number)
        return error_set(STEPGATE_EACCESS, 0, NULL, "the region belongs to another domain than the endpoint");
    if (access == 0 || (access & ~region->access) != 0)
        return error_set(STEPGATE_EACCESS, 0, NULL, "access %u is more than the region's %u", access,
                         region->access);
    for (uint32_t i = 0; i < endpoint->given_count; i++) {
        if (endpoint->given[i].region == given.region && endpoint->given[i].access == access) {
            remote_describe(endpoint, &endpoint->given[i], region->base.length, out);
            return 0;
        }
    }
    struct shm_given *grown =
        remote_grow(endpoint->given, endpoint->given_count, &endpoint->given_room, sizeof(*endpoint->given));
    if (grown == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory to export a region");
    endpoint->given = grown;
    int status = shm_number(&given.number);
    if (status == 0)
        status = remote_give(endpoint, region, &given);
    if (status < 0)
        return status;
    endpoint->given[endpoint->given_count++] = given;
    remote_describe(endpoint, &given, region->base.length, out);
    return 0;
}

/* remote_find -- a grant by its number; NULL: it has not come. */
static struct shm_grant *remote_find(struct shm_endpoint *endpoint, uint64_t number)
{
    for (uint32_t i = 0; i < endpoint->grant_count; i++)
        if (endpoint->grants[i].number == number)
            return &endpoint->grants[i];
    return NULL;
}

/* remote_note -- a frame that has come over the socket of a connection that stands: it must be a grant. */
static int remote_note(struct shm_endpoint *endpoint, struct shm_frame *frame)
{
    if (frame->kind != SHM_FRAME_GRANT || frame->length == 0 || frame->access == 0 ||
        (frame->access & ~REMOTE_ACCESS) != 0 || endpoint->grant_count == REMOTE_GRANTS_MOST ||
        remote_find(endpoint, frame->number) != NULL)
        return -STEPGATE_EPROTOCOL;
    struct shm_grant *grown = remote_grow(endpoint->grants, endpoint->grant_count, &endpoint->grant_room,
                                          sizeof(*endpoint->grants));
    if (grown == NULL)
        return -STEPGATE_ENOMEM;
    endpoint->grants = grown;
    endpoint->grants[endpoint->grant_count++] = (struct shm_grant){
        .number = frame->number, .length = frame->length, .access = frame->access, .fd = frame->fds[0]};
    frame->fds[0] = -1;
    return 0;
}

/* remote_receive -- takes the grants that wait in the socket. 0, or a negative code with its text. */
static int remote_receive(struct shm_endpoint *endpoint)
{
    struct shm_frame frame;
    int status;

    while ((status = shm_frame_receive(endpoint->fd, &frame)) > 0) {
        status = remote_note(endpoint, &frame);
        shm_frame_drop(&frame);
        if (status < 0)
            break;
    }
    switch (status) {
    case 0: return 0;
    case -STEPGATE_EPEER:
        return error_set(STEPGATE_EPEER, 0, NULL, "the peer, process %d, is gone and the memory did not come",
                         endpoint->pid);
    case -STEPGATE_ENOMEM: /* a grant is lost: without it the connection is of no use */
    case -STEPGATE_ELIMIT:
        shm_endpoint_break(endpoint, -status, "raise the limit: ulimit -n",
                           "memory of process %d could not be taken over: %s", endpoint->pid,
                           stepgate_strerror(status));
        break;
    default:
        shm_endpoint_break(endpoint, STEPGATE_EPROTOCOL, "use the same version on both sides",
                           "process %d granted what cannot be", endpoint->pid);
        break;
    }
    return error_set(-status, 0, endpoint->remedy, "%s", endpoint->why);
}

/* remote_parse -- takes a descriptor apart. */
static int remote_parse(const struct shm_endpoint *endpoint, const struct stepgate_descriptor *descriptor,
                        struct shm_grant *out)
{
    struct bytes_reader reader = {.data = descriptor->bytes, .size = sizeof(descriptor->bytes)};
    char magic[sizeof(remote_magic)];
    unsigned rest = 0;

    bytes_get(&reader, magic, sizeof(magic));
    out->access = bytes_get_u32(&reader);
    out->number = bytes_get_u64(&reader);
    out->length = bytes_get_u64(&reader);
    uint64_t connection = bytes_get_u64(&reader);
    while (reader.used < reader.size)
        rest |= bytes_get_u8(&reader);
    if (memcmp(magic, remote_magic, sizeof(magic)) != 0 || rest != 0 || out->length == 0 ||
        out->access == 0 || (out->access & ~REMOTE_ACCESS) != 0)
        return error_set(STEPGATE_EPROTOCOL, 0, NULL, "no valid descriptor");
    if (connection != endpoint->connection)
        return error_set(STEPGATE_EPROTOCOL, 0, NULL, "the descriptor belongs to another connection");
    return 0;
}

/* remote_map -- maps a grant when it is imported for the first time. */
static int remote_map(struct shm_grant *grant)
{
    if (grant->segment != NULL)
        return 0;
    int status = shm_segment_map(grant->fd, grant->length, (grant->access & STEPGATE_ACCESS_WRITE) != 0,
                                 &grant->segment);
    if (status < 0)
        return status;
    close(grant->fd);
    grant->fd = -1;
    return 0;
}

/* shm_endpoint_import -- the descriptor must say what came with the memory. */
int shm_endpoint_import(struct stepgate_endpoint *base, const struct stepgate_descriptor *descriptor,
                        struct stepgate_remote **out)
{
    struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
    struct shm_grant wanted;
    int status;

    if (endpoint->segment == NULL)
        return endpoint->broken ? error_set(STEPGATE_EPEER, 0, NULL, "the connection is gone")
                                : error_set(STEPGATE_EAGAIN, 0, NULL, "the connection is not made yet");
    status = remote_parse(endpoint, descriptor, &wanted);
    if (status < 0)
        return status;
    struct shm_grant *grant = remote_find(endpoint, wanted.number);
    if (grant == NULL) {
        status = remote_receive(endpoint);
        grant = remote_find(endpoint, wanted.number);
    }
    if (grant == NULL)
        return status < 0 ? status : error_set(STEPGATE_EAGAIN, 0, NULL, "the memory is still under way");
    if (wanted.length != grant->length || wanted.access != grant->access)
        return error_set(STEPGATE_EACCESS, 0, NULL, "the descriptor asks for other than what was granted");
    struct shm_remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a remote");
    status = remote_map(grant);
    if (status < 0) {
        free(remote);
        return status;
    }
    remote->base = (struct stepgate_remote){.transport = shm_transport(),
                                            .length = grant->length,
                                            .access = grant->access,
                                            .mapped = grant->segment->bytes};
    remote->domain = endpoint->peer_domain;
    remote->segment = shm_segment_ref(grant->segment);
    *out = &remote->base;
    return 0;
}

/* shm_remote_delete -- the mapping goes with the last remote and the endpoint. */
void shm_remote_delete(struct stepgate_remote **remote)
{
    if (remote == NULL || *remote == NULL)
        return;
    struct shm_remote *inner = (struct shm_remote *)*remote;
    shm_segment_unref(&inner->segment);
    free(inner);
    *remote = NULL;
}

/* shm_remote_forget -- when the endpoint goes. */
void shm_remote_forget(struct shm_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->grant_count; i++) {
        shm_segment_unref(&endpoint->grants[i].segment);
        if (endpoint->grants[i].fd >= 0)
            close(endpoint->grants[i].fd);
    }
    free(endpoint->grants);
    free(endpoint->given);
}
