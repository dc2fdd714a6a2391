/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of packed.cuh and pairs.cuh: which problems they take, where
 * operands lie in the workspace, and how terms are split over blocks.  The
 * plans of both share the workspace, as one of them runs. */
#ifndef KERNELS_CUDA_TABLE_PACKED_PLAN_CUH
#define KERNELS_CUDA_TABLE_PACKED_PLAN_CUH

#include "kernels/cuda/table/packed.cuh"
#include "kernels/cuda/table/pairs.cuh"
#include "kernels/cuda/table/phase.h"

/* Fewer scalars leave most of a tile empty. */
#define PACKED_LEAST_SCALARS 33
/* Bytes of prepared operands, at most. */
#define PACKED_MOST_BYTES 4e9

/* One launch: a phase of a transposed convolution, or the whole. */
struct packed_part {
    int terms, columns, chunks;
    int column_blocks, splits, split_chunks;
    int64_t x_from;         /* of the first column, in x' */
    int64_t w_from;         /* of the first term, in w */
    int64_t y_from, r_from; /* of the first column's output */
    size_t w_at, place_at;  /* in the workspace */
    int extent[3];          /* of columns, innermost first */
    int column_stride[4];
    int term_extent[3]; /* of terms, innermost first */
    int64_t w_stride[4];
    int place_stride[4];
    int64_t y_stride[4], r_stride[4];
};

struct packed_plan {
    bool used;
    bool pairs; /* a plan for pairs.cuh; terms and x' count pairs */
    int lane, scalars, scalar_blocks;
    size_t room;
    int64_t x_count; /* of x' */
    bool too_large;  /* x' */
    /* Of pairs: of images or of channels, how many there are, from an element
     * to its partner. */
    bool by_images;
    int pair_extent;
    int64_t pair_x, pair_w;
    struct packed_axis h, w;
    int64_t from_stride[4];  /* of x: n, h, w, c */
    int order[4], extent[4]; /* of x', innermost first */
    int parts;
    struct packed_part part[TABLE_MAX_PHASES];
    int64_t w_scalar, y_scalar, r_scalar;
    size_t x_at, sums_at, bytes; /* in the workspace */
};

static inline size_t packed_aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static inline int packed_max(int a, int b)
{
    return a > b ? a : b;
}

/* Zeros before and after an axis of x, so that windows stay inside. */
static inline void packed_pad(struct packed_axis *a, int extent, int outputs,
                              int window, int stride, int dilation, int pad)
{
    const int last = (outputs - 1) * stride + (window - 1) * dilation - pad;

    a->extent = extent;
    a->pad = packed_max(a->pad, pad);
    a->padded = packed_max(a->padded, packed_max(extent, last + 1));
}

/* Strides of x' by n, h, w, c. */
static inline void packed_layout(struct packed_plan *s, bool channels_last,
                                 int n, int c, int *stride)
{
    static const int last[4] = {3, 2, 1, 0}, first[4] = {2, 1, 0, 3};
    const int dim[4] = {n, s->h.padded, s->w.padded, c};

    s->too_large =
        (double)n * c * s->h.padded * s->w.padded >= (double)INT32_MAX;
    s->x_count = 1;
    for (int d = 0; d < 4; d++) {
        s->order[d] = channels_last ? last[d] : first[d];
        s->extent[d] = dim[s->order[d]];
        stride[s->order[d]] = (int)s->x_count;
        if (!s->too_large)
            s->x_count *= s->extent[d];
    }
}

/* Strides of a filter's rows and columns. */
static inline void packed_window_strides(const struct kern_tensor *w,
                                         int64_t *stride, int *window)
{
    stride[0] = w->rank > 3 ? w->stride[2] : 0;
    stride[1] = w->rank > 2 ? w->stride[w->rank - 1] : 0;
    window[0] = w->rank > 3 ? (int)w->dim[2] : 1;
    window[1] = w->rank > 2 ? (int)w->dim[w->rank - 1] : 1;
}

/* Joins the elements of dimension dim of x in pairs; *extent: its elements,
 * then pairs; *w: the stride of w along it. */
