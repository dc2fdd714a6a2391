/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of single elements, with broadcasting. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/base/scalar.h"
#include "kernels/quant/quant.h"
#include "kernels/unary.h"
#include "tools/emit/emitter.h"

/* Refuses 64-bit integers where the reference computes in double. */
static int check_narrow(const struct kern_problem *p, struct infer_error *err)
{
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].dtype == INFER_I64)
            return error_set(err, INFER_EUNSUPPORTED, "elements of I64");
    return 0;
}

/* Declares inputs a to a + n - 1 as `names`, the output as y, and opens loops
 * over the output in the order of its memory. */
static int open_loops(struct emit *e, const struct plan_step *s,
                      const char *const *names, int n, struct infer_error *err,
                      struct emit_nest *nest, int *y)
{
    const struct kern_problem *p = &s->exec.problem;
    int rc = 0;

    emit_nest_start(nest, p->out[0].rank, p->out[0].dim);
    for (int i = 0; rc == 0 && i < n; i++) {
        struct kern_tensor t;

        if (!kern_problem_in(p, i)) {
            emit_nest_add_vector(nest, 0, 0);
            continue;
        }
        rc = emit_input(e, s, i, names[i], &p->out[0], err, &t);
        if (rc == 0)
            emit_nest_add(nest, &t);
    }
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    *y = emit_nest_add(nest, &p->out[0]);
    emit_nest_sort(nest, *y);
    emit_nest_open(e, nest, 'i');
    return 0;
}

int emit_unary(struct emit *e, const struct plan_step *s,
               struct infer_error *err)
{
    static const char *const names[] = {"x"};
    const struct kern_problem *p = &s->exec.problem;
    struct emit_nest nest;
    const bool exact = scalar_is_integer(p->in[0].dtype) &&
                       kern_unary_keeps_integers(p->attr.unary.kind);
    char act[48], value[256];
    int y = 0, rc = exact ? emit_unary_i64_name(e, &p->attr.unary, err, act)
                          : emit_unary_name(e, &p->attr.unary, err, act);

    if (rc == 0 && !exact)
        rc = check_narrow(p, err);
    if (rc == 0)
        rc = open_loops(e, s, names, 1, err, &nest, &y);
    if (rc < 0)
        return rc;
    snprintf(value, sizeof(value), "%s(x[%s])", act, nest.at[0]);
    emit_line(e, "y[%s] = %s;", nest.at[y],
              exact ? emit_wrapped_i64(p->out[0].dtype, value)
                    : emit_stored(e, p->out[0].dtype, value));
    emit_nest_close(e, &nest);
    return 0;
}

/* Integers throughout, and nothing after the function. */
static bool is_exact(const struct kern_problem *p)
{
    return scalar_is_integer(p->in[0].dtype) &&
           scalar_is_integer(p->in[1].dtype) && !kern_problem_in(p, 2) &&
           p->epilogue.act.kind == KERN_IDENTITY;
}

/* A function of two values of which some are integers with scales. */
static int add_scaled(struct emit *e, const struct kern_problem *p,
                      const char *op, const struct emit_nest *nest,
                      const char *at, struct infer_error *err)
{
    const struct kern_quant *q = &p->quant;
    char element[200], a[EMIT_EXPRESSION], b[EMIT_EXPRESSION];
    int rc;

    snprintf(element, sizeof(element), "a[%s]", nest->at[0]);
    emit_scaled_load(p->in[0].dtype, element, q->x_scale, q->x_zero, a);
    snprintf(element, sizeof(element), "b[%s]", nest->at[1]);
    emit_scaled_load(p->in[1].dtype, element, q->residual_scale,
                     q->residual_zero, b);
    emit_line(e, "const real u = %s, w = %s;", a, b);
    emit_line(e, "float v = (float)%s(u, w);", op);
    rc = emit_scaled_act(e, p, err);
    emit_scaled_store(e, p, at);
    return rc;
}

int emit_binary(struct emit *e, const struct plan_step *s,
                struct infer_error *err)
{
    static const char *const names[] = {"a", "b", "z"};
    const struct kern_problem *p = &s->exec.problem;
    struct emit_nest nest;
    const bool scaled = quant_is_scaled(p), exact = !scaled && is_exact(p);
    char op[48], value[400], residual[200] = "";
    int y = 0, rc;

