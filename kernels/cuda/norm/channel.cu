/* SPDX-License-Identifier: Apache-2.0 */
/* Scale and shift, batch norm, PReLU: pointwise.cuh has the index map.  The
 * vectors are F32, or of the type of the activations. */
#include "kernels/cuda/pointwise/pointwise.cuh"

struct scale_shift {
    static const int N = 4; /* x, scale, shift, residual */
    static __device__ __forceinline__ float neutral(int k)
    {
        return k == 1;
    }
    static __device__ __forceinline__ float apply(const struct pointwise<4> &a,
                                                  const float *x)
    {
        return apply_epilogue(a.epilogue, fmaf(x[0], x[1], x[2]), x[3]);
    }
};

struct batch_norm {
    static const int N = 6; /* x, scale, shift, mean, var, residual */
    static __device__ __forceinline__ float neutral(int)
    {
        return 0;
    }
    static __device__ __forceinline__ float apply(const struct pointwise<6> &a,
                                                  const float *x)
    {
        const float deviation = sqrtf(x[4] + a.f.epsilon);

        return apply_epilogue(a.epilogue,
                              (x[0] - x[3]) / deviation * x[1] + x[2], x[5]);
    }
};

struct prelu {
    static const int N = 2; /* x, slope */
    static __device__ __forceinline__ float neutral(int)
    {
        return 0;
    }
    static __device__ __forceinline__ float apply(const struct pointwise<2> &,
                                                  const float *x)
    {
        return x[0] < 0 ? x[0] * x[1] : x[0];
    }
};

template <typename T>
static int run_scale_shift(const struct kern_problem *p,
                           const struct kern_args *args,
                           struct infer_error *err)
{
    struct pointwise<4> a = {
    };

    pointwise_init<scale_shift>(&a, p, args, 1, 2);
    return pointwise_run<scale_shift, T, T>(&a, args, err);
}

template <typename T>
static int run_batch_norm(const struct kern_problem *p,
                          const struct kern_args *args, struct infer_error *err)
{
    struct pointwise<6> a = {
    };

    pointwise_init<batch_norm>(&a, p, args, 1, 4);
    a.f.epsilon = p->attr.norm.epsilon;
    return pointwise_run<batch_norm, T, T>(&a, args, err);
}

template <typename T>
static int run_prelu(const struct kern_problem *p, const struct kern_args *args,
                     struct infer_error *err)
{
    struct pointwise<2> a = {
    };

    pointwise_init<prelu>(&a, p, args, 2, 1);
    return pointwise_run<prelu, T, T>(&a, args, err);
}

CUDA_LAUNCH(launch_scale_shift, run_scale_shift, &e->problem)

CUDA_LAUNCH(launch_batch_norm, run_batch_norm, &e->problem)

CUDA_LAUNCH(launch_prelu, run_prelu, &e->problem)

const struct kern_functions scale_shift_cuda_vec = {
    .supports = supports_types<1, 2>,
    .launch = launch_scale_shift,
};
const struct kern_functions batch_norm_cuda_vec = {
    .supports = supports_types<1, 4>,
    .launch = launch_batch_norm,
};
const struct kern_functions prelu_cuda_vec = {
    .supports = supports_types<1, 1>,
    .launch = launch_prelu,
};
