/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of many groups of few channels through mma.sync (sm_80), from a
 * patch of the image in shared memory: the kernel.
 *
 * Columns.  A warp computes a column of 16 output channels: of one group where
 * a group has 16 and more, the last of its columns filled in part, or of 16 /
 * kg groups.  Their input channels follow one another, `steps` times 16 of
 * them. For each filter position and step a warp multiplies 16 pixels by the
 * 16 x 16 block of weights (two m16n8k16); the block is 0 where input and
 * output are of different groups.  The weights of nine positions of one
 * step stay in the registers of the warp, those of two steps in shared memory,
 * and others in the first-level cache.
 *
 * Blocks.  A block takes a slice of `across` neighbouring columns and walks
 * over tiles of high x wide output pixels of one image, of which each of its
 * `down` rows of warps has 16 MT in each of its passes.  It copies the input
 * under a tile, with the channels of its slice, to shared memory once and reads
 * all filter positions there, while the next tiles are on their way into the
 * other stages. One barrier a tile: after it the stage of the tile before is
 * free.
 *
 * Patch.  A pixel takes `pitch` bytes, an odd number of 16-byte units, columns
 * are sorted by their remainder by the stride, and rows end with as many units
 * as make the first output of a row the neighbour of the last one of the row
 * before: the eight pixels that a phase of ldmatrix reads lie on all banks.
 * Pixels outside the image, and channels past the last, are zeros.
 *
 * Weights.  Constant ones are packed in the order of the operands: [column]
 * [position][step][lane] of 16 bytes.  Others are gathered from where they lie
 * into that order, in shared memory, by each block once. For dgrad the window
 * is flipped, and the roles of K and C are exchanged; with strides, a tile is
 * computed phase by phase (grouped_copy.cuh) from the same patch.
 *
 * Zeros of a block times an infinity of another group are NaN: where a column
 * reads channels of other groups, sums that are NaN are computed again, one
 * product after the other.  fragments.cuh is the end.
 */
#ifndef KERNELS_CUDA_GROUPED_GROUPED_PATCH_CUH
#define KERNELS_CUDA_GROUPED_GROUPED_PATCH_CUH

#include "kernels/cuda/grouped/grouped_copy.cuh"
#include "kernels/cuda/mma/fragments.cuh"

/* ---- weights ------------------------------------------------------- */

/* The element of a weight of grouped_weight_of() where it lies. */
static __device__ __forceinline__ int
grouped_lies_at(const struct grouped_patch_args &a, int k, int c)
{
    const struct conv_geometry &g = a.s.g;
    const int group = k / g.kg;

    return a.lie.first + group * a.lie.group +
           (k - group * g.kg) * a.lie.output +
           (c - group * g.cg) * a.lie.channel;
}

/* Its place among the packed ones. */
static __device__ __forceinline__ int
grouped_packed_at(const struct grouped_patch_args &a, int k, int c, int tap)
{
    const struct conv_geometry &g = a.s.g;
    const int each = grouped_columns_each(g);
    const int column = g.kg < GROUPED_N
                           ? k / GROUPED_N
                           : k / g.kg * each + k % g.kg / GROUPED_N;
    const int n = k - grouped_first(g, column);
    const int at = c - grouped_channel(g, column);
    const int operand = (column * g.r * g.s + tap) * a.s.steps + at / GROUPED_N;

    return (operand * 32 + n % 8 * 4 + at % 8 / 2) * 8 + n / 8 * 4 +
           at % 16 / 8 * 2 + at % 2;
}

/* A warp's operands of nine positions, from packed ones or shared memory. */
static __device__ __forceinline__ void
grouped_load_weights(const uint4 *from, uint32_t (&b)[GROUPED_TAPS][4])
{
#pragma unroll
    for (int i = 0; i < GROUPED_TAPS; i++)
        ptx_load_words(from + i * 32 + threadIdx.x % 32, b[i]);
}

/* Operands of a slice, from weights as they lie, which the kernel before may
 * have written. A thread has pairs of channels of all nine positions. */
