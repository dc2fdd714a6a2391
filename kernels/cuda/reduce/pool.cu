/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maximum and average pooling of 1 to 3 dimensions.
 *
 * One thread an output position and V channels, 16 bytes of them where they
 * lie side by side, else one; channels are innermost in the thread's number
 * where they are innermost in memory.  No shared memory: neighbouring windows
 * share their inputs through the caches.  The maximum of small square windows
 * has a kernel of its own, which compares without converting.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce/pool_taps.cuh"
#include "kernels/cuda/types.cuh"

#define THREADS 256

struct pool_args {
    struct cuda_window w;
    uint32_t count; /* of threads with work */
    bool max, include_pad;
    struct kern_unary act;
    const void *x;
    void *y;
};

template <typename T, int V>
static __device__ __forceinline__ void see(bool max, const vec<T, V> &v,
                                           float (&acc)[V])
{
#pragma unroll
    for (int j = 0; j < V; j++) {
        const float f = to_float(v.at[j]);
        if (!max)
            acc[j] += f;
        else if (f > acc[j] || f != f) /* NaN stays: nothing is above it */
            acc[j] = f;
    }
}

/* A K x K window at (h, w) of one image: all loads are made first and
 * unconditionally, those outside of a pixel inside, so that they are under way
 * together. */
template <typename T, int V, int K>
static __device__ __forceinline__ void
see_window(const struct pool_args &a, const T *x, int h, int w, float (&acc)[V])
{
    const struct cuda_window &g = a.w;
    vec<T, V> v[K][K];

#pragma unroll
    for (int i = 0; i < K; i++)
#pragma unroll
        for (int j = 0; j < K; j++) {
            const bool ok = (unsigned)(h + i) < (unsigned)g.in[1] &&
                            (unsigned)(w + j) < (unsigned)g.in[2];
            v[i][j] = load_vec<T, V>(
                x +
                (ok ? (h + i) * g.x_stride[3] + (w + j) * g.x_stride[4] : 0));
        }
#pragma unroll
    for (int i = 0; i < K; i++)
#pragma unroll
        for (int j = 0; j < K; j++)
            if ((unsigned)(h + i) < (unsigned)g.in[1] &&
                (unsigned)(w + j) < (unsigned)g.in[2])
                see<T, V>(a.max, v[i][j], acc);
}

/* K: the window is K x K of one image, not dilated; 0: any. */
template <typename T, int V, int K>
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
    const struct taps td = K > 0 ? taps{0, 1, 1} : taps_of<false>(w, 0, o[2]);
    const struct taps th = taps_of<(K > 0)>(w, 1, o[3]);
    const struct taps tw = taps_of<(K > 0)>(w, 2, o[4]);
    const T *x = (const T *)a.x + o[0] * w.x_stride[0] +
                 (int64_t)o[1] * V * w.x_stride[1];
#pragma unroll
    for (int j = 0; j < V; j++)
        acc[j] = a.max ? -INFINITY : 0;
    if (K > 0)
        see_window<T, V, (K > 0 ? K : 1)>(
            a, x, (int)o[3] * w.step[1] - w.pad[1],
            (int)o[4] * w.step[2] - w.pad[2], acc);
    for (int d = td.first; K == 0 && d < td.last; d++) {
        const int64_t id =
            (int64_t)o[2] * w.step[0] - w.pad[0] + (int64_t)d * w.dilation[0];
        for (int h = th.first; h < th.last; h++) {
            const int64_t ih = (int64_t)o[3] * w.step[1] - w.pad[1] +
                               (int64_t)h * w.dilation[1];
            const T *line = x + id * w.x_stride[2] + ih * w.x_stride[3];
            for (int c = tw.first; c < tw.last; c++) {
                const int64_t iw = (int64_t)o[4] * w.step[2] - w.pad[2] +
                                   (int64_t)c * w.dilation[2];
                see<T, V>(a.max, load_vec<T, V>(line + iw * w.x_stride[4]),
                          acc);
            }
        }
    }
    const int inside = max(td.last - td.first, 0) * max(th.last - th.first, 0) *
                       max(tw.last - tw.first, 0);
    const int counted = td.counted * th.counted * tw.counted;
    const float divisor = (float)(a.include_pad ? counted : inside);
    vec<T, V> y;
#pragma unroll
    for (int j = 0; j < V; j++) {
        const float v = inside == 0 ? 0 : a.max ? acc[j] : acc[j] / divisor;
        y.at[j] = from_float<T>(apply_unary(a.act, v));
    }
    store_vec<T, V>(
        (T *)a.y + o[0] * w.y_stride[0] + (int64_t)o[1] * V * w.y_stride[1] +
            o[2] * w.y_stride[2] + o[3] * w.y_stride[3] + o[4] * w.y_stride[4],
        y);
}

/* ---- maxima of small windows --------------------------------------- */

/* NaN stays. */
template <typename T, int V>
static __device__ __forceinline__ void keep_larger(vec<T, V> &best,
                                                   const vec<T, V> &v)
{
#pragma unroll
    for (int j = 0; j < V; j++)
        if (v.at[j] > best.at[j] || v.at[j] != v.at[j])
            best.at[j] = v.at[j];
}

