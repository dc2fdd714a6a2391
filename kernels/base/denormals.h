/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Denormals: numbers below 1.2e-38 (float).  A CPU takes some hundred cycles
 * for an operation with one, and the gates of a network (sigmoids, softmaxes)
 * can make tensors of them.  While a network runs, threads count them as zero.
 */
#ifndef KERNELS_BASE_DENORMALS_H
#define KERNELS_BASE_DENORMALS_H

#include <stdint.h>

/* The bits of the calling thread's control word: results that are flushed,
 * operands that are; 0 where the machine is not known. */
#if defined(__SSE2__)
#define DENORMALS_ZERO UINT64_C(0x8040) /* FTZ, DAZ of MXCSR */
#elif defined(__aarch64__)
#define DENORMALS_ZERO (UINT64_C(1) << 24) /* FZ of FPCR */
#else
#define DENORMALS_ZERO UINT64_C(0)
#endif

static inline uint64_t denormals_word(void)
{
#if defined(__SSE2__)
    return __builtin_ia32_stmxcsr();
#elif defined(__aarch64__)
    uint64_t word;

    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
#else
    return 0;
#endif
}

static inline void denormals_set_word(uint64_t word)
{
#if defined(__SSE2__)
    __builtin_ia32_ldmxcsr((unsigned int)word);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(word));
#else
    (void)word;
#endif
}

/* Makes denormals zero for the calling thread and those that it starts. */
static inline void denormals_flush(void)
{
    denormals_set_word(denormals_word() | DENORMALS_ZERO);
}

/* Sets what the thread had before; word: of denormals_word(). */
static inline void denormals_restore(uint64_t word)
{
    denormals_set_word((denormals_word() & ~DENORMALS_ZERO) |
                       (word & DENORMALS_ZERO));
}

#endif
