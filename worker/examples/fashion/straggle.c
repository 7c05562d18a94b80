/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/straggle.h"

#include <errno.h>
#include <time.h>

#include "worker/examples/fashion/interrupt.h"
#include "worker/examples/fashion/random.h"
#include "worker/examples/fashion/text.h"

enum { STRAGGLE_PURPOSE = 3 }; /* keeps its random numbers apart from others */

static const uint64_t straggle_ms_max = 3600000;

/* straggle_read -- from P:MS */
bool straggle_read(const char *text, struct straggle *out)
{
    char field[TEXT_FIELD_BYTES];
    struct straggle straggle;
    if (!text_field(&text, field) || !text_number(field, &straggle.probability) ||
        !text_field(&text, field) || !text_count(field, &straggle.ms) || text != NULL)
        return false;
    if (straggle.probability < 0.0 || straggle.probability > 1.0 || straggle.ms > straggle_ms_max)
        return false;
    *out = straggle;
    return true;
}

/* straggle_is_late -- whether a worker is late in a step */
bool straggle_is_late(const struct straggle *straggle, uint64_t seed, unsigned rank, uint64_t step)
{
    struct random_stream stream = random_stream_of(seed + rank, STRAGGLE_PURPOSE, step);
    return (double)(random_next(&stream) >> 11) * 0x1p-53 < straggle->probability;
}

/* straggle_sleep -- be late, if the step asks for it */
void straggle_sleep(const struct straggle *straggle, uint64_t seed, unsigned rank, uint64_t step)
{
    struct timespec left = {.tv_sec = (time_t)(straggle->ms / 1000),
                            .tv_nsec = (long)(straggle->ms % 1000) * 1000000};
    if (!straggle_is_late(straggle, seed, rank, step))
        return;
    while (interrupt_signal() == 0 && nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}
