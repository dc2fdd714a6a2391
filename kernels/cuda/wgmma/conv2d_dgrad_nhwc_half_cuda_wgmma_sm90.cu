/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dgrad on Hopper's wgmma, from weights as they lie in training: [k][r][s][c].
 * TMA loads boxes of 64 k by 64 c of one filter position, which wgmma takes as
 * an MN-major operand, so that no launch packs them first.
 *
 * Stride 1: dx is a convolution of dy with the flipped filter and the roles of
 * K and C exchanged, pads become dilation (R - 1) - pad; it runs on fprop's
 * tiles (wgmma_tile.cuh).  Strides of 2: by phases (wgmma_phases.cuh), in one
 * launch.  Phases without filter positions, of filters smaller than the stride,
 * get zeros or the residual; in place they are left alone.
 */
#include <string.h>

#include "kernels/cuda/wgmma/wgmma_phases.cuh"
#include "kernels/cuda/wgmma/wgmma_rows.cuh"

struct dgrad_config {
    int phases; /* 1 if strides are 1 */
    struct conv_geometry g[WGMMA_MAX_PHASES];
    struct wgmma_phase phase[WGMMA_MAX_PHASES];
    int per_position, k_tiles; /* of all phases */
    int most;                  /* pixels of the largest phase */
    int filled;                /* phases with filter positions */
    int multiprocessors;
};

struct dgrad_state {
    struct conv_tiled tiled;
    struct dgrad_config config;
};

/* ---- configuration ------------------------------------------------- */

static bool is_strided(const struct kern_problem *p)
{
    return p->attr.conv.stride[0] * p->attr.conv.stride[1] > 1;
}

/* The filter positions of a phase along one axis: the first, their number, the
 * leading pad of dy and the outputs. */
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

static void swap_phases(struct dgrad_config *c, int i, int j)
{
    const struct wgmma_phase f = c->phase[i];
    const struct conv_geometry g = c->g[i];

    c->phase[i] = c->phase[j];
    c->g[i] = c->g[j];
    c->phase[j] = f;
    c->g[j] = g;
}

/* Products of one warpgroup run during the epilogue of the other: the longest
 * phase comes first, the shortest third, after the one that hides the longest
 * one's epilogue. */
static void sort_phases(struct dgrad_config *c)
{
    for (int i = 1; i < c->phases; i++)
        for (int j = i; j > 0; j--)
            if (c->phase[j].k_tiles > c->phase[j - 1].k_tiles)
                swap_phases(c, j, j - 1);
    if (c->phases == WGMMA_MAX_PHASES)
        swap_phases(c, 3, 2);
}

static void configure(const struct kern_problem *p, const struct kern_device *d,
                      struct dgrad_config *c)
{
    const int *stride = p->attr.conv.stride;
    int n = 0;

    memset(c, 0, sizeof *c);
    c->per_position = conv_ceil_div((int)p->in[CONV_X].dim[1], 64);
    c->multiprocessors = conv_multiprocessors(d);
    for (int row = 0; row < stride[0]; row++)
        for (int column = 0; column < stride[1]; column++) {
            make_phase(p, row, column, c->per_position, &c->g[n], &c->phase[n]);
            if (c->phase[n].m == 0)
                continue;
            c->k_tiles += c->phase[n].k_tiles;
            c->filled += c->phase[n].k_tiles > 0;
            if (c->phase[n].m > c->most)
                c->most = c->phase[n].m;
            n++;
        }
    c->phases = n;
    sort_phases(c);
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
                        const struct kern_device *d, struct dgrad_config *c,
                        struct infer_error *why)
{
    int rc = check_tensors(p, why);

    if (rc == 0)
        rc = check_window(p, why);
    if (rc == 0)
        rc = wgmma_check_device(d, why);
    if (rc < 0)
        return rc;
    if (p->attr.conv.groups != 1 || p->in[CONV_X].dim[1] % 8 ||
        p->out[0].dim[1] % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group and channels in eights");
    if (kern_problem_in(p, CONV_BIAS) || p->epilogue.act.kind != KERN_IDENTITY)
        return error_set(why, INFER_EUNSUPPORTED,
                         "adds nothing but a residual");
    configure(p, d, c);
    for (int i = 0; i < c->phases; i++)
        if (c->phase[i].k_tiles > 0 &&
            tensor_map_check_im2col(&c->g[i], why) < 0)
            return INFER_EUNSUPPORTED;
    return 0;
}

/* ---- tiles --------------------------------------------------------- */

/* A tile L of stride 1, and the same tile by phases: DEPTH stages and one
 * epilogue stage a consumer. */
template <typename L_, int DEPTH> struct dgrad_tile {
    typedef L_ L;
    typedef wgmma_tile<typename L::mode, L::MT, L::COOP, L::WGS, L::BN, DEPTH,
                       1>
        by_phases;
};

/* A phase as the estimates of fprop know it. */
template <typename L>
static struct wgmma_state state_of(const struct dgrad_config *c, int phase)
{
    struct wgmma_state s = {};

