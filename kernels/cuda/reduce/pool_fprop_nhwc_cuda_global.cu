/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling over the whole image, channels last: one output a channel.
 *
 * A block of 256 threads owns CV = 4, 8, 16 or 32 vectors of V adjacent
 * channels (V: 16 bytes) of one image and 256 / CV pixels at a time: thread t
 * takes vector t % CV and pixels t / CV, t / CV + 256 / CV, ..., so that
 * neighbours read neighbouring channels.  Lanes of a warp that share a vector
 * meet by shuffles, the 8 warps in shared memory: 8 * 32 * V floats (8 KiB for
 * halves). Where images are few, the pixels are split over blockIdx.z and a
 * second kernel joins the parts, in order, from the workspace:
 * parts[split][n][c].
 */
#include <stdlib.h>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce/whole_image.cuh"
#include "kernels/cuda/types.cuh"

extern "C" {
#include "kernels/cuda/conv/conv.h"
}

#define THREADS 256
#define WARPS   (THREADS / 32)
/* Pixels of a thread, at least, before they are split over more blocks. */
#define LEAST_PIXELS 4

struct global_shape : image_shape {
    int cv, splits, per_split; /* per_split: pixels */
};

struct global_args {
    struct global_shape s;
    const void *x;
    void *y;
    float *parts; /* NULL: outputs are finished at once */
    bool max;
    struct kern_unary act;
};

