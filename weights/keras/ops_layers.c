/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: functions of keras.ops that choose, order and accumulate elements:
 * take, top_k, sort, cumsum, split, median and the like. */
#include <math.h>
#include <string.h>

#include "kernels/base/json.h"
#include "weights/keras/keras.h"

/* ---- helpers ------------------------------------------------------- */

/* A node of two values along an axis. */
static int along(struct keras_emit *k, enum graph_op op, const char *role,
                 int x, int indices, int axis)
{
    const int args[2] = {x, indices};
    int node;
    const int y = keras_node(k, op, role, args, 2, &node);

    if (y >= 0)
        k->g->node[node].attr.axis.axis = axis;
    return y;
}

/* The places of the n largest or least entries of an axis, in order. */
static int places(struct keras_emit *k, const char *role, int x, int axis,
                  int64_t n, bool least)
{
    int node;
    const int y = keras_node(k, GRAPH_TOP_K, role, &x, 1, &node);

    if (y >= 0)
        k->g->node[node].attr.top_k =
            (struct graph_top_k){.axis = axis, .k = (int)n, .smallest = least};
    return y;
}

/* Item i of the call's arguments. */
static const cJSON *argument(const struct keras_emit *k, int i)
{
    return cJSON_GetArrayItem(k->call->args, i);
}

static void give_more(struct keras_emit *k, struct keras_value x)
{
    if (k->n_more < KERAS_MAX_OUTPUTS - 1)
        k->more[k->n_more++] = x;
    else
        keras_fail(k, INFER_EUNSUPPORTED, "more than %d results",
                   KERAS_MAX_OUTPUTS);
}

/* The axis of the configuration, which must not be the batch, and its size. */
static int sized_axis(struct keras_emit *k, const struct keras_layer *l,
                      struct keras_value x, int otherwise, int64_t *size)
{
    const cJSON *c = json_member(l->config, "axis");
    int64_t dim[INFER_MAX_RANK];
    int axis;

    *size = 1;
    if (cJSON_IsArray(c) && cJSON_GetArraySize(c) != 1)
        keras_fail(k, INFER_EUNSUPPORTED, "along %d axes",
                   cJSON_GetArraySize(c));
    axis = keras_axis(k, l->config, "axis", x.rank, otherwise);
    if (k->status < 0)
        return 0;
    if (axis == 0 || cJSON_IsNull(c))
        keras_fail(k, INFER_EUNSUPPORTED, "along all axes or the batch");
    else if (keras_sizes(k, x, axis, dim))
        *size = dim[axis];
    return axis;
}

/* ---- indices ------------------------------------------------------- */

/* At most this many entries of an array in a configuration. */
#define MAX_ENTRIES (1 << 20)

/* Nested lists: their shape and, where `to` is set, their entries. */
struct array {
    int64_t dim[INFER_MAX_RANK], n;
    int rank;
    struct constant *to;
};

static bool read_entries(const cJSON *c, struct array *x, int depth)
{
    int64_t n = 0;

    if (!cJSON_IsArray(c)) {
        const double v = cJSON_IsBool(c)     ? cJSON_IsTrue(c)
                         : cJSON_IsNumber(c) ? c->valuedouble
                                             : NAN;

        if (depth != x->rank || x->n >= MAX_ENTRIES || isnan(v) ||
            (x->to && x->to->dtype == INFER_I64 &&
             (fabs(v) > INT32_MAX || v != floor(v))))
            return false;
        if (x->to && x->to->dtype == INFER_I64)
            ((int64_t *)(void *)x->to->data)[x->n] = (int64_t)v;
        else if (x->to)
            ((float *)(void *)x->to->data)[x->n] = (float)v;
        x->n++;
        return true;
    }
    if (depth == x->rank)
        return false;
    for (const cJSON *e = c->child; e; e = e->next, n++)
        if (!read_entries(e, x, depth + 1))
            return false;
    return n == x->dim[depth];
}

struct constant *keras_array(struct keras_emit *k, const cJSON *value,
                             bool integers)
{
    struct array x = {.rank = 0};

    for (const cJSON *e = value; cJSON_IsArray(e); e = e->child) {
        if (x.rank == INFER_MAX_RANK)
            return NULL;
        x.dim[x.rank++] = cJSON_GetArraySize(e);
    }
    if (value == NULL || !read_entries(value, &x, 0) || x.n == 0)
        return NULL;
    x.to = constant_new(integers ? INFER_I64 : INFER_F32, x.rank, x.dim);
    x.n = 0;
    if (x.to == NULL) {
        keras_fail(k, INFER_EMEMORY, "no memory for an array");
        return NULL;
    }
    if (!read_entries(value, &x, 0)) {
        constant_unref(x.to);
        return NULL;
    }
    return x.to;
}

