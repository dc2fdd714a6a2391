/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, padding, resizing and gathering. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "kernels/quant/quant.h"
#include "kernels/resize.h"
#include "tools/emit/emitter.h"

/* The element `value` of one type as one of another, as the reference copies
 * it. */
static void converted(struct emit *e, enum infer_dtype from,
                      enum infer_dtype to, const char *value,
                      char text[EMIT_EXPRESSION])
{
    char wide[240];

    if (from == to)
        snprintf(text, EMIT_EXPRESSION, "%s", value);
    else if (scalar_is_integer(from) && scalar_is_integer(to))
        snprintf(text, EMIT_EXPRESSION, "%s", emit_stored_i64(e, to, value));
    else {
        snprintf(wide, sizeof(wide), "(real)%s", value);
        snprintf(text, EMIT_EXPRESSION, "%s", emit_stored(e, to, wide));
    }
}

int emit_copy(struct emit *e, const struct plan_step *s,
              struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_tensor *y = &p->out[0];
    struct emit_nest nest;
    struct kern_tensor x;
    char from[200], value[EMIT_EXPRESSION];
    int rc;

    rc = emit_input(e, s, 0, "x", y, err, &x);
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    e->cold = true;
    emit_nest_start(&nest, y->rank, y->dim);
    emit_nest_add(&nest, &x);
    emit_nest_add(&nest, y);
    emit_nest_sort(&nest, 1);
    emit_nest_open(e, &nest, 'i');
    snprintf(from, sizeof(from), "x[%s]", nest.at[0]);
    if (quant_is_scaled(p)) {
        emit_scaled_load(x.dtype, from, p->quant.x_scale, p->quant.x_zero,
                         value);
        emit_line(e, "float v = (float)(%s);", value);
        emit_scaled_store(e, p, nest.at[1]);
    } else {
        converted(e, x.dtype, y->dtype, from, value);
        emit_line(e, "y[%s] = %s;", nest.at[1], value);
    }
    emit_nest_close(e, &nest);
    return 0;
}

/* ---- padding ------------------------------------------------------- */

/* Fills y with the padding's value. */
static int fill(struct emit *e, const struct kern_problem *p,
                struct infer_error *err)
{
    const struct kern_tensor *y = &p->out[0];
    const double v = (double)p->attr.pad.value;
    struct emit_nest nest;
    char value[64];

    if (!scalar_is_float(y->dtype) && (v != v || v - v != 0))
        return error_set(err, INFER_EUNSUPPORTED, "an infinite value");
    if (v - v != 0)
        snprintf(value, sizeof(value), "%s",
                 v != v  ? "NAN"
                 : v < 0 ? "-INFINITY"
                         : "INFINITY");
    else
        snprintf(value, sizeof(value), "(real)%.17g", v);
    emit_nest_start(&nest, y->rank, y->dim);
    emit_nest_add(&nest, y);
    emit_nest_sort(&nest, 0);
    emit_nest_open(e, &nest, 'i');
    emit_line(e, "y[%s] = %s;", nest.at[0], emit_stored(e, y->dtype, value));
    emit_nest_close(e, &nest);
    return 0;
}

/* Constant padding: a filled tensor with what stays of x in its middle. */
static int pad_constant(struct emit *e, const struct plan_step *s,
                        const struct kern_tensor *x, struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_pad *a = &p->attr.pad;
    const struct kern_tensor *y = &p->out[0];
    int64_t dim[KERN_MAX_RANK], from = 0, to = 0;
    struct emit_nest nest;
    bool padded = false, empty = false;

    for (int d = 0; d < y->rank; d++) {
        const int64_t low = a->begin[d] < 0 ? -(int64_t)a->begin[d] : 0;
        const int64_t high = a->end[d] < 0 ? -(int64_t)a->end[d] : 0;

        dim[d] = x->dim[d] - low - high;
        empty = empty || dim[d] <= 0;
        from += low * x->stride[d];
        to += a->begin[d] > 0 ? a->begin[d] * y->stride[d] : 0;
        padded = padded || a->begin[d] > 0 || a->end[d] > 0;
    }
    if (padded) {
        const int rc = fill(e, p, err);
        if (rc < 0)
            return rc;
    }
    if (empty) {
        emit_line(e, "(void)x;");
        return 0;
    }
    emit_nest_start(&nest, y->rank, dim);
    for (int d = 0; d < y->rank; d++) {
        nest.stride[0][d] = x->stride[d];
        nest.stride[1][d] = y->stride[d];
    }
    nest.n = 2;
    emit_nest_sort(&nest, 1);
    emit_nest_open(e, &nest, 'i');
    emit_line(e, "y[%s + %" PRId64 "] = x[%s + %" PRId64 "];", nest.at[1], to,
              nest.at[0], from);
    emit_nest_close(e, &nest);
    return 0;
}

