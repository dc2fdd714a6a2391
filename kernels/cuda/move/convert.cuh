/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of a copy from one type to another. */
#ifndef KERNELS_CUDA_MOVE_CONVERT_CUH
#define KERNELS_CUDA_MOVE_CONVERT_CUH

#include "kernels/cuda/element.cuh"

template <typename A, typename B> struct same_type {
    static const bool value = false;
};
template <typename A> struct same_type<A, A> {
    static const bool value = true;
};

/* Reals are converted; of one type they are moved as bits. */
template <typename Out, typename In>
static __device__ __forceinline__ Out convert(In v)
{
    if constexpr (same_type<In, Out>::value)
        return v;
    else
        return from_float<Out>(to_float(v));
}

#endif
