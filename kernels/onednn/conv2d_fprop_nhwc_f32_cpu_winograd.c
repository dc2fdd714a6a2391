/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 3x3 convolution with stride 1 by Winograd's algorithm; winograd.h has the
 * mathematics and the layout.
 *
 * Tiles are handled in blocks whose V and M stay near the L2 cache.  With many
 * tiles each thread has blocks of its own; with few, all threads share one
 * block and divide first its tiles, then the products, then the tiles again.
 */
#include "config.h"

#include "kernels/onednn/vector.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/checked.h"
#include "kernels/error.h"
#include "kernels/onednn/cpu.h"

extern const struct kern_row conv2d_fprop_nhwc_f32_cpu_winograd;

/* in[] of a convolution */
enum { X, W, BIAS, RESIDUAL };

/* Floats in a cache line. */
#define LINE 16

/* Bytes of V and M that a block may take, and the fewest tiles for which the
 * products are limited by arithmetic rather than by reading U: each float of
 * U is used once a tile, 2 flops for 4 bytes. */
#define BLOCK_BYTES (1 << 20)
#define BLOCK_TILES 24

struct state {
    struct winograd w;
    int threads;
    bool shared; /* one block for all threads */
    const struct vector_steps *steps;
    size_t block_floats; /* V and M of one block */
};

static bool present(const struct kern_problem *p, int i)
{
    return i < p->n_in && p->in[i].dtype != INFER_NONE;
}

