/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops with vectors of 8 floats and 16 registers: a block of
 * 6 rows x 16 channels keeps 12 sums, 2 vectors of U and 1 value of V. */
#include "kernels/cpu/conv/vector.h"

#ifdef VECTOR_LEVELS
#define STEPS  vector_steps_avx2
#define TARGET __attribute__((target("arch=x86-64-v3")))
#define BYTES  32
#define ROWS   6
#include "kernels/cpu/conv/vector_steps.h"
#else
typedef int vector_avx2_is_not_built;
#endif