/* Two at a time. */
template <typename Pair, typename T, int V>
static __device__ __forceinline__ void keep_larger_pairs(vec<T, V> &best,
                                                         const vec<T, V> &v)
{
    Pair *const to = reinterpret_cast<Pair *>(best.at);
    const Pair *const from = reinterpret_cast<const Pair *>(v.at);

#pragma unroll
    for (int j = 0; j < V / 2; j++)
        to[j] = __hmax2_nan(to[j], from[j]);
}
template <int V>
static __device__ __forceinline__ void keep_larger(vec<__half, V> &best,
                                                   const vec<__half, V> &v)
{
    keep_larger_pairs<__half2>(best, v);
}
template <int V>
static __device__ __forceinline__ void
keep_larger(vec<__nv_bfloat16, V> &best, const vec<__nv_bfloat16, V> &v)
{
    keep_larger_pairs<__nv_bfloat162>(best, v);
}

/* The coordinate inside 0 .. n - 1 that is nearest to i. */
static __device__ __forceinline__ int inside_of(int i, int n)
{
    return min(max(i, 0), n - 1);
}

/* Windows of K x K over one image, not dilated.  What a window has outside the
 * image is replaced by its pixel next to that, which changes no maximum. */
template <typename T, int V, int K>
static __global__ void __launch_bounds__(THREADS)
    max_kernel(const __grid_constant__ struct pool_args a)
{
    const uint32_t i = blockIdx.x * (uint32_t)THREADS + threadIdx.x;
    const struct cuda_window &w = a.w;
    uint32_t o[5];
    vec<T, V> v[K][K];

    if (i < a.count)
        w.index(i, o);
    launch_wait();
    if (i >= a.count)
        return;
    const int top = (int)o[3] * w.step[1] - w.pad[1];
    const int left = (int)o[4] * w.step[2] - w.pad[2];
    const T *x = (const T *)a.x + o[0] * w.x_stride[0] +
                 (int64_t)o[1] * V * w.x_stride[1];
#pragma unroll
    for (int r = 0; r < K; r++)
#pragma unroll
        for (int s = 0; s < K; s++)
            v[r][s] =
                load_vec<T, V>(x + inside_of(top + r, w.in[1]) * w.x_stride[3] +
                               inside_of(left + s, w.in[2]) * w.x_stride[4]);
#pragma unroll
    for (int r = 1; r < K * K; r++)
        keep_larger(v[0][0], v[r / K][r % K]);
    const bool empty =
        top + K <= 0 || top >= w.in[1] || left + K <= 0 || left >= w.in[2];
    if (empty || a.act.kind != KERN_IDENTITY)
#pragma unroll
        for (int j = 0; j < V; j++)
            v[0][0].at[j] = from_float<T>(
                apply_unary(a.act, empty ? 0 : to_float(v[0][0].at[j])));
    store_vec<T, V>((T *)a.y + o[0] * w.y_stride[0] +
                        (int64_t)o[1] * V * w.y_stride[1] +
                        o[3] * w.y_stride[3] + o[4] * w.y_stride[4],
                    v[0][0]);
}

/* ---- the host's side ----------------------------------------------- */

/* K of a K x K window that has a kernel of its own, else 0. */
static int square_of(const struct cuda_window *w)
{
    const bool plain = w->kernel[0] == 1 && w->in[0] == 1 && w->pad[0] == 0 &&
                       w->dilation[1] == 1 && w->dilation[2] == 1 &&
                       w->in[1] > 0 && w->in[2] > 0 && w->pad[1] >= 0 &&
                       w->pad[2] >= 0 && w->pad_end[1] >= 0 &&
                       w->pad_end[2] >= 0; /* negative ones crop */

    return plain && w->kernel[1] == w->kernel[2] && w->kernel[1] <= 3
               ? w->kernel[1]
               : 0;
}

typedef void (*pool_function)(const struct pool_args);

/* square: of square_of(). */
template <typename T, int V>
static pool_function kernel_for(bool max, bool vectors, int square)
{
    if (!vectors)
        return pool_kernel<T, 1, 0>;
    if (square == 3)
        return max ? max_kernel<T, V, 3> : pool_kernel<T, V, 3>;
    if (square == 2)
        return max ? max_kernel<T, V, 2> : pool_kernel<T, V, 2>;
    return pool_kernel<T, V, 0>;
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_pool *pool = &p->attr.pool;
    const int wide = 16 / sizeof(T);
    struct pool_args a = {};

    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    a.w.fill_pool(p);
    a.max = pool->kind == KERN_POOL_MAX;
    a.include_pad = pool->count_include_pad;
    a.act = p->epilogue.act;
    a.x = args->in[0];
    a.y = args->out[0];
    const bool vectors = pool_in_vectors(&p->in[0], a.x, wide) &&
                         pool_in_vectors(&p->out[0], a.y, wide);
    const int v = vectors ? wide : 1;
    a.count = (uint32_t)(kern_tensor_count(&p->out[0]) / v);
    a.w.split_by((int)(p->out[0].dim[1] / v));
    const int square = vectors ? square_of(&a.w) : 0;
    return launch_chained(kernel_for<T, wide>(a.max, vectors, square),
                          cuda_blocks(a.count, THREADS), THREADS, 0,
                          args->stream, a, err);
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(pool_fprop_cuda_direct) = {
    .supports = pool_supports<false>,
    .launch = launch,
};
