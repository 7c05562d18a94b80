/* SPDX-License-Identifier: BSD-3-Clause */
/* aside -- work for the shard that takes long (memory, files), in threads of its own. */
#ifndef PS_SERVER_ASIDE_H
#define PS_SERVER_ASIDE_H

struct waiter;
struct aside;

struct asides {
    struct waiter *waiter; /* woken when one is over; outlives them */
    struct aside *list;
};

/* asides_begin -- work(what) in a new thread, with the memory policy of the calling one and no signals; context: struct asides. Those that are over are joined.
 * Errors: ENOMEM, ESYSTEM. */
int asides_begin(void *context, void (*work)(void *what), void *what);
/* asides_end -- waits for all. */
void asides_end(struct asides *asides);

#endif
