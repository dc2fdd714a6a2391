/* SPDX-License-Identifier: Apache-2.0 */
/* How each operator is computed on small tensors that are known while
 * importing, at one probe. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/fold/fold.h"
#include "weights/onnx/small.h"

/* ---- element-wise -------------------------------------------------- */

static int fold_unary(const struct fold *f, struct onnx_small **out)
{
    if (f->n_in != 1)
        return 0;
    return small_unary(f->im, (enum kern_unary_kind)f->param, f->in[0], out);
}

static int fold_binary(const struct fold *f, struct onnx_small **out)
{
    bool fmod = false;

    if (f->n_in != 2 || f->im->opset < 7)
        return 0;
    if (f->param == KERN_MOD)
        onnx_flag(f->im, "fmod", &fmod);
    if (fmod)
        return 0;
    return small_binary(f->im, (enum kern_binary_kind)f->param, f->in[0],
                        f->in[1], out);
}

/* x, [min], [max]; both are attributes in opsets before 11. */
static int fold_clip(const struct fold *f, struct onnx_small **out)
{
    static const enum kern_binary_kind bound[] = {KERN_MAX, KERN_MIN};
    const struct onnx_small *x = f->in[0];

    if (f->im->opset < 11 || f->n_in > 3)
        return 0;
    for (int i = 1; i < f->n_in; i++) {
        int rc;

        if (!f->in[i])
            continue;
        rc = small_binary(f->im, bound[i - 1], x, f->in[i], out);
        if (rc <= 0)
            return rc;
        x = *out;
    }
    return x != f->in[0];
}

/* Max, Min and Sum take any number of inputs. */
static int fold_chain(const struct fold *f, struct onnx_small **out)
{
    const struct onnx_small *so_far = f->in[0];
    int i, rc;

    if (f->n_in < 2)
        return 0;
    for (i = 1; i < f->n_in; i++) {
        if (!f->in[i])
            return 0;
        rc = small_binary(f->im, (enum kern_binary_kind)f->param, so_far,
                          f->in[i], out);
        if (rc <= 0)
            return rc;
        so_far = *out;
    }
    return 1;
}

static int fold_where(const struct fold *f, struct onnx_small **out)
{
    if (f->n_in != 3)
        return 0;
    return small_where(f->im, f->in[0], f->in[1], f->in[2], out);
}

static int fold_cast(const struct fold *f, struct onnx_small **out)
{
    struct onnx_attr *a = onnx_attr(f->im, "to");

    if (f->n_in != 1 || !a || a->type != ONNX_ATTR_INT ||
        onnx_dtype(a->i) == INFER_NONE)
        return 0;
    return small_cast(f->im, f->in[0], onnx_dtype(a->i), out);
}

/* ---- shape to shape ------------------------------------------------ */

static int reshape_target(const struct fold *f, const struct onnx_small *a,
                          bool allow_zero, int64_t *dim, int *rank)
{
    const struct onnx_small *t = f->in[1];
    int64_t known = 1;
    int i, open = -1;

    if (!t->i || t->rank > 1 || t->count > INFER_MAX_RANK)
        return onnx_fail(f->im, INFER_EFORMAT, "a malformed target shape");
    *rank = (int)t->count;
    for (i = 0; i < *rank; i++) {
        dim[i] = t->i[i];
        if (dim[i] == 0 && !allow_zero && i < a->rank)
            dim[i] = a->dim[i];
        if (dim[i] == -1 && open < 0)
            open = i;
        else if (dim[i] < 0 || dim[i] > ONNX_MAX_SMALL)
            return onnx_fail(f->im, INFER_EFORMAT, "target size %lld",
                             (long long)dim[i]);
        else if (!checked_mul_i64(known, dim[i], &known))
            return onnx_fail(f->im, INFER_EFORMAT, "the shape overflows");
    }
    if (open >= 0 && (known == 0 || a->count % known != 0))
        return onnx_fail(f->im, INFER_EFORMAT, "the sizes do not match");
    if (open >= 0)
        dim[open] = a->count / known;
    return 0;
}

static int fold_reshape(const struct fold *f, struct onnx_small **out)
{
    int64_t dim[INFER_MAX_RANK];
    bool allow_zero = false;
    int rank = 0;

    if (f->n_in != 2)
        return 0;
    if (onnx_flag(f->im, "allowzero", &allow_zero) < 0 ||
        reshape_target(f, f->in[0], allow_zero, dim, &rank) < 0)
        return f->im->rc;
    return small_reshape(f->im, f->in[0], rank, dim, out);
}

/* Axes as a bit set over `rank` dimensions; *given tells whether there are
 * any. */
