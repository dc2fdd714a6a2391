/* SPDX-License-Identifier: Apache-2.0 */
/* Padding and resizing: attributes and shapes. */
#include <math.h>

#include "libinfer/graph/ops/op.h"

/* ---- pad ----------------------------------------------------------- */

/* Most elements that a mode can add at one end of a dimension. */
static int64_t most_padding(enum kern_pad_mode mode, int64_t extent)
{
    switch (mode) {
    case KERN_PAD_REFLECT:
        return extent > 0 ? extent - 1 : 0;
    case KERN_PAD_WRAP:
        return extent;
    case KERN_PAD_EDGE:
        return extent > 0 ? OP_MAX_STEP : 0;
    case KERN_PAD_CONSTANT:
        break;
    }
    return OP_MAX_STEP;
}

int op_pad_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct kern_pad *attr = &args->attr->pad;
    const struct graph_type *x = &args->in[0];
    int i;

    op_same(args);
    for (i = 0; i < x->rank; i++) {
        int64_t extent = x->dim[i], b = attr->begin[i], e = attr->end[i];
        int64_t most =
            extent < 0 ? OP_MAX_STEP : most_padding(attr->mode, extent);

        if (b < -OP_MAX_STEP || e < -OP_MAX_STEP || b > most || e > most)
            return error_set(err, INFER_EFORMAT,
                             "pads %lld and %lld are out of range for "
                             "dimension %d",
                             (long long)b, (long long)e, i);
        if (extent >= 0 && extent + b + e < 0)
            return error_set(err, INFER_EFORMAT,
                             "pads %lld and %lld crop more than dimension %d "
                             "has",
                             (long long)b, (long long)e, i);
        if (extent >= 0)
            args->out[0].dim[i] = extent + b + e;
    }
    return INFER_OK;
}

bool op_pad_separable(const struct graph_separable_args *args)
{
    return args->attr->pad.begin[0] == 0 && args->attr->pad.end[0] == 0;
}

/* ---- resize -------------------------------------------------------- */

/* One dimension from its scale.  The product is in single precision, as
 * onnxruntime has it, so that 10 * 0.7f is 7 and not 6. */
static int scaled(int64_t extent, float scale, int64_t *out,
                  struct infer_error *err)
{
    float product;

    if (!isfinite(scale) || scale <= 0)
        return error_set(err, INFER_EFORMAT,
                         "scale %g is not a finite number above 0",
                         (double)scale);
    *out = extent;
    if (scale == 1.0f || extent < 0)
        return INFER_OK;
    product = floorf((float)extent * scale);
    if (product > (float)OP_MAX_COUNT || (product < 1 && extent > 0))
        return error_set(err, INFER_EFORMAT,
                         "scale %g makes %lld elements into %g", (double)scale,
                         (long long)extent, (double)product);
    *out = (int64_t)product;
    return INFER_OK;
}

/* Dimension i of input `like`; unknown where that is. */
static int size_like(const struct graph_shape_args *args, int i, int64_t *out,
                     struct infer_error *err)
{
    const struct graph_type *like = &args->in[1];

    if (args->n_in < 2 || args->node->in[1] < 0 ||
        (like->rank >= 0 && like->rank != args->in[0].rank))
        return error_set(err, INFER_EFORMAT,
                         "size %d is that of a second input, which is missing "
                         "or of another rank",
                         i);
    *out = like->rank < 0 ? -1 : like->dim[i];
    return INFER_OK;
}

int op_resize_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_resize *attr = &args->attr->resize;
    const struct graph_type *x = &args->in[0];
    int i, rc = INFER_OK;

    op_same(args);
    if (!isfinite(attr->resize.cubic_a))
        return error_set(err, INFER_EFORMAT, "cubic_a is not finite");
    if (attr->n_sizes != 0 && x->rank >= 0 && attr->n_sizes != x->rank)
        return error_set(err, INFER_EFORMAT,
                         "%d sizes are given for a tensor of rank %d",
                         attr->n_sizes, x->rank);
    for (i = 0; rc == INFER_OK && i < x->rank; i++) {
        if (attr->n_sizes == 0) {
            rc = scaled(x->dim[i], attr->resize.scale[i], &args->out[0].dim[i],
                        err);
            continue;
        }
        if (attr->size[i] == GRAPH_SIZE_LIKE) {
            rc = size_like(args, i, &args->out[0].dim[i], err);
            continue;
        }
        rc = op_need_range("size", attr->size[i], 0, OP_MAX_COUNT, err);
        if (rc == INFER_OK && attr->size[i] > 0 && x->dim[i] == 0)
            rc = error_set(err, INFER_EFORMAT, "dimension %d has no elements",
                           i);
        if (attr->size[i] > 0)
            args->out[0].dim[i] = attr->size[i];
    }
    return rc;
}

bool op_resize_separable(const struct graph_separable_args *args)
{
    const struct graph_resize *r = &args->attr->resize;

    /* A size states a scale of 1 where it leaves the batch as it is. */
    return r->n_sizes > 0 ||
           !(r->resize.scale[0] < 1 || r->resize.scale[0] > 1);
}
