/* SPDX-License-Identifier: BSD-3-Clause */
/* check -- whether what a model was told fits together. */
#ifndef PS_PROTOCOL_CHECK_H
#define PS_PROTOCOL_CHECK_H

#include "ps/protocol/model.h"

/* check_rest -- what no single key can see; of a model whose defaults are resolved. Errors: EINVAL. */
int check_rest(struct model *model);

#endif
