/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions, their gradients and dense layers whose products come from a
 * table (PRODUCT_TABLE_IN, kernels/problem.h).
 *
 * All four are sums over terms of one element of in[0] times one of in[1]:
 *
 *                 columns            terms              scalars
 *     fprop       pixels of y        channels x taps    channels of y
 *     transposed  pixels of y        channels x taps    channels of y
 *     wgrad       channels x taps    pixels of dy       channels of dy
 *     dense       rows of x          columns of x       columns of y
 *
 * A task has 64 columns and up to 32 scalars of one group.  It collects 64
 * terms of in[0] as lines of 64 columns and adds each line times each scalar of
 * in[1].  The scalar chooses a row of the table, which lies in the first-level
 * cache (512 bytes for 7 bits), so that the table is kept with the second
 * operand outermost.  The sums of 64 terms are in single precision, and so is
 * their total.  Tasks do not depend on the number of threads, nor do the bits.
 *
 * Gradients by derivatives (kernels/table/product_slope.h) go the same way;
 * their table is kept with the operand q outermost, and a scalar and a column
 * together have one operand that the derivatives are taken at.
 *
 * With an accumulator (kernels/table/accumulator.h) terms have its order, taps
 * first and their channels innermost; its chunks are the 64 terms.
 *
 * Layers on integers of 8 bits (kernels/quant/quant.h) go the same way.  Lines
 * and scalars are codes, and the table, made anew for each run, holds
 * (x - x_zero) w + error: a row of 256 products a weight, then 0 for padding.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/product_table.h"
#include "kernels/cpu/conv/dot_layer.h"
#include "kernels/quant/act.h"
#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"
#include "kernels/table/accumulator.h"
#include "kernels/table/product_slope.h"

#define COLUMNS 64
#define SCALARS 32
#define TERMS   ACCUMULATOR_CHUNK
/* Entries of a row of products of codes, and the one for padding. */
#define CODE_ROW 272
#define OUTSIDE  256

/* in[] of a forward problem, and of a gradient of weights. */
enum { X, W, BIAS, DY = 1 };

/* A pixel or a tap of one channel.  An element of in[0] is that of one pixel
 * and one tap: at the sum of their bases and of what is_inside() adds. */
struct place {
    int64_t base, at[3];
    int64_t scalar; /* its element of in[1] but for the scalar's channel */
    /* Of the output, the residual and the point of derivatives. */
    int64_t out, add, point;
};

struct job {
    const struct kern_problem *p;
    const struct kern_args *args;
    /* [in[1]'s index][in[0]'s index]; of derivatives, instead, slopes:
     * [q's index][the point's index]. */
    uint32_t *table;
    float *slopes;
    int gradient;   /* of derivatives: which of in[] is the gradient */
    int32_t *codes; /* of integers, instead: [256][CODE_ROW] */
    const int32_t *accumulator; /* its kind and parameter, or NULL */
    int bits;
    int spatial;
    int64_t pixels, taps;    /* of one group */
    int64_t columns, terms;  /* the same in their roles */
    int64_t groups, scalars; /* scalars of a group */
    int64_t column_blocks, scalar_blocks;
    const struct kern_tensor *pixel, *residual, *point;
};

/* What a task works on. */
struct block {
    int64_t group, first_column, columns, first_scalar, scalars;
    struct place column[COLUMNS], term[TERMS];
    uint32_t line[TERMS][COLUMNS];   /* elements of in[0] */
    uint64_t inside[TERMS];          /* a bit a column: no padding */
    bool odd[TERMS];                 /* a line has infinity or NaN */
    uint32_t scalar[SCALARS][TERMS]; /* elements of in[1] */
    float total[SCALARS][COLUMNS];
    uint32_t run[SCALARS][COLUMNS];  /* of an accumulator: bit patterns */
    int64_t whole[SCALARS][COLUMNS]; /* the same of integers */
};

