/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/shard/archive.h"

#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

/* archive_copy -- malloc'ed, never NULL but without memory. */
static void *archive_copy(const void *from, size_t count, size_t size)
{
    void *to = calloc(count + 1, size);

    if (to != NULL && count > 0)
        memcpy(to, from, count * size);
    return to;
}

/* archive_state_add_set -- see the header. */
int archive_state_add_set(struct archive_state *state, uint64_t step, const uint32_t *ranks, uint32_t count)
{
    uint32_t *copy = archive_copy(ranks, count, sizeof(*ranks));
    struct archive_set *more = realloc(state->sets, (state->set_count + 1) * sizeof(*more));

    if (more != NULL)
        state->sets = more;
    if (copy == NULL || more == NULL) {
        free(copy);
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the contributors of a step");
    }
    state->sets[state->set_count++] = (struct archive_set){step, count, copy};
    return 0;
}

/* archive_state_copy -- see the header. */
int archive_state_copy(const struct archive_state *from, struct archive_state *to)
{
    int status = 0;

    *to = *from;
    to->sets = NULL;
    to->set_count = 0;
    to->changes = archive_copy(from->changes, from->count, sizeof(*from->changes));
    to->counts =
        from->counts != NULL ? archive_copy(from->counts, from->workers, sizeof(*from->counts)) : NULL;
    if (to->changes == NULL || (from->counts != NULL && to->counts == NULL))
        status = error_set(STEPGATE_ENOMEM, 0, "", "no memory for what the leader knows of a checkpoint");
    for (size_t i = 0; status == 0 && i < from->set_count; i++)
        status = archive_state_add_set(to, from->sets[i].step, from->sets[i].ranks, from->sets[i].count);
    if (status != 0)
        archive_state_clear(to);
    return status;
}

/* archive_state_clear -- all is 0. */
void archive_state_clear(struct archive_state *state)
{
    for (size_t i = 0; i < state->set_count; i++)
        free(state->sets[i].ranks);
    free(state->sets);
    free(state->counts);
    free(state->changes);
    *state = (struct archive_state){0};
}
