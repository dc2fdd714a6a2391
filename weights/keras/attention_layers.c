/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: MultiHeadAttention, Attention and AdditiveAttention. */
#include <math.h>
#include <string.h>

#include "kernels/base/json.h"
#include "weights/keras/keras.h"

/* ---- shared -------------------------------------------------------- */

static int matmul(struct keras_emit *k, const char *role, int a, int b,
                  bool transpose_b, double alpha)
{
    const int in[2] = {a, b};
    int node;
    const int y = keras_node(k, GRAPH_MATMUL, role, in, 2, &node);

    if (y >= 0) {
        k->g->node[node].attr.matmul.transpose_b = transpose_b;
        k->g->node[node].attr.matmul.alpha = (float)alpha;
    }
    return y;
}

static int softmax(struct keras_emit *k, int x)
{
    int node;
    const int y = keras_node(k, GRAPH_SOFTMAX, "softmax", &x, 1, &node);

    if (y >= 0)
        k->g->node[node].attr.axis.axis = -1;
    return y;
}

/* Query i sees keys up to i: -1e9 is added to the others' scores. */
static int hide_later(struct keras_emit *k, int score, int64_t queries,
                      int64_t keys)
{
    const int64_t dim[2] = {queries, keys};
    struct constant *c = constant_new(INFER_F32, 2, dim);
    float *data = c ? (float *)(void *)c->data : NULL;

    for (int64_t i = 0; data && i < queries; i++)
        for (int64_t j = 0; j < keys; j++)
            *data++ = j <= i ? 0 : -1e9f;
    const struct keras_value x = {score, 0, false};

    return keras_binary(k, "causal", x, keras_constant(k, "causal", c),
                        KERN_ADD)
        .value;
}

/* The inputs by place: query, value, key (value, where it is absent), in Keras'
 * order. */
static bool read_inputs(struct keras_emit *k, const struct keras_value *in,
                        int n, struct keras_value *x)
{
    static const char *const words[] = {"query", "value", "key"};
    bool seen[3] = {false};

    for (int i = 0; i < n && k->status == 0; i++) {
        const char *word = k->call->in[i].word;
        int at = word ? -1 : i;

        for (int w = 0; word && w < 3; w++)
            if (strcmp(word, words[w]) == 0)
                at = w;
        if (at < 0 || at > 2 || seen[at])
            keras_fail(k, INFER_EUNSUPPORTED, "argument '%s'",
                       word ? word : "4");
        else
            seen[at] = true, x[at] = keras_plain(k, in[i]);
    }
    if (k->status == 0 && (!seen[0] || !seen[1]))
        keras_fail(k, INFER_EFORMAT, "a query and a value are due");
    if (!seen[2] && seen[1])
        x[2] = x[1];
    if (keras_keyword(k, "return_attention_scores"))
        keras_fail(k, INFER_EUNSUPPORTED, "scores as an output");
    for (int i = 0; i < 3 && k->status == 0; i++)
        if (x[i].rank != 3)
            keras_fail(k, INFER_EUNSUPPORTED,
                       "an input of %d dimensions; 3 are supported", x[i].rank);
    return k->status == 0;
}

static bool is_causal(struct keras_emit *k, const struct keras_layer *l)
{
    return keras_keyword(k, "use_causal_mask") ||
           keras_bool(k, l->config, "causal", false);
}

static int mask_causal(struct keras_emit *k, const struct keras_layer *l,
                       const struct keras_value *x, int score)
{
    int64_t q[INFER_MAX_RANK], v[INFER_MAX_RANK];

    if (!is_causal(k, l) || !keras_sizes(k, x[0], 1, q) ||
        !keras_sizes(k, x[2], 1, v))
        return score;
    return hide_later(k, score, q[1], v[1]);
}

/* ---- MultiHeadAttention -------------------------------------------- */

