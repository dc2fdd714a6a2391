/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dilation: copies between a tensor of pixels and one that holds them strides
 * apart, channels last; one thread V channels of a pixel, 16 bytes if their
 * number allows.
 */
#ifndef KERNELS_CUDA_CONV_SPREAD_CUH
#define KERNELS_CUDA_CONV_SPREAD_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/strided.cuh"

#define SPREAD_THREADS 256

/* As launch_wait(), but the next kernel is not started before this one ends: it
 * may read packed weights before it waits itself. */
static __device__ __forceinline__ void spread_wait(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* ---- spreading ----------------------------------------------------- */

/* to[n, h, w] = from[n, h / stride_h, w / stride_w] where both divide, else the
 * residual, or 0 without one.  Gathering is the reverse: from is the large
 * tensor, and pixels outside it are 0. */
struct spread_args {
    int64_t count; /* vectors of what is walked: `to`, or scatter's `from` */
    struct fast_div units, w, h, stride_h, stride_w;
    int p, q;                    /* extents of the tensor that is not walked */
    const void *from, *residual; /* NULL: none */
    void *to;
};

template <typename T, int V>
static __global__ void __launch_bounds__(SPREAD_THREADS)
    spread_kernel(const __grid_constant__ struct spread_args a)
{
    spread_wait();
    for (int64_t i = blockIdx.x * (int64_t)SPREAD_THREADS + threadIdx.x;
         i < a.count; i += (int64_t)gridDim.x * SPREAD_THREADS) {
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

template <typename T, int V>
static __global__ void __launch_bounds__(SPREAD_THREADS)
    gather_kernel(const __grid_constant__ struct spread_args a)
{
    spread_wait();
    for (int64_t i = blockIdx.x * (int64_t)SPREAD_THREADS + threadIdx.x;
         i < a.count; i += (int64_t)gridDim.x * SPREAD_THREADS) {
        uint32_t unit, w, h;
        uint32_t n = a.units.divmod((uint32_t)i, &unit);
        vec<T, V> v = {};
        n = a.w.divmod(n, &w);
        n = a.h.divmod(n, &h);
        const int64_t p = (int64_t)h * a.stride_h.divisor,
                      q = (int64_t)w * a.stride_w.divisor;
        if (p < a.p && q < a.q)
            v = load_vec<T, V>(
                (const T *)a.from +
                (((n * (int64_t)a.p + p) * a.q + q) * a.units.divisor + unit) *
                    V);
        store_vec<T, V>((T *)a.to + i * V, v);
    }
}

/* to[n, h stride_h, w stride_w] = from[n, h, w], the rest as it is. */
template <typename T, int V>
static __global__ void __launch_bounds__(SPREAD_THREADS)
    scatter_kernel(const __grid_constant__ struct spread_args a)
{
    spread_wait();
    for (int64_t i = blockIdx.x * (int64_t)SPREAD_THREADS + threadIdx.x;
         i < a.count; i += (int64_t)gridDim.x * SPREAD_THREADS) {
        uint32_t unit, w, h;
        uint32_t n = a.units.divmod((uint32_t)i, &unit);
        n = a.w.divmod(n, &w);
        n = a.h.divmod(n, &h);
        const int64_t p = (int64_t)h * a.stride_h.divisor,
                      q = (int64_t)w * a.stride_w.divisor;
        if (p < a.p && q < a.q)
            store_vec<T, V>((T *)a.to + (((n * (int64_t)a.p + p) * a.q + q) *
                                             a.units.divisor +
                                         unit) *
                                            V,
                            load_vec<T, V>((const T *)a.from + i * V));
    }
}

enum move { MOVE_SPREAD, MOVE_GATHER, MOVE_SCATTER };

template <typename T, int V>
static int start_move(enum move move, const struct spread_args *a, void *stream,
                      struct infer_error *err)
{
    return launch_chained(move == MOVE_SPREAD   ? spread_kernel<T, V>
                          : move == MOVE_GATHER ? gather_kernel<T, V>
                                                : scatter_kernel<T, V>,
                          dim3(cuda_grid(a->count, SPREAD_THREADS)),
                          dim3(SPREAD_THREADS), 0, stream, *a, err);
}

/* Dilates or scatters the smaller tensor into the larger, or gathers from the
 * larger. */
template <typename T>
static int spread(const struct kern_conv *c, enum move move,
                  const struct kern_tensor *from_t, const void *from,
                  const struct kern_tensor *to_t, void *to,
                  const void *residual, void *stream, struct infer_error *err)
{
    const struct kern_tensor *walked = move == MOVE_SCATTER ? from_t : to_t;
    const struct kern_tensor *other = move == MOVE_SCATTER ? to_t : from_t;
    const int wide = 16 / (int)sizeof(T);
    const bool vectors = to_t->dim[1] % wide == 0 &&
                         (uintptr_t)from % 16 == 0 && (uintptr_t)to % 16 == 0 &&
                         (uintptr_t)residual % 16 == 0;
    const int v = vectors ? wide : 1;
    struct spread_args a = {};

    a.count = kern_tensor_count(walked) / v;
    a.units.init((uint32_t)(walked->dim[1] / v));
    a.h.init((uint32_t)walked->dim[2]);
    a.w.init((uint32_t)walked->dim[3]);
    a.stride_h.init((uint32_t)c->stride[0]);
    a.stride_w.init((uint32_t)c->stride[1]);
    a.p = (int)other->dim[2];
    a.q = (int)other->dim[3];
    a.from = from;
    a.residual = residual;
    a.to = to;
    return vectors ? start_move<T, wide>(move, &a, stream, err)
                   : start_move<T, 1>(move, &a, stream, err);
}

#endif
