/* SPDX-License-Identifier: Apache-2.0 */
/* Caffe: joining, cutting, and shapes. */
#include "kernels/base/error.h"
#include "weights/caffe/caffe.h"

/* The axis of concat and slice, which had another word before. */
static int axis_of(struct caffe *c, int x, const char *old)
{
    const int rank = layers_rank(&c->b, x);
    const int axis = caffe_axis(c, c->param, old, rank, 1);

    return caffe_axis(c, c->param, "axis", rank, axis);
}

void caffe_concat(struct caffe *c, struct caffe_ends *ends, int arg)
{
    union graph_attr attr = layers_defaults(GRAPH_CONCAT);

    (void)arg;
    attr.axis.axis = axis_of(c, ends->in[0], "concat_dim");
    ends->out[0] = ends->n_in == 1 ? ends->in[0]
                                   : layers_emit(&c->b, GRAPH_CONCAT, "", &attr,
                                                 ends->in, ends->n_in);
}

void caffe_slice(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const int axis = axis_of(c, ends->in[0], "slice_dim");
    const int64_t size = layers_known(&c->b, ends->in[0], axis);
    int64_t point[GRAPH_MAX_PARTS + 1];
    int n, i;

    (void)arg;
    n = caffe_ints(c, c->param, "slice_point", 1, INT32_MAX, GRAPH_MAX_PARTS,
                   point);
    if (c->b.status < 0)
        return;
    if ((n == 0 && size % ends->n_out != 0) ||
        (n > 0 && n != ends->n_out - 1)) {
        layers_fail(&c->b, INFER_EFORMAT,
                    "%d slice_points of %lld elements for %d tops", n,
                    (long long)size, ends->n_out);
        return;
    }
    for (i = 0; n == 0 && i < ends->n_out; i++)
        point[i] = size / ends->n_out * (i + 1);
    point[ends->n_out - 1] = size;
    for (i = 0; i < ends->n_out && c->b.status == 0; i++) {
        const int64_t begin = i > 0 ? point[i - 1] : 0;

        if (point[i] <= begin || point[i] > size)
            layers_fail(&c->b, INFER_EFORMAT, "slice_point %lld of %lld",
                        (long long)point[i], (long long)size);
        ends->out[i] =
            layers_slice(&c->b, "", ends->in[0], axis, begin, point[i], 1);
    }
}

void caffe_flatten(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const int x = ends->in[0], rank = layers_rank(&c->b, x);
    const int axis = caffe_axis(c, c->param, "axis", rank, 1);
    const int last = caffe_axis(c, c->param, "end_axis", rank, -1);
    int64_t dim[INFER_MAX_RANK];
    int i, n = 0;

    (void)arg;
    if (c->b.status < 0)
        return;
    if (axis == 0 || last < axis) {
        layers_fail(&c->b, INFER_EUNSUPPORTED, "axes %d to %d", axis, last);
        return;
    }
    if (axis == 1 && last == rank - 1) {
        ends->out[0] = layers_flatten(&c->b, "", x);
        return;
    }
    for (i = 0; i < axis; i++)
        dim[n++] = 0;
    dim[n++] = -1;
    for (i = last + 1; i < rank; i++)
        dim[n++] = layers_known(&c->b, x, i);
    ends->out[0] = layers_dims(&c->b, GRAPH_RESHAPE, "", x, n, dim);
}

/* Product of the sizes that are stated, or 0 where one is not. */
static int64_t stated_count(const int64_t *dim, int n)
{
    int64_t count = 1;
    int i;

    for (i = 0; i < n; i++)
        if (dim[i] < 1 || count > INT32_MAX)
            return 0;
        else
            count *= dim[i];
    return count;
}

/* The batch is free: a size in its place, or the rest (-1), means the batch
 * where the other sizes are those of one picture. */
static void keep_batch(struct caffe *c, int x, int64_t *dim, int n)
{
    if (n < 2 || dim[0] == 0)
        return;
    if (dim[0] > 0) {
        int i, rest = 0;

        for (i = 1; i < n; i++)
            rest += dim[i] == -1;
        if (rest == 1) {
            dim[0] = 0;
            return;
        }
    }
    if (stated_count(dim + 1, n - 1) == layers_count(&c->b, x, 1))
        dim[0] = 0;
    else
        layers_fail(&c->b, INFER_EUNSUPPORTED,
                    "a shape that joins or parts the pictures of a batch");
}

