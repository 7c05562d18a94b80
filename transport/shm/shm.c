/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/shm.h"

#include "transport/shm/endpoint.h"
#include "transport/shm/fabric.h"
#include "transport/shm/listener.h"
#include "transport/shm/post.h"
#include "transport/shm/queue.h"
#include "transport/shm/region.h"
#include "transport/shm/remote.h"
#include "transport/shm/segment.h"

static const struct stepgate_transport_v1 shm_table = {
    .size = sizeof(struct stepgate_transport_v1),
    .name = "shm",
    .fabric_open = shm_fabric_open,
    .fabric_delete = shm_fabric_delete,
    .domain_new = shm_domain_new,
    .domain_delete = shm_domain_delete,
    .region_new = shm_region_new,
    .region_delete = shm_region_delete,
    .queue_new = shm_queue_new,
    .queue_delete = shm_queue_delete,
    .queue_poll = shm_queue_poll,
    .queue_arm = shm_queue_arm,
    .queue_fd = shm_queue_fd,
    .listener_new = shm_listener_new,
    .listener_address = shm_listener_address,
    .listener_delete = shm_listener_delete,
    .endpoint_connect = shm_endpoint_connect,
    .endpoint_accept = shm_endpoint_accept,
    .request_refuse = shm_request_refuse,
    .endpoint_delete = shm_endpoint_delete,
    .endpoint_trouble = shm_endpoint_trouble,
    .endpoint_capabilities = shm_endpoint_capabilities,
    .endpoint_export = shm_endpoint_export,
    .endpoint_import = shm_endpoint_import,
    .remote_delete = shm_remote_delete,
    .endpoint_write = shm_endpoint_write,
    .endpoint_read = shm_endpoint_read,
    .endpoint_notify = shm_endpoint_notify,
    .endpoint_send = shm_endpoint_send,
};

/* shm_transport -- the table. */
const struct stepgate_transport_v1 *shm_transport(void)
{
    return &shm_table;
}

/* shm_share_mappings -- see the header. */
void shm_share_mappings(bool share)
{
    shm_segment_share(share);
}
