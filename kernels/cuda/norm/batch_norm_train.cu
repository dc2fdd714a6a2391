/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch normalisation in training, channels last: sums of x - x0 and its square
 * (batch_norm.cuh; x0, the channel's first element, takes a large common mean
 * out of both; or sums of the partial statistics of x, where x0 is the mean of
 * the first part), statistics by one warp a channel, then one pass that
 * normalises, adds, activates.  The statistics' warps write factor and summand
 * of each channel to the workspace; if the sums are few, the last pass computes
 * them itself.  ReLU's bit mask: a byte is one thread's vector, or neighbouring
 * threads share it.  A kernel
 * of batch_norm_train.cuh does all in one launch.
 */
#include "kernels/cuda/norm/batch_norm_train.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"

extern "C" {
#include "kernels/bn_stats.h"
}

#define VECTORS_IN  0x1eu /* scale, shift, mean, var */
#define VECTORS_OUT 0x1eu
#define BN_STATS    6 /* of in[] */

/* Vectors of each tensor that a thread loads at once, in the first pass and in
 * the last. */
#define SUM_BATCH 8
#define BATCH     4

template <typename T, int V> struct bn_sums {
    typedef pack<T, V> operands;
    float x0[V];

    __device__ __forceinline__ bn_sums(const struct train_args &a, int c)
    {
        unpack<T, V>(pack_load<T, V>((const T *)a.x + c), x0);
    }
    static __device__ __forceinline__ void
    load(const struct train_args &a, int64_t pixel, int c, operands *o)
    {
        *o = pack_load<T, V>((const T *)a.x + pixel * a.s.channels + c);
    }
    __device__ __forceinline__ void see(const operands &o, float *sum0,
                                        float *sum1) const
    {
        float x[V];
        unpack<T, V>(o, x);
#pragma unroll
        for (int j = 0; j < V; j++) {
            const float d = x[j] - x0[j];
            sum0[j] += d;
            sum1[j] = fmaf(d, d, sum1[j]);
        }
    }
};

template <typename T, int V>
static __global__ void __launch_bounds__(NORM_THREADS, NORM_RESIDENT)
    sum_kernel(const __grid_constant__ struct train_args a)
{
    launch_wait();
    norm_sum_part<bn_sums<T, V>, struct train_args, V, SUM_BATCH>(a, a.s,
                                                                  a.parts);
}

/* The same sums over pixels, part by part: a part of n pixels adds n d and its
 * own squares plus n d^2, where d is how far its mean is from x0. */
template <int V> struct joined {
    struct operands {
        pack<float, V> mean, squares;
        float n;
    };
    float x0[V];

    __device__ __forceinline__ joined(const struct train_args &a, int c)
    {
        unpack<float, V>(pack_load<float, V>(a.bn_stats + c), x0);
    }
    static __device__ __forceinline__ void
    load(const struct train_args &a, int64_t part, int c, struct operands *o)
    {
        const float *at = a.bn_stats + part * 2 * a.s.channels + c;

        o->mean = pack_load<float, V>(at);
        o->squares = pack_load<float, V>(at + a.s.channels);
        o->n = (float)min(a.part, a.pixels - (int)part * a.part);
    }
    __device__ __forceinline__ void see(const struct operands &o, float *sum0,
                                        float *sum1) const
    {
        float mean[V], squares[V];

        unpack<float, V>(o.mean, mean);
        unpack<float, V>(o.squares, squares);
#pragma unroll
        for (int j = 0; j < V; j++) {
            const float d = mean[j] - x0[j];
            sum0[j] = fmaf(o.n, d, sum0[j]);
            sum1[j] += fmaf(o.n * d, d, squares[j]);
        }
    }
};

template <int V>
static __global__ void __launch_bounds__(NORM_THREADS, NORM_RESIDENT)
    join_kernel(const __grid_constant__ struct train_args a)
{
    launch_wait();
    norm_sum_part<joined<V>, struct train_args, V, BATCH>(a, a.s, a.parts);
}

template <typename T>
static __global__ void __launch_bounds__(NORM_THREADS)
    statistics_kernel(const __grid_constant__ struct train_args a)
{
    const int c = (int)(blockIdx.x * (NORM_THREADS / 32) + threadIdx.x / 32);
    float sum, squares;

    launch_wait();
    if (c >= a.s.channels)
        return;
    norm_join_parts(a.s, a.parts, c, &sum, &squares);
    if (threadIdx.x % 32 == 0)
        statistics<T>(a, c, sum, squares, true, a.line + c,
                      a.line + a.s.channels + c);
}

