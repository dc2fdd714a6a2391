/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: sums of products of keras.ops: einsum, tensordot, dot, outer; and
 * functions of two tensors that are several nodes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/json.h"
#include "weights/keras/keras.h"

/* ---- einsum -------------------------------------------------------- */

#define LETTERS 64

/* One operand: the letter of each axis. */
struct operand {
    struct keras_value x;
    int64_t dim[INFER_MAX_RANK];
    char letter[INFER_MAX_RANK + 1];
};

static int place(const char *letters, char c)
{
    const char *p = c ? strchr(letters, c) : NULL;

    return p ? (int)(p - letters) : -1;
}

/* Reads the letters up to `end`; "..." are as many axes as the rank leaves,
 * called '0', '1', ... from the last one.  rank -1: as many as `dots`. */
static bool read_letters(const char **text, const char *end, int rank,
                         int *dots, char *out)
{
    int n = 0, named = 0;

    for (const char *p = *text; p < end; p++)
        named += *p != '.' && *p != ' ';
    if (rank >= 0 && strncmp(*text, "...", 3) != 0 &&
        memchr(*text, '.', (size_t)(end - *text)) == NULL && named != rank)
        return false;
    for (const char *p = *text; p < end; p++) {
        if (*p == ' ')
            continue;
        if (*p == '.') {
            const int more = rank >= 0 ? rank - named : *dots;

            if (p[1] != '.' || p[2] != '.' || more < 0 ||
                n + more > INFER_MAX_RANK) /* no '.' is behind the end */
                return false;
            for (int i = more; i > 0; i--)
                out[n++] = (char)('0' + i - 1);
            *dots = more > *dots ? more : *dots;
            p += 2;
            continue;
        }
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')) ||
            n == INFER_MAX_RANK || memchr(out, *p, (size_t)n))
            return false;
        out[n++] = *p;
    }
    out[n] = '\0';
    *text = end;
    return rank < 0 || n == rank;
}

/* Sums over the letters that neither `other` nor `out` has. */
static void sum_own(struct keras_emit *k, struct operand *o, const char *other,
                    const char *out)
{
    uint32_t axes = 0;
    int n = 0;

    for (int i = 0; o->letter[i]; i++) {
        if (place(other, o->letter[i]) < 0 && place(out, o->letter[i]) < 0) {
            axes |= 1u << i;
        } else {
            o->letter[n] = o->letter[i];
            o->dim[n++] = o->dim[i];
        }
    }
    o->letter[n] = '\0';
    if (axes)
        o->x = keras_reduce(k, o->x, "sum", KERN_REDUCE_SUM, axes, false);
}

/* The operand's axes in the order of `letters`, all of which it has. */
static void reorder(struct keras_emit *k, struct operand *o,
                    const char *letters)
{
    int order[INFER_MAX_RANK], n = (int)strlen(letters);
    int64_t dim[INFER_MAX_RANK] = {0};
    bool same = true;

    for (int i = 0; i < n; i++) {
        order[i] = place(o->letter, letters[i]);
        if (order[i] < 0) {
            keras_fail(k, INFER_EFORMAT, "letter %c of an einsum", letters[i]);
            return;
        }
        dim[i] = o->dim[order[i]];
        same = same && order[i] == i;
    }
    memcpy(o->dim, dim, sizeof dim);
    memmove(o->letter, letters, (size_t)n + 1);
    if (!same)
        o->x.value = keras_transpose(k, o->x.value, n, order);
}

/* The axes [from, from + n) as one; a free size is left open. */
static int64_t joined(struct keras_emit *k, const struct operand *o, int from,
                      int n)
{
    int64_t size = 1;

    for (int i = from; i < from + n && size >= 0; i++)
        if (o->dim[i] < 0)
            size = -1;
        else if (!checked_mul_i64(size, o->dim[i], &size)) {
            keras_fail(k, INFER_EUNSUPPORTED,
                       "a product of axes that is too "
                       "large");
            size = 1;
        }
    return size;
}

/* Letters of a that are (or are not) in b, and are (or are not) in c. */
static void choose(const char *a, const char *b, bool in_b, const char *c,
                   bool in_c, char *out)
{
    int n = 0;

    for (; *a; a++)
        if ((place(b, *a) >= 0) == in_b && (place(c, *a) >= 0) == in_c)
            out[n++] = *a;
    out[n] = '\0';
}