void caffe_reshape(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const int x = ends->in[0], rank = layers_rank(&c->b, x);
    const int shape = caffe_find(&c->text, c->param, "shape", -1);
    int64_t stated[INFER_MAX_RANK], dim[2 * INFER_MAX_RANK];
    const int n =
        caffe_ints(c, shape, "dim", -1, INT32_MAX, INFER_MAX_RANK, stated);
    const int axis = (int)caffe_int(c, c->param, "axis", 0, rank, 0);
    const int axes = (int)caffe_int(c, c->param, "num_axes", -1, rank, -1);
    const int after = axes < 0 ? rank : axis + axes;
    int i, total = 0;

    (void)arg;
    if (c->b.status < 0)
        return;
    for (i = 0; i < axis; i++)
        dim[total++] = 0;
    for (i = 0; i < n; i++)
        dim[total++] = stated[i];
    for (i = after; i < rank; i++)
        dim[total++] = layers_known(&c->b, x, i);
    if (total > INFER_MAX_RANK) {
        layers_fail(&c->b, INFER_EUNSUPPORTED, "%d dimensions", total);
        return;
    }
    if (axis == 0)
        keep_batch(c, x, dim, total);
    ends->out[0] = layers_dims(&c->b, GRAPH_RESHAPE, "", x, total, dim);
}

void caffe_permute(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const int rank = layers_rank(&c->b, ends->in[0]);
    int64_t order[INFER_MAX_RANK];
    int n =
        caffe_ints(c, c->param, "order", 0, rank - 1, INFER_MAX_RANK, order);
    int axis, i;

    (void)arg;
    if (c->b.status < 0)
        return;
    if (n > rank) {
        layers_fail(&c->b, INFER_EFORMAT, "an order of %d of %d axes", n, rank);
        return;
    }
    for (axis = 0; axis < rank && n < rank; axis++) { /* the rest, in order */
        for (i = 0; i < n && order[i] != axis; i++)
            ;
        if (i == n)
            order[n++] = axis;
    }
    ends->out[0] =
        layers_dims(&c->b, GRAPH_TRANSPOSE, "", ends->in[0], rank, order);
}

/* The first bottom, cut to the sizes of the second. */
void caffe_crop(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const int rank = layers_rank(&c->b, ends->in[0]);
    const int axis = caffe_axis(c, c->param, "axis", rank, 2);
    int64_t offset[INFER_MAX_RANK] = {0};
    const int n =
        caffe_ints(c, c->param, "offset", 0, INT32_MAX, INFER_MAX_RANK, offset);
    int i, x = ends->in[0];

    (void)arg;
    if (n > 1 && n != rank - axis)
        layers_fail(&c->b, INFER_EFORMAT, "%d offsets for %d axes", n,
                    rank - axis);
    for (i = axis; i < rank && c->b.status == 0; i++) {
        const int64_t begin = offset[n > 1 ? i - axis : 0];
        const int64_t size = layers_known(&c->b, ends->in[1], i);
        const int64_t have = layers_known(&c->b, x, i);

        if (c->b.status < 0)
            return;
        if (begin + size > have)
            layers_fail(&c->b, INFER_EFORMAT, "%lld from %lld on, of %lld",
                        (long long)size, (long long)begin, (long long)have);
        else if (size != have)
            x = layers_slice(&c->b, "", x, i, begin, begin + size, 1);
    }
    ends->out[0] = x;
}

void caffe_shuffle(struct caffe *c, struct caffe_ends *ends, int arg)
{
    (void)arg;
    ends->out[0] = layers_shuffle(
        &c->b, ends->in[0], caffe_int(c, c->param, "group", 1, INT32_MAX, 1));
}

/* Over all axes from one on. */
void caffe_reduction(struct caffe *c, struct caffe_ends *ends, int arg)
{
    static const char *const words[] = {"",      "SUM",  "ASUM",
                                        "SUMSQ", "MEAN", NULL};
    static const enum kern_reduce_kind kinds[] = {
        KERN_REDUCE_SUM, KERN_REDUCE_SUM, KERN_REDUCE_L1, KERN_REDUCE_SUM,
        KERN_REDUCE_MEAN};
    const int kind = caffe_word(c, c->param, "operation", words, 1);
    const int rank = layers_rank(&c->b, ends->in[0]);
    const int axis = caffe_axis(c, c->param, "axis", rank, 0);
    const float coeff = caffe_float(c, c->param, "coeff", 1);
    union graph_attr attr = layers_defaults(GRAPH_REDUCE);
    int i, y = ends->in[0];

    (void)arg;
    if (axis == 0)
        layers_fail(&c->b, INFER_EUNSUPPORTED,
                    "axis 0 would join the pictures of a batch");
    attr.reduce.kind = kinds[kind];
    for (i = axis; i < rank; i++)
        attr.reduce.axis[attr.reduce.n_axes++] = i;
    if (kind == 3)
        y = layers_binary(&c->b, "square", KERN_MUL, y, y);
    y = layers_emit(&c->b, GRAPH_REDUCE, "", &attr, &y, 1);
    if (coeff < 1 || coeff > 1)
        y = layers_unary(&c->b, "coeff", y, KERN_LINEAR, coeff, 0);
    ends->out[0] = y;
}

