/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: pooling, shapes, padding, resampling and merges. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/json.h"
#include "weights/keras/keras.h"

struct keras_value keras_identity(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    (void)k;
    (void)l;
    (void)n;
    return in[0];
}

/* ---- pooling ------------------------------------------------------- */

static struct keras_value pool_node(struct keras_emit *k, struct keras_value x,
                                    const char *role,
                                    const struct graph_pool *attr)
{
    int node;

    if (k->status < 0)
        return keras_failed(k);
    x.value = keras_node(k, GRAPH_POOL, role, &x.value, 1, &node);
    if (x.value >= 0)
        k->g->node[node].attr.pool = *attr;
    return x;
}

static struct keras_value pool(struct keras_emit *k,
                               const struct keras_layer *l,
                               struct keras_value x, enum kern_pool_kind kind)
{
    struct graph_pool a = {.pool.kind = kind};
    const int n = l->class->arg;
    const char *size = keras_key(l->config, "pool_size", "pool_length");
    const char *stride = keras_key(l->config, "strides", "stride");
    const enum keras_padding padding = keras_padding(k, l->config);

    keras_ints(k, l->config, size, n, 1, INT32_MAX, 2, a.pool.window);
    keras_ints(k, l->config, stride, n, 1, INT32_MAX, 0, a.pool.stride);
    for (int i = 0; i < n; i++) {
        if (a.pool.stride[i] == 0)
            a.pool.stride[i] = a.pool.window[i];
        a.pool.dilation[i] = 1;
    }
    if (padding == KERAS_CAUSAL)
        return keras_fail(k, INFER_EUNSUPPORTED, "causal padding");
    if (padding == KERAS_SAME)
        a.auto_pad = GRAPH_PAD_SAME_UPPER;
    return pool_node(k, keras_spatial_input(k, l, x), "", &a);
}

struct keras_value keras_max_pool(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    (void)n;
    return pool(k, l, in[0], KERN_POOL_MAX);
}

struct keras_value keras_average_pool(struct keras_emit *k,
                                      struct keras_layer *l,
                                      const struct keras_value *in, int n)
{
    (void)n;
    return pool(k, l, in[0], KERN_POOL_AVERAGE);
}

/* All of space; without keepdims N,C is left. */
static struct keras_value global_pool(struct keras_emit *k,
                                      const struct keras_layer *l,
                                      struct keras_value x,
                                      enum kern_pool_kind kind)
{
    const struct graph_pool a = {.pool.kind = kind};
    const bool keep = keras_bool(k, l->config, "keepdims", false);
    int node;

    x = pool_node(k, keras_spatial_input(k, l, x), keep ? "" : "pool", &a);
    if (keep || k->status < 0)
        return x;
    x.value = keras_node(k, GRAPH_FLATTEN, "", &x.value, 1, &node);
    if (x.value >= 0)
        k->g->node[node].attr.axis.axis = 1;
    return (struct keras_value){x.value, 2, false};
}

struct keras_value keras_global_max_pool(struct keras_emit *k,
                                         struct keras_layer *l,
                                         const struct keras_value *in, int n)
{
    (void)n;
    return global_pool(k, l, in[0], KERN_POOL_MAX);
}

struct keras_value keras_global_average_pool(struct keras_emit *k,
                                             struct keras_layer *l,
                                             const struct keras_value *in,
                                             int n)
{
    (void)n;
    return global_pool(k, l, in[0], KERN_POOL_AVERAGE);
}

/* ---- shapes -------------------------------------------------------- */

/* Keras flattens in its own order, and since version 2.2 a channels-first
 * Flatten puts the channels last before it does. */
struct keras_value keras_flatten(struct keras_emit *k, struct keras_layer *l,
                                 const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    int node;

    (void)n;
    if (k->status < 0)
        return keras_failed(k);
    if (x.rank == 2)
        return x;
    if (x.rank > 2 && !keras_channels_last(k, l->config)) {
        /* The transpose that a swapped tensor of this rank would need. */
        x.swapped = true;
        x = keras_plain(k, x);
    }
    if (k->status < 0)
        return keras_failed(k);
    x.value = keras_node(k, GRAPH_FLATTEN, "", &x.value, 1, &node);
    if (x.value >= 0)
        k->g->node[node].attr.axis.axis = 1;
    return (struct keras_value){x.value, 2, false};
}

