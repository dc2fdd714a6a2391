/* SPDX-License-Identifier: Apache-2.0 */
/* Problems, geometry and ends of layers on integers of 8 bits. */
#include "config.h"

#include "kernels/cpu/conv/dot_layer.h"

#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/quant/act.h"

static bool is_vector_type(const struct kern_tensor *t)
{
    return !t || quant_is_byte(t->dtype) || t->dtype == INFER_F32;
}

static int supports(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *r = kern_problem_in(p, DOT_RESIDUAL);
    const struct kern_tensor *b = kern_problem_in(p, DOT_BIAS);
    float low, high;

    if (!quant_of(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes integers of 8 bits");
    if (!(p->constant_in & 1u << DOT_W) ||
        !kern_tensor_is_dense(&p->in[DOT_W], KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes constant dense weights");
    if ((b && !kern_tensor_is_dense(b, KERN_NCHW)) ||
        !is_vector_type(&p->out[0]) || !is_vector_type(r))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes and gives I8, U8 and F32, and a dense bias");
    if (!cpu_act_bounds(&p->epilogue.act, &low, &high) &&
        !quant_is_smooth(p->epilogue.act.kind))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    return 0;
}

int dot_conv_supports(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *r = kern_problem_in(p, DOT_RESIDUAL);

    if (!cpu_channels_inner(&p->in[DOT_X]) || !cpu_channels_inner(&p->out[0]) ||
        (r && !cpu_channels_inner(r)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels-last activations");
    return supports(p, why);
}

int dot_dense_supports(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *r = kern_problem_in(p, DOT_RESIDUAL);

    if (!kern_tensor_is_dense(&p->in[DOT_X], KERN_NCHW) ||
        !kern_tensor_is_dense(&p->out[0], KERN_NCHW) ||
        (r && !kern_tensor_is_dense(r, KERN_NCHW)))
        return error_set(why, INFER_EUNSUPPORTED, "takes dense rows");
    return supports(p, why);
}

/* ---- geometry ------------------------------------------------------ */

static void conv_geometry(const struct kern_problem *p, struct dot_layer *g)
{
    const struct kern_conv *c = &p->attr.conv;
    const struct kern_tensor *x = &p->in[DOT_X], *y = &p->out[0];
    const struct kern_tensor *r = kern_problem_in(p, DOT_RESIDUAL);
    const int spatial = x->rank - 2;

    for (int i = 0; i < spatial; i++) {
        const int d = 3 - spatial + i;

        g->in[d] = x->dim[i + 2];
        g->out[d] = y->dim[i + 2];
        g->window[d] = p->in[DOT_W].dim[i + 2];
        g->step[d] = c->stride[i];
        g->dilation[d] = c->dilation[i];
        g->pad[d] = c->pad_begin[i];
        g->x[d] = x->stride[i + 2];
        g->y[d] = y->stride[i + 2];
        g->r[d] = r ? r->stride[i + 2] : 0;
    }
    g->x_image = x->stride[0];
    g->y_image = y->stride[0];
    g->r_image = r ? r->stride[0] : 0;
    g->groups = c->groups;
    g->channels = p->in[DOT_W].dim[1];
    g->outputs = y->dim[1] / c->groups;
    g->pixels = y->dim[1] ? kern_tensor_count(y) / y->dim[1] : 0;
}

static void dense_geometry(const struct kern_problem *p, struct dot_layer *g)
{
    g->channels = g->x_image = p->in[DOT_W].dim[1];
    g->outputs = g->y_image = g->r_image = p->in[DOT_W].dim[0];
    g->pixels = g->outputs ? kern_tensor_count(&p->out[0]) / g->outputs : 0;
}

void dot_layer_read(const struct kern_problem *p, struct dot_layer *g)
{
    for (int d = 0; d < 3; d++)
        g->in[d] = g->out[d] = g->window[d] = g->step[d] = g->dilation[d] = 1;
    g->groups = 1;
    if (p->op == KERN_CONV_FPROP)
        conv_geometry(p, g);
    else
        dense_geometry(p, g);
    g->taps = g->window[0] * g->window[1] * g->window[2];
    g->terms = g->taps * g->channels;
    g->quads = (g->terms + 3) / 4;
}

/* ---- ends ---------------------------------------------------------- */

int64_t dot_layer_vector(const struct dot_layer *g)
{
    return (g->outputs * g->groups + 2 * DOT_MAX_PANEL - 1) / DOT_MAX_PANEL *
           DOT_MAX_PANEL;
}

void dot_layer_vectors(const struct dot_layer *g, const struct kern_problem *p,
                       const struct kern_args *args, float *scale, float *bias)
{
    const int64_t step = quant_of(p)->stride[0], n = g->outputs * g->groups;
    const int64_t all = dot_layer_vector(g);
    const float *from = args->in[QUANT_IN], *b = args->in[DOT_BIAS];

    for (int64_t k = 0; k < n; k++) {
        scale[k] = p->quant.x_scale * from[k * step];
        bias[k] = kern_problem_in(p, DOT_BIAS) ? b[k] : 0;
    }
    memset(scale + n, 0, (size_t)(all - n) * sizeof(float));
    memset(bias + n, 0, (size_t)(all - n) * sizeof(float));
}

/* A limit of v * inverse as an unsigned byte of y. */
static uint8_t limit_of(const struct dot_finish *f, float v, float low,
                        float high)
{
    return (uint8_t)(nearbyintf(fminf(fmaxf(v, low), high)) + (float)f->shift);
}

void dot_layer_finish(const struct kern_problem *p,
                      const struct kern_args *args, struct dot_finish *f)
{
    const struct kern_tensor *r = kern_problem_in(p, DOT_RESIDUAL);
    float low, high;
    bool after;

    (void)cpu_act_bounds(&p->epilogue.act, &f->act_low, &f->act_high);
    f->is_smooth = quant_is_smooth(p->epilogue.act.kind);
    f->smooth = quant_smooth_of(p->epilogue.act);
    f->y = args->out[0];
    f->y_type = p->out[0].dtype;
    f->residual = r ? args->in[DOT_RESIDUAL] : NULL;
    f->type = r ? r->dtype : INFER_NONE;
    f->residual_last = p->epilogue.residual_last;
    f->r_scale = p->quant.residual_scale;
    f->r_zero = p->quant.residual_zero;
    if (!quant_is_byte(f->y_type))
        return;
    f->inverse = 1 / p->quant.y_scale;
    f->flip = f->y_type == INFER_I8 ? 0x80 : 0;
    f->shift = p->quant.y_zero + f->flip;
    quant_limits(f->y_type, p->quant.y_zero, &low, &high);
    /* Scaling and rounding keep the order, so that the activation's limits
     * can follow them. */
    after = r && f->residual_last;
    f->least = limit_of(f, after ? low : f->act_low * f->inverse, low, high);
    f->most = limit_of(f, after ? high : f->act_high * f->inverse, low, high);
}
