/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention and MultiHeadAttention of the domain com.microsoft: queries, keys
 * and values N,S,D are cut into heads N,H,S,D, and what may not be seen has a
 * large negative bias.
 */
#include <float.h>
#include <math.h>

#include "weights/onnx/composed/compose.h"

struct heads {
    int64_t n;
    int q, k, v;   /* N,H,S,D */
    int64_t past;  /* keys of earlier calls */
    float scale;   /* 0: 1 / sqrt(D) */
    double hidden; /* bias of masked keys */
    bool causal;
    int bias; /* or -1 */
};

static int read_numbers(struct onnx_import *im, struct heads *h)
{
    float hidden = -10000;

    onnx_int(im, "num_heads", 1, INT32_MAX, &h->n);
    onnx_float(im, "scale", &h->scale);
    onnx_float(im, "mask_filter_value", &hidden);
    onnx_flag(im, "unidirectional", &h->causal);
    h->hidden = (double)hidden;
    h->bias = -1;
    if (im->rc == 0 && h->n < 1)
        return onnx_fail(im, INFER_EFORMAT, "attribute 'num_heads' is missing");
    return im->rc;
}

static int split(struct onnx_import *im, int x, int64_t heads)
{
    compose_need_rank(im, x, 3, 3);
    if (im->rc == 0 && compose_dim(im, x, 2) % heads)
        onnx_fail(im, INFER_EFORMAT, "%lld heads of %lld values",
                  (long long)heads, (long long)compose_dim(im, x, 2));
    return compose_split_heads(im, x, heads);
}

static void add_bias(struct onnx_import *im, struct heads *h, int part)
{
    h->bias = h->bias < 0 ? part : compose_binary(im, KERN_ADD, h->bias, part);
}

/* Integers that are 0 where a key is hidden: N,T, or N,S,T; or how many keys of
 * each N are seen. */
static void add_mask(struct onnx_import *im, struct heads *h, int mask)
{
    const int64_t keys = compose_dim(im, h->k, 2);
    int shown;

    if (compose_rank(im, mask) == 1) {
        static const int64_t column[4] = {-1, 1, 1, 1};

        if (im->rc == 0 &&
            compose_free_dim(im, mask, 0) != compose_free_dim(im, h->k, 0)) {
            onnx_fail(im, INFER_EUNSUPPORTED, "a mask of starts and ends");
            return;
        }
        shown = compose_binary(
            im, KERN_LESS, compose_count(im, keys, 4, 3),
            compose_reshape(im, compose_cast(im, INFER_I64, mask), 4, column));
    } else {
        compose_need_rank(im, mask, 2, 3);
        if (im->rc == 0 && compose_dim(im, mask, -1) != keys) {
            onnx_fail(im, INFER_EUNSUPPORTED, "a mask of %lld of %lld keys",
                      (long long)compose_dim(im, mask, -1), (long long)keys);
            return;
        }
        if (compose_rank(im, mask) == 2)
            mask = compose_unsqueeze(im, mask, 1);
        mask = compose_cast(im, INFER_I64, compose_unsqueeze(im, mask, 1));
        shown = compose_binary(im, KERN_GREATER, mask,
                               compose_integer(im, INFER_I64, 0));
    }
    add_bias(im, h,
             compose_where(im, shown, compose_number(im, INFER_F32, 0),
                           compose_number(im, INFER_F32, h->hidden)));
}

/* Query i sees keys up to i, and those of earlier calls. */
static void add_causal(struct onnx_import *im, struct heads *h)
{
    const int64_t dim[2] = {compose_dim(im, h->q, 2), compose_dim(im, h->k, 2)};
    float *data;
    const int value = compose_floats(im, 2, dim, &data);

    for (int64_t i = 0; value >= 0 && i < dim[0]; i++)
        for (int64_t j = 0; j < dim[1]; j++)
            data[i * dim[1] + j] = j <= i + h->past ? 0 : -FLT_MAX;
    if (value >= 0)
        add_bias(im, h, value);
}

/* Keys and values of earlier calls (values of the graph; -1: none) come first;
 * outputs `out` and the next are all, where `out` is not 0. */
static void add_past(struct onnx_import *im, struct heads *h, int key,
                     int value, int out)
{
    const int past[2] = {key, value};

    for (int i = 0; i < 2; i++) {
        int *x = i ? &h->v : &h->k;

        if (past[i] >= 0) {
            const int both[2] = {past[i], *x};

            compose_need_rank(im, past[i], 4, 4);
            h->past = compose_dim(im, past[i], 2);
            *x = compose_concat(im, 2, both, 2);
        }
        if (out > 0 && onnx_has_output(im, out + i))
            compose_output(im, out + i, *x);
    }
}

static int attend(struct onnx_import *im, struct heads *h)
{
    int y;

    if (im->rc < 0)
        return -1;
    if (!(h->scale > 0))
        h->scale = (float)(1 / sqrt((double)compose_dim(im, h->q, 3)));
    if (h->causal)
        add_causal(im, h);
    y = compose_matmul(im, h->q, h->k, true, h->scale);
    if (h->bias >= 0)
        y = compose_binary(im, KERN_ADD, y, h->bias);
    y = compose_matmul(im, compose_softmax(im, y, -1), h->v, false, 1);
    return compose_join_heads(im, y);
}

/* ---- MultiHeadAttention -------------------------------------------- */

