/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BUFFER -- where gradients are put and parameters are found. After commit.
 *
 * Library's buffers:
 *
 *                          strict, R = T                                       other modes
 *   gradient, over shm     the slot itself; the same address in every step     the slot itself; ask again after each begin
 *             over verbs   a registered buffer; the same address               a registered buffer; ask again after each begin
 *   parameter, over shm    the ps's memory, mapped read-only: two addresses    memory of this process, one address; one verified copy.
 *                          that alternate; ask again after each pull           strict with R > T: as R = T
 *             over verbs   one stable address                                  one stable address
 *
 * A gradient may be written from begin on, once stepgate_buffer_is_idle says 1, until its push; in strict mode with R = T also from its pull on.
 * A parameter is valid from its pull to the next begin. After a begin that says rewound all addresses of the library's must be asked for again.
 * A variable that is cut across several ps has a buffer of its own and one copy each way over shm. The gradient of a sparse variable
 * has no buffer: its rows are handed over with the push. The value of a sparse variable that is not mapped in place gets memory at its first pull.
 *
 * Caller's buffers, attached: over shm exactly one copy each way; over verbs none, the NIC reads and writes them, but for gradients in strict mode
 * with R > T one (none with the option reconnect=0), since what was overwritten could not be sent again. stepgate_buffer_gradient and
 * _parameter give the attached address. A gradient may be written once _is_idle says 1 (strict, R = T: or from its pull on) until its push; there is
 * one for all contributions, so where several are under way it may have to be waited for. A parameter buffer is
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

/*
 * stepgate_buffer_gradient -- where to put the gradient of a variable (in its gradient dtype, row-major; of an assigned or aux variable: its value) for the open
 * contribution, or for the next one if none is open. Not cleared: it holds an older one, so write every element. Errors: EINVAL (sparse), ESTATE (before commit).
 */
int stepgate_buffer_gradient(struct stepgate_model *model, int id, void **pointer);
/* stepgate_buffer_parameter -- where the variable's value of the last pull is. Errors: EINVAL, ESTATE (not pulled yet, or being read). */
int stepgate_buffer_parameter(struct stepgate_model *model, int id, const void **pointer);
/* stepgate_buffer_attach -- uses memory of the caller's for a variable from now on; between steps, or before the first begin. The memory must live until
 * _detach or the model's end. bytes must be the size of the value, or of the gradient in its dtype. Errors: EINVAL, ESTATE, EBUSY (bytes are still under way), ELIMIT (memlock). */
int stepgate_buffer_attach(struct stepgate_model *model, int id, int use, void *pointer, uint64_t bytes);
/*
 * stepgate_buffer_attach_dmabuf -- the same for memory that this process need not be able to read: `bytes` from `offset` of a dma-buf, for example of a GPU's memory. The device of the
 * verbs transport writes gradients out of it and parameters into it, and no processor touches them; the descriptor may be closed afterwards. What stands in a gradient must be
 * there before the push (synchronize with the GPU), and what was pulled is there when pull returns. Such a buffer has no address: stepgate_buffer_gradient and _parameter refuse it.
 * Errors: those of _attach; ENOTSUP: a ps is reached over shm; the device or its driver registers no dma-buf; an aux variable; a gradient that this process must look at (clip_norm, non_finite other
 * than propagate), or keep (strict mode with R > T, unless reconnect=0). EINVAL: the descriptor is no dma-buf, or not so long.
 */
int stepgate_buffer_attach_dmabuf(struct stepgate_model *model, int id, int use, int fd, uint64_t offset,
                                  uint64_t bytes);
/* stepgate_buffer_detach -- back to the library's buffer. Errors: EINVAL, ESTATE, EBUSY. */
int stepgate_buffer_detach(struct stepgate_model *model, int id, int use);
/*
 * stepgate_buffer_is_idle -- 1: the gradient buffer may be rewritten; 0: it still belongs to stepgate. Of the library's buffer of the open contribution (the next one
 * if none is open), or of the caller's. A caller's buffer becomes idle when its contribution is summed or dropped; in strict mode with R > T as soon as its bytes have left.
 */
int stepgate_buffer_is_idle(struct stepgate_model *model, int id);

#ifdef __cplusplus
}
#endif
#endif
