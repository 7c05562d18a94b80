/* SPDX-License-Identifier: BSD-3-Clause */
/* agenda -- the pending deliveries of a world, in order of time and posting. */
#include <stdlib.h>
#include <string.h>

#include "transport/simulated/state.h"

/* sim_item_new -- a delivery on its way from an endpoint to that endpoint's peer. NULL: out of memory. */
struct sim_item *sim_item_new(struct world *world, int kind, const struct sim_endpoint *from)
{
    struct sim_item *item = calloc(1, sizeof(*item));

    if (item == NULL)
        return NULL;
    item->kind = kind;
    item->seq = world->seq++;
    item->operation = SIM_NONE;
    item->region = SIM_NONE;
    item->from = from->id;
    item->from_node = from->node;
    item->to = from->peer;
    item->to_node = from->peer_node;
    return item;
}

/* sim_item_at -- see state.h. */
struct sim_item *sim_item_at(struct world *world, int kind, uint32_t node)
{
    const struct sim_endpoint nobody = {.id = SIM_NONE, .node = node, .peer = SIM_NONE, .peer_node = node};

    return sim_item_new(world, kind, &nobody);
}

/* sim_item_delete -- frees a delivery with its bytes. */
void sim_item_delete(struct sim_item *item)
{
    if (item != NULL)
        free(item->data);
    free(item);
}

/* sim_item_before -- order of delivery. */
static bool sim_item_before(const struct sim_item *a, const struct sim_item *b)
{
    return a->due != b->due ? a->due < b->due : a->seq < b->seq;
}

/* sim_agenda_reserve -- room for `more` items, parked ones included, so that later puts cannot fail. */
int sim_agenda_reserve(struct world *world, uint32_t more)
{
    struct sim_agenda *agenda = &world->agenda;
    uint32_t needed = agenda->count + agenda->parked_count + more;
    int rc = sim_grow(&agenda->heap, &agenda->room, needed, sizeof(*agenda->heap));

    return rc < 0 ? rc : sim_grow(&agenda->parked, &agenda->parked_room, needed, sizeof(*agenda->parked));
}

/* heap_rise -- adds an item; there is room. */
static void heap_rise(struct sim_agenda *agenda, struct sim_item *item)
{
    uint32_t at = agenda->count++;

    while (at > 0) {
        uint32_t up = (at - 1) / 2;
        if (!sim_item_before(item, agenda->heap[up]))
            break;
        agenda->heap[at] = agenda->heap[up];
        at = up;
    }
    agenda->heap[at] = item;
}

/* sim_heap_put -- for a heap that parks nothing. */
int sim_heap_put(struct sim_agenda *agenda, struct sim_item *item)
{
    int rc = sim_grow(&agenda->heap, &agenda->room, agenda->count + 1, sizeof(*agenda->heap));

    if (rc == 0)
        heap_rise(agenda, item);
    return rc;
}

/* sim_agenda_put -- adds an item; without memory for its place it is dropped, as a network may. */
void sim_agenda_put(struct world *world, struct sim_item *item)
{
    struct sim_agenda *agenda = &world->agenda;

    if (sim_agenda_reserve(world, 1) < 0) {
        world->counts.dropped++;
        sim_item_delete(item);
        return;
    }
    heap_rise(agenda, item);
}

/* sim_agenda_sink -- restores the heap below `at`. */
static void sim_agenda_sink(struct sim_agenda *agenda, uint32_t at)
{
    struct sim_item *item = agenda->heap[at];

    for (;;) {
        uint32_t down = 2 * at + 1;
        if (down >= agenda->count)
            break;
        if (down + 1 < agenda->count && sim_item_before(agenda->heap[down + 1], agenda->heap[down]))
            down++;
        if (!sim_item_before(agenda->heap[down], item))
            break;
        agenda->heap[at] = agenda->heap[down];
        at = down;
    }
    agenda->heap[at] = item;
}

/* sim_agenda_top -- the next item, or NULL. */
struct sim_item *sim_agenda_top(const struct world *world)
{
    return world->agenda.count > 0 ? world->agenda.heap[0] : NULL;
}

/* sim_heap_pop -- takes the first item out. */
struct sim_item *sim_heap_pop(struct sim_agenda *agenda)
{
    struct sim_item *top = agenda->heap[0];

    agenda->heap[0] = agenda->heap[--agenda->count];
    if (agenda->count > 0)
        sim_agenda_sink(agenda, 0);
    return top;
}

/* sim_agenda_pop -- takes the next item out. */
struct sim_item *sim_agenda_pop(struct world *world)
{
    return sim_heap_pop(&world->agenda);
}

/* sim_heap_cut -- drops what comes from an endpoint. */
void sim_heap_cut(struct world *world, struct sim_agenda *agenda, uint32_t from)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < agenda->count; i++) {
        struct sim_item *item = agenda->heap[i];
        if (item->from == from) {
            world->counts.dropped++;
            sim_item_delete(item);
        } else {
            agenda->heap[kept++] = item;
        }
    }
    agenda->count = kept;
    for (uint32_t i = kept / 2; i-- > 0;)
        sim_agenda_sink(agenda, i);
}

