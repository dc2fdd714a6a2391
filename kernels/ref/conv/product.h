/* SPDX-License-Identifier: Apache-2.0 */
/* Products of the reference: exact, or read from a table, rounded to single
 * precision as the table has them.  Sums are in double either way. */
#ifndef KERNELS_REF_CONV_PRODUCT_H
#define KERNELS_REF_CONV_PRODUCT_H

#include "kernels/table/product_slope.h"
#include "kernels/ref/ref.h"

/* A problem's table, of products or of derivatives; entry and slope are NULL if
 * it has none. */
struct ref_table {
    const uint32_t *entry;
    const float *slope;
    int bits;
    int64_t row, column; /* strides */
    int gradient;        /* of slope: which operand is the gradient */
};

static inline struct ref_table ref_table_of(const struct kern_problem *p,
                                            const struct kern_args *args)
{
    const struct kern_tensor *t = product_table_of(p);

    if (!t || t->dtype == INFER_I32) /* errors of integers: quantised.h */
        return (struct ref_table){.entry = NULL};
    const bool slopes = t->dtype == INFER_F32;
    return (struct ref_table){slopes ? NULL : args->in[PRODUCT_TABLE_IN],
                              slopes ? args->in[PRODUCT_TABLE_IN] : NULL,
                              product_table_bits_of(t),
                              t->stride[0],
                              t->stride[1],
                              product_slope_gradient(p)};
}

/* Element i of the operands that derivatives are taken at. */
static inline float ref_point(const struct kern_problem *p,
                              const struct kern_args *args, int64_t i)
{
    return ((const float *)args->in[product_point_in(p)])[i];
}

/* a times the derivative at the point with respect to it, or b times that; a is
 * an element of in[0], b one of in[1]. */
static inline double ref_slope(const struct ref_table *t, double a, double b,
                               float point)
{
    const float g = (float)(t->gradient ? b : a);
    const float q = (float)(t->gradient ? a : b);
    uint32_t i, k;

    memcpy(&i, &point, sizeof i);
    memcpy(&k, &q, sizeof k);
    const int64_t at = product_table_index(t->bits, i) * t->row +
                       product_table_index(t->bits, k) * t->column;
    return (double)(g * product_slope(t->slope[at], k));
}

/* a is an element of in[0], b one of in[1]. */
static inline double ref_product(const struct ref_table *t, double a, double b)
{
    const float x = (float)a, y = (float)b;
    uint32_t i, k;
    float product;

    memcpy(&i, &x, sizeof i);
    memcpy(&k, &y, sizeof k);
    i = product_table_join(
        i, k,
        t->entry[product_table_index(t->bits, i) * t->row +
                 product_table_index(t->bits, k) * t->column]);
    memcpy(&product, &i, sizeof i);
    return (double)product;
}

/* sum[i] += x[offset + i * step] times b, an element of in[1]. */
static inline void ref_add_products(const struct ref_table *t, double *sum,
                                    double b, enum infer_dtype dtype,
                                    const void *x, int64_t offset, int64_t step,
                                    int64_t n)
{
    if (!t->entry) {
        ref_add_scaled(sum, b, dtype, x, offset, step, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        sum[i] += ref_product(t, ref_load(dtype, x, offset + i * step), b);
}

/* Sum of n products of elements of in[0] and in[1], sa and sb apart. */
static inline double ref_dot_products(const struct ref_table *t,
                                      enum infer_dtype a_type, const void *a,
                                      int64_t sa, enum infer_dtype b_type,
                                      const void *b, int64_t sb, int64_t n)
{
    double sum = 0;

    if (!t->entry)
        return ref_dot(a_type, a, sa, b_type, b, sb, n);
    for (int64_t i = 0; i < n; i++)
        sum += ref_product(t, ref_load(a_type, a, i * sa),
                           ref_load(b_type, b, i * sb));
    return sum;
}

#endif
