/* SPDX-License-Identifier: Apache-2.0 */
/* Caffe: normalisation, scale and bias. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/caffe/caffe.h"

/* A sum over pictures becomes their mean: times 1 / factor. */
static struct constant *mean_of(struct caffe *c, const struct constant *sum,
                                float factor)
{
    const float scale = factor > 0 || factor < 0 ? 1 / factor : 0;
    struct constant *mean = layers_new(&c->b, INFER_F32, 1, sum->dim);
    int64_t i;

    for (i = 0; mean != NULL && i < sum->dim[0]; i++) {
        float v;

        memcpy(&v, sum->data + (size_t)i * sizeof(v), sizeof(v));
        v *= scale;
        memcpy(mean->data + (size_t)i * sizeof(v), &v, sizeof(v));
    }
    return mean;
}

static int statistic(struct caffe *c, int i, const char *suffix, int64_t n,
                     float factor)
{
    struct constant *sum, *mean = NULL;

    if (c->weights == NULL)
        return layers_unbound(&c->b, suffix, 1, &n);
    sum = caffe_weight_data(c, i, suffix, 1, &n);
    if (sum != NULL)
        mean = mean_of(c, sum, factor);
    constant_unref(sum);
    return c->b.status < 0 ? c->b.status : layers_constant(&c->b, suffix, mean);
}

/* Mean, variance, and the factor by which both are too large. */
void caffe_batch_norm(struct caffe *c, struct caffe_ends *ends, int arg)
{
    static const int64_t one = 1;
    const int64_t n = layers_known(&c->b, ends->in[0], 1);
    union graph_attr attr = layers_defaults(GRAPH_BATCH_NORM);
    struct constant *factor = caffe_weight_data(c, 2, "factor", 1, &one);
    int in[5] = {ends->in[0]};
    float f = 1;

    (void)arg;
    if (factor != NULL)
        memcpy(&f, factor->data, sizeof(f));
    constant_unref(factor);
    if (!caffe_bool(c, c->param, "use_global_stats", true))
        layers_fail(&c->b, INFER_EUNSUPPORTED,
                    "use_global_stats: false is for training");
    attr.norm.epsilon = caffe_float(c, c->param, "eps", 1e-5f);
    if (c->b.status < 0)
        return;
    in[1] = layers_filled(&c->b, "scale", n, 1);
    in[2] = layers_filled(&c->b, "shift", n, 0);
    in[3] = statistic(c, 0, "mean", n, f);
    in[4] = statistic(c, 1, "variance", n, f);
    ends->out[0] = layers_emit(&c->b, GRAPH_BATCH_NORM, "", &attr, in, 5);
}

/* ---- scale and bias ------------------------------------------------ */

/* Reshapes y, of the shape of x from an axis on, so that it broadcasts over
 * the axes after it. */
static int spread(struct caffe *c, int y, int axis, int rank)
{
    int64_t dim[INFER_MAX_RANK];
    const int own = layers_rank(&c->b, y);
    int i;

    if (c->b.status < 0 || own == rank)
        return y;
    if (axis != 0 || own > rank)
        return layers_fail(&c->b, INFER_EUNSUPPORTED,
                           "an input of %d dimensions from axis %d of %d on",
                           own, axis, rank);
    for (i = 0; i < rank; i++)
        dim[i] = i < own ? 0 : 1;
    return layers_dims(&c->b, GRAPH_RESHAPE, "spread", y, rank, dim);
}

static void scale_by_input(struct caffe *c, struct caffe_ends *ends)
{
    const int rank = layers_rank(&c->b, ends->in[0]);
    const int axis = caffe_axis(c, c->param, "axis", rank, 1);
    const int y = spread(c, ends->in[1], axis, rank);

    if (caffe_bool(c, c->param, "bias_term", false))
        layers_fail(&c->b, INFER_EUNSUPPORTED,
                    "bias_term with two bottoms is not supported");
    ends->out[0] = layers_binary(&c->b, "", KERN_MUL, ends->in[0], y);
}

/* One number a channel. */
static int64_t channels(struct caffe *c, int x)
{
    const int rank = layers_rank(&c->b, x);

    if (rank < 2 || caffe_axis(c, c->param, "axis", rank, 1) != 1 ||
        caffe_int(c, c->param, "num_axes", -1, INFER_MAX_RANK, 1) != 1)
        layers_fail(&c->b, INFER_EUNSUPPORTED,
                    "axis and num_axes other than 1 are not supported");
    return layers_known(&c->b, x, 1);
}

