/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/hyper.h"

#include <math.h>

#include "ps/optimizer/number.h"
#include "ps/protocol/model.h"

static_assert((int)NUMBER_F32 == STEPGATE_F32 && (int)NUMBER_F64 == STEPGATE_F64 &&
                  (int)NUMBER_F16 == STEPGATE_F16 && (int)NUMBER_BF16 == STEPGATE_BF16,
              "number_dtype is stepgate_dtype");

/* optimizer_powers_start -- see the header. */
void optimizer_powers_start(const struct model *model, struct optimizer_powers *powers)
{
    powers->updates = 0;
    powers->beta1_power = (float)model->beta1;
    powers->beta2_power = (float)model->beta2;
}

/* optimizer_powers_next -- see the header. */
void optimizer_powers_next(const struct model *model, struct optimizer_powers *powers)
{
    powers->updates++;
    powers->beta1_power *= (float)model->beta1;
    powers->beta2_power *= (float)model->beta2;
}

/* hyper_bias -- what adam makes of the rate: in double, from what is f32, rounded once. */
static void hyper_bias(const struct model *model, const struct optimizer_powers *powers,
                       struct optimizer_hyper *out)
{
    double rate = (double)out->rate, t = (double)powers->updates + 1;

    if (model->torch) {
        out->alpha = (float)(rate / (1 - pow(model->beta1, t)));
        out->root2 = (float)sqrt(1 - pow(model->beta2, t));
    } else {
        out->alpha =
            (float)(rate * sqrt(1 - (double)powers->beta2_power) / (1 - (double)powers->beta1_power));
    }
}

/* hyper_average_rate -- 1 - decay; the decay is smaller in the first steps if it goes by the step. */
static float hyper_average_rate(const struct model *model, uint64_t step)
{
    double decay = model->average_decay, n = (double)step + 1;

    if (decay == 0)
        return 0;
    if (model->average_by_step && (1 + n) / (10 + n) < decay)
        decay = (1 + n) / (10 + n);
    return (float)(1 - decay);
}

/* optimizer_hyper_at -- see the header. */
void optimizer_hyper_at(const struct model *model, uint64_t step, const struct optimizer_powers *powers,
                        struct optimizer_hyper *out)
{
    float rate = model_learning_rate(model, step);

    *out = (struct optimizer_hyper){
        .rate = rate,
        .momentum = (float)model->momentum,
        .rho = (float)model->rho,
        .one_minus_rho = (float)(1 - model->rho),
        .beta1 = (float)model->beta1,
        .beta2 = (float)model->beta2,
        .one_minus_beta1 = (float)(1 - model->beta1),
        .one_minus_beta2 = (float)(1 - model->beta2),
        .epsilon = (float)model->epsilon,
        .alpha = rate,
        .root2 = 1,
        .l2 = (float)model->l2_decay,
        .clip_value = (float)model->clip_value,
        .average_rate = hyper_average_rate(model, step),
        .scale = 1,
    };
    if (model->optimizer == MODEL_ADAM || model->optimizer == MODEL_ADAMW)
        hyper_bias(model, powers, out);
    if (model->optimizer == MODEL_ADAMW)
        out->decay = (float)((double)rate * model->weight_decay);
}
