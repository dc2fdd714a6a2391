/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Constant in all its forms, ConstantOfShape, and what only exists at
 * import time. */
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/onnx.h"

/* A scalar or list attribute as a constant. */
static int constant_of_attr(const struct onnx_attr *a, struct infer_error *err,
                            struct constant **out)
{
    bool ints = a->type == ONNX_ATTR_INT || a->type == ONNX_ATTR_INTS;
    bool list = a->type == ONNX_ATTR_INTS || a->type == ONNX_ATTR_FLOATS;
    int64_t n = (int64_t)a->count;
    struct constant *c =
        constant_new(ints ? INFER_I64 : INFER_F32, list ? 1 : 0, &n);

    if (!c)
        return error_set(err, INFER_EMEMORY, "out of memory");
    if (c->bytes)
        memcpy(c->data,
               list   ? (ints ? (void *)a->ints : (void *)a->floats)
               : ints ? (const void *)&a->i
                      : (const void *)&a->f,
               c->bytes);
    *out = c;
    return 0;
}

int onnx_import_constant(struct onnx_import *im, int param,
                         struct infer_error *err)
{
    static const struct {
        const char *name;
        int type;
    } forms[] = {
        {"value", ONNX_ATTR_TENSOR},        {"value_float", ONNX_ATTR_FLOAT},
        {"value_floats", ONNX_ATTR_FLOATS}, {"value_int", ONNX_ATTR_INT},
        {"value_ints", ONNX_ATTR_INTS},
    };
    const struct onnx_attr *a, *found = NULL;
    struct constant *c;
    size_t i;
    int rc = onnx_arity(im, 0, 0, err);

    (void)param;
    if (rc < 0)
        return rc;
    for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        a = onnx_attr(im, forms[i].name);
        if (!a)
            continue;
        if (found)
            return error_set(err, INFER_EFORMAT, "two values: '%s' and '%s'",
                             found->name, a->name);
        if (a->type != forms[i].type)
            return error_set(err, INFER_EFORMAT,
                             "attribute '%s' has type %d, expected %d", a->name,
                             a->type, forms[i].type);
        found = a;
    }
    if (!found)
        return error_set(err, INFER_EUNSUPPORTED,
                         "no value of a kind that is supported");
    if (found->type == ONNX_ATTR_TENSOR) {
        rc = onnx_tensor_load(im->model, found->s, err, &c);
        if (rc == 0)
            constant_ref(c);
    } else {
        rc = constant_of_attr(found, err, &c);
    }
    if (rc < 0)
        return rc;
    return onnx_set_constant(im, 0, c, err);
}

/* Repeats one element over a constant, in runs that double. */
static void fill(struct constant *c, const struct constant *value)
{
    size_t done = infer_dtype_size(c->dtype), run;

    if (c->bytes == 0)
        return;
    memcpy(c->data, value->data, done);
    for (; done < c->bytes; done += run) {
        run = done < c->bytes - done ? done : c->bytes - done;
        memcpy(c->data + done, c->data, run);
    }
}

/* Large fills; small ones are folded. */
int onnx_import_fill(struct onnx_import *im, int param, struct infer_error *err)
{
    const struct onnx_attr *a = onnx_attr(im, "value");
    int64_t dim[INFER_MAX_RANK];
    enum infer_dtype dtype = INFER_F32;
    struct constant *value = NULL, *c;
    int n = 0, rc = onnx_arity(im, 1, 1, err);

    (void)param;
    if (rc == 0)
        rc = onnx_input_ints(im, 0, "the shape", INFER_MAX_RANK, dim, &n, err);
    if (rc == 0 && a && a->type != ONNX_ATTR_TENSOR)
        rc = error_set(err, INFER_EFORMAT, "attribute 'value' has type %d",
                       a->type);
    if (rc == 0 && a)
        rc = onnx_tensor_load(im->model, a->s, err, &value);
    if (rc < 0)
        return rc;
    if (value && constant_count(value) != 1)
        return error_set(err, INFER_EFORMAT,
                         "attribute 'value' has %lld elements",
                         (long long)constant_count(value));
    if (value)
        dtype = value->dtype;
    rc = onnx_new_constant(im, dtype, n, dim, err, &c);
    if (rc < 0)
        return rc;
    if (value)
        fill(c, value);
    return onnx_set_constant(im, 0, c, err);
}

/* Operators that only make sense while importing. */
int onnx_import_glue(struct onnx_import *im, int param, struct infer_error *err)
{
    (void)im;
    (void)param;
    return error_set(err, INFER_EUNSUPPORTED,
                     "its result depends on data and cannot be computed while "
                     "converting");
}
