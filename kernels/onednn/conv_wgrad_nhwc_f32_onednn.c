/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of a convolution's weights through oneDNN's backward_weights,
 * 1-D to 3-D, channels last.  oneDNN writes the gradient in a blocked layout to
 * the workspace, after its scratchpad; a reorder then copies it to the output,
 * or adds it to the residual there.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"
#include "kernels/onednn/convolution.h"

#include <stdlib.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

/* in[] of a weight gradient */
enum { X, DY, RESIDUAL };

struct wgrad_config {
    dnnl_primitive_desc_t conv, reorder;
    dnnl_memory_desc_t given; /* the layout of dw */
};

struct state {
    struct onednn_primitive *conv, *reorder;
    size_t at; /* of the blocked weights in the workspace */
};

static void config_free(struct wgrad_config *config)
{
    if (config->conv)
        dnnl_primitive_desc_destroy(config->conv);
    if (config->reorder)
        dnnl_primitive_desc_destroy(config->reorder);
}

static int describe(const struct kern_problem *p, struct wgrad_config *config,
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
    if (!onednn_describe_weights(&p->out[0], p->attr.conv.groups,
                                 &config->given, &any) ||
        !cpu_is_dense(kern_problem_in(p, RESIDUAL), KERN_NCHW))
        return onednn_refuse(err, "makes dense row-major F32 weights");
    onednn_describe_window(&p->attr.conv, p->in[X].rank - 2, &window);
    return onednn_status(
        dnnl_dilated_convolution_backward_weights_desc_init(
            conv, dnnl_convolution_direct, &x, &any, NULL, &dy, window.stride,
            window.dilation, window.begin, window.end),
        "dnnl_dilated_convolution_backward_weights_desc_init", err);
}

/* The reorder from the convolution's blocked layout to the output's. */
static int config_reorder(const struct kern_problem *p,
                          struct wgrad_config *config, struct infer_error *err)
{
    const dnnl_memory_desc_t *from = dnnl_primitive_desc_query_md(
        config->conv, dnnl_query_diff_weights_md, 0);
    dnnl_engine_t engine = onednn_engine(err);
    dnnl_primitive_attr_t attr;
    int rc = onednn_attributes(p, kern_problem_in(p, RESIDUAL) != NULL, 1.0f,
                               err, &attr);

    if (rc < 0)
        return rc;
    rc =
        onednn_status(onednn_reorder_primitive_desc_create(
                          &config->reorder, from, &config->given, engine, attr),
                      "dnnl_reorder_primitive_desc_create", err);
    dnnl_primitive_attr_destroy(attr);
    return rc;
}

static int make_config(const struct kern_problem *p, int threads,
                       struct wgrad_config *config, struct infer_error *err)
{
    dnnl_convolution_desc_t conv;
    dnnl_primitive_attr_t attr;
    int rc;

    *config = (struct wgrad_config){0};
    rc = describe(p, config, &conv, err);
    if (rc == 0)
        rc = onednn_attributes(p, false, 1.0f, err, &attr);
    if (rc < 0)
        return rc;
    rc = onednn_choose(&conv, attr, threads, err, &config->conv);
    dnnl_primitive_attr_destroy(attr);
    if (rc == 0)
        rc = config_reorder(p, config, err);
    if (rc < 0)
        config_free(config);
    return rc;
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
    struct wgrad_config config;
    int rc;

    if (is_pointwise(p))
        return onednn_refuse(why, "leaves 1x1 windows to matrix products");
    rc = make_config(p, d->threads, &config, why);
    if (rc == 0)
        config_free(&config);
    return rc < 0 ? INFER_EUNSUPPORTED : 0;
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

/* launch() runs both with arguments of its own: the convolution's out[0] is the
 * reorder's in[0]. */
static int bind(const struct wgrad_config *config, struct kern_exec *e,
                struct infer_error *err)
{
    struct state *s = e->state;
    const dnnl_memory_desc_t *blocked = dnnl_primitive_desc_query_md(
        config->conv, dnnl_query_diff_weights_md, 0);
    int rc;

    onednn_bind(
        s->conv, DNNL_ARG_SRC, ONEDNN_IN(X),
        dnnl_primitive_desc_query_md(config->conv, dnnl_query_src_md, 0));
    onednn_bind(
        s->conv, DNNL_ARG_DIFF_DST, ONEDNN_IN(DY),
        dnnl_primitive_desc_query_md(config->conv, dnnl_query_diff_dst_md, 0));
    onednn_bind(s->conv, DNNL_ARG_DIFF_WEIGHTS, ONEDNN_OUT(0), blocked);
    s->at = onednn_bind_scratchpad(s->conv, config->conv);
    onednn_bind(s->reorder, DNNL_ARG_FROM, ONEDNN_IN(0), blocked);
    onednn_bind(s->reorder, DNNL_ARG_TO, ONEDNN_OUT(0), &config->given);
    e->workspace = onednn_bind_scratchpad(s->reorder, config->reorder);
    if (e->workspace < s->at)
        e->workspace = s->at;
    s->at = (e->workspace + 63) / 64 * 64;
    e->workspace = s->at + dnnl_memory_desc_get_size(blocked);
    rc = onednn_finish(s->conv, err);
    return rc < 0 ? rc : onednn_finish(s->reorder, err);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s;
    struct wgrad_config config;
    int rc = make_config(&e->problem, d->threads, &config, err);

    if (rc < 0)
        return rc;
    e->state = s = calloc(1, sizeof *s);
    if (!s)
        rc = error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    if (rc == 0)
        rc = onednn_create(config.conv, d->threads, err, &s->conv);
    if (rc == 0)
        rc = onednn_create(config.reorder, d->threads, err, &s->reorder);
    if (rc == 0)
        rc = bind(&config, e, err);
    config_free(&config);
    if (rc < 0)
        release(e);
    return rc;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    const struct kern_problem *p = &e->problem;
    struct kern_args inner = *args;
    int rc;

    inner.out[0] = (char *)args->workspace + s->at;
    rc = onednn_run(s->conv, &inner, err);
    if (rc < 0)
        return rc;
    if (kern_problem_in(p, RESIDUAL) && args->in[RESIDUAL] != args->out[0])
        cpu_copy(args->in[RESIDUAL], args->out[0],
                 kern_tensor_count(&p->out[0]), onednn_threads(s->conv));
    inner.in[0] = inner.out[0];
    inner.out[0] = args->out[0];
    return onednn_run(s->reorder, &inner, err);
}

KERN_FUNCTIONS(conv_wgrad_nhwc_f32_onednn) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = release,
};
