/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dilation: copies between a tensor of pixels (the small one) and a tensor that
 * holds them strides apart (the large one), channels last.  One thread copies V
 * channels of a pixel, 16 bytes if their number allows.
 */
#ifndef KERNELS_CUDA_CONV_DILATE_CUH
#define KERNELS_CUDA_CONV_DILATE_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/strided.cuh"

#define DILATE_THREADS 256

/* As launch_wait(), but the next kernel is not started before this one ends: it
 * may read packed weights before it waits itself. */
static __device__ __forceinline__ void dilate_wait(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* DILATE: large[n, h, w] = small[n, h / stride_h, w / stride_w] where both
 * divide, else the residual, or 0 without one.  GATHER: small[n, h, w] =
 * large[n, h stride_h, w stride_w], or 0 outside.  SCATTER: the reverse of
 * GATHER; the rest of the large tensor stays as it is. */
enum dilate_copy { DILATE, GATHER, SCATTER };

struct dilate_args {
    /* Vectors of the tensor whose elements the threads count: the large one for
     * DILATE, else the small one. */
    int64_t count;
    struct fast_div units, w, h, stride_h, stride_w;
    int p, q;                    /* extents of the other tensor */
    const void *from, *residual; /* NULL: none */
    void *to;
};

template <typename T, int V>
static __global__ void __launch_bounds__(DILATE_THREADS)
    dilate_kernel(const __grid_constant__ struct dilate_args a)
{
    dilate_wait();
    for (int64_t i = blockIdx.x * (int64_t)DILATE_THREADS + threadIdx.x;
         i < a.count; i += (int64_t)gridDim.x * DILATE_THREADS) {
        uint32_t unit, w, h, row, column;
        uint32_t n = a.units.divmod((uint32_t)i, &unit);
        vec<T, V> v = {};
        n = a.w.divmod(n, &w);
        n = a.h.divmod(n, &h);
        const int p = (int)a.stride_h.divmod(h, &row);
        const int q = (int)a.stride_w.divmod(w, &column);
        if (row == 0 && column == 0 && p < a.p && q < a.q)
            v = load_vec<T, V>(
                (const T *)a.from +
                ((((int64_t)n * a.p + p) * a.q + q) * a.units.divisor + unit) *
                    V);
        else if (a.residual)
            v = load_vec<T, V>((const T *)a.residual + i * V);
        store_vec<T, V>((T *)a.to + i * V, v);
    }
}

template <typename T, int V, bool TO_LARGE>
static __global__ void __launch_bounds__(DILATE_THREADS)
    gather_kernel(const __grid_constant__ struct dilate_args a)
{
    dilate_wait();
    for (int64_t i = blockIdx.x * (int64_t)DILATE_THREADS + threadIdx.x;
         i < a.count; i += (int64_t)gridDim.x * DILATE_THREADS) {
        uint32_t unit, w, h;
        uint32_t n = a.units.divmod((uint32_t)i, &unit);
        vec<T, V> v = {};
        n = a.w.divmod(n, &w);
        n = a.h.divmod(n, &h);
        const int64_t p = (int64_t)h * a.stride_h.divisor,
                      q = (int64_t)w * a.stride_w.divisor;
        if (p < a.p && q < a.q) {
            const int64_t at =
                (((n * (int64_t)a.p + p) * a.q + q) * a.units.divisor + unit) *
                V;
            if (TO_LARGE)
                store_vec<T, V>((T *)a.to + at,
                                load_vec<T, V>((const T *)a.from + i * V));
            else
                v = load_vec<T, V>((const T *)a.from + at);
        }
        if (!TO_LARGE)
            store_vec<T, V>((T *)a.to + i * V, v);
    }
}

template <typename T, int V>
static int dilate_start(enum dilate_copy copy, const struct dilate_args *a,
                        void *stream, struct infer_error *err)
{
    return launch_chained(copy == DILATE   ? dilate_kernel<T, V>
                          : copy == GATHER ? gather_kernel<T, V, false>
                                           : gather_kernel<T, V, true>,
                          dim3(cuda_grid(a->count, DILATE_THREADS)),
                          dim3(DILATE_THREADS), 0, stream, *a, err);
}

template <typename T>
static int dilate(const struct kern_conv *c, enum dilate_copy copy,
                  const struct kern_tensor *from_t, const void *from,
                  const struct kern_tensor *to_t, void *to,
                  const void *residual, void *stream, struct infer_error *err)
{
    const struct kern_tensor *counted = copy == SCATTER ? from_t : to_t;
    const struct kern_tensor *other = copy == SCATTER ? to_t : from_t;
    const int wide = 16 / (int)sizeof(T);
    const bool vectors = to_t->dim[1] % wide == 0 &&
                         (uintptr_t)from % 16 == 0 && (uintptr_t)to % 16 == 0 &&
                         (uintptr_t)residual % 16 == 0;
    const int v = vectors ? wide : 1;
    struct dilate_args a = {};

    a.count = kern_tensor_count(counted) / v;
    a.units.init((uint32_t)(counted->dim[1] / v));
    a.h.init((uint32_t)counted->dim[2]);
    a.w.init((uint32_t)counted->dim[3]);
    a.stride_h.init((uint32_t)c->stride[0]);
    a.stride_w.init((uint32_t)c->stride[1]);
    a.p = (int)other->dim[2];
    a.q = (int)other->dim[3];
    a.from = from;
    a.residual = residual;
    a.to = to;
    return vectors ? dilate_start<T, wide>(copy, &a, stream, err)
                   : dilate_start<T, 1>(copy, &a, stream, err);
}

#endif
