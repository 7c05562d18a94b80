/* SPDX-License-Identifier: BSD-3-Clause */
/* VERSION -- of headers and of the library. */
#ifndef STEPGATE_VERSION_H
#define STEPGATE_VERSION_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STEPGATE_VERSION_MAJOR 0
#define STEPGATE_VERSION_MINOR 1
#define STEPGATE_VERSION_PATCH 0
#define STEPGATE_VERSION "0.1.0"

/* stepgate_version -- the version of the library in use, e.g. "0.1.0". */
const char *stepgate_version(void);

#ifdef __cplusplus
}
#endif
#endif