    s.g = c->g[phase];
    s.per_position = c->per_position;
    s.k_tiles = c->phase[phase].k_tiles;
    s.im2col = tensor_map_needs_im2col(&s.g);
    s.multiprocessors = c->multiprocessors;
    s.tiles_m = conv_ceil_div(c->most, L::BM);
    s.tiles_n = conv_ceil_div(s.g.k, L::BN);
    s.pitch = s.k_tiles * 64;
    s.cluster = 1;
    if constexpr (L::CLUSTER)
        s.cluster = wgmma_cluster_of<L>(&s, 0);
    return s;
}

/* Memory traffic in megabytes.  A residual is taken to be in place: phases
 * without filter positions do not move it. */
static double megabytes(const struct kern_problem *p,
                        const struct dgrad_config *c)
{
    const bool residual = kern_problem_in(p, CONV_RESIDUAL);
    const double dx = (double)kern_tensor_span(&p->out[0]);
    const double part = residual ? 2.0 * c->filled / c->phases : 1;

    return 1e-6 * (dx * part + (double)kern_tensor_span(&p->in[CONV_X]) +
                   (double)kern_tensor_span(&p->in[CONV_W]));
}

/* Waves of CTAs, each of which computes all phases of a tile, in microseconds;
 * see wgmma_estimate_tile(). */
template <typename L>
static double estimate_phases(const struct kern_problem *p,
                              const struct dgrad_config *c, int percent)
{
    const struct wgmma_state s = state_of<L>(c, 0);
    const int waves = conv_ceil_div(s.tiles_m * s.tiles_n, s.multiprocessors);
    const double products =
        c->k_tiles * wgmma_k_tile_us<L>(percent) + 0.33 * c->phases;
    const double stores = c->phases * wgmma_stores_us<L>(p, &s);
    double time = waves * (products + stores);

    if (L::PINGPONG == 2) {
        const double all = waves * (products + 0.2 * stores);
        time = all > time / 2 ? all : time / 2;
    }
    return 1.35 +
           cost_overlapped(time, wgmma_traffic_us(megabytes(p, c)), 0.36);
}

template <typename D>
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d, int percent)
{
    struct dgrad_config c;

    if (read_problem(p, d, &c, NULL) < 0)
        return 1e30;
    const struct wgmma_state s = state_of<typename D::L>(&c, 0);
    return is_strided(p) ? estimate_phases<typename D::L>(p, &c, percent)
                         : wgmma_estimate_tile<typename D::L>(p, &s, percent);
}

template <typename L>
static double estimate_cluster(const struct kern_problem *p,
                               const struct kern_device *d, int percent)
{
    struct dgrad_config c;

    if (read_problem(p, d, &c, NULL) < 0)
        return 1e30;
    const struct wgmma_state s = state_of<L>(&c, 0);
    return wgmma_estimate_cluster<L>(p, &s, percent);
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

/* Arguments of stride 1 but the maps of stores. */
template <typename L>
static int fill_plain(const struct kern_exec *e, const struct kern_args *args,
                      const struct wgmma_state *s, struct wgmma_args *a,
                      struct infer_error *err)
{
    const enum infer_dtype dtype = e->problem.in[CONV_X].dtype;
    int rc = map_weights(e, args, &a->w, err);

    a->w_tail = a->w;
    a->g = s->g;
    a->out = output_of(e, args, s->g.k);
    a->im2col = s->im2col;
    a->constant_bias = 1;
    a->per_position = s->per_position;
    a->k_tiles = s->k_tiles;
    a->tiles_m = s->tiles_m;
    a->tiles_n = s->tiles_n;
    if (rc == 0)
        rc = s->im2col ? tensor_map_im2col(&a->x, tensor_map_type_of(dtype),
                                           args->in[CONV_X], &s->g, L::BM, err)
                       : tensor_map_matrix(&a->x, tensor_map_type_of(dtype),
                                           args->in[CONV_X], s->g.m, s->g.c,
                                           s->g.c, L::BM, err);
    return rc;
}

template <typename L>
static int run_plain(const struct kern_exec *e, const struct kern_args *args,
                     struct infer_error *err)
{
    const struct dgrad_state *state = (const struct dgrad_state *)e->state;
    const struct wgmma_state s = state_of<L>(&state->config, 0);
    struct wgmma_args a = {};
    int rc = fill_plain<L>(e, args, &s, &a, err);

    if (rc == 0)
        rc = wgmma_store_maps(&s, e->problem.in[CONV_X].dtype, &a, err);
    if (rc < 0)
        return rc;
    return wgmma_launch_persistent<L>(wgmma_tile_kernel<L, false>, &s,
                                      args->stream, a, err);
}

template <typename L>
static int launch_cluster(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct dgrad_state *state = (const struct dgrad_state *)e->state;
    const struct wgmma_state s = state_of<L>(&state->config, 0);
    struct wgmma_args a = {};
    const int rc = fill_plain<L>(e, args, &s, &a, err);

    if (rc < 0)
        return rc;
    return launch_clusters(wgmma_cluster_kernel<L>,
                           s.tiles_m * s.tiles_n * s.cluster, s.cluster,
                           L::THREADS, L::SHARED, args->stream, a, err);
}

/* The phases that have to be computed. */
static int fill_phases(const struct kern_exec *e, const struct kern_args *args,
                       int bm, struct wgmma_phases_args *a,
                       struct infer_error *err)
{
    const struct dgrad_state *state = (const struct dgrad_state *)e->state;
    const struct dgrad_config *c = &state->config;
    const struct kern_tensor *dy = &e->problem.in[CONV_X];
    const bool in_place = a->residual == a->dx;
    int rc = 0;

    for (int i = 0; rc == 0 && i < c->phases; i++) {
        const int at = a->phases;
        if (c->phase[i].k_tiles == 0 && in_place)
            continue;
        a->phase[at] = c->phase[i];
        if (c->phase[i].k_tiles > 0)
            rc = tensor_map_im2col(&a->dy[at], tensor_map_type_of(dy->dtype),
                                   args->in[CONV_X], &c->g[i], bm, err);
        a->phases++;
    }
    return rc;
}

template <typename L>
static int run_phases(const struct kern_exec *e, const struct kern_args *args,
                      struct infer_error *err)
{
    const struct dgrad_state *state = (const struct dgrad_state *)e->state;
    const struct wgmma_state s = state_of<L>(&state->config, 0);
    const struct kern_problem *p = &e->problem;
    struct wgmma_phases_args a = {};
    int rc = map_weights(e, args, &a.w, err);

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
    if (rc == 0)
        rc = fill_phases(e, args, L::BM, &a, err);
    if (rc < 0)
        return rc;
    return wgmma_launch_persistent<L>(wgmma_phases_kernel<L>, &s, args->stream,
                                      a, err);
}

template <typename D>
static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return is_strided(&e->problem)
               ? run_phases<typename D::by_phases>(e, args, err)
               : run_plain<typename D::L>(e, args, err);
}

