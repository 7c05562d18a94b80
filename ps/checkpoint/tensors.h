/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tensors -- a file of named arrays in the format safetensors, which numpy and PyTorch read:
 *
 *   bytes of the header (u64, little-endian)
 *   {"__metadata__": {KEY: TEXT, ...}, NAME: {"dtype": "F32", "shape": [3, 4], "data_offsets": [BEGIN, END]}, ...}   then spaces up to a multiple of 8
 *   the arrays, one behind the other without holes; BEGIN and END count from here
 *
 * A file appears complete or not at all, and is on the disk when it appears. Whatever else a file holds when it is read is an error.
 */
#ifndef PS_CHECKPOINT_TENSORS_H
#define PS_CHECKPOINT_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "ps/checkpoint/name.h"
#include "stepgate/model.h"

#define TENSORS_DIGEST_BYTES 32              /* SHA-256 */
#define TENSORS_HEADER_MAX (100u * 1000000u) /* bytes, as elsewhere */

/* An array to be written. Where data is NULL, read gives its bytes first .. first + bytes, which are asked for in order, up to TENSORS_BLOCK at a time. */
struct tensors_entry {
    char name[NAME_TENSOR_BYTES];
    int dtype, rank; /* enum stepgate_dtype; 0: a scalar */
    uint64_t dims[STEPGATE_RANK_MAX];
    const void *data;
    uint64_t bytes; /* product of dims x size of dtype */
    int (*read)(void *context, uint64_t first, size_t bytes, void *out);
    void *context;
};
#define TENSORS_BLOCK (8u << 20)

struct tensors_pair {
    const char *key, *value; /* UTF-8 */
};

/* An array of a file that is open. */
struct tensors_found {
    const char *name; /* lives as long as the file is open */
    int dtype, rank;
    uint64_t dims[STEPGATE_RANK_MAX];
    uint64_t elements, bytes;
    uint64_t offset; /* of its first byte in the file */
};

struct tensors_file;

/*
 * tensors_write -- the whole file: beside its place, on the disk, then over what was there. Arrays of large elements come first, so that each is aligned;
 * else in the given order. digest, bytes: of the whole file, NULL: not wanted. Readable by its owner alone. Errors: ESYSTEM (names the file, what was
 * tried, the bytes needed and those there are), EINVAL (an entry that does not fit itself, a name that is there twice), ENOMEM, and those of read.
 * Nothing is left behind, and what was there stays.
 */
int tensors_write(const char *path, const struct tensors_entry *entries, size_t count,
                  const struct tensors_pair *metadata, size_t pairs, uint8_t digest[TENSORS_DIGEST_BYTES],
                  uint64_t *bytes);

/* tensors_open -- checks everything but the arrays themselves. Errors: ESYSTEM, EPROTOCOL (damaged, names the file and what is wrong), ENOMEM. */
int tensors_open(const char *path, struct tensors_file **out);
void tensors_close(struct tensors_file **file);
/* tensors_count, tensors_at -- the arrays in the order in which they lie. */
size_t tensors_count(const struct tensors_file *file);
const struct tensors_found *tensors_at(const struct tensors_file *file, size_t number);
/* tensors_find -- by its name; NULL: there is none. */
const struct tensors_found *tensors_find(const struct tensors_file *file, const char *name);
/* tensors_metadata -- the text of a key; NULL: there is none. */
const char *tensors_metadata(const struct tensors_file *file, const char *key);
/* tensors_read -- bytes of an array; several threads may read at once. Errors: ESYSTEM, EINVAL (beyond its end), EPROTOCOL (the file has become shorter). */
int tensors_read(const struct tensors_file *file, const struct tensors_found *found, uint64_t first,
                 uint64_t bytes, void *out);
/* tensors_digest -- of a whole file as it lies there. Errors: ESYSTEM, ENOMEM. */
int tensors_digest(const char *path, uint8_t digest[TENSORS_DIGEST_BYTES], uint64_t *bytes);

/* tensors_dtype_name -- F32, F64, F16, BF16; tensors_dtype: back again, 0: none of them. */
const char *tensors_dtype_name(int dtype);
int tensors_dtype(const char *name);

#endif
