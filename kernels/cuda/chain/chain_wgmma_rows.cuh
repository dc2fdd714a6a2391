/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of chain_wgmma.cuh: limits, estimates, packing, launch. */
#ifndef KERNELS_CUDA_CHAIN_CHAIN_WGMMA_ROWS_CUH
#define KERNELS_CUDA_CHAIN_CHAIN_WGMMA_ROWS_CUH

#include "kernels/cuda/chain/chain_wgmma.cuh"
#include "kernels/cuda/wgmma/wgmma_rows.cuh"

extern "C" {
#include "kernels/chain/chain.h"
}

struct chain_wgmma_state {
    struct wgmma_state first;
    struct wgmma_state second; /* its geometry and pitch */
};

/* 222,272 and 230,464 bytes of shared memory, of 232,448.  Fewer stages of the
 * pipeline for more of the epilogue or of the ring are no faster
 * (tests/results/hopper-conv.md). */
template <typename T> using chain_wgmma_64 = chain_wgmma_tile<T, 64, 5, 4>;
template <typename T> using chain_wgmma_128 = chain_wgmma_tile<T, 128, 4, 2>;

/* ---- limits -------------------------------------------------------- */

static inline int chain_wgmma_check(const struct kern_problem *p,
                                    const struct kern_device *d,
                                    const struct chain_wgmma_state *s,
                                    struct infer_error *why)
{
    int rc = conv_weights_packable(p, why);

    if (rc == 0)
        rc = wgmma_check_device(d, why);
    if (rc == 0)
        rc = wgmma_check_channels(&s->first.g, 8, why);
    if (rc == 0)
        rc = wgmma_check_channels(&s->second.g, 8, why);
    if (rc == 0 && s->first.im2col)
        rc = tensor_map_check_im2col(&s->first.g, why);
    if (rc < 0)
        return rc;
    if (s->first.g.k > 128)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to 128 middle channels, found %d",
                         s->first.g.k);
    if (s->first.g.m == 0 || s->first.tiles_m > INT32_MAX / 16)
        return error_set(why, INFER_EUNSUPPORTED, "has no or too many outputs");
    if (!unary_is_inline(p->attr.chain.act.kind) ||
        !unary_is_inline(p->epilogue.act.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "its activation is left to other kernels");
    return 0;
}

static inline int chain_wgmma_read(const struct kern_problem *p,
                                   const struct kern_device *d, int,
                                   struct chain_wgmma_state *s,
                                   struct infer_error *why)
{
    const enum infer_dtype type = p->in[CHAIN_X].dtype;
    struct conv_geometry *g = &s->first.g;
    struct kern_problem first, second;
    int rc;

    chain_first(p, type, KERN_NHWC, &first);
    chain_second(p, type, KERN_NHWC, &second);
    rc = conv_geometry_read_pitched(&first, g, why);
    if (rc == 0)
        rc = conv_geometry_read_pitched(&second, &s->second.g, why);
    if (rc == 0)
        rc = conv_weights_packable(&second, why);
    if (rc < 0)
        return rc;
    s->first.im2col = tensor_map_needs_im2col(g);
    s->first.per_position = conv_ceil_div(g->cg, 64);
    s->first.k_tiles = g->r * g->s * s->first.per_position;
    s->first.pitch = s->first.k_tiles * 64;
    s->first.multiprocessors = conv_multiprocessors(d);
    s->first.tiles_m = conv_ceil_div(g->m, 128);
    s->first.tiles_n = 1;
    s->second.pitch = s->second.g.c;
    return chain_wgmma_check(p, d, s, why);
}

/* ---- heuristic ----------------------------------------------------- */

static inline double chain_wgmma_box_us(enum kern_unary_kind act)
{
    return unary_is_piecewise_linear(act) ? 0.45 : 0.85;
}

/* Waves of tiles or the memory traffic, as wgmma_estimate_tile() reckons; what
 * a consumer does behind the first product has the second one in it. */
