/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = act(x W^T + bias + residual) over the last dimension, through oneDNN's
 * inner product, with W packed once.  Leading dimensions are rows: M x C times
 * C x K.
 */
#include "config.h"

#include "kernels/onednn/layer.h"

#include "kernels/base/error.h"
#include "kernels/problem.h"

/* in[] of a dense layer */
enum { X, W, BIAS, RESIDUAL };

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

static int make(const struct kern_problem *p, int threads,
                struct onednn_layer *layer, struct infer_error *err)
{
    const struct kern_tensor *residual = kern_problem_in(p, RESIDUAL);
    dnnl_memory_desc_t x, w, bias, added, y;
    dnnl_inner_product_desc_t product;
    int r;

    if (!describe_rows(&p->in[X], &x) || !describe_rows(&p->out[0], &y))
        return onednn_refuse(err, "takes dense row-major F32 activations");
    if (!(p->constant_in & 1u << W) || p->in[W].rank != 2 ||
        !describe_rows(&p->in[W], &layer->weights) ||
        !onednn_describe_any(&p->in[W], &w))
        return onednn_refuse(err, "takes constant dense F32 weights");
    if (!onednn_layer_bias(p, layer, &bias))
        return onednn_refuse(err, "takes a dense F32 bias");
    layer->has_residual = residual != NULL;
    if (residual && !describe_rows(residual, &added))
        return onednn_refuse(err, "takes a dense row-major F32 residual");
    r = onednn_status(dnnl_inner_product_forward_desc_init(
                          &product, dnnl_forward_inference, &x, &w,
                          layer->has_bias ? &bias : NULL, &y),
                      "dnnl_inner_product_forward_desc_init", err);
    if (r < 0)
        return r;
    return onednn_layer_choose(p, &product, layer->has_residual, threads, layer,
                               err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    return onednn_layer_supports(make, p, d, why);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    return onednn_layer_prepare(make, e, d, err);
}

KERN_FUNCTIONS(dense_fprop_f32_onednn) = {
    .supports = supports,
    .prepare = prepare,
    .pack = onednn_pack,
    .launch = onednn_layer_launch,
    .release = onednn_release,
};
