/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recurrent layer, step by step: one block of 512 threads a sequence, in a
 * loop over the grid.
 *
 * State and gates are F32 in shared memory: h, c, r h, H each, and G H gates.
 * In a product a warp takes one gate after the other; lane l adds the terms l,
 * l + 32, ... of its sum.  The weights stay in the L2 cache between steps.  In
 * the functions a thread takes one element of the state after the other.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/recurrent/recurrent.h"

#define THREADS 512
#define WARPS   (THREADS / 32)
/* Shared memory that every device gives a block without asking. */
#define SHARED_BYTES 49152

struct recurrent_args {
    struct kern_recurrent a;
    struct kern_tensor x, h, c, bias, peephole, length, y;
    const void *x_at, *w_at, *h_at, *c_at, *bias_at, *peephole_at, *length_at;
    void *y_at;
    int64_t w_row, w_col;
    int64_t sequences, steps;
    int hidden, gates;
};

/* Element (i, j) of an optional input of rank 1 or 2; 0 where it is absent. */
static __device__ __forceinline__ float
optional(const struct kern_tensor &t, const void *at, int64_t i, int64_t j)
{
    if (t.dtype == INFER_NONE)
        return 0;
    return (float)load_any(t.dtype, at, i * t.stride[0] + j * t.stride[1]);
}

static __device__ __forceinline__ float function(const struct kern_recurrent &a,
                                                 int k, float v)
{
    const struct kern_unary f = {a.act[k], 0, 0};

    if (a.clip > 0 && k < 2)
        v = v < -a.clip ? -a.clip : v > a.clip ? a.clip : v;
    return apply_unary(f, v);
}

/* u = rows [from, to) of w times v. */
template <typename T>
static __device__ __forceinline__ void multiply(const struct recurrent_args &a,
                                                const float *v, int from,
                                                int to, float *u)
{
    const int lane = threadIdx.x % 32;

    for (int i = from + (int)threadIdx.x / 32; i < to; i += WARPS) {
        const T *w = (const T *)a.w_at + i * a.w_row;
        float sum = 0;

        for (int k = lane; k < a.hidden; k += 32)
            sum = fmaf(to_float(w[k * a.w_col]), v[k], sum);
        sum = warp_sum(sum);
        if (lane == 0)
            u[i] = sum;
    }
    __syncthreads();
}

/* One element of the LSTM's state: gates i, o, f, c. */
static __device__ __forceinline__ void
lstm_element(const struct recurrent_args &a, const float *u, int i, float *h,
             float *c)
{
    const int n = a.hidden;
    const float old = c[i];
    const float p0 = optional(a.peephole, a.peephole_at, 0, i);
    const float p1 = optional(a.peephole, a.peephole_at, 1, i);
    const float p2 = optional(a.peephole, a.peephole_at, 2, i);
    const float in = function(a.a, 0, u[i] + p0 * old);
    const float forget =
        a.a.input_forget ? 1 - in : function(a.a, 0, u[2 * n + i] + p2 * old);
    const float now = forget * old + in * function(a.a, 1, u[3 * n + i]);
    const struct kern_unary out = {a.a.act[2], 0, 0};

    c[i] = now;
    h[i] = function(a.a, 0, u[n + i] + p1 * now) * apply_unary(out, now);
}

