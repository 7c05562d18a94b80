/* SPDX-License-Identifier: BSD-3-Clause */
/* address -- "host:port" and "[v6]:port" as socket addresses, and back. */
#ifndef TRANSPORT_VERBS_ADDRESS_H
#define TRANSPORT_VERBS_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#define ADDRESS_REMEDY_LOOPBACK                                                                              \
    "127.0.0.1 is not an RDMA address: use the IP address of the network card, or transport shm"

/* address_parse -- text to a socket address; the port may be left out if port_optional (then 0). Errors: EADDRESS. */
int address_parse(const char *text, bool port_optional, struct sockaddr_storage *out);
/* address_is_loopback -- 127.0.0.0/8 or ::1, where no RDMA device ever is. */
bool address_is_loopback(const struct sockaddr_storage *address);
/* address_is_any -- 0.0.0.0 or ::. */
bool address_is_any(const struct sockaddr_storage *address);
/* address_clear_port -- sets the port to 0. */
void address_clear_port(struct sockaddr_storage *address);
/* address_format -- a socket address as text. Errors: EINVAL (too little room). */
int address_format(const struct sockaddr *address, char *text, size_t bytes);

#endif
