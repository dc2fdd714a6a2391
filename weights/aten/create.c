/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that make a tensor out of numbers. */
#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* A type that is asked for, or this one. */
static enum infer_dtype type_or(struct onnx_import *im,
                                enum infer_dtype otherwise)
{
    const enum infer_dtype dtype = aten_dtype(im, "dtype");

    return dtype == INFER_NONE ? otherwise : dtype;
}

/* A number as a scalar of a type. */
static struct pb_span number(struct onnx_import *im, const char *name,
                             enum infer_dtype dtype, double otherwise)
{
    const struct aten_arg *a = aten_find(im, name);

    if (a && a->kind == ATEN_VALUE)
        return aten_cast(im, aten_tensor(im, name), dtype);
    return aten_scalar(im, dtype, aten_number(im, name, otherwise));
}

/* The type of a number that fills without a type being asked for. */
static enum infer_dtype type_of_number(struct onnx_import *im, const char *name)
{
    const struct aten_arg *a = aten_find(im, name);
    struct pb_span now;

    if (a && a->kind == ATEN_VALUE && aten_alias_read(im, a->text, &now) == 0)
        return aten_type_of(im, now);
    return !a                     ? INFER_F32
           : a->kind == ATEN_INT  ? INFER_I64
           : a->kind == ATEN_BOOL ? INFER_BOOL
                                  : INFER_F32;
}

/* zeros (param 0), ones (1), full: of sizes. */
int aten_full(struct onnx_import *im)
{
    const enum infer_dtype dtype =
        type_or(im, type_of_number(im, "fill_value"));

    return ATEN_LAST(im, "Expand", NULL,
                     number(im, "fill_value", dtype, aten_row(im)->param),
                     aten_sizes(im, "size", 0, 0));
}

/* The same in the type of another tensor. */
int aten_new_full(struct onnx_import *im)
{
    const enum infer_dtype dtype =
        type_or(im, aten_type_of(im, aten_tensor(im, "self")));

    return ATEN_LAST(im, "Expand", NULL,
                     number(im, "fill_value", dtype, aten_row(im)->param),
                     aten_sizes(im, "size", 0, 0));
}

/* And in its shape. */
int aten_full_like(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const enum infer_dtype dtype = type_or(im, aten_type_of(im, x));

    return ATEN_LAST(im, "Expand", NULL,
                     number(im, aten_row(im)->onnx, dtype, aten_row(im)->param),
                     ATEN_STEP(im, "Shape", NULL, x));
}

int aten_scalar_tensor(struct onnx_import *im)
{
    const enum infer_dtype dtype = type_or(im, type_of_number(im, "s"));

    return aten_same(im, 0, number(im, "s", dtype, 0));
}

/* A number out of a tensor of one element. */
int aten_item(struct onnx_import *im)
{
    return ATEN_LAST(im, "Reshape", NULL, aten_tensor(im, "self"),
                     aten_list(im, 0, NULL));
}

/* From start to end by steps; one number is the end. */
int aten_arange(struct onnx_import *im)
{
    const char *const names[] = {"start", "end", "step"};
    enum infer_dtype dtype = INFER_I64;

    for (int i = 0; i < 3; i++)
        if (aten_has(im, names[i]) &&
            aten_is_float(type_of_number(im, names[i])))
            dtype = INFER_F32;
    dtype = type_or(im, dtype);
    return ATEN_LAST(im, "Range", NULL, number(im, "start", dtype, 0),
                     number(im, "end", dtype, 0), number(im, "step", dtype, 1));
}

/* n numbers from start to end: start + i (end - start) / (n - 1). */
int aten_linspace(struct onnx_import *im)
{
    const double start = aten_number(im, "start", 0);
    const double end = aten_number(im, "end", 0);
    const int64_t n = aten_int(im, "steps", 0);
    struct constant *c;

    if (im->rc < 0 || n < 1)
        return onnx_fail(im, INFER_EUNSUPPORTED, "%lld steps", (long long)n);
    if (onnx_new_constant(im, INFER_F32, 1, &n, &c) < 0)
        return im->rc;
    for (int64_t i = 0; i < n; i++) {
        const double step = n > 1 ? (end - start) / (double)(n - 1) : 0;

        /* As PyTorch does, from either end. */
        ((float *)c->data)[i] =
            (float)(i < n / 2 ? start + step * (double)i
                              : end - step * (double)(n - 1 - i));
    }
    if (n == 1)
        ((float *)c->data)[0] = (float)start;
    return aten_same(
        im, 0,
        aten_cast(im, onnx_step_constant(im, c), type_or(im, INFER_F32)));
}

int aten_eye(struct onnx_import *im)
{
    const int64_t n = aten_int(im, "n", 0), m = aten_int(im, "m", n);
    const int64_t dim[2] = {n, m};
    struct constant *c;

    if (im->rc < 0 || n < 1 || m < 1)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a matrix of %lldx%lld",
                         (long long)n, (long long)m);
    if (onnx_new_constant(im, INFER_F32, 2, dim, &c) < 0)
        return im->rc;
    for (int64_t i = 0; i < n && i < m; i++)
        ((float *)c->data)[i * m + i] = 1;
    return aten_same(
        im, 0,
        aten_cast(im, onnx_step_constant(im, c), type_or(im, INFER_F32)));
}

/* Rows and columns of the entries of a matrix on and below a diagonal (param
 * 0), or on and above it: a tensor of 2 by their number. */
int aten_triangle_indices(struct onnx_import *im)
{
    const int64_t rows = aten_int(im, "row", 0), cols = aten_int(im, "col", 0);
    const int64_t offset = aten_int(im, "offset", 0);
    const enum infer_dtype dtype = type_or(im, INFER_I64);
    const bool upper = aten_row(im)->param;
    const int64_t most = 1 << 20;
    int64_t dim[2] = {2, 0}, *at;
    struct constant *c;

    if (im->rc < 0 || rows < 1 || cols < 1 || rows > most / cols ||
        offset < -most || offset > most)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "indices of a triangle of %lldx%lld, diagonal %lld",
                         (long long)rows, (long long)cols, (long long)offset);
    for (int64_t i = 0; i < rows * cols; i++)
        dim[1] += upper ? i % cols - i / cols >= offset
                        : i % cols - i / cols <= offset;
    if (dim[1] == 0)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a triangle of no entries");
    if (onnx_new_constant(im, INFER_I64, 2, dim, &c) < 0)
        return im->rc;
    at = (int64_t *)c->data;
    for (int64_t i = 0; i < rows * cols; i++) {
        if (upper ? i % cols - i / cols < offset : i % cols - i / cols > offset)
            continue;
        at[dim[1]] = i % cols;
        *at++ = i / cols;
    }
    return aten_same(im, 0, aten_cast(im, onnx_step_constant(im, c), dtype));
}
