/* SPDX-License-Identifier: Apache-2.0 */
/* Multipliers of integers as those of significands: a number of m mantissa bits
 * has a significand of m + 1 bits, whose first one is set. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/product_table.h"
#include "libinfer/multiplier/multiplier.h"

/* The entry of a product of two significands, integers of m fraction bits.
 * What is below 1 becomes 1, what is 4 or more the largest number below. */
static int32_t entry_of(int64_t product, int m)
{
    const int64_t one = INT64_C(1) << 2 * m;

    if (product < one)
        product = one;
    if (product >= 4 * one)
        product = 4 * one - 1;
    const int carry = product >= 2 * one;
    const int64_t fraction = product - (one << carry);
    const int shift = 23 - 2 * m - carry;
    return (int32_t)((int64_t)carry << 23 |
                     (shift < 0 ? fraction >> -shift : fraction << shift));
}

int multiplier_of_significands(const struct multiplier *from,
                               struct infer_error *err, struct multiplier **out)
{
    const int bits = from->bits - from->is_signed, m = bits - 1;
    const int one = 1 << m;

    if (from->kind != MULTIPLIER_INTEGER || m < 1)
        return error_set(err, INFER_EUNSUPPORTED,
                         "multiplier '%s': significands: needs a table of "
                         "integers of %d bits or more",
                         from->name, from->is_signed ? 3 : 2);
    struct multiplier *to = multiplier_new(MULTIPLIER_FLOAT, m);
    if (!to)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int a = 0; a < one; a++)
        for (int b = 0; b < one; b++)
            to->table[a << m | b] =
                entry_of(from->table[(one + a) << from->bits | (one + b)], m);
    memcpy(to->name, from->name, sizeof to->name);
    to->form = from->form;
    multiplier_seal(to);
    *out = to;
    return 0;
}
