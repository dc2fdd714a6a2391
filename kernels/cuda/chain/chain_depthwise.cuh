/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A depthwise convolution and the 1x1 behind it, of 16-bit types, by tensor
 * cores.
 *
 * A block computes all outputs of `rows` by `columns` pixels of `images`
 * images.  Channels come in chunks, each with its part of the image, with
 * zeros about it, and its weights, into one of up to CHAIN_STAGES buffers,
 * while chunks before it are multiplied.  A pixel takes an odd number of 16
 * bytes, as in depthwise_tile.cuh, and with stride 2 the even columns come
 * first.
 *
 * A warp has all channels of 16 places, each MT outputs one below another: an
 * image's row is loaded once for all of them that it is part of.
 * 16 channels at a time: each tap is a product of the pixels with a diagonal
 * matrix, two taps side by side one mma of depth 16 (depthwise_tile.cuh).  Of
 * the sums, lane 4g + t has channels 2t and 2t + 1 of pixels g and g + 8, which
 * is where the first operand of the second product wants them: bias, activation
 * and rounding are done in registers, and the middle tensor is never stored.
 * The second product's sums, MT x NT tiles, stay in registers over all chunks.
 *
 * Zeros of a diagonal matrix times an infinity are NaN.  A block that finds a
 * NaN among its middle values computes its outputs again, product by product
 * (chain_repeat.cuh).
 *
 * Packed weights, by pairs of channels: [c / 8][c / 2 % 4][tap][c % 2], taps
 * rounded up to 4; of the second product as lanes read them: [c / 16][k / 16]
 * [lane][k / 8 % 2][c / 8 % 2][c % 2] with lane = 4 (k % 8) + c / 2 % 4.
 *
 * Shared memory: CHAIN_STAGES buffers behind the table of pixels.  Threads: 32
 * a warp, up to CHAIN_WARPS.  Barriers: one a chunk.
 */
#ifndef KERNELS_CUDA_CHAIN_CHAIN_DEPTHWISE_CUH
#define KERNELS_CUDA_CHAIN_CHAIN_DEPTHWISE_CUH

#include "kernels/cuda/depthwise/depthwise_mma.cuh"
#include "kernels/cuda/mma/fragments.cuh"

extern "C" {
#include "kernels/cuda/chain/chain_tile.h"
}

/* ---- activations --------------------------------------------------- */

/* A function of the kernels: what most are, or another kind with the choice
 * made once. */
struct chain_act {
    bool clips; /* v = min(max(v, low), high); infinities for none */
    float low, high;
    struct kern_unary other;
};

static inline bool chain_act_takes(enum kern_unary_kind kind)
{
    return kind <= KERN_CLIP || kind == KERN_SILU ||
           kind == KERN_HARD_SIGMOID || kind == KERN_HARD_SWISH;
}

static inline struct chain_act chain_act_of(const struct kern_unary *f)
{
    struct chain_act a;

    a.clips = f->kind == KERN_IDENTITY || f->kind == KERN_RELU ||
              f->kind == KERN_CLIP;
    a.low = f->kind == KERN_CLIP ? f->a : f->kind == KERN_RELU ? 0 : -INFINITY;
    a.high = f->kind == KERN_CLIP ? f->b : INFINITY;
    a.other = *f;
    return a;
}

template <int N>
static __device__ __forceinline__ void chain_clip(const struct chain_act &f,
                                                  float *v)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = min_nan(max_nan(v[i], f.low), f.high);
}

/* The others. */
template <int N>
static __device__ __forceinline__ void chain_bend(const struct chain_act &f,
                                                  float *v)
{
    if (f.other.kind == KERN_SILU) {
        unary_silu<N>(f.other.a, v);
    } else if (f.other.kind == KERN_LEAKY_RELU) {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = v[i] < 0 ? f.other.a * v[i] : v[i];
    } else {
        const bool times = f.other.kind == KERN_HARD_SWISH;
        const float scale = times ? 1.0f / 6 : f.other.a;
        const float shift = times ? 0.5f : f.other.b;
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float s = min_nan(max_nan(fmaf(scale, v[i], shift), 0), 1);
            v[i] = times ? v[i] * s : s;
        }
    }
}

template <int N>
static __device__ __forceinline__ void chain_activate(const struct chain_act &f,
                                                      float *v)
{
    if (f.clips)
        chain_clip<N>(f, v);
    else
        chain_bend<N>(f, v);
}

