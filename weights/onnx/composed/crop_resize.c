/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Resize by TensorFlow's two rules for where an entry comes from:
 * tf_half_pixel_for_nn, and tf_crop_and_resize, which cuts a region out first
 * and has a value of its own outside the picture.
 *
 * Both are tables: along each axis, for each entry of the result the entries of
 * the input that it is made of.
 */
#include <math.h>

#include "kernels/base/scalar.h"
#include "weights/onnx/composed/compose.h"

enum rounding { PREFER_FLOOR, PREFER_CEIL, DOWN, UP };

/* What the node says. */
struct crop {
    bool linear, region;
    int nearest; /* enum rounding */
    float outside;
    int axis[INFER_MAX_RANK], n;
    double begin[INFER_MAX_RANK], end[INFER_MAX_RANK]; /* of the region */
    double scale[INFER_MAX_RANK];                      /* 0: sizes are stated */
    int64_t size[INFER_MAX_RANK];
};

/* n numbers of input i; *found: it is there and not empty. */
static int numbers(struct onnx_import *im, int i, const char *what, int n,
                   double *out, bool *found)
{
    struct constant *c;

    *found = false;
    if (im->rc < 0 || !onnx_has_input(im, i) ||
        onnx_input_constant(im, i, &c) < 0)
        return im->rc;
    if (!c)
        return onnx_fail(im, INFER_EUNSUPPORTED, "%s must be constant", what);
    if (constant_count(c) == 0)
        return 0;
    if (constant_count(c) != n)
        return onnx_fail(im, INFER_EFORMAT, "%s: %lld numbers, expected %d",
                         what, (long long)constant_count(c), n);
    for (int k = 0; k < n; k++)
        out[k] = scalar_load(c->dtype, c->data, k);
    *found = true;
    return 0;
}

static int read_axes(struct onnx_import *im, int rank, struct crop *c)
{
    int64_t stated[INFER_MAX_RANK];
    unsigned seen = 0;
    int given = -1;

    onnx_ints(im, "axes", INFER_MAX_RANK, stated, &given);
    c->n = given < 0 ? rank : given;
    for (int k = 0; k < c->n && im->rc == 0; k++) {
        const int64_t a = given < 0 ? k : stated[k];

        if (a < -INFER_MAX_RANK || a >= INFER_MAX_RANK)
            return onnx_fail(im, INFER_EFORMAT, "axis %lld", (long long)a);
        im->rc = op_axis_once((int)a, rank, &seen, &c->axis[k], im->err);
    }
    return im->rc;
}