static double chain_wgmma_estimate(const struct kern_problem *p,
                                   const struct kern_device *d)
{
    struct chain_wgmma_state s = {};

    if (chain_wgmma_read(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const int bn = s.first.g.k > 64 ? 128 : 64;
    const int waves = conv_ceil_div(s.first.tiles_m, s.first.multiprocessors);
    const int chunks = conv_ceil_div(s.second.g.k, 64);
    const double residual = kern_problem_in(p, CHAIN_RESIDUAL) ? 0.1 : 0;
    const double first = s.first.k_tiles * bn * (bn > 64 ? 2.8e-3 : 3.5e-3);
    const double second = chunks * bn * 3.3e-3;
    const double middle =
        bn / 32 * (chain_wgmma_box_us(p->attr.chain.act.kind) - 0.35);
    const double stores =
        2 * chunks * (chain_wgmma_box_us(p->epilogue.act.kind) + residual);
    const double all = waves * (first + second) + middle + stores;
    const double one = (waves + 1) / 2 * (first + middle + second + stores);

    return 1.35 + cost_overlapped(
                      all > one ? all : one,
                      wgmma_traffic_us(1e-6 * kern_problem_bytes(p)), 0.36);
}

/* ---- preparing ----------------------------------------------------- */

static void chain_wgmma_declare(struct kern_exec *e,
                                const struct chain_wgmma_state *s)
{
    e->packed[CHAIN_W] = (size_t)s->first.g.k * (size_t)s->first.pitch * 2;
    e->packed[CHAIN_W2] = (size_t)s->second.g.k * (size_t)s->second.pitch * 2;
    snprintf(e->variant_name, sizeof e->variant_name, "128x%d",
             s->first.g.k <= 64 ? 64 : 128);
}

static const auto chain_wgmma_supports =
    state_supports<struct chain_wgmma_state, chain_wgmma_read>;
static const auto chain_wgmma_prepare =
    state_prepare<struct chain_wgmma_state, chain_wgmma_read,
                  chain_wgmma_declare>;

static int chain_wgmma_pack(const struct kern_exec *e, int i, const void *src,
                            void *dst, struct infer_error *err)
{
    const struct chain_wgmma_state *s =
        (const struct chain_wgmma_state *)e->state;
    const struct wgmma_state *part = i == CHAIN_W ? &s->first : &s->second;

    (void)err;
    conv_pack_rows(&part->g, e->problem.in[i].dtype, src,
                   e->problem.in[CHAIN_X].dtype, CONV_ROUND_TYPE,
                   part->pitch / (part->g.r * part->g.s), part->pitch, dst);
    return 0;
}

/* ---- launching ----------------------------------------------------- */

static inline bool chain_wgmma_bias(const struct kern_exec *e,
                                    const struct kern_args *args, int i,
                                    const float **bias)
{
    const bool any = kern_problem_in(&e->problem, i) != NULL;

    *bias = any ? (const float *)args->in[i] : NULL;
    return !any || (e->problem.constant_in >> i & 1);
}

static inline void chain_wgmma_fill_args(const struct kern_exec *e,
                                         const struct kern_args *args,
                                         struct chain_wgmma_args *a)
{
    const struct chain_wgmma_state *s =
        (const struct chain_wgmma_state *)e->state;
    const struct kern_problem *p = &e->problem;
    struct output_args *out = &a->second.out;

    memset(a, 0, sizeof *a);
    a->first.g = s->first.g;
    a->first.im2col = s->first.im2col;
    a->first.per_position = s->first.per_position;
    a->first.k_tiles = s->first.k_tiles;
    a->first.tiles_m = s->first.tiles_m;
    a->first.tiles_n = 1;
    a->first.out.epilogue.act = p->attr.chain.act;
    a->first.constant_bias =
        chain_wgmma_bias(e, args, CHAIN_BIAS, &a->first.out.bias);
    a->second.g = s->second.g;
    a->second.constant_bias =
        chain_wgmma_bias(e, args, CHAIN_BIAS2, &out->bias);
    out->y = args->out[0];
    out->residual =
        kern_problem_in(p, CHAIN_RESIDUAL) ? args->in[CHAIN_RESIDUAL] : NULL;
    out->k = s->second.g.k;
    out->y_pitch = s->second.g.y_pitch;
    out->r_pitch = s->second.g.r_pitch;
    out->epilogue = p->epilogue;
    a->second.unaligned = (uintptr_t)out->y % 16 != 0;
}

template <typename L>
static int chain_wgmma_launch_tile(const struct kern_exec *e,
                                   const struct kern_args *args,
                                   struct infer_error *err)
{
    const struct chain_wgmma_state *s =
        (const struct chain_wgmma_state *)e->state;
    const enum infer_dtype type = e->problem.in[CHAIN_X].dtype;
    struct chain_wgmma_args a;
    int rc;

    chain_wgmma_fill_args(e, args, &a);
    rc = wgmma_load_maps<L>(e, args, &s->first, &a.first, err);
    if (rc == 0)
        rc = tensor_map_matrix(&a.second.w, tensor_map_type_of(type),
                               args->in[CHAIN_W2], s->second.g.k, s->second.g.c,
                               s->second.pitch, L::OUTPUTS, err);
    if (rc == 0)
        rc = wgmma_store_maps(&s->second, type, &a.second, err);
    if (rc < 0)
        return rc;
    const bool plain =
        unary_is_piecewise_linear(a.first.out.epilogue.act.kind) &&
        unary_is_piecewise_linear(a.second.out.epilogue.act.kind);
    return wgmma_launch_persistent<L>(
        plain ? chain_wgmma_kernel<L, WGMMA_PIECEWISE_LINEAR>
              : chain_wgmma_kernel<L, WGMMA_ANY>,
        &s->first, args->stream, a, err);
}

template <typename T>
static int chain_wgmma_launch(const struct kern_exec *e,
                              const struct kern_args *args,
                              struct infer_error *err)
{
    const struct chain_wgmma_state *s =
        (const struct chain_wgmma_state *)e->state;

    return s->first.g.k <= 64
               ? chain_wgmma_launch_tile<chain_wgmma_64<T>>(e, args, err)
               : chain_wgmma_launch_tile<chain_wgmma_128<T>>(e, args, err);
}

#define CHAIN_WGMMA_ROW(symbol, T)                                             \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = chain_wgmma_supports,                                      \
        .estimate = chain_wgmma_estimate,                                      \
        .prepare = chain_wgmma_prepare,                                        \
        .pack = chain_wgmma_pack,                                              \
        .launch = chain_wgmma_launch<T>,                                       \
        .release = cuda_state_release,                                         \
    };

#endif
