/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of inference without windows: products, norms, element-wise
 * functions, reductions, moves. */
#include <string.h>

#include "kernels/recurrent/recurrent.h"
#include "tests/checkkern/checkkern.h"

/* A shape that broadcasts to s: leading dimensions dropped, others 1. */
static struct dims make_broadcast(struct maker *m, const struct dims *s)
{
    const int drop =
        rng_chance(&m->rng, 30) ? (int)rng_range(&m->rng, 0, s->rank) : 0;
    struct dims b = {.rank = s->rank - drop};

    for (int i = 0; i < b.rank; i++)
        b.dim[i] = rng_chance(&m->rng, 30) ? 1 : s->dim[i + drop];
    return b;
}

/* Rows, C, K; without rows: x is a vector. */
static const int64_t fixed_dense[][3] = {
    {1, 1, 1},     {1, 2048, 1000}, {8, 512, 10},  {5, 15, 17},
    {16, 32, 32},  {3, 400, 120},   {1, 784, 300}, {64, 65, 63},
    {9, 4104, 70}, {0, 632, 48},    {0, 23, 5}};

int dense_fixed_count(void)
{
    return COUNT(fixed_dense);
}

static void make_dense(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    struct dims x = {.rank = 2}, w = {.rank = 2}, y;

    if (k < COUNT(fixed_dense)) {
        const int64_t *f = fixed_dense[k];
        x.rank = f[0] == 0 ? 1 : 2;
        x.dim[0] = f[0];
        x.dim[x.rank - 1] = f[1];
        w.dim[0] = f[2];
    } else {
        x.rank = rng_chance(&m->rng, 70) ? 2 : (int)rng_range(&m->rng, 1, 4);
        for (int i = 0; i < x.rank; i++)
            x.dim[i] = rng_range(&m->rng, 1, i == x.rank - 1 ? 90 : 6);
        w.dim[0] = rng_range(&m->rng, 1, 70);
        if (rng_chance(&m->rng, 50)) { /* as tensor cores want them: deep, */
            const bool tall = rng_chance(&m->rng, 30); /* or several tiles */
            if (tall)
                x.dim[0] = rng_range(&m->rng, 60, 300);
            x.dim[x.rank - 1] = 8 * rng_range(&m->rng, 1, tall ? 12 : 80);
            w.dim[0] = 8 * rng_range(&m->rng, 1, tall ? 40 : 12);
        } else if (rng_chance(&m->rng, 20)) { /* a long sum of few rows */
            x.dim[x.rank - 1] = 8 * rng_range(&m->rng, 80, 400);
            if (x.rank == 2)
                x.dim[0] = rng_range(&m->rng, 1, 64);
        }
    }
    w.dim[1] = x.dim[x.rank - 1];
    y = x;
    y.dim[y.rank - 1] = w.dim[0];
    p->n_in = 2;
    p->in[0] = make_in(m, &x);
    p->in[1] = make_weights(m, w.rank, w.dim);
    p->out[0] = make_out(m, &y);
    make_epilogue(m);
}

static void make_matmul(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    struct kern_matmul *attr = &p->attr.matmul;
    const int64_t most = rng_chance(&m->rng, 80) ? 20 : 140;
    const int64_t rows = rng_range(&m->rng, 1, most);
    const int64_t inner = rng_range(&m->rng, 1, 40);
    const int64_t columns = rng_range(&m->rng, 1, most);
    struct dims batch = {.rank = k % 3}, a, b, y;

    for (int i = 0; i < batch.rank; i++)
        batch.dim[i] = rng_range(&m->rng, 1, 3);
    attr->transpose_a = rng_chance(&m->rng, 30);
    attr->transpose_b = rng_chance(&m->rng, 30);
    attr->alpha = rng_chance(&m->rng, 80) ? 1 : 0.125f;
    a = make_broadcast(m, &batch);
    b = batch;
    y = batch;
    a.dim[a.rank++] = attr->transpose_a ? inner : rows;
    a.dim[a.rank++] = attr->transpose_a ? rows : inner;
    b.dim[b.rank++] = attr->transpose_b ? columns : inner;
    b.dim[b.rank++] = attr->transpose_b ? inner : columns;
    y.dim[y.rank++] = rows;
    y.dim[y.rank++] = columns;
    if (rng_chance(&m->rng, 10)) { /* a vector on the right */
        b.rank = 1;
        b.dim[0] = inner;
        y = a;
        y.rank = a.rank - 1;
        y.dim[y.rank - 1] = rows;
    }
    p->n_in = 2;
    p->in[0] = make_in(m, &a);
    p->in[1] = make_in(m, &b);
    p->out[0] = make_out(m, &y);
}

