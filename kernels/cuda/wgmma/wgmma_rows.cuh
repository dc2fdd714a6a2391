/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the wgmma rows: limits, packing, launch, and the macros
 * that make a row of each tile. */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_ROWS_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_ROWS_CUH

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/wgmma/wgmma_cluster.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"
#include "kernels/cuda/wgmma/wgmma_tile.cuh"

struct wgmma_state {
    struct conv_geometry g;
    int im2col, per_position, k_tiles;
    int pitch; /* of the packed weights' rows */
    int tiles_m, tiles_n;
    int cluster; /* blocks that share a tile */
    int multiprocessors;
};

/* ---- plans --------------------------------------------------------- */

/* Blocks of a cluster: as many as there are places; 2 k-tiles or more each, and
 * for 8, which every GPU can schedule but which cost more, 4. */
static inline int wgmma_cluster_size(int64_t tiles, int k_tiles, int resident)
{
    int size = k_tiles < 32 ? 4 : 8;

    while (size > 1 && (size * tiles > resident || k_tiles < 2 * size))
        size /= 2;
    return size;
}

/* Whether weights come from memory rather than from the L2 cache. */
template <typename C> static bool wgmma_is_streamed(const struct wgmma_state *s)
{
    return (int64_t)s->g.k * s->pitch *
               (int64_t)sizeof(typename C::mode::type) >=
           16 << 20;
}

/* Bytes of shared memory up to which two blocks fit a multiprocessor: half of
 * 233,472, of which each block takes 1,024 beside its own. */
#define WGMMA_SHARED_TWO_CTAS 115712

/* The blocks of a cluster by variant.  One block a multiprocessor leaves room
 * for the first blocks of the kernel behind; two keep more copies under way,
 * which pays where weights come from memory.  Variant 0 is what this rule says,
 * variant 1 the other. */
template <typename C>
static int wgmma_cluster_of(const struct wgmma_state *s, int variant)
{
    const int64_t tiles = (int64_t)s->tiles_m * s->tiles_n;
    const bool two = wgmma_is_streamed<C>(s) != (variant != 0);
    const int each = C::TWO_FIT && two ? 2 : 1;

    return wgmma_cluster_size(tiles, s->k_tiles, each * s->multiprocessors);
}

template <typename C>
static int wgmma_configure(const struct kern_problem *p,
                           const struct kern_device *d, int variant,
                           struct wgmma_state *s, struct infer_error *why)
{
    const int r = conv_geometry_read_pitched(p, &s->g, why);
    const struct conv_geometry *g = &s->g;
    const int width = 128 / (int)sizeof(typename C::mode::type);

    if (r < 0)
        return r;
    s->im2col = g->r != 1 || g->s != 1 || g->stride_h != 1 ||
                g->stride_w != 1 || g->p != g->h || g->q != g->w ||
                g->pad_top || g->pad_left;
    s->per_position = conv_ceil_div(g->cg, width);
    s->k_tiles = g->r * g->s * s->per_position;
    s->pitch = s->k_tiles * width;
    s->multiprocessors = conv_multiprocessors(d);
    s->tiles_m = conv_ceil_div(g->m, C::BM);
    s->tiles_n = conv_ceil_div(g->k, C::BN);
    s->cluster = C::CLUSTER ? wgmma_cluster_of<C>(s, variant) : 1;
    return 0;
}

template <typename C>
static int wgmma_variants(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *err)
{
    struct wgmma_state s;
    const int r = wgmma_configure<C>(p, d, 1, &s, err);

    return r < 0 ? r : s.cluster == wgmma_cluster_of<C>(&s, 0) ? 1 : 2;
}

/* ---- limits -------------------------------------------------------- */

/* What a map of windows can say of one axis: corners of 8 bits, offsets below
 * 256, strides up to 8. */
static inline bool wgmma_axis_fits(int extent, int outputs, int window,
                                   int stride, int dilation, int pad)
{
    const int64_t upper =
        (int64_t)(outputs - 1) * stride + 1 - extent - (int64_t)pad;

    return (int64_t)(window - 1) * dilation <= 255 && stride <= 8 &&
           pad >= -127 && pad <= 128 && upper >= -128 && upper <= 127;
}