void caffe_scale(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const bool bias = caffe_bool(c, c->param, "bias_term", false);
    int in[3] = {ends->in[0], -1, -1};
    int64_t n;

    (void)arg;
    if (ends->n_in == 2) {
        scale_by_input(c, ends);
        return;
    }
    n = channels(c, ends->in[0]);
    in[1] = caffe_weight(c, 0, "scale", 1, &n);
    if (bias)
        in[2] = caffe_weight(c, 1, "shift", 1, &n);
    ends->out[0] =
        layers_emit(&c->b, GRAPH_SCALE_SHIFT, "", NULL, in, bias ? 3 : 2);
}

void caffe_bias(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const int64_t n = channels(c, ends->in[0]);
    const int in[3] = {ends->in[0], -1, caffe_weight(c, 0, "shift", 1, &n)};

    (void)arg;
    if (c->b.status == 0)
        ends->out[0] = layers_emit(&c->b, GRAPH_SCALE_SHIFT, "", NULL, in, 3);
}

/* a x + y, a of one number a channel of each picture. */
void caffe_axpy(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const int rank = layers_rank(&c->b, ends->in[1]);
    const int a = spread(c, ends->in[0], 0, rank);

    (void)arg;
    const int ax = layers_binary(&c->b, "product", KERN_MUL, ends->in[1], a);
    ends->out[0] = layers_binary(&c->b, "", KERN_ADD, ax, ends->in[2]);
}

/* ---- local response ------------------------------------------------ */

void caffe_lrn(struct caffe *c, struct caffe_ends *ends, int arg)
{
    static const char *const regions[] = {"ACROSS_CHANNELS", "WITHIN_CHANNEL",
                                          NULL};
    const int size =
        (int)caffe_int(c, c->param, "local_size", 1, CAFFE_MAX_STEP, 5);
    union graph_attr attr = layers_defaults(GRAPH_LRN);

    (void)arg;
    attr.lrn.size = size;
    attr.lrn.alpha = caffe_float(c, c->param, "alpha", 1);
    attr.lrn.beta = caffe_float(c, c->param, "beta", 0.75f);
    attr.lrn.bias = caffe_float(c, c->param, "k", 1);
    if (size % 2 == 0)
        layers_fail(&c->b, INFER_EFORMAT, "local_size %d is not odd", size);
    if (caffe_word(c, c->param, "norm_region", regions, 0) == 1)
        ends->out[0] = layers_lrn_within(&c->b, ends->in[0], size,
                                         attr.lrn.alpha, attr.lrn.beta, 1);
    else
        ends->out[0] = layers_emit(&c->b, GRAPH_LRN, "", &attr, ends->in, 1);
}

/* ---- SSD's normalisation ------------------------------------------- */

/* x / sqrt(sum of squares + eps) * scale, over channels or over all. */
void caffe_normalize(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const bool shared = caffe_bool(c, c->param, "channel_shared", true);
    const int64_t n = shared ? 1 : layers_known(&c->b, ends->in[0], 1);
    union graph_attr attr = layers_defaults(GRAPH_REDUCE);
    const int x = ends->in[0];
    int y, in[2], i;

    (void)arg;
    attr.reduce.kind = KERN_REDUCE_SUM;
    attr.reduce.keep_dims = true;
    attr.reduce.n_axes =
        caffe_bool(c, c->param, "across_spatial", true) ? 3 : 1;
    for (i = 0; i < 3; i++)
        attr.reduce.axis[i] = 1 + i;
    if (layers_rank(&c->b, x) != 4)
        layers_fail(&c->b, INFER_EFORMAT, "its input is no picture");
    y = layers_binary(&c->b, "square", KERN_MUL, x, x);
    y = layers_emit(&c->b, GRAPH_REDUCE, "sum", &attr, &y, 1);
    y = layers_unary(&c->b, "eps", y, KERN_LINEAR, 1,
                     caffe_float(c, c->param, "eps", 1e-10f));
    y = layers_unary(&c->b, "norm", y, KERN_SQRT, 0, 0);
    in[0] = layers_binary(&c->b, "unit", KERN_DIV, x, y);
    in[1] = caffe_weight(c, 0, "scale", 1, &n);
    ends->out[0] = shared
                       ? layers_binary(&c->b, "", KERN_MUL, in[0], in[1])
                       : layers_emit(&c->b, GRAPH_SCALE_SHIFT, "", NULL, in, 2);
}
