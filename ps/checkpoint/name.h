/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * name -- what the tensors, files and folders of a checkpoint are called.
 *
 *   DIR/MODEL/step-STEP/manifest.json                          MODEL: of letters, digits, `.`, `_` and `-`; other bytes are %XX; STEP: 20 digits
 *   DIR/MODEL/step-STEP/shard-SHARD-of-SHARDS.safetensors
 *
 *   parameters/VARIABLE        averages/VARIABLE        masters/VARIABLE        slots/SLOT/VARIABLE        aux/RANK/VARIABLE
 *   parameters/VARIABLE#ROW    and so on: a piece of a variable that is cut, from this row on
 *
 * In VARIABLE, `%`, `#` and control characters are %XX, so that a piece is never taken for a variable; so is each byte of 0x80 and above where the
 * name is not UTF-8, which JSON wants.
 */
#ifndef PS_CHECKPOINT_NAME_H
#define PS_CHECKPOINT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_TENSOR_BYTES 512 /* of any tensor's name, with the terminating zero */
#define NAME_FILE_BYTES 256   /* of a file or folder within a folder, with the terminating zero */
#define NAME_MANIFEST "manifest.json"
#define NAME_DRAFT ".part" /* behind the name of a file that is being written */

/* name_encode -- VARIABLE of a name, and of a model's in the manifest; name_decode: back again, false: it is none, or too long. */
void name_encode(const char *name, char *out, size_t size);
bool name_decode(const char *text, char *out, size_t size);

/* name_parameters, name_averages, name_masters, name_slots, name_aux -- of the whole variable. */
void name_parameters(const char *variable, char out[NAME_TENSOR_BYTES]);
void name_averages(const char *variable, char out[NAME_TENSOR_BYTES]);
void name_masters(const char *variable, char out[NAME_TENSOR_BYTES]);
void name_slots(const char *slot, const char *variable, char out[NAME_TENSOR_BYTES]);
void name_aux(uint32_t rank, const char *variable, char out[NAME_TENSOR_BYTES]);
/* name_piece -- of the piece of a variable that begins with this row: out may be whole. */
void name_piece(const char *whole, uint64_t first_row, char out[NAME_TENSOR_BYTES]);
/* name_split -- the whole variable's name and the first row of a tensor; false: it is no piece, whole is the name and the row 0. whole may be tensor. */
bool name_split(const char *tensor, char whole[NAME_TENSOR_BYTES], uint64_t *first_row);

/* name_model -- the folder of a model; name_model_read: back again, for the listing of what has no manifest. A name too long for a folder ends with a
 * part of its hash, and is not read back as it was. */
void name_model(const char *model, char out[NAME_FILE_BYTES]);
void name_model_read(const char *folder, char *model, size_t size);
/* name_step -- the folder of a step; name_step_read: false: it is none. */
void name_step(uint64_t step, char out[NAME_FILE_BYTES]);
bool name_step_read(const char *folder, uint64_t *step);
/* name_shard -- the file of a shard; name_is_shard: is it one, or the unfinished draft of one? */
void name_shard(uint32_t shard, uint32_t shards, char out[NAME_FILE_BYTES]);
bool name_is_shard(const char *file);

#endif
