/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution (one input channel a group), channels last.
 *
 * Bound by memory: 18 operations on 4 bytes for 3x3 in half precision.  So a
 * thread moves 16 bytes of adjacent channels (V of them) at a time, neighbours
 * in a warp take neighbouring channels, and each thread computes TW outputs
 * along the width, so that a pixel is read once for all the windows of the
 * thread that hold it: (TW - 1) * STRIDE + S reads a row of the window instead
 * of TW * S.  Rows shared between threads come from the L1 cache.
 *
 * Thread i computes channels V * (i % (C/V)), columns TW * (i / (C/V) % tiles)
 * and on, of row i / (C/V) / tiles of all rows n, p.  No shared memory.
 * Weights are packed [r][s][k] in the type of the activations: by pack() if
 * they are constant, else by a kernel launched before, one thread a weight.
 *
 * The unrolled kernel takes 3x3 and 5x5, stride 1 and 2, no dilation, one
 * output a channel; depthwise_window.cuh takes everything.  16-bit types take
 * tiles for tensor cores as well, up to 9x9: depthwise_tile.cuh.
 */
#ifndef KERNELS_CUDA_DEPTHWISE_DEPTHWISE_CUH
#define KERNELS_CUDA_DEPTHWISE_DEPTHWISE_CUH

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/depthwise/depthwise_mma.cuh"
#include "kernels/cuda/depthwise/depthwise_pack.cuh"
#include "kernels/cuda/depthwise/depthwise_window.cuh"
#include "kernels/rows.h"

/* Zero if the pixel lies outside the image; 32-bit words at a time, which are
 * half as many as values of 16 bits. */
template <typename T, int V>
static __device__ __forceinline__ vec<T, V> depthwise_mask(vec<T, V> v, bool ok)
{
    const uint32_t mask = ok ? 0xffffffffu : 0;
    uint32_t word[sizeof(v) / 4];

    memcpy(word, &v, sizeof(v));
#pragma unroll
    for (int i = 0; i < (int)(sizeof(v) / 4); i++)
        word[i] &= mask;
    memcpy(&v, word, sizeof(v));
    return v;
}

/* One row of the window for TW outputs; x points at the image's row, which is
 * inside or not.  All loads are issued first and unconditionally, those outside
 * the image from a pixel inside, so that they are in flight together. */
template <typename T, int V, int S, int STRIDE, int TW>
static __device__ __forceinline__ void
depthwise_row(const struct depthwise_args &a, const T *x, const T *taps,
              bool inside, int column, float (&acc)[TW][V])
{
    enum { COLUMNS = (TW - 1) * STRIDE + S };
    vec<T, V> v[COLUMNS], f[S];
    float w[S][V];

#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        const bool ok = (unsigned)(column + i) < (unsigned)a.g.w;
        v[i] = load_vec<T, V>(x + (ok ? column + i : 0) * a.g.x_pitch);
    }
#pragma unroll
    for (int s = 0; s < S; s++)
        f[s] = load_vec<T, V>(taps + s * a.g.k);
#pragma unroll
    for (int s = 0; s < S; s++)
#pragma unroll
        for (int j = 0; j < V; j++)
            w[s][j] = to_float(f[s].at[j]);
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        const bool ok = inside && (unsigned)(column + i) < (unsigned)a.g.w;
        const vec<T, V> masked = depthwise_mask<T, V>(v[i], ok);
        float x_i[V];
#pragma unroll
        for (int j = 0; j < V; j++)
            x_i[j] = to_float(masked.at[j]);
#pragma unroll
        for (int t = 0; t < TW; t++) {
            if (i - t * STRIDE < 0 || i - t * STRIDE >= S)
                continue;
#pragma unroll
            for (int j = 0; j < V; j++)
                acc[t][j] = fmaf(x_i[j], w[i - t * STRIDE][j], acc[t][j]);
        }
    }
}

template <typename T, int V, int R, int STRIDE, int TW>
static __global__ void __launch_bounds__(DEPTHWISE_THREADS, 2)
    depthwise_unrolled(const __grid_constant__ struct depthwise_args a)
{
    const int64_t i = depthwise_thread();

    launch_wait();
    if (i >= a.count)
        return;
    const struct depthwise_place at = depthwise_place_of(a, i, V, TW);
    const int row = at.p * STRIDE - a.g.pad_top;
    const int column = at.q * STRIDE - a.g.pad_left;
    float acc[TW][V];
#pragma unroll
    for (int t = 0; t < TW; t++)
#pragma unroll
        for (int j = 0; j < V; j++)
            acc[t][j] = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        const bool inside = (unsigned)(row + r) < (unsigned)a.g.h;
        const int line = at.n * a.g.h + (inside ? row + r : 0);
        depthwise_row<T, V, R, STRIDE, TW>(
            a, (const T *)a.x + line * a.g.w * a.g.x_pitch + at.k,
            (const T *)a.w + r * R * a.g.k + at.k, inside, column, acc);
    }
    depthwise_finish<T, V, TW>(a.out, (at.n * a.g.p + at.p) * a.g.q + at.q,
                               at.k, a.g.q - at.q, acc);
}

