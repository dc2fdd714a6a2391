/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a row may be from the reference on real data.
 *
 * Sums: 8 sqrt(terms) u_acc sum |x||w|, the sum taken by running the reference
 * on absolute values.  What other operations may lose stands in one place,
 * local_bound(), with its reason; convolutions by transforms have a bound of
 * their own, bound_transform().
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/input_scale.h"
#include "tools/verify/verify.h"

double bound_unit(enum infer_dtype dtype)
{
    /* Integers lose nothing. */
    static const double unit[INFER_DTYPE_COUNT] = {
        [INFER_F64] = 0x1p-53,
        [INFER_F32] = 0x1p-24,
        /* and the single precision it is rounded through */
        [INFER_F16] = 0x1p-11 + 0x1p-24,
        [INFER_BF16] = 0x1p-8 + 0x1p-24,
        [INFER_F8E4M3] = 0x1p-4 + 0x1p-24};

    return unit[dtype];
}

double bound_tiny(enum infer_dtype dtype)
{
    /* The smallest normal: subnormals may be flushed. */
    static const double tiny[INFER_DTYPE_COUNT] = {[INFER_F32] = 0x1p-126,
                                                   [INFER_BF16] = 0x1p-126,
                                                   [INFER_F16] = 0x1p-25,
                                                   [INFER_F8E4M3] = 0x1p-10};

    return tiny[dtype];
}

/* ---- on absolute values -------------------------------------------- */

/* Makes the problem whose result is the sum of magnitudes. */
static void make_absolute(struct kern_problem *p)
{
    p->epilogue.act.kind = KERN_IDENTITY;
    p->epilogue.residual_last = false;
    if (p->op == KERN_CONV_FPROP)
        p->n_out = 1; /* without bn_stats */
    if (p->op == KERN_BINARY && p->attr.binary.kind == KERN_SUB)
        p->attr.binary.kind = KERN_ADD;
    if (p->op == KERN_MATMUL)
        p->attr.matmul.alpha = fabsf(p->attr.matmul.alpha);
}

/* x - mean loses what |x| + |mean| may lose, so the mean turns negative.  What
 * chooses among gradients keeps its order. */
static double magnitude(const struct kern_problem *p, int i, double v)
{
    const enum kern_reduce_kind kind = p->attr.reduce.kind;

    if (i == 1 && (p->op == KERN_POOL_DGRAD || p->op == KERN_SCATTER_ELEMENTS ||
                   (p->op == KERN_REDUCE_DGRAD &&
                    (kind == KERN_REDUCE_MAX || kind == KERN_REDUCE_MIN))))
        return v;
    return p->op == KERN_BATCH_NORM && i == 3 ? -fabs(v) : fabs(v);
}

static bool run_absolute(const struct reference *t, double *out,
                         struct infer_error *err)
{
    struct reference a = {.p = t->p, .out = {out}};
    bool ok = true;

    make_absolute(&a.p);
    for (int i = 0; i < t->p.n_in && ok; i++) {
        const enum infer_dtype dtype = t->p.in[i].dtype;
        const int64_t n = kern_tensor_count(&t->p.in[i]);
        if (dtype == INFER_NONE)
            continue;
        a.in[i] = malloc((size_t)n * infer_dtype_size(dtype) + 1);
        ok = a.in[i] != NULL;
        for (int64_t j = 0; ok && j < n; j++)
            scalar_store(dtype, a.in[i], j,
                         magnitude(&t->p, i, scalar_load(dtype, t->in[i], j)));
    }
    ok = ok && reference_run(&a, err);
    for (int i = 0; i < KERN_MAX_IN; i++)
        free(a.in[i]);
    return ok;
}

/* ---- activations --------------------------------------------------- */

/* Functions that vendors approximate in single precision: 16 units in the
 * last place of max(1, |y|) covers polynomials for exp, tanh and erf, which
 * lose relative accuracy near zero. */
double bound_function(const struct kern_unary *f, double x, double y, double u)
{
    switch (kern_unary_info(f->kind)->bound) {
    case KERN_ERROR_NONE:
        return 0;
    case KERN_ERROR_AFFINE:
        return 4 * u *
               (fabs((double)f->a * x) + fabs((double)f->b) + fabs(x) + 1);
    case KERN_ERROR_ROUNDED:
        return 4 * u * fabs(y);
    case KERN_ERROR_EXPONENTIAL: /* the argument's rounding, magnified */
        return 8 * u * fabs(y) * (1 + fabs(x));
    case KERN_ERROR_TIMES_X: /* far below zero the approximation is a difference
                              * of near equals */
        return 16 * u * fmax(1, fabs(x));
    case KERN_ERROR_APPROXIMATE:
        return 16 * u * fmax(1, fabs(y));
    }
    return 0;
}

