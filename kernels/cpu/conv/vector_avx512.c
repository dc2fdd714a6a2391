/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops with vectors of 16 floats and 32 registers: a block of
 * 12 rows x 32 channels keeps 24 sums, 2 vectors of U and 1 value of V. */
#include "kernels/cpu/conv/vector.h"

#ifdef VECTOR_LEVELS
#include <immintrin.h>

#define FIRST(n)            ((__mmask16)((1u << (n)) - 1))
#define LOAD_PART(p, n)     _mm512_maskz_loadu_ps(FIRST(n), p)
#define STORE_PART(p, v, n) _mm512_mask_storeu_ps(p, FIRST(n), (__m512)(v))

/* The second operand where one is NaN, or both are zeros. */
#define LARGER(a, b)  _mm512_max_ps((__m512)(a), (__m512)(b))
#define SMALLER(a, b) _mm512_min_ps((__m512)(a), (__m512)(b))

#define STEPS  vector_steps_avx512
#define TARGET __attribute__((target("arch=x86-64-v4")))
#define BYTES  64
#define ROWS   12
#include "kernels/cpu/conv/vector_steps.h"
#else
typedef int vector_avx512_is_not_built;
#endif
