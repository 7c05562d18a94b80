/* SPDX-License-Identifier: BSD-3-Clause */
/* interface -- finds an address of this machine over which a transport can work. */
#ifndef WORKER_LAUNCH_INTERFACE_H
#define WORKER_LAUNCH_INTERFACE_H

#include <stddef.h>

#include "stepgate/transport.h"

/*
 * interface_find -- the first address, IPv4 before IPv6, others before loopback, that the transport opens a fabric at; device: only
 * that one, or "" for any. out gets the host without port. Errors: ENODEVICE (none), ESYSTEM.
 */
int interface_find(const struct stepgate_transport_v1 *transport, const char *device, char *out,
                   size_t bytes);

#endif
