/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX normalisations. */
#include <limits.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/onnx.h"

/* All inputs of the node into in[0 .. max-1]; absent ones are -1. */
static int all_inputs(struct onnx_import *im, int max, int *in,
                      struct infer_error *err)
{
    int i, rc = 0;

    for (i = 0; i < max && rc == 0; i++)
        rc = onnx_input(im, i, &in[i], err);
    return rc;
}

/* Number of inputs up to the last one that is there. */
static int trimmed(const int *in, int n)
{
    while (n > 0 && in[n - 1] < 0)
        n--;
    return n;
}

static int get_epsilon(struct onnx_import *im, float *epsilon,
                       struct infer_error *err)
{
    int rc;

    *epsilon = 1e-5f;
    rc = onnx_float(im, "epsilon", epsilon, err);
    if (rc == 0 && *epsilon < 0.0f)
        return error_set(err, INFER_EFORMAT, "attribute 'epsilon' is %g",
                         (double)*epsilon);
    return rc;
}

/* ---- batch --------------------------------------------------------- */

int onnx_import_batch_norm(struct onnx_import *im, int param,
                           struct infer_error *err)
{
    bool spatial = true, training = false;
    union graph_attr attr;
    struct graph_type t;
    int in[5], rc = onnx_arity(im, 5, 5, err);

    (void)param;
    onnx_defaults(GRAPH_BATCH_NORM, &attr);
    onnx_ignore(im, "momentum"); /* of training alone */
    onnx_ignore(im, "is_test");
    if (rc == 0)
        rc = get_epsilon(im, &attr.norm.epsilon, err);
    if (rc == 0)
        rc = onnx_flag(im, "spatial", &spatial, err);
    if (rc == 0)
        rc = onnx_flag(im, "training_mode", &training, err);
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &t, err);
    if (rc < 0)
        return rc;
    if (training)
        return error_set(err, INFER_EUNSUPPORTED,
                         "training_mode 1: statistics of the batch itself");
    if (!spatial && t.rank > 2)
        return error_set(err, INFER_EUNSUPPORTED,
                         "spatial 0 with an input of rank %d", t.rank);
    rc = onnx_drop_outputs(im, 1, err);
    if (rc == 0)
        rc = all_inputs(im, 5, in, err);
    if (rc < 0)
        return rc;
    return onnx_emit(im, GRAPH_BATCH_NORM, &attr, in, 5, 0, NULL, err);
}

/* ---- instance and group -------------------------------------------- */

int onnx_import_instance_norm(struct onnx_import *im, int param,
                              struct infer_error *err)
{
    union graph_attr attr;
    struct graph_type t;
    int in[3], rc = onnx_arity(im, 3, 3, err);

    (void)param;
    onnx_defaults(GRAPH_GROUP_NORM, &attr);
    if (rc == 0)
        rc = get_epsilon(im, &attr.norm.epsilon, err);
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &t, err);
    if (rc == 0)
        rc = all_inputs(im, 3, in, err);
    if (rc < 0)
        return rc;
    if (t.rank < 2 || t.dim[1] < 1 || t.dim[1] > INT32_MAX)
        return error_set(err, INFER_EFORMAT, "an input without channels");
    attr.norm.groups = (int)t.dim[1];
    return onnx_emit(im, GRAPH_GROUP_NORM, &attr, in, 3, 0, NULL, err);
}

/* Opset 18 has one scale a group, opset 21 one a channel. */
static int repeat_scale(struct onnx_import *im, int i, int64_t groups,
                        int64_t channels, int *value, struct infer_error *err)
{
    int64_t each = channels / groups, k;
    struct constant *c, *r;
    int rc = onnx_input_constant(im, i, &c, err);

    if (rc < 0)
        return rc;
    if (!c || c->rank != 1 || c->dim[0] != groups)
        return error_set(err, INFER_EUNSUPPORTED,
                         "input %d must be a constant of %lld elements", i,
                         (long long)groups);
    rc = onnx_new_constant(im, INFER_F32, 1, &channels, err, &r);
    if (rc < 0)
        return rc;
    for (k = 0; k < channels; k++)
        scalar_store(r->dtype, r->data, k,
                     scalar_load(c->dtype, c->data, k / each));
    return onnx_add_constant(im, r, value, err);
}

int onnx_import_group_norm(struct onnx_import *im, int param,
                           struct infer_error *err)
{
    union graph_attr attr;
    struct graph_type t;
    int64_t groups = 0;
    int in[3], i, rc = onnx_arity(im, 3, 3, err);

    (void)param;
    onnx_defaults(GRAPH_GROUP_NORM, &attr);
    onnx_ignore(im, "stash_type");
    if (rc == 0)
        rc = get_epsilon(im, &attr.norm.epsilon, err);
    if (rc == 0)
        rc = onnx_int(im, "num_groups", 1, INT32_MAX, &groups, err);
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &t, err);
    if (rc < 0)
        return rc;
    if (groups == 0 || t.rank < 2 || t.dim[1] < 1 || t.dim[1] % groups != 0)
        return error_set(err, INFER_EFORMAT,
                         "num_groups %lld does not divide the channels",
                         (long long)groups);
    attr.norm.groups = (int)groups;
    rc = onnx_input(im, 0, &in[0], err);
    for (i = 1; i < 3 && rc == 0; i++)
        rc = im->opset >= 21
                 ? onnx_input(im, i, &in[i], err)
                 : repeat_scale(im, i, groups, t.dim[1], &in[i], err);
    if (rc < 0)
        return rc;
    return onnx_emit(im, GRAPH_GROUP_NORM, &attr, in, 3, 0, NULL, err);
}