template <int STEPS>
static __device__ __forceinline__ void
grouped_gather_weights(const struct grouped_patch_args &a, int slice,
                       int threads, uint32_t *to)
{
    const struct conv_geometry &g = a.s.g;
    const uint16_t *w = (const uint16_t *)a.w;

#pragma unroll 1
    for (int i = threadIdx.x; i < a.s.across * STEPS * 128; i += threads) {
        const int pair = i % 4, lane = i / 4 % 32, step = i / 128 % STEPS;
        const int column = min(slice + i / 128 / STEPS, a.s.columns - 1);
        const int first = grouped_first(g, column);
        const int group = (int)a.by_kg.div((uint32_t)first);
        const int end = grouped_end(g, column) - first;
        uint32_t k, c[2];
        const int n = pair / 2 * 8 + lane / 4;
        const int d = step * GROUPED_N + pair % 2 * 8 + lane % 4 * 2;
        const uint32_t of =
            a.by_kg.divmod((uint32_t)(first - group * g.kg + n), &k);
        const int from = a.lie.first + (group + (int)of) * a.lie.group +
                         (int)k * a.lie.output;
        const bool one = n < end && a.by_cg.divmod((uint32_t)d, &c[0]) == of;
        const bool two =
            n < end && a.by_cg.divmod((uint32_t)d + 1, &c[1]) == of;
        uint32_t word[GROUPED_TAPS];

#pragma unroll
        for (int tap = 0; tap < GROUPED_TAPS; tap++) {
            const int at = from + tap * a.lie.tap;
            word[tap] = one ? w[at + (int)c[0] * a.lie.channel] : 0;
            if (two)
                word[tap] |= (uint32_t)w[at + (int)c[1] * a.lie.channel] << 16;
        }
#pragma unroll
        for (int tap = 0; tap < GROUPED_TAPS; tap++)
            to[((i / 128 / STEPS * GROUPED_TAPS + tap) * STEPS + step) * 128 +
               i % 128] = word[tap];
    }
}

/* Starts the copy of a slice's packed operands. */
static __device__ __forceinline__ void
grouped_copy_weights(const struct grouped_patch_args &a, int slice, int threads,
                     uint32_t to)
{
    const int operands = a.s.g.r * a.s.g.s * a.s.steps;
    const int count = min(a.s.across, a.s.columns - slice) * operands * 32;
    const uint4 *w = (const uint4 *)a.w + slice * operands * 32;

    for (int i = threadIdx.x; i < count; i += threads)
        ptx_cp_async<16>(to + i * 16, w + i, true);
}

/* ---- computing ----------------------------------------------------- */

/* A lane's place in a tile, for all tiles. */
template <typename L> struct grouped_lane {
    uint32_t from[L::PARTS]; /* its rows of ldmatrix, in a patch */
    int at[L::PARTS][2];     /* its outputs: 65536 rows + columns; -1: none */
};

template <typename L>
static __device__ __forceinline__ void
grouped_lane_of(const struct grouped_patch_args &a, int row_of_warps, int c,
                struct grouped_lane<L> &own)
{
    const struct grouped_patch_shape &s = a.s;
    const int lane = threadIdx.x % 32, last = s.high * s.wide - 1;

#pragma unroll
    for (int i = 0; i < L::PARTS; i++) {
        const int m = (row_of_warps * L::PARTS + i) * 16;
        uint32_t q;
        int p = (int)a.by_wide.divmod((uint32_t)min(m + lane % 16, last), &q);

        own.from[i] = p * s.g.stride_h * s.row_bytes + (int)q * s.pitch +
                      c * 2 + lane / 16 * 16;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int o = m + half * 8 + lane / 4;
            p = (int)a.by_wide.divmod((uint32_t)o, &q);
            own.at[i][half] = o > last ? -1 : p << 16 | (int)q;
        }
    }
}

