/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the factors of a table of products, and checks them against every
 * entry. */
#include "kernels/table/product_factors.h"

#include <stdlib.h>

/* A table as whole numbers: significands' products times 2^23, in rows of
 * either operand; and what was found so far. */
struct search {
    int m, side, rank;
    const uint32_t *table;
    int64_t row, column;  /* strides: of the operand of rows, of the other */
    int64_t *basis;       /* [MOST][side], primitive vectors */
    int64_t *coefficient; /* [side][MOST] */
    int64_t *work;        /* [side] */
};

static int64_t entry_at(const struct search *s, int a, int b)
{
    const uint32_t entry = s->table[a * s->row + b * s->column];
    const int64_t fraction = entry & PRODUCT_TABLE_FRACTION;
    const int64_t one = INT64_C(1) << 23;

    return entry >> 23 ? 2 * (one + fraction) : one + fraction;
}

static int64_t divisor_of(int64_t a, int64_t b)
{
    a = a < 0 ? -a : a;
    b = b < 0 ? -b : b;
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Divides a vector by the largest number that leaves whole numbers, with the
 * sign of its first element that is not 0; returns that number, 0 for zeros. */
static int64_t make_primitive(int n, int64_t *v)
{
    int64_t divisor = 0, sign = 0;

    for (int i = 0; i < n; i++) {
        divisor = divisor_of(divisor, v[i]);
        if (sign == 0 && v[i] != 0)
            sign = v[i] < 0 ? -1 : 1;
    }
    divisor *= sign;
    for (int i = 0; i < n && divisor != 0; i++)
        v[i] /= divisor;
    return divisor;
}

/* The number of the basis vector that s->work is, which may be added; -1: there
 * are too many. */
static int basis_of(struct search *s)
{
    for (int i = 0; i < s->rank; i++) {
        const int64_t *v = s->basis + (int64_t)i * s->side;
        int b = 0;
        while (b < s->side && v[b] == s->work[b])
            b++;
        if (b == s->side)
            return i;
    }
    if (s->rank == PRODUCT_FACTORS_MOST)
        return -1;
    for (int b = 0; b < s->side; b++)
        s->basis[(int64_t)s->rank * s->side + b] = s->work[b];
    return s->rank++;
}

static void begin(struct search *s)
{
    s->rank = 0;
    for (int64_t i = 0; i < (int64_t)s->side * PRODUCT_FACTORS_MOST; i++)
        s->coefficient[i] = 0;
}

/* Every row is a multiple of a basis vector. */
static bool by_classes(struct search *s)
{
    begin(s);
    for (int a = 0; a < s->side; a++) {
        for (int b = 0; b < s->side; b++)
            s->work[b] = entry_at(s, a, b);
        const int64_t times = make_primitive(s->side, s->work);
        const int i = basis_of(s);
        if (i < 0)
            return false;
        s->coefficient[(int64_t)a * PRODUCT_FACTORS_MOST + i] = times;
    }
    return true;
}

/* Every row is row 0 and a vector for each bit of its index that is set. */
static bool by_bits(struct search *s)
{
    begin(s);
    for (int bit = -1; bit < s->m; bit++) {
        for (int b = 0; b < s->side; b++)
            s->work[b] = bit < 0 ? entry_at(s, 0, b)
                                 : entry_at(s, 1 << bit, b) - entry_at(s, 0, b);
        const int64_t times = make_primitive(s->side, s->work);
        const int i = times == 0 ? 0 : basis_of(s);
        if (i < 0)
            return false;
        for (int a = 0; a < s->side; a++)
            if (bit < 0 || a >> bit & 1)
                s->coefficient[(int64_t)a * PRODUCT_FACTORS_MOST + i] += times;
    }
    return true;
}

/* Whether BF16 holds v 2^-shift, and its bit pattern. */
static bool to_bf16(int64_t v, int shift, uint16_t *out)
{
    const uint32_t sign = v < 0 ? 0x8000 : 0;
    uint64_t rest = (uint64_t)(v < 0 ? -v : v);
    int exponent = 127 + 7 - shift; /* of rest from 128 to 255 */

    *out = (uint16_t)sign;
    if (rest == 0)
        return true;
    for (; rest >= 256; rest >>= 1, exponent++)
        if (rest & 1)
            return false;
    for (; rest < 128; rest <<= 1)
        exponent--;
    *out = (uint16_t)(sign | (uint32_t)exponent << 7 | (rest & 127));
    return exponent > 0 && exponent < 255;
}

/* Powers of two are moved from the vectors to the coefficients, so that the
 * largest element of a vector is from 1 to less than 2. */
static int scale_of(const struct search *s, int i)
{
    int64_t most = 0;
    int shift = 0;

    for (int b = 0; b < s->side; b++) {
        const int64_t v = s->basis[(int64_t)i * s->side + b];
        most = v > most ? v : -v > most ? -v : most;
    }
    while (most >> shift > 1)
        shift++;
    return shift;
}

/* Writes the factors, if BF16 holds them and they give the table. */
static bool write_factors(const struct search *s, uint16_t *row,
                          uint16_t *column)
{
    for (int i = 0; i < s->rank; i++) {
        const int shift = scale_of(s, i);
        for (int a = 0; a < s->side; a++) {
            const int at = a * s->rank + i;
            if (!to_bf16(s->coefficient[(int64_t)a * PRODUCT_FACTORS_MOST + i],
                         23 - shift, row + at) ||
                !to_bf16(s->basis[(int64_t)i * s->side + a], shift,
                         column + at))
                return false;
        }
    }
    return true;
}

static bool is_table(const struct search *s)
{
    for (int a = 0; a < s->side; a++)
        for (int b = 0; b < s->side; b++) {
            int64_t sum = 0;
            for (int i = 0; i < s->rank; i++)
                sum += s->coefficient[(int64_t)a * PRODUCT_FACTORS_MOST + i] *
                       s->basis[(int64_t)i * s->side + b];
            if (sum != entry_at(s, a, b))
                return false;
        }
    return true;
}

/* Takes what one way found, if it is right and better than the best so far. */
static int take(struct search *s, bool found, bool swapped, int best,
                uint16_t *work, uint16_t *factors)
{
    const size_t half = (size_t)s->side * (size_t)s->rank;

    if (!found || (best > 0 && s->rank >= best) || !is_table(s) ||
        !write_factors(s, work + (swapped ? half : 0),
                       work + (swapped ? 0 : half)))
        return best;
    memcpy(factors, work, 2 * half * sizeof *work);
    return s->rank;
}

int product_factors_find(const uint32_t *table, int64_t row, int64_t column,
                         int m, uint16_t *factors)
{
    const size_t side = (size_t)1 << m, most = PRODUCT_FACTORS_MOST;
    struct search s = {.m = m, .side = (int)side, .table = table};
    uint16_t *work = malloc(2 * side * most * sizeof *work);
    int best = 0;

    s.basis = malloc(side * most * sizeof *s.basis);
    s.coefficient = malloc(side * most * sizeof *s.coefficient);
    s.work = malloc(side * sizeof *s.work);
    if (!work || !s.basis || !s.coefficient || !s.work)
        best = INFER_EMEMORY;
    for (int swapped = 0; swapped < 2 && best >= 0; swapped++) {
        s.row = swapped ? column : row;
        s.column = swapped ? row : column;
        best = take(&s, by_classes(&s), swapped, best, work, factors);
        best = take(&s, by_bits(&s), swapped, best, work, factors);
    }
    free(work);
    free(s.basis);
    free(s.coefficient);
    free(s.work);
    return best;
}