template <typename T>
static __device__ __forceinline__ void step(const struct recurrent_args &a,
                                            int64_t x, float *h, float *c,
                                            float *v, float *u)
{
    const int n = a.hidden;
    const bool twice = a.a.cell == KERN_CELL_GRU && !a.a.reset_after;
    const bool after = a.a.cell == KERN_CELL_GRU && a.a.reset_after;

    multiply<T>(a, h, 0, twice ? 2 * n : a.gates, u);
    for (int i = (int)threadIdx.x; i < (after || twice ? 2 * n : a.gates);
         i += THREADS)
        u[i] += (float)load_any(a.x.dtype, a.x_at, x + i * a.x.stride[2]);
    __syncthreads();
    if (twice) {
        for (int i = (int)threadIdx.x; i < n; i += THREADS)
            v[i] = function(a.a, 0, u[n + i]) * h[i];
        __syncthreads();
        multiply<T>(a, v, 2 * n, 3 * n, u);
    }
    for (int i = (int)threadIdx.x; i < n; i += THREADS) {
        if (a.a.cell == KERN_CELL_RNN) {
            h[i] = function(a.a, 1, u[i]);
        } else if (a.a.cell == KERN_CELL_LSTM) {
            lstm_element(a, u, i, h, c);
        } else {
            const float own = (float)load_any(
                a.x.dtype, a.x_at, x + (2 * (int64_t)n + i) * a.x.stride[2]);
            const float z = function(a.a, 0, u[i]);
            float g = u[2 * n + i];

            if (after)
                g = function(a.a, 0, u[n + i]) *
                    (g + optional(a.bias, a.bias_at, i, 0));
            g = function(a.a, 1, own + g);
            h[i] = (1 - z) * g + z * h[i];
        }
    }
    __syncthreads();
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    recurrent_kernel(const __grid_constant__ struct recurrent_args a)
{
    extern __shared__ float memory[];
    float *const h = memory, *const c = h + a.hidden, *const v = c + a.hidden;
    float *const u = v + a.hidden;

    for (int64_t s = blockIdx.x; s < a.sequences; s += gridDim.x) {
        const int64_t length =
            a.length.dtype == INFER_NONE
                ? a.steps
                : load_i64(a.length.dtype, a.length_at, s * a.length.stride[0]);

        for (int i = (int)threadIdx.x; i < a.hidden; i += THREADS) {
            h[i] = optional(a.h, a.h_at, s, i);
            c[i] = optional(a.c, a.c_at, s, i);
        }
        __syncthreads();
        for (int64_t k = 0; k < a.steps; k++) {
            const int64_t t = a.a.reverse ? a.steps - 1 - k : k;
            const int64_t y = s * a.y.stride[0] + t * a.y.stride[1];

            if (t < length)
                step<T>(a, s * a.x.stride[0] + t * a.x.stride[1], h, c, v, u);
            for (int i = (int)threadIdx.x; i < (int)a.y.dim[2]; i += THREADS)
                store_any(a.y.dtype, a.y_at, y + i * a.y.stride[2],
                          (double)(i < a.hidden ? h[i] : c[i - a.hidden]));
        }
        __syncthreads();
    }
}

static size_t shared_of(const struct kern_problem *p)
{
    const struct kern_tensor *w = &p->in[RECURRENT_W];

    return (size_t)(3 * w->dim[1] + w->dim[0]) * sizeof(float);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!cuda_is_real(p->in[RECURRENT_W].dtype))
        return error_set(why, INFER_EUNSUPPORTED,
                         "recurrent: weights are %s, supported are F32, F16 "
                         "and BF16",
                         infer_dtype_name(p->in[RECURRENT_W].dtype));
    if (p->in[RECURRENT_W].dim[0] > SHARED_BYTES || shared_of(p) > SHARED_BYTES)
        return error_set(why, INFER_EUNSUPPORTED,
                         "recurrent: a state of %lld, which shared memory does "
                         "not hold",
                         (long long)p->in[RECURRENT_W].dim[1]);
    return 0;
}

static const void *input(const struct kern_problem *p,
                         const struct kern_args *args, int i,
                         struct kern_tensor *t)
{
    if (!kern_problem_in(p, i)) {
        t->dtype = INFER_NONE;
        return NULL;
    }
    *t = p->in[i];
    return args->in[i];
}

template <typename T>
static int run(const struct kern_problem *p, const struct recurrent_args *a,
               void *stream, struct infer_error *err)
{
    return launch_kernel(recurrent_kernel<T>,
                         cuda_grid(a->sequences * THREADS, THREADS), THREADS,
                         shared_of(p), stream, *a, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *w = &p->in[RECURRENT_W];
    struct recurrent_args a = {};

    a.a = p->attr.recurrent;
    a.x_at = input(p, args, RECURRENT_X, &a.x);
    a.w_at = args->in[RECURRENT_W];
    a.bias_at = input(p, args, RECURRENT_BIAS, &a.bias);
    a.h_at = input(p, args, RECURRENT_H, &a.h);
    a.c_at = input(p, args, RECURRENT_C, &a.c);
    a.peephole_at = input(p, args, RECURRENT_PEEPHOLE, &a.peephole);
    a.length_at = input(p, args, RECURRENT_LENGTH, &a.length);
    a.y = p->out[0];
    a.y_at = args->out[0];
    a.w_row = w->stride[0];
    a.w_col = w->stride[1];
    a.hidden = (int)w->dim[1];
    a.gates = (int)w->dim[0];
    a.sequences = a.y.dim[0];
    a.steps = a.y.dim[1];
    if (a.sequences == 0 || a.steps == 0)
        return 0;
    return CUDA_DISPATCH(w->dtype, run, p, &a, args->stream, err);
}

KERN_FUNCTIONS(recurrent_cuda_block) = {
    .supports = supports,
    .launch = launch,
};
