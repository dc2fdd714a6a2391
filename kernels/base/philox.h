/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox4x32-10: random words from a counter and a key, so that every device
 * draws the same ones in any order (Salmon, Moraes, Dror, Shaw: Parallel Random
 * Numbers: As Easy as 1, 2, 3, SC 2011, section 4.2).
 */
#ifndef KERNELS_BASE_PHILOX_H
#define KERNELS_BASE_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define PHILOX_INLINE static __host__ __device__ __forceinline__
#else
#define PHILOX_INLINE static inline
#endif

struct philox_words {
    uint32_t word[4];
};

PHILOX_INLINE struct philox_words philox(const uint32_t counter[4],
                                         uint64_t key)
{
    struct philox_words c = {{counter[0], counter[1], counter[2], counter[3]}};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c.word[0];
        const uint64_t b = (uint64_t)0xCD9E8D57u * c.word[2];
        const struct philox_words next = {
            {(uint32_t)(b >> 32) ^ c.word[1] ^ k0, (uint32_t)b,
             (uint32_t)(a >> 32) ^ c.word[3] ^ k1, (uint32_t)a}};
        c = next;
        k0 += 0x9E3779B9u; /* golden ratio and sqrt(3) - 1 */
        k1 += 0xBB67AE85u;
    }
    return c;
}

/* The words of elements i / 4 * 4 and the three behind it; kern_dropout says
 * what they decide. */
PHILOX_INLINE struct philox_words philox_dropout(uint64_t seed, uint64_t offset,
                                                 uint32_t stream, int64_t i)
{
    const uint32_t counter[4] = {(uint32_t)(i >> 2), stream, (uint32_t)offset,
                                 (uint32_t)(offset >> 32)};

    return philox(counter, seed);
}

/* Words below it are dropped: ratio * 2^32. */
PHILOX_INLINE uint32_t philox_threshold(float ratio)
{
    return (uint32_t)((double)ratio * 4294967296.0);
}

#endif
