/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/schedule.h"

/* schedule_rate -- of one step: computed in double, rounded to f32 once */
float schedule_rate(const struct schedule *schedule, uint64_t step)
{
    if (schedule->steps == 0)
        return (float)schedule->rate;
    if (step >= schedule->steps)
        return 0.0F;
    return (float)(schedule->rate * (1.0 - (double)step / (double)schedule->steps));
}
