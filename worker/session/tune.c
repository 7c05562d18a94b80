/* SPDX-License-Identifier: BSD-3-Clause */
/* tune -- a hyper-parameter is changed; the leader is asked what became of contributions, and for a checkpoint. */
#include <string.h>

#include "ps/optimizer/rule.h"
#include "transport/base/error.h"
#include "worker/session/inside.h"

/* tune_need_committed -- there are steps. */
static int tune_need_committed(const struct session_model *model)
{
    int status = session_error(model->session);

    if (status == 0 && model->state != MODEL_COMMITTED)
        status = error_set(STEPGATE_ESTATE, 0, "call commit first", "model %s is not committed",
                           model->model->name);
    return status;
}

/* session_tune -- the ps change theirs when the step comes; what is declared here stays as it is. */
int session_tune(struct session_model *model, const char *key, const char *value, uint64_t from_step,
                 uint64_t now)
{
    struct message tune = {.kind = MESSAGE_TUNE, .model = model->number, .step = from_step};
    int status = tune_need_committed(model);

    if (status == 0)
        status = session_need_worker(model->session, "tune");
    if (status == 0 && model->session->rank != 0)
        status = error_set(STEPGATE_ESTATE, 0, "let worker 0 do it", "tune: this is worker %u",
                           model->session->rank);
    if (status != 0)
        return status;
    struct model scratch = *model->model; /* a tune changes nothing behind its pointers */
    status = model_tune(&scratch, key, value);
    if (status == 0 && (strlen(key) >= sizeof(tune.key) || strlen(value) >= sizeof(tune.value)))
        status = error_set(STEPGATE_EINVAL, 0, "write it shorter", "a value of %zu characters for %s",
                           strlen(value), key);
    if (status != 0)
        return status;
    memcpy(tune.key, key, strlen(key) + 1);
    memcpy(tune.value, value, strlen(value) + 1);
    status = link_send(&model->session->shards[0].control.link, &tune, now);
    if (status != -STEPGATE_EPEER)
        return status;
    session_progress(model->session, now); /* a broken link ends in the job's failure, now or soon */
    return session_error(model->session);
}

/* session_slot_name -- see session.h. */
const char *session_slot_name(const struct session_model *model, unsigned index)
{
    const struct optimizer_rule *rule = optimizer_rule(model->model->optimizer, model->model->torch);

    return rule != NULL && index < rule->slots ? rule->slot_names[index] : NULL;
}

/* session_slot_power -- PyTorch's adam counts its steps instead. */
int session_slot_power(const struct session_model *model, const char *name)
{
    const struct model *m = model->model;

    if ((m->optimizer != MODEL_ADAM && m->optimizer != MODEL_ADAMW) || m->torch)
        return -1;
    return strcmp(name, "beta1_power") == 0 ? 0 : strcmp(name, "beta2_power") == 0 ? 1 : -1;
}

/* session_counts_try -- see session.h. */
int session_counts_try(struct session_model *model, uint32_t rank, uint64_t now, struct session_count *out)
{
    struct session_counts *counts = &model->counts;
    const struct message ask = {.kind = MESSAGE_COUNTS_ASK, .model = model->number, .rank = rank};

    session_progress(model->session, now);
    int status = tune_need_committed(model);
    if (status == 0 && rank >= model->session->workers)
        status = error_set(STEPGATE_EINVAL, 0, "", "worker %u of %u", rank, model->session->workers);
    if (status != 0)
        return status;
    if (!counts->wanted || counts->rank != rank) {
        status = link_send(&model->session->shards[0].control.link, &ask, now);
        if (status != 0)
            return status == -STEPGATE_EPEER ? -STEPGATE_EAGAIN : status;
        counts->asked++;
        counts->wanted = true;
        counts->there = false;
        counts->rank = rank;
    }
    if (!counts->there)
        return -STEPGATE_EAGAIN;
    *out = counts->value;
    counts->wanted = counts->there = false;
    return 0;
}

/* session_counts_cancel -- an answer that comes late is not that to a later question. */
void session_counts_cancel(struct session_model *model)
{
    model->counts.wanted = model->counts.there = false;
}

/* session_counts_message -- false: nobody has asked. */
bool session_counts_message(struct session *session, const struct message *m)
{
    struct session_model *model = session_model_of(session, m->model);

    if (model == NULL || model->counts.asked == 0)
        return false;
    struct session_counts *counts = &model->counts;
    counts->asked--;
    if (!counts->wanted || counts->asked > 0 || m->rank != counts->rank)
        return true; /* to a question that nobody waits for any more */
    counts->value = (struct session_count){.step = m->step,
                                           .accepted = m->counters[0],
                                           .stale = m->counters[1],
                                           .non_finite = m->counters[2],
                                           .empty = m->counters[3]};
    static_assert(sizeof(counts->value.powers) == sizeof(m->powers), "their bits travel");
    memcpy(counts->value.powers, m->powers, sizeof(m->powers));
    counts->there = true;
    return true;
}

/* session_checkpoint_try -- see session.h. A request that nobody waits for any more is answered first: it was for an older step. */
int session_checkpoint_try(struct session_model *model, uint64_t now, uint64_t *step)
{
    struct session_checkpoint *checkpoint = &model->checkpoint;
    struct message ask = {.kind = MESSAGE_CHECKPOINT, .model = model->number};

    session_progress(model->session, now);
    int status = tune_need_committed(model);
    if (status == 0)
        status = session_need_worker(model->session, "ask for a checkpoint");
    if (status != 0)
        return status;
    checkpoint->wanted = true;
    if (!checkpoint->sent) {
        if (checkpoint->pending)
            return -STEPGATE_EAGAIN;
        ask.offset = checkpoint->id + 1;
        status = link_send(&model->session->shards[0].control.link, &ask, now);
        if (status != 0)
            return status == -STEPGATE_EPEER ? -STEPGATE_EAGAIN : status;
        checkpoint->id++;
        checkpoint->sent = checkpoint->pending = true;
        checkpoint->there = false;
    }
    if (!checkpoint->there)
        return -STEPGATE_EAGAIN;
    session_checkpoint_cancel(model);
    if (checkpoint->error.code != 0)
        return error_restore(&checkpoint->error);
    *step = checkpoint->step;
    return 0;
}

/* session_checkpoint_cancel -- an answer that comes late is not that to a later request. */
void session_checkpoint_cancel(struct session_model *model)
{
    model->checkpoint.wanted = model->checkpoint.sent = model->checkpoint.there = false;
}

/* session_checkpoint_message -- see inside.h. */
bool session_checkpoint_message(struct session *session, const struct message *m)
{
    struct session_model *model = session_model_of(session, m->model);

    if (model == NULL || !model->checkpoint.pending || m->offset != model->checkpoint.id)
        return false;
    struct session_checkpoint *checkpoint = &model->checkpoint;
    checkpoint->pending = false;
    if (!checkpoint->sent)
        return true; /* nobody waits for it any more */
    checkpoint->there = true;
    checkpoint->step = m->step;
    checkpoint->error = m->finite ? (struct stepgate_error){.code = 0} : m->error;
    return true;
}
