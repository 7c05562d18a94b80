/* SPDX-License-Identifier: BSD-3-Clause */
/* chaos_repeat -- what a leader says once more although it was heard: an old commit to a ps, an old token to the process that it was for. It must change nothing. */
#include "tests/simulation/chaos_inside.h"

#define REPEAT_PER_MILLE 60 /* rounds in which something is said again */

void __real_shard_send(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);

/* chaos_repeat_order -- see the header. What the leader itself has; a ps may still have one of the leader before. */
void chaos_repeat_order(struct chaos *chaos, const struct shard *shard, const struct message *message)
{
    if (shard == chaos->ps[0].shard && message->slot_kind == SLOT_GRADIENT && message->step % 2 == 0)
        chaos->old_commit = (struct chaos_said){.message = *message, .whose = shard->config.incarnation};
}

/* chaos_repeat_token -- see the header. The one before becomes old. */
void chaos_repeat_token(struct chaos *chaos, const struct shard *leader, uint32_t rank,
                        const struct message *message)
{
    chaos->old_token[rank] = chaos->token[rank];
    chaos->token[rank] =
        (struct chaos_said){.message = *message, .whose = leader->members[rank].control.theirs.incarnation};
}

/* repeat_commit -- to any ps but the leader. */
static void repeat_commit(struct chaos *chaos, struct shard *leader, uint64_t now)
{
    uint32_t s = (uint32_t)random_below(&chaos->random, chaos->shards);

    if (s == 0 || chaos->old_commit.whose != leader->config.incarnation)
        return;
    if (link_send(&leader->peers[s].link, &chaos->old_commit.message, now) == 0)
        chaos->counts->repeated_commits++;
}

/* repeat_token -- to any worker that has had another one since. */
static void repeat_token(struct chaos *chaos, struct shard *leader, uint64_t now)
{
    uint32_t w = (uint32_t)random_below(&chaos->random, chaos->shape.workers);
    const struct shard_member *member = &leader->members[w];
    const struct chaos_said *old = &chaos->old_token[w];

    if (old->whose == 0 || old->whose != member->control.theirs.incarnation || member->lost || member->left ||
        old->message.sequence >= chaos->token[w].message.sequence)
        return;
    __real_shard_send(leader, w, &old->message, now);
    chaos->counts->repeated_tokens++;
}

/* chaos_repeat -- see the header. */
void chaos_repeat(struct chaos *chaos, uint64_t now)
{
    struct shard *leader = chaos->ps[0].shard;

    if (!random_chance(&chaos->random, REPEAT_PER_MILLE) || !chaos->ran || !chaos_runs(chaos) ||
        !chaos_acts(chaos->ps[0].node) || leader->ending)
        return;
    if (random_chance(&chaos->random, 500))
        repeat_commit(chaos, leader, now);
    else
        repeat_token(chaos, leader, now);
}