/* ---- the host's side ----------------------------------------------- */

/* Pixels may lie further apart than their channels: by whole vectors of what a
 * thread moves at once. */
static inline int depthwise_check_pitches(const struct kern_problem *p,
                                          const struct conv_geometry *g,
                                          struct infer_error *why)
{
    const int v =
        depthwise_window_vector(g, infer_dtype_size(p->in[CONV_X].dtype));
    const int in = g->kg == 1 ? v : g->kg == 2 ? conv_ceil_div(v, 2) : 1;

    if (g->x_pitch % in == 0 && g->y_pitch % v == 0 && g->r_pitch % v == 0)
        return 0;
    return error_set(
        why, INFER_EUNSUPPORTED,
        "takes pixels that lie multiples of %d, %d and %d elements "
        "apart, found %d, %d and %d",
        in, v, v, g->x_pitch, g->y_pitch, g->r_pitch);
}

static inline int depthwise_supports(const struct kern_problem *p,
                                     const struct kern_device *d,
                                     struct infer_error *why)
{
    struct conv_geometry g;
    int r = conv_geometry_read_pitched(p, &g, why);

    (void)d;
    if (r == 0)
        r = depthwise_check_pitches(p, &g, why);
    if (r == 0)
        r = p->constant_in & 1u << CONV_W ? conv_weights_packable(p, why)
                                          : depthwise_weights_readable(p, why);
    if (r == 0 && g.cg != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "%d channels a group, supported 1", g.cg);
    return r;
}

/* Microseconds of the bytes, at 3 TB/s, which the caches make possible, and of
 * a launch, 2. */
static inline double depthwise_bytes_us(const struct kern_problem *p)
{
    return (p->constant_in & 1u << CONV_W ? 2 : 4) +
           kern_problem_bytes(p) / 3e6;
}

/* True if the unrolled kernel computes the problem.  It reads a pixel of the
 * image even if its window has none. */
static inline bool depthwise_is_unrolled(const struct conv_geometry *g,
                                         size_t size)
{
    return g->h > 0 && g->w > 0 && g->kg == 1 && g->k % (16 / (int)size) == 0 &&
           g->r == g->s && (g->r == 3 || g->r == 5) &&
           g->stride_h == g->stride_w && g->stride_w <= 2 &&
           g->dilation_h == 1 && g->dilation_w == 1;
}

/* Multiply-adds a microsecond and multiprocessor: 29.6e6 instructions over 132
 * multiprocessors of an H200, of which the kernel takes so many a product
 * (depthwise_window.cuh), at 0.6 of the peak; tiles by what mma.sync needs. */
static inline double depthwise_rate(const struct kern_problem *p,
                                    const struct conv_geometry *g,
                                    const struct kern_device *d)
{
    const size_t size = infer_dtype_size(p->in[CONV_X].dtype);
    const int v = depthwise_window_vector(g, size);

    if (depthwise_tile_takes(p, g, d))
        return 1.9e5;
    if (v == 1)
        return 0.9e4;
    if (v == 2)
        return 1.8e4;
    if (v == 4)
        return depthwise_window_slides(g) ? 7e4 : 5e4;
    return depthwise_window_slides(g) ? 7.7e4 : 4.5e4;
}

/* Microseconds: the bytes, or the products where the window makes them
 * longer. */
static inline double depthwise_estimate(const struct kern_problem *p,
                                        const struct kern_device *d)
{
    const double bytes = depthwise_bytes_us(p);
    struct conv_geometry g;
    struct infer_error why;

    if (conv_geometry_read_pitched(p, &g, &why) < 0 ||
        depthwise_is_unrolled(&g, infer_dtype_size(p->in[CONV_X].dtype)))
        return bytes;
    const double products =
        (double)g.m * g.k * g.r * g.s /
        (depthwise_rate(p, &g, d) * conv_multiprocessors(d));
    return 2 + (products > bytes ? products : bytes);
}

enum { DEPTHWISE_WIDTHS = 3, DEPTHWISE_TILES = 4 };
enum { DEPTHWISE_VARIANTS = DEPTHWISE_WIDTHS + DEPTHWISE_TILES };

/* Threads of 8 channels by `width` outputs. */
static inline int64_t depthwise_threads(const struct conv_geometry *g,
                                        int width)
{
    return (int64_t)(g->k / 8) * g->n * g->p * conv_ceil_div(g->q, width);
}