/* Heads and depths of networks, and any others. */
static void make_attention(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    const bool usual = rng_chance(&m->rng, 60);
    const int64_t most = rng_chance(&m->rng, 70) ? 40 : 220;
    const int64_t queries = rng_range(&m->rng, 1, most);
    const int64_t keys = rng_range(&m->rng, 1, most);
    const int64_t heads = rng_range(&m->rng, 1, 3);
    const int64_t depth =
        usual ? 8 * rng_range(&m->rng, 1, 16) : rng_range(&m->rng, 1, 40);
    const int64_t width =
        usual && rng_chance(&m->rng, 60) ? depth : rng_range(&m->rng, 1, 130);
    struct dims q = {.rank = k % 3}, kk, v, y, scores;

    for (int i = 0; i < q.rank; i++)
        q.dim[i] = rng_range(&m->rng, 1, 3);
    scores = q;
    q.dim[q.rank++] = queries;
    q.dim[q.rank++] = heads;
    q.dim[q.rank++] = depth;
    kk = v = y = q;
    kk.dim[q.rank - 3] = v.dim[q.rank - 3] = keys;
    v.dim[q.rank - 1] = y.dim[q.rank - 1] = width;
    scores.dim[scores.rank++] = heads;
    scores.dim[scores.rank++] = queries;
    scores.dim[scores.rank++] = keys;
    p->n_in = 3;
    p->in[KERN_ATTENTION_Q] = make_in(m, &q);
    p->in[KERN_ATTENTION_K] = make_in(m, &kk);
    p->in[KERN_ATTENTION_V] = make_in(m, &v);
    for (int i = 0; i < 2 && rng_chance(&m->rng, 60); i++) {
        const struct dims bias = make_broadcast(m, &scores);

        p->in[KERN_ATTENTION_BIAS + i] = make_in(m, &bias);
        p->n_in++;
    }
    p->out[0] = make_out(m, &y);
    p->attr.attention.scale = rng_chance(&m->rng, 50) ? 1 : 0.25f;
    make_epilogue(m);
}

static void make_channel_op(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    const struct dims s = make_dims(m, k, 2);
    const int vectors = p->op == KERN_BATCH_NORM ? 4 : 2;

    p->n_in = vectors + 1;
    p->in[0] = make_in(m, &s);
    for (int i = 1; i <= vectors; i++)
        if (p->op == KERN_BATCH_NORM || rng_chance(&m->rng, 80))
            p->in[i] = make_vector(m, s.dim[1]);
    p->out[0] = make_out(m, &s);
    p->attr.norm.epsilon = p->op == KERN_SCALE_SHIFT ? 0 : 0x1p-10f;
    make_epilogue(m);
}

void make_layer_norm(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    const struct dims s = make_dims(m, k, 1);
    const int axis = (int)rng_range(&m->rng, 0, s.rank - 1);
    struct dims tail = {.rank = s.rank - axis};

    memcpy(tail.dim, s.dim + axis, (size_t)tail.rank * sizeof(tail.dim[0]));
    p->attr.norm.axis = axis;
    p->attr.norm.epsilon = 1e-5f;
    p->attr.norm.rms = rng_chance(&m->rng, 25);
    p->n_in = 3;
    p->in[0] = make_in(m, &s);
    for (int i = 1; i <= 2; i++)
        if (rng_chance(&m->rng, 80))
            p->in[i] = make_vectors(m, tail.rank, tail.dim);
    p->out[0] = make_out(m, &s);
}

