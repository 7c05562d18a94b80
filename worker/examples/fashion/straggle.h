/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that are late now and then: in which steps is a function of the seed, the step and the rank alone. */
#ifndef FASHION_STRAGGLE_H
#define FASHION_STRAGGLE_H

#include <stdbool.h>
#include <stdint.h>

struct straggle {
    double probability; /* 0 = nobody is late */
    uint64_t ms;
};

/* straggle_read -- from P:MS; false: that is something else */
bool straggle_read(const char *text, struct straggle *out);

/* straggle_is_late -- whether a worker is late in a step */
bool straggle_is_late(const struct straggle *straggle, uint64_t seed, unsigned rank, uint64_t step);

/* straggle_sleep -- be late, if the step asks for it; a signal that asks for the end ends it */
void straggle_sleep(const struct straggle *straggle, uint64_t seed, unsigned rank, uint64_t step);

#endif