/* Outputs a thread computes along the width, by variant.  The best depends on
 * how far the image fills the device (measured, H200).  If one output a thread
 * does not fill it, more take longer.  5x5 windows of stride 2 run out of
 * registers.  Windows of stride 1 share the most loads and take 4 as soon as
 * that keeps 384 threads a multiprocessor, 5x5 windows only if no more outputs
 * lie outside the image than with 2.  Windows that are a loop take 4 or 1; 0 is
 * no width. */
static inline int depthwise_width(const struct conv_geometry *g, size_t size,
                                  const struct kern_device *d, int variant)
{
    static const int loop[][DEPTHWISE_WIDTHS] = {{4, 1, 0}, {1, 4, 0}};
    static const int order[][DEPTHWISE_WIDTHS] = {
        {2, 4, 1}, {4, 2, 1}, {1, 2, 4}};
    const int64_t sm = conv_multiprocessors(d);
    const bool even = 2 * conv_ceil_div(g->q, 4) == conv_ceil_div(g->q, 2);
    int row = 0;

    if (!depthwise_is_unrolled(g, size))
        return loop[depthwise_threads(g, 4) <= 256 * sm][variant];
    if (depthwise_threads(g, 1) <= 512 * sm || (g->r == 5 && g->stride_w == 2))
        row = 2;
    else if (depthwise_threads(g, 4) >= 384 * sm && g->stride_w == 1 &&
             (g->r == 3 || even))
        row = 1;
    return order[row][variant];
}

struct depthwise_state {
    struct conv_geometry g;
    int width; /* 0: by tiles */
    struct depthwise_tile tile;
    bool packs; /* before each launch */
};

/* True if tiles are the first variants: with many outputs (measured, H200), and
 * for windows that would be a loop. */
static inline bool depthwise_tiles_first(const struct conv_geometry *g,
                                         const struct kern_device *d)
{
    const int64_t each =
        (int64_t)g->m * g->k / conv_multiprocessors(d); /* outputs */

    return g->r > 5 || each >= (g->r == 5 ? 12000 : 40000);
}

/* Tile `number` of the problem, the likely one first: the last of the list is
 * low enough for a block on each multiprocessor, and differs from the first
 * only where that leaves some without. */
static inline bool depthwise_tile_number(const struct conv_geometry *g,
                                         const struct kern_device *d,
                                         int number, struct depthwise_tile *t)
{
    static const struct {
        int blocks, kib;
        bool low;
    } tiles[DEPTHWISE_TILES] = {
        {1, 40, false}, {1, 24, false}, {2, 72, false}, {1, 40, true}};
    const int64_t sm = conv_multiprocessors(d);

    if (number < 0 || number >= DEPTHWISE_TILES ||
        !depthwise_tile_of(g, tiles[0].blocks, tiles[0].kib * 1024, g->p, t))
        return false;
    const int64_t columns =
        (int64_t)t->slices * t->across * conv_ceil_div(g->n, t->images);
    const bool few = columns * t->down < sm;
    const int64_t low = columns * g->p / sm;
    const int i =
        few ? (number + DEPTHWISE_TILES - 1) % DEPTHWISE_TILES : number;
    if (tiles[i].low && !few)
        return false;
    t->kib = tiles[i].kib;
    return depthwise_tile_of(g, tiles[i].blocks, tiles[i].kib * 1024,
                             !tiles[i].low ? g->p
                             : low > 1     ? (int)low
                                           : 1,
                             t);
}

/* How variant e->variant computes the problem. */
static inline int depthwise_choose(struct kern_exec *e,
                                   const struct kern_device *d,
                                   struct depthwise_state *s,
                                   struct infer_error *err)
{
    const size_t size = infer_dtype_size(e->problem.in[CONV_X].dtype);
    const bool takes = depthwise_tile_takes(&e->problem, &s->g, d);
    const bool first = takes && depthwise_tiles_first(&s->g, d);
    const int tile = e->variant - (first ? 0 : DEPTHWISE_WIDTHS);
    const int width = e->variant - (first ? DEPTHWISE_TILES : 0);

    s->width = width >= 0 && width < DEPTHWISE_WIDTHS
                   ? depthwise_width(&s->g, size, d, width)
                   : 0;
    /* Tiles add products in another order than threads.  The quicker of the two
     * for most batches has the sums of a KERN_INVARIANT row. */
    if (takes && (s->width > 0) == (s->g.r > 5))
        e->flags |= KERN_OTHER_SUMS;
    if (s->width > 0) {
        snprintf(e->variant_name, sizeof(e->variant_name), "width%d", s->width);
        return 0;
    }
    if (!takes || !depthwise_tile_number(&s->g, d, tile, &s->tile))
        return error_set(err, INFER_EUNSUPPORTED, "%s has no variant %d",
                         e->row->name, e->variant);
    snprintf(e->variant_name, sizeof(e->variant_name), "tile%d_%dk_%dx%d",
             s->tile.blocks, s->tile.kib, s->tile.rows, s->tile.columns);
    return 0;
}

