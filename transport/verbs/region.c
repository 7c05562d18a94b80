/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The descriptor, little-endian:
 *
 *   byte  0..3   "SGVR"          16..19  remote key
 *         4..5   version 1       20..23  0
 *         6..7   access          24..31  address
 *         8..15  length          32..63  0
 */
#include "transport/verbs/region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "transport/base/bytes.h"
#include "transport/base/error.h"
#include "transport/base/pages.h"
#include "transport/verbs/verbs.h"

#define REGION_MAGIC UINT32_C(0x52564753) /* "SGVR" */
#define REGION_VERSION 1U
#define REGION_ACCESS_ALL (STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE)

/* region_flags -- verbs access flags for rights of peers. */
static int region_flags(unsigned access)
{
    int flags = IBV_ACCESS_LOCAL_WRITE;

    if (access & STEPGATE_ACCESS_READ)
        flags |= IBV_ACCESS_REMOTE_READ;
    if (access & STEPGATE_ACCESS_WRITE)
        flags |= IBV_ACCESS_REMOTE_WRITE;
    return flags;
}

/* region_refused -- reports a registration that failed, with the limit that is the likely cause. */
static int region_refused(const struct region *region, int os_errno)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    if ((os_errno == ENOMEM || os_errno == EPERM || os_errno == EAGAIN) && limit.rlim_cur != RLIM_INFINITY)
        return error_set(
            STEPGATE_ELIMIT, os_errno, "ulimit -l unlimited, or --ulimit memlock=-1 for a container",
            "memlock limit is %llu KiB, %llu KiB more are to be registered on %s",
            (unsigned long long)(limit.rlim_cur / 1024),
            (unsigned long long)((region->base.length + 1023) / 1024), region->domain->device->name);
    return error_set(os_errno == ENOMEM ? STEPGATE_ENOMEM : STEPGATE_ESYSTEM, os_errno, NULL,
                     "cannot register %llu bytes on %s", (unsigned long long)region->base.length,
                     region->domain->device->name);
}

/* region_allocate -- zeroed memory in huge pages where there are any, touched before it is registered. */
static int region_allocate(struct region *region, uint64_t length)
{
    uint64_t mapped;
    void *memory = pages_map(length, &mapped);

    if (memory == NULL)
        return error_set(STEPGATE_ENOMEM, errno, NULL, "no memory for %llu bytes",
                         (unsigned long long)length);
    region->base.address = memory;
    region->mapped = (size_t)mapped;
    return 0;
}

/* region_dmabuf -- registers a part of a dma-buf; requests name its bytes by their offset in it. */
static int region_dmabuf(struct region *region, const struct stepgate_dmabuf *dmabuf, int flags)
{
    region->base.address = (void *)(uintptr_t)dmabuf->offset; /* counted from, never looked at */
    region->local = seam_reg_dmabuf_mr(region->domain->pd, dmabuf->offset, (size_t)region->base.length,
                                       dmabuf->fd, flags);
    if (region->local != NULL)
        return 0;
    int os_errno = errno;
    const char *device = region->domain->device->name;
    switch (os_errno) {
    case EOPNOTSUPP:
    case ENOSYS:
    case EPROTONOSUPPORT:
        return error_set(STEPGATE_ENOTSUP, os_errno, "attach memory of this process, and copy",
                         "RDMA device %s registers no dma-buf", device);
    case EBADF:
    case EINVAL:
        return error_set(
            STEPGATE_EINVAL, os_errno, NULL,
            "descriptor %d is no dma-buf of %llu bytes from %llu on, or not one for RDMA device %s",
            dmabuf->fd, (unsigned long long)region->base.length, (unsigned long long)dmabuf->offset, device);
    default: return region_refused(region, os_errno);
    }
}

/* region_new -- registers the caller's memory or its own. */
int region_new(struct stepgate_domain *domain, const struct stepgate_region_options *options,
               struct stepgate_region **out)
{
    int ret;

    if (domain == NULL || options == NULL || out == NULL || options->size < sizeof(*options) ||
        options->length == 0 || (options->access & ~(unsigned)REGION_ACCESS_ALL) != 0 ||
        (options->dmabuf != NULL && (options->access != 0 || options->address != NULL)))
        return error_set(STEPGATE_EINVAL, 0, NULL, "region_new: length 0, or unknown access");
    struct region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a region");
    struct stepgate_region *base = &region->base;
    base->transport = verbs_transport();
    base->length = options->length;
    base->address = options->address;
    region->domain = (struct domain *)domain;
    region->access = options->access;
    (void)pthread_mutex_init(&region->lock, NULL);

