/* SPDX-License-Identifier: BSD-3-Clause */
/* post -- writes, reads, notifies and messages on their way out. */
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"
#include "transport/simulated/state.h"

#define POST_PIECES 5 /* a write lands in at most so many */

/* post_later -- the later of two times. */
static uint64_t post_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* post_full -- -STEPGATE_EAGAIN, counted. */
static int post_full(struct sim_endpoint *endpoint)
{
    endpoint->world->counts.eagains++;
    return error_set(STEPGATE_EAGAIN, 0, NULL, "the queues of the connection are full");
}

/* post_check -- may anything be posted on this endpoint now? */
static int post_check(struct sim_endpoint *endpoint)
{
    struct world *world = endpoint->world;

    if (endpoint->state == SIM_DEAD || sim_node(world, endpoint->node)->killed)
        return error_set(STEPGATE_EPEER, 0, NULL, "the connection is gone");
    if (endpoint->state != SIM_CONNECTED)
        return post_full(endpoint); /* wait for CONNECTED */
    if (endpoint->in_flight + endpoint->signals > 0 &&
        random_chance(&world->random, world->options.eagain_per_mille))
        return post_full(endpoint);
    return 0;
}

/* post_local -- is [offset, offset + length) inside the region, and the region the endpoint's to use? */
static int post_local(const struct sim_endpoint *endpoint, const struct stepgate_region *local,
                      uint64_t offset, uint64_t length)
{
    const struct sim_region *region = (const struct sim_region *)local;

    if (local == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "no local region");
    if (region->domain != endpoint->domain->id)
        return error_set(STEPGATE_EINVAL, 0, NULL,
                         "the local region belongs to another domain than the endpoint");
    if (offset > local->length || length > local->length - offset)
        return error_set(STEPGATE_EINVAL, 0, NULL, "outside the local region");
    return 0;
}

/* post_remote -- does the remote allow it? */
static int post_remote(const struct sim_endpoint *endpoint, const struct stepgate_remote *base,
                       uint64_t offset, uint64_t length, unsigned access)
{
    const struct sim_remote *remote = (const struct sim_remote *)base;

    if (base == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "no remote");
    if (remote->node != endpoint->node || remote->peer_node != endpoint->peer_node)
        return error_set(STEPGATE_EINVAL, 0, NULL, "the remote belongs to another peer");
    if ((base->access & access) == 0)
        return error_set(STEPGATE_EACCESS, 0, NULL, "the peer did not grant this access");
    if (offset > base->length || length > base->length - offset)
        return error_set(STEPGATE_EACCESS, 0, NULL, "outside the remote");
    return 0;
}

/* post_operation -- a free place for a write or read; SIM_NONE when there is none. */
static uint32_t post_operation(const struct sim_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->depth; i++)
        if (!endpoint->operations[i].used)
            return i;
    return SIM_NONE;
}

/* post_pieces -- where a transfer is cut: at multiples of 8 of the remote address, which no device tears. Returns the number. */
static uint32_t post_pieces(struct world *world, uint64_t remote_offset, uint64_t length, unsigned per_mille,
                            uint64_t ends[POST_PIECES])
{
    uint32_t pieces = 1;

    if (length > 8 && random_chance(&world->random, per_mille)) {
        uint32_t wanted = 2 + (uint32_t)random_below(&world->random, POST_PIECES - 1);
        uint64_t from = 0;
        for (pieces = 0; pieces + 1 < wanted && from < length; pieces++) {
            uint64_t end = remote_offset + from + 1 + random_below(&world->random, length - from);
            end = ((end + 7) & ~UINT64_C(7)) - remote_offset;
            if (end >= length)
                break;
            ends[pieces] = from = end;
        }
        pieces++;
    }
    ends[pieces - 1] = length;
    return pieces;
}

