/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of tensors and bytes of problems. */
#include "kernels/kern.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/problem.h"

/* ---- tensors ------------------------------------------------------- */

/* Dimension that lies at place i of the physical order, 0 outermost. */
static int dim_at(int rank, enum kern_layout layout, int i)
{
    if (rank < 3 || layout == KERN_NCHW || i == 0)
        return i;
    return i == rank - 1 ? 1 : i + 1;
}

struct kern_tensor kern_tensor_dense(enum infer_dtype dtype, int rank,
                                     const int64_t *dim,
                                     enum kern_layout layout)
{
    struct kern_tensor t;
    /* Unsigned, so that sizes that overflow are only wrong, not undefined:
     * kern_problem_check() refuses them. */
    uint64_t stride = 1;

    memset(&t, 0, sizeof(t));
    t.dtype = dtype;
    t.rank = rank;
    for (int i = rank - 1; i >= 0; i--) {
        const int d = dim_at(rank, layout, i);
        t.dim[d] = dim[d];
        t.stride[d] = (int64_t)stride;
        stride *= (uint64_t)dim[d];
    }
    return t;
}

bool kern_tensor_is_dense(const struct kern_tensor *t, enum kern_layout layout)
{
    int64_t stride = 1;

    for (int i = t->rank - 1; i >= 0; i--) {
        const int d = dim_at(t->rank, layout, i);
        if (t->dim[d] != 1 && t->stride[d] != stride)
            return false;
        if (!checked_mul_i64(stride, t->dim[d], &stride))
            return false;
    }
    return true;
}

int64_t kern_tensor_count(const struct kern_tensor *t)
{
    int64_t n;

    return checked_count(t->rank, t->dim, &n) ? n : 0;
}

size_t kern_tensor_span(const struct kern_tensor *t)
{
    uint64_t reach = 0;

    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] <= 0)
            return 0;
        const uint64_t step = t->stride[i] < 0 ? 0 - (uint64_t)t->stride[i]
                                               : (uint64_t)t->stride[i];
        reach += (uint64_t)(t->dim[i] - 1) * step;
    }
    return (size_t)((reach + 1) * infer_dtype_size(t->dtype));
}

/* ---- figures ------------------------------------------------------- */

/* Bytes of the elements that differ in place: broadcast ones count once. */
static double distinct_bytes(const struct kern_tensor *t)
{
    double n = (double)infer_dtype_size(t->dtype);

    for (int i = 0; i < t->rank; i++)
        if (t->stride[i] != 0 || t->dim[i] == 0)
            n *= (double)t->dim[i];
    return n;
}

double kern_problem_bytes(const struct kern_problem *p)
{
    double n = 0;

    for (int i = 0; i < p->n_in; i++)
        n += distinct_bytes(&p->in[i]);
    for (int i = 0; i < p->n_out; i++)
        n += distinct_bytes(&p->out[i]);
    return n;
}
