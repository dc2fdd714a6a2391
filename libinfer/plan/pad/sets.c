/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of values that are padded alike: what each node allows, and how many
 * channels a set gets. */
#include "libinfer/plan/pad/sets.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/error.h"
#include "kernels/unary.h"

/* Padding adds at most a third of the elements: 18 channels in 24 take 0.87 of
 * the time (3x3 of 56x56, batch 64, H100). */
#define MOST_GROWTH 0.334
/* Values of a set, a sum and its terms, that are padded for a wider sum. */
#define FEW 3

static int root_of(struct pad_sets *s, int v)
{
    while (s->parent[v] != v)
        v = s->parent[v] = s->parent[s->parent[v]];
    return v;
}

static void join(struct pad_sets *s, int a, int b)
{
    a = root_of(s, a);
    b = root_of(s, b);
    if (a == b)
        return;
    s->parent[b] = a;
    s->fixed[a] = s->fixed[a] || s->fixed[b];
    s->nonzero[a] = s->nonzero[a] || s->nonzero[b];
    s->members[a] += s->members[b];
}

static void fix(struct pad_sets *s, int v)
{
    if (v >= 0)
        s->fixed[root_of(s, v)] = true;
}

static void fix_node(struct pad_sets *s, const struct graph_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        fix(s, n->in[i]);
    for (int i = 0; i < n->n_out; i++)
        fix(s, n->out[i]);
}

static const struct graph_value *value_of(const struct pad_sets *s, int v)
{
    return &s->g->value[v];
}

int64_t pad_channels_before(const struct pad_sets *s, int v)
{
    return value_of(s, v)->rank < 2 ? 0 : value_of(s, v)->dim[1];
}

int pad_input(const struct graph_node *n, int i)
{
    return i >= 0 && i < n->n_in ? n->in[i] : -1;
}

/* ---- what nodes allow ---------------------------------------------- */

/* A constant that this node alone reads. */
static bool own_constant(const struct pad_sets *s, int v)
{
    return value_of(s, v)->data && s->uses[v] == 1;
}

/* Finite wherever its argument is, also in half precision of small values. */
static bool stays_finite(enum kern_unary_kind kind)
{
    switch ((int)kind) {
    case KERN_IDENTITY:
    case KERN_RELU:
    case KERN_LEAKY_RELU:
    case KERN_CLIP:
    case KERN_SIGMOID:
    case KERN_TANH:
    case KERN_SILU:
    case KERN_HARD_SIGMOID:
    case KERN_HARD_SWISH:
    case KERN_GELU:
    case KERN_GELU_TANH:
        return true;
    }
    return false;
}

/* Of those, whether 0 stays 0. */
static bool keeps_zero(const struct kern_unary *f)
{
    return f->kind == KERN_CLIP
               ? f->a <= 0 && f->b >= 0
               : f->kind != KERN_SIGMOID && f->kind != KERN_HARD_SIGMOID;
}

/* Notes what a function that ends a node makes of zeros. */
static bool take_function(struct pad_sets *s, const struct graph_node *n,
                          const struct kern_unary *f)
{
    if (!keeps_zero(f))
        s->nonzero[root_of(s, n->out[0])] = true;
    return stays_finite(f->kind);
}

static bool has_good_end(struct pad_sets *s, const struct graph_node *n)
{
    return take_function(s, n, &n->epilogue.act);
}

/* A vector of the channels, or absent. */
static bool own_vector(const struct pad_sets *s, int v, int64_t channels)
{
    return v < 0 || (own_constant(s, v) && value_of(s, v)->rank == 1 &&
                     value_of(s, v)->dim[0] == channels);
}

bool pad_is_depthwise(const struct pad_sets *s, const struct graph_node *n)
{
    const int64_t groups = n->attr.conv.conv.groups;

    return groups > 1 && groups == pad_channels_before(s, n->in[0]) &&
           groups == pad_channels_before(s, n->out[0]);
}

static void join_residual(struct pad_sets *s, const struct graph_node *n)
{
    const int residual = pad_input(n, graph_op_info(n->op)->max_in);

    if (residual >= 0)
        join(s, residual, n->out[0]);
}

