/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/protocol/message.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "transport/base/bytes.h"
#include "transport/base/error.h"
#include "transport/handshake/proof.h"

static_assert(MESSAGE_PART_BYTES + 120 <= MESSAGE_BYTES_MAX, "a model part with its fields fits one message");
static_assert(MESSAGE_RANKS_BYTES + 4 * MESSAGE_HYPER + 39 <= MESSAGE_BYTES_MAX,
              "so does the largest commit");

/* message_pack_error -- the fields of an ABORT. */
static void message_pack_error(struct bytes_writer *w, const struct stepgate_error *error)
{
    bytes_put_u16(w, (uint16_t)error->code);
    bytes_put_u32(w, (uint32_t)error->os_errno);
    bytes_put_u8(w, (uint8_t)error->role);
    bytes_put_u32(w, (uint32_t)error->rank);
    bytes_put_u64(w, error->step);
    bytes_put_u64(w, (uint64_t)error->waited_ms);
    bytes_put_text(w, error->host);
    bytes_put_text(w, error->device);
    bytes_put_text(w, error->text);
    bytes_put_text(w, error->remedy);
}

/* message_unpack_error -- the same, read. */
static void message_unpack_error(struct bytes_reader *r, struct stepgate_error *error)
{
    error->size = sizeof(*error);
    error->code = bytes_get_u16(r);
    error->os_errno = (int)bytes_get_u32(r);
    error->role = bytes_get_u8(r);
    error->rank = (int)bytes_get_u32(r);
    error->step = bytes_get_u64(r);
    error->waited_ms = (int64_t)bytes_get_u64(r);
    bytes_get_text(r, error->host, sizeof(error->host));
    bytes_get_text(r, error->device, sizeof(error->device));
    bytes_get_text(r, error->text, sizeof(error->text));
    bytes_get_text(r, error->remedy, sizeof(error->remedy));
    if (error->code == 0)
        r->underflow = true;
}

/* message_pack_part -- a length and that many bytes. */
static void message_pack_part(struct bytes_writer *w, const struct message *m)
{
    bytes_put_u16(w, (uint16_t)m->length);
    if (m->length > sizeof(m->part))
        w->overflow = true;
    else
        bytes_put(w, m->part, m->length);
}

/* message_unpack_part -- the same, read. */
static void message_unpack_part(struct bytes_reader *r, struct message *m)
{
    m->length = bytes_get_u16(r);
    if (m->length > sizeof(m->part))
        r->underflow = true;
    else
        bytes_get(r, m->part, m->length);
}

/* message_unpack_flag -- 0 or 1. */
static bool message_unpack_flag(struct bytes_reader *r)
{
    unsigned flag = bytes_get_u8(r);

    if (flag > 1)
        r->underflow = true;
    return flag == 1;
}

/* message_pack_commit -- which step, whose contributions, and the numbers to apply them with. */
static void message_pack_commit(struct bytes_writer *w, const struct message *m)
{
    bytes_put_u32(w, m->model);
    bytes_put_u64(w, m->step);
    bytes_put_u32(w, m->slot_kind);
    bytes_put_u32(w, m->set_kind);
    bytes_put_u32(w, m->rank);
    bytes_put_u64(w, m->sequence);
    bytes_put_u32(w, m->count);
    for (unsigned i = 0; i < MESSAGE_HYPER; i++)
        bytes_put_u32(w, m->hyper[i]);
    message_pack_part(w, m);
}

/* message_unpack_commit -- the same, read. */
static void message_unpack_commit(struct bytes_reader *r, struct message *m)
{
    m->model = bytes_get_u32(r);
    m->step = bytes_get_u64(r);
    m->slot_kind = bytes_get_u32(r);
    m->set_kind = bytes_get_u32(r);
    m->rank = bytes_get_u32(r);
    m->sequence = bytes_get_u64(r);
    m->count = bytes_get_u32(r);
    for (unsigned i = 0; i < MESSAGE_HYPER; i++)
        m->hyper[i] = bytes_get_u32(r);
    message_unpack_part(r, m);
    if (m->set_kind > MESSAGE_SET_NONE)
        r->underflow = true;
}

/* message_begin -- see message.h. */
void message_begin(struct message *m, int kind)
{
    memset(m, 0, offsetof(struct message, part));
    m->kind = kind;
}

