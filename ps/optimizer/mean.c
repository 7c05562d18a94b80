/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/mean.h"

#include <math.h>

#include "ps/optimizer/number.h"

#define MEAN_BLOCK 1024 /* elements of a sum that stay in the first-level cache */

#define BOTH_TEMPLATE "ps/optimizer/mean.inc"
#include "ps/optimizer/both.inc"
