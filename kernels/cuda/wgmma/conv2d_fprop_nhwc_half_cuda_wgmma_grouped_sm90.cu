/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped convolution on Hopper's wgmma and TMA, f16 and bf16: limits,
 * estimates, launch, tiles.  wgmma_grouped.cuh is the kernel. */
#include "kernels/cuda/wgmma/wgmma_grouped.cuh"
#include "kernels/cuda/wgmma/wgmma_rows.cuh"

extern "C" {
#include "kernels/cuda/wgmma/tensor_map_groups.h"
}

template <typename L>
static int grouped_configure(const struct kern_problem *p,
                             const struct kern_device *d, int variant,
                             struct wgmma_state *s, struct infer_error *why)
{
    const int rc = wgmma_configure<L>(p, d, variant, s, why);

    if (rc == 0)
        s->tiles_n = s->g.groups * conv_ceil_div(s->g.kg, L::BN);
    return rc;
}

/* ---- limits -------------------------------------------------------- */

template <typename L>
static int grouped_supports(const struct kern_problem *p,
                            const struct kern_device *d,
                            struct infer_error *why)
{
    struct wgmma_state s;
    const struct conv_geometry *g = &s.g;
    int rc = grouped_configure<L>(p, d, 0, &s, why);

    if (rc == 0)
        rc = conv_weights_packable(p, why);
    if (rc == 0)
        rc = wgmma_check_device(d, why);
    if (rc < 0)
        return rc;
    if (g->groups < 2 || g->cg % 8 || g->kg % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes several groups of inputs and outputs in 8s, "
                         "found %d of %d to %d channels",
                         g->groups, g->cg, g->kg);
    if (g->x_pitch % 8 || g->y_pitch % 8 || g->r_pitch % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes pixels that lie multiples of 8 elements "
                         "apart, found %d, %d and %d",
                         g->x_pitch, g->y_pitch, g->r_pitch);
    if (g->m == 0 || (int64_t)s.tiles_m * s.tiles_n > INT32_MAX / 16)
        return error_set(why, INFER_EUNSUPPORTED, "has no or too many outputs");
    if (L::BN < 64 && g->kg > L::BN)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to %d outputs a group, found %d", (int)L::BN,
                         g->kg);
    if (!unary_is_inline(p->epilogue.act.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "its activation is left to other kernels");
    if (bn_stats_of(p))
        return error_set(why, INFER_EUNSUPPORTED,
                         "makes no partial statistics");
    return tensor_map_check_groups(g, why);
}

/* ---- heuristic ----------------------------------------------------- */

/* Bytes that a multiprocessor takes in from the L2 cache in a microsecond. */
#define INTAKE 94e3

/* Microseconds of one k-tile: its products, or its loads.  A k-tile of at most
 * half its channels has half the products, but TMA takes as long for its
 * pixels: 9 k-tiles of 256 pixels take 4.4 to 5.1 us a tile with 16 channels a
 * group as with 32, of 128 pixels 3.5 (seven layers, H200). */
template <typename L>
static double grouped_k_tile_us(const struct wgmma_state *s, int percent)
{
    const int columns = s->g.kg < L::BN ? s->g.kg : (int)L::BN;
    const double filled = s->g.cg / (64.0 * s->per_position);
    const bool half = s->g.cg <= 32;
    const double products = wgmma_k_tile_us<L>(percent) * (half ? 0.5 : 1);
    const double loads = 128 * ((int)L::BM * filled + columns) / INTAKE;

    const double gather = 0.15 + 1e-3 * (int)L::BM;
    const double copy = loads > gather ? loads : gather;

    return products > copy ? products : copy;
}

/* As wgmma_estimate_tile(): waves of tiles, or the memory traffic. */
template <typename L>
static double grouped_estimate(const struct kern_problem *p,
                               const struct kern_device *d, int percent)
{
    struct wgmma_state s;

    if (grouped_configure<L>(p, d, 0, &s, NULL) < 0 || s.tiles_n == 0)
        return 1e30;
    const int waves = conv_ceil_div(s.tiles_m * s.tiles_n, s.multiprocessors);
    const int columns = s.g.kg < L::BN ? s.g.kg : (int)L::BN;
    const double stage =
        unary_is_piecewise_linear(p->epilogue.act.kind) ? 0.45 : 0.85;
    const double residual = kern_problem_in(p, CONV_RESIDUAL) ? 0.1 : 0;
    const double products =
        s.k_tiles * grouped_k_tile_us<L>(&s, percent) + 0.33;
    const double stores =
        (int)L::MT * conv_ceil_div(columns, 64) * (stage + residual);
    double time = waves * (products + stores);

    if (L::PINGPONG == 2) {
        const double all = waves * products + stores;
        const double one = (waves + 1) / 2 * (products + stores);
        time = all > one ? all : one;
    }
    return 1.35 + cost_overlapped(time, wgmma_bytes_us(p, &s.g), 0.36);
}

