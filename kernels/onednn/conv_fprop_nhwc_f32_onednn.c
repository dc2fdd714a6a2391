/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution through oneDNN's direct algorithms, 1-D to 3-D, channels last.
 *
 * With dense channels-last activations and weights in whatever blocked order
 * it likes (packed once, by pack()), oneDNN runs at the machine's peak: its
 * brgemm kernels for dense and 1x1 convolutions, brdgmm for depthwise ones.
 * It accepts no other strides, so neither does this row.  Bias, activation and
 * residual are applied in registers; the residual is added to from where the
 * result goes, so that a residual elsewhere is first copied there.
 */
#include "config.h"

#include "kernels/cpu/conv/vector.h"
#include "kernels/cpu/cpu.h"
#include "kernels/onednn/convolution.h"
#include "kernels/onednn/layer.h"

#include "kernels/base/error.h"
#include "kernels/problem.h"

/* in[] of a convolution */
enum { X, W, BIAS, RESIDUAL };

/* Whether some output position along a spatial dimension has every tap in the
 * padding.  There oneDNN 2.6.3 stores the residual alone, without the bias. */
static bool has_empty_window(const struct kern_problem *p)
{
    const struct kern_conv *a = &p->attr.conv;
    int d;

    for (d = 0; d < p->in[X].rank - 2; d++) {
        const int64_t extent = p->in[X].dim[2 + d];
        int64_t o, t;

        for (o = 0; o < p->out[0].dim[2 + d]; o++) {
            for (t = 0; t < p->in[W].dim[2 + d]; t++) {
                const int64_t at =
                    o * a->stride[d] + t * a->dilation[d] - a->pad_begin[d];

                if (at >= 0 && at < extent)
                    break;
            }
            if (t == p->in[W].dim[2 + d])
                return true;
        }
    }
    return false;
}

/* Whether oneDNN 2.6.3 faults: its depthwise kernel for SSE4.1 adds the
 * residual by an instruction that wants 16 bytes of alignment, which pixels of
 * a number of channels that 4 does not divide do not have. */
static bool residual_faults(const struct kern_problem *p)
{
    return dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_sse41 &&
           p->attr.conv.groups == p->in[X].dim[1] && p->out[0].dim[1] % 4 != 0;
}

static int describe(const struct kern_problem *p, dnnl_convolution_desc_t *conv,
                    struct onednn_layer *layer, struct infer_error *err)
{
    const struct kern_conv *a = &p->attr.conv;
    dnnl_memory_desc_t x, w, bias, y;
    struct onednn_window window;

    if (p->in[X].rank < 3 || p->in[X].rank > 5)
        return onednn_refuse(err, "takes 1 to 3 spatial dimensions");
    if (!cpu_is_dense(&p->in[X], KERN_NHWC) ||
        !cpu_is_dense(&p->out[0], KERN_NHWC) ||
        !onednn_describe(&p->in[X], &x) || !onednn_describe(&p->out[0], &y))
        return onednn_refuse(err, "takes dense channels-last F32 activations");
    if (!(p->constant_in & 1u << W) ||
        !onednn_describe_weights(&p->in[W], a->groups, &layer->weights, &w))
        return onednn_refuse(err, "takes constant dense F32 weights");
    if (!onednn_layer_bias(p, layer, &bias))
        return onednn_refuse(err, "takes a dense F32 bias");
    layer->has_residual = kern_problem_in(p, RESIDUAL) != NULL;
    if (layer->has_residual && !cpu_is_dense(&p->in[RESIDUAL], KERN_NHWC))
        return onednn_refuse(err, "takes a dense channels-last F32 residual");
    if (layer->has_residual && has_empty_window(p))
        return onednn_refuse(err, "takes no residual where a window lies "
                                  "wholly in the padding");
    if (layer->has_residual && residual_faults(p))
        return onednn_refuse(err, "takes no residual of a depthwise layer "
                                  "with such channels on SSE4.1");
    onednn_describe_window(a, p->in[X].rank - 2, &window);
    return onednn_status(dnnl_dilated_convolution_forward_desc_init(
                             conv, dnnl_forward_inference,
                             dnnl_convolution_direct, &x, &w,
                             layer->has_bias ? &bias : NULL, &y, window.stride,
                             window.dilation, window.begin, window.end),
                         "dnnl_dilated_convolution_forward_desc_init", err);
}

static int make(const struct kern_problem *p, int threads,
                struct onednn_layer *layer, struct infer_error *err)
{
    dnnl_convolution_desc_t conv;
    int r = describe(p, &conv, layer, err);

    if (r < 0)
        return r;
    return onednn_layer_choose(p, &conv, layer->has_residual, threads, layer,
                               err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    if (vector_conv_spreads(p))
        return onednn_refuse(why, "leaves groups that share a vector to the "
                                  "row of any window");
    if (vector_conv_streams(p))
        return onednn_refuse(why, "leaves many weights for few pixels to the "
                                  "pointwise row and that of any window");
    return onednn_layer_supports(make, p, d, why);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    return onednn_layer_prepare(make, e, d, err);
}

KERN_FUNCTIONS(conv_fprop_nhwc_f32_onednn) = {
    .supports = supports,
    .prepare = prepare,
    .pack = onednn_pack,
    .launch = onednn_layer_launch,
    .release = onednn_release,
};
