/* SPDX-License-Identifier: Apache-2.0 */
/* Small tensors: see small.h. */
#include "weights/onnx/small.h"

#include <math.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/scalar.h"

/* ---- making -------------------------------------------------------- */

int onnx_small_new(struct onnx_import *im, enum infer_dtype dtype, int rank,
                   const int64_t *dim, struct infer_error *err,
                   struct onnx_small **out)
{
    struct onnx_small *s;
    int64_t count;

    if (rank > INFER_MAX_RANK || !checked_count(rank, dim, &count))
        return error_set(err, INFER_EFORMAT, "an impossible shape");
    if (count > ONNX_MAX_SMALL || im->small_bytes > ONNX_SMALL_BYTES)
        return 0;
    im->small_bytes += sizeof(*s) + (size_t)count * sizeof(*s->i);
    s = onnx_alloc(&im->keep, sizeof(*s));
    if (!s)
        return error_set(err, INFER_EMEMORY, "out of memory");
    s->dtype = dtype;
    s->rank = rank;
    s->count = count;
    if (rank)
        memcpy(s->dim, dim, (size_t)rank * sizeof(*dim));
    if (scalar_is_integer(dtype))
        s->i = onnx_alloc(&im->keep, (size_t)count * sizeof(*s->i) + 1);
    else
        s->d = onnx_alloc(&im->keep, (size_t)count * sizeof(*s->d) + 1);
    if (!s->i && !s->d)
        return error_set(err, INFER_EMEMORY, "out of memory");
    *out = s;
    return 1;
}

int onnx_small_from_constant(struct onnx_import *im, const struct constant *c,
                             struct infer_error *err, struct onnx_small **out)
{
    struct onnx_small *s;
    int64_t k;
    int status = onnx_small_new(im, c->dtype, c->rank, c->dim, err, &s);

    if (status == 0)
        return error_set(err, INFER_EUNSUPPORTED,
                         "more arithmetic on constants than is done while "
                         "converting");
    if (status < 0)
        return status;
    for (k = 0; k < s->count; k++) {
        if (s->i)
            s->i[k] = scalar_load_i64(c->dtype, c->data, k);
        else
            s->d[k] = scalar_load(c->dtype, c->data, k);
    }
    *out = s;
    return 0;
}

struct constant *onnx_small_to_constant(const struct onnx_small *s)
{
    struct constant *c = constant_new(s->dtype, s->rank, s->dim);
    int64_t k;

    for (k = 0; c && k < s->count; k++) {
        if (s->i)
            scalar_store_i64(s->dtype, c->data, k, s->i[k]);
        else
            scalar_store(s->dtype, c->data, k, s->d[k]);
    }
    return c;
}

static bool equal(const struct onnx_small *a, const struct onnx_small *b)
{
    int64_t k;
    int d;

    if (a == b)
        return true;
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (d = 0; d < a->rank; d++)
        if (a->dim[d] != b->dim[d])
            return false;
    for (k = 0; k < a->count; k++)
        if (a->i ? a->i[k] != b->i[k] : a->d[k] != b->d[k])
            return false;
    return true;
}

bool onnx_small_is_fixed(const struct onnx_import *im,
                         const struct onnx_small *const *small)
{
    int p;

    for (p = 1; p < im->probes; p++)
        if (!equal(small[0], small[p]))
            return false;
    return true;
}

/* ---- elements ------------------------------------------------------ */

/* Rounds a result to the precision of its type. */
static double rounded(enum infer_dtype dtype, double v)
{
    switch (dtype) {
    case INFER_F32:
        return (double)(float)v;
    case INFER_F16:
        return (double)scalar_from_f16(scalar_to_f16((float)v));
    case INFER_BF16:
        return (double)scalar_from_bf16(scalar_to_bf16((float)v));
    default:
        return v;
    }
}

/* Wraps a result to the width of its type. */
static int64_t wrapped(enum infer_dtype dtype, uint64_t v)
{
    switch (dtype) {
    case INFER_I32:
        return (int32_t)(uint32_t)v;
    case INFER_I16:
        return (int16_t)(uint16_t)v;
    case INFER_I8:
        return (int8_t)(uint8_t)v;
    case INFER_U32:
        return (int64_t)(uint32_t)v;
    case INFER_U16:
        return (int64_t)(uint16_t)v;
    case INFER_U8:
        return (int64_t)(uint8_t)v;
    case INFER_BOOL:
        return v != 0;
    default:
        return (int64_t)v;
    }
}

