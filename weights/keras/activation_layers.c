/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: activations, as layers and inside layers. */
#include <float.h>
#include <string.h>

#include "kernels/base/json.h"
#include "weights/keras/keras.h"

/* Graph files are JSON, which has no infinity: the largest finite number does
 * the same for every finite input. */
#define NO_LIMIT FLT_MAX

/* Words that are one element-wise function.  hard_sigmoid and others that need
 * more stand below. */
static const struct {
    const char *word;
    enum kern_unary_kind kind;
    float a, b;
} words[] = {
    {"relu", KERN_RELU, 0, 0},
    {"relu6", KERN_CLIP, 0, 6},
    {"sigmoid", KERN_SIGMOID, 0, 0},
    {"tanh", KERN_TANH, 0, 0},
    {"elu", KERN_ELU, 1, 0},
    {"selu", KERN_SELU, 1.67326324235437728f, 1.05070098735548049f},
    {"celu", KERN_CELU, 1, 0},
    {"softplus", KERN_SOFTPLUS, 0, 0},
    {"softsign", KERN_SOFTSIGN, 0, 0},
    {"swish", KERN_SILU, 1, 0},
    {"silu", KERN_SILU, 1, 0},
    {"hard_swish", KERN_HARD_SWISH, 0, 0},
    {"hard_silu", KERN_HARD_SWISH, 0, 0},
    {"hard_tanh", KERN_CLIP, -1, 1},
    {"gelu", KERN_GELU, 0, 0},
    {"exponential", KERN_EXP, 0, 0},
    {"leaky_relu", KERN_LEAKY_RELU, 0.2f, 0},
    {"mish", KERN_MISH, 0, 0},
    {"hard_shrink", KERN_SHRINK, 0.5f, 0},
    {"soft_shrink", KERN_SHRINK, 0.5f, 0.5f},
};

static struct keras_value unary(struct keras_emit *k, struct keras_value x,
                                enum kern_unary_kind kind, double a, double b)
{
    if (k->status == 0)
        x.value = keras_unary(k, "", x.value, kind, (float)a, (float)b);
    return x;
}

/* Softmax over an axis of Keras' order. */
static struct keras_value softmax(struct keras_emit *k, struct keras_value x,
                                  int axis, bool logarithm)
{
    int node;

    if (k->status < 0)
        return x;
    if (axis < -x.rank || axis >= x.rank || x.rank < 2)
        return keras_fail(k, INFER_EFORMAT, "softmax over axis %d of %d", axis,
                          x.rank);
    if (axis < 0)
        axis += x.rank;
    if (x.swapped && axis > 0)
        axis = axis == x.rank - 1 ? 1 : axis + 1;
    x.value = keras_node(k, GRAPH_SOFTMAX, "", &x.value, 1, &node);
    if (x.value >= 0) {
        k->g->node[node].attr.axis.axis = axis;
        k->g->node[node].attr.axis.log = logarithm;
    }
    return x;
}

/* (x + sqrt(x^2 + 4)) / 2 */
static struct keras_value squareplus(struct keras_emit *k, struct keras_value x)
{
    struct keras_value y = keras_binary(k, "square", x, x.value, KERN_MUL);

    y.value = keras_unary(k, "plus", y.value, KERN_LINEAR, 1, 4);
    y.value = keras_unary(k, "root", y.value, KERN_SQRT, 0, 0);
    y = keras_binary(k, "sum", x, y.value, KERN_ADD);
    return unary(k, y, KERN_LINEAR, 0.5, 0);
}

/* 0 below -1, x above 1, (x + 1)^2 / 4 between: max(x, clip(x + 1, 0, 2)^2 / 4)
 */
static struct keras_value sparse_plus(struct keras_emit *k,
                                      struct keras_value x)
{
    struct keras_value y = x;

    y.value = keras_unary(k, "shift", x.value, KERN_LINEAR, 1, 1);
    y.value = keras_unary(k, "clip", y.value, KERN_CLIP, 0, 2);
    y = keras_binary(k, "square", y, y.value, KERN_MUL);
    y.value = keras_unary(k, "quarter", y.value, KERN_LINEAR, 0.25f, 0);
    return keras_binary(k, "", x, y.value, KERN_MAX);
}

/* The first half of the last axis times the sigmoid of the second. */
static struct keras_value glu(struct keras_emit *k, struct keras_value x)
{
    int part[2], node;

    if (k->status < 0)
        return x;
    for (int i = 0; i < 2; i++)
        part[i] = graph_add_value(k->g, NULL);
    if (part[0] < 0 || part[1] < 0)
        return keras_fail(k, INFER_EMEMORY, "no memory for the graph");
    node = graph_add_node(k->g, GRAPH_SPLIT, NULL, &x.value, 1, part, 2);
    if (node < 0)
        return keras_fail(k, INFER_EMEMORY, "no memory for the graph");
    k->g->node[node].attr.split.axis = keras_dimension(x, x.rank - 1);
    part[1] = keras_unary(k, "gate", part[1], KERN_SIGMOID, 0, 0);
    x.value = part[0];
    return keras_binary(k, "", x, part[1], KERN_MUL);
}

