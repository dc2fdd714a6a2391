/* SPDX-License-Identifier: Apache-2.0 */
/* Small tensors: see small.h. */
#include "weights/onnx/small.h"

#include <math.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/reference.h"

/* ---- making -------------------------------------------------------- */

int onnx_small_new(struct onnx_import *im, enum infer_dtype dtype, int rank,
                   const int64_t *dim, struct onnx_small **out)
{
    struct onnx_small *s;
    int64_t count;

    if (rank > INFER_MAX_RANK || !checked_count(rank, dim, &count))
        return onnx_fail(im, INFER_EFORMAT, "an impossible shape");
    if (count > ONNX_MAX_SMALL || im->small_bytes > ONNX_SMALL_BYTES)
        return 0;
    im->small_bytes += sizeof(*s) + (size_t)count * sizeof(*s->i);
    s = onnx_alloc(&im->keep, sizeof(*s));
    if (!s)
        return onnx_no_memory(im);
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
        return onnx_no_memory(im);
    *out = s;
    return 1;
}

int onnx_small_from_constant(struct onnx_import *im, const struct constant *c,
                             struct onnx_small **out)
{
    struct onnx_small *s;
    int64_t k;
    int rc = onnx_small_new(im, c->dtype, c->rank, c->dim, &s);

    if (rc == 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "more arithmetic on constants than is done while "
                         "converting");
    if (rc < 0)
        return rc;
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
        if (a->i ? a->i[k] != b->i[k]
                 : a->d[k] != b->d[k] || signbit(a->d[k]) != signbit(b->d[k]))
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

/* ---- running the reference kernels --------------------------------- */

/* Wraps a result to the width of its type. */
static int64_t wrapped(enum infer_dtype dtype, uint64_t v)
{
    const unsigned spare = 64 - 8 * (unsigned)infer_dtype_size(dtype);

    if (dtype == INFER_BOOL)
        return v != 0;
    if (dtype == INFER_U32 || dtype == INFER_U16 || dtype == INFER_U8)
        return (int64_t)(v << spare >> spare);
    return (int64_t)(v << spare) >> spare;
}

/* Rounds or wraps the elements to the tensor's own type. */
static void to_own_type(struct onnx_small *s)
{
    for (int64_t k = 0; k < s->count; k++) {
        double own;

        if (s->i) {
            s->i[k] = wrapped(s->dtype, (uint64_t)s->i[k]);
            continue;
        }
        scalar_store(s->dtype, &own, 0, s->d[k]);
        s->d[k] = scalar_load(s->dtype, &own, 0);
    }
}

/* A problem of the kernel table whose tensors are small ones.  The kernels see
 * elements as they are held: I64 or F64. */
struct call {
    struct onnx_import *im;
    struct kern_problem p;
    struct kern_args args;
};

static struct kern_tensor tensor_of(const struct onnx_small *s)
{
    return kern_tensor_dense(s->i ? INFER_I64 : INFER_F64, s->rank, s->dim,
                             KERN_NCHW);
}

static void add_input(struct call *c, const struct onnx_small *s)
{
    c->p.in[c->p.n_in] = tensor_of(s);
    c->args.in[c->p.n_in++] = s->i ? (void *)s->i : (void *)s->d;
}

/* Computes into out.  Returns as small.h says: 0 where the reference refuses
 * the problem. */
static int run_into(struct call *c, struct onnx_small *out, int64_t offset)
{
    int rc;

    if (kern_tensor_count(&c->p.out[0]) == 0)
        return 1;
    c->p.n_out = 1;
    c->args.out[0] =
        out->i ? (void *)(out->i + offset) : (void *)(out->d + offset);
    rc = kern_reference_run(&c->p, &c->args, c->im->err);
    if (rc == INFER_EUNSUPPORTED)
        return 0;
    if (rc < 0)
        c->im->rc = rc; /* err has the reason */
    return rc < 0 ? rc : 1;
}

static int run(struct call *c, struct onnx_small *out)
{
    int rc;

    c->p.out[0] = tensor_of(out);
    rc = run_into(c, out, 0);
    if (rc > 0)
        to_own_type(out);
    return rc;
}

/* The same for functions whose result may be of another type than their input:
 * truth values are computed as BOOL. */
static int run_any(struct call *c, struct onnx_small *out)
{
    int rc;

    if (out->dtype != INFER_BOOL)
        return run(c, out);
    c->p.out[0] = tensor_of(out);
    c->p.out[0].dtype = INFER_BOOL;
    rc = run_into(c, out, 0);
    for (int64_t k = out->count - 1; k >= 0 && rc > 0; k--)
        out->i[k] = scalar_load_i64(INFER_BOOL, out->i, k); /* in place */
    return rc;
}

/* ---- element-wise -------------------------------------------------- */

int small_unary(struct onnx_import *im, enum kern_unary_kind kind,
                const struct onnx_small *a, struct onnx_small **out)
{
    struct call c = {.im = im,
                     .p = {.op = KERN_UNARY, .attr.unary.kind = kind}};
    int rc;

    if (a->i ? kind == KERN_ROUND : kind == KERN_NOT || kind == KERN_SIGN)
        return 0;
    rc = onnx_small_new(im, a->dtype, a->rank, a->dim, out);
    if (rc <= 0)
        return rc;
    add_input(&c, a);
    return run_any(&c, *out);
}

/* The tensor that n inputs broadcast to.  Results as in small.h. */
static int new_broadcast(struct onnx_import *im, const struct call *c,
                         enum infer_dtype dtype, struct onnx_small **out)
{
    struct graph_type all = {.rank = 0};