static int axes_mask(const struct fold *f, int since, int rank, uint32_t *mask,
                     bool *given)
{
    int64_t axis[INFER_MAX_RANK];
    int i, n = -1;

    onnx_axes(f->im, "axes", 1, since, axis, &n);
    *mask = 0;
    *given = n >= 0;
    for (i = 0; i < n && f->im->rc == 0; i++) {
        int64_t a = axis[i] < 0 ? axis[i] + rank : axis[i];

        if (a < 0 || a >= rank || *mask >> a & 1)
            onnx_fail(f->im, INFER_EFORMAT,
                      "axis %lld is out of range or repeated",
                      (long long)axis[i]);
        else
            *mask |= UINT32_C(1) << a;
    }
    return f->im->rc;
}

static int fold_squeeze(const struct fold *f, struct onnx_small **out)
{
    const struct onnx_small *a = f->in[0];
    int64_t dim[INFER_MAX_RANK];
    uint32_t mask;
    bool given;
    int d, rank = 0;

    if (axes_mask(f, 13, a->rank, &mask, &given) < 0)
        return f->im->rc;
    for (d = 0; d < a->rank; d++) {
        bool drop = given ? mask >> d & 1 : a->dim[d] == 1;

        if (drop && a->dim[d] != 1)
            return onnx_fail(f->im, INFER_EFORMAT, "dimension %d is %lld", d,
                             (long long)a->dim[d]);
        if (!drop)
            dim[rank++] = a->dim[d];
    }
    return small_reshape(f->im, a, rank, dim, out);
}

static int fold_unsqueeze(const struct fold *f, struct onnx_small **out)
{
    const struct onnx_small *a = f->in[0];
    int64_t dim[INFER_MAX_RANK], axis[INFER_MAX_RANK];
    uint32_t mask;
    bool given;
    int d, n = 0, from = 0;

    if (onnx_axes(f->im, "axes", 1, 13, axis, &n) < 0)
        return f->im->rc;
    if (n < 1 || a->rank + n > INFER_MAX_RANK)
        return onnx_fail(f->im, INFER_EFORMAT, "%d axes", n);
    if (axes_mask(f, 13, a->rank + n, &mask, &given) < 0)
        return f->im->rc;
    for (d = 0; d < a->rank + n; d++)
        dim[d] = mask >> d & 1 ? 1 : a->dim[from++];
    return small_reshape(f->im, a, a->rank + n, dim, out);
}

/* Row-major steps of a small tensor. */
static void steps_of(const struct onnx_small *a, int64_t *step)
{
    int64_t n = 1;
    int d;

    for (d = a->rank - 1; d >= 0; d--) {
        step[d] = n;
        n *= a->dim[d];
    }
}

static int fold_transpose(const struct fold *f, struct onnx_small **out)
{
    const struct onnx_small *a = f->in[0];
    int64_t perm[INFER_MAX_RANK], dim[INFER_MAX_RANK], step[INFER_MAX_RANK];
    int64_t own[INFER_MAX_RANK] = {0};
    uint32_t seen = 0;
    int d, n = -1;

    if (onnx_ints(f->im, "perm", INFER_MAX_RANK, perm, &n) < 0)
        return f->im->rc;
    if (n >= 0 && n != a->rank)
        return onnx_fail(f->im, INFER_EFORMAT, "perm has %d entries", n);
    steps_of(a, own);
    for (d = 0; d < a->rank; d++) {
        int64_t from = n < 0 ? a->rank - 1 - d : perm[d];

        if (from < 0 || from >= a->rank || seen >> from & 1)
            return onnx_fail(f->im, INFER_EFORMAT, "perm is no permutation");
        seen |= UINT32_C(1) << from;
        dim[d] = a->dim[from];
        step[d] = own[from];
    }
    return small_view(f->im, a, a->rank, dim, 0, step, out);
}

/* Attribute 'axis' as a dimension of input 0. */
static int read_axis(const struct fold *f, int otherwise, int *out)
{
    const int axis = onnx_axis(f->im, otherwise);

    if (f->im->rc == 0)
        f->im->rc = op_axis(axis, f->in[0]->rank, out, f->im->err);
    return f->im->rc;
}

static int fold_concat(const struct fold *f, struct onnx_small **out)
{
    int i, at = 0;

    if (read_axis(f, 1, &at) < 0)
        return f->im->rc;
    for (i = 0; i < f->n_in; i++)
        if (!f->in[i])
            return 0;
    return small_concat(f->im, f->in, f->n_in, at, out);
}

static int fold_gather(const struct fold *f, struct onnx_small **out)
{
    int at = 0;

    if (f->n_in != 2)
        return 0;
    if (read_axis(f, 0, &at) < 0)
        return f->im->rc;
    return small_gather(f->im, f->in[0], f->in[1], at, out);
}

/* ---- Slice --------------------------------------------------------- */

