/* SPDX-License-Identifier: Apache-2.0 */
/* Puts 8 bits into the graph: weights, biases, and nodes quantize and
 * dequantize around the tensors that layers read. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/graph/graph_sign.h"
#include "weights/quantize/quantizer.h"

/* Largest bias in units of the accumulator: sums on top of it stay within 32
 * bits for 2^15 products of 8-bit factors and more. */
#define MAX_BIAS 0x1p30

struct rewrite {
    struct quantizer *q;
    struct graph *g;
    float *scale;            /* of each tensor; 0: it stays float */
    enum infer_dtype *dtype; /* of each tensor */
    bool *wanted;            /* of each tensor: a quantised layer needs it */
    int *dequantized; /* of each tensor: the value that its readers read */
    struct infer_error *err;
};

/* ---- values and nodes ---------------------------------------------- */

/* "name.ending", or a fresh name where that is taken. */
static const char *name_of(const struct graph *g, const char *name,
                           const char *ending, char buf[512])
{
    snprintf(buf, 512, "%.480s.%s", name ? name : "", ending);
    return graph_find_value(g, buf) >= 0 ? NULL : buf;
}

static int no_room(const struct rewrite *r, int rc)
{
    return rc == INFER_EMEMORY ? graph_no_room(r->g, r->err)
                               : error_set(r->err, rc, "the graph is full");
}

/* A node of x and scale, whose output is named after `name`. */
static int add_node(const struct rewrite *r, enum graph_op op, const char *name,
                    const char *ending, int x, int scale, int axis,
                    enum infer_dtype to)
{
    char buf[512];
    const int in[2] = {x, scale};
    const int out = graph_add_value(r->g, name_of(r->g, name, ending, buf));
    int node;

    if (out < 0)
        return no_room(r, out);
    node = graph_add_node(r->g, op, NULL, in, 2, &out, 1);
    if (node < 0)
        return no_room(r, node);
    r->g->node[node].attr.quantize.axis = axis;
    if (op == GRAPH_QUANTIZE)
        r->g->node[node].attr.quantize.to = to;
    return out;
}

static int add_constant(const struct rewrite *r, const char *name,
                        const char *ending, struct constant *c)
{
    char buf[512];
    const int value =
        graph_add_constant(r->g, name_of(r->g, name, ending, buf), c);

    return value < 0 ? no_room(r, value) : value;
}

/* What the names of tensors of 8 bits end in. */
static const char *ending_of(const struct rewrite *r)
{
    return r->q->options.dtype == INFER_I8 ? "int8" : "fp8";
}

/* ---- tensors ------------------------------------------------------- */

static struct range *group_range(const struct rewrite *r, int t)
{
    return &r->q->range[quantizer_group(r->q, t)];
}

/* signs[t]: a tensor of the group that t stands for may be negative. */
static void find_signs(const struct rewrite *r, const bool *not_negative,
                       bool *signs)
{
    for (int t = 0; t < r->q->n_tensors; t++)
        if (!not_negative[r->q->value[t]])
            signs[quantizer_group(r->q, t)] = true;
}

static void set_scales(const struct rewrite *r, const bool *signs)
{
    const struct quantizer *q = r->q;

    for (int t = 0; t < q->n_tensors; t++) {
        const struct range *range = group_range(r, t);
        const enum infer_dtype dtype =
            range_dtype(range, !signs[quantizer_group(q, t)], q->options.dtype);
        const double limit = range_limit(range, q->options.method, dtype);

        r->dtype[t] = dtype;
        r->scale[t] = (float)(limit / range_top(dtype));
        if (!(r->scale[t] > 1e-30f))
            r->scale[t] = 0;
    }
}

static int choose_types(const struct rewrite *r)
{
    bool *not_negative = calloc((size_t)r->g->n_values + 1, sizeof(bool));
    bool *signs = calloc((size_t)r->q->n_tensors + 1, sizeof(bool));
    const bool room = not_negative && signs;

    if (room) {
        graph_not_negative(r->g, not_negative);
        find_signs(r, not_negative, signs);
        set_scales(r, signs);
    }
    free(not_negative);
    free(signs);
    return room ? INFER_OK : error_set(r->err, INFER_EMEMORY, "out of memory");
}

