/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX GridSample, AffineGrid, RoiAlign and DeformConv: pictures read between
 * their pixels.
 *
 * A picture N,C,H,W is seen as N,C,H W.  Each point is a weighted sum of pixels
 * around it: of every tap, its index in the picture and its weight are computed
 * from the coordinates, and the pixels are gathered by that index.  RoiAlign,
 * whose boxes name their picture, reads rows N H W,C.
 */
#include <string.h>

#include "weights/onnx/composed/compose.h"
#include "weights/onnx/window.h"

#define AXES 3

enum sample_mode { SAMPLE_LINEAR, SAMPLE_NEAREST, SAMPLE_CUBIC };
enum sample_border { BORDER_ZEROS, BORDER_EDGE, BORDER_REFLECTION };

/* One tap of one axis: pixels, as whole numbers in F32 that lie inside, and
 * what they weigh. */
struct tap {
    int at, weight;
};

struct sampling {
    enum sample_mode mode;
    enum sample_border border;
    bool align;
    int axes;
    int64_t extent[AXES]; /* -1: free */
    int size[AXES];       /* and then its value, F32 of one element; else -1 */
    struct tap tap[AXES][4];
};

static int taps_of(enum sample_mode mode)
{
    return mode == SAMPLE_NEAREST ? 1 : mode == SAMPLE_LINEAR ? 2 : 4;
}

/* ---- extents ------------------------------------------------------- */

/* times n + add of the extent n of an axis, as F32 of one element. */
static int of_extent(struct onnx_import *im, const struct sampling *s, int axis,
                     double times, double add)
{
    if (s->size[axis] >= 0)
        return compose_linear(im, times, add, s->size[axis]);
    return compose_number(im, INFER_F32, times * (double)s->extent[axis] + add);
}

/* x from low to n + more. */
static int clip(struct onnx_import *im, const struct sampling *s, int axis,
                double low, double more, int x)
{
    if (s->size[axis] < 0)
        return compose_clip(im, low, (double)s->extent[axis] + more, x);
    x = compose_binary(im, KERN_MAX, x, compose_number(im, INFER_F32, low));
    return compose_binary(im, KERN_MIN, x, of_extent(im, s, axis, 1, more));
}

/* ---- taps ---------------------------------------------------------- */

/* 1 where low <= x <= n + more, else 0. */
static int inside(struct onnx_import *im, const struct sampling *s, int axis,
                  int x, double low, double more)
{
    const int clipped = clip(im, s, axis, low, more, x);

    return compose_cast(im, INFER_F32,
                        compose_binary(im, KERN_EQUAL, clipped, x));
}

/* x mirrored into the picture: about its outermost pixels' centers with
 * `align`, else about their outer edges. */
static int mirror(struct onnx_import *im, const struct sampling *s, int axis,
                  int x)
{
    const double low = s->align ? 0 : -0.5;
    const double less = s->align ? 1 : 0;
    int period;

    if (s->size[axis] < 0 && (double)s->extent[axis] <= less)
        return compose_linear(im, 0, 0, x);
    /* t = |x - low| mod 2 span; the result is low + min(t, 2 span - t) */
    period = of_extent(im, s, axis, 2, -2 * less);
    /* A single pixel has no period; taps are clipped to it afterwards. */
    if (s->size[axis] >= 0 && s->align)
        period = compose_binary(im, KERN_MAX, period,
                                compose_number(im, INFER_F32, 1));
    x = compose_unary(im, KERN_ABS, compose_linear(im, 1, -low, x));
    x = compose_binary(im, KERN_MOD, x, period);
    x = compose_binary(
        im, KERN_MIN, x,
        s->size[axis] < 0
            ? compose_linear(im, -1, 2 * ((double)s->extent[axis] - less), x)
            : compose_binary(im, KERN_SUB, period, x));
    return compose_linear(im, 1, low, x);
}

/* A pixel's number and weight, after what the border does to them. */
static struct tap settle(struct onnx_import *im, const struct sampling *s,
                         int axis, int at, int weight)
{
    if (s->border == BORDER_ZEROS) {
        const int in = inside(im, s, axis, at, 0, -1);

        weight = weight < 0 ? in : compose_binary(im, KERN_MUL, weight, in);
    }
    if (s->border == BORDER_REFLECTION)
        at = compose_unary(im, KERN_ROUND, mirror(im, s, axis, at));
    return (struct tap){clip(im, s, axis, 0, -1, at), weight};
}