static inline void packed_join_pairs(struct packed_plan *s, int dim,
                                     int *extent, int64_t *w)
{
    s->by_images = dim == 0;
    s->pair_extent = *extent;
    s->pair_x = s->from_stride[dim];
    s->pair_w = *w;
    s->from_stride[dim] *= 2;
    *w *= 2;
    *extent = (*extent + 1) / 2;
}

/* A convolution, its transpose or a dense layer. */
static inline void packed_read_conv(const struct kern_problem *p,
                                    struct packed_plan *s)
{
    const bool transposed = p->op == KERN_CONV_TRANSPOSE_FPROP;
    const struct kern_tensor *w = &p->in[1], *r = kern_problem_in(p, 3);
    struct table_phase phase[TABLE_MAX_PHASES];
    int64_t dim[3], tap[2], y[4], more[4] = {};
    int stride[4], window[2];

    s->parts = table_read_phases(p, phase);
    table_read_strides(p, &p->in[0], s->from_stride, dim);
    table_read_strides(p, &p->out[0], y, dim);
    if (r)
        table_read_strides(p, r, more, dim);
    packed_window_strides(w, tap, window);
    s->scalars = (int)w->dim[transposed ? 1 : 0];
    int channels = (int)w->dim[transposed ? 0 : 1];
    int64_t w_channel = w->stride[transposed ? 0 : 1];
    if (s->pairs)
        packed_join_pairs(s, 3, &channels, &w_channel);
    for (int i = 0; i < s->parts; i++) {
        const struct conv_geometry *g = &phase[i].g;
        packed_pad(&s->h, g->h, g->p, g->r, g->stride_h, g->dilation_h,
                   g->pad_top);
        packed_pad(&s->w, g->w, g->q, g->s, g->stride_w, g->dilation_w,
                   g->pad_left);
    }
    s->h.padded += s->h.pad;
    s->w.padded += s->w.pad;
    packed_layout(s, false, phase[0].g.n, channels, stride);
    s->w_scalar = w->stride[transposed ? 1 : 0];
    s->y_scalar = y[3];
    s->r_scalar = more[3];
    for (int i = 0; i < s->parts; i++) {
        const struct table_phase *f = &phase[i];
        const struct conv_geometry *g = &f->g;
        struct packed_part *t = &s->part[i];
        t->terms = g->r * g->s * channels;
        t->columns = g->m;
        t->extent[0] = g->q;
        t->extent[1] = g->p;
        t->extent[2] = g->n;
        t->column_stride[0] = g->stride_w * stride[2];
        t->column_stride[1] = g->stride_h * stride[1];
        t->column_stride[2] = stride[0];
        t->x_from = (int64_t)(s->h.pad - g->pad_top) * stride[1] +
                    (int64_t)(s->w.pad - g->pad_left) * stride[2];
        t->term_extent[0] = channels;
        t->term_extent[1] = packed_max(g->s, 1);
        t->term_extent[2] = packed_max(g->r, 1);
        t->w_stride[3] = w_channel;
        t->w_stride[2] = f->tap_w * tap[1];
        t->w_stride[1] = f->tap_h / window[1] * tap[0];
        t->w_from = f->tap / window[1] * tap[0] + f->tap % window[1] * tap[1];
        t->place_stride[3] = stride[3];
        t->place_stride[2] = g->dilation_w * stride[2];
        t->place_stride[1] = g->dilation_h * stride[1];
        for (int d = 0; d < 2; d++) {
            t->y_stride[d] = y[2 - d] * f->step[1 - d];
            t->r_stride[d] = more[2 - d] * f->step[1 - d];
            t->y_from += y[d + 1] * f->first[d];
            t->r_from += more[d + 1] * f->first[d];
        }
        t->y_stride[2] = y[0];
        t->r_stride[2] = more[0];
    }
}

/* The gradient of a filter. */
static inline void packed_read_wgrad(const struct kern_problem *p,
                                     struct packed_plan *s)
{
    const struct kern_tensor *dw = &p->out[0], *r = kern_problem_in(p, 2);
    const struct table_axes a = table_axes_of(p);
    struct packed_part *t = &s->part[0];
    int64_t in[3], out[3], dy[4], tap[2], more[2] = {};
    int stride[4], window[2];

