/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution (one input channel a group) on integers of 8 bits,
 * channels last.
 *
 * The columns kernel takes square windows of 3, 5 and 7, stride 1 and 2, no
 * dilation, one output a channel, channels in 4s.  A thread has four adjacent
 * channels, one word of a pixel, and TW outputs along the width; neighbours
 * take neighbouring channels.  Of each column of the window it loads R words
 * and turns four of them into one word a channel, four rows deep, which dp4a
 * multiplies with four weights of the channel at once.  A row that is left over
 * (5 = 4 + 1) is multiplied as it lies, with weights that are zero but for the
 * channel's byte.  Weights are packed [C / 4][s][words of a column][4].
 *
 * The taps kernel takes any window and channel multiplier: a thread has one
 * output.  Weights are packed [r][s][k].
 *
 * Thread i of the columns kernel computes channels 4 (i % (C/4)), columns TW (i
 * / (C/4) % tiles) and on, of row i / (C/4) / tiles of all rows n, p.  No
 * shared memory.
 */
#include <stdlib.h>

#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/quant/end.cuh"
#include "kernels/cuda/quant/mma.cuh"

#define THREADS 128

struct quant_depthwise_args {
    struct conv_geometry g;
    const void *x, *w;
    struct output_args out;
    struct quant_end end;
    int64_t count; /* threads with work */
    int tiles;     /* of a row of outputs */
};

/* ---- columns ------------------------------------------------------- */

/* Words of a column of R rows. */
static constexpr __host__ __device__ int column_words(int r)
{
    return (r + 3) / 4;
}

/* Four words of four channels as four words of one channel each. */
static __device__ __forceinline__ void turn(const uint32_t *rows, uint32_t *to)
{
    const uint32_t a = __byte_perm(rows[0], rows[1], 0x5140);
    const uint32_t b = __byte_perm(rows[0], rows[1], 0x7362);
    const uint32_t c = __byte_perm(rows[2], rows[3], 0x5140);
    const uint32_t d = __byte_perm(rows[2], rows[3], 0x7362);

    to[0] = __byte_perm(a, c, 0x5410);
    to[1] = __byte_perm(a, c, 0x7632);
    to[2] = __byte_perm(b, d, 0x5410);
    to[3] = __byte_perm(b, d, 0x7632);
}