/* Keys' cubic of a distance t: with a = -0.75,
 *   |t| <= 1: (a + 2) |t|^3 - (a + 3) |t|^2 + 1
 *   |t| <  2: a |t|^3 - 5 a |t|^2 + 8 a |t| - 4 a */
static int cubic(struct onnx_import *im, int t, bool near)
{
    const double a = -0.75;
    int y;

    t = compose_unary(im, KERN_ABS, t);
    if (near) {
        y = compose_linear(im, a + 2, -(a + 3), t);
        y = compose_binary(im, KERN_MUL, y, compose_binary(im, KERN_MUL, t, t));
        return compose_linear(im, 1, 1, y);
    }
    y = compose_linear(im, a, -5 * a, t);
    y = compose_linear(im, 1, 8 * a, compose_binary(im, KERN_MUL, y, t));
    return compose_linear(im, 1, -4 * a, compose_binary(im, KERN_MUL, y, t));
}

/* The taps of one axis at coordinates x, in pixels. */
static void make_taps(struct onnx_import *im, struct sampling *s, int axis,
                      int x)
{
    struct tap *tap = s->tap[axis];
    int first, part;

    if (s->mode == SAMPLE_NEAREST) {
        tap[0] = settle(im, s, axis, compose_unary(im, KERN_ROUND, x), -1);
        return;
    }
    first = compose_unary(im, KERN_FLOOR, x);
    part = compose_binary(im, KERN_SUB, x, first);
    if (s->mode == SAMPLE_LINEAR) {
        tap[0] = settle(im, s, axis, first, compose_linear(im, -1, 1, part));
        tap[1] = settle(im, s, axis, compose_linear(im, 1, 1, first), part);
        return;
    }
    for (int k = 0; k < 4; k++)
        tap[k] = settle(
            im, s, axis, compose_linear(im, 1, k - 1, first),
            cubic(im, compose_linear(im, 1, 1 - k, part), k == 1 || k == 2));
}

/* ---- sums ---------------------------------------------------------- */

/* Index in the joined axes, I64, and weight of one choice of taps. */
static struct tap combine(struct onnx_import *im, const struct sampling *s,
                          int choice)
{
    struct tap all = {-1, -1};

    for (int d = 0; d < s->axes; d++) {
        const struct tap *t = &s->tap[d][choice % taps_of(s->mode)];
        const int at = compose_cast(im, INFER_I64, t->at);

        choice /= taps_of(s->mode);
        all.at =
            d == 0 ? at
                   : compose_binary(
                         im, KERN_ADD, at,
                         compose_binary(
                             im, KERN_MUL, all.at,
                             s->size[d] < 0
                                 ? compose_integer(im, INFER_I64, s->extent[d])
                                 : compose_cast(im, INFER_I64, s->size[d])));
        if (t->weight >= 0)
            all.weight = all.weight < 0 ? t->weight
                                        : compose_binary(im, KERN_MUL,
                                                         all.weight, t->weight);
    }
    return all;
}

/* Reads pixels by an index of the coordinates' shape. */
typedef int read_fn(struct onnx_import *im, const void *context, int index);
/* A weight of the coordinates' shape, in that of what is read. */
typedef int weigh_fn(struct onnx_import *im, int weight);

static int join_taps(struct onnx_import *im, const struct sampling *s,
                     enum kern_binary_kind kind, read_fn *read,
                     const void *context, weigh_fn *weigh)
{
    int n = 1, y = -1;

    for (int d = 0; d < s->axes; d++)
        n *= taps_of(s->mode);
    for (int i = 0; i < n && im->rc == 0; i++) {
        const struct tap t = combine(im, s, i);
        int v = read(im, context, t.at);

        if (t.weight >= 0)
            v = compose_binary(im, KERN_MUL, v, weigh(im, t.weight));
        y = i == 0 ? v : compose_binary(im, kind, y, v);
    }
    return y;
}

/* Pixels of N,C,points at indices N,points: N,C,points. */
struct planes {
    int x;
    int64_t channels;
};

static int read_planes(struct onnx_import *im, const void *context, int index)
{
    const struct planes *p = context;
    const int64_t dim[3] = {1, p->channels, 1};

    index = compose_expand(im, compose_unsqueeze(im, index, 1), 3, dim);
    return compose_gather_elements(im, p->x, index, 2);
}