/* Indices into `size` entries: a number, a list or an array; NULL where they
 * are none. */
static struct constant *read_indices(struct keras_emit *k, const cJSON *c,
                                     int64_t size)
{
    struct constant *out;
    int64_t *at, n = 1;

    if (json_string(c, "class_name"))
        c = json_member(json_member(c, "config"), "value");
    out = keras_array(k, c, true);
    if (out == NULL)
        return NULL;
    for (int i = 0; i < out->rank; i++)
        n *= out->dim[i];
    at = (int64_t *)(void *)out->data;
    for (int64_t i = 0; i < n; i++) {
        at[i] += at[i] < 0 ? size : 0;
        if (at[i] < 0 || at[i] >= size) {
            constant_unref(out);
            return NULL;
        }
    }
    return out;
}

struct keras_value keras_take(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    struct constant *c;
    int64_t size;
    const int axis = sized_axis(k, l, x, 0, &size);
    int at, rank;

    if (k->status < 0)
        return keras_failed(k);
    if (n == 2) {
        const struct keras_value i = keras_plain(k, in[1]);

        at = keras_cast_to(k, "indices", i.value, INFER_I64);
        rank = i.rank;
    } else {
        c = read_indices(k, argument(k, 1), size);
        if (c == NULL)
            return keras_fail(k, INFER_EUNSUPPORTED,
                              "indices that are no integers below %lld",
                              (long long)size);
        rank = c->rank;
        at = keras_constant(k, "indices", c);
    }
    if (x.rank - 1 + rank > INFER_MAX_RANK)
        return keras_fail(k, INFER_EUNSUPPORTED, "%d dimensions",
                          x.rank - 1 + rank);
    x.value = along(k, GRAPH_GATHER, "", x.value, at, axis);
    x.rank += rank - 1;
    return x;
}

struct keras_value keras_take_along(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]), at;
    int64_t size;
    int axis;

    if (n != 2 || in[1].rank != x.rank)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "indices that are no tensor of rank %d", x.rank);
    at = keras_plain(k, in[1]);
    axis = sized_axis(k, l, x, -1, &size);
    if (k->status < 0)
        return keras_failed(k);
    for (int i = 0; i < x.rank; i++) {
        const int64_t *const a = k->g->value[x.value].dim;
        const int64_t *const b = k->g->value[at.value].dim;

        if (i != axis && a[i] != b[i])
            return keras_fail(k, INFER_EUNSUPPORTED,
                              "indices whose axis %d is not the input's", i);
    }
    x.value = along(k, GRAPH_GATHER_ELEMENTS, "", x.value,
                    keras_cast_to(k, "indices", at.value, INFER_I64), axis);
    return x;
}

/* keras.ops.slice: as many entries as config "shape" says, from argument 1. */
struct keras_value keras_slice_function(struct keras_emit *k,
                                        struct keras_layer *l,
                                        const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    struct constant *from = keras_array(k, argument(k, 1), true);
    struct constant *size =
        keras_array(k, json_member(l->config, "shape"), true);
    struct graph_slice s = {.n_axes = x.rank};
    bool fits = n == 1 && from && size && from->rank == 1 && size->rank == 1 &&
                from->dim[0] == x.rank && size->dim[0] == x.rank;
    int node;

    for (int i = 0; fits && i < x.rank; i++) {
        const int64_t count = ((int64_t *)(void *)size->data)[i];

        s.axis[i] = i;
        s.step[i] = 1;
        s.begin[i] = ((int64_t *)(void *)from->data)[i];
        s.end[i] = count < 0 ? INT64_MAX : s.begin[i] + count;
        fits = s.begin[i] >= 0;
    }
    constant_unref(from);
    constant_unref(size);
    if (!fits)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "a part whose place is not stated in numbers");
    x.value = keras_node(k, GRAPH_SLICE, "", &x.value, 1, &node);
    if (x.value >= 0)
        k->g->node[node].attr.slice = s;
    return x;
}

/* ---- order --------------------------------------------------------- */

/* The largest k of the last axis, and their places. */
struct keras_value keras_top_k(struct keras_emit *k, struct keras_layer *l,
                               const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]), at = x;
    const int count = keras_int(k, l->config, "k", 1, INT32_MAX, 1);

    (void)n;
    at.value = places(k, "indices", x.value, x.rank - 1, count, false);
    x.value =
        along(k, GRAPH_GATHER_ELEMENTS, "", x.value, at.value, x.rank - 1);
    at.value = keras_cast_to(k, "places", at.value, INFER_I32);
    give_more(k, at);
    return x;
}

