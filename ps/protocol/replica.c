/* SPDX-License-Identifier: BSD-3-Clause */
/* replica -- how many contributions and tokens make a step, given the number of workers. */
#include "ps/protocol/model.h"

/* replica_alone -- each contribution is applied alone. */
static bool replica_alone(const struct model *model)
{
    return model->update == MODEL_ASYNC || model->update == MODEL_BOUNDED;
}

/* replica_rounds -- contributions that some worker supplies to one step: R / T, rounded up. */
static uint32_t replica_rounds(uint32_t replicas, uint32_t workers)
{
    return replicas / workers + (replicas % workers != 0);
}

/* model_replicas -- R. */
uint32_t model_replicas(const struct model *model, uint32_t workers)
{
    if (replica_alone(model))
        return 1;
    return model->replicas_to_aggregate != 0 ? model->replicas_to_aggregate : workers;
}

/* model_tokens_per_step -- max(T, R), where nothing else is said. */
uint32_t model_tokens_per_step(const struct model *model, uint32_t workers)
{
    uint32_t replicas = model_replicas(model, workers);

    if (replica_alone(model))
        return 1;
    if (model->update == MODEL_TF && model->tokens_per_step != 0)
        return model->tokens_per_step;
    return replicas > workers ? replicas : workers;
}

/* model_initial_tokens -- before the first step. */
uint32_t model_initial_tokens(const struct model *model, uint32_t workers)
{
    uint32_t replicas = model_replicas(model, workers);

    if (replica_alone(model))
        return 0;
    if (model->update == MODEL_TF)
        return model->initial_tokens >= 0 ? (uint32_t)model->initial_tokens : replicas;
    return replicas > workers ? replicas - workers : 0;
}

/* model_lockstep -- strict, and every worker is in every step. */
bool model_lockstep(const struct model *model, uint32_t workers)
{
    return model->update == MODEL_STRICT && model_replicas(model, workers) >= workers;
}

/* model_slot_depth -- gradients of one worker that may lie in its slots at once. */
uint32_t model_slot_depth(const struct model *model, uint32_t workers)
{
    return model->update == MODEL_STRICT ? replica_rounds(model_replicas(model, workers), workers) : 2;
}

/* model_quota -- contributions that worker `rank` supplies to one step. */
uint32_t model_quota(const struct model *model, uint32_t workers, uint32_t rank)
{
    uint32_t replicas = model_replicas(model, workers);

    if (model->update != MODEL_STRICT || replicas <= workers)
        return 1;
    return replicas / workers + (rank < replicas % workers);
}
