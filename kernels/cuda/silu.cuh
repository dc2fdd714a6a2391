/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sigmoid and SiLU of many values in registers, as the last step of a kernel.
 *
 * What bounds them is the special function unit, 16 results a clock of a
 * multiprocessor: an exponential and a reciprocal an output take longer than
 * the output's way to memory.  So two outputs share a reciprocal, 1 / a =
 * b * (1 / (a b)), and both instructions flush subnormals, which spares the
 * scaling around them.  As exact as __expf() and __fdividef().
 */
#ifndef KERNELS_CUDA_SILU_CUH
#define KERNELS_CUDA_SILU_CUH

/* 2^x; 0 below the normal numbers. */
static __device__ __forceinline__ float silu_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ float silu_reciprocal(float x)
{
    float y;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#define SILU_LOG2_E 1.44269504088896340736f

/* v = 1 / (1 + exp(-v)). */
template <int N> static __device__ __forceinline__ void sigmoid_vector(float *v)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = silu_reciprocal(1 + silu_exp2(-SILU_LOG2_E * v[i]));
}

/* v = v / (1 + exp(-scale v)).  The exponential stops at 2^60, so that the
 * product of two stays finite: the result is then below 2^-54 in size for what
 * is above -64, in place of what is smaller still.  NaN is a factor of its own
 * result alone. */
template <int N>
static __device__ __forceinline__ void silu_vector(float scale, float *v)
{
    const float to_exponent = -SILU_LOG2_E * scale;
    float a[N];

#pragma unroll
    for (int i = 0; i < N; i++)
        a[i] = 1 + silu_exp2(fminf(to_exponent * v[i], 60));
#pragma unroll
    for (int i = 0; i + 1 < N; i += 2) {
        const float r = silu_reciprocal(a[i] * a[i + 1]);
        v[i] *= r * a[i + 1];
        v[i + 1] *= r * a[i];
    }
    if (N % 2 == 1)
        v[N - 1] *= silu_reciprocal(a[N - 1]);
}

#endif