/* Words that take several nodes; false if it is none of them. */
static bool by_formula(struct keras_emit *k, struct keras_value *x,
                       const char *word)
{
    if (strcmp(word, "squareplus") == 0)
        *x = squareplus(k, *x);
    else if (strcmp(word, "sparse_plus") == 0)
        *x = sparse_plus(k, *x);
    else if (strcmp(word, "glu") == 0)
        *x = glu(k, *x);
    else if (strcmp(word, "tanh_shrink") == 0)
        *x = keras_binary(k, "", *x,
                          keras_unary(k, "tanh", x->value, KERN_TANH, 0, 0),
                          KERN_SUB);
    else
        return false;
    return true;
}

struct keras_value keras_activation_word(struct keras_emit *k,
                                         struct keras_value x, const char *word)
{
    if (by_formula(k, &x, word))
        return x;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i].word) == 0)
            return unary(k, x, words[i].kind, words[i].a, words[i].b);
    if (strcmp(word, "softmax") == 0)
        return softmax(k, x, -1, false);
    if (strcmp(word, "log_softmax") == 0)
        return softmax(k, x, -1, true);
    /* clip(x / 5 + 1 / 2) until Keras 2, clip(x / 6 + 1 / 2) since. */
    if (strcmp(word, "hard_sigmoid") == 0)
        return unary(k, x, KERN_HARD_SIGMOID, k->major < 3 ? 0.2 : 1.0 / 6,
                     0.5);
    if (strcmp(word, "log_sigmoid") == 0) {
        x.value = keras_unary(k, "negated", x.value, KERN_NEG, 0, 0);
        x.value = keras_unary(k, "softplus", x.value, KERN_SOFTPLUS, 0, 0);
        return unary(k, x, KERN_NEG, 0, 0);
    }
    return keras_fail(k, INFER_EUNSUPPORTED, "activation '%s'", word);
}

/* max(0, x) with a slope below the threshold and an upper limit:
 * y = limit for x >= limit, x for x > threshold, else slope * (x - threshold).
 */
static struct keras_value relu(struct keras_emit *k, struct keras_value x,
                               double slope, double threshold, double limit)
{
    if (slope == 0 && threshold == 0)
        return limit < NO_LIMIT ? unary(k, x, KERN_CLIP, 0, limit)
                                : unary(k, x, KERN_RELU, 0, 0);
    if (threshold == 0) {
        if (limit == NO_LIMIT)
            return unary(k, x, KERN_LEAKY_RELU, slope, 0);
        x.value =
            keras_unary(k, "slope", x.value, KERN_LEAKY_RELU, (float)slope, 0);
        return unary(k, x, KERN_CLIP, -NO_LIMIT, limit);
    }
    /* The two sides apart, then their sum. */
    struct keras_value above = x;
    above.value = keras_unary(k, "above", x.value, KERN_THRESHOLDED_RELU,
                              (float)threshold, 0);
    if (limit < NO_LIMIT)
        above.value =
            keras_unary(k, "limit", above.value, KERN_CLIP, 0, (float)limit);
    if (slope == 0)
        return above;
    int below =
        keras_unary(k, "shifted", x.value, KERN_LINEAR, 1, (float)-threshold);
    below = keras_unary(k, "below", below, KERN_CLIP, -NO_LIMIT, 0);
    below = keras_unary(k, "sloped", below, KERN_LINEAR, (float)slope, 0);
    const int in[2] = {above.value, below};
    int node;
    above.value = keras_node(k, GRAPH_BINARY, "", in, 2, &node);
    if (above.value >= 0)
        k->g->node[node].attr.binary.kind = KERN_ADD;
    return above;
}

/* ---- layers -------------------------------------------------------- */

struct keras_value keras_softmax(struct keras_emit *k, struct keras_layer *l,
                                 const struct keras_value *in, int n)
{
    (void)n;
    return softmax(
        k, in[0],
        keras_int(k, l->config, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, -1),
        false);
}

static struct keras_value relu_of(struct keras_emit *k, const cJSON *config,
                                  struct keras_value x)
{
    const double slope = keras_double(
        k, config, keras_key(config, "negative_slope", "alpha"), 0);
    const double threshold =
        keras_double(k, config, keras_key(config, "threshold", "theta"), 0);
    const double limit = keras_double(k, config, "max_value", NO_LIMIT);

    return k->status < 0 ? keras_failed(k)
                         : relu(k, x, slope, threshold, limit);
}

struct keras_value keras_relu(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    (void)n;
    return relu_of(k, l->config, in[0]);
}

