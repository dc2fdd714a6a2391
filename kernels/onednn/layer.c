/* SPDX-License-Identifier: Apache-2.0 */
/* Layers with constant weights; see layer.h. */
#include "config.h"

#include "kernels/onednn/layer.h"

#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"

bool onednn_layer_bias(const struct kern_problem *p, struct onednn_layer *layer,
                       dnnl_memory_desc_t *bias)
{
    const struct kern_tensor *t = kern_problem_in(p, ONEDNN_LAYER_BIAS);

    layer->has_bias = t != NULL;
    return t == NULL ||
           (kern_tensor_is_dense(t, KERN_NCHW) && onednn_describe(t, bias));
}

/* True if the activation is a pass over the result.  oneDNN spends as
 * much time in SiLU or GELU as in a convolution of few channels itself; with
 * AVX-512 the functions of kernels/cpu take half of that at most, memory
 * traffic included. */
static bool act_follows(const struct kern_problem *p)
{
    const enum kern_unary_kind kind = p->epilogue.act.kind;

    return (kind == KERN_SILU || kind == KERN_SIGMOID || kind == KERN_GELU) &&
           cpu_has_avx512() &&
           !(kern_problem_in(p, ONEDNN_LAYER_RESIDUAL) &&
             p->epilogue.residual_last);
}

int onednn_layer_choose(const struct kern_problem *p, const void *op_desc,
                        bool residual, int threads, struct onednn_layer *layer,
                        struct infer_error *err)
{
    struct kern_problem q = *p;
    dnnl_primitive_attr_t attr;
    int r;

    if (act_follows(p))
        q.epilogue.act.kind = KERN_IDENTITY;
    r = onednn_attributes(&q, residual, 1.0f, err, &attr);
    if (r < 0)
        return r;
    r = onednn_choose(op_desc, attr, threads, err, &layer->pd);
    dnnl_primitive_attr_destroy(attr);
    return r;
}

int onednn_layer_supports(onednn_layer_make *make, const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    struct onednn_layer layer;
    int r = make(p, d->threads, &layer, why);

    if (r == 0)
        dnnl_primitive_desc_destroy(layer.pd);
    return r < 0 ? INFER_EUNSUPPORTED : 0;
}

static int bind(const struct onednn_layer *layer, struct onednn_primitive *x,
                struct kern_exec *e, struct infer_error *err)
{
    const_dnnl_primitive_desc_t pd = layer->pd;

    onednn_bind(x, DNNL_ARG_SRC, ONEDNN_IN(ONEDNN_LAYER_X),
                dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0));
    e->packed[ONEDNN_LAYER_W] = onednn_bind_packed(
        x, DNNL_ARG_WEIGHTS, ONEDNN_LAYER_W, &layer->weights,
        dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
    if (layer->has_bias)
        onednn_bind(x, DNNL_ARG_BIAS, ONEDNN_IN(ONEDNN_LAYER_BIAS),
                    dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1));
    onednn_bind(x, DNNL_ARG_DST, ONEDNN_OUT(0),
                dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0));
    e->workspace = onednn_bind_scratchpad(x, layer->pd);
    if (onednn_wants_alignment())
        e->workspace = (e->workspace + 63) / 64 * 64 +
                       kern_tensor_span(&e->problem.out[0]);
    return onednn_finish(x, err);
}

int onednn_layer_prepare(onednn_layer_make *make, struct kern_exec *e,
                         const struct kern_device *d, struct infer_error *err)
{
    struct onednn_primitive *x;
    struct onednn_layer layer;
    int r = make(&e->problem, d->threads, &layer, err);

    if (r < 0)
        return r;
    r = onednn_create(layer.pd, d->threads, err, &x);
    if (r == 0)
        r = bind(&layer, e->state = x, e, err);
    dnnl_primitive_desc_destroy(layer.pd);
    if (r < 0)
        onednn_release(e);
    return r;
}

int onednn_layer_launch(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    const struct kern_tensor *y = &e->problem.out[0];
    const void *residual = kern_problem_in(&e->problem, ONEDNN_LAYER_RESIDUAL)
                               ? args->in[ONEDNN_LAYER_RESIDUAL]
                               : NULL;
    const int threads = onednn_threads(e->state);
    const int64_t count = kern_tensor_count(y);
    struct kern_args a = *args;
    int r;

    if (onednn_wants_alignment() && !onednn_is_aligned(a.out[0]))
        a.out[0] =
            (unsigned char *)a.workspace + e->workspace - kern_tensor_span(y);
    if (residual && residual != a.out[0])
        cpu_copy(residual, a.out[0], count, threads);
    r = onednn_launch(e, &a, err);
    if (r == 0 && a.out[0] != args->out[0])
        cpu_copy(a.out[0], args->out[0], count, threads);
    if (r == 0 && act_follows(&e->problem))
        cpu_act_parallel(&e->problem.epilogue.act, args->out[0], count,
                         threads);
    return r;
}
