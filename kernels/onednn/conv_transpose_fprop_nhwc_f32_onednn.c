/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposed convolution through oneDNN's deconvolution, 1-D to 3-D, channels
 * last, with bias and activation in its epilogue.  Its weights are packed once.
 */
#include "config.h"

#include "kernels/onednn/cpu.h"
#include "kernels/onednn/primitive.h"

#include "kernels/error.h"
#include "kernels/problem.h"

extern const struct kern_row conv_transpose_fprop_nhwc_f32_onednn;

/* in[] of a transposed convolution */
enum { X, W, BIAS, RESIDUAL };

struct plan {
    dnnl_primitive_desc_t pd;
    dnnl_memory_desc_t weights; /* as the problem gives them */
    bool has_bias;
};

/* Weights lie as C,K/g,window; oneDNN counts them as [g],K/g,C/g,window. */
static bool describe_weights(const struct kern_problem *p,
                             dnnl_memory_desc_t *given, dnnl_memory_desc_t *any)
{
    const struct kern_tensor *w = &p->in[W];
    const int64_t g = p->attr.conv.groups;
    struct kern_tensor v = {.dtype = w->dtype, .rank = w->rank};
    int64_t window = 1;
    int i, at = 0;

    if (!(p->constant_in & 1u << W) || !kern_tensor_is_dense(w, KERN_NCHW) ||
        w->dtype != INFER_F32 || g < 1 || w->dim[0] % g != 0)
        return false;
    for (i = 2; i < w->rank; i++)
        window *= w->dim[i];
    if (g > 1) {
        v.rank++;
        v.dim[at] = g;
        v.stride[at++] = w->dim[0] / g * w->dim[1] * window;
    }
    v.dim[at] = w->dim[1];
    v.stride[at++] = window;
    v.dim[at] = w->dim[0] / g;
    v.stride[at++] = w->dim[1] * window;
    for (i = 2; i < w->rank; i++, at++) {
        v.dim[at] = w->dim[i];
        v.stride[at] = w->stride[i];
    }
    return onednn_describe(&v, given) && onednn_describe_any(&v, any);
}

static int describe(const struct kern_problem *p,
                    dnnl_deconvolution_desc_t *deconv, struct plan *plan,
                    struct infer_error *err)
{
    const struct kern_conv *a = &p->attr.conv;
    dnnl_memory_desc_t x, w, bias, y;
    dnnl_dims_t stride, dilation, begin, end;
    int i;

    if (p->in[X].rank < 3 || p->in[X].rank > 5)
        return onednn_refuse(err, "takes 1 to 3 spatial dimensions");
    if (!kern_tensor_is_dense(&p->in[X], KERN_NHWC) ||
        !kern_tensor_is_dense(&p->out[0], KERN_NHWC) ||
        !onednn_describe(&p->in[X], &x) || !onednn_describe(&p->out[0], &y))
        return onednn_refuse(err, "takes dense channels-last F32 activations");
    if (kern_problem_in(p, RESIDUAL) &&
        (p->epilogue.act.kind != KERN_IDENTITY ||
         !kern_tensor_is_dense(&p->in[RESIDUAL], KERN_NHWC) ||
         p->in[RESIDUAL].dtype != INFER_F32))
        return onednn_refuse(err, "adds a dense channels-last F32 residual, "
                                  "and that without an activation");
    if (!describe_weights(p, &plan->weights, &w))
        return onednn_refuse(err, "takes constant dense F32 weights");
    plan->has_bias = p->n_in > BIAS && p->in[BIAS].dtype != INFER_NONE;
    if (plan->has_bias && (!kern_tensor_is_dense(&p->in[BIAS], KERN_NCHW) ||
                           !onednn_describe(&p->in[BIAS], &bias)))
        return onednn_refuse(err, "takes a dense F32 bias");
    for (i = 0; i < p->in[X].rank - 2; i++) {
        stride[i] = a->stride[i];
        dilation[i] = a->dilation[i] - 1;
        begin[i] = a->pad_begin[i];
        end[i] = a->pad_end[i];
    }
    return onednn_status(
        dnnl_dilated_deconvolution_forward_desc_init(
            deconv, dnnl_forward_inference, dnnl_deconvolution_direct, &x, &w,
            plan->has_bias ? &bias : NULL, &y, stride, dilation, begin, end),
        "dnnl_dilated_deconvolution_forward_desc_init", err);
}

