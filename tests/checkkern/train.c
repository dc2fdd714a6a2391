/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of training: backward passes, statistics, losses, updates. */
#include "kernels/bn_stats.h"
#include "tests/checkkern/checkkern.h"

static void set_in(struct kern_problem *p, int i, struct kern_tensor t)
{
    p->in[i] = t;
    if (p->n_in <= i)
        p->n_in = i + 1;
}

static void set_out(struct kern_problem *p, int i, struct kern_tensor t)
{
    p->out[i] = t;
    if (p->n_out <= i)
        p->n_out = i + 1;
}

static struct kern_tensor flat(enum infer_dtype dtype, int64_t n)
{
    return kern_tensor_dense(dtype, 1, &n, KERN_NCHW);
}

/* A vector that is written. */
static struct kern_tensor out_vector(struct maker *m, int64_t n)
{
    return make_tensor(m, vector_dtype(m), 1, &n, true);
}

static void some_residual(struct maker *m, const struct dims *s)
{
    if (rng_chance(&m->rng, 30))
        set_in(m->p, kern_op_residual(m->p->op), make_in(m, s));
}

/* ---- batch norm ---------------------------------------------------- */

/* Functions whose derivative is known from their value. */
static struct kern_unary make_known(struct rng *r)
{
    static const struct kern_unary some[] = {
        {KERN_IDENTITY, 0, 0}, {KERN_RELU, 0, 0},    {KERN_RELU, 0, 0},
        {KERN_CLIP, 0, 6},     {KERN_SIGMOID, 0, 0}, {KERN_LEAKY_RELU, 0.1f, 0},
        {KERN_TANH, 0, 0},
    };

    return some[rng_range(r, 0, COUNT(some) - 1)];
}

/* Shapes where statistics mean something: batch norm divides by the deviation
 * of what may be a handful of elements. */
static struct dims make_batch(struct maker *m, int k)
{
    static const struct dims fixed[] = {
        {4, {2, 3, 4, 5}},   {4, {4, 16, 8, 8}},   {4, {2, 64, 7, 7}},
        {4, {3, 33, 5, 9}},  {2, {32, 10}},        {4, {8, 128, 4, 4}},
        {4, {2, 8, 33, 31}}, {5, {2, 6, 3, 4, 5}}, {4, {16, 16, 32, 32}},
    };
    /* Rounds enough for loops over more than a GPU holds at once: 3 blocks of
     * 256 threads with 4 vectors of 8 channels each on 132 multiprocessors. */
    static const struct dims large = {4, {7, 2048, 15, 16}};
    struct dims s;

    if (k < COUNT(fixed))
        return fixed[k];
    if (k % 64 == 63 && m->row->backend == INFER_BACKEND_CUDA)
        return large;
    s = make_dims(m, k, 2);
    s.dim[0] += 4;
    if (rng_chance(&m->rng, 40)) /* whole bytes of signs */
        s.dim[1] = (s.dim[1] + 7) / 8 * 8;
    return s;
}

static struct kern_tensor make_signs(struct maker *m, const struct dims *s,
                                     bool writable)
{
    struct dims eighth = *s;

    eighth.dim[1] /= 8;
    return make_tensor(m, INFER_U8, eighth.rank, eighth.dim, writable);
}

/* Of a convolution before it, in parts of any size. */
static struct kern_tensor make_bn_stats_of(struct maker *m,
                                           const struct kern_tensor *x)
{
    const int64_t pixels = kern_tensor_count(x) / x->dim[1];
    const int64_t part = (int64_t)1 << rng_range(&m->rng, 0, 7);
    const int64_t dim[3] = {bn_stats_parts(part, pixels), 2, x->dim[1]};

    return kern_tensor_dense(bn_stats_dtype(m), 3, dim, KERN_NCHW);
}

static void make_batch_norm_train(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    const struct dims s = make_batch(m, k);
    const int64_t c = s.dim[1];
    const bool running = rng_chance(&m->rng, 70);

    set_in(p, 0, make_in(m, &s));
    set_out(p, 0, make_out(m, &s));
    for (int i = 1; i <= (running ? 4 : 2); i++) {
        set_in(p, i, make_vector(m, c));
        set_out(p, i, out_vector(m, c));
    }
    some_residual(m, &s);
    if (m->row->flags & KERN_BN_STATS && rng_chance(&m->rng, 30))
        set_in(p, 6, make_bn_stats_of(m, &p->in[0]));
    p->attr.norm.epsilon = 0x1p-10f;
    p->attr.norm.momentum = 0.1f;
    p->epilogue.act = make_known(&m->rng);
    if (c % 8 == 0 && rng_chance(&m->rng, 60))
        set_out(p, 5, make_signs(m, &s, true));
}

