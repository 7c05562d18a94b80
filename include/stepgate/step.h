/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * STEP -- one training step: begin, pull what forward needs, compute, push what backward gives, finish.
 *
 * Every variable must be pushed or declared absent before finish; pulling is as one needs it, and a step may be finished without. The last step
 * may be left open: begin, pull the final parameters, leave the job.
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
    size_t size;           /* set by the caller: sizeof(struct stepgate_step_info) */
    uint64_t step;         /* the step to compute now; its parameters are those after `step` updates */
    int rewound;           /* 1: lower than the last one; derive batch and random state from `step` */
    int verdict;           /* enum stepgate_verdict */
    uint64_t verdict_step; /* of which step */
    uint32_t replicas_to_aggregate, total_num_replicas;
    uint64_t staleness; /* async, bounded: steps taken between the last contribution's own and its update */
};

/* stepgate_step_begin -- waits for the token of the next step. info may be NULL. Errors: EAGAIN, ETIMEOUT, ESTATE (a step is open), ESTEPTIME, ELOST, EENDED. */
int stepgate_step_begin(struct stepgate_model *model, int ms, struct stepgate_step_info *info);
/*
 * stepgate_step_pull -- makes the value of a variable (or of STEPGATE_ALL) of this step readable; waits until it is applied. Twice in one step
 * moves no bytes. step_read (may be NULL) gets the step that was read. Errors: EAGAIN, ETIMEOUT, ESTATE, EINVAL, ELOST.
 */
int stepgate_step_pull(struct stepgate_model *model, int id, int ms, uint64_t *step_read);
/* stepgate_step_push -- hands in the gradient of a variable, any order, from any thread. Never waits for other workers. Its buffer belongs to stepgate until the next pull of it, or until stepgate_buffer_is_idle says 1.
 * Errors: EALREADY (twice in this step), ESTATE, EINVAL, ELOST. */
int stepgate_step_push(struct stepgate_model *model, int id);
/* stepgate_step_absent -- this variable has no gradient in this step: counts as zeros from this worker. */
int stepgate_step_absent(struct stepgate_model *model, int id);
/* stepgate_step_finish -- seals the contribution; every variable must have been pushed or declared absent. weight 1e-30 to 1e30 (1 unless batches are uneven); 0: empty. */
int stepgate_step_finish(struct stepgate_model *model, double weight);
/* stepgate_step_abandon -- the contribution of this step counts for nothing; the step goes on with the others. */
int stepgate_step_abandon(struct stepgate_model *model);

#ifdef __cplusplus
}
#endif
#endif
