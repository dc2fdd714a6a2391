/* SPDX-License-Identifier: Apache-2.0 */
/* Caffe: convolutions, dense layers and pooling. */
#include "kernels/base/error.h"
#include "weights/caffe/caffe.h"

/* ---- convolutions -------------------------------------------------- */

struct window {
    int size[2], stride[2], pad[2], dilation[2];
};

static void read_window(struct caffe *c, struct window *w)
{
    caffe_pair(c, "kernel_size", "kernel_h", "kernel_w", 1, 0, w->size);
    caffe_pair(c, "stride", "stride_h", "stride_w", 1, 1, w->stride);
    caffe_pair(c, "pad", "pad_h", "pad_w", 0, 0, w->pad);
}

static union graph_attr conv_attr(enum graph_op op, const struct window *w,
                                  int groups)
{
    union graph_attr attr = layers_defaults(op);
    struct kern_conv *conv = &attr.conv.conv;
    int i;

    conv->groups = groups;
    for (i = 0; i < 2; i++) {
        conv->stride[i] = w->stride[i];
        conv->dilation[i] = w->dilation[i];
        conv->pad_begin[i] = conv->pad_end[i] = w->pad[i];
    }
    return attr;
}

static void convolve(struct caffe *c, struct caffe_ends *ends, enum graph_op op,
                     int groups)
{
    const bool bias = caffe_bool(c, c->param, "bias_term", true);
    const int64_t k = caffe_int(c, c->param, "num_output", 1, INT32_MAX, 0);
    const int64_t channels = layers_known(&c->b, ends->in[0], 1);
    int64_t shape[4];
    int in[3] = {ends->in[0], -1, -1}, i;
    struct window w;

    read_window(c, &w);
    caffe_pair(c, "dilation", "", "", 1, 1, w.dilation);
    if (groups == 0)
        groups = channels > 0 && channels <= INT32_MAX ? (int)channels : 1;
    if (c->b.status < 0)
        return;
    if (k < 1 || w.size[0] < 1 || w.size[1] < 1 || channels % groups != 0 ||
        k % groups != 0 || caffe_int(c, c->param, "axis", -4, 3, 1) != 1) {
        layers_fail(&c->b, INFER_EFORMAT,
                    "%lld outputs, %lld channels, %d groups, a window of %dx%d",
                    (long long)k, (long long)channels, groups, w.size[0],
                    w.size[1]);
        return;
    }
    shape[0] = op == GRAPH_CONV ? k : channels;
    shape[1] = (op == GRAPH_CONV ? channels : k) / groups;
    for (i = 0; i < 2; i++)
        shape[2 + i] = w.size[i];
    in[1] = caffe_weight(c, 0, "weight", 4, shape);
    if (bias)
        in[2] = caffe_weight(c, 1, "bias", 1, &k);
    const union graph_attr attr = conv_attr(op, &w, groups);
    ends->out[0] = layers_emit(&c->b, op, "", &attr, in, bias ? 3 : 2);
}

void caffe_conv(struct caffe *c, struct caffe_ends *ends, int arg)
{
    convolve(c, ends, (enum graph_op)arg,
             (int)caffe_int(c, c->param, "group", 1, INT32_MAX, 1));
}

void caffe_depthwise(struct caffe *c, struct caffe_ends *ends, int arg)
{
    (void)arg;
    convolve(c, ends, GRAPH_CONV, 0);
}

void caffe_inner_product(struct caffe *c, struct caffe_ends *ends, int arg)
{
    static const int64_t order[] = {1, 0};
    const bool bias = caffe_bool(c, c->param, "bias_term", true);
    const bool transposed = caffe_bool(c, c->param, "transpose", false);
    const int64_t k = caffe_int(c, c->param, "num_output", 1, INT32_MAX, 1);
    int64_t shape[2];
    int in[3];

    (void)arg;
    if (caffe_axis(c, c->param, "axis", layers_rank(&c->b, ends->in[0]), 1) !=
        1)
        layers_fail(&c->b, INFER_EUNSUPPORTED, "an axis other than 1");
    in[0] = layers_flatten(&c->b, "flat", ends->in[0]);
    shape[transposed ? 1 : 0] = k;
    shape[transposed ? 0 : 1] = layers_known(&c->b, in[0], 1);
    in[1] = caffe_weight(c, 0, "weight", 2, shape);
    if (transposed)
        in[1] = layers_dims(&c->b, GRAPH_TRANSPOSE, "weight", in[1], 2, order);
    in[2] = bias ? caffe_weight(c, 1, "bias", 1, &k) : -1;
    ends->out[0] = layers_emit(&c->b, GRAPH_DENSE, "", NULL, in, bias ? 3 : 2);
}

/* ---- pooling ------------------------------------------------------- */

/* Caffe rounds sizes up.  Where the last window would start in the padding it
 * is left out, as the graph does, but only where there is padding: without,
 * it would be empty.  A window that is larger than the padded input counts
 * once, if it is by less than a stride. */
static void fit_window(struct caffe *c, int x, struct window *w)
{
    int i;

    for (i = 0; i < 2; i++) {
        const int64_t in = layers_dim(&c->b, x, 2 + i);
        const int64_t room = in + 2 * w->pad[i] - w->size[i];

        if (in < 0)
            continue;
        if (room < 0 && -room < w->stride[i])
            w->size[i] = (int)(in + 2 * w->pad[i]);
        if (room > 0 && w->pad[i] == 0 &&
            (room + w->stride[i] - 1) / w->stride[i] * w->stride[i] >= in)
            layers_fail(&c->b, INFER_EUNSUPPORTED,
                        "a window of %d with a stride of %d over %lld leaves "
                        "the last one empty",
                        w->size[i], w->stride[i], (long long)in);
    }
}

void caffe_pooling(struct caffe *c, struct caffe_ends *ends, int arg)
{
    static const char *const kinds[] = {"MAX", "AVE", NULL};
    static const char *const rounds[] = {"CEIL", "FLOOR", NULL};
    union graph_attr attr = layers_defaults(GRAPH_POOL);
    struct kern_pool *p = &attr.pool.pool;
    struct window w;
    int i;

    (void)arg;
    p->kind = caffe_word(c, c->param, "pool", kinds, 0) == 0
                  ? KERN_POOL_MAX
                  : KERN_POOL_AVERAGE;
    if (!caffe_bool(c, c->param, "global_pooling", false)) {
        read_window(c, &w);
        attr.pool.ceil_mode =
            caffe_word(c, c->param, "round_mode", rounds, 0) == 0 &&
            caffe_bool(c, c->param, "ceil_mode", true);
        p->count_include_pad = true;
        if (w.size[0] < 1 || w.size[1] < 1)
            layers_fail(&c->b, INFER_EFORMAT, "no kernel_size");
        else if (w.pad[0] >= w.size[0] || w.pad[1] >= w.size[1])
            layers_fail(&c->b, INFER_EFORMAT,
                        "pads of %dx%d around a window of %dx%d", w.pad[0],
                        w.pad[1], w.size[0], w.size[1]);
        if (attr.pool.ceil_mode)
            fit_window(c, ends->in[0], &w);
        for (i = 0; i < 2; i++) {
            p->window[i] = w.size[i];
            p->stride[i] = w.stride[i];
            p->pad_begin[i] = p->pad_end[i] = w.pad[i];
        }
    }
    ends->out[0] = layers_emit(&c->b, GRAPH_POOL, "", &attr, ends->in, 1);
}
