/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of a 2-D convolution's weights in tiles that stay in registers: up
 * to 8 scalars of one side times 3 vectors of the other, summed over all pixels
 * of some images.
 *
 * The side of more channels gives the vectors.  Where that is x, they are the
 * window's taps times its channels and the scalars those of dy; else the
 * vectors are dy's and the scalars the taps and channels of x.  Copies with
 * zeros around the picture and behind the last channel make every tap and
 * every vector readable: no tile meets an edge.
 *
 * The images are divided into chunks with sums of their own, the tiles of a
 * chunk into parts; both depend on the shape alone, so that the result has the
 * same bits for any number of threads.
 */
#include "config.h"

#include "kernels/onednn/cpu.h"
#include "kernels/onednn/vector.h"

#include <omp.h>
#include <string.h>

#include "kernels/checked.h"
#include "kernels/error.h"
#include "kernels/problem.h"

extern const struct kern_row conv2d_wgrad_nhwc_f32_cpu_tiles;

/* in[] of a weight gradient */
enum { X, DY, RESIDUAL };

/* Bytes that the copies of some images may take: a share of the second-level
 * cache; and those of all chunks' sums. */
#define COPY_BYTES ((int64_t)1 << 19)
#define SUM_BYTES  ((int64_t)4 << 20)
/* Items of work that suffice for any number of threads. */
#define ITEMS 64
/* Floats of a cache line, to which buffers are rounded up. */
#define LINE 16

struct wgrad {
    const struct kern_problem *p;
    const struct vector_steps *steps;
    const float *x, *dy;
    bool x_is_vector;
    int64_t lanes;
    int64_t c, k; /* channels of the copies: those of the vectors rounded up */
    int64_t h, w; /* of the copy of x, pads included */
    int64_t images;           /* of a copy */
    int64_t scalars, vectors; /* of all tiles */
    int64_t chunks, parts;
    size_t x_floats, dy_floats; /* of one thread's copies */
    size_t sum_floats;          /* of a chunk */
    float *sum, *copies;
};

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- the plan ------------------------------------------------------ */

/* How far taps reach beyond the first pixel of the padded picture. */
static int64_t reach(const struct kern_problem *p, int d)
{
    const struct kern_conv *a = &p->attr.conv;

    return (p->in[DY].dim[2 + d] - 1) * a->stride[d] +
           (p->out[0].dim[2 + d] - 1) * a->dilation[d] + 1;
}

/* The share of lanes that channels fill, in per cent. */
static int64_t filled(int64_t channels, int64_t lanes)
{
    return channels * 100 / round_up(channels, lanes);
}

static void divide(struct wgrad *v)
{
    const int64_t images = v->p->in[X].dim[0];
    const int64_t bytes = (int64_t)v->sum_floats * (int64_t)sizeof(float);
    int64_t tiles = (v->scalars + v->steps->scalars - 1) / v->steps->scalars;

    v->chunks = SUM_BYTES / bytes < ITEMS ? SUM_BYTES / bytes : ITEMS;
    v->chunks = v->chunks > images ? images : v->chunks;
    v->chunks = v->chunks < 1 ? 1 : v->chunks;
    v->parts = (ITEMS + v->chunks - 1) / v->chunks;
    v->parts = v->parts > tiles ? tiles : v->parts;
}

static bool plan(const struct kern_problem *p, struct wgrad *v)
{
    const int64_t *dw = p->out[0].dim, taps = dw[2] * dw[3];
    const int64_t pixels = p->in[DY].dim[2] * p->in[DY].dim[3];
    int64_t floats;

    *v = (struct wgrad){.p = p, .steps = vector_steps()};
    v->lanes = v->steps->panel / 2;
    v->x_is_vector = filled(dw[1], v->lanes) >= filled(dw[0], v->lanes);
    v->c = v->x_is_vector ? round_up(dw[1], v->lanes) : dw[1];
    v->k = v->x_is_vector ? dw[0] : round_up(dw[0], v->lanes);
    v->h = reach(p, 0);
    v->w = reach(p, 1);
    v->scalars = v->x_is_vector ? dw[0] : taps * dw[1];
    v->vectors = (v->x_is_vector ? taps * v->c : v->k) / v->lanes;
    if (!checked_mul_i64(v->h * v->w, v->c, &floats) || floats > 1 << 28 ||
        pixels * v->k > 1 << 28)
        return false;
    v->images = COPY_BYTES / (int64_t)sizeof(float) /
                (floats + (v->k == dw[0] ? 0 : pixels * v->k) + 1);
    v->images = v->images < 1 ? 1 : v->images;
    v->images = v->images > p->in[X].dim[0] ? p->in[X].dim[0] : v->images;
    v->x_floats = (size_t)round_up(v->images * floats, LINE);
    v->dy_floats =
        v->k == dw[0] ? 0 : (size_t)round_up(v->images * pixels * v->k, LINE);
    v->sum_floats = (size_t)round_up(v->scalars * v->vectors * v->lanes, LINE);
    divide(v);
    return true;
}

