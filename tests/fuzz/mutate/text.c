/* SPDX-License-Identifier: Apache-2.0 */
/* Mutator of inputs that are JSON, or begin with it. */
#include "tests/fuzz/mutate/json.h"
#include "tests/fuzz/mutate/mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed)
{
    unsigned state = mutate_seed(seed);
    size_t changed = 0;

    mutate_random(&state);
    if (json_begins(data, size) && mutate_random(&state) % 8 != 0)
        changed = json_change(data, size, max_size, &state);
    return changed > 0 ? changed : LLVMFuzzerMutate(data, size, max_size);
}
