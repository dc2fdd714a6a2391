/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of a convolution's inputs on Hopper's warpgroup products, from
 * weights as they lie in training: [k][r][s][c].  The copy engine fetches boxes
 * of 64 k by 64 c of one tap, which the products take turned over, so that no
 * launch packs them first.
 *
 * Stride 1: dx is a convolution of dy with the window turned round and the
 * roles of K and C exchanged, pads become dilation (R - 1) - pad; it runs on
 * the tiles of the way forwards (wgmma_tile.cuh).  Strides of 2: by phases
 * (wgmma_phases.cuh), in one launch.  Phases without taps, of windows smaller
 * than the stride, get zeros or what is added; in place they are left alone.
 *
 * Variants are the tiles, the one with the lowest estimate first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/wgmma/wgmma_phases.cuh"
#include "kernels/cuda/wgmma/wgmma_rows.cuh"

struct plan {
    int phases; /* 1 where strides are 1 */
    struct conv_geometry g[WGMMA_MAX_PHASES];
    struct wgmma_phase phase[WGMMA_MAX_PHASES];
    int per_position, k_tiles; /* of all phases */
    int most;                  /* pixels of the largest phase */
    int tapped;                /* phases with taps */
    int multiprocessors;
};

struct dgrad_state {
    struct plan plan;
    const struct shape *shape;
};

/* A tile: its estimate and its launch. */
struct shape {
    const char *name;
    double (*estimate)(const struct kern_problem *p, const struct plan *plan);
    int (*run)(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err);
};

/* ---- planning ------------------------------------------------------ */

static bool is_strided(const struct kern_problem *p)
{
    return p->attr.conv.stride[0] * p->attr.conv.stride[1] > 1;
}

/* Along one axis: the first tap, their number, the pad in front of dy and the
 * outputs. */
struct taps {
    int first, count, begin, extent;
};

static struct taps taps_of(const struct kern_problem *p, int axis, int rest)
{
    const struct kern_conv *c = &p->attr.conv;
    const int stride = c->stride[axis], at = rest + c->pad_begin[axis];
    const int window = (int)p->in[CONV_W].dim[axis + 2];
    struct taps t;

    t.first = stride == 1 ? 0 : at % stride;
    t.count = t.first < window ? (window - t.first + stride - 1) / stride : 0;
    t.begin = c->dilation[axis] * (t.count - 1) - (at - t.first) / stride;
    t.extent = ((int)p->out[0].dim[axis + 2] - rest + stride - 1) / stride;
    return t;
}

static void make_phase(const struct kern_problem *p, int row, int column,
                       int per_position, struct conv_geometry *g,
                       struct wgmma_phase *f)
{
    const struct kern_tensor *dy = &p->in[CONV_X], *dx = &p->out[0];
    const struct taps y = taps_of(p, 0, row), x = taps_of(p, 1, column);

    memset(g, 0, sizeof(*g));
    g->n = (int)dy->dim[0];
    g->h = (int)dy->dim[2];
    g->w = (int)dy->dim[3];
    g->c = g->cg = g->x_pitch = (int)dy->dim[1];
    g->k = g->kg = g->y_pitch = g->r_pitch = (int)dx->dim[1];
    g->p = y.extent;
    g->q = x.extent;
    g->r = y.count;
    g->s = x.count;
    g->stride_h = g->stride_w = g->groups = 1;
    g->dilation_h = p->attr.conv.dilation[0];
    g->dilation_w = p->attr.conv.dilation[1];
    g->pad_top = y.begin;
    g->pad_left = x.begin;
    g->m = g->n * g->p * g->q;
    g->depth = g->r * g->s * g->c;
    *f = (struct wgmma_phase){.row = row,
                              .column = column,
                              .r = g->r,
                              .s = g->s,
                              .first_r = y.first,
                              .first_s = x.first,
                              .pad_top = g->pad_top,
                              .pad_left = g->pad_left,
                              .p = g->p,
                              .q = g->q,
                              .m = g->m,
                              .k_tiles = g->r * g->s * per_position};
    if (g->m > 0) {
        f->by_p.init((uint32_t)g->p);
        f->by_q.init((uint32_t)g->q);
    }
}

