/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/socket.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "transport/base/error.h"
#include "transport/shm/fabric.h"

#define SOCKET_BACKLOG 4096
#define SOCKET_PORT_FIRST 20000U
#define SOCKET_PORTS 40000U

/* shm_socket_parse -- the host is not looked at: shared memory ends where the host ends. */
int shm_socket_parse(const char *address, bool listening, struct hosts_entry *out)
{
    struct stepgate_error error;
    const char *text = address != NULL ? address : "";
    int status =
        listening ? hosts_parse_listen("address", text, out) : hosts_parse_address("address", text, out);

    if (status == 0 && !listening && out->port == 0)
        return error_set(STEPGATE_EADDRESS, 0, "give the port that the listener took", "%s has no port",
                         text);
    if (status == 0)
        return 0;
    error_save(&error);
    return error_set(STEPGATE_EADDRESS, 0, error.remedy, "%s", error.text);
}

/* shm_socket_new -- packets keep their borders, and what descriptors they carry. */
int shm_socket_new(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0)
        return fd;
    if (errno == EMFILE || errno == ENFILE)
        return error_set(STEPGATE_ELIMIT, errno, "raise the limit: ulimit -n", "cannot make a socket");
    return error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot make a socket");
}

/* socket_name -- the name of a port; returns its length. */
static socklen_t socket_name(uint16_t port, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n =
        snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "stepgate.%u.%u", (unsigned)geteuid(), port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* socket_bind -- 0, or the errno. */
static int socket_bind(int fd, uint16_t port)
{
    struct sockaddr_un name;
    socklen_t length = socket_name(port, &name);

    return bind(fd, (const struct sockaddr *)&name, length) == 0 ? 0 : errno;
}

/* socket_bind_free -- a port that is free, from a random place on; 0, or the errno. */
static int socket_bind_free(int fd, uint16_t *port)
{
    uint64_t start;
    int refused = EADDRINUSE;

    if (shm_number(&start) < 0)
        return errno;
    for (uint64_t i = 0; i < SOCKET_PORTS && refused == EADDRINUSE; i++) {
        *port = (uint16_t)(SOCKET_PORT_FIRST + (start % SOCKET_PORTS + i) % SOCKET_PORTS);
        refused = socket_bind(fd, *port);
    }
    return refused;
}

/* shm_socket_listen -- binds and listens. */
int shm_socket_listen(uint16_t *port)
{
    uint16_t taken = *port;
    int fd = shm_socket_new();

    if (fd < 0)
        return fd;
    int refused = taken == 0 ? socket_bind_free(fd, &taken) : socket_bind(fd, taken);
    if (refused == 0 && listen(fd, SOCKET_BACKLOG) != 0)
        refused = errno;
    if (refused == 0) {
        *port = taken;
        return fd;
    }
    close(fd);
    if (refused == EADDRINUSE)
        return error_set(STEPGATE_EBUSY, refused, "choose another port, or 0 for a free one",
                         "port %u is in use by another process of this user", taken);
    return error_set(STEPGATE_ESYSTEM, refused, NULL, "cannot listen at port %u", taken);
}

/* shm_socket_connect -- is made at once or not at all. */
int shm_socket_connect(int fd, uint16_t port)
{
    struct sockaddr_un name;
    socklen_t length = socket_name(port, &name);
    int status;

    do
        status = connect(fd, (const struct sockaddr *)&name, length);
    while (status != 0 && errno == EINTR);
    if (status == 0)
        return 0;
    if (errno == EAGAIN)
        return -STEPGATE_EAGAIN;
    return errno == ECONNREFUSED ? -STEPGATE_EREFUSED : -STEPGATE_ESYSTEM;
}

/* shm_socket_peer -- an abstract name can be taken by anybody, so the connecting side asks, too. */
bool shm_socket_peer(int fd, int *pid)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);

    *pid = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return false;
    *pid = (int)peer.pid;
    return peer.uid == geteuid() || peer.uid == 0;
}

/* shm_socket_close -- close alone would leave the connection to a child that was forked and has not called exec yet. */
void shm_socket_close(int fd)
{
    if (fd < 0)
        return;
    (void)shutdown(fd, SHUT_RDWR);
    close(fd);
}
