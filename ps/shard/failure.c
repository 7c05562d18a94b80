/* SPDX-License-Identifier: BSD-3-Clause */
/* failure -- the words in which the leader says why a mode cannot go on, and what helps. */
#include <stdio.h>

#include "ps/shard/inside.h"
#include "transport/base/error.h"

/*
 * leader_stuck -- tf: nobody brings what the step lacks. A contribution that counts for nothing has taken a token all the same: what was for
 * nothing while this step was awaited is named, or, if that is not it, what ever was.
 */
static void leader_stuck(const struct shard *shard, const struct shard_model *model,
                         const struct mode_decision *d)
{
    char who[64] = "every worker", wasted[224], cause[340] = "";
    const char *when = " while this step was awaited",
               *help = "give more initial_tokens or a smaller replicas_to_aggregate";
    uint64_t count = shard_waste_words(model, false, wasted, sizeof(wasted));

    if (count == 0) {
        when = "";
        count = shard_waste_words(model, true, wasted, sizeof(wasted));
    }
    if (count > 0) {
        snprintf(cause, sizeof(cause),
                 "; %llu contribution%s counted for nothing%s, and used up a token each: %s",
                 (unsigned long long)count, count == 1 ? "" : "s", when, wasted);
        help = "in tf mode a contribution that is dropped or abandoned has used up its token: give more "
               "initial_tokens, avoid what is not finite, or use update=strict";
    }
    if (d->rank != UINT32_MAX) {
        bool left = shard->members[d->rank].left;
        snprintf(who, sizeof(who), "worker %u %s, every other one", d->rank, left ? "has left" : "is lost");
        if (count == 0)
            help =
                left ? "end the loop by the step that begin gives, not by counting contributions; a smaller "
                       "replicas_to_aggregate can do without"
                     : "start the job again; a smaller replicas_to_aggregate can do without";
    }
    error_set(STEPGATE_ELOST, 0, help, "%s waits for a token of step %llu of model %s, and none can come%s",
              who, (unsigned long long)d->step, model->model->name, cause);
}

/* leader_missed -- strict: a step cannot be completed without workers that are gone. */
static void leader_missed(const struct shard *shard, const struct shard_model *model,
                          const struct mode_decision *d)
{
    const struct shard_member *member = &shard->members[d->rank];
    unsigned long long step = d->step;

    if (member->left)
        error_set(STEPGATE_ELOST, 0,
                  "end the loop by the step that begin gives, not by counting contributions",
                  "worker %u left the job before step %llu of model %s, to which others contribute", d->rank,
                  step, model->model->name);
    else
        error_set(
            STEPGATE_ELOST, 0,
            shard->config.lost == MODE_LOST_WAIT
                ? "look at that worker's output and host, then start the job again; return_timeout sets how "
                  "long to wait"
                : "look at that worker's output and host, then start the job again; lost_worker=wait or "
                  "shrink "
                  "goes on",
            "step %llu of model %s takes %u contributions, and there are %u of %u workers: worker %u is "
            "%s%s: "
            "%.300s",
            step, model->model->name, mode_needed(shard->leads[model->number]->mode),
            mode_there(shard->leads[model->number]->mode), shard->config.workers, d->rank,
            member->late ? "missing" : "lost",
            shard->config.lost != MODE_LOST_WAIT ? ""
            : member->late                       ? ", and did not come"
                                                 : ", and did not come back",
            member->cause.text);
}

/* leader_fail -- see inside.h. */
void leader_fail(struct shard *shard, const struct shard_model *model, const struct mode_decision *d,
                 uint64_t now)
{
    unsigned long long step = d->step;

    switch (d->failure) {
    case MODE_FAIL_NON_FINITE:
        error_set(STEPGATE_ENONFINITE, 0,
                  "look at that worker's data and learning rate; non_finite=drop or skip goes on without it",
                  "worker %u contributed an infinity or a NaN to step %llu of model %s", d->rank, step,
                  model->model->name);
        break;
    case MODE_FAIL_GONE: leader_missed(shard, model, d); break;
    default: leader_stuck(shard, model, d); break;
    }
    if (d->rank != UINT32_MAX)
        error_peer(STEPGATE_ROLE_WORKER, (int)d->rank, "", "");
    error_step(step, -1);
    shard_abort(shard, now);
}
