/* SPDX-License-Identifier: Apache-2.0 */
/* What the mutators of inputs with lengths and checksums share.  A mutator
 * takes an input apart, changes one part and writes it with the right lengths
 * and checksums again, so that the change reaches the reader behind them.  Each
 * file of this folder defines LLVMFuzzerCustomMutator(); a target links one at
 * most. Outside libFuzzer replay.c has the functions that libFuzzer has. */
#ifndef TESTS_FUZZ_MUTATE_MUTATE_H
#define TESTS_FUZZ_MUTATE_MUTATE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Changes data in place; the new size, at most max_size.  libFuzzer's. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed);

/* xorshift; state is not 0. */
static inline unsigned mutate_random(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static inline unsigned mutate_seed(unsigned seed)
{
    return seed ? seed : 1;
}

/* A changed copy with room for `more` bytes; *bytes becomes its size, at least
 * 1.  NULL: out of memory. */
static inline uint8_t *mutate_copy(const void *data, size_t *bytes, size_t more)
{
    const size_t room = *bytes + more;
    uint8_t *copy = malloc(room + 1);

    if (copy && *bytes > 0)
        memcpy(copy, data, *bytes);
    if (copy)
        *bytes = LLVMFuzzerMutate(copy, *bytes, room ? room : 1);
    return copy;
}

#endif
