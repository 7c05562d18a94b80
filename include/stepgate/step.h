/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * STEP -- one training step: begin, pull what forward needs, compute, push what backward gives, finish.
 *
 * A contribution is what one worker hands in between a begin and the finish (or abandon) that follows. Every variable must be pushed or
 * declared absent before finish; pulling is as one needs it, and a step may be finished without. The last step may be left open: begin, pull
 * the final parameters, leave the job.
 *
 * What changes with the mode (the key "update" of the model; R = replicas_to_aggregate, T = workers):
 *
 *                       strict, R >= T               strict, R < T             tf                         async, bounded
 *   begin waits for     everybody of the step        the verdict               a token                    its own update
 *   begin gives         the next step                the step that is open     any: also one that was     the next of all steps
 *                       R > T: the same as often                               given before
 *                       as this worker contributes
 *   a pull gives        exactly this step            one step, this or newer   one step, this or newer    steps from lowest to highest,
 *                                                                                                         each this or newer
 *   STEPGATE_ALL gives  all of this step             all of one step           all of one step            as above
 *
 * Verdicts: begin tells what became of the contribution before. Where a worker contributes more than once to a step, the begins within the
 * step say NONE, and the one behind it tells of the last contribution.
 *
 * Absence: a trained variable that is absent counts as zeros from this worker in strict, async and bounded. In tf mode it is skipped, as in the
 * reference: the mean is over the contributions that have it, and a variable that none has stays as it is, with its slots and average; a contribution with every gradient absent
 * is refused: abandon it. Rows of a sparse variable, values of an assigned and of an aux variable are simply not there, in every mode.
 * A frozen variable is pushed or absent like any other; nothing of it is moved.
 *
 * Going back: with the option lost_ps=rewind, for ps and workers alike, the loss of a ps does not end a job that has committed its models. From the call that notices it on, every call on a
 * model, and on the job as a whole, gives -STEPGATE_EREWOUND until stepgate_step_begin of that model, which waits until the ps was started again and everybody is back, and then
 * returns with rewound = 1 and the step of the newest checkpoint that all ps have. What was open, or finished since that step, counts for nothing; addresses of the library's buffers
 * must be asked for again; attached buffers stay attached, and what they hold is the caller's; changes of hyper-parameters since then are void (a program that makes them
 * by the step makes them again); aux values are those of the checkpoint. It fails, with an error of class JOB, where not everybody is back within join_timeout, where there was no checkpoint yet, and
 * where a job goes back three times in a row without a step. A worker that has begun to leave does not go back.
 *
 * Threads: pushes (and absents) of different variables may come from any threads at once; all else from one thread at a time.
 */
#ifndef STEPGATE_STEP_H
#define STEPGATE_STEP_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "stepgate/buffer.h"

#define STEPGATE_ALL (-1)

enum stepgate_verdict {
    STEPGATE_VERDICT_NONE = 0,       /* there was no contribution yet */
    STEPGATE_VERDICT_APPLIED = 1,    /* the last contribution is part of the step named in verdict_step */
    STEPGATE_VERDICT_EMPTY = 2,      /* the last contribution was empty or abandoned and counts for nothing */
    STEPGATE_VERDICT_STALE = 3,      /* it was older than the step it came to; never applied */
    STEPGATE_VERDICT_NON_FINITE = 4, /* it held a NaN or an infinity and was left out */
    STEPGATE_VERDICT_SKIPPED = 5     /* somebody's was not finite: nobody's was applied in verdict_step */
};

struct stepgate_step_info {
    size_t size;   /* set by the caller: sizeof(struct stepgate_step_info) */
    uint64_t step; /* the step to compute now; its parameters are those after `step` updates */
    int rewound;   /* 1: the job went back to a checkpoint; derive batch and random state from `step` */
    int verdict;   /* enum stepgate_verdict */
    uint64_t verdict_step; /* of which step */
    /* R and T as they are now: strict mode: whoever is lost or leaves lowers T, and with lost_worker=shrink R */
    uint32_t replicas_to_aggregate, total_num_replicas;
    uint64_t staleness; /* async, bounded: steps taken between the last contribution's own and its update */
};

/*
 * stepgate_step_begin -- waits for the token of the next step. info may be NULL. In tf mode info->step may be one that was begun before: it is the local
 * step, by which the ps tells whether the contribution is stale.
 * A step that is open ends the wait with ESTATE, unless the job goes back.
 * Errors: EAGAIN, ETIMEOUT, ESTATE (a step is open), ESTEPTIME, ELOST, EENDED; EJOIN (the job goes back, and not everybody is here in time).
 */