/* The i-th vector of a thread; i past the end stays past the end.  With partial
 * statistics nothing has read x since it was written, so its end is in the L2
 * cache: vectors are taken from the end, and the beginning of y is left in the
 * cache for the next kernel.  The order within a block stays, and with it the
 * bytes of the bit mask. */
static __device__ __forceinline__ uint32_t place(const struct train_args &a,
                                                 uint32_t i)
{
    const uint32_t end =
        (a.vectors + NORM_THREADS - 1) / NORM_THREADS * NORM_THREADS;

    if (!a.bn_stats || i >= end)
        return i;
    return end - NORM_THREADS - i + 2 * threadIdx.x;
}

/* A thread takes BATCH vectors at a time.  They are of the same channels
 * where a block's threads span whole pixels, as with most numbers of channels:
 * then factor and summand are read once. */
template <typename T, int V, int ACT>
static __global__ void __launch_bounds__(NORM_THREADS, NORM_LAST)
    apply_kernel(const __grid_constant__ struct train_args a)
{
    __shared__ float sums[2 * NORM_BRIEF_CHANNELS];
    const uint32_t per_pixel = (uint32_t)a.s.channels / V;
    const bool fixed = NORM_THREADS % per_pixel == 0;
    const uint32_t step = gridDim.x * NORM_THREADS;
    const uint32_t first = blockIdx.x * NORM_THREADS + threadIdx.x;
    const float *line = a.line;
    float factor[V], summand[V];

    launch_wait();
    if (a.s.brief) {
        norm_join_block(a.s, a.parts, sums);
        if (threadIdx.x < a.s.channels) {
            float *at = sums + threadIdx.x;
            statistics<T>(a, (int)threadIdx.x, at[0], at[a.s.channels],
                          blockIdx.x == 0, at, at + a.s.channels);
        }
        __syncthreads();
        line = sums;
    }
    norm_line<V>(line, (int)(first % per_pixel) * V, factor);
    norm_line<V>(line + a.s.channels, (int)(first % per_pixel) * V, summand);
    for (uint32_t from = first - threadIdx.x; from < a.vectors;
         from += BATCH * step) {
        pack<T, V> x[BATCH] = {}, r[BATCH] = {};
        uint32_t i[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            i[k] = place(a, from + k * step + threadIdx.x);
            if (i[k] < a.vectors) {
                const size_t at = (size_t)i[k] * V;
                x[k] = pack_load<T, V>((const T *)a.x + at);
                if (a.residual)
                    r[k] = pack_load<T, V>((const T *)a.residual + at);
            }
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int c = (int)(i[k] % per_pixel) * V;
            float v[V], add[V];
            if (i[k] >= a.vectors)
                continue;
            if (!fixed) {
                norm_line<V>(line, c, factor);
                norm_line<V>(line + a.s.channels, c, summand);
            }
            unpack<T, V>(x[k], v);
            unpack<T, V>(r[k], add);
#pragma unroll
            for (int j = 0; j < V; j++)
                v[j] = activate<ACT>(a.act, fmaf(v[j], factor[j], summand[j]) +
                                                add[j]);
            const pack<T, V> y = pack_of<T, V>(v);
            pack_store<T, V>((T *)a.y + (size_t)i[k] * V, y);
            if (a.mask)
                store_relu_mask<T, V>(a.mask, i[k], y);
        }
    }
}

/* Channels of partial statistics that a thread joins at once, where all fit. */
#define JOINED 4

static int joined_at_once(const struct kern_tensor *x)
{
    return x->dim[1] % JOINED == 0 ? JOINED : 1;
}

/* What is summed: x, or a mean and its squares a part. */
template <int V>
static struct norm_shape summed_shape(const struct train_args *a,
                                      const struct kern_tensor *x,
                                      int multiprocessors)
{
    if (!a->bn_stats)
        return norm_shape_of(x, V, NORM_FEW, multiprocessors);
    const int64_t dim[2] = {bn_stats_parts(a->part, a->pixels), x->dim[1]};
    const struct kern_tensor parts =
        kern_tensor_dense(INFER_F32, 2, dim, KERN_NCHW);

    return norm_shape_of(&parts, joined_at_once(x), NORM_FEW, multiprocessors);
}