static int make_plan(const struct kern_problem *p, int threads,
                     struct plan *plan, struct infer_error *err)
{
    dnnl_deconvolution_desc_t deconv;
    dnnl_primitive_attr_t attr;
    int r = describe(p, &deconv, plan, err);

    if (r == 0)
        r = onednn_attributes(p, false, 1.0f, err, &attr);
    if (r < 0)
        return r;
    r = onednn_choose(&deconv, attr, threads, err, &plan->pd);
    dnnl_primitive_attr_destroy(attr);
    return r;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct plan plan;
    int r = make_plan(p, d->threads, &plan, why);

    if (r == 0)
        dnnl_primitive_desc_destroy(plan.pd);
    return r < 0 ? INFER_EUNSUPPORTED : 0;
}

/* With a residual, the result lies behind the scratchpad until both are added:
 * the residual's memory may be the output's. */
static size_t scratchpad(const struct kern_exec *e, size_t bytes)
{
    if (!kern_problem_in(&e->problem, RESIDUAL))
        return bytes;
    return (bytes + 63) / 64 * 64 + kern_tensor_span(&e->problem.out[0]);
}

static int bind(const struct plan *plan, struct onednn_primitive *x,
                struct kern_exec *e, struct infer_error *err)
{
    const_dnnl_primitive_desc_t pd = plan->pd;

    onednn_bind(x, DNNL_ARG_SRC, ONEDNN_IN(X),
                dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0));
    e->packed[W] = onednn_bind_packed(
        x, DNNL_ARG_WEIGHTS, W, &plan->weights,
        dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
    if (plan->has_bias)
        onednn_bind(x, DNNL_ARG_BIAS, ONEDNN_IN(BIAS),
                    dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1));
    onednn_bind(x, DNNL_ARG_DST, ONEDNN_OUT(0),
                dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0));
    e->workspace = scratchpad(e, onednn_bind_scratchpad(x, plan->pd));
    return onednn_finish(x, err);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct onednn_primitive *x;
    struct plan plan;
    int r = make_plan(&e->problem, d->threads, &plan, err);

    if (r < 0)
        return r;
    r = onednn_create(plan.pd, d->threads, err, &x);
    if (r == 0)
        r = bind(&plan, e->state = x, e, err);
    dnnl_primitive_desc_destroy(plan.pd);
    if (r < 0)
        onednn_release(e);
    return r;
}

struct sum {
    const float *a, *b;
    float *y;
    int64_t n;
};

/* Part i of the sum, PART elements. */
#define PART 16384

static void add_part(void *context, int64_t i)
{
    const struct sum *s = context;
    const int64_t from = i * PART;
    const int64_t to = from + PART < s->n ? from + PART : s->n;
    int64_t j;

    for (j = from; j < to; j++)
        s->y[j] = s->a[j] + s->b[j];
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_tensor *y = &e->problem.out[0];
    struct kern_args apart = *args;
    struct sum s = {.n = kern_tensor_count(y)};
    int r;

    if (!kern_problem_in(&e->problem, RESIDUAL))
        return onednn_launch(e, args, err);
    apart.out[0] = (char *)args->workspace + e->workspace - kern_tensor_span(y);
    r = onednn_launch(e, &apart, err);
    if (r < 0)
        return r;
    s.a = apart.out[0];
    s.b = args->in[RESIDUAL];
    s.y = args->out[0];
    cpu_each(onednn_threads(e->state), (s.n + PART - 1) / PART, add_part, &s);
    return 0;
}

const struct kern_row conv_transpose_fprop_nhwc_f32_onednn = {
    .name = "conv_transpose_fprop_nhwc_f32_onednn",
    .op = KERN_CONV_TRANSPOSE_FPROP,
    .backend = INFER_BACKEND_ONEDNN,
    .layout = KERN_NHWC,
    .dtype = INFER_F32,
    .acc = INFER_F32,
    .supports = supports,
    .prepare = prepare,
    .pack = onednn_pack,
    .launch = launch,
    .release = onednn_release,
};
