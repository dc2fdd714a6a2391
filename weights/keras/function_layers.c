/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: functions of keras.ops that stand as layers in a model's graph, such
 * as keras.ops.mean(x, 1), x[:, ::2] and keras.ops.pad(x, ...). */
#include <float.h>
#include <string.h>

#include "kernels/base/json.h"
#include "weights/keras/keras.h"

int keras_dimension(struct keras_value x, int axis)
{
    if (!x.swapped || axis == 0)
        return axis;
    return axis == x.rank - 1 ? 1 : axis + 1;
}

int keras_axis(struct keras_emit *k, const cJSON *config, const char *key,
               int rank, int otherwise)
{
    const cJSON *c = json_member(config, key);
    int64_t axis = otherwise;

    if (rank < 1) {
        keras_fail(k, INFER_EFORMAT, "a number has no axes");
        return 0;
    }
    if (cJSON_IsArray(c) && c->child != NULL && c->child->next == NULL)
        c = c->child;
    if (c != NULL && !cJSON_IsNull(c) &&
        !json_int64(c, -rank, rank - 1, &axis)) {
        keras_fail(k, INFER_EFORMAT, "%s is not one of %d", key, rank);
        return 0;
    }
    return (int)(axis < 0 ? axis + rank : axis);
}

struct keras_value keras_unary_function(struct keras_emit *k,
                                        struct keras_layer *l,
                                        const struct keras_value *in, int n)
{
    struct keras_value x = in[0];

    (void)n;
    x.value = keras_unary(k, "", x.value, (enum kern_unary_kind)l->class->arg,
                          l->class->arg == KERN_SILU ? 1 : 0, 0);
    return x;
}

struct keras_value keras_square(struct keras_emit *k, struct keras_layer *l,
                                const struct keras_value *in, int n)
{
    (void)l;
    (void)n;
    return keras_binary(k, "", in[0], in[0].value, KERN_MUL);
}

/* Activations with a word of their own, or with numbers in the configuration.
 */
struct keras_value keras_activation_function(struct keras_emit *k,
                                             struct keras_layer *l,
                                             const struct keras_value *in,
                                             int n)
{
    static const struct {
        const char *class_name, *word;
    } words[] = {{"Relu", "relu"},
                 {"Relu6", "relu6"},
                 {"Selu", "selu"},
                 {"Softplus", "softplus"},
                 {"Softsign", "softsign"},
                 {"HardSigmoid", "hard_sigmoid"},
                 {"HardSilu", "hard_silu"},
                 {"HardTanh", "hard_tanh"},
                 {"LogSigmoid", "log_sigmoid"},
                 {"Squareplus", "squareplus"},
                 {"TanhShrink", "tanh_shrink"},
                 {"SoftShrink", "soft_shrink"},
                 {"HardShrink", "hard_shrink"},
                 {"SparsePlus", "sparse_plus"}};
    struct keras_value x = in[0];

    (void)n;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(l->class_name, words[i].class_name) == 0)
            return keras_activation_word(k, x, words[i].word);
    if (strcmp(l->class_name, "Gelu") == 0)
        x.value = keras_unary(k, "", x.value,
                              keras_bool(k, l->config, "approximate", true)
                                  ? KERN_GELU_TANH
                                  : KERN_GELU,
                              0, 0);
    else if (strcmp(l->class_name, "LeakyRelu") == 0)
        x.value = keras_unary(
            k, "", x.value, KERN_LEAKY_RELU,
            (float)keras_double(k, l->config, "negative_slope", 0.2), 0);
    else
        x.value = keras_unary(k, "", x.value, KERN_ELU,
                              (float)keras_double(k, l->config, "alpha", 1), 0);
    return x;
}

struct keras_value keras_clip(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    struct keras_value x = in[0];

    (void)n;
    x.value = keras_unary(k, "", x.value, KERN_CLIP,
                          (float)keras_double(k, l->config, "x_min", -FLT_MAX),
                          (float)keras_double(k, l->config, "x_max", FLT_MAX));
    return x;
}