static struct keras_value reshape_node(struct keras_emit *k, int x,
                                       const int64_t *dim, int rank,
                                       bool swapped)
{
    int node;
    const int y = keras_node(k, GRAPH_RESHAPE, "", &x, 1, &node);

    if (y >= 0) {
        struct graph_dims *d = &k->g->node[node].attr.dims;
        d->n = rank;
        memcpy(d->dim, dim, (size_t)rank * sizeof *dim);
    }
    return (struct keras_value){y, rank, swapped};
}

struct keras_value keras_reshape(struct keras_emit *k, struct keras_layer *l,
                                 const struct keras_value *in, int n)
{
    const cJSON *c = json_member(l->config, "target_shape");
    const cJSON *whole = json_member(l->config, "newshape");
    int64_t dim[INFER_MAX_RANK] = {0}; /* the batch: as it comes */
    int rank = 1, rests = 0;
    bool ones = true; /* all but the last are 1 */

    (void)n;
    if (c == NULL && cJSON_IsArray(whole))
        return keras_reshape_whole(k, in, whole);
    if (!cJSON_IsArray(c))
        return keras_fail(k, INFER_EFORMAT, "target_shape is no list");
    for (const cJSON *e = c->child; e != NULL; e = e->next) {
        if (rank == INFER_MAX_RANK)
            return keras_fail(k, INFER_EUNSUPPORTED, "more than %d dimensions",
                              INFER_MAX_RANK);
        if (!json_int64(e, -1, INT32_MAX, &dim[rank]) || dim[rank] == 0)
            return keras_fail(k, INFER_EFORMAT, "dimension %d of target_shape",
                              rank);
        rests += dim[rank] < 0;
        if (e->next != NULL && dim[rank] != 1)
            ones = false;
        rank++;
    }
    if (rests > 1 || rank < 2)
        return keras_fail(k, INFER_EFORMAT,
                          "target_shape is empty or has -1 twice");
    if (k->status < 0)
        return keras_failed(k);
    /* A vector as one pixel is the same in both orders. */
    if (in[0].rank == 2 && rank >= 4 && ones && !k->channels_first) {
        dim[1] = dim[rank - 1];
        for (int i = 2; i < rank; i++)
            dim[i] = 1;
        return reshape_node(k, in[0].value, dim, rank, true);
    }
    const struct keras_value x = keras_plain(k, in[0]);
    return reshape_node(k, x.value, dim, rank, false);
}

struct keras_value keras_permute(struct keras_emit *k, struct keras_layer *l,
                                 const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    int order[INFER_MAX_RANK] = {0};
    uint32_t seen = 1;

    (void)n;
    if (k->status < 0)
        return keras_failed(k);
    keras_ints(k, l->config, "dims", x.rank - 1, 1, x.rank - 1, 0, order + 1);
    for (int i = 1; i < x.rank; i++)
        seen |= 1u << order[i];
    if (k->status == 0 && seen != (1u << x.rank) - 1)
        keras_fail(k, INFER_EFORMAT, "dims is no permutation");
    if (k->status == 0)
        x.value = keras_transpose(k, x.value, x.rank, order);
    return x;
}

struct keras_value keras_repeat_vector(struct keras_emit *k,
                                       struct keras_layer *l,
                                       const struct keras_value *in, int n)
{
    const int times = keras_int(k, l->config, "n", 1, INT32_MAX, 1);
    int x = in[0].value, node;

    (void)n;
    if (in[0].rank != 2)
        return keras_fail(k, INFER_EFORMAT, "its input has %d dimensions",
                          in[0].rank);
    x = keras_node(k, GRAPH_UNSQUEEZE, "unsqueeze", &x, 1, &node);
    if (x >= 0)
        k->g->node[node].attr.dims = (struct graph_dims){1, {1}};
    x = keras_node(k, GRAPH_TILE, "", &x, 1, &node);
    if (x >= 0)
        k->g->node[node].attr.dims = (struct graph_dims){3, {1, times, 1}};
    return (struct keras_value){x, 3, false};
}