void make_group_norm(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    struct dims s = make_dims(m, k, 2);

    p->attr.norm.groups =
        rng_chance(&m->rng, 50) ? (int)s.dim[1] : (int)rng_range(&m->rng, 1, 4);
    s.dim[1] = (s.dim[1] + p->attr.norm.groups - 1) / p->attr.norm.groups *
               p->attr.norm.groups;
    p->attr.norm.epsilon = 1e-5f;
    p->n_in = 3;
    p->in[0] = make_in(m, &s);
    for (int i = 1; i <= 2; i++)
        if (rng_chance(&m->rng, 80))
            p->in[i] = make_vector(m, s.dim[1]);
    p->out[0] = make_out(m, &s);
}

/* The layers that follow a mean: x's channels to few values and back, or to
 * any number. */
static void make_squeeze(struct maker *m, int k)
{
    static const int64_t fixed[][5] = {
        /* N, C, H = W, R, K */
        {1, 1, 1, 1, 1},     {1, 32, 16, 8, 32},     {2, 96, 7, 4, 96},
        {3, 144, 5, 6, 144}, {1, 1152, 7, 48, 1152}, {1, 17, 9, 5, 17},
        {70, 64, 2, 10, 64}, {1, 4104, 1, 3, 20},    {300, 24, 4, 3, 24},
    };
    struct kern_problem *p = m->p;
    struct dims x = {.rank = 4}, w = {.rank = 2}, w2 = {.rank = 2}, y;

    if (k < COUNT(fixed)) {
        x.dim[0] = fixed[k][0];
        x.dim[1] = fixed[k][1];
        x.dim[2] = x.dim[3] = fixed[k][2];
        w.dim[0] = fixed[k][3];
        w2.dim[0] = fixed[k][4];
    } else {
        x = make_dims(m, k, 3);
        if (rng_chance(&m->rng, 60))
            x.dim[1] = 8 * rng_range(&m->rng, 1, 40);
        if (rng_chance(&m->rng, 10))
            x.dim[0] = rng_range(&m->rng, 8, 600 / x.dim[1] + 8);
        w.dim[0] = rng_range(&m->rng, 1, rng_chance(&m->rng, 20) ? 90 : 20);
        w2.dim[0] =
            rng_chance(&m->rng, 80) ? x.dim[1] : rng_range(&m->rng, 1, 100);
    }
    w.dim[1] = x.dim[1];
    w2.dim[1] = w.dim[0];
    y = x;
    y.dim[1] = w2.dim[0];
    for (int i = 2; i < y.rank; i++)
        y.dim[i] = 1;
    p->n_in = 5;
    p->in[0] = make_in(m, &x);
    p->in[1] = make_weights(m, w.rank, w.dim);
    p->in[2] = make_weights(m, w2.rank, w2.dim);
    if (rng_chance(&m->rng, 80))
        p->in[3] = make_vector(m, w.dim[0]);
    if (rng_chance(&m->rng, 80))
        p->in[4] = make_vector(m, w2.dim[0]);
    p->out[0] = make_out(m, &y);
    p->attr.squeeze_excite.act = make_activation(&m->rng);
    make_epilogue(m);
}

static void make_like(struct maker *m, int k, int min_rank)
{
    const struct dims s = make_dims(m, k, min_rank);

    m->p->n_in = 1;
    m->p->in[0] = make_in(m, &s);
    m->p->out[0] = make_out(m, &s);
}

static void make_lrn(struct maker *m, int k)
{
    make_like(m, k, 2);
    m->p->attr.lrn.size = (int)rng_range(&m->rng, 1, 7);
    m->p->attr.lrn.alpha = rng_chance(&m->rng, 50) ? 1e-4f : 0.5f;
    m->p->attr.lrn.beta = rng_chance(&m->rng, 70) ? 0.75f : 0.5f;
    m->p->attr.lrn.bias = rng_chance(&m->rng, 70) ? 1 : 2;
}

static void make_unary(struct maker *m, int k)
{
    struct kern_unary *f = &m->p->attr.unary;

    make_like(m, k, 1);
    /* Each kind in turn, so that none is left to chance. */
    f->kind = (enum kern_unary_kind)(k % KERN_UNARY_COUNT);
    f->a = f->kind == KERN_CLIP ? -1 : 1;
    f->b = f->kind == KERN_CLIP ? 2 : 0.5f;
    if (f->kind == KERN_LEAKY_RELU || f->kind == KERN_HARD_SIGMOID)
        f->a = 0.25f;
}

