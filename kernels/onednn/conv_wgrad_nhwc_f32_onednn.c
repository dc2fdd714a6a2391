/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of a convolution's weights through oneDNN's backward_weights,
 * 1-D to 3-D, channels last.  It makes them in a blocked order of its own, in
 * the workspace behind its scratchpad; a reorder then takes them, or adds them,
 * to where they belong.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"
#include "kernels/onednn/convolution.h"

#include <stdlib.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

extern const struct kern_row conv_wgrad_nhwc_f32_onednn;

/* in[] of a weight gradient */
enum { X, DY, RESIDUAL };

struct plan {
    dnnl_primitive_desc_t conv, reorder;
    dnnl_memory_desc_t given; /* dw as the problem wants it */
};

struct state {
    struct onednn_primitive *conv, *reorder;
    size_t at; /* of the blocked weights in the workspace */
};

static void plan_free(struct plan *plan)
{
    if (plan->conv)
        dnnl_primitive_desc_destroy(plan->conv);
    if (plan->reorder)
        dnnl_primitive_desc_destroy(plan->reorder);
}

static int describe(const struct kern_problem *p, struct plan *plan,
                    dnnl_convolution_desc_t *conv, struct infer_error *err)
{
    dnnl_memory_desc_t x, dy, any;
    struct onednn_window window;

    if (p->in[X].rank < 3 || p->in[X].rank > 5)
        return onednn_refuse(err, "takes 1 to 3 spatial dimensions");
    if (!cpu_is_dense(&p->in[X], KERN_NHWC) ||
        !cpu_is_dense(&p->in[DY], KERN_NHWC) ||
        !onednn_describe(&p->in[X], &x) || !onednn_describe(&p->in[DY], &dy))
        return onednn_refuse(err, "takes dense channels-last F32 activations");
    if (!onednn_describe_weights(&p->out[0], p->attr.conv.groups, &plan->given,
                                 &any) ||
        !cpu_is_dense(kern_problem_in(p, RESIDUAL), KERN_NCHW))
        return onednn_refuse(err, "makes dense row-major F32 weights");
    onednn_describe_window(&p->attr.conv, p->in[X].rank - 2, &window);
    return onednn_status(
        dnnl_dilated_convolution_backward_weights_desc_init(
            conv, dnnl_convolution_direct, &x, &any, NULL, &dy, window.stride,
            window.dilation, window.begin, window.end),
        "dnnl_dilated_convolution_backward_weights_desc_init", err);
}

/* From what the convolution makes to what the problem wants. */
static int plan_reorder(const struct kern_problem *p, struct plan *plan,
                        struct infer_error *err)
{
    const dnnl_memory_desc_t *from =
        dnnl_primitive_desc_query_md(plan->conv, dnnl_query_diff_weights_md, 0);
    dnnl_engine_t engine = onednn_engine(err);
    dnnl_primitive_attr_t attr;
    int r = onednn_attributes(p, kern_problem_in(p, RESIDUAL) != NULL, 1.0f,
                              err, &attr);

    if (r < 0)
        return r;
    r = onednn_status(dnnl_reorder_primitive_desc_create(&plan->reorder, from,
                                                         engine, &plan->given,
                                                         engine, attr),
                      "dnnl_reorder_primitive_desc_create", err);
    dnnl_primitive_attr_destroy(attr);
    return r;
}

static int make_plan(const struct kern_problem *p, int threads,
                     struct plan *plan, struct infer_error *err)
{
    dnnl_convolution_desc_t conv;
    dnnl_primitive_attr_t attr;
    int r;

    *plan = (struct plan){0};
    r = describe(p, plan, &conv, err);
    if (r == 0)
        r = onednn_attributes(p, false, 1.0f, err, &attr);
    if (r < 0)
        return r;
    r = onednn_choose(&conv, attr, threads, err, &plan->conv);
    dnnl_primitive_attr_destroy(attr);
    if (r == 0)
        r = plan_reorder(p, plan, err);
    if (r < 0)
        plan_free(plan);
    return r;
}

/* A 1x1 window with stride 1 and no pads is one matrix product.  With few
 * channels or one pixel an image, as dense layers have, oneDNN 2.6.3 takes from
 * four to a hundred times as long as that. */
