/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn: joining, cutting, resizing, and shapes. */
#include <limits.h>

#include <math.h>

#include "kernels/base/error.h"
#include "weights/ncnn/ncnn.h"

void ncnn_concat(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    union graph_attr attr = layers_defaults(GRAPH_CONCAT);

    (void)arg;
    attr.axis.axis =
        ncnn_axis(n, ncnn_int(n, 0, -4, 3, 0), layers_rank(&n->b, ends->in[0]));
    ends->out[0] = ends->n_in == 1 ? ends->in[0]
                                   : layers_emit(&n->b, GRAPH_CONCAT, "", &attr,
                                                 ends->in, ends->n_in);
}

/* Sizes of the parts; NCNN_NONE: an equal part of what is left. */
void ncnn_slice(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int axis =
        ncnn_axis(n, ncnn_int(n, 1, -4, 3, 0), layers_rank(&n->b, ends->in[0]));
    int64_t size[GRAPH_MAX_PARTS], at = 0;
    const int count = ncnn_ints(n, 0, GRAPH_MAX_PARTS, size);
    const int64_t total = layers_known(&n->b, ends->in[0], axis);
    int i;

    (void)arg;
    if (n->b.status == 0 && count != ends->n_out)
        layers_fail(&n->b, INFER_EFORMAT, "%d sizes for %d outputs", count,
                    ends->n_out);
    for (i = 0; i < count && n->b.status == 0; i++) {
        const int64_t part =
            size[i] == NCNN_NONE ? (total - at) / (count - i) : size[i];

        if (part < 1 || part > total - at) {
            layers_fail(&n->b, INFER_EFORMAT,
                        "a part of %lld from %lld of %lld", (long long)part,
                        (long long)at, (long long)total);
            return;
        }
        ends->out[i] =
            layers_slice(&n->b, "", ends->in[0], axis, at, at + part, 1);
        at += part;
    }
}

/* By where it begins along w, h and c, and how far it goes (as far as the
 * second input, where there is one) or what it leaves at the end. */
static void crop_by_offsets(struct ncnn *n, struct ncnn_ends *ends)
{
    static const struct {
        int offset, size, rest;
    } id[] = {{0, 3, 6}, {1, 4, 7}, {2, 5, 8}}; /* w, h, c */
    const int rank = layers_rank(&n->b, ends->in[0]);
    const int like = ends->n_in == 2 ? layers_rank(&n->b, ends->in[1]) : rank;
    int y = ends->in[0];

    if (rank < 2 || rank > 4) {
        layers_fail(&n->b, INFER_EUNSUPPORTED, "a crop of %d dimensions",
                    rank - 1);
        return;
    }
    /* The channels of a matrix are its rows' rows: there are none. */
    for (int i = 0; i < rank - 1 && n->b.status == 0; i++) {
        const int64_t begin = ncnn_int(n, id[i].offset, 0, INT32_MAX, 0);
        int64_t size = ncnn_int(n, id[i].size, NCNN_NONE, INT32_MAX, 0);
        int64_t rest = ncnn_int(n, id[i].rest, 0, INT32_MAX, 0);

        if (ends->n_in == 2 && (i < 2 || like == rank)) {
            size = layers_known(&n->b, ends->in[1], like - 1 - i);
            rest = 0;
        }
        if (begin == 0 && size <= 0 && rest == 0)
            continue;
        y = layers_slice(&n->b, "", y, rank - 1 - i, begin,
                         size > 0   ? begin + size
                         : rest > 0 ? -rest
                                    : INT_MAX,
                         1);
    }
    ends->out[0] = y;
}

/* By starts, ends and axes (parameters 9, 10, 11), or by offsets and the sizes
 * of a second input. */
void ncnn_crop(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int rank = layers_rank(&n->b, ends->in[0]);
    int64_t begin[INFER_MAX_RANK], end[INFER_MAX_RANK], axis[INFER_MAX_RANK];
    const int count = ncnn_ints(n, 9, INFER_MAX_RANK, begin);
    const int n_end = ncnn_ints(n, 10, INFER_MAX_RANK, end);
    const int n_axes = ncnn_ints(n, 11, INFER_MAX_RANK, axis);
    int i, y = ends->in[0];

    (void)arg;
    if (n->b.status == 0 && count == 0 && n_end == 0) {
        crop_by_offsets(n, ends);
        return;
    }
    if (n->b.status == 0 &&
        (count < 1 || n_end != count || (n_axes != 0 && n_axes != count)))
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "a crop without starts and ends of equal number");
    for (i = 0; i < count && n->b.status == 0; i++) {
        const int at = ncnn_axis(n, n_axes > 0 ? axis[i] : i, rank);

        if (begin[i] == NCNN_NONE)
            begin[i] = 0;
        if (end[i] == NCNN_NONE || end[i] == 0)
            end[i] = INT_MAX;
        y = layers_slice(&n->b, "", y, at, begin[i], end[i], 1);
    }
    ends->out[0] = y;
}