void make_prelu(struct maker *m, int k)
{
    const struct dims s = make_dims(m, k, 1);
    const struct dims slope = make_broadcast(m, &s);

    m->p->n_in = 2;
    m->p->in[0] = make_in(m, &s);
    m->p->in[1] = make_in(m, &slope);
    m->p->out[0] = make_out(m, &s);
}

static bool is_comparison(enum kern_binary_kind kind)
{
    return kind >= KERN_EQUAL;
}

/* A factor for each channel of each image; `large` is as much as a network has
 * at a batch of some size, and takes a second to check. */
static void make_gate(struct maker *m, bool large)
{
    struct kern_problem *p = m->p;
    struct dims x = {4, {16, 256, 32, 33}}, z = {4, {1, 1, 1, 1}};
    const int full = rng_chance(&m->rng, 20);

    if (!large) {
        x.dim[0] = rng_range(&m->rng, 1, 5);
        x.dim[1] = rng_range(&m->rng, 1, 12) * 8;
        x.dim[2] = rng_range(&m->rng, 1, 12);
        x.dim[3] = rng_range(&m->rng, 1, 12);
    }
    z.dim[0] = x.dim[0];
    z.dim[1] = x.dim[1];
    p->n_in = 2;
    p->in[full] = rng_chance(&m->rng, 20)
                      ? make_slice(m, m->dtype, 4, x.dim)
                      : kern_tensor_dense(m->dtype, 4, x.dim, m->layout);
    p->in[!full] = kern_tensor_dense(m->dtype, 4, z.dim, m->layout);
    p->out[0] = rng_chance(&m->rng, 20)
                    ? make_slice(m, m->dtype, 4, x.dim)
                    : kern_tensor_dense(m->dtype, 4, x.dim, m->layout);
}

static void make_binary(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    const enum kern_binary_kind kind =
        (enum kern_binary_kind)(k % KERN_BINARY_COUNT);
    const struct dims s = make_dims(m, k, 1);
    const struct dims other = make_broadcast(m, &s);
    const bool swap = rng_chance(&m->rng, 20);
    const bool large =
        k == KERN_BINARY_COUNT + KERN_MUL && scalar_is_float(m->dtype);

    p->attr.binary.kind = kind;
    if (kern_binary_needs_integers(kind) && !scalar_is_integer(m->dtype))
        m->dtype = INFER_I32;
    if (kind == KERN_MUL && k >= KERN_BINARY_COUNT &&
        (large || rng_chance(&m->rng, 60))) {
        make_gate(m, large);
        return;
    }
    p->n_in = 2;
    p->in[0] = make_in(m, swap ? &other : &s);
    p->in[1] = make_in(m, swap ? &s : &other);
    p->out[0] = make_tensor(m, is_comparison(kind) ? INFER_BOOL : m->dtype,
                            s.rank, s.dim, true);
    if (kind <= KERN_MUL && scalar_is_float(m->dtype))
        make_epilogue(m);
}

static void make_where(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    const struct dims s = make_dims(m, k, 1);
    const struct dims b = make_broadcast(m, &s), c = make_broadcast(m, &s);

    p->n_in = 3;
    p->in[0] = make_tensor(m, INFER_BOOL, b.rank, b.dim, false);
    p->in[1] = make_in(m, &s);
    p->in[2] = make_in(m, &c);
    p->out[0] = make_out(m, &s);
}