/* message_pack -- kind, then the fields of the kind. */
int message_pack(const struct message *m, uint8_t out[MESSAGE_BYTES_MAX])
{
    struct bytes_writer w = {out, MESSAGE_BYTES_MAX, 0, false};

    bytes_put_u8(&w, (uint8_t)m->kind);
    switch (m->kind) {
    case MESSAGE_PROOF:
        bytes_put(&w, m->part, PROOF_BYTES);
        bytes_put_u64(&w, m->sequence);
        break;
    case MESSAGE_HEARTBEAT: bytes_put_u64(&w, m->sequence); break;
    case MESSAGE_WELCOME:
        bytes_put_u32(&w, m->shard);
        bytes_put_u32(&w, m->shards);
        bytes_put_u32(&w, m->workers);
        bytes_put_u32(&w, m->lanes);
        bytes_put_u64(&w, m->group_bytes);
        bytes_put_u64(&w, m->cut_bytes);
        break;
    case MESSAGE_MODEL_PART:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->offset);
        bytes_put_u64(&w, m->total);
        message_pack_part(&w, m);
        break;
    case MESSAGE_MODEL_CHECK:
        bytes_put_u32(&w, m->model);
        bytes_put(&w, m->fingerprint, sizeof(m->fingerprint));
        break;
    case MESSAGE_MODEL_ASK: bytes_put_u32(&w, m->model); break;
    case MESSAGE_MODEL_OK:
    case MESSAGE_PARAMETERS:
    case MESSAGE_SNAPSHOT_READY:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->step);
        bytes_put(&w, m->descriptor.bytes, sizeof(m->descriptor.bytes));
        bytes_put_u64(&w, m->arena_offset);
        bytes_put_u64(&w, m->header_offset);
        bytes_put_u64(&w, m->words_offset);
        bytes_put_u8(&w, (uint8_t)m->kept);
        break;
    case MESSAGE_SEAL:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->step);
        bytes_put_u64(&w, m->sequence);
        bytes_put_u32(&w, m->attempt);
        bytes_put_f64(&w, m->weight);
        bytes_put_f64(&w, m->norm);
        bytes_put_u8(&w, m->finite);
        message_pack_part(&w, m);
        break;
    case MESSAGE_COMPLETE:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->step);
        bytes_put_u64(&w, m->sequence);
        bytes_put_u32(&w, m->rank);
        bytes_put_u32(&w, m->slot_kind);
        break;
    case MESSAGE_APPLIED:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->step);
        bytes_put_u32(&w, m->slot_kind);
        break;
    case MESSAGE_COMMIT:
    case MESSAGE_MEASURE: message_pack_commit(&w, m); break;
    case MESSAGE_TOKEN:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->step);
        bytes_put_u64(&w, m->sequence);
        bytes_put_u32(&w, m->verdict);
        bytes_put_u64(&w, m->verdict_step);
        bytes_put_u64(&w, m->staleness);
        bytes_put_u8(&w, (uint8_t)m->kept);
        bytes_put_u32(&w, m->count);
        bytes_put_u32(&w, m->workers);
        bytes_put_u64(&w, m->offset);
        break;
    case MESSAGE_FORGET:
        bytes_put_u32(&w, m->model);
        bytes_put_u32(&w, m->rank);
        bytes_put_u64(&w, m->sequence);
        bytes_put_u64(&w, m->total);
        break;
    case MESSAGE_ACCUMULATE:
    case MESSAGE_RELEASE:
        bytes_put_u32(&w, m->model);
        bytes_put_u32(&w, m->rank);
        bytes_put_u64(&w, m->sequence);
        break;
    case MESSAGE_RELEASED:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->sequence);
        break;
    case MESSAGE_NORM:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->step);
        message_pack_part(&w, m);
        break;
    case MESSAGE_GONE:
        bytes_put_u32(&w, m->rank);
        bytes_put_u64(&w, m->total);
        message_pack_error(&w, &m->error);
        break;
    case MESSAGE_TUNE:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->step);
        bytes_put_text(&w, m->key);
        bytes_put_text(&w, m->value);
        break;
    case MESSAGE_COUNTS_ASK:
    case MESSAGE_FORGOT:
    case MESSAGE_BACK:
        bytes_put_u32(&w, m->model);
        bytes_put_u32(&w, m->rank);
        break;
    case MESSAGE_COUNTS:
        bytes_put_u32(&w, m->model);
        bytes_put_u32(&w, m->rank);
        bytes_put_u64(&w, m->step);
        for (int i = 0; i < 4; i++)
            bytes_put_u64(&w, m->counters[i]);
        bytes_put_u32(&w, m->powers[0]);
        bytes_put_u32(&w, m->powers[1]);
        break;
    case MESSAGE_FIND: bytes_put_text(&w, m->key); break;
    case MESSAGE_FOUND:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->total);
        break;
    case MESSAGE_WATCH: bytes_put_u32(&w, m->model); break;
    case MESSAGE_SNAPSHOT:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->offset);
        bytes_put_u32(&w, m->what);
        break;
    case MESSAGE_SNAPSHOT_TAKE:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->step);
        bytes_put_u64(&w, m->offset);
        bytes_put_u64(&w, m->total);
        bytes_put_u32(&w, m->what);
        break;
    case MESSAGE_SNAPSHOT_DONE:
    case MESSAGE_CHECKPOINT:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->offset);
        break;
    case MESSAGE_CHECKPOINT_TAKE:
    case MESSAGE_RESTORE:
    case MESSAGE_RESTORED:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->step);
        break;
    case MESSAGE_CHECKPOINT_WRITTEN:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->step);
        bytes_put_u64(&w, m->total);
        bytes_put(&w, m->fingerprint, sizeof(m->fingerprint));
        break;
    case MESSAGE_CHECKPOINT_FAILED:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->step);
        message_pack_error(&w, &m->error);
        break;
    case MESSAGE_CHECKPOINT_DONE:
        bytes_put_u32(&w, m->model);
        bytes_put_u64(&w, m->offset);
        bytes_put_u64(&w, m->step);
        bytes_put_u8(&w, m->finite);
        if (!m->finite)
            message_pack_error(&w, &m->error);
        break;
    case MESSAGE_CHECKPOINT_PROBE: bytes_put_text(&w, m->key); break;
    case MESSAGE_AUX:
        bytes_put_u32(&w, m->model);
        bytes_put_u32(&w, m->what);
        bytes_put_u64(&w, m->offset);
        message_pack_part(&w, m);
        break;
    case MESSAGE_LATE: bytes_put_u32(&w, m->rank); break;
    case MESSAGE_BARRIER:
    case MESSAGE_BARRIER_OVER: bytes_put_u64(&w, m->step); break;
    case MESSAGE_ABORT: message_pack_error(&w, &m->error); break;
    case MESSAGE_LEAVE:
    case MESSAGE_LEFT:
    case MESSAGE_CHECKPOINT_STOP:
    case MESSAGE_SHARD_DONE: break;
    default: w.overflow = true;
    }
    if (w.overflow)
        return error_set(STEPGATE_EINVAL, 0, "", "a message of kind %d cannot be packed", m->kind);
    return (int)w.used;
}