/* One column of a window as words of each channel. */
template <int R>
static __device__ __forceinline__ void
turn_column(const uint32_t *rows, uint32_t (&to)[column_words(R)][4])
{
#pragma unroll
    for (int i = 0; i < column_words(R); i++) {
        uint32_t four[4];
        if (R - i * 4 == 1) { /* as it lies */
            to[i][0] = to[i][1] = to[i][2] = to[i][3] = rows[i * 4];
            continue;
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            four[j] = i * 4 + j < R ? rows[i * 4 + j] : 0;
        turn(four, to[i]);
    }
}

/* Stores `count` outputs of a row, from pixel m on, of four channels. */
template <quant_kind KIND, int TW>
static __device__ __forceinline__ void
store_columns(const struct quant_depthwise_args &a, int k, int m, int count,
              const int (&acc)[TW][4])
{
    struct quant_channels<4> c;

    quant_load_channels<4>(a.end, a.out.bias, k, a.g.k, &c);
#pragma unroll
    for (int t = 0; t < TW; t++)
        if (t < count)
            quant_store<4, KIND>(a.end, a.out, c, m + t, k, acc[t]);
}

template <typename X, int R, int STRIDE, int TW, bool SMOOTH>
static __global__ void __launch_bounds__(THREADS) quant_depthwise_columns(
    const __grid_constant__ struct quant_depthwise_args a)
{
    enum { WORDS = column_words(R), COLUMNS = (TW - 1) * STRIDE + R };
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int quads = a.g.c / 4;

    if (i >= a.count) {
        launch_wait();
        return;
    }
    const int quad = (int)(i % quads), rest = (int)(i / quads);
    const int q = rest % a.tiles * TW, np = rest / a.tiles;
    const int p = np % a.g.p, n = np / a.g.p;
    const int row = p * STRIDE - a.g.pad_top;
    const int column = q * STRIDE - a.g.pad_left;
    int4 w[R][WORDS];
#pragma unroll
    for (int s = 0; s < R; s++)
#pragma unroll
        for (int j = 0; j < WORDS; j++)
            w[s][j] = __ldg((const int4 *)a.w + (quad * R + s) * WORDS + j);
    const uint32_t blank = __ldg((const uint32_t *)a.end.blank);
    int acc[TW][4] = {};

    launch_wait();
    /* Of column 0 of the window, which may lie outside. */
    const uint8_t *line[R];
    bool inside[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        inside[r] = (unsigned)(row + r) < (unsigned)a.g.h;
        line[r] =
            (const uint8_t *)a.x + quad * 4 +
            (int64_t)((n * a.g.h + row + r) * a.g.w + column) * a.g.x_pitch;
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const bool ok = (unsigned)(column + c) < (unsigned)a.g.w;
        uint32_t rows[R], words[WORDS][4];
#pragma unroll
        for (int r = 0; r < R; r++) {
            rows[r] = blank;
            if (ok && inside[r])
                rows[r] = __ldg((const uint32_t *)(line[r] + c * a.g.x_pitch));
        }
        turn_column<R>(rows, words);
#pragma unroll
        for (int t = 0; t < TW; t++) {
            const int s = c - t * STRIDE;
            if (s < 0 || s >= R)
                continue;
#pragma unroll
            for (int j = 0; j < WORDS; j++) {
                const int4 f = w[s][j];
                acc[t][0] = quant_dot4(X(), words[j][0], f.x, acc[t][0]);
                acc[t][1] = quant_dot4(X(), words[j][1], f.y, acc[t][1]);
                acc[t][2] = quant_dot4(X(), words[j][2], f.z, acc[t][2]);
                acc[t][3] = quant_dot4(X(), words[j][3], f.w, acc[t][3]);
            }
        }
    }
    const int first = np * a.g.q + q, count = min(TW, a.g.q - q);
    if constexpr (SMOOTH)
        store_columns<QUANT_SMOOTH, TW>(a, quad * 4, first, count, acc);
    else if (a.end.kind == QUANT_PLAIN)
        store_columns<QUANT_PLAIN, TW>(a, quad * 4, first, count, acc);
    else if (a.end.kind == QUANT_ADD)
        store_columns<QUANT_ADD, TW>(a, quad * 4, first, count, acc);
    else
        store_columns<QUANT_ANY, TW>(a, quad * 4, first, count, acc);
}

/* ---- taps ---------------------------------------------------------- */

template <typename X, bool SMOOTH>
static __global__ void __launch_bounds__(THREADS)
    quant_depthwise_taps(const __grid_constant__ struct quant_depthwise_args a)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    launch_wait();
    if (i >= a.count)
        return;
    const int k = (int)(i % a.g.k), m = (int)(i / a.g.k);
    const int q = m % a.g.q, np = m / a.g.q;
    const int row = np % a.g.p * a.g.stride_h - a.g.pad_top;
    const int column = q * a.g.stride_w - a.g.pad_left;
    const X *x = (const X *)a.x + k / a.g.kg;
    const int8_t *w = (const int8_t *)a.w + k;
    const int blank = *(const X *)a.end.blank;
    int sum[1] = {0};

    for (int r = 0; r < a.g.r; r++)
        for (int s = 0; s < a.g.s; s++, w += a.g.k) {
            const int h = row + r * a.g.dilation_h;
            const int v = column + s * a.g.dilation_w;
            int value = blank;
            if ((unsigned)h < (unsigned)a.g.h && (unsigned)v < (unsigned)a.g.w)
                value = x[((np / a.g.p * a.g.h + h) * a.g.w + v) * a.g.x_pitch];
            sum[0] += value * *w;
        }
    struct quant_channels<1> channels;
    quant_load_channels<1>(a.end, a.out.bias, k, a.g.k, &channels);
    quant_store<1, SMOOTH ? QUANT_SMOOTH : QUANT_ANY>(a.end, a.out, channels, m,
                                                      k, sum);
}

/* ---- limits -------------------------------------------------------- */

struct quant_depthwise_state {
    struct conv_geometry g;
    int columns;   /* outputs of a thread of the columns kernel; 0: taps */
    size_t packed; /* bytes of the weights */
};

/* Outputs of a thread: a row of few is not cut in two. */
#define COLUMNS_TW 4

static bool takes_columns(const struct conv_geometry *g)
{
    return g->kg == 1 && g->k % 4 == 0 && g->x_pitch % 4 == 0 &&
           g->y_pitch % 4 == 0 && g->r_pitch % 4 == 0 && g->r == g->s &&
           (g->r == 3 || g->r == 5 || g->r == 7) &&
           g->stride_h == g->stride_w && g->stride_w <= 2 &&
           g->dilation_h == 1 && g->dilation_w == 1;
}

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *, int,
                        struct quant_depthwise_state *s,
                        struct infer_error *why)
{
    const int rc = conv_geometry_read_pitched(p, &s->g, why);

    if (rc < 0)
        return rc;
    if (s->g.cg != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "%d channels a group, supported 1", s->g.cg);
    s->columns = takes_columns(&s->g) ? COLUMNS_TW : 0;
    s->packed = s->columns ? (size_t)s->g.k * s->g.s * column_words(s->g.r) * 4
                           : (size_t)s->g.k * s->g.r * s->g.s;
    return quant_check(p, true, why);
}

/* Instructions of an output at 0.6 of the peak, or the bytes. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    struct quant_depthwise_state s;

    if (read_problem(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const double each = s.columns ? 16 + s.g.s * column_words(s.g.r) * 2
                                  : 24 + 8.0 * s.g.r * s.g.s;
    const int act = quant_is_smooth(p->epilogue.act.kind) ? 14 : 0;
    const double products = (double)s.g.m * s.g.k * (each + act) / 128 /
                            (conv_multiprocessors(d) * 1.7e3 * 0.6);

    return 2 + cost_overlapped(products, kern_problem_bytes(p) / 3e6, 0.2);
}

/* ---- packing ------------------------------------------------------- */