/* Results of 16 bits and floats stay below what is exact in them. */
static void make_requantize(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    struct kern_requantize *a = &p->attr.requantize;
    const struct dims s = make_dims(m, k, 1);
    const struct dims factor = make_broadcast(m, &s);
    const struct dims addend = make_broadcast(m, &s);
    int64_t most;

    p->n_in = rng_chance(&m->rng, 40) ? 4 : 3;
    p->in[0] = rng_chance(&m->rng, 30)
                   ? make_tensor(m, INFER_I32, s.rank, s.dim, false)
                   : make_in(m, &s);
    for (int i = 1; i < 3; i++)
        p->in[i] = make_tensor(m, INFER_I32, factor.rank, factor.dim, false);
    if (p->n_in == 4)
        p->in[3] = make_tensor(m, INFER_I32, addend.rank, addend.dim, false);
    p->out[0] = rng_chance(&m->rng, 30)
                    ? make_tensor(m, INFER_I32, s.rank, s.dim, true)
                    : make_out(m, &s);
    most = p->out[0].dtype == INFER_I32            ? INT32_MAX
           : infer_dtype_size(p->out[0].dtype) < 4 ? 15
                                                   : 1 << 24;
    if (rng_chance(&m->rng, 60) && most > 255)
        most = 255;
    a->wide = rng_chance(&m->rng, 30);
    a->low = (int)rng_range(&m->rng, -most, 0);
    a->high = (int)rng_range(&m->rng, 0, most);
    a->left = rng_chance(&m->rng, 30) ? (int)rng_range(&m->rng, 0, 31) : 0;
    a->once = rng_chance(&m->rng, 40);
}

static void make_reduce(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    struct dims s = make_dims(m, k, 1);
    const uint32_t all = (1u << s.rank) - 1;

    p->n_in = 1;
    p->in[0] = make_in(m, &s);
    p->attr.reduce.kind = (enum kern_reduce_kind)(k % KERN_REDUCE_KIND_COUNT);
    p->attr.reduce.axes = s.rank == 4 && rng_chance(&m->rng, 50)
                              ? 12 /* space, as global pooling */
                              : (uint32_t)rng_range(&m->rng, 1, all);
    for (int i = 0; i < s.rank; i++)
        if (p->attr.reduce.axes >> i & 1)
            s.dim[i] = 1;
    p->out[0] = make_out(m, &s);
    if (rng_chance(&m->rng, 20)) {
        p->in[1] = make_in(m, &s);
        p->n_in = 2;
    }
}

static void make_arg_reduce(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    struct dims s = make_dims(m, k, 1);
    const int axis = (int)rng_range(&m->rng, 0, s.rank - 1);

    p->n_in = 1;
    p->in[0] = make_in(m, &s);
    s.dim[axis] = 1;
    p->out[0] = make_tensor(m, INFER_I64, s.rank, s.dim, true);
    p->attr.arg_reduce.axis = axis;
    p->attr.arg_reduce.min = rng_chance(&m->rng, 50);
    p->attr.arg_reduce.select_last = rng_chance(&m->rng, 50);
}

static void make_gather(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    const struct dims s = make_dims(m, k, 1);
    const int axis = (int)rng_range(&m->rng, 0, s.rank - 1);
    struct dims list = {.rank = (int)rng_range(&m->rng, 0, 2)}, y = {0};

    for (int i = 0; i < list.rank; i++)
        list.dim[i] = rng_range(&m->rng, 1, 4);
    for (int i = 0; i < axis; i++)
        y.dim[y.rank++] = s.dim[i];
    for (int i = 0; i < list.rank; i++)
        y.dim[y.rank++] = list.dim[i];
    for (int i = axis + 1; i < s.rank; i++)
        y.dim[y.rank++] = s.dim[i];
    p->attr.gather.axis = axis;
    p->n_in = 2;
    p->in[0] = make_in(m, &s);
    p->in[1] = make_tensor(m, rng_chance(&m->rng, 50) ? INFER_I64 : INFER_I32,
                           list.rank, list.dim, false);
    p->out[0] = make_out(m, &y);
}

/* Dimensions of indices into s: no more of them but along the axis. */
static struct dims make_indices(struct maker *m, const struct dims *s, int axis)
{
    struct dims list = *s;

    for (int i = 0; i < list.rank; i++)
        list.dim[i] = rng_range(&m->rng, 1, i == axis ? 9 : s->dim[i]);
    return list;
}

