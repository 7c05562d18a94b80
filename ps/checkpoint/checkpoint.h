/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoint -- a model as it was at one step, in the files of a folder: made, found, checked, read, removed. */
#ifndef PS_CHECKPOINT_CHECKPOINT_H
#define PS_CHECKPOINT_CHECKPOINT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ps/checkpoint/manifest.h"
#include "ps/checkpoint/tensors.h"

/* -- Making one: each shard begins and writes its file; when all have, one of them finishes. -- */

/* checkpoint_begin -- makes the folder of a step below dir, which must be there, and gives its name. A manifest that is there already is taken away: a
 * checkpoint that was refused is made anew. Errors: ESYSTEM, EINVAL (names too long). */
int checkpoint_begin(const char *dir, const char *model, uint64_t step, char folder[PATH_MAX]);
/* checkpoint_give_up -- takes the folder of a step away again, if nothing is in it. */
void checkpoint_give_up(const char *folder);
/* checkpoint_write_shard -- the file of one shard, and what the manifest is to say of it. Errors: those of tensors_write. */
int checkpoint_write_shard(const char *folder, const char *model, uint64_t step, uint32_t shard,
                           uint32_t shards, const struct tensors_entry *entries, size_t count,
                           struct manifest_file *out);
/* checkpoint_finish -- looks for the files that the manifest names, takes away those of other numbers of shards, and writes the manifest. Errors: ENOENT (a
 * file is not there, or not as long as its shard says: the folder is not the same one for all), and those of manifest_write. */
int checkpoint_finish(const char *folder, const struct manifest *m);

/* -- Finding and removing. -- */

enum checkpoint_state {
    CHECKPOINT_COMPLETE = 1, /* the manifest is sound, and its files are there with their lengths */
    CHECKPOINT_PARTIAL, /* no manifest: it is being written, or never was to the end, or is being removed */
    CHECKPOINT_DAMAGED,
    CHECKPOINT_FOREIGN /* of another format: no business of ours */
};

struct checkpoint_entry {
    char model[STEPGATE_NAME_BYTES];
    uint64_t step, bytes; /* of all files that are there */
    uint32_t shards;      /* 0: not known */
    int64_t written;      /* seconds since 1970; of the folder where there is no manifest */
    enum checkpoint_state state;
    char why[512]; /* it is not complete: "" where it is */
    char folder[PATH_MAX];
};

struct checkpoint_list {
    struct checkpoint_entry *entries; /* by model, then the newest step first */
    size_t count;
};

/* checkpoint_list -- of one model, or of all (NULL). What is removed meanwhile is left out. Errors: ENOENT (no such dir), ESYSTEM, ENOMEM. No
 * checkpoint is no error. */
int checkpoint_list(const char *dir, const char *model, struct checkpoint_list *out);
void checkpoint_list_clear(struct checkpoint_list *list);
/* checkpoint_verify -- manifest, lengths and headers of the files, and that each variable of the model is there in whole; deep: each digest too. Errors: those of
 * checkpoint_open, EPROTOCOL (says which file and why). */
int checkpoint_verify(const char *folder, bool deep);
/* checkpoint_prune -- keeps the newest `keep` (> 0) complete ones of a model and removes older ones; also partial ones that are older than the newest complete one, and
 * damaged ones that are older than all that are kept. A manifest goes before its files, so that nothing half removed is taken for complete.
 * removed: how many, NULL: not wanted. Errors: those of checkpoint_list, EINVAL; of several that cannot be removed the first is told. */
int checkpoint_prune(const char *dir, const char *model, unsigned keep, unsigned *removed);

/* -- One job at a time. -- */

/*
 * checkpoint_lock -- takes a folder for the job that `who` names in a line, until checkpoint_unlock or the end of the process; *fd -1: its file system has no locks.
 * Errors: EBUSY (another process has it, and says who it is), ENOENT (no such folder), ESYSTEM.
 */
int checkpoint_lock(const char *dir, const char *who, int *fd);
void checkpoint_unlock(int *fd);

/* -- Is it the same folder for all? -- */

#define CHECKPOINT_TOKEN_BYTES 33
/* checkpoint_probe -- leaves a file of a new name in dir, whose token others look for; so it can be written. checkpoint_probe_end takes it away.
 * Errors: ENOENT (no such folder), ESYSTEM (cannot be written). */
int checkpoint_probe(const char *dir, char token[CHECKPOINT_TOKEN_BYTES]);
void checkpoint_probe_end(const char *dir, const char *token);
/* checkpoint_probe_sweep -- takes away what processes that were killed have left. For whoever has the lock, before its own probe. */
void checkpoint_probe_sweep(const char *dir);
/* checkpoint_probe_seen -- is the file there, and can this process write beside it? Errors: ENOENT (no such folder; or it is not that of the others),
 * EINVAL (no token), ESYSTEM. */
int checkpoint_probe_seen(const char *dir, const char *token);

/* -- Reading: by any number of processes, whatever number wrote it. -- */

struct checkpoint;

/* A variable in whole, from whichever files hold its pieces. */
struct checkpoint_tensor {
    const char *name; /* as name_parameters and so on give it */
    int dtype, rank;
    uint64_t dims[STEPGATE_RANK_MAX];
    uint64_t elements, bytes;
};

/* checkpoint_open -- manifest and headers; all pieces fit together. Errors: those of manifest_read and tensors_open, EPROTOCOL. */
int checkpoint_open(const char *folder, struct checkpoint **out);
void checkpoint_close(struct checkpoint **checkpoint);
const struct manifest *checkpoint_manifest(const struct checkpoint *checkpoint);
/* checkpoint_count, checkpoint_at -- by name. */
size_t checkpoint_count(const struct checkpoint *checkpoint);
const struct checkpoint_tensor *checkpoint_at(const struct checkpoint *checkpoint, size_t number);
/* checkpoint_find -- NULL: there is none. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name);
/* checkpoint_read -- elements first .. first + elements of a variable; several threads may read at once. Errors: ENOENT (no such
 * tensor), EINVAL (of another dtype, beyond its end), ESYSTEM, EPROTOCOL. */
int checkpoint_read(const struct checkpoint *checkpoint, const char *name, int dtype, uint64_t first,
                    uint64_t elements, void *out);

/* checkpoint_convert -- the same checkpoint in files of another number of shards, each variable whole in one of them, below dir (made if it is not
 * there). The digests are checked first. Errors: those of checkpoint_verify and of making one, EALREADY (there is such a checkpoint there). */
int checkpoint_convert(const char *folder, uint32_t shards, const char *dir, char out[PATH_MAX]);

#endif
