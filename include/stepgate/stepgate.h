/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate -- the umbrella of the public API. */
#ifndef STEPGATE_STEPGATE_H
#define STEPGATE_STEPGATE_H

#include "stepgate/api.h"
#include "stepgate/buffer.h"
#include "stepgate/error.h"
#include "stepgate/job.h"
#include "stepgate/log.h"
#include "stepgate/model.h"
#include "stepgate/option.h"
#include "stepgate/server.h"
#include "stepgate/step.h"
#include "stepgate/transport.h"
#include "stepgate/tune.h"
#include "stepgate/version.h"

#endif
