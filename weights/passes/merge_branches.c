/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge-branches: convolutions of one tensor whose results are added become
 * one convolution, as RepVGG, MobileOne, FastViT and RepGhost are meant to run
 * after training:
 *
 *   conv 3x3 (x) + conv 1x1 (x)      one 3x3 window holds both
 *   conv 3x3 (x) + scale x + shift   the scale goes into the tap at the centre
 *
 * All taps of the smaller window must be taps of the larger one.
 */
#include "weights/passes/pass.h"

#include <stdlib.h>

#include "kernels/base/scalar.h"

/* A branch that is linear in x: a convolution, or a scale and a shift a
 * channel, which is a convolution of one tap and one channel a group. */
struct branch {
    int node, x;
    bool conv;
    int spatial; /* dimensions */
    int64_t channels, groups, window[KERN_MAX_SPATIAL];
    int stride[KERN_MAX_SPATIAL], dilation[KERN_MAX_SPATIAL];
    int begin[KERN_MAX_SPATIAL], end[KERN_MAX_SPATIAL];
};

static bool read_conv(const struct pass *p, const struct graph_node *n,
                      struct branch *b)
{
    const struct graph_conv *a = &n->attr.conv;
    const struct constant *w = pass_constant(p, n, 1);

    if (!w || w->dtype != INFER_F32 || w->rank < 3 ||
        w->rank - 2 > KERN_MAX_SPATIAL || constant_count(w) == 0 ||
        (a->auto_pad != GRAPH_PAD_EXPLICIT && a->auto_pad != GRAPH_PAD_VALID) ||
        (pass_input(n, 2) >= 0 && !pass_constant(p, n, 2)))
        return false;
    b->spatial = w->rank - 2;
    b->channels = w->dim[0];
    b->groups = a->conv.groups;
    for (int d = 0; d < b->spatial; d++) {
        const bool padded = a->auto_pad == GRAPH_PAD_EXPLICIT;

        b->window[d] = w->dim[2 + d];
        b->stride[d] = a->conv.stride[d];
        b->dilation[d] = a->conv.dilation[d];
        b->begin[d] = padded ? a->conv.pad_begin[d] : 0;
        b->end[d] = padded ? a->conv.pad_end[d] : 0;
    }
    return true;
}

static bool read_scale(const struct pass *p, const struct graph_node *n,
                       struct branch *b)
{
    const struct constant *scale = pass_constant(p, n, 1);
    const struct constant *shift = pass_constant(p, n, 2);
    const int rank = p->g->value[n->out[0]].rank;

    if (!scale || rank < 3 || rank - 2 > KERN_MAX_SPATIAL ||
        !scalar_is_float(scale->dtype) || (!shift && pass_input(n, 2) >= 0) ||
        (shift && constant_count(shift) != constant_count(scale)))
        return false;
    b->spatial = rank - 2;
    b->channels = b->groups = constant_count(scale);
    for (int d = 0; d < b->spatial; d++) {
        b->window[d] = b->stride[d] = b->dilation[d] = 1;
        b->begin[d] = b->end[d] = 0;
    }
    return true;
}

/* The branch that makes a value for `reader` alone. */
static bool read_branch(const struct pass *p, int value, int reader,
                        struct branch *b)
{
    const struct graph_node *n;

    b->node = value < 0 ? -1 : p->g->value[value].producer;
    if (b->node < 0 || pass_reader(p, value) != reader)
        return false;
    n = &p->g->node[b->node];
    if (!pass_plain(n))
        return false;
    b->x = n->in[0];
    b->conv = n->op == GRAPH_CONV;
    return b->conv ? read_conv(p, n, b)
                   : n->op == GRAPH_SCALE_SHIFT && read_scale(p, n, b);
}

/* Output positions that the pads and the window of a dimension cost. */
static int64_t loss(const struct branch *b, int d)
{
    return b->dilation[d] * (b->window[d] - 1) - b->begin[d] - b->end[d];
}

