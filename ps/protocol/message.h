/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message -- what ps and worker say to each other on control, pull and shard connections. One struct, packed little-endian: kind (u8), then the
 * fields of that kind in the order given here. Unknown kinds and short or over-long messages are -STEPGATE_EPROTOCOL.
 */
#ifndef PS_PROTOCOL_MESSAGE_H
#define PS_PROTOCOL_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "ps/protocol/model.h"
#include "stepgate/transport.h"

enum message_kind {
    MESSAGE_PROOF = 1,     /* both ways, first on every connection: proof[32]. Handled by the link. */
    MESSAGE_HEARTBEAT = 2, /* both ways: nothing. Handled by the link. */
    MESSAGE_WELCOME =
        3, /* shard -> worker, after the proofs on a control connection: shard, shards, workers, lanes, group_bytes, cut_bytes */
    MESSAGE_MODEL_PART =
        4, /* worker -> shard: model, offset, total, length (u16), bytes. Worker 0 always; others only when asked */
    MESSAGE_MODEL_CHECK =
        5, /* worker -> shard: model, fingerprint. Every worker; on worker 0 after its parts */
    MESSAGE_MODEL_ASK =
        6, /* shard -> worker: model. "Your fingerprint differs: send your parts, I will say where" */
    MESSAGE_MODEL_OK =
        7, /* shard -> worker: model, step, descriptor (slots, exported on this control endpoint), arena_offset, header_offset */
    MESSAGE_PARAMETERS =
        8, /* lane 0 -> worker, on its pull endpoint: model, step, descriptor, arena_offset (parity 0), header_offset (parity 1) */
    MESSAGE_SEAL = 9, /* worker -> every shard: model, step, attempt, weight (0: counts for nothing) */
    MESSAGE_COMPLETE =
        10, /* shard -> leader: model, step, slot kind: every contribution is complete here, and the step before is applied */
    MESSAGE_COMMIT =
        11, /* leader -> shard: model, step, slot kind, rate (f32 bits), momentum (f32 bits). Idempotent by step */
    MESSAGE_TOKEN = 12,        /* leader -> worker: model, step (the new one), verdict, verdict_step */
    MESSAGE_APPLIED = 13,      /* shard -> leader: model, step (the one that was committed), slot kind */
    MESSAGE_BARRIER = 14,      /* worker -> leader: sequence (in step) */
    MESSAGE_BARRIER_OVER = 15, /* leader -> worker: sequence (in step) */
    MESSAGE_LEAVE = 16,        /* worker -> every shard: this worker is done */
    MESSAGE_LEFT = 17,         /* shard -> worker: the answer */
    MESSAGE_ABORT =
        18, /* anybody -> anybody: the job has failed: code, os_errno, role, rank, step, waited_ms, host, device, text, remedy */
    MESSAGE_SHARD_DONE =
        19 /* shard -> leader: every worker has left me, I end; and leader -> shard likewise */
};

#define MESSAGE_BYTES_MAX 1024u /* every transport carries this */
#define MESSAGE_PART_BYTES 896u /* of a model, per MODEL_PART */

struct message {
    int kind;
    uint32_t model;
    uint64_t step;
    uint32_t shard, shards, workers, lanes;
    uint64_t group_bytes, cut_bytes;
    uint64_t offset, total;
    uint32_t length; /* of part */
    uint8_t part[MESSAGE_PART_BYTES];
    uint8_t fingerprint[MODEL_FINGERPRINT_BYTES];
    struct stepgate_descriptor descriptor;
    uint64_t arena_offset, header_offset;
    uint32_t attempt;
    double weight;
    uint32_t slot_kind;
    uint32_t rate_bits, momentum_bits;
    uint32_t verdict;
    uint64_t verdict_step;
    struct stepgate_error error; /* ABORT */
};

/* message_pack -- writes the message into out (MESSAGE_BYTES_MAX bytes); returns its length, or -STEPGATE_EINVAL. */
int message_pack(const struct message *message, uint8_t out[MESSAGE_BYTES_MAX]);
/* message_unpack -- Errors: EPROTOCOL. */
int message_unpack(const void *data, size_t length, struct message *out);
/* message_name -- the kind in words, for logs and traces. */
const char *message_name(int kind);

#endif
