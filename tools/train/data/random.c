/* SPDX-License-Identifier: Apache-2.0 */
/* Counter-based random numbers. */
#include "tools/train/data/random.h"

#include <math.h>

/* Dropout uses the seed itself as its key; this constant keeps these streams
 * apart from it. */
#define KEY 0x7472616e646f6d21u

struct random random_at(uint64_t seed, enum random_use use, uint64_t place)
{
    struct random r = {
        .key = seed ^ KEY,
        .counter = {0, (uint32_t)use, (uint32_t)place, (uint32_t)(place >> 32)},
    };

    return r;
}

uint32_t random_u32(struct random *r)
{
    if (r->left == 0) {
        r->block = philox(r->counter, r->key);
        r->counter[0]++;
        r->left = 4;
    }
    return r->block.word[4 - r->left--];
}

float random_unit(struct random *r)
{
    return (float)(random_u32(r) >> 8) * (1.0f / 16777216.0f);
}

uint64_t random_below(struct random *r, uint64_t n)
{
    /* Values from the largest multiple of n on are rejected: they would favour
     * small results. */
    const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    uint64_t x;

    do {
        x = (uint64_t)random_u32(r) << 32;
        x |= random_u32(r);
    } while (x >= limit);
    return x % n;
}

float random_normal(struct random *r)
{
    /* Box and Muller; the logarithm's argument is in (0, 1]. */
    double u = 1.0 - (double)random_unit(r);
    double v = (double)random_unit(r);

    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}