/* ---- padding and cropping ------------------------------------------ */

/* [[a, b], [c, d]], [a, b, c, d], [a, c] for both sides, or one number. */
static void read_sides(struct keras_emit *k, const cJSON *config,
                       const char *key, int n, int *begin, int *end)
{
    const cJSON *c = json_member(config, key);
    int flat[6], count = 0;
    bool nested = false;

    for (const cJSON *e = cJSON_IsArray(c) ? c->child : NULL; e; e = e->next) {
        int64_t v;
        nested = nested || cJSON_IsArray(e);
        for (const cJSON *s = cJSON_IsArray(e) ? e->child : e; s != NULL;
             s = cJSON_IsArray(e) ? s->next : NULL) {
            if (count == 6 || !json_int64(s, 0, INT32_MAX, &v)) {
                count = -1;
                break;
            }
            flat[count++] = (int)v;
        }
        if (count < 0)
            break;
    }
    if (cJSON_IsNumber(c)) {
        flat[0] = keras_int(k, config, key, 0, INT32_MAX, 0);
        for (count = 1; count < n; count++)
            flat[count] = flat[0];
    }
    /* For one dimension a pair is its two sides. */
    if (count == 2 * n) {
        for (int i = 0; i < n; i++) {
            begin[i] = flat[2 * i];
            end[i] = flat[2 * i + 1];
        }
    } else if (count == n && !nested) {
        for (int i = 0; i < n; i++)
            begin[i] = end[i] = flat[i];
    } else {
        keras_fail(k, INFER_EFORMAT, "%s does not give %d sides", key, 2 * n);
    }
}

static struct keras_value pad_node(struct keras_emit *k,
                                   const struct keras_layer *l,
                                   struct keras_value x, const char *key,
                                   int sign)
{
    int begin[3] = {0}, end[3] = {0}, node;

    x = keras_spatial_input(k, l, x);
    read_sides(k, l->config, key, l->class->arg, begin, end);
    if (k->status < 0)
        return keras_failed(k);
    const int first = x.swapped || !keras_channels_last(k, l->config) ? 2 : 1;
    x.value = keras_node(k, GRAPH_PAD, "", &x.value, 1, &node);
    if (x.value < 0)
        return x;
    struct kern_pad *p = &k->g->node[node].attr.pad;
    p->mode = KERN_PAD_CONSTANT;
    for (int i = 0; i < l->class->arg; i++) {
        p->begin[first + i] = sign * begin[i];
        p->end[first + i] = sign * end[i];
    }
    return x;
}

struct keras_value keras_zero_padding(struct keras_emit *k,
                                      struct keras_layer *l,
                                      const struct keras_value *in, int n)
{
    (void)n;
    return pad_node(k, l, in[0], "padding", 1);
}

struct keras_value keras_cropping(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    (void)n;
    return pad_node(k, l, in[0], "cropping", -1);
}

/* ---- resampling ---------------------------------------------------- */

static bool read_interpolation(struct keras_emit *k, const cJSON *config,
                               const char *otherwise,
                               enum kern_resize_mode *mode)
{
    static const struct {
        const char *word;
        enum kern_resize_mode mode;
    } words[] = {{"nearest", KERN_NEAREST},
                 {"bilinear", KERN_BILINEAR},
                 {"bicubic", KERN_BICUBIC}};
    const char *word = json_string(config, "interpolation");

    if (word == NULL)
        word = otherwise;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        *mode = words[i].mode;
        if (strcmp(word, words[i].word) == 0)
            return true;
    }
    keras_fail(k, INFER_EUNSUPPORTED,
               "interpolation '%s'; nearest, bilinear and bicubic are "
               "supported",
               word);
    return false;
}