/* Products of one team run while the other stores: the longest phase first, the
 * shortest third, behind the one that the longest's stores need time for. */
static void sort_phases(struct plan *plan)
{
    for (int i = 1; i < plan->phases; i++)
        for (int j = i; j > 0; j--)
            if (plan->phase[j].k_tiles > plan->phase[j - 1].k_tiles) {
                const struct wgmma_phase f = plan->phase[j];
                const struct conv_geometry g = plan->g[j];
                plan->phase[j] = plan->phase[j - 1];
                plan->g[j] = plan->g[j - 1];
                plan->phase[j - 1] = f;
                plan->g[j - 1] = g;
            }
    if (plan->phases == WGMMA_MAX_PHASES) {
        const struct wgmma_phase f = plan->phase[3];
        const struct conv_geometry g = plan->g[3];
        plan->phase[3] = plan->phase[2];
        plan->g[3] = plan->g[2];
        plan->phase[2] = f;
        plan->g[2] = g;
    }
}

static void make_plan(const struct kern_problem *p, const struct kern_device *d,
                      struct plan *plan)
{
    const struct kern_conv *c = &p->attr.conv;
    int n = 0;

    memset(plan, 0, sizeof(*plan));
    plan->per_position = conv_ceil_div((int)p->in[CONV_X].dim[1], 64);
    plan->multiprocessors = conv_multiprocessors(d);
    for (int row = 0; row < c->stride[0]; row++)
        for (int column = 0; column < c->stride[1]; column++) {
            make_phase(p, row, column, plan->per_position, &plan->g[n],
                       &plan->phase[n]);
            if (plan->phase[n].m == 0)
                continue;
            plan->k_tiles += plan->phase[n].k_tiles;
            plan->tapped += plan->phase[n].k_tiles > 0;
            if (plan->phase[n].m > plan->most)
                plan->most = plan->phase[n].m;
            n++;
        }
    plan->phases = n;
    sort_phases(plan);
}

/* ---- limits -------------------------------------------------------- */

static int check_tensors(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *dy = &p->in[CONV_X], *w = &p->in[CONV_W];
    const struct kern_tensor *residual = kern_problem_in(p, CONV_RESIDUAL);
    const struct kern_tensor *dx = &p->out[0];

    if (dy->rank != 4)
        return error_set(why, INFER_EUNSUPPORTED, "takes 2 spatial dimensions");
    if (w->dtype != dy->dtype || dx->dtype != dy->dtype ||
        (residual && residual->dtype != dy->dtype))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes tensors of one type alone");
    if (!kern_tensor_is_dense(dy, KERN_NHWC) ||
        !kern_tensor_is_dense(dx, KERN_NHWC) ||
        !kern_tensor_is_dense(w, KERN_NHWC) ||
        (residual && !kern_tensor_is_dense(residual, KERN_NHWC)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense tensors with channels last alone, "
                         "weights too");
    for (int i = 0; i < 4; i++)
        if (dy->dim[i] < 1 || dx->dim[i] < 1 || w->dim[i] < 1)
            return error_set(why, INFER_EUNSUPPORTED, "an extent is 0");
    if (kern_tensor_count(dy) > INT32_MAX ||
        kern_tensor_count(dx) > INT32_MAX || kern_tensor_count(w) > INT32_MAX)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes tensors below 2^31 elements");
    return 0;
}

static int check_window(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_conv *c = &p->attr.conv;

    for (int i = 0; i < 2; i++)
        if (c->stride[i] > 2 ||
            (is_strided(p) && (c->dilation[i] != 1 || c->pad_begin[i] < 0)))
            return error_set(why, INFER_EUNSUPPORTED,
                             "takes strides of 1 or 2, those of 2 without "
                             "dilation and negative pads");
    return 0;
}

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *d, struct plan *plan,
                        struct infer_error *why)
{
    int r = check_tensors(p, why);

