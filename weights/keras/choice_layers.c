/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: comparisons, choices and categories: functions of keras.ops that give
 * truth values or indices, Masking, Discretization, CategoryEncoding. */
#include <string.h>

#include "kernels/base/json.h"
#include "weights/keras/keras.h"

static int number(struct keras_emit *k, double v)
{
    return keras_constant(k, "number", keras_filled(1, (float)v));
}

/* The arguments of a call in their places; a number is a constant.  All in one
 * order of axes where they have equal ranks. */
static bool arguments(struct keras_emit *k, const struct keras_value *in, int n,
                      int due, struct keras_value *out)
{
    bool swapped = true;
    int given = 0, rank = 0;

    for (int i = 0; i < n; i++)
        rank = in[i].rank > rank ? in[i].rank : rank;
    for (int i = 0; i < n; i++)
        swapped &= in[i].swapped && in[i].rank == rank;
    if (n + (k->call->number_at >= 0) != due) {
        keras_fail(k, INFER_EFORMAT, "%d arguments, %d are due", n, due);
        return false;
    }
    for (int i = 0; i < due; i++) {
        if (i == k->call->number_at)
            out[i] = (struct keras_value){number(k, k->call->number), 0, false};
        else
            out[i] = swapped ? in[given] : keras_plain(k, in[given]);
        given += i != k->call->number_at;
    }
    return k->status == 0;
}

/* What the result of an element-wise node of these looks like. */
static struct keras_value like(const struct keras_value *x, int n, int value)
{
    struct keras_value y = x[0];

    for (int i = 1; i < n; i++)
        if (x[i].rank > y.rank)
            y = x[i];
    y.value = value;
    return y;
}

bool keras_pair(struct keras_emit *k, const struct keras_value *in, int n,
                struct keras_value *out)
{
    return arguments(k, in, n, 2, out);
}

struct keras_value keras_pair_node(struct keras_emit *k, const char *role,
                                   const struct keras_value *pair,
                                   enum kern_binary_kind kind)
{
    const int args[2] = {pair[0].value, pair[1].value};
    int node;
    const int y = keras_node(k, GRAPH_BINARY, role, args, 2, &node);

    if (y >= 0)
        k->g->node[node].attr.binary.kind = kind;
    return like(pair, 2, y);
}

/* class->arg: enum kern_binary_kind; of one argument for Not. */
struct keras_value keras_compare(struct keras_emit *k, struct keras_layer *l,
                                 const struct keras_value *in, int n)
{
    const bool differ = strcmp(l->class_name, "NotEqual") == 0;
    struct keras_value x[2], y;

    if (!keras_pair(k, in, n, x))
        return keras_failed(k);
    y = keras_pair_node(k, differ ? "equal" : "", x,
                        (enum kern_binary_kind)l->class->arg);
    if (differ)
        y.value = keras_unary(k, "", y.value, KERN_NOT, 0, 0);
    return y;
}

struct keras_value keras_where(struct keras_emit *k, struct keras_layer *l,
                               const struct keras_value *in, int n)
{
    struct keras_value x[3];
    int args[3];

    (void)l;
    if (!arguments(k, in, n, 3, x))
        return keras_failed(k);
    args[0] = keras_cast_to(k, "condition", x[0].value, INFER_BOOL);
    args[1] = x[1].value;
    args[2] = x[2].value;
    return like(x, 3, keras_node(k, GRAPH_WHERE, "", args, 3, NULL));
}

/* Any and All: the largest or the least of 0 and 1. */
struct keras_value keras_any(struct keras_emit *k, struct keras_layer *l,
                             const struct keras_value *in, int n)
{
    struct keras_value x = in[0];

    x.value = keras_cast_to(k, "numbers", x.value, INFER_BOOL);
    x.value = keras_cast_to(k, "truth", x.value, INFER_F32);
    x = keras_reduce_function(k, l, &x, n);
    x.value = keras_cast_to(k, "", x.value, INFER_BOOL);
    return x;
}

/* class->arg: of the least. */
struct keras_value keras_arg_reduce(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const bool keep = keras_bool(k, l->config, "keepdims", false);
    const cJSON *c = json_member(l->config, "axis");
    const int axis = keras_axis(k, l->config, "axis", x.rank, -1);
    int node;

    (void)n;
    if (!cJSON_IsNumber(c) || axis == 0)
        return keras_fail(k, INFER_EUNSUPPORTED, "one index for all images");
    x.value = keras_node(k, GRAPH_ARG_REDUCE, "", &x.value, 1, &node);
    if (x.value < 0)
        return x;
    k->g->node[node].attr.axis.axis = axis;
    k->g->node[node].attr.axis.min = l->class->arg;
    k->g->node[node].attr.axis.keep_dims = keep;
    x.rank -= !keep;
    return x;
}

/* ---- shapes -------------------------------------------------------- */