/* A resize of *x with all scales 1, which becomes its result; NULL on failure.
 */
static struct graph_resize *resize_node(struct keras_emit *k,
                                        struct keras_value *x,
                                        enum kern_resize_mode mode)
{
    struct graph_resize *r;
    int node;

    x->value = keras_node(k, GRAPH_RESIZE, "", &x->value, 1, &node);
    if (x->value < 0)
        return NULL;
    r = &k->g->node[node].attr.resize;
    memset(r, 0, sizeof *r);
    r->resize.mode = mode;
    /* TensorFlow's cubic: Keys' a, pixels outside do not count. */
    r->resize.cubic_a = -0.5f;
    r->resize.exclude_outside = mode == KERN_BICUBIC;
    for (int i = 0; i < INFER_MAX_RANK; i++)
        r->resize.scale[i] = 1;
    return r;
}

/* Integer scales: nearest repeats; bilinear has pixel centres at one half since
 * TensorFlow 2, and had corners at the same place before. */
struct keras_value keras_up_sampling(struct keras_emit *k,
                                     struct keras_layer *l,
                                     const struct keras_value *in, int n)
{
    struct keras_value x = keras_spatial_input(k, l, in[0]);
    const char *key =
        keras_key(l->config, "size", keras_key(l->config, "length", "size"));
    int size[3];
    enum kern_resize_mode mode;

    (void)n;
    keras_ints(k, l->config, key, l->class->arg, 1, 65536, 2, size);
    if (k->status == 0 && l->class->arg == 2 && keras_is_filter(l))
        return keras_filter(k, l, x, size, true);
    if (!read_interpolation(k, l->config, "nearest", &mode) || k->status < 0)
        return keras_failed(k);
    struct graph_resize *r = resize_node(k, &x, mode);
    if (!r)
        return x;
    r->resize.coord = mode != KERN_NEAREST && !k->old_resize ? KERN_HALF_PIXEL
                                                             : KERN_ASYMMETRIC;
    r->resize.nearest = KERN_FLOOR_NEAREST;
    for (int i = 0; i < l->class->arg; i++)
        r->resize.scale[2 + i] = (float)size[i];
    return x;
}

/* Nearest takes floor((i + 1/2) * scale), which is the half-pixel rule rounded
 * half up. */
struct keras_value keras_resizing(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    struct keras_value x = keras_spatial_input(k, l, in[0]);
    const bool antialias = keras_bool(k, l->config, "antialias", false);
    enum kern_resize_mode mode;
    int size[2] = {0};

    (void)n;
    if (keras_bool(k, l->config, "crop_to_aspect_ratio", false) ||
        keras_bool(k, l->config, "pad_to_aspect_ratio", false))
        keras_fail(k, INFER_EUNSUPPORTED, "aspect ratio kept");
    /* keras.ops.image.resize has both in one. */
    keras_ints(k, l->config, "size", 2, 1, INT32_MAX, 0, size);
    size[0] = keras_int(k, l->config, "height", 1, INT32_MAX, size[0]);
    size[1] = keras_int(k, l->config, "width", 1, INT32_MAX, size[1]);
    if (k->status == 0 && (size[0] == 0 || size[1] == 0))
        keras_fail(k, INFER_EFORMAT, "it has no height or width");
    if (k->status == 0 && keras_is_filter(l))
        return keras_filter(k, l, x, size, false);
    if (!read_interpolation(k, l->config, "bilinear", &mode) || k->status < 0)
        return keras_failed(k);
    struct graph_resize *r = resize_node(k, &x, mode);
    if (!r)
        return x;
    r->resize.coord = KERN_HALF_PIXEL;
    r->resize.nearest = KERN_ROUND_PREFER_CEIL;
    /* Pixels outside do not count in a wide filter either. */
    r->resize.antialias = antialias && mode != KERN_NEAREST;
    r->resize.exclude_outside |= r->resize.antialias;
    r->n_sizes = 4;
    r->size[2] = size[0];
    r->size[3] = size[1];
    return x;
}

/* ---- merges -------------------------------------------------------- */

