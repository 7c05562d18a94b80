/* SPDX-License-Identifier: BSD-3-Clause */
/* settings -- what a ps was told: its knobs, and what follows from them. */
#ifndef PS_SERVER_SETTINGS_H
#define PS_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "stepgate/transport.h"
#include "transport/base/hosts.h"
#include "transport/base/knob.h"
#include "transport/handshake/proof.h"

struct settings {
    struct knobs knobs;
    struct proof_secret secret;
    struct hosts ps;
    uint32_t number, workers, lanes;
    int kernels;                             /* enum optimizer_kind */
    char listen[STEPGATE_ADDRESS_BYTES + 4]; /* with a port, 0: any; once it listens, the real one */
    bool rewinds;                            /* where another ps is lost, go back to a checkpoint */
};

/* settings_read -- copies the knobs, and reads the rest of them; settings_clear also after an error. Errors: EINVAL, ENOMEM, those of proof_load. */
int settings_read(const struct knobs *knobs, struct settings *settings);
void settings_clear(struct settings *settings);
/* settings_shards -- how many ps there are. */
uint32_t settings_shards(const struct settings *settings);

#endif
