/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the wgmma stem rows: limits, packing, launch, tiles. */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_STEM_ROWS_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_STEM_ROWS_CUH

#include <string.h>

#include "kernels/cuda/conv/family.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/wgmma/wgmma_stem.cuh"

extern "C" {
#include "kernels/base/scalar.h"
#include "kernels/cuda/wgmma/tensor_map.h"
}

struct wgmma_stem_state {
    struct conv_tiled tiled;
    struct conv_geometry g;
    int shift, multiprocessors;
};

template <typename L>
static int wgmma_stem_read(const struct kern_problem *p,
                           const struct kern_device *d, int,
                           struct wgmma_stem_state *s, struct infer_error *why)
{
    const int rc = conv_geometry_read(p, &s->g, why);

    if (rc < 0)
        return rc;
    s->shift = s->g.pad_left * s->g.c & 1;
    s->multiprocessors = conv_multiprocessors(d);
    s->tiled.line = L::G * 8;
    return 0;
}

/* ---- limits -------------------------------------------------------- */

static inline int wgmma_stem_check(const struct wgmma_stem_state *s, int rows,
                                   int groups, struct infer_error *why)
{
    const struct conv_geometry *g = &s->g;

    if (g->groups != 1 || g->dilation_h != 1 || g->dilation_w != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group and no dilation");
    if (g->r != rows || conv_ceil_div(g->s * g->c + s->shift, 8) != groups)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes windows of %d rows of up to %d elements", rows,
                         groups * 8);
    if (g->stride_w * g->c > 6 || g->w * g->c % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "windows start too far apart, or rows of the image "
                         "are not aligned");
    if (g->k % 8 || g->k > 64)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to 64 output channels in 8s, found %d",
                         g->k);
    if (g->m == 0 || g->m > INT32_MAX / 128)
        return error_set(why, INFER_EUNSUPPORTED, "has no or too many outputs");
    return 0;
}

template <typename L>
static int wgmma_stem_supports(const struct kern_problem *p,
                               const struct kern_device *d,
                               struct infer_error *why)
{
    struct wgmma_stem_state s;
    int rc = wgmma_stem_read<L>(p, d, 0, &s, why);

    if (rc == 0)
        rc = conv_weights_packable(p, why);
    if (rc == 0)
        rc = wgmma_check_device(d, why);
    if (rc < 0)
        return rc;
    if (kern_problem_in(p, CONV_RESIDUAL) ||
        !unary_is_inline(p->epilogue.act.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes no residual and common activations only");
    return wgmma_stem_check(&s, L::R, L::G, why);
}

/* Microseconds on an H200: waves of three tiles a multiprocessor, many of which
 * overlap. */
template <typename L>
static double wgmma_stem_estimate(const struct kern_problem *p,
                                  const struct kern_device *d, int)
{
    struct wgmma_stem_state s;

    if (wgmma_stem_read<L>(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const int64_t tiles = (int64_t)s.g.n * s.g.p * conv_ceil_div(s.g.q, 64);
    const int64_t resident = 3 * (int64_t)s.multiprocessors;
    const double waves = tiles > 2 * resident
                             ? (double)tiles / (double)resident + 0.5
                             : (double)((tiles + resident - 1) / resident);

    return 1.5 +
           waves *
               (unary_is_piecewise_linear(p->epilogue.act.kind) ? 1.3 : 1.5);
}

/* ---- preparing ----------------------------------------------------- */

template <typename L>
static void wgmma_stem_declare(struct kern_exec *e,
                               const struct wgmma_stem_state *s)
{
    e->packed[CONV_W] = (size_t)s->g.k * L::K_TILES * 128;
}

/* Row k of the packed weights: w[k][c][r][s] at (r * G * 8 + shift + s * C +
 * c). */
template <typename L>
static int wgmma_stem_pack(const struct kern_exec *e, int i, const void *src,
                           void *dst, struct infer_error *err)
{
    const struct wgmma_stem_state *s =
        (const struct wgmma_stem_state *)e->state;
    const struct conv_geometry *g = &s->g;
    const enum infer_dtype from = e->problem.in[i].dtype;
    const int64_t pitch = L::K_TILES * 64;
    const int window = g->r * g->s;

    (void)err;
    memset(dst, 0, e->packed[CONV_W]);
    for (int k = 0; k < g->k; k++)
        for (int c = 0; c < g->c; c++)
            for (int rs = 0; rs < window; rs++)
                scalar_store(
                    e->problem.in[CONV_X].dtype, dst,
                    k * pitch + rs / g->s * L::G * 8 + s->shift +
                        rs % g->s * g->c + c,
                    scalar_load(from, src,
                                ((int64_t)k * g->c + c) * window + rs));
    return 0;
}

/* ---- launching ----------------------------------------------------- */

template <typename L>
static int wgmma_stem_maps(const struct wgmma_stem_state *s,
                           const struct kern_args *args, enum infer_dtype dtype,
                           struct wgmma_stem_args *a, struct infer_error *err)
{
    const enum tensor_map_type type = tensor_map_type_of(dtype);
    int rc =
        tensor_map_patches(&a->x, args->in[CONV_X], &s->g, L::WORDS, L::R, err);

    if (rc == 0)
        rc = tensor_map_matrix(&a->w, type, args->in[CONV_W], s->g.k,
                               L::K_TILES * 64, L::K_TILES * 64, 64, err);
    if (rc == 0)
        rc = tensor_map_output_rows(&a->y, type, args->out[0], &s->g, s->g.k,
                                    16, err);
    return rc;
}

template <typename L>
static int wgmma_stem_launch(const struct kern_exec *e,
                             const struct kern_args *args,
                             struct infer_error *err)
{
    const struct wgmma_stem_state *s =
        (const struct wgmma_stem_state *)e->state;
    struct wgmma_stem_args a;
    int rc;

    memset(&a, 0, sizeof(a));
    rc = wgmma_stem_maps<L>(s, args, e->problem.in[CONV_X].dtype, &a, err);
    if (rc < 0)
        return rc;
    a.g = s->g;
    a.out = output_of(e, args, s->g.k);
    a.shift = s->shift;
    a.lead = (4 - (s->g.pad_left * s->g.c + s->shift) / 2 % 4) % 4;
    a.step = s->g.stride_w * s->g.c;
    a.tiles_q = conv_ceil_div(s->g.q, 64);
    a.tiles = s->g.n * s->g.p * a.tiles_q;
    return launch_chained(
        wgmma_stem_kernel<L>,
        dim3(a.tiles < s->multiprocessors ? a.tiles : s->multiprocessors),
        dim3(L::THREADS), L::SHARED, args->stream, a, err);
}

/* ---- tiles --------------------------------------------------------- */

#define WGMMA_STEM_TILE(name, ...)                                             \
    {                                                                          \
        name, 0, wgmma_stem_supports<__VA_ARGS__>,                             \
            wgmma_stem_estimate<__VA_ARGS__>, NULL, NULL,                      \
            state_prepare<struct wgmma_stem_state,                             \
                          wgmma_stem_read<__VA_ARGS__>,                        \
                          wgmma_stem_declare<__VA_ARGS__>>,                    \
            wgmma_stem_pack<__VA_ARGS__>, wgmma_stem_launch<__VA_ARGS__>       \
    }

/* Rows of the window x elements of each: 7x7 and 3x3 of 3 channels. */
template <typename T>
static const struct conv_tile wgmma_stem_tiles[] = {
    WGMMA_STEM_TILE("7x24", wgmma_stem<T, 7, 3>),
    WGMMA_STEM_TILE("3x16", wgmma_stem<T, 3, 2>),
};

#endif
