/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/verbs.h"

#include <errno.h>

#include "transport/base/error.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/device.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/listener.h"
#include "transport/verbs/post.h"
#include "transport/verbs/queue.h"
#include "transport/verbs/region.h"

static const struct stepgate_transport_v1 verbs_table = {
    .size = sizeof(struct stepgate_transport_v1),
    .name = "verbs",
    .fabric_open = device_open,
    .fabric_delete = device_delete,
    .domain_new = domain_new,
    .domain_delete = domain_delete,
    .region_new = region_new,
    .region_delete = region_delete,
    .queue_new = queue_new,
    .queue_delete = queue_delete,
    .queue_poll = queue_poll,
    .queue_arm = queue_arm,
    .queue_fd = queue_fd,
    .listener_new = listener_new,
    .listener_address = listener_address,
    .listener_delete = listener_delete,
    .endpoint_connect = connection_connect,
    .endpoint_accept = connection_accept,
    .request_refuse = connection_refuse,
    .endpoint_delete = endpoint_delete,
    .endpoint_trouble = endpoint_trouble,
    .endpoint_capabilities = endpoint_capabilities,
    .endpoint_export = endpoint_export,
    .endpoint_import = endpoint_import,
    .remote_delete = region_remote_delete,
    .endpoint_write = post_write,
    .endpoint_read = post_read,
    .endpoint_notify = post_notify,
    .endpoint_send = post_send,
};

/* verbs_transport -- the table. */
const struct stepgate_transport_v1 *verbs_transport(void)
{
    return &verbs_table;
}

/* verbs_limits -- see verbs.h. */
int verbs_limits(const struct stepgate_fabric *fabric, struct verbs_limits *out)
{
    const struct device *device = (const struct device *)fabric;
    struct ibv_device_attr attr;

    if (seam_query_device(device->context, &attr) != 0)
        return error_set(STEPGATE_ESYSTEM, errno, NULL, "RDMA device %s does not tell its limits",
                         device->name);
    *out = (struct verbs_limits){.queue_pairs = (uint64_t)attr.max_qp,
                                 .regions = (uint64_t)attr.max_mr,
                                 .region_bytes = attr.max_mr_size,
                                 .reads_in_flight = device->reads_in,
                                 .endpoint_bytes = ENDPOINT_FRAMES_BYTES};
    return 0;
}
