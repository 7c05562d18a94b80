/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stepgate-perf-allreduce -- what compare mpi runs against a step: all-reduce of a gradient over Open MPI in buckets, then momentum in each process, on the
 * same numbers as stepgate-perf step. Knows nothing of stepgate. Prints one line: the median, least and number of steps of rank 0, in nanoseconds.
 *
 *     mpirun -n 2 stepgate-perf-allreduce PARAMETERS ITERATIONS WARMUP BUCKET_ELEMENTS REWRITE(0|1)
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define ALLREDUCE_RATE 0.01f
#define ALLREDUCE_MOMENTUM 0.9f

/* allreduce_now -- nanoseconds. */
static uint64_t allreduce_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* allreduce_array -- zeros on huge pages, as stepgate's are. */
static float *allreduce_array(size_t n)
{
    size_t length = (n * sizeof(float) + (2u << 20)) >> 21 << 21;
    void *bytes = aligned_alloc(2u << 20, length > 0 ? length : 2u << 20);

    if (bytes == NULL)
        return NULL;
    madvise(bytes, length, MADV_HUGEPAGE);
    for (size_t i = 0; i < n; i++)
        ((float *)bytes)[i] = 0;
    return bytes;
}

/* allreduce_gradient -- what a rank has in every element in a step. */
static float allreduce_gradient(uint64_t step, uint64_t rank, int rewrite)
{
    return (float)((rewrite ? step % 7 : 0) + rank % 5 + 1) / 64;
}

/* allreduce_update -- the mean and momentum, in one pass. */
static void allreduce_update(float *restrict value, float *restrict moment, const float *restrict sum,
                             size_t n, float ranks)
{
    for (size_t i = 0; i < n; i++) {
        float kept = ALLREDUCE_MOMENTUM * moment[i];
        float fresh = kept + sum[i] / ranks, change = ALLREDUCE_RATE * fresh;
        moment[i] = fresh;
        value[i] -= change;
    }
}

/* allreduce_expected -- every element after `steps` steps. */
static float allreduce_expected(uint64_t steps, int ranks, int rewrite)
{
    float value = 0, moment = 0;

    for (uint64_t k = 0; k < steps; k++) {
        float sum = 0;
        for (int r = 0; r < ranks; r++)
            sum += allreduce_gradient(k, (uint64_t)r, rewrite);
        float kept = ALLREDUCE_MOMENTUM * moment;
        moment = kept + sum / (float)ranks;
        float change = ALLREDUCE_RATE * moment;
        value -= change;
    }
    return value;
}

/* allreduce_compare -- for qsort. */
static int allreduce_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    int rank, ranks, bad = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 6) {
        if (rank == 0)
            fputs("usage: stepgate-perf-allreduce PARAMETERS ITERATIONS WARMUP BUCKET_ELEMENTS REWRITE\n",
                  stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    size_t n = strtoull(argv[1], NULL, 10), bucket = strtoull(argv[4], NULL, 10);
    uint64_t iterations = strtoull(argv[2], NULL, 10), warmup = strtoull(argv[3], NULL, 10), last = 0;
    int rewrite = atoi(argv[5]);
    float *gradient = allreduce_array(n), *sum = allreduce_array(n), *value = allreduce_array(n),
          *moment = allreduce_array(n);
    uint64_t *times = calloc(iterations + 1, sizeof(*times));
    if (gradient == NULL || sum == NULL || value == NULL || moment == NULL || times == NULL || bucket == 0) {
        fputs("stepgate-perf-allreduce: not enough memory\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (uint64_t step = 0; step <= warmup + iterations; step++) {
        uint64_t now = allreduce_now();
        if (step > warmup)
            times[step - warmup - 1] = now - last;
        last = now;
        if (step == warmup + iterations)
            break;
        float fill = allreduce_gradient(step, (uint64_t)rank, rewrite);
        for (size_t i = 0; (rewrite || step == 0) && i < n; i++)
            gradient[i] = fill;
        for (size_t first = 0; first < n; first += bucket) {
            size_t m = n - first < bucket ? n - first : bucket;
            MPI_Allreduce(gradient + first, sum + first, (int)m, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            allreduce_update(value + first, moment + first, sum + first, m, (float)ranks);
        }
    }
    float expected = allreduce_expected(warmup + iterations, ranks, rewrite);
    for (size_t i = 0; i < n; i++)
        bad += value[i] != expected;
    if (bad != 0)
        fprintf(stderr, "stepgate-perf-allreduce: rank %d: %d elements are wrong\n", rank, bad);
    qsort(times, iterations, sizeof(*times), allreduce_compare);
    if (rank == 0 && bad == 0)
        printf("allreduce %llu %llu %llu\n", (unsigned long long)times[iterations / 2],
               (unsigned long long)times[0], (unsigned long long)iterations);
    MPI_Finalize();
    return bad != 0;
}
