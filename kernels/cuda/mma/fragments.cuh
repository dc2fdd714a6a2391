/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a convolution, from the sums of mma.sync where they stand, in
 * registers, to stored outputs; shared memory is not used.
 *
 * A warp has MT x NT tiles of m16n8: 16 pixels by 8 channels.  Of a tile, lane
 * l = 4g + t has channels 2t and 2t + 1 of pixels g and g + 8 (ptx_mma).  Bias,
 * residual and activation are applied there, the activation to all sums at
 * once, so that it is chosen once.  Then the four lanes of a quad exchange
 * pairs: before, each has a pair of each of four vectors of 8 channels, and
 * afterwards all pairs of one.  The four are of one pixel and four tiles, where
 * NT is a multiple of 4, and else of two pixels and two tiles; a warp stores
 * 512 bytes at once, of neighbouring pixels.
 *
 * Residuals are loaded as outputs are stored, by the same lane, and exchanged
 * the other way.
 */
#ifndef KERNELS_CUDA_MMA_FRAGMENTS_CUH
#define KERNELS_CUDA_MMA_FRAGMENTS_CUH

#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/ptx.cuh"

/* Word j of lane t becomes word t of lane j, among the four lanes of a quad. */
static __device__ __forceinline__ void quad_transpose(uint32_t (&v)[4])
{
    const bool upper = threadIdx.x & 2, odd = threadIdx.x & 1;
    uint32_t a, b;

    a = __shfl_xor_sync(0xffffffffu, upper ? v[0] : v[2], 2);
    b = __shfl_xor_sync(0xffffffffu, upper ? v[1] : v[3], 2);
    v[0] = upper ? a : v[0];
    v[1] = upper ? b : v[1];
    v[2] = upper ? v[2] : a;
    v[3] = upper ? v[3] : b;
    a = __shfl_xor_sync(0xffffffffu, odd ? v[0] : v[1], 1);
    b = __shfl_xor_sync(0xffffffffu, odd ? v[2] : v[3], 1);
    v[0] = odd ? a : v[0];
    v[1] = odd ? v[1] : a;
    v[2] = odd ? b : v[2];
    v[3] = odd ? v[3] : b;
}

/* ---- vectors of 16 bytes that may be cut --------------------------- */

/* Channels that one access takes where pitches, or the number of channels, are
 * multiples of it alone: 8, 4, 2 or 1. */
static inline int fragment_width(int channels, int pitch)
{
    const int both = channels | pitch;

    return both % 8 == 0 ? 8 : both % 4 == 0 ? 4 : both % 2 == 0 ? 2 : 1;
}

/* The first `channels` of 8, of 16 bits, in accesses of `width`; zeros else. */
static __device__ __forceinline__ void
fragment_load(const uint16_t *from, int channels, int width, uint32_t (&to)[4])
{
    to[0] = to[1] = to[2] = to[3] = 0;
    if (width == 8) {
        if (channels > 0)
            ptx_load_words(from, to);
    } else if (width == 4) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (i * 4 < channels) {
                const uint2 two = *(const uint2 *)(from + i * 4);
                to[i * 2] = two.x;
                to[i * 2 + 1] = two.y;
            }
    } else if (width == 2) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i * 2 < channels)
                to[i] = *(const uint32_t *)(from + i * 2);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < channels)
                to[i / 2] |= (uint32_t)from[i] << i % 2 * 16;
    }
}

static __device__ __forceinline__ void
fragment_store(uint16_t *to, int channels, int width, const uint32_t (&from)[4])
{
    if (width == 8) {
        if (channels > 0)
            *(uint4 *)to = make_uint4(from[0], from[1], from[2], from[3]);
    } else if (width == 4) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (i * 4 < channels)
                *(uint2 *)(to + i * 4) =
                    make_uint2(from[i * 2], from[i * 2 + 1]);
    } else if (width == 2) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i * 2 < channels)
                *(uint32_t *)(to + i * 2) = from[i];
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < channels)
                to[i] = (uint16_t)(from[i / 2] >> i % 2 * 16);
    }
}

/* ---- the end ------------------------------------------------------- */

/* The sums of a warp, and the pixels of this lane's rows g and g + 8 of each
 * tile, -1 for none. */