static void visit_layer(struct pad_sets *s, const struct graph_node *n)
{
    const bool conv = n->op == GRAPH_CONV;

    if (!own_constant(s, n->in[1]) ||
        !own_vector(s, pad_input(n, 2), pad_channels_before(s, n->out[0])) ||
        !has_good_end(s, n) || (!conv && value_of(s, n->in[0])->rank != 2)) {
        fix_node(s, n);
        return;
    }
    if (conv && pad_is_depthwise(s, n))
        join(s, n->in[0], n->out[0]);
    else if (conv && n->attr.conv.conv.groups != 1)
        fix_node(s, n);
    join_residual(s, n);
}

int pad_channel_dim(const struct pad_sets *s, int v, int y)
{
    const int dim = 1 - (value_of(s, y)->rank - value_of(s, v)->rank);

    return dim >= 0 && value_of(s, v)->dim[dim] == pad_channels_before(s, y)
               ? dim
               : -1;
}

/* Joins a factor of y, whose channels are y's or are one. */
static bool visit_factor(struct pad_sets *s, int v, int y, bool product)
{
    const int dim = pad_channel_dim(s, v, y);

    if (dim < 0 && !product)
        s->nonzero[root_of(s, y)] = true;
    if (dim < 0)
        return value_of(s, v)->rank < value_of(s, y)->rank ||
               pad_channels_before(s, v) == 1;
    if (value_of(s, v)->data)
        return own_constant(s, v);
    if (dim != 1)
        return false;
    join(s, v, y);
    return true;
}

static void visit_binary(struct pad_sets *s, const struct graph_node *n)
{
    const enum kern_binary_kind kind = n->attr.binary.kind;
    bool good = has_good_end(s, n) &&
                (kind == KERN_ADD || kind == KERN_SUB || kind == KERN_MUL);

    for (int i = 0; i < n->n_in && good; i++)
        good = n->in[i] < 0 ||
               visit_factor(s, n->in[i], n->out[0], kind == KERN_MUL && i < 2);
    if (!good)
        fix_node(s, n);
}

/* Constants of one number a channel. */
static void visit_vectors(struct pad_sets *s, const struct graph_node *n)
{
    bool good = has_good_end(s, n);

    for (int i = 1; i < graph_op_info(n->op)->max_in; i++)
        good = good && own_vector(s, pad_input(n, i),
                                  pad_channels_before(s, n->out[0]));
    if (!good) {
        fix_node(s, n);
        return;
    }
    join(s, n->in[0], n->out[0]);
    join_residual(s, n);
}

/* Only dimensions after the channels are reduced, resized or padded. */
static bool keeps_channels(const struct pad_sets *s, const struct graph_node *n)
{
    const struct graph_value *x = value_of(s, n->in[0]);
    const struct graph_value *y = value_of(s, n->out[0]);

    if (n->op == GRAPH_REDUCE) {
        const struct graph_reduce *a = &n->attr.reduce;

        for (int i = 0; i < a->n_axes; i++)
            if ((a->axis[i] + x->rank) % x->rank < 2)
                return false;
        return a->n_axes > 0 && a->kind == KERN_REDUCE_MEAN;
    }
    return x->rank == y->rank && x->dim[0] == y->dim[0] &&
           x->dim[1] == y->dim[1];
}

/* Shapes alone change, between images of one pixel and rows. */
static bool is_vector(const struct graph_value *v)
{
    for (int i = 2; i < v->rank; i++)
        if (v->dim[i] != 1)
            return false;
    return v->rank >= 2;
}

static bool same_vector(const struct pad_sets *s, const struct graph_node *n)
{
    const struct graph_value *x = value_of(s, n->in[0]);
    const struct graph_value *y = value_of(s, n->out[0]);

    return n->n_in == 1 && is_vector(x) && is_vector(y) &&
           x->dim[0] == y->dim[0] && x->dim[1] == y->dim[1];
}

bool pad_appends_zeros(const struct graph_node *n)
{
    const struct kern_pad *a = &n->attr.pad;

    for (int i = 0; i < KERN_MAX_RANK; i++)
        if (a->begin[i] != 0 || (i == 1 ? a->end[i] < 0 : a->end[i] != 0))
            return false;
    return a->mode == KERN_PAD_CONSTANT && a->value == 0;
}