int stepgate_step_begin(struct stepgate_model *model, int ms, struct stepgate_step_info *info);

/*
 * stepgate_step_pull -- makes the value of a variable (or of STEPGATE_ALL) of this step readable; waits until it is applied. A second pull before the next
 * begin moves no bytes; but STEPGATE_ALL behind pulls of single variables reads those again that are of another step than the rest, where all must be
 * of one. step_read (may be NULL) gets the step that was read, the lowest if there are several.
 *
 * Sparse: the whole table. STEPGATE_ALL leaves sparse variables out that are not mapped in place (which they are over shm with strict, R >= T, unless
 * cut across ps): name them, or pull the rows that are needed. Aux: the value that this worker pushed last, its initial value before.
 * Errors: EAGAIN, ETIMEOUT, ESTATE, EINVAL, ENOMEM and ELIMIT (a sparse variable's buffer, made at its first pull), ELOST.
 */
int stepgate_step_pull(struct stepgate_model *model, int id, int ms, uint64_t *step_read);

/*
 * stepgate_step_pull_rows -- copies the rows indices[0..n) of a sparse, trained or assigned variable of rank >= 1, in this order, to `out`: n rows in
 * the variable's dtype, row-major. Any order, also repeated ones. It waits, and is of one step (async, bounded: each part of a row is), like a pull; stepgate_step_pulled does not speak of it. While it says EAGAIN, until it is
 * done or the next begin, indices and out stay what they are.
 * Errors: as stepgate_step_pull; EINVAL (an index that is not below the number of rows, an aux variable).
 */
int stepgate_step_pull_rows(struct stepgate_model *model, int id, const uint64_t *indices, uint64_t n,
                            void *out, int ms, uint64_t *step_read);

/* stepgate_step_pulled -- the lowest and the highest step that the last pull of a variable has read (of STEPGATE_ALL: the last pulls of all); they differ in async and
 * bounded only. Either pointer may be NULL. Errors: ESTATE (not pulled yet), EINVAL. */
int stepgate_step_pulled(struct stepgate_model *model, int id, uint64_t *lowest, uint64_t *highest);

/*
 * stepgate_step_push -- hands in the gradient of a variable (of an assigned or aux variable: its value), any order, from any thread. Never waits for other
 * workers. Its buffer belongs to stepgate until stepgate_buffer_is_idle says 1, or the next pull of it (strict, R = T).
 * Errors: EALREADY (twice in this step), ESTATE, EINVAL (a sparse variable), ELOST.
 */
int stepgate_step_push(struct stepgate_model *model, int id);

/*
 * stepgate_step_push_rows -- hands in the gradient of a sparse variable: rows[i], in its gradient dtype, row-major and aligned to its elements, belongs to row indices[i]. Any order; rows
 * of the same index are added in the order given, in f32 (f64 gradients: in f64), and rounded once. n may be 0, which is not the same as absent: it counts as a
 * contribution without rows. indices and rows are the caller's again when it returns. The work follows n, not the table.
 * Errors: EINVAL (n > rows_max, an index that is not below the number of rows, not sparse, indices or rows not aligned to their elements), EALREADY, ESTATE, ENOMEM, ELOST. An error changes nothing.
 */
int stepgate_step_push_rows(struct stepgate_model *model, int id, const uint64_t *indices, uint64_t n,
                            const void *rows);

/* stepgate_step_absent -- this variable has no gradient in this step; see above. Errors: EALREADY, ESTATE, ELOST. */
int stepgate_step_absent(struct stepgate_model *model, int id);

/*
 * stepgate_step_finish -- seals the contribution; every variable must have been pushed or declared absent. weight 1e-30 to 1e30 (1 unless batches are
 * uneven); 0: empty. For variables that are computed in f32 the weight, and the sum of all weights, are rounded to f32, each once; for f64 variables neither
 * is. Errors: ESTATE (a variable is missing: it is named), EINVAL (the weight; tf: every gradient is absent), ELOST.
 */
int stepgate_step_finish(struct stepgate_model *model, double weight);
/*
 * stepgate_step_abandon -- this contribution counts for nothing; the step goes on with the others. In tf mode it costs a token like any other: where all
 * workers abandon more than there are spare tokens, none can come any more, and the job ends with -STEPGATE_ELOST.
 */
int stepgate_step_abandon(struct stepgate_model *model);

#ifdef __cplusplus
}
#endif
#endif