static void make_batch_norm_dgrad(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    const struct dims s = make_batch(m, k);
    const int64_t c = s.dim[1];

    p->epilogue.act = make_known(&m->rng);
    if (c % 8 == 0 && rng_chance(&m->rng, 50))
        p->epilogue.act.kind = KERN_RELU;
    set_in(p, 0, make_in(m, &s));
    set_in(p, 1, make_in(m, &s));
    for (int i = 2; i <= 4; i++)
        set_in(p, i, make_vector(m, c));
    if (c % 8 == 0 && p->epilogue.act.kind == KERN_RELU &&
        rng_chance(&m->rng, 70))
        set_in(p, 5, make_signs(m, &s, false));
    else if (p->epilogue.act.kind != KERN_IDENTITY)
        set_in(p, 5, make_in(m, &s));
    for (int i = 6; i <= 7; i++)
        if (rng_chance(&m->rng, 30))
            set_in(p, i, make_vector(m, c));
    set_out(p, 0, make_out(m, &s));
    set_out(p, 1, out_vector(m, c));
    set_out(p, 2, out_vector(m, c));
    if (rng_chance(&m->rng, 40))
        set_out(p, 3, make_out(m, &s));
    p->attr.norm.epsilon = 0x1p-10f;
}

/* ---- backward passes ----------------------------------------------- */

static void make_reduce_dgrad(struct maker *m, int k)
{
    static const enum kern_reduce_kind kinds[] = {
        KERN_REDUCE_MEAN, KERN_REDUCE_SUM, KERN_REDUCE_MAX,
        KERN_REDUCE_MIN,  KERN_REDUCE_L1,  KERN_REDUCE_L2};
    struct kern_problem *p = m->p;
    const struct dims s = make_dims(m, k, 1);
    struct dims y = s;

    p->attr.reduce.kind = kinds[k % COUNT(kinds)];
    p->attr.reduce.axes =
        s.rank == 4 && rng_chance(&m->rng, 50)
            ? 12 /* space, as global pooling */
            : (uint32_t)rng_range(&m->rng, 1, (1 << s.rank) - 1);
    for (int i = 0; i < s.rank; i++)
        if (p->attr.reduce.axes >> i & 1)
            y.dim[i] = 1;
    set_in(p, 0, make_in(m, &y));
    if (k % COUNT(kinds) > 1)
        set_in(p, 1, make_in(m, &s));
    set_out(p, 0, make_out(m, &s));
    some_residual(m, &s);
}

static void make_unary_dgrad(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    struct kern_unary *f = &p->attr.unary;
    const struct dims s = make_dims(m, k, 1);

    /* Each kind in turn, so that none is left to chance. */
    f->kind = (enum kern_unary_kind)(k % KERN_UNARY_COUNT);
    f->a = f->kind == KERN_CLIP ? -1 : 1;
    f->b = f->kind == KERN_CLIP ? 2 : 0.5f;
    if (f->kind == KERN_LEAKY_RELU || f->kind == KERN_HARD_SIGMOID)
        f->a = 0.25f;
    set_in(p, 0, make_in(m, &s));
    set_in(p, kern_unary_grad_from_output(f) && rng_chance(&m->rng, 60) ? 2 : 1,
           make_in(m, &s));
    set_out(p, 0, make_out(m, &s));
    some_residual(m, &s);
}

static void make_lrn_dgrad(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    const struct dims s = make_dims(m, k, 2);

    p->attr.lrn.size = (int)rng_range(&m->rng, 1, 7);
    p->attr.lrn.alpha = rng_chance(&m->rng, 50) ? 1e-4f : 0.5f;
    p->attr.lrn.beta = rng_chance(&m->rng, 70) ? 0.75f : 0.5f;
    p->attr.lrn.bias = rng_chance(&m->rng, 70) ? 1 : 2;
    set_in(p, 0, make_in(m, &s));
    set_in(p, 1, make_in(m, &s));
    set_out(p, 0, make_out(m, &s));
    some_residual(m, &s);
}

