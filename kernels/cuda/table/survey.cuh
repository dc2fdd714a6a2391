/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch has to know before it multiplies: the exponents of the operands
 * and which engine (engine.cuh) gives the table's products.  An engine without
 * a table is taken only if it gives every entry, all 4^m of them.
 *
 * One thread an element in a loop over the grid; facts are joined within a
 * warp, then by integer atomics, so that they do not depend on timing.
 */
#ifndef KERNELS_CUDA_TABLE_SURVEY_CUH
#define KERNELS_CUDA_TABLE_SURVEY_CUH

#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/table/conditional.h"
#include "kernels/cuda/table/engine.cuh"

#define SURVEY_THREADS 256

struct survey_args {
    struct cuda_strided<1> x, w;
    bool x_dense,
        w_dense; /* one after the other, from a multiple of 16 bytes */
    const uint32_t *x_at, *w_at, *table;
    int64_t row, column; /* strides of the table */
    int m;
    struct table_facts *facts;
    const struct factor_facts *unless; /* plain; NULL: always */
};

static __global__ void
survey_clear(const __grid_constant__ struct survey_args a)
{
    launch_wait();
    if (threadIdx.x < sizeof *a.facts / sizeof(uint32_t))
        ((uint32_t *)a.facts)[threadIdx.x] = 0;
}

/* Adds an exponent to the largest and the least one. */
static __device__ __forceinline__ void
survey_exponent(uint32_t bits, uint32_t *top, uint32_t *below_255)
{
    const uint32_t e = (bits & PRODUCT_TABLE_EXPONENT) >> 23;

    if (e == 0 || e == 255)
        return;
    *top = max(*top, e);
    *below_255 = max(*below_255, 255 - e);
}

static __device__ void survey_tensor(const struct cuda_strided<1> &walk,
                                     bool dense, const uint32_t *at,
                                     uint32_t *top, uint32_t *below_255)
{
    const int64_t fours = dense ? walk.count / 4 : 0;

#pragma unroll 4
    for (int64_t i = blockIdx.x * (int64_t)SURVEY_THREADS + threadIdx.x;
         i < fours; i += (int64_t)gridDim.x * SURVEY_THREADS) {
        const uint4 v = reinterpret_cast<const uint4 *>(at)[i];
        survey_exponent(v.x, top, below_255);
        survey_exponent(v.y, top, below_255);
        survey_exponent(v.z, top, below_255);
        survey_exponent(v.w, top, below_255);
    }
    for (int64_t i =
             4 * fours + blockIdx.x * (int64_t)SURVEY_THREADS + threadIdx.x;
         i < walk.count; i += (int64_t)gridDim.x * SURVEY_THREADS) {
        int64_t offset;
        walk.offsets(i, &offset);
        survey_exponent(at[offset], top, below_255);
    }
}

/* Between how many and how many bits the exact product has to be cut to give
 * the entry. */
static __device__ __forceinline__ void
survey_cut(uint32_t exact, uint32_t entry, struct table_facts *f)
{
    const uint32_t other = exact ^ entry;
    const uint32_t fraction = entry & PRODUCT_TABLE_FRACTION;

    if (fraction)
        f->cut_least = max(f->cut_least, (uint32_t)(24 - __ffs((int)fraction)));
    /* The highest bit that differs, and all below, are cut off; bit 23, the
     * carry, cannot be. */
    if (other)
        f->cut_below_24 =
            max(f->cut_below_24,
                other >> 23 ? 25u : (uint32_t)(33 - __clz((int)other)));
    else
        f->cut_below_24 = max(f->cut_below_24, 1u);
}

static __device__ void survey_entry(const struct survey_args &a, uint32_t i,
                                    float add, struct table_facts *f)
{
    const uint32_t one = 127u << 23, side = 1u << a.m;
    const uint32_t x = one | (i & (side - 1)) << (23 - a.m);
    const uint32_t w = (i >> a.m) << (23 - a.m);
    const uint32_t entry =
        a.table[(i & (side - 1)) * a.row + (i >> a.m) * a.column];
    const engine_product product = {~0u};
    const engine_sum sum = {};
    const engine_sum_add sum_add = {add};

    f->entry_bits |= entry;
    survey_cut(__float_as_uint(product.value(product.take(x), one | w)) - one,
               entry, f);
    f->wrong_sum |= __float_as_uint(sum.value(sum.take(x), w)) != one + entry;
    f->wrong_sum_add |=
        __float_as_uint(sum_add.value(sum_add.take(x), w)) != one + entry;
}