template <int MT_, int NT_> struct fragments {
    enum {
        MT = MT_,
        NT = NT_,
        GROUPS = NT / 2, /* exchanges of four vectors, for each m16 tile */
        WIDE = NT % 4 == 0 ? 4 : 2 /* tiles of such a group */
    };
    static_assert(NT % 2 == 0, "");
    float sum[MT][NT][4];
    int pixel[MT][2];
};

/* The n8 tile and the half (0: row g, 1: row g + 8) of vector j of a group. */
template <typename F>
static __device__ __forceinline__ int fragment_tile(int group, int j)
{
    return F::WIDE == 4 ? group / 2 * 4 + j : group * 2 + j % 2;
}

template <typename F>
static __device__ __forceinline__ int fragment_half(int group, int j)
{
    return F::WIDE == 4 ? group % 2 : j / 2;
}

/* The vector of this lane: its pixel and first channel. */
template <typename F>
static __device__ __forceinline__ int fragment_pixel(const F &f, int i,
                                                     int group)
{
    return F::WIDE == 4      ? f.pixel[i][group % 2]
           : threadIdx.x & 2 ? f.pixel[i][1]
                             : f.pixel[i][0];
}

/* Biases of this lane's channels of a warp whose first is k. */
template <int NT>
static __device__ __forceinline__ void
fragment_load_bias(const struct output_args &o, int k, float (&bias)[NT][2])
{
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int at = k + j * 8 + (int)threadIdx.x % 4 * 2 + e;
            bias[j][e] = o.bias && at < o.k ? o.bias[at] : 0;
        }
}

/* Adds the residuals to all sums. */
template <typename T, typename F>
static __device__ __forceinline__ void
fragment_add_residual(const struct output_args &o, int k, int width, F &f)
{
    uint32_t word[F::MT][F::GROUPS][4];

#pragma unroll
    for (int i = 0; i < F::MT; i++)
#pragma unroll
        for (int g = 0; g < F::GROUPS; g++) {
            const int at = k + fragment_tile<F>(g, threadIdx.x % 4) * 8;
            const int m = fragment_pixel(f, i, g);
            fragment_load((const uint16_t *)o.residual +
                              (size_t)(m < 0 ? 0 : m) * o.r_pitch + at,
                          m < 0 ? 0 : o.k - at, width, word[i][g]);
        }
#pragma unroll
    for (int i = 0; i < F::MT; i++)
#pragma unroll
        for (int g = 0; g < F::GROUPS; g++) {
            quad_transpose(word[i][g]);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const vec<T, 2> two = *(const vec<T, 2> *)&word[i][g][j];
                float *sum = &f.sum[i][fragment_tile<F>(g, j)]
                                   [fragment_half<F>(g, j) * 2];
                sum[0] += to_float(two.at[0]);
                sum[1] += to_float(two.at[1]);
            }
        }
}

/* Finishes and stores a warp's outputs, of which the first channel is k.  All
 * lanes call it.  The activation is one that unary_is_inline(); width is the
 * fragment_width() of the channels and both pitches. */
template <typename T, typename F>
static __device__ __forceinline__ void
fragment_finish(const struct output_args &o, int k, int width,
                const float (&bias)[F::NT][2], F &f)
{
    const bool last = o.epilogue.residual_last;

#pragma unroll
    for (int i = 0; i < F::MT; i++)
#pragma unroll
        for (int j = 0; j < F::NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                f.sum[i][j][e] += bias[j][e % 2];
    if (o.residual && !last)
        fragment_add_residual<T>(o, k, width, f);
    unary_inline<F::MT * F::NT * 4>(o.epilogue.act, &f.sum[0][0][0]);
    if (o.residual && last)
        fragment_add_residual<T>(o, k, width, f);
#pragma unroll
    for (int i = 0; i < F::MT; i++)
#pragma unroll
        for (int g = 0; g < F::GROUPS; g++) {
            const int at = k + fragment_tile<F>(g, threadIdx.x % 4) * 8;
            const int m = fragment_pixel(f, i, g);
            uint32_t word[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float *sum = &f.sum[i][fragment_tile<F>(g, j)]
                                         [fragment_half<F>(g, j) * 2];
                vec<T, 2> two;
                two.at[0] = from_float<T>(sum[0]);
                two.at[1] = from_float<T>(sum[1]);
                word[j] = *(const uint32_t *)&two;
            }
            quad_transpose(word);
            if (m >= 0)
                fragment_store((uint16_t *)o.y + (size_t)m * o.y_pitch + at,
                               o.k - at, width, word);
        }
}

#endif
