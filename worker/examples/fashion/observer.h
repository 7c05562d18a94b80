/* SPDX-License-Identifier: BSD-3-Clause */
/* An observer judges the parameters while others train: a thread with a membership of its own in the job, which
 * reads copies of exact steps and is waited for by nobody. Each judgement is a line on stdout. If the observer
 * fails it says so on stderr, and the training goes on. */
#ifndef FASHION_OBSERVER_H
#define FASHION_OBSERVER_H

#include <stdint.h>

#include "worker/examples/fashion/dataset.h"
#include "worker/examples/fashion/exchange_link.h"
#include "worker/examples/fashion/progress.h"
#include "worker/examples/fashion/recipe.h"

/* observer_point -- one judgement, on the test images */
struct observer_point {
    uint64_t step;
    double accuracy;
    double average_accuracy; /* of the averages; negative = there are none */
};

struct observer;

/* observer_new -- begin to judge after every so many steps. Link, recipe and data must outlive it. NULL with the
 * fault set. */
struct observer *observer_new(const struct exchange_link *link, const struct recipe *recipe,
                              const struct dataset *data, uint64_t every, enum progress_style style,
                              struct fault *fault);

/* observer_tell -- training has come to a step; never waits */
void observer_tell(struct observer *observer, uint64_t step);

/* observer_finish -- waits for what is due, and leaves; nothing is judged from then on */
void observer_finish(struct observer *observer);

/* observer_points -- after observer_finish; valid until delete */
const struct observer_point *observer_points(const struct observer *observer, size_t *count);

/* observer_delete -- at once, whatever it does; set NULL; safe on NULL */
void observer_delete(struct observer **observer);

#endif
