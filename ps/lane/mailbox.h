/* SPDX-License-Identifier: BSD-3-Clause */
/* mailbox -- letters between the shard's thread and a lane's, on the control path only: a mutex guards it. */
#ifndef PS_LANE_MAILBOX_H
#define PS_LANE_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "stepgate/transport.h"

enum letter_kind {
    LETTER_ACCEPT = 1, /* to the lane: request, hello, purpose, rank, fabric, domain */
    LETTER_BOARD = 2,  /* to the lane: board */
    LETTER_GRANT =
        3, /* to lane 0: tell `rank` of a region, with a message of that kind: model, step, offsets */
    LETTER_LOST = 4,    /* to the shard: rank, error, end */
    LETTER_DROP = 5,    /* to lane 0: forget the region */
    LETTER_DROPPED = 6, /* to the shard: it is forgotten */
    LETTER_CLOSE = 7,   /* to lane 0: the observer with the number `rank` is gone, its connection may go */
    LETTER_HOLD = 8,    /* to the lane: `rank` will connect anew: its connections go, the rest stays */
    LETTER_HELD = 9,    /* to the shard: nothing comes over them any more */
    LETTER_FORGET =
        10, /* to the lane: `rank` is lost: nothing of it stays, and nothing is announced to who comes next */
    LETTER_FORGOT = 11, /* to the shard: so it is */
    LETTER_BACK = 12,   /* to the lane: `rank` has slots again, of `model` */
    LETTER_DEVICE = 13  /* to the shard: error of the lane's device, which is lost where end is not 0 */
};

struct board;

struct letter {
    int kind;
    struct letter *next;
    uint32_t rank, lane, fabric, model;
    int message; /* enum message_kind */
    uint64_t step;
    uint8_t purpose;
    struct stepgate_request *request;
    uint8_t hello[STEPGATE_HELLO_BYTES];
    struct stepgate_domain *domain;
    struct board *board;
    struct stepgate_region *region;
    uint64_t offsets[3]; /* of both parities, and of the words */
    struct stepgate_error error;
    int end; /* enum link_end; of a device, as said above */
};

struct mailbox {
    pthread_mutex_t lock;
    struct letter *first, *last;
    _Atomic uint32_t count; /* a hint: release after a letter was put, acquire before one is looked for */
};

void mailbox_init(struct mailbox *mailbox);
/* mailbox_clear -- refuses requests nobody took, frees the rest. */
void mailbox_clear(struct mailbox *mailbox);
/* mailbox_put -- a copy of the letter. Errors: ENOMEM. */
int mailbox_put(struct mailbox *mailbox, const struct letter *letter);
/* mailbox_take -- 1 and the oldest letter, or 0. */
int mailbox_take(struct mailbox *mailbox, struct letter *out);

#endif