/* ---- places -------------------------------------------------------- */

static bool is_wgrad(const struct job *j)
{
    return j->p->op == KERN_CONV_WGRAD;
}

/* Pixel i of y, of dx or of dy, or row i of a dense layer's input. */
static struct place pixel_at(const struct job *j, int64_t i)
{
    const struct kern_problem *p = j->p;
    const struct kern_conv *c = &p->attr.conv;
    const struct kern_tensor *x = &p->in[X], *y = j->pixel, *r = j->residual;
    const struct kern_tensor *o = is_wgrad(j) ? NULL : j->point;
    const bool dense = p->op == KERN_DENSE_FPROP;
    struct place at = {0};

    for (int d = y->rank - (dense ? 2 : 1); d >= 0; d--) {
        const int64_t index = i % y->dim[d];
        if (!dense && d == 1)
            continue;
        i /= y->dim[d];
        at.out += index * y->stride[d];
        at.add += r ? index * r->stride[d] : 0;
        at.point += o ? index * o->stride[d] : 0;
        if (d == 0 || dense)
            at.base += index * x->stride[d];
        else if (p->op == KERN_CONV_TRANSPOSE_FPROP)
            at.at[d - 2] = index + c->pad_begin[d - 2];
        else
            at.at[d - 2] = index * c->stride[d - 2] - c->pad_begin[d - 2];
    }
    at.scalar = at.out;
    return at;
}

/* Channels of a tap, where they are its innermost part. */
static int64_t inner_channels(const struct job *j)
{
    const struct kern_tensor *w = is_wgrad(j) ? &j->p->out[0] : &j->p->in[W];

    return j->p->op == KERN_CONV_TRANSPOSE_FPROP ? w->dim[0] / j->groups
                                                 : w->dim[1];
}

/* Tap i of a group: its channels, each with all of its window; with an
 * accumulator the window, each place with all channels. */
static struct place tap_at(const struct job *j, int64_t group, int64_t i)
{
    const struct kern_problem *p = j->p;
    const struct kern_tensor *w = is_wgrad(j) ? &p->out[0] : &p->in[W];
    const struct kern_tensor *x = &p->in[X], *r = j->residual;
    const struct kern_tensor *o = is_wgrad(j) ? j->point : NULL;
    const bool transposed = p->op == KERN_CONV_TRANSPOSE_FPROP;
    const int channel = transposed ? 0 : 1;
    const int64_t inner = j->accumulator ? inner_channels(j) : 1;
    const int64_t within = i % inner;
    struct place at = {0};

    i /= inner;
    for (int d = w->rank - 1; d >= 2; d--) {
        const int64_t index = i % w->dim[d];
        i /= w->dim[d];
        at.at[d - 2] = index * p->attr.conv.dilation[d - 2];
        at.out += index * w->stride[d];
        at.add += r ? index * r->stride[d] : 0;
        at.point += o ? index * o->stride[d] : 0;
    }
    if (j->accumulator)
        i = within;
    at.out += i * w->stride[channel];
    at.add += r ? i * r->stride[channel] : 0;
    at.point += o ? i * o->stride[channel] : 0;
    if (p->op == KERN_DENSE_FPROP) {
        at.base = i * x->stride[x->rank - 1];
    } else {
        const int64_t channels = x->dim[1] / j->groups;
        at.base = (group * channels + i) * x->stride[1];
        if (transposed)
            at.out += group * channels * w->stride[0];
    }
    at.scalar = at.out;
    return at;
}

