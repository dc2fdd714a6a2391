/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of 2-D maximum pooling in two passes, channels last: the first
 * notes for each window which of its taps was the maximum, a byte each, in the
 * workspace; the second gathers for each element of dx the gradients of the
 * windows that chose it.  So x is read once, and windows that overlap are not
 * searched again.
 *
 * One thread V channels, 16 bytes, of a window or of a pixel of dx.  Windows of
 * 3x3 and 2x2 are searched unrolled, all loads under way together; and where
 * their stride is 2, a thread gathers for 2x2 pixels at a time: counted from
 * the padded corner, rows 2i and 2i + 1 lie in windows i and, of 3x3, i - 1, so
 * that each window is read once by each of its blocks.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"

#define THREADS 256

struct index_args {
    int64_t windows, pixels; /* vectors of dy and of dx */
    int64_t blocks;          /* vectors of 2x2 pixels of dx */
    struct fast_div units, p, q, h, w, block_h, block_w;
    int r, s, stride_h, stride_w, top, left;
    const void *dy, *x, *residual; /* NULL: none */
    uint8_t *index;
    void *dx;
};

/* Pixel (h, w) of image n. */
template <int V>
static __device__ __forceinline__ int64_t pixel_at(const struct index_args &a,
                                                   uint32_t n, int h, int w,
                                                   uint32_t unit)
{
    return (((n * (int64_t)a.h.divisor + h) * a.w.divisor + w) *
                a.units.divisor +
            unit) *
           V;
}

/* Window (p, q). */
template <int V>
static __device__ __forceinline__ int64_t window_at(const struct index_args &a,
                                                    uint32_t n, int p, int q,
                                                    uint32_t unit)
{
    return (((n * (int64_t)a.p.divisor + p) * a.q.divisor + q) *
                a.units.divisor +
            unit) *
           V;
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    search_kernel(const __grid_constant__ struct index_args a)
{
    launch_wait();
    const int rows = (int)a.h.divisor, columns = (int)a.w.divisor;

    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < a.windows;
         i += (int64_t)gridDim.x * THREADS) {
        uint32_t unit, p, q;
        uint32_t n = a.units.divmod((uint32_t)i, &unit);
        n = a.q.divmod(n, &q);
        n = a.p.divmod(n, &p);
        const int h0 = (int)p * a.stride_h - a.top;
        const int w0 = (int)q * a.stride_w - a.left;
        float best[V];
        vec<uint8_t, V> top = {};
        bool seen = false;
        for (int r = 0; r < a.r; r++)
            for (int s = 0; s < a.s; s++) {
                const int h = h0 + r, w = w0 + s;
                if (h < 0 || h >= rows || w < 0 || w >= columns)
                    continue;
                const vec<T, V> x = load_vec<T, V>(
                    (const T *)a.x + pixel_at<V>(a, n, h, w, unit));
#pragma unroll
                for (int j = 0; j < V; j++) {
                    const float f = to_float(x.at[j]);
                    if (!seen || f > best[j] || f != f) {
                        best[j] = f;
                        top.at[j] = (uint8_t)(r * a.s + s);
                    }
                }
                seen = true;
            }
        store_vec<uint8_t, V>(a.index + i * V, top);
    }
}

/* Pixels outside are loaded from one inside and left out. */
template <typename T, int V, int R>
static __global__ void __launch_bounds__(THREADS)
    search_unrolled(const __grid_constant__ struct index_args a)
{
    launch_wait();
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    const int rows = (int)a.h.divisor, columns = (int)a.w.divisor;
    uint32_t unit, p, q;
    vec<T, V> x[R][R];
    float best[V];
    int top[V];

    if (i >= a.windows)
        return;
    uint32_t n = a.units.divmod((uint32_t)i, &unit);
    n = a.q.divmod(n, &q);
    n = a.p.divmod(n, &p);
    const int h0 = (int)p * a.stride_h - a.top;
    const int w0 = (int)q * a.stride_w - a.left;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int s = 0; s < R; s++)
            x[r][s] = load_vec<T, V>(
                (const T *)a.x +
                pixel_at<V>(a, n, min(max(h0 + r, 0), rows - 1),
                            min(max(w0 + s, 0), columns - 1), unit));
            /* The first tap inside is the maximum where none is above
             * -infinity. */
#pragma unroll
    for (int j = 0; j < V; j++) {
        best[j] = -INFINITY;
        top[j] = max(-h0, 0) * R + max(-w0, 0);
    }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int s = 0; s < R; s++) {
            const bool inside = (unsigned)(h0 + r) < (unsigned)rows &&
                                (unsigned)(w0 + s) < (unsigned)columns;
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float f = to_float(x[r][s].at[j]);
                if (inside && (f > best[j] || f != f)) {
                    best[j] = f;
                    top[j] = r * R + s;
                }
            }
        }
    vec<uint8_t, V> index;