static void declare(struct kern_exec *e, const struct quant_depthwise_state *s)
{
    e->packed[CONV_W] = quant_packed_bytes(s->packed, s->g.k);
}

/* The word of four rows of column c of channel k, from row r on; a row alone
 * stands in the channel's byte. */
static uint32_t weight_word(const struct conv_geometry *g, const int8_t *w,
                            int k, int r, int c)
{
    const int8_t *of = w + (size_t)k * g->r * g->s;
    uint32_t word = 0;

    if (g->r - r == 1)
        return (uint32_t)(uint8_t)of[r * g->s + c] << 8 * (k % 4);
    for (int i = 0; i < 4 && r + i < g->r; i++)
        word |= (uint32_t)(uint8_t)of[(r + i) * g->s + c] << 8 * i;
    return word;
}

static int pack(const struct kern_exec *e, int, const void *src, void *dst,
                struct infer_error *)
{
    const struct quant_depthwise_state *s =
        (const struct quant_depthwise_state *)e->state;
    const struct conv_geometry *g = &s->g;
    const int8_t *w = (const int8_t *)src;
    const int words = column_words(g->r);

    quant_pack_tail(&e->problem, w, g->k, (int64_t)g->r * g->s, s->packed, dst);
    if (!s->columns) {
        conv_pack_taps(g, INFER_I8, src, INFER_I8, dst);
        return 0;
    }
    for (int k = 0; k < g->k; k++)
        for (int c = 0; c < g->s; c++)
            for (int j = 0; j < words; j++)
                ((uint32_t *)
                     dst)[((k / 4 * g->s + c) * words + j) * 4 + k % 4] =
                    weight_word(g, w, k, j * 4, c);
    return 0;
}

/* ---- launching ----------------------------------------------------- */

template <typename X, int R, bool SMOOTH>
static int launch_columns(const struct quant_depthwise_args *a, dim3 grid,
                          void *stream, struct infer_error *err)
{
    return launch_chained(
        a->g.stride_w == 1
            ? quant_depthwise_columns<X, R, 1, COLUMNS_TW, SMOOTH>
            : quant_depthwise_columns<X, R, 2, COLUMNS_TW, SMOOTH>,
        grid, dim3(THREADS), 0, stream, *a, err);
}

template <typename X, bool SMOOTH>
static int launch_typed(const struct quant_depthwise_args *a, bool columns,
                        void *stream, struct infer_error *err)
{
    const dim3 grid((unsigned)((a->count + THREADS - 1) / THREADS));

    if (!columns)
        return launch_chained(quant_depthwise_taps<X, SMOOTH>, grid,
                              dim3(THREADS), 0, stream, *a, err);
    if (a->g.r == 3)
        return launch_columns<X, 3, SMOOTH>(a, grid, stream, err);
    return a->g.r == 5 ? launch_columns<X, 5, SMOOTH>(a, grid, stream, err)
                       : launch_columns<X, 7, SMOOTH>(a, grid, stream, err);
}

template <typename X>
static int launch_end(const struct quant_depthwise_args *a, bool columns,
                      void *stream, struct infer_error *err)
{
    return a->end.kind == QUANT_SMOOTH
               ? launch_typed<X, true>(a, columns, stream, err)
               : launch_typed<X, false>(a, columns, stream, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct quant_depthwise_state *s =
        (const struct quant_depthwise_state *)e->state;
    const struct conv_geometry *g = &s->g;
    struct quant_depthwise_args a = {};

    if (g->m == 0)
        return 0;
    a.g = *g;
    a.x = args->in[CONV_X];
    a.w = args->in[CONV_W];
    a.out = output_of(e, args, g->k);
    a.out.y_pitch = g->y_pitch;
    a.out.r_pitch = g->r_pitch;
    a.end = quant_end_of(e, args, s->packed, g->k);
    a.tiles = s->columns ? conv_ceil_div(g->q, s->columns) : 1;
    a.count = s->columns ? (int64_t)g->n * g->p * a.tiles * (g->k / 4)
                         : (int64_t)g->m * g->k;
    return e->problem.in[CONV_X].dtype == INFER_U8
               ? launch_end<uint8_t>(&a, s->columns, args->stream, err)
               : launch_end<int8_t>(&a, s->columns, args->stream, err);
}

KERN_FUNCTIONS(conv2d_fprop_nhwc_8bit_cuda_depthwise) = {
    .supports = state_supports<struct quant_depthwise_state, read_problem>,
    .estimate = estimate,
    .prepare =
        state_prepare<struct quant_depthwise_state, read_problem, declare>,
    .pack = pack,
    .launch = launch,
    .release = cuda_state_release,
};
