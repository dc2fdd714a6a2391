/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgrad of convolutions of 1 to 3 dimensions, any groups, strides and layouts,
 * by its definition, for problems that no faster row takes.
 *
 * One block of 128 threads a weight: thread t takes pixels t, t + 128, ... of
 * dy; the partial sums are added in a fixed order, within warps by shuffles,
 * then through 4 floats of shared memory.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/cuda/window.cuh"

#define THREADS 128

struct wgrad_args {
    struct cuda_window w; /* w_stride and r_stride: of dw and of the residual */
    int inputs, outputs;  /* channels of a group */
    uint32_t pixels;      /* n * p * q of dy */
    enum infer_dtype type, r_type; /* of dw and its residual; NONE: absent */
    const void *x, *dy, *r;
    void *dw;
};

template <typename T>
static __device__ __forceinline__ float sum_pixels(const struct wgrad_args &a,
                                                   const T *x, const T *dy,
                                                   int kd, int kh, int kw)
{
    const struct cuda_window &w = a.w;
    float sum = 0;

    for (uint32_t m = threadIdx.x; m < a.pixels; m += THREADS) {
        uint32_t od, oh, ow;
        uint32_t n = w.extent[2].divmod(m, &ow);
        n = w.extent[1].divmod(n, &oh);
        n = w.extent[0].divmod(n, &od);
        const int d = (int)od * w.step[0] + kd * w.dilation[0] - w.pad[0];
        const int h = (int)oh * w.step[1] + kh * w.dilation[1] - w.pad[1];
        const int i = (int)ow * w.step[2] + kw * w.dilation[2] - w.pad[2];
        if (d < 0 || d >= w.in[0] || h < 0 || h >= w.in[1] || i < 0 ||
            i >= w.in[2])
            continue;
        const int64_t from = n * w.x_stride[0] + d * w.x_stride[2] +
                             h * w.x_stride[3] + i * w.x_stride[4];
        const int64_t at = n * w.y_stride[0] + od * w.y_stride[2] +
                           oh * w.y_stride[3] + ow * w.y_stride[4];
        sum = fmaf(to_float(x[from]), to_float(dy[at]), sum);
    }
    return sum;
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    wgrad_kernel(const __grid_constant__ struct wgrad_args a)
{
    __shared__ float part[THREADS / 32];
    const struct cuda_window &w = a.w;
    uint32_t i = blockIdx.x;
    const int kw = (int)(i % w.kernel[2]);
    i /= w.kernel[2];
    const int kh = (int)(i % w.kernel[1]);
    i /= w.kernel[1];
    const int kd = (int)(i % w.kernel[0]);
    i /= w.kernel[0];
    const int c = (int)(i % a.inputs), k = (int)(i / a.inputs);

    launch_wait();
    const int64_t from = (int64_t)(k / a.outputs) * a.inputs + c;
    float sum = sum_pixels<T>(a, (const T *)a.x + from * w.x_stride[1],
                              (const T *)a.dy + k * w.y_stride[1], kd, kh, kw);

    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    sum = part[0] + part[1] + part[2] + part[3];
    if (a.r_type != INFER_NONE)
        sum += (float)load_any(a.r_type, a.r,
                               k * w.r_stride[0] + c * w.r_stride[1] +
                                   kd * w.r_stride[2] + kh * w.r_stride[3] +
                                   kw * w.r_stride[4]);
    store_any(a.type, a.dw,
              k * w.w_stride[0] + c * w.w_stride[1] + kd * w.w_stride[2] +
                  kh * w.w_stride[3] + kw * w.w_stride[4],
              (double)sum);
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_conv *c = &p->attr.conv;
    const struct kern_tensor *dw = &p->out[0];
    struct kern_problem fprop = *p;
    struct wgrad_args a = {};
    int64_t weights = kern_tensor_count(dw);

    if (weights == 0)
        return 0;
    fprop.out[0] = p->in[1];
    a.w.fill(&fprop, c->stride, c->dilation, c->pad_begin, c->pad_end);
    a.w.split_by(1);
    a.w.spread(dw, a.w.w_stride);
    if (kern_problem_in(p, 2))
        a.w.spread(&p->in[2], a.w.r_stride);
    for (int i = 2; i < dw->rank; i++)
        a.w.kernel[3 - dw->rank + i] = (int)dw->dim[i];
    a.inputs = (int)dw->dim[1];
    a.outputs = (int)(dw->dim[0] / c->groups);
    a.pixels = (uint32_t)(kern_tensor_count(&p->in[1]) /
                          (dw->dim[0] ? dw->dim[0] : 1));
    a.type = dw->dtype;
    a.r_type = kern_problem_in(p, 2) ? p->in[2].dtype : INFER_NONE;
    a.x = args->in[0];
    a.dy = args->in[1];
    a.r = args->in[2];
    a.dw = args->out[0];
    return launch_chained(wgrad_kernel<T>, dim3((unsigned)weights),
                          dim3(THREADS), 0, args->stream, a, err);
}

/* Positions are computed in 32 bits. */
static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_conv *c = &p->attr.conv;
    const enum infer_dtype t = p->in[0].dtype;

    (void)d;
    if (!cuda_is_real(t) || p->in[1].dtype != t ||
        !cuda_is_real(p->out[0].dtype) ||
        (kern_problem_in(p, 2) && !cuda_is_real(p->in[2].dtype)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "conv_wgrad: takes x and dy alike, and all F32, F16 "
                         "or BF16");
    if (kern_tensor_count(&p->in[1]) >= (int64_t)1 << 31 ||
        kern_tensor_count(&p->out[0]) >= (int64_t)1 << 31)
        return error_set(why, INFER_EUNSUPPORTED,
                         "conv_wgrad: 2^31 elements or more");
    for (int i = 0; i < p->in[0].rank - 2; i++)
        if (((double)p->in[1].dim[i + 2] * c->stride[i] + c->pad_begin[i] +
             c->pad_end[i] + (double)p->out[0].dim[i + 2] * c->dilation[i]) >
            1e9)
            return error_set(why, INFER_EUNSUPPORTED,
                             "conv_wgrad: the window reaches beyond 10^9 "
                             "positions");
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return CUDA_DISPATCH(e->problem.in[0].dtype, run, &e->problem, args, err);
}

/* Every operand is loaded separately, once a weight: 0.5 TFLOP/s at best. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    (void)d;
    return 5 + kern_problem_flops(p) / 5e5;
}

KERN_FUNCTIONS(conv_wgrad_cuda_direct) = {
    .supports = supports,
    .estimate = estimate,
    .launch = launch,
};