struct keras_value keras_cast(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    static const struct {
        const char *word;
        enum infer_dtype dtype;
    } types[] = {{"float32", INFER_F32},   {"float16", INFER_F16},
                 {"bfloat16", INFER_BF16}, {"float64", INFER_F64},
                 {"int64", INFER_I64},     {"int32", INFER_I32},
                 {"int16", INFER_I16},     {"int8", INFER_I8},
                 {"uint8", INFER_U8},      {"bool", INFER_BOOL}};
    const char *word = json_string(l->config, "dtype");
    struct keras_value x = in[0];
    int node;

    (void)n;
    for (size_t i = 0; word && i < sizeof types / sizeof *types; i++) {
        if (strcmp(word, types[i].word) != 0)
            continue;
        x.value = keras_node(k, GRAPH_CAST, "", &x.value, 1, &node);
        if (x.value >= 0)
            k->g->node[node].attr.cast.to = types[i].dtype;
        return x;
    }
    return keras_fail(k, INFER_EUNSUPPORTED, "data type '%s'",
                      word ? word : "(no word)");
}

/* ---- reductions ----------------------------------------------------- */

uint32_t keras_reduced_axes(struct keras_emit *k, const cJSON *config, int rank)
{
    const cJSON *c = json_member(config, "axis");
    const cJSON *e = cJSON_IsArray(c) ? c->child : c;
    uint32_t axes = 0;

    if (c == NULL || cJSON_IsNull(c))
        return (1u << rank) - 1;
    for (; e != NULL; e = cJSON_IsArray(c) ? e->next : NULL) {
        int64_t axis;

        if (!json_int64(e, -rank, rank - 1, &axis)) {
            keras_fail(k, INFER_EFORMAT, "axis is not one of %d", rank);
            return 0;
        }
        axes |= 1u << (axis < 0 ? axis + rank : axis);
    }
    return axes;
}

struct keras_value keras_reduce(struct keras_emit *k, struct keras_value x,
                                const char *role, enum kern_reduce_kind kind,
                                uint32_t axes, bool keep)
{
    struct graph_reduce *r;
    int rank = 0, node;

    if (x.rank < 1 || (!keep && axes == (1u << x.rank) - 1))
        return keras_fail(k, INFER_EUNSUPPORTED, "one number for all images");
    const uint32_t space = ((1u << (x.rank - 1)) - 1) & ~1u;
    /* What is left of N,C,space without its space has one order only. */
    if (!keep && axes != space)
        x = keras_plain(k, x);
    x.value = keras_node(k, GRAPH_REDUCE, role, &x.value, 1, &node);
    if (x.value < 0)
        return x;
    r = &k->g->node[node].attr.reduce;
    r->kind = kind;
    r->keep_dims = keep;
    for (int axis = 0; axis < x.rank; axis++) {
        if (axes >> axis & 1)
            r->axis[r->n_axes++] = keras_dimension(x, axis);
        rank += keep || !(axes >> axis & 1);
    }
    return (struct keras_value){x.value, rank, x.swapped && keep};
}

/* class->arg: enum kern_reduce_kind. */
struct keras_value keras_reduce_function(struct keras_emit *k,
                                         struct keras_layer *l,
                                         const struct keras_value *in, int n)
{
    const uint32_t axes = keras_reduced_axes(k, l->config, in[0].rank);
    const bool keep = keras_bool(k, l->config, "keepdims", false);
    const cJSON *initial = json_member(l->config, "initial");

    (void)n;
    if (initial != NULL && !cJSON_IsNull(initial))
        return keras_fail(k, INFER_EUNSUPPORTED, "an initial value");
    if (k->status < 0)
        return keras_failed(k);
    if (axes == 0)
        return in[0];
    return keras_reduce(k, in[0], "", (enum kern_reduce_kind)l->class->arg,
                        axes, keep);
}

/* ---- shapes --------------------------------------------------------- */

struct keras_value keras_transpose_function(struct keras_emit *k,
                                            struct keras_layer *l,
                                            const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    int order[INFER_MAX_RANK] = {0};
    uint32_t seen = 0;

    (void)n;
    if (json_member(l->config, "axes") == NULL ||
        cJSON_IsNull(json_member(l->config, "axes")))
        for (int i = 0; i < x.rank; i++)
            order[i] = x.rank - 1 - i;
    else
        keras_ints(k, l->config, "axes", x.rank, 0, x.rank - 1, 0, order);
    for (int i = 0; i < x.rank; i++)
        seen |= 1u << order[i];
    if (k->status == 0 && seen != (1u << x.rank) - 1)
        return keras_fail(k, INFER_EFORMAT, "axes is no permutation");
    if (k->status == 0)
        x.value = keras_transpose(k, x.value, x.rank, order);
    return x;
}

