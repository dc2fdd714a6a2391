/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands times their factors (product_factors.h), as BF16: element c of a row
 * of channels becomes r of them, u[i] with the operand's sign and exponent.
 *
 * Joined: they lie next to each other, c r + i, for sums over channels; rows
 * are padded with zeros to `width`, a multiple of 8.  In planes: plane i has
 * the i-th of all elements, for sums over pixels.
 *
 * A thread writes 16 bytes at a time; blockIdx.y says which operand.  Where
 * these are of several elements, which do not begin at multiples of 16 bytes,
 * 256 elements are put together in shared memory first, where the factors are
 * too (12 KiB).  Exponents are joined within a warp, then by integer atomics.
 */
#ifndef KERNELS_CUDA_TABLE_EXPAND_CUH
#define KERNELS_CUDA_TABLE_EXPAND_CUH

#include <cuda_bf16.h>

#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/table/conditional.h"
#include "kernels/table/product_factors.h"

#define EXPAND_THREADS 256

struct expand_operand {
    const uint32_t *from;
    int64_t stride[4]; /* of three outer dimensions and of channels */
    struct fast_div by_vectors,
        by_dim[2];            /* 8 elements of a row; dim[2], [1] */
    struct fast_div by_group; /* rows of a group in dim[2] */
    int64_t group_stride;     /* from group to group */
    struct fast_div by_channels;
    int channels;
    bool tiles;              /* elements are put together in shared memory */
    bool wide;               /* 4 channels can be read at a time */
    int64_t count;           /* vectors */
    const uint16_t *factors; /* [2^m][r] */
    bool eighths;            /* 8 factors can be read at a time */
    uint16_t *to;
    int64_t plane; /* elements of a plane */
};

struct expand_args {
    struct expand_operand operand[2];
    int m, r;
    struct fast_div by_r;
    struct factor_facts *facts;
    uint32_t *table_facts; /* those of conditional.h's launch, to be zero */
};

/* Exponents that a thread has met. */
struct expand_range {
    uint32_t top, below_255;

    __device__ __forceinline__ void meet(uint32_t bits)
    {
        const uint32_t e = (bits & PRODUCT_TABLE_EXPONENT) >> 23;

        top = max(top, e);
        below_255 = max(below_255, e == 0 ? 0 : 255 - e);
    }
    __device__ __forceinline__ void join(struct factor_range *all)
    {
        for (int step = 16; step > 0; step /= 2) {
            top = max(top, __shfl_xor_sync(~0u, top, step));
            below_255 = max(below_255, __shfl_xor_sync(~0u, below_255, step));
        }
        /* Most warps find nothing that is not known: thousands of atomic
         * operations on one address would take longer than the rest. */
        if (threadIdx.x % 32 != 0)
            return;
        if (top > __ldcg(&all->top))
            atomicMax(&all->top, top);
        if (below_255 > __ldcg(&all->below_255))
            atomicMax(&all->below_255, below_255);
    }
};

/* Begins the facts, with those of the factors.  One block. */
static __global__ void __launch_bounds__(EXPAND_THREADS)
    expand_begin(const __grid_constant__ struct expand_args a)
{
    launch_wait();
    if (threadIdx.x < sizeof *a.facts / sizeof(uint32_t))
        ((uint32_t *)a.facts)[threadIdx.x] = 0;
    if (threadIdx.x < CONV_TABLE_FACTS / sizeof(uint32_t))
        a.table_facts[threadIdx.x] = 0;
    __syncthreads();
    for (int o = 0; o < 2; o++) {
        struct expand_range range = {127, 255 - 127};
        for (int i = threadIdx.x; i < a.r << a.m; i += EXPAND_THREADS)
            range.meet((uint32_t)a.operand[o].factors[i] << 16);
        range.join(&a.facts->factor[o]);
    }
}

/* ---- elements ------------------------------------------------------ */

/* Two BF16: f times the power of two, with its sign, of x. */
static __device__ __forceinline__ uint32_t expand_pair(uint32_t f, uint32_t x0,
                                                       uint32_t x1)
{
#if __CUDA_ARCH__ >= 800
    /* Sign and exponent of a BF16; subnormal operands are zero. */
    const uint32_t p = __byte_perm(x0, x1, 0x7632) & 0xff80ff80u;
    const __nv_bfloat162 v =
        __hmul2(*(const __nv_bfloat162 *)&f, *(const __nv_bfloat162 *)&p);

    return *(const uint32_t *)&v;
#else /* the rows are for 9.0 */
    return f & x0 & x1;
#endif
}

