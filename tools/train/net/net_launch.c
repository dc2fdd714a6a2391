/* SPDX-License-Identifier: Apache-2.0 */
/* From one problem on views to a launch: buffers, the choice of a row, steps of
 * copies and arithmetic. */
#include "tools/train/net/net.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"
#include "kernels/table/product_factors.h"

const char *const net_stage_names[] = {
    "fprop", "loss", "dgrad", "wgrad", "exchange", "update", "recompute", NULL};

/* ---- buffers ------------------------------------------------------- */

int net_buffer(struct net *n, enum net_memory memory, size_t bytes)
{
    const int rc =
        n->rc < 0 ? n->rc
                  : plan_add_buffer(&n->buffers, memory, bytes, net_err(n));

    net_check(n, rc);
    return rc < 0 ? 0 : rc;
}

struct view net_tensor(struct net *n, enum net_memory memory,
                       enum infer_dtype dtype, int rank, const int64_t *dim,
                       enum kern_layout layout)
{
    static const int64_t ones[KERN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct view v;
    size_t bytes;

    if (view_dense(0, dtype, rank, dim, layout, &bytes, &v) < 0) {
        net_fail(n, INFER_EMEMORY,
                 "a tensor of the network is beyond all memory");
        (void)view_dense(0, dtype, rank, ones, layout, &bytes, &v);
    }
    v.buffer = net_buffer(n, memory, bytes);
    return v;
}

struct view net_vector(struct net *n, enum net_memory memory,
                       enum infer_dtype dtype, int64_t count)
{
    return net_tensor(n, memory, dtype, 1, &count, KERN_NCHW);
}

struct view net_range(const struct net *n, enum net_memory memory,
                      enum infer_dtype dtype, int64_t from, int64_t to)
{
    const int64_t count = to - from;
    struct view v;

    memset(&v, 0, sizeof v);
    if (n->flat[memory] < 0)
        return v;
    v.buffer = n->flat[memory];
    v.offset = from;
    v.t = kern_tensor_dense(dtype, 1, &count, KERN_NCHW);
    return v;
}

struct view net_reshape(struct net *n, const struct graph_node *node,
                        const struct view *v, int rank, const int64_t *dim,
                        const char *otherwise)
{
    struct view out = *v;

    if (!view_reshape(v, rank, dim, &out))
        net_fail(n, INFER_EUNSUPPORTED, "node '%s': %s", node->name, otherwise);
    return out;
}

/* ---- choosing ------------------------------------------------------ */

/* Inputs that are parameters, which a step on a CPU may repack; one bit each.
 */
static uint32_t weight_inputs(const struct net *n, const struct net_launch *e)
{
    uint32_t bits = 0;

    if (!n->options.device->ops->host_memory ||
        (e->p.op != KERN_CONV_FPROP && e->p.op != KERN_DENSE_FPROP &&
         e->p.op != KERN_CONV_TRANSPOSE_FPROP))
        return 0;
    for (int i = 1; i < KERN_MAX_IN && i < 3; i++)
        if (e->in[i].t.dtype != INFER_NONE)
            bits |= 1u << i;
    return bits;
}

/* Rows that read weights unpacked come before rows of the same tier that read
 * them packed, which costs a pass over the weights every step. */
static const struct kern_row *choose(const struct net *n,
                                     const struct net_launch *e,
                                     struct kern_problem *p,
                                     struct infer_error *why)
{
    const struct row_query q = {
        .problem = p, .device = &n->options.device->kern, .aligned = true};
    const uint32_t weights = weight_inputs(n, e);
    const uint32_t *tier = n->tiers.tier;
    const struct kern_row *row;

    for (int i = 0; i < n->tiers.n; i++) {
        p->constant_in = 0;
        row = row_best(&q, tier[i], why, NULL);
        if (!row && weights && tier[i] != ROW_TIER(INFER_BACKEND_REF)) {
            p->constant_in = weights;
            row = row_best(&q, tier[i], why, NULL);
        }
        if (row)
            return row;
    }
    return NULL;
}

/* A query for the problem on the views of e. */
static struct row_query query(const struct net *n, const struct net_launch *e)
{
    const struct device *d = n->options.device;
    struct row_query q = {
        .problem = &e->p, .device = &d->kern, .aligned = true};