/* message_unpack_body -- the fields of the kind; an unknown kind counts as underflow. */
static void message_unpack_body(struct bytes_reader *r, struct message *m)
{
    switch (m->kind) {
    case MESSAGE_PROOF:
        bytes_get(r, m->part, PROOF_BYTES);
        m->sequence = bytes_get_u64(r);
        break;
    case MESSAGE_HEARTBEAT: m->sequence = bytes_get_u64(r); break;
    case MESSAGE_WELCOME:
        m->shard = bytes_get_u32(r);
        m->shards = bytes_get_u32(r);
        m->workers = bytes_get_u32(r);
        m->lanes = bytes_get_u32(r);
        m->group_bytes = bytes_get_u64(r);
        m->cut_bytes = bytes_get_u64(r);
        break;
    case MESSAGE_MODEL_PART:
        m->model = bytes_get_u32(r);
        m->offset = bytes_get_u64(r);
        m->total = bytes_get_u64(r);
        message_unpack_part(r, m);
        break;
    case MESSAGE_MODEL_CHECK:
        m->model = bytes_get_u32(r);
        bytes_get(r, m->fingerprint, sizeof(m->fingerprint));
        break;
    case MESSAGE_MODEL_ASK: m->model = bytes_get_u32(r); break;
    case MESSAGE_MODEL_OK:
    case MESSAGE_PARAMETERS:
    case MESSAGE_SNAPSHOT_READY:
        m->model = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        bytes_get(r, m->descriptor.bytes, sizeof(m->descriptor.bytes));
        m->arena_offset = bytes_get_u64(r);
        m->header_offset = bytes_get_u64(r);
        m->words_offset = bytes_get_u64(r);
        m->kept = bytes_get_u8(r);
        break;
    case MESSAGE_SEAL:
        m->model = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        m->sequence = bytes_get_u64(r);
        m->attempt = bytes_get_u32(r);
        m->weight = bytes_get_f64(r);
        m->norm = bytes_get_f64(r);
        m->finite = message_unpack_flag(r);
        message_unpack_part(r, m);
        break;
    case MESSAGE_COMPLETE:
        m->model = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        m->sequence = bytes_get_u64(r);
        m->rank = bytes_get_u32(r);
        m->slot_kind = bytes_get_u32(r);
        break;
    case MESSAGE_APPLIED:
        m->model = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        m->slot_kind = bytes_get_u32(r);
        break;
    case MESSAGE_COMMIT:
    case MESSAGE_MEASURE: message_unpack_commit(r, m); break;
    case MESSAGE_TOKEN:
        m->model = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        m->sequence = bytes_get_u64(r);
        m->verdict = bytes_get_u32(r);
        m->verdict_step = bytes_get_u64(r);
        m->staleness = bytes_get_u64(r);
        m->kept = bytes_get_u8(r);
        m->count = bytes_get_u32(r);
        m->workers = bytes_get_u32(r);
        m->offset = bytes_get_u64(r);
        break;
    case MESSAGE_ACCUMULATE:
    case MESSAGE_RELEASE:
        m->model = bytes_get_u32(r);
        m->rank = bytes_get_u32(r);
        m->sequence = bytes_get_u64(r);
        break;
    case MESSAGE_RELEASED:
        m->model = bytes_get_u32(r);
        m->sequence = bytes_get_u64(r);
        break;
    case MESSAGE_NORM:
        m->model = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        message_unpack_part(r, m);
        break;
    case MESSAGE_GONE:
        m->rank = bytes_get_u32(r);
        m->total = bytes_get_u64(r);
        message_unpack_error(r, &m->error);
        break;
    case MESSAGE_FORGET:
        m->model = bytes_get_u32(r);
        m->rank = bytes_get_u32(r);
        m->sequence = bytes_get_u64(r);
        m->total = bytes_get_u64(r);
        break;
    case MESSAGE_TUNE:
        m->model = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        bytes_get_text(r, m->key, sizeof(m->key));
        bytes_get_text(r, m->value, sizeof(m->value));
        break;
    case MESSAGE_COUNTS_ASK:
    case MESSAGE_FORGOT:
    case MESSAGE_BACK:
        m->model = bytes_get_u32(r);
        m->rank = bytes_get_u32(r);
        break;
    case MESSAGE_COUNTS:
        m->model = bytes_get_u32(r);
        m->rank = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        for (int i = 0; i < 4; i++)
            m->counters[i] = bytes_get_u64(r);
        m->powers[0] = bytes_get_u32(r);
        m->powers[1] = bytes_get_u32(r);
        break;
    case MESSAGE_FIND: bytes_get_text(r, m->key, sizeof(m->key)); break;
    case MESSAGE_FOUND:
        m->model = bytes_get_u32(r);
        m->total = bytes_get_u64(r);
        break;
    case MESSAGE_WATCH: m->model = bytes_get_u32(r); break;
    case MESSAGE_SNAPSHOT:
        m->model = bytes_get_u32(r);
        m->offset = bytes_get_u64(r);
        m->what = bytes_get_u32(r);
        break;
    case MESSAGE_SNAPSHOT_TAKE:
        m->model = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        m->offset = bytes_get_u64(r);
        m->total = bytes_get_u64(r);
        m->what = bytes_get_u32(r);
        break;
    case MESSAGE_SNAPSHOT_DONE:
    case MESSAGE_CHECKPOINT:
        m->model = bytes_get_u32(r);
        m->offset = bytes_get_u64(r);
        break;
    case MESSAGE_CHECKPOINT_TAKE:
    case MESSAGE_RESTORE:
    case MESSAGE_RESTORED:
        m->model = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        break;
    case MESSAGE_CHECKPOINT_WRITTEN:
        m->model = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        m->total = bytes_get_u64(r);
        bytes_get(r, m->fingerprint, sizeof(m->fingerprint));
        break;
    case MESSAGE_CHECKPOINT_FAILED:
        m->model = bytes_get_u32(r);
        m->step = bytes_get_u64(r);
        message_unpack_error(r, &m->error);
        break;
    case MESSAGE_CHECKPOINT_DONE:
        m->model = bytes_get_u32(r);
        m->offset = bytes_get_u64(r);
        m->step = bytes_get_u64(r);
        m->finite = message_unpack_flag(r);
        if (!m->finite)
            message_unpack_error(r, &m->error);
        break;
    case MESSAGE_CHECKPOINT_PROBE: bytes_get_text(r, m->key, sizeof(m->key)); break;
    case MESSAGE_AUX:
        m->model = bytes_get_u32(r);
        m->what = bytes_get_u32(r);
        m->offset = bytes_get_u64(r);
        message_unpack_part(r, m);
        break;
    case MESSAGE_LATE: m->rank = bytes_get_u32(r); break;
    case MESSAGE_BARRIER:
    case MESSAGE_BARRIER_OVER: m->step = bytes_get_u64(r); break;
    case MESSAGE_ABORT: message_unpack_error(r, &m->error); break;
    case MESSAGE_LEAVE:
    case MESSAGE_LEFT:
    case MESSAGE_CHECKPOINT_STOP:
    case MESSAGE_SHARD_DONE: break;
    default: r->underflow = true;
    }
}

