/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/frame.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/base/bytes.h"

#define FRAME_HELLO_AT 64

static_assert(FRAME_HELLO_AT + STEPGATE_HELLO_BYTES <= SHM_FRAME_BYTES, "the hello fits");
static const char frame_magic[4] = {'S', 'G', 'S', 'H'};

/* Room for the descriptors of a packet, aligned. */
union frame_control {
    char bytes[CMSG_SPACE(SHM_FRAME_FDS * sizeof(int))];
    struct cmsghdr align;
};

/* frame_fds -- how many descriptors a kind comes with; -1: there is no such kind. */
static int frame_fds(unsigned kind)
{
    switch (kind) {
    case SHM_FRAME_REQUEST:
    case SHM_FRAME_GRANT: return 1;
    case SHM_FRAME_ACCEPT: return 2;
    case SHM_FRAME_REFUSE: return 0;
    default: return -1;
    }
}

/* frame_pack -- to bytes. */
static void frame_pack(const struct shm_frame *frame, uint8_t out[SHM_FRAME_BYTES])
{
    struct bytes_writer writer = {.data = out, .size = SHM_FRAME_BYTES};

    memset(out, 0, SHM_FRAME_BYTES);
    bytes_put(&writer, frame_magic, sizeof(frame_magic));
    bytes_put_u16(&writer, SHM_FRAME_VERSION);
    bytes_put_u16(&writer, (uint16_t)frame->kind);
    bytes_put_u32(&writer, frame->status);
    bytes_put_u32(&writer, frame->operations);
    bytes_put_u32(&writer, frame->access);
    bytes_put_u32(&writer, frame->hello_bytes);
    bytes_put_u64(&writer, frame->domain);
    bytes_put_u64(&writer, frame->connection);
    bytes_put_u64(&writer, frame->number);
    bytes_put_u64(&writer, frame->length);
    memcpy(out + FRAME_HELLO_AT, frame->hello, sizeof(frame->hello));
}

/* frame_unpack -- from bytes; 0, -EPROTOCOL or -EVERSION. */
static int frame_unpack(const uint8_t in[SHM_FRAME_BYTES], struct shm_frame *out)
{
    struct bytes_reader reader = {.data = in, .size = SHM_FRAME_BYTES};
    char magic[sizeof(frame_magic)];

    bytes_get(&reader, magic, sizeof(magic));
    if (memcmp(magic, frame_magic, sizeof(magic)) != 0)
        return -STEPGATE_EPROTOCOL;
    if (bytes_get_u16(&reader) != SHM_FRAME_VERSION)
        return -STEPGATE_EVERSION;
    unsigned kind = bytes_get_u16(&reader);
    out->kind = (enum shm_frame_kind)kind;
    out->status = bytes_get_u32(&reader);
    out->operations = bytes_get_u32(&reader);
    out->access = bytes_get_u32(&reader);
    out->hello_bytes = bytes_get_u32(&reader);
    out->domain = bytes_get_u64(&reader);
    out->connection = bytes_get_u64(&reader);
    out->number = bytes_get_u64(&reader);
    out->length = bytes_get_u64(&reader);
    memcpy(out->hello, in + FRAME_HELLO_AT, sizeof(out->hello));
    return frame_fds(kind) < 0 || out->hello_bytes > STEPGATE_HELLO_BYTES ? -STEPGATE_EPROTOCOL : 0;
}

/* shm_frame_send -- a packet goes whole or not at all. */
int shm_frame_send(int socket, const struct shm_frame *frame)
{
    uint8_t bytes[SHM_FRAME_BYTES];
    union frame_control control;
    struct iovec vector = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    size_t count = (size_t)frame_fds(frame->kind);
    ssize_t sent;

    frame_pack(frame, bytes);
    if (count > 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(header), frame->fds, count * sizeof(int));
    }
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return 0;
    switch (errno) {
    case EAGAIN:
    case ETOOMANYREFS:
        return -STEPGATE_EAGAIN; /* too many descriptors under way: the peer has to take some */
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN: return -STEPGATE_EPEER;
    case EMFILE:
    case ENFILE: return -STEPGATE_ELIMIT;
    default: return -STEPGATE_ESYSTEM;
    }
}

/* frame_take_fds -- the descriptors of a packet; more than there is room for are closed by the kernel. Returns their number. */
static int frame_take_fds(struct msghdr *message, int fds[SHM_FRAME_FDS])
{
    int count = 0;

    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            if (count < SHM_FRAME_FDS)
                fds[count++] = fd;
            else
                close(fd);
        }
    }
    return count;
}

/* shm_frame_receive -- one packet. */
int shm_frame_receive(int socket, struct shm_frame *out)
{
    uint8_t bytes[SHM_FRAME_BYTES];
    union frame_control control;
    struct iovec vector = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct shm_frame frame = {.fds = {-1, -1}};
    struct msghdr message;
    ssize_t length;

    /* A peer that went away with packets unread leaves one ECONNRESET before what it had sent. */
    for (int resets = 0;;) {
        message = (struct msghdr){.msg_iov = &vector,
                                  .msg_iovlen = 1,
                                  .msg_control = control.bytes,
                                  .msg_controllen = sizeof(control.bytes)};
        length = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (length >= 0 || (errno != EINTR && (errno != ECONNRESET || resets++ > 0)))
            break;
    }
    if (length < 0)
        return errno == EAGAIN ? 0 : -STEPGATE_EPEER;
    int count = frame_take_fds(&message, frame.fds);
    int status = length == 0 && count == 0 ? -STEPGATE_EPEER : 0;
    if (status == 0 && (message.msg_flags & MSG_CTRUNC) != 0)
        status = count < SHM_FRAME_FDS ? -STEPGATE_ELIMIT : -STEPGATE_EPROTOCOL;
    if (status == 0)
        status = length == SHM_FRAME_BYTES && (message.msg_flags & MSG_TRUNC) == 0
                     ? frame_unpack(bytes, &frame)
                     : -STEPGATE_EPROTOCOL;
    if (status == 0 && count != frame_fds(frame.kind))
        status = -STEPGATE_EPROTOCOL;
    if (status < 0) {
        shm_frame_drop(&frame);
        return status;
    }
    *out = frame;
    return 1;
}

/* shm_frame_drop -- what nobody has taken over. */
void shm_frame_drop(struct shm_frame *frame)
{
    for (int i = 0; i < SHM_FRAME_FDS; i++) {
        if (frame->fds[i] >= 0)
            close(frame->fds[i]);
        frame->fds[i] = -1;
    }
}