/* Where row i begins. */
static __device__ __forceinline__ const uint32_t *
expand_row_at(const struct expand_operand &o, uint32_t i)
{
    uint32_t at[3];

    i = o.by_dim[0].divmod(i, &at[2]);
    at[0] = o.by_dim[1].divmod(i, &at[1]);
    const uint32_t group = o.by_group.divmod(at[2], &at[2]);
    return o.from + at[0] * o.stride[0] + at[1] * o.stride[1] +
           at[2] * o.stride[2] + group * o.group_stride;
}

/* Where the row of vector i begins, and the vector's number in it. */
static __device__ __forceinline__ const uint32_t *
expand_row(const struct expand_operand &o, uint32_t i, uint32_t *vector)
{
    return expand_row_at(o, o.by_vectors.divmod(i, vector));
}

/* 8 channels from c on; zeros after the last. */
static __device__ __forceinline__ void
expand_load(const struct expand_operand &o, const uint32_t *row, int c,
            uint32_t (&x)[8], struct expand_range *range)
{
    if (o.wide && c + 8 <= o.channels) {
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
            const uint4 v = *reinterpret_cast<const uint4 *>(row + c + i);
            x[i] = v.x;
            x[i + 1] = v.y;
            x[i + 2] = v.z;
            x[i + 3] = v.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = c + i < o.channels ? row[(c + i) * o.stride[3]] : 0;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        range->meet(x[i]);
}

/* ---- joined -------------------------------------------------------- */

/* r is a multiple of 8: the vector is of one element. */
static __device__ __forceinline__ uint4
expand_eighth(const struct expand_args &a, const struct expand_operand &o,
              const uint32_t *row, uint32_t vector, struct expand_range *range)
{
    uint32_t first;
    const uint32_t c = a.by_r.divmod(vector * 8, &first);

    if (c >= (uint32_t)o.channels)
        return make_uint4(0, 0, 0, 0);
    const uint32_t x = row[c * o.stride[3]];
    const uint4 f = *reinterpret_cast<const uint4 *>(
        o.factors + product_table_index(a.m, x) * a.r + first);
    range->meet(x);
    return make_uint4(expand_pair(f.x, x, x), expand_pair(f.y, x, x),
                      expand_pair(f.z, x, x), expand_pair(f.w, x, x));
}

/* One factor an element. */
static __device__ __forceinline__ uint4
expand_single(const struct expand_args &a, const struct expand_operand &o,
              const uint32_t *row, uint32_t vector, struct expand_range *range)
{
    uint32_t x[8], v[4];

    expand_load(o, row, (int)vector * 8, x, range);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t low = o.factors[product_table_index(a.m, x[i * 2])];
        const uint32_t high = o.factors[product_table_index(a.m, x[i * 2 + 1])];
        v[i] = expand_pair(low | high << 16, x[i * 2], x[i * 2 + 1]);
    }
    return make_uint4(v[0], v[1], v[2], v[3]);
}

/* Any number of factors. */
static __device__ __forceinline__ uint4
expand_some(const struct expand_args &a, const struct expand_operand &o,
            const uint32_t *row, uint32_t vector, struct expand_range *range)
{
    uint32_t factor, v[4] = {};
    int c = (int)a.by_r.divmod(vector * 8, &factor);
    uint32_t x = c < o.channels ? row[c * o.stride[3]] : 0;

#pragma unroll
    for (int i = 0; i < 8; i++) {
        range->meet(x);
        const uint32_t f =
            o.factors[product_table_index(a.m, x) * a.r + factor];
        v[i / 2] |= (expand_pair(f, x, x) & 0xffff) << i % 2 * 16;
        if (++factor == (uint32_t)a.r && i < 7) {
            factor = 0;
            c++;
            x = c < o.channels ? row[c * o.stride[3]] : 0;
        }
    }
    return make_uint4(v[0], v[1], v[2], v[3]);
}

#define EXPAND_TILE_BITS 7 /* mantissa bits, at most */

struct expand_tile {
    /* Rows of 8 or 16 factors. */
    alignas(16) uint16_t factors[PRODUCT_FACTORS_MOST << EXPAND_TILE_BITS];
    alignas(16) uint16_t out[EXPAND_THREADS * PRODUCT_FACTORS_MOST];
};

/* Writes the factors of an element one after the other. */
static __device__ __forceinline__ void
expand_element(const uint4 *factors, int r, uint32_t x, uint16_t *to)
{
#pragma unroll
    for (int h = 0; h < PRODUCT_FACTORS_MOST / 8; h++) {
        if (h * 8 >= r)
            break;
        const uint4 f = factors[h];
        const uint32_t v[4] = {expand_pair(f.x, x, x), expand_pair(f.y, x, x),
                               expand_pair(f.z, x, x), expand_pair(f.w, x, x)};
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (h * 8 + i < r)
                to[h * 8 + i] = (uint16_t)(v[i / 2] >> i % 2 * 16);
    }
}

