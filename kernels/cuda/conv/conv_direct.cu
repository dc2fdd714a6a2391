/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution and transposed convolution of 1 to 3 dimensions by their
 * definition, for problems that no faster row takes.
 *
 * One thread an output, channels innermost where they are so in memory, so
 * that a warp shares its inputs.  No shared memory.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/window.cuh"

#define THREADS 128

struct conv_args {
    struct cuda_window w;
    uint32_t count;
    int inputs;                 /* channels of x in a group */
    int outputs;                /* channels of y in a group */
    enum infer_dtype bias_type; /* INFER_NONE: absent */
    int64_t bias_step;
    bool residual;
    struct kern_epilogue epilogue;
    const void *x, *f, *bias, *r;
    void *y;
};

template <typename T>
static __device__ __forceinline__ void finish(const struct conv_args &a,
                                              const uint32_t *o, float acc)
{
    const struct cuda_window &w = a.w;
    float r = 0;
    int64_t at = 0, from = 0;

#pragma unroll
    for (int i = 0; i < 5; i++) {
        at += o[i] * w.y_stride[i];
        from += o[i] * w.r_stride[i];
    }
    if (a.bias_type != INFER_NONE)
        acc += load_as<T>(a.bias_type, a.bias, o[1] * a.bias_step);
    if (a.residual)
        r = to_float(((const T *)a.r)[from]);
    ((T *)a.y)[at] = from_float<T>(apply_epilogue(a.epilogue, acc, r));
}

/* Sum over the channels of a group at one tap. */
template <typename T>
static __device__ __forceinline__ float add_channels(const T *x, int64_t x_step,
                                                     const T *f, int64_t f_step,
                                                     int n, float acc)
{
    for (int c = 0; c < n; c++)
        acc = fmaf(to_float(x[c * x_step]), to_float(f[c * f_step]), acc);
    return acc;
}

/* The input position that filter position r connects to output o of axis d.
 * Transposed: -1 if there is none; else it may lie outside x. */
template <bool TRANSPOSED>
static __device__ __forceinline__ int source(const struct cuda_window &w, int d,
                                             uint32_t o, int r)
{
    if (!TRANSPOSED)
        return (int)o * w.step[d] + r * w.dilation[d] - w.pad[d];
    const int reach = (int)o + w.pad[d] - r * w.dilation[d];

    if (reach < 0 || reach % w.step[d] != 0 || reach / w.step[d] >= w.in[d])
        return -1;
    return reach / w.step[d];
}

/* One output of a convolution, whose weights are f[k][c], or of a transposed
 * one, whose weights are f[c][k]. */
template <typename T, bool TRANSPOSED>
static __global__ void __launch_bounds__(THREADS)
    conv_kernel(const __grid_constant__ struct conv_args a)
{
    const uint32_t i = blockIdx.x * (uint32_t)THREADS + threadIdx.x;
    const struct cuda_window &w = a.w;
    uint32_t o[5];
    float acc = 0;

    launch_wait();
    if (i >= a.count)
        return;
    w.index(i, o);
    const int64_t first = (int64_t)(o[1] / a.outputs) * a.inputs;
    const T *x = (const T *)a.x + o[0] * w.x_stride[0] + first * w.x_stride[1];
    const T *f = TRANSPOSED ? (const T *)a.f + first * w.w_stride[0] +
                                  o[1] % a.outputs * w.w_stride[1]
                            : (const T *)a.f + o[1] * w.w_stride[0];
    for (int kd = 0; kd < w.kernel[0]; kd++) {
        const int d = source<TRANSPOSED>(w, 0, o[2], kd);
        if (d < 0 || (!TRANSPOSED && d >= w.in[0]))
            continue;
        for (int kh = 0; kh < w.kernel[1]; kh++) {
            const int h = source<TRANSPOSED>(w, 1, o[3], kh);
            if (h < 0 || (!TRANSPOSED && h >= w.in[1]))
                continue;
            for (int kw = 0; kw < w.kernel[2]; kw++) {
                const int c = source<TRANSPOSED>(w, 2, o[4], kw);
                if (c < 0 || (!TRANSPOSED && c >= w.in[2]))
                    continue;
                acc = add_channels<T>(
                    x + d * w.x_stride[2] + h * w.x_stride[3] +
                        c * w.x_stride[4],
                    w.x_stride[1],
                    f + kd * w.w_stride[2] + kh * w.w_stride[3] +
                        kw * w.w_stride[4],
                    w.w_stride[TRANSPOSED ? 0 : 1], a.inputs, acc);
            }
        }
    }
    finish<T>(a, o, acc);
}