/* Entries begin .. end of a vector, added to N,S,D. */
static int biased(struct onnx_import *im, int x, int bias, int64_t *at)
{
    const int64_t n = compose_dim(im, x, 2), begin = *at;

    *at += n;
    return bias < 0 ? x
                    : compose_binary(
                          im, KERN_ADD, x,
                          compose_slice(im, bias, 0, begin, begin + n, 1));
}

/* Part i of heads that are packed: N,S,H,parts,D to N,H,S,D. */
static int unpack(struct onnx_import *im, int x, int i)
{
    return compose_swap(
        im, compose_squeeze(im, compose_slice(im, x, 3, i, i + 1, 1), 3), 1, 2);
}

/* Each of query, key and value has its own tensor, or heads are packed. */
static int read_parts(struct onnx_import *im, struct heads *h)
{
    const int q = compose_input(im, 0), k = compose_input(im, 1);
    const int v = compose_input(im, 2), bias = compose_input(im, 3);
    int64_t at = 0;

    if (k < 0 || v < 0) {
        if (im->rc == 0 && bias >= 0)
            return onnx_fail(im, INFER_EUNSUPPORTED, "a bias of packed heads");
        compose_need_rank(im, k < 0 ? q : k, 5, 5);
        h->q = k < 0 ? unpack(im, q, 0) : split(im, q, h->n);
        h->k = unpack(im, k < 0 ? q : k, k < 0 ? 1 : 0);
        h->v = unpack(im, k < 0 ? q : k, k < 0 ? 2 : 1);
        return im->rc;
    }
    compose_need_rank(im, q, 3, 3);
    h->q = split(im, biased(im, q, bias, &at), h->n);
    if (compose_rank(im, k) == 4) { /* N,H,T,D already */
        if (im->rc == 0 && bias >= 0)
            return onnx_fail(im, INFER_EUNSUPPORTED, "a bias of stored keys");
        compose_need_rank(im, v, 4, 4);
        h->k = k;
        h->v = v;
        return im->rc;
    }
    compose_need_rank(im, k, 3, 3);
    compose_need_rank(im, v, 3, 3);
    h->k = split(im, biased(im, k, bias, &at), h->n);
    h->v = split(im, biased(im, v, bias, &at), h->n);
    return im->rc;
}

int onnx_import_multi_head(struct onnx_import *im)
{
    struct heads h = {.n = 0};

    onnx_arity(im, 1, 8);
    onnx_drop_outputs(im, 3);
    if (read_numbers(im, &h) < 0 || read_parts(im, &h) < 0)
        return im->rc;
    add_past(im, &h, compose_input(im, 6), compose_input(im, 7), 1);
    if (onnx_has_input(im, 4))
        add_mask(im, &h, compose_input(im, 4));
    if (onnx_has_input(im, 5))
        add_bias(im, &h, compose_input(im, 5));
    return compose_output(im, 0, attend(im, &h));
}

/* ---- Attention ----------------------------------------------------- */

/* One product gives queries, keys and values: input, weights, bias, mask, past,
 * bias of the scores. */
int onnx_import_joint_attention(struct onnx_import *im)
{
    int64_t size[3] = {0, 0, 0}, from = 0, rotary = 0;
    struct heads h = {.n = 0};
    int *part[3] = {&h.q, &h.k, &h.v};
    int x, n = 0;

    onnx_arity(im, 2, 6);
    onnx_int(im, "do_rotary", 0, 0, &rotary);
    onnx_ints(im, "qkv_hidden_sizes", 3, size, &n);
    if (read_numbers(im, &h) < 0)
        return im->rc;
    x = compose_input(im, 0);
    compose_need_rank(im, x, 3, 3);
    compose_need_rank(im, compose_input(im, 1), 2, 2);
    x = compose_matmul(im, x, compose_input(im, 1), false, 1);
    if (onnx_has_input(im, 2))
        x = compose_binary(im, KERN_ADD, x, compose_input(im, 2));
    if (n != 3)
        size[0] = size[1] = size[2] = compose_dim(im, x, 2) / 3;
    if (im->rc == 0 &&
        (size[0] < 1 || size[1] < 1 || size[2] < 1 || size[0] > INT32_MAX ||
         size[1] > INT32_MAX || size[2] > INT32_MAX ||
         size[0] + size[1] + size[2] != compose_dim(im, x, 2)))
        return onnx_fail(im, INFER_EFORMAT,
                         "%lld, %lld and %lld values of %lld",
                         (long long)size[0], (long long)size[1],
                         (long long)size[2], (long long)compose_dim(im, x, 2));
    for (int i = 0; i < 3; from += size[i++])
        *part[i] =
            split(im, compose_slice(im, x, 2, from, from + size[i], 1), h.n);
    if (onnx_has_input(im, 4)) { /* both stacked */
        const int past = compose_input(im, 4);
        int both[2];

        compose_need_rank(im, past, 5, 5);
        for (int i = 0; i < 2; i++)
            both[i] =
                compose_squeeze(im, compose_slice(im, past, 0, i, i + 1, 1), 0);
        add_past(im, &h, both[0], both[1], 0);
    }
    if (onnx_has_output(im, 1)) {
        const int both[2] = {compose_unsqueeze(im, h.k, 0),
                             compose_unsqueeze(im, h.v, 0)};

        compose_output(im, 1, compose_concat(im, 2, both, 0));
    }
    if (onnx_has_input(im, 3))
        add_mask(im, &h, compose_input(im, 3));
    if (onnx_has_input(im, 5))
        add_bias(im, &h, compose_input(im, 5));
    return compose_output(im, 0, attend(im, &h));
}