/* ---- which problems ------------------------------------------------ */

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static int check(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_conv *a = &p->attr.conv;
    const struct kern_tensor *x = &p->in[X], *w = &p->in[W], *y = &p->out[0];

    if (!vector_steps())
        return error_set(why, INFER_EUNSUPPORTED, "needs AVX2 or AVX-512");
    if (x->rank != 4 || w->dim[2] != 3 || w->dim[3] != 3 || a->groups != 1 ||
        a->stride[0] != 1 || a->stride[1] != 1 || a->dilation[0] != 1 ||
        a->dilation[1] != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 3x3 windows with stride 1, no dilation and no "
                         "groups");
    if (!cpu_is_f32(x) || !cpu_is_f32(y) || !cpu_channels_inner(x) ||
        !cpu_channels_inner(y) ||
        (present(p, RESIDUAL) && (!cpu_is_f32(&p->in[RESIDUAL]) ||
                                  !cpu_channels_inner(&p->in[RESIDUAL]))))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels-last F32 activations");
    if (!(p->constant_in & 1u << W) || !cpu_is_f32(w) ||
        !kern_tensor_is_dense(w, KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes constant dense F32 weights");
    if (present(p, BIAS) && (!cpu_is_f32(&p->in[BIAS]) ||
                             !kern_tensor_is_dense(&p->in[BIAS], KERN_NCHW)))
        return error_set(why, INFER_EUNSUPPORTED, "takes a dense F32 bias");
    if (!cpu_act_known(&p->epilogue.act) ||
        (present(p, RESIDUAL) && p->epilogue.residual_last &&
         !vector_bounds(&p->epilogue.act)))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this epilogue");
    return 0;
}

/* Whether Winograd is the faster way.  Measured against oneDNN's direct
 * convolution on a Zen 4 core (AVX-512), 1 and 2 threads, batch 1 and 8, with
 * weights in the cache and out of it:
 *   - with fewer than 16 channels on either side the transforms, which do not
 *     fill their vectors, cost more than the products save;
 *   - a layer of fewer than 4 tiles reads U, 4 times the filters, for too
 *     little use (256 channels at 4x4: 0.5 times the speed of direct);
 *   - tiles that hang over the edge waste work: 4 / 1.3 times fewer products at
 *     7x7 and 14x14 are well worth it, less than 2 times fewer are not. */
static bool pays(const struct kern_problem *p)
{
    const struct kern_tensor *y = &p->out[0];
    const int64_t tiles = (y->dim[2] + 3) / 4 * ((y->dim[3] + 3) / 4);
    const int64_t direct = 9 * y->dim[2] * y->dim[3];

    return p->in[X].dim[1] >= 16 && y->dim[1] >= 16 && tiles * y->dim[0] >= 4 &&
           direct >= 2 * 36 * tiles;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    int r = check(p, why);

    (void)d;
    if (r == 0 && !pays(p))
        return error_set(why, INFER_EUNSUPPORTED,
                         "direct convolution is faster here");
    return r;
}

/* ---- the plan ------------------------------------------------------ */

static void fill_strides(int64_t to[3], const struct kern_tensor *t)
{
    to[0] = t->stride[0];
    to[1] = t->stride[2];
    to[2] = t->stride[3];
}

static void fill_shape(struct winograd *w, const struct kern_problem *p, int m)
{
    const struct kern_tensor *x = &p->in[X], *y = &p->out[0];

    memset(w, 0, sizeof *w);
    w->m = m;
    w->a = m + 2;
    w->images = x->dim[0];
    w->channels = x->dim[1];
    w->outputs = y->dim[1];
    w->in_h = x->dim[2];
    w->in_w = x->dim[3];
    w->out_h = y->dim[2];
    w->out_w = y->dim[3];
    w->pad_top = p->attr.conv.pad_begin[0];
    w->pad_left = p->attr.conv.pad_begin[1];
    w->tiles_h = (w->out_h + m - 1) / m;
    w->tiles_w = (w->out_w + m - 1) / m;
    w->tiles = w->images * w->tiles_h * w->tiles_w;
    fill_strides(w->x_stride, x);
    fill_strides(w->y_stride, y);
    if (present(p, RESIDUAL))
        fill_strides(w->r_stride, &p->in[RESIDUAL]);
}

/* Chooses the block and lays out V, U and M. */
static void fill_layout(struct state *s)
{
    struct winograd *w = &s->w;
    const int64_t planes = (int64_t)w->a * w->a;
    const int64_t panel = s->steps->panel;
    int64_t most, blocks;

    w->panels = (w->outputs + panel - 1) / panel;
    w->u_plane = w->panels * panel * w->channels + 2 * LINE;
    w->v_row = round_up(w->channels, LINE) + LINE;
    w->m_row = w->panels * panel + LINE;
    most =
        BLOCK_BYTES / (int64_t)sizeof(float) / planes / (w->v_row + w->m_row);
    most = most < BLOCK_TILES ? BLOCK_TILES : most;
    s->shared = w->tiles < s->threads * BLOCK_TILES;
    if (s->shared) {
        w->block = w->tiles;
    } else {
        /* As many equal blocks a thread as the limit asks for. */
        blocks = (w->tiles + most * s->threads - 1) / (most * s->threads);
        w->block = (w->tiles + blocks * s->threads - 1) / (blocks * s->threads);
    }
    w->v_plane = w->block * w->v_row + LINE;
    w->m_plane = w->block * w->m_row + LINE;
    s->block_floats = (size_t)(planes * (w->v_plane + w->m_plane));
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s = calloc(1, sizeof *s);
    size_t floats;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    s->threads = d->threads;
    s->steps = vector_steps();
    fill_shape(&s->w, &e->problem, 4);
    fill_layout(s);
    floats = s->block_floats * (s->shared ? 1 : (size_t)s->threads);
    e->workspace = (floats + (size_t)s->w.v_row) * sizeof(float);
    e->packed[W] = (size_t)(s->w.a * s->w.a * s->w.u_plane) * sizeof(float);
    e->state = s;
    return 0;
}

static void release(struct kern_exec *e)
{
    free(e->state);
    e->state = NULL;
}

/* ---- weights ------------------------------------------------------- */

/* G for m = 4 and m = 2; a rows of 3.  The row of point x is 1, x, x^2 over the
 * product of x's distances to the other finite points. */
#define P  ((double)WINOGRAD_P)
#define Q  ((double)WINOGRAD_Q)
#define DP (2 * P * P * (P * P - Q * Q))
#define DQ (2 * Q * Q * (Q * Q - P * P))
static const double g4[6][3] = {
    {1 / (P * P * Q * Q), 0, 0},  {1 / DP, P / DP, P *P / DP},
    {1 / DP, -P / DP, P *P / DP}, {1 / DQ, Q / DQ, Q *Q / DQ},
    {1 / DQ, -Q / DQ, Q *Q / DQ}, {0, 0, 1},
};
static const double g2[4][3] = {
    {1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};

/* Lanes that are transformed side by side: at least those of a panel. */
#define PACK 32

/* Transforms the filters of n <= PACK output channels from one input channel;
 * filters lie `step` floats apart.  u: a a planes of `panel` floats. */
CPU_CLONES static void transform_filters(int a, const double g[][3],
                                         const float *filter, int64_t step,
                                         int64_t n, float *u, int64_t plane,
                                         int panel)
{
    double f[9][PACK] = {{0}}, t[WINOGRAD_MAX_A][3][PACK];
    int64_t k;
    int i, j;

    for (k = 0; k < n; k++)
        for (i = 0; i < 9; i++)
            f[i][k] = (double)filter[k * step + i];
    for (i = 0; i < a; i++)
        for (j = 0; j < 3; j++)
#pragma omp simd
            for (k = 0; k < PACK; k++)
                t[i][j][k] = g[i][0] * f[j][k] + g[i][1] * f[3 + j][k] +
                             g[i][2] * f[6 + j][k];
    for (i = 0; i < a; i++)
        for (j = 0; j < a; j++) {
            float *to = u + (i * a + j) * plane;

#pragma omp simd
            for (k = 0; k < panel; k++)
                to[k] = (float)(g[j][0] * t[i][0][k] + g[j][1] * t[i][1][k] +
                                g[j][2] * t[i][2][k]);
        }
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct state *s = e->state;
    const struct winograd *w = &s->w;
    const int64_t panel = s->steps->panel, step = w->channels * 9;
    const float *filters = src;
    float *u = dst;
    int64_t p;

    if (i != W)
        return error_set(err, INFER_EARGUMENT, "input %d is not packed", i);
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (p = 0; p < w->panels; p++) {
        const int64_t first = p * panel, rest = w->outputs - first;
        int64_t c;

        for (c = 0; c < w->channels; c++)
            transform_filters(
                w->a, w->a == 6 ? g4 : g2, filters + first * step + c * 9, step,
                rest < panel ? rest : panel, u + (p * w->channels + c) * panel,
                w->u_plane, (int)panel);
    }
    return 0;
}

/* ---- launch -------------------------------------------------------- */

/* Blocks [from, to) of tiles, by one thread in its own part of memory. */
static void run_blocks(const struct state *s, const struct winograd_data *data,
                       const float *zeros, float *v, int64_t from, int64_t to)
{
    const struct winograd *w = &s->w;
    float *m = v + (int64_t)w->a * w->a * w->v_plane;
    int64_t first, t, xi;

    for (first = from; first < to; first += w->block) {
        const int64_t rows = to - first < w->block ? to - first : w->block;

        for (t = 0; t < rows; t++)
            s->steps->input(w, data->x, zeros, first + t, t, v);
        for (xi = 0; xi < (int64_t)w->a * w->a; xi++)
            s->steps->product(w, v, data->u, m, rows, xi, 0, w->panels);
        for (t = 0; t < rows; t++)
            s->steps->output(w, data, first + t, t, m);
    }
}

/* All tiles by all threads. */
static void run_shared(const struct state *s, const struct winograd_data *data,
                       const float *zeros, float *v)
{
    const struct winograd *w = &s->w;
    const int64_t products = (int64_t)w->a * w->a * w->panels;
    float *m = v + (int64_t)w->a * w->a * w->v_plane;

#pragma omp parallel num_threads(s->threads) if (s->threads > 1)
    {
        int64_t t, i;

#pragma omp for schedule(static)
        for (t = 0; t < w->tiles; t++)
            s->steps->input(w, data->x, zeros, t, t, v);
#pragma omp for schedule(static)
        for (i = 0; i < products; i++)
            s->steps->product(w, v, data->u, m, w->tiles, i / w->panels,
                              i % w->panels, i % w->panels + 1);
#pragma omp for schedule(static)
        for (t = 0; t < w->tiles; t++)
            s->steps->output(w, data, t, t, m);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    const struct kern_problem *p = &e->problem;
    struct vector_epilogue epilogue;
    struct winograd_data data = {
        .x = args->in[X],
        .u = args->in[W],
        .residual = present(p, RESIDUAL) ? args->in[RESIDUAL] : NULL,
        .y = args->out[0],
        .epilogue = &epilogue};
    float *zeros = args->workspace, *blocks = zeros + s->w.v_row;
    int i;

    (void)err;
    vector_epilogue_fill(&epilogue, &p->epilogue);
    epilogue.bias = present(p, BIAS) ? args->in[BIAS] : NULL;
    memset(zeros, 0, (size_t)s->w.v_row * sizeof *zeros);
    if (s->shared) {
        run_shared(s, &data, zeros, blocks);
        return 0;
    }
#pragma omp parallel for num_threads(s->threads)                               \
    schedule(static, 1) if (s->threads > 1)
    for (i = 0; i < s->threads; i++) {
        int64_t from, to;

        cpu_share(s->w.tiles, i, s->threads, &from, &to);
        run_blocks(s, &data, zeros, blocks + (size_t)i * s->block_floats, from,
                   to);
    }
    return 0;
}

const struct kern_row conv2d_fprop_nhwc_f32_cpu_winograd = {
    .name = "conv2d_fprop_nhwc_f32_cpu_winograd",
    .op = KERN_CONV_FPROP,
    .backend = INFER_BACKEND_ONEDNN,
    .layout = KERN_NHWC,
    .dtype = INFER_F32,
    .acc = INFER_F32,
    .flags = KERN_INEXACT,
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = release,
};
