/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "transport/simulated/state.h"

/* sim_grow -- makes room for `needed` elements; `array` is the address of the pointer. Returns 0 or -STEPGATE_ENOMEM. */
int sim_grow(void *array, uint32_t *room, uint32_t needed, size_t bytes)
{
    void *old, *grown;
    uint32_t target = *room;

    if (needed <= target)
        return 0;
    while (target < needed)
        target = target == 0 ? 16 : target * 2;
    memcpy(&old, array, sizeof(old));
    grown = realloc(old, (size_t)target * bytes);
    if (grown == NULL)
        return -STEPGATE_ENOMEM;
    memcpy(array, &grown, sizeof(grown));
    *room = target;
    return 0;
}

/* sim_table_add -- gives an object its number. */
int sim_table_add(struct sim_table *table, void *object, uint32_t *id)
{
    int rc = sim_grow(&table->slots, &table->room, table->count + 1, sizeof(*table->slots));

    if (rc < 0)
        return rc;
    *id = table->count;
    table->slots[table->count++] = object;
    return 0;
}

/* sim_table_get -- the object with a number, or NULL when it is gone. */
void *sim_table_get(const struct sim_table *table, uint32_t id)
{
    return id < table->count ? table->slots[id] : NULL;
}

/* sim_table_drop -- forgets an object; its number stays unused. */
void sim_table_drop(struct sim_table *table, uint32_t id)
{
    if (id < table->count)
        table->slots[id] = NULL;
}