template <typename T>
static __device__ __forceinline__ void finish(const struct global_args &a,
                                              int n, int c, float v)
{
    if (!a.max)
        v /= (float)a.s.pixels;
    ((T *)a.y)[n * a.s.y_image + c] = from_float<T>(apply_unary(a.act, v));
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    global_kernel(const __grid_constant__ struct global_args a)
{
    __shared__ __align__(16) float part[WARPS][32 * V];
    const int cv = a.s.cv, lane = threadIdx.x % 32;
    const int vector = blockIdx.x * cv + threadIdx.x % cv;
    const int n = blockIdx.y;
    const int first = blockIdx.z * a.s.per_split + threadIdx.x / cv;
    const int last = min(a.s.pixels, (int)(blockIdx.z + 1) * a.s.per_split);
    float acc[V];

    launch_wait();
#pragma unroll
    for (int j = 0; j < V; j++)
        acc[j] = a.max ? -INFINITY : 0;
    if (vector * V < a.s.c)
        image_join_pixels<T, V>(a.max,
                                (const T *)a.x + n * a.s.x_image +
                                    first * a.s.x_pixel + vector * V,
                                a.s.x_pixel, last - first, THREADS / cv, acc);
    for (int step = cv; step < 32; step *= 2)
#pragma unroll
        for (int j = 0; j < V; j++)
            acc[j] =
                image_join(a.max, acc[j], __shfl_xor_sync(~0u, acc[j], step));
    if (lane < cv)
#pragma unroll
        for (int j = 0; j < V; j++)
            part[threadIdx.x / 32][lane * V + j] = acc[j];
    __syncthreads();
    const int c = blockIdx.x * cv * V + threadIdx.x;
    if ((int)threadIdx.x >= cv * V || c >= a.s.c)
        return;
    float v = part[0][threadIdx.x];
#pragma unroll
    for (int w = 1; w < WARPS; w++)
        v = image_join(a.max, v, part[w][threadIdx.x]);
    if (a.parts)
        a.parts[((int64_t)blockIdx.z * a.s.n + n) * a.s.c + c] = v;
    else
        finish<T>(a, n, c, v);
}

/* One thread an output. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    join_kernel(const __grid_constant__ struct global_args a)
{
    const int i = blockIdx.x * THREADS + threadIdx.x, count = a.s.n * a.s.c;
    float v;

    launch_wait();
    if (i >= count)
        return;
    v = a.parts[i];
#pragma unroll 8
    for (int s = 1; s < a.s.splits; s++)
        v = image_join(a.max, v, a.parts[(int64_t)s * count + i]);
    finish<T>(a, i / a.s.c, i % a.s.c, v);
}

/* ---- the host's side ----------------------------------------------- */

/* True if more than a quarter of the threads would lie beyond the vectors. */
static bool idle_quarter(int vectors, int cv)
{
    const int places = conv_ceil_div(vectors, cv) * cv;

    return 4 * (places - vectors) > places;
}

/* Images that the sums of a deterministic problem are split for, whatever their
 * number is. */
#define DETERMINISTIC_IMAGES 8

static void shape_of(const struct kern_problem *p, const struct kern_device *d,
                     struct global_shape *s)
{
    const struct kern_tensor *x = &p->in[0];
    const int vectors = (int)x->dim[1] / image_vector(x);
    const int sms = conv_multiprocessors(d);

    *(struct image_shape *)s = image_shape_of(p);
    const int64_t images = p->deterministic ? DETERMINISTIC_IMAGES : s->n;
    s->cv = 32;
    while (s->cv > 4 && (idle_quarter(vectors, s->cv) ||
                         images * conv_ceil_div(vectors, s->cv) < sms))
        s->cv /= 2;
    const int64_t blocks = images * conv_ceil_div(vectors, s->cv);
    const int most = conv_ceil_div(s->pixels, LEAST_PIXELS * (THREADS / s->cv));
    const int wanted = blocks > 0 ? (int)(4 * sms / blocks) : 1;
    s->splits = wanted < most ? wanted : most;
    if (s->splits < 2)
        s->splits = 1;
    s->per_split = conv_ceil_div(s->pixels, s->splits);
    s->splits = conv_ceil_div(s->pixels, s->per_split);
}

static int global_supports(const struct kern_problem *p,
                           const struct kern_device *d, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const struct kern_pool *a = &p->attr.pool;
    const int r = check_types(p, 1, 0, why);

    (void)d;
    if (r < 0)
        return r;
    for (int i = 0; i < x->rank - 2; i++)
        if (a->window[i] != x->dim[i + 2] || a->pad_begin[i] || a->pad_end[i] ||
            (a->window[i] > 1 && a->dilation[i] != 1) || y->dim[i + 2] != 1)
            return error_set(why, INFER_EUNSUPPORTED,
                             "pool: the window is not the whole image");
    if ((x->dim[1] > 1 && (x->stride[1] != 1 || y->stride[1] != 1)) ||
        image_pixel_step(x) <= 0 || x->stride[0] < 0)
        return error_set(why, INFER_EUNSUPPORTED,
                         "pool: channels do not lie last");
    if (kern_tensor_count(x) == 0 || kern_tensor_count(x) > INT32_MAX ||
        x->dim[0] > 65535 || x->dim[1] > 1 << 20)
        return error_set(why, INFER_EUNSUPPORTED,
                         "pool: no pixels, or too many");
    return 0;
}

/* Bytes at 2.5 TB/s. */
static double global_estimate(const struct kern_problem *p,
                              const struct kern_device *d)
{
    (void)d;
    return 3 + kern_problem_bytes(p) / 2.5e6;
}

static int global_prepare(struct kern_exec *e, const struct kern_device *d,
                          struct infer_error *err)
{
    struct global_shape *s = (struct global_shape *)malloc(sizeof(*s));

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);
    shape_of(&e->problem, d, s);
    e->state = s;
    if (s->splits > 1)
        e->workspace =
            (size_t)s->splits * (size_t)s->n * (size_t)s->c * sizeof(float);
    return 0;
}

template <typename T>
static int global_run(const struct kern_exec *e, const struct kern_args *args,
                      struct infer_error *err)
{
    const int wide = 16 / (int)sizeof(T), v = image_vector(&e->problem.in[0]);
    struct global_args a;

    a.s = *(const struct global_shape *)e->state;
    a.x = args->in[0];
    a.y = args->out[0];
    a.parts = a.s.splits > 1 ? (float *)args->workspace : NULL;
    a.max = e->problem.attr.pool.kind == KERN_POOL_MAX;
    a.act = e->problem.epilogue.act;
    const dim3 grid(conv_ceil_div(a.s.c / v, a.s.cv), a.s.n, a.s.splits);
    int r =
        launch_chained(v == wide ? global_kernel<T, wide> : global_kernel<T, 1>,
                       grid, THREADS, 0, args->stream, a, err);
    if (r == 0 && a.parts)
        r = launch_chained(join_kernel<T>,
                           cuda_blocks((int64_t)a.s.n * a.s.c, THREADS),
                           THREADS, 0, args->stream, a, err);
    return r;
}

CUDA_LAUNCH(global_launch, global_run, e)

KERN_FUNCTIONS(pool_fprop_nhwc_cuda_global) = {
    .supports = global_supports,
    .estimate = global_estimate,
    .prepare = global_prepare,
    .launch = global_launch,
    .release = cuda_state_release,
};
