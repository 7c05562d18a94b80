/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/matrix.h"

#include <cblas.h>

/* matrix_threads -- hold OpenBLAS to one thread, for only then are its sums in one order */
int matrix_threads(void)
{
    openblas_set_num_threads(1);
    return openblas_get_num_threads();
}

/* matrix_multiply -- c[m][n] = a[m][k] * b[k][n] */
void matrix_multiply(size_t m, size_t n, size_t k, const float *a, const float *b, float *c)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1.0F, a,
                (blasint)k, b, (blasint)n, 0.0F, c, (blasint)n);
}

/* matrix_multiply_left_transposed -- c[m][n] = a[k][m]^T * b[k][n], added to c where add is 1 */
void matrix_multiply_left_transposed(size_t m, size_t n, size_t k, const float *a, const float *b, float add,
                                     float *c)
{
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1.0F, a,
                (blasint)m, b, (blasint)n, add, c, (blasint)n);
}

/* matrix_multiply_right_transposed -- c[m][n] = a[m][k] * b[n][k]^T */
void matrix_multiply_right_transposed(size_t m, size_t n, size_t k, const float *a, const float *b, float *c)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)m, (blasint)n, (blasint)k, 1.0F, a,
                (blasint)k, b, (blasint)k, 0.0F, c, (blasint)n);
}