    s->parts = 1;
    table_read_strides(p, &p->in[0], s->from_stride, in);
    table_read_strides(p, &p->in[1], dy, out);
    packed_window_strides(dw, tap, window);
    if (r)
        packed_window_strides(r, more, window);
    s->scalars = (int)dw->dim[0];
    const int channels = (int)dw->dim[1];
    packed_pad(&s->h, (int)in[1], (int)out[1], window[0], a.stride[0],
               a.dilation[0], a.pad[0]);
    packed_pad(&s->w, (int)in[2], (int)out[2], window[1], a.stride[1],
               a.dilation[1], a.pad[1]);
    s->h.padded += s->h.pad;
    s->w.padded += s->w.pad;
    int images = (int)in[0];
    if (s->pairs)
        packed_join_pairs(s, 0, &images, &dy[0]);
    packed_layout(s, true, images, channels, stride);
    s->w_scalar = dy[3];
    s->y_scalar = dw->stride[0];
    s->r_scalar = r ? r->stride[0] : 0;
    t->terms = images * (int)(out[1] * out[2]);
    t->columns = window[0] * window[1] * channels;
    t->extent[0] = channels;
    t->extent[1] = window[1];
    t->extent[2] = window[0];
    t->column_stride[0] = stride[3];
    t->column_stride[1] = a.dilation[1] * stride[2];
    t->column_stride[2] = a.dilation[0] * stride[1];
    t->x_from = (int64_t)(s->h.pad - a.pad[0]) * stride[1] +
                (int64_t)(s->w.pad - a.pad[1]) * stride[2];
    for (int d = 0; d < 3; d++) {
        t->term_extent[d] = (int)out[2 - d];
        t->w_stride[d + 1] = dy[d];
    }
    t->place_stride[3] = a.stride[1] * stride[2];
    t->place_stride[2] = a.stride[0] * stride[1];
    t->place_stride[1] = stride[0];
    t->y_stride[0] = dw->stride[1];
    t->y_stride[1] = tap[1];
    t->y_stride[2] = tap[0];
    if (r) {
        t->r_stride[0] = r->stride[1];
        t->r_stride[1] = more[1];
        t->r_stride[2] = more[0];
    }
}

/* ---- limits -------------------------------------------------------- */

/* One group of 2 dimensions at most; sizes do not overflow. */
static inline bool packed_fits(const struct kern_problem *p)
{
    const bool wgrad = p->op == KERN_CONV_WGRAD;
    const bool dense = p->op == KERN_DENSE_FPROP;
    const struct kern_tensor *window = wgrad ? &p->out[0] : &p->in[1];
    const struct kern_tensor *pixel = wgrad ? &p->in[1] : &p->out[0];
    const double pixels = (double)kern_tensor_count(pixel) + 256;
    struct kern_problem q = *p;

    if (dense)
        return p->in[0].rank <= 4 && pixels < 2e9;
    if (p->attr.conv.groups != 1 || p->in[0].rank > 4 || p->in[0].rank < 3)
        return false;
    if (wgrad) { /* its window is the output */
        q.op = KERN_CONV_FPROP;
        q.in[1] = *window;
        q.out[0] = *pixel;
    }
    return table_check_attributes(&q, NULL) == 0 && pixels < 2e9;
}

/* Splits the chunks of a part; as split() of conv_f32_cuda_table.cu.  most:
 * terms that are added one by one. */
static inline void packed_split(struct packed_part *t, int scalar_blocks,
                                int columns, int slots, int most)
{
    const int64_t tiles =
        (int64_t)conv_ceil_div(t->columns, columns) * scalar_blocks;
    double best = 0;

    t->chunks = conv_ceil_div(t->terms, PACKED_TERMS);
    t->column_blocks = conv_ceil_div(t->columns, columns);
    t->splits = 1;
    t->split_chunks = t->chunks;
    for (int n = conv_ceil_div(t->terms, most); n <= t->chunks; n++) {
        if (n < 1)
            continue;
        const int each = conv_ceil_div(t->chunks, n);
        const int64_t rounds =
            (tiles * conv_ceil_div(t->chunks, each) + slots - 1) / slots;
        const double time = (double)rounds * (each + 3);
        if (conv_ceil_div(t->chunks, each) == n &&
            (best == 0 || time < 0.97 * best)) {
            best = time;
            t->splits = n;
            t->split_chunks = each;
        }
        if (tiles * n > 4 * (int64_t)slots && best != 0)
            break;
    }
}

