/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, and the layers of it that PyTorch computes by one operator. */
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* x with its last two dimensions exchanged. */
static struct pb_span transposed(struct onnx_import *im, struct pb_span x)
{
    const int rank = aten_rank(im, x);
    int64_t order[INFER_MAX_RANK];

    for (int i = 0; i < rank; i++)
        order[i] = i;
    if (im->rc < 0 || rank < 2)
        return x;
    order[rank - 1] = rank - 2;
    order[rank - 2] = rank - 1;
    return aten_permute(im, x, rank, order);
}

/* Entries begin .. end - 1 of the shape of x. */
static struct pb_span sizes(struct onnx_import *im, struct pb_span x,
                            int64_t begin, int64_t end)
{
    return aten_cut(im, ATEN_STEP(im, "Shape", NULL, x), 0, begin, end);
}

static struct pb_span join(struct onnx_import *im, int n,
                           const struct pb_span *part)
{
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "axis", 0);
    return aten_step(im, "Concat", &a, n, part);
}

/* ---- one operator -------------------------------------------------- */

/* Truths of queries x keys: a query sees the keys up to its own place. */
static struct pb_span causal(struct onnx_import *im, struct pb_span q,
                             struct pb_span k)
{
    struct aten_attrs lower = {.n = 0};
    struct pb_span part[2] = {sizes(im, q, -2, -1), sizes(im, k, -2, -1)};
    struct pb_span ones;

    aten_set_int(&lower, "upper", 0);
    ones = ATEN_STEP(im, "Expand", NULL, aten_scalar(im, INFER_F32, 1),
                     join(im, 2, part));
    return aten_cast(im, ATEN_STEP(im, "Trilu", &lower, ones), INFER_BOOL);
}

/* Each head of x as often as several heads of the queries share it. */
static struct pb_span shared(struct onnx_import *im, struct pb_span x,
                             int64_t heads)
{
    const int64_t own = aten_dim(im, x, -3);
    const int rank = aten_rank(im, x);
    struct pb_span part[3];
    int64_t times[INFER_MAX_RANK + 1];

    if (im->rc < 0 || own == heads)
        return x;
    if (own < 1 || heads < 1 || heads % own || rank < 3 ||
        rank >= INFER_MAX_RANK) {
        onnx_fail(im, INFER_EUNSUPPORTED, "%lld heads share %lld",
                  (long long)heads, (long long)own);
        return x;
    }
    for (int i = 0; i <= rank; i++)
        times[i] = i == rank - 2 ? heads / own : 1;
    part[0] = sizes(im, x, 0, rank - 3);
    part[1] = aten_list1(im, heads);
    part[2] = sizes(im, x, rank - 2, rank);
    x = ATEN_STEP(im, "Unsqueeze", NULL, x, aten_list1(im, rank - 2));
    x = ATEN_STEP(im, "Expand", NULL, x, aten_list(im, rank + 1, times));
    return ATEN_STEP(im, "Reshape", NULL, x,
                     rank > 3 ? join(im, 3, part) : join(im, 2, part + 1));
}

/* softmax(scale q k' + mask), of which mask may be empty. */
static struct pb_span weights_of(struct onnx_import *im, struct pb_span q,
                                 struct pb_span k, struct pb_span mask,
                                 double scale)
{
    const enum infer_dtype dtype = aten_type_of(im, q);
    struct aten_attrs last = {.n = 0};
    struct pb_span y = ATEN_STEP(im, "MatMul", NULL, aten_mul(im, q, scale),
                                 transposed(im, k));

    if (mask.bytes && aten_need_type(im, mask, "what the mask does") < 0)
        return y;
    if (mask.bytes && aten_type_of(im, mask) == INFER_BOOL)
        y = ATEN_STEP(im, "Where", NULL, mask, y,
                      aten_scalar(im, dtype, -INFINITY));
    else if (mask.bytes)
        y = ATEN_STEP(im, "Add", NULL, y, mask);
    aten_set_int(&last, "axis", -1);
    return ATEN_STEP(im, "Softmax", &last, y);
}

/* softmax(q k' scale + mask) v, on the last two dimensions. */
int aten_attention(struct onnx_import *im)
{
    struct pb_span q = aten_tensor(im, "query"), k = aten_tensor(im, "key");
    struct pb_span v = aten_tensor(im, "value");
    struct pb_span mask = aten_optional(im, "attn_mask");
    const int64_t width = aten_dim(im, q, -1);

    if (im->rc < 0 || aten_rank(im, k) < 2 || width < 1)
        return onnx_fail(im, INFER_EUNSUPPORTED, "attention of free width");
    if (aten_number(im, "dropout_p", 0) != 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "attention with dropout: call eval() before the "
                         "export");
    if (aten_flag(im, "is_causal", false)) {
        if (mask.bytes)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "attention that is causal and masked");
        mask = causal(im, q, k);
    }
    if (aten_flag(im, "enable_gqa", false)) {
        k = shared(im, k, aten_dim(im, q, -3));
        v = shared(im, v, aten_dim(im, q, -3));
    }
    return ATEN_LAST(
        im, "MatMul", NULL,
        weights_of(im, q, k, mask,
                   aten_number(im, "scale", 1 / sqrt((double)width))),
        v);
}

/* ---- whole layers -------------------------------------------------- */

/* x w' + b */
static struct pb_span dense(struct onnx_import *im, struct pb_span x,
                            const char *w, const char *b)
{
    const struct pb_span bias = aten_optional(im, b);
    struct pb_span y =
        ATEN_STEP(im, "MatMul", NULL, x, transposed(im, aten_tensor(im, w)));

    return bias.bytes ? ATEN_STEP(im, "Add", NULL, y, bias) : y;
}

