/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum and average pooling: a pixel's channels are innermost, or, where no
 * tap lies outside the input, each channel's window, which is less code. */
#include <inttypes.h>
#include <stdio.h>

#include "kernels/base/scalar.h"
#include "kernels/quant/quant.h"
#include "tools/emit/emitter.h"

static const char *const out_index[] = {"o", "p", "q"};
static const char *const tap_index[] = {"t", "r", "s"};
static const char *const in_index[] = {"d", "h", "v"};

struct pool {
    const struct kern_problem *p;
    struct kern_tensor x, y;
    int spatial; /* arrays below: the problem's own dimensions */
    int64_t in[3], out[3], window[3], step[3], dilation[3], pad[3], pad_end[3];
    bool padded;     /* some tap lies outside the input */
    bool overhang;   /* some tap lies outside the padding too */
    const char *sum; /* that of a channel */
};

static void read_pool(struct pool *v)
{
    const struct kern_pool *a = &v->p->attr.pool;

    v->spatial = v->x.rank - 2;
    for (int d = 0; d < v->spatial; d++) {
        v->in[d] = v->x.dim[d + 2];
        v->out[d] = v->y.dim[d + 2];
        v->window[d] = a->window[d];
        v->step[d] = a->stride[d];
        v->dilation[d] = a->dilation[d];
        v->pad[d] = a->pad_begin[d];
        v->pad_end[d] = a->pad_end[d];
        const int64_t last = (v->out[d] - 1) * v->step[d] +
                             (v->window[d] - 1) * v->dilation[d] - v->pad[d];
        v->padded = v->padded || v->pad[d] > 0 || last >= v->in[d];
        v->overhang = v->overhang || v->pad[d] < 0 || v->pad_end[d] < 0 ||
                      last >= v->in[d] + v->pad_end[d];
    }
}

/* Opens the loops over the window; taps outside the input are left out, but
 * counted where the average counts padding. */
static void open_window(struct emit *e, const struct pool *v, bool counts)
{
    const int at = 3 - v->spatial;

    for (int d = 0; d < v->spatial; d++) {
        const char *h = in_index[at + d];
        const bool edge =
            v->pad[d] > 0 || (v->out[d] - 1) * v->step[d] +
                                     (v->window[d] - 1) * v->dilation[d] -
                                     v->pad[d] >=
                                 v->in[d];

        emit_for(e, tap_index[at + d], v->window[d]);
        if (v->in[d] > 1 || edge || v->overhang || counts)
            emit_line(e, "const long %s = %s;", h,
                      emit_position(out_index[at + d], v->out[d], v->step[d],
                                    tap_index[at + d], v->window[d],
                                    v->dilation[d], v->pad[d]));
        if (v->overhang) {
            emit_line(e, "if (%s < %" PRId64 " || %s >= %" PRId64 ")", h,
                      -v->pad[d], h, v->in[d] + v->pad_end[d]);
            emit_line(e, "    continue;");
        }
        if (edge && !counts) {
            emit_line(e, "if (%s < 0 || %s >= %" PRId64 ")", h, h, v->in[d]);
            emit_line(e, "    continue;");
        }
    }
    if (!v->padded && !v->overhang)
        return;
    emit_line(e, "count++;");
    for (int d = 0; d < v->spatial && counts; d++) {
        const char *h = in_index[at + d];
        emit_line(e, "if (%s < 0 || %s >= %" PRId64 ")", h, h, v->in[d]);
        emit_line(e, "    continue;");
    }
}

/* The offset of x's element, or y's. */
static void offset(const struct emit *e, const struct pool *v, bool of_x,
                   char text[512])
{
    const struct kern_tensor *t = of_x ? &v->x : &v->y;
    const int at = 3 - v->spatial;
    int used = 0;

    text[0] = '\0';
    if (v->y.dim[0] > 1)
        used = snprintf(text, 512, "%s", emit_offset("n", t->stride[0]));
    for (int d = 0; d < v->spatial; d++)
        if (t->dim[d + 2] > 1)
            used += snprintf(text + used, 512 - (size_t)used, "%s",
                             emit_offset((of_x ? in_index : out_index)[at + d],
                                         t->stride[d + 2]));
    snprintf(text + used, 512 - (size_t)used, "%s0",
             emit_offset(e->lane, t->stride[1]));
}

/* The value of integers with a scale, stored. */
static int store_scaled(struct emit *e, const struct pool *v, int64_t all,
                        const char *at, struct infer_error *err)
{
    const struct kern_pool *a = &v->p->attr.pool;
    const struct kern_quant *q = &v->p->quant;
    const bool counted = v->padded || v->overhang;
    const bool include = counted && a->count_include_pad;
    char inside[32], count[32];
    int rc;

    snprintf(count, sizeof(count), counted ? "count" : "%" PRId64, all);
    snprintf(inside, sizeof(inside), "%s", include ? "inside" : count);
    if (counted)
        emit_line(e, "float v = 0;");
    if (counted)
        emit_line(e, "if (%s > 0)",
                  a->kind == KERN_POOL_MAX ? "count" : inside);
    if (a->kind == KERN_POOL_MAX)
        emit_line(e, "%s = (float)(%s%s) * (float)%.9g;",
                  counted ? "    v" : "float v", v->sum,
                  emit_less_zero(q->x_zero), (double)q->x_scale);
    else
        emit_line(e,
                  "%s = (float)(%s - %s * (%d)) * "
                  "((float)%.9g / (float)%s);",
                  counted ? "    v" : "float v", v->sum, inside, q->x_zero,
                  (double)q->x_scale, count);
    rc = emit_scaled_act(e, v->p, err);
    emit_scaled_store(e, v->p, at);
    return rc;
}

