/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane -- one ps thread's work: it owns a span in every group of the arena, with a push and a pull link of every worker, and touches no
 * other lane's bytes. A state machine: it is told the time, posts through the contract, and never blocks.
 */
#ifndef PS_LANE_LANE_H
#define PS_LANE_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/lane/board.h"
#include "ps/lane/mailbox.h"
#include "ps/protocol/link.h"

#define LANE_FABRICS_MAX 2
#define LANE_OBSERVERS_MAX 64 /* lane 0 has places for their pull links behind those of the workers */

struct lane_config {
    uint32_t number, workers, shard, shards;
    struct stepgate_queue *queues[LANE_FABRICS_MAX]; /* one per fabric, NULL: none; owned by the caller */
    uint64_t job;                                    /* hello_job_hash */
    uint64_t incarnation;
    const struct proof_secret *secret;
    struct mailbox *to_shard;
    void (*wake_shard)(void *context);
    void *wake_context;
};

struct lane_stats {
    uint64_t notifies, duplicates, stale, applied_spans, announced;
};

struct lane;

int lane_new(const struct lane_config *config, struct lane **out);
/* lane_delete -- closes its links; the boards are the shard's. */
void lane_delete(struct lane **lane);
/* lane_mailbox -- where the shard puts letters for this lane. */
struct mailbox *lane_mailbox(struct lane *lane);
/* lane_progress -- one round: letters, events, at most one span applied, announcements. Returns 1 if anything was done. */
int lane_progress(struct lane *lane, uint64_t now);
/* lane_deadline -- when it must be called again at the latest. */
uint64_t lane_deadline(const struct lane *lane);
void lane_stats(const struct lane *lane, struct lane_stats *out);

#endif
