/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * manifest -- what a checkpoint holds beside its arrays: a JSON object in manifest.json, which is written when all else is on the disk. Where there is
 * none, or one whose files are not as it says, there is no checkpoint. Its last line has the SHA-256 of all before, so that no digit of it may change.
 */
#ifndef PS_CHECKPOINT_MANIFEST_H
#define PS_CHECKPOINT_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "ps/checkpoint/name.h"
#include "ps/checkpoint/tensors.h"
#include "ps/protocol/model.h"

#define MANIFEST_FORMAT 1
#define MANIFEST_WORD_BYTES 64 /* of keys, values and names, with the terminating zero */

/* A hyper-parameter as model_tune takes it: what holds now, or from a step on. */
struct manifest_key {
    uint64_t step; /* of a change: the first step for which it holds */
    char key[MANIFEST_WORD_BYTES], value[MANIFEST_WORD_BYTES];
};

/* A number of the leader's with all its bits: beta powers, counters of ranks. */
struct manifest_number {
    uint32_t rank; /* whose; MANIFEST_NO_RANK: the model's */
    char name[MANIFEST_WORD_BYTES];
    uint64_t bits;
};
#define MANIFEST_NO_RANK UINT32_MAX

struct manifest_file {
    char name[NAME_FILE_BYTES];
    uint64_t bytes;
    uint8_t digest[TENSORS_DIGEST_BYTES];
};

/* Who contributed to a step. */
struct manifest_set {
    uint64_t step;
    uint32_t count, *ranks; /* malloc'ed */
};

/* All lists are malloc'ed or NULL; manifest_clear frees them. */
struct manifest {
    uint32_t format; /* set by manifest_write */
    char model[STEPGATE_NAME_BYTES];
    uint64_t step; /* updates that were applied: training goes on with this step */
    uint32_t shards, workers;
    int64_t written;                              /* seconds since 1970; 0: manifest_write takes the time */
    uint8_t fingerprint[MODEL_FINGERPRINT_BYTES]; /* SHA-256 of the description */
    uint8_t *description; /* model_pack, of the model as it was declared, without changes */
    size_t description_bytes;
    struct manifest_key *keys; /* that differ from the description's, or all */
    size_t key_count;
    struct manifest_key *changes; /* that are still to come, by step */
    size_t change_count;
    struct manifest_number *numbers;
    size_t number_count;
    struct manifest_file *files; /* of shard 0, 1, ... */
    size_t file_count;           /* shards */
    struct manifest_set *sets;
    size_t set_count;
};

/* manifest_describe -- name, description and fingerprint from a model, the rest empty. Errors: ENOMEM. */
int manifest_describe(struct manifest *m, const struct model *model);
/* manifest_add_key, _change, _number, _file, _set -- one more at the end of a list. Errors: ENOMEM, EINVAL (a word that is too long). */
int manifest_add_key(struct manifest *m, const char *key, const char *value);
int manifest_add_change(struct manifest *m, uint64_t step, const char *key, const char *value);
int manifest_add_number(struct manifest *m, uint32_t rank, const char *name, uint64_t bits);
int manifest_add_file(struct manifest *m, const struct manifest_file *file);
int manifest_add_set(struct manifest *m, uint64_t step, const uint32_t *ranks, uint32_t count);
/* manifest_number -- of a rank or MANIFEST_NO_RANK; returns 1, or 0 if there is none. */
int manifest_number(const struct manifest *m, uint32_t rank, const char *name, uint64_t *bits);

/* manifest_write -- FOLDER/manifest.json: complete and on the disk, or not at all. Errors: ESYSTEM, EINVAL (it does not fit itself), ENOMEM. */
int manifest_write(const char *folder, const struct manifest *m);
/* manifest_read -- checks everything in it, nothing outside. Errors: ENOENT (there is none), ESYSTEM, EVERSION (another format), EPROTOCOL
 * (damaged, says where), ENOMEM. */
int manifest_read(const char *folder, struct manifest *out);
/* manifest_clear -- frees the lists; all is 0. */
void manifest_clear(struct manifest *m);

#endif