/* The average or maximum of the lanes, stored. */
static int store(struct emit *e, const struct pool *v, bool max,
                 struct infer_error *err)
{
    const bool counted = v->padded || v->overhang;
    int64_t all = 1;
    char at[512];
    int rc;

    for (int d = 0; d < v->spatial; d++)
        all *= v->window[d];
    offset(e, v, false, at);
    if (counted)
        emit_each_lane(e);
    if (!scalar_is_float(v->x.dtype)) {
        rc = quant_is_scaled(v->p) ? store_scaled(e, v, all, at, err) : 0;
        if (!quant_is_scaled(v->p))
            emit_line(e,
                      counted ? "y[%s] = count > 0 ? %s : 0;" : "y[%s] = %s;",
                      at, v->sum);
    } else {
        if (max)
            emit_line(e, "const real v = %s%s;", counted ? "count > 0 ? " : "",
                      counted ? "sum[k] : 0" : v->sum);
        else if (counted && v->p->attr.pool.count_include_pad)
            emit_line(e, "const real v = inside ? sum[k] / (real)count : 0;");
        else if (counted)
            emit_line(e,
                      "const real v = count > 0 ? sum[k] / (real)count : 0;");
        else
            emit_line(e, "const real v = %s / %" PRId64 ";", v->sum, all);
        rc = emit_epilogue(e, v->p, "", at, err);
    }
    if (counted)
        emit_close(e);
    return rc;
}

/* What a maximum starts from. */
static const char *lowest(enum infer_dtype dtype)
{
    switch (dtype) {
    case INFER_F64:
    case INFER_F32:
    case INFER_F16:
    case INFER_BF16:
        return "-INFINITY";
    case INFER_I64:
        return "INT64_MIN";
    case INFER_I32:
        return "INT32_MIN";
    case INFER_I16:
        return "INT16_MIN";
    case INFER_I8:
        return "INT8_MIN";
    case INFER_U64:
    case INFER_U32:
    case INFER_U16:
    case INFER_U8:
    case INFER_BOOL:
    case INFER_F8E4M3: /* refused: C has no such type */
    case INFER_NONE:
    case INFER_DTYPE_COUNT:
        break;
    }
    return "0";
}

/* Adds the lanes of one tap. */
static void add_tap(struct emit *e, const struct pool *v, bool max)
{
    const bool lanes = v->padded || v->overhang;
    char from[512];

    offset(e, v, true, from);
    if (lanes)
        emit_each_lane(e);
    if (max) {
        emit_line(e, "const %s a = x[%s];", emit_type(v->x.dtype), from);
        emit_line(e, "%s = a > %s%s ? a : %s;", v->sum, v->sum,
                  scalar_is_float(v->x.dtype) ? " || a != a" : "", v->sum);
    } else {
        emit_line(e, "%s += x[%s];", v->sum, from);
    }
    if (lanes)
        emit_close(e);
}

int emit_pool(struct emit *e, const struct plan_step *s,
              struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const bool max = p->attr.pool.kind == KERN_POOL_MAX;
    struct pool v = {.p = p, .y = p->out[0]};
    int rc;

    const bool scaled = quant_is_scaled(p) && quant_is_byte(p->in[0].dtype);
    const bool moved = scalar_is_integer(p->in[0].dtype) && max &&
                       p->in[0].dtype == p->out[0].dtype &&
                       p->epilogue.act.kind == KERN_IDENTITY;

    if (!scalar_is_float(p->in[0].dtype) && !scaled && !moved)
        return error_set(err, INFER_EUNSUPPORTED, "a pool of %s",
                         infer_dtype_name(p->in[0].dtype));
    rc = emit_input(e, s, 0, "x", NULL, err, &v.x);
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    e->cold = true;
    read_pool(&v);
    const int at = 3 - v.spatial;
    const bool counted = v.padded || v.overhang;
    const bool counts = counted && !max && p->attr.pool.count_include_pad;
    if (v.y.dim[0] > 1)
        emit_for(e, "n", v.y.dim[0]);
    for (int d = 0; d < v.spatial; d++)
        if (v.out[d] > 1)
            emit_for(e, out_index[at + d], v.out[d]);
    const char *type = max ? emit_type(v.x.dtype) : scaled ? "int32_t" : "real";
    if (counted) {
        v.sum = "sum[k]";
        emit_lanes_open(e, v.y.dim[1], NULL, NULL);
        emit_line(e, "%s sum[%d]%s;", type, EMIT_LANES, max ? "" : " = {0}");
        if (max) {
            emit_each_lane(e);
            emit_line(e, "sum[k] = %s;", lowest(v.x.dtype));
            emit_close(e);
        }
        emit_line(e,
                  counts ? "long count = 0, inside = 0;" : "long count = 0;");
    } else {
        v.sum = "sum";
        e->lane = v.y.dim[1] > 1 ? "k" : "0";
        if (v.y.dim[1] > 1)
            emit_for(e, "k", v.y.dim[1]);
        emit_line(e, "%s sum = %s;", type, max ? lowest(v.x.dtype) : "0");
    }
    open_window(e, &v, counts);
    if (counted && counts)
        emit_line(e, "inside++;");
    add_tap(e, &v, max);
    for (int d = 0; d < v.spatial; d++)
        emit_close(e);
    rc = store(e, &v, max, err);
    if (counted)
        emit_lanes_close(e);
    else if (v.y.dim[1] > 1)
        emit_close(e);
    for (int d = 0; d < v.spatial; d++)
        if (v.out[d] > 1)
            emit_close(e);
    if (v.y.dim[0] > 1)
        emit_close(e);
    return rc;
}