/* Quantises tensor t and dequantises it for all its readers; outputs of the
 * network stay as they are. */
static int wrap_tensor(const struct rewrite *r, int t)
{
    const int value = r->q->value[t];
    const char *name = r->g->value[value].name;
    struct constant *c = constant_new(INFER_F32, 0, NULL);
    int scale, to, back;

    if (!c)
        return error_set(r->err, INFER_EMEMORY, "out of memory");
    memcpy(c->data, &r->scale[t], sizeof r->scale[t]);
    scale = add_constant(r, name, "scale", c);
    if (scale < 0)
        return scale;
    to = add_node(r, GRAPH_QUANTIZE, name, ending_of(r), value, scale, 1,
                  r->dtype[t]);
    if (to < 0)
        return to;
    back = add_node(r, GRAPH_DEQUANTIZE, r->g->value[value].name, "float", to,
                    scale, 1, INFER_NONE);
    r->dequantized[t] = back;
    return back < 0 ? back : INFER_OK;
}

/* Readers of quantised tensors read their dequantised form. */
static void redirect(const struct rewrite *r, int nodes_before)
{
    for (int i = 0; i < nodes_before; i++) {
        struct graph_node *n = &r->g->node[i];

        for (int k = 0; n->op != GRAPH_NONE && k < n->n_in; k++) {
            const bool is_old = n->in[k] >= 0 && n->in[k] < r->q->n_values;
            const int t = is_old ? r->q->tensor_of[n->in[k]] : -1;

            if (t >= 0 && r->dequantized[t] >= 0)
                n->in[k] = r->dequantized[t];
        }
    }
}

/* ---- weights ------------------------------------------------------- */

struct weights {
    const struct graph_node *node;
    const struct range *x; /* of the input's own samples */
    struct constant *w;    /* F32 */
    struct constant *bias; /* F32, or NULL */
    int64_t k, each;       /* output channels, weights of one */
    float x_scale;
    enum infer_dtype dtype; /* I8 or F8E4M3 */
    /* The bias is I32 with a scale a channel beside I8, else F32 without. */
    struct constant *q, *scale, *q_bias, *bias_scale;
};

static float *floats(struct constant *c)
{
    return (float *)(void *)c->data;
}

/* Quantises the weights of channel k; returns what their errors add to a mean
 * output. */
static double quantize_channel(const struct weights *w, int64_t k, double scale,
                               double *noise, double *signal)
{
    const bool is_conv = w->node->op == GRAPH_CONV;
    const int64_t groups = is_conv ? w->node->attr.conv.conv.groups : 1;
    const int64_t c = w->w->dim[1], window = w->each / (c > 0 ? c : 1);
    const int64_t first = k / (w->k / groups) * c;
    const float *from = floats(w->w) + k * w->each;
    double shift = 0;

    for (int64_t i = 0; i < w->each; i++) {
        const double v = (double)from[i];
        double n = v / scale;

        if (w->dtype == INFER_I8)
            n = fmin(fmax(nearbyint(n), -127), 127);
        scalar_store(w->dtype, w->q->data, k * w->each + i, n);
        n = scalar_load(w->dtype, w->q->data, k * w->each + i);
        *noise += (v - n * scale) * (v - n * scale);
        *signal += v * v;
        shift +=
            (v - n * scale) * range_mean(w->x, first + i / window, c * groups);
    }
    return shift;
}

static double largest(const float *v, int64_t n)
{
    double top = 0;

    for (int64_t i = 0; i < n; i++)
        top = fmax(top, fabs((double)v[i]));
    return top;
}

static void set_bias(const struct weights *w, int64_t k, double b)
{
    if (w->bias_scale) {
        floats(w->bias_scale)[k] = w->x_scale * floats(w->scale)[k];
        b /= (double)floats(w->bias_scale)[k];
        b = fmin(fmax(nearbyint(b), -MAX_BIAS), MAX_BIAS);
    }
    scalar_store(w->q_bias->dtype, w->q_bias->data, k, b);
}

/* Sets the 8 bits and scales of all channels; returns the weights' ratio of
 * signal to noise in dB. */
