/* SPDX-License-Identifier: Apache-2.0 */
/* Scales and shifts a channel, folded into the weights and the bias of the
 * linear layers: conv, conv_transpose and dense.  All products are formed in
 * double and rounded once to the type of the weights. */
#include "weights/passes/pass.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/scalar.h"

/* Weights as a matrix of rows that share one output channel and blocks that
 * share one input channel; see the two walkers below. */
struct linear {
    struct constant *w;
    int64_t groups;
    int64_t out_channels; /* K */
    int64_t in_channels;  /* C */
    int64_t window;       /* elements of one filter plane */
    bool transposed;      /* weights are C,K/groups,window */
};

static bool describe(const struct pass *p, int node, struct linear *out)
{
    const struct graph_node *n = &p->g->node[node];
    struct constant *w;
    bool conv = n->op == GRAPH_CONV || n->op == GRAPH_CONV_TRANSPOSE;

    if (!conv && n->op != GRAPH_DENSE)
        return false;
    w = pass_constant(p, n, 1);
    if (!w || !scalar_is_float(w->dtype) || w->rank < 2 ||
        constant_count(w) == 0)
        return false;
    if (pass_input(n, 2) >= 0 && !pass_constant(p, n, 2))
        return false;
    out->w = w;
    out->groups = conv ? n->attr.conv.conv.groups : 1;
    out->transposed = n->op == GRAPH_CONV_TRANSPOSE;
    if (out->groups < 1)
        return false;
    out->out_channels = out->transposed ? w->dim[1] * out->groups : w->dim[0];
    out->in_channels = out->transposed ? w->dim[0] : w->dim[1] * out->groups;
    out->window = 1;
    for (int i = 2; i < w->rank; i++)
        out->window *= w->dim[i];
    return out->out_channels % out->groups == 0 &&
           out->in_channels % out->groups == 0;
}

/* The weights lie as dim[0] x dim[1] planes of `window` elements.  Gives the
 * output and input channel of plane (i, j). */
static void plane_channels(const struct linear *l, int64_t i, int64_t j,
                           int64_t *k, int64_t *c)
{
    int64_t out_group = l->out_channels / l->groups;
    int64_t in_group = l->in_channels / l->groups;

    if (l->transposed) {
        *c = i;
        *k = i / in_group * out_group + j;
    } else {
        *k = i;
        *c = i / out_group * in_group + j;
    }
}

/* True if every weight times the scale of its channel stays in range.  Only
 * fp16 is scanned in full: F32 overflows only for weights or scales that no
 * trained network holds, and those are found by the scale alone. */
static bool products_fit(const struct linear *l, const double *factor,
                         bool by_input)
{
    int64_t e = 0;

    if (l->w->dtype != INFER_F16) {
        int64_t n = by_input ? l->in_channels : l->out_channels;

        for (int64_t i = 0; i < n; i++)
            if (fabs(factor[i]) > 1e18)
                return false;
        return true;
    }
    for (int64_t i = 0; i < l->w->dim[0]; i++) {
        for (int64_t j = 0; j < l->w->dim[1]; j++) {
            int64_t k, c;

            plane_channels(l, i, j, &k, &c);
            for (int64_t r = 0; r < l->window; r++, e++) {
                double x = scalar_load(INFER_F16, l->w->data, e) *
                           factor[by_input ? c : k];

                if (!pass_fits(INFER_F16, 1, &x))
                    return false;
            }
        }
    }
    return true;
}

static void multiply_plane(struct constant *w, int64_t first, int64_t n,
                           double factor)
{
    if (w->dtype == INFER_F32) {
        float *x = (float *)(void *)w->data + first;

        for (int64_t i = 0; i < n; i++)
            x[i] = (float)(x[i] * factor);
        return;
    }
    for (int64_t i = first; i < first + n; i++)
        scalar_store(w->dtype, w->data, i,
                     scalar_load(w->dtype, w->data, i) * factor);
}

static void multiply_weights(const struct linear *l, const double *factor,
                             bool by_input)
{
    int64_t first = 0;

    /* Most often the planes of an output channel lie together. */
    if (!by_input && !l->transposed) {
        int64_t row = l->w->dim[1] * l->window;

        for (int64_t k = 0; k < l->out_channels; k++)
            multiply_plane(l->w, k * row, row, factor[k]);
        return;
    }

    for (int64_t i = 0; i < l->w->dim[0]; i++) {
        for (int64_t j = 0; j < l->w->dim[1]; j++, first += l->window) {
            int64_t k, c;

            plane_channels(l, i, j, &k, &c);
            multiply_plane(l->w, first, l->window, factor[by_input ? c : k]);
        }
    }
}

/* The bias of a node as doubles, zeros where it has none. */
static double *load_bias(struct pass *p, int node, int64_t n)
{
    const struct constant *b = pass_constant(p, &p->g->node[node], 2);
    double *bias = calloc((size_t)n, sizeof(*bias));

    if (!bias) {
        pass_no_memory(p);
        return NULL;
    }
    if (b && constant_count(b) == n)
        for (int64_t k = 0; k < n; k++)
            bias[k] = scalar_load(b->dtype, b->data, k);
    return bias;
}

