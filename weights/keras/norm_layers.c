/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: normalisations. */
#include <math.h>
#include <string.h>

#include "kernels/base/json.h"
#include "kernels/base/scalar.h"
#include "libinfer/graph/graph_json.h"
#include "weights/keras/keras.h"

int keras_norm_variables(struct keras_emit *k, struct keras_layer *l)
{
    if (keras_bool(k, l->config, "scale", true))
        keras_add_variable(l, "gamma", true);
    if (keras_bool(k, l->config, "center", true) &&
        !keras_bool(k, l->config, "rms_scaling", false))
        keras_add_variable(l, "beta", true);
    return k->status;
}

int keras_batch_norm_variables(struct keras_emit *k, struct keras_layer *l)
{
    keras_norm_variables(k, l);
    keras_add_variable(l, "moving_mean", false);
    keras_add_variable(l, "moving_variance", false);
    return k->status;
}

/* axis as Keras means it: a number, or a list of one (tf.keras).  Returns it
 * from 0, or fails. */
static int single_axis(struct keras_emit *k, const cJSON *config, int rank)
{
    const cJSON *c = json_member(config, "axis");
    int64_t axis = -1;

    if (cJSON_IsArray(c) && c->child != NULL && c->child->next == NULL)
        c = c->child;
    if (c != NULL && !cJSON_IsNull(c) &&
        !json_int64(c, -INFER_MAX_RANK, INFER_MAX_RANK, &axis)) {
        keras_fail(k, INFER_EUNSUPPORTED, "more than one axis");
        return 0;
    }
    if (axis < 0)
        axis += rank;
    if (axis < 1 || axis >= rank)
        keras_fail(k, INFER_EFORMAT, "axis %d of %d", (int)axis, rank);
    return (int)axis;
}

/* The input with Keras' axis as dimension 1 of the graph's value. */
static struct keras_value channel_first(struct keras_emit *k,
                                        struct keras_value x, int axis)
{
    if (k->status < 0)
        return x;
    if (axis == x.rank - 1)
        return keras_swapped(k, x);
    if (axis == 1)
        return keras_plain(k, x);
    return keras_fail(k, INFER_EUNSUPPORTED,
                      "normalisation along axis %d of %d", axis, x.rank);
}

/* A parameter of n values, or one that the layer does not have. */
static int parameter(struct keras_emit *k, struct keras_layer *l,
                     const char *name, const char *suffix, int64_t n,
                     float otherwise, int *made)
{
    const int i = keras_variable(l, name);

    if (k->status < 0)
        return k->status;
    if (i < 0) {
        if (*made < 0)
            *made = keras_constant(k, suffix, keras_filled(n, otherwise));
        return *made;
    }
    const int v = keras_weight(k, l, i, suffix, NULL);
    if (v >= 0) {
        const struct constant *c = k->g->value[v].data;
        if (c->rank != 1 || c->dim[0] != n)
            keras_fail(k, INFER_EFORMAT, "its %s does not have %lld values",
                       name, (long long)n);
    }
    return v;
}

/* Number of channels, from any variable that is there. */
static int64_t channels_of(struct keras_emit *k, const struct keras_layer *l)
{
    for (int i = 0; i < l->n_variables && k->status == 0; i++) {
        const struct constant *c = l->weight[i] >= 0
                                       ? k->g->value[l->weight[i]].data
                                       : l->variable[i].data;
        if (c != NULL && c->rank == 1)
            return c->dim[0];
    }
    keras_fail(k, INFER_EFORMAT, "its variables are no vectors");
    return 0;
}

struct keras_value keras_batch_norm(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n)
{
    struct keras_value x =
        channel_first(k, in[0], single_axis(k, l->config, in[0].rank));
    const double epsilon = keras_double(k, l->config, "epsilon", 1e-3);
    const int mode = keras_int(k, l->config, "mode", 0, 2, 0);
    const int64_t channels = channels_of(k, l);
    int one = -1, zero = -1, node;