static inline size_t packed_shared_bytes(const struct packed_plan *s)
{
    if (s->pairs)
        return s->lane == 8 ? sizeof(struct pairs_shared<8>)
                            : sizeof(struct pairs_shared<4>);
    return s->lane == 8 ? sizeof(struct packed_shared<8>)
                        : sizeof(struct packed_shared<4>);
}

/* Columns that a lane has: 8, unless tiles of 128 columns leave fewer empty. */
static inline int packed_lane(const struct packed_plan *s)
{
    double wide = 0, narrow = 0;

    for (int i = 0; i < s->parts; i++) {
        wide += 256.0 * conv_ceil_div(s->part[i].columns, 256);
        narrow += 128.0 * conv_ceil_div(s->part[i].columns, 128);
    }
    return narrow < 0.85 * wide ? 4 : 8;
}

/* Plans a problem; used stays false where tile.cuh is to compute it.  begin:
 * bytes of the workspace that are taken. */
static inline void packed_plan_for(const struct kern_problem *p,
                                   const struct kern_device *d, int m,
                                   size_t begin, bool pairs,
                                   struct packed_plan *s)
{
    memset(s, 0, sizeof *s);
    if (d->sm < 80 || !packed_fits(p) || (pairs && m > 7))
        return;
    s->pairs = pairs;
    if (p->op == KERN_CONV_WGRAD)
        packed_read_wgrad(p, s);
    else
        packed_read_conv(p, s);
    if (s->scalars < PACKED_LEAST_SCALARS || s->too_large)
        return;
    s->scalar_blocks = conv_ceil_div(s->scalars, PACKED_SCALARS);
    s->lane = packed_lane(s);
    const size_t shared = packed_shared_bytes(s);
    const size_t half = (d->shared_per_block_optin + 1024) / 2 - 1024;
    size_t wanted = m > 7 || pairs ? 0 : (size_t)product_table_entries(m) * 4;
    /* Two blocks a multiprocessor. */
    while (wanted > 0 && shared + wanted > half)
        wanted /= 2;
    s->room = wanted;
    const int pitch = s->scalar_blocks * PACKED_SCALARS;
    double bytes = 4.0 * (double)s->x_count;
    s->x_at = begin;
    s->bytes = begin + packed_aligned(4 * (size_t)s->x_count);
    size_t sums = 0;
    for (int i = 0; i < s->parts; i++) {
        struct packed_part *t = &s->part[i];
        packed_split(t, s->scalar_blocks, 32 * s->lane,
                     2 * conv_multiprocessors(d), pairs ? 8192 : 16384);
        const size_t rows = (size_t)t->chunks * PACKED_TERMS;
        const size_t block =
            pairs ? 4 * PAIRS_WORDS : 8 * PACKED_TERMS * PACKED_SCALARS;
        const size_t w_bytes =
            (size_t)t->chunks * (size_t)s->scalar_blocks * block;
        bytes += (double)w_bytes;
        if ((double)rows * pitch >= INT32_MAX)
            return;
        t->w_at = s->bytes;
        t->place_at = t->w_at + packed_aligned(w_bytes);
        s->bytes = t->place_at + packed_aligned(rows * 4 + 16);
        const size_t parts = t->splits > 1
                                 ? (size_t)t->splits * (size_t)s->scalars *
                                       (size_t)t->columns * 4
                                 : 0;
        sums = parts > sums ? parts : sums;
    }
    s->sums_at = s->bytes;
    s->bytes += packed_aligned(sums);
    s->used = bytes < PACKED_MOST_BYTES;
}

/* ---- launching ----------------------------------------------------- */