/* An axis counted from the front is that of the channels. */
static bool is_channels(int axis, const struct graph_value *v)
{
    return v->rank >= 2 && (axis + v->rank) % v->rank == 1;
}

/* Notes that channels of a value from `first` on are those of another. */
static int add_link(struct pad_sets *s, int whole, int part, int64_t first)
{
    void *list =
        array_reserve(s->link, s->n_links, &s->links_capacity, sizeof *s->link);

    if (!list)
        return INFER_EMEMORY;
    s->link = list;
    s->link[s->n_links++] = (struct pad_link){whole, part, first};
    return 0;
}

/* The parts of a concatenation or split, one after another. */
static int visit_parts(struct pad_sets *s, const struct graph_node *n,
                       int whole, const int *part, int parts, int axis)
{
    int64_t first = 0;
    int rc = 0;

    if (!is_channels(axis, value_of(s, whole))) {
        fix_node(s, n);
        return 0;
    }
    for (int i = 0; i < parts && rc == 0; i++) {
        rc = add_link(s, whole, part[i], first);
        first += pad_channels_before(s, part[i]);
    }
    return rc;
}

/* A slice of neighbouring channels, or of other dimensions. */
static int visit_slice(struct pad_sets *s, const struct graph_node *n)
{
    const struct graph_slice *a = &n->attr.slice;
    const struct graph_value *x = value_of(s, n->in[0]);
    const int64_t c = pad_channels_before(s, n->in[0]);
    int64_t first;

    for (int i = 0; i < a->n_axes; i++)
        if ((a->axis[i] + x->rank) % x->rank == 1) {
            first = a->begin[i] < 0 ? a->begin[i] + c : a->begin[i];
            if (a->n_axes == 1 && a->step[i] == 1 && first >= 0 && first < c)
                return add_link(s, n->in[0], n->out[0], first);
            fix_node(s, n);
            return 0;
        }
    join(s, n->in[0], n->out[0]);
    return 0;
}

static int visit(struct pad_sets *s, const struct graph_node *n)
{
    bool good = false;

    switch ((int)n->op) {
    case GRAPH_CONCAT:
        return visit_parts(s, n, n->out[0], n->in, n->n_in, n->attr.axis.axis);
    case GRAPH_SPLIT:
        return visit_parts(s, n, n->in[0], n->out, n->n_out,
                           n->attr.split.axis);
    case GRAPH_SLICE:
        return visit_slice(s, n);
    case GRAPH_CONV:
    case GRAPH_DENSE:
        visit_layer(s, n);
        return 0;
    case GRAPH_BINARY:
        visit_binary(s, n);
        return 0;
    case GRAPH_SCALE_SHIFT:
    case GRAPH_BATCH_NORM:
        visit_vectors(s, n);
        return 0;
    case GRAPH_POOL:
        good = has_good_end(s, n);
        break;
    case GRAPH_UNARY:
        good = take_function(s, n, &n->attr.unary);
        break;
    case GRAPH_REDUCE:
    case GRAPH_RESIZE:
        good = n->n_in == 1 && keeps_channels(s, n);
        break;
    case GRAPH_PAD: /* append() decides */
        if (!pad_appends_zeros(n))
            fix_node(s, n);
        return 0;
    case GRAPH_RESHAPE:
    case GRAPH_FLATTEN:
    case GRAPH_SQUEEZE:
    case GRAPH_UNSQUEEZE:
        good = same_vector(s, n);
        break;
    case GRAPH_DROPOUT:
        good = true;
        break;
    }
    if (good)
        join(s, n->in[0], n->out[0]);
    else
        fix_node(s, n);
    return 0;
}

/* ---- cuts ---------------------------------------------------------- */

/* Adds a cut to a set; *changed where it is new.  A set with too many is fixed.
 */
