/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that are compiled for several widths of vector instructions. */
#ifndef KERNELS_BASE_CLONES_H
#define KERNELS_BASE_CLONES_H

#include "config.h"

/* Compiles a function for AVX-512, AVX2 and the baseline; the loader chooses.
 * Sanitizers run before the loader's choice can be made, and profit little. */
#if defined(HAVE_TARGET_CLONES) && !defined(__SANITIZE_ADDRESS__) &&           \
    !defined(__SANITIZE_THREAD__)
#define CPU_CLONES                                                             \
    __attribute__((                                                            \
        target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CPU_CLONES
#endif

/* For bodies that must be compiled within their clone. */
#if defined(__GNUC__)
#define CPU_INLINE static inline __attribute__((always_inline))
#else
#define CPU_INLINE static inline
#endif

#endif
