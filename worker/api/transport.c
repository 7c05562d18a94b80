/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepgate/transport.h"

#include <string.h>

#include "transport/base/error.h"
#include "transport/base/registry.h"
#include "transport/shm/shm.h"
#include "transport/verbs/verbs.h"

/* stepgate_transport_register -- of somebody else. */
int stepgate_transport_register(const struct stepgate_transport_v1 *table)
{
    return registry_add(table);
}

/* stepgate_transport_find -- the library's own first. */
int stepgate_transport_find(const char *name, const struct stepgate_transport_v1 **table)
{
    if (name == NULL || table == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "the name, or where the transport is to go, is NULL");
    const struct stepgate_transport_v1 *found = strcmp(name, "shm") == 0 ? shm_transport()
                                                : strcmp(name, "verbs") == 0
                                                    ? verbs_transport()
                                                    : registry_at(registry_place(name));
    if (found == NULL)
        return error_set(STEPGATE_ENOENT, 0,
                         "give shm, verbs, or the name of one that was registered in this process",
                         "there is no transport %s", name);
    *table = found;
    return 0;
}