/* The outputs of this lane in a pass of a phase. */
template <typename L, bool PHASES, typename F>
static __device__ __forceinline__ void grouped_find_pixels(
    const struct grouped_patch_args &a, const struct grouped_place &t,
    const struct grouped_lane<L> &own, int pass, int phase, F &f)
{
    const struct conv_geometry &g = a.s.g;
    const int h = PHASES ? a.s.f.h : 1, w = PHASES ? a.s.f.w : 1;
    const int row = PHASES ? phase / w : 0, column = PHASES ? phase % w : 0;

#pragma unroll
    for (int i = 0; i < L::MT; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int at = pass == 0 ? own.at[i][half]
                                     : own.at[L::PARTS - L::MT + i][half];
            const int p = (t.p + (at >> 16)) * h + row;
            const int q = (t.q + (at & 0xffff)) * w + column;
            f.pixel[i][half] =
                at >= 0 && p < g.p && q < g.q ? (t.n * g.p + p) * g.q + q : -1;
        }
}

/* One step of one position for all pixels of the warp. */
template <typename L, typename F>
static __device__ __forceinline__ void
grouped_step(const uint32_t (&from)[L::MT], uint32_t at, const uint32_t (&b)[4],
             F &f)
{
    uint32_t fa[L::MT][4];

#pragma unroll
    for (int i = 0; i < L::MT; i++)
        ptx_ldmatrix_x4(fa[i], from[i] + at);
#pragma unroll
    for (int i = 0; i < L::MT; i++) {
        ptx_mma(typename L::T(), f.sum[i][0], fa[i], b);
        ptx_mma(typename L::T(), f.sum[i][1], fa[i], b + 2);
    }
}

/* With weights from the first-level cache; offsets of positions and steps lie
 * in shared memory. */
template <typename L, typename F>
static __device__ __forceinline__ void
grouped_multiply_any(const struct grouped_patch_args &a, int column,
                     const int *offset, const uint32_t (&from)[L::MT], F &f)
{
    const int count = a.s.g.r * a.s.g.s * a.s.steps;
    const uint4 *w =
        (const uint4 *)a.w + (size_t)column * count * 32 + threadIdx.x % 32;
    uint4 next = __ldg(w);

    for (int i = 0; i < count; i++) {
        const uint32_t b[4] = {next.x, next.y, next.z, next.w};

        if (i + 1 < count)
            next = __ldg(w + (size_t)(i + 1) * 32);
        grouped_step<L>(from, offset[i], b, f);
    }
}

/* Offsets of all positions and steps. */
static __device__ __forceinline__ void
grouped_offsets(const struct grouped_patch_args &a, int *offset, int threads)
{
    const struct conv_geometry &g = a.s.g;

    for (int i = threadIdx.x; i < g.r * g.s * a.s.steps; i += threads) {
        const int tap = i / a.s.steps, column = tap % g.s * g.dilation_w;
        const int place = column % g.stride_w * a.s.part + column / g.stride_w;
        offset[i] = tap / g.s * g.dilation_h * a.s.row_bytes +
                    place * a.s.pitch + i % a.s.steps * 32;
    }
}

/* ---- sums that are NaN --------------------------------------------- */

/* The pixel of x that output (p, q) meets at a position of the window; false
 * if it meets none. */
template <bool PHASES>
static __device__ __forceinline__ bool
grouped_meets(const struct grouped_patch_args &a, int p, int q, int tap, int *h,
              int *x)
{
    const struct conv_geometry &g = a.s.g;
    const struct grouped_phases &f = a.s.f;

    if (PHASES && !(f.taps[p % f.h * f.w + q % f.w] >> tap & 1))
        return false;
    *h = PHASES ? p / f.h - g.pad_top + f.at[tap].row
                : p * g.stride_h - g.pad_top + tap / g.s * g.dilation_h;
    *x = PHASES ? q / f.w - g.pad_left + f.at[tap].column
                : q * g.stride_w - g.pad_left + tap % g.s * g.dilation_w;
    return (unsigned)*h < (unsigned)g.h && (unsigned)*x < (unsigned)g.w;
}