/* ---- a block -------------------------------------------------------- */

struct chain_args {
    struct conv_geometry g; /* of the first convolution */
    struct chain_tile t;
    const void *x, *w, *w2;       /* weights packed */
    const float *bias;            /* NULL for none */
    int width;                    /* fragment_width() of the outputs */
    struct chain_act act, end;    /* between the two, and behind them */
    struct fast_div across, down; /* blocks */
    struct fast_div vectors;      /* of a pixel's chunk: eights of channels */
    struct fast_div wide, plane;  /* of the image's part */
    struct fast_div columns, places; /* of a row, of an image's part */
    struct output_args out;
};

/* The first output of a block. */
struct chain_place {
    int n, p, q;
};

static __device__ __forceinline__ struct chain_place
chain_place_of(const struct chain_args &a)
{
    uint32_t across, down;
    /* From the last to the first, as depthwise_thread(). */
    const uint32_t rest = a.across.divmod(gridDim.x - 1 - blockIdx.x, &across);
    const uint32_t n = a.down.divmod(rest, &down);

    return {(int)n * a.t.images, (int)down * a.t.rows,
            (int)across * a.t.columns};
}

/* Output m of the block's place i: its number among all, or -1. */
static __device__ __forceinline__ int chain_output(const struct chain_args &a,
                                                   const struct chain_place &at,
                                                   int i, int m)
{
    uint32_t rest, column;
    const uint32_t image = a.places.divmod((uint32_t)i, &rest);
    const uint32_t row = a.columns.divmod(rest, &column);
    const int n = at.n + (int)image, p = at.p + (int)row * a.t.mt + m,
              q = at.q + (int)column;

    return (int)image < a.t.images && n < a.g.n && p < a.g.p && q < a.g.q
               ? (n * a.g.p + p) * a.g.q + q
               : -1;
}

/* Bytes from a buffer's beginning to the first pixel of place i's windows: with
 * stride 2 column 2 q is in place q of its row. */
static __device__ __forceinline__ uint32_t
chain_pixel(const struct chain_args &a, int i)
{
    uint32_t rest, column;
    const uint32_t image = a.places.divmod((uint32_t)i, &rest);
    const uint32_t row = a.columns.divmod(rest, &column);

    return (int)image < a.t.images
               ? image * a.t.plane + row * a.t.mt * a.g.stride_h * a.t.line +
                     column * a.t.pixel
               : 0;
}

/* ---- filling a buffer ---------------------------------------------- */

/* Where each pixel comes from, elements of x or -1 outside of the image, and
 * where it goes, bytes. */
static __device__ __forceinline__ void
chain_make_table(const struct chain_args &a, const struct chain_place &at,
                 int2 *table)
{
    for (int i = threadIdx.x; i < a.t.pixels; i += blockDim.x) {
        uint32_t rest, column;
        const int image = (int)a.plane.divmod((uint32_t)i, &rest);
        const int row = (int)a.wide.divmod(rest, &column);
        const int n = at.n + image;
        const int h = at.p * a.g.stride_h - a.g.pad_top + row;
        const int w = at.q * a.g.stride_w - a.g.pad_left + (int)column;
        const bool there = n < a.g.n && (unsigned)h < (unsigned)a.g.h &&
                           (unsigned)w < (unsigned)a.g.w;
        const int place = a.g.stride_w == 1
                              ? (int)column
                              : (int)column / 2 + (int)column % 2 * a.t.odd;

        table[i] =
            make_int2(there ? ((n * a.g.h + h) * a.g.w + w) * a.g.x_pitch : -1,
                      image * a.t.plane + row * a.t.line + place * a.t.pixel);
    }
}

/* Copies `bytes`, a multiple of 16. */
static __device__ __forceinline__ void chain_copy(uint32_t to, const void *from,
                                                  int bytes)
{
    for (int i = 16 * (int)threadIdx.x; i < bytes; i += 16 * (int)blockDim.x)
        ptx_cp_async<16>(to + i, (const unsigned char *)from + i, true);
}

/* Weights of the chunk that begins with channel c. */
template <int R>
static __device__ __forceinline__ void
chain_fill_weights(const struct chain_args &a, uint32_t buffer, int c)
{
    enum { WORDS = (R * R + 3) / 4 * 4 };
    const int count = min(a.t.channels, (a.g.c + 15) / 16 * 16 - c);

    chain_copy(buffer + a.t.taps,
               (const unsigned char *)a.w + c / 8 * 16 * WORDS,
               count / 8 * 16 * WORDS);
    chain_copy(buffer + a.t.w2,
               (const unsigned char *)a.w2 + c / 16 * a.t.pairs * 512,
               count / 16 * a.t.pairs * 512);
}