/* Whether each tap of `small` is one of `large`, at *first[d] + its index. */
static bool contains(const struct branch *large, const struct branch *small,
                     int64_t *first)
{
    if (!large->conv || large->x != small->x ||
        large->spatial != small->spatial || large->channels != small->channels)
        return false;
    for (int d = 0; d < large->spatial; d++) {
        const int64_t offset = large->begin[d] - small->begin[d];

        if (large->stride[d] != small->stride[d] ||
            loss(large, d) != loss(small, d) ||
            (small->window[d] > 1 &&
             large->dilation[d] != small->dilation[d]) ||
            offset < 0 || offset % large->dilation[d] != 0)
            return false;
        first[d] = offset / large->dilation[d];
        if (first[d] + small->window[d] > large->window[d])
            return false;
    }
    return true;
}

/* Adds the weights of `small` to those of `large`, whose rows are the products
 * of an output channel with an input channel of its group. */
static void add_weights(const struct constant *small, const struct branch *s,
                        const int64_t *first, struct constant *large,
                        const struct branch *l)
{
    const int64_t inputs = large->dim[1], rows = l->channels * inputs;
    const int64_t group = l->channels / l->groups;
    float *to = (float *)(void *)large->data;
    int64_t taps = 1, from_taps = 1;

    for (int d = 0; d < l->spatial; d++) {
        taps *= l->window[d];
        from_taps *= s->window[d];
    }
    for (int64_t row = 0; row < rows; row++) {
        const int64_t k = row / inputs, c = k / group * inputs + row % inputs;

        if (!s->conv && c != k)
            continue;
        for (int64_t t = 0; t < from_taps; t++) {
            int64_t rest = t, at = 0, step = 1;

            for (int d = l->spatial - 1; d >= 0; d--) {
                at += (first[d] + rest % s->window[d]) * step;
                step *= l->window[d];
                rest /= s->window[d];
            }
            at += row * taps;
            to[at] = (float)(to[at] +
                             scalar_load(small->dtype, small->data,
                                         s->conv ? row * from_taps + t : k));
        }
    }
}

static bool same_groups(const struct pass *p, const struct branch *large,
                        const struct branch *small)
{
    const int64_t inputs =
        pass_constant(p, &p->g->node[large->node], 1)->dim[1];

    return small->conv ? large->groups == small->groups
                       : inputs * large->groups == small->channels;
}

/* The bias or shift of the smaller branch, added to the larger one's. */
static int add_bias(struct pass *p, const struct branch *large,
                    const struct branch *small)
{
    const struct constant *c = pass_constant(p, &p->g->node[small->node], 2);
    double *shift;
    int rc;

    if (!c)
        return 1;
    if (constant_count(c) != small->channels)
        return 0;
    shift = malloc((size_t)small->channels * sizeof *shift);
    if (!shift)
        return pass_no_memory(p);
    for (int64_t k = 0; k < small->channels; k++)
        shift[k] = scalar_load(c->dtype, c->data, k);
    rc = pass_scale_outputs(p, large->node, small->channels, NULL, shift);
    free(shift);
    return rc;
}

static int merge(struct pass *p, int add, const struct branch *large,
                 const struct branch *small, const int64_t *first)
{
    struct graph *g = p->g;
    const struct constant *from = pass_constant(p, &g->node[small->node], 1);
    struct constant *to;
    int rc = add_bias(p, large, small);

    if (rc <= 0)
        return rc;
    to = pass_edit_constant(p, large->node, 1);
    if (!to)
        return INFER_EMEMORY;
    add_weights(from, small, first, to, large);
    pass_note(p, (int64_t)from->bytes, "%s into %s", g->node[small->node].name,
              g->node[large->node].name);
    pass_absorb(p, large->node, add);
    return 1;
}

int pass_merge_branches(struct pass *p, int node)
{
    const struct graph_node *n = &p->g->node[node];
    int64_t first[KERN_MAX_SPATIAL];
    struct branch a, b;

    if (!pass_binary(p, node, KERN_ADD) || n->in[0] == n->in[1] ||
        !read_branch(p, n->in[0], node, &a) ||
        !read_branch(p, n->in[1], node, &b))
        return 0;
    if (contains(&a, &b, first) && same_groups(p, &a, &b))
        return merge(p, node, &a, &b, first);
    if (contains(&b, &a, first) && same_groups(p, &b, &a))
        return merge(p, node, &b, &a, first);
    return 0;
}