/* Bound number k of a list that is an attribute or input i. */
static int slice_list(const struct fold *f, const char *name, int i,
                      int64_t *out, int *n)
{
    const struct onnx_small *s;
    int k;

    if (f->im->rc < 0 || f->im->opset < 10)
        return onnx_ints(f->im, name, INFER_MAX_RANK, out, n);
    if (i >= f->n_in || !f->in[i])
        return 0;
    s = f->in[i];
    if (!s->i || s->rank > 1 || s->count > INFER_MAX_RANK)
        return onnx_fail(f->im, INFER_EFORMAT, "malformed %s", name);
    for (k = 0; k < (int)s->count; k++)
        out[k] = s->i[k];
    *n = k;
    return 0;
}

static int fold_slice(const struct fold *f, struct onnx_small **out)
{
    const struct onnx_small *a = f->in[0];
    int64_t begin[INFER_MAX_RANK], end[INFER_MAX_RANK], axis[INFER_MAX_RANK];
    int64_t step[INFER_MAX_RANK], dim[INFER_MAX_RANK];
    int64_t own[INFER_MAX_RANK] = {0}, start = 0;
    int n = -1, n_end = -1, n_axes = -1, n_step = -1, k, rc;

    slice_list(f, "starts", 1, begin, &n);
    slice_list(f, "ends", 2, end, &n_end);
    slice_list(f, "axes", 3, axis, &n_axes);
    if (f->im->opset >= 10)
        slice_list(f, "steps", 4, step, &n_step);
    if (f->im->rc < 0)
        return f->im->rc;
    if (n < 0 || n != n_end || (n_axes >= 0 && n_axes != n) ||
        (n_step >= 0 && n_step != n))
        return onnx_fail(f->im, INFER_EFORMAT,
                         "starts, ends, axes and steps differ in length");
    steps_of(a, own);
    memcpy(dim, a->dim, sizeof(dim));
    for (k = 0; k < n; k++) {
        int64_t by = n_step < 0 ? 1 : step[k], from;
        int at, want = n_axes < 0 ? k : 0;

        if (n_axes >= 0 &&
            (axis[k] < -INFER_MAX_RANK || axis[k] > INFER_MAX_RANK))
            return onnx_fail(f->im, INFER_EFORMAT, "axis %lld",
                             (long long)axis[k]);
        if (n_axes >= 0)
            want = (int)axis[k];
        rc = op_axis(want, a->rank, &at, f->im->err);
        if (rc < 0)
            return rc;
        rc = op_slice_resolve(begin[k], end[k], by, a->dim[at], &from, &dim[at],
                              f->im->err);
        if (rc < 0)
            return rc;
        if (dim[at] > 0)
            start += from * own[at];
        /* A step that is never taken may be of any size. */
        own[at] = dim[at] > 1 ? own[at] * by : 0;
    }
    return small_view(f->im, a, a->rank, dim, start, own, out);
}

/* ---- filling ------------------------------------------------------- */

static int shape_list(const struct fold *f, const struct onnx_small *s,
                      int64_t *dim, int *rank)
{
    int k;

    if (!s->i || s->rank > 1 || s->count > INFER_MAX_RANK)
        return onnx_fail(f->im, INFER_EFORMAT, "a malformed shape");
    for (k = 0; k < (int)s->count; k++) {
        if (s->i[k] < 0)
            return onnx_fail(f->im, INFER_EFORMAT, "size %lld",
                             (long long)s->i[k]);
        dim[k] = s->i[k];
    }
    *rank = k;
    return 0;
}

static int fold_fill(const struct fold *f, struct onnx_small **out)
{
    struct onnx_attr *a = onnx_attr(f->im, "value");
    int64_t dim[INFER_MAX_RANK];
    struct onnx_small *value = NULL;
    struct constant *c;
    int rank, rc;

    if (f->n_in != 1)
        return 0;
    if (shape_list(f, f->in[0], dim, &rank) < 0)
        return f->im->rc;
    if (!a) {
        rc = onnx_small_new(f->im, INFER_F32, 0, NULL, &value);
        if (rc == 0)
            return 0;
    } else {
        if (a->type != ONNX_ATTR_TENSOR)
            return onnx_fail(f->im, INFER_EFORMAT,
                             "attribute 'value' is no tensor");
        rc = onnx_tensor_load(f->im->model, a->s, f->im->err, &c);
        if (rc == 0 && constant_count(c) != 1)
            rc = onnx_fail(f->im, INFER_EFORMAT,
                           "attribute 'value' has %lld elements",
                           (long long)constant_count(c));
        if (rc == 0)
            rc = onnx_small_from_constant(f->im, c, &value);
    }
    if (rc < 0)
        return rc;
    return small_fill(f->im, value, rank, dim, out);
}

static int fold_range(const struct fold *f, struct onnx_small **out)
{
    if (f->n_in != 3)
        return 0;
    return small_range(f->im, f->in[0], f->in[1], f->in[2], out);
}

