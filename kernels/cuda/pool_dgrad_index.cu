/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of 2-D maximum pooling in two passes, channels last: the first
 * notes for each window which of its taps was the maximum, a byte each, in the
 * workspace; the second gathers for each element of dx the gradients of the
 * windows that chose it.  So x is read once, and windows that overlap are not
 * searched again.
 *
 * One thread V channels, 16 bytes, of a window or of a pixel of dx.  The usual
 * windows (K x K at steps of S) have kernels of their own, whose loads are all
 * made first, those outside from a pixel inside, so that they are under way
 * together.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/walk.cuh"

#define THREADS 256

struct index_args {
    int64_t windows, pixels; /* vectors of dy and of dx */
    struct fast_div units, p, q, h, w;
    int r, s, stride_h, stride_w, top, left;
    const void *dy, *x, *residual; /* NULL: none */
    uint8_t *index;
    void *dx;
};

/* Whether the tap's value takes over: the first does, then what is larger, and
 * a NaN from all before it. */
template <typename T, int V>
static __device__ __forceinline__ void see(const vec<T, V> &x, int tap,
                                           bool first, float (&best)[V],
                                           vec<uint8_t, V> *top)
{
#pragma unroll
    for (int j = 0; j < V; j++) {
        const float f = to_float(x.at[j]);
        if (first || f > best[j] || f != f) {
            best[j] = f;
            top->at[j] = (uint8_t)tap;
        }
    }
}

/* The vector `unit` of a pixel, of a tensor of that many rows and columns. */
static __device__ __forceinline__ int64_t vector_at(int64_t n, int rows,
                                                    int columns, int h, int w,
                                                    uint32_t units,
                                                    uint32_t unit)
{
    return ((n * rows + h) * columns + w) * units + unit;
}

template <typename T, int V, int K>
static __global__ void __launch_bounds__(THREADS)
    search_square(const __grid_constant__ struct index_args a)
{
    const int rows = (int)a.h.divisor, columns = (int)a.w.divisor;

    launch_wait();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < a.windows;
         i += (int64_t)gridDim.x * THREADS) {
        uint32_t unit, p, q;
        uint32_t n = a.units.divmod((uint32_t)i, &unit);
        n = a.q.divmod(n, &q);
        n = a.p.divmod(n, &p);
        const int h0 = (int)p * a.stride_h - a.top;
        const int w0 = (int)q * a.stride_w - a.left;
        vec<T, V> x[K][K];
        vec<uint8_t, V> top = {};
        float best[V];
        bool seen = false;
#pragma unroll
        for (int r = 0; r < K; r++)
#pragma unroll
            for (int s = 0; s < K; s++)
                x[r][s] = load_vec<T, V>(
                    (const T *)a.x + vector_at(n, rows, columns,
                                               min(max(h0 + r, 0), rows - 1),
                                               min(max(w0 + s, 0), columns - 1),
                                               a.units.divisor, unit) *
                                         V);
#pragma unroll
        for (int j = 0; j < V; j++)
            best[j] = 0;
#pragma unroll
        for (int r = 0; r < K; r++)
#pragma unroll
            for (int s = 0; s < K; s++)
                if ((unsigned)(h0 + r) < (unsigned)rows &&
                    (unsigned)(w0 + s) < (unsigned)columns) {
                    see<T, V>(x[r][s], r * K + s, !seen, best, &top);
                    seen = true;
                }
        store_vec<uint8_t, V>(a.index + i * V, top);
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    search_kernel(const __grid_constant__ struct index_args a)
{
    const int rows = (int)a.h.divisor, columns = (int)a.w.divisor;

    launch_wait();
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
                    (const T *)a.x +
                    vector_at(n, rows, columns, h, w, a.units.divisor, unit) *
                        V);
                see<T, V>(x, r * a.s + s, !seen, best, &top);
                seen = true;
            }
        store_vec<uint8_t, V>(a.index + i * V, top);
    }
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

/* dx from the sums, with what is added to them. */
template <typename T, int V>
static __device__ __forceinline__ void store_sums(const struct index_args &a,
                                                  int64_t i, float (&acc)[V])
{
    vec<T, V> y;

    if (a.residual) {
        const vec<T, V> r = load_vec<T, V>((const T *)a.residual + i * V);
#pragma unroll
        for (int j = 0; j < V; j++)
            acc[j] += to_float(r.at[j]);
    }
#pragma unroll
    for (int j = 0; j < V; j++)
        y.at[j] = from_float<T>(acc[j]);
    store_vec<T, V>((T *)a.dx + i * V, y);
}

/* Along an axis the windows that hold a position are the REACH last ones that
 * begin at it or before. */