static void make_elements(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    const struct dims s = make_dims(m, k, 1);
    const int axis = (int)rng_range(&m->rng, 0, s.rank - 1);
    const struct dims list = make_indices(m, &s, axis);

    p->in[0] = make_in(m, &s);
    p->in[1] = make_tensor(m, rng_chance(&m->rng, 50) ? INFER_I64 : INFER_I32,
                           list.rank, list.dim, false);
    if (p->op == KERN_GATHER_ELEMENTS) {
        p->n_in = 2;
        p->attr.gather.axis = axis;
        p->out[0] = make_out(m, &list);
        return;
    }
    p->n_in = 3;
    p->in[2] = make_in(m, &list);
    p->attr.scatter.axis = axis;
    p->attr.scatter.kind =
        (enum kern_scatter_kind)rng_range(&m->rng, 0, KERN_SCATTER_MAX);
    /* Sums and products of F8E4M3 are rounded to 4 bits at every update, for
     * which the bound of one rounding does not hold. */
    if (m->dtype == INFER_F8E4M3 && (p->attr.scatter.kind == KERN_SCATTER_ADD ||
                                     p->attr.scatter.kind == KERN_SCATTER_MUL))
        p->attr.scatter.kind = KERN_SCATTER_SET;
    p->out[0] = make_out(m, &s);
}

static void make_cumulate(struct maker *m, int k)
{
    struct kern_cumulate *a = &m->p->attr.cumulate;

    make_like(m, k, 1);
    a->axis = (int)rng_range(&m->rng, 0, m->p->in[0].rank - 1);
    a->exclusive = rng_chance(&m->rng, 40);
    a->reverse = rng_chance(&m->rng, 40);
    a->product = rng_chance(&m->rng, 40);
}

static void make_top_k(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    struct dims s = make_dims(m, k, 1);
    const int axis = (int)rng_range(&m->rng, 0, s.rank - 1);

    p->n_in = 1;
    p->in[0] = make_in(m, &s);
    s.dim[axis] = rng_range(&m->rng, 1, s.dim[axis]);
    p->out[0] = make_tensor(m, INFER_I64, s.rank, s.dim, true);
    p->attr.top_k.axis = axis;
    p->attr.top_k.smallest = rng_chance(&m->rng, 50);
}

/* Sizes of networks, and any others. */
static void make_recurrent(struct maker *m, int k)
{
    static const enum kern_unary_kind some[] = {
        KERN_SIGMOID, KERN_TANH, KERN_RELU, KERN_SOFTSIGN, KERN_SOFTPLUS};
    struct kern_problem *p = m->p;
    struct kern_recurrent *a = &p->attr.recurrent;
    const int64_t n = rng_range(&m->rng, 1, 5);
    const int64_t steps = rng_range(&m->rng, 1, 12);
    const int64_t hidden = rng_chance(&m->rng, 40)
                               ? 16 * rng_range(&m->rng, 1, 8)
                               : rng_range(&m->rng, 1, 70);
    const struct dims state = {2, {n, hidden}};
    struct dims x = {3, {n, steps, 0}}, y = {3, {n, steps, 0}};
    const int64_t peephole[2] = {3, hidden};
    int64_t w[2];
    bool lstm, usual = rng_chance(&m->rng, 60);

    a->cell = (enum kern_cell)(k % KERN_CELL_COUNT);
    lstm = a->cell == KERN_CELL_LSTM;
    w[0] = recurrent_gates(a->cell) * hidden;
    w[1] = hidden;
    a->reverse = rng_chance(&m->rng, 40);
    a->reset_after = a->cell == KERN_CELL_GRU && rng_chance(&m->rng, 50);
    a->input_forget = lstm && rng_chance(&m->rng, 20);
    a->with_cell = lstm && rng_chance(&m->rng, 50);
    a->clip = rng_chance(&m->rng, 20) ? 0.5f : 0;
    for (int i = 0; i < 3; i++)
        a->act[i] =
            usual ? (i == 0 ? KERN_SIGMOID : KERN_TANH)
                  : some[i == 0 ? 0 : rng_range(&m->rng, 0, COUNT(some) - 1)];
    x.dim[2] = w[0];
    y.dim[2] = a->with_cell ? 2 * hidden : hidden;
    p->n_in = 7;
    p->in[RECURRENT_X] = make_in(m, &x);
    p->in[RECURRENT_W] = make_weights(m, 2, w);
    if (a->reset_after && rng_chance(&m->rng, 70))
        p->in[RECURRENT_BIAS] = make_weights(m, 1, &hidden);
    if (rng_chance(&m->rng, 60))
        p->in[RECURRENT_H] = make_in(m, &state);
    if (lstm && rng_chance(&m->rng, 60))
        p->in[RECURRENT_C] = make_in(m, &state);
    if (lstm && rng_chance(&m->rng, 30))
        p->in[RECURRENT_PEEPHOLE] = make_weights(m, 2, peephole);
    if (rng_chance(&m->rng, 30))
        p->in[RECURRENT_LENGTH] = make_tensor(
            m, rng_chance(&m->rng, 50) ? INFER_I64 : INFER_I32, 1, &n, false);
    p->out[0] = make_out(m, &y);
}

