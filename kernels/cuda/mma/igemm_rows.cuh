/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the implicit GEMM rows: limits, split-K, packing, launch,
 * and the lists of tiles, which are the rows' variants (tiles.h).
 */
#ifndef KERNELS_CUDA_MMA_IGEMM_ROWS_CUH
#define KERNELS_CUDA_MMA_IGEMM_ROWS_CUH

#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/family.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/mma/igemm.cuh"

struct igemm_state {
    struct conv_tiled tiled;
    struct conv_geometry g;
    int channels, channel_pitch; /* of x before they were padded */
    int pitch, k_tiles, splits, k_tiles_per_split;
};

/* PLAIN: copies of 16 bytes, one pass.  DEEP: the same for few tiles of a deep
 * product.  SPLIT_K: split-K, two passes.  GATHER: any number of channels,
 * copied one by one or in pairs; bytes in eights or fours, too.  PADDED: any
 * number of channels of one group, padded to whole vectors by a pass of its
 * own; up to four bytes to four. */
enum igemm_kind {
    IGEMM_PLAIN,
    IGEMM_DEEP,
    IGEMM_SPLIT_K,
    IGEMM_GATHER,
    IGEMM_PADDED
};

template <typename L_, igemm_kind KIND = IGEMM_PLAIN> struct igemm_config {
    typedef L_ L;
    typedef typename L::T T;
    enum {
        DEEP = KIND == IGEMM_DEEP,
        SPLIT_K = KIND == IGEMM_SPLIT_K,
        GATHER = KIND == IGEMM_GATHER,
        PADDED = KIND == IGEMM_PADDED,
        QUANT = L::mode::QUANT,
        LANE = 16 / (int)sizeof(T) /* elements of 16 bytes */
    };
};

/* ---- split-K ------------------------------------------------------- */

/* Parts of the depth: two blocks a multiprocessor, 2 k-tiles or more each, and
 * 32 parts at most, so that the second pass stays small. */
static inline int igemm_splits(int64_t blocks, int k_tiles, int multiprocessors)
{
    int64_t splits = 2 * (int64_t)multiprocessors / (blocks > 0 ? blocks : 1);

    splits = splits < k_tiles / 2 ? splits : k_tiles / 2;
    splits = splits < 32 ? splits : 32;
    return splits > 1 ? (int)splits : 1;
}

template <typename C> static int64_t igemm_blocks(const struct conv_geometry *g)
{
    return (int64_t)conv_ceil_div(g->m, C::L::BM) *
           conv_ceil_div(g->kg, C::L::BN) * g->groups;
}

/* The geometry over padded channels. */
template <typename C>
static int igemm_pad(struct conv_geometry *g, struct infer_error *why)
{
    const int top = g->pad_top < 0 ? -g->pad_top : g->pad_top;
    const int left = g->pad_left < 0 ? -g->pad_left : g->pad_left;
    const double pixels =
        (double)g->n * (g->h + 2.0 * top) * (g->w + 2.0 * left);

    if (g->groups != 1 || (g->cg % C::LANE == 0 && g->x_pitch % C::LANE == 0))
        return error_set(why, INFER_EUNSUPPORTED,
                         "pads channels of one group that are no multiple of "
                         "%d, found %d groups of %d",
                         (int)C::LANE, g->groups, g->cg);
    g->c = g->cg = g->x_pitch =
        conv_round_up(g->cg, C::QUANT && g->cg <= 4 ? 4 : (int)C::LANE);
    g->depth = g->r * g->s * g->cg;
    return pixels * g->x_pitch < 2147483647.0
               ? 0
               : error_set(why, INFER_EUNSUPPORTED,
                           "padded input has more than 2^31 elements");
}

template <typename C>
static int igemm_read(const struct kern_problem *p, const struct kern_device *d,
                      int, struct igemm_state *s, struct infer_error *why)
{
    int rc = conv_geometry_read_pitched(p, &s->g, why);

    s->channels = s->g.cg;
    s->channel_pitch = s->g.x_pitch;
    if constexpr (C::PADDED)
        rc = rc < 0 ? rc : igemm_pad<C>(&s->g, why);
    if (rc < 0)
        return rc;
    s->tiled.channels = C::PADDED ? s->g.cg : 0;
    s->pitch = conv_round_up(s->g.depth, C::L::K_TILE);
    s->k_tiles = s->pitch / C::L::K_TILE;
    s->splits = C::SPLIT_K ? igemm_splits(igemm_blocks<C>(&s->g), s->k_tiles,
                                          conv_multiprocessors(d))
                           : 1;
    s->k_tiles_per_split = conv_ceil_div(s->k_tiles, s->splits);
    /* No part may be empty. */
    s->splits = conv_ceil_div(s->k_tiles, s->k_tiles_per_split);
    return 0;
}