/* Dimensions of one, added (arg 1) or taken away. */
void ncnn_ones(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int rank = layers_rank(&n->b, ends->in[0]);
    int64_t axis[INFER_MAX_RANK];
    const int count = ncnn_ints(n, 3, INFER_MAX_RANK, axis);
    int i;

    if (n->b.status < 0)
        return;
    if (count < 1 || (arg != 0 && rank + count > 4)) {
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "%d axes of a tensor of %d dimensions", count, rank - 1);
        return;
    }
    for (i = 0; i < count; i++)
        axis[i] = ncnn_axis(n, axis[i], arg != 0 ? rank + count : rank);
    ends->out[0] =
        layers_dims(&n->b, arg != 0 ? GRAPH_UNSQUEEZE : GRAPH_SQUEEZE, "",
                    ends->in[0], count, axis);
}

void ncnn_flatten(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    (void)arg;
    ends->out[0] = layers_flatten(&n->b, "", ends->in[0]);
}

/* A size of the target: 0 takes that of the input's own w, h or c. */
static int64_t target_size(struct ncnn *n, int x, int id)
{
    static const int from_end[] = {1, 2, 3}; /* w, h, c */
    const int size = ncnn_int(n, id, NCNN_NONE, INT32_MAX, NCNN_NONE);

    return size == 0
               ? layers_known(&n->b, x, layers_rank(&n->b, x) - from_end[id])
               : size;
}

void ncnn_reshape(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int x = ends->in[0];
    int64_t dim[4] = {0};
    int id, rank = 1;

    (void)arg;
    if (ncnn_int(n, 3, 0, 1, 0) != 0 ||
        ncnn_int(n, 11, NCNN_NONE, INT32_MAX, NCNN_NONE) != NCNN_NONE)
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "permute or a fourth dimension is not supported");
    for (id = 2; id >= 0; id--) {
        const int64_t size = target_size(n, x, id);

        if (size < -1 && size != NCNN_NONE)
            layers_fail(&n->b, INFER_EFORMAT, "a size of %lld",
                        (long long)size);
        if (size != NCNN_NONE)
            dim[rank++] = size;
    }
    if (rank == 1)
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "a shape that is computed is not supported");
    ends->out[0] = layers_dims(&n->b, GRAPH_RESHAPE, "", x, rank, dim);
}

/* The new w, h, c, one after another, as letters. */
void ncnn_permute(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    static const int64_t matrix[][3] = {{0, 1, 2}, {0, 2, 1}};
    static const int64_t picture[][4] = {
        {0, 1, 2, 3}, /* w h c */
        {0, 1, 3, 2}, /* h w c */
        {0, 2, 1, 3}, /* w c h */
        {0, 2, 3, 1}, /* c w h */
        {0, 3, 1, 2}, /* h c w */
        {0, 3, 2, 1}, /* c h w */
    };
    const int x = ends->in[0], rank = layers_rank(&n->b, x);
    const int order = ncnn_int(n, 0, 0, 5, 0);

    (void)arg;
    if (rank < 3 || rank > 4 || (rank == 3 && order > 1)) {
        layers_fail(&n->b, INFER_EUNSUPPORTED, "order %d of %d dimensions",
                    order, rank - 1);
        return;
    }
    ends->out[0] =
        order == 0 ? x
                   : layers_dims(&n->b, GRAPH_TRANSPOSE, "", x, rank,
                                 rank == 3 ? matrix[order] : picture[order]);
}

void ncnn_shuffle(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int64_t c = layers_known(&n->b, ends->in[0], 1);
    int64_t groups = ncnn_int(n, 0, 1, INT32_MAX, 1);

    (void)arg;
    if (ncnn_int(n, 1, 0, 1, 0) != 0) { /* reverse */
        if (c % groups != 0)
            layers_fail(&n->b, INFER_EFORMAT, "%lld channels in %lld groups",
                        (long long)c, (long long)groups);
        groups = c / groups;
    }
    ends->out[0] = layers_shuffle(&n->b, ends->in[0], groups);
}

/* Mode 0 keeps the parts of a channel together, as PyTorch does. */
void ncnn_depth_space(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    union graph_attr attr = layers_defaults((enum graph_op)arg);

    attr.depth_space.block = ncnn_int(n, 0, 1, NCNN_MAX_STEP, 1);
    attr.depth_space.crd = ncnn_int(n, 1, 0, 1, 0) == 0;
    ends->out[0] =
        layers_emit(&n->b, (enum graph_op)arg, "", &attr, ends->in, 1);
}

void ncnn_padding(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    static const enum kern_pad_mode modes[] = {KERN_PAD_CONSTANT, KERN_PAD_EDGE,
                                               KERN_PAD_REFLECT};
    const int rank = layers_rank(&n->b, ends->in[0]);
    union graph_attr attr = layers_defaults(GRAPH_PAD);

    (void)arg;
    if (rank < 3 || ncnn_int(n, 6, 0, INT32_MAX, 0) != 0 ||
        ncnn_int(n, 7, 0, INT32_MAX, 0) != 0 ||
        ncnn_int(n, 8, 0, INT32_MAX, 0) != 0) {
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "padding of channels, or by a value a channel");
        return;
    }
    attr.pad.begin[rank - 2] = ncnn_int(n, 0, 0, NCNN_MAX_STEP, 0);
    attr.pad.end[rank - 2] = ncnn_int(n, 1, 0, NCNN_MAX_STEP, 0);
    attr.pad.begin[rank - 1] = ncnn_int(n, 2, 0, NCNN_MAX_STEP, 0);
    attr.pad.end[rank - 1] = ncnn_int(n, 3, 0, NCNN_MAX_STEP, 0);
    attr.pad.mode = modes[ncnn_int(n, 4, 0, 2, 0)];
    attr.pad.value = ncnn_float(n, 5, 0);
    ends->out[0] = layers_emit(&n->b, GRAPH_PAD, "", &attr, ends->in, 1);
}

