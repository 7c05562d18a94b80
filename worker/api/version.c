/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepgate/version.h"

/* stepgate_version -- of the library in use. */
const char *stepgate_version(void)
{
    return STEPGATE_VERSION;
}