static bool channels_last(const struct kern_tensor *t)
{
    return cpu_is_f32(t) && kern_tensor_is_dense(t, KERN_NHWC);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *residual = kern_problem_in(p, RESIDUAL);
    struct wgrad v;

    (void)d;
    if (!vector_steps())
        return error_set(why, INFER_EUNSUPPORTED, "needs AVX2 or AVX-512");
    if (p->in[X].rank != 4 || p->attr.conv.groups != 1 ||
        !channels_last(&p->in[X]) || !channels_last(&p->in[DY]))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 2-D channels-last F32 activations and one "
                         "group");
    if (!cpu_is_f32(&p->out[0]) ||
        !kern_tensor_is_dense(&p->out[0], KERN_NCHW) ||
        (residual &&
         (!cpu_is_f32(residual) || !kern_tensor_is_dense(residual, KERN_NCHW))))
        return error_set(why, INFER_EUNSUPPORTED, "makes dense F32 weights");
    for (int i = 0; i < 2; i++)
        if (p->attr.conv.pad_begin[i] < 0)
            return error_set(why, INFER_EUNSUPPORTED, "takes pads from 0 up");
    if (kern_tensor_count(&p->in[DY]) == 0 ||
        kern_tensor_count(&p->in[X]) == 0 || !plan(p, &v))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes no empty and no enormous tensors");
    if (p->in[DY].dim[2] * p->in[DY].dim[3] == 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "leaves dense layers to matrix products");
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct wgrad v;
    size_t copies, sums, floats;

    (void)plan(&e->problem, &v);
    if (!checked_mul(v.x_floats + v.dy_floats, (size_t)d->threads, &copies) ||
        !checked_mul(v.sum_floats, (size_t)v.chunks, &sums) ||
        !checked_add(copies, sums, &floats) ||
        !checked_mul(floats, sizeof(float), &e->workspace))
        return error_set(err, INFER_EMEMORY, "%s: workspace overflows",
                         e->row->name);
    return cpu_prepare(e, d, err);
}

/* ---- copies -------------------------------------------------------- */

/* One row of pixels, of n channels that become `to` wide. */
static void copy_row(const float *x, int64_t pixels, int64_t n, float *to,
                     int64_t wide)
{
    if (n == wide) {
        memcpy(to, x, (size_t)(pixels * n) * sizeof(*to));
        return;
    }
    for (int64_t i = 0; i < pixels; i++, x += n, to += wide) {
        memcpy(to, x, (size_t)n * sizeof(*to));
        memset(to + n, 0, (size_t)(wide - n) * sizeof(*to));
    }
}

/* Rows and columns of x behind the last that a tap reads are left out. */
static void copy_x(const struct wgrad *v, int64_t image, float *to)
{
    const struct kern_conv *a = &v->p->attr.conv;
    const int64_t *dim = v->p->in[X].dim, row = v->w * v->c;
    const float *x = v->x + image * dim[1] * dim[2] * dim[3];
    const int64_t left = a->pad_begin[1] < v->w ? a->pad_begin[1] : v->w;
    const int64_t room = v->w - left, width = dim[3] < room ? dim[3] : room;

    for (int64_t h = 0; h < v->h; h++, to += row) {
        const int64_t from = h - a->pad_begin[0];

        if (from < 0 || from >= dim[2]) {
            memset(to, 0, (size_t)row * sizeof(*to));
            continue;
        }
        memset(to, 0, (size_t)(left * v->c) * sizeof(*to));
        copy_row(x + from * dim[3] * dim[1], width, dim[1], to + left * v->c,
                 v->c);
        memset(to + (left + width) * v->c, 0,
               (size_t)((room - width) * v->c) * sizeof(*to));
    }
}

/* ---- tiles --------------------------------------------------------- */

/* Where element i of x's side lies in its copy: its tap and channel. */
static int64_t window_place(const struct wgrad *v, int64_t i)
{
    const struct kern_conv *a = &v->p->attr.conv;
    const int64_t width = v->p->out[0].dim[3], tap = i / v->c;

    return (tap / width * a->dilation[0] * v->w +
            tap % width * a->dilation[1]) *
               v->c +
           i % v->c;
}

/* The steps of both sides over images, rows and columns of dy. */
static void fill_steps(const struct wgrad *v, int64_t images,
                       struct vector_outer *o)
{
    const struct kern_conv *a = &v->p->attr.conv;
    const int64_t *dim = v->p->in[DY].dim;
    int64_t *x = v->x_is_vector ? o->v_step : o->s_step;
    int64_t *dy = v->x_is_vector ? o->s_step : o->v_step;

    o->count[0] = images;
    o->count[1] = dim[2];
    o->count[2] = dim[3];
    x[0] = v->h * v->w * v->c;
    x[1] = a->stride[0] * v->w * v->c;
    x[2] = a->stride[1] * v->c;
    dy[0] = dim[2] * dim[3] * v->k;
    dy[1] = dim[3] * v->k;
    dy[2] = v->k;
    o->row = v->vectors * v->lanes;
}

