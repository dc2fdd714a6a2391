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
#ifndef KERNELS_CPU_TABLE_LAYER_H
#define KERNELS_CPU_TABLE_LAYER_H

#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"
#include "kernels/table/accumulator.h"

#define TABLE_COLUMNS 64
#define TABLE_SCALARS 32
#define TABLE_TERMS   ACCUMULATOR_CHUNK
/* Entries of a row of products of codes, and the one for padding. */
#define TABLE_CODE_ROW 272
#define TABLE_OUTSIDE  256

/* in[] of a forward problem, and of a gradient of weights. */
enum { TABLE_X, TABLE_W, TABLE_BIAS, TABLE_DY = 1 };

/* A pixel or a tap of one channel.  An element of in[0] is that of one pixel
 * and one tap: at the sum of their bases and of what is_inside() adds. */
struct table_place {
    int64_t base, at[3];
    int64_t scalar; /* its element of in[1] but for the scalar's channel */
    /* Of the output, the residual and the point of derivatives. */
    int64_t out, add, point;
};

struct table_block;

struct table_job {
    const struct kern_problem *p;
    const struct kern_args *args;
    /* [in[1]'s index][in[0]'s index]; of derivatives, instead, slopes:
     * [q's index][the point's index]. */
    uint32_t *table;
    float *slopes;
    int gradient;   /* of derivatives: which of in[] is the gradient */
    int32_t *codes; /* of integers, instead: [256][TABLE_CODE_ROW] */
    const int32_t *accumulator; /* its kind and parameter, or NULL */
    int bits;
    int spatial;
    int64_t pixels, taps;    /* of one group */
    int64_t columns, terms;  /* the same in their roles */
    int64_t groups, scalars; /* scalars of a group */
    int64_t column_blocks, scalar_blocks;
    const struct kern_tensor *pixel, *residual, *point;
    /* The end of a block, whose sums are there. */
    void (*store)(const struct table_job *j, struct table_block *b);
};

/* What a task works on. */
struct table_block {
    int64_t group, first_column, columns, first_scalar, scalars;
    struct table_place column[TABLE_COLUMNS], term[TABLE_TERMS];
    uint32_t line[TABLE_TERMS][TABLE_COLUMNS]; /* elements of in[0] */
    uint64_t inside[TABLE_TERMS];              /* a bit a column: no padding */
    bool odd[TABLE_TERMS];                     /* a line has infinity or NaN */
    uint32_t scalar[TABLE_SCALARS][TABLE_TERMS]; /* elements of in[1] */
    float total[TABLE_SCALARS][TABLE_COLUMNS];
    /* Bit patterns of an accumulator. */
    uint32_t run[TABLE_SCALARS][TABLE_COLUMNS];
    int64_t whole[TABLE_SCALARS][TABLE_COLUMNS]; /* the same of integers */
};

CPU_INLINE bool table_is_wgrad(const struct table_job *j)
{
    return j->p->op == KERN_CONV_WGRAD;
}

/* Sets the sizes of a job whose problem is set. */
void table_describe(struct table_job *j);
/* Computes all of it. */
void table_run(const struct kern_exec *e, struct table_job *j);
/* Adds the products of terms [first, first + terms) of a block, which are
 * collected (sums.c). */
void table_add(const struct table_job *j, struct table_block *b, int64_t first,
               int64_t terms);

#endif
