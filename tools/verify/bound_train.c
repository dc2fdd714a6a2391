/* SPDX-License-Identifier: Apache-2.0 */
/* How far rows of training may be from the reference, where their result is no
 * plain sum.  u is the accumulator's half unit in the last place; inputs lie as
 * data_train.c and data.c draw them, most within -1 .. 1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bn_stats.h"
#include "tools/verify/verify.h"

static double load(const struct reference *t, int i, int64_t at)
{
    return scalar_load(t->p.in[i].dtype, t->in[i], at);
}

/* ---- batch norm ---------------------------------------------------- */

/* Sums over a channel of n elements, dense row-major: element j of channel c
 * is at (j / inner * C + c) * inner + j % inner. */
struct channel {
    int64_t c, channels, inner, n;
};

static struct channel channel_of(const struct kern_tensor *x, int64_t c)
{
    struct channel ch = {.c = c, .channels = x->dim[1], .inner = 1};

    for (int d = 2; d < x->rank; d++)
        ch.inner *= x->dim[d];
    ch.n = x->dim[0] * ch.inner;
    return ch;
}

static int64_t place(const struct channel *ch, int64_t j)
{
    return (j / ch->inner * ch->channels + ch->c) * ch->inner + j % ch->inner;
}

/* Of x itself, or as the moments of its parts say; square: what mean^2 is in a
 * condition number, there that of the largest mean of a part. */
struct statistics {
    double mean, var, square;
};

static struct statistics measure(const struct reference *t,
                                 const struct channel *ch)
{
    const double n = (double)ch->n;
    struct statistics s = {0, 0, 0};

    for (int64_t j = 0; j < ch->n; j++)
        s.mean += load(t, 0, place(ch, j)) / n;
    for (int64_t j = 0; j < ch->n; j++) {
        const double d = load(t, 0, place(ch, j)) - s.mean;
        s.var += d * d / n;
    }
    s.square = s.mean * s.mean;
    return s;
}

static struct statistics join(const struct reference *t,
                              const struct channel *ch)
{
    const int64_t parts = t->p.in[6].dim[0];
    const int64_t size = bn_stats_part(parts, ch->n);
    struct statistics s = {0, 0, 0};

    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < parts; i++) {
            const int64_t at = i * 2 * ch->channels + ch->c;
            const int64_t left = ch->n - i * size;
            const double weight =
                (double)(left < size ? left : size) / (double)ch->n;
            const double mean = load(t, 6, at), d = mean - s.mean;
            if (pass == 0)
                s.mean += weight * mean;
            else
                s.var += weight * d * d +
                         load(t, 6, at + ch->channels) / (double)ch->n;
            s.square = fmax(s.square, mean * mean);
        }
    return s;
}

/* Mean and variance are sums of n terms; x - mean is magnified by 1 / deviation
 * and a variance computed as E[x^2] - E[x]^2 loses the condition number
 * kappa = (E[x^2] + E[x]^2) / var more. */
static void train_channel(const struct reference *t, int o,
                          const struct channel *ch, double u, double *tol)
{
    const double n = (double)ch->n, sums = 8 * sqrt(n) * u;
    const struct statistics s =
        bn_stats_of(&t->p) ? join(t, ch) : measure(t, ch);
    const double mean = s.mean, var = s.var;
    const double inverse = 1 / sqrt(var + (double)t->p.attr.norm.epsilon);
    const double kappa = 1 + (var + 2 * s.square) * inverse * inverse;
    if (o == 0) {
        for (int64_t j = 0; j < ch->n; j++) {
            const double v = fabs(load(t, 0, place(ch, j)));
            /* Scale, shift and residual lie within -1 .. 1; no activation's
             * slope is above 1. */
            tol[place(ch, j)] = sums * kappa * (inverse * (v + fabs(mean)) + 2);
        }
    } else if (o == 2) {
        tol[ch->c] = sums * kappa * inverse;
    } else {
        /* Statistics of values within -1 .. 1, or variances of up to 12 as
         * moments are drawn; n / (n - 1) is at most 2. */
        tol[ch->c] = sums * 4 * fmax(1, var);
    }
}

