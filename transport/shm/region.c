/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/region.h"

#include <stdlib.h>

#include "transport/base/error.h"
#include "transport/shm/fabric.h"
#include "transport/shm/shm.h"

#define REGION_ACCESS (unsigned)(STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE)

/* region_memory -- what the region consists of. */
static int region_memory(struct shm_region *region, const struct stepgate_region_options *options)
{
    region->base.address = options->address;
    if (options->address != NULL)
        return 0;
    enum shm_segment_seal seal =
        (options->access & STEPGATE_ACCESS_WRITE) != 0 ? SHM_SEGMENT_OPEN : SHM_SEGMENT_READONLY;
    int status = shm_segment_new(options->length, seal, &region->segment);
    if (status < 0)
        return status;
    region->base.address = region->segment->bytes;
    if (options->access == 0)
        shm_segment_close(region->segment); /* nobody is given it */
    return 0;
}

/* shm_region_new -- memory of the caller's cannot be given to another process. */
int shm_region_new(struct stepgate_domain *domain, const struct stepgate_region_options *options,
                   struct stepgate_region **out)
{
    if (options == NULL || options->length == 0 || (options->access & ~REGION_ACCESS) != 0)
        return error_set(STEPGATE_EINVAL, 0, NULL, "a region needs a length and an access of 0 to %u",
                         REGION_ACCESS);
    if (options->dmabuf != NULL)
        return error_set(STEPGATE_ENOTSUP, 0, "copy into memory of this process",
                         "shm moves nothing out of or into a dma-buf");
    if (options->address != NULL && options->access != 0)
        return error_set(STEPGATE_ENOTSUP, 0, "let the transport allocate it",
                         "shm cannot give memory of the program's own to a peer");
    struct shm_region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a region");
    int status = shm_number(&region->number);
    if (status == 0)
        status = region_memory(region, options);
    if (status < 0) {
        free(region);
        return status;
    }
    region->base.transport = shm_transport();
    region->base.length = options->length;
    region->domain = ((struct shm_domain *)domain)->number;
    region->access = options->access;
    *out = &region->base;
    return 0;
}

/* shm_region_delete -- a peer that has it mapped keeps its mapping. */
void shm_region_delete(struct stepgate_region **region)
{
    if (region == NULL || *region == NULL)
        return;
    struct shm_region *inner = (struct shm_region *)*region;
    shm_segment_unref(&inner->segment);
    free(inner);
    *region = NULL;
}
