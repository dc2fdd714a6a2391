/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the wgmma rows: limits, estimates, packing, launch, and
 * the lists of tiles, which are the rows' variants (tiles.h). */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_ROWS_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_ROWS_CUH

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/family.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/wgmma/wgmma_cluster.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"
#include "kernels/cuda/wgmma/wgmma_tile.cuh"

struct wgmma_state {
    struct conv_tiled tiled;
    struct conv_geometry g;
    int im2col, per_position, k_tiles; /* as in struct wgmma_args */
    int pitch;                         /* of the packed weights' rows */
    int tiles_m, tiles_n;
    int cluster; /* CTAs that share a tile */
    int multiprocessors;
};

/* ---- configuration ------------------------------------------------- */

/* CTAs of a cluster: as many as are resident at once, each with 2 k-tiles or
 * more.  Clusters of 8, which every GPU can schedule but which cost more, take
 * 4 or more each. */
static inline int wgmma_cluster_size(int64_t tiles, int k_tiles, int resident)
{
    int size = k_tiles < 32 ? 4 : 8;

    while (size > 1 && (size * tiles > resident || k_tiles < 2 * size))
        size /= 2;
    return size;
}

/* True if the weights come from memory rather than from the L2 cache. */
template <typename L> static bool wgmma_is_streamed(const struct wgmma_state *s)
{
    return (int64_t)s->g.k * s->pitch * (int64_t)sizeof(typename L::T) >=
           16 << 20;
}

/* CTAs of a cluster by variant.  One resident CTA a multiprocessor leaves room
 * for the first CTAs of the next kernel; two keep more copies in flight, which
 * pays where weights come from memory.  Variant 0 follows this rule, variant 1
 * is the other choice. */
template <typename L>
static int wgmma_cluster_of(const struct wgmma_state *s, int variant)
{
    const int64_t tiles = (int64_t)s->tiles_m * s->tiles_n;
    const bool two = wgmma_is_streamed<L>(s) != (variant != 0);
    const int each = L::TWO_FIT && two ? 2 : 1;

    return wgmma_cluster_size(tiles, s->k_tiles, each * s->multiprocessors);
}

template <typename L>
static int wgmma_configure(const struct kern_problem *p,
                           const struct kern_device *d, int variant,
                           struct wgmma_state *s, struct infer_error *why)
{
    const int rc = conv_geometry_read_pitched(p, &s->g, why);
    const struct conv_geometry *g = &s->g;
    const int width = 128 / (int)sizeof(typename L::T);

    if (rc < 0)
        return rc;
    s->im2col = tensor_map_needs_im2col(g);
    s->per_position = conv_ceil_div(g->cg, width);
    s->k_tiles = g->r * g->s * s->per_position;
    s->pitch = s->k_tiles * width;
    s->multiprocessors = conv_multiprocessors(d);
    s->tiles_m = conv_ceil_div(g->m, L::BM);
    s->tiles_n = conv_ceil_div(g->k, L::BN);
    s->cluster = 1;
    if constexpr (L::CLUSTER)
        s->cluster = wgmma_cluster_of<L>(s, variant);
    return 0;
}

template <typename L>
static int wgmma_variants(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *err)
{
    struct wgmma_state s;
    const int rc = wgmma_configure<L>(p, d, 1, &s, err);

    return rc < 0 ? rc : s.cluster == wgmma_cluster_of<L>(&s, 0) ? 1 : 2;
}

/* ---- limits -------------------------------------------------------- */

static inline int wgmma_check_channels(const struct conv_geometry *g, int lane,
                                       struct infer_error *why)
{
    if (g->groups != 1 || g->c % lane || g->k % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group, inputs in %ds and outputs in 8s, "
                         "found %d groups of %d to %d channels",
                         lane, g->groups, g->cg, g->kg);
    if (g->x_pitch % lane || g->y_pitch % lane || g->r_pitch % lane)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes pixels that lie multiples of %d elements "
                         "apart, found %d, %d and %d",
                         lane, g->x_pitch, g->y_pitch, g->r_pitch);
    return 0;
}

/* Partial statistics want epilogue stages of 64 halves. */
template <typename L> static constexpr bool wgmma_has_bn_stats(void)
{
    return !L::CLUSTER && L::mode::HALF && !L::mode::INPUT_SCALE && L::BN >= 64;
}

