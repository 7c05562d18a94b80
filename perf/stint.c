/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/stint.h"

#include "perf/clock.h"

/* stint_warmup -- see stint.h. */
struct stint stint_warmup(const struct settings *s)
{
    return (struct stint){.iterations = s->warmup};
}

/* stint_measured -- see stint.h. */
struct stint stint_measured(const struct settings *s)
{
    struct stint stint = {.iterations = s->iterations};

    if (s->duration > 0)
        stint.end = perf_clock_now() + (uint64_t)(s->duration * 1e9);
    return stint;
}

/* stint_goes_on -- see stint.h. However short the time, something is done in it. */
bool stint_goes_on(const struct stint *stint, uint64_t done, uint64_t each)
{
    if (done % each != 0)
        return true;
    return stint->end != 0 ? done == 0 || perf_clock_now() < stint->end : done < stint->iterations;
}