/* A size (parameters 3, 4), or factors (1, 2).  Where corners are aligned the
 * size that factors give is cut to an integer first. */
void ncnn_interp(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    static const enum kern_resize_mode modes[] = {KERN_NEAREST, KERN_NEAREST,
                                                  KERN_BILINEAR, KERN_BICUBIC};
    const int mode = ncnn_int(n, 0, 0, 3, 0);
    union graph_attr attr = layers_defaults(GRAPH_RESIZE);
    struct kern_resize *r = &attr.resize.resize;
    bool whole = true;
    int i;

    (void)arg;
    if (mode == 0 || layers_rank(&n->b, ends->in[0]) != 4 ||
        ncnn_int(n, 5, 0, 1, 0) != 0) {
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "resize_type %d, or a size that is computed", mode);
        return;
    }
    r->mode = modes[mode];
    r->nearest = KERN_FLOOR_NEAREST;
    r->coord = mode == 1                      ? KERN_ASYMMETRIC
               : ncnn_int(n, 6, 0, 1, 0) != 0 ? KERN_ALIGN_CORNERS
                                              : KERN_HALF_PIXEL;
    attr.resize.n_sizes = 4;
    for (i = 0; i < 2; i++) {
        const int size = ncnn_int(n, 3 + i, 0, NCNN_MAX_STEP, 0);
        const float scale = ncnn_float(n, 1 + i, 1);

        attr.resize.size[2 + i] = size;
        r->scale[2 + i] = scale;
        if (size == 0)
            attr.resize.n_sizes = 0;
        whole = whole && scale - floorf(scale) <= 0;
    }
    for (i = 0; i < 2 && attr.resize.n_sizes == 0 &&
                r->coord == KERN_ALIGN_CORNERS && !whole;
         i++) {
        const int64_t in = layers_known(&n->b, ends->in[0], 2 + i);

        const float size = (float)in * r->scale[2 + i];

        if (n->b.status == 0 && !(size >= 1 && size <= NCNN_MAX_STEP))
            layers_fail(&n->b, INFER_EFORMAT, "a size of %g", (double)size);
        attr.resize.size[2 + i] = n->b.status < 0 ? 1 : (int64_t)size;
        r->scale[2 + i] = 1;
        if (i == 1)
            attr.resize.n_sizes = 4;
    }
    ends->out[0] = layers_emit(&n->b, GRAPH_RESIZE, "", &attr, ends->in, 1);
}

void ncnn_reduction(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    static const int kinds[] = {
        KERN_REDUCE_SUM,  KERN_REDUCE_L1,  KERN_REDUCE_SUM, /* of squares */
        KERN_REDUCE_MEAN, KERN_REDUCE_MAX, KERN_REDUCE_MIN,
        KERN_REDUCE_PROD, KERN_REDUCE_L1,  KERN_REDUCE_L2};
    int x = ends->in[0];
    const int rank = layers_rank(&n->b, ends->in[0]);
    const int op = ncnn_int(n, 0, 0, 10, 0);
    const float coeff = ncnn_float(n, 2, 1);
    union graph_attr attr = layers_defaults(GRAPH_REDUCE);
    int64_t axis[INFER_MAX_RANK];
    int count = ncnn_ints(n, 3, INFER_MAX_RANK, axis), i;

    (void)arg;
    if (op > 8) {
        layers_fail(&n->b, INFER_EUNSUPPORTED, "operation %d is not supported",
                    op);
        return;
    }
    if (ncnn_int(n, 1, 0, 1, 1) != 0)
        for (count = 0; count < rank - 1; count++)
            axis[count] = count;
    attr.reduce.kind = (enum kern_reduce_kind)kinds[op];
    attr.reduce.keep_dims = ncnn_int(n, 4, 0, 1, 0) != 0;
    attr.reduce.n_axes = count;
    for (i = 0; i < count; i++)
        attr.reduce.axis[i] = ncnn_axis(n, axis[i], rank);
    if (count == 0 || (count == rank - 1 && !attr.reduce.keep_dims))
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "no axis, or a single number as the result");
    if (op == 2)
        x = layers_binary(&n->b, "square", KERN_MUL, x, x);
    ends->out[0] = layers_emit(&n->b, GRAPH_REDUCE, "", &attr, &x, 1);
    if (coeff < 1 || coeff > 1)
        ends->out[0] =
            layers_unary(&n->b, "coeff", ends->out[0], KERN_LINEAR, coeff, 0);
}
