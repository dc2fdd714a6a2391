/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, softmax, squeeze and excitation. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "tools/emit/emitter.h"

static int check_float(const struct kern_problem *p, struct infer_error *err)
{
    if (scalar_is_float(p->in[0].dtype))
        return 0;
    return error_set(err, INFER_EUNSUPPORTED, "elements of %s",
                     infer_dtype_name(p->in[0].dtype));
}

/* The dimension whose outputs are lanes: one that stays and whose elements lie
 * side by side; -1: none. */
static int find_lanes(const struct kern_tensor *x, uint32_t gone)
{
    for (int d = 0; d < x->rank; d++)
        if (!(gone >> d & 1) && x->dim[d] > 1 && x->stride[d] == 1)
            return d;
    return -1;
}

/* Adds one element to a lane's result. */
static void add_term(struct emit *e, enum kern_reduce_kind kind)
{
    switch (kind) {
    case KERN_REDUCE_MEAN:
    case KERN_REDUCE_SUM:
        emit_line(e, "sum[k] += a;");
        break;
    case KERN_REDUCE_L1:
        emit_helper(e, "REAL_ABS");
        emit_line(e, "sum[k] += real_fabs(a);");
        break;
    case KERN_REDUCE_L2:
        emit_line(e, "sum[k] += a * a;");
        break;
    case KERN_REDUCE_PROD:
        emit_line(e, "sum[k] *= a;");
        break;
    case KERN_REDUCE_MAX:
        emit_line(e, "sum[k] = a != a || a > sum[k] ? a : sum[k];");
        break;
    case KERN_REDUCE_MIN:
        emit_line(e, "sum[k] = a != a || a < sum[k] ? a : sum[k];");
        break;
    case KERN_REDUCE_KIND_COUNT:
        break;
    }
}

static const char *start_of(enum kern_reduce_kind kind)
{
    switch (kind) {
    case KERN_REDUCE_MAX:
        return "-INFINITY";
    case KERN_REDUCE_MIN:
        return "INFINITY";
    case KERN_REDUCE_PROD:
        return "1";
    case KERN_REDUCE_MEAN:
    case KERN_REDUCE_SUM:
    case KERN_REDUCE_L1:
    case KERN_REDUCE_L2:
    case KERN_REDUCE_KIND_COUNT:
        break;
    }
    return "0";
}

/* The tensor with the extent 1 in the dimensions of a set. */
static struct kern_tensor without(const struct kern_tensor *t, uint32_t set)
{
    struct kern_tensor r = *t;

    for (int d = 0; d < t->rank; d++)
        if (set >> d & 1)
            r.dim[d] = 1;
    return r;
}

int emit_reduce(struct emit *e, const struct plan_step *s,
                struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const enum kern_reduce_kind kind = p->attr.reduce.kind;
    const uint32_t gone = p->attr.reduce.axes;
    const struct kern_tensor *y = &p->out[0];
    struct emit_nest outer, inner;
    struct kern_tensor x, t;
    char residual[256] = "";
    int rc = check_float(p, err);

    if (rc == 0)
        rc = emit_input(e, s, 0, "x", NULL, err, &x);
    const int lane = rc == 0 ? find_lanes(&x, gone) : -1;
    const uint32_t lanes = lane >= 0 ? 1u << lane : 0;
    int64_t count = 1;
    for (int d = 0; d < p->in[0].rank; d++)
        count *= gone >> d & 1 ? p->in[0].dim[d] : 1;
    if (rc == 0 && count == 0)
        rc = error_set(err, INFER_EUNSUPPORTED, "a reduction of nothing");
    if (rc < 0)
        return rc;
    const struct kern_tensor kept = without(&x, gone | lanes);
    const struct kern_tensor left = without(&x, ~gone);
    const struct kern_tensor to = without(y, lanes);
    emit_nest_start(&outer, to.rank, to.dim);
    emit_nest_add(&outer, &kept);
    emit_nest_add(&outer, &to);
    struct kern_tensor r = {.rank = 0};
    if (kern_problem_in(p, 1)) {
        rc = emit_input(e, s, 1, "z", y, err, &r);
        t = without(&r, lanes);
        emit_nest_add(&outer, &t);
    }
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    emit_nest_open(e, &outer, 'i');
    emit_lanes_open(e, lane >= 0 ? x.dim[lane] : 1, "real", start_of(kind));
    emit_nest_start(&inner, left.rank, left.dim);
    emit_nest_add(&inner, &left);
    emit_nest_open(e, &inner, 'j');
    emit_lane_loop(e);
    emit_line(e, "const real a = x[%s + %s%s];", outer.at[0],
              emit_offset(e->lane, lane >= 0 ? 1 : 0), inner.at[0]);
    add_term(e, kind);
    emit_close(e);
    emit_nest_close(e, &inner);
    emit_lane_loop(e);
    const char *value = kind == KERN_REDUCE_L2 ? "real_sqrt(sum[k])" : "sum[k]";
    emit_helper(e, kind == KERN_REDUCE_L2 ? "REAL_SQRT" : "");
    if (kern_problem_in(p, 1))
        snprintf(residual, sizeof(residual), " + z[%s%s]",
                 emit_offset(e->lane, lane >= 0 ? r.stride[lane] : 0),
                 outer.at[2]);
    if (kind == KERN_REDUCE_MEAN)
        emit_line(e, "const real v = sum[k] / %" PRId64 "%s;", count, residual);
    else
        emit_line(e, "const real v = %s%s;", value, residual);
    emit_line(e, "y[%s%s] = %s;",
              emit_offset(e->lane, lane >= 0 ? y->stride[lane] : 0),
              outer.at[1], emit_stored(e, y->dtype, "v"));
    emit_close(e);
    emit_lanes_close(e);
    emit_nest_close(e, &outer);
    return 0;
}