/* ---- operations that are no plain sums ----------------------------- */

double bound_block(const struct reference *t, int i, int64_t at, int64_t n,
                   double *mean, double *inverse)
{
    const enum infer_dtype dtype = t->p.in[i].dtype;
    double square = 0, wide = 0;

    *mean = 0;
    for (int64_t j = at; j < at + n; j++)
        *mean += scalar_load(dtype, t->in[i], j) / (double)n;
    for (int64_t j = at; j < at + n; j++) {
        const double v = scalar_load(dtype, t->in[i], j);
        const double d = t->p.attr.norm.rms ? v : v - *mean;
        const double both = fabs(v) + fabs(*mean);
        square += d * d / (double)n;
        wide += both * both / (double)n;
    }
    *inverse = 1 / sqrt(square + (double)t->p.attr.norm.epsilon);
    return 1 + wide * *inverse * *inverse;
}

/* Layer and group norm: blocks are contiguous in the dense order.  The mean
 * and the variance are sums of n terms; x - mean is magnified by 1 / deviation
 * and a variance computed as E[x^2] - E[x]^2 loses `kappa` more. */
static void norm_bound(const struct reference *t, double u, double *tol)
{
    const struct kern_tensor *x = &t->p.in[0];
    const int64_t n = (int64_t)problem_terms(&t->p);
    const int64_t count = kern_tensor_count(x);

    for (int64_t at = 0; at < count; at += n) {
        double mean, inverse;
        const double kappa = bound_block(t, 0, at, n, &mean, &inverse);
        for (int64_t i = at; i < at + n; i++) {
            const double v = fabs(scalar_load(x->dtype, t->in[0], i));
            /* Scale and shift lie within -1 .. 1. */
            tol[i] = 8 * sqrt((double)n) * u * kappa *
                     (inverse * (v + fabs(mean)) + 1);
        }
    }
}

/* Each step of a recurrent layer adds the errors of a sum and of functions,
 * and enlarges those before it little (data.c says why); states that grow do so
 * by about 2 a step. */
static double recurrent_bound(const struct kern_problem *p, double y, double u)
{
    const double steps = (double)p->in[0].dim[1];

    return u * (2 * sqrt(problem_terms(p)) + 16) * (steps + 1) *
           fmax(1, fabs(y));
}

/* What an element of the result may lose where the result itself, y, says it.
 * Negative: the operation is a sum, see above. */
