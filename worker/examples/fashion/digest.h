/* SPDX-License-Identifier: BSD-3-Clause */
/* One SHA-256 over all parameters: two runs agree to the bit, or they don't. */
#ifndef FASHION_DIGEST_H
#define FASHION_DIGEST_H

#include "worker/examples/fashion/dtype.h"
#include "worker/examples/fashion/network.h"

enum { DIGEST_TEXT_BYTES = 65 };

/* digest_of -- hex SHA-256 of the little-endian bytes of all variables, of their type, in declaration order */
void digest_of(const float *const values[NETWORK_VARIABLES], enum dtype dtype, char text[DIGEST_TEXT_BYTES]);

#endif
