/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of batch normalisation in training, channels last: sums of dz and
 * dz xn (batch_norm.cuh), the channels' three factors by one warp a channel,
 * then dx = a dz + b x + c in one pass, dz = dy act'(y) both times; for ReLU a
 * bit mask replaces y.
 *
 * With m0 and m1 the means of dz and dz xn, and xn = (x - mean) inverse:
 * dx = scale inverse (dz - m0 - xn m1), so a = scale inverse,
 * b = -a inverse m1, c = -a m0 - b mean.
 */
#include "kernels/cuda/norm/batch_norm_resident.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/derivative.cuh"
#include "kernels/cuda/strided.cuh"

#define VECTORS_IN  0xdcu /* scale, mean, inverse, dscale, dshift */
#define VECTORS_OUT 0x06u

/* Vectors of each tensor that a thread loads at once; fewer if y is one of the
 * tensors. */
#define BATCH(act) ((act) == NORM_PLAIN || (act) == NORM_RELU_MASK ? 4 : 2)
/* Largest x (bytes) for which launching fewer blocks makes the first pass
 * faster (measured, H200). */
#define SHORT_BYTES ((size_t)64 << 20)

struct dgrad_args {
    struct norm_shape s;
    const void *dy, *x, *y; /* y: an activation's, or ReLU's bit mask */
    const float *scale, *mean, *inverse, *dscale_in, *dshift_in;
    void *dx, *dresidual; /* NULL: not wanted */
    float *dscale, *dshift;
    float *parts, *line; /* line: a [C], b [C], c [C] */
    struct kern_unary act;
    uint32_t vectors;
};

/* dy, x and y of V elements, or in the lowest V bits of mask whether y > 0. */
template <typename T, int V> struct operands {
    pack<T, V> dy, x, y;
    uint32_t mask;
};

template <typename T, int V, int ACT>
static __device__ __forceinline__ void
load_operands(const struct dgrad_args &a, int64_t i, struct operands<T, V> *o)
{
    o->dy = pack_load<T, V>((const T *)a.dy + i);
    o->x = pack_load<T, V>((const T *)a.x + i);
    if (ACT == NORM_RELU_MASK)
        o->mask = (uint32_t)((const uint8_t *)a.y)[i / 8] >> i % 8;
    else if (ACT != NORM_PLAIN)
        o->y = pack_load<T, V>((const T *)a.y + i);
}

/* dz and x. */
template <typename T, int V, int ACT>
static __device__ __forceinline__ void
act_gradient(const struct kern_unary &act, const struct operands<T, V> &o,
             float (&dz)[V], float (&x)[V])
{
    float y[V];

    unpack<T, V>(o.x, x);
    unpack<T, V>(o.dy, dz);
    if (ACT == NORM_RELU || ACT == NORM_ANY)
        unpack<T, V>(o.y, y);
#pragma unroll
    for (int j = 0; j < V; j++)
        if (ACT == NORM_RELU_MASK)
            dz[j] = o.mask >> j & 1 ? dz[j] : 0.0f;
        else if (ACT == NORM_RELU)
            dz[j] *= y[j] > 0 ? 1.0f : 0.0f;
        else if (ACT == NORM_ANY)
            dz[j] *= unary_derivative_from_output(act, y[j]);
}

/* The second sum is of dz (x - mean). */
template <typename T, int V, int ACT> struct products {
    typedef struct operands<T, V> operands;
    struct kern_unary act;
    float mean[V];

    __device__ __forceinline__ products(const struct dgrad_args &a, int c)
        : act(a.act)
    {
        norm_line<V>(a.mean, c, mean);
    }
    static __device__ __forceinline__ void
    load(const struct dgrad_args &a, int64_t pixel, int c, operands *o)
    {
        load_operands<T, V, ACT>(a, pixel * a.s.channels + c, o);
    }
    __device__ __forceinline__ void see(const operands &o, float *sum0,
                                        float *sum1) const
    {
        float dz[V], x[V];
        act_gradient<T, V, ACT>(act, o, dz, x);
#pragma unroll
        for (int j = 0; j < V; j++) {
            sum0[j] += dz[j];
            sum1[j] = fmaf(dz[j], x[j] - mean[j], sum1[j]);
        }
    }
};

