/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello -- the 56 bytes that travel with a connection request, its acceptance or its refusal. They hold nothing secret and
 * grant nothing: the proof of the job's secret and every descriptor follow by message.
 *
 *   byte  0..3   magic "SGAT"
 *         4..5   version (little-endian, as everything)
 *         6      role of the sender (enum stepgate_role)
 *         7      purpose (enum hello_purpose)
 *         8..11  rank of the sender: worker rank, or shard number (refusal with ELOST: of the one that is lost)
 *        12..13  lane                 (push and pull connections; shard: what that ps does about lost workers; refusal with ELOST: role of the one that is
 *                                      lost)
 *        14..15  reason               (refusal: a code of enum stepgate_error_code)
 *        16..23  job hash
 *        24..39  nonce                (refusal: zero)
 *        40..47  incarnation          (refusal: zero)
 *        48..51  number of workers T of the sender's job
 *        52..55  number of shards of the sender's job
 */
#ifndef TRANSPORT_HANDSHAKE_HELLO_H
#define TRANSPORT_HANDSHAKE_HELLO_H

#include <stdint.h>

#include "stepgate/transport.h"

#define HELLO_VERSION 5

enum hello_purpose {
    HELLO_CONTROL = 1, /* worker to shard: messages */
    HELLO_PUSH = 2,    /* worker to lane: gradients, notifies both ways */
    HELLO_PULL = 3,    /* worker to lane: parameters */
    HELLO_SHARD = 4,   /* shard to leader: messages */
    HELLO_REFUSE = 255
};

struct hello {
    uint16_t version;
    uint8_t role, purpose;
    uint32_t rank;
    uint16_t lane;
    uint16_t reason;
    uint64_t job;         /* hello_job_hash of the job's name */
    uint8_t nonce[16];    /* fresh random bytes of the sender */
    uint64_t incarnation; /* of the sending process; a returning worker has a new one */
    uint32_t workers, shards;
};

/* hello_job_hash -- the 64-bit hash of a job's name. */
uint64_t hello_job_hash(const char *name);

/* hello_pack -- writes the 56 bytes. */
void hello_pack(const struct hello *hello, uint8_t out[STEPGATE_HELLO_BYTES]);

/* hello_unpack -- reads a hello. Errors: EPROTOCOL (too short, no magic), EVERSION (names both versions; *out holds what could be read). */
int hello_unpack(const void *data, uint32_t length, struct hello *out);

/* hello_check -- does a peer belong to us? Errors: EVERSION, EWRONGJOB, EMISMATCH (workers or shards differ). */
int hello_check(const struct hello *mine, const struct hello *theirs);

/* hello_refusal -- writes the hello that refuses a connection for `reason` (positive code). */
void hello_refusal(uint64_t job, int reason, uint8_t out[STEPGATE_HELLO_BYTES]);

/* hello_refusal_lost -- the hello that refuses a connection because the job has lost a member; role 0: nobody in particular. */
void hello_refusal_lost(uint64_t job, int role, int rank, uint8_t out[STEPGATE_HELLO_BYTES]);

/* hello_reason -- the positive code in a refusal, or 0 when the bytes are no refusal. */
int hello_reason(const void *data, uint32_t length);

#endif
