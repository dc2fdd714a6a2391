/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of batch normalisation in training, channels last: sums of dz and
 * dz xn (batch_norm.cuh), the channels' three factors by one warp a channel,
 * then dx = a dz + b x + c in one pass, dz = dy act'(y) both times; of y its
 * signs are enough where the activation is ReLU.
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
#define BATCH(act) ((act) == NORM_PLAIN || (act) == NORM_SIGNS ? 4 : 2)
/* Resident blocks of the last pass on a multiprocessor. */
#define RESIDENT 3

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

/* dy, x and y of V elements; the lowest V bits of signs are their ReLU mask. */
template <typename T, int V> struct operands {
    pack<T, V> dy, x, y;
    uint32_t signs;
};

template <typename T, int V, int ACT>
static __device__ __forceinline__ void
load_operands(const struct dgrad_args &a, int64_t i, struct operands<T, V> *o)
{
    o->dy = pack_load<T, V>((const T *)a.dy + i);
    o->x = pack_load<T, V>((const T *)a.x + i);
    if (ACT == NORM_SIGNS)
        o->signs = (uint32_t)((const uint8_t *)a.y)[i / 8] >> i % 8;
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
        if (ACT == NORM_SIGNS)
            dz[j] = o.signs >> j & 1 ? dz[j] : 0.0f;
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
    input_scale_kernel(const __grid_constant__ struct dgrad_args a)
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
    const dim3 grid(cuda_blocks(a->s.channels / V, a->s.columns), a->s.parts);
    int r = launch_chained(sum_kernel<T, V, ACT>, grid, NORM_THREADS, 0,
                           args->stream, *a, err);

    if (r == 0 && !a->s.brief)
        r = launch_chained(input_scale_kernel,
                           dim3(cuda_blocks(a->s.channels, NORM_THREADS / 32)),
                           NORM_THREADS, 0, args->stream, *a, err);
    if (r < 0)
        return r;
    return launch_chained(
        apply_kernel<T, V, ACT>,
        dim3(norm_blocks(a->vectors, BATCH(ACT), RESIDENT, multiprocessors)),
        NORM_THREADS, 0, args->stream, *a, err);
}

template <typename T, int V>
static int run_vectors(struct dgrad_args *a, const struct kern_args *args,
                       const struct kern_tensor *x, bool signs,
                       int multiprocessors, struct infer_error *err)
{
    switch (signs ? NORM_SIGNS : norm_act_of(&a->act)) {
    case NORM_PLAIN:
        return run_act<T, V, NORM_PLAIN>(a, args, x, multiprocessors, err);
    case NORM_RELU:
        return run_act<T, V, NORM_RELU>(a, args, x, multiprocessors, err);
    case NORM_SIGNS:
        return run_act<T, V, NORM_SIGNS>(a, args, x, multiprocessors, err);
    default:
        return run_act<T, V, NORM_ANY>(a, args, x, multiprocessors, err);
    }
}

/* ---- in one launch ------------------------------------------------- */

/* As batch_norm_resident.cuh has it: a thread keeps K vectors of dz and of x, 8
 * at most: 64 registers.  dz is dy or 0: no activation but by y's signs. */
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
static int start_resident(const struct resident_args *a, int vectors,
                          int blocks, void *stream, struct infer_error *err)
{
    return launch_chained(vectors == 1   ? resident_kernel<T, V, ACT, 1>
                          : vectors == 2 ? resident_kernel<T, V, ACT, 2>
                          : vectors == 4 ? resident_kernel<T, V, ACT, 4>
                                         : resident_kernel<T, V, ACT, 8>,
                          dim3((unsigned)blocks), RESIDENT_THREADS, 0, stream,
                          *a, err);
}

template <typename T, int V>
static int run_resident(struct dgrad_args *a, struct resident_state *s,
                        const struct kern_tensor *x, bool signs, void *stream,
                        struct infer_error *err)
{
    struct resident_args r;

    a->s.channels = (int)x->dim[1];
    a->s.pixels = kern_tensor_count(x) / x->dim[1];
    a->vectors = (uint32_t)(kern_tensor_count(x) / V);
    r.d = *a;
    r.barrier = grid_barrier_next(s->barriers, &s->launches);
    return signs
               ? start_resident<T, V, NORM_SIGNS>(&r, s->shape.vectors,
                                                  s->shape.blocks, stream, err)
               : start_resident<T, V, NORM_PLAIN>(&r, s->shape.vectors,
                                                  s->shape.blocks, stream, err);
}

/* ---- the row ------------------------------------------------------- */

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
    struct resident_state *s = (struct resident_state *)e->state;
    const int sms = s->multiprocessors;
    const bool signs = p->in[5].dtype == INFER_U8;
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
    if (s->shape.vectors)
        return run_resident<T, wide>(&a, s, &p->in[0], signs, args->stream,
                                     err);
    if (norm_vectors(p, args, VECTORS_IN, VECTORS_OUT, wide))
        return run_vectors<T, wide>(&a, args, &p->in[0], signs, sms, err);
    return run_vectors<T, 1>(&a, args, &p->in[0], signs, sms, err);
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
    const bool signs = p->in[5].dtype == INFER_U8;
    const struct resident_shape none = {0, 0};

    return signs || p->epilogue.act.kind == KERN_IDENTITY
               ? resident_shape_of(&p->in[0], RESIDENT_MOST, d)
               : none;
}

static int variants(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *err)
{
    (void)err;
    return resident_of(p, d).vectors ? 2 : 1;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    return resident_prepare(e, d, 3, resident_of(&e->problem, d), err);
}

CUDA_LAUNCH(launch, run, e)

const struct kern_functions batch_norm_dgrad_cuda_sums = {
    .supports = supports,
    .variants = variants,
    .prepare = prepare,
    .launch = launch,
    .release = cuda_state_release,
};