static inline bool wgmma_im2col_fits(const struct conv_geometry *g)
{
    return wgmma_axis_fits(g->h, g->p, g->r, g->stride_h, g->dilation_h,
                           g->pad_top) &&
           wgmma_axis_fits(g->w, g->q, g->s, g->stride_w, g->dilation_w,
                           g->pad_left);
}

template <typename C>
static int wgmma_supports(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    const int lane = 16 / (int)sizeof(typename C::mode::type);
    struct wgmma_state s;
    int r = wgmma_configure<C>(p, d, 0, &s, why);

    if (r == 0)
        r = conv_weights_packable(p, why);
    if (r == 0)
        r = wgmma_check_device(d, why);
    if (r < 0)
        return r;
    if (s.g.groups != 1 || s.g.c % lane || s.g.k % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group, inputs in %ds and outputs in 8s, "
                         "found %d groups of %d to %d channels",
                         lane, s.g.groups, s.g.cg, s.g.kg);
    if (s.g.x_pitch % lane || s.g.y_pitch % lane || s.g.r_pitch % lane)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes pixels that lie multiples of %d elements "
                         "apart, found %d, %d and %d",
                         lane, s.g.x_pitch, s.g.y_pitch, s.g.r_pitch);
    if (s.im2col && !wgmma_im2col_fits(&s.g))
        return error_set(why, INFER_EUNSUPPORTED,
                         "window, stride or pads are too large for the copy "
                         "engine");
    if (s.g.m == 0 || (int64_t)s.tiles_m * s.tiles_n > INT32_MAX / 16)
        return error_set(why, INFER_EUNSUPPORTED, "has no or too many outputs");
    if (!C::CLUSTER && C::BN < 8 * lane && s.g.k > C::BN)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to %d outputs, found %d", (int)C::BN, s.g.k);
    if (!C::CLUSTER && !unary_is_in_place(p->epilogue.act.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "its activation is left to other kernels");
    if (C::mode::INPUT_SCALE &&
        (s.im2col || !input_scale_of(p) ||
         !kern_tensor_is_dense(input_scale_of(p), KERN_NCHW)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense factors, and windows of one without "
                         "strides and pads");
    if (bn_stats_of(p) &&
        (p->epilogue.act.kind != KERN_IDENTITY ||
         kern_problem_in(p, CONV_RESIDUAL) || p->out[1].dtype != INFER_F32 ||
         p->out[1].dim[0] != conv_ceil_div(s.g.m, 64)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes F32 moments of 64 pixels each, without "
                         "residual and activation");
    return 0;
}

/* ---- heuristic ----------------------------------------------------- */

/* Microseconds, roughly; the constants are fitted to what kbench measured on an
 * H200.  Of a k-tile of a tile: at 1.7 GHz a multiprocessor multiplies 2048
 * halves or 1024 TF32 a cycle, of which a tile reaches PERCENT. */
template <typename C> static double wgmma_k_tile_us(void)
{
    const int products = C::mode::WEIGHTS == 2 ? 3 : 1;
    const int cycles = products * C::BM * C::BN / 32, percent = C::PERCENT;

    return cycles / (17.0 * percent);
}

/* Megabytes to move: what fits the L2 cache comes quicker. */
static inline double wgmma_traffic_us(double mb)
{
    return mb / 6.4 + (mb > 30 ? (mb - 30) / 13 : 0);
}

/* The bytes.  Channels that end within a line of 128 bytes make two blocks
 * write it. */
static inline double wgmma_bytes_us(const struct kern_problem *p,
                                    const struct conv_geometry *g)
{
    const int size = (int)infer_dtype_size(p->out[0].dtype);
    const bool ragged = g->k * size % 128 || g->y_pitch * size % 128;
    const double more = ragged ? 0.55 * size * g->m * (double)g->k : 0;

    return wgmma_traffic_us(1e-6 * (cost_conv_bytes(p, g) + more));
}

/* A consumer's slots of one tile.  The grid's step keeps a block on the same
 * channels where tiles_n divides it; then the fullest tiles last longest. */
template <typename C>
static double wgmma_stores_us(const struct kern_problem *p,
                              const struct wgmma_state *s)
{
    const int columns = 128 / (int)sizeof(typename C::mode::type);
    const int full = s->g.k < C::BN ? s->g.k : (int)C::BN;
    const double epilogue =
        s->multiprocessors % s->tiles_n == 0
            ? conv_ceil_div(full, columns)
            : conv_ceil_div(s->g.k, columns) / (double)s->tiles_n;
    const double slot = bn_stats_of(p)                      ? 1
                        : unary_bends(p->epilogue.act.kind) ? 0.45
                                                            : 0.85;
    const double residual = kern_problem_in(p, CONV_RESIDUAL) ? 0.1 : 0;

    return (int)C::MT * epilogue * (slot + residual);
}

/* Rounds of tiles, their products one after another, each team's stores behind
 * its own; or the bytes.  The clock is higher and the L2 cache less asked where
 * few multiprocessors have work, but where a product is three it is registers
 * that are asked. */
template <typename C>
static double wgmma_estimate_tile(const struct kern_problem *p,
                                  const struct wgmma_state *s)
{
    const int tiles = s->tiles_m * s->tiles_n;
    const int waves = conv_ceil_div(tiles, s->multiprocessors);
    const double idle = 1 - tiles / (2.0 * s->multiprocessors);
    const bool eased = C::mode::WEIGHTS == 1 && idle > 0;
    const double k_tile = wgmma_k_tile_us<C>() * (eased ? 1 - 0.245 * idle : 1);
    const double products = s->k_tiles * k_tile + 0.33;
    const double stores = wgmma_stores_us<C>(p, s);
    double time = waves * (products + stores);

    if (C::WGS == 2 * C::COOP) { /* teams take turns */
        const double all = waves * products + stores;
        const double one = (waves + 1) / 2 * (products + stores);
        time = all > one ? all : one;
    }
    return 1.35 + cost_together(time, wgmma_bytes_us(p, &s->g), 0.36);
}

/* How often the clusters fill the GPU.  The blocks of one lie in one of the
 * GPU's parts, about 16 multiprocessors, in each of which half a cluster's
 * places are left over on average. */
template <typename C> static double wgmma_waves(const struct wgmma_state *s)
{
    const int each = C::TWO_FIT ? 2 : 1, parts = s->multiprocessors / 16;
    const int resident =
        each * s->multiprocessors - parts * (s->cluster - 1) / 2;
    const int clusters = resident > s->cluster ? resident / s->cluster : 1;
    const int tiles = s->tiles_m * s->tiles_n;

    return tiles > 3 * clusters ? tiles / (double)clusters + 0.5
                                : conv_ceil_div(tiles, clusters);
}

/* Waves of clusters; a block fills its pipeline, multiplies and passes its sums
 * on. Few k-tiles come no sooner than they are fetched; blocks that lie
 * together on a multiprocessor share its rate.  Where weights come from memory,
 * what a tile takes in sets the pace, its empty rows too; a deep pipeline has
 * more of it under way. */
template <typename C>
static double wgmma_estimate_cluster(const struct kern_problem *p,
                                     const struct wgmma_state *s)
{
    const int most = C::TWO_FIT ? 2 : 1;
    const double blocks = (double)s->tiles_m * s->tiles_n * s->cluster;
    const double load = blocks / s->multiprocessors;
    const double shared = (load < most ? load : most) * wgmma_k_tile_us<C>();
    /* Splitting the pixels in registers takes as long whatever BN is. */
    const double alone = C::mode::WEIGHTS == 2 ? 0.6 : 0.24;
    const double k_tile = shared > alone ? shared : alone;
    const int rows = (int)C::BM + (int)C::mode::WEIGHTS * (int)C::BN;
    const double rest = 0.35 + 0.018 * rows + (s->cluster > 1 ? 0.5 : 0);
    const double block = s->k_tiles / (double)s->cluster * k_tile + rest;
    const double taken = (double)s->tiles_n * s->k_tiles * 128 * rows;
    const double moved = cost_conv_bytes(p, &s->g) / 2.6e6;
    const double pace = taken / (C::DEEP ? 8e6 : 5e6);
    const double bytes = !wgmma_is_streamed<C>(s)  ? moved
                         : pace > moved || C::DEEP ? pace
                                                   : moved;

    return cost_together(wgmma_waves<C>(s) * block, bytes, 0.2);
}

template <typename C>
static double wgmma_estimate(const struct kern_problem *p,
                             const struct kern_device *d)
{
    struct wgmma_state s;

    if (wgmma_configure<C>(p, d, 0, &s, NULL) < 0 || s.tiles_n == 0)
        return 1e30;
    return C::estimate(p, &s);
}

/* ---- preparing ----------------------------------------------------- */

template <typename C>
static int wgmma_prepare(struct kern_exec *e, const struct kern_device *d,
                         struct infer_error *err)
{
    struct wgmma_state *s = (struct wgmma_state *)malloc(sizeof(*s));
    const int r =
        s ? wgmma_configure<C>(&e->problem, d, e->variant, s, err)
          : error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);

    if (r < 0) {
        free(s);
        return r;
    }
    e->state = s;
    if (C::CLUSTER)
        snprintf(e->variant_name, sizeof(e->variant_name), "cluster%d",
                 s->cluster);
    e->packed[CONV_W] = C::mode::WEIGHTS * (size_t)s->g.k * (size_t)s->pitch *
                        sizeof(typename C::mode::type);
    return 0;
}

/* Puts packed weights of 16 bits in the order of wgmma_input_scale_channel().
 */
static inline void wgmma_permute_weights(int64_t count, uint16_t *w)
{
    uint16_t k_tile[64];

    for (; count > 0; count -= 64, w += 64) {
        memcpy(k_tile, w, sizeof(k_tile));
        for (int d = 0; d < 64; d++)
            w[d] = k_tile[wgmma_input_scale_channel(d)];
    }
}

template <typename C>
static int wgmma_pack(const struct kern_exec *e, int i, const void *src,
                      void *dst, struct infer_error *err)
{
    const struct wgmma_state *s = (const struct wgmma_state *)e->state;
    const enum infer_dtype to = e->problem.in[CONV_X].dtype;

    (void)err;
    conv_pack_rows(&s->g, e->problem.in[i].dtype, src, to, C::ROUND,
                   s->pitch / (s->g.r * s->g.s), s->pitch, dst);
    if (C::mode::INPUT_SCALE)
        wgmma_permute_weights((int64_t)s->g.k * s->pitch, (uint16_t *)dst);
    if (C::mode::WEIGHTS == 2)
        conv_split_tf32((int64_t)s->g.k * s->pitch, (float *)dst);
    return 0;
}

/* ---- launching ----------------------------------------------------- */

/* The maps of x and w, for boxes of bm and bn rows.  tf32: x is rounded on its
 * way; weights: matrices of w. */
static inline int wgmma_load_maps(const struct kern_exec *e,
                                  const struct kern_args *args,
                                  const struct wgmma_state *s, int bm, int bn,
                                  bool tf32, int weights, struct wgmma_args *a,
                                  struct infer_error *err)
{
    const enum tensor_map_type type =
        tensor_map_type_of(e->problem.in[CONV_X].dtype);
    const enum tensor_map_type x_type = tf32 ? TENSOR_MAP_TF32 : type;
    const void *x = args->in[CONV_X];
    const int r = s->im2col
                      ? tensor_map_im2col(&a->x, x_type, x, &s->g, bm, err)
                      : tensor_map_matrix(&a->x, x_type, x, s->g.m, s->g.c,
                                          s->g.x_pitch, bm, err);

    return r < 0 ? r
                 : tensor_map_matrix(&a->w, type, args->in[CONV_W],
                                     weights * s->g.k, s->pitch, s->pitch, bn,
                                     err);
}

/* The maps of the output and of the residual. */
static inline int wgmma_store_maps(const struct wgmma_state *s,
                                   enum infer_dtype dtype, struct wgmma_args *a,
                                   struct infer_error *err)
{
    const enum tensor_map_type type = tensor_map_type_of(dtype);
    int r = a->unaligned ? 0
                         : tensor_map_matrix(&a->y, type, a->out.y, s->g.m,
                                             s->g.k, s->g.y_pitch, 16, err);

    if (r == 0 && a->out.residual)
        r = tensor_map_matrix(&a->residual, type, a->out.residual, s->g.m,
                              s->g.k, s->g.r_pitch, 64, err);
    return r;
}

template <typename C>
static int wgmma_fill(const struct kern_exec *e, const struct kern_args *args,
                      struct wgmma_args *a, struct infer_error *err)
{
    const struct wgmma_state *s = (const struct wgmma_state *)e->state;

    memset(a, 0, sizeof(*a));
    a->g = s->g;
    a->out = output_of(e, args, s->g.k);
    a->out.y_pitch = s->g.y_pitch;
    a->out.r_pitch = s->g.r_pitch;
    a->bn_stats = bn_stats_of(&e->problem) ? (float *)args->out[1] : NULL;
    a->factors = C::mode::INPUT_SCALE ? args->in[INPUT_SCALE_IN] : NULL;
    if (C::mode::INPUT_SCALE)
        a->pixels.init((uint32_t)(s->g.p * s->g.q));
    a->unaligned = (uintptr_t)a->out.y % 16 != 0;
    a->im2col = s->im2col;
    a->known = !a->out.bias || (e->problem.constant_in & 1u << CONV_BIAS);
    a->per_position = s->per_position;
    a->k_tiles = s->k_tiles;
    a->tiles_m = s->tiles_m;
    a->tiles_n = s->tiles_n;
    return wgmma_load_maps(e, args, s, C::BM, C::BN,
                           C::ROUND == CONV_ROUND_TF32, C::mode::WEIGHTS, a,
                           err);
}

template <typename C>
static int wgmma_launch_tile(const struct kern_exec *e,
                             const struct kern_args *args,
                             struct infer_error *err)
{
    typedef wgmma_tile<typename C::mode, C::MT, C::COOP, C::WGS, C::BN,
                       C::STAGES, C::EPI_STAGES>
        L;
    void (*const plain)(const struct wgmma_args) =
        wgmma_tile_kernel<typename C::mode, C::MT, C::COOP, C::WGS, C::BN,
                          C::STAGES, C::EPI_STAGES, false>;
    void (*const measuring)(const struct wgmma_args) =
        wgmma_tile_kernel<typename C::mode, C::MT, C::COOP, C::WGS, C::BN,
                          C::STAGES, C::EPI_STAGES, C::BN_STATS != 0>;
    const struct wgmma_state *s = (const struct wgmma_state *)e->state;
    const int tiles = s->tiles_m * s->tiles_n;
    struct wgmma_args a;
    int r = wgmma_fill<C>(e, args, &a, err);

    if (r == 0)
        r = wgmma_store_maps(s, e->problem.in[CONV_X].dtype, &a, err);
    if (r < 0)
        return r;
    return launch_chained(
        a.bn_stats ? measuring : plain,
        dim3(tiles < s->multiprocessors ? tiles : s->multiprocessors),
        dim3(L::THREADS), L::SHARED, args->stream, a, err);
}

template <typename C>
static int wgmma_launch_cluster(const struct kern_exec *e,
                                const struct kern_args *args,
                                struct infer_error *err)
{
    typedef wgmma_cluster<typename C::mode, C::WGS, C::BN, C::STAGES> L;
    const struct wgmma_state *s = (const struct wgmma_state *)e->state;
    struct wgmma_args a;
    const int r = wgmma_fill<C>(e, args, &a, err);

    if (r < 0)
        return r;
    void (*const kernel)(const struct wgmma_args) =
        wgmma_cluster_kernel<typename C::mode, C::WGS, C::BN, C::STAGES>;
    const int tiles = s->tiles_m * s->tiles_n;
    if (s->cluster == 1)
        return launch_chained(kernel, dim3(tiles), dim3(L::THREADS), L::SHARED,
                              args->stream, a, err);
    return launch_clusters(kernel, tiles * s->cluster, s->cluster, L::THREADS,
                           L::SHARED, args->stream, a, err);
}

/* ---- rows ---------------------------------------------------------- */

#define WGMMA_ROW(symbol, run)                                                 \
    const struct kern_functions symbol = {                                     \
        .supports = wgmma_supports<symbol##_config>,                           \
        .estimate = wgmma_estimate<symbol##_config>,                           \
        .variants =                                                            \
            symbol##_config::CLUSTER ? wgmma_variants<symbol##_config> : NULL, \
        .prepare = wgmma_prepare<symbol##_config>,                             \
        .pack = wgmma_pack<symbol##_config>,                                   \
        .launch = run<symbol##_config>,                                        \
        .release = cuda_state_release,                                         \
    };

#define WGMMA_ROUND(row_flags)                                                 \
    ((row_flags)&KERN_TF32 ? CONV_ROUND_TF32 : CONV_ROUND_TYPE)

/* percent: what the tile reaches of the multiprocessor's rate.  Moments want
 * slots of 64 halves. */
#define WGMMA_TILE_ROW(symbol, operation, m, row_flags, mt, role, wgs, bn,     \
                       stages, epilogue, percent)                              \
    struct symbol##_config {                                                   \
        typedef m mode;                                                        \
        static const enum conv_round ROUND = WGMMA_ROUND(row_flags);           \
        enum {                                                                 \
            CLUSTER = 0,                                                       \
            MT = mt,                                                           \
            COOP = role,                                                       \
            WGS = wgs,                                                         \
            BM = 64 * mt * role,                                               \
            BN = bn,                                                           \
            STAGES = stages,                                                   \
            EPI_STAGES = epilogue,                                             \
            TWO_FIT = 0,                                                       \
            BN_STATS = m::HALF && !m::INPUT_SCALE && bn >= 64 &&               \
                       (operation) == KERN_CONV_FPROP,                         \
            PERCENT = percent                                                  \
        };                                                                     \
        static double estimate(const struct kern_problem *p,                   \
                               const struct wgmma_state *s)                    \
        {                                                                      \
            return wgmma_estimate_tile<symbol##_config>(p, s);                 \
        }                                                                      \
    };                                                                         \
    WGMMA_ROW(symbol, wgmma_launch_tile)