static double local_bound(const struct kern_problem *p, double y, double u)
{
    const double n = problem_terms(p);

    if (kern_op_info(p->op)->selects)
        return 0;
    switch (p->op) {
    case KERN_PRELU: /* one product */
        return 2 * u * fabs(y);
    case KERN_LRN: /* a sum of squares and a power */
        return 8 * u * (sqrt(n) + 4) * fabs(y);
    case KERN_SOFTMAX: /* exp of up to 16 in magnitude, then a sum */
        return 8 * u * (sqrt(n) + 16) * fmax(fabs(y), p->attr.softmax.log);
    case KERN_REDUCE:
        if (p->attr.reduce.kind == KERN_REDUCE_MAX ||
            p->attr.reduce.kind == KERN_REDUCE_MIN)
            return 0;
        /* With a residual the product may be larger than y. */
        if (p->attr.reduce.kind == KERN_REDUCE_PROD && !kern_problem_in(p, 1))
            return 8 * u * sqrt(n) * fabs(y);
        return -1;
    case KERN_CUMULATE:
        return p->attr.cumulate.product ? 8 * u * sqrt(n) * fabs(y) : -1;
    case KERN_SCATTER_ELEMENTS:
        switch (p->attr.scatter.kind) {
        case KERN_SCATTER_ADD:
            return -1;
        case KERN_SCATTER_MUL:
            return 8 * u * sqrt(n) * fabs(y);
        case KERN_SCATTER_SET:
        case KERN_SCATTER_MIN:
        case KERN_SCATTER_MAX:
            break;
        }
        return 0;
    case KERN_RESIZE: /* n: largest extent; coordinates in single precision
                       * move the weights of values within -1 .. 1 */
        return p->attr.resize.mode == KERN_NEAREST ? 0 : 16 * u * n;
    case KERN_BINARY:
        if (kern_problem_in(p, 2) || p->epilogue.act.kind != KERN_IDENTITY)
            return -1;
        switch (p->attr.binary.kind) {
        case KERN_ADD:
        case KERN_SUB:
        case KERN_MUL:
        case KERN_DIV:
            return -1;
        case KERN_POW:
            return 32 * u * fabs(y);
        case KERN_MOD: /* the divisor is at most 1.5 */
            return 8 * u;
        case KERN_MIN:
        case KERN_MAX:
        case KERN_BIT_AND:
        case KERN_BIT_OR:
        case KERN_BIT_XOR:
        case KERN_SHIFT_LEFT:
        case KERN_SHIFT_RIGHT:
        case KERN_EQUAL:
        case KERN_LESS:
        case KERN_LESS_EQUAL:
        case KERN_GREATER:
        case KERN_GREATER_EQUAL:
        case KERN_AND:
        case KERN_OR:
        case KERN_BINARY_COUNT:
            break;
        }
        return 0;
    case KERN_REQUANTIZE: /* integers */
        return 0;
    case KERN_CONV_FPROP:
    case KERN_CONV_TRANSPOSE_FPROP:
    case KERN_CONV_WGRAD:
    case KERN_DENSE_FPROP:
    case KERN_MATMUL:
    case KERN_SQUEEZE_EXCITE:
    case KERN_CHAIN:
    case KERN_POOL_FPROP:
    case KERN_POOL_DGRAD:
    case KERN_BATCH_NORM:
    case KERN_SCALE_SHIFT:
    case KERN_REDUCE_DGRAD:
        return -1;
    case KERN_RECURRENT:
        return recurrent_bound(p, y, u);
    case KERN_UNARY: /* of bound_fill() and bound_train() */
    case KERN_ATTENTION:
    case KERN_LAYER_NORM:
    case KERN_GROUP_NORM:
    case KERN_BATCH_NORM_TRAIN:
    case KERN_BATCH_NORM_DGRAD:
    case KERN_LAYER_NORM_DGRAD:
    case KERN_GROUP_NORM_DGRAD:
    case KERN_UNARY_DGRAD:
    case KERN_LRN_DGRAD:
    case KERN_PRELU_DGRAD:
    case KERN_RESIZE_DGRAD:
    case KERN_DROPOUT:
    case KERN_CROSS_ENTROPY:
    case KERN_STEP:
    case KERN_UPDATE:
    case KERN_WHERE: /* selects */
    case KERN_ARG_REDUCE:
    case KERN_GATHER:
    case KERN_GATHER_ELEMENTS:
    case KERN_TOP_K:
    case KERN_NMS:
    case KERN_PAD:
    case KERN_COPY:
    case KERN_OP_COUNT:
        break;
    }
    return 0;
}

/* ---- all ----------------------------------------------------------- */

static double sum_terms(const struct kern_problem *p)
{
    const bool top =
        p->op == KERN_POOL_FPROP && p->attr.pool.kind == KERN_POOL_MAX;

    return top ? 0 : problem_terms(p);
}

/* u: of the accumulator; factor: what the rounding of both factors may change
 * in a product; tiny: what roundings below the smallest normal may change in
 * the sum. */
static bool sum_bound(const struct reference *t, double u, double factor,
                      double tiny, double *tol, struct infer_error *err)
{
    const int64_t count = kern_tensor_count(&t->p.out[0]);
    const struct kern_unary *act = &t->p.epilogue.act;

    if (!run_absolute(t, tol, err))
        return false;
    for (int64_t i = 0; i < count; i++) {
        const double total = tol[i], y = ((const double *)t->out[0])[i];
        tol[i] =
            kern_unary_steepest(act) *
                ((8 * sqrt(sum_terms(&t->p)) * u + factor) * total + tiny) +
            bound_function(act, total, y, u);
    }
    return true;
}

/* A bias rounded to the output's type, as vendors' kernels for 16 bits read
 * it, may move a result by half of its last place.  It lies along dimension 1,
 * or along the last of a dense layer. */
