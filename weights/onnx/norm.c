/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX normalisations. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/onnx.h"

static int get_epsilon(struct onnx_import *im, float *epsilon)
{
    *epsilon = 1e-5f;
    onnx_float(im, "epsilon", epsilon);
    if (*epsilon < 0.0f)
        return onnx_fail(im, INFER_EFORMAT, "attribute 'epsilon' is %g",
                         (double)*epsilon);
    return im->rc;
}

/* ---- batch --------------------------------------------------------- */

/* The mean over all dimensions but the channels. */
static int channel_mean(struct onnx_import *im, int x, bool keep_dims,
                        int *mean)
{
    union graph_attr attr;

    *mean = -1;
    if (im->rc < 0)
        return im->rc;
    onnx_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = KERN_REDUCE_MEAN;
    attr.reduce.keep_dims = keep_dims;
    for (int d = 0; d < im->type[x][0].rank; d++)
        if (d != 1)
            attr.reduce.axis[attr.reduce.n_axes++] = d;
    return onnx_emit(im, GRAPH_REDUCE, &attr, &x, 1, -1, mean);
}

/* Output `out`: the running statistic after this batch, old * momentum +
 * mean(x) * (1 - momentum). */
static int running(struct onnx_import *im, int out, int x, int old,
                   float momentum)
{
    int mean;

    if (!onnx_has_output(im, out))
        return im->rc;
    channel_mean(im, x, false, &mean);
    onnx_emit_unary(im, KERN_LINEAR, 1.0f - momentum, 0, mean, -1, &mean);
    onnx_emit_unary(im, KERN_LINEAR, momentum, 0, old, -1, &old);
    return onnx_emit_binary(im, KERN_ADD, old, mean, out, NULL);
}

/* training_mode 1: the statistics are those of x itself.  Weights that are
 * standardised come so, as a batch of one with a channel an output. */
static int norm_by_batch(struct onnx_import *im, float epsilon)
{
    float momentum = 0.9f;
    int in[5], mean, deviation, square, v;

    onnx_float(im, "momentum", &momentum);
    onnx_drop_outputs(im, 3);
    for (int i = 0; i < 5; i++)
        onnx_input(im, i, &in[i]);
    channel_mean(im, in[0], true, &mean);
    onnx_emit_binary(im, KERN_SUB, in[0], mean, -1, &deviation);
    onnx_emit_binary(im, KERN_MUL, deviation, deviation, -1, &square);
    running(im, 1, in[0], in[3], momentum);
    running(im, 2, square, in[4], momentum);
    channel_mean(im, square, true, &v);
    onnx_emit_unary(im, KERN_LINEAR, 1.0f, epsilon, v, -1, &v);
    onnx_emit_unary(im, KERN_SQRT, 0, 0, v, -1, &v);
    onnx_emit_binary(im, KERN_DIV, deviation, v, -1, &in[0]);
    return onnx_emit(im, GRAPH_SCALE_SHIFT, NULL, in, 3, 0, NULL);
}

int onnx_import_batch_norm(struct onnx_import *im)
{
    bool spatial = true, training = false;
    union graph_attr attr;
    struct graph_type t;

    onnx_arity(im, 5, 5);
    onnx_defaults(GRAPH_BATCH_NORM, &attr);
    onnx_ignore(im, "momentum"); /* of training alone */
    onnx_ignore(im, "is_test");
    get_epsilon(im, &attr.norm.epsilon);
    onnx_flag(im, "spatial", &spatial);
    onnx_flag(im, "training_mode", &training);
    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    if (!spatial && t.rank > 2)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "spatial 0 with an input of rank %d", t.rank);
    if (training)
        return norm_by_batch(im, attr.norm.epsilon);
    onnx_drop_outputs(im, 1);
    return onnx_emit_node(im, GRAPH_BATCH_NORM, &attr, 5);
}

/* ---- instance and group -------------------------------------------- */

int onnx_import_instance_norm(struct onnx_import *im)
{
    union graph_attr attr;
    struct graph_type t;

    onnx_arity(im, 3, 3);
    onnx_defaults(GRAPH_GROUP_NORM, &attr);
    get_epsilon(im, &attr.norm.epsilon);
    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    if (t.rank < 2 || t.dim[1] < 1 || t.dim[1] > INT32_MAX)
        return onnx_fail(im, INFER_EFORMAT, "an input without channels");
    attr.norm.groups = (int)t.dim[1];
    return onnx_emit_node(im, GRAPH_GROUP_NORM, &attr, 3);
}

/* Opset 18 has one scale a group, opset 21 one a channel. */
static int repeat_scale(struct onnx_import *im, int i, int64_t groups,
                        int64_t channels, int *value)
{
    int64_t k;
    struct constant *c, *r;

    if (onnx_input_constant(im, i, &c) < 0)
        return im->rc;
    if (!c || c->rank != 1 || c->dim[0] != groups)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "input %d must be a constant of %lld elements", i,
                         (long long)groups);
    if (onnx_new_constant(im, INFER_F32, 1, &channels, &r) < 0)
        return im->rc;
    for (k = 0; k < channels; k++)
        scalar_store(r->dtype, r->data, k,
                     scalar_load(c->dtype, c->data, k / (channels / groups)));
    return onnx_add_constant(im, r, value);
}

