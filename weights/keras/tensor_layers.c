/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: layers over vectors and tables: Embedding, EinsumDense, Dot, norms
 * without statistics, scaled sums. */
#include <float.h>
#include <string.h>

#include "kernels/base/json.h"
#include "weights/keras/keras.h"

/* ---- Embedding ------------------------------------------------------ */

int keras_embedding_variables(struct keras_emit *k, struct keras_layer *l)
{
    if (keras_bool(k, l->config, "mask_zero", false))
        keras_fail(k, INFER_EUNSUPPORTED,
                   "mask_zero hides steps from the layers behind");
    keras_add_variable(l, "embeddings", true);
    return k->status;
}

struct keras_value keras_embedding(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    int args[2], node;

    (void)n;
    args[0] = keras_weight(k, l, 0, "weight", NULL);
    args[1] = keras_node(k, GRAPH_CAST, "indices", &x.value, 1, &node);
    if (args[1] >= 0)
        k->g->node[node].attr.cast.to = INFER_I64;
    if (k->status < 0)
        return keras_failed(k);
    if (k->g->value[args[0]].rank != 2 || x.rank == INFER_MAX_RANK)
        return keras_fail(k, INFER_EFORMAT, "its embeddings are no matrix");
    x.value = keras_node(k, GRAPH_GATHER, "", args, 2, &node);
    if (x.value >= 0)
        k->g->node[node].attr.axis.axis = 0;
    return (struct keras_value){x.value, x.rank + 1, false};
}

/* ---- EinsumDense ---------------------------------------------------- */

int keras_einsum_variables(struct keras_emit *k, struct keras_layer *l)
{
    const cJSON *bias = json_member(l->config, "bias_axes");

    keras_add_variable(l, "kernel", true);
    if (cJSON_IsString(bias))
        keras_add_variable(l, "bias", true);
    return k->status;
}

/* The letters of an equation "a,b->c", at most INFER_MAX_RANK each. */
struct equation {
    char x[INFER_MAX_RANK + 1], w[INFER_MAX_RANK + 1], y[INFER_MAX_RANK + 1];
};

/* "..." at both ends of x and y stands for the axes before. */
static bool parse_equation(const char *text, struct equation *e)
{
    char *const part[3] = {e->x, e->w, e->y};
    int at = 0;
    size_t n = 0;

    for (const char *p = text; *p && at < 3; p++) {
        if (*p == ',' || (*p == '-' && p[1] == '>')) {
            part[at++][n] = '\0';
            n = 0;
            p += *p == '-';
        } else if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')) {
            if (n == INFER_MAX_RANK)
                return false;
            part[at][n++] = *p;
        } else if (*p != '.' || n != 0 || at == 1) {
            return false;
        }
    }
    if (at != 2)
        return false;
    part[2][n] = '\0';
    return e->x[0] && e->w[0] && e->y[0];
}

/* Letters that x and w share and that end x and begin w: the sum goes over
 * them.  The rest of x begins y, the rest of w ends it.  0 if the equation has
 * another form. */
static size_t summed_letters(const struct equation *e)
{
    const size_t nx = strlen(e->x), nw = strlen(e->w), ny = strlen(e->y);
    size_t n = 0;

    while (n < nw && strchr(e->x, e->w[n]))
        n++;
    if (n == 0 || n > nx || n == nw || strncmp(e->x + nx - n, e->w, n) != 0 ||
        ny != nx - n + nw - n || strncmp(e->y, e->x, nx - n) != 0 ||
        strcmp(e->y + nx - n, e->w + n) != 0)
        return 0;
    return n;
}

struct constant *keras_flat_kernel(const struct constant *c, int n)
{
    static const int order[2] = {1, 0};
    int64_t dim[2] = {1, 1};
    struct constant *flat, *transposed;

