/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * need -- what a ps will take of the system's limits when all of its peers are there, and what there is: looked at before anybody comes. What a
 * model takes is known, and looked at, when it is declared.
 */
#ifndef PS_SERVER_NEED_H
#define PS_SERVER_NEED_H

#include <stdint.h>

#include "stepgate/transport.h"

/* What a ps is to serve. */
struct need_wish {
    uint32_t workers, lanes, shards, number;
    struct stepgate_fabric *const *fabrics; /* open */
    unsigned fabric_count;
    const char *checkpoint; /* folder; "": none */
};

/*
 * need_check -- tell (NULL: nobody) gets a line for each limit, and whether there is enough. Errors: ELIMIT (of the first that is too small; both numbers), ESYSTEM.
 */
int need_check(const struct need_wish *wish, void (*tell)(void *context, const char *line), void *context);

#endif