/* Whether a pixel and a tap meet inside in[0]; *offset: where. */
CPU_INLINE bool is_inside(const struct job *j, const struct place *pixel,
                          const struct place *tap, int64_t *offset)
{
    const struct kern_tensor *x = &j->p->in[X];
    const struct kern_conv *c = &j->p->attr.conv;
    const bool transposed = j->p->op == KERN_CONV_TRANSPOSE_FPROP;

    *offset = pixel->base + tap->base;
    for (int d = 0; d < j->spatial; d++) {
        int64_t i = pixel->at[d] + tap->at[d];
        if (transposed) {
            i = pixel->at[d] - tap->at[d];
            if (i < 0)
                return false;
            if (c->stride[d] > 1) { /* divisions are slow */
                if (i % c->stride[d])
                    return false;
                i /= c->stride[d];
            }
        }
        if (i < 0 || i >= x->dim[d + 2])
            return false;
        *offset += i * x->stride[d + 2];
    }
    return true;
}

/* ---- sums ---------------------------------------------------------- */

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
    for (int j = 0; j < COLUMNS; j++)
        sum[j] += float_of_bits(product_of(
            &s, v[j], row[(v[j] & PRODUCT_TABLE_FRACTION) >> shift]));
}

/* The same for any operands; columns that are not inside have no product. */
static void add_odd_line(const uint32_t *row, int shift, uint32_t b,
                         const uint32_t *v, uint64_t inside, float *sum)
{
    for (int j = 0; j < COLUMNS; j++)
        if (inside >> j & 1)
            sum[j] += float_of_bits(product_table_join(
                v[j], b, row[(v[j] & PRODUCT_TABLE_FRACTION) >> shift]));
}

CPU_CLONES static void add_lines(const uint32_t *table, int bits,
                                 struct block *b, int64_t terms)
{
    const int shift = 23 - bits;