    for (int i = 0; i < c->p.n_in; i++) {
        struct graph_type one = {.rank = c->p.in[i].rank};
        int rc;

        memcpy(one.dim, c->p.in[i].dim, sizeof(one.dim));
        rc = op_broadcast(&all, &one, &all, im->err);
        if (rc < 0)
            return rc;
    }
    return onnx_small_new(im, dtype, all.rank, all.dim, out);
}

static bool has_zero(const struct onnx_small *s)
{
    for (int64_t k = 0; k < s->count; k++)
        if (s->i[k] == 0)
            return true;
    return false;
}

/* The one residual that changes no sum. */
static const double negative_zero = -0.0;

int small_binary(struct onnx_import *im, enum kern_binary_kind kind,
                 const struct onnx_small *a, const struct onnx_small *b,
                 struct onnx_small **out)
{
    const bool compares = kind >= KERN_EQUAL && kind <= KERN_OR;
    struct call c = {.im = im,
                     .p = {.op = KERN_BINARY, .attr.binary.kind = kind}};
    int rc;

    if (a->dtype != b->dtype || a->dtype == INFER_U64 ||
        (a->i ? kind == KERN_POW
              : kind == KERN_MOD || kind == KERN_AND || kind == KERN_OR))
        return 0;
    add_input(&c, a);
    add_input(&c, b);
    rc = new_broadcast(im, &c, compares ? INFER_BOOL : a->dtype, out);
    if (rc <= 0)
        return rc;
    if ((kind == KERN_DIV || kind == KERN_MOD) && b->i && (*out)->count > 0 &&
        has_zero(b))
        return onnx_fail(im, INFER_EFORMAT, "division by zero");
    if (a->d && !compares) { /* the absent residual is 0: -0.0 + 0 is 0 */
        c.p.in[2] = tensor_of(*out);
        memset(c.p.in[2].stride, 0, sizeof(c.p.in[2].stride));
        c.args.in[2] = &negative_zero;
        c.p.n_in = 3;
    }
    return run_any(&c, *out);
}

int small_where(struct onnx_import *im, const struct onnx_small *condition,
                const struct onnx_small *a, const struct onnx_small *b,
                struct onnx_small **out)
{
    struct call c = {.im = im, .p = {.op = KERN_WHERE}};
    int rc;