static bool unary_float(enum kern_unary_kind kind, double x, double *out)
{
    switch (kind) {
    case KERN_IDENTITY:
        *out = x;
        return true;
    case KERN_NEG:
        *out = -x;
        return true;
    case KERN_ABS:
        *out = fabs(x);
        return true;
    case KERN_FLOOR:
        *out = floor(x);
        return true;
    case KERN_CEIL:
        *out = ceil(x);
        return true;
    case KERN_ROUND:
        *out = rint(x);
        return true;
    case KERN_SQRT:
        *out = sqrt(x);
        return true;
    case KERN_RECIPROCAL:
        *out = 1.0 / x;
        return true;
    case KERN_EXP:
        *out = exp(x);
        return true;
    case KERN_LOG:
        *out = log(x);
        return true;
    default:
        return false;
    }
}

static bool unary_int(enum kern_unary_kind kind, int64_t x, uint64_t *out)
{
    switch (kind) {
    case KERN_IDENTITY:
    case KERN_FLOOR:
    case KERN_CEIL:
        *out = (uint64_t)x;
        return true;
    case KERN_NEG:
        *out = 0 - (uint64_t)x;
        return true;
    case KERN_ABS:
        *out = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
        return true;
    case KERN_SIGN:
        *out = (uint64_t)((x > 0) - (x < 0));
        return true;
    case KERN_NOT:
        *out = x == 0;
        return true;
    default:
        return false;
    }
}

int small_unary(struct onnx_import *im, enum kern_unary_kind kind,
                const struct onnx_small *a, struct infer_error *err,
                struct onnx_small **out)
{
    int64_t k;
    int status = onnx_small_new(im, a->dtype, a->rank, a->dim, err, out);

    if (status <= 0)
        return status;
    for (k = 0; k < a->count; k++) {
        uint64_t bits = 0;
        double v = 0.0;

        if (a->i ? !unary_int(kind, a->i[k], &bits)
                 : !unary_float(kind, a->d[k], &v))
            return 0;
        if (a->i)
            (*out)->i[k] = wrapped(a->dtype, bits);
        else
            (*out)->d[k] = rounded(a->dtype, v);
    }
    return 1;
}

/* 1: done; 0: not computed here; -1: division by zero. */
static int binary_int(enum kern_binary_kind kind, int64_t a, int64_t b,
                      uint64_t *out)
{
    switch (kind) {
    case KERN_ADD:
        *out = (uint64_t)a + (uint64_t)b;
        return 1;
    case KERN_SUB:
        *out = (uint64_t)a - (uint64_t)b;
        return 1;
    case KERN_MUL:
        *out = (uint64_t)a * (uint64_t)b;
        return 1;
    case KERN_DIV:
    case KERN_MOD:
        if (b == 0)
            return -1;
        if (b == -1) /* INT64_MIN / -1 does not fit */
            *out = kind == KERN_DIV ? 0 - (uint64_t)a : 0;
        else if (kind == KERN_DIV)
            *out = (uint64_t)(a / b);
        else
            *out = (uint64_t)(a % b != 0 && (a < 0) != (b < 0) ? a % b + b
                                                               : a % b);
        return 1;
    case KERN_MIN:
        *out = (uint64_t)(a < b ? a : b);
        return 1;
    case KERN_MAX:
        *out = (uint64_t)(a > b ? a : b);
        return 1;
    case KERN_EQUAL:
        *out = a == b;
        return 1;
    case KERN_LESS:
        *out = a < b;
        return 1;
    case KERN_LESS_EQUAL:
        *out = a <= b;
        return 1;
    case KERN_GREATER:
        *out = a > b;
        return 1;
    case KERN_GREATER_EQUAL:
        *out = a >= b;
        return 1;
    case KERN_AND:
        *out = a && b;
        return 1;
    case KERN_OR:
        *out = a || b;
        return 1;
    default:
        return 0;
    }
}

static bool binary_float(enum kern_binary_kind kind, double a, double b,
                         double *out)
{
    switch (kind) {
    case KERN_ADD:
        *out = a + b;
        return true;
    case KERN_SUB:
        *out = a - b;
        return true;
    case KERN_MUL:
        *out = a * b;
        return true;
    case KERN_DIV:
        *out = a / b;
        return true;
    case KERN_POW:
        *out = pow(a, b);
        return true;
    case KERN_MIN:
        *out = a < b ? a : b;
        return true;
    case KERN_MAX:
        *out = a > b ? a : b;
        return true;
    case KERN_EQUAL:
        *out = a == b;
        return true;
    case KERN_LESS:
        *out = a < b;
        return true;
    case KERN_LESS_EQUAL:
        *out = a <= b;
        return true;
    case KERN_GREATER:
        *out = a > b;
        return true;
    case KERN_GREATER_EQUAL:
        *out = a >= b;
        return true;
    default:
        return false;
    }
}