static int weigh_planes(struct onnx_import *im, int weight)
{
    return compose_unsqueeze(im, weight, 1);
}

/* ---- GridSample ---------------------------------------------------- */

/* Coordinate -1 .. 1 number d of the grid N,points,axes in pixels. */
static int coordinate(struct onnx_import *im, const struct sampling *s,
                      int grid, int axis)
{
    const double n = (double)s->extent[axis], less = s->align ? 1 : 0;
    const int d = s->axes - 1 - axis; /* x comes first */
    const int g =
        compose_squeeze(im, compose_slice(im, grid, 2, d, d + 1, 1), 2);

    if (s->size[axis] < 0)
        return compose_linear(im, (n - less) / 2, (n - 1) / 2, g);
    return compose_binary(
        im, KERN_ADD, of_extent(im, s, axis, 0.5, -0.5),
        compose_binary(im, KERN_MUL, of_extent(im, s, axis, 0.5, -0.5 * less),
                       g));
}

/* As torch: the reflected and the clipped coordinate has the neighbours. */
static int bound(struct onnx_import *im, const struct sampling *s, int axis,
                 int x)
{
    if (s->mode == SAMPLE_CUBIC || s->border == BORDER_ZEROS)
        return x;
    if (s->border == BORDER_REFLECTION)
        x = mirror(im, s, axis, x);
    return clip(im, s, axis, 0, -1, x);
}

static int read_sampling(struct onnx_import *im, struct sampling *s)
{
    static const char *const modes[] = {"linear",   "nearest", "cubic",
                                        "bilinear", "bicubic", NULL};
    static const char *const borders[] = {"zeros", "border", "reflection",
                                          NULL};
    int mode = 0, border = 0;

    onnx_word(im, "mode", modes, &mode);
    onnx_word(im, "padding_mode", borders, &border);
    onnx_flag(im, "align_corners", &s->align);
    s->mode = mode == 3   ? SAMPLE_LINEAR
              : mode == 4 ? SAMPLE_CUBIC
                          : (enum sample_mode)mode;
    s->border = (enum sample_border)border;
    return im->rc;
}

/* x N,C,spatial as N,C,pixels; the extents go into s. */
static int flatten(struct onnx_import *im, struct sampling *s, int x)
{
    static const int64_t flat[3] = {0, 0, -1};

    s->axes = compose_rank(im, x) - 2;
    for (int d = 0; d < s->axes; d++) {
        s->extent[d] = compose_free_dim(im, x, 2 + d);
        s->size[d] = s->extent[d] < 0 ? compose_size(im, x, 2 + d) : -1;
        if (im->rc == 0 && s->size[d] < 0 &&
            (s->extent[d] < 1 || s->extent[d] > 1 << 24))
            onnx_fail(im, INFER_EFORMAT, "a picture of %lld pixels",
                      (long long)s->extent[d]);
    }
    return compose_reshape(im, x, 3, flat);
}

/* N,C,points in the shape of the grid N,spatial,axes. */
static int as_grid(struct onnx_import *im, int y, int grid)
{
    const int both[2] = {y, grid};
    union graph_attr attr;
    int value = -1;

    onnx_defaults(GRAPH_RESHAPE, &attr);
    attr.dims.n = compose_rank(im, grid);
    for (int d = 2; d < attr.dims.n; d++)
        attr.dims.dim[d] = GRAPH_EXPAND_LIKE(d - 1);
    onnx_emit(im, GRAPH_RESHAPE, &attr, both, 2, -1, &value);
    return value;
}

