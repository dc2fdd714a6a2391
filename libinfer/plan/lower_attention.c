/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as one step: a product of queries and keys, its scale, up to two
 * biases, a softmax over the keys, the product with the values, and an
 * activation behind that, if no other node reads a value between them.
 *
 * The chain is found before the nodes are lowered: from its softmax upwards to
 * the first product, and downwards to the second.  Its other nodes are removed
 * from the plan's graph; the second product then reads what the chain has read
 * (enum below) and becomes the step.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/matmul.h"
#include "libinfer/plan/lower.h"

/* Inputs of the node: as those of the first product, the second product's other
 * factor, then the biases. */
enum { QUERIES, KEYS, VALUES, BIASES, INPUTS = BIASES + 2 };

/* Nodes between the first product and the softmax. */
#define MOST_NODES 8
/* Moves between the second product and an activation. */
#define MOST_MOVES 4

/* What a chain's remaining node needs besides its inputs. */
struct plan_attention {
    int node;
    bool transpose_q, transpose_k; /* as kern_matmul states of its factors */
    float scale;
    struct kern_unary act;
    /* The dimensions before queries and keys, of which the last are the
     * heads. */
    int rank;
    int64_t dim[INFER_MAX_RANK];
};

/* ---- finding ------------------------------------------------------- */

struct chain {
    const struct plan *plan;
    int *uses; /* one a value */
    int node[MOST_NODES + 3], n;
    int in[INPUTS], biases;
    struct plan_attention a;
};

static bool is_bare(const struct graph_node *n)
{
    const struct graph_op_info *info = graph_op_info(n->op);

    return n->epilogue.act.kind == KERN_IDENTITY &&
           (info->max_in < 0 || n->n_in <= info->max_in);
}

/* The node that makes a value for one reader alone, or NULL. */
static const struct graph_node *maker_of(const struct chain *c, int value,
                                         int *index)
{
    const struct graph *g = c->plan->g;

    *index = value < 0 ? -1 : g->value[value].producer;
    if (*index < 0 || c->uses[value] != 1 || g->node[*index].op == GRAPH_NONE)
        return NULL;
    return &g->node[*index];
}

/* A constant of one element. */
static bool read_scalar(const struct plan *plan, int value, float *out)
{
    struct constant *data = value < 0 ? NULL : plan->g->value[value].data;

    if (!data || constant_count(data) != 1 ||
        constant_in_memory(data, &plan->config->device->host, NULL, &data) < 0)
        return false;
    *out = (float)scalar_load(data->dtype, data->data, 0);
    constant_unref(data);
    return true;
}

/* Which input of a product or quotient by a constant is the other factor, -1
 * where the node is none.  Multiplies *scale. */
static int scaled_input(const struct plan *plan, const struct graph_node *n,
                        float *scale)
{
    float f;

    if (n->op != GRAPH_BINARY || !is_bare(n))
        return -1;
    if (n->attr.binary.kind == KERN_MUL && read_scalar(plan, n->in[0], &f)) {
        *scale *= f;
        return 1;
    }
    if (!read_scalar(plan, n->in[1], &f))
        return -1;
    if (n->attr.binary.kind == KERN_MUL)
        *scale *= f;
    else if (n->attr.binary.kind == KERN_DIV && f != 0)
        *scale /= f;
    else
        return -1;
    return 0;
}

