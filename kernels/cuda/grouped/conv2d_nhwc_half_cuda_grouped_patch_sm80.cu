/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of many groups of few channels, and their gradients of inputs,
 * f16 and bf16: limits, estimates, launch, tiles.  grouped_patch.cuh is the
 * kernel. */
#include <math.h>
#include <stdio.h>

#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/family.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/grouped/grouped_patch.cuh"
#include "kernels/cuda/grouped/grouped_shape.cuh"

extern "C" {
#include "kernels/base/scalar.h"
}

struct grouped_patch_state {
    struct conv_tiled tiled;
    struct grouped_patch_shape s;
    int per_slice; /* blocks of a slice at most */
    int blocks;    /* of a multiprocessor */
    int multiprocessors;
};

/* ---- limits -------------------------------------------------------- */

static bool grouped_is_held(const struct grouped_patch_shape *s)
{
    return s->g.r == 3 && s->g.s == 3 && s->steps <= 2;
}

/* Along one axis: the remainder of the outputs that see position `tap` of a
 * window of three, and the pixel of dy where those of the first tile do. */
static int grouped_sees(int tap, int stride, int pad, int *pixel)
{
    const int flipped = 2 - tap, off = (flipped - pad) % stride;
    const int rest = off < 0 ? off + stride : off;

    *pixel = (rest + pad - flipped) / stride;
    return rest;
}

/* The phases of a dgrad with strides of p, and its pads. */
static void grouped_find_phases(const struct kern_conv *c,
                                struct grouped_patch_shape *s)
{
    struct grouped_phases *f = &s->f;
    int row[3], column[3], of_row[3], of_column[3], top = 0, left = 0;

    f->h = c->stride[0];
    f->w = c->stride[1];
    f->n = f->h * f->w;
    for (int i = 0; i < 3; i++) {
        of_row[i] = grouped_sees(i, f->h, c->pad_begin[0], &row[i]);
        of_column[i] = grouped_sees(i, f->w, c->pad_begin[1], &column[i]);
        top = i == 0 || row[i] < top ? row[i] : top;
        left = i == 0 || column[i] < left ? column[i] : left;
    }
    s->g.pad_top = -top;
    s->g.pad_left = -left;
    for (int tap = 0; tap < GROUPED_TAPS; tap++) {
        f->at[tap].row = (short)(row[tap / 3] - top);
        f->at[tap].column = (short)(column[tap % 3] - left);
        f->taps[of_row[tap / 3] * f->w + of_column[tap % 3]] |= 1u << tap;
    }
}

/* A dgrad; one with strides is read as if they were 1, which changes nothing
 * but the pads. */
static int grouped_read_dgrad(const struct kern_problem *p,
                              struct grouped_patch_shape *s,
                              struct infer_error *why)
{
    const struct kern_conv *c = &p->attr.conv;
    const struct kern_tensor *w = &p->in[CONV_W];
    struct kern_problem plain = *p;
    bool fits = p->in[CONV_X].rank == 4;

    if (!fits || c->stride[0] * c->stride[1] == 1)
        return conv_geometry_read_dgrad(p, &s->g, why);
    for (int i = 0; i < 2; i++) {
        fits = fits && c->stride[i] <= 2 && c->dilation[i] == 1 &&
               w->dim[i + 2] == 3 && c->pad_begin[i] >= 0 &&
               c->pad_begin[i] <= 64;
        plain.attr.conv.stride[i] = 1;
    }
    if (!fits)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes strides of 2 with windows of 3 x 3, without "
                         "dilation");
    const int rc = conv_geometry_read_dgrad(&plain, &s->g, why);
    if (rc == 0)
        grouped_find_phases(c, s);
    return rc;
}

/* Reads fprop with constant weights, or with others, or dgrad. */
static int grouped_read_geometry(const struct kern_problem *p,
                                 struct grouped_patch_shape *s,
                                 struct infer_error *why)
{
    const struct kern_tensor *w = &p->in[CONV_W];
    int rc;

