/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/drain.h"

#include "transport/verbs/queue.h"

/* drain_queue -- one pass. */
void drain_queue(struct queue *queue)
{
    for (int taken = 0; taken <= queue->cq->cqe; taken += QUEUE_BATCH) {
        struct ibv_wc *room = queue_stash_room(queue);
        if (room == NULL)
            return; /* left where they are: queue_poll drops them */
        int n = seam_poll_cq(queue->cq, QUEUE_BATCH, room);
        if (n <= 0)
            return;
        uint32_t kept = 0;
        for (int i = 0; i < n; i++)
            if (queue_find(queue, room[i].wr_id) != NULL)
                room[kept++] = room[i];
        queue->stash_count += kept;
    }
}
