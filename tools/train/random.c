/* SPDX-License-Identifier: Apache-2.0 */
/* Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
 * as 1, 2, 3", 2011.  The constants are the paper's. */
#include "tools/train/random.h"

#include <math.h>
#include <string.h>

#define ROUNDS 10

static void philox(const uint32_t key_in[2], const uint32_t counter[4],
                   uint32_t out[4])
{
    uint32_t key[2] = {key_in[0], key_in[1]};
    uint32_t x[4];
    int i;

    memcpy(x, counter, sizeof(x));
    for (i = 0; i < ROUNDS; i++) {
        uint64_t a = (uint64_t)0xd2511f53u * x[0];
        uint64_t b = (uint64_t)0xcd9e8d57u * x[2];

        x[0] = (uint32_t)(b >> 32) ^ x[1] ^ key[0];
        x[1] = (uint32_t)b;
        x[2] = (uint32_t)(a >> 32) ^ x[3] ^ key[1];
        x[3] = (uint32_t)a;
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
    memcpy(out, x, sizeof(x));
}

struct random random_at(uint64_t seed, enum random_use use, uint64_t place)
{
    struct random r = {
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {0, (uint32_t)use, (uint32_t)place,
                    (uint32_t)(place >> 32)},
    };

    return r;
}

uint32_t random_u32(struct random *r)
{
    if (r->left == 0) {
        philox(r->key, r->counter, r->word);
        r->counter[0]++;
        r->left = 4;
    }
    return r->word[4 - r->left--];
}

float random_unit(struct random *r)
{
    return (float)(random_u32(r) >> 8) * (1.0f / 16777216.0f);
}

uint64_t random_below(struct random *r, uint64_t n)
{
    /* Values from the largest multiple of n on would favour small results. */
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
