/* SPDX-License-Identifier: Apache-2.0 */
/* Host code of the rows on whole_depth.cuh: limits, estimates, packing,
 * launches and the list of tiles. */
#ifndef KERNELS_CUDA_MMA_WHOLE_DEPTH_ROWS_CUH
#define KERNELS_CUDA_MMA_WHOLE_DEPTH_ROWS_CUH

#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/family.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/mma/whole_depth.cuh"

/* ---- limits -------------------------------------------------------- */

struct whole_depth_state {
    struct conv_tiled tiled;
    struct conv_geometry g;
    int k_tiles;
    bool pointwise;
};

/* Bytes of shared memory before the barriers, and with them. */
template <typename L> static int64_t whole_depth_barriers(int k_tiles)
{
    const int64_t depth = (int64_t)k_tiles * L::STAGE;

    return depth > (int64_t)L::SUMS ? depth : (int64_t)L::SUMS;
}

template <typename L> static int64_t whole_depth_shared(int k_tiles)
{
    return whole_depth_barriers<L>(k_tiles) + (int64_t)k_tiles * 8;
}

template <typename L>
static int64_t whole_depth_blocks(const struct conv_geometry *g)
{
    return (int64_t)conv_ceil_div(g->m, L::BM) * conv_ceil_div(g->k, L::BN);
}

/* Checks what was read into s->g, and fills in the rest. */
template <typename L>
static int
whole_depth_check(const struct kern_problem *p, const struct kern_device *d,
                  struct whole_depth_state *s, struct infer_error *why)
{
    struct conv_geometry *g = &s->g;
    const int64_t room =
        d->shared_per_block_optin ? d->shared_per_block_optin : 99 * 1024;

