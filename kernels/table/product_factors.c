/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the factors of a table of products, and checks them against every
 * entry. */
#include "kernels/table/product_factors.h"

#include <stdlib.h>
#include <string.h>

/* A sum of two elements of 8 significant bits has 16. */
#define PART_BITS 8

/* Partial sums of a product's terms are whole multiples of its least bit below
 * 2^SUM_BITS, which tensor cores add exactly. */
#define SUM_BITS 22

/* A table as whole numbers: significands' products times 2^23, in rows of
 * either operand; and what was found so far.  Vector i of the basis times
 * coefficient [a][i], added over i, is row a. */
struct search {
    int m, side, rank;
    const uint32_t *table;
    int64_t row, column;  /* strides: of the operand of rows, of the other */
    bool exact;           /* the first vector gives the exact product */
    bool sets;            /* vectors are of sets of bits, not of rows */
    int64_t *basis;       /* [MOST][side], primitive vectors */
    int64_t *coefficient; /* [side][MOST] */
    int64_t *rows;        /* [side][side], by index or of sets */
    int64_t *work;        /* [side] */
};

/* Elements of a vector, or coefficients, as sums of `count` parts; the second
 * has the bits below `cut`. */
struct split {
    int count, cut;
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

/* The number of the basis vector that v is, which may be added; -1: there are
 * too many. */
static int basis_of(struct search *s, const int64_t *v)
{
    const size_t bytes = (size_t)s->side * sizeof *v;

    for (int i = 0; i < s->rank; i++)
        if (memcmp(s->basis + (int64_t)i * s->side, v, bytes) == 0)
            return i;
    if (s->rank == PRODUCT_FACTORS_MOST)
        return -1;
    memcpy(s->basis + (int64_t)s->rank * s->side, v, bytes);
    return s->rank++;
}

/* Begins with no vector, or with that of the exact product. */
static void begin(struct search *s)
{
    s->rank = s->exact ? 1 : 0;
    memset(s->coefficient, 0,
           (size_t)s->side * PRODUCT_FACTORS_MOST * sizeof *s->coefficient);
    for (int a = 0; a < s->side && s->exact; a++) {
        s->basis[a] = s->side + a;
        s->coefficient[(int64_t)a * PRODUCT_FACTORS_MOST] =
            (int64_t)(s->side + a) << (23 - 2 * s->m);
    }
}

/* Row a, less the exact product if that has a vector. */
static void read_row(const struct search *s, int a, int64_t *row)
{
    const int64_t times =
        s->exact ? s->coefficient[(int64_t)a * PRODUCT_FACTORS_MOST] : 0;

    for (int b = 0; b < s->side; b++)
        row[b] = entry_at(s, a, b) - times * (s->side + b);
}

static void subtract_row(const struct search *s, int a, int from)
{
    int64_t *to = s->rows + (int64_t)a * s->side;
    const int64_t *v = s->rows + (int64_t)from * s->side;

    for (int b = 0; b < s->side; b++)
        to[b] -= v[b];
}

/* Rows first to end - 1, whose highest bit is the same one or none, all below
 * being there: those by index, or of sets of bits, such that a row by index is
 * the sum of those of all sets in it. */
static void make_rows(const struct search *s, int first, int end)
{
    for (int a = first; a < end; a++)
        read_row(s, a, s->rows + (int64_t)a * s->side);
    if (!s->sets)
        return;
    for (int bit = 1; bit < end - first; bit *= 2)
        for (int a = first; a < end; a++)
            if (a & bit)
                subtract_row(s, a, a - bit);
    for (int a = first; a < end && first > 0; a++)
        subtract_row(s, a, a - first);
}

/* Takes the vector of a row, which is that of an index or of a set of bits;
 * false if there are too many. */
static bool take_row(struct search *s, int at)
{
    memcpy(s->work, s->rows + (int64_t)at * s->side,
           (size_t)s->side * sizeof *s->work);
    const int64_t times = make_primitive(s->side, s->work);
    const int i = times == 0 ? 0 : basis_of(s, s->work);

    for (int a = at; times != 0 && i >= 0 && a < s->side; a++)
        if (s->sets ? (a & at) == at : a == at)
            s->coefficient[(int64_t)a * PRODUCT_FACTORS_MOST + i] += times;
    return i >= 0;
}

/* Finds vectors such that every row, or that of every set, is a multiple of
 * one. */
static bool find_vectors(struct search *s)
{
    begin(s);
    for (int first = 0, end = 1; first < s->side; first = end, end *= 2) {
        make_rows(s, first, end);
        for (int a = first; a < end; a++)
            if (!take_row(s, a))
                return false;
    }
    return s->rank > 0;
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

/* Elements of a vector, v[0], v[step] ... */
static int64_t largest_of(int n, const int64_t *v, int step)
{
    int64_t most = 0;

    for (int i = 0; i < n; i++) {
        const int64_t at = v[(int64_t)i * step];
        most = at > most ? at : -at > most ? -at : most;
    }
    return most;
}

/* How BF16 holds the elements: as they are, or as sums of two; count 0: it does
 * not. */
static struct split split_of(int n, const int64_t *v, int step)
{
    const int64_t most = largest_of(n, v, step);
    int64_t all = 0;
    struct split s = {1, 0};
    int low = 0, bits = 0;
    uint16_t ignored;

    for (int i = 0; i < n; i++) {
        if (!to_bf16(v[(int64_t)i * step], 0, &ignored))
            s.count = 2;
        all |= v[(int64_t)i * step];
    }
    if (s.count == 1)
        return s;
    while (!(all >> low & 1))
        low++;
    while (most >> bits > 0)
        bits++;
    s.cut = bits - PART_BITS;
    return s.cut - low <= PART_BITS ? s : (struct split){0, 0};
}

static int64_t part_of(int64_t v, struct split s, int part)
{
    const int64_t low = (int64_t)((uint64_t)v & ((UINT64_C(1) << s.cut) - 1));

    return part ? low : v - low;
}

/* Powers of two are moved from the vectors to the coefficients, so that the
 * largest element of a vector is from 1 to less than 2. */
static int scale_of(const struct search *s, int i)
{
    const int64_t most =
        largest_of(s->side, s->basis + (int64_t)i * s->side, 1);
    int shift = 0;

    while (most >> shift > 1)
        shift++;
    return shift;
}

/* How the coefficients of each vector, [i][0], and its elements, [i][1], are
 * held; returns the number of factors, 0: BF16 does not hold them. */
static int split_all(const struct search *s,
                     struct split (*split)[PRODUCT_FACTORS_MOST][2])
{
    int rank = 0;

    for (int i = 0; i < s->rank; i++) {
        struct split *at = (*split)[i];
        at[0] = split_of(s->side, s->coefficient + i, PRODUCT_FACTORS_MOST);
        at[1] = split_of(s->side, s->basis + (int64_t)i * s->side, 1);
        if (at[0].count == 0 || at[1].count == 0)
            return 0;
        rank += at[0].count * at[1].count;
    }
    return rank;
}

/* Whether the terms of a product give the entry, and any sum of some of them is
 * exact. */
static bool is_entry(const struct search *s,
                     struct split (*split)[PRODUCT_FACTORS_MOST][2], int a,
                     int b)
{
    int64_t sum = 0, size = 0, all = 0;

    for (int i = 0; i < s->rank; i++)
        for (int u = 0; u < (*split)[i][0].count; u++)
            for (int v = 0; v < (*split)[i][1].count; v++) {
                const int64_t term =
                    part_of(
                        s->coefficient[(int64_t)a * PRODUCT_FACTORS_MOST + i],
                        (*split)[i][0], u) *
                    part_of(s->basis[(int64_t)i * s->side + b], (*split)[i][1],
                            v);
                sum += term;
                size += term < 0 ? -term : term;
                all |= term;
            }
    return sum == entry_at(s, a, b) && size / (all & -all) >> SUM_BITS == 0;
}

static bool is_table(const struct search *s,
                     struct split (*split)[PRODUCT_FACTORS_MOST][2])
{
    for (int a = 0; a < s->side; a++)
        for (int b = 0; b < s->side; b++)
            if (!is_entry(s, split, a, b))
                return false;
    return true;
}

/* Writes the factors of vector i, the first of which is number `at` of rank. */
static bool write_vector(const struct search *s, int i,
                         const struct split *split, int rank, int at,
                         uint16_t *row, uint16_t *column)
{
    const int shift = scale_of(s, i);
    bool held = true;

    for (int u = 0; u < split[0].count; u++)
        for (int v = 0; v < split[1].count; v++, at++)
            for (int a = 0; a < s->side; a++)
                held =
                    to_bf16(
                        part_of(
                            s->coefficient[(int64_t)a * PRODUCT_FACTORS_MOST +
                                           i],
                            split[0], u),
                        23 - shift, row + a * rank + at) &&
                    to_bf16(part_of(s->basis[(int64_t)i * s->side + a],
                                    split[1], v),
                            shift, column + a * rank + at) &&
                    held;
    return held;
}

/* Takes what was found, if it is right and better than the best so far. */
static int take(struct search *s, bool swapped, int best, uint16_t *work,
                uint16_t *factors)
{
    struct split split[PRODUCT_FACTORS_MOST][2];
    const int rank = find_vectors(s) ? split_all(s, &split) : 0;
    const size_t half = (size_t)s->side * (size_t)rank;

    if (rank == 0 || rank > PRODUCT_FACTORS_MOST ||
        (best > 0 && rank >= best) || !is_table(s, &split))
        return best;
    for (int i = 0, at = 0; i < s->rank; i++) {
        if (!write_vector(s, i, split[i], rank, at, work + (swapped ? half : 0),
                          work + (swapped ? 0 : half)))
            return best;
        at += split[i][0].count * split[i][1].count;
    }
    memcpy(factors, work, 2 * half * sizeof *work);
    return rank;
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
    s.rows = malloc(side * side * sizeof *s.rows);
    s.work = malloc(side * sizeof *s.work);
    if (!work || !s.basis || !s.coefficient || !s.rows || !s.work)
        best = INFER_EMEMORY;
    for (int way = 0; way < 8 && best >= 0 && best != 1; way++) {
        const bool swapped = way & 1;
        s.row = swapped ? column : row;
        s.column = swapped ? row : column;
        s.sets = way & 2;
        s.exact = way & 4;
        best = take(&s, swapped, best, work, factors);
    }
    free(work);
    free(s.basis);
    free(s.coefficient);
    free(s.rows);
    free(s.work);
    return best;
}
