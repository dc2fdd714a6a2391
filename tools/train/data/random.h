/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that depend on their use and position only, so that a resumed
 * run needs no generator state. */
#ifndef TOOLS_TRAIN_DATA_RANDOM_H
#define TOOLS_TRAIN_DATA_RANDOM_H

#include <stdint.h>

#include "kernels/base/philox.h"

/* Uses of random numbers; each has its own stream. */
enum random_use { RANDOM_WEIGHTS = 1, RANDOM_SHUFFLE, RANDOM_AUGMENT };

struct random {
    uint64_t key;
    uint32_t counter[4]; /* block, use, place low, place high */
    struct philox_words block;
    int left; /* unused words of the block */
};

/* Starts the stream of (seed, use, place). */
struct random random_at(uint64_t seed, enum random_use use, uint64_t place);
uint32_t random_u32(struct random *r);
/* Uniform in [0, 1), 24 bits. */
float random_unit(struct random *r);
/* Uniform in 0 .. n-1 without bias; n >= 1. */
uint64_t random_below(struct random *r, uint64_t n);
/* Mean 0, deviation 1. */
float random_normal(struct random *r);

#endif