int keras_multi_head_variables(struct keras_emit *k, struct keras_layer *l)
{
    static const char *const groups[] = {"query_dense", "key_dense",
                                         "value_dense", "output_dense"};
    static const char *const names[][2] = {{"query_kernel", "query_bias"},
                                           {"key_kernel", "key_bias"},
                                           {"value_kernel", "value_bias"},
                                           {"output_kernel", "output_bias"}};

    for (int i = 0; i < 4; i++) {
        keras_add_variable_in(l, groups[i], names[i][0], true);
        if (keras_bool(k, l->config, "use_bias", true))
            keras_add_variable_in(l, groups[i], names[i][1], true);
    }
    return k->status;
}

static struct constant *split_kernel(struct keras_emit *k,
                                     const struct keras_layer *l,
                                     struct constant *c)
{
    (void)l;
    if (c->rank != 3)
        keras_fail(k, INFER_EFORMAT, "a kernel of rank %d", c->rank);
    return c->rank == 3 ? keras_flat_kernel(c, 1) : NULL;
}

static struct constant *join_kernel(struct keras_emit *k,
                                    const struct keras_layer *l,
                                    struct constant *c)
{
    (void)l;
    if (c->rank != 3)
        keras_fail(k, INFER_EFORMAT, "a kernel of rank %d", c->rank);
    return c->rank == 3 ? keras_flat_kernel(c, 2) : NULL;
}

static struct constant *
flat_bias(struct keras_emit *k, const struct keras_layer *l, struct constant *c)
{
    const int64_t n = constant_count(c);

    (void)k;
    (void)l;
    return constant_reshape(c, 1, &n);
}

/* Projection i of x: dense over the last axis. */
static int project(struct keras_emit *k, struct keras_layer *l, int i, int x)
{
    static const char *const roles[] = {"query", "key", "value", ""};
    static const char *const weights[] = {"query.weight", "key.weight",
                                          "value.weight", "output.weight"};
    static const char *const biases[] = {"query.bias", "key.bias", "value.bias",
                                         "output.bias"};
    const bool bias = l->n_variables == 8;
    const int at = bias ? 2 * i : i;
    const int in[3] = {
        x,
        keras_weight(k, l, at, weights[i], i == 3 ? join_kernel : split_kernel),
        bias ? keras_weight(k, l, at + 1, biases[i], flat_bias) : -1};

    return keras_node(k, GRAPH_DENSE, roles[i], in, bias ? 3 : 2, NULL);
}

/* N,T,H D to N,H,T,D */
static int split(struct keras_emit *k, int x, int heads)
{
    static const int order[4] = {0, 2, 1, 3};
    const int64_t dim[4] = {0, 0, heads, -1};

    return keras_transpose(k, keras_dims(k, GRAPH_RESHAPE, "heads", x, 4, dim),
                           4, order);
}

static bool refuse_options(struct keras_emit *k, const struct keras_layer *l)
{
    const cJSON *axes = json_member(l->config, "attention_axes");
    const cJSON *window = json_member(l->config, "sliding_window");
    const cJSON *shape = json_member(l->config, "output_shape");

    if (cJSON_IsArray(axes) && axes->child && axes->child->next == NULL)
        axes = axes->child;
    if (axes != NULL && !cJSON_IsNull(axes) &&
        !(cJSON_IsNumber(axes) && axes->valuedouble == 1))
        keras_fail(k, INFER_EUNSUPPORTED, "attention_axes other than 1");
    if (window != NULL && !cJSON_IsNull(window))
        keras_fail(k, INFER_EUNSUPPORTED, "sliding_window");
    if (cJSON_IsArray(shape) && shape->child && shape->child->next)
        keras_fail(k, INFER_EUNSUPPORTED, "an output_shape of several axes");
    if (keras_bool(k, l->config, "use_gate", false))
        keras_fail(k, INFER_EUNSUPPORTED, "use_gate");
    return k->status == 0;
}

