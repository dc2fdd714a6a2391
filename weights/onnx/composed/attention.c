/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Attention and RotaryEmbedding, as products, sums and a softmax.
 *
 * Queries N,H,S,D; keys and values N,G,T,D, where G divides H: the H / G heads
 * that share a key lie behind each other as rows of one product.  What may not
 * be seen is told by a bias of -infinity, which broadcasts to N,H,S,T.
 */
#include <math.h>

#include "kernels/base/scalar.h"
#include "weights/onnx/composed/compose.h"

struct attention {
    int q, k, v;
    int64_t heads, groups, queries, keys, past;
    bool rank3, causal;
    float scale, softcap;
    int64_t left, right; /* window; -1: unbounded */
    int nonpad;          /* lengths N,1,1,1 or -1 */
    int bias;            /* or -1 */
    bool may_hide_all;   /* the bias of a row may be -infinity throughout */
};

/* ---- heads --------------------------------------------------------- */

/* N,S,H D to N,H,S,D */
int compose_split_heads(struct onnx_import *im, int x, int64_t heads)
{
    const int64_t dim[4] = {0, 0, heads, -1};

    return compose_swap(im, compose_reshape(im, x, 4, dim), 1, 2);
}

int compose_join_heads(struct onnx_import *im, int x)
{
    const int64_t dim[3] = {0, 0, -1};

    return compose_reshape(im, compose_swap(im, x, 1, 2), 3, dim);
}

/* N,from,A,B to N,to,A',B: heads that share a key become rows, or back. */
static int regroup(struct onnx_import *im, int x, int64_t from, int64_t to)
{
    const int64_t dim[4] = {0, to, -1, 0};

    return from == to ? x : compose_reshape(im, x, 4, dim);
}

static int take_heads(struct onnx_import *im, int x, int64_t heads)
{
    const int64_t values = compose_dim(im, x, 2);

    if (im->rc == 0 && (heads < 1 || values % heads))
        onnx_fail(im, INFER_EFORMAT, "%lld heads of %lld values",
                  (long long)heads, (long long)values);
    return compose_split_heads(im, x, heads);
}

static int read_heads(struct onnx_import *im, struct attention *a)
{
    int64_t heads[2] = {0, 0};

    onnx_int(im, "q_num_heads", 1, INT32_MAX, &heads[0]);
    onnx_int(im, "kv_num_heads", 1, INT32_MAX, &heads[1]);
    a->q = compose_input(im, 0);
    a->k = compose_input(im, 1);
    a->v = compose_input(im, 2);
    a->rank3 = compose_rank(im, a->q) == 3;
    for (int i = 0; i < 3 && im->rc == 0; i++) {
        int *x = i == 0 ? &a->q : i == 1 ? &a->k : &a->v;

        compose_need_rank(im, *x, a->rank3 ? 3 : 4, a->rank3 ? 3 : 4);
        if (a->rank3)
            *x = take_heads(im, *x, heads[i > 0]);
    }
    a->heads = compose_dim(im, a->q, 1);
    a->groups = compose_dim(im, a->k, 1);
    if (im->rc == 0 && (a->groups < 1 || a->heads % a->groups))
        onnx_fail(im, INFER_EFORMAT, "%lld heads of queries for %lld of keys",
                  (long long)a->heads, (long long)a->groups);
    return im->rc;
}

/* Keys and values of earlier calls come first; outputs 1 and 2 are all. */
static int add_past(struct onnx_import *im, struct attention *a)
{
    for (int i = 0; i < 2; i++) {
        int *x = i ? &a->v : &a->k;

        if (onnx_has_input(im, 4 + i)) {
            const int both[2] = {compose_input(im, 4 + i), *x};

            compose_need_rank(im, both[0], 4, 4);
            if (i == 0)
                a->past = compose_dim(im, both[0], 2);
            *x = compose_concat(im, 2, both, 2);
        }
        if (onnx_has_output(im, 1 + i))
            compose_output(im, 1 + i, *x);
    }
    return im->rc;
}

/* ---- bias ---------------------------------------------------------- */