int onnx_import_grid_sample(struct onnx_import *im)
{
    int64_t points[3] = {0, -1, 0}, out[2 + AXES] = {0, 0};
    struct sampling s = {.mode = SAMPLE_LINEAR};
    struct planes p;
    int grid, y, x, shape;
    bool free = false;

    onnx_arity(im, 2, 2);
    read_sampling(im, &s);
    x = compose_input(im, 0);
    grid = compose_input(im, 1);
    compose_need_rank(im, x, 3, 2 + AXES);
    compose_need_rank(im, grid, compose_rank(im, x), compose_rank(im, x));
    p.channels = compose_dim(im, x, 1);
    p.x = flatten(im, &s, x);
    if (im->rc == 0 && compose_dim(im, grid, -1) != s.axes)
        return onnx_fail(im, INFER_EFORMAT, "points of %lld coordinates",
                         (long long)compose_dim(im, grid, -1));
    if (s.mode == SAMPLE_CUBIC && s.axes != 2)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "cubic sampling of %d dimensions", s.axes);
    for (int d = 0; d < s.axes; d++) {
        out[2 + d] = compose_free_dim(im, grid, 1 + d);
        free = free || out[2 + d] < 0;
    }
    points[2] = s.axes;
    shape = grid;
    grid = compose_reshape(im, grid, 3, points);
    for (int d = 0; d < s.axes; d++)
        make_taps(im, &s, d, bound(im, &s, d, coordinate(im, &s, grid, d)));
    y = join_taps(im, &s, KERN_ADD, read_planes, &p, weigh_planes);
    return compose_output(im, 0,
                          free ? as_grid(im, y, shape)
                               : compose_reshape(im, y, 2 + s.axes, out));
}

/* ---- AffineGrid ---------------------------------------------------- */

/* Element i of n from -1 to 1: of the pixels' centers, or edge to edge. */
static float place(int64_t i, int64_t n, bool align)
{
    if (align)
        return n > 1 ? (float)(2 * (double)i / (double)(n - 1) - 1) : 0;
    return (float)((2 * (double)i + 1) / (double)n - 1);
}

/* Every point of the grid as x,y,[z],1. */
static int base_grid(struct onnx_import *im, int axes, const int64_t *size,
                     bool align)
{
    int64_t dim[2] = {1, axes + 1};
    float *data;
    int value;

    for (int d = 0; d < axes; d++)
        if (size[d] < 1 || !checked_mul_i64(dim[0], size[d], &dim[0])) {
            onnx_fail(im, INFER_EFORMAT, "a grid of %lld points",
                      (long long)size[d]);
            return -1;
        }
    value = compose_floats(im, 2, dim, &data);
    for (int64_t k = 0; value >= 0 && k < dim[0]; k++) {
        int64_t rest = k;

        for (int d = axes - 1; d >= 0; d--) {
            data[k * dim[1] + axes - 1 - d] =
                place(rest % size[d], size[d], align);
            rest /= size[d];
        }
        data[k * dim[1] + axes] = 1;
    }
    return value;
}

int onnx_import_affine_grid(struct onnx_import *im)
{
    int64_t size[ONNX_PROBES][INFER_MAX_RANK], out[2 + AXES] = {0};
    int theta, y, n = -1, axes;
    bool align = false;

    onnx_arity(im, 2, 2);
    onnx_flag(im, "align_corners", &align);
    onnx_input_lists(im, 1, "the size", size, &n);
    theta = compose_input(im, 0);
    compose_need_rank(im, theta, 3, 3);
    if (im->rc < 0)
        return im->rc;
    axes = n - 2;
    if (n < 4 || n > 2 + AXES || compose_dim(im, theta, 1) != axes ||
        compose_dim(im, theta, 2) != axes + 1)
        return onnx_fail(im, INFER_EFORMAT,
                         "%d sizes for matrices of %lldx%lld", n,
                         (long long)compose_dim(im, theta, 1),
                         (long long)compose_dim(im, theta, 2));
    for (int d = 0; d < axes; d++) {
        out[1 + d] = size[0][2 + d];
        for (int p = 1; p < im->probes; p++)
            if (size[p][2 + d] != out[1 + d])
                return onnx_fail(im, INFER_EUNSUPPORTED,
                                 "a grid of a free size; --input-shape fixes "
                                 "free sizes");
    }
    for (int p = 0; p < im->probes; p++)
        if (size[p][0] != im->type[theta][p].dim[0])
            return onnx_fail(im, INFER_EFORMAT, "%lld grids of %lld matrices",
                             (long long)size[p][0],
                             (long long)im->type[theta][p].dim[0]);
    out[1 + axes] = axes;
    y = compose_matmul(im, base_grid(im, axes, out + 1, align), theta, true, 1);
    return compose_output(im, 0, compose_reshape(im, y, 2 + axes, out));
}

/* ---- RoiAlign ------------------------------------------------------ */

struct roi {
    int64_t size[2]; /* of the result: height, width */
    int64_t ratio;   /* samples a bin and axis */
    double scale, offset;
    bool max;
    int boxes; /* R,4: x, y, x, y */
};