/* batch,left,sum times batch,sum,right: the product's letters are batch, left,
 * right. */
static void multiply(struct keras_emit *k, struct operand *a, struct operand *b,
                     const char *out)
{
    char batch[LETTERS], left[LETTERS], right[LETTERS], sum[LETTERS];
    char order[2 * LETTERS];
    int64_t dim[INFER_MAX_RANK] = {0};
    struct operand y = *a;
    int nb, nl, nr, ns, args[2], n = 0;

    choose(a->letter, b->letter, true, out, true, batch);
    choose(a->letter, b->letter, true, out, false, sum);
    choose(a->letter, b->letter, false, out, true, left);
    choose(b->letter, a->letter, false, out, true, right);
    nb = (int)strlen(batch), nl = (int)strlen(left);
    nr = (int)strlen(right), ns = (int)strlen(sum);
    if (nb + nl + nr > INFER_MAX_RANK || nb + 2 > INFER_MAX_RANK) {
        keras_fail(k, INFER_EUNSUPPORTED, "a product of %d axes", nb + nl + nr);
        return;
    }
    snprintf(order, sizeof order, "%s%s%s", batch, left, sum);
    reorder(k, a, order);
    snprintf(order, sizeof order, "%s%s%s", batch, sum, right);
    reorder(k, b, order);
    for (int i = 0; i < nb; i++)
        dim[i] = 0;
    dim[nb] = joined(k, a, nb, nl);
    dim[nb + 1] = joined(k, a, nb + nl, ns);
    args[0] = keras_dims(k, GRAPH_RESHAPE, "a", a->x.value, nb + 2, dim);
    dim[nb] = joined(k, b, nb, ns);
    dim[nb + 1] = joined(k, b, nb + ns, nr);
    args[1] = keras_dims(k, GRAPH_RESHAPE, "b", b->x.value, nb + 2, dim);
    if (joined(k, a, nb + nl, ns) < 0) {
        keras_fail(k, INFER_EUNSUPPORTED, "a sum over a free size");
        return;
    }
    y.x.value = keras_node(k, GRAPH_MATMUL, "product", args, 2, NULL);
    for (; n < nb; n++) {
        dim[n] = 0;
        y.dim[n] = a->dim[n];
    }
    for (int i = 0; i < nl; i++, n++)
        dim[n] = y.dim[n] = a->dim[nb + i];
    for (int i = 0; i < nr; i++, n++)
        dim[n] = y.dim[n] = b->dim[nb + ns + i];
    y.x.value = keras_dims(k, GRAPH_RESHAPE, "", y.x.value, n, dim);
    snprintf(order, sizeof order, "%s%s%s", batch, left, right);
    memcpy(y.letter, order, (size_t)n + 1);
    y.x.rank = n;
    *a = y;
}

static struct keras_value einsum(struct keras_emit *k, const char *text,
                                 const struct keras_value *in, int n)
{
    const char *arrow = text ? strstr(text, "->") : NULL;
    const char *comma = text ? strchr(text, ',') : NULL;
    struct operand o[2] = {{.letter = ""}, {.letter = ""}};
    char out[INFER_MAX_RANK + 1] = "";
    int dots = 0;

    if (n < 1 || n > 2 || arrow == NULL || (comma != NULL) != (n == 2) ||
        strlen(text) > LETTERS - 1)
        return keras_fail(k, INFER_EUNSUPPORTED, "einsum '%.64s' of %d tensors",
                          text ? text : "", n);
    for (int i = 0; i < n; i++)
        o[i].x = keras_plain(k, in[i]);
    if (!keras_infer_sizes(k))
        return keras_failed(k);
    for (int i = 0; i < n; i++) {
        const char *end = i == 0 && comma ? comma : arrow;

        memcpy(o[i].dim, k->g->value[o[i].x.value].dim, sizeof o[i].dim);
        if (!read_letters(&text, end, o[i].x.rank, &dots, o[i].letter))
            return keras_fail(k, INFER_EUNSUPPORTED,
                              "an einsum whose letters repeat in a tensor or "
                              "do not fit it");
        text += i == 0 && comma ? 1 : 2;
    }
    if (!read_letters(&text, text + strlen(text), -1, &dots, out))
        return keras_fail(k, INFER_EUNSUPPORTED, "the result of an einsum");
    for (int i = 0; out[i]; i++)
        if (place(o[0].letter, out[i]) < 0 && place(o[1].letter, out[i]) < 0)
            return keras_fail(k, INFER_EFORMAT, "letter %c of an einsum",
                              out[i]);
    for (int i = 0; i < n; i++)
        sum_own(k, &o[i], o[1 - i].letter, out);
    if (n == 2 && k->status == 0)
        multiply(k, &o[0], &o[1], out);
    if (k->status < 0)
        return keras_failed(k);
    reorder(k, &o[0], out);
    if (o[0].x.rank == 0)
        return keras_fail(k, INFER_EUNSUPPORTED, "one number for all images");
    return o[0].x;
}

