/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions of the table tell the importer of ONNX. */
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/aten/aten.h"

/* ---- attributes ---------------------------------------------------- */

static struct onnx_attr *next_attr(struct aten_attrs *a, const char *name,
                                   int type)
{
    struct onnx_attr *attr = &a->item[a->n++];

    *attr = (struct onnx_attr){.name = (char *)name, .type = type};
    return attr;
}

void aten_set_int(struct aten_attrs *a, const char *name, int64_t value)
{
    next_attr(a, name, ONNX_ATTR_INT)->i = value;
}

void aten_set_float(struct aten_attrs *a, const char *name, double value)
{
    next_attr(a, name, ONNX_ATTR_FLOAT)->f = (float)value;
}

void aten_set_word(struct aten_attrs *a, const char *name, const char *value)
{
    next_attr(a, name, ONNX_ATTR_STRING)->s =
        (struct pb_span){(unsigned char *)value, strlen(value)};
}

void aten_set_ints(struct aten_attrs *a, const char *name, const int64_t *value,
                   int n)
{
    struct onnx_attr *attr = next_attr(a, name, ONNX_ATTR_INTS);

    attr->ints = (int64_t *)value;
    attr->count = (size_t)n;
}

/* ---- steps --------------------------------------------------------- */

struct pb_span aten_no_input(void)
{
    return (struct pb_span){NULL, 0};
}

int aten_give(struct onnx_import *im, int i, const char *op,
              const struct aten_attrs *attrs, int n_in,
              const struct pb_span *in)
{
    if (im->rc < 0)
        return im->rc;
    while (n_in > 0 && in[n_in - 1].bytes == 0)
        n_in--;
    if (i >= im->node->n_out || im->node->out[i].bytes == 0)
        return 0; /* nobody reads it */
    return onnx_step(im, op, in, n_in, im->node->out[i],
                     attrs ? attrs->item : NULL, attrs ? attrs->n : 0);
}

struct pb_span aten_step(struct onnx_import *im, const char *op,
                         const struct aten_attrs *attrs, int n_in,
                         const struct pb_span *in)
{
    const struct pb_span word = {(unsigned char *)op, strlen(op)};
    struct pb_span out = aten_no_input();

    if (im->rc < 0)
        return out;
    while (n_in > 0 && in[n_in - 1].bytes == 0)
        n_in--;
    out = onnx_fresh_name(im, word);
    onnx_step(im, op, in, n_in, out, attrs ? attrs->item : NULL,
              attrs ? attrs->n : 0);
    return out;
}

int aten_same(struct onnx_import *im, int i, struct pb_span x)
{
    return aten_give(im, i, "Identity", NULL, 1, &x);
}

/* ---- constants ----------------------------------------------------- */

struct pb_span aten_list(struct onnx_import *im, int n, const int64_t *value)
{
    return im->rc < 0 ? aten_no_input() : onnx_step_ints(im, 1, n, value);
}

struct pb_span aten_list1(struct onnx_import *im, int64_t value)
{
    return aten_list(im, 1, &value);
}

struct pb_span aten_scalar(struct onnx_import *im, enum infer_dtype dtype,
                           double value)
{
    struct constant *c;

    if (im->rc < 0)
        return aten_no_input();
    c = constant_new(dtype, 0, NULL);
    if (c)
        scalar_store(dtype, c->data, 0, value);
    return onnx_step_constant(im, c);
}

/* ---- types and shapes ---------------------------------------------- */

int64_t aten_onnx_type(enum infer_dtype dtype)
{
    for (int64_t type = ONNX_FLOAT; type <= ONNX_BFLOAT16; type++)
        if (onnx_dtype(type) == dtype)
            return type;
    return 0;
}

bool aten_is_float(enum infer_dtype dtype)
{
    return scalar_is_float(dtype);
}

static bool type_at(struct onnx_import *im, struct pb_span x, int probe,
                    struct graph_type *out)
{
    return im->rc == 0 && onnx_named_type(im, x, probe, out) == 0;
}

enum infer_dtype aten_type_of(struct onnx_import *im, struct pb_span x)
{
    struct graph_type t;

    return type_at(im, x, 0, &t) ? t.dtype : INFER_F32;
}

int aten_rank(struct onnx_import *im, struct pb_span x)
{
    struct graph_type t;

    return type_at(im, x, 0, &t) ? t.rank : 0;
}

int64_t aten_dim(struct onnx_import *im, struct pb_span x, int d)
{
    struct graph_type t;
    int64_t size = -1;

    const int v = onnx_value_find(im, x);

    for (int p = 0; p < im->probes; p++) {
        if (!type_at(im, x, p, &t))
            return -1;
        if (d < 0)
            d += t.rank;
        if (d < 0 || d >= t.rank) {
            onnx_fail(im, INFER_EFORMAT,
                      "a tensor of rank %d has no "
                      "dimension %d",
                      t.rank, d);
            return -1;
        }
        if (p > 0 && t.dim[d] != size)
            return -1;
        size = t.dim[d];
    }
    /* How many entries of a counted axis there are is no constant. */
    return v >= 0 && im->value[v].count > 0 && im->value[v].axis == d ? -1
                                                                      : size;
}

int aten_axis(struct onnx_import *im, const char *name, int rank,
              int64_t otherwise)
{
    int64_t axis = aten_int(im, name, otherwise);

    if (im->rc < 0)
        return 0;
    if (axis < -rank || axis >= rank) {
        onnx_fail(im, INFER_EFORMAT, "'%s' is %lld for a tensor of rank %d",
                  name, (long long)axis, rank);
        return 0;
    }
    return (int)(axis < 0 ? axis + rank : axis);
}

/* ---- short forms --------------------------------------------------- */

struct pb_span aten_cast(struct onnx_import *im, struct pb_span x,
                         enum infer_dtype to)
{
    struct aten_attrs a = {.n = 0};

    if (im->rc < 0 || aten_type_of(im, x) == to)
        return x;
    aten_set_int(&a, "to", aten_onnx_type(to));
    return ATEN_STEP(im, "Cast", &a, x);
}

struct pb_span aten_cut(struct onnx_import *im, struct pb_span x, int axis,
                        int64_t begin, int64_t end)
{
    return ATEN_STEP(im, "Slice", NULL, x, aten_list1(im, begin),
                     aten_list1(im, end), aten_list1(im, axis));
}

struct pb_span aten_permute(struct onnx_import *im, struct pb_span x, int n,
                            const int64_t *order)
{
    struct aten_attrs a = {.n = 0};

    aten_set_ints(&a, "perm", order, n);
    return ATEN_STEP(im, "Transpose", &a, x);
}

struct pb_span aten_mul(struct onnx_import *im, struct pb_span x, double by)
{
    return ATEN_STEP(im, "Mul", NULL, x,
                     aten_scalar(im, aten_type_of(im, x), by));
}