/* Pixels of rows M,C at indices R,h,w of pictures that begin at `base`. */
struct rows {
    int x, base;
};

static int read_rows(struct onnx_import *im, const void *context, int index)
{
    const struct rows *r = context;

    return compose_gather(im, r->x,
                          compose_binary(im, KERN_ADD, index, r->base), 0);
}

static int weigh_rows(struct onnx_import *im, int weight)
{
    return compose_unsqueeze(im, weight, 3);
}

static int read_roi(struct onnx_import *im, struct roi *r)
{
    static const char *const modes[] = {"avg", "max", NULL};
    static const char *const ways[] = {"half_pixel", "output_half_pixel", NULL};
    int mode = 0, way = im->opset < 16 ? 1 : 0;
    float scale = 1;

    r->size[0] = r->size[1] = 1;
    onnx_word(im, "mode", modes, &mode);
    onnx_word(im, "coordinate_transformation_mode", ways, &way);
    onnx_int(im, "output_height", 1, 1 << 16, &r->size[0]);
    onnx_int(im, "output_width", 1, 1 << 16, &r->size[1]);
    onnx_int(im, "sampling_ratio", 0, 1 << 10, &r->ratio);
    onnx_float(im, "spatial_scale", &scale);
    r->scale = (double)scale;
    r->offset = way == 0 ? 0.5 : 0;
    r->max = mode == 1;
    if (im->rc == 0 && r->ratio == 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "sampling_ratio 0: a number of samples that depends "
                         "on the data");
    return im->rc;
}

/* Coordinates R,samples of an axis: from + (k + 1/2) / ratio bins. */
static int roi_points(struct onnx_import *im, const struct roi *r, int axis)
{
    const int64_t n = r->size[axis] * r->ratio, dim[2] = {1, n};
    const int at = axis == 0 ? 1 : 0;
    int from = compose_linear(im, r->scale, -r->offset,
                              compose_slice(im, r->boxes, 1, at, at + 1, 1));
    int to = compose_linear(im, r->scale, -r->offset,
                            compose_slice(im, r->boxes, 1, at + 2, at + 3, 1));
    float *data;
    const int step = compose_floats(im, 2, dim, &data);

    for (int64_t k = 0; step >= 0 && k < n; k++)
        data[k] = (float)(((double)k + 0.5) / (double)n);
    to = compose_binary(im, KERN_SUB, to, from);
    if (r->offset == 0) /* boxes are one pixel at least */
        to = compose_binary(im, KERN_MAX, to, compose_number(im, INFER_F32, 1));
    return compose_binary(im, KERN_ADD, from,
                          compose_binary(im, KERN_MUL, to, step));
}

/* Taps of the axis, in its place among R,height,width; points more than a pixel
 * outside weigh nothing. */
static void roi_taps(struct onnx_import *im, const struct roi *r,
                     struct sampling *s, int axis)
{
    const int points = roi_points(im, r, axis), place = axis == 0 ? 2 : 1;
    const int in = inside(im, s, axis, points, -1, 0);

    make_taps(im, s, axis, clip(im, s, axis, 0, -1, points));
    for (int k = 0; k < 2; k++) {
        struct tap *t = &s->tap[axis][k];

        t->at = compose_unsqueeze(im, t->at, place);
        t->weight = compose_unsqueeze(
            im, compose_binary(im, KERN_MUL, t->weight, in), place);
    }
}

