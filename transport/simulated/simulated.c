/* SPDX-License-Identifier: BSD-3-Clause */
/* simulated -- the table of functions of the simulated transport. */
#include "transport/simulated/state.h"

static const struct stepgate_transport_v1 simulated_table = {
    .size = sizeof(struct stepgate_transport_v1),
    .name = "simulated",
    .fabric_open = sim_fabric_open,
    .fabric_delete = sim_fabric_delete,
    .domain_new = sim_domain_new,
    .domain_delete = sim_domain_delete,
    .region_new = sim_region_new,
    .region_delete = sim_region_delete,
    .queue_new = sim_queue_new,
    .queue_delete = sim_queue_delete,
    .queue_poll = sim_queue_poll,
    .queue_arm = sim_queue_arm,
    .queue_fd = sim_queue_fd,
    .listener_new = sim_listener_new,
    .listener_address = sim_listener_address,
    .listener_delete = sim_listener_delete,
    .endpoint_connect = sim_endpoint_connect,
    .endpoint_accept = sim_endpoint_accept,
    .request_refuse = sim_request_refuse,
    .endpoint_delete = sim_endpoint_delete,
    .endpoint_trouble = sim_endpoint_trouble,
    .endpoint_capabilities = sim_endpoint_capabilities,
    .endpoint_export = sim_endpoint_export,
    .endpoint_import = sim_endpoint_import,
    .remote_delete = sim_remote_delete,
    .endpoint_write = sim_endpoint_write,
    .endpoint_read = sim_endpoint_read,
    .endpoint_notify = sim_endpoint_notify,
    .endpoint_send = sim_endpoint_send,
};

/* simulated_transport -- the table. */
const struct stepgate_transport_v1 *simulated_transport(void)
{
    return &simulated_table;
}
