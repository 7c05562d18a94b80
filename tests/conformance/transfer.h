/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer -- bytes from one region to another over a connection. */
#ifndef TESTS_CONFORMANCE_TRANSFER_H
#define TESTS_CONFORMANCE_TRANSFER_H

#include "tests/conformance/suite.h"

/* transfer_open -- two parties and a connection; a source, for local use, at the first; a target, granted to it, at the second. */
int transfer_open(struct suite *suite, uint64_t bytes, struct party *party[2], struct link *link,
                  struct stepgate_region **source, struct stepgate_region **target,
                  struct stepgate_remote **remote);
/* transfer_write, transfer_read -- by the first party; they wait until it is done, for ms at most. */
int transfer_write(struct suite *suite, struct link *link, struct stepgate_region *source, uint64_t from,
                   struct stepgate_remote *remote, uint64_t to, uint64_t length, int ms);
int transfer_read(struct suite *suite, struct link *link, struct stepgate_region *sink, uint64_t to,
                  struct stepgate_remote *remote, uint64_t from, uint64_t length, int ms);

#endif
