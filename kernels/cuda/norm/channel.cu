/* SPDX-License-Identifier: Apache-2.0 */
/* Scale and shift, batch norm, PReLU: pointwise.cuh has the index map.  The
 * vectors are F32, or of the type of the activations. */
#include "kernels/cuda/pointwise/pointwise.cuh"

/* x, scale, shift, residual */
struct scale_shift : pointwise_function<4> {
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

/* x, scale, shift, mean, var, residual */
struct batch_norm : pointwise_function<6> {
    static void set(struct pointwise<6> *a, const struct kern_problem *p)
    {
        a->f.epsilon = p->attr.norm.epsilon;
    }
    static __device__ __forceinline__ float apply(const struct pointwise<6> &a,
                                                  const float *x)
    {
        const float deviation = sqrtf(x[4] + a.f.epsilon);

        return apply_epilogue(a.epilogue,
                              (x[0] - x[3]) / deviation * x[1] + x[2], x[5]);
    }
};

/* x, slope */
struct prelu : pointwise_function<2> {
    static __device__ __forceinline__ float apply(const struct pointwise<2> &,
                                                  const float *x)
    {
        return x[0] < 0 ? x[0] * x[1] : x[0];
    }
};

KERN_FUNCTIONS(scale_shift_cuda_vec) = {
    .supports = supports_types<1, 2>,
    .launch = pointwise_launch<scale_shift, 1, 2>,
};
KERN_FUNCTIONS(batch_norm_cuda_vec) = {
    .supports = supports_types<1, 4>,
    .launch = pointwise_launch<batch_norm, 1, 4>,
};
KERN_FUNCTIONS(prelu_cuda_vec) = {
    .supports = supports_types<1, 1>,
    .launch = pointwise_launch<prelu, 2, 1>,
};