/* ---- limits -------------------------------------------------------- */

template <typename C>
static int igemm_supports(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    struct igemm_state s;
    int rc = igemm_read<C>(p, d, 0, &s, why);

    if (rc == 0)
        rc = C::QUANT ? quant_check(p, !C::L::mode::PARTS, why)
                      : conv_weights_packable(p, why);
    if (rc < 0)
        return rc;
    if (!C::GATHER && !C::PADDED && s.g.cg % C::LANE)
        return error_set(why, INFER_EUNSUPPORTED,
                         "%d channels a group are not a multiple of %d", s.g.cg,
                         (int)C::LANE);
    if (!C::GATHER && !C::PADDED && s.g.x_pitch % C::LANE)
        return error_set(why, INFER_EUNSUPPORTED,
                         "input pixels are %d elements apart, not a multiple "
                         "of %d",
                         s.g.x_pitch, (int)C::LANE);
    if (C::DEEP &&
        (s.k_tiles < 3 || igemm_blocks<C>(&s.g) > 2 * conv_multiprocessors(d)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes few tiles of a deep product, found %lld of %d "
                         "steps",
                         (long long)igemm_blocks<C>(&s.g), s.k_tiles);
    if (C::SPLIT_K && s.splits == 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "the outputs fill the device without split-K");
    return 0;
}

/* ---- heuristic ----------------------------------------------------- */

/* Blocks that fit a multiprocessor: 233,472 bytes of shared memory, of which
 * the driver takes 1,024 a block; the largest tile runs out of registers
 * first. */
template <typename C> static int igemm_sharing(void)
{
    typedef typename C::L L;
    const int fit = 233472 / (L::PIPE + 1024);

    return C::L::BM * C::L::BN >= 128 * 128 && fit > 2 ? 2 : fit;
}

/* Microseconds that narrow copies add to a k-tile: more of them, the narrower
 * they are. */
template <typename C>
static double igemm_narrow_us(const struct conv_geometry *g)
{
    const int lanes = g->cg | g->x_pitch;

    if (!C::QUANT)
        return C::GATHER ? 0.3 : 0;
    if (!C::GATHER && !C::PADDED)
        return 0;
    return lanes % 16 == 0  ? 0
           : lanes % 8 == 0 ? 0.15
           : lanes % 4 == 0 ? 0.3
                            : 1.2;
}

/* Microseconds of one block, with `resident` of them on its multiprocessor.
 * PEAK times percent is its rate in GFLOP/s; a block alone loads 82 bytes a
 * nanosecond. */
template <typename C>
static double igemm_block_us(const struct igemm_state *s, double resident,
                             int percent)
{
    const int thousandths = C::L::mode::PEAK * percent;
    const int products = C::L::BM * C::L::BN * C::L::K_TILE;
    const double shared = 2e-3 * products / thousandths * resident;
    /* One that keeps three copies in flight; more hide more. */
    const double alone =
        (C::L::BM + C::L::BN) * C::L::ROW / 82e3 * 3 / (C::L::STAGES - 1);
    const double k_tile =
        (shared > alone ? shared : alone) + igemm_narrow_us<C>(&s->g);
    const int rows = s->g.m < C::L::BM ? s->g.m : (int)C::L::BM;
    const int columns = s->g.kg < C::L::BN ? s->g.kg : (int)C::L::BN;
    const double stores = rows * columns / 4096.0 * (0.77 + 0.23 * resident);

    return s->k_tiles_per_split * k_tile + 1.36 + stores;
}

/* Microseconds: waves of blocks, or the bytes, and the second pass; fitted to
 * kbench's measurements on an H200.  Only the order of tiles and rows
 * matters. */
template <typename C>
static double igemm_estimate(const struct kern_problem *p,
                             const struct kern_device *d, int percent)
{
    struct igemm_state s;
    const int sharing = igemm_sharing<C>();

    if (igemm_read<C>(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const double blocks = (double)igemm_blocks<C>(&s.g) * s.splits;
    const double each = blocks / conv_multiprocessors(d);
    const double resident = each < 1 ? 1 : each < sharing ? each : sharing;
    const double waves = each > sharing ? each / sharing : 1;
    const double parts =
        s.splits > 1 ? 0.7 + 1.9e-6 * s.g.m * s.g.k * (s.splits + 1.0) : 0;

    const double padding = C::PADDED ? 1.2 + 1e-6 * sizeof(typename C::T) *
                                                 s.g.n * s.g.h * s.g.w * s.g.cg
                                     : 0;

    return 0.85 + parts + padding +
           cost_overlapped(waves * igemm_block_us<C>(&s, resident, percent),
                           cost_conv_bytes(p, &s.g) / 2.85e6, 0.23);
}

/* ---- preparing ----------------------------------------------------- */

template <typename C>
static void igemm_declare(struct kern_exec *e, const struct igemm_state *s)
{
    e->packed[CONV_W] =
        (size_t)s->g.k * (size_t)s->pitch * sizeof(typename C::T);
    if (C::QUANT)
        e->packed[CONV_W] = quant_packed_bytes(e->packed[CONV_W], s->g.k);
    if (s->splits > 1)
        e->workspace =
            (size_t)s->splits * (size_t)s->g.m * (size_t)s->g.k * sizeof(float);
    if (C::PADDED)
        e->workspace = (size_t)s->g.n * (size_t)s->g.h * (size_t)s->g.w *
                       (size_t)s->g.c * sizeof(typename C::T);
}

template <typename C>
static int igemm_pack(const struct kern_exec *e, int i, const void *src,
                      void *dst, struct infer_error *err)
{
    const struct igemm_state *s = (const struct igemm_state *)e->state;
    struct conv_geometry own = s->g;

    (void)err;
    own.cg = s->channels;
    if constexpr (C::QUANT)
        quant_pack_tail(&e->problem, (const int8_t *)src, s->g.k,
                        (int64_t)s->g.r * s->g.s * own.cg,
                        (size_t)s->g.k * (size_t)s->pitch, dst);
    conv_pack_rows(&own, e->problem.in[i].dtype, src,
                   C::QUANT ? quant_weights_of(e->problem.in[CONV_X].dtype)
                            : e->problem.in[CONV_X].dtype,
                   C::L::mode::WIDE && !C::L::mode::SPLIT ? CONV_ROUND_TF32
                                                          : CONV_ROUND_TYPE,
                   s->g.cg, s->pitch, dst);
    return 0;
}

/* ---- launching ----------------------------------------------------- */

template <typename C, int VECTOR>
static int igemm_launch_tile(const struct igemm_args *a, void *stream,
                             struct infer_error *err)
{
    typedef typename C::L W;
    typedef igemm_tile<typename W::mode, W::BM, W::BN, W::ROW, W::STAGES,
                       W::WARPS_M, W::WARPS_N, VECTOR>
        L;
    const dim3 grid(conv_ceil_div(a->g.m, L::BM) * a->tiles_n, 1,
                    a->g.groups * a->splits);

    if constexpr (C::QUANT && !W::mode::PARTS)
        if (a->quant.kind == QUANT_SMOOTH && !a->parts)
            return launch_chained(igemm_kernel<L, true>, grid, dim3(L::THREADS),
                                  L::SHARED, stream, *a, err);
    return launch_chained(igemm_kernel<L, false>, grid, dim3(L::THREADS),
                          L::SHARED, stream, *a, err);
}

template <typename S, bool SMOOTH>
static int igemm_launch_quant_reduce(const struct igemm_args *a, void *stream,
                                     struct infer_error *err)
{
    const struct quant_reduce_args<S> r = {
        a->out, a->quant, (const S *)a->parts, a->g.m, a->splits
    };
    const bool wide = output_is_wide(&a->out, 4);
    const size_t threads = (size_t)a->g.m * (a->g.k / (wide ? 4 : 1));
    const dim3 grid((unsigned)((threads + 255) / 256));

    return wide ? launch_chained(quant_reduce<4, S, SMOOTH>, grid, dim3(256), 0,
                                 stream, r, err)
                : launch_chained(quant_reduce<1, S, SMOOTH>, grid, dim3(256), 0,
                                 stream, r, err);
}

template <typename T>
static int igemm_launch_reduce(const struct igemm_args *a, void *stream,
                               struct infer_error *err)
{
    enum { LANE = 16 / (int)sizeof(T) };
    const struct reduce_args r = {a->out, a->parts, a->g.m, a->splits};
    const int n = output_is_wide(&a->out, LANE) ? LANE : 1;
    const size_t threads = (size_t)a->g.m * (a->g.k / n);
    const dim3 grid((unsigned)((threads + 255) / 256));

    return n == LANE ? launch_chained(output_reduce<T, LANE>, grid, dim3(256),
                                      0, stream, r, err)
                     : launch_chained(output_reduce<T, 1>, grid, dim3(256), 0,
                                      stream, r, err);
}

/* Integers by the widest copies that their channels allow. */
template <typename C>
static int igemm_launch_bytes(const struct igemm_args *a, void *stream,
                              struct infer_error *err)
{
    const int lanes = a->g.cg | a->g.x_pitch;

    if constexpr (C::PADDED)
        return lanes % 16 == 0 ? igemm_launch_tile<C, 16>(a, stream, err)
                               : igemm_launch_tile<C, 4>(a, stream, err);
    else
        return lanes % 8 == 0   ? igemm_launch_tile<C, 8>(a, stream, err)
               : lanes % 4 == 0 ? igemm_launch_tile<C, 4>(a, stream, err)
                                : igemm_launch_tile<C, 1>(a, stream, err);
}

static inline void igemm_fill_args(const struct kern_exec *e,
                                   const struct kern_args *args,
                                   const struct igemm_state *s,
                                   struct igemm_args *a)
{
    a->g = s->g;
    a->x = args->in[CONV_X];
    a->w = args->in[CONV_W];
    a->parts = s->splits > 1 ? (float *)args->workspace : NULL;
    a->pitch = s->pitch;
    a->k_tiles = s->k_tiles;
    a->splits = s->splits;
    a->k_tiles_per_split = s->k_tiles_per_split;
    a->bias_is_constant = e->problem.constant_in & 1u << CONV_BIAS;
    a->out = output_of(e, args, s->g.k);
    a->out.y_pitch = s->g.y_pitch;
    a->out.r_pitch = s->g.r_pitch;
}

template <typename T, int N>
static int igemm_launch_padding(const struct igemm_state *s, const void *x,
                                void *to, void *stream, struct infer_error *err)
{
    const struct igemm_padding_args a = {
        x,         to, s->g.n * s->g.h * s->g.w, s->channels, s->channel_pitch,
        s->g.c / N};
    const int64_t vectors = (int64_t)a.pixels * a.vectors;

    return launch_chained(igemm_padding<T, N>,
                          dim3((unsigned)((vectors + 255) / 256)), dim3(256), 0,
                          stream, a, err);
}

template <typename C>
static int igemm_launch(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    typedef typename C::T T;
    const struct igemm_state *s = (const struct igemm_state *)e->state;
    struct igemm_args a;
    int rc = 0;

    if (s->g.m == 0)
        return 0;
    igemm_fill_args(e, args, s, &a);
    a.tiles_n = conv_ceil_div(s->g.kg, C::L::BN);
    if constexpr (C::QUANT)
        a.quant =
            quant_end_of(e, args, (size_t)s->g.k * (size_t)s->pitch, s->g.k);
    else
        a.end = igemm_end_of<T>(a.out, s->g.groups, s->g.kg, C::L::BN);
    if constexpr (C::PADDED) {
        rc = s->g.c % C::LANE == 0
                 ? igemm_launch_padding<T, C::LANE>(s, a.x, args->workspace,
                                                    args->stream, err)
                 : igemm_launch_padding<T, 4>(s, a.x, args->workspace,
                                              args->stream, err);
        a.x = args->workspace;
    }
    if (rc < 0)
        return rc;
    if constexpr (C::QUANT && (C::GATHER || C::PADDED))
        rc = igemm_launch_bytes<C>(&a, args->stream, err);
    else if constexpr (!C::GATHER)
        rc = igemm_launch_tile<C, 16>(&a, args->stream, err);
    else if (sizeof(T) == 4 || (s->g.cg % 2 == 0 && s->g.x_pitch % 2 == 0))
        rc = igemm_launch_tile<C, 4>(&a, args->stream, err);
    else
        rc = igemm_launch_tile<C, (int)sizeof(T)>(&a, args->stream, err);
    if (rc < 0 || s->splits == 1)
        return rc;
    if constexpr (C::QUANT && !C::L::mode::PARTS)
        if (a.quant.kind == QUANT_SMOOTH)
            return igemm_launch_quant_reduce<typename C::L::sum, true>(
                &a, args->stream, err);
    if constexpr (C::QUANT)
        return igemm_launch_quant_reduce<typename C::L::sum, false>(
            &a, args->stream, err);
    else
        return igemm_launch_reduce<T>(&a, args->stream, err);
}

/* ---- tiles --------------------------------------------------------- */

/* name, percent of the peak of the largest tile, igemm_config. */
#define IGEMM_TILE(name, percent, ...)                                         \
    {                                                                          \
        name, percent, igemm_supports<__VA_ARGS__>,                            \
            igemm_estimate<__VA_ARGS__>, NULL, NULL,                           \
            state_prepare<struct igemm_state, igemm_read<__VA_ARGS__>,         \
                          igemm_declare<__VA_ARGS__>>,                         \
            igemm_pack<__VA_ARGS__>, igemm_launch<__VA_ARGS__>                 \
    }

/* Pixels x channels of a block, bytes of a row of a k-tile, stages, warps.
 * The deep ones wait for memory once where the others wait again and again. */
template <typename M>
using igemm_128x128 = igemm_tile<M, 128, 128, 64, 4, 2, 4, 16>;
template <typename M>
using igemm_128x64 = igemm_tile<M, 128, 64, 64, 4, 2, 2, 16>;
template <typename M>
using igemm_64x64 = igemm_tile<M, 64, 64, 128, 4, 2, 2, 16>;
template <typename M>
using igemm_64x32 = igemm_tile<M, 64, 32, 128, 4, 2, 2, 16>;
template <typename M>
using igemm_128x16 = igemm_tile<M, 128, 16, 128, 4, 4, 1, 16>;
template <typename M>
using igemm_64x32_deep = igemm_tile<M, 64, 32, 128, 8, 4, 2, 16>;
template <typename M>
using igemm_64x64_deep = igemm_tile<M, 64, 64, 128, 6, 4, 2, 16>;
template <typename M>
using igemm_64x64_short = igemm_tile<M, 64, 64, 64, 4, 2, 2, 16>;

/* splitk: two passes, for few outputs; gather, padded: any number of
 * channels. */
template <typename M>
static const struct conv_tile igemm_conv_tiles[] = {
    IGEMM_TILE("128x128", 100, igemm_config<igemm_128x128<M>>),
    IGEMM_TILE("128x64", 85, igemm_config<igemm_128x64<M>>),
    IGEMM_TILE("64x64", 70, igemm_config<igemm_64x64<M>>),
    IGEMM_TILE("64x32", 50, igemm_config<igemm_64x32<M>>),
    IGEMM_TILE("128x16", 40, igemm_config<igemm_128x16<M>>),
    IGEMM_TILE("64x64_deep", 70, igemm_config<igemm_64x64_deep<M>, IGEMM_DEEP>),
    IGEMM_TILE("64x32_deep", 50, igemm_config<igemm_64x32_deep<M>, IGEMM_DEEP>),
    IGEMM_TILE("64x64_splitk", 70, igemm_config<igemm_64x64<M>, IGEMM_SPLIT_K>),
    IGEMM_TILE("64x32_splitk", 50, igemm_config<igemm_64x32<M>, IGEMM_SPLIT_K>),
    IGEMM_TILE("64x64_gather", 50,
               igemm_config<igemm_64x64_short<M>, IGEMM_GATHER>),
    IGEMM_TILE("128x64_padded", 85,
               igemm_config<igemm_128x64<M>, IGEMM_PADDED>),
    IGEMM_TILE("64x32_padded", 50, igemm_config<igemm_64x32<M>, IGEMM_PADDED>),
    IGEMM_TILE("128x16_padded", 40,
               igemm_config<igemm_128x16<M>, IGEMM_PADDED>),
};

template <typename M>
static const struct conv_tile igemm_dense_tiles[] = {
    IGEMM_TILE("128x128", 100, igemm_config<igemm_128x128<M>>),
    IGEMM_TILE("64x64", 70, igemm_config<igemm_64x64<M>>),
    IGEMM_TILE("64x32_deep", 50, igemm_config<igemm_64x32_deep<M>, IGEMM_DEEP>),
    IGEMM_TILE("64x64_splitk", 70, igemm_config<igemm_64x64<M>, IGEMM_SPLIT_K>),
    IGEMM_TILE("64x32_splitk", 50, igemm_config<igemm_64x32<M>, IGEMM_SPLIT_K>),
    IGEMM_TILE("64x64_gather", 60,
               igemm_config<igemm_64x64_short<M>, IGEMM_GATHER>),
};

#endif