template <typename T, int V, int ACT>
static __global__ void __launch_bounds__(NORM_THREADS, NORM_RESIDENT)
    sum_kernel(const __grid_constant__ struct dgrad_args a)
{
    launch_wait();
    norm_sum_part<products<T, V, ACT>, struct dgrad_args, V, BATCH(ACT)>(
        a, a.s, a.parts);
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
    factor_kernel(const __grid_constant__ struct dgrad_args a)
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
static __global__ void __launch_bounds__(NORM_THREADS, NORM_LAST)
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
    for (uint32_t i = first; i < a.vectors; i += BATCH(ACT) * step) {
        struct operands<T, V> o[BATCH(ACT)] = {
        };
#pragma unroll
        for (int k = 0; k < BATCH(ACT); k++)
            if (i + k * step < a.vectors)
                load_operands<T, V, ACT>(a, (int64_t)(i + k * step) * V, &o[k]);
#pragma unroll
        for (int k = 0; k < BATCH(ACT); k++) {
            const int c = (int)((i + k * step) % per_pixel) * V;
            float dz[V], x[V], dx[V];
            if (i + k * step >= a.vectors)
                break;
            if (!fixed)
#pragma unroll
                for (int l = 0; l < 3; l++)
                    norm_line<V>(line + l * a.s.channels, c, factor[l]);
            act_gradient<T, V, ACT>(a.act, o[k], dz, x);
#pragma unroll
            for (int j = 0; j < V; j++)
                dx[j] = fmaf(factor[0][j], dz[j],
                             fmaf(factor[1][j], x[j], factor[2][j]));
            const size_t at = (size_t)(i + k * step) * V;
            pack_store<T, V>((T *)a.dx + at, pack_of<T, V>(dx));
            if (a.dresidual)
                pack_store<T, V>((T *)a.dresidual + at, pack_of<T, V>(dz));
        }
    }
}

template <typename T, int V, int ACT>
static int run_act(struct dgrad_args *a, const struct kern_args *args,
                   const struct kern_tensor *x, int multiprocessors,
                   struct infer_error *err)
{
    const bool is_short = kern_tensor_span(x) <= SHORT_BYTES;

    a->s = norm_shape_of(x, V, is_short ? NORM_FEW : NORM_RESIDENT,
                         multiprocessors);
    a->vectors = (uint32_t)(kern_tensor_count(x) / V);
    return norm_launch(sum_kernel<T, V, ACT>, factor_kernel,
                       apply_kernel<T, V, ACT>, *a, V, BATCH(ACT),
                       multiprocessors, args->stream, err);
}

template <typename T, int V>
static int run_vectors(struct dgrad_args *a, const struct kern_args *args,
                       const struct kern_tensor *x, bool masked,
                       int multiprocessors, struct infer_error *err)
{
    return masked
               ? run_act<T, V, NORM_RELU_MASK>(a, args, x, multiprocessors, err)
               : NORM_DISPATCH(&a->act, run_act, T, V, a, args, x,
                               multiprocessors, err);
}

/* ---- in one launch ------------------------------------------------- */

/* As batch_norm_resident.cuh has it: a thread keeps K vectors of dz and of x, 8
 * at most: 64 registers.  dz is dy or 0: no activation but ReLU by its mask. */
#define RESIDENT_MOST 8

struct resident_args {
    struct dgrad_args d;
    unsigned barrier;
};

template <typename T, int V, int ACT, int K>
static __global__ void __launch_bounds__(RESIDENT_THREADS, 1)
    resident_kernel(const __grid_constant__ struct resident_args r)
{
    __shared__ float joined[RESIDENT_WARPS * 2 * RESIDENT_CHANNELS];
    __shared__ float line[3 * RESIDENT_CHANNELS];
    const struct dgrad_args &a = r.d;
    const int channels = a.s.channels;
    const int c = (int)(threadIdx.x % (channels / V)) * V;
    const uint32_t first =
        blockIdx.x * (uint32_t)(K * RESIDENT_THREADS) + threadIdx.x;
    float mean[V], sum[2][V], factor[3][V];
    struct operands<T, V> o[K];

    launch_wait();
#pragma unroll
    for (int k = 0; k < K; k++)
        if (first + k * RESIDENT_THREADS < a.vectors)
            load_operands<T, V, ACT>(
                a, (int64_t)(first + k * RESIDENT_THREADS) * V, &o[k]);
    norm_line<V>(a.mean, c, mean);
#pragma unroll
    for (int j = 0; j < V; j++)
        sum[0][j] = sum[1][j] = 0;
#pragma unroll
    for (int k = 0; k < K; k++)
        if (first + k * RESIDENT_THREADS < a.vectors) {
            float dz[V], x[V];
            act_gradient<T, V, ACT>(a.act, o[k], dz, x);
            o[k].dy = pack_of<T, V>(dz);
#pragma unroll
            for (int j = 0; j < V; j++) {
                sum[0][j] += dz[j];
                sum[1][j] = fmaf(dz[j], x[j] - mean[j], sum[1][j]);
            }
        }
    resident_put<V>(channels, sum, joined,
                    a.parts + (size_t)blockIdx.x * 2 * channels);
    grid_barrier_wait(r.barrier);
    resident_join(channels, a.parts, joined);
    if (threadIdx.x < channels) {
        const int i = (int)threadIdx.x;
        factors(a, i, joined[i], joined[channels + i], blockIdx.x == 0,
                line + i);
    }
    __syncthreads();
#pragma unroll
    for (int l = 0; l < 3; l++)
        norm_line<V>(line + l * channels, c, factor[l]);
#pragma unroll
    for (int k = 0; k < K; k++) {
        const uint32_t i = first + k * RESIDENT_THREADS;
        float dz[V], x[V], dx[V];
        if (i >= a.vectors)
            break;
        unpack<T, V>(o[k].dy, dz);
        unpack<T, V>(o[k].x, x);
#pragma unroll
        for (int j = 0; j < V; j++)
            dx[j] = fmaf(factor[0][j], dz[j],
                         fmaf(factor[1][j], x[j], factor[2][j]));
        pack_store<T, V>((T *)a.dx + (size_t)i * V, pack_of<T, V>(dx));
        if (a.dresidual)
            pack_store<T, V>((T *)a.dresidual + (size_t)i * V, o[k].dy);
    }
}