struct keras_value keras_einsum(struct keras_emit *k, struct keras_layer *l,
                                const struct keras_value *in, int n)
{
    return einsum(k, json_string(l->config, "subscripts"), in, n);
}

/* The equation of a product over axes a of x and b of y. */
static struct keras_value over(struct keras_emit *k,
                               const struct keras_value *in, const int *a,
                               const int *b, int n)
{
    char text[LETTERS], out[LETTERS];
    int t = 0, o = 0;

    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < in[side].rank; i++) {
            char c = (char)((side ? 'A' : 'a') + i);
            bool summed = false;

            for (int j = 0; j < n; j++)
                if ((side ? b : a)[j] == i) {
                    c = (char)('n' + j);
                    summed = true;
                }
            text[t++] = c;
            if (!summed)
                out[o++] = c;
        }
        text[t++] = side ? '-' : ',';
    }
    text[t++] = '>';
    memcpy(text + t, out, (size_t)o);
    text[t + o] = '\0';
    return einsum(k, text, in, 2);
}

/* Axes of one side of a product: a number or a list, each once. */
static bool read_axes(const cJSON *c, int rank, int *out, int *n)
{
    const cJSON *e = cJSON_IsArray(c) ? c->child : c;
    uint32_t seen = 0;
    int64_t axis;

    for (*n = 0; e; e = cJSON_IsArray(c) ? e->next : NULL) {
        if (*n == INFER_MAX_RANK || !json_int64(e, -rank, rank - 1, &axis))
            return false;
        axis += axis < 0 ? rank : 0;
        if (seen & 1u << axis)
            return false;
        seen |= 1u << axis;
        out[(*n)++] = (int)axis;
    }
    return true;
}

struct keras_value keras_tensordot(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    const cJSON *axes = json_member(l->config, "axes");
    int side[2][INFER_MAX_RANK], count = 0;

    if (n != 2)
        return keras_fail(k, INFER_EUNSUPPORTED, "%d tensors", n);
    if (cJSON_IsNumber(axes)) {
        count = keras_int(k, l->config, "axes", 1,
                          in[0].rank < in[1].rank ? in[0].rank : in[1].rank, 1);
        for (int i = 0; i < count; i++) {
            side[0][i] = in[0].rank - count + i;
            side[1][i] = i;
        }
    } else {
        int more = 0;

        if (!cJSON_IsArray(axes) || cJSON_GetArraySize(axes) != 2 ||
            !read_axes(axes->child, in[0].rank, side[0], &count) ||
            !read_axes(axes->child->next, in[1].rank, side[1], &more) ||
            more != count)
            return keras_fail(k, INFER_EFORMAT, "axes of a product");
    }
    if (k->status < 0 || count < 1)
        return keras_fail(k, INFER_EUNSUPPORTED, "a product without sums");
    return over(k, in, side[0], side[1], count);
}

/* keras.ops.dot: the last axis of x, the last but one of y. */
struct keras_value keras_dot_function(struct keras_emit *k,
                                      struct keras_layer *l,
                                      const struct keras_value *in, int n)
{
    int a, b;

    (void)l;
    if (n != 2 || in[1].rank < 1)
        return keras_fail(k, INFER_EUNSUPPORTED, "%d tensors", n);
    a = in[0].rank - 1;
    b = in[1].rank > 1 ? in[1].rank - 2 : 0;
    return over(k, in, &a, &b, 1);
}

