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
                     const char *from, const char *base,
                     const struct emit_products *products)
{
    emit_line(e, "const %s *i = x + (%s);", emit_type(x), from);
    emit_line(e, "const %s *f = w + (%s%s0);", emit_type(w), base,
              e->lane[0] == '(' ? emit_offset("k0", products->k_step) : "");
    emit_products(e, products);
}

/* A dense layer's tensors as the file has them. */
struct dense {
    const struct kern_problem *p;
    struct kern_tensor x, w, bias, r;
    bool has_bias, has_residual, integers;
    int array; /* that of the weights, or -1 */
};

static int declare(struct emit *e, const struct plan_step *s,
                   struct infer_error *err, struct dense *v)
{
    static const int64_t order[] = {1, 0};
    const struct kern_problem *p = &s->exec.problem;
    const struct view weights = emit_view(s, 1);
    const struct view w = view_permute(&weights, order);
    int rc = emit_input(e, s, 0, "x", NULL, err, &v->x);

    *v = (struct dense){.p = p,
                        .x = v->x,
                        .has_bias = kern_problem_in(p, 2) != NULL,
                        .has_residual = kern_problem_in(p, 3) != NULL,
                        .integers = quant_of(p) != NULL};
    if (rc == 0 && product_table_of(p))
        rc = error_set(err, INFER_EUNSUPPORTED, "a table of products");
    if (rc == 0)
        rc = emit_input_view(e, &w, "w", err, &v->w);
    v->array = e->last_array;
    if (rc == 0 && v->has_bias)
        rc = emit_input(e, s, 2, "b", NULL, err, &v->bias);
    if (rc == 0 && v->has_bias && v->bias.stride[0] != 1 && v->w.dim[1] > 1)
        rc = error_set(err, INFER_EUNSUPPORTED, "a bias with a stride");
    if (rc == 0 && v->integers)
        rc = emit_multipliers(e, s, err);
    if (rc == 0 && v->has_residual)
        rc = emit_input(e, s, 3, "z", &p->out[0], err, &v->r);
    return rc == 0 ? emit_output(e, s, err) : rc;
}

/* Stores the sums of a row's columns. */
static int store(struct emit *e, const struct dense *v, const char *at,
                 const char *residual, struct infer_error *err)
{
    int rc;

    emit_each_lane(e);
    if (v->integers) {
        rc = emit_quantised(e, v->p, e->lane, residual, at, err);
    } else {
        if (v->has_bias)
            emit_line(e, "const real v = sum[k] + b[%s];", e->lane);
        else
            emit_line(e, "const real v = sum[k];");
        rc = emit_epilogue(e, v->p, residual, at, err);
    }
    emit_close(e);
    return rc;
}

/* Writes a layer of floats by a table (layer.c): 0; 1 if it is none of those,
 * with nothing declared. */
static int by_table(struct emit *e, const struct plan_step *s,
                    struct infer_error *err)
{
    static const int64_t order[] = {1, 0};
    const struct kern_problem *p = &s->exec.problem;
    const struct view x = emit_view(s, 0), weights = emit_view(s, 1);
    const struct view bias = emit_view(s, 2);
    const int last = p->out[0].rank - 1;
    struct emit_nest rows;
    struct kern_tensor t;
    char n[32];

    if (!emit_layer_fits(e, s) || x.t.stride[last] != 1 ||
        p->out[0].stride[last] != 1)
        return 1;
    const struct view w = view_permute(&weights, order);
    struct emit_layer l = {.lanes = p->out[0].dim[last]};
    int rc = l.w = emit_constant(e, &w, err, &t);
    if (rc >= 0)
        rc = l.b = emit_constant(e, &bias, err, &t);
    if (rc >= 0)
        rc = emit_layer_declare(e, s, &l, err);
    if (rc == 0)
        rc = emit_input(e, s, 0, "x", NULL, err, &t);
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    emit_nest_start(&rows, last, p->out[0].dim);
    t.rank = last;
    emit_nest_add(&rows, &t);
    t = p->out[0];
    t.rank = last;
    emit_nest_add(&rows, &t);
    emit_nest_open(e, &rows, 'n');
    snprintf(n, sizeof(n), "%" PRId64, x.t.dim[last]);
    emit_layer_pixel(e, rows.at[1], "x", rows.at[0], "0", "1", n);
    emit_nest_close(e, &rows);
    return 0;
}

int emit_dense(struct emit *e, const struct plan_step *s,
               struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_tensor *y = &p->out[0];
    const int last = y->rank - 1;
    struct kern_tensor outer;
    struct emit_nest rows;
    struct dense v;
    char residual[256] = "", at[256];
    int rc = by_table(e, s, err);

    if (rc <= 0)
        return rc;
    rc = declare(e, s, err, &v);
    if (rc < 0)
        return rc;
    const struct emit_products products = {.n = v.w.dim[0],
                                           .x_step = v.x.stride[last],
                                           .f_step = v.w.stride[0],
                                           .k_step = v.w.stride[1],
                                           .integers = v.integers,
                                           .zero = p->quant.x_zero,
                                           .x = v.x.dtype,
                                           .w = v.w.dtype,
                                           .array = v.array};
    emit_nest_start(&rows, last, y->dim);
    outer = v.x;
    outer.rank = last;
    emit_nest_add(&rows, &outer);
    outer = *y;
    outer.rank = last;
    emit_nest_add(&rows, &outer);
    if (v.has_residual) {
        outer = v.r;
        outer.rank = last;
        emit_nest_add(&rows, &outer);
    }
    emit_nest_open(e, &rows, 'n');
    emit_lanes_open(e, y->dim[last], v.integers ? "int32_t" : "real", "0");
    add_sums(e, v.x.dtype, v.w.dtype, rows.at[0], "", &products);
    const char *block = emit_lane_block(e);
    if (!v.integers && y->stride[last] == 1 && emit_stores_lanes(p) &&
        (!v.has_residual || v.r.stride[last] == 1)) {
        char bias[16];

        snprintf(bias, sizeof(bias), "%s0", block);
        snprintf(at, sizeof(at), "%s%s", block, rows.at[1]);
        if (v.has_residual)
            snprintf(residual, sizeof(residual), "%s%s", block, rows.at[2]);
        rc = emit_store_lanes(e, p, at, bias, v.has_residual ? residual : NULL,
                              err);
    } else {
        snprintf(at, sizeof(at), "%s%s", emit_offset(e->lane, y->stride[last]),
                 rows.at[1]);
        if (v.has_residual)
            snprintf(residual, sizeof(residual), "z[%s%s]",
                     emit_offset(e->lane, v.r.stride[last]), rows.at[2]);
        rc = store(e, &v, at, residual, err);
    }
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
    const int array = e->last_array;
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    const struct emit_products products = {.n = left.t.dim[left.t.rank - 1],
                                           .x_step = a.stride[a.rank - 1],
                                           .f_step = b.stride[b.rank - 2],
                                           .k_step = b.stride[b.rank - 1],
                                           .x = a.dtype,
                                           .w = b.dtype,
                                           .array = array};
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
    add_sums(e, a.dtype, b.dtype, rows.at[i_a], base, &products);
    emit_each_lane(e);
    snprintf(at, sizeof(at), "%s%s", emit_offset(e->lane, y.stride[last]),
             rows.at[i_y]);
    emit_line(e, "const real v = (real)%.17g * sum[k];", (double)attr->alpha);
    emit_line(e, "y[%s] = %s;", at, emit_stored(e, y.dtype, "v"));
    emit_close(e);
    emit_lanes_close(e);
    emit_nest_close(e, &rows);
    return 0;
}