    if (r == 0)
        r = check_window(p, why);
    if (r == 0)
        r = wgmma_check_device(d, why);
    if (r < 0)
        return r;
    if (p->attr.conv.groups != 1 || p->in[CONV_X].dim[1] % 8 ||
        p->out[0].dim[1] % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group and channels in eights");
    if (kern_problem_in(p, CONV_BIAS) || p->epilogue.act.kind != KERN_IDENTITY)
        return error_set(why, INFER_EUNSUPPORTED,
                         "adds nothing but a residual");
    make_plan(p, d, plan);
    for (int i = 0; i < plan->phases; i++)
        if (plan->phase[i].k_tiles > 0 && !wgmma_im2col_fits(&plan->g[i]))
            return error_set(why, INFER_EUNSUPPORTED,
                             "window or pads are too large for the copy "
                             "engine");
    return 0;
}

/* ---- tiles --------------------------------------------------------- */

/* STAGES and EPI_STAGES as in wgmma_rows.cuh; DEPTH: stages by phases, which
 * take one slot a consumer. */
template <typename M, int MT_, int TEAM_, int WGS_, int BN_, int STAGES_,
          int SLOTS_, int DEPTH_, int PERCENT_>
struct tile {
    typedef M mode;
    enum {
        MT = MT_,
        COOP = TEAM_,
        WGS = WGS_,
        BM = 64 * MT_ * TEAM_,
        BN = BN_,
        STAGES = STAGES_,
        EPI_STAGES = SLOTS_,
        DEPTH = DEPTH_,
        PERCENT = PERCENT_
    };
};

/* What the estimates of the way forwards want to know of a phase. */
template <typename C>
static struct wgmma_state state_of(const struct plan *plan, int phase)
{
    struct wgmma_state s = {};

    s.g = plan->g[phase];
    s.per_position = plan->per_position;
    s.k_tiles = plan->phase[phase].k_tiles;
    s.im2col = s.g.r != 1 || s.g.s != 1 || s.g.p != s.g.h || s.g.q != s.g.w ||
               s.g.pad_top || s.g.pad_left;
    s.multiprocessors = plan->multiprocessors;
    s.tiles_m = conv_ceil_div(plan->most, C::BM);
    s.tiles_n = conv_ceil_div(s.g.k, C::BN);
    return s;
}

/* Megabytes; what is added to phases without taps is taken to be in place. */
static double megabytes(const struct kern_problem *p, const struct plan *plan)
{
    const bool residual = kern_problem_in(p, CONV_RESIDUAL);
    const double dx = (double)kern_tensor_span(&p->out[0]);
    const double part = residual ? 2.0 * plan->tapped / plan->phases : 1;

    return 1e-6 * (dx * part + (double)kern_tensor_span(&p->in[CONV_X]) +
                   (double)kern_tensor_span(&p->in[CONV_W]));
}

/* Rounds of blocks that take all phases of a tile; see wgmma_estimate_tile().
 */
template <typename C>
static double estimate_phases(const struct kern_problem *p,
                              const struct plan *plan)
{
    const struct wgmma_state s = state_of<C>(plan, 0);
    const int waves = conv_ceil_div(s.tiles_m * s.tiles_n, s.multiprocessors);
    const double products =
        plan->k_tiles * wgmma_k_tile_us<C>() + 0.33 * plan->phases;
    const double stores = plan->phases * wgmma_stores_us<C>(p, &s);
    double time = waves * (products + stores);

    if (C::WGS == 2 * C::COOP) {
        const double all = waves * (products + 0.2 * stores);
        time = all > time / 2 ? all : time / 2;
    }
    return 1.35 +
           cost_together(time, wgmma_traffic_us(megabytes(p, plan)), 0.36);
}

template <typename C>
static double estimate_tile(const struct kern_problem *p,
                            const struct plan *plan)
{
    const struct wgmma_state s = state_of<C>(plan, 0);

    return is_strided(p) ? estimate_phases<C>(p, plan)
                         : wgmma_estimate_tile<C>(p, &s);
}

/* ---- launching ----------------------------------------------------- */

static int map_weights(const struct kern_exec *e, const struct kern_args *args,
                       CUtensorMap *out, struct infer_error *err)
{
    const struct kern_tensor *w = &e->problem.in[CONV_W];

    return tensor_map_taps(out, tensor_map_type_of(w->dtype), args->in[CONV_W],
                           (int)w->dim[0], (int)(w->dim[2] * w->dim[3]),
                           (int)w->dim[1], err);
}

template <typename C>
static int run_plain(const struct kern_exec *e, const struct kern_args *args,
                     struct infer_error *err)
{
    typedef wgmma_tile<typename C::mode, C::MT, C::COOP, C::WGS, C::BN,
                       C::STAGES, C::EPI_STAGES>
        L;
    const struct dgrad_state *state = (const struct dgrad_state *)e->state;
    const struct wgmma_state s = state_of<C>(&state->plan, 0);
    const enum infer_dtype dtype = e->problem.in[CONV_X].dtype;
    const int tiles = s.tiles_m * s.tiles_n;
    struct wgmma_args a = {};
    int r = map_weights(e, args, &a.w, err);

