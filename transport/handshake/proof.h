/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proof -- shows knowledge of the job's secret: HMAC-SHA-256 over both hellos, which hold both nonces, the prover's first.
 * The active side of a connection proves first.
 */
#ifndef TRANSPORT_HANDSHAKE_PROOF_H
#define TRANSPORT_HANDSHAKE_PROOF_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/transport.h"

#define PROOF_BYTES 32

/* The secret of a job; an empty one (bytes = 0) proves the job's name only. */
struct proof_secret {
    uint8_t data[64];
    size_t bytes;
};

/* proof_random -- fills with unpredictable bytes. */
void proof_random(void *data, size_t bytes);

/* proof_make -- the proof of the side whose hello is `prover`, towards `verifier`. */
void proof_make(const struct proof_secret *secret, const uint8_t prover[STEPGATE_HELLO_BYTES],
                const uint8_t verifier[STEPGATE_HELLO_BYTES], uint8_t out[PROOF_BYTES]);

/* proof_check -- constant-time comparison; 0, or -STEPGATE_EAUTH. Equal hellos are refused: one side only echoes the other. */
int proof_check(const struct proof_secret *secret, const uint8_t prover[STEPGATE_HELLO_BYTES],
                const uint8_t verifier[STEPGATE_HELLO_BYTES], const uint8_t proof[PROOF_BYTES]);

/* proof_load -- reads a secret file (16 to 64 bytes, not readable by group or world unless it is a pipe or memfd). Errors: ESYSTEM, EINVAL. */
int proof_load(const char *path, struct proof_secret *out);

#endif
