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

#include "kernels/cpu/conv/vector.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"

/* in[] of a convolution */
enum { X, W, BIAS, RESIDUAL };

/* Floats in a cache line. */
#define LINE 16
/* Floats of padding after each plane of U. */
#define U_GAP (2 * LINE)

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

/* ---- which problems ------------------------------------------------ */

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static int check(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_conv *a = &p->attr.conv;
    const struct kern_tensor *x = &p->in[X], *w = &p->in[W];

    if (x->rank != 4 || w->dim[2] != 3 || w->dim[3] != 3 || a->groups != 1 ||
        a->stride[0] != 1 || a->stride[1] != 1 || a->dilation[0] != 1 ||
        a->dilation[1] != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 3x3 windows with stride 1, no dilation and no "
                         "groups");
    return vector_conv_supports(p, why);
}

/* Cost of a convolution in tiles of m x m pixels; m = 1 is direct convolution:
 * a^2 C K multiplications a tile, plus reading the transformed filters once,
 * plus the transforms.  The unit is the time of a^2 multiplications for all
 * pairs of channels.  Measured with weights outside of the cache:
 *   - filters read from memory cost as much as 5 tiles (Zen 4, 118 GFLOP/s a
 *     core) or 11 (Sapphire Rapids; 42 where other programs use its memory),
 *     times the threads that share the memory's bandwidth.  Too large a number
 *     costs at most 15 % of a layer of 14 x 14 pixels, too small a one 25 % of
 *     one of 7 x 7;
 *   - transforms cost a tile as much as 9.2 channel pairs a channel (Zen 4). */
#define FILTER_TILES    10.0
#define TRANSFORM_PAIRS 9.2

static double cost(const struct kern_problem *p, int m, int threads)
{
    const struct kern_tensor *y = &p->out[0];
    const double c = (double)p->in[X].dim[1], k = (double)y->dim[1];
    const double area = m == 1 ? 9 : (m + 2) * (m + 2);
    const double tiles = (double)y->dim[0] * (double)((y->dim[2] + m - 1) / m) *
                         (double)((y->dim[3] + m - 1) / m);
    const double transforms = m == 1 ? 0 : TRANSFORM_PAIRS * (c + k) / (c * k);

    return area * (tiles * (1 + transforms) + FILTER_TILES * threads);
}

/* The fastest tile size, or 0 if direct convolution is as fast within a tenth.
 * Where m = 2 is as fast as 4 it is better: its filters take 1.8 times their
 * memory, not 4 times.  With fewer than 16 channels on either side vectors are
 * not filled, and the model does not hold. */
static int choose_tile(const struct kern_problem *p, int threads)
{
    const double direct = cost(p, 1, threads);
    const double two = cost(p, 2, threads), four = cost(p, 4, threads);

    if (p->in[X].dim[1] < 16 || p->out[0].dim[1] < 16 ||
        (two > 0.9 * direct && four > 0.9 * direct))
        return 0;
    return four < 0.9 * two ? 4 : 2;
}

/* The tile decides the bits: of deterministic problems it is the same on any
 * number of threads. */
