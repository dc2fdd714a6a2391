/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Constant in all its forms, ConstantOfShape, and what only exists at
 * import time. */
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/onnx.h"
#include "weights/onnx/small.h"

/* A scalar or list attribute as a constant. */
static int constant_of_attr(struct onnx_import *im, const struct onnx_attr *a,
                            struct constant **out)
{
    bool ints = a->type == ONNX_ATTR_INT || a->type == ONNX_ATTR_INTS;
    bool list = a->type == ONNX_ATTR_INTS || a->type == ONNX_ATTR_FLOATS;
    int64_t n = (int64_t)a->count;
    struct constant *c =
        constant_new(ints ? INFER_I64 : INFER_F32, list ? 1 : 0, &n);

    if (!c)
        return onnx_no_memory(im);
    if (c->bytes)
        memcpy(c->data,
               list   ? (ints ? (void *)a->ints : (void *)a->floats)
               : ints ? (const void *)&a->i
                      : (const void *)&a->f,
               c->bytes);
    *out = c;
    return 0;
}

int onnx_import_constant(struct onnx_import *im)
{
    static const struct {
        const char *name;
        int type;
    } forms[] = {
        {"value", ONNX_ATTR_TENSOR},        {"value_float", ONNX_ATTR_FLOAT},
        {"value_floats", ONNX_ATTR_FLOATS}, {"value_int", ONNX_ATTR_INT},
        {"value_ints", ONNX_ATTR_INTS},     {"sparse_value", ONNX_ATTR_SPARSE},
    };
    const struct onnx_attr *a, *found = NULL;
    struct constant *c = NULL;
    size_t i;
    int v;

    if (onnx_arity(im, 0, 0) < 0)
        return im->rc;
    for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        a = onnx_attr(im, forms[i].name);
        if (!a)
            continue;
        if (found)
            return onnx_fail(im, INFER_EFORMAT, "two values: '%s' and '%s'",
                             found->name, a->name);
        if (a->type != forms[i].type)
            return onnx_fail(im, INFER_EFORMAT,
                             "attribute '%s' has type %d, expected %d", a->name,
                             a->type, forms[i].type);
        found = a;
    }
    if (!found)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "no value of a kind that is supported");
    if (found->type == ONNX_ATTR_TENSOR) {
        im->rc = onnx_tensor_load(im->model, found->s, im->err, &c);
        if (im->rc < 0)
            return im->rc;
        im->held += c->bytes;
        constant_ref(c);
    } else if (found->type == ONNX_ATTR_SPARSE) {
        onnx_sparse_load(im, found->s, &c);
    } else {
        constant_of_attr(im, found, &c);
    }
    if (onnx_set_constant(im, 0, c) == 0 && found->type == ONNX_ATTR_TENSOR &&
        onnx_value_get(im, im->node->out[0], &v) == 0)
        im->value[v].narrow = onnx_tensor_narrow(im->model, found->s);
    return im->rc;
}

/* One element, expanded to sizes that are free. */
static int fill_free(struct onnx_import *im, enum infer_dtype dtype,
                     const struct constant *value,
                     int64_t (*want)[INFER_MAX_RANK], int n)
{
    int64_t one[INFER_MAX_RANK];
    struct constant *c;
    int x;

    for (int d = 0; d < n; d++)
        one[d] = 1;
    if (onnx_new_constant(im, dtype, n, one, &c) < 0)
        return im->rc;
    if (value)
        memcpy(c->data, value->data, infer_dtype_size(dtype));
    onnx_add_constant(im, c, &x);
    return onnx_emit_expand(im, x, want, n, 0, NULL);
}

/* Large fills; small ones are folded. */
int onnx_import_fill(struct onnx_import *im)
{
    const struct onnx_attr *a = onnx_attr(im, "value");
    int64_t dim[INFER_MAX_RANK];
    enum infer_dtype dtype = INFER_F32;
    int64_t want[ONNX_PROBES][INFER_MAX_RANK];
    struct constant *value = NULL, *c;
    int n = 0;

    onnx_arity(im, 1, 1);
    onnx_input_lists(im, 0, "the shape", want, &n);
    if (a && a->type != ONNX_ATTR_TENSOR)
        onnx_fail(im, INFER_EFORMAT, "attribute 'value' has type %d", a->type);
    if (im->rc == 0 && a)
        im->rc = onnx_tensor_load(im->model, a->s, im->err, &value);
    if (im->rc < 0)
        return im->rc;
    if (value && constant_count(value) != 1)
        return onnx_fail(im, INFER_EFORMAT,
                         "attribute 'value' has %lld elements",
                         (long long)constant_count(value));
    if (value)
        dtype = value->dtype;
    for (int p = 0; p < im->probes; p++)
        for (int d = 0; d < n; d++)
            if (want[p][d] != want[0][d])
                return fill_free(im, dtype, value, want, n);
    if (n > 0)
        memcpy(dim, want[0], (size_t)n * sizeof *dim);
    if (onnx_new_fill(im, dtype, n, dim, value ? value->data : NULL, &c) < 0)
        return im->rc;
    return onnx_set_constant(im, 0, c);
}

/* Large ranges; small ones are folded. */
int onnx_import_range(struct onnx_import *im)
{
    const struct onnx_small *const *in[3];
    const struct onnx_small *start, *delta;
    struct constant *c;
    int64_t count;

    onnx_arity(im, 3, 3);
    for (int i = 0; i < 3; i++) {
        onnx_input_small(im, i, &in[i]);
        if (im->rc < 0 || !in[i] || !onnx_small_is_fixed(im, in[i]))
            return onnx_import_glue(im);
    }
    start = in[0][0];
    delta = in[2][0];
    if (small_range_count(im, start, in[1][0], delta, &count) < 0 ||
        onnx_new_constant(im, start->dtype, 1, &count, &c) < 0)
        return im->rc;
    for (int64_t k = 0; k < count; k++)
        if (start->i)
            scalar_store_i64(c->dtype, c->data, k,
                             small_range_integer(start, delta, k));
        else
            scalar_store(c->dtype, c->data, k,
                         small_range_number(start, delta, k));
    return onnx_set_constant(im, 0, c);
}

/* Operators that only make sense while importing. */
int onnx_import_glue(struct onnx_import *im)
{
    return onnx_fail(im, INFER_EUNSUPPORTED,
                     "its result depends on data and cannot be computed while "
                     "converting");
}