    a.g = s.g;
    a.out = output_of(e, args, s.g.k);
    a.im2col = s.im2col;
    a.known = 1;
    a.per_position = s.per_position;
    a.k_tiles = s.k_tiles;
    a.tiles_m = s.tiles_m;
    a.tiles_n = s.tiles_n;
    if (r == 0)
        r = s.im2col ? tensor_map_im2col(&a.x, tensor_map_type_of(dtype),
                                         args->in[CONV_X], &s.g, C::BM, err)
                     : tensor_map_matrix(&a.x, tensor_map_type_of(dtype),
                                         args->in[CONV_X], s.g.m, s.g.c, s.g.c,
                                         C::BM, err);
    if (r == 0)
        r = wgmma_store_maps(&s, dtype, &a, err);
    if (r < 0)
        return r;
    return launch_chained(
        wgmma_tile_kernel<typename C::mode, C::MT, C::COOP, C::WGS, C::BN,
                          C::STAGES, C::EPI_STAGES, false>,
        dim3(tiles < s.multiprocessors ? tiles : s.multiprocessors),
        dim3(L::THREADS), L::SHARED, args->stream, a, err);
}

/* The phases that have to be computed. */
static int fill_phases(const struct kern_exec *e, const struct kern_args *args,
                       int bm, struct wgmma_phases_args *a,
                       struct infer_error *err)
{
    const struct dgrad_state *state = (const struct dgrad_state *)e->state;
    const struct plan *plan = &state->plan;
    const struct kern_tensor *dy = &e->problem.in[CONV_X];
    const bool in_place = a->residual == a->dx;
    int r = 0;

    for (int i = 0; r == 0 && i < plan->phases; i++) {
        const int at = a->phases;
        if (plan->phase[i].k_tiles == 0 && in_place)
            continue;
        a->phase[at] = plan->phase[i];
        if (plan->phase[i].k_tiles > 0)
            r = tensor_map_im2col(&a->dy[at], tensor_map_type_of(dy->dtype),
                                  args->in[CONV_X], &plan->g[i], bm, err);
        a->phases++;
    }
    return r;
}

template <typename C>
static int run_phases(const struct kern_exec *e, const struct kern_args *args,
                      struct infer_error *err)
{
    typedef wgmma_tile<typename C::mode, C::MT, C::COOP, C::WGS, C::BN,
                       C::DEPTH, 1>
        L;
    const struct dgrad_state *state = (const struct dgrad_state *)e->state;
    const struct wgmma_state s = state_of<C>(&state->plan, 0);
    const struct kern_problem *p = &e->problem;
    const int tiles = s.tiles_m * s.tiles_n;
    struct wgmma_phases_args a = {};
    int r = map_weights(e, args, &a.w, err);

    a.h = (int)p->out[0].dim[2];
    a.wide = (int)p->out[0].dim[3];
    a.k = s.g.k;
    a.stride_h = p->attr.conv.stride[0];
    a.stride_w = p->attr.conv.stride[1];
    a.window_s = (int)p->in[CONV_W].dim[3];
    a.per_position = s.per_position;
    a.tiles_m = s.tiles_m;
    a.tiles_n = s.tiles_n;
    a.residual =
        kern_problem_in(p, CONV_RESIDUAL) ? args->in[CONV_RESIDUAL] : NULL;
    a.dx = args->out[0];
    if (r == 0)
        r = fill_phases(e, args, C::BM, &a, err);
    if (r < 0)
        return r;
    return launch_chained(
        wgmma_phases_kernel<typename C::mode, C::MT, C::COOP, C::WGS, C::BN,
                            C::DEPTH>,
        dim3(tiles < s.multiprocessors ? tiles : s.multiprocessors),
        dim3(L::THREADS), L::SHARED, args->stream, a, err);
}

template <typename C>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    return is_strided(&e->problem) ? run_phases<C>(e, args, err)
                                   : run_plain<C>(e, args, err);
}