/* ---- lines along one axis ------------------------------------------ */

/* Declares x and y and opens loops over the lines along an axis. */
static int open_lines(struct emit *e, const struct plan_step *s, int axis,
                      struct infer_error *err, struct kern_tensor *x,
                      struct emit_nest *nest)
{
    const struct kern_problem *p = &s->exec.problem;
    struct kern_tensor a, b;
    int rc = check_float(p, err);

    if (rc == 0)
        rc = emit_input(e, s, 0, "x", NULL, err, x);
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    a = without(x, 1u << axis);
    b = without(&p->out[0], 1u << axis);
    emit_nest_start(nest, b.rank, b.dim);
    emit_nest_add(nest, &a);
    emit_nest_add(nest, &b);
    emit_nest_sort(nest, 1);
    emit_nest_open(e, nest, 'i');
    return 0;
}

int emit_softmax(struct emit *e, const struct plan_step *s,
                 struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const int axis = p->attr.softmax.axis;
    const int64_t n = p->in[0].dim[axis];
    struct emit_nest nest;
    struct kern_tensor x;
    const int rc = open_lines(e, s, axis, err, &x, &nest);

    if (rc < 0)
        return rc;
    emit_line(e, "const %s *a = x + (%s);", emit_type(x.dtype), nest.at[0]);
    emit_line(e, "real max = -INFINITY, sum = 0;");
    emit_for(e, "c", n);
    emit_line(e, "const real v = a[%s0];", emit_offset("c", x.stride[axis]));
    emit_line(e, "max = v > max ? v : max;");
    emit_close(e);
    emit_for(e, "c", n);
    emit_line(e, "sum += real_exp(a[%s0] - max);",
              emit_offset("c", x.stride[axis]));
    emit_close(e);
    emit_helper(e, "REAL_EXP");
    if (p->attr.softmax.log) {
        emit_helper(e, "REAL_LOG");
        emit_line(e, "const real all = real_log(sum);");
    }
    emit_for(e, "c", n);
    emit_line(e, "const real v = a[%s0] - max;",
              emit_offset("c", x.stride[axis]));
    emit_line(
        e, "y[%s%s] = %s;", emit_offset("c", p->out[0].stride[axis]),
        nest.at[1],
        emit_stored(e, p->out[0].dtype,
                    p->attr.softmax.log ? "v - all" : "real_exp(v) / sum"));
    emit_close(e);
    emit_nest_close(e, &nest);
    return 0;
}

int emit_arg_reduce(struct emit *e, const struct plan_step *s,
                    struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_arg_reduce *attr = &p->attr.arg_reduce;
    struct emit_nest nest;
    struct kern_tensor x;
    const int rc = open_lines(e, s, attr->axis, err, &x, &nest);

    if (rc < 0)
        return rc;
    const char *at = emit_offset("c", x.stride[attr->axis]);
    emit_line(e, "const %s *a = x + (%s);", emit_type(x.dtype), nest.at[0]);
    emit_line(e, "long best = 0;");
    emit_line(e, "real top = a[0];");
    emit_open(e, "for (long c = 1; c < %" PRId64 "; c++)",
              p->in[0].dim[attr->axis]);
    emit_line(e, "const real v = a[%s0];", at);
    emit_open(e, "if (top != top ? %s : v != v || v %s%s top)",
              attr->select_last ? "v != v" : "0", attr->min ? "<" : ">",
              attr->select_last ? "=" : "");
    emit_line(e, "best = c;");
    emit_line(e, "top = v;");
    emit_close(e);
    emit_close(e);
    emit_line(e, "y[%s] = best;", nest.at[1]);
    emit_nest_close(e, &nest);
    return 0;
}