/* All vectors for some scalars. */
static void add_scalars(const struct wgrad *v, struct vector_outer *o,
                        int64_t first, int count, float *sum)
{
    for (int i = 0; i < count; i++)
        o->s_at[i] = v->x_is_vector ? first + i : window_place(v, first + i);
    for (int64_t j = 0; j < v->vectors; j += VECTOR_OUTER_V) {
        const int64_t n =
            v->vectors - j < VECTOR_OUTER_V ? v->vectors - j : VECTOR_OUTER_V;

        for (int64_t i = 0; i < n; i++)
            o->v_at[i] = v->x_is_vector ? window_place(v, (j + i) * v->lanes)
                                        : (j + i) * v->lanes;
        o->sum = sum + first * o->row + j * v->lanes;
        v->steps->outer(o, count, (int)n);
    }
}

/* Images [from, from + count) for a part of the tiles. */
static void add_images(const struct wgrad *v, int64_t from, int64_t count,
                       int64_t part, float *copy, float *sum)
{
    const int64_t step = v->steps->scalars;
    const int64_t tiles = (v->scalars + step - 1) / step;
    const int64_t *dim = v->p->in[DY].dim, pixels = dim[2] * dim[3];
    const float *dy = v->dy + from * pixels * dim[1];
    struct vector_outer o;
    int64_t first, last;

    for (int64_t i = 0; i < count; i++)
        copy_x(v, from + i, copy + i * v->h * v->w * v->c);
    if (v->dy_floats > 0) {
        copy_row(dy, count * pixels, dim[1], copy + v->x_floats, v->k);
        dy = copy + v->x_floats;
    }
    fill_steps(v, count, &o);
    o.s = v->x_is_vector ? dy : copy;
    o.v = v->x_is_vector ? copy : dy;
    cpu_share(tiles, (int)part, (int)v->parts, &first, &last);
    for (; first < last; first++) {
        const int64_t at = first * step, rest = v->scalars - at;

        add_scalars(v, &o, at, (int)(rest < step ? rest : step), sum);
    }
}

/* Some images and some tiles: nobody else adds to these sums. */
static void item(const struct wgrad *v, int64_t i)
{
    const int64_t chunk = i / v->parts, part = i % v->parts;
    const int64_t step = v->steps->scalars, row = v->vectors * v->lanes;
    const int64_t tiles = (v->scalars + step - 1) / step;
    float *sum = v->sum + (size_t)chunk * v->sum_floats;
    float *copy =
        v->copies + (size_t)omp_get_thread_num() * (v->x_floats + v->dy_floats);
    int64_t from, to, first, last;

    cpu_share(tiles, (int)part, (int)v->parts, &first, &last);
    first *= step;
    last = last * step < v->scalars ? last * step : v->scalars;
    memset(sum + first * row, 0, (size_t)((last - first) * row) * sizeof(*sum));
    cpu_share(v->p->in[X].dim[0], (int)chunk, (int)v->chunks, &from, &to);
    for (; from < to; from += v->images)
        add_images(v, from, to - from < v->images ? to - from : v->images, part,
                   copy, sum);
}

/* ---- the result ---------------------------------------------------- */

/* The sum of all chunks for output channel k. */
static void store_channel(const struct wgrad *v, const float *residual,
                          float *dw, int64_t k)
{
    const int64_t *dim = v->p->out[0].dim, taps = dim[2] * dim[3];
    const int64_t row = v->vectors * v->lanes;

    for (int64_t c = 0; c < dim[1]; c++)
        for (int64_t t = 0; t < taps; t++) {
            const int64_t to = (k * dim[1] + c) * taps + t;
            const float *from = v->x_is_vector
                                    ? v->sum + k * row + t * v->c + c
                                    : v->sum + (t * v->c + c) * row + k;
            float total = 0;

            for (int64_t i = 0; i < v->chunks; i++)
                total += from[(size_t)i * v->sum_floats];
            dw[to] = total + (residual ? residual[to] : 0.0f);
        }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int threads = cpu_threads_of(e);
    const float *residual =
        kern_problem_in(p, RESIDUAL) ? args->in[RESIDUAL] : NULL;
    struct wgrad v;
    int64_t i;

    (void)err;
    (void)plan(p, &v);
    v.x = args->in[X];
    v.dy = args->in[DY];
    v.sum = args->workspace;
    v.copies = v.sum + (size_t)v.chunks * v.sum_floats;
#pragma omp parallel for num_threads(threads)                                  \
    schedule(dynamic, 1) if (threads > 1)
    for (i = 0; i < v.chunks * v.parts; i++)
        item(&v, i);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (i = 0; i < p->out[0].dim[0]; i++)
        store_channel(&v, residual, args->out[0], i);
    return 0;
}

const struct kern_row conv2d_wgrad_nhwc_f32_cpu_tiles = {
    .name = "conv2d_wgrad_nhwc_f32_cpu_tiles",
    .op = KERN_CONV_WGRAD,
    .backend = INFER_BACKEND_ONEDNN,
    .layout = KERN_NHWC,
    .dtype = INFER_F32,
    .acc = INFER_F32,
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
