/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/handshake/hello.h"

#include <assert.h>
#include <string.h>

#include "transport/base/bytes.h"
#include "transport/base/error.h"

static const char hello_magic[4] = {'S', 'G', 'A', 'T'};
static_assert(STEPGATE_HELLO_BYTES == 56, "the layout in hello.h fills the bytes an InfiniBand request has");

/* hello_job_hash -- FNV-1a, 64 bits: tells jobs apart, protects nothing (the proof does). */
uint64_t hello_job_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name != 0; name++)
        hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    return hash;
}

/* hello_pack -- writes the 56 bytes. */
void hello_pack(const struct hello *hello, uint8_t out[STEPGATE_HELLO_BYTES])
{
    struct bytes_writer w = {out, STEPGATE_HELLO_BYTES, 0, false};

    bytes_put(&w, hello_magic, sizeof(hello_magic));
    bytes_put_u16(&w, hello->version);
    bytes_put_u8(&w, hello->role);
    bytes_put_u8(&w, hello->purpose);
    bytes_put_u32(&w, hello->rank);
    bytes_put_u16(&w, hello->lane);
    bytes_put_u16(&w, hello->reason);
    bytes_put_u64(&w, hello->job);
    bytes_put(&w, hello->nonce, sizeof(hello->nonce));
    bytes_put_u64(&w, hello->incarnation);
    bytes_put_u32(&w, hello->workers);
    bytes_put_u32(&w, hello->shards);
}

/* hello_unpack -- reads a hello. */
int hello_unpack(const void *data, uint32_t length, struct hello *out)
{
    struct bytes_reader r = {data, length, 0, false};
    char magic[4];

    memset(out, 0, sizeof(*out));
    bytes_get(&r, magic, sizeof(magic));
    out->version = bytes_get_u16(&r);
    out->role = bytes_get_u8(&r);
    out->purpose = bytes_get_u8(&r);
    out->rank = bytes_get_u32(&r);
    out->lane = bytes_get_u16(&r);
    out->reason = bytes_get_u16(&r);
    out->job = bytes_get_u64(&r);
    bytes_get(&r, out->nonce, sizeof(out->nonce));
    out->incarnation = bytes_get_u64(&r);
    out->workers = bytes_get_u32(&r);
    out->shards = bytes_get_u32(&r);
    if (r.underflow || memcmp(magic, hello_magic, sizeof(magic)) != 0)
        return error_set(STEPGATE_EPROTOCOL, 0, "is another program listening at this address?",
                         "the peer does not speak stepgate (no magic in its hello of %u bytes)", length);
    if (out->version != HELLO_VERSION)
        return error_set(STEPGATE_EVERSION, 0, "run the same version of stepgate everywhere",
                         "the peer speaks protocol version %u, this side %u", out->version, HELLO_VERSION);
    return 0;
}

/* hello_check -- does a peer belong to us? */
int hello_check(const struct hello *mine, const struct hello *theirs)
{
    if (theirs->version != mine->version)
        return error_set(STEPGATE_EVERSION, 0, "run the same version of stepgate everywhere",
                         "the peer speaks protocol version %u, this side %u", theirs->version, mine->version);
    if (theirs->job != mine->job)
        return error_set(STEPGATE_EWRONGJOB, 0, "give both sides the same job name, or another port",
                         "the peer belongs to another job");
    if (theirs->workers != mine->workers || theirs->shards != mine->shards)
        return error_set(STEPGATE_EMISMATCH, 0, "give every process the same ps and worker lists",
                         "the peer counts %u workers and %u ps, this side %u and %u", theirs->workers,
                         theirs->shards, mine->workers, mine->shards);
    return 0;
}

/* hello_refusal -- the hello that refuses a connection. */
void hello_refusal(uint64_t job, int reason, uint8_t out[STEPGATE_HELLO_BYTES])
{
    struct hello hello = {.version = HELLO_VERSION,
                          .role = STEPGATE_ROLE_PS,
                          .purpose = HELLO_REFUSE,
                          .reason = (uint16_t)(reason < 0 ? -reason : reason),
                          .job = job};

    hello_pack(&hello, out);
}

/* hello_refusal_lost -- the same, naming the member that is lost. */
void hello_refusal_lost(uint64_t job, int role, int rank, uint8_t out[STEPGATE_HELLO_BYTES])
{
    struct hello hello = {.version = HELLO_VERSION,
                          .role = STEPGATE_ROLE_PS,
                          .purpose = HELLO_REFUSE,
                          .reason = STEPGATE_ELOST,
                          .lane = (uint16_t)role,
                          .rank = (uint32_t)rank,
                          .job = job};

    hello_pack(&hello, out);
}

/* hello_reason -- the code in a refusal. A refusal of another version is read as far as its reason: the layout up to there is fixed. */
int hello_reason(const void *data, uint32_t length)
{
    struct hello hello;

    if (data == NULL || length < STEPGATE_HELLO_BYTES)
        return 0;
    int status = hello_unpack(data, length, &hello);
    if (status == -STEPGATE_EPROTOCOL || hello.purpose != HELLO_REFUSE)
        return 0;
    return hello.reason;
}