/* ---- variants ------------------------------------------------------ */

enum { SHAPES = 6 };

/* Bytes of shared memory by phases: 213,152; 229,568; 213,184; 221,328;
 * 213,248; 213,120 of 232,448. */
#define SHAPE(text, ...)                                                       \
    {                                                                          \
        text, estimate_tile<tile<M, __VA_ARGS__>>, run<tile<M, __VA_ARGS__>>   \
    }

template <typename M> static const struct shape *shape_at(int i)
{
    static const struct shape list[SHAPES] = {
        SHAPE("128x256", 1, 2, 2, 256, 4, 2, 4, 88),
        SHAPE("192x128", 1, 3, 3, 128, 4, 2, 5, 92),
        SHAPE("128x128", 2, 1, 2, 128, 4, 5, 6, 68),
        SHAPE("256x64", 4, 1, 2, 64, 4, 4, 5, 70),
        SHAPE("128x64", 2, 1, 2, 64, 5, 4, 8, 50),
        SHAPE("64x256", 1, 1, 2, 256, 3, 5, 5, 58),
    };

    return &list[i];
}

/* The place-th best by estimate. */
template <typename M>
static const struct shape *shape_of(const struct kern_problem *p,
                                    const struct plan *plan, int place,
                                    double *us)
{
    const struct shape *sorted[SHAPES];
    double time[SHAPES];

    for (int i = 0; i < SHAPES; i++) {
        const struct shape *one = shape_at<M>(i);
        const double own = one->estimate(p, plan);
        int at = i;
        for (; at > 0 && time[at - 1] > own; at--) {
            time[at] = time[at - 1];
            sorted[at] = sorted[at - 1];
        }
        time[at] = own;
        sorted[at] = one;
    }
    *us = time[place];
    return sorted[place];
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct plan plan;

    return read_problem(p, d, &plan, why);
}

template <typename M>
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    struct plan plan;
    double us = 1e30;

    if (read_problem(p, d, &plan, NULL) == 0)
        (void)shape_of<M>(p, &plan, 0, &us);
    return us;
}

static int variants(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *err)
{
    const int r = supports(p, d, err);

    return r < 0 ? r : SHAPES;
}

template <typename M>
static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct dgrad_state *s = (struct dgrad_state *)calloc(1, sizeof(*s));
    int r = s ? read_problem(&e->problem, d, &s->plan, err)
              : error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);
    double us;

    if (r == 0 && e->variant >= SHAPES)
        r = error_set(err, INFER_EUNSUPPORTED, "%s has no variant %d",
                      e->row->name, e->variant);
    if (r < 0) {
        free(s);
        return r;
    }
    s->shape = shape_of<M>(&e->problem, &s->plan, e->variant, &us);
    snprintf(e->variant_name, sizeof(e->variant_name), "%s", s->shape->name);
    e->state = s;
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return ((const struct dgrad_state *)e->state)->shape->run(e, args, err);
}

#define DGRAD_ROW(symbol, mode)                                                \
    const struct kern_functions symbol = {                                     \
        .supports = supports,                                                  \
        .estimate = estimate<mode>,                                            \
        .variants = variants,                                                  \
        .prepare = prepare<mode>,                                              \
        .launch = launch,                                                      \
        .release = cuda_state_release,                                         \
    };

DGRAD_ROW(conv2d_dgrad_nhwc_f16_cuda_wgmma_sm90, wgmma_f16_mn_major)
DGRAD_ROW(conv2d_dgrad_nhwc_bf16_cuda_wgmma_sm90, wgmma_bf16_mn_major)
