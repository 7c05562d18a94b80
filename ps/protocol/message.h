/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message -- what ps and worker say to each other on control, pull and shard connections. One struct, packed little-endian: kind (u8), then the
 * fields of that kind in the order given here. Unknown kinds and short or over-long messages are -STEPGATE_EPROTOCOL.
 */
#ifndef PS_PROTOCOL_MESSAGE_H
#define PS_PROTOCOL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ps/protocol/model.h"
#include "stepgate/transport.h"

enum message_kind {
    MESSAGE_PROOF =
        1, /* both ways, first on every connection: proof[32], sequence (messages received so far). Handled by the link. */
    MESSAGE_HEARTBEAT = 2, /* both ways: sequence (the same). Handled by the link. */
    MESSAGE_WELCOME =
        3, /* shard -> worker, after the proofs on a control connection: shard, shards, workers, lanes, group_bytes, cut_bytes */
    MESSAGE_MODEL_PART =
        4, /* worker -> shard: model, offset, total, length (u16), bytes. Worker 0 always; others only when asked */
    MESSAGE_MODEL_CHECK =
        5, /* worker -> shard: model, fingerprint. Every worker; on worker 0 after its parts */
    MESSAGE_MODEL_ASK =
        6, /* shard -> worker: model. "Your fingerprint differs: send your parts, I will say where" */
    MESSAGE_MODEL_OK =
        7, /* shard -> worker: model, step, descriptor (slots, exported on this control endpoint), arena_offset, header_offset, kept (bits) */
    MESSAGE_PARAMETERS =
        8, /* lane 0 -> worker, on its pull endpoint: model, step, descriptor, arena_offset (parity 0), header_offset (parity 1) */
    MESSAGE_SEAL =
        9, /* worker -> every shard: model, step, sequence, attempt, weight (0: counts for nothing), norm (sum of squares), finite, n (u16), n bytes: a bit for each variable that is absent (tf) */
    MESSAGE_COMPLETE =
        10, /* shard -> leader: model, step, sequence, rank, slot kind: this contribution is complete here. rank MESSAGE_EVERYBODY: all of the step, and the one before is applied */
    MESSAGE_COMMIT =
        11, /* leader -> shard: model, step, slot kind, set kind, rank, sequence, count, hyper, ranks (bitmap). Idempotent by step */
    MESSAGE_TOKEN =
        12, /* leader -> worker: model, step (to begin), sequence (answered), verdict, verdict_step, staleness, kept (bits), count (R), workers (T that are there), offset (the first one of a worker that came back: number of its next contribution) */
    MESSAGE_APPLIED = 13,      /* shard -> leader: model, step (the one that was committed), slot kind */
    MESSAGE_BARRIER = 14,      /* worker -> leader: sequence (in step) */
    MESSAGE_BARRIER_OVER = 15, /* leader -> worker: sequence (in step) */
    MESSAGE_LEAVE = 16,        /* worker -> every shard: this worker is done */
    MESSAGE_LEFT = 17,         /* shard -> worker: the answer */
    MESSAGE_ABORT =
        18, /* anybody -> anybody: the job has failed: code, os_errno, role, rank, step, waited_ms, host, device, text, remedy */
    MESSAGE_SHARD_DONE =
        19, /* shard -> leader: every worker has left me, I end; and leader -> shard likewise */
    MESSAGE_ACCUMULATE = 20, /* leader -> shard: model, rank, sequence: add to the accumulators (tf) */
    MESSAGE_RELEASE =
        21, /* leader -> shard: model, rank, sequence: counts for nothing (tf, async, bounded) */
    MESSAGE_RELEASED =
        22, /* shard -> worker: model, sequence: slots of contributions up to this one may be rewritten (tf, async, bounded) */
    MESSAGE_MEASURE = 23, /* leader -> shard: as COMMIT: measure the mean of this set */
    MESSAGE_NORM = 24,    /* shard -> leader: model, step, n (u16), an exact sum of squares (n bytes) */
    MESSAGE_GONE =
        25, /* shard -> leader: rank, total (its incarnation), error: a worker is lost here, where that does not end the job */
    MESSAGE_TUNE =
        26, /* worker 0 -> leader, leader -> shard: model, step, key, value: a hyper-parameter from that step on */
    MESSAGE_COUNTS_ASK = 27, /* worker or observer -> leader: model, rank */
    MESSAGE_COUNTS =
        28, /* leader -> worker or observer: model, rank, step, four counters, beta powers of adam */
    MESSAGE_FIND = 29, /* observer -> leader: key (name of a model) */
    MESSAGE_FOUND =
        30, /* leader -> observer, behind the parts of the model (MODEL_PART): model, total (bytes of the parts); 0: not in training yet */
    MESSAGE_WATCH = 31, /* observer -> shard: model: grant me its parameters */
    MESSAGE_SNAPSHOT =
        32, /* worker or observer -> leader: model, offset (id), what. One at a time per model, until its DONE */
    MESSAGE_SNAPSHOT_TAKE =
        33, /* leader -> shard: model, step, offset (id), total (incarnation of who asked), what */
    MESSAGE_SNAPSHOT_READY =
        34, /* lane 0 -> who asked, on its pull endpoint: model, step, descriptor, arena_offset, header_offset (id) */
    MESSAGE_SNAPSHOT_DONE =
        35, /* who asked -> leader: model, offset (id): read, or no longer wanted. shard -> who asked: it cannot be made here */
    MESSAGE_CHECKPOINT =
        36, /* worker -> leader: model, offset (id): write a checkpoint. One at a time per model, until its DONE */
    MESSAGE_CHECKPOINT_TAKE = 37, /* leader -> shard: model, step: copy everything now, then write it */
    MESSAGE_CHECKPOINT_WRITTEN =
        38, /* shard -> leader: model, step, total (bytes of its part), fingerprint (digest of its part) */
    MESSAGE_CHECKPOINT_FAILED =
        39, /* shard -> leader: model, step, error: it could not be written, or not be read */
    MESSAGE_CHECKPOINT_DONE =
        40, /* leader -> worker: model, offset (id), step, finite (1: it is complete), error (0: why it is not) */
    MESSAGE_CHECKPOINT_PROBE = 41, /* leader -> shard: key (of a file that lies where checkpoints go) */
    MESSAGE_CHECKPOINT_STOP =
        42,               /* shard -> leader: this ps is asked to end: write a checkpoint, then end the job */
    MESSAGE_RESTORE = 43, /* leader -> shard: model, step: read the checkpoint of that step */
    MESSAGE_RESTORED = 44, /* shard -> leader: model, step: it is read */
    MESSAGE_AUX =
        45, /* shard -> worker: model, what (variable), offset, n (u16), bytes: of its own, as a checkpoint had it. what MESSAGE_EVERYTHING: that was all here */
    MESSAGE_FORGET =
        46, /* leader -> shard: model, rank, sequence, total (its incarnation): that worker is lost; who comes back under its rank counts from there */
    MESSAGE_FORGOT = 47, /* shard -> leader: model, rank: nothing of it is left here, and it may come back */
    MESSAGE_BACK = 48,   /* shard -> leader: model, rank: it is back, and is told of its slots here */
    MESSAGE_LATE = 49    /* leader -> shard: rank: the job begins without it, and it may come later */
};

