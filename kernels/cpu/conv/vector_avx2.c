/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops with vectors of 8 floats and 16 registers: a block of
 * 6 rows x 16 channels keeps 12 sums, 2 vectors of U and 1 value of V. */
#include "kernels/cpu/conv/vector.h"

#ifdef VECTOR_LEVELS
#include <immintrin.h>

/* Eight lanes that are set, then eight that are not. */
static const int32_t lanes_set[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

#define FIRST(n)            _mm256_loadu_si256((const __m256i_u *)(lanes_set + 8 - (n)))
#define LOAD_PART(p, n)     _mm256_maskload_ps(p, FIRST(n))
#define STORE_PART(p, v, n) _mm256_maskstore_ps(p, FIRST(n), (__m256)(v))

/* The second operand where one is NaN, or both are zeros. */
#define LARGER(a, b)  _mm256_max_ps((__m256)(a), (__m256)(b))
#define SMALLER(a, b) _mm256_min_ps((__m256)(a), (__m256)(b))

#define STEPS  vector_steps_avx2
#define TARGET __attribute__((target("arch=x86-64-v3")))
#define BYTES  32
#define ROWS   6
#include "kernels/cpu/conv/vector_steps.h"
#else
typedef int vector_avx2_is_not_built;
#endif
