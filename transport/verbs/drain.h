/* SPDX-License-Identifier: BSD-3-Clause */
/* drain -- takes what a destroyed queue pair left in the completion queue, so that its room is free for the next endpoint. */
#ifndef TRANSPORT_VERBS_DRAIN_H
#define TRANSPORT_VERBS_DRAIN_H

struct queue;

/* drain_queue -- empties the completion queue once: completions of present endpoints are kept for queue_poll, others dropped. Bounded by the
 * queue's size; it waits for nothing, for a flush may never come. */
void drain_queue(struct queue *queue);

#endif