static constexpr bool is_signed_byte(int8_t)
{
    return true;
}
template <typename T> static constexpr bool is_signed_byte(T)
{
    return false;
}

/* True if the tile has an instance for the activations of kernels/quant/act.h:
 * some tiles of I8, which outputs of these activations are. */
template <typename L> static constexpr bool wgmma_has_smooth(void)
{
    if constexpr (!L::mode::BYTES || !is_signed_byte(typename L::T()))
        return false;
    else if constexpr (L::CLUSTER)
        return L::BN <= 64;
    else
        return L::COOP == 1;
}

/* Integers: bytes in and out but for clusters, which store any type; no pixels
 * of the padding, which TMA fills with zeros, unless 0 is the zero point. */
template <typename L>
static int wgmma_check_bytes(const struct kern_problem *p,
                             const struct wgmma_state *s,
                             struct infer_error *why)
{
    const struct kern_tensor *r = kern_problem_in(p, CONV_RESIDUAL);
    const bool bytes =
        quant_is_byte(p->out[0].dtype) && (!r || quant_is_byte(r->dtype));
    const int64_t rows = (int64_t)(s->g.p - 1) * s->g.stride_h +
                         (int64_t)(s->g.r - 1) * s->g.dilation_h - s->g.pad_top;
    const int64_t columns = (int64_t)(s->g.q - 1) * s->g.stride_w +
                            (int64_t)(s->g.s - 1) * s->g.dilation_w -
                            s->g.pad_left;
    const bool padded = s->g.pad_top > 0 || s->g.pad_left > 0 ||
                        rows >= s->g.h || columns >= s->g.w;
    const int rc = quant_check(p, wgmma_has_smooth<L>(), why);

    if (rc < 0)
        return rc;
    if (!L::CLUSTER && quant_is_smooth(p->epilogue.act.kind) &&
        (!quant_of(p)->stride[0] || !kern_problem_in(p, CONV_BIAS)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes this activation behind a scale and a bias for "
                         "each output");
    if (s->g.k % 16)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes outputs in 16s, found %d", s->g.k);
    if (!L::CLUSTER && !bytes)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes residuals and gives outputs of 8 bits");
    if (padded && p->quant.x_zero != 0)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes padding where the zero point is 0, found %d",
                         p->quant.x_zero);
    return 0;
}