#define WGMMA_CLUSTER_ROW(symbol, m, row_flags, wgs, bn, stages, percent)      \
    struct symbol##_config {                                                   \
        typedef m mode;                                                        \
        static const enum conv_round ROUND = WGMMA_ROUND(row_flags);           \
        enum {                                                                 \
            CLUSTER = 1,                                                       \
            WGS = wgs,                                                         \
            BM = 64 * wgs,                                                     \
            BN = bn,                                                           \
            STAGES = stages,                                                   \
            TWO_FIT = wgmma_cluster<m, wgs, bn, stages>::SHARED <=             \
                      WGMMA_SHARED_TWO_CTAS,                                   \
            DEEP = !TWO_FIT && (stages) > 5,                                   \
            BN_STATS = 0,                                                      \
            PERCENT = percent                                                  \
        };                                                                     \
        static double estimate(const struct kern_problem *p,                   \
                               const struct wgmma_state *s)                    \
        {                                                                      \
            return wgmma_estimate_cluster<symbol##_config>(p, s);              \
        }                                                                      \
    };                                                                         \
    WGMMA_ROW(symbol, wgmma_launch_cluster)

/* The tiles of one type; names give outputs x channels.
 * Persistent tiles, shared memory in bytes of 232,448:
 *   128x256  two consumers share a tile          229,472
 *   192x128  three share one                     213,168
 *   128x128  two take tiles in turn              213,136
 *   256x64   two take tiles in turn              229,568
 *   128x64   two take tiles in turn              188,592
 *   64x256   two take tiles in turn              213,136
 *   128x32   two take tiles in turn              188,640
 * Clusters: 128x128 200,776 (4 stages); where two blocks fit a multiprocessor,
 * up to 115,712: 64x64 100,456 (5), 64x32 108,680 (8); for weights that come
 * from memory, of which a deep pipeline has most under way: 64x64 215,240 (12),
 * 128x64 209,016 (7). */
