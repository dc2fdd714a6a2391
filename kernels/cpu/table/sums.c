/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of a block's terms: of floats, by an accumulator, by
 * derivatives, of codes. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "kernels/base/product_table.h"
#include "kernels/cpu/table/layer.h"
#include "kernels/table/product_slope.h"

/* A second operand b, finite and not zero.  An entry plus the first exponent
 * fits into 31 bits; low and most are the limits of that sum beyond which the
 * product is zero or infinity. */
struct second {
    uint32_t b, base;
    int32_t low, most;
};

CPU_INLINE struct second second_of(uint32_t b)
{
    const int64_t eb = b & PRODUCT_TABLE_EXPONENT;
    const int64_t over = ((INT64_C(127) + 255) << 23) - eb - 1;

    return (struct second){.b = b,
                           .base = (uint32_t)eb - (UINT32_C(127) << 23),
                           .low = (int32_t)((INT64_C(128) << 23) - eb),
                           .most =
                               over < INT32_MAX ? (int32_t)over : INT32_MAX};
}

/* The product of a, which is finite, whose entry is given. */
CPU_INLINE uint32_t product_of(const struct second *s, uint32_t a,
                               uint32_t entry)
{
    const uint32_t ea = a & PRODUCT_TABLE_EXPONENT;
    const int32_t t = (int32_t)(ea + entry);
    uint32_t bits = (uint32_t)t + s->base;

    bits = t > s->most ? PRODUCT_TABLE_EXPONENT : bits;
    bits = t < s->low ? 0 : bits;
    bits = ea == 0 ? 0 : bits;
    return bits | ((a ^ s->b) & PRODUCT_TABLE_SIGN);
}

/* sum[j] += v[j] times b by the row of b; all are finite, b is not zero. */
CPU_INLINE void add_line(const uint32_t *restrict row, int shift, uint32_t b,
                         const uint32_t *restrict v, float *restrict sum)
{
    const struct second s = second_of(b);

#pragma omp simd
    for (int j = 0; j < TABLE_COLUMNS; j++)
        sum[j] += float_of_bits(product_of(
            &s, v[j], row[(v[j] & PRODUCT_TABLE_FRACTION) >> shift]));
}

/* The same for any operands; columns that are not inside have no product. */
static void add_odd_line(const uint32_t *row, int shift, uint32_t b,
                         const uint32_t *v, uint64_t inside, float *sum)
{
    for (int j = 0; j < TABLE_COLUMNS; j++)
        if (inside >> j & 1)
            sum[j] += float_of_bits(product_table_join(
                v[j], b, row[(v[j] & PRODUCT_TABLE_FRACTION) >> shift]));
}

CPU_CLONES static void add_lines(const uint32_t *table, int bits,
                                 struct table_block *b, int64_t terms)
{
    const int shift = 23 - bits;

    for (int64_t i = 0; i < b->scalars; i++) {
        float sum[TABLE_COLUMNS] = {0};
        for (int64_t t = 0; t < terms; t++) {
            const uint32_t s = b->scalar[i][t];
            const uint32_t exponent = s & PRODUCT_TABLE_EXPONENT;
            const uint32_t *row =
                table +
                ((size_t)((s & PRODUCT_TABLE_FRACTION) >> shift) << bits);
            if (b->odd[t] || exponent == PRODUCT_TABLE_EXPONENT)
                add_odd_line(row, shift, s, b->line[t], b->inside[t], sum);
            else if (exponent != 0)
                add_line(row, shift, s, b->line[t], sum);
        }
#pragma omp simd
        for (int j = 0; j < TABLE_COLUMNS; j++)
            b->total[i][j] += sum[j];
    }
}

/* The same by an accumulator; sums are bit patterns. */
CPU_INLINE void accumulate_line(int kind, int lower,
                                const uint32_t *restrict row, int shift,
                                uint32_t b, const uint32_t *restrict v,
                                uint32_t *restrict sum)
{
    const struct second s = second_of(b);

#pragma omp simd
    for (int j = 0; j < TABLE_COLUMNS; j++)
        sum[j] = accumulator_add(
            kind, lower, sum[j],
            product_of(&s, v[j],
                       row[(v[j] & PRODUCT_TABLE_FRACTION) >> shift]));
}