/* ---- layer --------------------------------------------------------- */

/* 1 / sqrt(variance + epsilon) from deviations. */
static int inverse_deviation(struct onnx_import *im,
                             const union graph_attr *reduce, float epsilon,
                             int deviation, struct infer_error *err)
{
    int v,
        rc = onnx_emit_binary(im, KERN_MUL, deviation, deviation, -1, &v, err);

    if (rc == 0)
        rc = onnx_emit(im, GRAPH_REDUCE, reduce, &v, 1, -1, &v, err);
    if (rc == 0)
        rc = onnx_emit_unary(im, KERN_LINEAR, 1.0f, epsilon, v, -1, &v, err);
    if (rc == 0)
        rc = onnx_emit_unary(im, KERN_SQRT, 0, 0, v, -1, &v, err);
    if (rc == 0)
        rc = onnx_emit_unary(im, KERN_RECIPROCAL, 0, 0, v, 2, NULL, err);
    return rc;
}

/* Mean and InvStdDev, for whoever reads them; else they are dead nodes, which
 * go away. */
static int layer_statistics(struct onnx_import *im, const struct kern_norm *n,
                            int x, struct infer_error *err)
{
    union graph_attr attr;
    int mean, deviation, rank = im->type[x][0].rank, rc;

    if (!onnx_has_output(im, 1) && !onnx_has_output(im, 2))
        return 0;
    onnx_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = KERN_REDUCE_MEAN;
    attr.reduce.keep_dims = true;
    for (; n->axis + attr.reduce.n_axes < rank; attr.reduce.n_axes++)
        attr.reduce.axis[attr.reduce.n_axes] = n->axis + attr.reduce.n_axes;
    rc = onnx_emit(im, GRAPH_REDUCE, &attr, &x, 1, 1, &mean, err);
    if (rc == 0 && onnx_has_output(im, 2))
        rc = onnx_emit_binary(im, KERN_SUB, x, mean, -1, &deviation, err);
    if (rc == 0 && onnx_has_output(im, 2))
        rc = inverse_deviation(im, &attr, n->epsilon, deviation, err);
    return rc;
}

int onnx_import_layer_norm(struct onnx_import *im, int rms,
                           struct infer_error *err)
{
    union graph_attr attr;
    struct graph_type t;
    int64_t axis = -1;
    int in[3], rc = onnx_arity(im, rms ? 2 : 1, rms ? 2 : 3, err);

    onnx_defaults(GRAPH_LAYER_NORM, &attr);
    onnx_ignore(im, "stash_type"); /* precision of the intermediate result */
    if (rc == 0)
        rc = get_epsilon(im, &attr.norm.epsilon, err);
    if (rc == 0)
        rc = onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &axis, err);
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &t, err);
    if (rc == 0)
        rc = op_axis((int)axis, t.rank, &attr.norm.axis, err);
    if (rc == 0)
        rc = all_inputs(im, 3, in, err);
    if (rc < 0)
        return rc;
    attr.norm.rms = rms != 0;
    rc = onnx_emit(im, GRAPH_LAYER_NORM, &attr, in, trimmed(in, 3), 0, NULL,
                   err);
    if (rc == 0 && !rms)
        rc = layer_statistics(im, &attr.norm, in[0], err);
    return rc;
}

/* x / norm of x along one axis. */
int onnx_import_lp_norm(struct onnx_import *im, int param,
                        struct infer_error *err)
{
    union graph_attr attr;
    int64_t axis = -1, p = 2;
    int in, norm, rc = onnx_arity(im, 1, 1, err);

    (void)param;
    onnx_defaults(GRAPH_REDUCE, &attr);
    if (rc == 0)
        rc = onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &axis, err);
    if (rc == 0)
        rc = onnx_int(im, "p", 1, 2, &p, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    attr.reduce.kind = p == 1 ? KERN_REDUCE_L1 : KERN_REDUCE_L2;
    attr.reduce.keep_dims = true;
    attr.reduce.n_axes = 1;
    attr.reduce.axis[0] = (int)axis;
    rc = onnx_emit(im, GRAPH_REDUCE, &attr, &in, 1, -1, &norm, err);
    if (rc < 0)
        return rc;
    return onnx_emit_binary(im, KERN_DIV, in, norm, 0, NULL, err);
}

int onnx_import_lrn(struct onnx_import *im, int param, struct infer_error *err)
{
    union graph_attr attr;
    int64_t size = 0;
    int in, rc = onnx_arity(im, 1, 1, err);

    (void)param;
    onnx_defaults(GRAPH_LRN, &attr);
    attr.lrn.alpha = 1e-4f;
    attr.lrn.beta = 0.75f;
    attr.lrn.bias = 1.0f;
    if (rc == 0 && !onnx_has_attr(im, "size"))
        rc = error_set(err, INFER_EFORMAT, "attribute 'size' is missing");
    if (rc == 0)
        rc = onnx_int(im, "size", 1, INT32_MAX, &size, err);
    if (rc == 0)
        rc = onnx_float(im, "alpha", &attr.lrn.alpha, err);
    if (rc == 0)
        rc = onnx_float(im, "beta", &attr.lrn.beta, err);
    if (rc == 0)
        rc = onnx_float(im, "bias", &attr.lrn.bias, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    attr.lrn.size = (int)size;
    return onnx_emit(im, GRAPH_LRN, &attr, &in, 1, 0, NULL, err);
}
