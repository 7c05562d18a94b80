/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/evaluation.h"

/* evaluation_run -- judge the first so many images of a split */
int evaluation_run(struct network *network, const struct dataset_split *split, size_t count,
                   const struct network_traffic *traffic, struct evaluation_result *out)
{
    struct softmax_score all = {0};
    for (size_t at = 0; at < count; at += EVALUATION_BATCH) {
        size_t now = count - at < EVALUATION_BATCH ? count - at : EVALUATION_BATCH;
        struct softmax_score score;
        for (size_t n = 0; n < now; n++)
            network_load(network, n, dataset_image(split, at + n), dataset_label(split, at + n));
        int rc = network_forward(network, now, traffic, &score);
        if (rc < 0)
            return rc;
        all.loss += score.loss;
        all.right += score.right;
    }
    out->loss = all.loss / (double)count;
    out->accuracy = (double)all.right / (double)count;
    return 0;
}