/* Joins what the lanes found: the largest of each; bits by or. */
static __device__ void survey_join(const struct table_facts &own,
                                   struct table_facts *all)
{
    const uint32_t *from = (const uint32_t *)&own;
    uint32_t *to = (uint32_t *)all;

    for (int i = 0; i < (int)(sizeof own / sizeof *to); i++) {
        const bool bits = to + i == &all->entry_bits;
        uint32_t v = from[i];
        for (int step = 16; step > 0; step /= 2) {
            const uint32_t other = __shfl_xor_sync(~0u, v, step);
            v = bits ? v | other : max(v, other);
        }
        if (threadIdx.x % 32 != 0)
            continue;
        /* Most warps find nothing that is not known: thousands of atomic
         * operations on one address would take longer than the rest. */
        const uint32_t known = __ldcg(to + i);
        if (bits && (v | known) != known)
            atomicOr(to + i, v);
        else if (!bits && v > known)
            atomicMax(to + i, v);
    }
}

static __global__ void __launch_bounds__(SURVEY_THREADS)
    survey_kernel(const __grid_constant__ struct survey_args a)
{
    struct table_facts f = {};
    uint32_t ignored = 0;

    launch_wait();
    if (a.unless && factor_facts_are_plain(*a.unless))
        return;
    const float add = table_constant(a.table[0]);
    survey_tensor(a.x, a.x_dense, a.x_at, &f.x_top, &ignored);
    survey_tensor(a.w, a.w_dense, a.w_at, &f.w_top, &f.w_below_255);
    for (uint32_t i = blockIdx.x * SURVEY_THREADS + threadIdx.x;
         i >> 2 * a.m == 0; i += gridDim.x * SURVEY_THREADS)
        survey_entry(a, i, add, &f);
    survey_join(f, a.facts);
}

static inline void survey_walk(struct cuda_strided<1> *walk,
                               const struct kern_tensor *t)
{
    walk->init(t->rank, t->dim, &t);
}

static inline bool survey_is_dense(const struct cuda_strided<1> &walk,
                                   const void *at)
{
    return walk.rank == 1 && walk.stride[0][0] == 1 && (uintptr_t)at % 16 == 0;
}

/* Leaves the facts of a problem in facts. */
static int survey_launch(const struct kern_problem *p,
                         const struct kern_args *args,
                         struct table_facts *facts,
                         const struct factor_facts *unless,
                         struct infer_error *err)
{
    const struct kern_tensor *t = product_table_of(p);
    struct survey_args a = {};
    int64_t most;

    survey_walk(&a.x, &p->in[0]);
    survey_walk(&a.w, &p->in[1]);
    a.x_at = (const uint32_t *)args->in[0];
    a.w_at = (const uint32_t *)args->in[1];
    a.x_dense = survey_is_dense(a.x, a.x_at);
    a.w_dense = survey_is_dense(a.w, a.w_at);
    a.table = (const uint32_t *)args->in[PRODUCT_TABLE_IN];
    a.row = t->stride[0];
    a.column = t->stride[1];
    a.m = product_table_bits_of(t);
    a.facts = facts;
    a.unless = unless;
    const int rc = unless ? 0 /* the facts are zero */
                          : launch_chained(survey_clear, dim3(1), dim3(32), 0,
                                           args->stream, a, err);
    if (rc < 0)
        return rc;
    most = a.x.count > a.w.count ? a.x.count : a.w.count;
    if (most < product_table_entries(a.m))
        most = product_table_entries(a.m);
    return launch_chained(survey_kernel,
                          dim3(launch_few(most / 4 + 1, SURVEY_THREADS)),
                          dim3(SURVEY_THREADS), 0, args->stream, a, err);
}

#endif