/* Third i of N,T,3 E as N,heads,T,E / heads. */
static struct pb_span heads_of(struct onnx_import *im, struct pb_span x, int i,
                               int64_t width, int64_t heads)
{
    static const int64_t order[4] = {0, 2, 1, 3};

    x = aten_cut(im, x, 2, i * width, (i + 1) * width);
    x = ATEN_STEP(im, "Reshape", NULL, x,
                  aten_list(im, 4, (int64_t[]){0, 0, heads, width / heads}));
    return aten_permute(im, x, 4, order);
}

/* Which keys a query sees, as truths that N,heads,T,T broadcast with; empty:
 * all.  What is not 0 in the mask is hidden: of queries and keys (mask_type 0),
 * of the keys of each sequence (1), or of all four dimensions (2). */
static struct pb_span seen(struct onnx_import *im)
{
    static const int64_t middle[2] = {1, 2};
    static const int ranks[3] = {2, 2, 4};
    const int64_t type = aten_int(im, "mask_type", -1);
    struct pb_span mask = aten_optional(im, "mask");

    if (im->rc < 0 || mask.bytes == 0)
        return aten_no_input();
    if (type < 0 || type > 2 || aten_rank(im, mask) != ranks[type]) {
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "attention with a mask of type %lld and rank %d",
                  (long long)type, aten_rank(im, mask));
        return mask;
    }
    if (type == 1)
        mask = ATEN_STEP(im, "Unsqueeze", NULL, mask, aten_list(im, 2, middle));
    return ATEN_STEP(im, "Not", NULL, aten_cast(im, mask, INFER_BOOL));
}

/* Attention of x (N,T,E) to itself, between two dense layers; *weight, unless
 * NULL: N,heads,T,T. */
static struct pb_span self_attention(struct onnx_import *im, struct pb_span x,
                                     const char *heads_name,
                                     struct pb_span *weight)
{
    const int64_t width = aten_int(im, "embed_dim", 0);
    const int64_t heads = aten_int(im, heads_name, 1);
    static const int64_t order[4] = {0, 2, 1, 3};
    struct pb_span qkv, q, k, v, y;

    if (im->rc < 0 || aten_rank(im, x) != 3 || heads < 1 || width < heads ||
        width % heads) {
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "attention of %lld channels in %lld heads", (long long)width,
                  (long long)heads);
        return x;
    }
    qkv = dense(im, x, "qkv_weight", "qkv_bias");
    q = heads_of(im, qkv, 0, width, heads);
    k = heads_of(im, qkv, 1, width, heads);
    v = heads_of(im, qkv, 2, width, heads);
    y = weights_of(im, q, k, seen(im), 1 / sqrt((double)width / (double)heads));
    if (weight)
        *weight = y;
    y = aten_permute(im, ATEN_STEP(im, "MatMul", NULL, y, v), 4, order);
    y = ATEN_STEP(im, "Reshape", NULL, y,
                  aten_list(im, 3, (int64_t[]){0, 0, width}));
    return dense(im, y, "proj_weight", "proj_bias");
}

/* The second output are the weights, the mean of all heads' or each head's. */
int aten_multi_head_attention(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "query");
    struct aten_attrs a = {.n = 0};
    struct pb_span weight, y;

    if (im->rc == 0 && (x.data != aten_tensor(im, "key").data ||
                        x.data != aten_tensor(im, "value").data))
        return onnx_fail(im, INFER_EUNSUPPORTED, "attention to another tensor");
    y = self_attention(im, x, "num_head", &weight);
    aten_same(im, 0, y);
    if (!aten_flag(im, "need_weights", true))
        return im->rc;
    if (!aten_flag(im, "average_attn_weights", true))
        return aten_same(im, 1, weight);
    aten_set_int(&a, "keepdims", 0);
    return aten_give(im, 1, "ReduceMean", &a,
                     ATEN_N(weight, aten_list1(im, 1)));
}

static struct pb_span normed(struct onnx_import *im, struct pb_span x,
                             const char *w, const char *b)
{
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "axis", -1);
    aten_set_float(&a, "epsilon", aten_number(im, "eps", 1e-5));
    return ATEN_STEP(im, "LayerNormalization", &a, x, aten_tensor(im, w),
                     aten_tensor(im, b));
}

static struct pb_span forward_of(struct onnx_import *im, struct pb_span x)
{
    struct pb_span y = dense(im, x, "ffn_weight_1", "ffn_bias_1");

    y = ATEN_STEP(im, aten_flag(im, "use_gelu", false) ? "Gelu" : "Relu", NULL,
                  y);
    return dense(im, y, "ffn_weight_2", "ffn_bias_2");
}

/* nn.TransformerEncoderLayer: the norms stand before or behind the sums. */
int aten_encoder_layer(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "src"), y;

    if (aten_flag(im, "norm_first", false)) {
        y = normed(im, x, "norm_weight_1", "norm_bias_1");
        y = self_attention(im, y, "num_heads", NULL);
        x = ATEN_STEP(im, "Add", NULL, x, y);
        y = forward_of(im, normed(im, x, "norm_weight_2", "norm_bias_2"));
        return ATEN_LAST(im, "Add", NULL, x, y);
    }
    y = self_attention(im, x, "num_heads", NULL);
    x = normed(im, ATEN_STEP(im, "Add", NULL, x, y), "norm_weight_1",
               "norm_bias_1");
    y = ATEN_STEP(im, "Add", NULL, x, forward_of(im, x));
    return aten_same(im, 0, normed(im, y, "norm_weight_2", "norm_bias_2"));
}
