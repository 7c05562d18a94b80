/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/kind.h"

#include <stdbool.h>
#include <string.h>

static const char *const kind_names[OPTIMIZER_KINDS] = {"plain", "avx2", "avx512"};

/* kind_is_there -- does this processor, with this system, have it? */
static bool kind_is_there(int kind)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (kind == OPTIMIZER_AVX512)
        return __builtin_cpu_supports("avx512f") != 0;
    if (kind == OPTIMIZER_AVX2)
        return __builtin_cpu_supports("avx2") != 0;
#endif
    return kind == OPTIMIZER_PLAIN;
}

/* optimizer_kind_of -- see kind.h. */
int optimizer_kind_of(const char *name)
{
    for (int kind = OPTIMIZER_KINDS - 1; kind >= 0; kind--)
        if ((strcmp(name, "auto") == 0 || strcmp(name, kind_names[kind]) == 0) && kind_is_there(kind))
            return kind;
    return -1;
}

/* optimizer_kind_name -- see kind.h. */
const char *optimizer_kind_name(enum optimizer_kind kind)
{
    return kind_names[kind];
}