int onnx_import_roi_align(struct onnx_import *im)
{
    static const int64_t last[4] = {0, 2, 3, 1}, first[4] = {0, 3, 1, 2};
    struct sampling s = {.mode = SAMPLE_LINEAR, .border = BORDER_EDGE};
    int64_t flat[2] = {-1, 0}, bins[6] = {0}, out[4] = {0};
    struct roi r = {.ratio = 0};
    struct rows rows;
    int x, y;

    onnx_arity(im, 3, 3);
    read_roi(im, &r);
    x = compose_input(im, 0);
    r.boxes = compose_input(im, 1);
    compose_need_rank(im, x, 4, 4);
    compose_need_rank(im, r.boxes, 2, 2);
    flatten(im, &s, x);
    flat[1] = compose_dim(im, x, 1);
    rows.x = compose_reshape(im, compose_transpose(im, x, 4, last), 2, flat);
    rows.base = compose_binary(
        im, KERN_MUL, compose_cast(im, INFER_I64, compose_input(im, 2)),
        s.size[0] < 0 && s.size[1] < 0
            ? compose_integer(im, INFER_I64, s.extent[0] * s.extent[1])
            : compose_binary(
                  im, KERN_MUL,
                  compose_cast(im, INFER_I64, of_extent(im, &s, 0, 1, 0)),
                  compose_cast(im, INFER_I64, of_extent(im, &s, 1, 1, 0))));
    rows.base = compose_reshape(im, rows.base, 3, (const int64_t[]){-1, 1, 1});
    for (int d = 0; d < 2; d++) {
        roi_taps(im, &r, &s, d);
        bins[1 + 2 * d] = r.size[d];
        bins[2 + 2 * d] = r.ratio;
        out[1 + d] = r.size[d];
    }
    bins[5] = out[3] = flat[1];
    y = join_taps(im, &s, r.max ? KERN_MAX : KERN_ADD, read_rows, &rows,
                  weigh_rows);
    y = compose_reshape(im, y, 6, bins);
    for (int d = 2; d <= 4; d += 2)
        y = compose_reduce(im, r.max ? KERN_REDUCE_MAX : KERN_REDUCE_MEAN, y,
                           d);
    y = compose_reshape(im, y, 4, out);
    return compose_output(im, 0, compose_transpose(im, y, 4, first));
}

/* ---- DeformConv ---------------------------------------------------- */

struct deform {
    struct graph_conv conv;
    int64_t groups, window[2], out[2], channels; /* channels of a group */
    int x;                                       /* N,groups,channels,H W */
};

static int read_deform(struct onnx_import *im, const void *context, int index)
{
    const struct deform *d = context;
    const int64_t dim[4] = {1, 1, d->channels, 1};

    index = compose_expand(im, compose_unsqueeze(im, index, 2), 4, dim);
    return compose_gather_elements(im, d->x, index, 3);
}

static int weigh_deform(struct onnx_import *im, int weight)
{
    return compose_unsqueeze(im, weight, 2);
}

/* Where the window's elements lie without their offsets: 1,1,window out. */
static int deform_base(struct onnx_import *im, const struct deform *d, int axis)
{
    const int64_t window = d->window[0] * d->window[1];
    const int64_t out = d->out[0] * d->out[1];
    const int64_t dim[3] = {1, 1, window * out};
    const struct kern_conv *c = &d->conv.conv;
    float *data;
    const int value = compose_floats(im, 3, dim, &data);

    for (int64_t i = 0; value >= 0 && i < dim[2]; i++) {
        const int64_t k = i / out, p = i % out;
        const int64_t r = axis ? k % d->window[1] : k / d->window[1];
        const int64_t at = axis ? p % d->out[1] : p / d->out[1];

        data[i] = (float)(at * c->stride[axis] - c->pad_begin[axis] +
                          r * c->dilation[axis]);
    }
    return value;
}

/* Coordinates N,groups,window out of an axis: base and offset. */
static int deform_points(struct onnx_import *im, const struct deform *d,
                         int offset, int axis)
{
    const int64_t pairs[5] = {0, -1, 2, d->out[0], d->out[1]};
    const int64_t dim[3] = {0, d->groups, -1};
    int v = compose_reshape(im, offset, 5, pairs);

    v = compose_reshape(im, compose_slice(im, v, 2, axis, axis + 1, 1), 3, dim);
    return compose_binary(im, KERN_ADD, v, deform_base(im, d, axis));
}

/* Shapes of the picture, the weight and the offsets that fit each other. */
static int deform_shapes(struct onnx_import *im, struct deform *d, int x,
                         int weight, int offset)
{
    int64_t split[4] = {0, 0, 0, -1};

    compose_need_rank(im, x, 4, 4);
    compose_need_rank(im, weight, 4, 4);
    compose_need_rank(im, offset, 4, 4);
    onnx_conv_attributes(im, 2, 1, &d->conv);
    onnx_int(im, "offset_group", 1, INT32_MAX, &d->groups);
    for (int a = 0; a < 2; a++) {
        d->window[a] = compose_dim(im, weight, 2 + a);
        d->out[a] = compose_dim(im, offset, 2 + a);
    }
    if (im->rc < 0)
        return im->rc;
    if (d->conv.auto_pad != GRAPH_PAD_EXPLICIT ||
        compose_dim(im, x, 1) % d->groups ||
        compose_dim(im, x, 1) !=
            compose_dim(im, weight, 1) * d->conv.conv.groups ||
        d->window[0] < 1 || d->window[1] < 1 || d->out[0] < 1 ||
        d->out[1] < 1 ||
        compose_dim(im, offset, 1) !=
            2 * d->groups * d->window[0] * d->window[1])
        return onnx_fail(im, INFER_EFORMAT,
                         "the weight, the offsets and the groups do not fit "
                         "each other");
    split[1] = d->groups;
    split[2] = d->channels = compose_dim(im, x, 1) / d->groups;
    d->x = compose_reshape(im, x, 4, split);
    return im->rc;
}