static double quantize_weights(const struct weights *w, bool correct)
{
    double noise = 0, signal = 0;

    for (int64_t k = 0; k < w->k; k++) {
        const double b = w->bias ? (double)floats(w->bias)[k] : 0;
        double s =
            largest(floats(w->w) + k * w->each, w->each) / range_top(w->dtype);
        double shift;

        /* Large enough for the bias in its units, too. */
        if (w->bias_scale)
            s = fmax(s, fabs(b) * 1.5 / ((double)w->x_scale * MAX_BIAS));

        if (!(s > 1e-30))
            s = 1;
        floats(w->scale)[k] = (float)s;
        s = (double)floats(w->scale)[k];
        shift = quantize_channel(w, k, s, &noise, &signal);
        set_bias(w, k, b + (correct ? shift : 0));
    }
    return noise > 0 ? 10 * log10(signal / noise) : INFINITY;
}

static int open_weights(const struct rewrite *r, const struct graph_node *n,
                        int t, struct weights *w)
{
    const int bias = n->n_in > 2 ? n->in[2] : -1;
    const bool is_integer = r->q->options.dtype == INFER_I8;

    *w = (struct weights){.node = n,
                          .x = &r->q->range[t],
                          .x_scale = r->scale[t],
                          .dtype = r->q->options.dtype};
    w->w = constant_convert(r->g->value[n->in[1]].data, INFER_F32);
    if (w->w && bias >= 0)
        w->bias = constant_convert(r->g->value[bias].data, INFER_F32);
    if (w->w && w->w->rank > 0) {
        w->k = w->w->dim[0];
        w->each = w->k > 0 ? constant_count(w->w) / w->k : 0;
        w->q = constant_new(w->dtype, w->w->rank, w->w->dim);
        w->scale = constant_new(INFER_F32, 1, &w->k);
        w->q_bias = constant_new(is_integer ? INFER_I32 : INFER_F32, 1, &w->k);
        if (is_integer)
            w->bias_scale = constant_new(INFER_F32, 1, &w->k);
    }
    if (!w->w || (bias >= 0 && !w->bias) || !w->q || !w->scale || !w->q_bias ||
        (is_integer && !w->bias_scale))
        return error_set(r->err, INFER_EMEMORY, "out of memory");
    return INFER_OK;
}

static void close_weights(struct weights *w)
{
    constant_unref(w->w);
    constant_unref(w->bias);
    constant_unref(w->q);
    constant_unref(w->scale);
    constant_unref(w->q_bias);
    constant_unref(w->bias_scale);
}

/* A constant and the node that dequantises it; takes over q and scale. */
static int add_dequantized(const struct rewrite *r, const char *name,
                           struct constant **q, struct constant **scale)
{
    struct constant *c = *q, *s = *scale;
    int value, by;

    *q = *scale = NULL;
    value = add_constant(r, name, ending_of(r), c);
    if (value < 0) {
        constant_unref(s);
        return value;
    }
    by = add_constant(r, name, "scale", s);
    return by < 0 ? by
                  : add_node(r, GRAPH_DEQUANTIZE, name, "float", value, by, 0,
                             INFER_NONE);
}

/* The layer reads weights and bias through nodes dequantize.  An absent bias is
 * added where it is not all zeros. */
static int put_weights(const struct rewrite *r, int node, struct weights *w)
{
    const struct graph_node *n = &r->g->node[node];
    const bool had_bias = w->bias != NULL;
    char name[480];
    bool needed = had_bias;
    int weight, bias = -1;
    int *in;

    snprintf(name, sizeof name, "%s",
             r->g->value[had_bias ? n->in[2] : n->in[1]].name);
    weight = add_dequantized(r, r->g->value[n->in[1]].name, &w->q, &w->scale);
    for (int64_t k = 0; k < w->k; k++)
        needed |= scalar_load(w->q_bias->dtype, w->q_bias->data, k) != 0;
    if (weight < 0)
        return weight;
    if (needed && w->bias_scale) {
        bias = add_dequantized(r, name, &w->q_bias, &w->bias_scale);
    } else if (needed) {
        bias = add_constant(r, name, "corrected", w->q_bias);
        w->q_bias = NULL; /* taken over */
    }
    if (needed && bias < 0)
        return bias;
    n = &r->g->node[node]; /* may have moved */
    if (n->n_in < 3 && needed) {
        in = realloc(n->in, 3 * sizeof *in);
        if (!in)
            return error_set(r->err, INFER_EMEMORY, "out of memory");
        r->g->node[node].in = in;
        r->g->node[node].n_in = 3;
    }
    r->g->node[node].in[1] = weight;
    if (needed)
        r->g->node[node].in[2] = bias;
    return INFER_OK;
}

