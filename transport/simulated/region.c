/* SPDX-License-Identifier: BSD-3-Clause */
/* region -- fabrics, domains, memory for peers, and grants of it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport/base/bytes.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/simulated/state.h"

/* sim_fabric_open -- opens the node that options->world names. */
int sim_fabric_open(const struct stepgate_fabric_options *options, struct stepgate_fabric **out)
{
    const struct world_node *node = options != NULL ? options->world : NULL;

    if (node == NULL)
        return error_set(STEPGATE_ENODEVICE, 0, "set stepgate_fabric_options.world",
                         "a simulated fabric needs a node of a world");
    if (world_node_killed(node))
        return error_set(STEPGATE_ENODEVICE, 0, NULL, "the simulated node %s is dead",
                         sim_node(node->world, node->index)->name);
    struct sim_fabric *fabric = calloc(1, sizeof(*fabric));
    if (fabric == NULL || sim_table_add(&node->world->tables[SIM_FABRIC], fabric, &fabric->id) < 0) {
        free(fabric);
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a fabric");
    }
    fabric->base.transport = simulated_transport();
    fabric->base.device = "simulated";
    fabric->world = node->world;
    fabric->node = node->index;
    fabric->operations = options->operations;
    fabric->peer_timeout_ns =
        (uint64_t)(options->peer_timeout_ms > 0 ? options->peer_timeout_ms : 10000) * CLOCK_MS;
    fabric->connect_timeout_ns =
        (uint64_t)(options->connect_timeout_ms > 0 ? options->connect_timeout_ms : 5000) * CLOCK_MS;
    *out = &fabric->base;
    return 0;
}

/* sim_fabric_delete -- everything made from it is gone by now. */
void sim_fabric_delete(struct stepgate_fabric **pointer)
{
    if (pointer == NULL || *pointer == NULL)
        return;
    struct sim_fabric *fabric = (struct sim_fabric *)*pointer;
    sim_table_drop(&fabric->world->tables[SIM_FABRIC], fabric->id);
    free(fabric);
    *pointer = NULL;
}

/* sim_domain_new -- a protection domain. */
int sim_domain_new(struct stepgate_fabric *base, struct stepgate_domain **out)
{
    struct sim_fabric *fabric = (struct sim_fabric *)base;
    struct sim_domain *domain = calloc(1, sizeof(*domain));

    if (domain == NULL || sim_table_add(&fabric->world->tables[SIM_DOMAIN], domain, &domain->id) < 0) {
        free(domain);
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a domain");
    }
    domain->base.transport = simulated_transport();
    domain->fabric = fabric;
    *out = &domain->base;
    return 0;
}

/* sim_domain_delete -- its regions and endpoints are gone by now. */
void sim_domain_delete(struct stepgate_domain **pointer)
{
    if (pointer == NULL || *pointer == NULL)
        return;
    struct sim_domain *domain = (struct sim_domain *)*pointer;
    sim_table_drop(&domain->fabric->world->tables[SIM_DOMAIN], domain->id);
    free(domain);
    *pointer = NULL;
}

/* sim_memory_map -- pages on demand, or those of a dma-buf, which is any descriptor that can be mapped. NULL: it cannot. */
static void *sim_memory_map(uint64_t length, const struct stepgate_dmabuf *dmabuf)
{
    void *at = mmap(NULL, length, PROT_READ | PROT_WRITE,
                    dmabuf != NULL ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    dmabuf != NULL ? dmabuf->fd : -1, dmabuf != NULL ? (off_t)dmabuf->offset : 0);

    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, length, MADV_HUGEPAGE);
    return at;
}

/* sim_memory_new -- pages on demand, or a note of the caller's memory. Not pre-faulted: a simulated run has no page faults to avoid,
 * and a large region that is never touched should cost nothing. */
static struct sim_memory *sim_memory_new(void *address, uint64_t length, const struct stepgate_dmabuf *dmabuf)
{
    struct sim_memory *memory = calloc(1, sizeof(*memory));

    if (memory == NULL)
        return NULL;
    memory->references = 1;
    memory->length = length;
    memory->bytes = address;
    if (address == NULL) {
        memory->owned = true;
        memory->bytes = sim_memory_map(length, dmabuf);
        if (memory->bytes == NULL) {
            free(memory);
            return NULL;
        }
    }
    return memory;
}

/* sim_memory_unref -- one user less. */
static void sim_memory_unref(struct sim_memory *memory)
{
    if (memory == NULL || --memory->references > 0)
        return;
    if (memory->owned)
        munmap(memory->bytes, memory->length);
    free(memory);
}

