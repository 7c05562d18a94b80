/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sets -- who contributed to each step, in a file: written as steps are committed, and read to repeat them. A line of text per step:
 *
 *   STEP RANK,RANK,... MODEL        ranks rising, each once however often it contributed; `-` where nobody did; MODEL is the rest of the line
 */
#ifndef PS_SERVER_SETS_H
#define PS_SERVER_SETS_H

#include <stdbool.h>
#include <stdint.h>

struct sets;

/* sets_open -- record and replay are names of files, NULL: none. The recorded file is made anew. Errors: ESYSTEM, EINVAL (names the line; also one that was
 * not written to its end, and a step that is there twice), ENOMEM. */
int sets_open(const char *record, const char *replay, uint32_t workers, struct sets **out);
/* sets_close -- sets NULL. Errors: ESYSTEM: not everything could be written. */
int sets_close(struct sets **sets);
/* sets_record -- appends one step, its ranks in order; what cannot be written is told by sets_close. */
void sets_record(void *sets, const char *model, uint64_t step, const uint32_t *ranks, uint32_t count);
/* sets_replay -- the recorded ranks of a step; false: it is not recorded. They live as long as the sets. */
bool sets_replay(void *sets, const char *model, uint64_t step, const uint32_t **ranks, uint32_t *count);
/* sets_records, sets_replays -- is there such a file? */
bool sets_records(const struct sets *sets);
bool sets_replays(const struct sets *sets);

#endif
