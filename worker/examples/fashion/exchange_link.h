/* SPDX-License-Identifier: BSD-3-Clause */
/* A link is this worker's place in the job: options first, then the membership. */
#ifndef FASHION_EXCHANGE_LINK_H
#define FASHION_EXCHANGE_LINK_H

#include <stdbool.h>

#include "worker/examples/fashion/fault.h"

struct stepgate_job;
struct stepgate_options;

struct exchange_link {
    struct stepgate_options *options;
    struct stepgate_job *job; /* NULL before the join */
};

/* exchange_link_new -- options from the environment, then from argv, out of which those of stepgate
 * are taken; NULL with the fault set */
struct exchange_link *exchange_link_new(int *argc, char **argv, struct fault *fault);

/* exchange_link_join -- connect to all ps. A signal ends the wait: -1 without a fault, as in all
 * waits. */
int exchange_link_join(struct exchange_link *link, struct fault *fault);

/* exchange_link_workers -- workers in the job, after the join */
unsigned exchange_link_workers(const struct exchange_link *link);

/* exchange_link_rank -- of this worker among them, after the join */
unsigned exchange_link_rank(const struct exchange_link *link);

/* exchange_link_observe -- options of an observer of the same job; 0 or the library's negative code */
int exchange_link_observe(const struct exchange_link *link, struct stepgate_options **out);

/* exchange_link_rewinds -- whether the job goes back to a checkpoint when a ps is lost */
bool exchange_link_rewinds(const struct exchange_link *link);

/* exchange_link_leave -- say good-bye, not for long and whatever comes of it: for a worker that ends before the first step by a fault of its
 * own, which the ps would otherwise call lost */
void exchange_link_leave(struct exchange_link *link);

/* exchange_link_delete -- leave nothing behind; set NULL; safe on NULL */
void exchange_link_delete(struct exchange_link **link);

/* exchange_link_help -- write the flags of stepgate to stdout, from its own table */
void exchange_link_help(void);

/* exchange_fault -- hand on the library's last error, text and remedy in one line; returns -1 */
int exchange_fault(struct fault *fault, int status, int code);

/* exchange_check -- 0 for what went well, else -1 with the fault set; after a signal that asks for
 * the end the library's words are of no use, and the trainer has better ones */
int exchange_check(struct fault *fault, int code);

#endif
