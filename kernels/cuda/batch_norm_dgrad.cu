/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of batch normalisation in training, channels last: sums of dz and
 * dz xn (batch_norm.cuh), the channels' three factors by one warp a channel,
 * then dx = a dz + b x + c in one pass, dz = dy act'(y) both times.
 *
 * With m0 and m1 the means of dz and dz xn, and xn = (x - mean) inverse:
 * dx = scale inverse (dz - m0 - xn m1), so a = scale inverse,
 * b = -a inverse m1, c = -a m0 - b mean.
 */
#include "kernels/cuda/batch_norm.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/slope.cuh"
#include "kernels/cuda/walk.cuh"

#define VECTORS_IN  0xdcu /* scale, mean, inverse, dscale, dshift */
#define VECTORS_OUT 0x06u

/* Vectors of each tensor that a thread of the last pass has on their way at
 * once, and blocks of that pass that a multiprocessor is to hold. */
#define RESIDENT 3
#define BATCH    2

struct dgrad_args {
    struct norm_shape s;
    const void *dy, *x, *y; /* y: of an activation */
    const float *scale, *mean, *inverse, *dscale_in, *dshift_in;
    void *dx, *dresidual; /* NULL: not wanted */
    float *dscale, *dshift;
    float *parts, *line; /* line: a [C], b [C], c [C] */
    struct kern_unary act;
    uint32_t vectors;
};

/* dy and y of V elements, and dz from them. */
template <typename T, int V> struct operands {
    vec<T, V> dy, y;
};

template <typename T, int V, int ACT>
static __device__ __forceinline__ void
load_operands(const struct dgrad_args &a, int64_t i, struct operands<T, V> *o)
{
    o->dy = load_vec<T, V>((const T *)a.dy + i);
    if (ACT != NORM_PLAIN)
        o->y = load_vec<T, V>((const T *)a.y + i);
}

template <typename T, int V, int ACT>
static __device__ __forceinline__ float
slope_times(const struct dgrad_args &a, const struct operands<T, V> &o, int j)
{
    const float dy = to_float(o.dy.at[j]);

    if (ACT == NORM_PLAIN)
        return dy;
    const float y = to_float(o.y.at[j]);
    return dy * (ACT == NORM_RELU ? (y > 0 ? 1.0f : 0.0f)
                                  : unary_slope_by_y(a.act, y));
}

template <typename T, int V, int ACT>
static __device__ __forceinline__ void load_dz(const struct dgrad_args &a,
                                               int64_t i, float *dz)
{
    struct operands<T, V> o;

    load_operands<T, V, ACT>(a, i, &o);
#pragma unroll
    for (int j = 0; j < V; j++)
        dz[j] = slope_times<T, V, ACT>(a, o, j);
}

template <typename T, int V, int ACT> struct products {
    struct constants {
        float mean[V];
        __device__ __forceinline__ constants(const struct dgrad_args &a, int c)
        {
#pragma unroll
            for (int j = 0; j < V; j++)
                mean[j] = a.mean[c + j];
        }
        /* The second sum is of dz (x - mean). */
        __device__ __forceinline__ void see(const struct dgrad_args &a,
                                            int64_t pixel, int c, float *sum0,
                                            float *sum1) const
        {
            float dz[V], x[V];
            load_dz<T, V, ACT>(a, pixel * a.s.channels + c, dz);
            norm_load<T, V>(a.x, pixel * a.s.channels + c, x);
#pragma unroll
            for (int j = 0; j < V; j++) {
                sum0[j] += dz[j];
                sum1[j] = fmaf(dz[j], x[j] - mean[j], sum1[j]);
            }
        }
    };
};

template <typename T, int V, int ACT>
static __global__ void __launch_bounds__(NORM_THREADS)
    sum_kernel(const __grid_constant__ struct dgrad_args a)
{
    launch_wait();
    norm_sum_part<products<T, V, ACT>, struct dgrad_args, V>(a, a.s, a.parts);
}

/* The line[3][C] of a channel, from its sums: dx = line[0] dz + line[1] x +
 * line[2].  first: leaves the gradients of scale and shift, once. */
static __device__ __forceinline__ void factors(const struct dgrad_args &a,
                                               int c, float dz, float product,
                                               bool first, float *line)
{
    const float n = (float)a.s.pixels;
    const float inverse = a.inverse[c], mean = a.mean[c];
    const float dscale = product * inverse;
    const float factor = a.scale[c] * inverse;
    const float slope = -factor * inverse * (dscale / n);

    line[0] = factor;
    line[a.s.channels] = slope;
    line[2 * a.s.channels] = -factor * (dz / n) - slope * mean;
    if (!first)
        return;
    a.dscale[c] = dscale + (a.dscale_in ? a.dscale_in[c] : 0);
    a.dshift[c] = dz + (a.dshift_in ? a.dshift_in[c] : 0);
}

static __global__ void __launch_bounds__(NORM_THREADS)
    factors_kernel(const __grid_constant__ struct dgrad_args a)
{
    const int c = (int)(blockIdx.x * (NORM_THREADS / 32) + threadIdx.x / 32);
    float dz, product;

    launch_wait();
    if (c >= a.s.channels)
        return;
    norm_join_parts(a.s, a.parts, c, &dz, &product);
    if (threadIdx.x % 32 == 0)
        factors(a, c, dz, product, true, a.line + c);
}