/* sim_region_new -- memory for peers of a domain. */
int sim_region_new(struct stepgate_domain *base, const struct stepgate_region_options *options,
                   struct stepgate_region **out)
{
    struct sim_domain *domain = (struct sim_domain *)base;
    struct world *world = domain->fabric->world;
    const unsigned all = STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE;

    if (options->length == 0 || (options->access & ~all) != 0)
        return error_set(STEPGATE_EINVAL, 0, NULL, "a region needs a length and a known access");
    if (options->address != NULL && options->access != 0 && world->options.mapped)
        return error_set(STEPGATE_ENOTSUP, 0, "let the transport allocate the region",
                         "memory of the caller's cannot be mapped by peers");
    if (options->dmabuf != NULL && (world->options.mapped || options->access != 0))
        return error_set(STEPGATE_ENOTSUP, 0, NULL, "a dma-buf is for local use over a network");
    struct sim_region *region = calloc(1, sizeof(*region));
    struct sim_memory *memory = sim_memory_new(options->address, options->length, options->dmabuf);
    if (region == NULL || memory == NULL ||
        sim_table_add(&world->tables[SIM_REGION], region, &region->id) < 0) {
        sim_memory_unref(memory);
        free(region);
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a region of %llu bytes",
                         (unsigned long long)options->length);
    }
    region->base.transport = simulated_transport();
    region->base.address = memory->bytes;
    region->base.length = options->length;
    region->world = world;
    region->node = domain->fabric->node;
    region->domain = domain->id;
    region->access = options->access;
    region->memory = memory;
    *out = &region->base;
    return 0;
}

/* sim_region_free -- frees a region; a mapped peer keeps the memory. */
void sim_region_free(struct sim_region *region)
{
    sim_memory_unref(region->memory);
    free(region->grants);
    free(region);
}

/* sim_region_delete -- no delivery finds it any more. */
void sim_region_delete(struct stepgate_region **pointer)
{
    if (pointer == NULL || *pointer == NULL)
        return;
    struct sim_region *region = (struct sim_region *)*pointer;
    sim_table_drop(&region->world->tables[SIM_REGION], region->id);
    sim_region_free(region);
    *pointer = NULL;
}

/* sim_region_live -- a region by number, of a process that is alive. */
struct sim_region *sim_region_live(const struct world *world, uint32_t id)
{
    struct sim_region *region = sim_table_get(&world->tables[SIM_REGION], id);

    return region != NULL && !sim_node(world, region->node)->killed ? region : NULL;
}

/* sim_region_grant -- what was granted under a key. */
struct sim_grant *sim_region_grant(struct sim_region *region, uint64_t key)
{
    for (uint32_t i = 0; i < region->grant_count; i++)
        if (region->grants[i].key == key)
            return &region->grants[i];
    return NULL;
}

/*
 * A descriptor: byte 0..3 magic "SGSM", 4..7 region, 8..15 key, 16..23 length, 24..27 access, 28..31 number of the exporting node,
 * 32..39 connection, 40..63 zero.
 */
static const char region_magic[4] = {'S', 'G', 'S', 'M'};

/* sim_endpoint_export -- grants a region to the peer of an endpoint. */
int sim_endpoint_export(struct stepgate_endpoint *base, struct stepgate_region *region_base, unsigned access,
                        struct stepgate_descriptor *out)
{
    struct sim_endpoint *endpoint = (struct sim_endpoint *)base;
    struct sim_region *region = (struct sim_region *)region_base;
    struct world *world = endpoint->world;