#define WGMMA_ROWS(conv, dense, m, flags)                                      \
    WGMMA_TILE_ROW(conv##_128x256, KERN_CONV_FPROP, m, flags, 1, 2, 2, 256, 4, \
                   2, 77)                                                      \
    WGMMA_TILE_ROW(conv##_192x128, KERN_CONV_FPROP, m, flags, 1, 3, 3, 128, 4, \
                   2, 80)                                                      \
    WGMMA_TILE_ROW(conv##_128x128, KERN_CONV_FPROP, m, flags, 2, 1, 2, 128, 4, \
                   5, 84)                                                      \
    WGMMA_TILE_ROW(conv##_256x64, KERN_CONV_FPROP, m, flags, 4, 1, 2, 64, 4,   \
                   4, 76)                                                      \
    WGMMA_TILE_ROW(conv##_128x64, KERN_CONV_FPROP, m, flags, 2, 1, 2, 64, 5,   \
                   4, 67)                                                      \
    WGMMA_TILE_ROW(conv##_64x256, KERN_CONV_FPROP, m, flags, 1, 1, 2, 256, 3,  \
                   5, 68)                                                      \
    WGMMA_TILE_ROW(conv##_128x32, KERN_CONV_FPROP, m, flags, 2, 1, 2, 32, 6,   \
                   4, 48)                                                      \
    WGMMA_CLUSTER_ROW(conv##_128x128_cluster, m, flags, 2, 128, 4, 85)         \
    WGMMA_CLUSTER_ROW(conv##_64x64_cluster, m, flags, 1, 64, 5, 46)            \
    WGMMA_CLUSTER_ROW(conv##_64x32_cluster, m, flags, 1, 32, 8, 31)            \
    WGMMA_TILE_ROW(dense##_128x128, KERN_DENSE_FPROP, m, flags, 2, 1, 2, 128,  \
                   4, 5, 84)                                                   \
    WGMMA_CLUSTER_ROW(dense##_128x128_cluster, m, flags, 2, 128, 4, 85)        \
    WGMMA_CLUSTER_ROW(dense##_64x64_cluster, m, flags, 1, 64, 5, 46)           \
    WGMMA_CLUSTER_ROW(dense##_64x32_cluster, m, flags, 1, 32, 8, 31)           \
    WGMMA_CLUSTER_ROW(dense##_64x64_deep, m, flags, 1, 64, 12, 46)             \
    WGMMA_CLUSTER_ROW(dense##_128x64_deep, m, flags, 2, 64, 7, 67)

/* The tiles whose input is multiplied with factors; registers hold 64 rows of a
 * k-tile and their factors beside the sums, hence no more than MT = 2. */
#define WGMMA_ROWS_INPUT_SCALE(conv, m)                                        \
    WGMMA_TILE_ROW(conv##_128x128, KERN_CONV_FPROP, m, KERN_INPUT_SCALE, 2, 1, \
                   2, 128, 4, 5, 60)                                           \
    WGMMA_TILE_ROW(conv##_128x64, KERN_CONV_FPROP, m, KERN_INPUT_SCALE, 2, 1,  \
                   2, 64, 5, 4, 45)                                            \
    WGMMA_TILE_ROW(conv##_128x32, KERN_CONV_FPROP, m, KERN_INPUT_SCALE, 2, 1,  \
                   2, 32, 6, 4, 30)                                            \
    WGMMA_CLUSTER_ROW(conv##_64x64_cluster, m, KERN_INPUT_SCALE, 1, 64, 5, 40) \
    WGMMA_CLUSTER_ROW(conv##_64x32_cluster, m, KERN_INPUT_SCALE, 1, 32, 8, 28)

/* The tiles in single precision, which need registers for
 * a second set of sums and two matrices of weights.
 *   128x128  two consumers share a tile          213,104
 *   128x64   two share a tile                    213,088
 * Clusters: 64x128 198,728 (4 stages), one block a
 * multiprocessor; 64x64 92,216 (3), 64x32 92,248 (5). */
#define WGMMA_ROWS_SPLIT(conv, dense, m, flags)                                \
    WGMMA_TILE_ROW(conv##_128x128, KERN_CONV_FPROP, m, flags, 1, 2, 2, 128, 3, \
                   4, 73)                                                      \
    WGMMA_TILE_ROW(conv##_128x64, KERN_CONV_FPROP, m, flags, 1, 2, 2, 64, 5,   \
                   3, 56)                                                      \
    WGMMA_CLUSTER_ROW(conv##_64x128_cluster, m, flags, 1, 128, 4, 54)          \
    WGMMA_CLUSTER_ROW(conv##_64x64_cluster, m, flags, 1, 64, 3, 63)            \
    WGMMA_CLUSTER_ROW(conv##_64x32_cluster, m, flags, 1, 32, 5, 27)            \
    WGMMA_TILE_ROW(dense##_128x128, KERN_DENSE_FPROP, m, flags, 1, 2, 2, 128,  \
                   3, 4, 73)                                                   \
    WGMMA_CLUSTER_ROW(dense##_64x64_cluster, m, flags, 1, 64, 3, 63)

#endif