/* N,T,heads,size: softmax(q k^T / sqrt(size)) v, without mask and bias. */
struct keras_value keras_attention_function(struct keras_emit *k,
                                            struct keras_layer *l,
                                            const struct keras_value *in, int n)
{
    static const char *const words[] = {"bias", "mask"};
    int64_t dim[INFER_MAX_RANK];
    struct keras_value pair[2];
    double scale;
    int node;

    for (int i = 0; i < 2; i++) {
        const cJSON *c = json_member(k->call->kwargs, words[i]);

        if (n != 3 || (c && !cJSON_IsNull(c)) ||
            keras_bool(k, l->config, "is_causal", false) ||
            !(keras_double(k, l->config, "attn_logits_soft_cap", 0) <= 0))
            return keras_fail(k, INFER_EUNSUPPORTED,
                              "attention with a mask, a bias or a cap");
    }
    if (!keras_sizes(k, keras_plain(k, in[0]), in[0].rank - 1, dim))
        return keras_failed(k);
    scale = keras_double(k, k->call->kwargs, "scale",
                         1 / sqrt((double)dim[in[0].rank - 1]));
    pair[0] = einsum(k, "btnh,bsnh->bnts", in, 2);
    pair[0].value =
        keras_unary(k, "scaled", pair[0].value, KERN_LINEAR, (float)scale, 0);
    pair[0].value =
        keras_node(k, GRAPH_SOFTMAX, "weights", &pair[0].value, 1, &node);
    pair[1] = in[2];
    return k->status < 0 ? keras_failed(k)
                         : einsum(k, "bnts,bsnh->btnh", pair, 2);
}

/* keras.ops.average without weights. */
struct keras_value keras_average_function(struct keras_emit *k,
                                          struct keras_layer *l,
                                          const struct keras_value *in, int n)
{
    const uint32_t axes = keras_reduced_axes(k, l->config, in[0].rank);
    /* An array by name is not among the inputs. */
    const cJSON *weights = json_member(k->call->kwargs, "weights");

    if (n != 1 || (weights && !cJSON_IsNull(weights)))
        return keras_fail(k, INFER_EUNSUPPORTED, "an average with weights");
    return k->status < 0
               ? keras_failed(k)
               : keras_reduce(k, in[0], "", KERN_REDUCE_MEAN, axes, false);
}

/* ---- several nodes ------------------------------------------------- */

/* By class->arg: 0 max(a, b) + log(1 + exp(-|a - b|)), 1 floor(a / b),
 * 2 (a - b)^2, 4 whether one of two truths holds and the other does not. */
struct keras_value keras_pair_function(struct keras_emit *k,
                                       struct keras_layer *l,
                                       const struct keras_value *in, int n)
{
    const int kind = l->class->arg;
    struct keras_value x[2], y;

    if (!keras_pair(k, in, n, x))
        return keras_failed(k);
    for (int i = 0; kind == 4 && i < 2; i++)
        x[i].value = keras_cast_to(k, "truth", x[i].value, INFER_BOOL);
    y = keras_pair_node(k, "first", x,
                        kind == 1   ? KERN_DIV
                        : kind == 4 ? KERN_EQUAL
                                    : KERN_SUB);
    if (kind == 1) {
        y.value = keras_unary(k, "", y.value, KERN_FLOOR, 0, 0);
    } else if (kind == 2) {
        y = keras_binary(k, "", y, y.value, KERN_MUL);
    } else if (kind == 4) {
        y.value = keras_unary(k, "", y.value, KERN_NOT, 0, 0);
    } else {
        struct keras_value most = keras_pair_node(k, "most", x, KERN_MAX);

        y.value = keras_unary(k, "distance", y.value, KERN_ABS, 0, 0);
        y.value = keras_unary(k, "negative", y.value, KERN_NEG, 0, 0);
        y.value = keras_unary(k, "rest", y.value, KERN_SOFTPLUS, 0, 0);
        y = keras_binary(k, "", most, y.value, KERN_ADD);
    }
    return y;
}

/* b where a is NaN, else y. */
static struct keras_value unless_nan(struct keras_emit *k, const char *role,
                                     struct keras_value a, struct keras_value b,
                                     struct keras_value y)
{
    const struct keras_value same[2] = {a, a};
    const int args[3] = {keras_pair_node(k, "number", same, KERN_EQUAL).value,
                         y.value, b.value};

    y.value = keras_node(k, GRAPH_WHERE, role, args, 3, NULL);
    return y;
}

/* The larger or smaller of two (class->arg); of a NaN and a number, the number.
 */
struct keras_value keras_number_max(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n)
{
    struct keras_value x[2], y;

    if (!keras_pair(k, in, n, x))
        return keras_failed(k);
    y = keras_pair_node(k, "most", x, (enum kern_binary_kind)l->class->arg);
    y = unless_nan(k, "second", x[1], x[0], y);
    return unless_nan(k, "", x[0], x[1], y);
}

