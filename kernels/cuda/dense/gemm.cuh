/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices of any strides, as kernels take them. */
#ifndef KERNELS_CUDA_DENSE_GEMM_CUH
#define KERNELS_CUDA_DENSE_GEMM_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/strided.cuh"

extern "C" {
#include "kernels/matmul.h"
}

/* y[b][m][n] = act(alpha sum_k a[b][m][k] b[b][k][n] + bias[n] + r). */
struct gemm_args {
    struct cuda_strided<3> batch; /* a, b, y */
    int64_t m, n, k;
    int64_t a_m, a_k, b_k, b_n, y_m, y_n, r_m, r_n; /* strides */
    enum infer_dtype bias_type;                     /* INFER_NONE: absent */
    int64_t bias_step;
    bool residual;
    float alpha;
    struct kern_epilogue epilogue;
    const void *a, *b, *bias, *r;
    void *y;
};

static inline struct gemm_args gemm_of_matmul(const struct kern_problem *p,
                                              const struct kern_args *args)
{
    const struct kern_matmul *attr = &p->attr.matmul;
    struct kern_tensor a = matmul_operand(&p->in[0], attr->transpose_a, true);
    struct kern_tensor b = matmul_operand(&p->in[1], attr->transpose_b, false);
    struct kern_tensor y = matmul_output(p);
    const struct kern_tensor *const t[3] = {&a, &b, &y};
    struct gemm_args g = {};

    g.m = y.dim[y.rank - 2];
    g.n = y.dim[y.rank - 1];
    g.k = a.dim[a.rank - 1];
    g.a_m = a.stride[a.rank - 2];
    g.a_k = a.stride[a.rank - 1];
    g.b_k = b.stride[b.rank - 2];
    g.b_n = b.stride[b.rank - 1];
    g.y_m = y.stride[y.rank - 2];
    g.y_n = y.stride[y.rank - 1];
    g.alpha = attr->alpha;
    g.epilogue = p->epilogue;
    g.a = args->in[0];
    g.b = args->in[1];
    g.y = args->out[0];
    a.rank -= 2;
    b.rank -= 2;
    y.rank -= 2;
    g.batch.init(y.rank, y.dim, t);
    return g;
}

#endif