/* class->arg: the places instead of the entries. */
struct keras_value keras_sort(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    int64_t size;
    const int axis = sized_axis(k, l, x, -1, &size);
    const int at = places(k, "order", x.value, axis, size, true);

    (void)n;
    x.value = l->class->arg
                  ? keras_cast_to(k, "", at, INFER_I32)
                  : along(k, GRAPH_GATHER_ELEMENTS, "", x.value, at, axis);
    return x;
}

/* Between the entries of an axis in order: a part q of the way. */
static struct keras_value quantile(struct keras_emit *k,
                                   const struct keras_layer *l,
                                   struct keras_value x, double q)
{
    const bool keep = keras_bool(k, l->config, "keepdims", false);
    int64_t size, last;
    const int axis = sized_axis(k, l, x, -1, &size);
    const double place = q * (double)(size - 1), low = floor(place);
    const int64_t from = (int64_t)low;
    int at = places(k, "order", x.value, axis, size, true), part[2];

    at = along(k, GRAPH_GATHER_ELEMENTS, "sorted", x.value, at, axis);
    x.value = part[0] = keras_slice(k, "low", at, axis, from, from + 1);
    if (place > low) {
        part[1] = keras_slice(k, "high", at, axis, from + 1, from + 2);
        for (int i = 0; i < 2; i++)
            part[i] =
                keras_unary(k, i ? "part" : "rest", part[i], KERN_LINEAR,
                            (float)(i ? place - low : 1 - place + low), 0);
        x.value = part[0];
        x = keras_binary(k, "between", x, part[1], KERN_ADD);
    }
    last = axis;
    if (!keep) {
        x.value = keras_dims(k, GRAPH_SQUEEZE, "", x.value, 1, &last);
        x.rank--;
    }
    return x;
}

/* Median, and Quantile with one number q. */
struct keras_value keras_quantile(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    const cJSON *q = argument(k, 1);
    const char *method = json_string(l->config, "method");
    double part = 0.5;

    (void)n;
    if (l->class->arg) {
        if (!cJSON_IsNumber(q) || (method && strcmp(method, "linear") != 0))
            return keras_fail(k, INFER_EUNSUPPORTED,
                              "quantiles that are not one number, or by "
                              "another method than 'linear'");
        part = q->valuedouble;
    }
    if (!(part >= 0 && part <= 1))
        return keras_fail(k, INFER_EFORMAT, "a quantile of %g", part);
    return quantile(k, l, keras_plain(k, in[0]), part);
}

/* class->arg: products instead of sums. */
struct keras_value keras_cumulate(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    int64_t size;
    const int axis = sized_axis(k, l, x, 0, &size);
    const cJSON *type = json_member(l->config, "dtype");
    int node;

    (void)n;
    if (type && !cJSON_IsNull(type) &&
        !(cJSON_IsString(type) && strcmp(type->valuestring, "float32") == 0))
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "a dtype of its own other than float32");
    x.value = keras_node(k, GRAPH_CUMULATE, "", &x.value, 1, &node);
    if (x.value >= 0)
        k->g->node[node].attr.cumulate =
            (struct graph_cumulate){.axis = axis, .product = l->class->arg};
    return x;
}

/* ---- parts --------------------------------------------------------- */

/* Split, and Unstack (class->arg), whose parts lose the axis. */
struct keras_value keras_split(struct keras_emit *k, struct keras_layer *l,
                               const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]), first = x;
    const cJSON *c = json_member(l->config, "indices_or_sections");
    const cJSON *e = cJSON_IsArray(c) ? c->child : NULL;
    int64_t size, parts, begin = 0, axis;

    (void)n;
    axis = sized_axis(k, l, x, 0, &size);
    parts = cJSON_IsArray(c) ? cJSON_GetArraySize(c) + 1 : size;
    if (k->status < 0 || (c && !e && !json_int64(c, 1, size, &parts)) ||
        (!e && size % parts != 0))
        return keras_fail(k, INFER_EUNSUPPORTED, "parts of %lld entries",
                          (long long)size);
    for (int64_t i = 0; i < parts && k->status == 0; i++) {
        int64_t end = e ? size : begin + size / parts;
        struct keras_value y = x;

        if (e && i + 1 < parts && !json_int64(e, begin, size, &end))
            return keras_fail(k, INFER_EUNSUPPORTED,
                              "indices that do not rise");
        e = e ? e->next : NULL;
        y.value = keras_slice(k, "part", x.value, (int)axis, begin, end);
        if (l->class->arg) {
            y.value = keras_dims(k, GRAPH_SQUEEZE, "entry", y.value, 1, &axis);
            y.rank--;
        }
        if (i == 0)
            first = y;
        else
            give_more(k, y);
        begin = end;
    }
    return first;
}