    if (endpoint->state == SIM_DEAD)
        return error_set(STEPGATE_EPEER, 0, NULL, "the connection is gone");
    if (endpoint->peer == SIM_NONE || endpoint->state != SIM_CONNECTED)
        return error_set(STEPGATE_EAGAIN, 0, NULL, "the connection is not made yet");
    if (region->domain != endpoint->domain->id)
        return error_set(STEPGATE_EACCESS, 0, NULL, "the region belongs to another domain than the endpoint");
    if (access == 0 || (access & ~region->access) != 0)
        return error_set(STEPGATE_EACCESS, 0, NULL, "access %u is more than the region's %u", access,
                         region->access);
    struct sim_item *item = NULL;
    if (world->options.mapped && (item = sim_item_new(world, SIM_GRANT, endpoint)) == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory to export a region");
    if (sim_grow(&region->grants, &region->grant_room, region->grant_count + 1, sizeof(*region->grants)) <
        0) {
        sim_item_delete(item);
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory to export a region");
    }
    struct sim_grant *grant = &region->grants[region->grant_count++];
    *grant = (struct sim_grant){.key = random_next(&world->random),
                                .peer_node = endpoint->peer_node,
                                .access = access,
                                .arrived = !world->options.mapped};
    if (item != NULL) {
        item->region = region->id;
        item->key = grant->key;
        sim_signal_put(endpoint, item);
    }
    memset(out, 0, sizeof(*out));
    struct bytes_writer writer = {.data = out->bytes, .size = sizeof(out->bytes)};
    bytes_put(&writer, region_magic, sizeof(region_magic));
    bytes_put_u32(&writer, region->id);
    bytes_put_u64(&writer, grant->key);
    bytes_put_u64(&writer, region->base.length);
    bytes_put_u32(&writer, access);
    bytes_put_u32(&writer, region->node);
    bytes_put_u64(&writer, endpoint->connection);
    sim_trace(world, "export", endpoint->id, endpoint->peer, region->id, access);
    return 0;
}

/* sim_endpoint_map -- the part of import that only mapped worlds have: the memory itself. */
static int sim_endpoint_map(struct sim_endpoint *endpoint, struct sim_remote *remote, uint64_t length,
                            unsigned access)
{
    struct sim_region *region = sim_table_get(&endpoint->world->tables[SIM_REGION], remote->region);

    if (region == NULL && remote->region < endpoint->world->tables[SIM_REGION].count)
        return error_set(STEPGATE_EPEER, 0, NULL, "the peer has taken the memory back");
    if (region == NULL || region->node != endpoint->peer_node)
        return error_set(STEPGATE_EPROTOCOL, 0, NULL, "the descriptor names no region of the peer");
    struct sim_grant *grant = sim_region_grant(region, remote->key);
    if (grant == NULL || grant->peer_node != endpoint->node)
        return error_set(STEPGATE_EPROTOCOL, 0, NULL, "the descriptor was not given to this peer");
    if (length > region->base.length || (access & ~grant->access) != 0)
        return error_set(STEPGATE_EACCESS, 0, NULL, "the descriptor asks for more than was granted");
    if (!grant->arrived)
        return endpoint->state == SIM_DEAD
                   ? error_set(STEPGATE_EPEER, 0, NULL, "the connection is gone")
                   : error_set(STEPGATE_EAGAIN, 0, NULL, "the memory is still under way");
    remote->memory = region->memory;
    remote->memory->references++;
    remote->base.mapped = region->memory->bytes;
    return 0;
}

/* sim_endpoint_import -- makes a descriptor usable. Unmapped, lies in it are found at the first delivery, as a device would. */
int sim_endpoint_import(struct stepgate_endpoint *base, const struct stepgate_descriptor *descriptor,
                        struct stepgate_remote **out)
{
    struct sim_endpoint *endpoint = (struct sim_endpoint *)base;
    struct bytes_reader reader = {.data = descriptor->bytes, .size = sizeof(descriptor->bytes)};
    char magic[sizeof(region_magic)];

    bytes_get(&reader, magic, sizeof(magic));
    uint32_t region = bytes_get_u32(&reader);
    uint64_t key = bytes_get_u64(&reader);
    uint64_t length = bytes_get_u64(&reader);
    unsigned access = bytes_get_u32(&reader);
    uint32_t node = bytes_get_u32(&reader);
    uint64_t connection = bytes_get_u64(&reader);
    unsigned rest = 0;
    while (reader.used < reader.size)
        rest |= bytes_get_u8(&reader);
    if (memcmp(magic, region_magic, sizeof(magic)) != 0 || rest != 0 || length == 0 || access == 0 ||
        (access & ~(unsigned)(STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE)) != 0)
        return error_set(STEPGATE_EPROTOCOL, 0, NULL, "no valid descriptor");
    if (connection != endpoint->connection || node != endpoint->peer_node)
        return error_set(STEPGATE_EPROTOCOL, 0, NULL, "the descriptor belongs to another connection");
    struct sim_remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a remote");
    remote->base.transport = simulated_transport();
    remote->base.length = length;
    remote->base.access = access;
    remote->world = endpoint->world;
    remote->node = endpoint->node;
    remote->peer_node = endpoint->peer_node;
    remote->region = region;
    remote->key = key;
    int rc = endpoint->world->options.mapped ? sim_endpoint_map(endpoint, remote, length, access) : 0;
    if (rc == 0 && sim_table_add(&endpoint->world->tables[SIM_REMOTE], remote, &remote->id) < 0)
        rc = error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a remote");
    if (rc < 0) {
        sim_memory_unref(remote->memory);
        free(remote);
        return rc;
    }
    *out = &remote->base;
    return 0;
}

/* sim_remote_delete -- unmaps it. */
void sim_remote_delete(struct stepgate_remote **pointer)
{
    if (pointer == NULL || *pointer == NULL)
        return;
    struct sim_remote *remote = (struct sim_remote *)*pointer;
    sim_table_drop(&remote->world->tables[SIM_REMOTE], remote->id);
    sim_memory_unref(remote->memory);
    free(remote);
    *pointer = NULL;
}
