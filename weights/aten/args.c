/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the current node. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* Place of a parameter in the row's list, or -1. */
static int place_of(const char *parameters, const char *name)
{
    const size_t bytes = strlen(name);
    int place = 0;

    while (*parameters) {
        const size_t n = strcspn(parameters, " ");

        if (n == bytes && memcmp(parameters, name, n) == 0)
            return place;
        parameters += n + strspn(parameters + n, " ");
        place++;
    }
    return -1;
}

const struct aten_arg *aten_find(struct onnx_import *im, const char *name)
{
    const struct aten_node *node = aten_of(im)->node;
    const int place = place_of(aten_row(im)->parameters, name);

    for (int i = 0; i < node->n_args; i++) {
        const struct aten_arg *a = &node->arg[i];

        if (a->name.bytes ? pb_span_is(a->name, name) : i == place)
            return a->kind == ATEN_NONE ? NULL : a;
    }
    return NULL;
}

static int wrong(struct onnx_import *im, const char *name, const char *what)
{
    return onnx_fail(im, INFER_EFORMAT, "argument '%s' is %s", name, what);
}

/* ---- tensors ------------------------------------------------------- */

static struct pb_span number(struct onnx_import *im, const struct aten_arg *a)
{
    return aten_scalar(im,
                       a->kind == ATEN_INT    ? INFER_I64
                       : a->kind == ATEN_BOOL ? INFER_BOOL
                                              : INFER_F32,
                       a->kind == ATEN_FLOAT ? a->f : (double)a->i);
}

static struct pb_span value_of(struct onnx_import *im, const char *name,
                               const struct aten_arg *a)
{
    struct pb_span now = aten_no_input();

    if (im->rc < 0)
        return now;
    if (a->kind == ATEN_INT || a->kind == ATEN_FLOAT || a->kind == ATEN_BOOL)
        return number(im, a);
    if (a->kind != ATEN_VALUE)
        wrong(im, name, "no tensor");
    else
        aten_alias_read(im, a->text, &now);
    return now;
}

struct pb_span aten_optional(struct onnx_import *im, const char *name)
{
    const struct aten_arg *a = aten_find(im, name);

    return a ? value_of(im, name, a) : aten_no_input();
}

struct pb_span aten_tensor(struct onnx_import *im, const char *name)
{
    if (!aten_has(im, name))
        wrong(im, name, "missing");
    return aten_optional(im, name);
}

int aten_tensors(struct onnx_import *im, const char *name, int max,
                 struct pb_span *out)
{
    const struct aten_arg *a = aten_find(im, name);

    if (im->rc < 0)
        return 0;
    if (!a || a->kind != ATEN_LIST || a->n > max) {
        wrong(im, name, "no list of tensors, or too long");
        return 0;
    }
    for (int i = 0; i < a->n; i++)
        out[i] = a->item[i].kind == ATEN_NONE ? aten_no_input()
                                              : value_of(im, name, &a->item[i]);
    return im->rc < 0 ? 0 : a->n;
}

/* ---- numbers ------------------------------------------------------- */

/* The one number that a computed value is at every probe. */
static bool known(struct onnx_import *im, const struct aten_arg *a, double *out)
{
    const struct onnx_small *const *small = NULL;
    struct pb_span now;

    if (aten_alias_read(im, a->text, &now) == 0)
        small = onnx_small_named(im, now);
    if (!small || small[0]->count != 1 || !onnx_small_is_fixed(im, small) ||
        im->value[onnx_value_find(im, now)].sized)
        return false;
    *out = small[0]->i ? (double)small[0]->i[0] : small[0]->d[0];
    return true;
}

static double number_of(struct onnx_import *im, const char *name,
                        const struct aten_arg *a)
{
    double value = 0;

    if (im->rc < 0)
        return 0;
    switch (a->kind) {
    case ATEN_INT:
    case ATEN_BOOL:
        return (double)a->i;
    case ATEN_FLOAT:
        return a->f;
    case ATEN_VALUE:
        if (!known(im, a, &value) && im->rc == 0)
            onnx_fail(im, INFER_EUNSUPPORTED,
                      "argument '%s' is computed or depends on a free size",
                      name);
        return value;
    case ATEN_NONE:
    case ATEN_TEXT:
    case ATEN_TYPE:
    case ATEN_LIST:
    case ATEN_OTHER:
        break;
    }
    wrong(im, name, "no number");
    return 0;
}

double aten_number(struct onnx_import *im, const char *name, double otherwise)
{
    const struct aten_arg *a = aten_find(im, name);

    return a ? number_of(im, name, a) : otherwise;
}