    s->f.n = s->f.h = s->f.w = 1;
    if (p->op == KERN_CONV_DGRAD)
        return grouped_read_dgrad(p, s, why);
    rc = conv_geometry_read_pitched(p, &s->g, why);
    if (rc < 0)
        return rc;
    s->packed = p->constant_in & 1u << CONV_W;
    if (s->packed)
        return conv_weights_packable(p, why);
    if (w->dtype != p->in[CONV_X].dtype || !kern_tensor_is_dense(w, KERN_NHWC))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes weights that change in the input's type, "
                         "inputs innermost");
    return 0;
}

static int grouped_check(const struct kern_problem *p,
                         const struct conv_geometry &g, struct infer_error *why)
{
    const int together = g.kg < GROUPED_N ? GROUPED_N / g.kg * g.cg : g.cg;

    if (g.groups < 2 || g.cg > GROUPED_MAX_CHANNELS ||
        g.kg > GROUPED_MAX_CHANNELS || g.m == 0)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes two groups and more of at most %d channels, "
                         "found %d of %d to %d",
                         GROUPED_MAX_CHANNELS, g.groups, g.cg, g.kg);
    if (together % 8 || (g.kg < GROUPED_N ? GROUPED_N % g.kg : g.kg % 8))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes groups that begin at multiples of 8 channels, "
                         "one by one or as many as have 16 outputs, found %d "
                         "to %d",
                         g.cg, g.kg);
    if (g.c % 8 || g.k % 8 || g.x_pitch % 8 || g.y_pitch % 8 || g.r_pitch % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels in eights, found %d to %d", g.c, g.k);
    if (g.r > 32 || g.s > 32 || g.stride_h > 16 || g.stride_w > 16 ||
        g.dilation_h > 64 || g.dilation_w > 64)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes windows up to 32, strides up to 16 and "
                         "dilations up to 64");
    if (!unary_is_inline(p->epilogue.act.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes activations of few instructions");
    return 0;
}

template <typename L>
static int
grouped_read(const struct kern_problem *p, const struct kern_device *d, int,
             struct grouped_patch_state *state, struct infer_error *why)
{
    struct grouped_patch_shape *s = &state->s;
    const int room =
        d->shared_per_block_optin ? d->shared_per_block_optin : 99 * 1024;
    int rc = grouped_read_geometry(p, s, why);

    if (rc == 0)
        rc = grouped_check(p, s->g, why);
    if (rc < 0)
        return rc;
    if (!grouped_slice(s, 4))
        return error_set(why, INFER_EUNSUPPORTED,
                         "16 outputs read more than %d channels",
                         2 * GROUPED_MAX_CHANNELS);
    const bool held = grouped_is_held(s);
    if (!held && !s->packed)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes weights that change for 3 x 3 windows and 32 "
                         "channels a group at most");
    const int64_t operands = (int64_t)s->g.r * s->g.s * s->steps;
    const int weights = s->across * (int)operands * 32 * 16;
    const int behind = !held ? (int)operands * 4 : s->steps == 2 ? weights : 0;
    s->down = (int)L::WARPS / s->across;
    if (s->columns * operands * 32 * 8 > INT32_MAX || s->slices > 65535 ||
        !grouped_choose_tile(s, L::PARTS, room - behind) ||
        (int64_t)s->g.n * s->tiles_p * s->tiles_q > INT32_MAX / 2)
        return error_set(why, INFER_EUNSUPPORTED,
                         "windows of %d x %d with dilation %d x %d reach too "
                         "far, or there are too many outputs",
                         s->g.r, s->g.s, s->g.dilation_h, s->g.dilation_w);
    const int most = GROUPED_RESIDENT / (int)L::WARPS;
    const int share = (room + 1024) / most - 1024;
    s->stages = 3 * s->patch_bytes + behind <= share ? 3 : 2;
    s->shared = s->stages * s->patch_bytes + behind;
    if (held && !s->packed && s->shared < weights)
        s->shared = weights; /* gathered there, before the first patch */
    const int fit = (room + 1024) / (s->shared + 1024);
    state->blocks = fit < most ? fit : most;
    state->multiprocessors = conv_multiprocessors(d);
    const int each = state->blocks * state->multiprocessors / s->slices;
    state->per_slice = each < 1 ? 1 : each > 65535 ? 65535 : each;
    return 0;
}

