/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/verbs.h"

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
