/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/reference/tf_model.h"

#include <string.h>

/* tf_model_start -- nothing has happened yet. */
void tf_model_start(struct tf_model *model, int replicas, int workers, int initial_tokens, uint64_t step,
                    double rate)
{
    memset(model, 0, sizeof(*model));
    model->replicas = replicas;
    model->workers = workers;
    model->tokens_per_step = workers > replicas ? workers : replicas;
    model->rate = rate;
    model->step = step;
    for (int w = 0; w < workers; w++)
        model->worker[w].local_step = step;
    for (int i = 0; i < initial_tokens; i++)
        model->tokens[model->last_token++] = step;
}

/* tf_model_hand_out -- the oldest token goes to whoever waits longest. */
static void tf_model_hand_out(struct tf_model *model)
{
    while (model->line_length > 0 && model->first_token < model->last_token) {
        struct tf_model_worker *worker = &model->worker[model->line[0]];
        worker->local_step = model->tokens[model->first_token++];
        worker->waits = false;
        model->line_length--;
        memmove(model->line, model->line + 1, sizeof(model->line[0]) * (size_t)model->line_length);
    }
}

/* tf_model_take -- if enough is accumulated: the mean, SGD, the next step, its tokens. */
static void tf_model_take(struct tf_model *model)
{
    if (model->applying || model->count < model->replicas)
        return;
    for (int i = 0; i < TF_MODEL_DENSE; i++)
        model->dense[i] -= model->rate * (model->dense_sum[i] / model->count);
    for (int r = 0; r < TF_MODEL_ROWS; r++)
        for (int i = 0; i < TF_MODEL_WIDTH && model->row_count[r] > 0; i++)
            model->table[r][i] -= model->rate * (model->row_sum[r][i] / model->row_count[r]);
    memset(model->dense_sum, 0, sizeof(model->dense_sum));
    memset(model->row_sum, 0, sizeof(model->row_sum));
    memset(model->row_count, 0, sizeof(model->row_count));
    model->count = 0;
    model->step++;
    model->applying = true;
    for (int i = 0; i < model->tokens_per_step; i++)
        model->tokens[model->last_token++] = model->step;
}

/* tf_model_accumulate -- adds a gradient to both accumulators. */
static void tf_model_accumulate(struct tf_model *model, const struct tf_model_gradient *gradient)
{
    for (int i = 0; i < TF_MODEL_DENSE; i++)
        model->dense_sum[i] += gradient->dense[i];
    for (int r = 0; r < gradient->rows; r++) {
        for (int i = 0; i < TF_MODEL_WIDTH; i++)
            model->row_sum[gradient->index[r]][i] += gradient->row[r][i];
        model->row_count[gradient->index[r]]++;
    }
    model->count++;
}

/* tf_model_push -- stale: dropped without a word; abandoned: nothing; else accumulated. Then stands in line for a token. */
void tf_model_push(struct tf_model *model, int worker, const struct tf_model_gradient *gradient)
{
    struct tf_model_worker *w = &model->worker[worker];

    if (w->local_step < model->step) {
        w->fate = TF_MODEL_DROPPED;
        w->dropped++;
    } else if (gradient->abandoned) {
        w->fate = TF_MODEL_EMPTY;
        w->empty++;
    } else {
        w->fate = TF_MODEL_COUNTED;
        w->counted++;
        tf_model_accumulate(model, gradient);
    }
    w->waits = true;
    model->line[model->line_length++] = worker;
    tf_model_take(model);
    tf_model_hand_out(model);
}

/* tf_model_applied -- somebody waits to take the next step. */
void tf_model_applied(struct tf_model *model)
{
    model->applying = false;
    tf_model_take(model);
    tf_model_hand_out(model);
}

/* tf_model_gone -- leaves the line; what it pushed stays. */
void tf_model_gone(struct tf_model *model, int worker)
{
    int kept = 0;

    model->worker[worker].gone = true;
    model->worker[worker].waits = false;
    for (int i = 0; i < model->line_length; i++)
        if (model->line[i] != worker)
            model->line[kept++] = model->line[i];
    model->line_length = kept;
}

/* tf_model_is_stuck -- no token is left, none comes from a take, and nobody is free to push. */
bool tf_model_is_stuck(const struct tf_model *model)
{
    bool there = false;

    for (int w = 0; w < model->workers; w++) {
        there = there || !model->worker[w].gone;
        if (!model->worker[w].gone && !model->worker[w].waits)
            return false;
    }
    return there && model->first_token == model->last_token && model->count < model->replicas;
}