static bool is_comparison(enum kern_binary_kind kind)
{
    return kind >= KERN_EQUAL && kind <= KERN_OR;
}

/* ---- broadcasting -------------------------------------------------- */

static bool broadcast(const struct onnx_small *a, int *rank, int64_t *dim)
{
    int d, shift;

    if (a->rank > *rank) {
        shift = a->rank - *rank;
        memmove(dim + shift, dim, (size_t)*rank * sizeof(*dim));
        for (d = 0; d < shift; d++)
            dim[d] = 1;
        *rank = a->rank;
    }
    shift = *rank - a->rank;
    for (d = 0; d < a->rank; d++) {
        if (a->dim[d] == 1 || a->dim[d] == dim[shift + d])
            continue;
        if (dim[shift + d] != 1)
            return false;
        dim[shift + d] = a->dim[d];
    }
    return true;
}

/* Element of a that stands at linear index k of the broadcast shape. */
static int64_t broadcast_index(const struct onnx_small *a, int rank,
                               const int64_t *dim, int64_t k)
{
    int64_t index = 0, step = 1;
    int d;

    for (d = rank - 1; d >= 0; d--) {
        int own = d - (rank - a->rank);
        int64_t at = k % dim[d];

        k /= dim[d];
        if (own < 0)
            continue;
        if (a->dim[own] != 1)
            index += at * step;
        step *= a->dim[own];
    }
    return index;
}

static int shapes_differ(struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT, "shapes do not broadcast");
}

int small_binary(struct onnx_import *im, enum kern_binary_kind kind,
                 const struct onnx_small *a, const struct onnx_small *b,
                 struct infer_error *err, struct onnx_small **out)
{
    enum infer_dtype dtype = is_comparison(kind) ? INFER_BOOL : a->dtype;
    int64_t dim[INFER_MAX_RANK], k;
    int rank = 0, status;

    if (a->dtype != b->dtype || a->dtype == INFER_U64)
        return 0;
    if (!broadcast(a, &rank, dim) || !broadcast(b, &rank, dim))
        return shapes_differ(err);
    status = onnx_small_new(im, dtype, rank, dim, err, out);
    if (status <= 0)
        return status;
    for (k = 0; k < (*out)->count; k++) {
        int64_t ka = broadcast_index(a, rank, dim, k);
        int64_t kb = broadcast_index(b, rank, dim, k);
        uint64_t bits = 0;
        double v = 0.0;
        int done = a->i ? binary_int(kind, a->i[ka], b->i[kb], &bits)
                        : binary_float(kind, a->d[ka], b->d[kb], &v);

        if (done < 0)
            return error_set(err, INFER_EFORMAT, "division by zero");
        if (!done)
            return 0;
        if (!(*out)->i)
            (*out)->d[k] = rounded(dtype, v);
        else
            (*out)->i[k] = wrapped(dtype, a->i ? bits : (uint64_t)(v != 0.0));
    }
    return 1;
}

int small_where(struct onnx_import *im, const struct onnx_small *c,
                const struct onnx_small *a, const struct onnx_small *b,
                struct infer_error *err, struct onnx_small **out)
{
    int64_t dim[INFER_MAX_RANK], k;
    int rank = 0, status;

    if (!c->i || a->dtype != b->dtype)
        return 0;
    if (!broadcast(c, &rank, dim) || !broadcast(a, &rank, dim) ||
        !broadcast(b, &rank, dim))
        return shapes_differ(err);
    status = onnx_small_new(im, a->dtype, rank, dim, err, out);
    if (status <= 0)
        return status;
    for (k = 0; k < (*out)->count; k++) {
        bool first = c->i[broadcast_index(c, rank, dim, k)] != 0;
        const struct onnx_small *s = first ? a : b;
        int64_t at = broadcast_index(s, rank, dim, k);

        if (s->i)
            (*out)->i[k] = s->i[at];
        else
            (*out)->d[k] = s->d[at];
    }
    return 1;
}

/* Toward zero, saturating; NaN gives 0. */
static int64_t int_of_double(double v)
{
    if (!(v > -9.2e18))
        return v <= -9.2e18 ? INT64_MIN : 0;
    return v < 9.2e18 ? (int64_t)v : INT64_MAX;
}

int small_cast(struct onnx_import *im, const struct onnx_small *a,
               enum infer_dtype to, struct infer_error *err,
               struct onnx_small **out)
{
    int64_t k;
    int status = onnx_small_new(im, to, a->rank, a->dim, err, out);

