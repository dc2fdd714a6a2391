/* SPDX-License-Identifier: Apache-2.0 */
/* Names of operations, shapes of tensors and figures of problems. */
#include "kernels/kern.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/problem.h"

static const char *const op_names[KERN_OP_COUNT] = {
    [KERN_CONV_FPROP] = "conv_fprop",
    [KERN_CONV_TRANSPOSE_FPROP] = "conv_transpose_fprop",
    [KERN_DENSE_FPROP] = "dense_fprop",
    [KERN_MATMUL] = "matmul",
    [KERN_POOL_FPROP] = "pool_fprop",
    [KERN_BATCH_NORM] = "batch_norm",
    [KERN_SCALE_SHIFT] = "scale_shift",
    [KERN_LAYER_NORM] = "layer_norm",
    [KERN_GROUP_NORM] = "group_norm",
    [KERN_LRN] = "lrn",
    [KERN_UNARY] = "unary",
    [KERN_PRELU] = "prelu",
    [KERN_BINARY] = "binary",
    [KERN_WHERE] = "where",
    [KERN_SOFTMAX] = "softmax",
    [KERN_REDUCE] = "reduce",
    [KERN_SQUEEZE_EXCITE] = "squeeze",
    [KERN_ARG_REDUCE] = "arg_reduce",
    [KERN_GATHER] = "gather",
    [KERN_PAD] = "pad",
    [KERN_RESIZE] = "resize",
    [KERN_COPY] = "copy",
    [KERN_CONV_WGRAD] = "conv_wgrad",
    [KERN_BATCH_NORM_TRAIN] = "batch_norm_train",
    [KERN_BATCH_NORM_DGRAD] = "batch_norm_dgrad",
    [KERN_POOL_DGRAD] = "pool_dgrad",
    [KERN_REDUCE_DGRAD] = "reduce_dgrad",
    [KERN_UNARY_DGRAD] = "unary_dgrad",
    [KERN_LRN_DGRAD] = "lrn_dgrad",
    [KERN_PRELU_DGRAD] = "prelu_dgrad",
    [KERN_LAYER_NORM_DGRAD] = "layer_norm_dgrad",
    [KERN_GROUP_NORM_DGRAD] = "group_norm_dgrad",
    [KERN_RESIZE_DGRAD] = "resize_dgrad",
    [KERN_DROPOUT] = "dropout",
    [KERN_CROSS_ENTROPY] = "cross_entropy",
    [KERN_STEP] = "step",
    [KERN_UPDATE] = "update",
};

const char *kern_op_name(enum kern_op op)
{
    if ((int)op < 0 || op >= KERN_OP_COUNT)
        return "unknown";
    return op_names[op];
}

int kern_op_residual(enum kern_op op)
{
    switch (op) {
    case KERN_CONV_FPROP:
    case KERN_CONV_TRANSPOSE_FPROP:
    case KERN_DENSE_FPROP:
    case KERN_SCALE_SHIFT:
    case KERN_UNARY_DGRAD:
    case KERN_PRELU_DGRAD:
    case KERN_LAYER_NORM_DGRAD:
    case KERN_GROUP_NORM_DGRAD:
        return 3;
    case KERN_BATCH_NORM:
    case KERN_BATCH_NORM_TRAIN:
        return 5;
    case KERN_BINARY:
    case KERN_CONV_WGRAD:
    case KERN_POOL_DGRAD:
    case KERN_REDUCE_DGRAD:
    case KERN_LRN_DGRAD:
        return 2;
    case KERN_REDUCE:
    case KERN_RESIZE_DGRAD:
        return 1;
    default:
        return -1;
    }
}

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

static double product(const struct kern_tensor *t, int from)
{
    double n = 1;

    for (int i = from; i < t->rank; i++)
        n *= (double)t->dim[i];
    return n;
}

double kern_problem_flops(const struct kern_problem *p)
{
    const struct kern_tensor *a = &p->in[0];
    const struct kern_tensor *y = &p->out[0];

    switch (p->op) {
    case KERN_CONV_FPROP: /* each output: C/groups * window products */
    case KERN_DENSE_FPROP:
        return 2 * product(y, 0) * product(&p->in[1], 1);
    case KERN_CONV_TRANSPOSE_FPROP: /* each input: K/groups * window */
        return 2 * product(a, 0) * product(&p->in[1], 1);
    case KERN_CONV_WGRAD: /* each element of dy: C/groups * window */
        return 2 * product(&p->in[1], 0) * product(y, 1);
    case KERN_MATMUL:
        if (a->rank < 1)
            return 0;
        if (a->rank < 2 || !p->attr.matmul.transpose_a)
            return 2 * product(y, 0) * (double)a->dim[a->rank - 1];
        return 2 * product(y, 0) * (double)a->dim[a->rank - 2];
    case KERN_SQUEEZE_EXCITE: /* both layers of each image */
        return 2 * (double)a->dim[0] *
               (product(&p->in[1], 0) + product(&p->in[2], 0));
    default:
        return 0;
    }
}

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
