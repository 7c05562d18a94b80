/* SPDX-License-Identifier: BSD-3-Clause */
/* sets -- who contributed to the last steps, as checkpoints tell it. Nothing is allocated on the way of a step. */
#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/error.h"

/* leader_sets_new -- see inside.h. */
int leader_sets_new(const struct shard_model *model, struct leader_sets *sets)
{
    const struct shard_config *config = &model->shard->config;

    if (config->archive == NULL || model->model->update != MODEL_STRICT || model->together ||
        sets->ring != NULL)
        return 0;
    sets->most = config->workers * model->depth;
    sets->ring = calloc(ARCHIVE_SETS_MAX, sizeof(*sets->ring));
    sets->ranks = calloc((size_t)ARCHIVE_SETS_MAX * sets->most, sizeof(*sets->ranks));
    if (sets->ring == NULL || sets->ranks == NULL) {
        leader_sets_delete(sets);
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the contributors of %d steps",
                         ARCHIVE_SETS_MAX);
    }
    for (size_t i = 0; i < ARCHIVE_SETS_MAX; i++)
        sets->ring[i].ranks = sets->ranks + i * sets->most;
    return 0;
}

/* leader_sets_delete -- frees, sets 0. */
void leader_sets_delete(struct leader_sets *sets)
{
    free(sets->ring);
    free(sets->ranks);
    *sets = (struct leader_sets){0};
}

/* leader_sets_keep -- see inside.h. */
void leader_sets_keep(struct leader_sets *sets, uint64_t step, const uint32_t *ranks, uint32_t count)
{
    if (sets->ring == NULL || count > sets->most)
        return;
    struct archive_set *set = &sets->ring[step % ARCHIVE_SETS_MAX];
    set->step = step;
    set->count = count;
    if (count > 0) /* a step that nobody contributed to has no array */
        memcpy(set->ranks, ranks, count * sizeof(*ranks));
    if (step != sets->next)
        sets->first = step;
    sets->next = step + 1;
    if (sets->next - sets->first > ARCHIVE_SETS_MAX)
        sets->first = sets->next - ARCHIVE_SETS_MAX;
}

/* leader_sets_give -- see inside.h. */
int leader_sets_give(const struct leader_sets *sets, struct archive_state *state)
{
    int status = 0;

    for (uint64_t step = sets->first; status == 0 && sets->ring != NULL && step < sets->next; step++) {
        const struct archive_set *set = &sets->ring[step % ARCHIVE_SETS_MAX];
        status = archive_state_add_set(state, set->step, set->ranks, set->count);
    }
    return status;
}

/* leader_sets_take -- see inside.h. */
void leader_sets_take(struct leader_sets *sets, const struct archive_state *state)
{
    for (size_t i = 0; i < state->set_count; i++)
        if (state->sets[i].step < state->step)
            leader_sets_keep(sets, state->sets[i].step, state->sets[i].ranks, state->sets[i].count);
}
