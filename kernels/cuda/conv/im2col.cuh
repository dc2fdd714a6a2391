/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution by im2col, as a baseline: a first kernel writes every window as a
 * row of a matrix, which is multiplied by the weights.  It moves R * S times
 * the input through memory.
 *
 * The matrix is [group][m][d] with d = (c, r, s), the order in which weights
 * lie, so these rows need no packing and take weights that are not constant.
 * It is unfolded by one thread a window and channel, or by one thread an
 * element.
 *
 * The product: a block of 256 threads owns 64 x 64 outputs and walks the depth
 * 16 at a time through shared memory, two tiles [16][64 + 4] of floats (8,704
 * bytes); thread t holds outputs 4 (t / 16) .. + 3 by 4 (t % 16) .. + 3.
 */
#ifndef KERNELS_CUDA_CONV_IM2COL_CUH
#define KERNELS_CUDA_CONV_IM2COL_CUH

#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/strided.cuh"

#define IM2COL_THREADS 256
#define IM2COL_TILE    64
#define IM2COL_DEPTH   16
#define IM2COL_PITCH   (IM2COL_TILE + 4)

struct im2col_args {
    struct conv_geometry g;
    const void *x, *w;
    void *columns;
    int64_t count; /* threads with work while unfolding */
    struct output_args out;
};

/* Element (r, s) of the window of output m in channel c, or 0. */
template <typename T>
static __device__ __forceinline__ T im2col_read(const struct conv_geometry &g,
                                                const void *x, int m, int c,
                                                int r, int s)
{
    const int q = m % g.q, p = m / g.q % g.p, n = m / g.q / g.p;
    const int h = p * g.stride_h - g.pad_top + r * g.dilation_h;
    const int w = q * g.stride_w - g.pad_left + s * g.dilation_w;

    if ((unsigned)h >= (unsigned)g.h || (unsigned)w >= (unsigned)g.w)
        return from_float<T>(0.0f);
    return ((const T *)x)[((n * g.h + h) * g.w + w) * g.c + c];
}

/* One thread a window and channel. */
template <typename T>
static __global__ void __launch_bounds__(IM2COL_THREADS)
    im2col_windows(const __grid_constant__ struct im2col_args a)
{
    const int64_t i = (int64_t)blockIdx.x * IM2COL_THREADS + (int)threadIdx.x;

    if (i >= a.count)
        return;
    const int c = (int)(i % a.g.c), m = (int)(i / a.g.c), rs = a.g.r * a.g.s;
    T *to = (T *)a.columns + ((int64_t)(c / a.g.cg) * a.g.m + m) * a.g.depth +
            c % a.g.cg * rs;
    for (int r = 0; r < a.g.r; r++)
        for (int s = 0; s < a.g.s; s++)
            to[r * a.g.s + s] = im2col_read<T>(a.g, a.x, m, c, r, s);
}

/* One thread an element of the matrix. */
template <typename T>
static __global__ void __launch_bounds__(IM2COL_THREADS)
    im2col_elements(const __grid_constant__ struct im2col_args a)
{
    const int64_t i = (int64_t)blockIdx.x * IM2COL_THREADS + (int)threadIdx.x;

    if (i >= a.count)
        return;
    const int d = (int)(i % a.g.depth), rs = a.g.r * a.g.s;
    const int64_t row = i / a.g.depth;
    const int m = (int)(row % a.g.m), group = (int)(row / a.g.m);
    ((T *)a.columns)[i] = im2col_read<T>(a.g, a.x, m, group * a.g.cg + d / rs,
                                         d % rs / a.g.s, d % rs % a.g.s);
}

/* Copies 64 rows of `depth` elements, 16 of each from `at` on, transposed. */
template <typename T>
static __device__ __forceinline__ void
im2col_fetch(const T *from, int rows, int depth, int at, float *to)
{
    for (int i = threadIdx.x; i < IM2COL_TILE * IM2COL_DEPTH;
         i += IM2COL_THREADS) {
        const int d = i % IM2COL_DEPTH, row = i / IM2COL_DEPTH;
        to[d * IM2COL_PITCH + row] =
            row < rows && at + d < depth
                ? to_float(from[(int64_t)row * depth + at + d])
                : 0.0f;
    }
}