    if (!condition->i || a->dtype != b->dtype)
        return 0;
    add_input(&c, condition);
    add_input(&c, a);
    add_input(&c, b);
    rc = new_broadcast(im, &c, a->dtype, out);
    return rc <= 0 ? rc : run(&c, *out);
}

int small_cast(struct onnx_import *im, const struct onnx_small *a,
               enum infer_dtype to, struct onnx_small **out)
{
    struct call c = {.im = im, .p = {.op = KERN_COPY}};
    int rc = onnx_small_new(im, to, a->rank, a->dim, out);

    if (rc <= 0)
        return rc;
    add_input(&c, a);
    return run_any(&c, *out);
}

int small_reduce(struct onnx_import *im, const struct onnx_small *a,
                 enum kern_reduce_kind kind, uint32_t axes, bool keep,
                 struct onnx_small **out)
{
    struct call c = {
        .im = im,
        .p = {.op = KERN_REDUCE, .attr.reduce = {.kind = kind, .axes = axes}}};
    int64_t dim[INFER_MAX_RANK];
    int rank = 0, rc;

    if (a->count == 0 || a->dtype == INFER_BOOL)
        return 0;
    for (int d = 0; d < a->rank; d++)
        dim[d] = axes >> d & 1 ? 1 : a->dim[d];
    rc = onnx_small_new(im, a->dtype, a->rank, dim, out);
    if (rc <= 0)
        return rc;
    add_input(&c, a);
    if ((*out)->count < a->count)
        rc = run(&c, *out);
    else /* each element stays: a sum from 0 on would change -0.0 */
        rc = small_reshape(im, a, a->rank, dim, out);
    if (rc <= 0 || keep)
        return rc;
    for (int d = 0; d < a->rank; d++)
        if (!(axes >> d & 1))
            dim[rank++] = a->dim[d];
    return small_reshape(im, *out, rank, dim, out);
}

/* ---- moving elements ----------------------------------------------- */

int small_view(struct onnx_import *im, const struct onnx_small *a, int rank,
               const int64_t *dim, int64_t start, const int64_t *step,
               struct onnx_small **out)
{
    struct call c = {.im = im, .p = {.op = KERN_COPY}};
    int rc = onnx_small_new(im, a->dtype, rank, dim, out);

    if (rc <= 0)
        return rc;
    c.p.n_in = 1;
    c.p.in[0] = tensor_of(*out);
    for (int d = 0; d < rank; d++)
        c.p.in[0].stride[d] = step[d];
    c.args.in[0] = a->i ? (void *)(a->i + start) : (void *)(a->d + start);
    return run(&c, *out);
}

int small_reshape(struct onnx_import *im, const struct onnx_small *a, int rank,
                  const int64_t *dim, struct onnx_small **out)
{
    struct onnx_small *s;
    int rc = onnx_small_new(im, a->dtype, rank, dim, &s);

    if (rc <= 0)
        return rc;
    if (s->count != a->count)
        return onnx_fail(im, INFER_EFORMAT, "%lld elements cannot become %lld",
                         (long long)a->count, (long long)s->count);
    /* Tensors do not change once they are made: the elements are shared. */
    s->i = a->i;
    s->d = a->d;
    *out = s;
    return 1;
}

int small_fill(struct onnx_import *im, const struct onnx_small *value, int rank,
               const int64_t *dim, struct onnx_small **out)
{
    static const int64_t in_place[INFER_MAX_RANK];

    return small_view(im, value, rank, dim, 0, in_place, out);
}

int small_concat(struct onnx_import *im, const struct onnx_small *const *in,
                 int n, int axis, struct onnx_small **out)
{
    int64_t dim[INFER_MAX_RANK], at = 0;
    struct kern_tensor whole;
    int rc;

    memcpy(dim, in[0]->dim, sizeof(dim));
    for (int i = 1; i < n; i++) {
        if (in[i]->dtype != in[0]->dtype || in[i]->rank != in[0]->rank)
            return onnx_fail(im, INFER_EFORMAT,
                             "inputs of different rank or type");
        for (int d = 0; d < in[0]->rank; d++)
            if (d != axis && in[i]->dim[d] != in[0]->dim[d])
                return onnx_fail(im, INFER_EFORMAT,
                                 "inputs of different shapes");
        if (!checked_add_i64(dim[axis], in[i]->dim[axis], &dim[axis]))
            return onnx_fail(im, INFER_EFORMAT, "the shape overflows");
    }
    rc = onnx_small_new(im, in[0]->dtype, in[0]->rank, dim, out);
    if (rc <= 0)
        return rc;
    whole = tensor_of(*out);
    for (int i = 0; i < n && rc > 0; i++) {
        struct call c = {.im = im, .p = {.op = KERN_COPY}};

        add_input(&c, in[i]);
        c.p.out[0] = whole;
        c.p.out[0].dim[axis] = in[i]->dim[axis];
        rc = run_into(&c, *out, at * whole.stride[axis]);
        at += in[i]->dim[axis];
    }
    return rc;
}

int small_gather(struct onnx_import *im, const struct onnx_small *a,
                 const struct onnx_small *index, int axis,
                 struct onnx_small **out)
{
    struct call c = {.im = im,
                     .p = {.op = KERN_GATHER, .attr.gather.axis = axis}};
    int64_t dim[2 * INFER_MAX_RANK];
    int rank = 0, rc;