template <typename T>
static __device__ __forceinline__ void chain_fill(const struct chain_args &a,
                                                  const int2 *table,
                                                  uint32_t buffer, int c)
{
    const int tid = threadIdx.x;
    uint32_t v;
    const int pixel = (int)a.vectors.divmod((uint32_t)tid, &v);
    const int step = (int)a.vectors.div(blockDim.x);
    const int k = c + 8 * (int)v;
    const T *const x = (const T *)a.x;

    if (pixel < step)
#pragma unroll 4
        for (int i = pixel; i < a.t.pixels; i += step) {
            const int2 e = table[i];
            const bool there = e.x >= 0 && k < a.g.c;
            ptx_cp_async<16>(buffer + e.y + 16 * v, x + (there ? e.x + k : 0),
                             there);
        }
    for (int i = 4 * tid; i < a.t.channels; i += 4 * (int)blockDim.x) {
        const bool there = a.bias && c + i < a.g.c;
        ptx_cp_async<16>(buffer + a.t.bias + 4 * i,
                         there ? (const void *)(a.bias + c + i) : a.x, there);
    }
}

/* ---- the products -------------------------------------------------- */

static __device__ __forceinline__ void chain_load_words(uint32_t from,
                                                        uint32_t *to)
{
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

static __device__ __forceinline__ uint32_t chain_round(__half, float a, float b)
{
    const __half2 two = __floats2half2_rn(a, b);

    return *(const uint32_t *)&two;
}

static __device__ __forceinline__ uint32_t chain_round(__nv_bfloat16, float a,
                                                       float b)
{
    const __nv_bfloat162 two = __floats2bfloat162_rn(a, b);

    return *(const uint32_t *)&two;
}

/* The window over eight `group` of the chunk's channels, for the warp's 16
 * places; pixel: of this lane. */
template <typename T, int R, int STRIDE, int MT>
static __device__ __forceinline__ void
chain_window(const struct chain_args &a, uint32_t buffer, int group,
             uint32_t pixel, float (&v)[MT][4])
{
    enum { WORDS = (R * R + 3) / 4 * 4, ROWS = R + (MT - 1) * STRIDE };
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const uint32_t mask = g / 2 != t ? 0 : g % 2 ? 0xffff0000u : 0xffffu;
    const int step = (STRIDE == 1 ? 2 : 1) * a.t.pixel;
    uint32_t w[WORDS], bias[2], row = pixel + buffer + group * 16;

#pragma unroll
    for (int i = 0; i < WORDS; i += 4)
        chain_load_words(buffer + a.t.taps + ((group * 4 + t) * WORDS + i) * 4,
                         w + i);
#pragma unroll
    for (int i = 0; i < R * R; i++)
        w[i] &= mask;
    asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];"
                 : "=r"(bias[0]), "=r"(bias[1])
                 : "r"(buffer + a.t.bias + (group * 8 + 2 * t) * 4)
                 : "memory");
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[m][i] = __uint_as_float(bias[i % 2]);
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        uint32_t x[4];
#pragma unroll
        for (int c = 0; c <= R / 2; c++) {
            if (c < R / 2)
                ptx_ldmatrix_x4(x, row + c * step);
            else
                depthwise_ldmatrix_x2(x, row + c * step);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                const int r = i - m * STRIDE;
                if (r < 0 || r >= R)
                    continue;
                if (c < R / 2)
                    ptx_mma(T(), v[m], x, w + r * R + 2 * c);
                else
                    depthwise_mma_half(T(), v[m], x, w[r * R + R - 1]);
            }
        }
        row += a.t.line;
    }
}

/* The middle values of an eight, rounded; lane 4g + t has channels 2t and 2t +
 * 1 of places g and g + 8.  True: one was NaN. */
