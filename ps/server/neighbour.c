/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/server/neighbour.h"

#include <string.h>

/* neighbour_here -- is an entry of a list on the host of another? */
static bool neighbour_here(const struct hosts_entry *own, const struct hosts_entry *other)
{
    if (!other->known || strcmp(own->host, other->host) == 0)
        return true;
    return hosts_is_loopback(own->address) && hosts_is_loopback(other->address);
}

/* neighbour_workers -- those of a list. */
static int neighbour_workers(const struct hosts_entry *own, const char *worker_hosts, unsigned *workers)
{
    struct hosts names;
    int status = hosts_parse_names("worker_hosts", worker_hosts, &names);

    if (status != 0)
        return status;
    *workers = 0;
    for (size_t w = 0; w < names.count; w++)
        *workers += neighbour_here(own, &names.entries[w]);
    hosts_clear(&names);
    return 0;
}

/* neighbour_count -- see neighbour.h. */
int neighbour_count(const char *listen, unsigned number, const struct hosts *ps, const char *worker_hosts,
                    unsigned workers, struct neighbour_count *out)
{
    struct neighbour_count count = {.workers = workers};
    struct hosts_entry own;
    int status = hosts_parse_listen("listen", listen, &own);

    if (status == 0 && worker_hosts != NULL && worker_hosts[0] != '\0')
        status = neighbour_workers(&own, worker_hosts, &count.workers);
    if (status != 0)
        return status;
    for (size_t s = 0; s < ps->count; s++) {
        bool here = s == number || neighbour_here(&own, &ps->entries[s]);
        count.index += here && s < number;
        count.servers += here;
    }
    count.servers += count.servers == 0; /* no list: it is the only one */
    *out = count;
    return 0;
}