static int cut(struct pad_sets *s, int root, int64_t at, bool *changed)
{
    const int64_t c = pad_channels_before(s, root);
    struct pad_cuts *cuts = s->cuts[root];
    int i;

    if (!cuts) {
        cuts = s->cuts[root] = calloc(1, sizeof *cuts);
        if (!cuts)
            return INFER_EMEMORY;
        cuts->n = 2;
        cuts->at[1] = c;
    }
    for (i = 0; i < cuts->n && cuts->at[i] < at; i++)
        ;
    if (i == cuts->n || cuts->at[i] == at)
        return 0;
    if (cuts->n == PAD_MOST_CUTS) {
        *changed = *changed || !s->fixed[root];
        s->fixed[root] = true;
        return 0;
    }
    memmove(cuts->at + i + 1, cuts->at + i,
            (size_t)(cuts->n - i) * sizeof cuts->at[0]);
    cuts->at[i] = at;
    cuts->n++;
    *changed = true;
    return 0;
}

/* Cuts of one value become those of the other, and what stays stays. */
static int follow(struct pad_sets *s, const struct pad_link *l, bool *changed)
{
    const int whole = root_of(s, l->whole), part = root_of(s, l->part);
    const int64_t c = pad_channels_before(s, l->part);
    int rc = cut(s, whole, l->first, changed);

    if (rc == 0)
        rc = cut(s, whole, l->first + c, changed);
    for (int i = 0; rc == 0 && i < s->cuts[whole]->n; i++) {
        const int64_t at = s->cuts[whole]->at[i] - l->first;

        if (at > 0 && at < c)
            rc = cut(s, part, at, changed);
    }
    for (int i = 0; rc == 0 && s->cuts[part] && i < s->cuts[part]->n; i++)
        rc = cut(s, whole, l->first + s->cuts[part]->at[i], changed);
    if (s->fixed[whole] != s->fixed[part]) {
        s->fixed[whole] = s->fixed[part] = true;
        *changed = true;
    }
    return rc;
}

static int find_cuts(struct pad_sets *s)
{
    bool changed = s->n_links > 0;
    int rc = 0;

    while (changed && rc == 0) {
        changed = false;
        for (int i = 0; i < s->n_links && rc == 0; i++)
            rc = follow(s, &s->link[i], &changed);
    }
    return rc;
}

/* ---- growth -------------------------------------------------------- */

static int group_of(struct pad_sets *s, int v)
{
    while (s->group[v] != v)
        v = s->group[v] = s->group[s->group[v]];
    return v;
}

static bool is_half(const struct pad_sets *s, int v)
{
    const enum infer_dtype t = plan_dtype(s->plan, value_of(s, v)->dtype);

    return t == INFER_F16 || t == INFER_BF16;
}

/* The next multiple, for each piece. */
static int64_t rounded(const struct pad_sets *s, int root, int64_t channel)
{
    const struct pad_cuts *cuts = s->cuts[root];
    const int64_t c = pad_channels_before(s, root);
    int64_t sum = 0;
    int i;

    if (!cuts)
        return channel < c ? channel : (c + 7) / 8 * 8;
    for (i = 1; i < cuts->n && cuts->at[i] <= channel; i++)
        sum += (cuts->at[i] - cuts->at[i - 1] + 7) / 8 * 8;
    return sum + (channel - cuts->at[i - 1]);
}

/* Fixes connected sets that padding would make too large. */
static void limit_growth(struct pad_sets *s)
{
    const struct graph *g = s->g;

    for (int i = 0; i < s->n_links; i++)
        s->group[group_of(s, root_of(s, s->link[i].part))] =
            group_of(s, root_of(s, s->link[i].whole));
    for (int i = 0; i < g->n_values; i++) {
        const int64_t c = pad_channels_before(s, i);
        double pixels = 1;

        if (g->value[i].data || c == 0)
            continue;
        for (int k = 2; k < g->value[i].rank; k++)
            pixels *= (double)g->value[i].dim[k];
        s->grown[group_of(s, root_of(s, i))] +=
            pixels * ((double)rounded(s, root_of(s, i), c) -
                      (1 + MOST_GROWTH) * (double)c);
        if (!is_half(s, i))
            fix(s, i);
    }
    for (int i = 0; i < g->n_values; i++)
        if (s->parent[i] == i && s->grown[group_of(s, i)] > 0)
            s->fixed[i] = true;
}