    for (int i = 0; i < KERN_MAX_IN; i++)
        q.aligned = q.aligned &&
                    row_view_is_aligned(d, e->in[i].t.dtype, e->in[i].offset);
    for (int i = 0; i < KERN_MAX_OUT; i++)
        q.aligned = q.aligned &&
                    row_view_is_aligned(d, e->out[i].t.dtype, e->out[i].offset);
    return q;
}

/* The fastest row by measurement, if the network has a tuner.  Vendors'
 * libraries compete only in an exhaustive search on a GPU with no backend
 * named: making their plans takes longer than most runs would win back.
 * Otherwise the rows of the tier that the fixed rule takes compete: a CPU's
 * reference is far slower in any case. */
static int tune(const struct net *n, const struct net_launch *e,
                struct infer_error *err, struct tune_choice *choice)
{
    const bool all = n->options.device->kern.kind == KERN_CUDA &&
                     n->options.backend == INFER_BACKEND_AUTO &&
                     tuner_mode(n->options.tuner) == TUNE_EXHAUSTIVE;
    const struct row_query q = query(n, e);
    const uint32_t *tier = n->tiers.tier;

    if (all)
        return tuner_pick(n->options.tuner, &q, tier, n->tiers.n, err, choice);
    while (!row_is_of(choice->row, *tier, e->p.op))
        tier++;
    return tuner_pick(n->options.tuner, &q, tier, 1, err, choice);
}

/* ---- problems ------------------------------------------------------ */

struct net_launch net_begin_launch(struct net_where where, enum kern_op op)
{
    struct net_launch e;

    memset(&e, 0, sizeof e);
    e.p.op = op;
    e.where = where;
    return e;
}

/* Gives a product of a layer the multiplier of its stage.  The gradient of a
 * transposed convolution's weights has dy for x and x for dy: its first operand
 * is x all the same, as in that of a convolution. */
static void add_multiplier(const struct net *n, struct net_launch *e)
{
    const struct view *products = &n->products[e->where.stage];
    struct kern_tensor *t = &e->in[PRODUCT_TABLE_IN].t;

    if (products->t.dtype == INFER_NONE || !kern_op_takes_table(e->p.op) ||
        (e->where.node >= 0 && n->exact_layers[e->where.node]))
        return;
    e->in[PRODUCT_TABLE_IN] = *products;
    /* Derivatives have a point there. */
    if (n->factors[e->where.stage].t.dtype != INFER_NONE)
        e->in[product_factors_in(e->p.op)] = n->factors[e->where.stage];
    if (t->dtype == INFER_U32 && e->p.op == KERN_CONV_WGRAD &&
        e->where.node >= 0 &&
        n->g->node[e->where.node].op == GRAPH_CONV_TRANSPOSE) {
        t->stride[0] = products->t.stride[1];
        t->stride[1] = products->t.stride[0];
        if (n->factors[e->where.stage].t.dtype == INFER_BF16)
            memset(&e->in[product_factors_in(e->p.op)], 0, sizeof e->in[0]);
    }
}

static void describe(const struct net *n, struct net_launch *e)
{
    struct kern_problem *p = &e->p;

    add_multiplier(n, e);
    p->n_in = p->n_out = 0;
    for (int i = 0; i < KERN_MAX_IN; i++) {
        p->in[i] = e->in[i].t;
        if (p->in[i].dtype != INFER_NONE)
            p->n_in = i + 1;
    }
    for (int i = 0; i < KERN_MAX_OUT; i++) {
        p->out[i] = e->out[i].t;
        if (p->out[i].dtype != INFER_NONE)
            p->n_out = i + 1;
    }
    /* Processes that exchange gradients must compute the same weights. A
     * measured choice must not change bits either: a resumed run equals one
     * that was not interrupted. */
    p->deterministic =
        n->options.deterministic || tuner_mode(n->options.tuner) != TUNE_OFF ||
        (e->where.list == NET_LIST_UPDATE && n->options.exchange);
    p->allow_tf32 = n->options.allow_tf32;
}

/* ---- launches ------------------------------------------------------ */

static void no_row(struct net *n, const struct net_launch *e)
{
    const char *name = e->where.node >= 0 && n->g->node[e->where.node].name
                           ? n->g->node[e->where.node].name
                           : "";
    struct kern_problem p = e->p;
    struct infer_error why;
    char text[512];

    why.text[0] = '\0';
    (void)choose(n, e, &p, &why);
    kern_problem_format(&e->p, text, sizeof(text));
    net_fail(n, INFER_EUNSUPPORTED, "node '%s' (%s): no kernel for %s: %s",
             name, net_stage_names[e->where.stage], text,
             why.text[0] ? why.text : "there is none at all");
}

const struct kern_row *net_row(const struct net *n, struct net_launch *e)
{
    describe(n, e);
    return choose(n, e, &e->p, NULL);
}

double net_seconds(struct net *n, struct net_launch *e)
{
    struct tune_choice choice = {.row = net_row(n, e)};

    if (choice.row && n->rc == 0)
        net_check(n, tune(n, e, net_err(n), &choice));
    return choice.seconds;
}

static struct plan_step *new_step(struct net *n, enum net_stage stage, int node)
{
    struct plan_step *step = n->rc < 0 ? NULL : calloc(1, sizeof *step);

