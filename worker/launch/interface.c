/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/base/error.h"

#define INTERFACE_PASSES 4

/* interface_pass -- in which pass an address is tried; INTERFACE_PASSES: in none (no IP address, not up, or of one link only). */
static int interface_pass(const struct ifaddrs *at)
{
    if (at->ifa_addr == NULL || (at->ifa_flags & IFF_UP) == 0)
        return INTERFACE_PASSES;
    int loopback = (at->ifa_flags & IFF_LOOPBACK) != 0 ? 2 : 0;
    if (at->ifa_addr->sa_family == AF_INET)
        return loopback;
    if (at->ifa_addr->sa_family != AF_INET6)
        return INTERFACE_PASSES;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)at->ifa_addr;
    return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? INTERFACE_PASSES : loopback + 1;
}

/* interface_text -- host in the form that takes a port behind it. */
static bool interface_text(const struct ifaddrs *at, char *out, size_t bytes)
{
    bool v6 = at->ifa_addr->sa_family == AF_INET6;
    socklen_t length = v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1]; /* with the zone of a v6 address */

    if (getnameinfo(at->ifa_addr, length, host, sizeof(host), NULL, 0, NI_NUMERICHOST) != 0)
        return false;
    snprintf(out, bytes, "%s%s%s", v6 ? "[" : "", host, v6 ? "]" : "");
    return true;
}

/* interface_works -- whether the transport opens a fabric there. */
static bool interface_works(const struct stepgate_transport_v1 *transport, const char *device,
                            const char *host)
{
    char address[STEPGATE_ADDRESS_BYTES + 2];
    struct stepgate_fabric *fabric = NULL;

    snprintf(address, sizeof(address), "%s:0", host);
    struct stepgate_fabric_options options = {
        .size = sizeof(options), .address = address, .device = device[0] != '\0' ? device : NULL};
    if (transport->fabric_open(&options, &fabric) < 0)
        return false;
    transport->fabric_delete(&fabric);
    return true;
}

/* interface_find -- tries them one after another. */
int interface_find(const struct stepgate_transport_v1 *transport, const char *device, char *out, size_t bytes)
{
    struct ifaddrs *list;
    char host[STEPGATE_ADDRESS_BYTES];
    bool found = false;

    if (getifaddrs(&list) != 0)
        return error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot list the addresses of this machine");
    for (int pass = 0; pass < INTERFACE_PASSES && !found; pass++)
        for (const struct ifaddrs *at = list; at != NULL && !found; at = at->ifa_next)
            found = interface_pass(at) == pass && interface_text(at, host, sizeof(host)) &&
                    interface_works(transport, device, host);
    freeifaddrs(list);
    if (!found)
        return error_set(
            STEPGATE_ENODEVICE, 0,
            "`rdma link show` lists the devices and their interfaces; --transport shm needs none",
            "%s%s%s works at none of the addresses of this machine", transport->name,
            device[0] != '\0' ? " over device " : "", device);
    snprintf(out, bytes, "%s", host);
    return 0;
}