/* x where it is above the threshold, else the default. */
struct keras_value keras_threshold(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    const double at = keras_double(k, l->config, "threshold", 0);
    const double otherwise = keras_double(k, l->config, "default_value", 0);
    struct keras_value x = in[0], above;
    int args[3];

    (void)n;
    above =
        keras_binary(k, "above", x,
                     keras_constant(k, "threshold", keras_filled(1, (float)at)),
                     KERN_GREATER);
    args[0] = above.value;
    args[1] = x.value;
    args[2] = keras_constant(k, "default", keras_filled(1, (float)otherwise));
    x.value = keras_node(k, GRAPH_WHERE, "", args, 3, NULL);
    return x;
}

/* A half of an axis times the sigmoid of the other. */
struct keras_value keras_glu(struct keras_emit *k, struct keras_layer *l,
                             const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    const int axis = keras_axis(k, l->config, "axis", x.rank, -1);
    int64_t dim[INFER_MAX_RANK];
    int gate;

    (void)n;
    if (!keras_sizes(k, x, axis, dim))
        return keras_failed(k);
    if (axis == 0 || dim[axis] % 2)
        return keras_fail(k, INFER_EUNSUPPORTED, "halves of %lld",
                          (long long)dim[axis]);
    gate = keras_slice(k, "gate", x.value, axis, dim[axis] / 2, dim[axis]);
    x.value = keras_slice(k, "half", x.value, axis, 0, dim[axis] / 2);
    return keras_binary(k, "", x,
                        keras_unary(k, "sigmoid", gate, KERN_SIGMOID, 0, 0),
                        KERN_MUL);
}

struct keras_value keras_celu(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    struct keras_value x = in[0];

    (void)n;
    x.value = keras_unary(k, "", x.value, KERN_CELU,
                          (float)keras_double(k, l->config, "alpha", 1), 0);
    return x;
}

struct keras_value keras_log_softmax(struct keras_emit *k,
                                     struct keras_layer *l,
                                     const struct keras_value *in, int n)
{
    struct keras_value x = in[0];
    const int axis = keras_axis(k, l->config, "axis", x.rank, -1);
    int node;

    (void)n;
    x.value = keras_node(k, GRAPH_SOFTMAX, "", &x.value, 1, &node);
    if (x.value >= 0) {
        k->g->node[node].attr.axis.axis = keras_dimension(x, axis);
        k->g->node[node].attr.axis.log = true;
    }
    return x;
}

/* class->arg: 2 x in radians, 3 in degrees; 0 and 1: x held at that number. */
struct keras_value keras_turn(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    struct keras_value x = in[0];

    (void)n;
    if (l->class->arg >= 2)
        x.value = keras_unary(
            k, "", x.value, KERN_LINEAR,
            l->class->arg == 2 ? 0.017453292519943295f : 57.29577951308232f, 0);
    else
        x.value = keras_unary(k, "", x.value, KERN_CLIP, (float)l->class->arg,
                              (float)l->class->arg);
    return x;
}

struct keras_value keras_rgb_to_gray(struct keras_emit *k,
                                     struct keras_layer *l,
                                     const struct keras_value *in, int n)
{
    static const float weight[3] = {0.2989f, 0.587f, 0.114f};
    struct keras_value x = keras_plain(k, in[0]);
    int64_t dim[INFER_MAX_RANK];
    struct constant *c;

    (void)n;
    if (!keras_channels_last(k, l->config) || x.rank < 3)
        return keras_fail(k, INFER_EUNSUPPORTED, "%d axes, channels first",
                          x.rank);
    if (!keras_sizes(k, x, x.rank - 1, dim))
        return keras_failed(k);
    if (dim[x.rank - 1] == 1)
        return x;
    if (dim[x.rank - 1] != 3)
        return keras_fail(k, INFER_EFORMAT, "%lld channels; 1 or 3 are due",
                          (long long)dim[x.rank - 1]);
    c = keras_filled(3, 0);
    if (c)
        memcpy(c->data, weight, sizeof weight);
    x = keras_binary(k, "weighted", x, keras_constant(k, "weights", c),
                     KERN_MUL);
    return keras_reduce(k, x, "", KERN_REDUCE_SUM, 1u << (x.rank - 1), true);
}