static inline void packed_fill_x(const struct packed_plan *s,
                                 const struct kern_args *args,
                                 struct packed_x_args *a)
{
    a->x = (const uint32_t *)args->in[0];
    a->to = (uint32_t *)((char *)args->workspace + s->x_at);
    for (int d = 0; d < 4; d++) {
        a->from_stride[d] = s->from_stride[d];
        a->order[d] = s->order[d];
        if (d < 3)
            a->by[d].init((uint32_t)s->extent[d]);
    }
    a->count = s->x_count;
    a->channels = s->extent[3];
    a->tiles = s->order[3] == 3 && s->extent[3] >= 8 &&
               (s->pairs ? s->pair_x : s->from_stride[3]) == 1;
    a->pair_stride = s->pair_x;
    a->pair_extent = s->pair_extent;
    a->by_images = s->by_images;
    a->wide = s->pairs && s->pair_x == 1 && (uintptr_t)a->x % 8 == 0;
    for (int d = 0; d < 4; d++)
        a->wide = a->wide && s->from_stride[d] % 2 == 0;
    a->h = s->h;
    a->w = s->w;
}

static inline void packed_fill_w(const struct packed_plan *s,
                                 const struct packed_part *t,
                                 const struct kern_args *args,
                                 struct packed_w_args *a)
{
    char *base = (char *)args->workspace;

    a->w = (const uint32_t *)args->in[1] + t->w_from;
    a->to = (uint32_t *)(base + t->w_at);
    a->place = (int *)(base + t->place_at);
    a->terms = t->terms;
    a->scalars = s->scalars;
    a->pitch = s->scalar_blocks * PACKED_SCALARS;
    a->rows = (int64_t)t->chunks * PACKED_TERMS;
    a->by_pitch.init((uint32_t)a->pitch);
    a->scalar_stride = s->w_scalar;
    a->pair_stride = s->pair_w;
    a->pair_extent = s->pair_extent;
    a->by_images = s->by_images;
    for (int d = 0; d < 4; d++) {
        a->stride[d] = t->w_stride[d];
        a->place_stride[d] = t->place_stride[d];
        if (d < 3)
            a->by[d].init((uint32_t)t->term_extent[d]);
    }
}

static inline void packed_fill(const struct kern_problem *p,
                               const struct kern_args *args,
                               const struct packed_plan *s,
                               const struct packed_part *t,
                               struct packed_args *a)
{
    const struct kern_tensor *table = product_table_of(p);
    const struct kern_tensor *bias =
        p->op == KERN_CONV_WGRAD ? NULL : kern_problem_in(p, 2);
    const int residual = kern_op_residual(p->op);
    char *base = (char *)args->workspace;

    a->x = (const uint32_t *)(base + s->x_at) + t->x_from;
    a->w = (const uint2 *)(base + t->w_at);
    a->place = (const int *)(base + t->place_at);
    a->table = (const uint32_t *)args->in[PRODUCT_TABLE_IN];
    a->facts = (const struct table_facts *)base;
    a->row = table->stride[0];
    a->column = table->stride[1];
    a->m = product_table_bits_of(table);
    a->room = s->room;
    a->pitch = s->scalar_blocks * PACKED_SCALARS;
    a->columns = t->columns;
    a->scalars = s->scalars;
    for (int d = 0; d < 4; d++) {
        a->column_stride[d] = t->column_stride[d];
        a->y_stride[d] = t->y_stride[d];
        a->r_stride[d] = t->r_stride[d];
        if (d < 3)
            a->by[d].init((uint32_t)t->extent[d]);
    }
    a->column_blocks = t->column_blocks;
    a->scalar_blocks = s->scalar_blocks;
    a->splits = t->splits;
    a->chunks = t->chunks;
    a->split_chunks = t->split_chunks;
    a->tasks = (int64_t)t->splits * t->column_blocks * s->scalar_blocks;
    a->y_scalar = s->y_scalar;
    a->r_scalar = s->r_scalar;
    a->parts = t->splits > 1 ? (float *)(base + s->sums_at) : NULL;
    a->bias_type = bias ? bias->dtype : INFER_NONE;
    a->bias_step = bias ? bias->stride[0] : 0;
    a->bias = args->in[2];
    a->residual = kern_problem_in(p, residual)
                      ? (const float *)args->in[residual] + t->r_from
                      : NULL;
    a->epilogue = p->epilogue;
    a->y = (float *)args->out[0] + t->y_from;
    a->plain = !bias && !a->residual && p->epilogue.act.kind == KERN_IDENTITY;
    a->fours = a->plain && s->y_scalar == 1 && (uintptr_t)a->y % 16 == 0;
    a->twos = a->plain && s->y_scalar == 1 && (uintptr_t)a->y % 8 == 0;
    for (int d = 0; d < 4; d++) {
        a->fours = a->fours && t->y_stride[d] % 4 == 0;
        a->twos = a->twos && t->y_stride[d] % 2 == 0;
    }
    a->of_pairs = s->pairs;
}