struct keras_value keras_stack(struct keras_emit *k, struct keras_layer *l,
                               const struct keras_value *in, int n)
{
    const int rank = in[0].rank + 1;
    const int64_t axis = keras_axis(k, l->config, "axis", rank, 0);
    int part[64];

    if (n > 64 || axis == 0 || rank > INFER_MAX_RANK)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "%d tensors along axis %d of %d", n, (int)axis, rank);
    for (int i = 0; i < n && k->status == 0; i++)
        part[i] = keras_dims(k, GRAPH_UNSQUEEZE, "part",
                             keras_plain(k, in[i]).value, 1, &axis);
    return (struct keras_value){
        k->status < 0 ? k->status : keras_concat(k, "", part, n, (int)axis),
        rank, false};
}

struct keras_value keras_swap_axes(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const int a = keras_axis(k, l->config, "axis1", x.rank, 0);
    const int b = keras_axis(k, l->config, "axis2", x.rank, 0);
    int order[INFER_MAX_RANK];

    (void)n;
    for (int i = 0; i < x.rank; i++)
        order[i] = i == a ? b : i == b ? a : i;
    if (k->status == 0)
        x.value = keras_transpose(k, x.value, x.rank, order);
    return x;
}

/* Entries that leave at the end come back at the beginning. */
struct keras_value keras_roll(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const int axis = keras_axis(k, l->config, "axis", x.rank, 0);
    const int shift =
        keras_int(k, l->config, "shift", -INT32_MAX, INT32_MAX, 0);
    int64_t dim[INFER_MAX_RANK], cut;
    int part[2];

    (void)n;
    if (!cJSON_IsNumber(json_member(l->config, "axis")) || axis == 0)
        return keras_fail(k, INFER_EUNSUPPORTED, "a shift of all axes");
    if (!keras_sizes(k, x, 1, dim))
        return keras_failed(k);
    cut = ((dim[axis] - shift) % dim[axis] + dim[axis]) % dim[axis];
    if (cut == 0)
        return x;
    part[0] = keras_slice(k, "end", x.value, axis, cut, dim[axis]);
    part[1] = keras_slice(k, "begin", x.value, axis, 0, cut);
    x.value = keras_concat(k, "", part, 2, axis);
    return x;
}

struct keras_value keras_repeat(struct keras_emit *k, struct keras_layer *l,
                                const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const int axis = keras_axis(k, l->config, "axis", x.rank, 0);
    const int times = keras_int(k, l->config, "repeats", 1, 65536, 1);
    const int64_t next = axis + 1;
    int64_t dim[INFER_MAX_RANK], repeats[INFER_MAX_RANK + 1];

    (void)n;
    if (!cJSON_IsNumber(json_member(l->config, "axis")) || axis == 0 ||
        x.rank == INFER_MAX_RANK)
        return keras_fail(k, INFER_EUNSUPPORTED, "repeats of this axis");
    if (!keras_sizes(k, x, 1, dim))
        return keras_failed(k);
    for (int i = 0; i <= x.rank; i++)
        repeats[i] = i == next ? times : 1;
    x.value = keras_dims(k, GRAPH_UNSQUEEZE, "entries", x.value, 1, &next);
    x.value =
        keras_dims(k, GRAPH_TILE, "repeated", x.value, x.rank + 1, repeats);
    dim[0] = -1;
    dim[axis] *= times;
    x.value = keras_dims(k, GRAPH_RESHAPE, "", x.value, x.rank, dim);
    return x;
}

/* A list of repeats for the last axes. */
struct keras_value keras_tile(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const cJSON *list = json_member(l->config, "repeats");
    const int count = cJSON_GetArraySize(list);
    int64_t repeats[INFER_MAX_RANK];
    int at = x.rank - count;

    (void)n;
    if (!cJSON_IsArray(list) || count < 1 || at < 0)
        return keras_fail(k, INFER_EUNSUPPORTED, "repeats of %d axes in %d",
                          count, x.rank);
    for (int i = 0; i < at; i++)
        repeats[i] = 1;
    for (const cJSON *e = list->child; e; e = e->next, at++)
        if (!json_int64(e, 1, 65536, &repeats[at]))
            return keras_fail(k, INFER_EFORMAT, "repeats are no counts");
    if (repeats[0] != 1)
        return keras_fail(k, INFER_EUNSUPPORTED, "repeats of the batch");
    x.value = keras_dims(k, GRAPH_TILE, "", x.value, x.rank, repeats);
    return x;
}

/* ---- Masking ------------------------------------------------------- */

/* Steps of mask_value alone become 0.  Layers behind take no notice unless the
 * model hands them the mask, as models of Keras 3 do. */
