/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the reductions: the walks of what stays and of what is reduced, and
 * the arithmetic of the kinds on reals. */
#ifndef KERNELS_CUDA_REDUCE_REDUCE_CUH
#define KERNELS_CUDA_REDUCE_REDUCE_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"

struct reduce_args {
    struct cuda_strided<3> kept; /* y, residual, x: in the order of x */
    struct cuda_strided<1> gone; /* x */
    bool inner_kept;             /* the innermost dimension of x stays */
    enum kern_reduce_kind kind;
    enum infer_dtype type;    /* of integers */
    const void *x, *residual; /* NULL: none */
    void *y;
};

static inline void reduce_walks(struct reduce_args *a,
                                const struct kern_problem *p)
{
    const struct kern_tensor *x = &p->in[0];
    const uint32_t axes = p->attr.reduce.axes;
    const struct kern_tensor kept = cuda_dimensions(x, axes, false);
    const struct kern_tensor gone = cuda_dimensions(x, axes, true);
    int64_t inner_kept = INT64_MAX, inner_gone = INT64_MAX;

    const struct kern_tensor *const outer[3] = {&p->out[0],
                                                kern_problem_in(p, 1), &kept};
    const struct kern_tensor *const inner[1] = {&gone};
    a->kept.init(x->rank, p->out[0].dim, outer);
    a->gone.init(x->rank, gone.dim, inner);
    for (int i = 0; i < x->rank; i++) {
        const int64_t s = x->stride[i] < 0 ? -x->stride[i] : x->stride[i];
        int64_t *least = axes >> i & 1 ? &inner_gone : &inner_kept;
        if (x->dim[i] > 1 && s < *least)
            *least = s;
    }
    a->inner_kept = inner_kept < inner_gone;
    a->kind = p->attr.reduce.kind;
}

static __device__ __forceinline__ float reduce_start(enum kern_reduce_kind kind)
{
    switch (kind) {
    case KERN_REDUCE_MAX:
        return -INFINITY;
    case KERN_REDUCE_MIN:
        return INFINITY;
    case KERN_REDUCE_PROD:
        return 1;
    }
    return 0; /* of sums */
}

/* Joins what two parts came to; NaN wins. */
static __device__ __forceinline__ float reduce_join(enum kern_reduce_kind kind,
                                                    float a, float b)
{
    switch (kind) {
    case KERN_REDUCE_MAX:
        return b > a || b != b ? b : a;
    case KERN_REDUCE_MIN:
        return b < a || b != b ? b : a;
    case KERN_REDUCE_PROD:
        return a * b;
    }
    return a + b; /* sums, means and norms */
}

static __device__ __forceinline__ float reduce_term(enum kern_reduce_kind kind,
                                                    float x)
{
    if (kind == KERN_REDUCE_L1)
        return fabsf(x);
    return kind == KERN_REDUCE_L2 ? x * x : x;
}

/* What is stored of the joined terms of `count` elements. */
static __device__ __forceinline__ float reduce_end(enum kern_reduce_kind kind,
                                                   float joined, int64_t count)
{
    if (kind == KERN_REDUCE_MEAN)
        return joined / (float)count;
    return kind == KERN_REDUCE_L2 ? sqrtf(joined) : joined;
}

#endif