template <typename L>
static int wgmma_check_extras(const struct kern_problem *p,
                              const struct wgmma_state *s,
                              struct infer_error *why)
{
    if (L::mode::INPUT_SCALE &&
        (s->im2col || !input_scale_of(p) ||
         !kern_tensor_is_dense(input_scale_of(p), KERN_NCHW)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes a dense input scale, and 1x1 windows without "
                         "strides and pads");
    if (bn_stats_of(p) && !wgmma_has_bn_stats<L>())
        return error_set(why, INFER_EUNSUPPORTED,
                         "makes no partial statistics");
    if (bn_stats_of(p) &&
        (p->epilogue.act.kind != KERN_IDENTITY ||
         kern_problem_in(p, CONV_RESIDUAL) || p->out[1].dtype != INFER_F32 ||
         p->out[1].dim[0] != conv_ceil_div(s->g.m, 64)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "makes F32 partial statistics of 64 pixels each, "
                         "without residual and activation");
    return 0;
}

template <typename L>
static int wgmma_supports(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    const int lane = 16 / (int)sizeof(typename L::T);
    struct wgmma_state s;
    int rc = wgmma_configure<L>(p, d, 0, &s, why);

    if (rc == 0)
        rc = L::mode::BYTES ? wgmma_check_bytes<L>(p, &s, why)
                            : conv_weights_packable(p, why);
    if (rc == 0)
        rc = wgmma_check_device(d, why);
    if (rc == 0)
        rc = wgmma_check_channels(&s.g, lane, why);
    if (rc == 0 && s.im2col)
        rc = tensor_map_check_im2col(&s.g, why);
    if (rc < 0)
        return rc;
    if (s.g.m == 0 || (int64_t)s.tiles_m * s.tiles_n > INT32_MAX / 16)
        return error_set(why, INFER_EUNSUPPORTED, "has no or too many outputs");
    if (!L::CLUSTER && L::BN < 8 * lane && s.g.k > L::BN)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to %d outputs, found %d", (int)L::BN, s.g.k);
    if (!L::CLUSTER && !L::mode::BYTES &&
        !unary_is_inline(p->epilogue.act.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "its activation is left to other kernels");
    return wgmma_check_extras<L>(p, &s, why);
}

/* ---- heuristic ----------------------------------------------------- */

/* Estimates in microseconds; their constants are fitted to what kbench measured
 * on an H200. */

/* One k-tile of a tile.  At 1.7 GHz a multiprocessor multiplies 2048 halves or
 * 1024 TF32 a cycle, of which the tile reaches `percent`. */
template <typename L> static double wgmma_k_tile_us(int percent)
{
    const int products = L::mode::WEIGHTS == 2 ? 3 : 1;
    const int cycles = products * L::BM * L::BN / 32;

    return cycles / (17.0 * percent);
}

/* Memory traffic of that many megabytes; what fits the L2 cache is faster. */
static inline double wgmma_traffic_us(double mb)
{
    return mb / 6.4 + (mb > 30 ? (mb - 30) / 13 : 0);
}

/* Traffic of a convolution.  A channel count that is no multiple of 128 bytes
 * makes two CTAs write the same cache line. */
static inline double wgmma_bytes_us(const struct kern_problem *p,
                                    const struct conv_geometry *g)
{
    const int size = (int)infer_dtype_size(p->out[0].dtype);
    const bool ragged = g->k * size % 128 || g->y_pitch * size % 128;
    const double more = ragged ? 0.55 * size * g->m * (double)g->k : 0;

    return wgmma_traffic_us(1e-6 * (cost_conv_bytes(p, g) + more));
}

/* Epilogue of one tile, a consumer's stages.  The stride of the grid keeps a
 * CTA on the same channels if tiles_n divides it; then the fullest tiles last
 * longest. */
template <typename L>
static double wgmma_stores_us(const struct kern_problem *p,
                              const struct wgmma_state *s)
{
    const int columns = 128 / (int)sizeof(typename L::T);
    const int full = s->g.k < L::BN ? s->g.k : (int)L::BN;
    const double stages =
        s->multiprocessors % s->tiles_n == 0
            ? conv_ceil_div(full, columns)
            : conv_ceil_div(s->g.k, columns) / (double)s->tiles_n;
    const double stage =
        bn_stats_of(p)   ? 1
        : L::mode::BYTES ? quant_is_smooth(p->epilogue.act.kind) ? 1.8 : 0.9
        : unary_is_piecewise_linear(p->epilogue.act.kind) ? 0.45
                                                          : 0.85;
    const double residual = kern_problem_in(p, CONV_RESIDUAL) ? 0.1 : 0;

    return (int)L::MT * stages * (stage + residual);
}

/* Microseconds that TMA takes to gather the pixels of a k-tile under a window,
 * however few channels they have.  A pixel that begins at 16 bytes which 32 do
 * not divide takes 6 to 8 cycles: 3x3 over 28x28 images takes 17.5 us with 24
 * channels, 10.3 with 32, 18.5 with 40, 11.5 with 48, 15.1 with 56, 11.6 with
 * 64 (batch of 64, H200). */
template <typename L> static double wgmma_gather_us(const struct wgmma_state *s)
{
    const int size = (int)sizeof(typename L::T);
    const int rest = s->g.cg * size % 128;

    if (s->g.r * s->g.s == 1)
        return 0;
    if (s->g.x_pitch * size % 32 == 0)
        return 0.15 + 1e-3 * (int)L::BM;
    return (rest == 48 || rest == 80 ? 4.2e-3 : 3.3e-3) * (int)L::BM;
}

/* Waves of persistent tiles, or the memory traffic, whichever is longer.  The
 * products of a wave follow each other; the epilogues of a warpgroup follow its
 * own products.  If few multiprocessors have work, their clock is higher and
 * the L2 cache less busy, except where a product is three (TF32x3), which is
 * bound by registers. */
template <typename L>
static double wgmma_estimate_tile(const struct kern_problem *p,
                                  const struct wgmma_state *s, int percent)
{
    const int tiles = s->tiles_m * s->tiles_n;
    const int waves = conv_ceil_div(tiles, s->multiprocessors);
    const double idle = 1 - tiles / (2.0 * s->multiprocessors);
    const bool eased = L::mode::WEIGHTS == 1 && idle > 0;
    const double multiply = wgmma_k_tile_us<L>(percent);
    const double gather = wgmma_gather_us<L>(s);
    const double k_tile = (multiply > gather ? multiply : gather) *
                          (eased ? 1 - 0.245 * idle : 1);
    const double products = s->k_tiles * k_tile + 0.33;
    const double stores = wgmma_stores_us<L>(p, s);
    double time = waves * (products + stores);

    if (L::PINGPONG == 2) {
        const double all = waves * products + stores;
        const double one = (waves + 1) / 2 * (products + stores);
        time = all > one ? all : one;
    }
    return 1.35 + cost_overlapped(time, wgmma_bytes_us(p, &s->g), 0.36);
}

/* Waves of clusters.  The CTAs of a cluster share a GPC of about 16
 * multiprocessors; on average half a cluster of resident CTAs stays unused in
 * each. */
template <typename L> static double wgmma_waves(const struct wgmma_state *s)
{
    const int each = L::TWO_FIT ? 2 : 1, gpcs = s->multiprocessors / 16;
    const int resident =
        each * s->multiprocessors - gpcs * (s->cluster - 1) / 2;
    const int clusters = resident > s->cluster ? resident / s->cluster : 1;
    const int tiles = s->tiles_m * s->tiles_n;

    return tiles > 3 * clusters ? tiles / (double)clusters + 0.5
                                : conv_ceil_div(tiles, clusters);
}

/* Waves of clusters: a CTA fills its pipeline, multiplies and sends its partial
 * sums.  A k-tile takes as long as its copy at least; CTAs that share a
 * multiprocessor share its rate.  If weights come from memory, the bytes loaded
 * for a tile, its empty rows too, set the pace; a deep pipeline has more of
 * them in flight. */
template <typename L>
static double wgmma_estimate_cluster(const struct kern_problem *p,
                                     const struct wgmma_state *s, int percent)
{
    const int most = L::TWO_FIT ? 2 : 1;
    const double ctas = (double)s->tiles_m * s->tiles_n * s->cluster;
    const double load = ctas / s->multiprocessors;
    const bool slow = s->g.x_pitch * (int)sizeof(typename L::T) % 32 != 0;
    const double gather = slow ? wgmma_gather_us<L>(s) : 0;
    const double multiply = wgmma_k_tile_us<L>(percent);
    const double shared =
        (load < most ? load : most) * (multiply > gather ? multiply : gather);
    /* Splitting pixels in registers takes the same time for every BN. */
    const double alone = L::mode::WEIGHTS == 2 ? 0.6 : 0.24;
    const double k_tile = shared > alone ? shared : alone;
    const int rows = (int)L::BM + (int)L::mode::WEIGHTS * (int)L::BN;
    const double rest = 0.35 + 0.018 * rows + (s->cluster > 1 ? 0.5 : 0);
    const double cta = s->k_tiles / (double)s->cluster * k_tile + rest;
    const double loaded = (double)s->tiles_n * s->k_tiles * 128 * rows;
    const double moved = cost_conv_bytes(p, &s->g) / 2.6e6;
    const double pace = loaded / (L::DEEP ? 8e6 : 5e6);
    const double bytes = !wgmma_is_streamed<L>(s)  ? moved
                         : pace > moved || L::DEEP ? pace
                                                   : moved;

    return cost_overlapped(wgmma_waves<L>(s) * cta, bytes, 0.2);
}

template <typename L>
static double wgmma_estimate(const struct kern_problem *p,
                             const struct kern_device *d, int percent)
{
    struct wgmma_state s;

    if (wgmma_configure<L>(p, d, 0, &s, NULL) < 0 || s.tiles_n == 0)
        return 1e30;
    if constexpr (L::CLUSTER)
        return wgmma_estimate_cluster<L>(p, &s, percent);
    else
        return wgmma_estimate_tile<L>(p, &s, percent);
}

/* ---- preparing ----------------------------------------------------- */

template <typename L>
static void wgmma_declare(struct kern_exec *e, const struct wgmma_state *s)
{
    if (L::CLUSTER)
        snprintf(e->variant_name, sizeof e->variant_name, "cluster%d",
                 s->cluster);
    e->packed[CONV_W] = L::mode::WEIGHTS * (size_t)s->g.k * (size_t)s->pitch *
                        sizeof(typename L::T);
    if (L::mode::BYTES)
        e->packed[CONV_W] = quant_packed_bytes(e->packed[CONV_W], s->g.k);
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

template <typename L>
static int wgmma_pack(const struct kern_exec *e, int i, const void *src,
                      void *dst, struct infer_error *err)
{
    const struct wgmma_state *s = (const struct wgmma_state *)e->state;
    const enum infer_dtype to =
        L::mode::BYTES ? quant_weights_of(e->problem.in[CONV_X].dtype)
                       : e->problem.in[CONV_X].dtype;
    /* TF32x3 splits what it packs; TF32 rounds it. */
    const enum conv_round round =
        L::mode::HALF || L::mode::BYTES || L::mode::WEIGHTS == 2
            ? CONV_ROUND_TYPE
            : CONV_ROUND_TF32;

    (void)err;
    conv_pack_rows(&s->g, e->problem.in[i].dtype, src, to, round,
                   s->pitch / (s->g.r * s->g.s), s->pitch, dst);
    if constexpr (L::mode::BYTES) {
        const size_t bytes = (size_t)s->g.k * (size_t)s->pitch;
        wgmma_8bit_permute(s->g.k, (size_t)s->pitch, (uint8_t *)dst);
        quant_pack_tail(&e->problem, (const int8_t *)src, s->g.k, s->g.depth,
                        bytes, dst);
    }
    if (L::mode::INPUT_SCALE)
        wgmma_permute_weights((int64_t)s->g.k * s->pitch, (uint16_t *)dst);
    if (L::mode::WEIGHTS == 2)
        conv_split_tf32((int64_t)s->g.k * s->pitch, (float *)dst);
    return 0;
}

/* ---- launching ----------------------------------------------------- */

/* Tensor maps of x and w. */
template <typename L>
static int wgmma_load_maps(const struct kern_exec *e,
                           const struct kern_args *args,
                           const struct wgmma_state *s, struct wgmma_args *a,
                           struct infer_error *err)
{
    const enum tensor_map_type type =
        tensor_map_type_of(e->problem.in[CONV_X].dtype);
    /* TF32 is rounded by TMA; TF32x3 splits F32 in registers. */
    const enum tensor_map_type x_type =
        L::mode::HALF || L::mode::BYTES || L::mode::WEIGHTS == 2
            ? type
            : TENSOR_MAP_TF32;
    const void *x = args->in[CONV_X];
    const int rc = s->im2col
                       ? tensor_map_im2col(&a->x, x_type, x, &s->g, L::BM, err)
                       : tensor_map_matrix(&a->x, x_type, x, s->g.m, s->g.c,
                                           s->g.x_pitch, L::BM, err);

    const int rows = (int)L::mode::WEIGHTS * s->g.k, tail = s->g.k % L::BN;
    const int w = rc < 0
                      ? rc
                      : tensor_map_matrix(&a->w, type, args->in[CONV_W], rows,
                                          s->pitch, s->pitch, L::BN, err);

    return w < 0 || tail == 0
               ? w
               : tensor_map_matrix(&a->w_tail, type, args->in[CONV_W], rows,
                                   s->pitch, s->pitch, tail, err);
}

/* Tensor maps of the output and of the residual. */
static inline int wgmma_store_maps(const struct wgmma_state *s,
                                   enum infer_dtype dtype, struct wgmma_args *a,
                                   struct infer_error *err)
{
    const enum tensor_map_type type = tensor_map_type_of(dtype);
    int rc = a->unaligned ? 0
                          : tensor_map_matrix(&a->y, type, a->out.y, s->g.m,
                                              s->g.k, s->g.y_pitch, 16, err);

    if (rc == 0 && a->out.residual)
        rc = tensor_map_matrix(&a->residual, type, a->out.residual, s->g.m,
                               s->g.k, s->g.r_pitch, 64, err);
    return rc;
}

template <typename L>
static int wgmma_fill_args(const struct kern_exec *e,
                           const struct kern_args *args, struct wgmma_args *a,
                           struct infer_error *err)
{
    const struct wgmma_state *s = (const struct wgmma_state *)e->state;

    memset(a, 0, sizeof *a);
    a->g = s->g;
    a->out = output_of(e, args, s->g.k);
    a->out.y_pitch = s->g.y_pitch;
    a->out.r_pitch = s->g.r_pitch;
    a->bn_stats = bn_stats_of(&e->problem) ? (float *)args->out[1] : NULL;
    a->input_scale = L::mode::INPUT_SCALE ? args->in[INPUT_SCALE_IN] : NULL;
    if (L::mode::INPUT_SCALE)
        a->pixels.init((uint32_t)(s->g.p * s->g.q));
    a->unaligned = (uintptr_t)a->out.y % 16 != 0;
    a->im2col = s->im2col;
    a->constant_bias =
        !a->out.bias || (e->problem.constant_in & 1u << CONV_BIAS);
    if constexpr (L::mode::BYTES)
        a->quant =
            quant_end_of(e, args, (size_t)s->g.k * (size_t)s->pitch, s->g.k);
    a->per_position = s->per_position;
    a->k_tiles = s->k_tiles;
    a->tiles_m = s->tiles_m;
    a->tiles_n = s->tiles_n;
    return wgmma_load_maps<L>(e, args, s, a, err);
}

/* One CTA a multiprocessor at most, each of which computes every gridDim.x-th
 * tile. */
template <typename L, typename Args>
static int wgmma_launch_persistent(void (*kernel)(const Args),
                                   const struct wgmma_state *s, void *stream,
                                   const Args &a, struct infer_error *err)
{
    const int tiles = s->tiles_m * s->tiles_n;

    return launch_chained(
        kernel, dim3(tiles < s->multiprocessors ? tiles : s->multiprocessors),
        dim3(L::THREADS), L::SHARED, stream, a, err);
}

template <typename L>
static int wgmma_launch_tile(const struct kern_exec *e,
                             const struct kern_args *args,
                             struct infer_error *err)
{
    void (*const plain)(const struct wgmma_args) = wgmma_tile_kernel<L, false>;
    void (*const with_stats)(const struct wgmma_args) =
        wgmma_tile_kernel<L, wgmma_has_bn_stats<L>()>;
    const struct wgmma_state *s = (const struct wgmma_state *)e->state;
    struct wgmma_args a;
    int rc = wgmma_fill_args<L>(e, args, &a, err);

    if (rc == 0)
        rc = wgmma_store_maps(s, e->problem.in[CONV_X].dtype, &a, err);
    if (rc < 0)
        return rc;
    if constexpr (wgmma_has_smooth<L>())
        if (a.quant.kind == QUANT_SMOOTH)
            return wgmma_launch_persistent<L>(wgmma_tile_kernel<L, false, true>,
                                              s, args->stream, a, err);
    return wgmma_launch_persistent<L>(a.bn_stats ? with_stats : plain, s,
                                      args->stream, a, err);
}

template <typename L>
static int wgmma_launch_cluster(const struct kern_exec *e,
                                const struct kern_args *args,
                                struct infer_error *err)
{
    const struct wgmma_state *s = (const struct wgmma_state *)e->state;
    const int tiles = s->tiles_m * s->tiles_n;
    struct wgmma_args a;
    const int rc = wgmma_fill_args<L>(e, args, &a, err);

    if (rc < 0)
        return rc;
    if constexpr (wgmma_has_smooth<L>())
        if (a.quant.kind == QUANT_SMOOTH)
            return launch_clusters(wgmma_cluster_kernel<L, true>,
                                   tiles * s->cluster, s->cluster, L::THREADS,
                                   L::SHARED, args->stream, a, err);
    return launch_clusters(wgmma_cluster_kernel<L>, tiles * s->cluster,
                           s->cluster, L::THREADS, L::SHARED, args->stream, a,
                           err);
}

template <typename L>
static int wgmma_launch(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    if constexpr (L::CLUSTER)
        return wgmma_launch_cluster<L>(e, args, err);
    else
        return wgmma_launch_tile<L>(e, args, err);
}

/* ---- tiles --------------------------------------------------------- */

/* name, percent of the multiprocessor's peak, wgmma_tile or wgmma_cluster. */
#define WGMMA_TILE(name, percent, ...)                                         \
    {                                                                          \
        name, percent, wgmma_supports<__VA_ARGS__>,                            \
            wgmma_estimate<__VA_ARGS__>, NULL,                                 \
            __VA_ARGS__::CLUSTER ? wgmma_variants<__VA_ARGS__> : NULL,         \
            state_prepare<struct wgmma_state, wgmma_configure<__VA_ARGS__>,    \
                          wgmma_declare<__VA_ARGS__>>,                         \
            wgmma_pack<__VA_ARGS__>, wgmma_launch<__VA_ARGS__>                 \
    }

/* Names are pixels x channels of a tile.  Arguments of a persistent tile: MT,
 * COOP, WGS, BN, STAGES, EPI_STAGES; of a cluster's: WGS, BN, STAGES.  Bytes of
 * shared memory, of 232,448: two consumers cooperate in 128x256 (229,472),
 * and in 128x192 (229,568), three in 192x128 (213,168).  Ping-pong: 128x128
 * (213,136), 256x64 (229,568), 128x64 (188,592), 64x256 (213,136), 128x32
 * (188,640).  Clusters: 128x128 (200,776); two CTAs fit a multiprocessor up to
 * 115,712 bytes: 64x64 (100,456), 64x32 (108,680).  Deep pipelines keep more
 * bytes in flight, for weights that come from memory: 64x64 (215,240), 128x64
 * (209,016). */
template <typename M>
static const struct conv_tile wgmma_conv_tiles[] = {
    WGMMA_TILE("128x256", 77, wgmma_tile<M, 1, 2, 2, 256, 4, 2>),
    WGMMA_TILE("128x192", 78, wgmma_tile<M, 1, 2, 2, 192, 4, 4>),
    WGMMA_TILE("192x128", 80, wgmma_tile<M, 1, 3, 3, 128, 4, 2>),
    WGMMA_TILE("128x128", 84, wgmma_tile<M, 2, 1, 2, 128, 4, 5>),
    WGMMA_TILE("256x64", 76, wgmma_tile<M, 4, 1, 2, 64, 4, 4>),
    WGMMA_TILE("128x64", 67, wgmma_tile<M, 2, 1, 2, 64, 5, 4>),
    WGMMA_TILE("64x256", 68, wgmma_tile<M, 1, 1, 2, 256, 3, 5>),
    WGMMA_TILE("128x32", 48, wgmma_tile<M, 2, 1, 2, 32, 6, 4>),
    WGMMA_TILE("128x128", 85, wgmma_cluster<M, 2, 128, 4>),
    WGMMA_TILE("64x64", 46, wgmma_cluster<M, 1, 64, 5>),
    WGMMA_TILE("64x32", 31, wgmma_cluster<M, 1, 32, 8>),
};

/* Of integers: an epilogue stage is 128 channels. */
template <typename M>
static const struct conv_tile wgmma_8bit_conv_tiles[] = {
    WGMMA_TILE("128x256", 77, wgmma_tile<M, 1, 2, 2, 256, 4, 2>),
    WGMMA_TILE("192x128", 80, wgmma_tile<M, 1, 3, 3, 128, 4, 2>),
    WGMMA_TILE("128x128", 84, wgmma_tile<M, 2, 1, 2, 128, 4, 5>),
    WGMMA_TILE("256x64", 76, wgmma_tile<M, 4, 1, 2, 64, 4, 4>),
    WGMMA_TILE("128x64", 67, wgmma_tile<M, 2, 1, 2, 64, 5, 4>),
    WGMMA_TILE("64x256", 68, wgmma_tile<M, 1, 1, 2, 256, 3, 5>),
    WGMMA_TILE("128x32", 48, wgmma_tile<M, 2, 1, 2, 32, 6, 4>),
    WGMMA_TILE("128x128", 85, wgmma_cluster<M, 2, 128, 4>),
    WGMMA_TILE("64x64", 46, wgmma_cluster<M, 1, 64, 5>),
    WGMMA_TILE("64x32", 31, wgmma_cluster<M, 1, 32, 8>),
};

template <typename M>
static const struct conv_tile wgmma_8bit_dense_tiles[] = {
    WGMMA_TILE("128x128", 85, wgmma_cluster<M, 2, 128, 4>),
    WGMMA_TILE("64x64", 46, wgmma_cluster<M, 1, 64, 5>),
    WGMMA_TILE("64x32", 31, wgmma_cluster<M, 1, 32, 8>),
};

/* Of F8E4M3, which needs registers for a second set of sums.  Two consumers
 * cooperate in 256x128, 128x128 and 256x64, so that one adds while the other
 * multiplies. */
template <typename M>
static const struct conv_tile wgmma_float8_conv_tiles[] = {
    WGMMA_TILE("256x128", 77, wgmma_tile<M, 2, 2, 2, 128, 4, 2>),
    WGMMA_TILE("128x128", 70, wgmma_tile<M, 1, 2, 2, 128, 5, 4>),
    WGMMA_TILE("128x128_turns", 66, wgmma_tile<M, 2, 1, 2, 128, 4, 5>),
    WGMMA_TILE("256x64", 66, wgmma_tile<M, 2, 2, 2, 64, 4, 4>),
    WGMMA_TILE("128x64", 60, wgmma_tile<M, 2, 1, 2, 64, 5, 4>),
    WGMMA_TILE("64x128", 55, wgmma_tile<M, 1, 1, 2, 128, 5, 5>),
    WGMMA_TILE("128x32", 45, wgmma_tile<M, 2, 1, 2, 32, 6, 4>),
    WGMMA_TILE("128x128", 75, wgmma_cluster<M, 2, 128, 4>),
    WGMMA_TILE("64x64", 44, wgmma_cluster<M, 1, 64, 5>),
    WGMMA_TILE("64x32", 30, wgmma_cluster<M, 1, 32, 8>),
};

template <typename M>
static const struct conv_tile wgmma_dense_tiles[] = {
    WGMMA_TILE("128x128", 84, wgmma_tile<M, 2, 1, 2, 128, 4, 5>),
    WGMMA_TILE("128x128", 85, wgmma_cluster<M, 2, 128, 4>),
    WGMMA_TILE("64x64", 46, wgmma_cluster<M, 1, 64, 5>),
    WGMMA_TILE("64x32", 31, wgmma_cluster<M, 1, 32, 8>),
    WGMMA_TILE("64x64_deep", 46, wgmma_cluster<M, 1, 64, 12>),
    WGMMA_TILE("128x64_deep", 67, wgmma_cluster<M, 2, 64, 7>),
};

/* With an input scale: registers hold 64 rows of a k-tile and their scales in
 * addition to the sums, hence MT = 2 at most. */
template <typename M>
static const struct conv_tile wgmma_input_scale_tiles[] = {
    WGMMA_TILE("128x128", 60, wgmma_tile<M, 2, 1, 2, 128, 4, 5>),
    WGMMA_TILE("128x64", 45, wgmma_tile<M, 2, 1, 2, 64, 5, 4>),
    WGMMA_TILE("128x32", 30, wgmma_tile<M, 2, 1, 2, 32, 6, 4>),
    WGMMA_TILE("64x64", 40, wgmma_cluster<M, 1, 64, 5>),
    WGMMA_TILE("64x32", 28, wgmma_cluster<M, 1, 32, 8>),
};

/* In single precision, which needs registers for a second set of sums, and two
 * matrices of weights.  Shared memory, bytes: 128x128 213,104, 128x64 213,088,
 * two consumers cooperate in both; clusters: 64x128 198,728, 64x64 92,216,
 * 64x32 92,248. */
template <typename M>
static const struct conv_tile wgmma_split_conv_tiles[] = {
    WGMMA_TILE("128x128", 73, wgmma_tile<M, 1, 2, 2, 128, 3, 4>),
    WGMMA_TILE("128x64", 56, wgmma_tile<M, 1, 2, 2, 64, 5, 3>),
    WGMMA_TILE("64x128", 54, wgmma_cluster<M, 1, 128, 4>),
    WGMMA_TILE("64x64", 63, wgmma_cluster<M, 1, 64, 3>),
    WGMMA_TILE("64x32", 27, wgmma_cluster<M, 1, 32, 5>),
};

template <typename M>
static const struct conv_tile wgmma_split_dense_tiles[] = {
    WGMMA_TILE("128x128", 73, wgmma_tile<M, 1, 2, 2, 128, 3, 4>),
    WGMMA_TILE("64x64", 63, wgmma_cluster<M, 1, 64, 3>),
};

#endif