/* Gives the node this bias: edited in place where it has one. */
static int store_bias(struct pass *p, int node, enum infer_dtype dtype,
                      int64_t n, const double *bias)
{
    const struct graph_node *nd = &p->g->node[node];
    int value;

    if (pass_input(nd, 2) >= 0) {
        struct constant *b = pass_edit_constant(p, node, 2);

        if (!b)
            return INFER_EMEMORY;
        for (int64_t k = 0; k < n; k++)
            scalar_store(b->dtype, b->data, k, bias[k]);
        return 0;
    }
    value = pass_add_vector(p, nd->name, ".bias", dtype, n, bias);
    return value < 0 ? value : pass_set_input(p, node, 2, value);
}

static bool bias_fits(const struct pass *p, int node, int64_t n)
{
    const struct constant *b = pass_constant(p, &p->g->node[node], 2);

    return !b || constant_count(b) == n;
}

int64_t pass_output_channels(const struct pass *p, int node, int *axis)
{
    const struct graph_node *n = &p->g->node[node];
    struct linear l;

    if (!describe(p, node, &l))
        return -1;
    *axis = 1;
    if (n->op == GRAPH_DENSE)
        *axis = p->g->value[n->out[0]].rank - 1;
    return *axis < 1 ? -1 : l.out_channels;
}

int pass_scale_outputs(struct pass *p, int node, int64_t n, const double *scale,
                       const double *shift)
{
    struct linear l;
    double *bias;
    int rc = 0;

    if (!pass_plain(&p->g->node[node]) || !describe(p, node, &l) ||
        l.out_channels != n || !bias_fits(p, node, n) ||
        !pass_fits(INFER_F64, n, scale) || !pass_fits(INFER_F64, n, shift) ||
        (scale && !products_fit(&l, scale, false)))
        return 0;
    bias = load_bias(p, node, n);
    if (!bias)
        return INFER_EMEMORY;
    for (int64_t k = 0; k < n; k++)
        bias[k] = bias[k] * (scale ? scale[k] : 1) + (shift ? shift[k] : 0);
    if (!pass_fits(l.w->dtype, n, bias)) {
        free(bias);
        return 0;
    }
    if (scale) {
        l.w = pass_edit_constant(p, node, 1);
        if (l.w)
            multiply_weights(&l, scale, false);
        else
            rc = INFER_EMEMORY;
    }
    if (rc == 0 && (shift || pass_input(&p->g->node[node], 2) >= 0))
        rc = store_bias(p, node, l.w->dtype, n, bias);
    free(bias);
    return rc < 0 ? rc : 1;
}

/* True where the window never sees padding. */
static bool unpadded(const struct graph_node *n)
{
    const struct graph_conv *conv = &n->attr.conv;

    if (conv->auto_pad == GRAPH_PAD_VALID)
        return true;
    if (conv->auto_pad != GRAPH_PAD_EXPLICIT)
        return false;
    for (int i = 0; i < KERN_MAX_SPATIAL; i++)
        if (conv->conv.pad_begin[i] != 0 || conv->conv.pad_end[i] != 0)
            return false;
    return true;
}

static bool all_zero(const double *x, int64_t n)
{
    for (int64_t i = 0; x && i < n; i++)
        if (x[i] != 0)
            return false;
    return true;
}

/* bias[k] += sum over c and the window of w[k,c,r] * shift[c]. */
static void add_shift_products(const struct linear *l, const double *shift,
                               double *bias)
{
    int64_t e = 0;

    for (int64_t i = 0; i < l->w->dim[0]; i++) {
        for (int64_t j = 0; j < l->w->dim[1]; j++) {
            int64_t k, c;
            double sum = 0;

            plane_channels(l, i, j, &k, &c);
            for (int64_t r = 0; r < l->window; r++, e++)
                sum += scalar_load(l->w->dtype, l->w->data, e);
            bias[k] += sum * shift[c];
        }
    }
}

int pass_scale_inputs(struct pass *p, int node, int64_t n, const double *scale,
                      const double *shift)
{
    const struct graph_node *nd = &p->g->node[node];
    bool shifted = !all_zero(shift, n);
    struct linear l;
    double *bias = NULL;
    int rc = 0;

    if (!describe(p, node, &l) || l.in_channels != n ||
        !bias_fits(p, node, l.out_channels) ||
        !pass_fits(INFER_F64, n, scale) || !pass_fits(INFER_F64, n, shift) ||
        (scale && !products_fit(&l, scale, true)))
        return 0;
    /* Padding is zero after the shift, not before it; and a transposed
     * convolution gives each border element fewer terms. */
    if (shifted && (l.transposed || (nd->op == GRAPH_CONV && !unpadded(nd))))
        return 0;
    if (shifted) {
        bias = load_bias(p, node, l.out_channels);
        if (!bias)
            return INFER_EMEMORY;
        add_shift_products(&l, shift, bias);
        if (!pass_fits(l.w->dtype, l.out_channels, bias)) {
            free(bias);
            return 0;
        }
        rc = store_bias(p, node, l.w->dtype, l.out_channels, bias);
        free(bias);
    }
    if (rc == 0 && scale) {
        l.w = pass_edit_constant(p, node, 1);
        if (l.w)
            multiply_weights(&l, scale, true);
        else
            rc = INFER_EMEMORY;
    }
    return rc < 0 ? rc : 1;
}
