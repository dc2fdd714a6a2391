/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of the domain com.microsoft on floats: what the graph optimiser of
 * ONNX Runtime writes in place of several operators of ONNX.
 */
#include <float.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "weights/onnx/composed/compose.h"
#include "weights/onnx/window.h"

/* ---- activations --------------------------------------------------- */

/* Parameters of the activation of a fused layer: three numbers, of which those
 * beyond `n` take the function's defaults. */
struct activation {
    float number[3];
    int n;
};

static int clip_or_unary(struct onnx_import *im, const char *name, int x,
                         const struct activation *p)
{
    static const struct {
        const char *name;
        enum kern_unary_kind kind;
        float a, b; /* defaults */
    } table[] = {{"Relu", KERN_RELU, 0, 0},
                 {"Tanh", KERN_TANH, 0, 0},
                 {"Sigmoid", KERN_SIGMOID, 0, 0},
                 {"LeakyRelu", KERN_LEAKY_RELU, 0.01f, 0},
                 {"Elu", KERN_ELU, 1, 0},
                 {"HardSigmoid", KERN_HARD_SIGMOID, 0.2f, 0.5f},
                 {"Clip", KERN_CLIP, -FLT_MAX, FLT_MAX}};

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int y = -1;

        if (strcmp(name, table[i].name) != 0)
            continue;
        onnx_emit_unary(im, table[i].kind, p->n > 0 ? p->number[0] : table[i].a,
                        p->n > 1 ? p->number[1] : table[i].b, x, -1, &y);
        return y;
    }
    onnx_fail(im, INFER_EUNSUPPORTED, "activation '%s'", name);
    return -1;
}

/* The function that attribute 'activation' names, applied to x. */
static int activate(struct onnx_import *im, int x, const struct activation *p)
{
    struct onnx_attr *a = onnx_attr(im, "activation");
    char *name;

    if (im->rc < 0 || !a)
        return x;
    a->used = true;
    if (a->type != ONNX_ATTR_STRING) {
        onnx_fail(im, INFER_EFORMAT, "attribute 'activation' is no text");
        return -1;
    }
    if (a->s.bytes == 0)
        return x;
    if (onnx_name(im, a->s, &name) < 0)
        return -1;
    return clip_or_unary(im, name, x, p);
}

/* ---- convolutions and products ------------------------------------- */

/* act(conv(X, W) + B + Z) */
int onnx_import_fused_conv(struct onnx_import *im)
{
    const struct onnx_attr *params = onnx_attr(im, "activation_params");
    struct activation p = {{0, 0, 0}, 0};
    union graph_attr attr;
    int spatial = 0, in[3], y = -1;

    onnx_arity(im, 2, 4);
    onnx_defaults(GRAPH_CONV, &attr);
    onnx_spatial_rank(im, &spatial);
    onnx_conv_attributes(im, spatial, 1, &attr.conv);
    onnx_ignore(im, "activation_params");
    if (params && params->type == ONNX_ATTR_FLOATS)
        for (; p.n < 3 && (size_t)p.n < params->count; p.n++)
            p.number[p.n] = params->floats[p.n];
    for (int i = 0; i < 3; i++)
        in[i] = compose_input(im, i);
    onnx_emit(im, GRAPH_CONV, &attr, in, in[2] < 0 ? 2 : 3, -1, &y);
    if (onnx_has_input(im, 3))
        y = compose_binary(im, KERN_ADD, y, compose_input(im, 3));
    return compose_output(im, 0, activate(im, y, &p));
}

/* A matrix, whose last two dimensions change places; batch: the first moves to
 * before the last instead, where the file keeps it there. */
static int turned(struct onnx_import *im, int x, bool transpose, bool batch)
{
    const int rank = compose_rank(im, x);
    int64_t order[INFER_MAX_RANK];

    if (im->rc < 0 || rank < 2 || (!transpose && !batch))
        return x;
    for (int d = 0; d < rank; d++)
        order[d] = d;
    if (batch) { /* M,batch..,K holds matrices M,K */
        for (int d = 0; d + 2 < rank; d++)
            order[d] = d + 1;
        order[rank - 2] = 0;
    }
    if (transpose) {
        const int64_t last = order[rank - 1];

        order[rank - 1] = order[rank - 2];
        order[rank - 2] = last;
    }
    return compose_transpose(im, x, rank, order);
}

