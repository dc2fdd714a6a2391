/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 8 bits in Hopper's convolution kernels, integers and F8E4M3: sums of 32 bits,
 * and their way to outputs (quant/end.cuh).
 *
 * wgmma gives lane 4g + t of a warp the columns 2t and 2t + 1 of each 8.  The
 * rows of the packed weights are permuted in 16s, so that columns 8j + 2t .. +
 * 1 and 8(j + 1) + 2t .. + 1 of an even j are the output channels 8j + 4t .. +
 * 3: a lane stores four channels of a pixel as one word.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_8BIT_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_8BIT_CUH

#include "kernels/cuda/wgmma/wgmma.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"

/* The output channel, of 16, that is packed as row `row`. */
static inline int wgmma_8bit_channel(int row)
{
    return row / 2 % 4 * 4 + row / 8 * 2 + row % 2;
}

/* Puts rows of packed weights, `pitch` bytes each, in this order; their number
 * is a multiple of 16. */
static inline void wgmma_8bit_permute(int rows, size_t pitch, uint8_t *w)
{
    uint8_t place[16]; /* where the channel that belongs at a row lies */

    for (int first = 0; first < rows; first += 16) {
        for (int i = 0; i < 16; i++)
            place[i] = (uint8_t)i;
        for (int i = 0; i < 16; i++) {
            int at = i;
            while (place[at] != wgmma_8bit_channel(i))
                at++;
            if (at == i)
                continue;
            uint8_t *a = w + (first + i) * pitch, *b = w + (first + at) * pitch;
            for (size_t j = 0; j < pitch; j++) {
                const uint8_t byte = a[j];
                a[j] = b[j];
                b[j] = byte;
            }
            place[at] = place[i];
            place[i] = (uint8_t)wgmma_8bit_channel(i);
        }
    }
}

/* Starts a warpgroup's sums, MT times 64 rows by BN columns from n0 on, at the
 * offsets' negatives, or at 0 without offsets, as F8E4M3's do.  k, a multiple
 * of 16: channels of the whole output. */
template <int MT, int BN>
static __device__ __forceinline__ void wgmma_start_8bit(const int *, int, int,
                                                        float (&v)[MT][BN / 2])
{
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int i = 0; i < BN / 2; i++)
            v[mt][i] = 0;
}

template <int MT, int BN>
static __device__ __forceinline__ void
wgmma_start_8bit(const int *offset, int k, int n0, int (&v)[MT][BN / 2])
{
    const int at = n0 + threadIdx.x % 4 * 4;

#pragma unroll
    for (int j = 0; j < BN / 8; j += 2) {
        int4 o = {0, 0, 0, 0};
        if (offset && at + j * 8 < k)
            o = __ldg((const int4 *)(offset + at + j * 8));
#pragma unroll
        for (int mt = 0; mt < MT; mt++) {
            v[mt][j * 4] = v[mt][j * 4 + 2] = -o.x;
            v[mt][j * 4 + 1] = v[mt][j * 4 + 3] = -o.y;
            v[mt][j * 4 + 4] = v[mt][j * 4 + 6] = -o.z;
            v[mt][j * 4 + 5] = v[mt][j * 4 + 7] = -o.w;
        }
    }
}

/* The scales and biases of four channels, whose offsets are in their sums. */
static __device__ __forceinline__ void
wgmma_8bit_channels(const struct wgmma_args &a, int k,
                    struct quant_channels<4> *c)
{
    if (a.quant.scale_step && k < a.g.k) {
        load_floats<float, 4>(a.quant.scale + k, c->scale);
    } else {
        c->scale[0] = __ldg(a.quant.scale);
        c->scale[1] = c->scale[2] = c->scale[3] = c->scale[0];
    }
    if (a.out.bias && k < a.g.k) {
        load_floats<float, 4>(a.out.bias + k, c->bias);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            c->bias[i] = 0;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        c->scale[i] = __fmul_rn(a.quant.x_scale, c->scale[i]);
        c->offset[i] = 0;
    }
}

/* Raw scales and biases of a lane's four channels of two neighbouring vectors
 * of an epilogue stage; those beyond the last channel are the last ones. */
struct wgmma_8bit_pair {
    float4 scale[2], bias[2];
};

static __device__ __forceinline__ void
wgmma_8bit_load_pair(const struct wgmma_args &a, int k,
                     struct wgmma_8bit_pair *to)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int at = min(k + h * 16, a.g.k - 4);
        to->scale[h] = __ldg((const float4 *)(a.quant.scale + at));
        to->bias[h] = __ldg((const float4 *)(a.out.bias + at));
    }
}

/* The four sums of a row of 16 channels: rows g and g + 8 are e = 0 and 1. */
template <typename S>
static __device__ __forceinline__ void wgmma_8bit_sums(const S *sums, int e,
                                                       S (&four)[4])
{
    four[0] = sums[e * 2];
    four[1] = sums[e * 2 + 1];
    four[2] = sums[e * 2 + 4];
    four[3] = sums[e * 2 + 5];
}

/* Turns an epilogue stage's columns of sums, of the channels from n on, into
 * bytes in this lane's part of the stage, which holds the residual if there is
 * one.  v: J times 8 sums in wgmma's layout, J even.  The channels of the next
 * step are loaded before those of a step are needed. */