/* Threads and vectors as in batch_norm_train.cu. */
template <typename T, int V, int ACT>
static __global__ void __launch_bounds__(NORM_THREADS, RESIDENT)
    apply_kernel(const __grid_constant__ struct dgrad_args a)
{
    __shared__ float sums[2 * NORM_BRIEF_CHANNELS];
    __shared__ float own[3 * NORM_BRIEF_CHANNELS];
    const uint32_t per_pixel = (uint32_t)a.s.channels / V;
    const bool fixed = NORM_THREADS % per_pixel == 0;
    const uint32_t step = gridDim.x * NORM_THREADS;
    const uint32_t first = blockIdx.x * NORM_THREADS + threadIdx.x;
    const float *line = a.line;
    float factor[3][V];

    launch_wait();
    if (a.s.brief) {
        norm_join_block(a.s, a.parts, sums);
        if (threadIdx.x < a.s.channels) {
            const int c = (int)threadIdx.x;
            factors(a, c, sums[c], sums[a.s.channels + c], blockIdx.x == 0,
                    own + c);
        }
        __syncthreads();
        line = own;
    }
#pragma unroll
    for (int l = 0; l < 3; l++)
        norm_line<V>(line + l * a.s.channels, (int)(first % per_pixel) * V,
                     factor[l]);
    for (uint32_t i = first; i < a.vectors; i += BATCH * step) {
        struct operands<T, V> o[BATCH] = {
        };
        vec<T, V> x[BATCH] = {};
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            if (i + k * step < a.vectors) {
                load_operands<T, V, ACT>(a, (size_t)(i + k * step) * V, &o[k]);
                x[k] =
                    load_vec<T, V>((const T *)a.x + (size_t)(i + k * step) * V);
            }
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int c = (int)((i + k * step) % per_pixel) * V;
            vec<T, V> dx, dz;
            if (i + k * step >= a.vectors)
                break;
            if (!fixed)
#pragma unroll
                for (int l = 0; l < 3; l++)
                    norm_line<V>(line + l * a.s.channels, c, factor[l]);
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float z = slope_times<T, V, ACT>(a, o[k], j);
                dz.at[j] = from_float<T>(z);
                dx.at[j] = from_float<T>(fmaf(
                    factor[0][j], z,
                    fmaf(factor[1][j], to_float(x[k].at[j]), factor[2][j])));
            }
            store_vec<T, V>((T *)a.dx + (size_t)(i + k * step) * V, dx);
            if (a.dresidual)
                store_vec<T, V>((T *)a.dresidual + (size_t)(i + k * step) * V,
                                dz);
        }
    }
}

template <typename T, int V, int ACT>
static int run_act(struct dgrad_args *a, const struct kern_args *args,
                   const struct kern_tensor *x, int multiprocessors,
                   struct infer_error *err)
{
    a->s = norm_shape_of(x, V, multiprocessors);
    a->vectors = (uint32_t)(kern_tensor_count(x) / V);
    const dim3 grid(cuda_blocks(a->s.channels / V, a->s.columns), a->s.parts);
    int r = launch_chained(sum_kernel<T, V, ACT>, grid, dim3(NORM_THREADS), 0,
                           args->stream, *a, err);

    if (r == 0 && !a->s.brief)
        r = launch_chained(factors_kernel,
                           dim3(cuda_blocks(a->s.channels, NORM_THREADS / 32)),
                           dim3(NORM_THREADS), 0, args->stream, *a, err);
    if (r < 0)
        return r;
    return launch_chained(
        apply_kernel<T, V, ACT>,
        dim3(norm_blocks(a->s, a->vectors, BATCH, RESIDENT, multiprocessors)),
        dim3(NORM_THREADS), 0, args->stream, *a, err);
}

template <typename T, int V>
static int run_vectors(struct dgrad_args *a, const struct kern_args *args,
                       const struct kern_tensor *x, int multiprocessors,
                       struct infer_error *err)
{
    switch (norm_act_of(&a->act)) {
    case NORM_PLAIN:
        return run_act<T, V, NORM_PLAIN>(a, args, x, multiprocessors, err);
    case NORM_RELU:
        return run_act<T, V, NORM_RELU>(a, args, x, multiprocessors, err);
    default:
        return run_act<T, V, NORM_ANY>(a, args, x, multiprocessors, err);
    }
}

static const float *input(const struct kern_problem *p,
                          const struct kern_args *args, int i)
{
    return kern_problem_in(p, i) ? (const float *)args->in[i] : NULL;
}

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int wide = 16 / (int)sizeof(T);
    const int sms = (int)(intptr_t)e->state;
    struct dgrad_args a = {};

    a.dy = args->in[0];
    a.x = args->in[1];
    a.scale = input(p, args, 2);
    a.mean = input(p, args, 3);
    a.inverse = input(p, args, 4);
    a.y = p->epilogue.act.kind != KERN_IDENTITY ? args->in[5] : NULL;
    a.dscale_in = input(p, args, 6);
    a.dshift_in = input(p, args, 7);
    a.dx = args->out[0];
    a.dscale = (float *)args->out[1];
    a.dshift = (float *)args->out[2];
    a.dresidual = kern_problem_out(p, 3) ? args->out[3] : NULL;
    a.line = (float *)args->workspace;
    a.parts = a.line + 3 * p->in[0].dim[1];
    a.act = p->epilogue.act;
    if (norm_vectors(p, args, VECTORS_IN, VECTORS_OUT, wide))
        return run_vectors<T, wide>(&a, args, &p->in[0], sms, err);
    return run_vectors<T, 1>(&a, args, &p->in[0], sms, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    return norm_supports(p, VECTORS_IN, VECTORS_OUT, why);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    (void)err;
    return norm_prepare(e, d, 3);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return CUDA_DISPATCH(e->problem.in[0].dtype, run, e, args, err);
}

CUDA_PREPARED_ROWS(batch_norm_dgrad, sums, KERN_BATCH_NORM_DGRAD, supports,
                   prepare, launch)
