/* SPDX-License-Identifier: BSD-3-Clause */
/* completion -- turns a work completion into events of the contract. */
#ifndef TRANSPORT_VERBS_COMPLETION_H
#define TRANSPORT_VERBS_COMPLETION_H

#include <stdbool.h>

#include "transport/verbs/queue.h"

/* completion_handle -- returns the number of events written (0 or 1); *used says whether the completion is done with, or is to
 * be given again for a further event. */
int completion_handle(struct queue *queue, const struct ibv_wc *wc, struct stepgate_event *event, bool *used);

#endif
