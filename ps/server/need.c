/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/server/need.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "transport/base/available.h"
#include "transport/base/error.h"
#include "transport/base/limit.h"
#include "transport/base/pages.h"
#include "transport/verbs/verbs.h"

/*
 * Descriptors, as counted over shm with one model: the streams, the library's and the shard's own; a queue and a thread's bell for each lane; of a worker its control
 * connection (socket, bell, process), its slots, and two connections (socket, bell) for each lane. Connections over a network have none.
 */
#define NEED_DESCRIPTORS 10
#define NEED_DESCRIPTORS_LANE 5
#define NEED_DESCRIPTORS_WORKER 3
#define NEED_DESCRIPTORS_WORKER_LANE 4
#define NEED_DESCRIPTORS_SHARD 3
#define NEED_DESCRIPTORS_SPARE 32 /* files of checkpoints and sets, more models, observers */

/* Who is told, and what came first. */
struct need {
    void (*tell)(void *context, const char *line);
    void *context;
    int status;
};

/* need_say -- a line. */
static void __attribute__((format(printf, 2, 3))) need_say(const struct need *need, const char *format, ...)
{
    char line[512];
    va_list arguments;

    if (need->tell == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    need->tell(need->context, line);
}

/* need_number -- of something; UINT64_MAX is without a limit. */
static const char *need_number(uint64_t number, char *out, size_t bytes)
{
    if (number == UINT64_MAX)
        snprintf(out, bytes, "any number");
    else
        snprintf(out, bytes, "%" PRIu64, number);
    return out;
}

/* need_look -- at one limit. */
static void need_look(struct need *need, const char *what, uint64_t wanted, uint64_t there,
                      const char *remedy)
{
    char limit[32];

    need_number(there, limit, sizeof(limit));
    need_say(need, "%s: %" PRIu64 " needed, %s there%s%s", what, wanted, limit,
             wanted <= there ? "" : ": TOO FEW; ", wanted <= there ? "" : remedy);
    if (wanted <= there || need->status != 0)
        return;
    need->status =
        error_set(STEPGATE_ELIMIT, 0, remedy, "%" PRIu64 " %s are needed, %s are there", wanted, what, limit);
}

/* need_descriptors -- of this process. */
static void need_descriptors(struct need *need, const struct need_wish *wish)
{
    uint64_t lanes = wish->lanes,
             own = NEED_DESCRIPTORS + NEED_DESCRIPTORS_LANE * lanes +
                   NEED_DESCRIPTORS_SHARD * (uint64_t)wish->shards + NEED_DESCRIPTORS_SPARE,
             here = wish->workers * (NEED_DESCRIPTORS_WORKER + NEED_DESCRIPTORS_WORKER_LANE * lanes);
    bool networked = false, mapped = false;

    for (unsigned f = 0; f < wish->fabric_count; f++)
        if (wish->fabrics[f]->transport == verbs_transport())
            networked = true;
        else
            mapped = true;
    need_look(need, "file descriptors", own + (networked ? 0 : here), limit_descriptors(),
              "raise the limit: ulimit -n; or fewer workers or lanes");
    if (networked && mapped)
        need_say(need, "file descriptors: %" PRIu64 " more, if all workers are on this host", here);
}

/* need_device -- of an RDMA device. */
static int need_device(struct need *need, const struct need_wish *wish, const struct stepgate_fabric *fabric)
{
    uint64_t peers = wish->number == 0 ? wish->shards - 1 : 1;
    uint64_t endpoints = wish->workers * (1 + 2 * (uint64_t)wish->lanes) + peers;
    struct verbs_limits limits;
    char what[128];
    int status = verbs_limits(fabric, &limits);

    if (status != 0)
        return status;
    snprintf(what, sizeof(what), "queue pairs on %s", fabric->device);
    need_look(need, what, endpoints, limits.queue_pairs, "fewer workers or lanes for each ps, or more ps");
    snprintf(what, sizeof(what), "memory regions on %s",
             fabric->device); /* of each endpoint; slots; parameters */
    need_look(need, what, endpoints + wish->workers + 1, limits.regions,
              "fewer workers or lanes for each ps, or more ps");
    need_look(need, "bytes that may be locked", endpoints * limits.endpoint_bytes, limit_lockable(),
              "ulimit -l unlimited, or --ulimit memlock=-1 for a container");
    if (limits.region_bytes >> 60 == 0) /* some devices say that there is no limit in other ways than by 0 */
        snprintf(what, sizeof(what), "up to %" PRIu64 " MiB", limits.region_bytes >> 20);
    else
        snprintf(what, sizeof(what), "any size");
    need_say(need,
             "%s: regions of %s, %" PRIu32
             " reads in flight for each connection; a model registers what its line at the start says",
             fabric->device, what, limits.reads_in_flight);
    return 0;
}

/* need_memory -- what there is. */
static void need_memory(const struct need *need)
{
    uint64_t there = available_memory();
    char pages[192];

    if (there == UINT64_MAX)
        need_say(need, "memory: the system does not say how much there is");
    else
        need_say(need,
                 "memory: %" PRIu64
                 " MiB are available; a model that needs more is refused when it is declared",
                 there >> 20);
    pages_describe(pages, sizeof(pages));
    need_say(need, "%s", pages);
}

/* need_disk -- where checkpoints go. */
static void need_disk(const struct need *need, const char *folder)
{
    struct statvfs disk;

    if (folder[0] == 0)
        return;
    if (statvfs(folder, &disk) == 0)
        need_say(need, "checkpoints in %.200s: %llu MiB are free", folder,
                 (unsigned long long)disk.f_bavail * disk.f_frsize >> 20);
}

/* need_check -- see need.h. */
int need_check(const struct need_wish *wish, void (*tell)(void *context, const char *line), void *context)
{
    struct need need = {.tell = tell, .context = context};

    need_descriptors(&need, wish);
    for (unsigned f = 0; f < wish->fabric_count; f++)
        if (wish->fabrics[f]->transport == verbs_transport()) {
            int status = need_device(&need, wish, wish->fabrics[f]);
            if (status != 0)
                return status;
        }
    if (tell != NULL) {
        need_memory(&need);
        need_disk(&need, wish->checkpoint);
    }
    return need.status;
}