/* Any number of factors, rows without padding: an element a thread. */
static __device__ __forceinline__ void
expand_tiles(const struct expand_args &a, const struct expand_operand &o,
             struct expand_tile *s, struct expand_range *range)
{
    const uint32_t elements = (uint32_t)(o.count * 8 / a.r);
    const int pitch = a.r <= 8 ? 8 : 16;

    for (int i = threadIdx.x; i < pitch << a.m; i += EXPAND_THREADS)
        s->factors[i] =
            i % pitch < a.r ? o.factors[i / pitch * a.r + i % pitch] : 0;
    __syncthreads();
    for (uint32_t first = blockIdx.x * EXPAND_THREADS; first < elements;
         first += gridDim.x * EXPAND_THREADS) {
        const uint32_t left = min(elements - first, (uint32_t)EXPAND_THREADS);
        uint32_t c, x = 0;
        if (threadIdx.x < left) {
            const uint32_t row = o.by_channels.divmod(first + threadIdx.x, &c);
            x = expand_row_at(o, row)[c * o.stride[3]];
        }
        range->meet(x);
        expand_element(
            (const uint4 *)(s->factors + product_table_index(a.m, x) * pitch),
            a.r, x, s->out + threadIdx.x * a.r);
        __syncthreads();
        uint4 *to = reinterpret_cast<uint4 *>(o.to) + (int64_t)first * a.r / 8;
        for (uint32_t i = threadIdx.x; i < left * a.r / 8; i += EXPAND_THREADS)
            to[i] = reinterpret_cast<const uint4 *>(s->out)[i];
        __syncthreads();
    }
}

template <bool TILES>
static __global__ void __launch_bounds__(EXPAND_THREADS)
    expand_joined(const __grid_constant__ struct expand_args a)
{
    __shared__ struct expand_tile tile; /* not there without TILES */
    const struct expand_operand &o = a.operand[blockIdx.y];
    struct expand_range range = {};

    launch_wait();
    if (TILES && o.tiles)
        expand_tiles(a, o, &tile, &range);
    for (int64_t i = blockIdx.x * (int64_t)EXPAND_THREADS + threadIdx.x;
         i < o.count && !(TILES && o.tiles);
         i += (int64_t)gridDim.x * EXPAND_THREADS) {
        uint32_t vector;
        const uint32_t *row = expand_row(o, (uint32_t)i, &vector);
        reinterpret_cast<uint4 *>(o.to)[i] =
            a.r == 1    ? expand_single(a, o, row, vector, &range)
            : o.eighths ? expand_eighth(a, o, row, vector, &range)
                        : expand_some(a, o, row, vector, &range);
    }
    range.join(&a.facts->operand[blockIdx.y]);
}

/* ---- planes -------------------------------------------------------- */

/* The halves number i of two vectors of 8. */
static __device__ __forceinline__ uint32_t expand_halves(const uint4 &low,
                                                         const uint4 &high,
                                                         int i)
{
    const uint32_t a[4] = {low.x, low.y, low.z, low.w};
    const uint32_t b[4] = {high.x, high.y, high.z, high.w};

    return __byte_perm(a[i / 2], b[i / 2], i % 2 ? 0x7632 : 0x5410);
}

/* Planes first .. first + 7 of 8 elements. */
static __device__ __forceinline__ void
expand_8_planes(const struct expand_args &a, const struct expand_operand &o,
                const uint32_t (&x)[8], int first, uint16_t *to)
{
    uint4 f[8];

#pragma unroll
    for (int e = 0; e < 8; e++)
        f[e] = *reinterpret_cast<const uint4 *>(
            o.factors + product_table_index(a.m, x[e]) * a.r + first);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t v[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            v[e] = expand_pair(expand_halves(f[e * 2], f[e * 2 + 1], i),
                               x[e * 2], x[e * 2 + 1]);
        *reinterpret_cast<uint4 *>(to + (first + i) * o.plane) =
            make_uint4(v[0], v[1], v[2], v[3]);
    }
}

static __device__ __forceinline__ void
expand_plane(const struct expand_args &a, const struct expand_operand &o,
             const uint32_t (&x)[8], int i, uint16_t *to)
{
    uint32_t v[4];

#pragma unroll
    for (int e = 0; e < 4; e++) {
        const uint32_t low =
            o.factors[product_table_index(a.m, x[e * 2]) * a.r + i];
        const uint32_t high =
            o.factors[product_table_index(a.m, x[e * 2 + 1]) * a.r + i];
        v[e] = expand_pair(low | high << 16, x[e * 2], x[e * 2 + 1]);
    }
    *reinterpret_cast<uint4 *>(to + i * o.plane) =
        make_uint4(v[0], v[1], v[2], v[3]);
}

