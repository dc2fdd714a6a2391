/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a row of squeeze and excitation may be from the reference.
 *
 * It keeps what lies between in its accumulator.  With A = sum |w| mean |x| +
 * |bias|, a mean of P pixels and a sum of C products lose together
 * 8 (sqrt(P) + sqrt(C)) u A; the function behind them passes that on by its
 * slope and loses what it may itself.  What the first layer has lost reaches an
 * output through |w2|, and the second layer's own sum is bounded as any other.
 */
#include <math.h>
#include <stdlib.h>

#include "kernels/ref/ref.h"
#include "tools/verify/verify.h"

enum { X, W, W2, BIAS, BIAS2 };

/* Element `at` of input i, 0 where that is absent. */
static double load(const struct reference *t, int i, int64_t at)
{
    const struct kern_tensor *in = kern_problem_in(&t->p, i);

    return in ? scalar_load(in->dtype, t->in[i], at) : 0;
}

/* mean[c] and mean[C + c], the latter of magnitudes. */
static void take_means(const struct reference *t, int64_t n, int64_t pixels,
                       double *mean)
{
    const int64_t channels = t->p.in[X].dim[1];

    for (int64_t c = 0; c < channels; c++) {
        mean[c] = mean[channels + c] = 0;
        for (int64_t i = 0; i < pixels; i++) {
            const double v = load(t, X, (n * channels + c) * pixels + i);
            mean[c] += v / (double)pixels;
            mean[channels + c] += fabs(v) / (double)pixels;
        }
    }
}

/* The first layer's values, in magnitude, and behind them their bounds. */
static void bound_hidden(const struct reference *t, double u, double pixels,
                         const double *mean, double *hidden)
{
    const struct kern_unary *act = &t->p.attr.squeeze_excite.act;
    const int64_t rows = t->p.in[W].dim[0], channels = t->p.in[W].dim[1];

    for (int64_t r = 0; r < rows; r++) {
        double sum = load(t, BIAS, r), total = fabs(sum);
        for (int64_t c = 0; c < channels; c++) {
            const double w = load(t, W, r * channels + c);
            sum += w * mean[c];
            total += fabs(w) * mean[channels + c];
        }
        const double y = ref_unary(act, sum);
        hidden[r] = fabs(y);
        hidden[rows + r] = kern_unary_steepest(act) * 8 *
                               (sqrt(pixels) + sqrt((double)channels)) * u *
                               total +
                           bound_function(act, total, y, u);
    }
}

static void bound_outputs(const struct reference *t, double u, int64_t n,
                          const double *hidden, double *tol)
{
    const struct kern_unary *act = &t->p.epilogue.act;
    const int64_t outputs = t->p.in[W2].dim[0], rows = t->p.in[W2].dim[1];

    for (int64_t k = 0; k < outputs; k++) {
        const double y = ((const double *)t->out[0])[n * outputs + k];
        double total = fabs(load(t, BIAS2, k)), lost = 0;
        for (int64_t r = 0; r < rows; r++) {
            const double w = fabs(load(t, W2, k * rows + r));
            total += w * hidden[r];
            lost += w * hidden[rows + r];
        }
        tol[n * outputs + k] = kern_unary_steepest(act) *
                                   (lost + 8 * sqrt((double)rows) * u * total) +
                               bound_function(act, total, y, u);
    }
}

bool bound_squeeze(const struct reference *t, double u, double *tol)
{
    const struct kern_tensor *x = &t->p.in[X];
    const size_t values = 2 * (size_t)(x->dim[1] + t->p.in[W].dim[0]);
    double *mean = calloc(values + 1, sizeof(*mean));
    const bool ok = mean != NULL;
    int64_t pixels = 1;

    for (int i = 2; i < x->rank; i++)
        pixels *= x->dim[i];
    for (int64_t n = 0; ok && n < x->dim[0]; n++) {
        take_means(t, n, pixels, mean);
        bound_hidden(t, u, (double)pixels, mean, mean + 2 * x->dim[1]);
        bound_outputs(t, u, n, mean + 2 * x->dim[1], tol);
    }
    free(mean);
    return ok;
}