static int read_crop(struct onnx_import *im, int rank, struct crop *c)
{
    static const char *const modes[] = {"nearest", "linear", NULL};
    static const char *const roundings[] = {
        "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    double roi[2 * INFER_MAX_RANK], size[INFER_MAX_RANK];
    int mode = 0;
    bool found = false;

    onnx_word(im, "mode", modes, &mode);
    onnx_word(im, "nearest_mode", roundings, &c->nearest);
    onnx_float(im, "extrapolation_value", &c->outside);
    onnx_ignore(im, "cubic_coeff_a"); /* of cubic alone */
    c->linear = mode == 1;
    if (read_axes(im, rank, c) < 0)
        return im->rc;
    if (c->region) {
        numbers(im, 1, "the region", 2 * c->n, roi, &found);
        if (im->rc == 0 && !found)
            return onnx_fail(im, INFER_EFORMAT, "no region");
    }
    for (int k = 0; k < c->n && im->rc == 0; k++) {
        c->begin[k] = c->region ? roi[k] : 0;
        c->end[k] = c->region ? roi[c->n + k] : 1;
        if (!isfinite(c->begin[k]) || !isfinite(c->end[k]))
            return onnx_fail(im, INFER_EFORMAT, "a region from %g to %g",
                             c->begin[k], c->end[k]);
    }
    if (numbers(im, 2, "scales", c->n, c->scale, &found) < 0 || found)
        return im->rc;
    numbers(im, 3, "sizes", c->n, size, &found);
    if (im->rc == 0 && !found)
        return onnx_fail(im, INFER_EFORMAT, "neither scales nor sizes");
    for (int k = 0; k < c->n && im->rc == 0; k++) {
        c->scale[k] = 0;
        if (!(size[k] >= 1 && size[k] <= INT32_MAX))
            return onnx_fail(im, INFER_EFORMAT, "size %g of axis %d", size[k],
                             c->axis[k]);
        c->size[k] = (int64_t)size[k];
    }
    return im->rc;
}

/* Entries of the result along axis k, whose input has n of them. */
static int64_t result_size(struct onnx_import *im, const struct crop *c, int k,
                           int64_t n)
{
    double size = (double)c->size[k];

    if (c->scale[k] != 0)
        size = (double)floorf((float)n * (float)(c->end[k] - c->begin[k]) *
                              (float)c->scale[k]);
    if (im->rc == 0 && !(size >= 1 && size <= INT32_MAX))
        onnx_fail(im, INFER_EFORMAT, "size %g of axis %d", size, c->axis[k]);
    return im->rc < 0 ? 1 : (int64_t)size;
}

/* Where entry i of m comes from, in entries of the input, of which there are
 * n.  In single precision, which decides on which side of a border it lies. */
static double origin(const struct crop *c, int k, int64_t i, int64_t m,
                     int64_t n)
{
    const float last = (float)(n - 1), begin = (float)c->begin[k];
    const float end = (float)c->end[k], at = (float)i;
    float scale = (float)c->scale[k];

    if (!c->region) {
        if (scale == 0.0f)
            scale = (float)m / (float)n;
        return (double)((at + 0.5f) / scale);
    }
    if (m == 1)
        return (double)(0.5f * (begin + end) * last);
    return (double)(begin * last + at * (end - begin) * last / (float)(m - 1));
}

static double round_as(int how, double x)
{
    switch ((enum rounding)how) {
    case PREFER_FLOOR:
        return ceil(x - 0.5);
    case PREFER_CEIL:
        return floor(x + 0.5);
    case DOWN:
        return floor(x);
    case UP:
        break;
    }
    return ceil(x);
}

/* Tables along an axis: constants of the graph. */
struct table {
    int low, high; /* indices; high -1: of low alone */
    int share;     /* of high, along the axis */
    int inside;    /* BOOL along the axis; -1: everywhere */
};

static int along(struct onnx_import *im, int vector, int rank, int axis)
{
    int64_t dim[INFER_MAX_RANK];

    for (int d = 0; d < rank; d++)
        dim[d] = d == axis ? -1 : 1;
    return compose_reshape(im, vector, rank, dim);
}

static struct table make_table(struct onnx_import *im, const struct crop *c,
                               int k, int64_t n, int rank)
{
    const int64_t m = result_size(im, c, k, n);
    struct table t = {-1, -1, -1, -1};
    int64_t *low, *high = NULL, *inside;
    float *share = NULL;
    bool outside = false;
    int flags;

    t.low = compose_i64(im, 1, &m, &low);
    if (c->linear) {
        t.high = compose_i64(im, 1, &m, &high);
        t.share = compose_floats(im, 1, &m, &share);
    }
    flags = compose_i64(im, 1, &m, &inside);
    for (int64_t i = 0; im->rc == 0 && i < m; i++) {
        const double last = (double)(n - 1);
        double at = origin(c, k, i, m, n);

        inside[i] = !c->region || (at >= 0 && at <= last);
        outside = outside || !inside[i];
        if (!c->linear)
            at = round_as(c->nearest, at);
        at = at < 0 ? 0 : at > last ? last : at;
        low[i] = (int64_t)at;
        if (c->linear) {
            high[i] = low[i] + 1 < n ? low[i] + 1 : low[i];
            share[i] = (float)(at - (double)low[i]);
        }
    }
    if (c->linear)
        t.share = along(im, t.share, rank, c->axis[k]);
    if (outside)
        t.inside =
            along(im, compose_cast(im, INFER_BOOL, flags), rank, c->axis[k]);
    return t;
}

/* True where the axis, of n entries or free (-1), stays as it is. */
static bool stays(const struct onnx_import *im, const struct crop *c, int k,
                  int64_t n)
{
    if (c->region && (c->begin[k] != 0 || c->end[k] != 1))
        return false;
    if (c->scale[k] != 0)
        return c->scale[k] == 1;
    /* A batch of 1, where 1 is read as any batch. */
    return c->size[k] == n ||
           (im->freed_batch && c->axis[k] == 0 && c->size[k] == 1);
}

int onnx_import_crop_resize(struct onnx_import *im, bool region)
{
    struct crop c = {.region = region};
    int inside = -1, rank, x;

    x = compose_input(im, 0);
    rank = compose_rank(im, x);
    if (read_crop(im, rank, &c) < 0)
        return im->rc;
    for (int k = 0; k < c.n && im->rc == 0; k++) {
        const int64_t n = compose_free_dim(im, x, c.axis[k]);
        struct table t;
        int other;

        if (stays(im, &c, k, n))
            continue;
        t = make_table(im, &c, k, compose_dim(im, x, c.axis[k]), rank);
        other = c.linear ? compose_gather(im, x, t.high, c.axis[k]) : -1;
        x = compose_gather(im, x, t.low, c.axis[k]);
        if (c.linear)
            x = compose_binary(
                im, KERN_ADD, x,
                compose_binary(im, KERN_MUL, t.share,
                               compose_binary(im, KERN_SUB, other, x)));
        if (t.inside >= 0)
            inside = inside < 0
                         ? t.inside
                         : compose_binary(im, KERN_AND, inside, t.inside);
    }
    if (inside >= 0)
        x = compose_where(
            im, inside, x,
            compose_number(im, compose_dtype(im, x), (double)c.outside));
    return compose_output(im, 0, x);
}

/* ---- corners on corners -------------------------------------------- */

/* The standard's own tests divide by the length before it is rounded down,
 * PyTorch and ONNX Runtime by the result's. */
int onnx_whole_lengths(struct onnx_import *im, int x, union graph_attr *attr,
                       int *like)
{
    struct graph_resize *r = &attr->resize;
    union graph_attr size = *attr;
    bool whole = true;

    for (int d = 0; d < INFER_MAX_RANK; d++)
        whole = whole && r->resize.scale[d] == floorf(r->resize.scale[d]);
    if (im->rc < 0 || whole || r->resize.coord != KERN_ALIGN_CORNERS ||
        !im->model || !pb_span_is(im->model->producer, "pytorch"))
        return im->rc;
    /* Of one channel: nothing but its size is read. */
    size.resize.resize.mode = KERN_NEAREST;
    size.resize.resize.coord = KERN_ASYMMETRIC;
    size.resize.resize.nearest = KERN_FLOOR_NEAREST;
    *like = x;
    if (r->resize.scale[1] == 1.0f)
        *like = compose_slice(im, x, 1, 0, 1, 1);
    onnx_emit(im, GRAPH_RESIZE, &size, like, 1, -1, like);
    if (im->rc < 0)
        return im->rc;
    r->n_sizes = im->type[x][0].rank;
    for (int d = 0; d < r->n_sizes; d++)
        r->size[d] = r->resize.scale[d] == 1.0f ? 0 : GRAPH_SIZE_LIKE;
    return 0;
}