int keras_dims(struct keras_emit *k, enum graph_op op, const char *role, int x,
               int n, const int64_t *dim)
{
    int node;
    const int y = keras_node(k, op, role, &x, 1, &node);

    if (y >= 0) {
        k->g->node[node].attr.dims.n = n;
        memcpy(k->g->node[node].attr.dims.dim, dim, (size_t)n * sizeof *dim);
    }
    return y;
}

struct keras_value keras_expand_dims(struct keras_emit *k,
                                     struct keras_layer *l,
                                     const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const int64_t axis = keras_axis(k, l->config, "axis", x.rank + 1, -1);

    (void)n;
    if (k->status < 0 || x.rank == INFER_MAX_RANK)
        return keras_fail(k, INFER_EUNSUPPORTED, "%d dimensions", x.rank + 1);
    x.value = keras_dims(k, GRAPH_UNSQUEEZE, "", x.value, 1, &axis);
    x.rank++;
    return x;
}

struct keras_value keras_squeeze(struct keras_emit *k, struct keras_layer *l,
                                 const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const cJSON *c = json_member(l->config, "axis");
    int64_t axis;

    (void)n;
    if (x.rank < 2 || !cJSON_IsNumber(c))
        return keras_fail(k, INFER_EUNSUPPORTED, "squeeze without an axis");
    axis = keras_axis(k, l->config, "axis", x.rank, -1);
    if (k->status < 0)
        return keras_failed(k);
    x.value = keras_dims(k, GRAPH_SQUEEZE, "", x.value, 1, &axis);
    x.rank--;
    return x;
}

/* keras.ops.reshape: sizes with the batch. */
struct keras_value keras_reshape_whole(struct keras_emit *k,
                                       const struct keras_value *in,
                                       const cJSON *shape)
{
    struct keras_value x = keras_plain(k, in[0]);
    int64_t dim[INFER_MAX_RANK];
    int rank = 0, rests = 0;

    for (const cJSON *e = shape->child; e != NULL; e = e->next, rank++) {
        if (rank == INFER_MAX_RANK)
            return keras_fail(k, INFER_EUNSUPPORTED, "more than %d dimensions",
                              INFER_MAX_RANK);
        if (cJSON_IsNull(e))
            dim[rank] = -1;
        else if (!json_int64(e, -1, INT32_MAX, &dim[rank]) || dim[rank] == 0)
            return keras_fail(k, INFER_EFORMAT, "size %d of newshape", rank);
        rests += dim[rank] < 0;
    }
    if (rank == 0 || rests > 1)
        return keras_fail(k, INFER_EFORMAT,
                          "newshape is empty or leaves two sizes open");
    x.value = keras_dims(k, GRAPH_RESHAPE, "", x.value, rank, dim);
    x.rank = rank;
    return x;
}

struct keras_value keras_matmul(struct keras_emit *k, struct keras_layer *l,
                                const struct keras_value *in, int n)
{
    struct keras_value x;

    (void)l;
    if (n != 2 || in[0].rank < 2 || in[1].rank < 2)
        return keras_fail(k, INFER_EUNSUPPORTED, "inputs that are no matrices");
    x = keras_plain(k, in[0]);
    const struct keras_value y = keras_plain(k, in[1]);
    const int args[2] = {x.value, y.value};
    x.value = keras_node(k, GRAPH_MATMUL, "", args, 2, NULL);
    x.rank = x.rank > y.rank ? x.rank : y.rank;
    return x;
}

/* Entries before and after an axis that mirror those at its ends, the ends
 * themselves first. */
static int mirrored(struct keras_emit *k, int x, int rank, int axis, int before,
                    int after)
{
    const int64_t side[2][2] = {{before - 1, INT64_MIN}, {-1, -after - 1}};
    const int count[2] = {before, after};
    int part[3], n = 0;

    for (int i = 0; i < 3; i++) {
        int node, *const to = &part[n];

        if (i == 1) {
            part[n++] = x;
            continue;
        }
        if (count[i / 2] == 0)
            continue;
        *to = keras_node(k, GRAPH_SLICE, "mirrored", &x, 1, &node);
        if (*to < 0)
            return *to;
        k->g->node[node].attr.slice =
            (struct graph_slice){.n_axes = 1,
                                 .axis = {axis},
                                 .begin = {side[i / 2][0]},
                                 .end = {side[i / 2][1]},
                                 .step = {-1}};
        /* A free axis with fewer entries is refused by the reshape. */
        *to = keras_node(k, GRAPH_RESHAPE, "mirrored", to, 1, &node);
        if (*to < 0)
            return *to;
        k->g->node[node].attr.dims.n = rank;
        memset(k->g->node[node].attr.dims.dim, 0,
               (size_t)rank * sizeof(int64_t));
        k->g->node[node].attr.dims.dim[axis] = count[i / 2];
        n++;
    }
    return n == 1 ? x : keras_concat(k, "", part, n, axis);
}