static void add_bias_rounding(const struct reference *t, enum infer_dtype dtype,
                              double *tol)
{
    const struct kern_tensor *y = &t->p.out[0], *b = &t->p.in[2];
    const int at = t->p.op == KERN_DENSE_FPROP ? y->rank - 1 : 1;
    const double u = bound_unit(dtype),
                 most = kern_unary_steepest(&t->p.epilogue.act);
    int64_t inner = 1;

    for (int i = at + 1; i < y->rank; i++)
        inner *= y->dim[i];
    for (int64_t i = 0; i < kern_tensor_count(y); i++)
        tol[i] += most * u *
                  fabs(scalar_load(b->dtype, t->in[2], i / inner % y->dim[at]));
}

/* What a row that knows factors may lose where it rounds x times its factor to
 * x's type: a unit of each product and, where that is subnormal, half of the
 * smallest number, times a weight, which lies within -1 .. 1. */
static double input_scale_loss(const struct kern_exec *e, double *tiny)
{
    const bool there = input_scale_of(&e->problem) != NULL;
    const enum infer_dtype dtype = e->problem.in[0].dtype;

    *tiny = there ? problem_terms(&e->problem) * bound_tiny(dtype) : 0;
    return there ? bound_unit(dtype) : 0;
}

/* Rows whose tensor cores keep 13 bits behind the point of the largest term
 * and cut off the rest, in sums of at most KERN_SHORT_TERMS products, which
 * then are added in single precision: the bound of sums, with half of that
 * place for a unit and one part's terms. */
static double short_sums(const struct kern_problem *p)
{
    const double n = problem_terms(p);

    return 8 * sqrt(n < KERN_SHORT_TERMS ? n : KERN_SHORT_TERMS) * 0x1p-14;
}

/* Moments are measured on outputs that have their own bound. */
static bool bn_stats_bound(const struct reference *t, const struct kern_exec *e,
                           double u, double *tol, struct infer_error *err)
{
    const size_t count = (size_t)kern_tensor_count(&t->p.out[0]);
    double *y = calloc(count + 1, sizeof(*y));
    const bool ok = y && bound_fill(t, 0, e, y, err);

    if (ok)
        bound_bn_stats(t, e->problem.out[0].dtype, u, y, tol);
    free(y);
    return ok;
}

bool bound_fill(const struct reference *t, int o, const struct kern_exec *e,
                double *tol, struct infer_error *err)
{
    /* TF32 has 10 bits behind the point; tensor cores may cut the rest off. */
    const double factor = e->flags & KERN_TF32         ? 2 * 0x1p-10
                          : e->flags & KERN_SHORT_SUMS ? short_sums(&t->p)
                                                       : 0;
    const int64_t count = kern_tensor_count(&t->p.out[o]);
    const double u = bound_unit(e->row->acc);
    const enum bound_way way = bound_way(e->row);
    const double *y = t->out[o];

    if (t->p.out[o].dtype != INFER_F64) { /* integers: exact */
        memset(tol, 0, (size_t)count * sizeof(*tol));
        return true;
    }
    if (bound_train(t, o, u, tol))
        return true;
    if (t->p.op == KERN_CONV_FPROP && o == 1)
        return bn_stats_bound(t, e, u, tol, err);
    if (t->p.op == KERN_SQUEEZE_EXCITE)
        return bound_squeeze(t, u, tol);
    if (t->p.op == KERN_CHAIN)
        return bound_chain(t, e, tol, err);
    if (t->p.op == KERN_ATTENTION)
        return bound_attention(t, e->problem.in[KERN_ATTENTION_V].dtype, u,
                               tol);
    if (t->p.op == KERN_LAYER_NORM || t->p.op == KERN_GROUP_NORM) {
        norm_bound(t, u, tol);
        return true;
    }
    if (t->p.op == KERN_UNARY) {
        for (int64_t i = 0; i < count; i++)
            tol[i] = bound_function(&t->p.attr.unary,
                                    scalar_load(t->p.in[0].dtype, t->in[0], i),
                                    y[i], u);
        return true;
    }
    if (way != BOUND_SUMS) {
        bound_transform(t, way, u, tol);
        return true;
    }
    if (count > 0 && local_bound(&t->p, y[0], u) < 0) {
        double tiny;
        const double lost = input_scale_loss(e, &tiny);
        const bool ok = sum_bound(t, u, factor + lost, tiny, tol, err);
        if (ok && (e->flags & KERN_ROUNDS_BIAS) && kern_problem_in(&t->p, 2))
            add_bias_rounding(t, e->problem.out[0].dtype, tol);
        return ok;
    }
    for (int64_t i = 0; i < count; i++)
        tol[i] = local_bound(&t->p, y[i], u);
    return true;
}
