/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of products as data: of any entries, and of the forms that kernels
 * compute without a table. */
#include <math.h>
#include <string.h>

#include "kernels/base/product_table.h"
#include "kernels/op.h"
#include "tools/verify/verify.h"

enum form {
    ANY,     /* entries of 8, 16 or 24 bits */
    PRODUCT, /* the exact product, cut to some bits */
    SUM,     /* the sum of the fractions (Mitchell) */
    SUM_ADD, /* the same and a constant, where that is below 4 (MBM) */
    FORMS
};

/* In the passes on integers fractions are 0 or 1/2, and the first entry, of
 * powers of two, has none, so that products of integers are integers. */
static uint32_t any_entry(enum pass pass, struct rng *rng, int64_t at, int bits)
{
    const uint32_t any = (uint32_t)rng_range(rng, 0, (1 << 24) - 1);

    if (pass == PASS_REAL)
        return any >> (24 - bits) << (24 - bits);
    return at == 0 ? any & UINT32_C(1) << 23 : any & UINT32_C(3) << 22;
}

/* The entry of a product of significands, from 1 to less than 4. */
static uint32_t entry_of(double product, int bits)
{
    const double fraction = product < 2 ? product - 1 : product / 2 - 1;
    const uint32_t whole = (uint32_t)(fraction * (1 << 23));

    return (product < 2 ? 0 : UINT32_C(1) << 23) |
           (whole >> (23 - bits) << (23 - bits));
}

static uint32_t form_entry(enum form form, double x, double y, int bits,
                           double add)
{
    const double sum = x + y < 1 ? 1 + x + y : 2 * (x + y);

    if (form == PRODUCT)
        return entry_of((1 + x) * (1 + y), bits);
    if (form == SUM)
        return entry_of(sum, 23);
    return entry_of(sum + add < 4 ? sum + add : sum, 23);
}

void data_fill_table(enum pass pass, struct rng *rng, int64_t count,
                     uint32_t *entry)
{
    const int64_t side = (int64_t)sqrt((double)count);
    const enum form form =
        rng_chance(rng, 40)
            ? ANY
            : (enum form)rng_range(rng, 0, pass == PASS_REAL ? FORMS - 1 : SUM);
    /* A product of integers that is cut need not be an integer. */
    const int cut = pass == PASS_REAL ? (int)rng_range(rng, 0, 23) : 23;
    const int bits = 8 * (int)rng_range(rng, 1, 3);
    const double add = (double)rng_range(rng, 1, 63) / 128;

    for (int64_t at = 0; at < count; at++)
        entry[at] =
            form == ANY
                ? any_entry(pass, rng, at, bits)
                : form_entry(form, (double)(at / side) / (double)side,
                             (double)(at % side) / (double)side, cut, add);
}
