/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/seats.h"

#include <stdio.h>
#include <string.h>

#include "stepgate/transport.h"
#include "transport/base/error.h"
#include "transport/place/cpus.h"
#include "transport/verbs/verbs.h"

/* seats_device -- the RDMA device that the ps will open; false: none. */
static bool seats_device(const struct knobs *knobs, const struct hosts_entry *listen, struct nic *nic)
{
    const char *device = knob_text(knobs, "device");
    const struct stepgate_transport_v1 *verbs = verbs_transport();
    struct stepgate_fabric *fabric = NULL;
    struct stepgate_fabric_options options = {
        .size = sizeof(options), .address = listen->address, .device = device[0] != '\0' ? device : NULL};

    if (knob_int(knobs, "transport") == KNOB_TRANSPORT_SHM || hosts_is_loopback(listen->address) ||
        verbs->fabric_open(&options, &fabric) < 0)
        return false;
    nic_find(NIC_SYS, fabric->device, nic);
    verbs->fabric_delete(&fabric);
    return true;
}

/* seats_choose -- see seats.h. */
int seats_choose(const struct knobs *knobs, unsigned servers, unsigned workers,
                 const struct hosts_entry *listen, struct layout **out)
{
    struct machine *machine = NULL;
    struct layout *layout = NULL;
    struct nic nic;
    struct layout_wish wish = {.bind = knob_text(knobs, "bind"),
                               .servers = servers,
                               .lanes = (unsigned)knob_int(knobs, "lanes"),
                               .workers = workers};
    int code = 0;

    if (strcmp(wish.bind, "none") != 0)
        code = machine_new(NULL, &machine);
    if (machine != NULL) {
        wish.nic = seats_device(knobs, listen, &nic) ? &nic : NULL;
        code = layout_choose(machine, &wish, &layout);
    }
    machine_delete(&machine);
    if (code == 0)
        *out = layout;
    return code;
}

/* seats_of -- see seats.h. */
unsigned seats_of(const struct layout *layout, unsigned rank, const unsigned **cpus)
{
    if (layout == NULL || !layout->pinned || rank >= layout->workers)
        return 0;
    *cpus = layout->worker_cpus + layout->worker_first[rank];
    return layout->worker_first[rank + 1] - layout->worker_first[rank];
}

/* seats_describe -- as many as there is room for. */
void seats_describe(const struct layout *layout, char *out, size_t bytes)
{
    const unsigned *cpus;
    size_t used = 0;

    out[0] = '\0';
    for (unsigned w = 0; layout != NULL && w < layout->workers; w++) {
        char list[64];
        unsigned count = seats_of(layout, w, &cpus);
        if (count == 0)
            continue;
        if (used + sizeof(list) + 64 > bytes) {
            snprintf(out + used, bytes - used, ", ...");
            return;
        }
        cpus_text(cpus, count, list, sizeof(list));
        used += (size_t)snprintf(out + used, bytes - used, "%sworker %u on processor%s %s",
                                 used > 0 ? ", " : "", w, count > 1 ? "s" : "", list);
    }
}
