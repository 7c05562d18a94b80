/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture of a result: loss and accuracy over time. */
#ifndef FASHION_PICTURE_H
#define FASHION_PICTURE_H

#include "worker/examples/fashion/fault.h"

/* picture_draw -- from a result file to a picture, whose name ends in .svg or .png; gnuplot draws
 * it */
int picture_draw(const char *result, const char *picture, struct fault *fault);

#endif