    for (int64_t i = 0; i < b->scalars; i++) {
        float sum[COLUMNS] = {0};
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
        for (int j = 0; j < COLUMNS; j++)
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
    for (int j = 0; j < COLUMNS; j++)
        sum[j] = accumulator_add(
            kind, lower, sum[j],
            product_of(&s, v[j],
                       row[(v[j] & PRODUCT_TABLE_FRACTION) >> shift]));
}

static void accumulate_odd_line(const int32_t *accumulator, const uint32_t *row,
                                int shift, uint32_t b, const uint32_t *v,
                                uint64_t inside, uint32_t *sum)
{
    for (int j = 0; j < COLUMNS; j++)
        if (inside >> j & 1)
            sum[j] = accumulator_add(
                accumulator[0], accumulator[1], sum[j],
                product_table_join(
                    v[j], b, row[(v[j] & PRODUCT_TABLE_FRACTION) >> shift]));
}

/* Adds the sums of `terms` terms, a chunk, to the runs; last: of their run. */
CPU_CLONES static void accumulate_lines(const struct job *j, struct block *b,
                                        int64_t terms, bool last)
{
    const int shift = 23 - j->bits;
    const int kind = j->accumulator[0], lower = j->accumulator[1];

    for (int64_t i = 0; i < b->scalars; i++) {
        uint32_t sum[COLUMNS] = {0};
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
        for (int c = 0; c < COLUMNS; c++) {
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
    for (int j = 0; j < COLUMNS; j++)
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
    for (int j = 0; j < COLUMNS; j++) {
        const uint32_t q = (v[j] & PRODUCT_TABLE_FRACTION) >> (23 - bits);
        sum[j] += g * (table[q << bits | o[j]] *
                       float_of_bits(v[j] & ~PRODUCT_TABLE_FRACTION));
    }
}

/* Either for any operands. */
static void add_odd_slopes(const struct job *j, uint32_t b, const uint32_t *v,
                           const uint32_t *o, uint64_t inside, float *sum)
{
    for (int k = 0; k < COLUMNS; k++) {
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
static void find_points(const struct job *j, const struct block *b, int64_t i,
                        uint32_t *o)
{
    const uint32_t *point = j->args->in[product_point_in(j->p)];
    const int64_t k = b->group * j->scalars + b->first_scalar + i;
    const int64_t at = k * j->point->stride[!is_wgrad(j)];

    for (int64_t c = 0; c < COLUMNS; c++)
        o[c] =
            c < b->columns
                ? product_table_index(j->bits, point[at + b->column[c].point])
                : 0;
}

/* The sums of one scalar; odd: any operands and derivatives, else those of
 * lines that are not odd have finite ones. */
CPU_INLINE void sum_slopes(const struct job *j, const struct block *b,
                           int64_t i, int64_t terms, bool odd,
                           const uint32_t *o, float *sum)
{
    memset(sum, 0, COLUMNS * sizeof *sum);
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
CPU_CLONES static void add_slopes(const struct job *j, struct block *b,
                                  int64_t terms)
{
    for (int64_t i = 0; i < b->scalars; i++) {
        uint32_t o[COLUMNS];
        float sum[COLUMNS];
        bool nan = false;
        find_points(j, b, i, o);
        sum_slopes(j, b, i, terms, false, o, sum);
        for (int k = 0; k < COLUMNS; k++)
            nan = nan || isnan(sum[k]);
        if (nan)
            sum_slopes(j, b, i, terms, true, o, sum);
#pragma omp simd
        for (int k = 0; k < COLUMNS; k++)
            b->total[i][k] += sum[k];
    }
}

/* The same of integers. */
CPU_CLONES static void add_codes(const int32_t *table, struct block *b,
                                 int64_t terms)
{
    for (int64_t i = 0; i < b->scalars; i++) {
        int32_t sum[COLUMNS] = {0};
        for (int64_t t = 0; t < terms; t++) {
            const int32_t *row = table + (size_t)b->scalar[i][t] * CODE_ROW;
            const uint32_t *line = b->line[t];
#pragma omp simd
            for (int j = 0; j < COLUMNS; j++)
                sum[j] += row[line[j]];
        }
        for (int j = 0; j < COLUMNS; j++)
            b->whole[i][j] += sum[j];
    }
}

/* ---- tasks --------------------------------------------------------- */

/* Element i of an input: a float's bits, or an integer's code. */
CPU_INLINE uint32_t element(enum infer_dtype dtype, const void *base, int64_t i)
{
    if (dtype == INFER_U8)
        return ((const uint8_t *)base)[i];
    if (dtype == INFER_I8)
        return ((const uint8_t *)base)[i] ^ 0x80u;
    return ((const uint32_t *)base)[i];
}

static struct place place_at(const struct job *j, int64_t group, bool pixel,
                             int64_t i)
{
    return pixel ? pixel_at(j, i) : tap_at(j, group, i);
}

/* Collects `terms` lines and scalars from term `first` on. */
static void collect(const struct job *j, struct block *b, int64_t first,
                    int64_t terms)
{
    const void *x = j->args->in[X], *w = j->args->in[W];
    const enum infer_dtype x_type = j->p->in[X].dtype;
    const enum infer_dtype w_type = j->p->in[W].dtype;
    const uint32_t outside = j->codes ? OUTSIDE : 0;
    const struct kern_tensor *v = &j->p->in[W];
    const bool wgrad = is_wgrad(j);
    const int64_t step =
        v->stride[wgrad || j->p->op == KERN_CONV_TRANSPOSE_FPROP];
    /* Channels of the second operand that belong to other groups. */
    const int64_t before =
        j->p->op == KERN_CONV_TRANSPOSE_FPROP ? 0 : b->group * j->scalars;

    for (int64_t t = 0; t < terms; t++) {
        const struct place *term = &b->term[t];
        b->term[t] = place_at(j, b->group, wgrad, first + t);
        b->odd[t] = false;
        b->inside[t] = 0;
        for (int64_t k = 0; k < COLUMNS; k++) {
            const struct place *column = &b->column[k];
            int64_t at;
            const bool inside =
                k < b->columns &&
                is_inside(j, wgrad ? term : column, wgrad ? column : term, &at);
            b->line[t][k] = inside ? element(x_type, x, at) : outside;
            b->inside[t] |= (uint64_t)inside << k;
            b->odd[t] = b->odd[t] || (b->line[t][k] & PRODUCT_TABLE_EXPONENT) ==
                                         PRODUCT_TABLE_EXPONENT;
        }
        for (int64_t i = 0; i < b->scalars; i++)
            b->scalar[i][t] =
                element(w_type, w,
                        term->scalar + (before + b->first_scalar + i) * step);
    }
}

static void store(const struct job *j, struct block *b)
{
    const struct kern_problem *p = j->p;
    const struct kern_tensor *y = &p->out[0], *r = j->residual;
    const struct kern_tensor *bias =
        is_wgrad(j) ? NULL : kern_problem_in(p, BIAS);
    const int channel = p->op == KERN_DENSE_FPROP ? y->rank - 1 : !is_wgrad(j);
    const float *add = r ? j->args->in[kern_op_residual(p->op)] : NULL;
    float *out = j->args->out[0], more[COLUMNS];

    for (int64_t i = 0; i < b->scalars; i++) {
        const int64_t k = b->group * j->scalars + b->first_scalar + i;
        float *total = b->total[i];
        if (bias)
            for (int64_t c = 0; c < b->columns; c++)
                total[c] +=
                    ((const float *)j->args->in[BIAS])[k * bias->stride[0]];
        for (int64_t c = 0; r && c < b->columns; c++)
            more[c] = add[b->column[c].add + k * r->stride[channel]];
        cpu_epilogue(&p->epilogue, total, r ? more : NULL, b->columns);
        for (int64_t c = 0; c < b->columns; c++)
            out[b->column[c].out + k * y->stride[channel]] = total[c];
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A residual of integers or floats, added to v. */
static float add_residual(const struct job *j, int64_t at, float v)
{
    const struct kern_quant *q = &j->p->quant;
    const void *r = j->args->in[kern_op_residual(j->p->op)];
    const enum infer_dtype dtype = j->residual->dtype;

    if (dtype == INFER_F32)
        return v + ((const float *)r)[at];
    const int code =
        dtype == INFER_I8 ? ((const int8_t *)r)[at] : ((const uint8_t *)r)[at];
    return fmaf((float)(code - q->residual_zero), q->residual_scale, v);
}

/* Stores v as a float or an integer. */
static void store_one(const struct job *j, int64_t at, float v)
{
    const enum infer_dtype dtype = j->p->out[0].dtype;
    float low, high;

    if (dtype == INFER_F32) {
        ((float *)j->args->out[0])[at] = v;
        return;
    }
    quant_limits(dtype, j->p->quant.y_zero, &low, &high);
    v = fminf(fmaxf(v * (1 / j->p->quant.y_scale), low), high);
    /* I8 and U8 have the same low bits. */
    ((uint8_t *)j->args->out[0])[at] =
        (uint8_t)((int)nearbyintf(v) + j->p->quant.y_zero);
}

/* The end of a layer on integers. */
static void store_codes(const struct job *j, struct block *b)
{
    const struct kern_problem *p = j->p;
    const struct kern_tensor *y = &p->out[0], *r = j->residual;
    const int channel = p->op == KERN_DENSE_FPROP ? y->rank - 1 : 1;
    const float *bias = kern_problem_in(p, BIAS) ? j->args->in[BIAS] : NULL;
    const float *scale = j->args->in[QUANT_IN];
    const bool last = p->epilogue.residual_last;
    float low, high;

    (void)cpu_act_bounds(&p->epilogue.act, &low, &high);
    for (int64_t i = 0; i < b->scalars; i++) {
        const int64_t k = b->group * j->scalars + b->first_scalar + i;
        const float factor =
            p->quant.x_scale * scale[k * p->in[QUANT_IN].stride[0]];
        for (int64_t c = 0; c < b->columns; c++) {
            const int64_t at =
                r ? b->column[c].add + k * r->stride[channel] : 0;
            float v =
                fmaf((float)b->whole[i][c], factor, bias ? bias[k] : 0.0f);
            if (r && !last)
                v = add_residual(j, at, v);
            v = quant_is_smooth(p->epilogue.act.kind)
                    ? quant_act(&p->epilogue.act, v)
                    : fminf(fmaxf(v, low), high);
            if (r && last)
                v = add_residual(j, at, v);
            store_one(j, b->column[c].out + k * y->stride[channel], v);
        }
    }
}

static void task(void *context, int64_t i)
{
    const struct job *j = context;
    struct block b;

    b.first_scalar = i % j->scalar_blocks * SCALARS;
    i /= j->scalar_blocks;
    b.first_column = i % j->column_blocks * COLUMNS;
    b.group = i / j->column_blocks;
    b.scalars = least(SCALARS, j->scalars - b.first_scalar);
    b.columns = least(COLUMNS, j->columns - b.first_column);
    if (j->codes)
        memset(b.whole, 0, sizeof b.whole);
    else
        memset(b.total, 0, sizeof b.total);
    if (j->accumulator)
        memset(b.run, 0, sizeof b.run);
    for (int64_t k = 0; k < b.columns; k++)
        b.column[k] = place_at(j, b.group, !is_wgrad(j), b.first_column + k);
    for (int64_t t = 0; t < j->terms; t += TERMS) {
        const int64_t terms = least(TERMS, j->terms - t);
        collect(j, &b, t, terms);
        if (j->codes)
            add_codes(j->codes, &b, terms);
        else if (j->slopes)
            add_slopes(j, &b, terms);
        else if (j->accumulator)
            accumulate_lines(j, &b, terms,
                             t + terms == j->terms ||
                                 (t + terms) % ACCUMULATOR_RUN == 0);
        else
            add_lines(j->table, j->bits, &b, terms);
    }
    if (j->codes)
        store_codes(j, &b);
    else
        store(j, &b);
}

/* ---- the row ------------------------------------------------------- */

static int64_t product(const struct kern_tensor *t, int from)
{
    int64_t n = 1;

    for (int i = from; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

static void describe(struct job *j)
{
    const struct kern_problem *p = j->p;
    const struct kern_tensor *y = &p->out[0], *w = &p->in[W];
    const bool dense = p->op == KERN_DENSE_FPROP, wgrad = is_wgrad(j);
    const int residual = kern_op_residual(p->op);

    j->residual = kern_problem_in(p, residual);
    j->point = product_slope_of(p) ? &p->in[product_point_in(p)] : NULL;
    j->pixel = wgrad ? &p->in[DY] : y;
    j->groups = dense ? 1 : p->attr.conv.groups;
    j->spatial = dense ? 0 : y->rank - 2;
    const int64_t channels = j->pixel->dim[dense ? y->rank - 1 : 1];
    j->scalars = channels / j->groups;
    j->pixels = kern_tensor_count(j->pixel) / channels;
    j->taps = p->op == KERN_CONV_TRANSPOSE_FPROP
                  ? w->dim[0] / j->groups * product(w, 2)
                  : product(wgrad ? y : w, 1);
    j->columns = wgrad ? j->taps : j->pixels;
    j->terms = wgrad ? j->pixels : j->taps;
    j->column_blocks = (j->columns + COLUMNS - 1) / COLUMNS;
    j->scalar_blocks = (j->scalars + SCALARS - 1) / SCALARS;
}

/* The table with the second operand outermost, or that of derivatives. */
static void turn_table(struct job *j, uint32_t *to)
{
    const struct kern_tensor *t = product_table_of(j->p);
    const uint32_t *from = j->args->in[PRODUCT_TABLE_IN];

    for (int64_t b = 0; b < t->dim[1]; b++)
        for (int64_t a = 0; a < t->dim[0]; a++)
            *to++ = from[a * t->stride[0] + b * t->stride[1]];
}

/* Products of codes: rows of a weight, [CODE_ROW] each. */
static void make_codes(struct job *j)
{
    const struct kern_problem *p = j->p;
    const struct kern_tensor *t = product_table_of(p);
    const int32_t *error = j->args->in[PRODUCT_TABLE_IN];
    const int zero = p->quant.x_zero + (p->in[X].dtype == INFER_I8 ? 128 : 0);

    memset(j->codes, 0, sizeof(int32_t) * 256 * CODE_ROW);
    for (int k = 0; k < 256; k++)
        for (int i = 0; i < 256; i++)
            j->codes[k * CODE_ROW + i] =
                (i - zero) * (k - 128) +
                error[i * t->stride[0] + k * t->stride[1]];
}

static int launch_codes(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    struct job j = {.p = &e->problem, .args = args, .codes = args->workspace};

    (void)err;
    if (kern_tensor_count(&e->problem.out[0]) == 0)
        return 0;
    describe(&j);
    make_codes(&j);
    kern_cpu_each(cpu_threads_of(e),
                  j.groups * j.column_blocks * j.scalar_blocks, task, &j);
    return 0;
}

static int prepare_codes(struct kern_exec *e, const struct kern_device *d,
                         struct infer_error *err)
{
    e->workspace = sizeof(int32_t) * 256 * CODE_ROW;
    return cpu_prepare(e, d, err);
}

static int supports_codes(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    (void)d;
    if (!product_table_of(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes a table of products");
    if (kern_tensor_count(&p->in[X]) == 0 || kern_tensor_count(&p->in[W]) == 0)
        return error_set(why, INFER_EUNSUPPORTED, "takes no empty inputs");
    return p->op == KERN_DENSE_FPROP ? dot_dense_supports(p, why)
                                     : dot_conv_supports(p, why);
}

KERN_FUNCTIONS(conv_8bit_cpu_table) = {
    .supports = supports_codes,
    .prepare = prepare_codes,
    .launch = launch_codes,
    .release = cpu_release,
};

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    struct job j = {.p = &e->problem, .args = args};

    (void)err;
    if (kern_tensor_count(&e->problem.out[0]) == 0)
        return 0;
    j.bits = product_table_bits_of(product_table_of(&e->problem));
    describe(&j);
    if (accumulator_of(&e->problem))
        j.accumulator = args->in[accumulator_in(e->problem.op)];
    turn_table(&j, args->workspace);
    if (product_slope_of(&e->problem)) {
        j.slopes = args->workspace;
        j.gradient = product_slope_gradient(&e->problem);
    } else {
        j.table = args->workspace;
    }
    kern_cpu_each(cpu_threads_of(e),
                  j.groups * j.column_blocks * j.scalar_blocks, task, &j);
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const int64_t side = product_table_of(&e->problem)->dim[0];

    e->workspace = (size_t)(side * side) * sizeof(uint32_t);
    return cpu_prepare(e, d, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!product_table_of(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes a table of products");
    for (int i = 0; i < p->n_in; i++)
        if (i != PRODUCT_TABLE_IN && kern_problem_in(p, i) &&
            &p->in[i] != product_factors_of(p) &&
            &p->in[i] != accumulator_of(p) && !cpu_is_f32(&p->in[i]))
            return error_set(why, INFER_EUNSUPPORTED, "takes F32");
    if (!cpu_is_f32(&p->out[0]) || p->n_out > 1)
        return error_set(why, INFER_EUNSUPPORTED, "gives one output, F32");
    if (kern_tensor_count(&p->in[X]) == 0 || kern_tensor_count(&p->in[W]) == 0)
        return error_set(why, INFER_EUNSUPPORTED, "takes no empty inputs");
    if (!cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    return 0;
}

KERN_FUNCTIONS(conv_f32_cpu_table) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