static void fill(struct conv_args *a, const struct kern_problem *p,
                 const struct kern_args *args)
{
    const struct kern_conv *c = &p->attr.conv;
    const struct kern_tensor *bias = kern_problem_in(p, 2);
    const struct kern_tensor *r = kern_problem_in(p, 3);

    a->w.fill(p, c->stride, c->dilation, c->pad_begin, c->pad_end);
    a->w.spread(&p->in[1], a->w.w_stride);
    if (r)
        a->w.spread(r, a->w.r_stride);
    for (int i = 2; i < p->in[1].rank; i++)
        a->w.kernel[3 - p->in[1].rank + i] = (int)p->in[1].dim[i];
    a->count = (uint32_t)kern_tensor_count(&p->out[0]);
    a->w.split_by((int)p->out[0].dim[1]);
    a->inputs = (int)(p->in[0].dim[1] / c->groups);
    a->outputs = (int)(p->out[0].dim[1] / c->groups);
    a->bias_type = bias ? bias->dtype : INFER_NONE;
    a->bias_step = bias ? bias->stride[0] : 0;
    a->residual = r != NULL;
    a->epilogue = p->epilogue;
    a->x = args->in[0];
    a->f = args->in[1];
    a->bias = args->in[2];
    a->r = args->in[3];
    a->y = args->out[0];
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    struct conv_args a = {};

    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    fill(&a, p, args);
    return launch_chained(p->op == KERN_CONV_FPROP ? conv_kernel<T, false>
                                                   : conv_kernel<T, true>,
                          dim3(cuda_blocks(a.count, THREADS)), dim3(THREADS), 0,
                          args->stream, a, err);
}

/* Positions are computed in 32 bits. */
static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_conv *c = &p->attr.conv;
    int rc = check_types(p, 2, 2, why);

    (void)d;
    if (rc == 0)
        rc = check_count(p, why);
    for (int i = 0; rc == 0 && i < p->in[0].rank - 2; i++) {
        const double reach =
            ((double)p->in[0].dim[i + 2] + (double)p->out[0].dim[i + 2]) *
                c->stride[i] +
            c->pad_begin[i] + c->pad_end[i] +
            (double)p->in[1].dim[i + 2] * c->dilation[i];
        if (reach > 1e9)
            rc = error_set(why, INFER_EUNSUPPORTED,
                           "%s: the window reaches beyond 10^9 positions",
                           kern_op_name(p->op));
    }
    return rc;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return CUDA_DISPATCH(e->problem.in[0].dtype, run, &e->problem, args, err);
}

/* Every operand is loaded separately: a thread takes 0.03 us for each product,
 * and all threads reach 0.4 TFLOP/s at best. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    const struct kern_tensor *w = &p->in[1];
    const double depth = (double)kern_tensor_count(w) / (double)w->dim[0];

    (void)d;
    return 5 + 0.03 * depth + kern_problem_flops(p) / 0.4e6;
}

KERN_FUNCTIONS(conv_fprop_cuda_direct) = {
    .supports = supports,
    .estimate = estimate,
    .launch = launch,
};

KERN_FUNCTIONS(conv_transpose_fprop_cuda_direct) = {
    .supports = supports,
    .estimate = estimate,
    .launch = launch,
};