    rc = exact ? emit_binary_i64_name(e, p->attr.binary.kind, err, op)
               : emit_binary_name(e, p->attr.binary.kind, err, op);
    if (rc == 0 && !exact)
        rc = check_narrow(p, err);
    if (rc == 0)
        rc = open_loops(e, s, names, 3, err, &nest, &y);
    if (rc < 0)
        return rc;
    if (exact) {
        snprintf(value, sizeof(value), "%s(a[%s], b[%s])", op, nest.at[0],
                 nest.at[1]);
        emit_line(e, "y[%s] = %s;", nest.at[y],
                  emit_wrapped_i64(p->out[0].dtype, value));
        emit_nest_close(e, &nest);
        return 0;
    }
    if (scaled) {
        rc = add_scaled(e, p, op, &nest, nest.at[y], err);
        emit_nest_close(e, &nest);
        return rc;
    }
    emit_line(e, "const real v = %s(a[%s], b[%s]);", op, nest.at[0],
              nest.at[1]);
    if (kern_problem_in(p, 2))
        snprintf(residual, sizeof(residual), "z[%s]", nest.at[2]);
    rc = emit_epilogue(e, p, residual, nest.at[y], err);
    emit_nest_close(e, &nest);
    return rc;
}

int emit_prelu(struct emit *e, const struct plan_step *s,
               struct infer_error *err)
{
    static const char *const names[] = {"x", "slope"};
    const struct kern_problem *p = &s->exec.problem;
    struct emit_nest nest;
    int y = 0;
    const int rc = open_loops(e, s, names, 2, err, &nest, &y);

    if (rc < 0)
        return rc;
    emit_line(e, "const real v = x[%s];", nest.at[0]);
    emit_line(e, "const real m = slope[%s];", nest.at[1]);
    emit_line(e, "y[%s] = %s;", nest.at[y],
              emit_stored(e, p->out[0].dtype, "v < 0 ? m * v : v"));
    emit_nest_close(e, &nest);
    return 0;
}

/* Factors that are none are 0, as in kernels/quant/requantize.h. */
int emit_requantize(struct emit *e, const struct plan_step *s,
                    struct infer_error *err)
{
    static const char *const names[] = {"x", "multiplier", "shift", "addend"};
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_requantize *a = &p->attr.requantize;
    const bool floats = scalar_is_float(p->in[0].dtype);
    struct emit_nest nest;
    char addend[200] = "0", value[EMIT_EXPRESSION];
    int y = 0;
    const int rc = open_loops(e, s, names, 4, err, &nest, &y);

    if (rc < 0)
        return rc;
    emit_helper(e, a->wide ? "requantize_wide" : "requantize");
    if (floats)
        emit_helper(e, "to_i32");
    if (kern_problem_in(p, 3))
        snprintf(addend, sizeof(addend), "addend[%s]", nest.at[3]);
    emit_line(e, "const int32_t m = multiplier[%s], k = shift[%s];", nest.at[1],
              nest.at[2]);
    emit_line(e, "const int fits = m >= 0 && k >= -31 && k <= 30;");
    snprintf(value, sizeof(value), "%s(x[%s])", floats ? "to_i32" : "",
             nest.at[0]);
    if (a->wide)
        emit_line(e, "y[%s] = requantize_wide(%s, %d, %d, %s,", nest.at[y],
                  value, a->left, a->once, addend);
    else
        emit_line(e, "y[%s] = requantize(%s, ", nest.at[y], value);
    emit_line(e, "    fits ? m : 0, fits ? k : 0,");
    if (!a->wide)
        emit_line(e, "    %d, %d, %s,", a->left, a->once, addend);
    emit_line(e, "    %s%d%s, %d);", a->low == INT32_MIN ? "-1 + (" : "",
              a->low == INT32_MIN ? -INT32_MAX : a->low,
              a->low == INT32_MIN ? ")" : "", a->high);
    emit_nest_close(e, &nest);
    return 0;
}

int emit_where(struct emit *e, const struct plan_step *s,
               struct infer_error *err)
{
    static const char *const names[] = {"c", "a", "b"};
    struct emit_nest nest;
    int y = 0;
    const int rc = open_loops(e, s, names, 3, err, &nest, &y);

    if (rc < 0)
        return rc;
    emit_line(e, "y[%s] = c[%s] != 0 ? a[%s] : b[%s];", nest.at[y], nest.at[0],
              nest.at[1], nest.at[2]);
    emit_nest_close(e, &nest);
    return 0;
}

/* ---- vectors along the channels ------------------------------------ */

/* Declares input i, a vector, and adds it to the nest along dimension 1. */
static int add_vector(struct emit *e, const struct plan_step *s, int i,
                      const char *name, struct emit_nest *nest,
                      struct infer_error *err)
{
    struct kern_tensor t;
    const int rc = emit_input(e, s, i, name, NULL, err, &t);

    if (rc == 0)
        emit_nest_add_vector(nest, 1, t.dim[0] == 1 ? 0 : t.stride[0]);
    return rc;
}

