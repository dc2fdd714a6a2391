/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: functions of keras.ops that are several nodes: logarithms and powers
 * of other bases, deviations, norms. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/base/json.h"
#include "weights/keras/keras.h"

#define LN_2  0.69314718055994531
#define LN_10 2.30258509299404568

/* a2 f(a1 x + b1) + b2 */
static const struct {
    const char *name;
    double a1, b1;
    enum kern_unary_kind kind;
    double a2, b2;
} functions[] = {{"Log1p", 1, 1, KERN_LOG, 1, 0},
                 {"Log2", 1, 0, KERN_LOG, 1 / LN_2, 0},
                 {"Log10", 1, 0, KERN_LOG, 1 / LN_10, 0},
                 {"Exp2", LN_2, 0, KERN_EXP, 1, 0},
                 {"Expm1", 1, 0, KERN_EXP, 1, -1},
                 {"Erfc", 1, 0, KERN_ERF, -1, 1}};

static int linear(struct keras_emit *k, const char *role, int x, double a,
                  double b)
{
    if (!(a < 1) && !(a > 1) && !(b < 0) && !(b > 0))
        return x;
    return keras_unary(k, role, x, KERN_LINEAR, (float)a, (float)b);
}

struct keras_value keras_scaled_function(struct keras_emit *k,
                                         struct keras_layer *l,
                                         const struct keras_value *in, int n)
{
    struct keras_value x = in[0];

    (void)n;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(l->class_name, functions[i].name) != 0)
            continue;
        x.value =
            linear(k, "scaled", x.value, functions[i].a1, functions[i].b1);
        x.value = keras_unary(k, "", x.value, functions[i].kind, 0, 0);
        x.value =
            linear(k, "result", x.value, functions[i].a2, functions[i].b2);
    }
    return x;
}

struct keras_value keras_rsqrt(struct keras_emit *k, struct keras_layer *l,
                               const struct keras_value *in, int n)
{
    struct keras_value x = in[0];

    (void)l;
    (void)n;
    x.value = keras_unary(k, "root", x.value, KERN_SQRT, 0, 0);
    x.value = keras_unary(k, "", x.value, KERN_RECIPROCAL, 0, 0);
    return x;
}

/* class->arg: 1 for Std, the root of the variance. */
struct keras_value keras_variance(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    const uint32_t axes = keras_reduced_axes(k, l->config, in[0].rank);
    const bool keep = keras_bool(k, l->config, "keepdims", false);
    struct keras_value x;

    (void)n;
    if (k->status < 0)
        return keras_failed(k);
    x = keras_reduce(k, in[0], "mean", KERN_REDUCE_MEAN, axes, true);
    x = keras_binary(k, "deviation", in[0], x.value, KERN_SUB);
    x = keras_binary(k, "square", x, x.value, KERN_MUL);
    x = keras_reduce(k, x, "variance", KERN_REDUCE_MEAN, axes, keep);
    if (l->class->arg)
        x.value = keras_unary(k, "", x.value, KERN_SQRT, 0, 0);
    return x;
}

/* Of vectors, by the sum of squares, of absolutes or the largest of these. */
struct keras_value keras_norm(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    const uint32_t axes = keras_reduced_axes(k, l->config, in[0].rank);
    const bool keep = keras_bool(k, l->config, "keepdims", false);
    const cJSON *order = json_member(l->config, "ord");
    const char *word = json_string(l->config, "ord");
    enum kern_reduce_kind kind = KERN_REDUCE_L2;

    (void)n;
    if (k->status < 0)
        return keras_failed(k);
    if (cJSON_IsNumber(order) && order->valueint == 1)
        kind = KERN_REDUCE_L1;
    else if ((order != NULL && !cJSON_IsNull(order) &&
              !(cJSON_IsNumber(order) && order->valueint == 2) &&
              !(word &&
                (strcmp(word, "fro") == 0 || strcmp(word, "euclidean") == 0))))
        return keras_fail(k, INFER_EUNSUPPORTED, "a norm of this order");
    /* Of a matrix, orders 1 and 2 are other norms. */
    if (cJSON_IsNumber(order) && (axes & (axes - 1)) != 0)
        return keras_fail(k, INFER_EUNSUPPORTED, "the norm of a matrix");
    return keras_reduce(k, in[0], "", kind, axes, keep);
}

/* log(sum(exp(x))), from the largest of x. */
struct keras_value keras_log_sum_exp(struct keras_emit *k,
                                     struct keras_layer *l,
                                     const struct keras_value *in, int n)
{
    const uint32_t axes = keras_reduced_axes(k, l->config, in[0].rank);
    const bool keep = keras_bool(k, l->config, "keepdims", false);
    struct keras_value top, x;

    (void)n;
    if (k->status < 0)
        return keras_failed(k);
    top = keras_reduce(k, in[0], "top", KERN_REDUCE_MAX, axes, true);
    x = keras_binary(k, "rest", in[0], top.value, KERN_SUB);
    x.value = keras_unary(k, "exp", x.value, KERN_EXP, 0, 0);
    x = keras_reduce(k, x, "sum", KERN_REDUCE_SUM, axes, keep);
    x.value = keras_unary(k, "log", x.value, KERN_LOG, 0, 0);
    if (!keep)
        top = keras_reduce(k, in[0], "offset", KERN_REDUCE_MAX, axes, false);
    return keras_binary(k, "", x, top.value, KERN_ADD);
}

/* Numbers in place of NaN and of what is infinite. */
struct keras_value keras_nan_to_num(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n)
{
    const double most = (double)FLT_MAX;
    const double high = keras_double(k, l->config, "posinf", most);
    const double low = keras_double(k, l->config, "neginf", -most);
    struct keras_value x = in[0], same;
    int args[3];

    (void)n;
    if (high < most || low > -most)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "numbers of one's own for infinite ones");
    same = keras_binary(k, "is_number", x, x.value, KERN_EQUAL);
    args[0] = same.value;
    args[1] = x.value;
    args[2] = keras_constant(
        k, "number",
        keras_filled(1, (float)keras_double(k, l->config, "nan", 0)));
    x.value = keras_node(k, GRAPH_WHERE, "numbers", args, 3, NULL);
    x.value = keras_unary(k, "", x.value, KERN_CLIP, -FLT_MAX, FLT_MAX);
    return x;
}