    if (status <= 0)
        return status;
    for (k = 0; k < a->count; k++) {
        if ((*out)->d)
            (*out)->d[k] = rounded(to, a->d ? a->d[k] : (double)a->i[k]);
        else if (to == INFER_BOOL)
            (*out)->i[k] = a->d ? a->d[k] != 0.0 : a->i[k] != 0;
        else
            (*out)->i[k] = wrapped(
                to, (uint64_t)(a->d ? int_of_double(a->d[k]) : a->i[k]));
    }
    return 1;
}

/* ---- numbers in a row ------------------------------------------------ */

int small_range(struct onnx_import *im, const struct onnx_small *start,
                const struct onnx_small *limit, const struct onnx_small *delta,
                struct infer_error *err, struct onnx_small **out)
{
    double a, b, step, n;
    int64_t count, k;
    int status;

    if (start->count != 1 || limit->count != 1 || delta->count != 1 ||
        start->dtype != limit->dtype || start->dtype != delta->dtype)
        return error_set(err, INFER_EFORMAT,
                         "start, limit and delta must be scalars of one type");
    a = start->i ? (double)start->i[0] : start->d[0];
    b = limit->i ? (double)limit->i[0] : limit->d[0];
    step = delta->i ? (double)delta->i[0] : delta->d[0];
    n = ceil((b - a) / step);
    if (step == 0.0 || isnan(n))
        return error_set(err, INFER_EFORMAT, "delta is 0");
    if (n > ONNX_MAX_SMALL)
        return 0;
    count = n > 0.0 ? (int64_t)n : 0;
    status = onnx_small_new(im, start->dtype, 1, &count, err, out);
    if (status <= 0)
        return status;
    for (k = 0; k < count; k++) {
        if (start->i)
            (*out)->i[k] =
                wrapped(start->dtype, (uint64_t)start->i[0] +
                                          (uint64_t)k * (uint64_t)delta->i[0]);
        else
            (*out)->d[k] = rounded(start->dtype, a + (double)k * step);
    }
    return 1;
}

/* ---- reductions ---------------------------------------------------- */

static void combine(enum kern_reduce_kind kind, bool first,
                    const struct onnx_small *a, int64_t i,
                    struct onnx_small *to, int64_t k)
{
    if (first) {
        small_copy(a, i, to, k);
    } else if (a->i) {
        uint64_t x = (uint64_t)to->i[k], y = (uint64_t)a->i[i];

        to->i[k] = kind == KERN_REDUCE_SUM    ? (int64_t)(x + y)
                   : kind == KERN_REDUCE_PROD ? (int64_t)(x * y)
                   : (kind == KERN_REDUCE_MAX) == (a->i[i] > to->i[k])
                       ? a->i[i]
                       : to->i[k];
    } else {
        double x = to->d[k], y = a->d[i];

        to->d[k] = kind == KERN_REDUCE_SUM                ? x + y
                   : kind == KERN_REDUCE_PROD             ? x * y
                   : (kind == KERN_REDUCE_MAX) == (y > x) ? y
                                                          : x;
    }
}

/* Sum, product, maximum and minimum; others are left to the graph. */
int small_reduce(struct onnx_import *im, const struct onnx_small *a,
                 enum kern_reduce_kind kind, uint32_t axes, bool keep,
                 struct infer_error *err, struct onnx_small **out)
{
    int64_t dim[INFER_MAX_RANK], step[INFER_MAX_RANK], size = 1, k;
    uint8_t seen[ONNX_MAX_SMALL] = {0};
    int rank = 0, d, status;

    if (kind != KERN_REDUCE_SUM && kind != KERN_REDUCE_PROD &&
        kind != KERN_REDUCE_MAX && kind != KERN_REDUCE_MIN)
        return 0;
    for (d = a->rank - 1; d >= 0; d--) {
        step[d] = axes >> d & 1 ? 0 : size;
        size *= axes >> d & 1 ? 1 : a->dim[d];
    }
    for (d = 0; d < a->rank; d++) {
        if (!(axes >> d & 1))
            dim[rank++] = a->dim[d];
        else if (keep)
            dim[rank++] = 1;
    }
    if (a->count == 0 || a->dtype == INFER_BOOL)
        return 0;
    status = onnx_small_new(im, a->dtype, rank, dim, err, out);
    if (status <= 0)
        return status;
    for (k = 0; k < a->count; k++) {
        int64_t rest = k, to = 0;

        for (d = a->rank - 1; d >= 0; d--) {
            to += rest % a->dim[d] * step[d];
            rest /= a->dim[d];
        }
        combine(kind, !seen[to], a, k, *out, to);
        seen[to] = 1;
    }
    for (k = 0; k < (*out)->count; k++) {
        if ((*out)->i)
            (*out)->i[k] = wrapped(a->dtype, (uint64_t)(*out)->i[k]);
        else
            (*out)->d[k] = rounded(a->dtype, (*out)->d[k]);
    }
    return 1;
}
