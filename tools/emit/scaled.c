/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of problems on integers of 8 bits, as kernels/quant/quant.h and
 * kernels/ref/scaled.h state them: every operation rounds to single precision,
 * whatever `real` is.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/quant/act.h"
#include "kernels/quant/quant.h"
#include "tools/emit/emitter.h"

/* A float as C, exactly; the text lies in one of a few buffers in turn. */
static const char *literal(float v)
{
    static char buffer[4][48];
    static int turn;
    char *text = buffer[turn++ % 4];

    snprintf(text, sizeof(buffer[0]), "%.9g", (double)v);
    if (!strpbrk(text, ".e"))
        strcat(text, ".");
    strcat(text, "f");
    return text;
}

/* " - 3" or " + 3" for a zero point that is taken off or added, or nothing;
 * the text lies in one of a few buffers in turn. */
static const char *shift(int by)
{
    static char buffer[4][16];
    static int turn;
    char *text = buffer[turn++ % 4];

    snprintf(text, sizeof(buffer[0]), by < 0 ? " - %d" : " + %d",
             by < 0 ? -by : by);
    if (by == 0)
        text[0] = '\0';
    return text;
}

const char *emit_less_zero(int zero)
{
    return shift(-zero);
}

void emit_scaled_load(enum infer_dtype dtype, const char *element, float scale,
                      int zero, char text[EMIT_EXPRESSION])
{
    if (quant_is_byte(dtype))
        snprintf(text, EMIT_EXPRESSION, "(float)(%s%s) * %s", element,
                 emit_less_zero(zero), literal(scale));
    else
        snprintf(text, EMIT_EXPRESSION, "%s", element);
}

/* Rounds the float variable v, limited to the type, and stores it. */
static void store_limited(struct emit *e, const struct kern_problem *p,
                          const char *at)
{
    const struct kern_tensor *y = &p->out[0];
    float low, high;

    quant_limits(y->dtype, p->quant.y_zero, &low, &high);
    emit_helper(e, "to_nearest");
    emit_line(e, "v = !(v > %s) ? %s : v > %s ? %s : v;", literal(low),
              literal(low), literal(high), literal(high));
    emit_line(e, "y[%s] = (%s)(to_nearest(v)%s);", at, emit_type(y->dtype),
              shift(p->quant.y_zero));
}

void emit_scaled_store(struct emit *e, const struct kern_problem *p,
                       const char *at)
{
    const struct kern_tensor *y = &p->out[0];

    if (!quant_is_byte(y->dtype)) {
        emit_line(e, "y[%s] = %s;", at, emit_stored(e, y->dtype, "v"));
        return;
    }
    emit_line(e, "v /= %s;", literal(p->quant.y_scale));
    store_limited(e, p, at);
}

int emit_scaled_act(struct emit *e, const struct kern_problem *p,
                    struct infer_error *err)
{
    char act[48];
    const int rc = emit_unary_name(e, &p->epilogue.act, err, act);

    if (rc == 0 && act[0])
        emit_line(e, "v = (float)%s(v);", act);
    return rc;
}

/* A smooth activation of v by the steps of kernels/quant/act.h. */
static void emit_smooth(struct emit *e, const struct kern_unary *act)
{
    const struct quant_smooth s = quant_smooth_of(*act);
    const char *start =
        s.times ? "(v < -0x1p60f ? -0x1p60f : v) * " : "v != v ? v : ";

    if (s.hard) {
        emit_helper(e, "quant_hard");
        emit_line(e, "v = %squant_hard(fmaf(%s, v, %s));", start,
                  literal(s.alpha), literal(s.beta));
        return;
    }
    emit_helper(e, "quant_logistic");
    if (s.c1 != 0) {
        emit_helper(e, "quant_curve");
        emit_line(e, "v = %squant_logistic(quant_curve(v, %s, %s, %s));", start,
                  literal(s.c0), literal(s.c1), literal(s.c2));
    } else if (s.times) {
        emit_line(e, "v = %squant_logistic(%s * v);", start, literal(s.c0));
    } else {
        emit_line(e, "v = %sfmaf(%s, quant_logistic(%s * v), %s);", start,
                  literal(s.alpha), literal(s.c0), literal(s.beta));
    }
}

/* Adds the residual to v. */
static void add_residual(struct emit *e, const struct kern_problem *p,
                         const char *residual)
{
    const struct kern_tensor *r = kern_problem_in(p, 3);

    if (!r)
        return;
    if (quant_is_byte(r->dtype))
        emit_line(e, "v = fmaf((float)(%s%s), %s, v);", residual,
                  emit_less_zero(p->quant.residual_zero),
                  literal(p->quant.residual_scale));
    else
        emit_line(e, "v += (float)%s;", residual);
}

int emit_quantised(struct emit *e, const struct kern_problem *p,
                   const char *channel, const char *residual, const char *at,
                   struct infer_error *err)
{
    const struct kern_tensor *y = &p->out[0];
    int rc;

    if (kern_problem_in(p, 2))
        emit_line(e, "float v = fmaf((float)sum[k], m[%s], b[%s]);", channel,
                  channel);
    else
        emit_line(e, "float v = (float)sum[k] * m[%s];", channel);
    if (!p->epilogue.residual_last)
        add_residual(e, p, residual);
    if (quant_is_smooth(p->epilogue.act.kind)) {
        emit_smooth(e, &p->epilogue.act);
        rc = 0;
    } else {
        rc = emit_scaled_act(e, p, err);
    }
    if (p->epilogue.residual_last)
        add_residual(e, p, residual);
    if (!quant_is_byte(y->dtype)) {
        emit_line(e, "y[%s] = %s;", at, emit_stored(e, y->dtype, "v"));
        return rc;
    }
    emit_line(e, "v *= %s;", literal(1 / p->quant.y_scale));
    store_limited(e, p, at);
    return rc;
}

int emit_multipliers(struct emit *e, const struct plan_step *s,
                     struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct view scales = emit_view(s, QUANT_IN);
    const int64_t n = scales.t.dim[0];
    float *m;
    int rc;

    if (!emit_is_constant(e, &scales) || !plan_locate(e->plan, &scales))
        return error_set(err, INFER_EUNSUPPORTED, "scales that are computed");
    m = calloc((size_t)n + 1, sizeof(*m));
    if (!m)
        return error_set(err, INFER_EMEMORY, "out of memory");
    view_gather(&scales.t, plan_locate(e->plan, &scales), INFER_F32, m);
    for (int64_t k = 0; k < n; k++)
        m[k] = p->quant.x_scale * m[k];
    rc = emit_table(e, "m", INFER_F32, m, n, err);
    free(m);
    return rc;
}