/* post_overlaps -- remembers a write; true when it touches bytes of one that may still be landing. */
static bool post_overlaps(struct sim_endpoint *endpoint, uint32_t region, uint64_t from, uint64_t length)
{
    bool overlaps = endpoint->range_count == SIM_RANGES;

    for (uint32_t i = 0; i < endpoint->range_count && !overlaps; i++) {
        const struct sim_range *range = &endpoint->ranges[i];
        overlaps = range->region == region && from < range->to && range->from < from + length;
    }
    if (overlaps)
        endpoint->range_count = 0;
    endpoint->ranges[endpoint->range_count++] = (struct sim_range){region, from, from + length};
    return overlaps;
}

/* post_transfer -- puts the pieces of a write (bytes: taken at the post, or NULL) or read on their way. */
static int post_transfer(struct sim_endpoint *endpoint, uint32_t place, const struct sim_remote *remote,
                         uint64_t remote_offset, uint64_t length, const uint8_t *bytes)
{
    struct world *world = endpoint->world;
    struct sim_operation *operation = &endpoint->operations[place];
    bool read = operation->read;
    unsigned chance = !read                   ? world->options.split_per_mille
                      : world->options.mapped ? 0
                                              : world->options.tear_per_mille;
    uint64_t ends[POST_PIECES];
    struct sim_item *items[POST_PIECES];
    uint32_t pieces = post_pieces(world, remote_offset, length, chance, ends);

    for (uint32_t i = 0; i < pieces; i++) {
        uint64_t from = i == 0 ? 0 : ends[i - 1];
        uint64_t size = ends[i] - from;
        struct sim_item *item = items[i] = sim_item_new(world, read ? SIM_READ : SIM_WRITE, endpoint);
        if (item != NULL && bytes != NULL && size > 0 && (item->data = malloc(size)) == NULL) {
            sim_item_delete(item);
            item = NULL;
        }
        if (item == NULL) {
            while (i-- > 0)
                sim_item_delete(items[i]);
            return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory to post");
        }
        if (item->data != NULL) {
            memcpy(item->data, bytes + from, size);
            item->data_bytes = (uint32_t)size;
        }
        item->operation = place;
        item->generation = operation->generation;
        item->region = remote->region;
        item->key = remote->key;
        item->offset = from;
        item->remote_offset = remote_offset + from;
        item->length = size;
    }
    if (!read && length > 0 && post_overlaps(endpoint, remote->region, remote_offset, length))
        endpoint->barrier = post_later(endpoint->barrier, endpoint->tail);
    for (uint32_t i = 0; i < pieces; i++) {
        if (!read && world->options.link_bytes_per_s > 0) {
            sim_link_put(endpoint, items[i]);
            continue;
        }
        uint64_t due = world->now + sim_latency(world);
        if (!read) {
            due = post_later(due, endpoint->barrier);
            endpoint->tail = post_later(endpoint->tail, due);
        }
        items[i]->due = due;
        sim_agenda_put(world, items[i]);
    }
    operation->left = pieces;
    if (read)
        world->counts.torn_reads += pieces > 1;
    else
        world->counts.split_writes += pieces > 1;
    return 0;
}

/* post_early -- lets a write complete without regard to its landing. */
static void post_early(struct sim_endpoint *endpoint, uint32_t place)
{
    struct world *world = endpoint->world;
    struct sim_item *done = sim_item_new(world, SIM_DONE, endpoint);

    if (done == NULL)
        return; /* then it completes when it has landed */
    done->to = endpoint->id;
    done->to_node = endpoint->node;
    done->operation = place;
    done->generation = endpoint->operations[place].generation;
    done->due = world->now + sim_latency(world);
    world->counts.early_completions++;
    sim_agenda_put(world, done);
}

/* post_begin -- takes a place for an operation. Returns it, or a negative code. */
static int64_t post_begin(struct sim_endpoint *endpoint, bool read, unsigned flags, uint64_t context)
{
    uint32_t place = post_operation(endpoint);

    if (place == SIM_NONE)
        return post_full(endpoint);
    struct sim_operation *operation = &endpoint->operations[place];
    uint32_t generation = operation->generation + 1;
    *operation = (struct sim_operation){.used = true,
                                        .read = read,
                                        .flags = flags,
                                        .generation = generation,
                                        .local_region = SIM_NONE,
                                        .order = endpoint->posted++,
                                        .context = context};
    endpoint->in_flight++;
    if (!endpoint->active && !endpoint->heard)
        endpoint->world->counts.passive_first++;
    return place;
}

