/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation by the mean and variance of blocks, and across channels. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/emit/emitter.h"

/* The pieces of one normalisation: loops over blocks, each over its elements.
 */
struct blocks {
    struct kern_tensor x, scale, shift;
    bool has_scale, has_shift;
};

static int declare(struct emit *e, const struct plan_step *s,
                   struct infer_error *err, struct blocks *b)
{
    const struct kern_problem *p = &s->exec.problem;
    int rc = emit_input(e, s, 0, "x", NULL, err, &b->x);

    b->has_scale = kern_problem_in(p, 1) != NULL;
    b->has_shift = kern_problem_in(p, 2) != NULL;
    if (rc == 0 && b->has_scale)
        rc = emit_input(e, s, 1, "scale", NULL, err, &b->scale);
    if (rc == 0 && b->has_shift)
        rc = emit_input(e, s, 2, "shift", NULL, err, &b->shift);
    if (rc == 0)
        rc = emit_output(e, s, err);
    return rc;
}

/* Writes mean and inverse deviation of the block whose elements the nest walks,
 * x first, from the pointer a on. */
static void add_moments(struct emit *e, const struct kern_norm *attr,
                        const struct emit_nest *block, int64_t count)
{
    struct emit_nest nest = *block;

    emit_helper(e, "REAL_SQRT");
    emit_line(e, "real mean = 0, squares = 0;");
    if (!attr->rms) {
        emit_nest_open(e, &nest, 'j');
        emit_line(e, "mean += a[%s];", nest.at[0]);
        emit_nest_close(e, &nest);
        emit_line(e, "mean = mean / %" PRId64 ";", count);
    }
    nest = *block;
    emit_nest_open(e, &nest, 'j');
    emit_line(e, "const real d = a[%s] - mean;", nest.at[0]);
    emit_line(e, "squares += d * d;");
    emit_nest_close(e, &nest);
    emit_line(e,
              "const real inverse = 1 / real_sqrt(squares / %" PRId64
              " + (real)%.17g);",
              count, (double)attr->epsilon);
}

/* Writes the block: the nest walks x, y, scale and shift in this order. */
static void add_values(struct emit *e, const struct blocks *b,
                       enum infer_dtype to, const struct emit_nest *block)
{
    struct emit_nest nest = *block;

    emit_nest_open(e, &nest, 'j');
    emit_line(e, "real v = (a[%s] - mean) * inverse;", nest.at[0]);
    if (b->has_scale)
        emit_line(e, "v *= scale[%s];", nest.at[2]);
    if (b->has_shift)
        emit_line(e, "v += shift[%s];", nest.at[3]);
    emit_line(e, "u[%s] = %s;", nest.at[1], emit_stored(e, to, "v"));
    emit_nest_close(e, &nest);
}

int emit_layer_norm(struct emit *e, const struct plan_step *s,
                    struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_tensor none = {.rank = 0}, *y = &p->out[0];
    const int axis = p->attr.norm.axis, rank = y->rank - axis;
    struct kern_tensor x, to = *y;
    struct emit_nest outer, inner;
    struct blocks b;
    int64_t count = 1;
    const int rc = declare(e, s, err, &b);

    if (rc < 0)
        return rc;
    emit_nest_start(&outer, axis, y->dim);
    x = b.x;
    x.rank = to.rank = axis;
    emit_nest_add(&outer, &x);
    emit_nest_add(&outer, &to);
    emit_nest_start(&inner, rank, y->dim + axis);
    for (int d = 0; d < rank; d++) {
        count *= y->dim[axis + d];
        x.dim[d] = b.x.dim[axis + d];
        x.stride[d] = b.x.stride[axis + d];
        to.dim[d] = y->dim[axis + d];
        to.stride[d] = y->stride[axis + d];
    }
    x.rank = to.rank = rank;
    emit_nest_add(&inner, &x);
    emit_nest_add(&inner, &to);
    emit_nest_add(&inner, b.has_scale ? &b.scale : &none);
    emit_nest_add(&inner, b.has_shift ? &b.shift : &none);
    emit_nest_open(e, &outer, 'i');
    emit_line(e, "const %s *a = x + (%s);", emit_type(x.dtype), outer.at[0]);
    emit_line(e, "%s *u = y + (%s);", emit_type(y->dtype), outer.at[1]);
    add_moments(e, &p->attr.norm, &inner, count);
    add_values(e, &b, y->dtype, &inner);
    emit_nest_close(e, &outer);
    return 0;
}