template <typename T, int R, int STRIDE, int MT, bool CLIPS>
static __device__ __forceinline__ bool
chain_eight(const struct chain_args &a, uint32_t buffer, int group,
            uint32_t pixel, uint32_t (&x)[MT][2])
{
    float v[MT][4];
    bool bad = false;

    chain_window<T, R, STRIDE, MT>(a, buffer, group, pixel, v);
#pragma unroll
    for (int m = 0; m < MT; m++) {
        bad = depthwise_any_nan(v[m][0], v[m][1]) || bad;
        bad = depthwise_any_nan(v[m][2], v[m][3]) || bad;
    }
    if (CLIPS)
        chain_clip<4 * MT>(a.act, &v[0][0]);
    else
        chain_bend<4 * MT>(a.act, &v[0][0]);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            x[m][i] = chain_round(T(), v[m][2 * i], v[m][2 * i + 1]);
    return bad;
}

/* Multiplies a chunk of `steps` times 16 channels; true: a middle value was
 * NaN.  There is no branch, so that what waits for one eight does not wait for
 * the other; outputs beyond the last have weights of 0. */
template <typename T, int R, int STRIDE, int MT, int NT, bool CLIPS>
static __device__ __forceinline__ bool
chain_multiply(const struct chain_args &a, uint32_t buffer, int steps,
               uint32_t pixel, float (&sum)[MT][NT][4])
{
    bool bad = false;

#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        const uint32_t w2 =
            buffer + a.t.w2 + step * a.t.pairs * 512 + threadIdx.x % 32 * 16;
        uint32_t low[MT][2], high[MT][2];

        bad = chain_eight<T, R, STRIDE, MT, CLIPS>(a, buffer, 2 * step, pixel,
                                                   low) ||
              bad;
        bad = chain_eight<T, R, STRIDE, MT, CLIPS>(a, buffer, 2 * step + 1,
                                                   pixel, high) ||
              bad;
#pragma unroll
        for (int j = 0; j < NT / 2; j++) {
            uint32_t b[4];
            chain_load_words(w2 + j * 512, b);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                const uint32_t x[4] = {low[m][0], low[m][1], high[m][0],
                                       high[m][1]};
                ptx_mma(T(), sum[m][2 * j], x, b);
                ptx_mma(T(), sum[m][2 * j + 1], x, b + 2);
            }
        }
    }
    return bad;
}

/* ---- the end ------------------------------------------------------- */

/* Adds residuals, 32 channels at a time, to keep few of them in registers. */
template <typename T, int MT, int NT>
static __device__ __forceinline__ void
chain_add_residual(const struct chain_args &a, const int (&pixel)[MT][2],
                   float (&sum)[MT][NT][4])
{
#pragma unroll
    for (int j = 0; j < NT; j += 4) {
        struct fragments<MT, 4> f;
        if (8 * j >= a.out.k)
            break;
        memcpy(f.pixel, pixel, sizeof(f.pixel));
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int i = 0; i < 16; i++)
                f.sum[m][i / 4][i % 4] = sum[m][j + i / 4][i % 4];
        fragment_add_residual<T>(a.out, 8 * j, a.width, f);
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int i = 0; i < 16; i++)
                sum[m][j + i / 4][i % 4] = f.sum[m][i / 4][i % 4];
    }
}

/* Residual, activation, and stores as fragment_finish() makes them; the bias is
 * in the sums. */
template <typename T, int MT, int NT>
static __device__ __forceinline__ void chain_finish(const struct chain_args &a,
                                                    const int (&pixel)[MT][2],
                                                    float (&sum)[MT][NT][4])
{
    typedef struct fragments<MT, NT> F;
    const bool last = a.out.epilogue.residual_last;

    if (a.out.residual && !last)
        chain_add_residual<T, MT, NT>(a, pixel, sum);
    chain_activate<MT * NT * 4>(a.end, &sum[0][0][0]);
    if (a.out.residual && last)
        chain_add_residual<T, MT, NT>(a, pixel, sum);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int group = 0; group < F::GROUPS; group++) {
            const int k = fragment_tile<F>(group, threadIdx.x % 4) * 8;
            const int to = pixel[m][group % 2];
            uint32_t word[4];
            if (8 * fragment_tile<F>(group, 0) >= a.out.k)
                break;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float *s = &sum[m][fragment_tile<F>(group, j)]
                                     [fragment_half<F>(group, j) * 2];
                word[j] = chain_round(T(), s[0], s[1]);
            }
            quad_transpose(word);
            if (to >= 0)
                fragment_store((uint16_t *)a.out.y +
                                   (size_t)to * a.out.y_pitch + k,
                               a.out.k - k, a.width, word);
        }
}

#endif