/* The sum of output k of a pixel, product after product. */
template <typename T, bool PHASES>
static __device__ __forceinline__ float
grouped_exact(const struct grouped_patch_args &a, int pixel, int k)
{
    const struct conv_geometry &g = a.s.g;
    const T *w = (const T *)a.w;
    const int first = k / g.kg * g.cg;
    const int q = pixel % g.q, row = pixel / g.q;
    const T *image =
        (const T *)a.x + (size_t)(row / g.p) * g.h * g.w * g.x_pitch;
    float sum = 0;

    for (int tap = 0; tap < g.r * g.s; tap++) {
        int h, x;
        if (!grouped_meets<PHASES>(a, row % g.p, q, tap, &h, &x))
            continue;
        for (int c = first; c < first + g.cg; c++)
            sum +=
                to_float(image[(size_t)(h * g.w + x) * g.x_pitch + c]) *
                to_float(
                    w[a.s.packed ? grouped_packed_at(a, k, c, tap)
                                 : grouped_lies_at(a, k, c) + tap * a.lie.tap]);
    }
    return sum;
}

/* Sum n of a lane, in the order of pixels, and its pixel. */
template <typename F>
static __device__ __forceinline__ float &grouped_sum(F &f, int n)
{
    return f.sum[n / 8][n / 2 % 2][n / 4 % 2 * 2 + n % 2];
}

/* Computes sums that are NaN again.  Registers have no index: the loop looks at
 * the first, and moves all of them up by one. */
template <typename T, bool PHASES, typename F>
static __device__ __forceinline__ void
grouped_repair(const struct grouped_patch_args &a, int first, int end, F &f)
{
    constexpr int N = F::MT * 8;
    float all = 0;

#pragma unroll
    for (int n = 0; n < N; n++)
        all += grouped_sum(f, n);
    if (!isnan(all))
        return;
#pragma unroll 1
    for (int n = 0; n < N; n++) {
        const int k = first + n / 2 % 2 * 8 + threadIdx.x % 4 * 2 + n % 2;
        const int pixel = f.pixel[0][0];
        float sum = grouped_sum(f, 0);

        if (isnan(sum) && pixel >= 0 && k < end)
            sum = grouped_exact<T, PHASES>(a, pixel, k);
#pragma unroll
        for (int i = 0; i + 1 < N; i++)
            grouped_sum(f, i) = grouped_sum(f, i + 1);
        grouped_sum(f, N - 1) = sum;
        if (n % 4 < 3)
            continue;
#pragma unroll
        for (int i = 0; i + 1 < F::MT * 2; i++)
            f.pixel[i / 2][i % 2] = f.pixel[(i + 1) / 2][(i + 1) % 2];
        f.pixel[F::MT - 1][1] = pixel;
    }
}

/* ---- the kernel ---------------------------------------------------- */

/* Starts the copy of the tile `ahead` turns after this one, if there is one. */
static __device__ __forceinline__ void
grouped_copy_ahead(const struct grouped_patch_args &a,
                   const struct grouped_copier &own, int tile, int ahead,
                   uint32_t patches, int stage)
{
    const int next = tile + ahead * (int)gridDim.y;

    if (next < a.tiles)
        grouped_copy(a, own, next, patches + stage * a.s.patch_bytes);
    ptx_cp_async_commit();
}

/* STEPS: 1 or 2 of windows of nine positions, or 0 for any.  PHASES: there is
 * more than one. */