    for (int i = 0; i < c->rank; i++)
        dim[i >= n] *= c->dim[i];
    flat = constant_reshape((struct constant *)c, 2, dim);
    transposed = flat ? constant_transpose(flat, order) : NULL;
    constant_unref(flat);
    return transposed;
}

/* Each axis of the bias is one of y. */
static int check_bias_axes(struct keras_emit *k, const struct keras_layer *l,
                           const struct equation *e)
{
    const char *axes = json_string(l->config, "bias_axes");

    for (; axes && *axes; axes++)
        if (!strchr(e->y, *axes))
            keras_fail(k, INFER_EFORMAT,
                       "bias axis '%c' is no axis of its output", *axes);
    return k->status;
}

/* The bias has the sizes of some axes of y, 1 elsewhere: it broadcasts. */
static int add_bias(struct keras_emit *k, struct keras_layer *l, int y)
{
    int args[2] = {y, keras_weight(k, l, 1, "bias", NULL)}, node;

    y = keras_node(k, GRAPH_BINARY, "bias", args, 2, &node);
    if (y >= 0)
        k->g->node[node].attr.binary.kind = KERN_ADD;
    return y;
}

struct keras_value keras_einsum_dense(struct keras_emit *k,
                                      struct keras_layer *l,
                                      const struct keras_value *in, int n)
{
    const char *text = json_string(l->config, "equation");
    struct keras_value x = keras_plain(k, in[0]);
    const struct constant *c = l->variable[0].data;
    int64_t dim[INFER_MAX_RANK] = {0};
    struct equation e;
    int summed, kept, args[2];

    (void)n;
    if (text == NULL || !parse_equation(text, &e))
        return keras_fail(k, INFER_EFORMAT, "no equation of two tensors");
    summed = (int)summed_letters(&e);
    if (summed == 0)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "equation '%s'; sums over the last axes of the input "
                          "are supported",
                          text);
    if (check_bias_axes(k, l, &e) < 0)
        return keras_failed(k);
    if (c == NULL)
        return keras_fail(k, INFER_EUNSUPPORTED, "the layer is shared");
    kept = x.rank - summed;
    if (k->status < 0 || c->rank != (int)strlen(e.w) || kept < 1 ||
        kept + c->rank - summed > INFER_MAX_RANK)
        return keras_fail(k, INFER_EFORMAT,
                          "its kernel has rank %d, its input "
                          "%d",
                          c->rank, x.rank);
    for (int i = 0; i < c->rank - summed; i++)
        dim[kept + i] = c->dim[summed + i];
    const int rank = kept + c->rank - summed;
    const bool flat = rank == kept + 1;
    args[1] = keras_constant(k, "weight", keras_flat_kernel(c, summed));
    args[0] = x.value;
    if (summed > 1) {
        int64_t merged[INFER_MAX_RANK] = {0};

        merged[kept] = -1;
        args[0] =
            keras_dims(k, GRAPH_RESHAPE, "merge", x.value, kept + 1, merged);
    }
    x.value = keras_node(k, GRAPH_DENSE, flat ? "" : "dense", args, 2, NULL);
    if (!flat)
        x.value = keras_dims(k, GRAPH_RESHAPE, "split", x.value, rank, dim);
    if (keras_variable(l, "bias") >= 0)
        x.value = add_bias(k, l, x.value);
    x.rank = rank;
    return keras_activation(k, x, keras_activation_of(l));
}

/* ---- Dot ------------------------------------------------------------ */

/* x / sqrt(max(sum of squares over the axes, 1e-12)) */
static struct keras_value unit(struct keras_emit *k, struct keras_value x,
                               uint32_t axes)
{
    struct keras_value s = keras_binary(k, "squares", x, x.value, KERN_MUL);

    s = keras_reduce(k, s, "sum", KERN_REDUCE_SUM, axes, true);
    s.value = keras_unary(k, "least", s.value, KERN_CLIP, 1e-12f, FLT_MAX);
    s.value = keras_unary(k, "length", s.value, KERN_SQRT, 0, 0);
    return keras_binary(k, "", x, s.value, KERN_DIV);
}