/* dx = scale inverse (dz - mean dz - xn mean(dz xn)): each part loses what a
 * sum of n terms does. */
static void dgrad_channel(const struct reference *t, int o,
                          const struct channel *ch, double u, double *tol)
{
    const double n = (double)ch->n, sums = 8 * sqrt(n) * u;
    const double mean = load(t, 3, ch->c), inverse = load(t, 4, ch->c);
    const double scale = load(t, 2, ch->c);
    double dz = 0, product = 0;

    /* |dz| <= |dy|: the slopes here, of values within -1 .. 1, are at most 1.
     */
    for (int64_t j = 0; j < ch->n; j++) {
        const double g = fabs(load(t, 0, place(ch, j)));
        const double xn =
            (fabs(load(t, 1, place(ch, j))) + fabs(mean)) * inverse;
        dz += g;
        product += g * xn;
    }
    if (o == 1 || o == 2) {
        tol[ch->c] = sums * ((o == 1 ? product : dz) + 1);
        return;
    }
    for (int64_t j = 0; j < ch->n; j++) {
        const double g = fabs(load(t, 0, place(ch, j)));
        const double xn =
            (fabs(load(t, 1, place(ch, j))) + fabs(mean)) * inverse;
        tol[place(ch, j)] = o == 3 ? 8 * u * g
                                   : sums * fabs(scale) * inverse *
                                         (g + (dz + xn * product) / n);
    }
}

static void batch_norm_bound(const struct reference *t, int o, double u,
                             double *tol)
{
    const struct kern_tensor *x = &t->p.in[0];

    for (int64_t c = 0; c < x->dim[1]; c++) {
        const struct channel ch = channel_of(x, c);
        if (t->p.op == KERN_BATCH_NORM_TRAIN)
            train_channel(t, o, &ch, u, tol);
        else
            dgrad_channel(t, o, &ch, u, tol);
    }
}

/* ---- layer and group norm ------------------------------------------ */

/* As batch norm's, over blocks that are contiguous in the dense order; but the
 * statistics are made here, so that a variance computed as E[x^2] - E[x]^2
 * loses the condition number kappa more. */
static void norm_block(const struct reference *t, int o, int64_t at, int64_t n,
                       double u, double *tol)
{
    const double sums = 8 * sqrt((double)n) * u;
    double mean, inverse, dy = 0, product = 0;
    const double kappa = bound_block(t, 1, at, n, &mean, &inverse);

    for (int64_t i = at; i < at + n; i++) {
        const double g = fabs(load(t, 0, i));
        dy += g / (double)n;
        product += g * (fabs(load(t, 1, i)) + fabs(mean)) * inverse / (double)n;
    }
    for (int64_t i = at; i < at + n; i++) {
        /* The scale lies within -1 .. 1. */
        const double g = fabs(load(t, 0, i));
        const double xn = (fabs(load(t, 1, i)) + fabs(mean)) * inverse;
        tol[i] = sums * kappa *
                 (o == 1 ? g * xn : inverse * (g + dy + xn * product) + 1);
    }
}

static void norm_bound(const struct reference *t, int o, double u, double *tol)
{
    const int64_t n = (int64_t)problem_terms(&t->p);
    const int64_t count = kern_tensor_count(&t->p.out[o]);

    for (int64_t at = 0; at < count; at += n)
        norm_block(t, o, at, n, u, tol);
}

/* ---- element by element -------------------------------------------- */

/* Slopes are polynomials of exp, tanh and erf, each 16 units off, times x up
 * to its square; the product with dy and the sum with a residual follow. */
