/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions, their transposes and dense layers whose products have factors
 * (kernels/table/product_factors.h), on tensor cores: operands are expanded to
 * BF16 (expand.cuh) and multiplied as an exact convolution with r times as many
 * channels (factors.cuh).  Products are those of the table bit for bit; sums
 * are those of tensor cores.
 *
 * A transposed convolution is one convolution for each phase (phase.h).  Groups
 * are taken where a tile is not mostly empty: else the row of the table is
 * faster.
 *
 * Where an operand is infinite, NaN, or so large or small that a product could
 * overflow or underflow, the kernels of the table compute the whole instead
 * (conditional.h).
 *
 * The workspace holds the facts, the expanded operands, and the workspace of
 * those kernels.
 */
#include "kernels/cuda/table/expand.cuh"
#include "kernels/cuda/table/factors.cuh"
#include "kernels/cuda/table/phase.h"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"
#include "kernels/rows.h"

/* Bytes of the facts in the workspace. */
#define FACTS 256

/* ---- tiles --------------------------------------------------------- */

struct tile {
    int bm, bn, threads, shared;
    void (*kernel)(const struct factors_args);
};

#define TILE(...)                                                              \
    {                                                                          \
        factors_tile<__VA_ARGS__>::BM, factors_tile<__VA_ARGS__>::BN,          \
            factors_tile<__VA_ARGS__>::THREADS,                                \
            factors_tile<__VA_ARGS__>::SHARED,                                 \
            factors_kernel<factors_tile<__VA_ARGS__>>                          \
    }

static const struct tile tiles[] = {TILE(2, 256, 4, 1), TILE(2, 128, 3, 2),
                                    TILE(4, 64, 4, 1), TILE(2, 64, 4, 2)};

/* The tile with the shortest time, reckoned in cycles: 2048 products each, or
 * 48 bytes from L2, and what begins and ends a tile.  k: outputs of a group. */
static int choose_tile(int m, int k, int groups, int k_tiles,
                       int multiprocessors)
{
    double best = 0;
    int choice = 0;

    for (int i = 0; i < (int)(sizeof tiles / sizeof tiles[0]); i++) {
        const int bm = tiles[i].bm, bn = tiles[i].bn;
        const double products = bm * bn / 32 / 0.85;
        const double bytes = (bm + bn) * 128 / 48.0;
        const double one =
            k_tiles * (products > bytes ? products : bytes) + 2500;
        const int count = conv_ceil_div(m, bm) * conv_ceil_div(k, bn) * groups;
        const double time = conv_ceil_div(count, multiprocessors) * one;
        if (i == 0 || time < best) {
            best = time;
            choice = i;
        }
    }
    return choice;
}

/* ---- planning ------------------------------------------------------ */

struct factors_state {
    struct kern_exec table; /* the row that computes other operands */
    struct expand_shape shape[2];
    struct table_phase phase[TABLE_MAX_PHASES];
    int tile[TABLE_MAX_PHASES];
    int phases, groups;
    int depth;             /* joined channels of a group */
    size_t w_at, table_at; /* in the workspace */
};

static size_t aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Expanded weights: [R][S][K][width]. */
static void read_weights(const struct kern_problem *p, int width, int groups,
                         struct expand_shape *s)
{
    const struct kern_tensor *w = &p->in[1];
    const bool transposed = p->op == KERN_CONV_TRANSPOSE_FPROP;
    const int k = transposed ? 1 : 0, c = 1 - k;
    const int last = w->rank - 3; /* index of S among the window's */

    for (int i = 0; i < 2; i++) {
        s->dim[i] = 1;
        s->stride[i] = 0;
    }
    if (last >= 1) {
        s->dim[0] = w->dim[2];
        s->stride[0] = w->stride[2];
    }
    if (last >= 0) {
        s->dim[1] = w->dim[2 + last];
        s->stride[1] = w->stride[2 + last];
    }
    s->dim[2] = w->dim[k];
    s->stride[2] = w->stride[k];
    s->channels = w->dim[c];
    s->stride[3] = w->stride[c];
    s->width = width;
    if (transposed && groups > 1) {
        s->group_rows = w->dim[k];
        s->dim[2] *= groups;
        s->channels /= groups;
        s->group_stride = s->channels * s->stride[3];
    }
}

/* ---- limits -------------------------------------------------------- */

static int check_sizes(const struct kern_problem *p, struct factors_state *s,
                       struct infer_error *why)
{
    int64_t stride[4], out[3];
    double y = (double)p->out[0]
                   .dim[p->op == KERN_DENSE_FPROP ? p->out[0].rank - 1 : 1];