int emit_group_norm(struct emit *e, const struct plan_step *s,
                    struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_tensor *y = &p->out[0];
    const int64_t groups = p->attr.norm.groups;
    const int64_t channels = y->dim[1] / groups;
    struct emit_nest outer, inner;
    int64_t count, dim[KERN_MAX_RANK] = {y->dim[0], groups};
    struct blocks b;
    const int rc = declare(e, s, err, &b);

    if (rc < 0)
        return rc;
    emit_nest_start(&outer, 2, dim);
    for (int i = 0; i < 2; i++) {
        const struct kern_tensor *t = i == 0 ? &b.x : y;
        outer.stride[i][0] = t->stride[0];
        outer.stride[i][1] = channels * t->stride[1];
    }
    outer.stride[2][1] = b.has_scale ? channels * b.scale.stride[0] : 0;
    outer.stride[3][1] = b.has_shift ? channels * b.shift.stride[0] : 0;
    outer.n = 4;
    /* The channels of a group, and space. */
    dim[0] = channels;
    count = channels;
    for (int d = 2; d < y->rank; d++) {
        dim[d - 1] = y->dim[d];
        count *= y->dim[d];
    }
    emit_nest_start(&inner, y->rank - 1, dim);
    for (int i = 0; i < 2; i++) {
        const struct kern_tensor *t = i == 0 ? &b.x : y;
        for (int d = 1; d < y->rank; d++)
            inner.stride[i][d - 1] = t->stride[d];
    }
    inner.stride[2][0] = b.has_scale ? b.scale.stride[0] : 0;
    inner.stride[3][0] = b.has_shift ? b.shift.stride[0] : 0;
    inner.n = 4;
    emit_nest_open(e, &outer, 'i');
    emit_line(e, "const %s *a = x + (%s);", emit_type(b.x.dtype), outer.at[0]);
    emit_line(e, "%s *u = y + (%s);", emit_type(y->dtype), outer.at[1]);
    if (b.has_scale)
        emit_line(e, "const %s *g = scale + (%s);", emit_type(b.scale.dtype),
                  outer.at[2]);
    if (b.has_shift)
        emit_line(e, "const %s *h = shift + (%s);", emit_type(b.shift.dtype),
                  outer.at[3]);
    add_moments(e, &p->attr.norm, &inner, count);
    emit_nest_open(e, &inner, 'j');
    emit_line(e, "real v = (a[%s] - mean) * inverse;", inner.at[0]);
    if (b.has_scale)
        emit_line(e, "v *= g[%s];", inner.at[2]);
    if (b.has_shift)
        emit_line(e, "v += h[%s];", inner.at[3]);
    emit_line(e, "u[%s] = %s;", inner.at[1], emit_stored(e, y->dtype, "v"));
    emit_nest_close(e, &inner);
    emit_nest_close(e, &outer);
    return 0;
}

int emit_lrn(struct emit *e, const struct plan_step *s, struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_lrn *a = &p->attr.lrn;
    const struct kern_tensor *y = &p->out[0];
    const int64_t below = (a->size - 1) / 2, above = a->size - 1 - below;
    struct kern_tensor x, from, to = *y;
    struct emit_nest nest;
    int rc = emit_input(e, s, 0, "x", NULL, err, &x);

    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    from = x;
    from.dim[1] = to.dim[1] = 1;
    emit_nest_start(&nest, y->rank, to.dim);
    emit_nest_add(&nest, &from);
    emit_nest_add(&nest, &to);
    emit_nest_sort(&nest, 1);
    emit_nest_open(e, &nest, 'i');
    emit_line(e, "const %s *a = x + (%s);", emit_type(x.dtype), nest.at[0]);
    emit_for(e, "c", y->dim[1]);
    emit_line(e, "const long first = c > %" PRId64 " ? c - %" PRId64 " : 0;",
              below, below);
    emit_line(e,
              "const long last = c + %" PRId64 " < %" PRId64 " ? c + %" PRId64
              " : %" PRId64 ";",
              above, y->dim[1], above, y->dim[1] - 1);
    emit_helper(e, "REAL_POW");
    emit_line(e, "real sum = 0;");
    emit_open(e, "for (long k = first; k <= last; k++)");
    emit_line(e, "const real v = a[%s0];", emit_offset("k", x.stride[1]));
    emit_line(e, "sum += v * v;");
    emit_close(e);
    emit_line(e, "const real scale = (real)%.17g + (real)%.17g / %d * sum;",
              (double)a->bias, (double)a->alpha, a->size);
    char value[160];
    snprintf(value, sizeof(value), "a[%s0] / real_pow(scale, (real)%.17g)",
             emit_offset("c", x.stride[1]), (double)a->beta);
    emit_line(e, "y[%s%s] = %s;", emit_offset("c", y->stride[1]), nest.at[1],
              emit_stored(e, y->dtype, value));
    emit_close(e);
    emit_nest_close(e, &nest);
    return 0;
}