/* sim_agenda_park -- holds an item back until a fault is over. Room is certain: it was reserved with the item's put. */
void sim_agenda_park(struct world *world, struct sim_item *item)
{
    world->agenda.parked[world->agenda.parked_count++] = item;
}

/* sim_agenda_unpark -- lets everything go that no fault holds any more. What had to land before something else still does: its due and
 * seq are no later, and max(now, due) keeps that. */
void sim_agenda_unpark(struct world *world)
{
    struct sim_agenda *agenda = &world->agenda;
    uint32_t kept = 0, count = agenda->parked_count;

    agenda->parked_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct sim_item *item = agenda->parked[i];
        if (sim_blocked(world, item->from_node, item->to_node)) {
            agenda->parked[kept++] = item;
            continue;
        }
        if (item->due < world->now)
            item->due = world->now;
        sim_agenda_put(world, item); /* its place was reserved */
    }
    agenda->parked_count = kept;
}

/* sim_item_source -- takes the bytes of a piece out of the sender's memory now. False: it cannot go on without its sender. */
static bool sim_item_source(struct world *world, struct sim_item *item, struct sim_endpoint *from)
{
    if (item->kind != SIM_WRITE || item->data != NULL || item->length == 0)
        return true;
    struct sim_operation *operation = &from->operations[item->operation];
    struct sim_region *local = sim_table_get(&world->tables[SIM_REGION], operation->local_region);
    if (item->length > SIM_COPY_BYTES || operation->generation != item->generation || local == NULL)
        return false;
    item->data = malloc(item->length);
    if (item->data == NULL)
        return false;
    memcpy(item->data, local->memory->bytes + operation->local_offset + item->offset, item->length);
    item->data_bytes = (uint32_t)item->length;
    return true;
}

/* sim_item_is_work -- is this an operation of its sender, to be cut off with it? */
static bool sim_item_is_work(const struct sim_item *item)
{
    switch (item->kind) {
    case SIM_WRITE:
    case SIM_READ:
    case SIM_NOTIFY:
    case SIM_MESSAGE:
    case SIM_GRANT: return true;
    default: return false;
    }
}

/* sim_agenda_cut -- the sender is gone: what it has in flight lands up to a random moment and not after it. Bytes that still
 * land are taken out of its memory now. Reads never land. */
void sim_agenda_cut(struct world *world, struct sim_endpoint *from)
{
    struct sim_agenda *agenda = &world->agenda;
    uint64_t span = from->tail > world->now ? from->tail - world->now : 0;
    uint64_t cut = world->now + random_below(&world->random, span + 2);
    uint64_t lost = UINT64_MAX; /* due of the earliest piece that cannot land: nothing after it may */
    uint32_t kept = 0;

    if (world->options.link_bytes_per_s > 0)
        sim_link_cut(world, from);
    if (from->tail <= world->now && agenda->parked_count == 0)
        cut = world->now;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < agenda->count; i++) {
            struct sim_item *item = agenda->heap[i];
            if (item->from != from->id || item->kind != SIM_WRITE || item->due > cut)
                continue;
            if (!sim_item_source(world, item, from) && item->due < lost)
                lost = item->due;
        }
        if (lost == UINT64_MAX)
            break;
        cut = lost > 0 ? lost - 1 : 0;
    }
    for (uint32_t i = 0; i < agenda->count; i++) {
        struct sim_item *item = agenda->heap[i];
        bool gone =
            item->from == from->id && sim_item_is_work(item) && (item->kind == SIM_READ || item->due > cut);
        if (gone) {
            world->counts.dropped++;
            sim_item_delete(item);
        } else {
            agenda->heap[kept++] = item;
        }
    }
    agenda->count = kept;
    for (uint32_t i = kept / 2; i-- > 0;)
        sim_agenda_sink(agenda, i);
    /* What a fault holds back is lost: it sat in the sender's device. */
    kept = 0;
    for (uint32_t i = 0; i < agenda->parked_count; i++) {
        struct sim_item *item = agenda->parked[i];
        if (item->from == from->id && sim_item_is_work(item)) {
            world->counts.dropped++;
            sim_item_delete(item);
        } else {
            agenda->parked[kept++] = item;
        }
    }
    agenda->parked_count = kept;
}

/* sim_agenda_holds -- is work of an endpoint held back by a fault? */
bool sim_agenda_holds(const struct world *world, uint32_t from)
{
    for (uint32_t i = 0; i < world->agenda.parked_count; i++)
        if (world->agenda.parked[i]->from == from && sim_item_is_work(world->agenda.parked[i]))
            return true;
    return false;
}

/* sim_agenda_clear -- forgets everything. */
void sim_agenda_clear(struct world *world)
{
    struct sim_agenda *agenda = &world->agenda;

    for (uint32_t i = 0; i < agenda->count; i++)
        sim_item_delete(agenda->heap[i]);
    for (uint32_t i = 0; i < agenda->parked_count; i++)
        sim_item_delete(agenda->parked[i]);
    free(agenda->heap);
    free(agenda->parked);
    memset(agenda, 0, sizeof(*agenda));
}
