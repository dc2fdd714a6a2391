/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of products as data: of any entries, and of the forms that kernels
 * compute without a table. */
#include <math.h>
#include <string.h>

#include "kernels/base/product_table.h"
#include "kernels/base/scalar.h"
#include "kernels/op.h"
#include "kernels/table/product_factors.h"
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

/* ---- factors ------------------------------------------------------- */

/* Factors of one operand pair's table: u and v by operand and number. */
struct factor_draw {
    int side, rank;
    double *u, *v;
};

/* One for each row, the entries beside it: any entries of 8 bits. */
static void draw_one_hot(enum pass pass, struct rng *rng, struct factor_draw *d)
{
    for (int a = 0; a < d->side; a++)
        for (int b = 0; b < d->side; b++) {
            const uint32_t entry = any_entry(pass, rng, a + b, 8);
            const double fraction =
                1 + (double)(entry & PRODUCT_TABLE_FRACTION) / (1 << 23);
            d->u[a * d->rank + b] = a == b;
            d->v[b * d->rank + a] = entry >> 23 ? 2 * fraction : fraction;
        }
}

/* The first factor has the product of two significands from 1 to 1.5; the
 * others add up to less than 3 / 4, the i-th one only where u's index has it.
 * Integers: 1 and, of other operands than powers of two, 1/2 by the one factor
 * that the index has. */
static void draw_sum(enum pass pass, struct rng *rng, struct factor_draw *d)
{
    const bool whole = pass != PASS_REAL;

    for (int a = 0; a < d->side; a++) {
        const int own = (int)rng_range(rng, 1, d->rank);
        for (int i = 0; i < d->rank; i++) {
            double *u = &d->u[a * d->rank + i], *v = &d->v[a * d->rank + i];
            if (i == 0) {
                *u = 1 + (whole ? 0 : (double)rng_range(rng, 0, 64) / 128);
                *v = 1 + (whole ? 0 : (double)rng_range(rng, 0, 64) / 128);
            } else if (whole) {
                *u = a > 0 && own == i ? 0.5 : 0;
                *v = (double)rng_range(rng, 0, 1);
            } else {
                *u = rng_chance(rng, 60) ? ldexp(1, -i) : 0;
                *v = (double)rng_range(rng, 0, 12) / 16;
            }
        }
    }
    /* The exact product. */
    if (d->rank == 1 && d->side <= 128)
        for (int a = 0; a < d->side; a++)
            d->u[a] = d->v[a] = 1 + (double)a / d->side;
}

void data_fill_factors(const struct kern_problem *p, enum pass pass,
                       struct rng *rng, uint32_t *entry, uint16_t *factors)
{
    const struct kern_tensor *t = product_factors_of(p);
    const int side = (int)t->dim[1], rank = (int)t->dim[2];
    double u[512 * PRODUCT_FACTORS_MOST], v[512 * PRODUCT_FACTORS_MOST];
    struct factor_draw d = {side, rank, u, v};

    if (rank == side)
        draw_one_hot(pass, rng, &d);
    else
        draw_sum(pass, rng, &d);
    for (int64_t i = 0; i < (int64_t)side * rank; i++) {
        scalar_store(INFER_BF16, factors, i, u[i]);
        scalar_store(INFER_BF16, factors, (int64_t)side * rank + i, v[i]);
    }
    for (int a = 0; a < side; a++)
        for (int b = 0; b < side; b++) {
            double product = 0;
            for (int i = 0; i < rank; i++)
                product += u[a * rank + i] * v[b * rank + i];
            entry[(int64_t)a * side + b] = entry_of(product, 23);
        }
}