#define MESSAGE_BYTES_MAX 1024u  /* every transport carries this */
#define MESSAGE_PART_BYTES 896u  /* of a model, per MODEL_PART; of the bitmap of a SEAL */
#define MESSAGE_RANKS_BYTES 768u /* of the bitmap of a COMMIT or MEASURE, which has the numbers beside it */
#define MESSAGE_WORKERS_MAX (8u * MESSAGE_RANKS_BYTES) /* where a COMMIT names its ranks */
#define MESSAGE_ABSENT_MAX                                                                                   \
    (8u * MESSAGE_PART_BYTES) /* variables of a model in which a SEAL can call some absent */
#define MESSAGE_EVERYBODY UINT32_MAX
#define MESSAGE_EVERYTHING UINT32_MAX
#define MESSAGE_TEXT_BYTES 128u
#define MESSAGE_HYPER 48u /* words: 16 f64, then 16 f32 */

/* How a COMMIT says whose contributions are summed. */
enum message_set {
    MESSAGE_SET_ALL = 1,         /* every contribution to the step whose weight is not 0 */
    MESSAGE_SET_RANKS = 2,       /* those of the ranks in the bitmap */
    MESSAGE_SET_ONE = 3,         /* (rank, sequence) */
    MESSAGE_SET_ACCUMULATED = 4, /* what the accumulators hold */
    MESSAGE_SET_NONE = 5         /* nothing is applied */
};

/* What a TOKEN says of checkpoints, and a MODEL_OK of the model. */
enum message_kept {
    MESSAGE_KEPT_FOLDER = 1,   /* the ps have a folder for them */
    MESSAGE_KEPT_RESTORED = 2, /* values that are there won over the initial ones; of the first token alone */
    MESSAGE_KEPT_SETS = 4,     /* the ps record the contributors of each step, or repeat recorded ones */
    MESSAGE_KEPT_RUNNING = 8   /* it is in training: initial values are not wanted */
};

struct message {
    int kind;
    uint32_t model;
    uint64_t step;
    uint32_t shard, shards, workers, lanes;
    uint64_t group_bytes, cut_bytes;
    uint64_t offset, total;
    uint8_t fingerprint[MODEL_FINGERPRINT_BYTES];
    struct stepgate_descriptor descriptor;
    uint64_t arena_offset, header_offset, words_offset;
    uint64_t sequence;
    uint32_t rank;
    uint32_t attempt;
    double weight, norm;
    bool finite;
    uint32_t slot_kind, set_kind, count;
    uint32_t hyper[MESSAGE_HYPER]; /* the words of struct optimizer_hyper, in its order */
    uint32_t powers[2];            /* bits of f32 */
    uint32_t verdict;
    uint64_t verdict_step, staleness;
    uint32_t kept;        /* bits of enum message_kept */
    uint64_t counters[4]; /* accepted, stale, non-finite, empty */
    uint32_t what;
    uint32_t length; /* of part */
    /* What is long; no kind has more than one of these. Last, so that a message that has none of them need not clear them: message_begin. */
    union {
        uint8_t part[MESSAGE_PART_BYTES];
        struct {
            char key[MESSAGE_TEXT_BYTES], value[MESSAGE_TEXT_BYTES];
        };
        struct stepgate_error error; /* ABORT, GONE, CHECKPOINT_FAILED, CHECKPOINT_DONE */
    };
};

/* message_begin -- a message of a kind that has nothing long, or sets all that it has; its other fields are 0. */
void message_begin(struct message *message, int kind);

/* message_pack -- writes the message into out (MESSAGE_BYTES_MAX bytes); returns its length, or -STEPGATE_EINVAL. */
int message_pack(const struct message *message, uint8_t out[MESSAGE_BYTES_MAX]);
/* message_unpack -- Errors: EPROTOCOL. */
int message_unpack(const void *data, size_t length, struct message *out);
/* message_name -- the kind in words, for logs and traces. */
const char *message_name(int kind);

#endif