static int fold_expand(const struct fold *f, struct onnx_small **out)
{
    const struct onnx_small *a = f->in[0];
    int64_t dim[INFER_MAX_RANK], step[INFER_MAX_RANK];
    int64_t own[INFER_MAX_RANK] = {0};
    int rank, d, shift;

    if (f->n_in != 2)
        return 0;
    if (shape_list(f, f->in[1], dim, &rank) < 0)
        return f->im->rc;
    if (rank < a->rank) {
        memmove(dim + (a->rank - rank), dim, (size_t)rank * sizeof(*dim));
        for (d = 0; d < a->rank - rank; d++)
            dim[d] = 1;
        rank = a->rank;
    }
    steps_of(a, own);
    shift = rank - a->rank;
    for (d = 0; d < rank; d++) {
        int64_t size = d < shift ? 1 : a->dim[d - shift];

        step[d] = size == 1 ? 0 : own[d - shift];
        if (size != 1 && dim[d] != 1 && dim[d] != size)
            return onnx_fail(f->im, INFER_EFORMAT,
                             "dimension %d: %lld does not expand to %lld", d,
                             (long long)size, (long long)dim[d]);
        if (size != 1)
            dim[d] = size;
    }
    return small_view(f->im, a, rank, dim, 0, step, out);
}

static int fold_reduce(const struct fold *f, struct onnx_small **out)
{
    int since = f->param == KERN_REDUCE_SUM ? 13 : 18;
    bool given, keep = true, noop = false;
    uint32_t mask;

    axes_mask(f, since, f->in[0]->rank, &mask, &given);
    onnx_flag(f->im, "keepdims", &keep);
    if (onnx_flag(f->im, "noop_with_empty_axes", &noop) < 0)
        return f->im->rc;
    if (mask == 0 && noop)
        return 0;
    if (mask == 0)
        mask = (UINT32_C(1) << f->in[0]->rank) - 1;
    return small_reduce(f->im, f->in[0], (enum kern_reduce_kind)f->param, mask,
                        keep, out);
}

/* ---- table --------------------------------------------------------- */

static const struct fold_rule rules[] = {
    {"Abs", fold_unary, KERN_ABS},
    {"Add", fold_binary, KERN_ADD},
    {"And", fold_binary, KERN_AND},
    {"Cast", fold_cast, 0},
    {"Ceil", fold_unary, KERN_CEIL},
    {"Clip", fold_clip, 0},
    {"Concat", fold_concat, 0},
    {"ConstantOfShape", fold_fill, 0},
    {"Div", fold_binary, KERN_DIV},
    {"Equal", fold_binary, KERN_EQUAL},
    {"Exp", fold_unary, KERN_EXP},
    {"Expand", fold_expand, 0},
    {"Floor", fold_unary, KERN_FLOOR},
    {"Gather", fold_gather, 0},
    {"Greater", fold_binary, KERN_GREATER},
    {"GreaterOrEqual", fold_binary, KERN_GREATER_EQUAL},
    {"Identity", fold_unary, KERN_IDENTITY},
    {"Less", fold_binary, KERN_LESS},
    {"LessOrEqual", fold_binary, KERN_LESS_EQUAL},
    {"Log", fold_unary, KERN_LOG},
    {"Max", fold_chain, KERN_MAX},
    {"Min", fold_chain, KERN_MIN},
    {"Mod", fold_binary, KERN_MOD},
    {"Mul", fold_binary, KERN_MUL},
    {"Neg", fold_unary, KERN_NEG},
    {"Not", fold_unary, KERN_NOT},
    {"Or", fold_binary, KERN_OR},
    {"Pow", fold_binary, KERN_POW},
    {"Range", fold_range, 0},
    {"Reciprocal", fold_unary, KERN_RECIPROCAL},
    {"ReduceMax", fold_reduce, KERN_REDUCE_MAX},
    {"ReduceMin", fold_reduce, KERN_REDUCE_MIN},
    {"ReduceProd", fold_reduce, KERN_REDUCE_PROD},
    {"ReduceSum", fold_reduce, KERN_REDUCE_SUM},
    {"Reshape", fold_reshape, 0},
    {"Round", fold_unary, KERN_ROUND},
    {"Sign", fold_unary, KERN_SIGN},
    {"Slice", fold_slice, 0},
    {"Sqrt", fold_unary, KERN_SQRT},
    {"Squeeze", fold_squeeze, 0},
    {"Sub", fold_binary, KERN_SUB},
    {"Sum", fold_chain, KERN_ADD},
    {"Transpose", fold_transpose, 0},
    {"Unsqueeze", fold_unsqueeze, 0},
    {"Where", fold_where, 0},
};

const struct fold_rule *fold_rule_find(const char *op)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strcmp(rules[i].op, op) == 0)
            return &rules[i];
    return NULL;
}