template <typename L>
static int grouped_supports(const struct kern_problem *p,
                            const struct kern_device *d,
                            struct infer_error *why)
{
    struct grouped_patch_state s = {};

    return grouped_read<L>(p, d, 0, &s, why);
}

/* ---- estimate ------------------------------------------------------ */

/* Microseconds: latencies, what the tiles of a multiprocessor multiply and
 * finish, and the bytes; fitted to 434 measurements of kbench on an H200, 37
 * layers at three batches, with 17 % of standard deviation, before rows of the
 * patch were padded. */
template <typename L>
static double grouped_estimate(const struct kern_problem *p,
                               const struct kern_device *d, int percent)
{
    const bool quick = unary_is_piecewise_linear(p->epilogue.act.kind);
    struct grouped_patch_state state = {};

    if (grouped_read<L>(p, d, 0, &state, NULL) < 0)
        return 1e30;
    const struct grouped_patch_shape &s = state.s;
    const double tiles = (double)s.g.n * s.tiles_p * s.tiles_q;
    const double turns = ceil(tiles / state.per_slice);
    const double all = tiles * s.slices / state.multiprocessors;
    const double work = all > state.blocks ? all : turns;
    const int operands = s.g.r * s.g.s * s.steps, parts = (int)L::PARTS;
    const double multiply = !grouped_is_held(&s) ? 7.6e-3
                            : s.steps == 2       ? 3.0e-3
                                                 : 2.3e-3;
    const double each = operands * multiply + s.f.n * (quick ? 5e-3 : 9e-3);
    const double gather = s.packed ? 0 : 3 * s.steps;

    return (1.5 + gather + 0.03 * operands +
            turns * (0.28 + 0.02 * parts * operands) +
            work * parts * s.across * s.down * each +
            cost_conv_bytes(p, &s.g) / 6e6) *
           100 / percent;
}

/* ---- packing and launching ----------------------------------------- */

template <typename L>
static void grouped_declare(struct kern_exec *e,
                            const struct grouped_patch_state *state)
{
    const struct grouped_patch_shape *s = &state->s;

    if (s->packed)
        e->packed[CONV_W] = (size_t)s->columns * (size_t)(s->g.r * s->g.s) *
                            (size_t)s->steps * 32 * sizeof(uint4);
}

static int grouped_pack(const struct kern_exec *e, int i, const void *src,
                        void *dst, struct infer_error *err)
{
    const struct grouped_patch_shape *s =
        &((const struct grouped_patch_state *)e->state)->s;
    const struct conv_geometry &g = s->g;
    const enum infer_dtype from = e->problem.in[i].dtype;
    const enum infer_dtype to = e->problem.in[CONV_X].dtype;
    const int taps = g.r * g.s, operands = taps * s->steps;
    int64_t at = 0;

    (void)err;
    for (int operand = 0; operand < s->columns * operands; operand++)
        for (int lane = 0; lane < 32; lane++)
            for (int v = 0; v < 8; v++, at++) {
                const int rest = operand % operands;
                int k, c;
                double weight = 0;
                if (grouped_weight_of(g, operand / operands, rest % s->steps,
                                      lane, v, &k, &c))
                    weight = scalar_load(from, src,
                                         ((int64_t)k * g.cg + c % g.cg) * taps +
                                             rest / s->steps);
                scalar_store(to, dst, at, weight);
            }
    return 0;
}

/* fprop: [k][tap][c of a group]; dgrad: c and k exchanged, taps from the last.
 */