/* The backward pass of an operation with one input and one operand: its
 * output becomes dy, and dx and what goes with it are new tensors. */
static void make_backwards(struct maker *m, int k,
                           void (*forwards)(struct maker *m, int k))
{
    struct kern_problem *p = m->p;

    forwards(m, k);
    const struct kern_tensor x = p->in[0], operand = p->in[1];
    struct dims s = {.rank = x.rank};

    for (int i = 0; i < x.rank; i++)
        s.dim[i] = x.dim[i];
    p->in[2] = (struct kern_tensor){.dtype = INFER_NONE};
    set_in(p, 0, make_in(m, &s));
    set_in(p, 1, x);
    p->n_in = 2;
    if (operand.dtype != INFER_NONE)
        set_in(p, 2, operand);
    set_out(p, 0, make_out(m, &s));
    if (rng_chance(&m->rng, 70))
        set_out(p, 1, make_out(m, &s));
    some_residual(m, &s);
}

static void make_resize_dgrad(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    struct dims x = {0}, y = {0};

    make_resize(m, k);
    x.rank = y.rank = p->in[0].rank;
    for (int i = 0; i < x.rank; i++) {
        x.dim[i] = p->in[0].dim[i];
        y.dim[i] = p->out[0].dim[i];
    }
    set_in(p, 0, make_in(m, &y));
    set_out(p, 0, make_out(m, &x));
    some_residual(m, &x);
}

/* ---- losses and updates -------------------------------------------- */

static void make_dropout(struct maker *m, int k)
{
    static const float ratios[] = {0.5f, 0, 0.2f, 0.75f, 0.1f};
    const struct dims s = make_dims(m, k, 1);
    struct kern_problem *p = m->p;

    p->attr.dropout.ratio = ratios[k % COUNT(ratios)];
    p->attr.dropout.stream = (uint32_t)rng_range(&m->rng, 0, 100);
    set_in(p, 0, make_in(m, &s));
    set_in(p, 1, flat(INFER_U64, 2));
    set_out(p, 0, make_out(m, &s));
}

static void make_cross_entropy(struct maker *m, int k)
{
    static const int64_t fixed[][2] = {{1, 1},     {4, 10},  {128, 10}, {3, 33},
                                       {33, 1000}, {257, 7}, {2, 2048}};
    struct kern_problem *p = m->p;
    struct dims s = {2, {rng_range(&m->rng, 1, 70), rng_range(&m->rng, 1, 90)}};

    if (k < COUNT(fixed)) {
        s.dim[0] = fixed[k][0];
        s.dim[1] = fixed[k][1];
    }
    p->attr.cross_entropy.smoothing = rng_chance(&m->rng, 50) ? 0 : 0.1f;
    p->attr.cross_entropy.scale = 1.0f / (float)s.dim[0];
    set_in(p, 0, make_in(m, &s));
    set_in(p, 1,
           flat(rng_chance(&m->rng, 50) ? INFER_I32 : INFER_I64, s.dim[0]));
    if (rng_chance(&m->rng, 60))
        set_in(p, 2, flat(INFER_F32, KERN_STEP_SIZE));
    set_out(p, 0, flat(INFER_F32, s.dim[0]));
    if (rng_chance(&m->rng, 80))
        set_out(p, 1, make_out(m, &s));
    if (rng_chance(&m->rng, 60))
        set_out(p, 2, flat(INFER_F32, s.dim[0]));
}

static void make_step(struct maker *m)
{
    struct kern_problem *p = m->p;
    struct kern_step *a = &p->attr.step;

    a->clip = rng_chance(&m->rng, 50) ? 0 : 0.5f;
    a->beta1 = 0.9f;
    a->beta2 = 0.999f;
    a->growth = rng_chance(&m->rng, 80) ? 2 : 1;
    a->backoff = 0.5f;
    a->max_scale = rng_chance(&m->rng, 50) ? 0 : 256;
    a->interval = (int)rng_range(&m->rng, 0, 8);
    set_in(p, 0, flat(INFER_F32, 1));
    set_in(p, 1, flat(INFER_F32, KERN_STEP_SIZE));
    set_out(p, 0, flat(INFER_F32, KERN_STEP_SIZE));
    if (rng_chance(&m->rng, 60)) {
        set_in(p, 2, flat(INFER_U64, 2));
        set_out(p, 1, flat(INFER_U64, 2));
    }
}

