/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that ONNX took back in version 1.5 (opset 10) and that converters
 * from Core ML had written by then; ONNX Runtime runs them in any opset.  Their
 * definitions: docs/Operators.md of ONNX 1.4, "experimental". */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"

/* x op c, unless that changes nothing; *x becomes the result. */
static int apply(struct onnx_import *im, enum kern_binary_kind kind,
                 const float *c, int64_t channels, int *x)
{
    const int64_t dim[3] = {channels, 1, 1};
    const float neutral = kind == KERN_MUL ? 1.0f : 0.0f;
    struct constant *r;
    int64_t i = 0;
    int value;

    while (i < channels && c[i] == neutral)
        i++;
    if (i == channels)
        return 0;
    if (onnx_new_constant(im, INFER_F32, channels > 1 ? 3 : 0, dim, &r) < 0)
        return im->rc;
    memcpy(r->data, c, (size_t)channels * sizeof(*c));
    onnx_add_constant(im, r, &value);
    return onnx_emit_binary(im, kind, *x, value, -1, x);
}

/* Output 0 is scale x + shift: one number, or one for each channel. */
static int scale_and_shift(struct onnx_import *im, float scale,
                           const float *shift, int64_t channels)
{
    int x;

    onnx_input(im, 0, &x);
    apply(im, KERN_MUL, &scale, 1, &x);
    apply(im, KERN_ADD, shift, channels, &x);
    return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, x, 0, NULL);
}

int onnx_import_affine(struct onnx_import *im)
{
    float alpha = 1.0f, beta = 0.0f;

    onnx_arity(im, 1, 1);
    onnx_float(im, "alpha", &alpha);
    onnx_float(im, "beta", &beta);
    return scale_and_shift(im, alpha, &beta, 1);
}

int onnx_import_image_scaler(struct onnx_import *im)
{
    const struct onnx_attr *bias;
    struct graph_type t;
    float scale = 1.0f;

    onnx_arity(im, 1, 1);
    onnx_float(im, "scale", &scale);
    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    bias = onnx_attr(im, "bias");
    if (t.rank != 4 || !bias || bias->type != ONNX_ATTR_FLOATS ||
        (int64_t)bias->count != t.dim[1])
        return onnx_fail(im, INFER_EFORMAT,
                         "bias must be one number for each channel of a "
                         "picture N,C,H,W");
    return scale_and_shift(im, scale, bias->floats, t.dim[1]);
}

/* Crops height or width by `before` and `after`; where size is not negative,
 * to `size` elements from `before` on. */
static int cut(struct onnx_import *im, int axis, int64_t before, int64_t after,
               int64_t size, struct graph_slice *slice)
{
    struct graph_type t;
    int p;

    for (p = 0; p < im->probes; p++) {
        if (onnx_input_type(im, 0, p, &t) < 0)
            return im->rc;
        if (t.rank != 4)
            return onnx_fail(im, INFER_EFORMAT, "an input of rank %d, not 4",
                             t.rank);
        if (size < 0 ? before >= t.dim[axis] - after
                     : size > t.dim[axis] - before)
            return onnx_fail(im, INFER_EFORMAT,
                             "border and scale do not fit in a dimension of "
                             "%lld",
                             (long long)t.dim[axis]);
    }
    slice->axis[slice->n_axes] = axis;
    slice->step[slice->n_axes] = 1;
    slice->begin[slice->n_axes] = before;
    slice->end[slice->n_axes] = size >= 0   ? before + size
                                : after > 0 ? -after
                                            : INT64_MAX;
    slice->n_axes++;
    return 0;
}

/* border: left, top, right, bottom.  scale: height and width of the result. */
int onnx_import_crop(struct onnx_import *im)
{
    int64_t border[4], scale[2] = {-1, -1};
    int n = 0, n_scale = -1, i;
    union graph_attr attr;

    onnx_arity(im, 1, 1);
    onnx_defaults(GRAPH_SLICE, &attr);
    attr.slice.n_axes = 0;
    onnx_ints(im, "border", 4, border, &n);
    if (onnx_ints(im, "scale", 2, scale, &n_scale) < 0)
        return im->rc;
    if (n != 4 ||
        (n_scale >= 0 && (n_scale != 2 || scale[0] < 1 || scale[1] < 1)))
        return onnx_fail(im, INFER_EFORMAT,
                         "border must be 4 numbers, scale 2 sizes");
    for (i = 0; i < 4; i++)
        if (border[i] < 0 || border[i] > INT32_MAX)
            return onnx_fail(im, INFER_EFORMAT, "a border of %lld",
                             (long long)border[i]);
    cut(im, 2, border[1], border[3], scale[0], &attr.slice);
    cut(im, 3, border[0], border[2], scale[1], &attr.slice);
    return onnx_emit_node(im, GRAPH_SLICE, &attr, 1);
}