/* Whether input i is of the picture's batch, with these dimensions behind. */
static bool deform_fits(struct onnx_import *im, int i, int64_t channels,
                        const int64_t *out)
{
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type x = onnx_type_of_input(im, 0, p);
        const struct graph_type t = onnx_type_of_input(im, i, p);

        if (t.rank != 4 || t.dim[0] != x.dim[0] || t.dim[1] != channels ||
            t.dim[2] != out[0] || t.dim[3] != out[1])
            return false;
    }
    return true;
}

/* The offsets and the mask have the output's size. */
static int deform_extents(struct onnx_import *im, const struct deform *d)
{
    const int64_t points = d->groups * d->window[0] * d->window[1];
    const struct kern_conv *c = &d->conv.conv;

    for (int a = 0; a < 2 && im->rc == 0; a++) {
        struct graph_type x;
        int64_t reach = (d->window[a] - 1) * c->dilation[a] + 1, room;

        onnx_input_type(im, 0, 0, &x);
        room = x.dim[2 + a] + c->pad_begin[a] + c->pad_end[a] - reach;
        if (room < 0 || d->out[a] != room / c->stride[a] + 1)
            return onnx_fail(im, INFER_EFORMAT,
                             "offsets of size %lldx%lld do not fit the output",
                             (long long)d->out[0], (long long)d->out[1]);
    }
    if (im->rc == 0 && !deform_fits(im, 2, 2 * points, d->out))
        return onnx_fail(im, INFER_EFORMAT,
                         "the offsets are of another batch than the picture");
    if (im->rc == 0 && onnx_has_input(im, 4) &&
        !deform_fits(im, 4, points, d->out))
        return onnx_fail(im, INFER_EFORMAT,
                         "the mask does not fit the offsets");
    return im->rc;
}

/* Columns C window,out of the picture, then a convolution of one pixel. */
int onnx_import_deform_conv(struct onnx_import *im)
{
    struct sampling s = {.mode = SAMPLE_LINEAR};
    int64_t columns[4] = {0}, flat[4] = {0, -1, 1, 1}, mask[4] = {0, 0, 1, -1};
    struct deform d = {.groups = 1};
    int x, weight, offset, y, in[3];
    union graph_attr attr;

    onnx_arity(im, 3, 5);
    onnx_defaults(GRAPH_CONV, &attr);
    d.conv = attr.conv;
    x = compose_input(im, 0);
    weight = compose_input(im, 1);
    offset = compose_input(im, 2);
    if (deform_shapes(im, &d, x, weight, offset) < 0)
        return im->rc;
    flatten(im, &s, x);
    if (deform_extents(im, &d) < 0)
        return im->rc;
    for (int a = 0; a < 2; a++)
        make_taps(im, &s, a, deform_points(im, &d, offset, a));
    y = join_taps(im, &s, KERN_ADD, read_deform, &d, weigh_deform);
    if (onnx_has_input(im, 4)) {
        mask[1] = d.groups;
        y = compose_binary(im, KERN_MUL, y,
                           compose_reshape(im, compose_input(im, 4), 4, mask));
    }
    columns[1] = compose_dim(im, x, 1) * d.window[0] * d.window[1];
    columns[2] = d.out[0];
    columns[3] = d.out[1];
    flat[0] = compose_dim(im, weight, 0);
    attr.conv.conv.groups = d.conv.conv.groups;
    in[0] = compose_reshape(im, y, 4, columns);
    in[1] = compose_reshape(im, weight, 4, flat);
    in[2] = compose_input(im, 3);
    return onnx_emit(im, GRAPH_CONV, &attr, in, in[2] < 0 ? 2 : 3, 0, NULL);
}