template <typename T, int V, int K, int S>
static __global__ void __launch_bounds__(THREADS)
    gather_square(const __grid_constant__ struct index_args a)
{
    enum { REACH = (K + S - 1) / S };
    const int rows = (int)a.p.divisor, columns = (int)a.q.divisor;

    launch_wait();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < a.pixels;
         i += (int64_t)gridDim.x * THREADS) {
        uint32_t unit, h, w;
        uint32_t n = a.units.divmod((uint32_t)i, &unit);
        vec<uint8_t, V> top[REACH][REACH];
        vec<T, V> dy[REACH][REACH];
        float acc[V];
        n = a.w.divmod(n, &w);
        n = a.h.divmod(n, &h);
        const int p0 = ((int)h + a.top) / S - REACH + 1;
        const int q0 = ((int)w + a.left) / S - REACH + 1;
#pragma unroll
        for (int p = 0; p < REACH; p++)
#pragma unroll
            for (int q = 0; q < REACH; q++) {
                const int64_t at =
                    vector_at(n, rows, columns, min(max(p0 + p, 0), rows - 1),
                              min(max(q0 + q, 0), columns - 1), a.units.divisor,
                              unit) *
                    V;
                top[p][q] = load_vec<uint8_t, V>(a.index + at);
                dy[p][q] = load_vec<T, V>((const T *)a.dy + at);
            }
#pragma unroll
        for (int j = 0; j < V; j++)
            acc[j] = 0;
#pragma unroll
        for (int p = 0; p < REACH; p++)
#pragma unroll
            for (int q = 0; q < REACH; q++) {
                const int r = (int)h + a.top - (p0 + p) * S;
                const int s = (int)w + a.left - (q0 + q) * S;
                if ((unsigned)(p0 + p) >= (unsigned)rows ||
                    (unsigned)(q0 + q) >= (unsigned)columns || r >= K || s >= K)
                    continue;
#pragma unroll
                for (int j = 0; j < V; j++)
                    acc[j] += top[p][q].at[j] == r * K + s
                                  ? to_float(dy[p][q].at[j])
                                  : 0.0f;
            }
        store_sums<T, V>(a, i, acc);
    }
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
                const int64_t at =
                    vector_at(n, (int)a.p.divisor, (int)a.q.divisor, p, q,
                              a.units.divisor, unit) *
                    V;
                const vec<uint8_t, V> top = load_vec<uint8_t, V>(a.index + at);
                const vec<T, V> dy = load_vec<T, V>((const T *)a.dy + at);
#pragma unroll
                for (int j = 0; j < V; j++)
                    acc[j] += top.at[j] == tap ? to_float(dy.at[j]) : 0.0f;
            }
        store_sums<T, V>(a, i, acc);
    }
}

/* K of K x K windows at steps of 2 that have kernels of their own, else 0. */
static int square_of(const struct kern_pool *p)
{
    const bool square =
        p->window[0] == p->window[1] && p->stride[0] == 2 && p->stride[1] == 2;

    return square && (p->window[0] == 2 || p->window[0] == 3) ? p->window[0]
                                                              : 0;
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_pool *pool = &p->attr.pool;
    const struct kern_tensor *dx = &p->out[0], *dy = &p->in[0];
    const int v = 16 / (int)sizeof(T);
    void *stream = args->stream;
    struct index_args a = {};

    a.windows = kern_tensor_count(dy) / v;
    a.pixels = kern_tensor_count(dx) / v;
    a.units.init((uint32_t)(dx->dim[1] / v));
    a.p.init((uint32_t)dy->dim[2]);
    a.q.init((uint32_t)dy->dim[3]);
    a.h.init((uint32_t)dx->dim[2]);
    a.w.init((uint32_t)dx->dim[3]);
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
    const int square = square_of(pool);
    const int r = launch_chained(square == 3   ? search_square<T, v, 3>
                                 : square == 2 ? search_square<T, v, 2>
                                               : search_kernel<T, v>,
                                 dim3(cuda_grid(a.windows, THREADS)),
                                 dim3(THREADS), 0, stream, a, err);
    if (r < 0)
        return r;
    return launch_chained(square == 3   ? gather_square<T, v, 3, 2>
                          : square == 2 ? gather_square<T, v, 2, 2>
                                        : gather_kernel<T, v>,
                          dim3(cuda_grid(a.pixels, THREADS)), dim3(THREADS), 0,
                          stream, a, err);
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

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return CUDA_DISPATCH(e->problem.in[0].dtype, run, &e->problem, args, err);
}

CUDA_PREPARED_ROWS(pool_dgrad, index, KERN_POOL_DGRAD, supports, prepare,
                   launch)
