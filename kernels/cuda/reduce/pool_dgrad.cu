/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of pooling of 1 to 3 dimensions, gathered: each element of dx reads
 * the windows that hold it.  A maximum is searched again, so the forward pass
 * saves nothing, and no two threads add to one place.
 *
 * A thread computes V channels of a pixel of dx: 16 bytes if the channels of
 * all tensors are innermost, else one element.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/window.cuh"

#define THREADS 128

struct pool_args {
    struct cuda_window w;   /* x_stride of dx, y_stride of dy; splits dx */
    int64_t from_stride[5]; /* of x; r_stride of the residual */
    uint32_t count;
    bool max, include_pad, residual;
    const void *dy, *x, *r;
    void *dx;
};

static __device__ __forceinline__ int64_t at_of(const int64_t *stride,
                                                uint32_t n, int64_t c, int d,
                                                int h, int w)
{
    return n * stride[0] + c * stride[1] + d * stride[2] + h * stride[3] +
           w * stride[4];
}

/* The first and the last window along dimension d that may hold position i. */
struct reach {
    int first, last;
};

static __device__ __forceinline__ struct reach
reach_of(const struct cuda_window &w, int d, int i)
{
    const int at = i + w.pad[d];
    const int low = at - (w.kernel[d] - 1) * w.dilation[d];
    struct reach r;

    r.first = low <= 0 ? 0 : (low + w.step[d] - 1) / w.step[d];
    r.last = at < 0 ? -1 : min(at / w.step[d], w.out[d] - 1);
    return r;
}

/* The tap of window o that is position i, or -1 where it lies between two. */
static __device__ __forceinline__ int tap_of(const struct cuda_window &w, int d,
                                             int i, int o)
{
    const int at = i + w.pad[d] - o * w.step[d];

    if (w.dilation[d] == 1)
        return at;
    return at % w.dilation[d] == 0 ? at / w.dilation[d] : -1;
}

/* Taps of window o along dimension d that an average counts. */
static __device__ __forceinline__ int counted(const struct cuda_window &w,
                                              int d, int o, bool include_pad)
{
    const int base = o * w.step[d] - w.pad[d], n = w.kernel[d];
    const int low = include_pad ? -w.pad[d] : 0;
    const int high = w.in[d] + (include_pad ? w.pad_end[d] : 0);

    return max(min(window_first_tap(base, w.dilation[d], high), n) -
                   min(window_first_tap(base, w.dilation[d], low), n),
               0);
}

/* Adds dy to the channels whose first maximum of the window is tap `own`. */
template <typename T, int V>
static __device__ __forceinline__ void
give_max(const struct pool_args &a, uint32_t n, int64_t c, int od, int oh,
         int ow, int own, const float *dy, float *acc)
{
    const struct cuda_window &w = a.w;
    float best[V];
    int top[V], tap = 0;

#pragma unroll
    for (int j = 0; j < V; j++)
        top[j] = -1;
    for (int kd = 0; kd < w.kernel[0]; kd++) {
        const int d = od * w.step[0] + kd * w.dilation[0] - w.pad[0];
        for (int kh = 0; kh < w.kernel[1]; kh++) {
            const int h = oh * w.step[1] + kh * w.dilation[1] - w.pad[1];
            for (int kw = 0; kw < w.kernel[2]; kw++, tap++) {
                const int i = ow * w.step[2] + kw * w.dilation[2] - w.pad[2];
                if (d < 0 || d >= w.in[0] || h < 0 || h >= w.in[1] || i < 0 ||
                    i >= w.in[2])
                    continue;
                const vec<T, V> x = load_vec<T, V>(
                    (const T *)a.x + at_of(a.from_stride, n, c, d, h, i));
#pragma unroll
                for (int j = 0; j < V; j++) {
                    const float f = to_float(x.at[j]);
                    if (top[j] < 0 || f > best[j] || f != f) {
                        best[j] = f;
                        top[j] = tap;
                    }
                }
            }
        }
    }
#pragma unroll
    for (int j = 0; j < V; j++)
        if (top[j] == own)
            acc[j] += dy[j];
}

