/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/device.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/base/error.h"
#include "transport/verbs/address.h"
#include "transport/verbs/verbs.h"

#define DEVICE_REMEDY_NONE                                                                                   \
    "load the driver and check ibv_devinfo (in a container: pass /dev/infiniband), or use transport shm"
#define DEVICE_PIECE_LARGE (UINT64_C(1) << 30)
#define DEVICE_PIECE_SMALL (UINT64_C(1) << 20)
#define DEVICE_SIW_VENDOR 0x626d74
#define DEVICE_SIW_HOLE 32768                     /* 257 pages of completions */
#define DEVICE_SMALL_MESSAGE (UINT64_C(16) << 20) /* soft-RoCE says 8 MiB */

/* device_ack_timeout -- the largest exponent that keeps all retries within half the peer time-out. */
uint8_t device_ack_timeout(int peer_timeout_ms)
{
    uint64_t half_ns = (uint64_t)peer_timeout_ms * 500000;
    uint8_t t = 14; /* 67 ms: below it a busy peer looks dead */

    while (t < 21 && (DEVICE_RETRIES + 1) * (UINT64_C(4096) << (t + 1)) <= half_ns)
        t++;
    return t;
}

/* device_active -- has the device a port that is up? */
static bool device_active(struct ibv_context *context)
{
    struct ibv_device_attr attr;
    struct ibv_port_attr port;

    if (seam_query_device(context, &attr) != 0)
        return false;
    for (uint8_t p = 1; p <= attr.phys_port_cnt; p++)
        if (seam_query_port(context, p, &port) == 0 && port.state == IBV_PORT_ACTIVE)
            return true;
    return false;
}

/* device_by_name -- finds a device by name, or the first active one. */
static int device_by_name(struct device *device, const char *name)
{
    int count = 0;

    device->list = seam_devices(&count);
    for (int i = 0; device->list != NULL && i < count; i++) {
        struct ibv_context *context = device->list[i];
        if (name != NULL ? strcmp(ibv_get_device_name(context->device), name) == 0 : device_active(context)) {
            device->context = context;
            return 0;
        }
    }
    if (name != NULL)
        return error_set(STEPGATE_ENODEVICE, 0, DEVICE_REMEDY_NONE,
                         "there is no RDMA device '%s' among %d on this host", name, count);
    return error_set(STEPGATE_ENODEVICE, 0, DEVICE_REMEDY_NONE,
                     "there is no RDMA device with an active port on this host (%d found)", count);
}

/* device_by_address -- finds the device that has a local address; messages call it `words`. */
static int device_by_address(struct device *device, const char *text, const char *words)
{
    int ret = address_parse(text, true, &device->local);

    if (ret != 0)
        return ret;
    address_clear_port(&device->local);
    if (address_is_loopback(&device->local))
        return error_set(STEPGATE_ENODEVICE, 0, ADDRESS_REMEDY_LOOPBACK,
                         "there is no RDMA device at address %s", words);
    ret = seam_create_id(NULL, NULL, &device->anchor);
    if (ret != 0)
        return error_set(STEPGATE_ENODEVICE, -ret, DEVICE_REMEDY_NONE,
                         "the RDMA connection manager is not available for address %s", words);
    ret = seam_bind(device->anchor, (struct sockaddr *)&device->local);
    if (ret == -EADDRNOTAVAIL)
        return error_set(STEPGATE_EADDRESS, -ret, "name an address of this host",
                         "the address %s does not belong to this host", words);
    if (ret == -ENODEV || (ret == 0 && device->anchor->verbs == NULL))
        return error_set(STEPGATE_ENODEVICE, 0,
                         "use the IP address of the RDMA network card (ibv_devinfo -v, rdma link), "
                         "or transport shm",
                         "there is no RDMA device at address %s", words);
    if (ret != 0)
        return error_set(STEPGATE_ESYSTEM, -ret, NULL, "cannot bind to %s", words);
    device->context = device->anchor->verbs;
    return 0;
}

