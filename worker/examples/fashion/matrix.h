/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of row-major f32 matrices, on OpenBLAS with one thread. */
#ifndef FASHION_MATRIX_H
#define FASHION_MATRIX_H

#include <stddef.h>

/* matrix_threads -- hold OpenBLAS to one thread, for only then are its sums in one order; gives the
 * number in use */
int matrix_threads(void);

/* matrix_multiply -- c[m][n] = a[m][k] * b[k][n] */
void matrix_multiply(size_t m, size_t n, size_t k, const float *a, const float *b, float *c);

/* matrix_multiply_left_transposed -- c[m][n] = a[k][m]^T * b[k][n], added to c where add is 1 */
void matrix_multiply_left_transposed(size_t m, size_t n, size_t k, const float *a, const float *b, float add,
                                     float *c);

/* matrix_multiply_right_transposed -- c[m][n] = a[m][k] * b[n][k]^T */
void matrix_multiply_right_transposed(size_t m, size_t n, size_t k, const float *a, const float *b, float *c);

#endif