template <typename T, int V, int ACT>
static int start_resident(const struct resident_args *a,
                          struct resident_shape s, void *stream,
                          struct infer_error *err)
{
    return launch_chained(s.vectors == 1   ? resident_kernel<T, V, ACT, 1>
                          : s.vectors == 2 ? resident_kernel<T, V, ACT, 2>
                          : s.vectors == 4 ? resident_kernel<T, V, ACT, 4>
                                           : resident_kernel<T, V, ACT, 8>,
                          (unsigned)s.blocks, RESIDENT_THREADS, 0, stream, *a,
                          err);
}

template <typename T, int V>
static int run_resident(struct dgrad_args *a, struct resident_state *s,
                        const struct kern_tensor *x, bool masked, void *stream,
                        struct infer_error *err)
{
    struct resident_args r;

    a->s.channels = (int)x->dim[1];
    a->s.pixels = kern_tensor_count(x) / x->dim[1];
    a->vectors = (uint32_t)(kern_tensor_count(x) / V);
    r.d = *a;
    r.barrier = grid_barrier_next(s->barriers, &s->launches);
    return masked
               ? start_resident<T, V, NORM_RELU_MASK>(&r, s->shape, stream, err)
               : start_resident<T, V, NORM_PLAIN>(&r, s->shape, stream, err);
}

/* ---- the row ------------------------------------------------------- */

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int wide = 16 / (int)sizeof(T);
    struct resident_state *s = (struct resident_state *)e->state;
    const int sms = s->multiprocessors;
    const bool masked = p->in[5].dtype == INFER_U8;
    struct dgrad_args a = {};

    a.dy = args->in[0];
    a.x = args->in[1];
    a.scale = input_f32(p, args, 2);
    a.mean = input_f32(p, args, 3);
    a.inverse = input_f32(p, args, 4);
    a.y = p->epilogue.act.kind != KERN_IDENTITY ? args->in[5] : NULL;
    a.dscale_in = input_f32(p, args, 6);
    a.dshift_in = input_f32(p, args, 7);
    a.dx = args->out[0];
    a.dscale = (float *)args->out[1];
    a.dshift = (float *)args->out[2];
    a.dresidual = kern_problem_out(p, 3) ? args->out[3] : NULL;
    a.line = (float *)args->workspace;
    a.parts = a.line + 3 * p->in[0].dim[1];
    a.act = p->epilogue.act;
    if (s->shape.vectors)
        return run_resident<T, wide>(&a, s, &p->in[0], masked, args->stream,
                                     err);
    if (norm_vectors(p, args, VECTORS_IN, VECTORS_OUT, wide))
        return run_vectors<T, wide>(&a, args, &p->in[0], masked, sms, err);
    return run_vectors<T, 1>(&a, args, &p->in[0], masked, sms, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    return norm_supports(p, VECTORS_IN, VECTORS_OUT, why);
}

static struct resident_shape resident_of(const struct kern_problem *p,
                                         const struct kern_device *d)
{
    const bool masked = p->in[5].dtype == INFER_U8;
    const struct resident_shape none = {0, 0};

    return masked || p->epilogue.act.kind == KERN_IDENTITY
               ? resident_shape_of(&p->in[0], RESIDENT_MOST, d)
               : none;
}

CUDA_LAUNCH(launch, run, e)

KERN_FUNCTIONS(batch_norm_dgrad_cuda_sums) = {
    .supports = supports,
    .variants = resident_variants<resident_of>,
    .prepare = resident_prepare<resident_of, 3>,
    .launch = launch,
    .release = cuda_state_release,
};