static double unary_bound(const struct reference *t, int64_t i, double y,
                          double u)
{
    const double x = load(t, kern_problem_in(&t->p, 1) ? 1 : 2, i);
    const double residual = kern_problem_in(&t->p, 3) ? load(t, 3, i) : 0;

    return u * (64 * (1 + x * x) * fabs(load(t, 0, i)) +
                16 * (1 + fabs(x)) * (fabs(y) + fabs(residual)));
}

static double cross_entropy_bound(const struct kern_problem *p, int o,
                                  double loss_scale, double y, double u)
{
    /* exp of up to 16 in magnitude, then a sum over the classes. */
    const double each = 8 * u * (sqrt((double)p->in[0].dim[1]) + 24);

    if (o == 2)
        return 0;
    if (o == 0)
        return each * (1 + fabs(y));
    return each * fabs((double)p->attr.cross_entropy.scale * loss_scale);
}

/* Weights lose what the forward pass's do, and as many of them meet in an
 * element as the picture grows. */
static double resize_bound(const struct kern_problem *p, double u)
{
    const struct kern_tensor *dy = &p->in[0], *dx = &p->out[0];
    double terms = 1;

    for (int i = 0; i < dx->rank; i++)
        if (dx->dim[i] > 0)
            terms *= 1 + (double)dy->dim[i] / (double)dx->dim[i];
    return 16 * u * problem_terms(p) * terms;
}

/* Operations whose outputs are elements of their own. */
static const bool by_element[KERN_OP_COUNT] = {
    [KERN_UNARY_DGRAD] = true, [KERN_LRN_DGRAD] = true,
    [KERN_PRELU_DGRAD] = true, [KERN_RESIZE_DGRAD] = true,
    [KERN_DROPOUT] = true,     [KERN_CROSS_ENTROPY] = true,
    [KERN_STEP] = true,        [KERN_UPDATE] = true};

static double element_bound(const struct reference *t, int o, int64_t i,
                            double y, double u)
{
    const struct kern_problem *p = &t->p;

    if (p->op == KERN_UNARY_DGRAD)
        return unary_bound(t, i, y, u);
    /* dy, 2 alpha beta |x| mean |dy x| and a residual, each at most 1; sums of
     * squares and powers */
    if (p->op == KERN_LRN_DGRAD)
        return 8 * u * (sqrt(problem_terms(p)) + 8) * 3;
    if (p->op == KERN_PRELU_DGRAD) /* a product, and a sum with a residual */
        return 4 * u *
               (fabs(y) +
                (o == 0 && kern_problem_in(p, 3) ? fabs(load(t, 3, i)) : 0));
    if (p->op == KERN_RESIZE_DGRAD)
        return resize_bound(p, u);
    if (p->op == KERN_DROPOUT) /* one product with a rounded factor */
        return 4 * u * fabs(y);
    if (p->op == KERN_CROSS_ENTROPY)
        return cross_entropy_bound(
            p, o, kern_problem_in(p, 2) ? load(t, 2, KERN_STEP_LOSS_SCALE) : 1,
            y, u);
    if (p->op == KERN_STEP) /* quotients, and powers in double precision */
        return isfinite(y) ? 8 * u * fmax(1, fabs(y)) : 0;
    if (p->op == KERN_UPDATE) /* all within a few units, v from 0.5 on */
        return 64 * u * (1 + fabs(y));
    return 0;
}

bool bound_train(const struct reference *t, int o, double u, double *tol)
{
    const enum kern_op op = t->p.op;
    const double *y = t->out[o];
    const bool batch =
        op == KERN_BATCH_NORM_TRAIN || op == KERN_BATCH_NORM_DGRAD;
    const bool block =
        op == KERN_LAYER_NORM_DGRAD || op == KERN_GROUP_NORM_DGRAD;

    if (batch)
        batch_norm_bound(t, o, u, tol);
    if (block)
        norm_bound(t, o, u, tol);
    for (int64_t i = 0; by_element[op] && i < kern_tensor_count(&t->p.out[o]);
         i++)
        tol[i] = element_bound(t, o, i, y[i], u);
    return batch || block || by_element[op];
}
