/* SPDX-License-Identifier: Apache-2.0 */
/* How far the moments that a convolution gives (kernels/bn_stats.h) may be from
 * the reference. */
#include <math.h>
#include <stdlib.h>

#include "kernels/bn_stats.h"
#include "tools/verify/verify.h"

/* Part `at` of channel k. */
struct part {
    const struct reference *t;
    const double *tol; /* of the outputs, rounding left out */
    double unit;       /* of the type that they are stored in */
    int64_t k, first, end;
};

/* Element i of the part: its pixel of channel k in the dense, row-major order
 * of the reference. */
static int64_t place(const struct part *v, int64_t i)
{
    const struct kern_tensor *y = &v->t->p.out[0];
    int64_t inner = 1;

    for (int d = 2; d < y->rank; d++)
        inner *= y->dim[d];
    return (i / inner * y->dim[1] + v->k) * inner + i % inner;
}

/* What is measured is y as it is stored, each element e_i off the reference's:
 * by the bound of the sum and by its rounding.  The mean is off by the mean of
 * these, and by what a sum of n terms loses.  A deviation d_i then is off by
 * e_i and the mean's error m, and a square by 2 |d_i| (e_i + m) + (e_i + m)^2;
 * the sum of squares loses what one of n terms does. */
static void bound_part(const struct part *v, double u, double *mean,
                       double *squares)
{
    const double *y = v->t->out[0];
    const double n = (double)(v->end - v->first), sums = 8 * sqrt(n) * u;
    double total = 0, size = 0, off = 0, spread = 0;

    for (int64_t i = v->first; i < v->end; i++) {
        const int64_t at = place(v, i);
        total += y[at] / n;
        size += fabs(y[at]) / n;
        off += (v->tol[at] + v->unit * fabs(y[at])) / n;
    }
    *mean = off + sums * size;
    for (int64_t i = v->first; i < v->end; i++) {
        const int64_t at = place(v, i);
        const double d = fabs(y[at] - total);
        const double e = v->tol[at] + v->unit * fabs(y[at]) + *mean;
        spread += 2 * d * e + e * e + sums * (d + e) * (d + e);
    }
    *squares = spread;
}

void bound_bn_stats(const struct reference *t, enum infer_dtype stored,
                    double u, const double *y_tol, double *tol)
{
    const struct kern_tensor *bn_stats = &t->p.out[1], *y = &t->p.out[0];
    const int64_t k = y->dim[1], pixels = kern_tensor_count(y) / k;
    const int64_t size = bn_stats_part(bn_stats->dim[0], pixels);

    for (int64_t i = 0; i < bn_stats->dim[0]; i++)
        for (int64_t c = 0; c < k; c++) {
            const int64_t end = (i + 1) * size;
            const struct part v = {.t = t,
                                   .tol = y_tol,
                                   .unit = bound_unit(stored),
                                   .k = c,
                                   .first = i * size,
                                   .end = end < pixels ? end : pixels};
            bound_part(&v, u, &tol[i * 2 * k + c], &tol[(i * 2 + 1) * k + c]);
        }
}
