/* SPDX-License-Identifier: Apache-2.0 */
/* Caffe: functions of each element, and layers of several inputs. */
#include <math.h>

#include "kernels/base/error.h"
#include "weights/caffe/caffe.h"

static void unary(struct caffe *c, struct caffe_ends *ends,
                  enum kern_unary_kind kind, float a, float b)
{
    ends->out[0] = layers_unary(&c->b, "", ends->in[0], kind, a, b);
}

void caffe_unary(struct caffe *c, struct caffe_ends *ends, int arg)
{
    unary(c, ends, (enum kern_unary_kind)arg, 0, 0);
}

void caffe_relu(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const float slope = caffe_float(c, c->param, "negative_slope", 0);

    (void)arg;
    unary(c, ends, slope > 0 || slope < 0 ? KERN_LEAKY_RELU : KERN_RELU, slope,
          0);
}

void caffe_relu6(struct caffe *c, struct caffe_ends *ends, int arg)
{
    (void)arg;
    unary(c, ends, KERN_CLIP, 0, 6);
}

void caffe_clip(struct caffe *c, struct caffe_ends *ends, int arg)
{
    (void)arg;
    unary(c, ends, KERN_CLIP, caffe_float(c, c->param, "min", -INFINITY),
          caffe_float(c, c->param, "max", INFINITY));
}

void caffe_elu(struct caffe *c, struct caffe_ends *ends, int arg)
{
    (void)arg;
    unary(c, ends, KERN_ELU, caffe_float(c, c->param, "alpha", 1), 0);
}

void caffe_swish(struct caffe *c, struct caffe_ends *ends, int arg)
{
    (void)arg;
    unary(c, ends, KERN_SILU, caffe_float(c, c->param, "beta", 1), 0);
}

void caffe_prelu(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const bool shared = caffe_bool(c, c->param, "channel_shared", false);
    const int rank = layers_rank(&c->b, ends->in[0]);
    int64_t dim[INFER_MAX_RANK];
    int in[2] = {ends->in[0], -1}, i;

    (void)arg;
    if (rank < 2) {
        layers_fail(&c->b, INFER_EFORMAT, "its input has no channels");
        return;
    }
    dim[0] = shared ? 1 : layers_known(&c->b, ends->in[0], 1);
    for (i = 1; i < rank - 1; i++)
        dim[i] = 1;
    in[1] = caffe_weight(c, 0, "slope", rank - 1, dim);
    ends->out[0] = layers_emit(&c->b, GRAPH_PRELU, "", NULL, in, 2);
}

/* (shift + scale x)^power */
void caffe_power(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const float power = caffe_float(c, c->param, "power", 1);
    int y = layers_unary(&c->b, "", ends->in[0], KERN_LINEAR,
                         caffe_float(c, c->param, "scale", 1),
                         caffe_float(c, c->param, "shift", 0));

    (void)arg;
    if (power < 1 || power > 1)
        y = layers_binary(&c->b, "power", KERN_POW, y,
                          layers_filled(&c->b, "power", 1, power));
    ends->out[0] = y;
}

/* base^(shift + scale x); base -1 is e. */
void caffe_exp(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const float base = caffe_float(c, c->param, "base", -1);
    const float log_base = base > 0 ? logf(base) : 1;
    const float scale = caffe_float(c, c->param, "scale", 1);
    const float shift = caffe_float(c, c->param, "shift", 0);
    int y;

    (void)arg;
    if (!(base > 0) && (base < -1 || base > -1))
        layers_fail(&c->b, INFER_EFORMAT, "base %g", (double)base);
    y = layers_unary(&c->b, "argument", ends->in[0], KERN_LINEAR,
                     scale * log_base, shift * log_base);
    ends->out[0] = layers_unary(&c->b, "", y, KERN_EXP, 0, 0);
}

/* log(shift + scale x) to a base; -1 is e. */
void caffe_log(struct caffe *c, struct caffe_ends *ends, int arg)
{
    const float base = caffe_float(c, c->param, "base", -1);
    int y;

    (void)arg;
    if (!(base > 0) && (base < -1 || base > -1))
        layers_fail(&c->b, INFER_EFORMAT, "base %g", (double)base);
    y = layers_unary(&c->b, "argument", ends->in[0], KERN_LINEAR,
                     caffe_float(c, c->param, "scale", 1),
                     caffe_float(c, c->param, "shift", 0));
    y = layers_unary(&c->b, "", y, KERN_LOG, 0, 0);
    if (base > 0)
        y = layers_unary(&c->b, "base", y, KERN_LINEAR, 1 / logf(base), 0);
    ends->out[0] = y;
}

void caffe_dropout(struct caffe *c, struct caffe_ends *ends, int arg)
{
    union graph_attr attr = layers_defaults(GRAPH_DROPOUT);

    (void)arg;
    attr.dropout.ratio = caffe_float(c, c->param, "dropout_ratio", 0.5f);
    ends->out[0] = layers_emit(&c->b, GRAPH_DROPOUT, "", &attr, ends->in, 1);
}

void caffe_softmax(struct caffe *c, struct caffe_ends *ends, int arg)
{
    union graph_attr attr = layers_defaults(GRAPH_SOFTMAX);

    (void)arg;
    attr.axis.axis =
        caffe_axis(c, c->param, "axis", layers_rank(&c->b, ends->in[0]), 1);
    ends->out[0] = layers_emit(&c->b, GRAPH_SOFTMAX, "", &attr, ends->in, 1);
}

void caffe_eltwise(struct caffe *c, struct caffe_ends *ends, int arg)
{
    static const char *const words[] = {"PROD", "SUM", "MAX", NULL};
    static const enum kern_binary_kind kinds[] = {KERN_MUL, KERN_ADD, KERN_MAX};
    const int kind = caffe_word(c, c->param, "operation", words, 1);
    float coeff[GRAPH_MAX_PARTS];
    const int n = caffe_floats(c, c->param, "coeff", GRAPH_MAX_PARTS, coeff);
    int i, y = -1;

    (void)arg;
    if (n > 0 && (n != ends->n_in || kind != 1))
        layers_fail(&c->b, INFER_EFORMAT, "%d coefficients for %d bottoms", n,
                    ends->n_in);
    for (i = 0; i < ends->n_in && c->b.status == 0; i++) {
        int x = ends->in[i];

        if (n > 0 && (coeff[i] < 1 || coeff[i] > 1))
            x = layers_unary(&c->b, "coeff", x, KERN_LINEAR, coeff[i], 0);
        y = i == 0 ? x : layers_binary(&c->b, "", kinds[kind], y, x);
    }
    ends->out[0] = y;
}

/* The data of a split go to all its tops. */
void caffe_split(struct caffe *c, struct caffe_ends *ends, int arg)
{
    int i;

    (void)c;
    (void)arg;
    for (i = 0; i < ends->n_out; i++)
        ends->out[i] = ends->in[0];
}

/* Only keeps Caffe from printing blobs that nothing reads. */
void caffe_silence(struct caffe *c, struct caffe_ends *ends, int arg)
{
    (void)c;
    (void)ends;
    (void)arg;
}