static bool is_pointwise(const struct kern_problem *p)
{
    const struct kern_conv *a = &p->attr.conv;

    for (int i = 0; i + 2 < p->out[0].rank; i++)
        if (p->out[0].dim[2 + i] != 1 || a->stride[i] != 1 ||
            a->pad_begin[i] != 0 || a->pad_end[i] != 0)
            return false;
    return p->out[0].rank == 4 && a->groups == 1;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct plan plan;
    int r;

    if (is_pointwise(p))
        return onednn_refuse(why, "leaves 1x1 windows to matrix products");
    r = make_plan(p, d->threads, &plan, why);
    if (r == 0)
        plan_free(&plan);
    return r < 0 ? INFER_EUNSUPPORTED : 0;
}

static void release(struct kern_exec *e)
{
    struct state *s = e->state;

    if (!s)
        return;
    onednn_destroy(s->conv);
    onednn_destroy(s->reorder);
    free(s);
    e->state = NULL;
}

/* The convolution's result is the reorder's source: in[0] and out[0] of
 * launches that launch() makes up. */
static int bind(const struct plan *plan, struct kern_exec *e,
                struct infer_error *err)
{
    struct state *s = e->state;
    const dnnl_memory_desc_t *blocked =
        dnnl_primitive_desc_query_md(plan->conv, dnnl_query_diff_weights_md, 0);
    int r;

    onednn_bind(s->conv, DNNL_ARG_SRC, ONEDNN_IN(X),
                dnnl_primitive_desc_query_md(plan->conv, dnnl_query_src_md, 0));
    onednn_bind(
        s->conv, DNNL_ARG_DIFF_DST, ONEDNN_IN(DY),
        dnnl_primitive_desc_query_md(plan->conv, dnnl_query_diff_dst_md, 0));
    onednn_bind(s->conv, DNNL_ARG_DIFF_WEIGHTS, ONEDNN_OUT(0), blocked);
    s->at = onednn_bind_scratchpad(s->conv, plan->conv);
    onednn_bind(s->reorder, DNNL_ARG_FROM, ONEDNN_IN(0), blocked);
    onednn_bind(s->reorder, DNNL_ARG_TO, ONEDNN_OUT(0), &plan->given);
    e->workspace = onednn_bind_scratchpad(s->reorder, plan->reorder);
    if (e->workspace < s->at)
        e->workspace = s->at;
    s->at = (e->workspace + 63) / 64 * 64;
    e->workspace = s->at + dnnl_memory_desc_get_size(blocked);
    r = onednn_finish(s->conv, err);
    return r < 0 ? r : onednn_finish(s->reorder, err);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s;
    struct plan plan;
    int r = make_plan(&e->problem, d->threads, &plan, err);

    if (r < 0)
        return r;
    e->state = s = calloc(1, sizeof *s);
    if (!s)
        r = error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    if (r == 0)
        r = onednn_create(plan.conv, d->threads, err, &s->conv);
    if (r == 0)
        r = onednn_create(plan.reorder, d->threads, err, &s->reorder);
    if (r == 0)
        r = bind(&plan, e, err);
    plan_free(&plan);
    if (r < 0)
        release(e);
    return r;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    const struct kern_problem *p = &e->problem;
    struct kern_args apart = *args;
    int r;

    apart.out[0] = (char *)args->workspace + s->at;
    r = onednn_run(s->conv, &apart, err);
    if (r < 0)
        return r;
    if (kern_problem_in(p, RESIDUAL) && args->in[RESIDUAL] != args->out[0])
        cpu_copy(args->in[RESIDUAL], args->out[0],
                 kern_tensor_count(&p->out[0]), onednn_threads(s->conv));
    apart.in[0] = apart.out[0];
    apart.out[0] = args->out[0];
    return onednn_run(s->reorder, &apart, err);
}

const struct kern_row conv_wgrad_nhwc_f32_onednn = {
    .name = "conv_wgrad_nhwc_f32_onednn",
    .op = KERN_CONV_WGRAD,
    .backend = INFER_BACKEND_ONEDNN,
    .layout = KERN_NHWC,
    .dtype = INFER_F32,
    .acc = INFER_F32,
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = release,
};