int emit_pad(struct emit *e, const struct plan_step *s, struct infer_error *err)
{
    static const char *const helper[] = {[KERN_PAD_CONSTANT] = "",
                                         [KERN_PAD_REFLECT] = "reflect",
                                         [KERN_PAD_EDGE] = "edge",
                                         [KERN_PAD_WRAP] = "wrap"};
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_pad *a = &p->attr.pad;
    const struct kern_tensor *y = &p->out[0];
    struct kern_tensor x;
    char from[512] = "", to[512] = "";
    int rc = emit_input(e, s, 0, "x", y, err, &x);

    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0 || a->mode == KERN_PAD_CONSTANT)
        return rc < 0 ? rc : pad_constant(e, s, &x, err);
    emit_helper(e, helper[a->mode]);
    for (int d = 0; d < y->rank; d++) {
        const int64_t low = a->begin[d] < 0 ? -(int64_t)a->begin[d] : 0;
        const int64_t high = a->end[d] < 0 ? -(int64_t)a->end[d] : 0;
        const int64_t before = a->begin[d] > 0 ? a->begin[d] : 0;
        const char i[] = {'i', (char)('0' + d), '\0'};
        char place[64];

        emit_for(e, i, y->dim[d]);
        if (a->begin[d] == 0 && a->end[d] == 0)
            snprintf(place, sizeof(place), "%s", i);
        else
            snprintf(place, sizeof(place),
                     "(%" PRId64 " + %s(%s - %" PRId64 ", %" PRId64 "))", low,
                     helper[a->mode], i, before, x.dim[d] - low - high);
        snprintf(from + strlen(from), sizeof(from) - strlen(from), "%s",
                 emit_offset(place, x.dim[d] > 1 ? x.stride[d] : 0));
        snprintf(to + strlen(to), sizeof(to) - strlen(to), "%s",
                 emit_offset(i, y->stride[d]));
    }
    emit_line(e, "y[%s0] = x[%s0];", to, from);
    for (int d = 0; d < y->rank; d++)
        emit_close(e);
    return 0;
}

/* ---- resizing ------------------------------------------------------ */

/* What is left of a resize: dimensions whose table is not the identity. */
struct resize {
    const struct kern_problem *p;
    struct resize_table table[KERN_MAX_RANK];
    bool tabled[KERN_MAX_RANK];
};

/* Declares the tables of dimension d as m<d> (places) and w<d> (weights). */
static int declare_table(struct emit *e, struct resize *r, int d,
                         struct infer_error *err)
{
    const struct resize_table *t = &r->table[d];
    const int64_t n = t->taps * r->p->out[0].dim[d];
    const char place[] = {'m', (char)('0' + d), '\0'};
    const char weight[] = {'w', (char)('0' + d), '\0'};
    int32_t *narrow = malloc((size_t)n * sizeof(*narrow) + 1);
    int rc = 0;

    if (!narrow)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        if (t->index[i] > INT32_MAX)
            rc = error_set(err, INFER_EUNSUPPORTED, "a tensor this large");
        narrow[i] = (int32_t)t->index[i];
    }
    if (rc == 0)
        rc = emit_table(e, place, INFER_I32, narrow, n, err);
    if (rc == 0 && t->taps > 1)
        rc = emit_table(e, weight, INFER_F64, t->weight, n, err);
    free(narrow);
    return rc;
}

static bool is_weighted(const struct resize *r)
{
    for (int d = 0; d < r->p->out[0].rank; d++)
        if (r->tabled[d] && r->table[d].taps > 1)
            return true;
    return false;
}

/* Writes loops over outputs, then over taps, and the lanes innermost: dimension
 * 1 if its elements lie side by side and it is not resized. */
static void write_resize(struct emit *e, const struct resize *r,
                         const struct kern_tensor *x)
{
    const struct kern_tensor *y = &r->p->out[0];
    const bool lanes = y->rank > 1 && !r->tabled[1] && y->stride[1] == 1;
    const bool weighted = is_weighted(r);
    char from[512] = "", to[512] = "", weight[512] = "";
    int taps = 0;

    for (int d = 0; d < y->rank; d++) {
        const char i[] = {'i', (char)('0' + d), '\0'};

        if (lanes && d == 1)
            continue;
        emit_for(e, i, y->dim[d]);
        snprintf(to + strlen(to), sizeof(to) - strlen(to), "%s",
                 emit_offset(i, y->stride[d]));
        if (!r->tabled[d])
            snprintf(from + strlen(from), sizeof(from) - strlen(from), "%s",
                     emit_offset(i, x->stride[d]));
    }
    emit_lanes_open(e, lanes ? y->dim[1] : 1, weighted ? "real" : NULL, "0");
    for (int d = 0; d < y->rank; d++) {
        const char j[] = {'j', (char)('0' + d), '\0'};

        if (!r->tabled[d])
            continue;
        if (r->table[d].taps > 1) {
            emit_for(e, j, r->table[d].taps);
            taps++;
            snprintf(from + strlen(from), sizeof(from) - strlen(from),
                     "m%d[i%d * %" PRId64 " + j%d] + ", d, d, r->table[d].taps,
                     d);
            snprintf(weight + strlen(weight), sizeof(weight) - strlen(weight),
                     "%s(real)w%d[i%d * %" PRId64 " + j%d]",
                     weight[0] ? " * " : "", d, d, r->table[d].taps, d);
        } else {
            snprintf(from + strlen(from), sizeof(from) - strlen(from),
                     "m%d[i%d] + ", d, d);
        }
    }
    const char *lane = lanes ? emit_offset(e->lane, x->stride[1]) : "";
    if (weighted) {
        emit_line(e, "const real a = %s;", weight);
        emit_line(e, "if (a == 0)");
        emit_line(e, "    continue;");
        emit_lane_loop(e);
        emit_line(e, "sum[k] += a * x[%s%s0];", from, lane);
        emit_close(e);
        while (taps-- > 0)
            emit_close(e);
    }
    char value[640] = "sum[k]";
    if (!weighted)
        snprintf(value, sizeof(value), "x[%s%s0]", from, lane);
    lane = lanes ? emit_offset(e->lane, y->stride[1]) : "";
    emit_lane_loop(e);
    emit_line(e, "y[%s%s0] = %s;", to, lane,
              weighted ? emit_stored(e, y->dtype, value) : value);
    emit_close(e);
    emit_lanes_close(e);
    for (int d = 0; d < y->rank; d++)
        if (!(lanes && d == 1))
            emit_close(e);
}

