/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of 2-D maximum pooling in two passes, channels last: the first
 * notes for each window which of its taps was the maximum, a byte each, in the
 * workspace; the second gathers for each element of dx the gradients of the
 * windows that chose it.  So x is read once, and windows that overlap are not
 * searched again.
 *
 * One thread V channels, 16 bytes, of a window or of a pixel of dx.
 */
#include "kernels/cuda/element.cuh"
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

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    search_kernel(const __grid_constant__ struct index_args a)
{
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
                    (const T *)a.x +
                    (((n * (int64_t)rows + h) * columns + w) * a.units.divisor +
                     unit) *
                        V);
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

/* The first and the last window along one axis that hold position i. */
static __device__ __forceinline__ void windows_of(int i, int pad, int window,
                                                  int stride, int count,
                                                  int *first, int *last)
{
    const int reach = i + pad - window + 1;

    *first = reach <= 0 ? 0 : (reach + stride - 1) / stride;
    *last = min((i + pad) / stride, count - 1);
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    gather_kernel(const __grid_constant__ struct index_args a)
{
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
                    (((n * (int64_t)a.p.divisor + p) * a.q.divisor + q) *
                         a.units.divisor +
                     unit) *
                    V;
                const vec<uint8_t, V> top = load_vec<uint8_t, V>(a.index + at);
                const vec<T, V> dy = load_vec<T, V>((const T *)a.dy + at);
#pragma unroll
                for (int j = 0; j < V; j++)
                    acc[j] += top.at[j] == tap ? to_float(dy.at[j]) : 0.0f;
            }
        if (a.residual) {
            const vec<T, V> r = load_vec<T, V>((const T *)a.residual + i * V);
#pragma unroll
            for (int j = 0; j < V; j++)
                acc[j] += to_float(r.at[j]);
        }
        vec<T, V> y;
#pragma unroll
        for (int j = 0; j < V; j++)
            y.at[j] = from_float<T>(acc[j]);
        store_vec<T, V>((T *)a.dx + i * V, y);
    }
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_pool *pool = &p->attr.pool;
    const struct kern_tensor *dx = &p->out[0], *dy = &p->in[0];
    const int v = 16 / (int)sizeof(T);
    const cudaStream_t stream = cuda_stream(args);
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
    search_kernel<T, v>
        <<<cuda_grid(a.windows, THREADS), THREADS, 0, stream>>>(a);
    gather_kernel<T, v>
        <<<cuda_grid(a.pixels, THREADS), THREADS, 0, stream>>>(a);
    return CUDA_LAUNCHED(err);
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