/* post_abort -- gives the place back. */
static void post_abort(struct sim_endpoint *endpoint, uint32_t place)
{
    endpoint->operations[place].used = false;
    endpoint->in_flight--;
}

/* sim_endpoint_write -- posts a write. */
int sim_endpoint_write(struct stepgate_endpoint *base, struct stepgate_region *local, uint64_t local_offset,
                       const void *data, struct stepgate_remote *remote, uint64_t remote_offset,
                       uint64_t length, unsigned flags, uint64_t context)
{
    struct sim_endpoint *endpoint = (struct sim_endpoint *)base;
    struct world *world = endpoint->world;
    bool is_inline = (flags & STEPGATE_WRITE_INLINE) != 0;
    int rc = post_check(endpoint);

    if (rc < 0)
        return rc;
    if (is_inline && (local != NULL || length > world->options.inline_bytes || (data == NULL && length > 0)))
        return error_set(STEPGATE_EINVAL, 0, NULL, "an inline write takes at most %u bytes from a pointer",
                         world->options.inline_bytes);
    if (!is_inline && (rc = post_local(endpoint, local, local_offset, length)) < 0)
        return rc;
    if ((rc = post_remote(endpoint, remote, remote_offset, length, STEPGATE_ACCESS_WRITE)) < 0)
        return rc;
    int64_t place = post_begin(endpoint, false, flags, context);
    if (place < 0)
        return (int)place;
    struct sim_operation *operation = &endpoint->operations[place];
    const uint8_t *bytes = data;
    bool early = random_chance(&world->random, world->options.early_per_mille) && length <= SIM_COPY_BYTES;
    if (!is_inline) {
        const struct sim_region *region = (const struct sim_region *)local;
        bytes = early ? region->memory->bytes + local_offset : NULL;
        operation->local_region = region->id;
        operation->local_offset = local_offset;
    }
    rc = post_transfer(endpoint, (uint32_t)place, (const struct sim_remote *)remote, remote_offset, length,
                       bytes);
    if (rc < 0) {
        post_abort(endpoint, (uint32_t)place);
        return rc;
    }
    if (early)
        post_early(endpoint, (uint32_t)place);
    world->counts.writes++;
    sim_trace(world, "post write", endpoint->id, endpoint->peer, remote_offset, length);
    return 0;
}

/* sim_endpoint_read -- posts a read. */
int sim_endpoint_read(struct stepgate_endpoint *base, struct stepgate_region *local, uint64_t local_offset,
                      struct stepgate_remote *remote, uint64_t remote_offset, uint64_t length, unsigned flags,
                      uint64_t context)
{
    struct sim_endpoint *endpoint = (struct sim_endpoint *)base;
    int rc = post_check(endpoint);

    if (rc < 0 || (rc = post_local(endpoint, local, local_offset, length)) < 0 ||
        (rc = post_remote(endpoint, remote, remote_offset, length, STEPGATE_ACCESS_READ)) < 0)
        return rc;
    if ((flags & STEPGATE_WRITE_INLINE) != 0)
        return error_set(STEPGATE_EINVAL, 0, NULL, "a read cannot be inline");
    int64_t place = post_begin(endpoint, true, flags, context);
    if (place < 0)
        return (int)place;
    endpoint->operations[place].local_region = ((const struct sim_region *)local)->id;
    endpoint->operations[place].local_offset = local_offset;
    rc = post_transfer(endpoint, (uint32_t)place, (const struct sim_remote *)remote, remote_offset, length,
                       NULL);
    if (rc < 0) {
        post_abort(endpoint, (uint32_t)place);
        return rc;
    }
    endpoint->world->counts.reads++;
    sim_trace(endpoint->world, "post read", endpoint->id, endpoint->peer, remote_offset, length);
    return 0;
}