/* Brings several tensors to one order: N,C,spatial where one of them is in
 * it.  Smaller ranks get dimensions of one after the batch, as Keras does. */
static bool align(struct keras_emit *k, const struct keras_value *in, int n,
                  struct keras_value *out)
{
    int rank = 0;
    bool any = false;

    for (int i = 0; i < n; i++) {
        rank = in[i].rank > rank ? in[i].rank : rank;
        any = any || in[i].swapped;
    }
    for (int i = 0; i < n && k->status == 0; i++) {
        struct keras_value x = in[i];
        if (x.rank < rank) {
            /* Vectors are channels; what is between goes through Keras'
             * order.  Constants have their axes at the end, as NumPy has. */
            int node;
            x = keras_plain(k, x);
            const int missing = rank - x.rank;
            const bool fixed = x.value >= 0 && k->g->value[x.value].data;
            const bool of_channels = any && x.rank == 2 && !fixed;
            const int first = fixed ? 0 : of_channels ? 2 : 1;
            x.value =
                keras_node(k, GRAPH_UNSQUEEZE, "unsqueeze", &x.value, 1, &node);
            if (x.value < 0)
                break;
            struct graph_dims *d = &k->g->node[node].attr.dims;
            d->n = missing;
            for (int j = 0; j < missing; j++)
                d->dim[j] = first + j;
            x.rank = rank;
            x.swapped = of_channels;
        }
        out[i] = any ? keras_swapped(k, x) : x;
    }
    return k->status == 0;
}

static struct keras_value chain(struct keras_emit *k,
                                const struct keras_value *in, int n,
                                enum kern_binary_kind kind, const char *last)
{
    struct keras_value x[2], sum = in[0];

    if (n < 2)
        return keras_fail(k, INFER_EFORMAT, "one input; two are due");
    for (int i = 1; i < n && k->status == 0; i++) {
        const struct keras_value pair[2] = {sum, in[i]};
        int node;
        if (!align(k, pair, 2, x))
            break;
        const int args[2] = {x[0].value, x[1].value};
        sum = x[0];
        sum.value = keras_node(k, GRAPH_BINARY, i == n - 1 ? last : "part",
                               args, 2, &node);
        if (sum.value >= 0)
            k->g->node[node].attr.binary.kind = kind;
    }
    return sum;
}

/* x^c, or c^x where the number comes first. */
static struct keras_value power_of_number(struct keras_emit *k,
                                          struct keras_value x, double c,
                                          bool first)
{
    int in[2], node;

    if (!first && c > 1.9999999 && c < 2.0000001)
        return keras_binary(k, "", x, x.value, KERN_MUL);
    in[first] = x.value;
    in[!first] = keras_constant(k, "number", keras_filled(1, (float)c));
    x.value = keras_node(k, GRAPH_BINARY, "", in, 2, &node);
    if (x.value >= 0)
        k->g->node[node].attr.binary.kind = KERN_POW;
    return x;
}

/* x op c, or c op x where the number comes first. */
static struct keras_value with_number(struct keras_emit *k,
                                      struct keras_value x,
                                      enum kern_binary_kind kind)
{
    const bool first = k->call->number_at == 0;
    const double c = k->call->number;
    enum kern_unary_kind unary = KERN_LINEAR;
    double a = 1, b = 0;

    if (!(c <= FLT_MAX) || !(c >= -FLT_MAX) ||
        (kind == KERN_DIV && !first && !(fabs(c) >= FLT_MIN)))
        return keras_fail(k, INFER_EFORMAT, "its number is out of range");
    if (kind == KERN_ADD) {
        b = c;
    } else if (kind == KERN_SUB) {
        a = first ? -1 : 1;
        b = first ? c : -c;
    } else if (kind == KERN_MUL) {
        a = c;
    } else if (kind == KERN_DIV) {
        a = first ? c : 1 / c;
        if (first)
            x.value = keras_unary(k, "inverse", x.value, KERN_RECIPROCAL, 0, 0);
    } else if (kind == KERN_POW) {
        return power_of_number(k, x, c, first);
    } else {
        unary = KERN_CLIP;
        a = kind == KERN_MAX ? c : -FLT_MAX;
        b = kind == KERN_MAX ? FLT_MAX : c;
    }
    x.value = keras_unary(k, "", x.value, unary, (float)a, (float)b);
    return x;
}