static void make_nms(struct maker *m)
{
    struct kern_problem *p = m->p;
    const int64_t n = rng_range(&m->rng, 1, 3), c = rng_range(&m->rng, 1, 4);
    const int64_t b = rng_range(&m->rng, 1, 300);
    const struct dims boxes = {3, {n, b, 4}}, scores = {3, {n, c, b}};
    const int64_t y[2] = {n * c * rng_range(&m->rng, 0, 20), 3};

    p->n_in = 2;
    p->in[0] = make_in(m, &boxes);
    p->in[1] = make_in(m, &scores);
    p->out[0] = make_tensor(m, INFER_I64, 2, y, true);
    p->attr.nms.center = rng_chance(&m->rng, 30);
    p->attr.nms.iou = 0.25f * (float)rng_range(&m->rng, 0, 3);
    p->attr.nms.score = 0.5f * (float)rng_range(&m->rng, -2, 1);
}

static void make_pad(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    struct kern_pad *a = &p->attr.pad;
    struct dims s = make_dims(m, k, 1);

    a->mode = (enum kern_pad_mode)(k % 4);
    a->value = (float)rng_range(&m->rng, 0, 2);
    p->n_in = 1;
    p->in[0] = make_in(m, &s);
    for (int i = 0; i < s.rank; i++) {
        const int64_t low = rng_chance(&m->rng, 25) && s.dim[i] > 2 ? -1 : 0;
        a->begin[i] = (int)rng_range(&m->rng, low, 3);
        a->end[i] = (int)rng_range(&m->rng, low, 3);
        s.dim[i] += a->begin[i] + a->end[i];
    }
    p->out[0] = make_out(m, &s);
}

void make_resize(struct maker *m, int k)
{
    static const float scales[] = {0.5f, 0.6f, 0.75f, 1, 1.5f, 2, 2.3f, 3};
    struct kern_problem *p = m->p;
    struct kern_resize *a = &p->attr.resize;
    struct dims s = make_dims(m, k, 2);

    a->mode = (enum kern_resize_mode)(k % 3);
    a->coord = (enum kern_resize_coord)rng_range(&m->rng, 0, 4);
    a->nearest = (enum kern_nearest_mode)rng_range(&m->rng, 0, 3);
    a->cubic_a = rng_chance(&m->rng, 50) ? -0.75f : -0.5f;
    a->exclude_outside = a->mode == KERN_BICUBIC && rng_chance(&m->rng, 30);
    a->antialias = a->mode != KERN_NEAREST && rng_chance(&m->rng, 30);
    p->n_in = 1;
    p->in[0] = make_in(m, &s);
    for (int i = 0; i < s.rank; i++) {
        a->scale[i] = i < 2 && rng_chance(&m->rng, 90)
                          ? 1
                          : scales[rng_range(&m->rng, 0, COUNT(scales) - 1)];
        const int64_t extent = (int64_t)((float)s.dim[i] * a->scale[i]);
        if (extent < 1)
            a->scale[i] = 1;
        else
            s.dim[i] = extent;
    }
    p->out[0] = make_out(m, &s);
}