static void accumulate_odd_line(const int32_t *accumulator, const uint32_t *row,
                                int shift, uint32_t b, const uint32_t *v,
                                uint64_t inside, uint32_t *sum)
{
    for (int j = 0; j < TABLE_COLUMNS; j++)
        if (inside >> j & 1)
            sum[j] = accumulator_add(
                accumulator[0], accumulator[1], sum[j],
                product_table_join(
                    v[j], b, row[(v[j] & PRODUCT_TABLE_FRACTION) >> shift]));
}

/* Adds the sums of `terms` terms, a chunk, to the runs; last: of their run. */
CPU_CLONES static void accumulate_lines(const struct table_job *j,
                                        struct table_block *b, int64_t terms,
                                        bool last)
{
    const int shift = 23 - j->bits;
    const int kind = j->accumulator[0], lower = j->accumulator[1];

    for (int64_t i = 0; i < b->scalars; i++) {
        uint32_t sum[TABLE_COLUMNS] = {0};
        for (int64_t t = 0; t < terms; t++) {
            const uint32_t s = b->scalar[i][t];
            const uint32_t exponent = s & PRODUCT_TABLE_EXPONENT;
            const uint32_t *row =
                j->table +
                ((size_t)((s & PRODUCT_TABLE_FRACTION) >> shift) << j->bits);
            if (b->odd[t] || exponent == PRODUCT_TABLE_EXPONENT)
                accumulate_odd_line(j->accumulator, row, shift, s, b->line[t],
                                    b->inside[t], sum);
            else if (exponent != 0 && kind == ACCUMULATOR_FP32)
                accumulate_line(ACCUMULATOR_FP32, 0, row, shift, s, b->line[t],
                                sum);
            else if (exponent != 0 && kind == ACCUMULATOR_BF16)
                accumulate_line(ACCUMULATOR_BF16, 0, row, shift, s, b->line[t],
                                sum);
            else if (exponent != 0)
                accumulate_line(ACCUMULATOR_LOA, lower, row, shift, s,
                                b->line[t], sum);
        }
        for (int c = 0; c < TABLE_COLUMNS; c++) {
            b->run[i][c] = accumulator_add(kind, lower, b->run[i][c], sum[c]);
            if (!last)
                continue;
            b->total[i][c] = float_of_bits(accumulator_add(
                kind, lower, float_bits(b->total[i][c]), b->run[i][c]));
            b->run[i][c] = 0;
        }
    }
}

/* sum[j] += v[j] times the derivative by the scalar b, whose row is given, at
 * the points of the indices o. */
CPU_INLINE void add_slopes_of_scalar(const float *restrict row, uint32_t b,
                                     const uint32_t *restrict v,
                                     const uint32_t *restrict o,
                                     float *restrict sum)
{
    const float scale = float_of_bits(b & ~PRODUCT_TABLE_FRACTION);

#pragma omp simd
    for (int j = 0; j < TABLE_COLUMNS; j++)
        sum[j] += float_of_bits(v[j]) * (row[o[j]] * scale);
}

/* sum[j] += the scalar b times the derivative by v[j]. */
CPU_INLINE void add_slopes_of_line(const float *restrict table, int bits,
                                   uint32_t b, const uint32_t *restrict v,
                                   const uint32_t *restrict o,
                                   float *restrict sum)
{
    const float g = float_of_bits(b);

#pragma omp simd
    for (int j = 0; j < TABLE_COLUMNS; j++) {
        const uint32_t q = (v[j] & PRODUCT_TABLE_FRACTION) >> (23 - bits);
        sum[j] += g * (table[q << bits | o[j]] *
                       float_of_bits(v[j] & ~PRODUCT_TABLE_FRACTION));
    }
}