/* sim_signal_put -- sends what must arrive in order, after every earlier write and signal of the endpoint. */
void sim_signal_put(struct sim_endpoint *endpoint, struct sim_item *item)
{
    struct world *world = endpoint->world;

#ifdef STEPGATE_MUTANT_NOTIFY_BEFORE_DATA
    /* The planted fault: a notify keeps its place among notifies and messages, but no longer waits for the data before it. */
    if (item->kind == SIM_NOTIFY) {
        item->due = post_later(endpoint->signal, world->now) + 1;
        endpoint->signal = item->due;
        sim_agenda_put(world, item);
        return;
    }
#endif
    if (world->options.link_bytes_per_s > 0) {
        sim_link_put(endpoint, item);
        return;
    }
    item->due = post_later(world->now + sim_latency(world), post_later(endpoint->tail, endpoint->signal));
    endpoint->tail = endpoint->barrier = endpoint->signal = item->due;
    endpoint->range_count = 0;
    sim_agenda_put(world, item);
}

/* post_signal -- a notify or message. */
static int post_signal(struct sim_endpoint *endpoint, int kind, uint32_t value, const void *data,
                       uint32_t length)
{
    struct world *world = endpoint->world;

    if (endpoint->signals >= endpoint->depth)
        return post_full(endpoint);
    struct sim_item *item = sim_item_new(world, kind, endpoint);
    if (item == NULL || (length > 0 && (item->data = malloc(length)) == NULL)) {
        sim_item_delete(item);
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory to post");
    }
    if (length > 0)
        memcpy(item->data, data, length);
    item->data_bytes = length;
    item->value = value;
    endpoint->signals++;
    if (!endpoint->active && !endpoint->heard)
        world->counts.passive_first++;
    sim_signal_put(endpoint, item);
    return 0;
}

/* sim_endpoint_notify -- posts a notify. */
int sim_endpoint_notify(struct stepgate_endpoint *base, uint32_t value)
{
    struct sim_endpoint *endpoint = (struct sim_endpoint *)base;
    int rc = post_check(endpoint);

    if (rc < 0 || (rc = post_signal(endpoint, SIM_NOTIFY, value, NULL, 0)) < 0)
        return rc;
    endpoint->world->counts.notifies++;
    sim_trace(endpoint->world, "post notify", endpoint->id, endpoint->peer, value, 0);
    return 0;
}

/* sim_endpoint_send -- posts a message. */
int sim_endpoint_send(struct stepgate_endpoint *base, const void *data, uint32_t length)
{
    struct sim_endpoint *endpoint = (struct sim_endpoint *)base;
    int rc = post_check(endpoint);

    if (rc < 0)
        return rc;
    if (length == 0 || length > endpoint->world->options.message_bytes || data == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "a message has 1 to %u bytes, not %u",
                         endpoint->world->options.message_bytes, length);
    rc = post_signal(endpoint, SIM_MESSAGE, 0, data, length);
    if (rc < 0)
        return rc;
    endpoint->world->counts.messages++;
    sim_trace(endpoint->world, "post message", endpoint->id, endpoint->peer, length, 0);
    return 0;
}

/* sim_operation_retire -- completes the writes that are done, in order of posting; reads complete by themselves. */
void sim_operation_retire(struct sim_endpoint *endpoint)
{
    for (;;) {
        struct sim_operation *oldest = NULL;
        for (uint32_t i = 0; i < endpoint->depth; i++) {
            struct sim_operation *operation = &endpoint->operations[i];
            if (operation->used && !operation->read && (oldest == NULL || operation->order < oldest->order))
                oldest = operation;
        }
        if (oldest == NULL || !oldest->done)
            return;
        oldest->used = false;
        endpoint->in_flight--;
        if ((oldest->flags & STEPGATE_POST_COMPLETE) != 0) {
            struct stepgate_event event = {
                .kind = STEPGATE_EVENT_COMPLETION, .endpoint = &endpoint->base, .context = oldest->context};
            sim_queue_push(endpoint->queue, &event, NULL, SIM_NONE);
        }
    }
}