    for (int d = 0; d < axis; d++)
        dim[rank++] = a->dim[d];
    for (int d = 0; d < index->rank; d++)
        dim[rank++] = index->dim[d];
    for (int d = axis + 1; d < a->rank; d++)
        dim[rank++] = a->dim[d];
    if (!index->i)
        return onnx_fail(im, INFER_EFORMAT, "indices must be integers");
    for (int64_t k = 0; k < index->count; k++)
        if (index->i[k] < -a->dim[axis] || index->i[k] >= a->dim[axis])
            return onnx_fail(im, INFER_EFORMAT,
                             "index %lld is outside a dimension of %lld",
                             (long long)index->i[k], (long long)a->dim[axis]);
    if (rank > INFER_MAX_RANK)
        return 0;
    rc = onnx_small_new(im, a->dtype, rank, dim, out);
    if (rc <= 0)
        return rc;
    add_input(&c, a);
    add_input(&c, index);
    return run(&c, *out);
}

/* ---- Range --------------------------------------------------------- */

int small_range_count(struct onnx_import *im, const struct onnx_small *start,
                      const struct onnx_small *limit,
                      const struct onnx_small *delta, int64_t *count)
{
    double v[3];
    const struct onnx_small *const in[3] = {start, limit, delta};

    for (int i = 0; i < 3; i++) {
        if (in[i]->count != 1 || in[i]->dtype != start->dtype)
            return onnx_fail(im, INFER_EFORMAT,
                             "start, limit and delta must be scalars of one "
                             "type");
        v[i] = in[i]->i ? (double)in[i]->i[0] : in[i]->d[0];
    }
    if (!checked_steps(v[0], v[1], v[2], count))
        return onnx_fail(im, INFER_EFORMAT, "steps of %g from %g to %g", v[2],
                         v[0], v[1]);
    return 0;
}

int64_t small_range_integer(const struct onnx_small *start,
                            const struct onnx_small *delta, int64_t k)
{
    return (int64_t)((uint64_t)start->i[0] +
                     (uint64_t)k * (uint64_t)delta->i[0]);
}

double small_range_number(const struct onnx_small *start,
                          const struct onnx_small *delta, int64_t k)
{
    return k ? start->d[0] + (double)k * delta->d[0] : start->d[0];
}

int small_range(struct onnx_import *im, const struct onnx_small *start,
                const struct onnx_small *limit, const struct onnx_small *delta,
                struct onnx_small **out)
{
    int64_t count;
    int rc;

    if (small_range_count(im, start, limit, delta, &count) < 0)
        return im->rc;
    if (count > ONNX_MAX_SMALL)
        return 0;
    rc = onnx_small_new(im, start->dtype, 1, &count, out);
    if (rc <= 0)
        return rc;
    for (int64_t k = 0; k < count; k++)
        if (start->i)
            (*out)->i[k] = small_range_integer(start, delta, k);
        else
            (*out)->d[k] = small_range_number(start, delta, k);
    to_own_type(*out);
    return 1;
}