/* Either for any operands. */
static void add_odd_slopes(const struct table_job *j, uint32_t b,
                           const uint32_t *v, const uint32_t *o,
                           uint64_t inside, float *sum)
{
    for (int k = 0; k < TABLE_COLUMNS; k++) {
        const uint32_t g = j->gradient ? b : v[k], q = j->gradient ? v[k] : b;
        if (inside >> k & 1)
            sum[k] += float_of_bits(g) *
                      product_slope(
                          j->slopes[product_table_index(j->bits, q) << j->bits |
                                    o[k]],
                          q);
    }
}

/* Indices of the points of scalar i. */
static void find_points(const struct table_job *j, const struct table_block *b,
                        int64_t i, uint32_t *o)
{
    const uint32_t *point = j->args->in[product_point_in(j->p)];
    const int64_t k = b->group * j->scalars + b->first_scalar + i;
    const int64_t at = k * j->point->stride[!table_is_wgrad(j)];

    for (int64_t c = 0; c < TABLE_COLUMNS; c++)
        o[c] =
            c < b->columns
                ? product_table_index(j->bits, point[at + b->column[c].point])
                : 0;
}

/* The sums of one scalar; odd: any operands and derivatives, else those of
 * lines that are not odd have finite ones. */
CPU_INLINE void sum_slopes(const struct table_job *j,
                           const struct table_block *b, int64_t i,
                           int64_t terms, bool odd, const uint32_t *o,
                           float *sum)
{
    memset(sum, 0, TABLE_COLUMNS * sizeof *sum);
    for (int64_t t = 0; t < terms; t++) {
        const uint32_t s = b->scalar[i][t];
        if (odd || b->odd[t] ||
            (s & PRODUCT_TABLE_EXPONENT) == PRODUCT_TABLE_EXPONENT)
            add_odd_slopes(j, s, b->line[t], o, b->inside[t], sum);
        else if (j->gradient)
            add_slopes_of_line(j->slopes, j->bits, s, b->line[t], o, sum);
        else
            add_slopes_of_scalar(
                j->slopes +
                    ((size_t)product_table_index(j->bits, s) << j->bits),
                s, b->line[t], o, sum);
    }
}

/* A derivative that is infinite makes NaN of padding, which is no product: such
 * sums are taken again. */
CPU_CLONES static void add_slopes(const struct table_job *j,
                                  struct table_block *b, int64_t terms)
{
    for (int64_t i = 0; i < b->scalars; i++) {
        uint32_t o[TABLE_COLUMNS];
        float sum[TABLE_COLUMNS];
        bool nan = false;
        find_points(j, b, i, o);
        sum_slopes(j, b, i, terms, false, o, sum);
        for (int k = 0; k < TABLE_COLUMNS; k++)
            nan = nan || isnan(sum[k]);
        if (nan)
            sum_slopes(j, b, i, terms, true, o, sum);
#pragma omp simd
        for (int k = 0; k < TABLE_COLUMNS; k++)
            b->total[i][k] += sum[k];
    }
}

/* The same of integers. */
CPU_CLONES static void add_codes(const int32_t *table, struct table_block *b,
                                 int64_t terms)
{
    for (int64_t i = 0; i < b->scalars; i++) {
        int32_t sum[TABLE_COLUMNS] = {0};
        for (int64_t t = 0; t < terms; t++) {
            const int32_t *row =
                table + (size_t)b->scalar[i][t] * TABLE_CODE_ROW;
            const uint32_t *line = b->line[t];
#pragma omp simd
            for (int j = 0; j < TABLE_COLUMNS; j++)
                sum[j] += row[line[j]];
        }
        for (int j = 0; j < TABLE_COLUMNS; j++)
            b->whole[i][j] += sum[j];
    }
}

void table_add(const struct table_job *j, struct table_block *b, int64_t first,
               int64_t terms)
{
    const int64_t end = first + terms;

    if (j->codes)
        add_codes(j->codes, b, terms);
    else if (j->slopes)
        add_slopes(j, b, terms);
    else if (j->accumulator)
        accumulate_lines(j, b, terms,
                         end == j->terms || end % ACCUMULATOR_RUN == 0);
    else
        add_lines(j->table, j->bits, b, terms);
}
