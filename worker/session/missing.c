/* SPDX-License-Identifier: BSD-3-Clause */
/* missing -- words whom a worker still waits for while it joins, and what has come of its attempts to reach them. */
#include <stdio.h>

#include "transport/base/clock.h"
#include "worker/session/inside.h"

/* missing_one -- words how far a shard's connections have come: what came of the last attempt, and when that was. */
static void missing_one(const struct session_shard *shard, uint64_t now, char *text, size_t size)
{
    static const char *const ways[] = {[LINK_NEW] = "not tried yet",
                                       [LINK_CONNECTING] = "it does not answer yet",
                                       [LINK_PROVING] = "it has not proved itself yet",
                                       [LINK_UP] = "it is there, and not all of its lanes",
                                       [LINK_DOWN] = "its connection is down"};
    const struct session_connection *control = &shard->control;
    bool tried = control->link.state == LINK_NEW && shard->why[0] != 0;

    snprintf(text, size, "%s (attempt %u, %llu ms ago)", tried ? shard->why : ways[control->link.state],
             control->attempts + !tried,
             (unsigned long long)(control->tried_at != 0 ? (now - control->tried_at) / CLOCK_MS : 0));
}

/* session_missing -- see inside.h. */
uint32_t session_missing(const struct session *session, uint64_t now, char *text, size_t size)
{
    char one[400];
    uint32_t up = 0;
    size_t used = 0;

    text[0] = 0;
    for (uint32_t s = 0; s < session->shard_count; s++) {
        if (session_is_up(session, &session->shards[s])) {
            up++;
            continue;
        }
        const struct session_shard *shard = &session->shards[s];
        missing_one(shard, now, one, sizeof(one));
        int n = snprintf(text + used, size - used, "%sps %u (%s): %s", used > 0 ? ", " : "", s,
                         shard->address, one);
        if (n > 0 && (size_t)n < size - used)
            used += (size_t)n;
    }
    return up;
}
