/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax and its logarithm along one axis of any strides.
 *
 * One warp a line, lane i takes elements i, i + 32, ...; three passes over the
 * line (maximum, sum, result), of which the caches hold all but the first.  No
 * shared memory.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/warp.cuh"

#define THREADS 256

struct softmax_args {
    struct cuda_strided<2> walk; /* x, y: the lines */
    int64_t n, x_stride, y_stride;
    bool log;
    const void *x;
    void *y;
};

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    softmax_kernel(const __grid_constant__ struct softmax_args a)
{
    const int lane = threadIdx.x % 32;
    const int64_t warps = (int64_t)gridDim.x * (THREADS / 32);

    launch_wait();
    for (int64_t line = blockIdx.x * (int64_t)(THREADS / 32) + threadIdx.x / 32;
         line < a.walk.count; line += warps) {
        int64_t at[2];
        float max = -INFINITY, sum = 0;

        a.walk.offsets(line, at);
        const T *x = (const T *)a.x + at[0];
        T *y = (T *)a.y + at[1];
        for (int64_t i = lane; i < a.n; i += 32)
            max = fmaxf(max, to_float(x[i * a.x_stride]));
        max = warp_max(max);
        for (int64_t i = lane; i < a.n; i += 32)
            sum += expf(to_float(x[i * a.x_stride]) - max);
        sum = warp_sum(sum);
        const float part = a.log ? logf(sum) : 1 / sum;
        for (int64_t i = lane; i < a.n; i += 32) {
            const float v = to_float(x[i * a.x_stride]) - max;
            y[i * a.y_stride] =
                from_float<T>(a.log ? v - part : expf(v) * part);
        }
    }
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const int axis = p->attr.softmax.axis;
    struct kern_tensor x = p->in[0], y = p->out[0];
    const struct kern_tensor *const t[2] = {&x, &y};
    struct softmax_args a = {};

    if (kern_tensor_count(&y) == 0)
        return 0;
    a.n = x.dim[axis];
    a.x_stride = x.stride[axis];
    a.y_stride = y.stride[axis];
    x.dim[axis] = y.dim[axis] = 1;
    a.walk.init(y.rank, y.dim, t);
    a.log = p->attr.softmax.log;
    a.x = args->in[0];
    a.y = args->out[0];
    return launch_chained(softmax_kernel<T>,
                          cuda_grid(a.walk.count, THREADS / 32), THREADS, 0,
                          args->stream, a, err);
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(softmax_cuda_warp) = {
    .supports = supports_types<>,
    .launch = launch,
};