static int64_t int_of(struct onnx_import *im, const char *name,
                      const struct aten_arg *a)
{
    double value;

    if (a->kind == ATEN_INT || a->kind == ATEN_BOOL)
        return a->i;
    value = number_of(im, name, a);
    if (!(value >= -9e15 && value <= 9e15) || value != (double)(int64_t)value) {
        wrong(im, name, "no integer");
        return 0;
    }
    return (int64_t)value;
}

int64_t aten_int(struct onnx_import *im, const char *name, int64_t otherwise)
{
    const struct aten_arg *a = aten_find(im, name);

    return a ? int_of(im, name, a) : otherwise;
}

bool aten_flag(struct onnx_import *im, const char *name, bool otherwise)
{
    return aten_int(im, name, otherwise) != 0;
}

enum infer_dtype aten_dtype(struct onnx_import *im, const char *name)
{
    const struct aten_arg *a = aten_find(im, name);

    if (!a || im->rc < 0)
        return INFER_NONE;
    if (a->kind != ATEN_TYPE)
        wrong(im, name, "no type");
    else if (a->i == INFER_NONE)
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "argument '%s' is a type that is not "
                  "supported",
                  name);
    return im->rc < 0 ? INFER_NONE : (enum infer_dtype)a->i;
}

struct pb_span aten_text(struct onnx_import *im, const char *name)
{
    const struct aten_arg *a = aten_find(im, name);

    if (!a || im->rc < 0)
        return aten_no_input();
    if (a->kind != ATEN_TEXT)
        wrong(im, name, "no text");
    return a->text;
}

/* ---- lists --------------------------------------------------------- */

int aten_ints(struct onnx_import *im, const char *name, int max, int64_t *out)
{
    const struct aten_arg *a = aten_find(im, name);
    const int n = !a ? -1 : a->kind == ATEN_LIST ? a->n : 1;

    if (im->rc < 0 || n < 0)
        return -1;
    if (n > max) {
        wrong(im, name, "a longer list than it can be");
        return -1;
    }
    for (int i = 0; i < n; i++)
        out[i] = int_of(im, name, a->kind == ATEN_LIST ? &a->item[i] : a);
    return im->rc < 0 ? -1 : n;
}

int aten_each(struct onnx_import *im, const char *name, int n,
              int64_t otherwise, int64_t *out)
{
    int given;

    for (int i = 0; i < n; i++)
        out[i] = otherwise;
    given = aten_ints(im, name, n, out);
    if (given <= 0)
        return im->rc;
    if (given != 1 && given != n)
        return wrong(im, name, "a list of another length");
    for (int i = given; i < n; i++)
        out[i] = out[0];
    return im->rc;
}

int aten_floats(struct onnx_import *im, const char *name, int max, double *out)
{
    const struct aten_arg *a = aten_find(im, name);

    if (im->rc < 0 || !a)
        return -1;
    if (a->kind != ATEN_LIST || a->n > max) {
        wrong(im, name, "no list of numbers, or too long");
        return -1;
    }
    for (int i = 0; i < a->n; i++)
        out[i] = number_of(im, name, &a->item[i]);
    return im->rc < 0 ? -1 : a->n;
}

struct pb_span aten_entry(struct onnx_import *im, const char *name,
                          const struct aten_arg *a)
{
    struct pb_span x;

    if (a->kind != ATEN_VALUE)
        return aten_list1(im, int_of(im, name, a));
    x = aten_cast(im, value_of(im, name, a), INFER_I64);
    return ATEN_STEP(im, "Reshape", NULL, x, aten_list1(im, 1));
}

struct pb_span aten_size(struct onnx_import *im, const char *name,
                         int64_t otherwise)
{
    const struct aten_arg *a = aten_find(im, name);

    return a ? aten_entry(im, name, a) : aten_list1(im, otherwise);
}

struct pb_span aten_sizes(struct onnx_import *im, const char *name,
                          int64_t from, int64_t to)
{
    const struct aten_arg *a = aten_find(im, name);
    struct pb_span part[INFER_MAX_RANK];
    struct aten_attrs axis = {.n = 0};

    if (im->rc < 0)
        return aten_no_input();
    if (a && a->kind != ATEN_LIST)
        return aten_entry(im, name, a);
    if (!a || a->n > INFER_MAX_RANK) {
        wrong(im, name, "no list of sizes, or too long");
        return aten_no_input();
    }
    if (a->n == 0)
        return aten_list(im, 0, NULL);
    for (int i = 0; i < a->n; i++)
        part[i] = a->item[i].kind == ATEN_INT && a->item[i].i == from
                      ? aten_list1(im, to)
                      : aten_entry(im, name, &a->item[i]);
    if (a->n == 1)
        return part[0];
    aten_set_int(&axis, "axis", 0);
    return aten_step(im, "Concat", &axis, a->n, part);
}