    table_read_strides(p, &p->out[0], stride, out);
    for (int i = 0; i < 3; i++)
        y *= (double)out[i];
    for (int i = 0; i < 2; i++) {
        double count = (double)s->shape[i].width;
        for (int d = 0; d < 3; d++)
            count *= (double)s->shape[i].dim[d];
        if (count >= 2147483648.0 || count < 1)
            return error_set(why, INFER_EUNSUPPORTED,
                             "an expanded operand has no elements, or 2^31");
    }
    if (y >= 2147483648.0 || y < 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "the output has no elements, or 2^31");
    return 0;
}

static int check_types(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *bias = kern_problem_in(p, 2);
    const struct kern_tensor *r = kern_problem_in(p, 3);

    if (!product_factors_of(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes factors of products");
    if (p->in[0].dtype != INFER_F32 || p->in[1].dtype != INFER_F32 ||
        p->out[0].dtype != INFER_F32 || p->n_out > 1 ||
        (r && r->dtype != INFER_F32) || (bias && !cuda_is_real(bias->dtype)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes F32 and gives one output, F32");
    return 0;
}

static const struct kern_row *table_row(enum kern_op op)
{
    return kern_row_at(op == KERN_CONV_FPROP
                           ? KERN_ROW_conv_fprop_f32_cuda_table
                       : op == KERN_DENSE_FPROP
                           ? KERN_ROW_dense_fprop_f32_cuda_table
                           : KERN_ROW_conv_transpose_fprop_f32_cuda_table);
}

/* Groups begin at multiples of 16 bytes and fill a part of a tile. */
static int check_groups(const struct kern_problem *p, int groups,
                        int64_t channels, int64_t outputs,
                        struct infer_error *why)
{
    const int64_t joined = channels / groups * product_factors_of(p)->dim[2];

    if (groups == 1 || (joined % 8 == 0 && joined * (outputs / groups) >= 512))
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "takes groups whose joined channels are a multiple of 8 "
                     "and, times their outputs, 512 or more");
}

static int read(const struct kern_problem *p, const struct kern_device *d,
                struct factors_state *s, struct infer_error *why)
{
    int rc = check_types(p, why);

    if (rc == 0)
        rc = wgmma_check_device(d, why);
    if (rc == 0)
        rc = table_check_attributes(p, why);
    if (rc == 0)
        rc = kern_row_supports(table_row(p->op), p, d, why);
    if (rc < 0)
        return rc;
    struct expand_shape *x = &s->shape[0];
    table_read_strides(p, &p->in[0], x->stride, x->dim);
    x->channels =
        p->in[0].dim[p->op == KERN_DENSE_FPROP ? p->in[0].rank - 1 : 1];
    const int64_t joined = x->channels * product_factors_of(p)->dim[2];
    if (joined > 1 << 20)
        return error_set(why, INFER_EUNSUPPORTED, "has too many channels");
    x->width = conv_round_up((int)joined, 8);
    s->groups = p->op == KERN_DENSE_FPROP ? 1 : p->attr.conv.groups;
    s->depth = (int)x->width / s->groups;
    if (p->op != KERN_DENSE_FPROP)
        rc = check_groups(p, s->groups, x->channels, p->out[0].dim[1], why);
    if (rc < 0)
        return rc;
    read_weights(p, s->depth, s->groups, &s->shape[1]);
    rc = check_sizes(p, s, why);
    if (rc < 0)
        return rc;
    s->phases = table_read_phases(p, s->phase);
    for (int i = 0; rc == 0 && i < s->phases; i++) {
        struct conv_geometry *g = &s->phase[i].g;
        g->c = g->cg = g->x_pitch = (int)x->width;
        if (g->r > 0 && tensor_map_needs_im2col(g))
            rc = tensor_map_check_im2col(g, why);
    }
    return rc;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct factors_state s = {};

    return read(p, d, &s, why);
}

/* ---- preparing ----------------------------------------------------- */

static void release(struct kern_exec *e)
{
    struct factors_state *s = (struct factors_state *)e->state;

    if (s)
        kern_release(&s->table);
    free(s);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct factors_state *s = (struct factors_state *)calloc(1, sizeof *s);
    int rc = s ? read(&e->problem, d, s, err)
               : error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);

    if (rc == 0)
        rc = kern_prepare_variant(table_row(e->problem.op), &e->problem, d, 0,
                                  err, &s->table);
    if (rc < 0) {
        free(s);
        return rc;
    }
    for (int i = 0; i < s->phases; i++) {
        const struct conv_geometry *g = &s->phase[i].g;
        s->tile[i] = choose_tile(g->m, g->k / s->groups, s->groups,
                                 g->r * g->s * conv_ceil_div(s->depth, 64),
                                 conv_multiprocessors(d));
    }
    s->w_at = FACTS + aligned(2 * (size_t)expand_elements(&s->shape[0]));
    s->table_at = s->w_at + aligned(2 * (size_t)expand_elements(&s->shape[1]));
    e->state = s;
    e->workspace = s->table_at + s->table.workspace;
    return 0;
}

/* ---- launching ----------------------------------------------------- */

static void fill_outputs(const struct kern_exec *e,
                         const struct kern_args *args,
                         const struct table_phase *f, struct factors_args *a)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *bias = kern_problem_in(p, 2);
    const struct kern_tensor *r = kern_problem_in(p, 3);
    int64_t dim[3];

    table_read_strides(p, &p->out[0], a->y_stride, dim);
    if (r)
        table_read_strides(p, r, a->r_stride, dim);
    for (int d = 0; d < 2; d++) {
        a->y_at += f->first[d] * a->y_stride[d + 1];
        a->r_at += f->first[d] * a->r_stride[d + 1];
        a->y_stride[d + 1] *= f->step[d];
        a->r_stride[d + 1] *= f->step[d];
    }
    a->y = (float *)args->out[0];
    a->pairs = (a->y_stride[3] == 1 || f->g.k == 1) && a->kg % 2 == 0 &&
               (uintptr_t)a->y % 8 == 0 && a->y_at % 2 == 0;
    for (int d = 0; d < 3; d++)
        a->pairs = a->pairs && a->y_stride[d] % 2 == 0;
    a->bias_type = bias ? bias->dtype : INFER_NONE;
    a->bias_step = bias ? bias->stride[0] : 0;
    a->bias = args->in[2];
    a->residual = r ? (const float *)args->in[3] : NULL;
    a->epilogue = p->epilogue;
    a->plain = !bias && !r && p->epilogue.act.kind == KERN_IDENTITY;
}

static void fill_window(const struct factors_state *s,
                        const struct table_phase *f, struct factors_args *a)
{
    const struct conv_geometry *g = &f->g;

    a->m = g->m;
    a->k = g->k;
    a->kg = g->k / s->groups;
    a->depth = s->depth;
    a->q_stride = g->stride_w;
    a->p_stride = g->stride_h;
    a->pad_left = g->pad_left;
    a->pad_top = g->pad_top;
    a->by_q.init((uint32_t)g->q);
    a->by_p.init((uint32_t)g->p);
    a->dilation_h = g->dilation_h;
    a->dilation_w = g->dilation_w;
    a->r = g->r;
    a->s = g->s;
    a->per_position = conv_ceil_div(s->depth, 64);
    a->tap = f->tap;
    a->tap_h = f->tap_h;
    a->tap_w = f->tap_w;
}

static int launch_phase(const struct kern_exec *e, const struct kern_args *args,
                        int phase, struct infer_error *err)
{
    const struct factors_state *s = (const struct factors_state *)e->state;
    const struct table_phase *f = &s->phase[phase];
    const struct tile *t = &tiles[s->tile[phase]];
    const struct conv_geometry *g = &f->g;
    char *base = (char *)args->workspace;
    const int64_t rows = expand_elements(&s->shape[1]) / s->shape[1].width;
    struct factors_args a = {};
    int rc;

    fill_window(s, f, &a);
    fill_outputs(e, args, f, &a);
    a.facts = (const struct factor_facts *)base;
    a.im2col = g->r > 0 && tensor_map_needs_im2col(g);
    a.tiles_group = conv_ceil_div(a.kg, t->bn);
    a.tiles_n = a.tiles_group * s->groups;
    rc = a.im2col ? tensor_map_im2col(&a.x, TENSOR_MAP_BF16, base + FACTS, g,
                                      t->bm, err)
                  : tensor_map_matrix(&a.x, TENSOR_MAP_BF16, base + FACTS,
                                      g->n * g->h * g->w, g->c, g->x_pitch,
                                      t->bm, err);
    if (rc == 0)
        rc = tensor_map_matrix(&a.w, TENSOR_MAP_BF16, base + s->w_at, (int)rows,
                               s->depth, s->depth, t->bn, err);
    if (rc < 0)
        return rc;
    return launch_chained(
        t->kernel, dim3((unsigned)(conv_ceil_div(g->m, t->bm) * a.tiles_n)),
        dim3((unsigned)t->threads), (size_t)t->shared, args->stream, a, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct factors_state *s = (const struct factors_state *)e->state;
    char *base = (char *)args->workspace;
    struct factor_facts *facts = (struct factor_facts *)base;
    void *const at[2] = {base + FACTS, base + s->w_at};
    struct kern_args table = *args;
    int rc = expand_launch(&e->problem, args, s->shape, at, false, facts,
                           base + s->table_at, err);

    for (int i = 0; rc == 0 && i < s->phases; i++)
        rc = launch_phase(e, args, i, err);
    if (rc < 0)
        return rc;
    table.workspace = base + s->table_at;
    return conv_table_launch_unless_plain(&s->table, &table, facts, err);
}

KERN_FUNCTIONS(conv_f32_cuda_factors) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = release,
};
