/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane -- what a worker and a lane of a ps do to each other's memory, with the same words, by the same operations, over a wire. The
 * inbound half of the lane's region:
 *
 *   | 0: header of the slot (64 bytes) | LANE_WORDS: the words of the lane | LANE_ARENA: the slot, or the parameters |
 *
 * The arena begins at an odd multiple of a cache line, as those of the ps do.
 */
#ifndef PERF_LANE_H
#define PERF_LANE_H

#include "perf/wire.h"

#define LANE_WORDS 128
#define LANE_ARENA (4096 + 64)
#define LANE_CHUNK (UINT64_C(1) << 20) /* bytes of one write or read: the default of chunk_bytes */

/* The worker's part. Negative: as wire_progress. */

/* lane_header -- writes the header of contribution `sequence` with so many bytes, and notifies. Over a mapping it is stored, as a worker does. */
int lane_header(struct wire *wire, uint64_t sequence, uint64_t bytes);
/* lane_token -- waits for the token that answers contribution `sequence`. */
int lane_token(struct wire *wire, uint64_t sequence);
/* lane_push -- chunks, header, notify; waits until the lane has confirmed contribution `sequence`. */
int lane_push(struct wire *wire, uint64_t sequence, uint64_t bytes);
/* lane_pull -- words, parameters in chunks, words again: what was read is of step `step`, or it is an error. */
int lane_pull(struct wire *wire, uint64_t step, uint64_t bytes);

/* The lane's part: server.c. */

/* lane_tokens -- answers every header by a token, until the next order. 0 or -1. */
int lane_tokens(struct wire *wire);
/* lane_slots -- confirms every contribution by a notify, until the next order. 0 or -1. */
int lane_slots(struct wire *wire);
/* lane_confirm -- the contribution that has come, if one has. 0 or -1. */
int lane_confirm(struct wire *wire);
/* lane_publish -- the parameters of a step may be read. */
void lane_publish(struct wire *wire, uint64_t step);

#endif