struct keras_value keras_pad(struct keras_emit *k, struct keras_layer *l,
                             const struct keras_value *in, int n)
{
    static const struct {
        const char *word;
        enum kern_pad_mode mode;
    } modes[] = {{"constant", KERN_PAD_CONSTANT},
                 {"reflect", KERN_PAD_REFLECT},
                 {"edge", KERN_PAD_EDGE},
                 {"wrap", KERN_PAD_WRAP},
                 {"symmetric", KERN_PAD_CONSTANT}};
    const size_t n_modes = sizeof modes / sizeof *modes;
    const cJSON *widths = json_member(l->config, "pad_width");
    const cJSON *value = json_member(k->call->kwargs, "constant_values");
    const char *word = json_string(l->config, "mode");
    struct kern_pad pad = {.mode = KERN_PAD_CONSTANT};
    struct keras_value x = in[0];
    size_t mode = 0;
    int axis = 0, node;

    (void)n;
    while (word && mode < n_modes && strcmp(word, modes[mode].word) != 0)
        mode++;
    if (mode == n_modes)
        return keras_fail(k, INFER_EUNSUPPORTED, "mode '%s'", word);
    pad.mode = modes[mode].mode;
    if (cJSON_IsNumber(value))
        pad.value = (float)value->valuedouble;
    for (const cJSON *e = cJSON_IsArray(widths) ? widths->child : NULL; e;
         e = e->next, axis++) {
        const int d = keras_dimension(x, axis);
        int64_t side[2];

        if (axis >= x.rank || cJSON_GetArraySize(e) != 2 ||
            !json_int64(e->child, 0, INT32_MAX, &side[0]) ||
            !json_int64(e->child->next, 0, INT32_MAX, &side[1]))
            break;
        pad.begin[d] = (int)side[0];
        pad.end[d] = (int)side[1];
    }
    if (axis != x.rank)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "pad_width has no pair for each of %d axes", x.rank);
    if (mode == n_modes - 1) {
        if (!keras_infer_sizes(k))
            return keras_failed(k);
        for (int d = 0; d < x.rank; d++) {
            const int64_t size = k->g->value[x.value].dim[d];

            if (size >= 0 && (pad.begin[d] > size || pad.end[d] > size))
                return keras_fail(k, INFER_EUNSUPPORTED,
                                  "pads that are wider than the axis of %lld",
                                  (long long)size);
        }
        for (int d = 0; d < x.rank && k->status == 0; d++)
            if (pad.begin[d] || pad.end[d])
                x.value =
                    mirrored(k, x.value, x.rank, d, pad.begin[d], pad.end[d]);
        return x;
    }
    x.value = keras_node(k, GRAPH_PAD, "", &x.value, 1, &node);
    if (x.value >= 0)
        k->g->node[node].attr.pad = pad;
    return x;
}

/* ---- indexing ------------------------------------------------------- */

/* What x[...] takes of one axis. */
struct index {
    enum { ALL, RANGE, ONE, NEW } kind;
    int64_t begin, end, step;
};

static bool bound(const cJSON *c, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    return c == NULL || cJSON_IsNull(c) ||
           json_int64(c, INT32_MIN, INT32_MAX, out);
}

static bool read_index(const cJSON *c, struct index *out)
{
    const char *class_name = json_string(c, "class_name");
    const cJSON *config = json_member(c, "config");

    *out = (struct index){.kind = ONE, .step = 1};
    if (cJSON_IsNull(c)) {
        out->kind = NEW;
        return true;
    }
    if (cJSON_IsNumber(c)) {
        if (!json_int64(c, INT32_MIN, INT32_MAX, &out->begin))
            return false;
        /* x[-1] is x[-1:] */
        out->end = out->begin == -1 ? INT64_MAX : out->begin + 1;
        return true;
    }
    if (class_name == NULL || strcmp(class_name, "__slice__") != 0)
        return false;
    if (!bound(json_member(config, "step"), 1, &out->step) || out->step == 0 ||
        !bound(json_member(config, "start"), out->step > 0 ? 0 : INT64_MAX,
               &out->begin) ||
        !bound(json_member(config, "stop"),
               out->step > 0 ? INT64_MAX : INT64_MIN, &out->end))
        return false;
    out->kind = out->step == 1 && out->begin == 0 && out->end == INT64_MAX
                    ? ALL
                    : RANGE;
    return true;
}