/* ---- launching ----------------------------------------------------- */

/* The tensor maps. */
template <typename L>
static int grouped_maps(const struct kern_exec *e, const struct kern_args *args,
                        const struct wgmma_state *s,
                        struct wgmma_grouped_args *a, struct infer_error *err)
{
    const enum tensor_map_type type =
        tensor_map_type_of(e->problem.in[CONV_X].dtype);
    const struct conv_geometry *g = &s->g;
    const int tail = g->kg % L::BN;
    int rc =
        tensor_map_im2col_groups(&a->x, type, args->in[CONV_X], g, L::BM, err);

    if (rc == 0)
        rc = tensor_map_matrix(&a->w, type, args->in[CONV_W], g->k, s->pitch,
                               s->pitch, L::BN, err);
    if (rc == 0 && tail > 0)
        rc = tensor_map_matrix(&a->w_tail, type, args->in[CONV_W], g->k,
                               s->pitch, s->pitch, tail, err);
    if (rc == 0)
        rc = tensor_map_output_groups(&a->y, type, a->out.y, g, g->y_pitch, 16,
                                      err);
    if (rc == 0 && a->out.residual)
        rc = tensor_map_output_groups(&a->residual, type, a->out.residual, g,
                                      g->r_pitch, 64, err);
    return rc;
}

template <typename L>
static int grouped_launch(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct wgmma_state *s = (const struct wgmma_state *)e->state;
    struct wgmma_grouped_args a;

    memset(&a, 0, sizeof a);
    a.g = s->g;
    a.out = output_of(e, args, s->g.k);
    a.constant_bias = !a.out.bias || (e->problem.constant_in & 1u << CONV_BIAS);
    a.per_position = s->per_position;
    a.k_tiles = s->k_tiles;
    a.tiles_m = s->tiles_m;
    a.tiles_n = s->tiles_n;
    a.columns.init((uint32_t)s->tiles_n);
    a.each.init((uint32_t)(s->tiles_n / s->g.groups));
    const int rc = grouped_maps<L>(e, args, s, &a, err);
    return rc < 0 ? rc
                  : wgmma_launch_persistent<L>(wgmma_grouped_kernel<L>, s,
                                               args->stream, a, err);
}

/* ---- tiles --------------------------------------------------------- */

#define GROUPED_TILE(name, percent, ...)                                       \
    {                                                                          \
        name, percent, grouped_supports<__VA_ARGS__>,                          \
            grouped_estimate<__VA_ARGS__>, NULL, NULL,                         \
            state_prepare<struct wgmma_state, grouped_configure<__VA_ARGS__>,  \
                          wgmma_declare<__VA_ARGS__>>,                         \
            wgmma_pack<__VA_ARGS__>, grouped_launch<__VA_ARGS__>               \
    }

/* As wgmma_conv_tiles: pixels x channels of a group. */
template <typename M>
static const struct conv_tile wgmma_grouped_tiles[] = {
    GROUPED_TILE("128x192", 78, wgmma_tile<M, 1, 2, 2, 192, 4, 4>),
    GROUPED_TILE("128x128", 84, wgmma_tile<M, 2, 1, 2, 128, 4, 5>),
    GROUPED_TILE("256x64", 76, wgmma_tile<M, 4, 1, 2, 64, 4, 4>),
    GROUPED_TILE("128x64", 67, wgmma_tile<M, 2, 1, 2, 64, 5, 4>),
    GROUPED_TILE("64x64", 46, wgmma_tile<M, 1, 1, 2, 64, 8, 4>),
    GROUPED_TILE("128x32", 48, wgmma_tile<M, 2, 1, 2, 32, 6, 4>),
};

CONV_FAMILY(conv2d_fprop_nhwc_f16_cuda_wgmma_grouped_sm90,
            wgmma_grouped_tiles<wgmma_f16>)
CONV_FAMILY(conv2d_fprop_nhwc_bf16_cuda_wgmma_grouped_sm90,
            wgmma_grouped_tiles<wgmma_bf16>)