/* Pictures from planes to pixels. */
static void make_picture_copy(struct maker *m)
{
    const int64_t dim[4] = {rng_range(&m->rng, 1, 3), 3,
                            rng_range(&m->rng, 1, 17),
                            rng_range(&m->rng, 1, 17)};

    m->p->n_in = 1;
    m->p->in[0] = kern_tensor_dense(m->dtype, 4, dim, KERN_NCHW);
    m->p->out[0] = kern_tensor_dense(
        rng_chance(&m->rng, 50) ? m->dtype : INFER_F16, 4, dim, KERN_NHWC);
}

/* One element to a whole tensor. */
static void make_fill(struct maker *m, int k)
{
    static const enum infer_dtype types[] = {INFER_F32, INFER_F16, INFER_BF16};
    const struct dims s = make_dims(m, k, 1);
    struct kern_tensor *x = &m->p->in[0];

    m->p->n_in = 1;
    *x = kern_tensor_dense(m->dtype, s.rank, s.dim, KERN_NCHW);
    memset(x->stride, 0, sizeof(x->stride));
    m->p->out[0] =
        make_tensor(m, types[rng_range(&m->rng, 0, 2)], s.rank, s.dim, true);
}

static void make_copy(struct maker *m, int k)
{
    const struct dims s = make_dims(m, k, 1);
    enum infer_dtype to = m->dtype;

    if (rng_chance(&m->rng, 15)) {
        make_picture_copy(m);
        return;
    }
    if (rng_chance(&m->rng, 15)) {
        make_fill(m, k);
        return;
    }
    if (rng_chance(&m->rng, 40))
        to = (enum infer_dtype)rng_range(&m->rng, INFER_F64,
                                         INFER_DTYPE_COUNT - 1);
    m->p->n_in = 1;
    m->p->in[0] = make_in(m, &s);
    m->p->out[0] = make_tensor(m, to, s.rank, s.dim, true);
}

/* ---- all ----------------------------------------------------------- */

void make_plain_problem(struct maker *m, int k)
{
    switch (m->p->op) {
    case KERN_DENSE_FPROP:
        make_dense(m, k);
        break;
    case KERN_MATMUL:
        make_matmul(m, k);
        break;
    case KERN_ATTENTION:
        make_attention(m, k);
        break;
    case KERN_BATCH_NORM:
    case KERN_SCALE_SHIFT:
        make_channel_op(m, k);
        break;
    case KERN_LAYER_NORM:
        make_layer_norm(m, k);
        break;
    case KERN_GROUP_NORM:
        make_group_norm(m, k);
        break;
    case KERN_LRN:
        make_lrn(m, k);
        break;
    case KERN_UNARY:
        make_unary(m, k);
        break;
    case KERN_PRELU:
        make_prelu(m, k);
        break;
    case KERN_BINARY:
        make_binary(m, k);
        break;
    case KERN_REQUANTIZE:
        make_requantize(m, k);
        break;
    case KERN_WHERE:
        make_where(m, k);
        break;
    case KERN_SOFTMAX:
        make_like(m, k, 1);
        m->p->attr.softmax.axis =
            (int)rng_range(&m->rng, 0, m->p->in[0].rank - 1);
        m->p->attr.softmax.log = rng_chance(&m->rng, 40);
        break;
    case KERN_REDUCE:
        make_reduce(m, k);
        break;
    case KERN_SQUEEZE_EXCITE:
        make_squeeze(m, k);
        break;
    case KERN_CHAIN:
        make_chain(m, k);
        break;
    case KERN_ARG_REDUCE:
        make_arg_reduce(m, k);
        break;
    case KERN_GATHER:
        make_gather(m, k);
        break;
    case KERN_GATHER_ELEMENTS:
    case KERN_SCATTER_ELEMENTS:
        make_elements(m, k);
        break;
    case KERN_CUMULATE:
        make_cumulate(m, k);
        break;
    case KERN_TOP_K:
        make_top_k(m, k);
        break;
    case KERN_NMS:
        make_nms(m);
        break;
    case KERN_RECURRENT:
        make_recurrent(m, k);
        break;
    case KERN_PAD:
        make_pad(m, k);
        break;
    case KERN_RESIZE:
        make_resize(m, k);
        break;
    case KERN_COPY:
        make_copy(m, k);
        break;
    default:
        break;
    }
}