/* Channels are a multiple of 8. */
static __global__ void __launch_bounds__(EXPAND_THREADS)
    expand_planes(const __grid_constant__ struct expand_args a)
{
    const struct expand_operand &o = a.operand[blockIdx.y];
    struct expand_range range = {};

    launch_wait();
    for (int64_t i = blockIdx.x * (int64_t)EXPAND_THREADS + threadIdx.x;
         i < o.count; i += (int64_t)gridDim.x * EXPAND_THREADS) {
        uint32_t vector, x[8];
        const uint32_t *row = expand_row(o, (uint32_t)i, &vector);
        expand_load(o, row, (int)vector * 8, x, &range);
        if (o.eighths)
            for (int p = 0; p < a.r; p += 8)
                expand_8_planes(a, o, x, p, o.to + i * 8);
        else
            for (int p = 0; p < a.r; p++)
                expand_plane(a, o, x, p, o.to + i * 8);
    }
    range.join(&a.facts->operand[blockIdx.y]);
}

/* ---- on the host --------------------------------------------------- */

/* A tensor by three outer dimensions and one of channels, innermost in what is
 * written. */
struct expand_shape {
    int64_t dim[3], channels, width; /* width: elements of a row written */
    int64_t stride[4];
    /* dim[2] may be that of several groups: rows of one, and the stride from
     * group to group; 0: it is not. */
    int64_t group_rows, group_stride;
};

static inline int64_t expand_elements(const struct expand_shape *s)
{
    return s->dim[0] * s->dim[1] * s->dim[2] * s->width;
}

static inline void expand_fill(struct expand_operand *o,
                               const struct expand_shape *s, int m, int r,
                               const void *from, const void *factors, void *to)
{
    o->from = (const uint32_t *)from;
    o->wide = s->stride[3] == 1 && (uintptr_t)from % 16 == 0;
    for (int i = 0; i < 4; i++) {
        o->stride[i] = s->stride[i];
        o->wide = o->wide && (i == 3 || s->stride[i] % 4 == 0);
    }
    o->by_vectors.init((uint32_t)(s->width / 8));
    o->by_dim[0].init((uint32_t)s->dim[2]);
    o->by_dim[1].init((uint32_t)s->dim[1]);
    o->by_group.init((uint32_t)(s->group_rows ? s->group_rows : s->dim[2]));
    o->group_stride = s->group_stride;
    o->wide = o->wide && s->group_stride % 4 == 0;
    o->channels = (int)s->channels;
    o->by_channels.init((uint32_t)s->channels);
    /* With 4 factors it takes 3 % longer (a step of ResNet-18 on an H100). */
    o->tiles = r > 4 && r % 8 != 0 && m <= EXPAND_TILE_BITS &&
               s->width == s->channels * r;
    o->count = expand_elements(s) / 8;
    o->factors = (const uint16_t *)factors;
    o->eighths = r % 8 == 0 && (uintptr_t)factors % 16 == 0;
    o->to = (uint16_t *)to;
    o->plane = expand_elements(s);
}

/* Factors of both operands: [2][2^m][r] from the problem's on. */
static inline const uint16_t *expand_factors(const struct kern_problem *p,
                                             const struct kern_args *args,
                                             int operand)
{
    const struct kern_tensor *t = product_factors_of(p);

    return (const uint16_t *)args->in[product_factors_in(p->op)] +
           operand * t->dim[1] * t->dim[2];
}

/* Expands both operands: shape[0], at[0] of in[0], shape[1], at[1] of in[1];
 * table_facts: the workspace of conv_table_launch_unless_plain(). */
static int expand_launch(const struct kern_problem *p,
                         const struct kern_args *args,
                         const struct expand_shape *shape, void *const *at,
                         bool planes, struct factor_facts *facts,
                         void *table_facts, struct infer_error *err)
{
    struct expand_args a = {};

    a.m = product_table_bits_of(product_table_of(p));
    a.r = (int)product_factors_of(p)->dim[2];
    a.by_r.init((uint32_t)a.r);
    a.facts = facts;
    a.table_facts = (uint32_t *)table_facts;
    for (int i = 0; i < 2; i++)
        expand_fill(&a.operand[i], &shape[i], a.m, a.r, args->in[i],
                    expand_factors(p, args, i), at[i]);
    const int rc = launch_chained(expand_begin, dim3(1), dim3(EXPAND_THREADS),
                                  0, args->stream, a, err);
    if (rc < 0)
        return rc;
    const int64_t most = a.operand[0].count > a.operand[1].count
                             ? a.operand[0].count
                             : a.operand[1].count;
    const bool tiles = a.operand[0].tiles || a.operand[1].tiles;
    return launch_chained(planes  ? expand_planes
                          : tiles ? expand_joined<true>
                                  : expand_joined<false>,
                          dim3(launch_few(most, EXPAND_THREADS), 2),
                          dim3(EXPAND_THREADS), 0, args->stream, a, err);
}

#endif
