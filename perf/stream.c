/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/stream.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__x86_64__)
/* SSE2, which every such processor has. */
#define STREAM_NAME(x) stream_plain_##x
#define STREAM_TARGET
#define STREAM_FENCE _mm_sfence
#define VECTOR __m128
#define VECTOR_WIDTH 4
#define VECTOR_SET _mm_set1_ps
#define VECTOR_LOAD _mm_load_ps
#define VECTOR_STORE _mm_store_ps
#define VECTOR_STORE_UNALIGNED _mm_storeu_ps
#define VECTOR_STREAM _mm_stream_ps
#define VECTOR_ADD _mm_add_ps
#define VECTOR_MULTIPLY _mm_mul_ps
#include "perf/stream.inc"

#define STREAM_NAME(x) stream_avx2_##x
#define STREAM_TARGET __attribute__((target("avx2")))
#define STREAM_FENCE _mm_sfence
#define VECTOR __m256
#define VECTOR_WIDTH 8
#define VECTOR_SET _mm256_set1_ps
#define VECTOR_LOAD _mm256_loadu_ps
#define VECTOR_STORE _mm256_storeu_ps
#define VECTOR_STORE_UNALIGNED _mm256_storeu_ps
#define VECTOR_STREAM _mm256_stream_ps
#define VECTOR_ADD _mm256_add_ps
#define VECTOR_MULTIPLY _mm256_mul_ps
#include "perf/stream.inc"

#define STREAM_NAME(x) stream_avx512_##x
#define STREAM_TARGET __attribute__((target("avx512f")))
#define STREAM_FENCE _mm_sfence
#define VECTOR __m512
#define VECTOR_WIDTH 16
#define VECTOR_SET _mm512_set1_ps
#define VECTOR_LOAD _mm512_loadu_ps
#define VECTOR_STORE _mm512_storeu_ps
#define VECTOR_STORE_UNALIGNED _mm512_storeu_ps
#define VECTOR_STREAM _mm512_stream_ps
#define VECTOR_ADD _mm512_add_ps
#define VECTOR_MULTIPLY _mm512_mul_ps
#include "perf/stream.inc"
#else
#define STREAM_SELF(x) (x)
#define STREAM_STORE(p, x) (*(p) = (x))
#define STREAM_SUM(x, y) ((x) + (y))
#define STREAM_PRODUCT(x, y) ((x) * (y))
#define STREAM_NOTHING() ((void)0)
#define STREAM_NAME(x) stream_plain_##x
#define STREAM_TARGET
#define STREAM_FENCE STREAM_NOTHING
#define VECTOR float
#define VECTOR_WIDTH 1
#define VECTOR_SET STREAM_SELF
#define VECTOR_LOAD *
#define VECTOR_STORE STREAM_STORE
#define VECTOR_STORE_UNALIGNED STREAM_STORE
#define VECTOR_STREAM STREAM_STORE
#define VECTOR_ADD STREAM_SUM
#define VECTOR_MULTIPLY STREAM_PRODUCT
#include "perf/stream.inc"
#endif

/* stream_kernels -- see stream.h. */
const struct stream_kernel *stream_kernels(const char *kind)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (strcmp(kind, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") ? stream_avx512_kernels : NULL;
    if (strcmp(kind, "avx2") == 0)
        return __builtin_cpu_supports("avx2") ? stream_avx2_kernels : NULL;
#endif
    return strcmp(kind, "plain") == 0 ? stream_plain_kernels : NULL;
}

/* stream_part -- see stream.h. */
size_t stream_part(size_t n, unsigned index, unsigned count)
{
    size_t units = n / STREAM_UNIT;

    return (units / count * index + units % count * index / count) * STREAM_UNIT;
}
