/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element numbers to offsets of several strided tensors.
 *
 * The dimensions are sorted by the strides of the last tensor (the output), so
 * that neighbouring threads write neighbouring elements, and merged where all
 * tensors allow.  Division by a dimension is a multiplication and a shift.
 */
#ifndef KERNELS_CUDA_STRIDED_CUH
#define KERNELS_CUDA_STRIDED_CUH

#include <stdint.h>

#include "kernels/cuda/launch.cuh"

/* Blocks of a loop over the grid: enough to fill any GPU several times. */
static inline unsigned cuda_grid(int64_t n, int threads)
{
    const int64_t blocks = (n + threads - 1) / threads;

    return (unsigned)(blocks < 16384 ? blocks : 16384);
}

/* Numbers of the dimensions by their strides, outermost first. */
static inline void cuda_sort_dimensions(const struct kern_tensor *t, int *order)
{
    int64_t reach[KERN_MAX_RANK];

    for (int i = 0; i < t->rank; i++) {
        int at = i;
        reach[i] = t->stride[i] < 0 ? -t->stride[i] : t->stride[i];
        while (at > 0 && reach[order[at - 1]] < reach[i]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

/* A tensor's dimensions that are in axes, or those that are not: the others
 * have size 1. */
static inline struct kern_tensor cuda_dimensions(const struct kern_tensor *t,
                                                 uint32_t axes, bool in_axes)
{
    struct kern_tensor v = *t;

    for (int i = 0; i < t->rank; i++)
        if ((axes >> i & 1) != (uint32_t)in_axes) {
            v.dim[i] = 1;
            v.stride[i] = 0;
        }
    return v;
}

/* n / d for 0 <= n < 2^31 and 1 <= d < 2^31: with shift = ceil(log2 d) and
 * multiply = floor(2^32 (2^shift - d) / d) + 1, the quotient is
 * (mulhi(n, multiply) + n) >> shift (Granlund and Montgomery). */
struct fast_div {
    uint32_t divisor, multiply, shift;

    void init(uint32_t d)
    {
        divisor = d;
        shift = 0;
        while (shift < 32 && ((uint64_t)1 << shift) < d)
            shift++;
        multiply =
            (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - d)) /
                           d +
                       1);
    }
    __device__ __forceinline__ uint32_t div(uint32_t n) const
    {
        /* n < 2^31 keeps the sum below 2^32. */
        return (__umulhi(n, multiply) + n) >> shift;
    }
    __device__ __forceinline__ uint32_t divmod(uint32_t n, uint32_t *rest) const
    {
        const uint32_t q = div(n);
        *rest = n - q * divisor;
        return q;
    }
};

template <int OPERANDS> struct cuda_strided {
    static const int operands = OPERANDS;
    int64_t count;              /* of elements */
    int rank;                   /* 0 for a single element */
    bool small;                 /* count < 2^31: 32-bit division is enough */
    int64_t dim[KERN_MAX_RANK]; /* outermost first */
    struct fast_div divide[KERN_MAX_RANK];
    int64_t stride[OPERANDS][KERN_MAX_RANK];

    /* Tensors are aligned at the last dimension; missing dimensions and those
     * of size 1 are broadcast. */
    void init(int full, const int64_t *size, const struct kern_tensor *const *t)
    {
        rank = 0;
        count = 1;
        for (int d = 0; d < full; d++) {
            count *= size[d];
            if (size[d] != 1)
                add(full, d, size[d], t);
        }
        sort();
        merge();
        small = count < ((int64_t)1 << 31);
        for (int d = 0; small && count > 0 && d < rank; d++)
            divide[d].init((uint32_t)dim[d]);
    }

    __device__ __forceinline__ void offsets(int64_t i, int64_t *at) const
    {
        for (int k = 0; k < OPERANDS; k++)
            at[k] = 0;
        if (small) {
            uint32_t rest = (uint32_t)i;
            for (int d = rank - 1; d > 0; d--) {
                uint32_t index;
                rest = divide[d].divmod(rest, &index);
                for (int k = 0; k < OPERANDS; k++)
                    at[k] += index * stride[k][d];
            }
            if (rank > 0)
                for (int k = 0; k < OPERANDS; k++)
                    at[k] += rest * stride[k][0];
            return;
        }
        for (int d = rank - 1; d >= 0; d--) {
            const int64_t index = i % dim[d];
            i /= dim[d];
            for (int k = 0; k < OPERANDS; k++)
                at[k] += index * stride[k][d];
        }
    }

    /* Groups v neighbours of the innermost dimension into one element, if every
     * tensor has stride 1 or 0 there and the addresses allow accesses of v
     * elements (at most 16 bytes). */
    bool vectorise(int v, const void *const *at, const size_t *size)
    {
        const int last = rank - 1;

        if (rank == 0 || dim[last] % v != 0 || stride[OPERANDS - 1][last] != 1)
            return false;
        for (int k = 0; k < OPERANDS; k++) {
            if (stride[k][last] == 0)
                continue;
            if (stride[k][last] != 1)
                return false;
            size_t align = (size_t)v * size[k];
            if (align > 16)
                align = 16;
            if ((uintptr_t)at[k] % align != 0)
                return false;
            for (int d = 0; d < last; d++)
                if (stride[k][d] * (int64_t)size[k] % (int64_t)align != 0)
                    return false;
        }
        dim[last] /= v;
        count /= v;
        for (int k = 0; k < OPERANDS; k++)
            stride[k][last] *= v;
        small = count < ((int64_t)1 << 31);
        if (small)
            divide[last].init((uint32_t)dim[last]);
        return true;
    }

    /* True if all elements of a vector share one element of tensor k. */
    __host__ __device__ __forceinline__ bool broadcasts(int k) const
    {
        return stride[k][rank - 1] == 0;
    }

  private:
    void add(int full, int d, int64_t size, const struct kern_tensor *const *t)
    {
        for (int k = 0; k < OPERANDS; k++) {
            const int own = t[k] ? d - (full - t[k]->rank) : -1;
            stride[k][rank] =
                own < 0 || t[k]->dim[own] == 1 ? 0 : t[k]->stride[own];
        }
        dim[rank++] = size;
    }
    void swap(int a, int b)
    {
        const int64_t size = dim[a];
        dim[a] = dim[b];
        dim[b] = size;
        for (int k = 0; k < OPERANDS; k++) {
            const int64_t s = stride[k][a];
            stride[k][a] = stride[k][b];
            stride[k][b] = s;
        }
    }
    int64_t reach(int d) const
    {
        const int64_t s = stride[OPERANDS - 1][d];
        return s < 0 ? -s : s;
    }
    void sort(void)
    {
        for (int i = 1; i < rank; i++)
            for (int k = i; k > 0 && reach(k - 1) < reach(k); k--)
                swap(k - 1, k);
    }
    bool joins(int d) const /* d and the dimension outside it */
    {
        for (int k = 0; k < OPERANDS; k++)
            if (stride[k][d - 1] != stride[k][d] * dim[d])
                return false;
        return true;
    }
    void merge(void)
    {
        for (int d = rank - 1; d > 0; d--) {
            if (!joins(d))
                continue;
            dim[d - 1] *= dim[d];
            for (int k = 0; k < OPERANDS; k++)
                stride[k][d - 1] = stride[k][d];
            for (int i = d; i + 1 < rank; i++) {
                dim[i] = dim[i + 1];
                for (int k = 0; k < OPERANDS; k++)
                    stride[k][i] = stride[k][i + 1];
            }
            rank--;
        }
    }
};

/* ---- element by element -------------------------------------------- */

#define WALK_THREADS 256

/* Calls element(args, at) for each element of args.walk: one thread an element,
 * in a loop over the grid.  at: its offsets. */
template <auto element, bool CHAINED, typename Args>
static __global__ void __launch_bounds__(WALK_THREADS)
    walk_kernel(const __grid_constant__ Args a)
{
    if (CHAINED)
        launch_wait();
    for (int64_t i = blockIdx.x * (int64_t)WALK_THREADS + threadIdx.x;
         i < a.walk.count; i += (int64_t)gridDim.x * WALK_THREADS) {
        int64_t at[decltype(a.walk)::operands];

        a.walk.offsets(i, at);
        element(a, at);
    }
}

/* Launches walk_kernel(), as a chained kernel or not (launch.cuh). */
template <auto element, bool CHAINED = false, typename Args>
static int walk_launch(const Args &a, const struct kern_args *args,
                       struct infer_error *err)
{
    const unsigned blocks = cuda_grid(a.walk.count, WALK_THREADS);

    if (blocks == 0)
        return 0;
    return (CHAINED ? launch_chained<Args>
                    : launch_kernel<Args>)(walk_kernel<element, CHAINED, Args>,
                                           blocks, WALK_THREADS, 0,
                                           args->stream, a, err);
}

#endif