static inline int depthwise_variants(const struct kern_problem *p,
                                     const struct kern_device *d,
                                     struct infer_error *err)
{
    (void)p;
    (void)d;
    (void)err;
    return DEPTHWISE_VARIANTS;
}

static inline int depthwise_prepare(struct kern_exec *e,
                                    const struct kern_device *d,
                                    struct infer_error *err)
{
    struct depthwise_state *s;
    int r;

    s = (struct depthwise_state *)malloc(sizeof(*s));
    r = s ? conv_geometry_read_pitched(&e->problem, &s->g, err)
          : error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);
    if (r == 0)
        r = depthwise_choose(e, d, s, err);
    if (r < 0) {
        free(s);
        return r;
    }
    s->packs = !(e->problem.constant_in & 1u << CONV_W);
    e->state = s;
    if (s->packs)
        e->workspace = depthwise_pack_bytes(e, &s->g);
    else
        e->packed[CONV_W] = depthwise_pack_bytes(e, &s->g);
    return 0;
}

static inline int depthwise_pack(const struct kern_exec *e, int i,
                                 const void *src, void *dst,
                                 struct infer_error *err)
{
    (void)err;
    conv_pack_taps(&((const struct depthwise_state *)e->state)->g,
                   e->problem.in[i].dtype, src, e->problem.in[CONV_X].dtype,
                   dst);
    return 0;
}

template <typename T, int R, int STRIDE, int TW>
static int depthwise_launch_width(struct depthwise_args *a, void *stream,
                                  struct infer_error *err)
{
    enum { V = 16 / (int)sizeof(T) };

    depthwise_split(a, V, TW);
    return launch_chained(depthwise_unrolled<T, V, R, STRIDE, TW>,
                          dim3(cuda_blocks(a->count, DEPTHWISE_THREADS)),
                          dim3(DEPTHWISE_THREADS), 0, stream, *a, err);
}

template <typename T, int R, int STRIDE>
static int depthwise_launch_unrolled(struct depthwise_args *a, int width,
                                     void *stream, struct infer_error *err)
{
    return width == 4 ? depthwise_launch_width<T, R, STRIDE, 4>(a, stream, err)
           : width == 2
               ? depthwise_launch_width<T, R, STRIDE, 2>(a, stream, err)
               : depthwise_launch_width<T, R, STRIDE, 1>(a, stream, err);
}

template <typename T>
static int depthwise_launch_tiles(const struct depthwise_state *s,
                                  const struct depthwise_args *from,
                                  void *stream, struct infer_error *err)
{
    struct depthwise_tile_args a = {};

    a.g = s->g;
    a.t = s->tile;
    a.x = from->x;
    a.w = from->w;
    a.out = from->out;
    return depthwise_tile_launch<T>(&a, stream, err);
}

template <typename T>
static int depthwise_launch(const struct kern_exec *e,
                            const struct kern_args *args,
                            struct infer_error *err)
{
    struct depthwise_args a;
    const struct depthwise_state *s = (const struct depthwise_state *)e->state;
    const struct conv_geometry *g = &s->g;
    const int stride = g->stride_w, w = s->width;

    if (g->m == 0)
        return 0;
    if (s->packs) {
        const int r = depthwise_pack_weights<T>(e, g, args, err);
        if (r < 0)
            return r;
    }
    a.g = *g;
    a.x = args->in[CONV_X];
    a.w = s->packs ? args->workspace : args->in[CONV_W];
    a.out = output_of(e, args, g->k);
    a.out.y_pitch = g->y_pitch;
    a.out.r_pitch = g->r_pitch;
    if constexpr (sizeof(T) == 2)
        if (s->width == 0)
            return depthwise_launch_tiles<T>(s, &a, args->stream, err);
    if (!depthwise_is_unrolled(g, sizeof(T)))
        return depthwise_launch_window<T>(&a, w, args->stream, err);
    if (g->r == 3)
        return stride == 1
                   ? depthwise_launch_unrolled<T, 3, 1>(&a, w, args->stream,
                                                        err)
                   : depthwise_launch_unrolled<T, 3, 2>(&a, w, args->stream,
                                                        err);
    return stride == 1
               ? depthwise_launch_unrolled<T, 5, 1>(&a, w, args->stream, err)
               : depthwise_launch_unrolled<T, 5, 2>(&a, w, args->stream, err);
}

#define DEPTHWISE_ROW(symbol, T)                                               \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = depthwise_supports,                                        \
        .estimate = depthwise_estimate,                                        \
        .variants = depthwise_variants,                                        \
        .prepare = depthwise_prepare,                                          \
        .pack = depthwise_pack,                                                \
        .launch = depthwise_launch<T>,                                         \
        .release = cuda_state_release,                                         \
    };

#endif
