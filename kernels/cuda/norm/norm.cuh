/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by layer and group norm, forward and backward: the split of tensors
 * into normalised blocks, and the sums over a block. */
#ifndef KERNELS_CUDA_NORM_NORM_CUH
#define KERNELS_CUDA_NORM_NORM_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/warp.cuh"

#define NORM_THREADS 256

/* ---- sums ---------------------------------------------------------- */

/* G threads work on a block of elements: a warp, or all NORM_THREADS.  Which of
 * them this thread is, and which block of elements its first is. */
template <int G> static __device__ __forceinline__ int norm_lane(void)
{
    return threadIdx.x % G;
}

template <int G> static __device__ __forceinline__ int64_t norm_first(void)
{
    return blockIdx.x * (int64_t)(NORM_THREADS / G) + threadIdx.x / G;
}

/* The sum over the G threads, the same in every one: over each warp, then the
 * warps in order.  part has NORM_THREADS / 32 elements, used where G is more
 * than a warp. */
template <int G, typename S>
static __device__ __forceinline__ S norm_sum(S v, double *part)
{
    v = warp_sum(v);
    if (G == 32)
        return v;
    __syncthreads(); /* everybody has read the sum before */
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = (double)v;
    __syncthreads();
    v = (S)part[0];
#pragma unroll
    for (int i = 1; i < NORM_THREADS / 32; i++)
        v += (S)part[i];
    return v;
}

/* Subtracted from x, then multiplied by. */
struct norm_stats {
    float mean, inverse;
};

/* Operand X of the loop is x, which starts at the block's first element.  The
 * mean is summed in double precision: if elements cancel, a float's rounding
 * error is large compared with the sum. */
template <typename T, int X, int G, int OPERANDS>
static __device__ __forceinline__ struct norm_stats
norm_measure(const struct cuda_strided<OPERANDS> &inner, const T *x,
             float epsilon, bool rms, double *part)
{
    const float n = (float)inner.count;
    struct norm_stats m = {0, 0};
    int64_t at[OPERANDS];
    double sum = 0;
    float squares = 0;

    if (!rms) {
        for (int64_t i = norm_lane<G>(); i < inner.count; i += G) {
            inner.offsets(i, at);
            sum += (double)to_float(x[at[X]]);
        }
        m.mean = (float)(norm_sum<G>(sum, part) / (double)inner.count);
    }
    for (int64_t i = norm_lane<G>(); i < inner.count; i += G) {
        inner.offsets(i, at);
        const float d = to_float(x[at[X]]) - m.mean;
        squares += d * d;
    }
    m.inverse = 1 / sqrtf(norm_sum<G>(squares, part) / n + epsilon);
    return m;
}

/* ---- blocks -------------------------------------------------------- */

/* Elements of a block, at most, that a warp takes where the choice may not
 * depend on the number of blocks. */
#define NORM_ALIKE 512

/* Launches `warps`, the kernel in which a warp takes a block of elements, for
 * small ones and many of moderate size, else `whole`, in which NORM_THREADS
 * do.  The arguments hold the loops, outer and inner.  alike: blocks of one
 * size are summed alike, however many there are. */
template <typename Args>
static int norm_start(void (*warps)(const Args), void (*whole)(const Args),
                      const Args *a, bool alike, const struct kern_args *args,
                      struct infer_error *err)
{
    const int64_t blocks = a->outer.count, elements = a->inner.count;
    const bool many = elements <= 2048 && blocks >= 1024;
    const bool small =
        elements <= 64 || (alike ? elements <= NORM_ALIKE : many);
    const int64_t grid =
        (blocks * (small ? 32 : NORM_THREADS) + NORM_THREADS - 1) /
        NORM_THREADS;

    return launch_kernel(small ? warps : whole,
                         (unsigned)(grid < 65536 ? grid : 65536), NORM_THREADS,
                         0, args->stream, *a, err);
}

/* The first `rank` dimensions of a tensor, or the others. */
static inline struct kern_tensor norm_head(const struct kern_tensor *t,
                                           int rank)
{
    struct kern_tensor h = *t;

    h.rank = rank;
    return h;
}

static inline struct kern_tensor norm_tail(const struct kern_tensor *t,
                                           int from)
{
    struct kern_tensor b = *t;

    b.rank = t->rank - from;
    for (int i = 0; i < b.rank; i++) {
        b.dim[i] = t->dim[from + i];
        b.stride[i] = t->stride[from + i];
    }
    return b;
}

/* N, C, ... with C as groups and channels of a group: the dimensions of the
 * blocks, then those within. */
static inline void norm_split_groups(const struct kern_tensor *t, int groups,
                                     struct kern_tensor *outer,
                                     struct kern_tensor *inner)
{
    const int64_t channels = t->dim[1] / groups;

    *outer = norm_head(t, 2);
    outer->dim[1] = groups;
    outer->stride[1] = channels * t->stride[1];
    *inner = norm_tail(t, 1);
    inner->dim[0] = channels;
}

/* A vector over channels, along the groups and within one. */
static inline void norm_split_vector(const struct kern_tensor *v, int groups,
                                     const struct kern_tensor *outer_y,
                                     const struct kern_tensor *inner_y,
                                     struct kern_tensor *outer,
                                     struct kern_tensor *inner)
{
    const int64_t step = v->stride[0];

    *outer = *outer_y;
    outer->stride[0] = 0;
    outer->stride[1] = v->dim[0] / groups * step;
    *inner = *inner_y;
    for (int i = 1; i < inner->rank; i++)
        inner->stride[i] = 0;
    inner->stride[0] = step;
}

/* The loops over blocks and within one.  t[]: `vectors` parameters first, then
 * tensors of x's shape, the last one written; NULL: absent.  groups: 0 for
 * layer norm over dimensions axis.. */
template <int N>
static void norm_loops(const struct kern_tensor *const (&t)[N], int vectors,
                       int groups, int axis, struct cuda_strided<N> *outer,
                       struct cuda_strided<N> *inner)
{
    const int split = groups > 0 ? 2 : axis;
    struct kern_tensor out[N], in[N];
    const struct kern_tensor *at_out[N] = {}, *at_in[N] = {};

    for (int k = N - 1; k >= 0; k--) {
        if (!t[k])
            continue;
        at_out[k] = &out[k];
        at_in[k] = &in[k];
        if (groups > 0 && k >= vectors) {
            norm_split_groups(t[k], groups, &out[k], &in[k]);
        } else if (groups > 0) {
            norm_split_vector(t[k], groups, &out[N - 1], &in[N - 1], &out[k],
                              &in[k]);
        } else if (k >= vectors) {
            out[k] = norm_head(t[k], axis);
            in[k] = norm_tail(t[k], axis);
        } else {
            at_out[k] = NULL;
            at_in[k] = t[k];
        }
    }
    outer->init(split, out[N - 1].dim, at_out);
    inner->init(in[N - 1].rank, in[N - 1].dim, at_in);
}

#endif