int emit_resize(struct emit *e, const struct plan_step *s,
                struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    struct kern_problem q = *p;
    struct resize r = {.p = p};
    struct kern_tensor x;
    int rc = emit_input(e, s, 0, "x", NULL, err, &x);

    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc == 0 && (x.dtype != p->out[0].dtype || !scalar_is_float(x.dtype)) &&
        p->attr.resize.mode != KERN_NEAREST)
        rc = error_set(err, INFER_EUNSUPPORTED, "a resize of %s",
                       infer_dtype_name(x.dtype));
    q.in[0] = x;
    for (int d = 0; rc == 0 && d < x.rank; d++) {
        r.tabled[d] = p->attr.resize.scale[d] != 1.0f;
        if (!r.tabled[d])
            continue;
        rc = resize_table_make(&q, d, err, &r.table[d]);
        if (rc == 0)
            rc = declare_table(e, &r, d, err);
    }
    if (rc == 0)
        write_resize(e, &r, &x);
    for (int d = 0; d < x.rank; d++)
        resize_table_free(&r.table[d]);
    return rc;
}

/* ---- gathering ----------------------------------------------------- */

/* Checks constant indices against the extent that they count in. */
static int check_indices(const struct emit *e, const struct view *list,
                         int64_t extent, struct infer_error *err)
{
    const int64_t n = kern_tensor_count(&list->t);
    const void *base = plan_locate(e->plan, list);
    int64_t *index;
    size_t bytes;
    int rc = 0;

    if (!base || !checked_mul((size_t)n, sizeof(*index), &bytes) ||
        !(index = malloc(bytes + 1)))
        return error_set(err, INFER_EMEMORY, "out of memory");
    view_gather(&list->t, base, INFER_I64, index);
    for (int64_t i = 0; rc == 0 && i < n; i++)
        if (index[i] < -extent || index[i] >= extent)
            rc = error_set(err, INFER_EARGUMENT,
                           "index %" PRId64 " is outside the extent %" PRId64,
                           index[i], extent);
    free(index);
    return rc;
}

int emit_gather(struct emit *e, const struct plan_step *s,
                struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_tensor *y = &p->out[0], *list = &p->in[1];
    const int axis = p->attr.gather.axis;
    char from[512] = "", to[512] = "", which[512] = "";
    struct kern_tensor x, indices;
    int rc;

    const struct view indexed = emit_view(s, 1);

    if (!emit_is_constant(e, &indexed))
        return error_set(err, INFER_EUNSUPPORTED, "indices that are computed");
    rc = check_indices(e, &indexed, p->in[0].dim[axis], err);
    if (rc == 0)
        rc = emit_input(e, s, 0, "x", NULL, err, &x);
    if (rc == 0)
        rc = emit_input(e, s, 1, "list", NULL, err, &indices);
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    for (int d = 0; d < y->rank; d++) {
        const char i[] = {'i', (char)('0' + d), '\0'};

        emit_for(e, i, y->dim[d]);
        snprintf(to + strlen(to), sizeof(to) - strlen(to), "%s",
                 emit_offset(i, y->stride[d]));
        if (d >= axis && d < axis + list->rank) {
            const int k = d - axis;
            snprintf(
                which + strlen(which), sizeof(which) - strlen(which), "%s",
                emit_offset(i, indices.dim[k] > 1 ? indices.stride[k] : 0));
        } else {
            const int k = d < axis ? d : d - list->rank + 1;
            snprintf(from + strlen(from), sizeof(from) - strlen(from), "%s",
                     emit_offset(i, x.stride[k]));
        }
    }
    emit_line(e, "const long c = (long)list[%s0];", which);
    emit_line(e, "y[%s0] = x[%s(c < 0 ? c + %" PRId64 " : c) * %" PRId64 "];",
              to, from, x.dim[axis], x.stride[axis]);
    for (int d = 0; d < y->rank; d++)
        emit_close(e);
    return 0;
}
