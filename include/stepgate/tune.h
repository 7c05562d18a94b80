/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TUNE -- what can be changed and looked at while a model trains: hyper-parameters, optimizer slots, moving averages, copies of one exact step, checkpoints,
 * and what became of each worker's contributions. And observers, which read and are not counted.
 *
 * An observer is a process whose options say job_name=observer: it joins a job that runs (ps_hosts and the number of workers as a worker's; no
 * task_index, and the job's secret_file), attaches to a model by name, pulls and takes snapshots, and leaves; nothing waits for it. It has no steps: begin and push are
 * refused with -STEPGATE_ESTATE. When the job ends its calls give -STEPGATE_EENDED: that is how an observer learns that it may
 * end well. Where a job goes back to a checkpoint (lost_ps=rewind) its observers do not go with it: their calls give -STEPGATE_ELOST, and they may join anew.
 */
#ifndef STEPGATE_TUNE_H
#define STEPGATE_TUNE_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "stepgate/model.h"

/*
 * stepgate_model_attach -- an observer learns a model from the ps; waits until it is in training. *model must be NULL at first; with ms 0 and -STEPGATE_EAGAIN it is set to the
 * unfinished model: repeat with it, or delete it. From then on _count, _describe, stepgate_step_pull, _pull_rows, _pulled, stepgate_buffer_parameter, _attach and _detach (of
 * parameters) and the calls below work, but stepgate_model_tune. Each pull reads anew: the newest step that is whole, in every mode, all of one, and says which; STEPGATE_ALL leaves
 * sparse and aux variables out. What is read is copied; where steps follow each other faster than they are copied a snapshot is what comes through.
 * Errors: EAGAIN, ETIMEOUT (no such model yet), EALREADY (it is attached), ESTATE (not an observer, or not joined yet), EINVAL, ELOST, EENDED.
 */
int stepgate_model_attach(struct stepgate_job *job, const char *name, int ms, struct stepgate_model **model);

/*
 * stepgate_model_tune -- worker 0 changes a hyper-parameter from step `from_step` on, on every ps alike: keys and values as stepgate_model_set takes them: learning_rate
 * learning_rate_end momentum rho beta1 beta2 epsilon weight_decay l2_decay clip_value clip_norm clip_global_norm average_decay. Exact if it is called before
 * worker 0 finishes its contribution to from_step; later it holds from the next step that is decided. What was off at commit (a clip, the averages) cannot be turned on.
 * A schedule goes on from the new learning_rate; with the schedule constant this is how an outside scheduler sets the rate of each step.
 * Of several for the same step the last one counts. Errors: ENOENT, EINVAL, ESTATE (before commit, not worker 0), ELOST.
 */
int stepgate_model_tune(struct stepgate_model *model, const char *key, const char *value, uint64_t from_step);

/*
 * stepgate_model_slot_name -- the name of optimizer slot `index` (from 0), NULL behind the last: momentum and nesterov have "momentum", adagrad "accumulator",
 * rmsprop "mean_square" and "momentum", adam and adamw "first_moment" and "second_moment"; sgd and none have none. A frozen variable has no slots (EINVAL).
 */
const char *stepgate_model_slot_name(const struct stepgate_model *model, unsigned index);
/*
 * stepgate_model_slot -- the slot of that name of one trained or sparse variable, as of one exact step (step may be NULL). out: as many elements as the variable, f32 (f64 for an
 * f64 variable); bytes must be their size. "beta1_power" and "beta2_power" of adam and adamw (formula tf) are one f32 each, of the model: id is ignored (f64 variables use powers of their own, in f64).
 * Errors: EAGAIN, ETIMEOUT, ENOENT (no such slot), EINVAL, ESTATE, ELOST.
 */
int stepgate_model_slot(struct stepgate_model *model, int id, const char *name, int ms, void *out,
                        uint64_t bytes, uint64_t *step);

enum stepgate_what {
    STEPGATE_SNAPSHOT_PARAMETERS = 1, /* elements in the variable's dtype */
    STEPGATE_SNAPSHOT_AVERAGES = 2    /* f32 (f64 for an f64 variable); of variables that are averaged */
};
/*
 * stepgate_model_snapshot -- copies of n variables (ids), all of one exact step, which *step names: out[i] takes as many bytes as variable ids[i] has in what is asked for. Workers and observers; training goes on
 * meanwhile, held up for one copy on each ps, which keeps memory for it until the reader leaves: the size of what is asked for, for each reader and model. With ms 0: as every call,
 * repeat it with the same arguments until it is done; other arguments give up the one before. Errors: EAGAIN, ETIMEOUT, EINVAL (kind, or not averaged), ENOENT
 * (the model has no averages), ENOMEM (also: a ps has none for the copy), ESTATE, ELOST.
 */
int stepgate_model_snapshot(struct stepgate_model *model, int what, const int *ids, size_t n,
                            void *const *out, int ms, uint64_t *step);

/*
 * stepgate_checkpoint -- asks the ps to write a checkpoint of this model as it is between two steps, and waits until it is complete on the disk; *step (may be NULL) is the step
 * that training would go on with. Any worker may, at any time after commit; training goes on meanwhile, held up for one copy on each ps. With checkpoint_steps and
 * checkpoint_seconds the ps write checkpoints without being asked. With ms 0: as every call, repeat it until it is done. A call that was given up does not take back the
 * checkpoint. Errors: EAGAIN, ETIMEOUT, ESTATE (the ps have no folder for checkpoints; before commit; an observer), ESYSTEM (it could not be written: the
 * text says which ps could not do what), ENOMEM, ELOST.
 */
int stepgate_checkpoint(struct stepgate_model *model, int ms, uint64_t *step);

struct stepgate_contributions {
    size_t size;         /* set by the caller: sizeof(struct stepgate_contributions) */
    uint64_t accepted;   /* applied */
    uint64_t stale;      /* came too late */
    uint64_t non_finite; /* dropped, or made everybody skip */
    uint64_t empty;      /* abandoned, or of weight 0 */
};
/* stepgate_model_contributions -- what became of the contributions of worker `rank` since this job was started: a job that goes on from a checkpoint counts anew. Errors: EAGAIN, ETIMEOUT, EINVAL, ELOST. */
int stepgate_model_contributions(struct stepgate_model *model, int rank, int ms,
                                 struct stepgate_contributions *counts);

#ifdef __cplusplus
}
#endif
#endif