int onnx_import_group_norm(struct onnx_import *im)
{
    union graph_attr attr;
    struct graph_type t;
    int64_t groups = 0;
    int in[3], i;

    onnx_arity(im, 3, 3);
    onnx_defaults(GRAPH_GROUP_NORM, &attr);
    onnx_ignore(im, "stash_type");
    get_epsilon(im, &attr.norm.epsilon);
    onnx_int(im, "num_groups", 1, INT32_MAX, &groups);
    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    if (groups == 0 || t.rank < 2 || t.dim[1] < 1 || t.dim[1] % groups != 0)
        return onnx_fail(im, INFER_EFORMAT,
                         "num_groups %lld does not divide the channels",
                         (long long)groups);
    attr.norm.groups = (int)groups;
    onnx_input(im, 0, &in[0]);
    for (i = 1; i < 3; i++)
        if (im->opset >= 21)
            onnx_input(im, i, &in[i]);
        else
            repeat_scale(im, i, groups, t.dim[1], &in[i]);
    return onnx_emit(im, GRAPH_GROUP_NORM, &attr, in, 3, 0, NULL);
}

/* ---- layer --------------------------------------------------------- */

/* 1 / sqrt(variance + epsilon) from deviations. */
static int inverse_deviation(struct onnx_import *im,
                             const union graph_attr *reduce, float epsilon,
                             int deviation)
{
    int v;

    onnx_emit_binary(im, KERN_MUL, deviation, deviation, -1, &v);
    onnx_emit(im, GRAPH_REDUCE, reduce, &v, 1, -1, &v);
    onnx_emit_unary(im, KERN_LINEAR, 1.0f, epsilon, v, -1, &v);
    onnx_emit_unary(im, KERN_SQRT, 0, 0, v, -1, &v);
    return onnx_emit_unary(im, KERN_RECIPROCAL, 0, 0, v, 2, NULL);
}

/* Outputs Mean and InvStdDev.  Nodes that nobody reads are removed later. */
static int layer_statistics(struct onnx_import *im, const struct kern_norm *n,
                            int rank)
{
    union graph_attr attr;
    int x, mean, deviation;

    if (im->rc < 0 || (!onnx_has_output(im, 1) && !onnx_has_output(im, 2)))
        return im->rc;
    onnx_input(im, 0, &x);
    onnx_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = KERN_REDUCE_MEAN;
    attr.reduce.keep_dims = true;
    for (; n->axis + attr.reduce.n_axes < rank; attr.reduce.n_axes++)
        attr.reduce.axis[attr.reduce.n_axes] = n->axis + attr.reduce.n_axes;
    onnx_emit(im, GRAPH_REDUCE, &attr, &x, 1, 1, &mean);
    if (!onnx_has_output(im, 2))
        return im->rc;
    onnx_emit_binary(im, KERN_SUB, x, mean, -1, &deviation);
    return inverse_deviation(im, &attr, n->epsilon, deviation);
}

int onnx_import_layer_norm(struct onnx_import *im)
{
    const bool rms = im->param != 0;
    union graph_attr attr;
    struct graph_type t;
    int axis;

    onnx_arity(im, rms ? 2 : 1, rms ? 2 : 3);
    onnx_defaults(GRAPH_LAYER_NORM, &attr);
    onnx_ignore(im, "stash_type"); /* precision of the intermediate result */
    get_epsilon(im, &attr.norm.epsilon);
    axis = onnx_axis(im, -1);
    if (onnx_input_type(im, 0, 0, &t) == 0)
        im->rc = op_axis(axis, t.rank, &attr.norm.axis, im->err);
    attr.norm.rms = rms;
    onnx_emit_node(im, GRAPH_LAYER_NORM, &attr, 3);
    return rms ? im->rc : layer_statistics(im, &attr.norm, t.rank);
}

/* x / norm of x along one axis. */
int onnx_import_lp_norm(struct onnx_import *im)
{
    union graph_attr attr;
    int64_t p = 2;
    int in, norm;

    onnx_arity(im, 1, 1);
    onnx_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.axis[0] = onnx_axis(im, -1);
    onnx_int(im, "p", 1, 2, &p);
    onnx_input(im, 0, &in);
    attr.reduce.kind = p == 1 ? KERN_REDUCE_L1 : KERN_REDUCE_L2;
    attr.reduce.keep_dims = true;
    attr.reduce.n_axes = 1;
    onnx_emit(im, GRAPH_REDUCE, &attr, &in, 1, -1, &norm);
    /* A vector of zeros stays one. */
    onnx_emit_unary(im, KERN_CLIP, FLT_MIN, INFINITY, norm, -1, &norm);
    return onnx_emit_binary(im, KERN_DIV, in, norm, 0, NULL);
}

int onnx_import_lrn(struct onnx_import *im)
{
    union graph_attr attr;
    int64_t size = 0;

    onnx_arity(im, 1, 1);
    onnx_defaults(GRAPH_LRN, &attr);
    attr.lrn.alpha = 1e-4f;
    attr.lrn.beta = 0.75f;
    attr.lrn.bias = 1.0f;
    if (!onnx_has_attr(im, "size"))
        onnx_fail(im, INFER_EFORMAT, "attribute 'size' is missing");
    onnx_int(im, "size", 1, INT32_MAX, &size);
    onnx_float(im, "alpha", &attr.lrn.alpha);
    onnx_float(im, "beta", &attr.lrn.beta);
    onnx_float(im, "bias", &attr.lrn.bias);
    attr.lrn.size = (int)size;
    return onnx_emit_node(im, GRAPH_LRN, &attr, 1);
}
