/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sets -- who contributed to each step, in a file: written as steps are committed, and read to repeat them. Lines of text:
 *
 *   stepgate-sets FORMAT workers T          the first one
 *   model UPDATE R FINGERPRINT MODEL        before the first step of each model; MODEL, its name, is the rest of the line
 *   STEP RANK,RANK,... MODEL                ranks rising, each once however often it contributed; `-` where nobody did
 *   end HASH                                the last one: SHA-256 of all lines above, so that nothing is missing or changed
 *
 * A job that is replayed is of the same models, R and T, and no step of it has another set than the recorded one. Sets are those of strict mode;
 * with R = T and R > T they are everybody's, unless a contribution was abandoned or dropped.
 */
#ifndef PS_SERVER_SETS_H
#define PS_SERVER_SETS_H

#include <stdbool.h>
#include <stdint.h>

struct model;
struct sets;

/* sets_open -- record and replay are names of files, NULL: none. The recorded file is made anew. Errors: ESYSTEM, EINVAL (names the line: no head,
 * another format or T, a file that is damaged or cut off, a step that is there twice), ENOMEM. */
int sets_open(const char *record, const char *replay, uint32_t workers, struct sets **out);
/* sets_close -- sets NULL. Errors: ESYSTEM: not everything could be written. */
int sets_close(struct sets **sets);
/* sets_model -- a model of the job, before its first step; fingerprint: MODEL_FINGERPRINT_BYTES. Errors: EINVAL (not in strict mode; not the model that was
 * recorded; a name that was recorded already), ENOMEM. */
int sets_model(void *sets, const struct model *model, const uint8_t *fingerprint);
/* sets_commit -- a step is decided, with the contributions of these ranks, in order; ranks that are there twice are taken out of the array. What cannot be
 * written is told by sets_close. Errors: EINVAL: it is not the recorded one, or behind the end of the record. */
int sets_commit(void *sets, const char *model, uint64_t step, uint32_t *ranks, uint32_t count);
/* sets_replay -- the recorded ranks of a step; false: it is not recorded, and sets_commit will refuse it. They live as long as the sets. */
bool sets_replay(void *sets, const char *model, uint64_t step, const uint32_t **ranks, uint32_t *count);
/* sets_records, sets_replays -- is there such a file? */
bool sets_records(const struct sets *sets);
bool sets_replays(const struct sets *sets);

#endif
