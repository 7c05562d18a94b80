/* SPDX-License-Identifier: BSD-3-Clause */
/* socket -- abstract AF_UNIX sockets of packets, named from user and port: "\0stepgate.UID.PORT". */
#ifndef TRANSPORT_SHM_SOCKET_H
#define TRANSPORT_SHM_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/base/hosts.h"

/* shm_socket_parse -- takes an address apart; when listening the port may be 0 or missing. Errors: EADDRESS. */
int shm_socket_parse(const char *address, bool listening, struct hosts_entry *out);
/* shm_socket_new -- a socket that does not block, or a negative code. Errors: ELIMIT, ESYSTEM. */
int shm_socket_new(void);
/* shm_socket_listen -- a new socket that listens; port 0 takes a free one. *port is the port taken. Returns the socket, or a negative
 * code. Errors: EBUSY, ELIMIT, ESYSTEM. */
int shm_socket_listen(uint16_t *port);
/* shm_socket_connect -- 0, or without a text EAGAIN (the listener's queue is full), EREFUSED, ESYSTEM (see errno). */
int shm_socket_connect(int fd, uint16_t port);
/* shm_socket_peer -- is the process at the other end of this user's, or root's? *pid is its number. */
bool shm_socket_peer(int fd, int *pid);
/* shm_socket_close -- ends the connection for both sides, also while a child of this process still has a copy of the descriptor. */
void shm_socket_close(int fd);

#endif