/* A matrix of constants K,C as the weight of dense, as it is.  1: done. */
static int dense_of_rows(struct onnx_import *im)
{
    struct graph_type x, w;
    struct constant *c;
    int in[2];

    onnx_input_type(im, 0, 0, &x);
    onnx_input_type(im, 1, 0, &w);
    if (im->rc < 0 || x.rank < 2 || w.rank != 2 || !scalar_is_float(x.dtype) ||
        !scalar_is_float(w.dtype) || onnx_input_weight(im, 1, &c) < 0 || !c)
        return im->rc;
    onnx_input(im, 0, &in[0]);
    onnx_input(im, 1, &in[1]);
    onnx_emit(im, GRAPH_DENSE, NULL, in, 2, 0, NULL);
    return im->rc < 0 ? im->rc : 1;
}

int onnx_import_fused_matmul(struct onnx_import *im)
{
    bool flag[4] = {false, false, false, false};
    float alpha = 1;
    int a, b;

    onnx_arity(im, 2, 2);
    onnx_float(im, "alpha", &alpha);
    onnx_flag(im, "transA", &flag[0]);
    onnx_flag(im, "transB", &flag[1]);
    onnx_flag(im, "transBatchA", &flag[2]);
    onnx_flag(im, "transBatchB", &flag[3]);
    if (flag[1] && !flag[0] && !flag[2] && !flag[3] && alpha == 1.0f &&
        dense_of_rows(im) != 0)
        return im->rc;
    a = turned(im, compose_input(im, 0), flag[0], flag[2]);
    b = turned(im, compose_input(im, 1), flag[1], flag[3]);
    compose_need_rank(im, a, 2, INFER_MAX_RANK);
    compose_need_rank(im, b, 2, INFER_MAX_RANK);
    return compose_output(im, 0, compose_matmul(im, a, b, false, alpha));
}

/* act(alpha A B + beta C) */
int onnx_import_fused_gemm(struct onnx_import *im)
{
    static const char *const words[] = {"activation_alpha", "activation_beta",
                                        "activation_gamma"};
    struct activation p = {{0, 0, 0}, 0};
    bool trans[2] = {false, false};
    float alpha = 1, beta = 1;
    int y, c;

    onnx_arity(im, 2, 3);
    onnx_float(im, "alpha", &alpha);
    onnx_float(im, "beta", &beta);
    onnx_flag(im, "transA", &trans[0]);
    onnx_flag(im, "transB", &trans[1]);
    for (int i = 0; i < 3; i++)
        if (onnx_has_attr(im, words[i])) {
            onnx_float(im, words[i], &p.number[i]);
            p.n = i + 1;
        }
    y = compose_matmul(im, turned(im, compose_input(im, 0), trans[0], false),
                       turned(im, compose_input(im, 1), trans[1], false), false,
                       alpha);
    c = compose_input(im, 2);
    if (c >= 0)
        y = compose_binary(
            im, KERN_ADD, y,
            beta == 1.0f ? c : compose_linear(im, (double)beta, 0, c));
    return compose_output(im, 0, activate(im, y, &p));
}

/* ---- GELU ---------------------------------------------------------- */

/* The function of the row's kind of x, plus a bias where there is one. */
int onnx_import_bias_unary(struct onnx_import *im)
{
    int x;

    onnx_arity(im, 1, 2);
    x = compose_input(im, 0);
    if (onnx_has_input(im, 1))
        x = compose_binary(im, KERN_ADD, x, compose_input(im, 1));
    return compose_output(
        im, 0, compose_unary(im, (enum kern_unary_kind)im->param, x));
}

/* x sigmoid(alpha x) */
int onnx_import_quick_gelu(struct onnx_import *im)
{
    float alpha = 1.702f;
    int x = -1;

    onnx_arity(im, 1, 1);
    onnx_float(im, "alpha", &alpha);
    onnx_input(im, 0, &x);
    return onnx_emit_unary(im, KERN_SILU, alpha, 0, x, 0, NULL);
}

/* The last dimension of X + bias in two halves: a gelu(b). */
int onnx_import_bias_split_gelu(struct onnx_import *im)
{
    int64_t n;
    int x;

    onnx_arity(im, 2, 2);
    x = compose_binary(im, KERN_ADD, compose_input(im, 0),
                       compose_input(im, 1));
    n = compose_dim(im, x, -1);
    if (im->rc == 0 && n % 2)
        return onnx_fail(im, INFER_EFORMAT, "two halves of %lld entries",
                         (long long)n);
    return compose_output(
        im, 0,
        compose_binary(
            im, KERN_MUL,
            compose_slice(im, x, compose_rank(im, x) - 1, 0, n / 2, 1),
            compose_unary(
                im, KERN_GELU,
                compose_slice(im, x, compose_rank(im, x) - 1, n / 2, n, 1))));
}