static int quantize_layer(const struct rewrite *r, int i)
{
    struct quantizer *q = r->q;
    struct quantize_layer *l = &q->layer[i];
    const int t = q->tensor_of[l->x];
    struct weights w;
    int rc = open_weights(r, &r->g->node[q->node[i]], t, &w);

    if (rc == INFER_OK) {
        l->weight_sqnr = quantize_weights(&w, q->options.bias_correction);
        rc = put_weights(r, q->node[i], &w);
    }
    close_weights(&w);
    return rc;
}

/* ---- all ----------------------------------------------------------- */

/* Reports the ranges; layers without one stay in floats.  Returns how many are
 * quantised. */
static int judge_layers(const struct rewrite *r)
{
    struct quantizer *q = r->q;
    int n = 0;

    for (int i = 0; i < q->n_layers; i++) {
        struct quantize_layer *l = &q->layer[i];
        const int t = q->tensor_of[l->x];

        if (l->why || t < 0)
            continue;
        l->low = group_range(r, t)->low;
        l->high = group_range(r, t)->high;
        l->dtype = r->dtype[t];
        l->limit = (double)r->scale[t] * range_top(l->dtype);
        if (r->scale[t] == 0) {
            l->why = "its input is 0 in every sample";
            q->fixed[i] = true;
        }
        n += l->why == NULL;
    }
    return n;
}

static int rewrite(const struct rewrite *r)
{
    struct quantizer *q = r->q;
    const int nodes_before = r->g->n_nodes;
    int rc = INFER_OK;

    rc = choose_types(r);
    if (rc < 0)
        return rc;
    if (judge_layers(r) == 0)
        return error_set(r->err, INFER_EUNSUPPORTED,
                         "no layer can be quantised%s%s",
                         q->n_layers > 0 ? ": the first is " : "",
                         q->n_layers > 0 ? q->layer[0].why : "");
    quantizer_mark_wanted(q, r->wanted);
    for (int i = 0; rc == INFER_OK && i < q->n_layers; i++)
        if (!q->layer[i].why)
            rc = quantize_layer(r, i);
    for (int t = 0; rc == INFER_OK && t < q->n_tensors; t++)
        if (r->wanted[t] && r->scale[t] > 0)
            rc = wrap_tensor(r, t);
    if (rc < 0)
        return rc;
    redirect(r, nodes_before);
    rc = graph_remove_dead(r->g);
    if (rc >= 0)
        rc = graph_compact(r->g, r->err);
    if (rc >= 0)
        rc = graph_validate(r->g, r->err);
    return rc < 0 ? rc : graph_infer_shapes(r->g, NULL, r->err);
}

int quantizer_apply(struct quantizer *q, struct graph *g,
                    struct infer_error *err)
{
    const size_t n = (size_t)q->n_tensors + 1;
    struct rewrite r = {.q = q,
                        .g = g,
                        .scale = calloc(n, sizeof(float)),
                        .dtype = calloc(n, sizeof(enum infer_dtype)),
                        .wanted = calloc(n, sizeof(bool)),
                        .dequantized = calloc(n, sizeof(int)),
                        .err = err};
    int rc;

    for (size_t t = 0; r.dequantized && t < n; t++)
        r.dequantized[t] = -1;
    rc = r.scale && r.dtype && r.wanted && r.dequantized
             ? rewrite(&r)
             : error_set(err, INFER_EMEMORY, "out of memory");
    free(r.scale);
    free(r.dtype);
    free(r.wanted);
    free(r.dequantized);
    return rc;
}