static bool is_ellipsis(const cJSON *c)
{
    const char *class_name = json_string(c, "class_name");

    return class_name && strcmp(class_name, "__ellipsis__") == 0;
}

/* The indices of x[...], an ellipsis written out; their number, or -1. */
static int read_indices(const cJSON *key, int rank, struct index *out)
{
    const cJSON *first = cJSON_IsArray(key) ? key->child : key;
    int taken = 0, n = 0;

    for (const cJSON *c = first; c; c = cJSON_IsArray(key) ? c->next : NULL)
        taken += !is_ellipsis(c) && !cJSON_IsNull(c);
    if (taken > rank)
        return -1;
    for (const cJSON *c = first; c; c = cJSON_IsArray(key) ? c->next : NULL) {
        if (is_ellipsis(c)) {
            for (; taken < rank && n < INFER_MAX_RANK; taken++)
                out[n++] = (struct index){.kind = ALL, .step = 1};
            continue;
        }
        if (n == INFER_MAX_RANK || !read_index(c, &out[n++]))
            return -1;
    }
    return n;
}

static struct keras_value slices(struct keras_emit *k, struct keras_value x,
                                 const struct index *index, int n)
{
    struct graph_slice s = {.n_axes = 0};
    int axis = 0, node;

    for (int i = 0; i < n; i++) {
        if (index[i].kind == RANGE || index[i].kind == ONE) {
            s.axis[s.n_axes] = keras_dimension(x, axis);
            s.begin[s.n_axes] = index[i].begin;
            s.end[s.n_axes] = index[i].end;
            s.step[s.n_axes++] = index[i].step;
        }
        axis += index[i].kind != NEW;
    }
    if (s.n_axes == 0)
        return x;
    x.value = keras_node(k, GRAPH_SLICE, "slice", &x.value, 1, &node);
    if (x.value >= 0)
        k->g->node[node].attr.slice = s;
    return x;
}

struct keras_value keras_get_item(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    const cJSON *key = k->call->args && k->call->args->child
                           ? k->call->args->child->next
                           : NULL;
    struct index index[INFER_MAX_RANK];
    int64_t gone[INFER_MAX_RANK], made[INFER_MAX_RANK];
    int n_gone = 0, n_made = 0, axis = 0, place = 0, count;
    struct keras_value x = in[0];

    (void)l;
    (void)n;
    count = key ? read_indices(key, x.rank, index) : -1;
    if (count < 0)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "an index that is no number and no slice");
    for (int i = 0; i < count; i++) {
        if (index[i].kind == ONE)
            gone[n_gone++] = axis;
        if (index[i].kind == NEW)
            made[n_made++] = place;
        axis += index[i].kind != NEW;
        place += index[i].kind != ONE;
    }
    if (x.rank - n_gone + n_made > INFER_MAX_RANK || x.rank == n_gone)
        return keras_fail(k, INFER_EUNSUPPORTED, "%d dimensions",
                          x.rank - n_gone + n_made);
    if (n_gone + n_made > 0)
        x = keras_plain(k, x);
    x = slices(k, x, index, count);
    if (n_gone > 0)
        x.value =
            keras_dims(k, GRAPH_SQUEEZE, "squeeze", x.value, n_gone, gone);
    if (n_made > 0)
        x.value = keras_dims(k, GRAPH_UNSQUEEZE, "new", x.value, n_made, made);
    x.rank += n_made - n_gone;
    return x;
}

struct keras_value keras_flip(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    const uint32_t axes = keras_reduced_axes(k, l->config, in[0].rank);
    struct index index[INFER_MAX_RANK];

    (void)n;
    for (int i = 0; i < in[0].rank; i++)
        index[i] = axes >> i & 1
                       ? (struct index){RANGE, INT64_MAX, INT64_MIN, -1}
                       : (struct index){.kind = ALL, .step = 1};
    return k->status < 0 ? keras_failed(k)
                         : slices(k, in[0], index, in[0].rank);
}