int64_t pad_place(struct pad_sets *s, int v, int64_t channel)
{
    const int root = root_of(s, v);

    if (s->fixed[root])
        return channel;
    if (s->width[root] > 0 && channel == pad_channels_before(s, root))
        return s->width[root];
    return rounded(s, root, channel);
}

int64_t pad_piece_end(struct pad_sets *s, int v, int64_t channel)
{
    const int root = root_of(s, v);
    const struct pad_cuts *cuts = s->cuts[root];

    for (int i = 1; cuts && i < cuts->n; i++)
        if (cuts->at[i] > channel)
            return cuts->at[i];
    return pad_channels_before(s, v);
}

/* Gives the input of a node that appends zeros the channels of its output, if
 * at most twice its own and few other values have them. */
static void append(struct pad_sets *s, const struct graph_node *n)
{
    const int x = root_of(s, n->in[0]), y = root_of(s, n->out[0]);
    const int64_t c = pad_channels_before(s, x);
    const int64_t wide =
        pad_place(s, n->out[0], pad_channels_before(s, n->out[0]));

    if (s->cuts[x] || s->cuts[y])
        s->fixed[x] = s->fixed[y] = true;
    else if (s->fixed[y] || s->nonzero[x])
        s->fixed[x] = true;
    else if (s->members[x] <= FEW && wide <= 2 * c && !s->fixed[x])
        s->width[x] = wide;
}

/* ---- entry --------------------------------------------------------- */

static int allocate(struct pad_sets *s)
{
    const size_t n = (size_t)s->g->n_values + 1;

    s->uses = graph_count_all_uses(s->g);
    s->parent = calloc(n, sizeof *s->parent);
    s->fixed = calloc(n, sizeof *s->fixed);
    s->nonzero = calloc(n, sizeof *s->nonzero);
    s->members = calloc(n, sizeof *s->members);
    s->width = calloc(n, sizeof *s->width);
    s->group = calloc(n, sizeof *s->group);
    s->grown = calloc(n, sizeof *s->grown);
    s->cuts = calloc(n, sizeof *s->cuts);
    return s->uses && s->parent && s->fixed && s->nonzero && s->members &&
                   s->width && s->group && s->grown && s->cuts
               ? 0
               : INFER_EMEMORY;
}

static int find(struct pad_sets *s)
{
    const struct graph *g = s->g;
    int rc = allocate(s);

    for (int i = 0; rc == 0 && i < g->n_values; i++) {
        s->parent[i] = s->group[i] = i;
        s->members[i] = 1;
        s->fixed[i] = g->value[i].data || g->value[i].rank < 2;
    }
    for (int i = 0; rc == 0 && i < g->n_inputs; i++)
        fix(s, g->input[i]);
    for (int i = 0; rc == 0 && i < g->n_outputs; i++)
        fix(s, g->output[i]);
    for (int i = 0; rc == 0 && i < g->n_nodes; i++)
        if (g->node[i].op != GRAPH_NONE)
            rc = visit(s, &g->node[i]);
    if (rc == 0)
        rc = find_cuts(s);
    if (rc == 0)
        limit_growth(s);
    for (int i = g->n_nodes - 1; rc == 0 && i >= 0; i--)
        if (g->node[i].op == GRAPH_PAD && pad_appends_zeros(&g->node[i]))
            append(s, &g->node[i]);
    /* A set that append() fixed fixes those that it is connected with. */
    return rc == 0 ? find_cuts(s) : rc;
}

int pad_sets_find(struct plan *plan, struct infer_error *err,
                  struct pad_sets *out)
{
    int rc;

    memset(out, 0, sizeof *out);
    out->plan = plan;
    out->g = plan->g;
    rc = find(out);
    if (rc < 0) {
        pad_sets_clear(out);
        return error_set(err, rc, "plan: out of memory");
    }
    return 0;
}

void pad_sets_clear(struct pad_sets *s)
{
    for (int i = 0; s->cuts && i < s->g->n_values; i++)
        free(s->cuts[i]);
    free(s->uses);
    free(s->parent);
    free(s->fixed);
    free(s->nonzero);
    free(s->members);
    free(s->width);
    free(s->group);
    free(s->grown);
    free(s->cuts);
    free(s->link);
}