    if (g->groups != 1 || g->c % 8 || g->k % 8 || g->x_pitch % 8 ||
        g->y_pitch % 8 || g->r_pitch % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group and multiples of 8 channels");
    if (!unary_is_inline(p->epilogue.act.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes activations of few instructions");
    s->k_tiles = conv_ceil_div(g->depth, WHOLE_DEPTH_K_TILE);
    s->pointwise = g->r == 1 && g->s == 1 && g->stride_h == 1 &&
                   g->stride_w == 1 && g->p == g->h && g->q == g->w &&
                   g->pad_top == 0 && g->pad_left == 0;
    if (whole_depth_shared<L>(s->k_tiles) > room)
        return error_set(why, INFER_EUNSUPPORTED,
                         "holds a depth of %lld bytes in shared memory, of "
                         "which a block has %lld",
                         (long long)whole_depth_shared<L>(s->k_tiles),
                         (long long)room);
    if (g->m == 0 ||
        whole_depth_blocks<L>(g) > 4 * (int64_t)conv_multiprocessors(d) ||
        conv_ceil_div(g->m, L::BM) > 65535)
        return error_set(why, INFER_EUNSUPPORTED, "takes few tiles, found %lld",
                         (long long)whole_depth_blocks<L>(g));
    return 0;
}

/* fprop with packed weights, or dgrad with weights as they lie. */
template <typename L>
static int
whole_depth_read(const struct kern_problem *p, const struct kern_device *d, int,
                 struct whole_depth_state *s, struct infer_error *why)
{
    int rc;

    if (L::PACKED) {
        rc = conv_geometry_read_pitched(p, &s->g, why);
        if (rc == 0)
            rc = conv_weights_packable(p, why);
    } else {
        rc = conv_geometry_read_dgrad(p, &s->g, why);
    }
    return rc < 0 ? rc : whole_depth_check<L>(p, d, s, why);
}

template <typename L>
static int whole_depth_supports(const struct kern_problem *p,
                                const struct kern_device *d,
                                struct infer_error *why)
{
    struct whole_depth_state s = {};

    return whole_depth_read<L>(p, d, 0, &s, why);
}

/* Microseconds: a latency for each wave of blocks, and what the blocks of a
 * multiprocessor copy, multiply and store; fitted to kbench's measurements of
 * 61 layers on an H100, with 16 % of standard deviation.  percent: how much
 * faster than that. */
template <typename L>
static double whole_depth_estimate(const struct kern_problem *p,
                                   const struct kern_device *d, int percent)
{
    const double warps = (double)L::THREADS / 32;
    struct whole_depth_state s = {};

    if (whole_depth_read<L>(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const int each = conv_ceil_div((int)whole_depth_blocks<L>(&s.g),
                                   conv_multiprocessors(d));
    const int room = (int)(233472 / (whole_depth_shared<L>(s.k_tiles) + 1024));
    const int waves = conv_ceil_div(each, room > 0 ? room : 1);
    const double copies = 0.015 * (double)L::STAGE / 1024;
    /* ldmatrix of all warps. */
    const double products =
        0.0026 * warps * (double)(2 * L::MT + L::NT) / (double)(2 * L::WARPS_K);
    const double windows = s.pointwise ? 0 : 0.00024 * (double)L::BM;
    const double stores = 0.15 * (double)(L::BM * L::BN) / 1024;
    /* Blocks that fill a multiprocessor, one after another, hide no copy: 3x3
     * from 32 to 64 channels, 28x28, batch 64 (H200). */
    const double alone = room < 2 && each > 1 ? 0.0012 * (double)L::BM : 0;
    const double block =
        s.k_tiles * (copies + products + windows + alone) + stores;

    return (1.55 * waves + each * block + (s.pointwise ? 0 : 0.32)) * 100 /
           percent;
}

/* ---- packing and launching ----------------------------------------- */

template <typename L>
static void whole_depth_declare(struct kern_exec *e,
                                const struct whole_depth_state *s)
{
    if (L::PACKED)
        e->packed[CONV_W] = (size_t)s->g.k * (size_t)s->k_tiles *
                            WHOLE_DEPTH_K_TILE * sizeof(typename L::T);
}

template <typename L>
static int whole_depth_pack(const struct kern_exec *e, int i, const void *src,
                            void *dst, struct infer_error *err)
{
    const struct whole_depth_state *s =
        (const struct whole_depth_state *)e->state;

    (void)err;
    conv_pack_rows(&s->g, e->problem.in[i].dtype, src,
                   e->problem.in[CONV_X].dtype, CONV_ROUND_TYPE, s->g.c,
                   s->k_tiles * WHOLE_DEPTH_K_TILE, dst);
    return 0;
}

template <typename L>
static int whole_depth_launch(const struct kern_exec *e,
                              const struct kern_args *args,
                              struct infer_error *err)
{
    const struct whole_depth_state *s =
        (const struct whole_depth_state *)e->state;
    struct whole_depth_args a;
    const dim3 grid((unsigned)conv_ceil_div(s->g.k, L::BN),
                    (unsigned)conv_ceil_div(s->g.m, L::BM));

    a.g = s->g;
    a.x = args->in[CONV_X];
    a.w = args->in[CONV_W];
    a.k_tiles = s->k_tiles;
    a.channels.init((uint32_t)s->g.c);
    a.barriers = (int)whole_depth_barriers<L>(s->k_tiles);
    a.bias_is_constant = e->problem.constant_in & 1u << CONV_BIAS;
    a.out = output_of(e, args, s->g.k);
    a.out.y_pitch = s->g.y_pitch;
    a.out.r_pitch = s->g.r_pitch;
    return launch_chained(s->pointwise ? whole_depth_kernel<L, true>
                                       : whole_depth_kernel<L, false>,
                          grid, dim3(L::THREADS),
                          (size_t)whole_depth_shared<L>(s->k_tiles),
                          args->stream, a, err);
}

#define WHOLE_DEPTH_TILE(name, percent, ...)                                   \
    {                                                                          \
        name, percent, whole_depth_supports<__VA_ARGS__>,                      \
            whole_depth_estimate<__VA_ARGS__>, NULL, NULL,                     \
            state_prepare<struct whole_depth_state,                            \
                          whole_depth_read<__VA_ARGS__>,                       \
                          whole_depth_declare<__VA_ARGS__>>,                   \
            whole_depth_pack<__VA_ARGS__>, whole_depth_launch<__VA_ARGS__>     \
    }

/* Pixels x channels, and warps along pixels, channels and depth. */
template <typename T, bool PACKED>
static const struct conv_tile whole_depth_tiles[] = {
    WHOLE_DEPTH_TILE("128x64", 118,
                     whole_depth_tile<T, 128, 64, 4, 2, 1, PACKED>),
    WHOLE_DEPTH_TILE("64x64", 110,
                     whole_depth_tile<T, 64, 64, 2, 2, 2, PACKED>),
    WHOLE_DEPTH_TILE("64x32", 111,
                     whole_depth_tile<T, 64, 32, 4, 1, 2, PACKED>),
    WHOLE_DEPTH_TILE("32x64", 103,
                     whole_depth_tile<T, 32, 64, 2, 1, 4, PACKED>),
    WHOLE_DEPTH_TILE("32x32", 99, whole_depth_tile<T, 32, 32, 2, 1, 4, PACKED>),
    WHOLE_DEPTH_TILE("16x64", 115,
                     whole_depth_tile<T, 16, 64, 1, 1, 4, PACKED>),
    WHOLE_DEPTH_TILE("16x32", 105,
                     whole_depth_tile<T, 16, 32, 1, 1, 4, PACKED>),
};

#endif
