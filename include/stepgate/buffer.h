/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BUFFER -- where gradients are put and parameters are found. After commit.
 *
 * Library's buffers, where every step takes one contribution of each worker (strict, R = T). Gradient: over shm it is the slot itself, over verbs a registered buffer; the address is the same in every
 * step; it may be written from pull(v) (or once _is_idle says so) until push(v). Parameter: over shm the ps's memory, mapped read-only, two
 * addresses that alternate, valid from pull to the next begin: ask again after each pull; over verbs one stable address.
 * A variable that is cut across several ps has one stable buffer of its own and one copy each way over shm.
 *
 * Caller's buffers, attached: over shm exactly one copy each way; over verbs none, the NIC reads and writes them. stepgate_buffer_gradient and
 * _parameter give the attached address. A gradient may be written at the same times as the library's. A parameter buffer is
 * written from the first pull(v) of a step until that has succeeded: what the caller changes in it stays until the next step's, and is never
 * pushed. Any alignment will do.
 */
#ifndef STEPGATE_BUFFER_H
#define STEPGATE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "stepgate/model.h"

enum stepgate_use { STEPGATE_USE_GRADIENT = 1, STEPGATE_USE_PARAMETER = 2 };

/* stepgate_buffer_gradient -- where to put the gradient of a variable (f32, row-major). Not cleared: it holds the last step's, so write every element. Errors: EINVAL, ESTATE (before commit). */
int stepgate_buffer_gradient(struct stepgate_model *model, int id, void **pointer);
/* stepgate_buffer_parameter -- where the variable's value of the last pull is. Errors: EINVAL, ESTATE (not pulled yet). */
int stepgate_buffer_parameter(struct stepgate_model *model, int id, const void **pointer);
/* stepgate_buffer_attach -- uses memory of the caller's for a variable from now on; between steps, or before the first begin. The memory must live until
 * _detach or the model's end. bytes must be the variable's size. Errors: EINVAL, ESTATE, ELIMIT (memlock). */
int stepgate_buffer_attach(struct stepgate_model *model, int id, int use, void *pointer, uint64_t bytes);
/* stepgate_buffer_detach -- back to the library's buffer. */
int stepgate_buffer_detach(struct stepgate_model *model, int id, int use);
/* stepgate_buffer_is_idle -- 1: the gradient buffer may be rewritten; 0: it still belongs to stepgate. */
int stepgate_buffer_is_idle(struct stepgate_model *model, int id);

#ifdef __cplusplus
}
#endif
#endif