struct keras_value keras_merge(struct keras_emit *k, struct keras_layer *l,
                               const struct keras_value *in, int n)
{
    const enum kern_binary_kind kind = (enum kern_binary_kind)l->class->arg;

    if (k->call->number_at >= 0 && n == 1)
        return with_number(k, in[0], kind);

    if ((kind == KERN_SUB || kind == KERN_DIV || kind == KERN_POW) && n != 2)
        return keras_fail(k, INFER_EFORMAT, "%d inputs; two are due", n);
    return chain(k, in, n, kind, "");
}

struct keras_value keras_average(struct keras_emit *k, struct keras_layer *l,
                                 const struct keras_value *in, int n)
{
    struct keras_value x = chain(k, in, n, KERN_ADD, "sum");

    (void)l;
    x.value = keras_unary(k, "", x.value, KERN_LINEAR, 1 / (float)n, 0);
    return x;
}

static struct keras_value concat_node(struct keras_emit *k,
                                      const struct keras_value *x, int *args,
                                      int n, int axis)
{
    int node;

    if (axis < 0)
        axis += x[0].rank;
    if (axis < 1 || axis >= x[0].rank)
        return keras_fail(k, INFER_EFORMAT, "axis %d of %d", axis, x[0].rank);
    if (x[0].swapped)
        axis = axis == x[0].rank - 1 ? 1 : axis + 1;
    for (int i = 0; i < n; i++)
        args[i] = x[i].value;
    const int y = keras_node(k, GRAPH_CONCAT, "", args, n, &node);
    if (y >= 0)
        k->g->node[node].attr.axis.axis = axis;
    return (struct keras_value){y, x[0].rank, x[0].swapped};
}

static struct keras_value
concatenate(struct keras_emit *k, const struct keras_value *in, int n, int axis)
{
    for (int i = 1; i < n; i++)
        if (in[i].rank != in[0].rank)
            return keras_fail(k, INFER_EFORMAT, "inputs of different rank");
    struct keras_value *x = calloc((size_t)n, sizeof *x);
    int *args = calloc((size_t)n, sizeof *args);
    struct keras_value y = keras_failed(k);
    if (x == NULL || args == NULL)
        y = keras_fail(k, INFER_EMEMORY, "no memory for its inputs");
    else if (align(k, in, n, x))
        y = concat_node(k, x, args, n, axis);
    free(x);
    free(args);
    return y;
}

struct keras_value keras_concatenate(struct keras_emit *k,
                                     struct keras_layer *l,
                                     const struct keras_value *in, int n)
{
    const int axis =
        keras_int(k, l->config, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, -1);

    return k->status < 0 ? keras_failed(k) : concatenate(k, in, n, axis);
}

/* Keras 1: one class for all, with a mode. */
struct keras_value keras_old_merge(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    static const struct {
        const char *mode;
        enum kern_binary_kind kind;
    } modes[] = {{"sum", KERN_ADD}, {"mul", KERN_MUL}, {"max", KERN_MAX}};
    const char *mode = json_string(l->config, "mode");
    const int axis = keras_int(k, l->config, "concat_axis", -INFER_MAX_RANK,
                               INFER_MAX_RANK, -1);

    if (mode == NULL)
        mode = "sum";
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(mode, modes[i].mode) == 0)
            return chain(k, in, n, modes[i].kind, "");
    if (strcmp(mode, "ave") == 0)
        return keras_average(k, l, in, n);
    if (strcmp(mode, "concat") == 0)
        return k->status < 0 ? keras_failed(k) : concatenate(k, in, n, axis);
    return keras_fail(k, INFER_EUNSUPPORTED,
                      "mode '%s'; sum, mul, max, ave and concat are supported",
                      mode);
}