template <int J, quant_kind KIND, typename S>
static __device__ __forceinline__ void
wgmma_finish_straight(const struct wgmma_args &a, const S *v, uint32_t epi,
                      int n)
{
    const uint32_t at = wgmma_matrices_at(epi);
    const int k = n + threadIdx.x % 4 * 4;
    struct wgmma_8bit_pair pair[2];

    wgmma_8bit_load_pair(a, k, &pair[0]);
#pragma unroll
    for (int i = 0; i < J / 2; i++) {
        uint32_t r[4] = {};
        if (i + 1 < J / 2)
            wgmma_8bit_load_pair(a, k + (i + 1) * 32, &pair[(i + 1) % 2]);
        if (KIND == QUANT_ADD || (KIND == QUANT_SMOOTH && a.out.residual))
            ptx_ldmatrix_x4(r, at ^ i << 5);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float4 s = pair[i % 2].scale[h], b = pair[i % 2].bias[h];
            const struct quant_channels<4> c = {
                {__fmul_rn(a.quant.x_scale, s.x),
                 __fmul_rn(a.quant.x_scale, s.y),
                 __fmul_rn(a.quant.x_scale, s.z),
                 __fmul_rn(a.quant.x_scale, s.w)},
                    {b.x, b.y, b.z, b.w},
                {
                    0, 0, 0, 0
                }
            };
#pragma unroll
            for (int e = 0; e < 2; e++) {
                S four[4];
                float value[4];
                wgmma_8bit_sums(v + (i * 2 + h) * 8, e, four);
                quant_values<4>(four, c, value);
                r[h * 2 + e] =
                    quant_word<S, KIND>(a.quant, a.out, value, r[h * 2 + e]);
            }
        }
        stmatrix_x4(at ^ i << 5, r);
    }
}

/* The same of any kind but SMOOTH. */
template <int J, typename S>
static __device__ __forceinline__ void
wgmma_finish_bytes(const struct wgmma_args &a, const S *v, uint32_t epi, int n)
{
    const uint32_t at = wgmma_matrices_at(epi);

    if (a.quant.kind == QUANT_PLAIN) {
        wgmma_finish_straight<J, QUANT_PLAIN>(a, v, epi, n);
        return;
    }
    if (a.quant.kind == QUANT_ADD) {
        wgmma_finish_straight<J, QUANT_ADD>(a, v, epi, n);
        return;
    }
#pragma unroll
    for (int i = 0; i < J / 2; i++) {
        uint32_t r[4] = {};
        if (a.out.residual)
            ptx_ldmatrix_x4(r, at ^ i << 5);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            struct quant_channels<4> c;
            wgmma_8bit_channels(a, n + (i * 2 + h) * 16 + threadIdx.x % 4 * 4,
                                &c);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                S four[4];
                float value[4];
                wgmma_8bit_sums(v + (i * 2 + h) * 8, e, four);
                quant_values<4>(four, c, value);
                r[h * 2 + e] = quant_word<S, QUANT_ANY>(a.quant, a.out, value,
                                                        r[h * 2 + e]);
            }
        }
        stmatrix_x4(at ^ i << 5, r);
    }
}

/* ---- clusters ------------------------------------------------------ */

/* Stores a CTA's partial sums into the pipeline's memory, rows of PITCH words,
 * channels in order. */
static __device__ __forceinline__ int wgmma_8bit_word(int v)
{
    return v;
}
static __device__ __forceinline__ int wgmma_8bit_word(float v)
{
    return __float_as_int(v);
}

template <int BN, int PITCH, typename S>
static __device__ __forceinline__ void wgmma_stage_8bit(const S (&acc)[BN / 2],
                                                        uint32_t base)
{
    const int lane = threadIdx.x % 32;
    const int row = threadIdx.x / 32 * 16 + lane / 4;
    const uint32_t to = base + (row * PITCH + lane % 4 * 4) * 4;

#pragma unroll
    for (int j = 0; j < BN / 8; j += 2)
#pragma unroll
        for (int e = 0; e < 2; e++)
            HOPPER_ASM("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(
                           to + j * 32 + e * 8 * PITCH * 4),
                       "r"(wgmma_8bit_word(acc[j * 4 + e * 2])),
                       "r"(wgmma_8bit_word(acc[j * 4 + e * 2 + 1])),
                       "r"(wgmma_8bit_word(acc[j * 4 + e * 2 + 4])),
                       "r"(wgmma_8bit_word(acc[j * 4 + e * 2 + 5]))
                       : "memory");
}

/* As wgmma_reduce_partials(), four channels a step. */
template <typename L, bool SMOOTH>
static __device__ __forceinline__ void
wgmma_reduce_8bit(const struct wgmma_args &a, const typename L::sum *own,
                  const typename L::sum *sums, int rank, int size, int m0,
                  int n0)
{
    typedef typename L::sum S;
    enum { PER_ROW = L::BN / 4 };
    const int rows = L::BM / size, column = threadIdx.x % PER_ROW * 4;
    const int n = n0 + column;
    struct quant_channels<4> c;

    if (n >= a.g.k)
        return;
    wgmma_8bit_channels(a, n, &c);
    for (int row = threadIdx.x / PER_ROW; row < rows;
         row += L::CONSUMERS / PER_ROW) {
        const int m = m0 + rank * rows + row;
        S sum[4] = {};
        if (m >= a.g.m)
            break;
#pragma unroll 4
        for (int from = 0; from < size; from++) {
            const vec<S, 4> part =
                load_vec<S, 4>((from == rank ? own : sums) +
                               (from * rows + row) * L::PITCH + column);
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[e] += part.at[e];
        }
        quant_store_four<SMOOTH>(a.quant, a.out, c, m, n, sum);
    }
}

#endif