    bool iwarp = region->domain->device->iwarp;
    int flags = region_flags(iwarp ? 0 : options->access) | (iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);
    if (options->dmabuf != NULL) {
        if ((ret = region_dmabuf(region, options->dmabuf, flags)) != 0)
            goto fail;
        *out = base;
        return 0;
    }
    if (options->address == NULL && (ret = region_allocate(region, options->length)) != 0)
        goto fail;
    region->local = seam_reg_mr(region->domain->pd, base->address, (size_t)options->length, flags);
    if (region->local == NULL) {
        ret = region_refused(region, errno);
        goto fail;
    }
    if (!iwarp && options->access != 0)
        region->granted[options->access] = region->local;
    *out = base;
    return 0;
fail:
    region_delete(&base);
    return ret;
}

/* region_delete -- ends the registrations first, so that no peer writes into memory that is given back. */
void region_delete(struct stepgate_region **region)
{
    if (region == NULL || *region == NULL)
        return;
    struct region *inner = (struct region *)*region;
    for (unsigned i = 1; i <= REGION_ACCESS_ALL; i++)
        if (inner->granted[i] != NULL && inner->granted[i] != inner->local)
            seam_dereg_mr(inner->granted[i]);
    if (inner->local != NULL)
        seam_dereg_mr(inner->local);
    if (inner->mapped != 0)
        (void)munmap(inner->base.address, inner->mapped);
    (void)pthread_mutex_destroy(&inner->lock);
    free(inner);
    *region = NULL;
}

/* region_export -- finds or makes the registration with exactly these rights. */
int region_export(struct region *region, unsigned access, struct stepgate_descriptor *out)
{
    if (access == 0 || (access & ~region->access) != 0)
        return error_set(STEPGATE_EACCESS, 0, NULL,
                         "a region with access %u cannot be exported with access %u", region->access, access);
    int os_errno = 0;
    (void)pthread_mutex_lock(&region->lock);
    if (region->granted[access] == NULL) {
        region->granted[access] = seam_reg_mr(region->domain->pd, region->base.address,
                                              (size_t)region->base.length, region_flags(access));
        os_errno = errno;
    }
    struct ibv_mr *mr = region->granted[access];
    (void)pthread_mutex_unlock(&region->lock);
    if (mr == NULL)
        return region_refused(region, os_errno);

    memset(out, 0, sizeof(*out));
    struct bytes_writer w = {.data = out->bytes, .size = sizeof(out->bytes)};
    bytes_put_u32(&w, REGION_MAGIC);
    bytes_put_u16(&w, REGION_VERSION);
    bytes_put_u16(&w, (uint16_t)access);
    bytes_put_u64(&w, region->base.length);
    bytes_put_u32(&w, mr->rkey);
    bytes_put_u32(&w, 0);
    bytes_put_u64(&w, (uint64_t)(uintptr_t)region->base.address);
    return 0;
}

/* region_import -- checks every field; the key itself can only be checked by the peer's device. */
int region_import(const struct stepgate_descriptor *descriptor, struct stepgate_remote **out)
{
    struct bytes_reader r = {.data = descriptor->bytes, .size = sizeof(descriptor->bytes)};
    uint32_t magic = bytes_get_u32(&r);
    unsigned version = bytes_get_u16(&r);
    unsigned access = bytes_get_u16(&r);
    uint64_t length = bytes_get_u64(&r);
    uint32_t rkey = bytes_get_u32(&r);
    bool valid = bytes_get_u32(&r) == 0;
    uint64_t address = bytes_get_u64(&r);

    while (r.used < r.size)
        valid = bytes_get_u8(&r) == 0 && valid;
    if (magic != REGION_MAGIC || version != REGION_VERSION || access == 0 ||
        (access & ~(unsigned)REGION_ACCESS_ALL) != 0 || length == 0 || length > UINT64_MAX - address)
        valid = false;
    if (!valid)
        return error_set(STEPGATE_EPROTOCOL, 0, NULL, "the peer sent no valid region descriptor");
    struct remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a remote region");
    remote->base.transport = verbs_transport();
    remote->base.length = length;
    remote->base.access = access;
    remote->address = address;
    remote->rkey = rkey;
    *out = &remote->base;
    return 0;
}

/* region_remote_delete -- forgets a peer's region. */
void region_remote_delete(struct stepgate_remote **remote)
{
    if (remote == NULL || *remote == NULL)
        return;
    free(*remote);
    *remote = NULL;
}