    (void)n;
    if (mode != 0)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "mode %d uses the statistics of the batch", mode);
    if (!(epsilon >= 0))
        return keras_fail(k, INFER_EFORMAT, "epsilon is negative");
    const int args[5] = {
        x.value, parameter(k, l, "gamma", "weight", channels, 1, &one),
        parameter(k, l, "beta", "bias", channels, 0, &zero),
        parameter(k, l, "moving_mean", "running_mean", channels, 0, &zero),
        parameter(k, l, "moving_variance", "running_var", channels, 1, &one)};
    if (k->status < 0)
        return keras_failed(k);
    x.value = keras_node(k, GRAPH_BATCH_NORM, "", args, 5, &node);
    if (x.value >= 0)
        k->g->node[node].attr.norm.epsilon = (float)epsilon;
    return x;
}

/* Of ConvNeXt in keras.applications: the last axis times gamma. */
int keras_layer_scale_variables(struct keras_emit *k, struct keras_layer *l)
{
    keras_add_variable(l, "gamma", true);
    return k->status;
}

struct keras_value keras_layer_scale(struct keras_emit *k,
                                     struct keras_layer *l,
                                     const struct keras_value *in, int n)
{
    struct keras_value x = channel_first(k, in[0], in[0].rank - 1);
    const int64_t channels = channels_of(k, l);
    int one = -1;

    (void)n;
    const int args[2] = {x.value,
                         parameter(k, l, "gamma", "weight", channels, 1, &one)};
    if (k->status < 0)
        return keras_failed(k);
    x.value = keras_node(k, GRAPH_SCALE_SHIFT, "", args, 2, NULL);
    return x;
}

/* ---- layer and group normalisation --------------------------------- */

/* The first normalised axis: the axes must be the last ones. */
static int trailing_axes(struct keras_emit *k, const cJSON *config, int rank)
{
    const cJSON *c = json_member(config, "axis");
    uint32_t seen = 0;
    int count = 0;

    if (!cJSON_IsArray(c)) {
        const int axis = single_axis(k, config, rank);
        if (k->status == 0 && axis != rank - 1)
            keras_fail(k, INFER_EUNSUPPORTED, "axis %d of %d", axis, rank);
        return axis;
    }
    for (const cJSON *e = c->child; e != NULL; e = e->next) {
        int64_t axis = 0;
        if (!json_int64(e, -rank, rank - 1, &axis)) {
            keras_fail(k, INFER_EFORMAT, "axis is no list of axes");
            return 1;
        }
        axis = axis < 0 ? axis + rank : axis;
        if (!(seen >> axis & 1))
            count++;
        seen |= 1u << axis;
    }
    for (int i = rank - count; i < rank; i++)
        if (!(seen >> i & 1) || i < 1 || count == 0)
            keras_fail(k, INFER_EUNSUPPORTED, "axes that are not the last");
    return rank - count;
}

/* A normalisation with the layer's gamma and beta, where it has them; its
 * attributes, or NULL after an error. */
static struct kern_norm *scaled_norm(struct keras_emit *k,
                                     struct keras_layer *l, enum graph_op op,
                                     struct keras_value *x)
{
    const int scale = keras_variable(l, "gamma");
    const int shift = keras_variable(l, "beta");
    const int args[3] = {
        x->value, scale >= 0 ? keras_weight(k, l, scale, "weight", NULL) : -1,
        shift >= 0 ? keras_weight(k, l, shift, "bias", NULL) : -1};
    const double epsilon = keras_double(k, l->config, "epsilon", 1e-3);
    int node;

    if (k->status < 0) {
        *x = keras_failed(k);
        return NULL;
    }
    x->value = keras_node(k, op, "", args,
                          shift >= 0   ? 3
                          : scale >= 0 ? 2
                                       : 1,
                          &node);
    if (x->value < 0)
        return NULL;
    k->g->node[node].attr.norm.epsilon = (float)epsilon;
    return &k->g->node[node].attr.norm;
}

struct keras_value keras_layer_norm(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const int axis = trailing_axes(k, l->config, x.rank);
    const bool rms = keras_bool(k, l->config, "rms_scaling", false);
    struct kern_norm *norm = scaled_norm(k, l, GRAPH_LAYER_NORM, &x);

    (void)n;
    if (norm) {
        norm->axis = axis;
        norm->rms = rms;
    }
    return x;
}

struct keras_value keras_group_norm(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n)
{
    struct keras_value x =
        channel_first(k, in[0], single_axis(k, l->config, in[0].rank));
    int groups = keras_int(k, l->config, "groups", -1, INT32_MAX, 32);
    struct kern_norm *norm;

