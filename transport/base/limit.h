/* SPDX-License-Identifier: BSD-3-Clause */
/* limit -- what the system allows a process. */
#ifndef TRANSPORT_BASE_LIMIT_H
#define TRANSPORT_BASE_LIMIT_H

#include <stdint.h>

/*
 * limit_raise_descriptors -- as many descriptors as may be had without a privilege: a ps has several for each worker and lane, and the usual limit of
 * 1,024 is for programs that use select(2). Children inherit it.
 */
void limit_raise_descriptors(void);
/* limit_descriptors -- how many may be open; UINT64_MAX: any number. */
uint64_t limit_descriptors(void);
/* limit_lockable -- bytes that may be locked in memory, as a device does with what is registered; UINT64_MAX: all. */
uint64_t limit_lockable(void);

#endif