/* What window (od, oh, ow) gives; own: the number of its tap that is here. */
template <typename T, int V>
static __device__ __forceinline__ void give(const struct pool_args &a,
                                            uint32_t n, int64_t c, int od,
                                            int oh, int ow, int own, float *acc)
{
    const vec<T, V> v =
        load_vec<T, V>((const T *)a.dy + at_of(a.w.y_stride, n, c, od, oh, ow));
    float dy[V];

#pragma unroll
    for (int j = 0; j < V; j++)
        dy[j] = to_float(v.at[j]);
    if (a.max) {
        give_max<T, V>(a, n, c, od, oh, ow, own, dy, acc);
        return;
    }
    const int taps = counted(a.w, 0, od, a.include_pad) *
                     counted(a.w, 1, oh, a.include_pad) *
                     counted(a.w, 2, ow, a.include_pad);
#pragma unroll
    for (int j = 0; j < V; j++)
        acc[j] += dy[j] / (float)taps;
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    pool_kernel(const __grid_constant__ struct pool_args a)
{
    const uint32_t i = blockIdx.x * (uint32_t)THREADS + threadIdx.x;
    const struct cuda_window &w = a.w;
    uint32_t o[5];
    float acc[V];

    launch_wait();
    if (i >= a.count)
        return;
    w.index(i, o);
    const int64_t c = (int64_t)o[1] * V;
#pragma unroll
    for (int j = 0; j < V; j++)
        acc[j] = 0;
    const struct reach rd = reach_of(w, 0, (int)o[2]);
    const struct reach rh = reach_of(w, 1, (int)o[3]);
    const struct reach rw = reach_of(w, 2, (int)o[4]);
    for (int od = rd.last; od >= rd.first; od--) {
        const int kd = tap_of(w, 0, (int)o[2], od);
        for (int oh = rh.last; kd >= 0 && oh >= rh.first; oh--) {
            const int kh = tap_of(w, 1, (int)o[3], oh);
            for (int ow = rw.last; kh >= 0 && ow >= rw.first; ow--) {
                const int kw = tap_of(w, 2, (int)o[4], ow);
                if (kw >= 0)
                    give<T, V>(a, o[0], c, od, oh, ow,
                               (kd * w.kernel[1] + kh) * w.kernel[2] + kw, acc);
            }
        }
    }
    if (a.residual) {
        const vec<T, V> r = load_vec<T, V>(
            (const T *)a.r +
            at_of(w.r_stride, o[0], c, (int)o[2], (int)o[3], (int)o[4]));
#pragma unroll
        for (int j = 0; j < V; j++)
            acc[j] += to_float(r.at[j]);
    }
    store_floats<T, V>(
        (T *)a.dx + at_of(w.x_stride, o[0], c, (int)o[2], (int)o[3], (int)o[4]),
        acc);
}

/* The window of the forward pass, dx in the place of x; positions number dx's
 * elements. */
static void fill_window(struct pool_args *a, const struct kern_problem *p,
                        int units)
{
    struct kern_problem fprop = *p;
    struct cuda_window *w = &a->w;

    fprop.in[0] = p->out[0];
    fprop.out[0] = p->in[0];
    w->fill_pool(&fprop);
    w->split_extent(units, w->in, w->x_stride);
    if (kern_problem_in(p, 1))
        w->spread(&p->in[1], a->from_stride);
    if (kern_problem_in(p, 2))
        w->spread(&p->in[2], w->r_stride);
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const int wide = 16 / (int)sizeof(T);
    struct pool_args a = {};

    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    a.max = p->attr.pool.kind == KERN_POOL_MAX;
    a.include_pad = p->attr.pool.count_include_pad;
    a.residual = kern_problem_in(p, 2);
    a.dy = args->in[0];
    a.x = args->in[1];
    a.r = args->in[2];
    a.dx = args->out[0];
    const bool vectors = pool_in_vectors(&p->in[0], a.dy, wide) &&
                         pool_in_vectors(kern_problem_in(p, 1), a.x, wide) &&
                         pool_in_vectors(kern_problem_in(p, 2), a.r, wide) &&
                         pool_in_vectors(&p->out[0], a.dx, wide);
    const int v = vectors ? wide : 1;
    fill_window(&a, p, (int)(p->out[0].dim[1] / v));
    a.count = (uint32_t)(kern_tensor_count(&p->out[0]) / v);
    return launch_chained(vectors ? pool_kernel<T, wide> : pool_kernel<T, 1>,
                          cuda_blocks(a.count, THREADS), THREADS, 0,
                          args->stream, a, err);
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(pool_dgrad_cuda_gather) = {
    .supports = pool_supports<true>,
    .launch = launch,
};