/* ---- tiles --------------------------------------------------------- */

static int read_state(const struct kern_problem *p, const struct kern_device *d,
                      int, struct dgrad_state *s, struct infer_error *why)
{
    return read_problem(p, d, &s->config, why);
}

static int read_plain_state(const struct kern_problem *p,
                            const struct kern_device *d, int,
                            struct dgrad_state *s, struct infer_error *why)
{
    if (is_strided(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes strides of 1");
    return read_problem(p, d, &s->config, why);
}

/* Nothing is packed. */
static void declare(struct kern_exec *, const struct dgrad_state *)
{
}

#define DGRAD_TILE(name, percent, ...)                                         \
    {                                                                          \
        name, percent, state_supports<struct dgrad_state, read_state>,         \
            estimate<__VA_ARGS__>, NULL, NULL,                                 \
            state_prepare<struct dgrad_state, read_state, declare>, NULL,      \
            launch<__VA_ARGS__>                                                \
    }

#define DGRAD_CLUSTER(name, percent, ...)                                      \
    {                                                                          \
        name, percent, state_supports<struct dgrad_state, read_plain_state>,   \
            estimate_cluster<__VA_ARGS__>, NULL, NULL,                         \
            state_prepare<struct dgrad_state, read_plain_state, declare>,      \
            NULL, launch_cluster<__VA_ARGS__>                                  \
    }

/* Arguments as in wgmma_rows.cuh, then the stages by phases.  Shared memory by
 * phases, bytes of 232,448: 213,152; 229,568; 213,184; 221,328; 213,248;
 * 213,120. */
template <typename M>
static const struct conv_tile tiles[] = {
    DGRAD_TILE("128x256", 88, dgrad_tile<wgmma_tile<M, 1, 2, 2, 256, 4, 2>, 4>),
    DGRAD_TILE("192x128", 92, dgrad_tile<wgmma_tile<M, 1, 3, 3, 128, 4, 2>, 5>),
    DGRAD_TILE("128x128", 68, dgrad_tile<wgmma_tile<M, 2, 1, 2, 128, 4, 5>, 6>),
    DGRAD_TILE("256x64", 70, dgrad_tile<wgmma_tile<M, 4, 1, 2, 64, 4, 4>, 5>),
    DGRAD_TILE("128x64", 50, dgrad_tile<wgmma_tile<M, 2, 1, 2, 64, 5, 4>, 8>),
    DGRAD_TILE("64x256", 58, dgrad_tile<wgmma_tile<M, 1, 1, 2, 256, 3, 5>, 5>),
    DGRAD_CLUSTER("128x128_cluster", 85, wgmma_cluster<M, 2, 128, 4>),
    DGRAD_CLUSTER("128x64_cluster", 67, wgmma_cluster<M, 2, 64, 7>),
    DGRAD_CLUSTER("64x64_cluster", 46, wgmma_cluster<M, 1, 64, 5>),
};

CONV_FAMILY_OF_FEW(conv2d_dgrad_nhwc_f16_cuda_wgmma_sm90,
                   tiles<wgmma_f16_mn_major>)
CONV_FAMILY_OF_FEW(conv2d_dgrad_nhwc_bf16_cuda_wgmma_sm90,
                   tiles<wgmma_bf16_mn_major>)