#pragma unroll
    for (int j = 0; j < V; j++)
        index.at[j] = (uint8_t)top[j];
    store_vec<uint8_t, V>(a.index + i * V, index);
}

/* The first and the last window along one axis that hold position i. */
static __device__ __forceinline__ void windows_of(int i, int pad, int window,
                                                  int stride, int count,
                                                  int *first, int *last)
{
    const int reach = i + pad - window + 1;

    *first = reach <= 0 ? 0 : (reach + stride - 1) / stride;
    *last = min((i + pad) / stride, count - 1);
}

/* Stores V elements of dx. */
template <typename T, int V>
static __device__ __forceinline__ void finish(const struct index_args &a,
                                              int64_t at, float (&acc)[V])
{
    if (a.residual) {
        const vec<T, V> r = load_vec<T, V>((const T *)a.residual + at);
#pragma unroll
        for (int j = 0; j < V; j++)
            acc[j] += to_float(r.at[j]);
    }
    store_floats<T, V>((T *)a.dx + at, acc);
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    gather_kernel(const __grid_constant__ struct index_args a)
{
    launch_wait();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < a.pixels;
         i += (int64_t)gridDim.x * THREADS) {
        uint32_t unit, h, w;
        uint32_t n = a.units.divmod((uint32_t)i, &unit);
        int p0, p1, q0, q1;
        float acc[V];
        n = a.w.divmod(n, &w);
        n = a.h.divmod(n, &h);
        windows_of((int)h, a.top, a.r, a.stride_h, (int)a.p.divisor, &p0, &p1);
        windows_of((int)w, a.left, a.s, a.stride_w, (int)a.q.divisor, &q0, &q1);
#pragma unroll
        for (int j = 0; j < V; j++)
            acc[j] = 0;
        for (int p = p0; p <= p1; p++)
            for (int q = q0; q <= q1; q++) {
                const int tap = ((int)h + a.top - p * a.stride_h) * a.s +
                                (int)w + a.left - q * a.stride_w;
                const int64_t at = window_at<V>(a, n, p, q, unit);
                const vec<uint8_t, V> top = load_vec<uint8_t, V>(a.index + at);
                const vec<T, V> dy = load_vec<T, V>((const T *)a.dy + at);
#pragma unroll
                for (int j = 0; j < V; j++)
                    acc[j] += top.at[j] == tap ? to_float(dy.at[j]) : 0.0f;
            }
        finish<T, V>(a, i * V, acc);
    }
}

/* 2x2 pixels, windows of R x R with stride 2. */
template <typename T, int V, int R>
static __global__ void __launch_bounds__(THREADS)
    gather_unrolled(const __grid_constant__ struct index_args a)
{
    launch_wait();
    enum { DEPTH = (R + 1) / 2, NOBODY = 255 };
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    vec<uint8_t, V> top[DEPTH][DEPTH];
    vec<T, V> dy[DEPTH][DEPTH];
    uint32_t unit, row, column;

    if (i >= a.blocks)
        return;
    uint32_t n = a.units.divmod((uint32_t)i, &unit);
    n = a.block_w.divmod(n, &column);
    n = a.block_h.divmod(n, &row);
#pragma unroll
    for (int u = 0; u < DEPTH; u++)
#pragma unroll
        for (int v = 0; v < DEPTH; v++) {
            const int p = (int)row - u, q = (int)column - v;
            const bool inside =
                (unsigned)p < a.p.divisor && (unsigned)q < a.q.divisor;
            const int64_t at =
                window_at<V>(a, n, inside ? p : 0, inside ? q : 0, unit);
            top[u][v] = load_vec<uint8_t, V>(a.index + at);
            dy[u][v] = load_vec<T, V>((const T *)a.dy + at);
            if (!inside)
#pragma unroll
                for (int j = 0; j < V; j++)
                    top[u][v].at[j] = NOBODY;
        }
#pragma unroll
    for (int b = 0; b < 4; b++) {
        const int h = 2 * (int)row + b / 2 - a.top;
        const int w = 2 * (int)column + b % 2 - a.left;
        float acc[V] = {};
        if ((unsigned)h >= a.h.divisor || (unsigned)w >= a.w.divisor)
            continue;
            /* Windows in order, the last the nearest. */
#pragma unroll
        for (int u = DEPTH - 1; u >= 0; u--)
#pragma unroll
            for (int v = DEPTH - 1; v >= 0; v--) {
                const int r = b / 2 + 2 * u, s = b % 2 + 2 * v;
                if (r >= R || s >= R)
                    continue;
#pragma unroll
                for (int j = 0; j < V; j++)
                    acc[j] += top[u][v].at[j] == r * R + s
                                  ? to_float(dy[u][v].at[j])
                                  : 0.0f;
            }
        finish<T, V>(a, pixel_at<V>(a, n, h, w, unit), acc);
    }
}

