/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposed convolution through oneDNN's deconvolution, 1-D to 3-D, channels
 * last, with bias and activation in its epilogue.  Its weights are packed once.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"
#include "kernels/onednn/convolution.h"
#include "kernels/onednn/layer.h"

#include "kernels/base/error.h"
#include "kernels/problem.h"

/* in[] of a transposed convolution */
enum { X, W, BIAS, RESIDUAL };

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

static int make(const struct kern_problem *p, int threads,
                struct onednn_layer *layer, struct infer_error *err)
{
    dnnl_memory_desc_t x, w, bias, y;
    dnnl_deconvolution_desc_t deconv;
    struct onednn_window window;
    int r;

    if (p->in[X].rank < 3 || p->in[X].rank > 5)
        return onednn_refuse(err, "takes 1 to 3 spatial dimensions");
    if (!kern_tensor_is_dense(&p->in[X], KERN_NHWC) ||
        !kern_tensor_is_dense(&p->out[0], KERN_NHWC) ||
        !onednn_describe(&p->in[X], &x) || !onednn_describe(&p->out[0], &y))
        return onednn_refuse(err, "takes dense channels-last F32 activations");
    layer->has_residual = kern_problem_in(p, RESIDUAL) != NULL;
    if (layer->has_residual && (p->epilogue.act.kind != KERN_IDENTITY ||
                                !cpu_is_dense(&p->in[RESIDUAL], KERN_NHWC)))
        return onednn_refuse(err, "adds a dense channels-last F32 residual, "
                                  "and that without an activation");
    if (!describe_weights(p, &layer->weights, &w))
        return onednn_refuse(err, "takes constant dense F32 weights");
    if (!onednn_layer_bias(p, layer, &bias))
        return onednn_refuse(err, "takes a dense F32 bias");
    onednn_describe_window(&p->attr.conv, p->in[X].rank - 2, &window);
    r = onednn_status(dnnl_dilated_deconvolution_forward_desc_init(
                          &deconv, dnnl_forward_inference,
                          dnnl_deconvolution_direct, &x, &w,
                          layer->has_bias ? &bias : NULL, &y, window.stride,
                          window.dilation, window.begin, window.end),
                      "dnnl_dilated_deconvolution_forward_desc_init", err);
    if (r < 0)
        return r;
    /* launch() adds the residual. */
    return onednn_layer_choose(p, &deconv, false, threads, layer, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    return onednn_layer_supports(make, p, d, why);
}

/* With a residual, the result lies after the scratchpad until both are added:
 * the residual's memory may be the output's. */
static size_t scratchpad(const struct kern_exec *e, size_t bytes)
{
    if (!kern_problem_in(&e->problem, RESIDUAL))
        return bytes;
    return (bytes + 63) / 64 * 64 + kern_tensor_span(&e->problem.out[0]);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    int r = onednn_layer_prepare(make, e, d, err);

    if (r == 0)
        e->workspace = scratchpad(e, e->workspace);
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
    struct kern_args product = *args;
    struct sum s = {.n = kern_tensor_count(y)};
    int r;

    if (!kern_problem_in(&e->problem, RESIDUAL))
        return onednn_layer_launch(e, args, err);
    product.out[0] =
        (char *)args->workspace + e->workspace - kern_tensor_span(y);
    r = onednn_launch(e, &product, err);
    if (r < 0)
        return r;
    s.a = product.out[0];
    s.b = args->in[RESIDUAL];
    s.y = args->out[0];
    kern_cpu_each(onednn_threads(e->state), (s.n + PART - 1) / PART, add_part,
                  &s);
    return 0;
}

KERN_FUNCTIONS(conv_transpose_fprop_nhwc_f32_onednn) = {
    .supports = supports,
    .prepare = prepare,
    .pack = onednn_pack,
    .launch = launch,
    .release = onednn_release,
};