/* As open_loops(), with x, n vectors after it, a residual (or -1) and y; the
 * numbers in the nest are in this order, those of absent inputs too. */
static int open_channels(struct emit *e, const struct plan_step *s,
                         const char *const *names, int n, int residual,
                         struct infer_error *err, struct emit_nest *nest)
{
    const struct kern_problem *p = &s->exec.problem;
    struct kern_tensor t;
    int rc = check_narrow(p, err);

    emit_nest_start(nest, p->out[0].rank, p->out[0].dim);
    if (rc == 0)
        rc = emit_input(e, s, 0, "x", &p->out[0], err, &t);
    if (rc < 0)
        return rc;
    emit_nest_add(nest, &t);
    for (int i = 1; rc == 0 && i <= n; i++) {
        if (kern_problem_in(p, i))
            rc = add_vector(e, s, i, names[i], nest, err);
        else
            emit_nest_add_vector(nest, 1, 0);
    }
    if (rc == 0 && residual >= 0 && kern_problem_in(p, residual)) {
        rc = emit_input(e, s, residual, "z", &p->out[0], err, &t);
        emit_nest_add(nest, &t);
    } else {
        emit_nest_add_vector(nest, 1, 0);
    }
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    const int y = emit_nest_add(nest, &p->out[0]);
    emit_nest_sort(nest, y);
    emit_nest_open(e, nest, 'i');
    return 0;
}

int emit_batch_norm(struct emit *e, const struct plan_step *s,
                    struct infer_error *err)
{
    static const char *const names[] = {"x", "scale", "shift", "mean", "var"};
    const struct kern_problem *p = &s->exec.problem;
    struct emit_nest nest;
    char residual[200] = "";
    int rc = open_channels(e, s, names, 4, 5, err, &nest);

    if (rc < 0)
        return rc;
    emit_helper(e, "REAL_SQRT");
    emit_line(e, "const real u = (real)x[%s] - mean[%s];", nest.at[0],
              nest.at[3]);
    emit_line(e, "const real d = real_sqrt(var[%s] + (real)%.17g);", nest.at[4],
              (double)p->attr.norm.epsilon);
    emit_line(e, "const real v = u / d * scale[%s] + shift[%s];", nest.at[1],
              nest.at[2]);
    if (kern_problem_in(p, 5))
        snprintf(residual, sizeof(residual), "z[%s]", nest.at[5]);
    rc = emit_epilogue(e, p, residual, nest.at[6], err);
    emit_nest_close(e, &nest);
    return rc;
}

/* A scale and shift of integers with scales. */
static int shift_scaled(struct emit *e, const struct kern_problem *p,
                        const struct emit_nest *nest, struct infer_error *err)
{
    char element[200], x[EMIT_EXPRESSION], a[220] = "1.0f", b[220] = "0.0f";
    int rc;

    snprintf(element, sizeof(element), "x[%s]", nest->at[0]);
    emit_scaled_load(p->in[0].dtype, element, p->quant.x_scale, p->quant.x_zero,
                     x);
    if (kern_problem_in(p, 1))
        snprintf(a, sizeof(a), "scale[%s]", nest->at[1]);
    if (kern_problem_in(p, 2))
        snprintf(b, sizeof(b), "shift[%s]", nest->at[2]);
    emit_line(e, "float v = (float)(%s);", x);
    emit_line(e, "v = fmaf(v, %s, %s);", a, b);
    rc = emit_scaled_act(e, p, err);
    emit_scaled_store(e, p, nest->at[4]);
    return rc;
}

int emit_scale_shift(struct emit *e, const struct plan_step *s,
                     struct infer_error *err)
{
    static const char *const names[] = {"x", "scale", "shift"};
    const struct kern_problem *p = &s->exec.problem;
    struct emit_nest nest;
    char residual[200] = "";
    int rc = open_channels(e, s, names, 2, 3, err, &nest);

    if (rc < 0)
        return rc;
    if (quant_is_scaled(p)) {
        rc = shift_scaled(e, p, &nest, err);
        emit_nest_close(e, &nest);
        return rc;
    }
    emit_line(e, "real v = x[%s];", nest.at[0]);
    if (kern_problem_in(p, 1))
        emit_line(e, "v *= scale[%s];", nest.at[1]);
    if (kern_problem_in(p, 2))
        emit_line(e, "v += shift[%s];", nest.at[2]);
    if (kern_problem_in(p, 3))
        snprintf(residual, sizeof(residual), "z[%s]", nest.at[3]);
    rc = emit_epilogue(e, p, residual, nest.at[4], err);
    emit_nest_close(e, &nest);
    return rc;
}