/* device_by_peer -- finds the device from which a peer is reached: the routing table knows the address, and nothing is sent. */
static int device_by_peer(struct device *device, const char *text)
{
    struct sockaddr_storage peer, local;
    socklen_t bytes = sizeof(local);
    char address[STEPGATE_ADDRESS_BYTES], words[2 * STEPGATE_ADDRESS_BYTES + 32];
    int ret = address_parse(text, true, &peer);

    if (ret != 0)
        return ret;
    int fd = socket(peer.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(STEPGATE_ESYSTEM, errno, NULL, "no socket to look for a route to %s", text);
    socklen_t length = peer.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (connect(fd, (const struct sockaddr *)&peer, length) != 0 ||
        getsockname(fd, (struct sockaddr *)&local, &bytes) != 0)
        ret = error_set(STEPGATE_EUNREACHABLE, errno, "look at the address and the routes (ip route)",
                        "there is no route to %s", text);
    close(fd);
    if (ret != 0)
        return ret;
    address_clear_port(&local);
    ret = address_format((const struct sockaddr *)&local, address, sizeof(address));
    if (ret != 0)
        return ret;
    *strrchr(address, ':') = 0; /* a port of 0 says nothing */
    snprintf(words, sizeof(words), "%s, from which %s is reached", address, text);
    return device_by_address(device, address, words);
}

/* device_limits -- asks the device what it can do. */
static int device_limits(struct device *device)
{
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    uint64_t largest = 0;

    int ret = seam_query_device(device->context, &attr);
    if (ret != 0)
        return error_set(STEPGATE_ENODEVICE, -ret, NULL, "cannot query RDMA device %s", device->name);
    for (uint8_t p = 1; p <= attr.phys_port_cnt; p++)
        if (seam_query_port(device->context, p, &port) == 0 && (largest == 0 || port.max_msg_sz < largest))
            largest = port.max_msg_sz;
    device->piece_bytes = largest < DEVICE_PIECE_LARGE ? largest : DEVICE_PIECE_LARGE;
    if (largest <= DEVICE_SMALL_MESSAGE && largest > DEVICE_PIECE_SMALL)
        device->piece_bytes = DEVICE_PIECE_SMALL;
    if (device->piece_bytes == 0)
        return error_set(STEPGATE_ENODEVICE, 0, NULL, "RDMA device %s has no usable port", device->name);
    device->iwarp = device->context->device->transport_type == IBV_TRANSPORT_IWARP;
    /*
     * siw hands its queues to user space by offsets, first fit from 0, and its user-space half takes the offset of page 144 for "none":
     * whichever queue pair or completion queue comes to begin there cannot be made. So a queue that nobody uses lies across that page.
     */
    if (attr.vendor_id == DEVICE_SIW_VENDOR)
        device->hole = seam_create_cq(device->context, DEVICE_SIW_HOLE, NULL, NULL, 0);
    device->atomics = !device->iwarp && attr.atomic_cap != IBV_ATOMIC_NONE;
    device->max_cqe = attr.max_cqe;
    device->max_wr = (uint32_t)attr.max_qp_wr;
    int out = attr.max_qp_init_rd_atom, in = attr.max_qp_rd_atom;
    device->reads_out = (uint8_t)(out < 1 ? 1 : out > 16 ? 16 : out);
    device->reads_in = (uint8_t)(in < 1 ? 1 : in > 16 ? 16 : in);
    return 0;
}

/* device_nonblocking -- asynchronous events are drained, never waited for. */
static int device_nonblocking(struct device *device)
{
    int flags = fcntl(device->context->async_fd, F_GETFL);

    if (flags < 0 || fcntl(device->context->async_fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot set up the events of %s", device->name);
    return 0;
}

/* device_options -- takes the options over, with their defaults. */
static void device_options(struct device *device, const struct stepgate_fabric_options *options)
{
    uint32_t wanted = options->operations == 0 ? 256 : options->operations;

    device->operations = 16;
    while (device->operations < wanted && device->operations < 8192 &&
           device->operations * 4 < device->max_wr)
        device->operations *= 2;
    device->ack_timeout = device_ack_timeout(options->peer_timeout_ms > 0 ? options->peer_timeout_ms : 10000);
    device->connect_timeout_ms = options->connect_timeout_ms > 0 ? options->connect_timeout_ms : 5000;
    atomic_init(&device->vector, options->vector);
}

/* device_vector -- the completion vector of a new queue. */
int device_vector(struct device *device)
{
    int count = device->context->num_comp_vectors;
    /* relaxed: it orders nothing */
    unsigned next = atomic_fetch_add_explicit(&device->vector, 1, memory_order_relaxed);

    return count > 0 ? (int)(next % (unsigned)count) : 0;
}

/* device_trouble -- see device.h. */
void device_trouble(const struct device *device, unsigned port, char *out, size_t bytes)
{
    struct counters now;
    char words[256];

    out[0] = '\0';
    if (port < 1 || port > DEVICE_PORTS_MAX)
        return;
    counters_read(COUNTERS_SYS, device->name, port, &now);
    counters_trouble(&device->counters[port - 1], &now, words, sizeof(words));
    if (words[0] != '\0')
        snprintf(out, bytes, " (%s port %u since the start: %s)", device->name, port, words);
}

/* device_open -- opens the device with an address, with a name, from which a peer is reached, or the first that is up. */
int device_open(const struct stepgate_fabric_options *options, struct stepgate_fabric **out)
{
    int ret;

    if (options == NULL || out == NULL || options->size < sizeof(*options))
        return error_set(STEPGATE_EINVAL, 0, NULL, "fabric_open: no options, or of another version");
    struct device *device = calloc(1, sizeof(*device));
    if (device == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a fabric");
    struct stepgate_fabric *fabric = &device->base;
    fabric->transport = verbs_transport();
    atomic_init(&device->fatal, 0);
    seam_fork_safe();
    if (options->address != NULL)
        ret = device_by_address(device, options->address, options->address);
    else if (options->device == NULL && options->peer != NULL)
        ret = device_by_peer(device, options->peer);
    else
        ret = device_by_name(device, options->device);
    if (ret == 0 && device->local.ss_family != 0 && address_is_any(&device->local))
        memset(&device->local, 0, sizeof(device->local));
    if (ret != 0)
        goto fail;
    snprintf(device->name, sizeof(device->name), "%s", ibv_get_device_name(device->context->device));
    fabric->device = device->name;
    if (options->device != NULL && strcmp(options->device, device->name) != 0) {
        ret = error_set(STEPGATE_ENODEVICE, 0, "name the device or the address, not both",
                        "the address %s belongs to RDMA device %s, not to %s",
                        options->address != NULL ? options->address : "", device->name, options->device);
        goto fail;
    }
    if ((ret = device_limits(device)) != 0 || (ret = device_nonblocking(device)) != 0)
        goto fail;
    device_options(device, options);
    for (unsigned p = 0; p < DEVICE_PORTS_MAX; p++)
        counters_read(COUNTERS_SYS, device->name, p + 1, &device->counters[p]);
    *out = fabric;
    return 0;
fail:
    device_delete(&fabric);
    return ret;
}

/* device_delete -- lets go of the device. */
void device_delete(struct stepgate_fabric **fabric)
{
    if (fabric == NULL || *fabric == NULL)
        return;
    struct device *device = (struct device *)*fabric;
    if (device->hole != NULL)
        seam_destroy_cq(device->hole);
    if (device->anchor != NULL)
        seam_destroy_id(device->anchor);
    if (device->list != NULL)
        seam_devices_free(device->list);
    free(device);
    *fabric = NULL;
}

/* domain_new -- a protection domain. */
int domain_new(struct stepgate_fabric *fabric, struct stepgate_domain **out)
{
    struct domain *domain = calloc(1, sizeof(*domain));

    if (domain == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a domain");
    domain->base.transport = verbs_transport();
    domain->device = (struct device *)fabric;
    domain->pd = seam_alloc_pd(domain->device->context);
    if (domain->pd == NULL) {
        int code = errno == ENOMEM ? STEPGATE_ENOMEM : STEPGATE_ESYSTEM;
        int ret = error_set(code, errno, NULL, "cannot make a protection domain on %s", domain->device->name);
        free(domain);
        return ret;
    }
    *out = &domain->base;
    return 0;
}

/* domain_delete -- its regions and endpoints are gone. */
void domain_delete(struct stepgate_domain **domain)
{
    if (domain == NULL || *domain == NULL)
        return;
    struct domain *inner = (struct domain *)*domain;
    seam_dealloc_pd(inner->pd);
    free(inner);
    *domain = NULL;
}
