/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/hyper.h"

#include <math.h>

#include "ps/optimizer/number.h"
#include "ps/protocol/model.h"
#include "ps/protocol/schedule.h"

static_assert((int)NUMBER_F32 == STEPGATE_F32 && (int)NUMBER_F64 == STEPGATE_F64 &&
                  (int)NUMBER_F16 == STEPGATE_F16 && (int)NUMBER_BF16 == STEPGATE_BF16,
              "number_dtype is stepgate_dtype");

/* optimizer_powers_start -- see the header. */
void optimizer_powers_start(const struct model *model, struct optimizer_powers *powers)
{
    powers->updates = 0;
    powers->beta1_power = (float)model->beta1;
    powers->beta2_power = (float)model->beta2;
    powers->wide_beta1_power = model->beta1;
    powers->wide_beta2_power = model->beta2;
}

/* optimizer_powers_next -- see the header. */
void optimizer_powers_next(const struct model *model, struct optimizer_powers *powers)
{
    powers->updates++;
    powers->beta1_power *= (float)model->beta1;
    powers->beta2_power *= (float)model->beta2;
    powers->wide_beta1_power *= model->beta1;
    powers->wide_beta2_power *= model->beta2;
}

/*
 * hyper_bias -- what adam makes of the rate. TensorFlow's kernels compute it, for f32, from what is f32 and in f32, PyTorch in double, from double: rounded once.
 */
static void hyper_bias(const struct model *model, const struct optimizer_powers *powers,
                       struct optimizer_hyper *out)
{
    if (model->torch) {
        double rate = number_rounded_f32(out->in_f64.rate), t = (double)powers->updates + 1;
        double left = 1 - pow(model->beta1, t);
        out->in_f64.alpha = out->in_f64.rate / left;
        out->in_f32.alpha = (float)(rate / left);
        out->in_f64.root2 = sqrt(1 - pow(model->beta2, t));
        out->in_f32.root2 = (float)out->in_f64.root2;
    } else {
        out->in_f64.alpha =
            out->in_f64.rate * sqrt(1 - powers->wide_beta2_power) / (1 - powers->wide_beta1_power);
        out->in_f32.alpha = out->in_f32.rate * sqrtf(1 - powers->beta2_power) / (1 - powers->beta1_power);
    }
}

/* hyper_average_rate -- 1 - decay; the decay is smaller in the first steps if it goes by the step. */
static double hyper_average_rate(const struct model *model, uint64_t step)
{
    double decay = model->average_decay, n = (double)step + 1;

    if (decay == 0)
        return 0;
    if (model->average_by_step && (1 + n) / (10 + n) < decay)
        decay = (1 + n) / (10 + n);
    return 1 - decay;
}

/* hyper_rest -- 1 - x in f32: TensorFlow's kernels subtract what is f32, PyTorch rounds the difference. */
static float hyper_rest(const struct model *model, double x)
{
    return model->torch ? (float)(1 - x) : 1 - (float)x;
}

/* hyper_narrow -- each rounded once. */
static struct optimizer_scalars_f32 hyper_narrow(const struct model *model,
                                                 const struct optimizer_scalars_f64 *wide)
{
    return (struct optimizer_scalars_f32){
        .rate = (float)wide->rate,
        .momentum = (float)wide->momentum,
        .rho = (float)wide->rho,
        .one_minus_rho = hyper_rest(model, wide->rho),
        .beta1 = (float)wide->beta1,
        .beta2 = (float)wide->beta2,
        .one_minus_beta1 = hyper_rest(model, wide->beta1),
        .one_minus_beta2 = hyper_rest(model, wide->beta2),
        .epsilon = (float)wide->epsilon,
        .alpha = (float)wide->rate,
        .root2 = (float)wide->root2,
        .l2 = (float)wide->l2,
        .clip_value = (float)wide->clip_value,
        .average_rate = (float)wide->average_rate,
        .scale = 1,
    };
}

/* optimizer_hyper_at -- see the header. */
void optimizer_hyper_at(const struct model *model, uint64_t step, const struct optimizer_powers *powers,
                        struct optimizer_hyper *out)
{
    double rate = schedule_rate(model, step);

    out->in_f64 = (struct optimizer_scalars_f64){
        .rate = rate,
        .momentum = model->momentum,
        .rho = model->rho,
        .one_minus_rho = 1 - model->rho,
        .beta1 = model->beta1,
        .beta2 = model->beta2,
        .one_minus_beta1 = 1 - model->beta1,
        .one_minus_beta2 = 1 - model->beta2,
        .epsilon = model->epsilon,
        .alpha = rate,
        .root2 = 1,
        .l2 = model->l2_decay,
        .clip_value = model->clip_value,
        .average_rate = hyper_average_rate(model, step),
        .scale = 1,
    };
    out->in_f32 = hyper_narrow(model, &out->in_f64);
    if (model->optimizer == MODEL_ADAM || model->optimizer == MODEL_ADAMW)
        hyper_bias(model, powers, out);
    if (model->optimizer == MODEL_ADAMW) {
        out->in_f64.decay = rate * model->weight_decay;
        out->in_f32.decay = model->torch ? (float)(number_rounded_f32(rate) * model->weight_decay)
                                         : (float)rate * (float)model->weight_decay;
    }
}
