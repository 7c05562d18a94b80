/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/softmax.h"

#include <math.h>

/* softmax_judge -- the score of a batch; gradient, unless NULL, gets that of the mean loss by the
 * scores */
struct softmax_score softmax_judge(size_t images, size_t classes, const float *scores, const uint8_t *labels,
                                   float *gradient)
{
    struct softmax_score score = {0};
    for (size_t n = 0; n < images; n++, scores += classes) {
        size_t best = 0;
        for (size_t c = 1; c < classes; c++)
            best = scores[c] > scores[best] ? c : best;
        /* Less the highest score, no exponential overflows. */
        double sum = 0.0;
        for (size_t c = 0; c < classes; c++)
            sum += exp((double)scores[c] - (double)scores[best]);
        double label = (double)scores[labels[n]] - (double)scores[best];
        score.loss += log(sum) - label;
        score.right += best == labels[n];
        if (gradient == NULL)
            continue;
        for (size_t c = 0; c < classes; c++) {
            double share = exp((double)scores[c] - (double)scores[best]) / sum;
            gradient[n * classes + c] = (float)((share - (c == labels[n] ? 1.0 : 0.0)) / (double)images);
        }
    }
    return score;
}