struct keras_value keras_dot(struct keras_emit *k, struct keras_layer *l,
                             const struct keras_value *in, int n)
{
    struct keras_value x[2];
    int axis[2], node;

    if (n != 2 || in[0].rank != in[1].rank || in[0].rank < 2 || in[0].rank > 3)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "two vectors or two matrices are due");
    keras_ints(k, l->config, "axes", 2, -in[0].rank, in[0].rank - 1, -1, axis);
    for (int i = 0; i < 2; i++) {
        x[i] = keras_plain(k, in[i]);
        if (axis[i] < 0)
            axis[i] += x[i].rank;
        if (axis[i] == 0)
            return keras_fail(k, INFER_EUNSUPPORTED, "a sum over the batch");
        if (keras_bool(k, l->config, "normalize", false))
            x[i] = unit(k, x[i], 1u << axis[i]);
    }
    if (k->status < 0)
        return keras_failed(k);
    if (x[0].rank == 2) {
        x[0] = keras_binary(k, "product", x[0], x[1].value, KERN_MUL);
        return keras_reduce(k, x[0], "", KERN_REDUCE_SUM, 2, true);
    }
    const int args[2] = {x[0].value, x[1].value};
    x[0].value = keras_node(k, GRAPH_MATMUL, "", args, 2, &node);
    if (x[0].value >= 0) {
        k->g->node[node].attr.matmul.transpose_a = axis[0] == 1;
        k->g->node[node].attr.matmul.transpose_b = axis[1] == 2;
    }
    return x[0];
}

/* ---- norms without statistics, scaled sums -------------------------- */

struct keras_value keras_unit_norm(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    const cJSON *c = json_member(l->config, "axis");
    const cJSON *e = cJSON_IsArray(c) ? c->child : c;
    uint32_t axes = 0;

    (void)n;
    for (; e != NULL; e = cJSON_IsArray(c) ? e->next : NULL) {
        int64_t axis;

        if (!json_int64(e, -in[0].rank, in[0].rank - 1, &axis))
            return keras_fail(k, INFER_EFORMAT, "axis is not one of %d",
                              in[0].rank);
        axes |= 1u << (axis < 0 ? axis + in[0].rank : axis);
    }
    return unit(k, in[0], axes ? axes : 1u << (in[0].rank - 1));
}

int keras_rms_variables(struct keras_emit *k, struct keras_layer *l)
{
    keras_add_variable(l, "scale", true);
    return k->status;
}

struct keras_value keras_rms_norm(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const int axis = keras_axis(k, l->config, "axis", x.rank, -1);
    int args[2] = {x.value, -1}, node;

    (void)n;
    if (axis != x.rank - 1)
        return keras_fail(k, INFER_EUNSUPPORTED, "an axis before the last");
    args[1] = keras_weight(k, l, 0, "weight", NULL);
    x.value = keras_node(k, GRAPH_LAYER_NORM, "", args, 2, &node);
    if (x.value >= 0) {
        struct kern_norm *norm = &k->g->node[node].attr.norm;

        norm->axis = -1;
        norm->rms = true;
        norm->epsilon = (float)keras_double(k, l->config, "epsilon", 1e-6);
    }
    return x;
}

/* x + scale * y, of keras.applications' Inception-ResNet-v2. */
struct keras_value keras_scaled_sum(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n)
{
    const double scale = keras_double(k, l->config, "scale", 1);
    struct keras_value y;

    if (n != 2 || in[0].rank != in[1].rank)
        return keras_fail(k, INFER_EFORMAT, "%d inputs; two are due", n);
    y = in[0].swapped ? keras_swapped(k, in[1]) : keras_plain(k, in[1]);
    y.value = keras_unary(k, "scale", y.value, KERN_LINEAR, (float)scale, 0);
    return keras_binary(k, "", in[0], y.value, KERN_ADD);
}