static void add_bias(struct onnx_import *im, struct attention *a, int part)
{
    a->bias = a->bias < 0 ? part : compose_binary(im, KERN_ADD, a->bias, part);
}

/* 0 where the condition holds, -infinity elsewhere. */
static int hide(struct onnx_import *im, int condition)
{
    return compose_where(im, condition, compose_number(im, INFER_F32, 0),
                         compose_number(im, INFER_F32, -INFINITY));
}

/* Of a mask that is too short, what is missing is hidden. */
static void add_mask(struct onnx_import *im, struct attention *a)
{
    int mask = compose_input(im, 3);
    int64_t lacks;

    compose_need_rank(im, mask, 1, 4);
    if (compose_dtype(im, mask) == INFER_BOOL)
        mask = hide(im, mask);
    else if (scalar_is_integer(compose_dtype(im, mask)))
        mask = compose_cast(im, INFER_F32, mask);
    lacks = a->keys - compose_dim(im, mask, -1);
    if (im->rc == 0 && (lacks < 0 || lacks > INT32_MAX))
        onnx_fail(im, INFER_EFORMAT, "a mask of more than %lld keys",
                  (long long)a->keys);
    if (lacks > 0)
        mask = compose_pad(im, mask, compose_rank(im, mask) - 1, 0, (int)lacks,
                           -INFINITY);
    add_bias(im, a, mask);
    a->may_hide_all = true;
}

/* How far key j lies behind query i: j - i - past, a matrix S,T; with the
 * stated lengths N,1,S,T, where the last query is the last of the keys. */
static int distance(struct onnx_import *im, const struct attention *a)
{
    const int64_t dim[2] = {a->queries, a->keys};
    int64_t *data;
    int value = compose_i64(im, 2, dim, &data);

    for (int64_t i = 0; value >= 0 && i < a->queries; i++)
        for (int64_t j = 0; j < a->keys; j++)
            data[i * a->keys + j] =
                j - i - (a->nonpad < 0 ? a->past : -a->queries);
    return a->nonpad < 0 ? value
                         : compose_binary(im, KERN_SUB, value, a->nonpad);
}

/* Keys up to `most` behind their query, or from `least` on, are seen. */
static void add_limit(struct onnx_import *im, struct attention *a,
                      enum kern_binary_kind kind, int64_t limit)
{
    const int behind = distance(im, a);

    add_bias(im, a,
             hide(im, compose_binary(im, kind, behind,
                                     compose_integer(im, INFER_I64, limit))));
    a->may_hide_all =
        a->may_hide_all || a->nonpad >= 0 || kind == KERN_GREATER_EQUAL;
}

static int read_bias(struct onnx_import *im, struct attention *a)
{
    static const int64_t column[4] = {-1, 1, 1, 1};

    a->bias = a->nonpad = -1;
    a->queries = compose_dim(im, a->q, 2);
    a->keys = compose_dim(im, a->k, 2);
    if (onnx_has_input(im, 6))
        a->nonpad =
            compose_cast(im, INFER_I64,
                         compose_reshape(im, compose_input(im, 6), 4, column));
    if (onnx_has_input(im, 3))
        add_mask(im, a);
    if (a->causal)
        add_limit(im, a, KERN_LESS_EQUAL, 0);
    if (a->right >= 0)
        add_limit(im, a, KERN_LESS_EQUAL, a->right);
    if (a->left >= 0)
        add_limit(im, a, KERN_GREATER_EQUAL, -a->left);
    if (a->nonpad >= 0) {
        add_bias(im, a,
                 hide(im, compose_binary(im, KERN_LESS,
                                         compose_count(im, a->keys, 4, 3),
                                         a->nonpad)));
        a->may_hide_all = true;
    }
    return im->rc;
}

/* ---- the operator -------------------------------------------------- */

static int read_numbers(struct onnx_import *im, struct attention *a,
                        int64_t *mode)
{
    a->left = a->right = -1;
    onnx_ignore(im, "softmax_precision"); /* at least single precision */
    onnx_flag(im, "is_causal", &a->causal);
    onnx_float(im, "scale", &a->scale);
    onnx_float(im, "softcap", &a->softcap);
    onnx_int(im, "qk_matmul_output_mode", 0, 3, mode);
    onnx_int(im, "left_window_size", -1, INT32_MAX, &a->left);
    onnx_int(im, "right_window_size", -1, INT32_MAX, &a->right);
    return im->rc;
}