static struct grouped_lie grouped_lie_of(const struct conv_geometry *g,
                                         bool dgrad)
{
    const int taps = g->r * g->s;

    if (dgrad)
        return {(taps - 1) * g->kg, g->cg * taps * g->kg, 1, taps * g->kg,
                -g->kg};
    return {0, g->kg * taps * g->cg, taps * g->cg, 1, g->cg};
}

template <typename L, int STEPS, bool PHASES>
static int grouped_start_as(const struct grouped_patch_state *state,
                            const struct grouped_patch_args &a, void *stream,
                            struct infer_error *err)
{
    const struct grouped_patch_shape *s = &state->s;
    const int tall = a.tiles < state->per_slice ? a.tiles : state->per_slice;

    return launch_chained(grouped_patch_kernel<L, STEPS, PHASES>,
                          dim3((unsigned)s->slices, (unsigned)tall),
                          dim3((unsigned)(s->across * s->down * 32)),
                          (size_t)s->shared, stream, a, err);
}

template <typename L, int STEPS>
static int grouped_start(const struct grouped_patch_state *state,
                         const struct grouped_patch_args &a, void *stream,
                         struct infer_error *err)
{
    if constexpr (STEPS > 0)
        if (state->s.f.n > 1)
            return grouped_start_as<L, STEPS, true>(state, a, stream, err);
    return grouped_start_as<L, STEPS, false>(state, a, stream, err);
}

template <typename L>
static int grouped_launch(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct grouped_patch_state *state =
        (const struct grouped_patch_state *)e->state;
    const struct grouped_patch_shape *s = &state->s;
    const struct conv_geometry *g = &s->g;
    struct grouped_patch_args a = {};

    grouped_args_of(s, &a);
    a.lie = grouped_lie_of(g, e->problem.op == KERN_CONV_DGRAD);
    a.x = args->in[CONV_X];
    a.w = args->in[CONV_W];
    a.out = output_of(e, args, g->k);
    a.out.y_pitch = g->y_pitch;
    a.out.r_pitch = g->r_pitch;
    if (!grouped_is_held(s))
        return grouped_start<L, 0>(state, a, args->stream, err);
    if (s->steps == 1)
        return grouped_start<L, 1>(state, a, args->stream, err);
    /* Weights from shared memory serve all pixels of a warp at once. */
    return grouped_start<
        grouped_tile<typename L::T, (int)L::PARTS, 1, (int)L::WARPS>, 2>(
        state, a, args->stream, err);
}

/* ---- tiles --------------------------------------------------------- */

#define GROUPED_TILE(name, percent, ...)                                       \
    {                                                                          \
        name, percent, grouped_supports<__VA_ARGS__>,                          \
            grouped_estimate<__VA_ARGS__>, NULL, NULL,                         \
            state_prepare<struct grouped_patch_state,                          \
                          grouped_read<__VA_ARGS__>,                           \
                          grouped_declare<__VA_ARGS__>>,                       \
            grouped_pack, grouped_launch<__VA_ARGS__>                          \
    }

/* Pixels x channels of a warp, and warps of a block. */
template <typename T>
static const struct conv_tile grouped_tiles[] = {
    GROUPED_TILE("64x16_8", 100, grouped_tile<T, 2, 2, 8>),
    GROUPED_TILE("32x16_8", 100, grouped_tile<T, 2, 1, 8>),
    GROUPED_TILE("32x16_4", 100, grouped_tile<T, 2, 1, 4>),
    GROUPED_TILE("16x16_4", 100, grouped_tile<T, 1, 1, 4>),
};

CONV_FAMILY(conv2d_fprop_nhwc_f16_cuda_grouped_patch_sm80,
            grouped_tiles<__half>)
CONV_FAMILY(conv2d_fprop_nhwc_bf16_cuda_grouped_patch_sm80,
            grouped_tiles<__nv_bfloat16>)
CONV_FAMILY(conv2d_dgrad_nhwc_f16_cuda_grouped_patch_sm80,
            grouped_tiles<__half>)
CONV_FAMILY(conv2d_dgrad_nhwc_bf16_cuda_grouped_patch_sm80,
            grouped_tiles<__nv_bfloat16>)