/* m and v where the rule has them. */
static void make_bn_stats(struct maker *m, int64_t n)
{
    struct kern_problem *p = m->p;
    const enum kern_update_kind kind = p->attr.update.kind;
    const bool adam = kind == KERN_UPDATE_ADAM || kind == KERN_UPDATE_ADAMW;

    if (adam || (kind != KERN_UPDATE_NONE && rng_chance(&m->rng, 60))) {
        set_in(p, 4, flat(INFER_F32, n));
        set_out(p, KERN_UPDATE_M, flat(INFER_F32, n));
    }
    if (adam || kind == KERN_UPDATE_RMSPROP) {
        set_in(p, 5, flat(INFER_F32, n));
        set_out(p, KERN_UPDATE_V, flat(INFER_F32, n));
    }
}

static void make_update(struct maker *m, int k)
{
    static const int64_t sizes[] = {1, 3, 64, 1000, 4097};
    const int64_t n = rng_chance(&m->rng, 50) ? sizes[k % COUNT(sizes)]
                                              : rng_range(&m->rng, 1, 3000);
    static const enum infer_dtype grads[] = {INFER_F32, INFER_F32, INFER_F16,
                                             INFER_BF16};
    struct kern_problem *p = m->p;
    struct kern_update *a = &p->attr.update;

    a->kind = (enum kern_update_kind)(k % KERN_UPDATE_KIND_COUNT);
    a->nesterov = rng_chance(&m->rng, 40);
    a->beta1 = 0.9f;
    a->beta2 = 0.99f;
    a->epsilon = rng_chance(&m->rng, 50) ? 1e-8f : 1e-3f;
    a->decay = rng_chance(&m->rng, 50) ? 0 : 0.01f;
    a->average_decay = 0.99f;
    set_in(p, 0, flat(INFER_F32, n));
    set_out(p, KERN_UPDATE_W, flat(INFER_F32, n));
    if (a->kind != KERN_UPDATE_NONE) {
        set_in(p, 1, flat(grads[rng_range(&m->rng, 0, 3)], n));
        set_in(p, 2, flat(INFER_F32, 1));
    }
    if (a->kind >= KERN_UPDATE_ADAM || rng_chance(&m->rng, 60))
        set_in(p, 3, flat(INFER_F32, KERN_STEP_SIZE));
    make_bn_stats(m, n);
    if (a->kind == KERN_UPDATE_NONE || rng_chance(&m->rng, 40)) {
        set_in(p, 6, flat(INFER_F32, n));
        set_out(p, KERN_UPDATE_AVERAGE, flat(INFER_F32, n));
    }
    if (rng_chance(&m->rng, 50))
        set_out(p, KERN_UPDATE_COPY,
                flat(rng_chance(&m->rng, 50) ? INFER_F16 : INFER_BF16, n));
}

void make_train_problem(struct maker *m, int k)
{
    switch (m->p->op) {
    case KERN_BATCH_NORM_TRAIN:
        make_batch_norm_train(m, k);
        break;
    case KERN_BATCH_NORM_DGRAD:
        make_batch_norm_dgrad(m, k);
        break;
    case KERN_REDUCE_DGRAD:
        make_reduce_dgrad(m, k);
        break;
    case KERN_UNARY_DGRAD:
        make_unary_dgrad(m, k);
        break;
    case KERN_LRN_DGRAD:
        make_lrn_dgrad(m, k);
        break;
    case KERN_PRELU_DGRAD:
        make_backwards(m, k, make_prelu);
        break;
    case KERN_LAYER_NORM_DGRAD:
        make_backwards(m, k, make_layer_norm);
        break;
    case KERN_GROUP_NORM_DGRAD:
        make_backwards(m, k, make_group_norm);
        break;
    case KERN_RESIZE_DGRAD:
        make_resize_dgrad(m, k);
        break;
    case KERN_DROPOUT:
        make_dropout(m, k);
        break;
    case KERN_CROSS_ENTROPY:
        make_cross_entropy(m, k);
        break;
    case KERN_STEP:
        make_step(m);
        break;
    default:
        make_update(m, k);
        break;
    }
}
