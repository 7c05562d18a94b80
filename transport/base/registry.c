/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/registry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "transport/base/error.h"

#define REGISTRY_MAX 16
#define REGISTRY_NAME_BYTES 32 /* of a name, with the terminating zero: it stands in lines of the log */

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER; /* of those who add */
static const struct stepgate_transport_v1 *registry_tables[REGISTRY_MAX];
static atomic_int registry_count; /* release store in registry_add, acquire loads of those who look */

/* registry_functions -- a table is its size and name, and then functions; are all of them there? */
static int registry_functions(const struct stepgate_transport_v1 *table)
{
    const size_t first = offsetof(struct stepgate_transport_v1, fabric_open);

    for (size_t at = first; at < sizeof(*table); at += sizeof(table->fabric_open)) {
        int (*function)(void);
        memcpy(&function, (const char *)table + at, sizeof(function));
        if (function == NULL)
            return error_set(
                STEPGATE_EINVAL, 0, "give a function for every member of struct stepgate_transport_v1",
                "function %zu of the transport %s is NULL", (at - first) / sizeof(function), table->name);
    }
    return 0;
}

/* registry_check -- may this table be added? */
static int registry_check(const struct stepgate_transport_v1 *table)
{
    static const char *const own[] = {"auto", "shm", "verbs", "simulated"};

    if (table == NULL || table->size < sizeof(*table))
        return error_set(STEPGATE_EINVAL, 0, "set size to sizeof(struct stepgate_transport_v1)",
                         "the transport is NULL, or its table is smaller than that of version 1");
    size_t length = table->name != NULL ? strlen(table->name) : 0;
    if (length == 0 || length >= REGISTRY_NAME_BYTES ||
        strspn(table->name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != length)
        return error_set(STEPGATE_EINVAL, 0, "give 1 to 31 of a-z, 0-9, - and _",
                         "a transport has no proper name");
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strcmp(own[i], table->name) == 0)
            return error_set(STEPGATE_EALREADY, 0, "give it another name",
                             "%s is a name of the library's own", table->name);
    return registry_functions(table);
}

/* registry_add -- see the header. */
int registry_add(const struct stepgate_transport_v1 *table)
{
    int status = registry_check(table);

    if (status != 0)
        return status;
    pthread_mutex_lock(&registry_lock);
    int place = registry_place(table->name),
        count = atomic_load_explicit(&registry_count, memory_order_relaxed);
    if (place >= 0 && registry_tables[place] != table) {
        status =
            error_set(STEPGATE_EALREADY, 0, "give it another name", "there is a transport %s", table->name);
    } else if (place < 0 && count == REGISTRY_MAX) {
        status = error_set(STEPGATE_ELIMIT, 0, "register each transport once",
                           "there are %d transports already", count);
    } else if (place < 0) {
        registry_tables[count] = table;
        atomic_store_explicit(&registry_count, count + 1, memory_order_release); /* pairs with registry_at */
    }
    pthread_mutex_unlock(&registry_lock);
    return status;
}

/* registry_place -- see the header. */
int registry_place(const char *name)
{
    const struct stepgate_transport_v1 *table;

    for (int place = 0; (table = registry_at(place)) != NULL; place++)
        if (strcmp(table->name, name) == 0)
            return place;
    return -1;
}

/* registry_at -- see the header. */
const struct stepgate_transport_v1 *registry_at(int place)
{
    int count = atomic_load_explicit(&registry_count, memory_order_acquire); /* pairs with registry_add */

    return place >= 0 && place < count ? registry_tables[place] : NULL;
}