/* Rows of which no key is seen become 0. */
static int clear_hidden(struct onnx_import *im, const struct attention *a,
                        int weight)
{
    const int top = compose_reduce(im, KERN_REDUCE_MAX, a->bias, -1);
    const int none = compose_binary(im, KERN_EQUAL, top,
                                    compose_number(im, INFER_F32, -INFINITY));

    return compose_where(im, none, compose_number(im, INFER_F32, 0), weight);
}

int onnx_import_attention(struct onnx_import *im)
{
    struct attention a = {.scale = 0};
    int score, product, capped, weight, y;
    int64_t mode = 0;

    onnx_arity(im, 3, 7);
    read_numbers(im, &a, &mode);
    read_heads(im, &a);
    add_past(im, &a);
    if (read_bias(im, &a) < 0)
        return im->rc;
    if (!onnx_has_attr(im, "scale"))
        a.scale = (float)(1 / sqrt((double)compose_dim(im, a.q, 3)));
    product = compose_matmul(im, regroup(im, a.q, a.heads, a.groups), a.k, true,
                             a.scale);
    product = capped = regroup(im, product, a.groups, a.heads);
    if (a.softcap > 0)
        capped = compose_linear(
            im, (double)a.softcap, 0,
            compose_unary(
                im, KERN_TANH,
                compose_linear(im, 1 / (double)a.softcap, 0, product)));
    score = a.bias < 0 ? capped : compose_binary(im, KERN_ADD, capped, a.bias);
    weight = compose_softmax(im, score, -1);
    if (a.may_hide_all)
        weight = clear_hidden(im, &a, weight);
    y = compose_matmul(im, regroup(im, weight, a.heads, a.groups), a.v, false,
                       1);
    y = regroup(im, y, a.groups, a.heads);
    if (onnx_has_output(im, 3))
        compose_output(im, 3,
                       mode == 0   ? product
                       : mode == 1 ? capped
                       : mode == 2 ? score
                                   : weight);
    return compose_output(im, 0, a.rank3 ? compose_join_heads(im, y) : y);
}

/* ---- FlexAttention ------------------------------------------------- */

/* A body of the node, where it has one, applied to a value. */
static int apply_body(struct onnx_import *im, const char *name, int x)
{
    const struct pb_span word = {(unsigned char *)"flex", 4};
    const struct onnx_graph *body;
    struct pb_span arg, result;
    int v;

    if (!onnx_has_attr(im, name) || onnx_body_attr(im, name, &body) < 0)
        return x;
    arg = onnx_fresh_name(im, word);
    if (im->rc < 0 || onnx_value_get(im, arg, &v) < 0)
        return -1;
    im->value[v].graph = x;
    im->value[v].state = ONNX_GRAPH;
    if (onnx_import_body(im, body, &arg, 1, &result, 1) < 0 || im->skip)
        return -1;
    v = onnx_value_find(im, result);
    if (v < 0 || onnx_value_graph(im, v, &x) < 0)
        return -1;
    return x;
}

/* Attention whose scores and weights go through graphs of the node. */
int onnx_import_flex_attention(struct onnx_import *im)
{
    struct attention a = {.scale = 0};
    int y;

    onnx_arity(im, 3, 3);
    onnx_ignore(im, "softmax_precision"); /* at least single precision */
    onnx_float(im, "scale", &a.scale);
    if (read_heads(im, &a) < 0)
        return im->rc;
    if (!onnx_has_attr(im, "scale"))
        a.scale = (float)(1 / sqrt((double)compose_dim(im, a.q, 3)));
    y = compose_matmul(im, regroup(im, a.q, a.heads, a.groups), a.k, true,
                       a.scale);
    y = apply_body(im, "score_mod", regroup(im, y, a.groups, a.heads));
    if (im->rc < 0 || im->skip)
        return im->rc;
    y = apply_body(im, "prob_mod", compose_softmax(im, y, -1));
    if (im->rc < 0 || im->skip)
        return im->rc;
    y = compose_matmul(im, regroup(im, y, a.heads, a.groups), a.v, false, 1);
    return compose_output(im, 0, regroup(im, y, a.groups, a.heads));
}