struct keras_value keras_masking(struct keras_emit *k, struct keras_layer *l,
                                 const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]), shown;
    const double value = keras_double(k, l->config, "mask_value", 0);

    (void)n;
    if (k->major < 3)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "a mask that layers behind see, before Keras 3");
    shown = keras_binary(k, "equal", x, number(k, value), KERN_EQUAL);
    shown.value = keras_unary(k, "differs", shown.value, KERN_NOT, 0, 0);
    shown.value = keras_cast_to(k, "shown", shown.value, INFER_F32);
    shown = keras_reduce(k, shown, "steps", KERN_REDUCE_MAX, 1u << (x.rank - 1),
                         true);
    return keras_binary(k, "", x, shown.value, KERN_MUL);
}

/* ---- categories ---------------------------------------------------- */

/* x with a new last axis, compared with n numbers: 0 or 1. */
static struct keras_value against(struct keras_emit *k, struct keras_value x,
                                  struct constant *numbers,
                                  enum kern_binary_kind kind)
{
    const int64_t last = x.rank;

    if (x.rank == INFER_MAX_RANK) {
        constant_unref(numbers);
        return keras_fail(k, INFER_EUNSUPPORTED, "%d dimensions", x.rank + 1);
    }
    x.value = keras_cast_to(k, "numbers", x.value, INFER_F32);
    x.value = keras_dims(k, GRAPH_UNSQUEEZE, "each", x.value, 1, &last);
    x.rank++;
    x = keras_binary(k, "compared", x, keras_constant(k, "numbers", numbers),
                     kind);
    x.value = keras_cast_to(k, "found", x.value, INFER_F32);
    return x;
}

static const char *mode_of(const struct keras_layer *l, const char *otherwise)
{
    const char *mode = json_string(l->config, "output_mode");

    return mode ? mode : otherwise;
}

/* The number of boundaries that x reaches. */
struct keras_value keras_discretization(struct keras_emit *k,
                                        struct keras_layer *l,
                                        const struct keras_value *in, int n)
{
    const cJSON *list = json_member(l->config, "bin_boundaries");
    const int64_t count = cJSON_GetArraySize(list);
    struct keras_value x = keras_plain(k, in[0]);
    struct constant *c;
    float *data;

    (void)n;
    if (strcmp(mode_of(l, "int"), "int") != 0)
        return keras_fail(k, INFER_EUNSUPPORTED, "output_mode '%s'",
                          mode_of(l, "int"));
    if (!cJSON_IsArray(list) || count < 1 || count > 65536)
        return keras_fail(k, INFER_EUNSUPPORTED, "no bin_boundaries");
    c = keras_filled(count, 0);
    data = c ? (float *)(void *)c->data : NULL;
    for (const cJSON *e = list->child; e && data; e = e->next)
        *data++ = (float)e->valuedouble;
    x = against(k, x, c, KERN_GREATER_EQUAL);
    x = keras_reduce(k, x, "bins", KERN_REDUCE_SUM, 1u << (x.rank - 1), false);
    x.value = keras_cast_to(k, "", x.value, INFER_I64);
    return x;
}

static struct constant *counting(int n)
{
    struct constant *c = keras_filled(n, 0);

    for (int i = 0; c && i < n; i++)
        ((float *)(void *)c->data)[i] = (float)i;
    return c;
}

/* keras.ops.one_hot along a new last axis. */
struct keras_value keras_one_hot(struct keras_emit *k, struct keras_layer *l,
                                 const struct keras_value *in, int n)
{
    const int classes = keras_int(k, l->config, "num_classes", 1, 1 << 20, 0);
    const struct keras_value x = keras_plain(k, in[0]);
    const int axis = keras_int(k, l->config, "axis", -1, INFER_MAX_RANK, -1);

    (void)n;
    if (classes == 0 || (axis != -1 && axis != x.rank) ||
        keras_bool(k, l->config, "sparse", false))
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "%d classes along axis %d of %d", classes, axis,
                          x.rank + 1);
    return against(k, x, counting(classes), KERN_EQUAL);
}

/* one_hot: a row for each index; multi_hot and count: one for all of a list. */
struct keras_value keras_category(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    const char *mode = mode_of(l, "multi_hot");
    const int tokens = keras_int(k, l->config, "num_tokens", 1, 1 << 20, 0);
    struct keras_value x = keras_plain(k, in[0]);
    const bool one = strcmp(mode, "one_hot") == 0;
    int64_t dim[INFER_MAX_RANK];

    if (n != 1)
        return keras_fail(k, INFER_EUNSUPPORTED, "weights of counts");
    if (tokens == 0 ||
        (!one && strcmp(mode, "multi_hot") != 0 && strcmp(mode, "count") != 0))
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "output_mode '%s' with %d tokens", mode, tokens);
    if (!keras_sizes(k, x, 1, dim))
        return keras_failed(k);
    x = against(k, x, counting(tokens), KERN_EQUAL);
    if (k->status < 0)
        return keras_failed(k);
    if (one && dim[x.rank - 2] != 1)
        return x;
    return keras_reduce(k, x, "",
                        strcmp(mode, "count") == 0 ? KERN_REDUCE_SUM
                                                   : KERN_REDUCE_MAX,
                        1u << (x.rank - 2), false);
}