template <typename T>
static __global__ void __launch_bounds__(IM2COL_THREADS)
    im2col_product(const __grid_constant__ struct im2col_args a)
{
    LAUNCH_SHARED(shared);
    float *x = (float *)shared, *w = x + IM2COL_DEPTH * IM2COL_PITCH;
    const int tiles = (a.g.kg + IM2COL_TILE - 1) / IM2COL_TILE;
    const int m0 = (int)blockIdx.x / tiles * IM2COL_TILE;
    const int n0 = (int)blockIdx.x % tiles * IM2COL_TILE, group = blockIdx.z;
    const int ty = threadIdx.x / 16 * 4, tx = threadIdx.x % 16 * 4;
    float acc[4][4] = {};

    for (int at = 0; at < a.g.depth; at += IM2COL_DEPTH) {
        im2col_fetch((const T *)a.columns +
                         ((int64_t)group * a.g.m + m0) * a.g.depth,
                     a.g.m - m0, a.g.depth, at, x);
        im2col_fetch((const T *)a.w +
                         ((int64_t)group * a.g.kg + n0) * a.g.depth,
                     a.g.kg - n0, a.g.depth, at, w);
        __syncthreads();
#pragma unroll
        for (int d = 0; d < IM2COL_DEPTH; d++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    acc[i][j] = fmaf(x[d * IM2COL_PITCH + ty + i],
                                     w[d * IM2COL_PITCH + tx + j], acc[i][j]);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (m0 + ty + i < a.g.m)
            output_scalars<T, 4>(a.out, m0 + ty + i, group * a.g.kg + n0 + tx,
                                 (group + 1) * a.g.kg, acc[i]);
}

/* ---- the host's side ----------------------------------------------- */

static int im2col_read(const struct kern_problem *p, const struct kern_device *,
                       int, struct conv_geometry *g, struct infer_error *why)
{
    const struct kern_tensor *w = &p->in[CONV_W];
    const int rc = conv_geometry_read(p, g, why);

    if (rc < 0)
        return rc;
    if (w->dtype != p->in[CONV_X].dtype || !kern_tensor_is_dense(w, KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED,
                         "weights are not dense row-major of the input's type");
    if ((int64_t)g->m * g->depth > INT32_MAX / g->groups)
        return error_set(why, INFER_EUNSUPPORTED,
                         "unfolded input has more than 2^31 elements");
    return 0;
}

/* Never the choice where another row will do. */
static double im2col_estimate(const struct kern_problem *p,
                              const struct kern_device *d)
{
    (void)p;
    (void)d;
    return 1e20;
}

static void im2col_declare(struct kern_exec *e, const struct conv_geometry *g)
{
    e->workspace = (size_t)g->groups * (size_t)g->m * (size_t)g->depth *
                   infer_dtype_size(e->problem.in[CONV_X].dtype);
}

template <typename T, int ELEMENTS>
static int im2col_launch(const struct kern_exec *e,
                         const struct kern_args *args, struct infer_error *err)
{
    const struct conv_geometry *g = (const struct conv_geometry *)e->state;
    struct im2col_args a;

    if (g->m == 0)
        return 0;
    a.g = *g;
    a.x = args->in[CONV_X];
    a.w = args->in[CONV_W];
    a.columns = args->workspace;
    a.out = output_of(e, args, g->k);
    a.count = (int64_t)g->m * (ELEMENTS ? g->depth * g->groups : g->c);
    const int rc =
        launch_kernel(ELEMENTS ? im2col_elements<T> : im2col_windows<T>,
                      dim3(cuda_blocks(a.count, IM2COL_THREADS)),
                      IM2COL_THREADS, 0, args->stream, a, err);
    if (rc < 0)
        return rc;
    const dim3 grid(conv_ceil_div(g->m, IM2COL_TILE) *
                        conv_ceil_div(g->kg, IM2COL_TILE),
                    1, g->groups);
    return launch_kernel(im2col_product<T>, grid, IM2COL_THREADS,
                         2 * IM2COL_DEPTH * IM2COL_PITCH * sizeof(float),
                         args->stream, a, err);
}

#define IM2COL_ROW(symbol, T, elements)                                        \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = state_supports<struct conv_geometry, im2col_read>,         \
        .estimate = im2col_estimate,                                           \
        .prepare =                                                             \
            state_prepare<struct conv_geometry, im2col_read, im2col_declare>,  \
        .launch = im2col_launch<T, elements>,                                  \
        .release = cuda_state_release,                                         \
    };

#endif