struct keras_value keras_multi_head(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n)
{
    static const int order[4] = {0, 2, 1, 3};
    static const int64_t joined[3] = {0, 0, -1};
    const int heads = keras_int(k, l->config, "num_heads", 1, 1 << 16, 1);
    const int size = keras_int(k, l->config, "key_dim", 1, 1 << 24, 1);
    struct keras_value x[3];
    int q, key, v, score;

    if (!refuse_options(k, l) || !read_inputs(k, in, n, x))
        return keras_failed(k);
    q = split(k, project(k, l, 0, x[0].value), heads);
    key = split(k, project(k, l, 1, x[2].value), heads);
    v = split(k, project(k, l, 2, x[1].value), heads);
    score = matmul(k, "scores", q, key, true, 1 / sqrt((double)size));
    score = softmax(k, mask_causal(k, l, x, score));
    v = keras_transpose(k, matmul(k, "sums", score, v, false, 1), 4, order);
    v = keras_dims(k, GRAPH_RESHAPE, "joined", v, 3, joined);
    x[0].value = project(k, l, 3, v);
    return x[0];
}

/* ---- Attention, AdditiveAttention ---------------------------------- */

int keras_attention_variables(struct keras_emit *k, struct keras_layer *l)
{
    const bool additive = l->class->arg == 1;
    const char *mode = json_string(l->config, "score_mode");

    if (keras_bool(k, l->config, "use_scale", additive))
        keras_add_variable(l, "scale", true);
    if (mode != NULL && strcmp(mode, "concat") == 0)
        keras_add_variable(l, "concat_score_weight", true);
    return k->status;
}

/* The sum over the last axis of scale tanh(q + key), for each pair. */
static int additive_scores(struct keras_emit *k, struct keras_layer *l, int q,
                           int key, int scale)
{
    static const int64_t second = 2, first = 1;
    struct keras_value x = {
        keras_dims(k, GRAPH_UNSQUEEZE, "queries", q, 1, &second), 4, false};

    x = keras_binary(k, "pairs", x,
                     keras_dims(k, GRAPH_UNSQUEEZE, "keys", key, 1, &first),
                     KERN_ADD);
    x.value = keras_unary(k, "tanh", x.value, KERN_TANH, 0, 0);
    if (scale >= 0)
        x = keras_binary(k, "scaled", x, scale, KERN_MUL);
    x = keras_reduce(k, x, "scores", KERN_REDUCE_SUM, 1u << 3, false);
    if (keras_variable(l, "concat_score_weight") >= 0)
        x = keras_binary(k, "weighted", x,
                         keras_weight(k, l,
                                      keras_variable(l, "concat_score_weight"),
                                      "concat_score_weight", NULL),
                         KERN_MUL);
    return x.value;
}

struct keras_value keras_attention(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    const bool concat = keras_variable(l, "concat_score_weight") >= 0;
    const int at = keras_variable(l, "scale");
    struct keras_value x[3];
    int score, scale;

    if (!read_inputs(k, in, n, x))
        return keras_failed(k);
    scale = at < 0 ? -1 : keras_weight(k, l, at, "scale", NULL);
    if (l->class->arg == 1) {
        score = additive_scores(k, l, x[0].value, x[2].value, scale);
    } else if (concat) {
        /* the scale is inside of tanh */
        struct keras_value q = x[0], key = x[2];

        if (scale >= 0) {
            q = keras_binary(k, "scaled", q, scale, KERN_MUL);
            key = keras_binary(k, "scaled_keys", key, scale, KERN_MUL);
        }
        score = additive_scores(k, l, q.value, key.value, -1);
    } else {
        score = matmul(k, "scores", x[0].value, x[2].value, true, 1);
        if (scale >= 0) {
            const struct keras_value s = {score, 3, false};

            score = keras_binary(k, "scaled", s, scale, KERN_MUL).value;
        }
    }
    score = softmax(k, mask_causal(k, l, x, score));
    x[0].value = matmul(k, "", score, x[1].value, false, 1);
    return x[0];
}