    (void)n;
    if (groups < 1) {
        if (keras_variable(l, "gamma") < 0 && keras_variable(l, "beta") < 0)
            return keras_fail(k, INFER_EUNSUPPORTED,
                              "one group a channel, without parameters");
        groups = (int)channels_of(k, l); /* -1: every channel alone */
    }
    norm = scaled_norm(k, l, GRAPH_GROUP_NORM, &x);
    if (norm)
        norm->groups = groups;
    return x;
}

/* ---- fixed scaling ------------------------------------------------- */

/* Numbers in the configuration: one, or a list, nested as numpy prints it.
 * true and false are 1 and 0, as in Python. */
static int count_numbers(const cJSON *c)
{
    int n = 0;

    if (cJSON_IsNumber(c) || cJSON_IsBool(c))
        return 1;
    for (const cJSON *e = cJSON_IsArray(c) ? c->child : NULL; e; e = e->next)
        n += count_numbers(e);
    return n;
}

static void store_numbers(const cJSON *c, struct constant *out, int64_t *at)
{
    if (cJSON_IsNumber(c))
        scalar_store(INFER_F32, out->data, (*at)++, c->valuedouble);
    else if (cJSON_IsBool(c))
        scalar_store(INFER_F32, out->data, (*at)++, cJSON_IsTrue(c));
    for (const cJSON *e = cJSON_IsArray(c) ? c->child : NULL; e; e = e->next)
        store_numbers(e, out, at);
}

/* NULL where the item is no numbers at all, or where there is no memory (then k
 * has failed). */
static struct constant *numbers(struct keras_emit *k, const cJSON *c)
{
    const int64_t n = count_numbers(c);
    int64_t at = 0;

    if (n == 0)
        return NULL;
    struct constant *out = constant_new(INFER_F32, 1, &n);
    if (out != NULL)
        store_numbers(c, out, &at);
    else
        keras_fail(k, INFER_EMEMORY, "no memory for its numbers");
    return out;
}

/* y = x * scale + shift with one pair, or one pair a channel (last axis of
 * Keras).  Takes over both. */
static struct keras_value scale_shift(struct keras_emit *k,
                                      struct keras_value x,
                                      struct constant *scale,
                                      struct constant *shift)
{
    if (k->status == 0 && (scale == NULL || shift == NULL))
        keras_fail(k, INFER_EMEMORY, "no memory for its parameters");
    if (k->status == 0 && constant_count(scale) == 1) {
        x.value = keras_unary(k, "", x.value, KERN_LINEAR,
                              (float)scalar_load(INFER_F32, scale->data, 0),
                              (float)scalar_load(INFER_F32, shift->data, 0));
        constant_unref(scale);
        constant_unref(shift);
        return x;
    }
    x = keras_swapped(k, x);
    int args[3] = {x.value, -1, -1};
    args[1] = keras_constant(k, "weight", scale);
    args[2] = keras_constant(k, "bias", shift);
    if (k->status == 0)
        x.value = keras_node(k, GRAPH_SCALE_SHIFT, "", args, 3, NULL);
    return x;
}

/* c with n equal values where it has one. */
static struct constant *spread(struct constant *c, int64_t n)
{
    if (c == NULL || constant_count(c) == n)
        return c;
    struct constant *s = NULL;
    if (constant_count(c) == 1)
        s = keras_filled(n, (float)scalar_load(INFER_F32, c->data, 0));
    constant_unref(c);
    return s;
}

/* A model that begins with Rescaling takes pixels as they are, 0 .. 255, if the
 * factor brings these to about one. */
static void takes_pixels(struct keras_emit *k, struct keras_value x,
                         const struct constant *scale)
{
    const struct graph_value *v;

    if (k->status < 0 || x.rank != 4 || !x.swapped ||
        !(fabs(scalar_load(INFER_F32, scale->data, 0)) < 0.1))
        return;
    v = &k->g->value[x.value];
    for (int i = 0; i < k->g->n_inputs; i++)
        if (k->g->input[i] == x.value && (v->dim[1] == 3 || v->dim[1] == 1)) {
            k->g->preprocess[i] = graph_preprocess_default();
            k->g->preprocess[i].color = v->dim[1] == 1 ? GRAPH_GRAY : GRAPH_RGB;
        }
}