static int tile_for(const struct kern_problem *p, const struct kern_device *d)
{
    return choose_tile(p, p->deterministic ? 1 : d->threads);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    int r = check(p, why);

    if (r == 0 && tile_for(p, d) == 0)
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
    if (kern_problem_in(p, RESIDUAL))
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
    w->u_plane = w->panels * panel * w->channels + U_GAP;
    w->v_row = round_up(w->channels, LINE) + LINE;
    w->m_row = w->panels * panel + LINE;
    most =
        BLOCK_BYTES / (int64_t)sizeof(float) / planes / (w->v_row + w->m_row);
    most = most < BLOCK_TILES ? BLOCK_TILES : most;
    s->shared = w->tiles < s->threads * BLOCK_TILES;
    if (s->shared) {
        w->block = w->tiles;
    } else {
        /* The fewest equal blocks a thread that keep the limit. */
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
    fill_shape(&s->w, &e->problem, tile_for(&e->problem, d));
    fill_layout(s);
    floats = s->block_floats * (s->shared ? 1 : (size_t)s->threads);
    e->workspace = (floats + (size_t)s->w.v_row) * sizeof(float);
    e->packed[W] = (size_t)(s->w.a * s->w.a * s->w.u_plane) * sizeof(float);
    e->state = s;
    return 0;
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

/* Filters transformed at once: outputs of the widest panel (vector lanes) times
 * input channels.  The results are contiguous in each plane of U. */
#define PACK_OUTPUTS 32
#define PACK_INPUTS  8

/* Transforms the filters of n outputs from one input; filters lie `step`
 * floats apart.  u: a a planes of PACK_INPUTS x panel floats. */
CPU_CLONES static void transform_filters(int a, const double g[][3],
                                         const float *filter, int64_t step,
                                         int64_t n, float *u, int panel)
{
    double f[9][PACK_OUTPUTS] = {{0}};
    double t[WINOGRAD_MAX_A][3][PACK_OUTPUTS];
    int64_t k;
    int i, j;

    for (k = 0; k < n; k++)
        for (i = 0; i < 9; i++)
            f[i][k] = (double)filter[k * step + i];
    for (i = 0; i < a; i++)
        for (j = 0; j < 3; j++)
#pragma omp simd
            for (k = 0; k < PACK_OUTPUTS; k++)
                t[i][j][k] = g[i][0] * f[j][k] + g[i][1] * f[3 + j][k] +
                             g[i][2] * f[6 + j][k];
    for (i = 0; i < a; i++)
        for (j = 0; j < a; j++) {
            float *to = u + (i * a + j) * PACK_INPUTS * panel;

#pragma omp simd
            for (k = 0; k < panel; k++)
                to[k] = (float)(g[j][0] * t[i][0][k] + g[j][1] * t[i][1][k] +
                                g[j][2] * t[i][2][k]);
        }
}

/* One panel of outputs and PACK_INPUTS inputs, or as many as there are. */
static void pack_block(const struct state *s, const float *filters, int64_t p,
                       int64_t c, float *u)
{
    const struct winograd *w = &s->w;
    const int panel = s->steps->panel;
    const int64_t step = w->channels * 9, rest = w->outputs - p * panel;
    const int64_t n =
        w->channels - c < PACK_INPUTS ? w->channels - c : PACK_INPUTS;
    float block[WINOGRAD_MAX_A * WINOGRAD_MAX_A * PACK_INPUTS * PACK_OUTPUTS];
    int64_t i;

    for (i = 0; i < n; i++)
        transform_filters(
            w->a, w->a == 6 ? g4 : g2, filters + p * panel * step + (c + i) * 9,
            step, rest < panel ? rest : panel, block + i * panel, panel);
    for (i = 0; i < (int64_t)w->a * w->a; i++)
        memcpy(u + i * w->u_plane + (p * w->channels + c) * panel,
               block + i * PACK_INPUTS * panel,
               (size_t)(n * panel) * sizeof *u);
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct state *s = e->state;
    const int64_t blocks = (s->w.channels + PACK_INPUTS - 1) / PACK_INPUTS;
    const int64_t planes = (int64_t)s->w.a * s->w.a;
    int64_t b;

    if (i != W)
        return error_set(err, INFER_EARGUMENT, "input %d is not packed", i);
    for (b = 1; b <= planes; b++)
        memset((float *)dst + b * s->w.u_plane - U_GAP, 0,
               U_GAP * sizeof(float));
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (b = 0; b < s->w.panels * blocks; b++)
        pack_block(s, src, b / blocks, b % blocks * PACK_INPUTS, dst);
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
        .residual = kern_problem_in(p, RESIDUAL) ? args->in[RESIDUAL] : NULL,
        .y = args->out[0],
        .epilogue = &epilogue};
    float *zeros = args->workspace, *blocks = zeros + s->w.v_row;
    int i;

    (void)err;
    vector_epilogue_fill(&epilogue, &p->epilogue);
    epilogue.bias = kern_problem_in(p, BIAS) ? args->in[BIAS] : NULL;
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

KERN_FUNCTIONS(conv2d_fprop_nhwc_f32_cpu_winograd) = {
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = cpu_release,
};
