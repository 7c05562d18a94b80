/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/restarts.h"

#include "transport/base/exit_status.h"

#define RESTARTS_PAUSE_MS 250 /* what the system takes back from a dead process, it has taken back by then */
#define RESTARTS_DOUBLINGS 5u

/* restarts_take -- see restarts.h. */
bool restarts_take(struct restarts *restarts, const struct child *child)
{
    bool worth = child->signal != 0 || child->status == EXIT_STATUS_REQUEUE;

    if (!child->ended || !worth || restarts->used >= restarts->most)
        return false;
    restarts->used++;
    return true;
}

/* restarts_pause_ms -- doubles, up to 8 s. */
int64_t restarts_pause_ms(unsigned times)
{
    return (int64_t)RESTARTS_PAUSE_MS << (times < RESTARTS_DOUBLINGS ? times : RESTARTS_DOUBLINGS);
}
