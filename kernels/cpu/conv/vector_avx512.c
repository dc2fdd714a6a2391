/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops with vectors of 16 floats and 32 registers: a block of
 * 12 rows x 32 channels keeps 24 sums, 2 vectors of U and 1 value of V. */
#include "kernels/cpu/conv/vector.h"

#ifdef VECTOR_LEVELS
#define STEPS  vector_steps_avx512
#define TARGET __attribute__((target("arch=x86-64-v4")))
#define BYTES  64
#define ROWS   12
#include "kernels/cpu/conv/vector_steps.h"
#else
typedef int vector_avx512_is_not_built;
#endif
