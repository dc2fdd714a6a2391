/* SPDX-License-Identifier: Apache-2.0 */
/* Dense layers and matrix products: one row of outputs at a time, its columns
 * innermost. */
#include <inttypes.h>
#include <stdio.h>

#include "kernels/matmul.h"
#include "kernels/quant/quant.h"
#include "tools/emit/emitter.h"

/* Adds the sums of a row: x at `from`, weights c, k at `base`. */
static void add_sums(struct emit *e, enum infer_dtype x, enum infer_dtype w,
                     const char *from, const char *base, int64_t n,
                     int64_t x_step, int64_t c_step, int64_t k_step)
{
    const struct emit_products products = {
        .n = n, .x_step = x_step, .f_step = c_step, .k_step = k_step};

    emit_line(e, "const %s *i = x + (%s);", emit_type(x), from);
    emit_line(e, "const %s *f = w + (%s%s0);", emit_type(w), base,
              e->lane[0] == '(' ? emit_offset("k0", k_step) : "");
    emit_products(e, &products);
}

int emit_dense(struct emit *e, const struct plan_step *s,
               struct infer_error *err)
{
    static const int64_t order[] = {1, 0};
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_tensor *y = &p->out[0];
    const int last = y->rank - 1;
    const struct view weights = emit_view(s, 1);
    const struct view w = view_permute(&weights, order);
    struct kern_tensor x, t, bias, r;
    struct emit_nest rows;
    char residual[256] = "", at[256];
    int rc, i_x, i_y, i_r = -1;

    if (product_table_of(p) || quant_of(p))
        return error_set(err, INFER_EUNSUPPORTED, "%s",
                         quant_of(p) ? "integers of 8 bits"
                                     : "a table of products");
    rc = emit_input(e, s, 0, "x", NULL, err, &x);
    if (rc == 0)
        rc = emit_input_view(e, &w, "w", err, &t);
    if (rc == 0 && kern_problem_in(p, 2))
        rc = emit_input(e, s, 2, "b", NULL, err, &bias);
    if (rc == 0 && kern_problem_in(p, 3))
        rc = emit_input(e, s, 3, "z", y, err, &r);
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    emit_nest_start(&rows, last, y->dim);
    x.rank = last;
    struct kern_tensor outer = *y;
    outer.rank = last;
    i_x = emit_nest_add(&rows, &x);
    i_y = emit_nest_add(&rows, &outer);
    if (kern_problem_in(p, 3)) {
        outer = r;
        outer.rank = last;
        i_r = emit_nest_add(&rows, &outer);
    }
    emit_nest_open(e, &rows, 'n');
    emit_lanes_open(e, y->dim[last], "real", "0");
    add_sums(e, x.dtype, t.dtype, rows.at[i_x], "", t.dim[0], x.stride[last],
             t.stride[0], t.stride[1]);
    emit_lane_loop(e);
    if (kern_problem_in(p, 2))
        emit_line(e, "const real v = sum[k] + b[%s0];",
                  emit_offset(e->lane, bias.stride[0]));
    else
        emit_line(e, "const real v = sum[k];");
    if (i_r >= 0)
        snprintf(residual, sizeof(residual), "z[%s%s]",
                 emit_offset(e->lane, r.stride[last]), rows.at[i_r]);
    snprintf(at, sizeof(at), "%s%s", emit_offset(e->lane, y->stride[last]),
             rows.at[i_y]);
    rc = emit_epilogue(e, p, residual, at, err);
    emit_close(e);
    emit_lanes_close(e);
    emit_nest_close(e, &rows);
    return rc;
}

/* ---- matrix products ----------------------------------------------- */

/* The operand's view with its last two dimensions as the product reads them. */
static struct view operand(struct view v, bool transpose, bool left)
{
    v.t = matmul_operand(&v.t, transpose, left);
    return v;
}

int emit_matmul(struct emit *e, const struct plan_step *s,
                struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_matmul *attr = &p->attr.matmul;
    const struct kern_tensor y = matmul_output(p);
    const int last = y.rank - 1;
    const struct view left = operand(emit_view(s, 0), attr->transpose_a, true);
    const struct view right =
        operand(emit_view(s, 1), attr->transpose_b, false);
    struct kern_tensor a, b;
    struct emit_nest rows;
    char at[256];
    int rc, i_a, i_b, i_y;

    rc = emit_input_view(e, &left, "x", err, &a);
    if (rc == 0)
        rc = emit_input_view(e, &right, "w", err, &b);
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    const int64_t n = left.t.dim[left.t.rank - 1];
    const int64_t x_step = a.stride[a.rank - 1];
    const int64_t c_step = b.stride[b.rank - 2], k_step = b.stride[b.rank - 1];
    struct kern_tensor outer = y;
    a.dim[a.rank - 1] = b.dim[b.rank - 2] = b.dim[b.rank - 1] = 1;
    outer.dim[last] = 1;
    emit_nest_start(&rows, y.rank, outer.dim);
    i_a = emit_nest_add(&rows, &a);
    i_b = emit_nest_add(&rows, &b);
    i_y = emit_nest_add(&rows, &outer);
    emit_nest_open(e, &rows, 'n');
    emit_lanes_open(e, y.dim[last], "real", "0");
    char base[200];
    snprintf(base, sizeof(base), "%s + ", rows.at[i_b]);
    add_sums(e, a.dtype, b.dtype, rows.at[i_a], base, n, x_step, c_step,
             k_step);
    emit_lane_loop(e);
    snprintf(at, sizeof(at), "%s%s", emit_offset(e->lane, y.stride[last]),
             rows.at[i_y]);
    emit_line(e, "const real v = (real)%.17g * sum[k];", (double)attr->alpha);
    emit_line(e, "y[%s] = %s;", at, emit_stored(e, y.dtype, "v"));
    emit_close(e);
    emit_lanes_close(e);
    emit_nest_close(e, &rows);
    return 0;
}