void caffe_tile(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const int rank = layers_rank(&c->b, ends->in[0]);
    const int axis = caffe_axis(c, c->param, "axis", rank, 1);
    int64_t dim[INFER_MAX_RANK];
    int i;

    (void)arg;
    for (i = 0; i < rank; i++)
        dim[i] = 1;
    if (axis == 0)
        layers_fail(&c->b, INFER_EUNSUPPORTED, "axis 0 is the batch");
    else
        dim[axis] = caffe_int(c, c->param, "tiles", 1, CAFFE_MAX_STEP, 1);
    if (c->b.status == 0)
        ends->out[0] =
            layers_dims(&c->b, GRAPH_TILE, "", ends->in[0], rank, dim);
}

/* ---- resizing ------------------------------------------------------ */

static void resize(struct caffe *c, struct caffe_ends *ends,
                   enum kern_resize_mode mode, enum kern_resize_coord coord,
                   int64_t h, int64_t w)
{
    union graph_attr attr = layers_defaults(GRAPH_RESIZE);

    attr.resize.resize.mode = mode;
    attr.resize.resize.coord = coord;
    attr.resize.resize.nearest = KERN_FLOOR_NEAREST;
    attr.resize.n_sizes = 4;
    attr.resize.size[2] = h;
    attr.resize.size[3] = w;
    if (layers_rank(&c->b, ends->in[0]) != 4 || h < 1 || w < 1)
        layers_fail(&c->b, INFER_EFORMAT, "a size of %lldx%lld", (long long)h,
                    (long long)w);
    ends->out[0] = layers_emit(&c->b, GRAPH_RESIZE, "", &attr, ends->in, 1);
}

/* The size of a spatial dimension, small enough for products; 1 after a
 * failure. */
static int64_t spatial_size(struct caffe *c, int x, int i)
{
    const int64_t size = layers_known(&c->b, x, 2 + i);

    if (size > INT32_MAX)
        layers_fail(&c->b, INFER_EUNSUPPORTED, "a size of %lld",
                    (long long)size);
    return c->b.status < 0 ? 1 : size;
}

/* Bilinear, the corners in place: to a size, or by factors. */
void caffe_interp(struct caffe *c, struct caffe_ends *ends, int arg)
{
    static const char *const keys[] = {"height", "width"};
    const int64_t zoom =
        caffe_int(c, c->param, "zoom_factor", 1, CAFFE_MAX_STEP, 1);
    const int64_t shrink =
        caffe_int(c, c->param, "shrink_factor", 1, CAFFE_MAX_STEP, 1);
    int64_t size[2];
    int i;

    (void)arg;
    if (caffe_int(c, c->param, "pad_beg", -1, 1, 0) != 0 ||
        caffe_int(c, c->param, "pad_end", -1, 1, 0) != 0)
        layers_fail(&c->b, INFER_EUNSUPPORTED, "pads are not supported");
    for (i = 0; i < 2; i++) {
        size[i] = caffe_int(c, c->param, keys[i], 0, CAFFE_MAX_STEP, 0);
        if (size[i] > 0)
            continue;
        size[i] = spatial_size(c, ends->in[0], i);
        size[i] = (size[i] - 1) / shrink + 1;
        size[i] += (size[i] - 1) * (zoom - 1);
    }
    resize(c, ends, KERN_BILINEAR, KERN_ALIGN_CORNERS, size[0], size[1]);
}

void caffe_upsample(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const int64_t scale = caffe_int(c, c->param, "scale", 1, CAFFE_MAX_STEP, 2);

    (void)arg;
    if (ends->n_in != 1)
        layers_fail(&c->b, INFER_EUNSUPPORTED,
                    "a mask of maxima is not supported");
    resize(c, ends, KERN_NEAREST, KERN_ASYMMETRIC,
           spatial_size(c, ends->in[0], 0) * scale,
           spatial_size(c, ends->in[0], 1) * scale);
}