static bool same_shape(const struct graph_value *a, const struct graph_value *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

/* The last `back` dimensions are equal. */
static bool same_tail(const struct graph_value *a, const struct graph_value *b,
                      int back)
{
    if (a->rank < back || b->rank < back)
        return false;
    return memcmp(a->dim + a->rank - back, b->dim + b->rank - back,
                  (size_t)back * sizeof a->dim[0]) == 0;
}

/* Keeps the shape of the scores that has the most dimensions. */
static void widen(struct chain *c, const struct graph_value *scores)
{
    if (scores->rank - 2 <= c->a.rank)
        return;
    c->a.rank = scores->rank - 2;
    memcpy(c->a.dim, scores->dim, sizeof c->a.dim);
}

/* Takes a bias of scores of a shape.  Beside scores of more dimensions it must
 * do without those that are split there. */
static bool add_bias(struct chain *c, int value,
                     const struct graph_value *scores)
{
    const struct graph_value *b = &c->plan->g->value[value];

    if (c->biases == 2 || b->rank > scores->rank)
        return false;
    if (scores->rank - 2 < c->a.rank)
        for (int i = 0; i < b->rank - 3; i++)
            if (b->dim[i] != 1)
                return false;
    c->in[BIASES + c->biases++] = value;
    return true;
}

static bool reshapes(enum graph_op op)
{
    return op == GRAPH_RESHAPE || op == GRAPH_SQUEEZE ||
           op == GRAPH_UNSQUEEZE || op == GRAPH_FLATTEN;
}

/* The value that a node between product and softmax makes scores of, or -1.
 * Counted from the softmax, biases come before a scale. */
static int step_up(struct chain *c, const struct graph_node *n, bool *scaled)
{
    const struct graph *g = c->plan->g;
    const struct graph_value *out = &g->value[n->out[0]];
    int input;

    if (reshapes(n->op)) {
        const struct graph_value *in = &g->value[n->in[0]];

        widen(c, in->rank > out->rank ? in : out);
        return same_tail(in, out, 3) && c->biases == 0          ? n->in[0]
               : same_tail(in, out, 3) && in->rank <= out->rank ? n->in[0]
                                                                : -1;
    }
    input = scaled_input(c->plan, n, &c->a.scale);
    if (input >= 0) {
        *scaled = true;
        return n->in[input];
    }
    if (n->op != GRAPH_BINARY || n->attr.binary.kind != KERN_ADD ||
        !is_bare(n) || *scaled)
        return -1;
    /* The scores are the one that was made for this node. */
    for (input = 0; input < 2; input++) {
        int index;

        if (same_shape(&g->value[n->in[input]], out) &&
            maker_of(c, n->in[input], &index))
            break;
    }
    if (input == 2)
        return -1;
    widen(c, out);
    return add_bias(c, n->in[1 - input], out) ? n->in[input] : -1;
}

/* A factor without a scale before it. */
static int unscaled(struct chain *c, int value)
{
    int index;
    const struct graph_node *n = maker_of(c, value, &index);
    const int input = n ? scaled_input(c->plan, n, &c->a.scale) : -1;

    if (input < 0)
        return value;
    c->node[c->n++] = index;
    return n->in[input];
}

/* All but the last two dimensions are those of the output: nothing
 * broadcasts. */
static bool is_batched(const struct graph *g, const struct graph_node *n)
{
    const struct graph_value *y = &g->value[n->out[0]];

    for (int i = 0; i < 2; i++) {
        const struct graph_value *x = &g->value[n->in[i]];

        if (x->rank != y->rank || y->rank < 2 ||
            memcmp(x->dim, y->dim, (size_t)(y->rank - 2) * sizeof x->dim[0]) !=
                0)
            return false;
    }
    return true;
}

/* From the softmax up to the first product. */
static bool find_scores(struct chain *c, const struct graph_node *softmax)
{
    const struct graph *g = c->plan->g;
    int value = softmax->in[0], index;
    bool scaled = false;

    widen(c, &g->value[value]);
    for (int i = 0; i <= MOST_NODES - 2; i++) {
        const struct graph_node *n = maker_of(c, value, &index);

        if (!n)
            return false;
        c->node[c->n++] = index;
        if (n->op == GRAPH_MATMUL) {
            if (!is_batched(g, n))
                return false;
            c->a.scale *= n->attr.matmul.alpha;
            c->a.transpose_q = n->attr.matmul.transpose_a;
            c->a.transpose_k = n->attr.matmul.transpose_b;
            c->in[QUERIES] = unscaled(c, n->in[0]);
            c->in[KEYS] = unscaled(c, n->in[1]);
            return true;
        }
        value = step_up(c, n, &scaled);
        if (value < 0)
            return false;
    }
    return false;
}

/* The only reader of a value, or -1. */
static int reader_of(const struct chain *c, int from, int value)
{
    const struct graph *g = c->plan->g;

    if (c->uses[value] != 1 || graph_is_output(g, value))
        return -1;
    for (int i = from + 1; i < g->n_nodes; i++)
        for (int k = 0; g->node[i].op != GRAPH_NONE && k < g->node[i].n_in; k++)
            if (g->node[i].in[k] == value)
                return k == 0 ? i : -1;
    return -1;
}

/* A row of the first tier computes the problem, wherever its tensors lie. */
static bool has_row(const struct chain *c)
{
    const struct plan *plan = c->plan;
    const struct graph_value *q = &plan->g->value[c->in[QUERIES]];
    const struct graph_value *v = &plan->g->value[c->in[VALUES]];
    const enum infer_dtype type = plan_dtype(plan, v->dtype);
    const int64_t depth = q->dim[q->rank - (c->a.transpose_q ? 2 : 1)];
    const int64_t rows = q->dim[q->rank - (c->a.transpose_q ? 1 : 2)];
    const int64_t keys = v->dim[v->rank - 2];
    const int64_t width = v->dim[v->rank - 1];
    const int64_t dim[3][3] = {
        {rows, 1, depth}, {keys, 1, depth}, {keys, 1, width}};
    const int64_t y[3] = {rows, 1, width};
    struct kern_problem p;
    struct row_query query = plan_ask(plan, &p);

    memset(&p, 0, sizeof p);
    p.op = KERN_ATTENTION;
    p.n_in = 3;
    p.n_out = 1;
    p.deterministic = plan->config->deterministic;
    for (int i = 0; i < 3; i++)
        p.in[i] = kern_tensor_dense(type, 3, dim[i], KERN_NCHW);
    p.out[0] = kern_tensor_dense(type, 3, y, KERN_NCHW);
    return row_best(&query, plan->config->tiers.tier[0], NULL, NULL) != NULL;
}

/* The chain of a softmax; false where there is none. */
static bool find_chain(struct chain *c, int index)
{
    const struct graph *g = c->plan->g;
    const struct graph_node *softmax = &g->node[index], *product;
    const struct graph_value *scores = &g->value[softmax->in[0]];
    const int axis = softmax->attr.axis.axis;

    c->n = c->biases = 0;
    memset(&c->a, 0, sizeof c->a);
    c->a.scale = 1;
    c->a.rank = -1;
    for (int i = 0; i < INPUTS; i++)
        c->in[i] = -1;
    if (softmax->attr.axis.log || !is_bare(softmax) || scores->rank < 2 ||
        (axis != -1 && axis != scores->rank - 1))
        return false;
    c->a.node = reader_of(c, index, softmax->out[0]);
    product = c->a.node < 0 ? NULL : &g->node[c->a.node];
    if (!product || product->op != GRAPH_MATMUL || !is_bare(product) ||
        product->attr.matmul.transpose_a || product->attr.matmul.transpose_b ||
        product->attr.matmul.alpha != 1 || !is_batched(g, product))
        return false;
    c->node[c->n++] = index;
    c->in[VALUES] = product->in[1];
    return find_scores(c, softmax) && has_row(c);
}

/* ---- taking the chain out ------------------------------------------ */

/* Takes an activation behind the product, which only moves may part from it. */
static void take_activation(struct chain *c)
{
    struct graph *g = c->plan->g;
    int value = g->node[c->a.node].out[0], from = c->a.node;

    for (int i = 0; i <= MOST_MOVES; i++) {
        const int next = reader_of(c, from, value);
        const struct graph_node *n = next < 0 ? NULL : &g->node[next];

        if (n && n->op == GRAPH_UNARY && is_bare(n) &&
            !graph_is_output(g, n->out[0])) {
            c->a.act = n->attr.unary;
            c->uses[n->in[0]] = c->uses[n->out[0]];
            graph_replace_value(g, n->out[0], n->in[0]);
            graph_remove_node(g, next);
            return;
        }
        if (!n || (n->op != GRAPH_TRANSPOSE && !reshapes(n->op)))
            return;
        value = n->out[0];
        from = next;
    }
}

static int replace(struct plan *plan, struct chain *c, struct infer_error *err)
{
    struct graph_node *product = &plan->g->node[c->a.node];
    const int n = BIASES + c->biases;
    int *in = realloc(product->in, INPUTS * sizeof *in);
    struct plan_attention *list = realloc(
        plan->attention, ((size_t)plan->n_attention + 1) * sizeof *list);

    if (in)
        product->in = in;
    if (list)
        plan->attention = list;
    if (!in || !list)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    memcpy(in, c->in, (size_t)n * sizeof *in);
    product->n_in = n;
    take_activation(c);
    for (int i = 0; i < c->n; i++)
        graph_remove_node(plan->g, c->node[i]);
    list[plan->n_attention++] = c->a;
    return 0;
}

int plan_find_attention(struct plan *plan, struct infer_error *err)
{
    struct graph *g = plan->g;
    struct chain c = {.plan = plan};
    int rc = 0;

    if (plan->config->keep_tensors || plan->config->products ||
        plan->config->spelled_out)
        return 0;
    c.uses = graph_count_all_uses(g);
    if (!c.uses)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    for (int i = 0; i < g->n_nodes && rc == 0; i++)
        if (g->node[i].op == GRAPH_SOFTMAX && find_chain(&c, i))
            rc = replace(plan, &c, err);
    free(c.uses);
    return rc;
}

/* ---- the step ------------------------------------------------------ */

/* A factor ..., H, A, B as the operation reads it: the leading dimensions those
 * of the chain, then A, H, B, or B, H, A where transposed. */
static int turn(const struct lower *l, const struct plan_attention *a,
                const struct view *v, bool transposed, struct view *out)
{
    const int r = v->t.rank, rank = a->rank > 0 ? a->rank + 2 : 3;
    int64_t dim[INFER_MAX_RANK], order[INFER_MAX_RANK];
    struct view wide;
    int rc;

    dim[0] = 1; /* one head */
    memcpy(dim, a->dim, (size_t)a->rank * sizeof dim[0]);
    dim[rank - 2] = v->t.dim[r - 2];
    dim[rank - 1] = v->t.dim[r - 1];
    rc = lower_reshape(l, v, rank, dim, &wide);
    for (int i = 0; i < rank; i++)
        order[i] = i;
    order[rank - 3] = transposed ? rank - 1 : rank - 2;
    order[rank - 2] = rank - 3;
    order[rank - 1] = transposed ? rank - 2 : rank - 1;
    if (rc == 0)
        *out = view_permute(&wide, order);
    return rc;
}

/* A bias without leading dimensions of 1, which may stand for several. */
static struct view narrow(const struct view *v)
{
    struct view b = *v;

    while (b.t.rank > 3 && b.t.dim[0] == 1)
        b = view_drop(&b, 0);
    return b;
}

static int emit(const struct lower *l, const struct plan_attention *a)
{
    const struct graph_value *y = lower_out(l, 0);
    const int rank = a->rank > 0 ? a->rank + 2 : 3;
    struct plan_emit e;
    struct view out;
    int64_t order[INFER_MAX_RANK];
    int rc;

    memset(&e, 0, sizeof e);
    e.class = PLAN_ROWS;
    e.value = e.residual = -1;
    e.p.op = KERN_ATTENTION;
    e.p.n_in = l->node->n_in;
    e.p.n_out = 1;
    e.p.attr.attention.scale = a->scale;
    e.p.epilogue.act = a->act;
    rc = turn(l, a, lower_in(l, QUERIES), a->transpose_q,
              &e.in[KERN_ATTENTION_Q]);
    if (rc == 0)
        rc = turn(l, a, lower_in(l, KEYS), !a->transpose_k,
                  &e.in[KERN_ATTENTION_K]);
    if (rc == 0)
        rc = turn(l, a, lower_in(l, VALUES), false, &e.in[KERN_ATTENTION_V]);
    if (rc < 0)
        return rc;
    for (int i = BIASES; i < l->node->n_in; i++) {
        const struct view b = narrow(lower_in(l, i));

        e.in[KERN_ATTENTION_BIAS + i - BIASES] = b;
    }
    e.p.out[0] = e.in[KERN_ATTENTION_Q].t;
    e.p.out[0].dtype = plan_dtype(l->plan, y->dtype);
    e.p.out[0].dim[rank - 1] = e.in[KERN_ATTENTION_V].t.dim[rank - 1];
    rc = plan_emit(l->plan, l->index, &e, l->err, &out);
    if (rc < 0)
        return rc;
    for (int i = 0; i < rank; i++)
        order[i] = i;
    order[rank - 3] = rank - 2;
    order[rank - 2] = rank - 3;
    out = view_permute(&out, order);
    rc = lower_reshape(l, &out, y->rank, y->dim, &out);
    return rc < 0 ? rc : lower_set(l, 0, &out);
}

int lower_product(const struct lower *l)
{
    for (int i = 0; i < l->plan->n_attention; i++)
        if (l->plan->attention[i].node == l->index)
            return emit(l, &l->plan->attention[i]);
    return lower_layer(l);
}
