/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = act(x W^T + bias + residual) over the last dimension, through oneDNN's
 * inner product, with W packed once.  Leading dimensions are rows: M x C times
 * C x K.
 */
#include "config.h"

#include "kernels/onednn/primitive.h"

#include "kernels/error.h"

extern const struct kern_row dense_fprop_f32_onednn;

/* in[] of a dense layer */
enum { X, W, BIAS, RESIDUAL };

struct plan {
    dnnl_primitive_desc_t pd;
    dnnl_memory_desc_t weights; /* as the problem gives them */
    bool has_bias, has_residual;
};

static bool present(const struct kern_problem *p, int i)
{
    return i < p->n_in && p->in[i].dtype != INFER_NONE;
}

/* Describes a dense row-major tensor as rows of its last dimension. */
static bool describe_rows(const struct kern_tensor *t, dnnl_memory_desc_t *out)
{
    const int64_t columns = t->rank > 0 ? t->dim[t->rank - 1] : 0;
    struct kern_tensor rows = {.dtype = t->dtype, .rank = 2};

    if (columns < 1 || !kern_tensor_is_dense(t, KERN_NCHW))
        return false;
    rows.dim[0] = kern_tensor_count(t) / columns;
    rows.dim[1] = columns;
    rows.stride[0] = columns;
    rows.stride[1] = 1;
    return onednn_describe(&rows, out);
}

static int describe(const struct kern_problem *p,
                    dnnl_inner_product_desc_t *product, struct plan *plan,
                    struct infer_error *err)
{
    dnnl_memory_desc_t x, w, bias, residual, y;

    if (!describe_rows(&p->in[X], &x) || !describe_rows(&p->out[0], &y))
        return onednn_refuse(err, "takes dense row-major F32 activations");
    if (!(p->constant_in & 1u << W) || p->in[W].rank != 2 ||
        !describe_rows(&p->in[W], &plan->weights) ||
        !onednn_describe_any(&p->in[W], &w))
        return onednn_refuse(err, "takes constant dense F32 weights");
    plan->has_bias = present(p, BIAS);
    if (plan->has_bias && (!kern_tensor_is_dense(&p->in[BIAS], KERN_NCHW) ||
                           !onednn_describe(&p->in[BIAS], &bias)))
        return onednn_refuse(err, "takes a dense F32 bias");
    plan->has_residual = present(p, RESIDUAL);
    if (plan->has_residual && !describe_rows(&p->in[RESIDUAL], &residual))
        return onednn_refuse(err, "takes a dense row-major F32 residual");
    return onednn_status(dnnl_inner_product_forward_desc_init(
                             product, dnnl_forward_inference, &x, &w,
                             plan->has_bias ? &bias : NULL, &y),
                         "dnnl_inner_product_forward_desc_init", err);
}

static int make_plan(const struct kern_problem *p, int threads,
                     struct plan *plan, struct infer_error *err)
{
    dnnl_inner_product_desc_t product;
    dnnl_primitive_attr_t attr;
    int r;

    r = describe(p, &product, plan, err);
    if (r == 0)
        r = onednn_attributes(p, plan->has_residual, 1.0f, err, &attr);
    if (r < 0)
        return r;
    r = onednn_choose(&product, attr, threads, err, &plan->pd);
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
    e->workspace = onednn_bind_scratchpad(x, plan->pd);
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

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    if (present(&e->problem, RESIDUAL))
        return onednn_launch_residual(e, args, err);
    return onednn_launch(e, args, err);
}

const struct kern_row dense_fprop_f32_onednn = {
    .name = "dense_fprop_f32_onednn",
    .op = KERN_DENSE_FPROP,
    .backend = INFER_BACKEND_ONEDNN,
    .layout = KERN_NCHW,
    .dtype = INFER_F32,
    .acc = INFER_F32,
    .supports = supports,
    .prepare = prepare,
    .pack = onednn_pack,
    .launch = launch,
    .release = onednn_release,
};