    if (!step) {
        net_fail(n, INFER_EMEMORY, "out of memory");
        return NULL;
    }
    step->stage = stage;
    step->node = node;
    return step;
}

/* Frees the step if it cannot be appended. */
static void append(struct net *n, int list, struct plan_step *step)
{
    if (n->rc == 0)
        net_check(n, plan_append(&n->list[list].steps, &n->buffers, step,
                                 net_err(n)));
    if (n->rc == 0)
        return;
    if (step->prepared)
        kern_release(&step->exec);
    free(step);
}

/* Also keeps the buffers of a step on the side stream to the end of its list.
 */
static void count_workspace(struct net *n, const struct plan_step *step)
{
    const size_t bytes = step->exec.workspace;
    const size_t packed = net_packed_at(step, KERN_MAX_IN);

    if (bytes > n->workspace_bytes)
        n->workspace_bytes = bytes;
    if (packed > n->packed_bytes)
        n->packed_bytes = packed;
    if (!step->side)
        return;
    for (int i = 0; i < KERN_MAX_IN; i++)
        plan_touch(&n->buffers, &step->in[i], INT_MAX);
    for (int i = 0; i < KERN_MAX_OUT; i++)
        plan_touch(&n->buffers, &step->out[i], INT_MAX);
    if (bytes > n->side_bytes)
        n->side_bytes = bytes;
}

void net_launch(struct net *n, struct net_launch *e)
{
    const struct kern_row *rule = n->rc < 0 ? NULL : net_row(n, e);
    struct plan_step *step;

    if (n->rc == 0 && !rule)
        no_row(n, e);
    step = new_step(n, e->where.stage, e->where.node);
    if (!step)
        return;
    memcpy(step->in, e->in, sizeof step->in);
    memcpy(step->out, e->out, sizeof step->out);
    step->side = e->side;
    step->choice.row = rule;
    net_check(n, tune(n, e, net_err(n), &step->choice));
    if (n->rc == 0)
        net_check(n,
                  tuner_prepare(&step->choice, &e->p, &n->options.device->kern,
                                net_err(n), &step->exec));
    step->prepared = n->rc == 0;
    append(n, e->where.list, step);
    if (n->rc == 0)
        count_workspace(n, step);
}

/* ---- transfers ----------------------------------------------------- */

struct plan_step *net_transfer_step(struct net *n, enum net_transfer kind,
                                    int node, const struct view *array)
{
    struct plan_step *step = new_step(n, NET_EXCHANGE, node);

    if (!step)
        return NULL;
    step->in[0] = *array;
    step->transfer = kind;
    return step;
}

void net_launch_transfer(struct net *n, int list, enum net_transfer kind,
                         int node, const struct view *array)
{
    struct plan_step *step = net_transfer_step(n, kind, node, array);

    if (step)
        append(n, list, step);
}

/* ---- copies and arithmetic ----------------------------------------- */

void net_copy(struct net *n, struct net_where where, const struct view *from,
              const struct view *to)
{
    struct net_launch e = net_begin_launch(where, KERN_COPY);

    e.in[0] = *from;
    e.out[0] = *to;
    net_launch(n, &e);
}

void net_fill_zero(struct net *n, struct net_where where, const struct view *to)
{
    const struct view zero = view_raise(&n->zero, to->t.rank);
    const struct view from = view_expand(&zero, to->t.dim);

    net_copy(n, where, &from, to);
}

void net_binary(struct net *n, struct net_where where,
                enum kern_binary_kind kind, const struct view *a,
                const struct view *b, const struct view *out)
{
    struct net_launch e = net_begin_launch(where, KERN_BINARY);

    e.p.attr.binary.kind = kind;
    e.in[0] = *a;
    e.in[1] = *b;
    e.out[0] = *out;
    net_launch(n, &e);
}

void net_unary(struct net *n, struct net_where where, struct kern_unary f,
               const struct view *a, const struct view *out)
{
    struct net_launch e = net_begin_launch(where, KERN_UNARY);

    e.p.attr.unary = f;
    e.in[0] = *a;
    e.out[0] = *out;
    net_launch(n, &e);
}

void net_sum(struct net *n, struct net_where where, const struct view *x,
             uint32_t axes, const struct view *out, bool add)
{
    struct net_launch e = net_begin_launch(where, KERN_REDUCE);

    e.p.attr.reduce.kind = KERN_REDUCE_SUM;
    e.p.attr.reduce.axes = axes;
    e.in[0] = *x;
    if (add)
        e.in[1] = *out;
    e.out[0] = *out;
    net_launch(n, &e);
}