template <typename T, int V, int ACT>
static int run_act(const struct train_args *a, const struct kern_tensor *x,
                   void *stream, int multiprocessors, struct infer_error *err)
{
    const int v = a->bn_stats ? joined_at_once(x) : V;
    void (*const join)(const struct train_args) =
        v == JOINED ? join_kernel<JOINED> : join_kernel<1>;

    return norm_launch(a->bn_stats ? join : sum_kernel<T, V>,
                       statistics_kernel<T>, apply_kernel<T, V, ACT>, *a, v,
                       BATCH, multiprocessors, stream, err);
}

template <typename T, int V>
static int run_resident(struct train_args *a, struct resident_state *s,
                        const struct kern_tensor *x, void *stream,
                        struct infer_error *err)
{
    struct resident_args r;

    a->s.channels = (int)x->dim[1];
    a->vectors = (uint32_t)(kern_tensor_count(x) / V);
    r.t = *a;
    r.barrier = grid_barrier_next(s->barriers, &s->launches);
    return NORM_DISPATCH(&a->act, resident_start, T, V, &r, s->shape, stream,
                         err);
}

template <typename T, int V>
static int run_vectors(struct train_args *a, const struct kern_args *args,
                       const struct kern_tensor *x, int multiprocessors,
                       struct infer_error *err)
{
    a->s = summed_shape<V>(a, x, multiprocessors);
    a->vectors = (uint32_t)(kern_tensor_count(x) / V);
    return NORM_DISPATCH(&a->act, run_act, T, V, a, x, args->stream,
                         multiprocessors, err);
}

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int wide = 16 / (int)sizeof(T);
    struct resident_state *s = (struct resident_state *)e->state;
    const int sms = s->multiprocessors;
    struct train_args a = {};

    a.x = args->in[0];
    a.residual = kern_problem_in(p, 5) ? args->in[5] : NULL;
    a.pixels = (int)(kern_tensor_count(&p->in[0]) / p->in[0].dim[1]);
    if (bn_stats_of(p)) {
        a.bn_stats = (const float *)args->in[BN_STATS];
        a.part = (int)bn_stats_part(p->in[BN_STATS].dim[0], a.pixels);
    }
    a.scale = (const float *)args->in[1];
    a.shift = (const float *)args->in[2];
    a.mean_in = input_f32(p, args, 3);
    a.var_in = input_f32(p, args, 4);
    a.y = args->out[0];
    a.mean = (float *)args->out[1];
    a.inverse = (float *)args->out[2];
    a.mean_out = (float *)args->out[3];
    a.var_out = (float *)args->out[4];
    a.mask = kern_problem_out(p, 5) ? (uint8_t *)args->out[5] : NULL;
    a.line = (float *)args->workspace;
    a.parts = a.line + 2 * p->in[0].dim[1];
    a.epsilon = p->attr.norm.epsilon;
    a.momentum = p->attr.norm.momentum;
    a.act = p->epilogue.act;
    if (s->shape.vectors)
        return run_resident<T, wide>(&a, s, &p->in[0], args->stream, err);
    if (norm_vectors(p, args, VECTORS_IN | 1u << BN_STATS, VECTORS_OUT, wide))
        return run_vectors<T, wide>(&a, args, &p->in[0], sms, err);
    return run_vectors<T, 1>(&a, args, &p->in[0], sms, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct kern_problem rest = *p;

    (void)d;
    if (bn_stats_of(p) && p->in[BN_STATS].dtype != INFER_F32)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes partial statistics in F32");
    rest.in[BN_STATS].dtype = INFER_NONE; /* neither vector nor activation */
    return norm_supports(&rest, VECTORS_IN, VECTORS_OUT, why);
}

/* How it fits into the device's registers without leaving them. */
static struct resident_shape resident_of(const struct kern_problem *p,
                                         const struct kern_device *d)
{
    const struct resident_shape none = {0, 0};

    return bn_stats_of(p)
               ? none
               : resident_shape_of(&p->in[0], RESIDENT_TRAIN_MOST, d);
}

CUDA_LAUNCH(launch, run, e)

KERN_FUNCTIONS(batch_norm_train_cuda_sums) = {
    .supports = supports,
    .variants = resident_variants<resident_of>,
    .prepare = resident_prepare<resident_of, 2>,
    .launch = launch,
    .release = cuda_state_release,
};