/* The first pass, by the size of the window. */
template <typename T, int V>
static int search(const struct index_args *a, void *stream,
                  struct infer_error *err)
{
    const bool three = a->r == 3 && a->s == 3, two = a->r == 2 && a->s == 2;

    return launch_chained(three ? search_unrolled<T, V, 3>
                          : two ? search_unrolled<T, V, 2>
                                : search_kernel<T, V>,
                          dim3(three || two ? cuda_blocks(a->windows, THREADS)
                                            : cuda_grid(a->windows, THREADS)),
                          THREADS, 0, stream, *a, err);
}

template <typename T, int V>
static int gather(const struct index_args *a, void *stream,
                  struct infer_error *err)
{
    const bool twos = a->stride_h == 2 && a->stride_w == 2;
    const bool three = twos && a->r == 3 && a->s == 3;
    const bool two = twos && a->r == 2 && a->s == 2;

    return launch_chained(three ? gather_unrolled<T, V, 3>
                          : two ? gather_unrolled<T, V, 2>
                                : gather_kernel<T, V>,
                          dim3(three || two ? cuda_blocks(a->blocks, THREADS)
                                            : cuda_grid(a->pixels, THREADS)),
                          THREADS, 0, stream, *a, err);
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_pool *pool = &p->attr.pool;
    const struct kern_tensor *dx = &p->out[0], *dy = &p->in[0];
    const int v = 16 / (int)sizeof(T);
    struct index_args a = {};

    a.windows = kern_tensor_count(dy) / v;
    a.pixels = kern_tensor_count(dx) / v;
    a.units.init((uint32_t)(dx->dim[1] / v));
    a.p.init((uint32_t)dy->dim[2]);
    a.q.init((uint32_t)dy->dim[3]);
    a.h.init((uint32_t)dx->dim[2]);
    a.w.init((uint32_t)dx->dim[3]);
    const int64_t block_h = (dx->dim[2] + pool->pad_begin[0] + 1) / 2;
    const int64_t block_w = (dx->dim[3] + pool->pad_begin[1] + 1) / 2;
    a.blocks = dx->dim[0] * block_h * block_w * (dx->dim[1] / v);
    a.block_h.init((uint32_t)block_h);
    a.block_w.init((uint32_t)block_w);
    a.r = pool->window[0];
    a.s = pool->window[1];
    a.stride_h = pool->stride[0];
    a.stride_w = pool->stride[1];
    a.top = pool->pad_begin[0];
    a.left = pool->pad_begin[1];
    a.dy = args->in[0];
    a.x = args->in[1];
    a.residual = kern_problem_in(p, 2) ? args->in[2] : NULL;
    a.index = (uint8_t *)args->workspace;
    a.dx = args->out[0];
    const int r = search<T, v>(&a, args->stream, err);
    return r < 0 ? r : gather<T, v>(&a, args->stream, err);
}

static bool fits(const struct kern_tensor *t, enum infer_dtype type)
{
    return t->dtype == type && kern_tensor_is_dense(t, KERN_NHWC) &&
           t->dim[1] % (16 / (int64_t)infer_dtype_size(type)) == 0 &&
           kern_tensor_count(t) > 0 && kern_tensor_count(t) < INT32_MAX;
}

/* A window with nothing in it would note a tap that is outside: harmless, as
 * no element of dx asks for that.  Addresses are aligned by the runtime. */
static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_pool *a = &p->attr.pool;
    const enum infer_dtype type = p->in[0].dtype;
    bool ok =
        a->kind == KERN_POOL_MAX && p->in[0].rank == 4 && cuda_is_real(type);

    (void)d;
    ok = ok && fits(&p->in[0], type) && fits(&p->in[1], type) &&
         fits(&p->out[0], type);
    ok = ok && (!kern_problem_in(p, 2) || fits(&p->in[2], type));
    for (int i = 0; ok && i < 2; i++)
        ok = a->dilation[i] == 1 && a->window[i] <= 15 &&
             a->pad_begin[i] >= 0 && a->pad_begin[i] < a->window[i] &&
             a->stride[i] < 1 << 16;
    if (ok)
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "pool: takes a 2-D maximum over at most 15x15, dense with "
                     "whole vectors of channels last");
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    (void)d;
    (void)err;
    e->workspace = (size_t)kern_tensor_count(&e->problem.in[0]);
    return 0;
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(pool_dgrad_cuda_index) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
};