/* The differences of neighbours. */
struct keras_value keras_diff(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const int times = keras_int(k, l->config, "n", 1, 16, 1);
    int64_t size;
    const int axis = sized_axis(k, l, x, -1, &size);

    (void)n;
    for (int i = 0; i < times && k->status == 0; i++, size--) {
        const int low = keras_slice(k, "low", x.value, axis, 0, size - 1);

        if (size < 2)
            return keras_fail(k, INFER_EUNSUPPORTED, "no differences");
        x.value = keras_slice(k, "high", x.value, axis, 1, size);
        x = keras_binary(k, "", x, low, KERN_SUB);
    }
    return x;
}

/* Entries of the last two axes on one side of a diagonal; class->arg: below. */
struct keras_value keras_triangle(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const int64_t off = keras_int(k, l->config, "k", -65536, 65536, 0);
    int64_t dim[INFER_MAX_RANK];
    struct constant *mask;
    int args[3];

    (void)n;
    if (x.rank < 3)
        return keras_fail(k, INFER_EUNSUPPORTED, "%d axes", x.rank);
    if (!keras_sizes(k, x, x.rank - 2, dim))
        return keras_failed(k);
    if (dim[x.rank - 2] > MAX_ENTRIES / dim[x.rank - 1])
        return keras_fail(k, INFER_EUNSUPPORTED, "a triangle of %lldx%lld",
                          (long long)dim[x.rank - 2],
                          (long long)dim[x.rank - 1]);
    mask = constant_new(INFER_BOOL, 2, dim + x.rank - 2);
    for (int64_t i = 0; mask && i < dim[x.rank - 2]; i++)
        for (int64_t j = 0; j < dim[x.rank - 1]; j++)
            ((unsigned char *)mask->data)[i * dim[x.rank - 1] + j] =
                l->class->arg ? j <= i + off : j >= i + off;
    args[0] = keras_constant(k, "mask", mask);
    args[1] = x.value;
    args[2] = keras_constant(k, "zero", keras_filled(1, 0));
    x.value = keras_node(k, GRAPH_WHERE, "", args, 3, NULL);
    return x;
}

/* ---- pictures ------------------------------------------------------ */

/* The emitter of a layer over as many spatial axes as the tensor has. */
struct keras_value keras_pool_function(struct keras_emit *k,
                                       struct keras_layer *l,
                                       const struct keras_value *in, int n)
{
    struct keras_class class = *l->class;
    struct keras_layer copy = *l;

    class.arg = in[0].rank - 2;
    copy.class = &class;
    if (class.arg < 1 || class.arg > 3)
        return keras_fail(k, INFER_EUNSUPPORTED, "%d axes", in[0].rank);
    return l->class->arg ? keras_max_pool(k, &copy, in, n)
                         : keras_average_pool(k, &copy, in, n);
}

/* pad_images and crop_images (class->arg) without target sizes. */
struct keras_value keras_image_edges(struct keras_emit *k,
                                     struct keras_layer *l,
                                     const struct keras_value *in, int n)
{
    static const char *const sides[2][4] = {
        {"top_padding", "bottom_padding", "left_padding", "right_padding"},
        {"top_cropping", "bottom_cropping", "left_cropping", "right_cropping"}};
    struct keras_value x = in[0];
    struct kern_pad pad = {.mode = KERN_PAD_CONSTANT};
    const int sign = l->class->arg ? -1 : 1;
    int node;

    (void)n;
    if (x.rank != 4 || !keras_channels_last(k, l->config))
        return keras_fail(k, INFER_EUNSUPPORTED, "%d axes, channels first",
                          x.rank);
    for (int i = 0; i < 4; i++) {
        const char *const key = sides[l->class->arg][i];
        const int d = keras_dimension(x, 1 + i / 2);

        if (!cJSON_IsNumber(json_member(l->config, key)))
            return keras_fail(k, INFER_EUNSUPPORTED, "no %s", key);
        (i % 2 ? pad.end : pad.begin)[d] =
            sign * keras_int(k, l->config, key, 0, 65536, 0);
    }
    x.value = keras_node(k, GRAPH_PAD, "", &x.value, 1, &node);
    if (x.value >= 0)
        k->g->node[node].attr.pad = pad;
    return x;
}
