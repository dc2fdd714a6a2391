/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX LinearAttention and CausalConvWithState, the two halves of a state space
 * layer.
 *
 * The state of LinearAttention is N,G,K,V: a matrix for each head of keys.  A
 * token multiplies it by exp(decay), adds the outer product of its key and
 * value, and its query reads it.  Tokens are unrolled.
 */
#include <math.h>
#include <string.h>

#include "weights/onnx/composed/compose.h"

struct linear_attention {
    int q, k, v;     /* N,H,T,K and N,G,T,K and N,G,T,V */
    int decay, beta; /* N,G,T,K or N,G,T,1; -1: none */
    int state;       /* -1: zero */
    int64_t heads, groups, tokens;
    float scale;
};

static int read_tensors(struct onnx_import *im, struct linear_attention *a,
                        bool gated, bool delta)
{
    if (im->rc == 0 &&
        (onnx_has_input(im, 4) != gated || onnx_has_input(im, 5) != delta))
        return onnx_fail(im, INFER_EFORMAT,
                         "decay and beta do not fit update_rule");
    a->q = compose_split_heads(im, compose_input(im, 0), a->heads);
    a->k = compose_split_heads(im, compose_input(im, 1), a->groups);
    a->v = compose_split_heads(im, compose_input(im, 2), a->groups);
    a->state = compose_input(im, 3);
    a->decay =
        gated ? compose_split_heads(im, compose_input(im, 4), a->groups) : -1;
    a->beta = delta ? compose_input(im, 5) : -1;
    if (a->beta >= 0)
        a->beta = compose_unsqueeze(im, compose_swap(im, a->beta, 1, 2), 3);
    a->tokens = compose_dim(im, a->q, 2);
    if (im->rc == 0 && (a->tokens < 1 || a->tokens > GRAPH_MAX_INPUTS))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "%lld tokens; 1 to %d are unrolled",
                         (long long)a->tokens, GRAPH_MAX_INPUTS);
    return im->rc;
}

static int token(struct onnx_import *im, int x, int64_t t)
{
    return compose_slice(im, x, 2, t, t + 1, 1);
}

/* Token t changes the state; gives what its query reads: N,H,1,V. */
static int step(struct onnx_import *im, struct linear_attention *a, int64_t t)
{
    const int64_t rows[4] = {0, a->groups, -1, 0},
                  back[4] = {0, a->heads, 1, 0};
    const int k = token(im, a->k, t);
    int q = token(im, a->q, t), v = token(im, a->v, t), write;

    if (a->decay >= 0 && a->state >= 0) {
        const int keep = compose_unary(im, KERN_EXP, token(im, a->decay, t));

        a->state = compose_binary(im, KERN_MUL, a->state,
                                  compose_swap(im, keep, 2, 3));
    }
    if (a->beta >= 0 && a->state >= 0)
        v = compose_binary(im, KERN_SUB, v,
                           compose_matmul(im, k, a->state, false, 1));
    if (a->beta >= 0)
        v = compose_binary(im, KERN_MUL, token(im, a->beta, t), v);
    write = compose_binary(im, KERN_MUL, compose_swap(im, k, 2, 3), v);
    a->state =
        a->state < 0 ? write : compose_binary(im, KERN_ADD, a->state, write);
    /* Queries that share a head of keys become rows of one product. */
    if (a->heads != a->groups)
        q = compose_reshape(im, q, 4, rows);
    q = compose_matmul(im, q, a->state, false, a->scale);
    return a->heads == a->groups ? q : compose_reshape(im, q, 4, back);
}

int onnx_import_linear_attention(struct onnx_import *im)
{
    static const char *const rules[] = {"linear", "gated", "delta",
                                        "gated_delta", NULL};
    struct linear_attention a = {.scale = 0};
    int rule = 3, *y;

    onnx_arity(im, 3, 6);
    onnx_ignore(im, "chunk_size"); /* a hint */
    onnx_word(im, "update_rule", rules, &rule);
    onnx_int(im, "q_num_heads", 1, INT32_MAX, &a.heads);
    onnx_int(im, "kv_num_heads", 1, INT32_MAX, &a.groups);
    onnx_float(im, "scale", &a.scale);
    if (im->rc == 0 && (a.groups < 1 || a.heads < 1 || a.heads % a.groups))
        return onnx_fail(im, INFER_EFORMAT,
                         "%lld heads of queries for %lld of keys",
                         (long long)a.heads, (long long)a.groups);
    if (read_tensors(im, &a, rule % 2 == 1, rule >= 2) < 0)
        return im->rc;
    if (a.scale == 0)
        a.scale = (float)(1 / sqrt((double)compose_dim(im, a.q, 3)));
    y = onnx_alloc(&im->scratch, (size_t)a.tokens * sizeof *y);
    if (!y)
        return onnx_no_memory(im);
    for (int64_t t = 0; t < a.tokens && im->rc == 0; t++)
        y[t] = step(im, &a, t);
    if (im->rc < 0)
        return im->rc;
    if (onnx_has_output(im, 1))
        compose_output(im, 1, a.state);
    return compose_output(
        im, 0, compose_join_heads(im, compose_concat(im, (int)a.tokens, y, 2)));
}

/* ---- CausalConvWithState ------------------------------------------- */

/* A convolution of each channel, behind the last k - 1 entries of the call
 * before, or zeros; the last k - 1 of this one are output 1. */
int onnx_import_causal_conv(struct onnx_import *im)
{
    static const char *const functions[] = {"none", "silu", "swish", NULL};
    union graph_attr attr;
    int64_t window, length;
    int in[3], word = 0, n = 2, y;

    onnx_arity(im, 2, 4);
    onnx_word(im, "activation", functions, &word);
    in[0] = compose_input(im, 0);
    in[1] = compose_input(im, 1);
    compose_need_rank(im, in[0], 3, 3);
    compose_need_rank(im, in[1], 3, 3);
    window = compose_dim(im, in[1], 2);
    if (im->rc == 0 && (window < 1 || window > OP_MAX_STEP))
        return onnx_fail(im, INFER_EFORMAT, "a window of %lld",
                         (long long)window);
    if (onnx_has_input(im, 3)) {
        const int both[2] = {compose_input(im, 3), in[0]};

        if (window > 1)
            in[0] = compose_concat(im, 2, both, 2);
    } else if (window > 1) {
        in[0] = compose_pad(im, in[0], 2, (int)window - 1, 0, 0);
    }
    if (onnx_has_input(im, 2))
        in[n++] = compose_input(im, 2);
    onnx_defaults(GRAPH_CONV, &attr);
    attr.conv.conv.groups = (int)compose_dim(im, in[1], 0);
    onnx_emit(im, GRAPH_CONV, &attr, in, n, -1, &y);
    if (word > 0)
        y = compose_unary(im, KERN_SILU, y);
    if (onnx_has_output(im, 1)) {
        length = compose_dim(im, in[0], 2);
        compose_output(
            im, 1, compose_slice(im, in[0], 2, length - window + 1, length, 1));
    }
    return compose_output(im, 0, y);
}