/* message_unpack -- every byte must be accounted for. */
int message_unpack(const void *data, size_t length, struct message *out)
{
    struct bytes_reader r = {data, length, 0, false};

    message_begin(out, bytes_get_u8(&r));
    message_unpack_body(&r, out);
    if (r.underflow || r.used != r.size || out->model >= 256)
        return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                         "a damaged message of kind %d and %zu bytes arrived", out->kind, length);
    return 0;
}

/* message_name -- the kind in words. */
const char *message_name(int kind)
{
    static const char *const names[] = {
        [MESSAGE_PROOF] = "proof",
        [MESSAGE_HEARTBEAT] = "heartbeat",
        [MESSAGE_WELCOME] = "welcome",
        [MESSAGE_MODEL_PART] = "model part",
        [MESSAGE_MODEL_CHECK] = "model check",
        [MESSAGE_MODEL_ASK] = "model ask",
        [MESSAGE_MODEL_OK] = "model ok",
        [MESSAGE_PARAMETERS] = "parameters",
        [MESSAGE_SEAL] = "seal",
        [MESSAGE_COMPLETE] = "complete",
        [MESSAGE_COMMIT] = "commit",
        [MESSAGE_TOKEN] = "token",
        [MESSAGE_APPLIED] = "applied",
        [MESSAGE_BARRIER] = "barrier",
        [MESSAGE_BARRIER_OVER] = "barrier over",
        [MESSAGE_LEAVE] = "leave",
        [MESSAGE_LEFT] = "left",
        [MESSAGE_ABORT] = "abort",
        [MESSAGE_SHARD_DONE] = "shard done",
        [MESSAGE_ACCUMULATE] = "accumulate",
        [MESSAGE_RELEASE] = "release",
        [MESSAGE_RELEASED] = "released",
        [MESSAGE_MEASURE] = "measure",
        [MESSAGE_NORM] = "norm",
        [MESSAGE_GONE] = "gone",
        [MESSAGE_TUNE] = "tune",
        [MESSAGE_COUNTS_ASK] = "counts ask",
        [MESSAGE_COUNTS] = "counts",
        [MESSAGE_FIND] = "find",
        [MESSAGE_FOUND] = "found",
        [MESSAGE_WATCH] = "watch",
        [MESSAGE_SNAPSHOT] = "snapshot",
        [MESSAGE_SNAPSHOT_TAKE] = "snapshot take",
        [MESSAGE_SNAPSHOT_READY] = "snapshot ready",
        [MESSAGE_SNAPSHOT_DONE] = "snapshot done",
        [MESSAGE_CHECKPOINT] = "checkpoint",
        [MESSAGE_CHECKPOINT_TAKE] = "checkpoint take",
        [MESSAGE_CHECKPOINT_WRITTEN] = "checkpoint written",
        [MESSAGE_CHECKPOINT_FAILED] = "checkpoint failed",
        [MESSAGE_CHECKPOINT_DONE] = "checkpoint done",
        [MESSAGE_CHECKPOINT_PROBE] = "checkpoint probe",
        [MESSAGE_CHECKPOINT_STOP] = "checkpoint stop",
        [MESSAGE_RESTORE] = "restore",
        [MESSAGE_RESTORED] = "restored",
        [MESSAGE_AUX] = "aux",
        [MESSAGE_FORGET] = "forget",
        [MESSAGE_FORGOT] = "forgot",
        [MESSAGE_BACK] = "back",
        [MESSAGE_LATE] = "late",
    };

    if (kind <= 0 || kind >= (int)(sizeof(names) / sizeof(names[0])) || names[kind] == NULL)
        return "unknown";
    return names[kind];
}
