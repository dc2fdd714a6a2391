/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the reference kernels: walking indices, loading, storing, and the
 * functions of one argument.
 *
 * Each operation computes in double, or in int64 where all its elements are
 * integers; integer results outside a type's range wrap.  Every row takes
 * any strides.
 */
#ifndef KERNELS_REF_REF_H
#define KERNELS_REF_REF_H

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/kern.h"
#include "kernels/problem.h"

/* ---- walking ------------------------------------------------------- */

#define REF_MAX_WALK 6

/* All indices of a shape in row-major order, with the element offset of up to
 * REF_MAX_WALK tensors at each. */
struct ref_walk {
    int rank, n;
    bool done;
    int64_t dim[KERN_MAX_RANK], index[KERN_MAX_RANK];
    int64_t stride[REF_MAX_WALK][KERN_MAX_RANK];
    int64_t offset[REF_MAX_WALK];
};

void ref_walk_start(struct ref_walk *w, int rank, const int64_t *dim);
/* Adds a tensor, aligned at the last dimension; missing dimensions and those
 * of size 1 are broadcast.  Offsets are numbered in the order of adding. */
void ref_walk_add(struct ref_walk *w, const struct kern_tensor *t);
void ref_walk_next(struct ref_walk *w);

/* ---- elements ------------------------------------------------------ */

/* As scalar_load(), quick for single and double precision. */
static inline double ref_load(enum infer_dtype dtype, const void *base,
                              int64_t i)
{
    if (dtype == INFER_F64)
        return ((const double *)base)[i];
    return dtype == INFER_F32 ? (double)((const float *)base)[i]
                              : scalar_load(dtype, base, i);
}

static inline void ref_store(enum infer_dtype dtype, void *base, int64_t i,
                             double value)
{
    if (dtype == INFER_F64)
        ((double *)base)[i] = value;
    else if (dtype == INFER_F32)
        ((float *)base)[i] = (float)value;
    else
        scalar_store(dtype, base, i, value);
}

/* Sum of n products, elements sa and sb apart. */
double ref_dot(enum infer_dtype a_type, const void *a, int64_t sa,
               enum infer_dtype b_type, const void *b, int64_t sb, int64_t n);

/* sum[i] += factor * x[i * step] for i in 0 .. n-1; x starts at an offset. */
static inline void ref_add_scaled(double *sum, double factor,
                                  enum infer_dtype dtype, const void *x,
                                  int64_t offset, int64_t step, int64_t n)
{
    if (dtype == INFER_F32) {
        const float *f = (const float *)x + offset;
        for (int64_t i = 0; i < n; i++)
            sum[i] += factor * (double)f[i * step];
        return;
    }
    if (dtype == INFER_F64) {
        const double *d = (const double *)x + offset;
        for (int64_t i = 0; i < n; i++)
            sum[i] += factor * d[i * step];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        sum[i] += factor * scalar_load(dtype, x, offset + i * step);
}

/* Moves one element of the given size without looking at it. */
void ref_move(size_t size, void *to, int64_t i, const void *from, int64_t j);

/* Integer arithmetic that wraps. */
int64_t ref_add_i64(int64_t a, int64_t b);
int64_t ref_mul_i64(int64_t a, int64_t b);
/* Stores the low bits of v in element i of a type of integers; BOOL is whether
 * v is not 0. */
void ref_wrap_i64(enum infer_dtype dtype, void *base, int64_t i, int64_t v);

/* ---- functions ----------------------------------------------------- */

double ref_unary(const struct kern_unary *f, double x);
/* Its derivative, from x, and from y where kern_unary_grad_from_output(). */
double ref_unary_derivative(const struct kern_unary *f, double x);
double ref_unary_derivative_from_output(const struct kern_unary *f, double y);

/* y = act(acc + residual), or act(acc) + residual. */
static inline double ref_epilogue(const struct kern_epilogue *e, double acc,
                                  double residual)
{
    if (e->residual_last)
        return ref_unary(&e->act, acc) + residual;
    return ref_unary(&e->act, acc + residual);
}

/* Element at an offset of an optional input, or `absent`. */
static inline double ref_optional(const struct kern_tensor *t, const void *base,
                                  int64_t offset, double absent)
{
    return t ? ref_load(t->dtype, base, offset) : absent;
}

/* ---- limits -------------------------------------------------------- */

/* For supports(): every problem that passes kern_problem_check(). */
int ref_supports_all(const struct kern_problem *p, const struct kern_device *d,
                     struct infer_error *why);
/* For rows that compute in double: 64-bit integers would lose low bits. */
int ref_supports_double(const struct kern_problem *p,
                        const struct kern_device *d, struct infer_error *why);

#endif