struct keras_value keras_rescaling(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    const cJSON *offset_item = json_member(l->config, "offset");
    struct constant *scale = numbers(k, json_member(l->config, "scale"));
    struct constant *offset = numbers(k, offset_item);

    (void)n;
    if (offset == NULL && (offset_item == NULL || cJSON_IsNull(offset_item))) {
        offset = keras_filled(1, 0);
        if (offset == NULL)
            keras_fail(k, INFER_EMEMORY, "no memory for its offset");
    }
    if (scale == NULL || offset == NULL) {
        constant_unref(scale);
        constant_unref(offset);
        return keras_fail(k, INFER_EFORMAT, "scale or offset is no number");
    }
    takes_pixels(k, in[0], scale);
    const int64_t most = constant_count(scale) > constant_count(offset)
                             ? constant_count(scale)
                             : constant_count(offset);
    return scale_shift(k, in[0], spread(scale, most), spread(offset, most));
}

/* Mean and variance are variables unless the configuration gives them. */
static bool has_own_numbers(const struct keras_layer *l)
{
    const cJSON *mean = json_member(l->config, "mean");

    return mean != NULL && !cJSON_IsNull(mean);
}

int keras_normalization_variables(struct keras_emit *k, struct keras_layer *l)
{
    if (has_own_numbers(l))
        return k->status;
    keras_add_variable(l, "mean", false);
    keras_add_variable(l, "variance", false);
    keras_add_variable(l, "count", false); /* of samples that were seen */
    return k->status;
}

static struct constant *own_or_stored(struct keras_emit *k,
                                      const struct keras_layer *l,
                                      const char *name)
{
    const int i = keras_variable(l, name);

    if (i < 0)
        return numbers(k, json_member(l->config, name));
    struct constant *c = l->variable[i].data;
    const int64_t n = c ? constant_count(c) : 0;
    if (n == 0)
        return NULL;
    c = constant_reshape(c, 1, &n);
    if (c == NULL)
        keras_fail(k, INFER_EMEMORY, "no memory for its %s", name);
    return c;
}

/* y = (x - mean) / max(sqrt(variance), 1e-7), or the inverse of that. */
struct keras_value keras_normalization(struct keras_emit *k,
                                       struct keras_layer *l,
                                       const struct keras_value *in, int n)
{
    const bool invert = keras_bool(k, l->config, "invert", false);
    const cJSON *axis = json_member(l->config, "axis");
    struct constant *mean = own_or_stored(k, l, "mean");
    struct constant *variance = own_or_stored(k, l, "variance");

    (void)n;
    if (k->status == 0 && axis != NULL && !cJSON_IsNull(axis) &&
        !(cJSON_IsArray(axis) && axis->child == NULL) &&
        single_axis(k, l->config, in[0].rank) != in[0].rank - 1)
        keras_fail(k, INFER_EUNSUPPORTED,
                   "normalisation along another axis than the last");
    if (k->status == 0 && (mean == NULL || variance == NULL))
        keras_fail(k, INFER_EFORMAT, "its mean or variance is missing");
    const int64_t most = k->status < 0 ? 0
                         : constant_count(mean) > constant_count(variance)
                             ? constant_count(mean)
                             : constant_count(variance);
    struct constant *scale =
        k->status < 0 ? NULL : constant_new(INFER_F32, 1, &most);
    struct constant *shift =
        k->status < 0 ? NULL : constant_new(INFER_F32, 1, &most);
    for (int64_t i = 0; scale != NULL && shift != NULL && i < most; i++) {
        const int64_t a = constant_count(mean) == 1 ? 0 : i;
        const int64_t b = constant_count(variance) == 1 ? 0 : i;
        if (a >= constant_count(mean) || b >= constant_count(variance)) {
            keras_fail(k, INFER_EFORMAT, "mean and variance differ in length");
            break;
        }
        const double m = scalar_load(INFER_F32, mean->data, a);
        const double deviation =
            fmax(sqrt(scalar_load(INFER_F32, variance->data, b)), 1e-7);
        scalar_store(INFER_F32, scale->data, i,
                     invert ? deviation : 1 / deviation);
        scalar_store(INFER_F32, shift->data, i, invert ? m : -m / deviation);
    }
    constant_unref(mean);
    constant_unref(variance);
    if (k->status < 0) {
        constant_unref(scale);
        constant_unref(shift);
        return keras_failed(k);
    }
    return scale_shift(k, in[0], scale, shift);
}
