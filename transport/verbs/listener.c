/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/listener.h"

#include <errno.h>
#include <stdlib.h>

#include "transport/base/error.h"
#include "transport/verbs/address.h"
#include "transport/verbs/verbs.h"

#define LISTENER_BACKLOG 1024

/* listener_refused -- reports why an address cannot be listened at. */
static int listener_refused(int ret, const char *address)
{
    switch (-ret) {
    case EADDRINUSE:
        return error_set(STEPGATE_EBUSY, -ret, "choose another port, or 0 for a free one",
                         "the address %s is in use", address);
    case EADDRNOTAVAIL:
        return error_set(STEPGATE_EADDRESS, -ret, "name an address of this host", "cannot listen at %s",
                         address);
    case ENODEV:
        return error_set(STEPGATE_ENODEVICE, 0,
                         "use the IP address of the RDMA network card, or transport shm",
                         "there is no RDMA device at address %s", address);
    default: return error_set(STEPGATE_ESYSTEM, -ret, NULL, "cannot listen at %s", address);
    }
}

/* listener_new -- binds and listens. */
int listener_new(struct stepgate_queue *queue, const char *address, struct stepgate_listener **out)
{
    struct queue *inner = (struct queue *)queue;
    struct sockaddr_storage at;

    int ret = address_parse(address, false, &at);
    if (ret != 0)
        return ret;
    if (address_is_loopback(&at))
        return error_set(STEPGATE_ENODEVICE, 0, ADDRESS_REMEDY_LOOPBACK,
                         "there is no RDMA device at address %s", address);
    struct listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a listener");
    struct stepgate_listener *base = &listener->base;
    base->transport = verbs_transport();
    listener->owner.kind = OWNER_LISTENER;
    ret = seam_create_id(inner->cm, &listener->owner, &listener->id);
    if (ret == 0)
        ret = seam_bind(listener->id, (struct sockaddr *)&at);
    if (ret == 0 && listener->id->verbs != NULL && listener->id->verbs != inner->device->context)
        ret = -ENODEV;
    if (ret == 0)
        ret = seam_listen(listener->id, LISTENER_BACKLOG);
    if (ret != 0) {
        ret = listener_refused(ret, address);
        listener_delete(&base);
        return ret;
    }
    *out = base;
    return 0;
}

/* listener_address -- with the port that was taken. */
int listener_address(struct stepgate_listener *listener, char *text, size_t bytes)
{
    return address_format(rdma_get_local_addr(((struct listener *)listener)->id), text, bytes);
}

/* listener_delete -- requests that nobody has seen are refused by the connection manager. */
void listener_delete(struct stepgate_listener **listener)
{
    if (listener == NULL || *listener == NULL)
        return;
    struct listener *inner = (struct listener *)*listener;
    if (inner->id != NULL)
        seam_destroy_id(inner->id);
    free(inner);
    *listener = NULL;
}