/* Adds the splits' sums: one thread an output. */
static __global__ void __launch_bounds__(PACKED_THREADS)
    packed_join(const __grid_constant__ struct packed_args a)
{
    const int64_t count = (int64_t)a.scalars * a.columns;

    launch_wait();
    if (a.facts->rough ||
        packed_is_pairs(*a.facts, a.pairs, a.m, a.table[0]) != a.of_pairs)
        return;
    for (int64_t i = blockIdx.x * (int64_t)PACKED_THREADS + threadIdx.x;
         i < count; i += (int64_t)gridDim.x * PACKED_THREADS) {
        float sum = 0;
        for (int s = 0; s < a.splits; s++)
            sum += a.parts[s * count + i];
        packed_finish(a, packed_place_of(a, (int)(i % a.columns)),
                      (int)(i / a.columns), sum);
    }
}

typedef void packed_preparation(const struct packed_prepare_args);

static packed_function *packed_function_of(const struct packed_plan *s)
{
    if (s->pairs)
        return pairs_function(s->lane);
    return s->lane == 8 ? packed_kernel<8> : packed_kernel<4>;
}

static int packed_launch_part(const struct kern_problem *p,
                              const struct kern_args *args,
                              const struct packed_plan *s,
                              const struct packed_part *t, bool pairs,
                              int slots, struct infer_error *err)
{
    const size_t shared = packed_shared_bytes(s) + s->room;
    struct packed_args a = {};
    int rc;

    packed_fill(p, args, s, t, &a);
    a.pairs = pairs;
    rc = launch_chained(packed_function_of(s),
                        dim3((unsigned)(a.tasks < slots ? a.tasks : slots)),
                        dim3(PACKED_THREADS), shared, args->stream, a, err);
    if (rc == 0 && t->splits > 1)
        rc = launch_chained(
            packed_join,
            dim3(cuda_grid((int64_t)a.scalars * a.columns, PACKED_THREADS)),
            dim3(PACKED_THREADS), 0, args->stream, a, err);
    return rc;
}

static int packed_launch_prepare(const struct kern_problem *p,
                                 const struct kern_args *args,
                                 const struct packed_plan *s, int part,
                                 bool pairs, struct infer_error *err)
{
    const struct kern_tensor *table = product_table_of(p);
    packed_preparation *f =
        s->pairs ? packed_prepare<true> : packed_prepare<false>;
    struct packed_prepare_args a = {};

    packed_fill_x(s, args, &a.x);
    packed_fill_w(s, &s->part[part], args, &a.w);
    if (part > 0) {
        a.x.count = 0;
        a.x.tiles = false;
    }
    a.table = (const uint32_t *)args->in[PRODUCT_TABLE_IN];
    a.facts = (struct table_facts *)args->workspace;
    a.m = product_table_bits_of(table);
    a.room = s->room;
    a.column = table->stride[1];
    a.pairs = pairs;
    return launch_chained(
        f,
        dim3(launch_few((a.x.count + a.w.rows * a.w.pitch) / 4 + 1,
                        PACKED_THREADS)),
        dim3(PACKED_THREADS), 0, args->stream, a, err);
}

/* Computes the problem, whose facts are known, unless an operand is rough.
 * pairs: there is a plan for pairs.cuh; the kernels of a plan that the facts do
 * not choose end at once. */
static int packed_launch(const struct kern_problem *p,
                         const struct kern_args *args,
                         const struct packed_plan *s, bool pairs,
                         int multiprocessors, struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < s->parts; i++)
        rc = packed_launch_prepare(p, args, s, i, pairs, err);
    for (int i = 0; rc == 0 && i < s->parts; i++)
        rc = packed_launch_part(p, args, s, &s->part[i], pairs,
                                2 * multiprocessors, err);
    return rc;
}

#endif