/* ---- RotaryEmbedding ----------------------------------------------- */

/* A table of angles as N,S,1,half (or 1,S,1,half): its rows are those of the
 * positions, where these are given. */
static int angles(struct onnx_import *im, int i)
{
    int table = compose_input(im, i);

    if (onnx_has_input(im, 3)) {
        compose_need_rank(im, table, 2, 2);
        table = compose_gather(im, table, compose_input(im, 3), 0);
    }
    compose_need_rank(im, table, 3, 3);
    return compose_unsqueeze(im, table, 2);
}

/* Pairs (p, q) turned by their angles: into `turned`. */
static void turn(struct onnx_import *im, int p, int q, int *turned)
{
    const int c = angles(im, 1), s = angles(im, 2);

    turned[0] = compose_binary(im, KERN_SUB, compose_binary(im, KERN_MUL, c, p),
                               compose_binary(im, KERN_MUL, s, q));
    turned[1] = compose_binary(im, KERN_ADD, compose_binary(im, KERN_MUL, s, p),
                               compose_binary(im, KERN_MUL, c, q));
}

/* x: N,S,H,D, of which the first `n` values are turned. */
static int rotate(struct onnx_import *im, int x, int64_t n, bool interleaved)
{
    static const int64_t flat[4] = {0, 0, 0, -1};
    int pair[2], y;

    if (interleaved) {
        turn(im, compose_slice(im, x, 3, 0, n, 2),
             compose_slice(im, x, 3, 1, n, 2), pair);
        for (int i = 0; i < 2; i++)
            pair[i] = compose_unsqueeze(im, pair[i], 4);
        y = compose_reshape(im, compose_concat(im, 2, pair, 4), 4, flat);
    } else {
        turn(im, compose_slice(im, x, 3, 0, n / 2, 1),
             compose_slice(im, x, 3, n / 2, n, 1), pair);
        y = compose_concat(im, 2, pair, 3);
    }
    if (n < compose_dim(im, x, 3)) {
        const int both[2] = {y, compose_slice(im, x, 3, n, INT64_MAX, 1)};

        y = compose_concat(im, 2, both, 3);
    }
    return y;
}

int onnx_import_rotary(struct onnx_import *im)
{
    int64_t heads = 0, part = 0, split[4] = {0, 0, 0, -1};
    bool interleaved = false, rank3;
    int x, y;

    onnx_arity(im, 3, 4);
    onnx_flag(im, "interleaved", &interleaved);
    onnx_int(im, "num_heads", 0, INT32_MAX, &heads);
    onnx_int(im, "rotary_embedding_dim", 0, INT32_MAX, &part);
    x = compose_input(im, 0);
    compose_need_rank(im, x, 3, 4);
    rank3 = compose_rank(im, x) == 3;
    if (rank3 && (heads < 1 || compose_dim(im, x, 2) % heads))
        return onnx_fail(im, INFER_EFORMAT, "%lld heads of %lld values",
                         (long long)heads, (long long)compose_dim(im, x, 2));
    split[2] = heads;
    x = rank3 ? compose_reshape(im, x, 4, split) : compose_swap(im, x, 1, 2);
    if (part == 0)
        part = compose_dim(im, x, 3);
    if (im->rc == 0 && (part % 2 || part > compose_dim(im, x, 3)))
        return onnx_fail(im, INFER_EFORMAT,
                         "%lld of %lld values are to be turned",
                         (long long)part, (long long)compose_dim(im, x, 3));
    y = rotate(im, x, part, interleaved);
    if (rank3) {
        const int64_t flat[3] = {0, 0, -1};

        return compose_output(im, 0, compose_reshape(im, y, 3, flat));
    }
    return compose_output(im, 0, compose_swap(im, y, 1, 2));
}