/* X + bias + skip */
int onnx_import_bias_add(struct onnx_import *im)
{
    int x;

    onnx_arity(im, 3, 3);
    x = compose_binary(im, KERN_ADD, compose_input(im, 0),
                       compose_input(im, 1));
    return compose_output(
        im, 0, compose_binary(im, KERN_ADD, x, compose_input(im, 2)));
}

/* ---- norms --------------------------------------------------------- */

static int epsilon_of(struct onnx_import *im, float otherwise, float *epsilon)
{
    *epsilon = otherwise;
    onnx_float(im, "epsilon", epsilon);
    if (im->rc == 0 && !(*epsilon >= 0))
        onnx_fail(im, INFER_EFORMAT, "attribute 'epsilon' is %g",
                  (double)*epsilon);
    return im->rc;
}

/* The norm of input + skip + bias over the last dimension; output 3 is that
 * sum.  The row's parameter: by the root of the mean square, without shift. */
int onnx_import_skip_norm(struct onnx_import *im)
{
    const bool rms = im->param != 0;
    const int bias = rms ? 3 : 4;
    union graph_attr attr;
    int in[3], n = 2, x, y = -1;

    onnx_arity(im, 3, bias + 1);
    onnx_defaults(GRAPH_LAYER_NORM, &attr);
    epsilon_of(im, 1e-12f, &attr.norm.epsilon);
    x = compose_binary(im, KERN_ADD, compose_input(im, 0),
                       compose_input(im, 1));
    if (onnx_has_input(im, bias))
        x = compose_binary(im, KERN_ADD, x, compose_input(im, bias));
    attr.norm.axis = compose_rank(im, x) - 1;
    attr.norm.rms = rms;
    in[0] = x;
    in[1] = compose_input(im, 2);
    if (!rms && onnx_has_input(im, 3))
        in[n++] = compose_input(im, 3);
    onnx_emit(im, GRAPH_LAYER_NORM, &attr, in, n, -1, &y);
    if (onnx_has_output(im, 3))
        compose_output(im, 3, x);
    if (onnx_has_output(im, 1) || onnx_has_output(im, 2))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "outputs mean and inv_std_var");
    return compose_output(im, 0, y);
}

/* As RMSNormalization of opset 23, in the domain of ONNX. */
int onnx_import_simple_norm(struct onnx_import *im)
{
    union graph_attr attr;
    int in[2];

    onnx_arity(im, 2, 2);
    onnx_drop_outputs(im, 1);
    onnx_ignore(im, "stash_type");
    onnx_defaults(GRAPH_LAYER_NORM, &attr);
    epsilon_of(im, 1e-5f, &attr.norm.epsilon);
    in[0] = compose_input(im, 0);
    in[1] = compose_input(im, 1);
    attr.norm.axis = compose_axis(im, in[0], -1);
    attr.norm.rms = true;
    return onnx_emit(im, GRAPH_LAYER_NORM, &attr, in, 2, 0, NULL);
}

/* Groups of channels that lie last unless channels_last is 0, and SiLU. */
int onnx_import_channels_last_group_norm(struct onnx_import *im)
{
    bool last = true, silu = false;
    union graph_attr attr;
    int64_t groups = 0;
    int in[3], rank, y = -1;

    onnx_arity(im, 3, 3);
    onnx_defaults(GRAPH_GROUP_NORM, &attr);
    epsilon_of(im, 1e-5f, &attr.norm.epsilon);
    onnx_flag(im, "channels_last", &last);
    onnx_flag(im, "activation", &silu);
    onnx_int(im, "groups", 1, INT32_MAX, &groups);
    for (int i = 0; i < 3; i++)
        in[i] = compose_input(im, i);
    compose_need_rank(im, in[0], 3, INFER_MAX_RANK);
    rank = compose_rank(im, in[0]);
    if (last)
        in[0] = compose_channels_first(im, in[0]);
    if (im->rc == 0 && (groups == 0 || compose_dim(im, in[0], 1) % groups))
        return onnx_fail(im, INFER_EFORMAT,
                         "%lld groups do not divide the channels",
                         (long long)groups);
    attr.norm.groups = (int)groups;
    onnx_emit(im, GRAPH_GROUP_NORM, &attr, in, 3, -1, &y);
    if (silu)
        y = compose_unary(im, KERN_SILU, y);
    return compose_output(im, 0,
                          last && rank > 0 ? compose_channels_last(im, y) : y);
}
