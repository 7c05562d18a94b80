/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/protocol/schedule.h"

#include <math.h>

#define SCHEDULE_PI 3.14159265358979323846

/* schedule_linear -- falls to its end, and stays there. */
static double schedule_linear(const struct model *model, uint64_t step)
{
    double end = model->learning_rate_end;

    if (step >= model->learning_rate_steps)
        return end;
    return end + (model->learning_rate - end) * (1.0 - (double)step / (double)model->learning_rate_steps);
}

/* schedule_exponential -- by the factor in every so many steps, at once or little by little. */
static double schedule_exponential(const struct model *model, uint64_t step)
{
    double times = (double)step / (double)model->learning_rate_steps;

    if (model->staircase)
        times = (double)(step / model->learning_rate_steps);
    return model->learning_rate * pow(model->learning_rate_factor, times);
}

/* schedule_cosine -- half a wave from the rate to its end. */
static double schedule_cosine(const struct model *model, uint64_t step)
{
    double end = model->learning_rate_end;
    uint64_t at = step < model->learning_rate_steps ? step : model->learning_rate_steps;
    double part = (double)at / (double)model->learning_rate_steps;

    return end + (model->learning_rate - end) * 0.5 * (1.0 + cos(SCHEDULE_PI * part));
}

/* schedule_rate -- of step k, in double. */
double schedule_rate(const struct model *model, uint64_t step)
{
    if (step < model->warmup_steps)
        return model->learning_rate * (double)(step + 1) / (double)model->warmup_steps;
    switch (model->schedule) {
    case MODEL_LINEAR: return schedule_linear(model, step);
    case MODEL_EXPONENTIAL: return schedule_exponential(model, step);
    case MODEL_COSINE: return schedule_cosine(model, step);
    default: return model->learning_rate;
    }
}

/* model_learning_rate -- rounded to f32 once. */
float model_learning_rate(const struct model *model, uint64_t step)
{
    return (float)schedule_rate(model, step);
}