template <typename L, int STEPS, bool PHASES>
static __global__ void __launch_bounds__(L::THREADS,
                                         GROUPED_RESIDENT / L::WARPS)
    grouped_patch_kernel(const __grid_constant__ struct grouped_patch_args a)
{
    LAUNCH_SHARED(shared);
    const struct grouped_patch_shape &s = a.s;
    const int threads = s.across * s.down * 32, warp = threadIdx.x / 32;
    const int slice = blockIdx.x * s.across;
    const int place = slice + warp % s.across;
    const int column = min(place, s.columns - 1);
    const int first = grouped_channel(s.g, slice);
    const int k = grouped_first(s.g, column);
    const uint32_t patches = ptx_shared(shared);
    unsigned char *behind = shared + s.stages * s.patch_bytes;
    const uint4 *ours = (const uint4 *)(STEPS == 2 ? behind : shared) +
                        warp % s.across * GROUPED_TAPS * STEPS * 32;
    uint32_t b[GROUPED_TAPS][4];
    struct output_args out = a.out;
    struct grouped_lane<L> lane;
    struct fragments<L::MT, 2> f;
    float bias[2][2];

    out.k = place < s.columns ? grouped_end(s.g, column) : 0;
    if (STEPS == 0)
        grouped_offsets(a, (int *)behind, threads);
    else if (STEPS == 1 && s.packed)
        grouped_load_weights(
            (const uint4 *)a.w + column * (int)GROUPED_TAPS * 32, b);
    else if (STEPS == 2 && s.packed)
        grouped_copy_weights(a, slice, threads, ptx_shared(behind));
    grouped_lane_of<L>(a, warp / s.across, grouped_channel(s.g, column) - first,
                       lane);
    const struct grouped_copier own = grouped_copier_of(a, first, threads);

    launch_wait();
    if (STEPS == 1 && !s.packed) {
        grouped_gather_weights<1>(a, slice, threads, (uint32_t *)shared);
        __syncthreads();
        grouped_load_weights(ours, b);
        __syncthreads();
    }
    for (int i = 0; i + 1 < s.stages; i++)
        grouped_copy_ahead(a, own, blockIdx.y, i, patches, i);
    if (STEPS == 2 && !s.packed)
        grouped_gather_weights<2>(a, slice, threads, (uint32_t *)behind);
    fragment_load_bias<2>(out, k, bias);
    for (int tile = blockIdx.y, now = 0; tile < a.tiles; tile += gridDim.y) {
        const struct grouped_place t = grouped_place_at(a, tile);
        const uint32_t patch = patches + now * s.patch_bytes;

        if (s.stages == 3)
            ptx_cp_async_wait<1>();
        else
            ptx_cp_async_wait<0>();
        __syncthreads();
        grouped_copy_ahead(a, own, tile, s.stages - 1, patches,
                           now == 0 ? s.stages - 1 : now - 1);
#pragma unroll 1
        for (int turn = 0; turn < L::PASSES * (PHASES ? s.f.n : 1); turn++) {
            const int pass = turn % L::PASSES, phase = turn / L::PASSES;
            const unsigned taps = PHASES ? s.f.taps[phase] : 0;
            uint32_t from[L::MT];

#pragma unroll
            for (int i = 0; i < L::MT; i++) {
                from[i] = patch + (pass == 0 ? lane.from[i]
                                             : lane.from[L::PARTS - L::MT + i]);
#pragma unroll
                for (int e = 0; e < 8; e++)
                    f.sum[i][e / 4][e % 4] = 0;
            }
            if constexpr (STEPS == 1) {
#pragma unroll
                for (int i = 0; i < GROUPED_TAPS; i++)
                    if (!PHASES || taps >> i & 1)
                        grouped_step<L>(from, a.offset[i], b[i], f);
            } else if constexpr (STEPS == 2) {
#pragma unroll
                for (int i = 0; i < GROUPED_TAPS * 2; i++) {
                    if (PHASES && !(taps >> i / 2 & 1))
                        continue;
                    ptx_load_words(ours + i * 32 + threadIdx.x % 32, b[i % 2]);
                    grouped_step<L>(from, a.offset[i / 2] + i % 2 * 32,
                                    b[i % 2], f);
                }
            } else {
                grouped_multiply_any<L>(a, column, (const int *)behind, from,
                                        f);
            }
            grouped_find_pixels<L, PHASES>(a, t, lane, pass, phase, f);
            if (s.mixed)
                grouped_repair<typename L::T, PHASES>(a, k, out.k, f);
            fragment_finish<typename L::T>(out, k, 8, bias, f);
        }
        now = now + 1 == s.stages ? 0 : now + 1;
    }
}

#endif