static struct keras_value
leaky_relu_of(struct keras_emit *k, const cJSON *config, struct keras_value x)
{
    const double slope = keras_double(
        k, config, keras_key(config, "negative_slope", "alpha"), 0.3);

    return unary(k, x, KERN_LEAKY_RELU, slope, 0);
}

struct keras_value keras_leaky_relu(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n)
{
    (void)n;
    return leaky_relu_of(k, l->config, in[0]);
}

static struct keras_value elu_of(struct keras_emit *k, const cJSON *config,
                                 struct keras_value x)
{
    return unary(k, x, KERN_ELU, keras_double(k, config, "alpha", 1), 0);
}

struct keras_value keras_elu(struct keras_emit *k, struct keras_layer *l,
                             const struct keras_value *in, int n)
{
    (void)n;
    return elu_of(k, l->config, in[0]);
}

struct keras_value keras_thresholded_relu(struct keras_emit *k,
                                          struct keras_layer *l,
                                          const struct keras_value *in, int n)
{
    (void)n;
    return unary(k, in[0], KERN_THRESHOLDED_RELU,
                 keras_double(k, l->config, "theta", 1), 0);
}

int keras_prelu_variables(struct keras_emit *k, struct keras_layer *l)
{
    keras_add_variable(l, "alpha", true);
    return k->status;
}

/* One slope an element of the input without the batch (1 along shared axes),
 * in Keras' order; the graph wants it in the order of its value. */
static struct constant *prelu_swapped(struct keras_emit *k,
                                      const struct keras_layer *l,
                                      struct constant *c)
{
    int order[INFER_MAX_RANK];

    (void)k;
    (void)l;
    order[0] = c->rank - 1;
    for (int i = 1; i < c->rank; i++)
        order[i] = i - 1;
    return constant_transpose(c, order);
}

struct keras_value keras_prelu(struct keras_emit *k, struct keras_layer *l,
                               const struct keras_value *in, int n)
{
    struct keras_value x = in[0];
    const struct constant *slope = l->variable[0].data;

    (void)n;
    if (k->status < 0)
        return keras_failed(k);
    if (slope != NULL && slope->rank != x.rank - 1)
        return keras_fail(k, INFER_EFORMAT,
                          "its slopes have rank %d, %d is due", slope->rank,
                          x.rank - 1);
    /* A shared layer keeps the order of its first use. */
    if (slope == NULL)
        x = keras_swapped(k, x);
    const int w =
        keras_weight(k, l, 0, "weight", x.swapped ? prelu_swapped : NULL);
    const int args[2] = {x.value, w};
    if (k->status == 0)
        x.value = keras_node(k, GRAPH_PRELU, "", args, 2, NULL);
    return x;
}

/* ---- inside other layers ------------------------------------------- */

static bool is_linear(const cJSON *a)
{
    return a == NULL || cJSON_IsNull(a) ||
           (cJSON_IsString(a) && strcmp(a->valuestring, "linear") == 0);
}

const cJSON *keras_activation_of(const struct keras_layer *l)
{
    const cJSON *a = json_member(l->config, "activation");

    return is_linear(a) ? NULL : a;
}

/* "relu", or an object: {"class_name": "function", "config": "relu"}, or a
 * layer such as {"class_name": "LeakyReLU", "config": {...}}. */
struct keras_value keras_activation(struct keras_emit *k, struct keras_value x,
                                    const cJSON *activation)
{
    const char *class_name = json_string(activation, "class_name");
    const cJSON *config = json_member(activation, "config");

    if (is_linear(activation) || k->status < 0)
        return x;
    if (cJSON_IsString(activation))
        return keras_activation_word(k, x, activation->valuestring);
    if (class_name == NULL)
        return keras_fail(k, INFER_EFORMAT, "its activation is no word");
    if (cJSON_IsString(config) && (strcmp(class_name, "function") == 0 ||
                                   strcmp(class_name, "builtin") == 0))
        return is_linear(config)
                   ? x
                   : keras_activation_word(k, x, config->valuestring);
    if (strcmp(class_name, "ReLU") == 0)
        return relu_of(k, config, x);
    if (strcmp(class_name, "LeakyReLU") == 0)
        return leaky_relu_of(k, config, x);
    if (strcmp(class_name, "ELU") == 0)
        return elu_of(k, config, x);
    if (strcmp(class_name, "Softmax") == 0)
        return softmax(
            k, x,
            keras_int(k, config, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, -1),
            false);
    if (strcmp(class_name, "Activation") == 0)
        return keras_activation(k, x, json_member(config, "activation"));
    return keras_fail(k, INFER_EUNSUPPORTED, "activation of class %s",
                      class_name);
}

struct keras_value keras_activation_layer(struct keras_emit *k,
                                          struct keras_layer *l,
                                          const struct keras_value *in, int n)
{
    (void)n;
    return keras_activation(k, in[0], json_member(l->config, "activation"));
}
