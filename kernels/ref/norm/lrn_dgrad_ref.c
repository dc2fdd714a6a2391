/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of local response normalisation.  With s the denominator before its
 * power, dx_c = dy_c s_c^-beta - 2 alpha beta / size x_c * the sum of
 * dy_i x_i s_i^(-beta - 1) over the channels i whose window holds c. */
#include <math.h>

#include "kernels/ref/ref.h"

/* s of channel c; at is the offset of channel 0. */
static double denominator(const struct kern_problem *p, const void *base,
                          int64_t at, int64_t c)
{
    const struct kern_lrn *a = &p->attr.lrn;
    const struct kern_tensor *x = &p->in[1];
    const int64_t below = (a->size - 1) / 2, above = a->size - 1 - below;
    double sum = 0;

    for (int64_t i = c - below; i <= c + above; i++)
        if (i >= 0 && i < x->dim[1]) {
            const double v = ref_load(x->dtype, base, at + i * x->stride[1]);
            sum += v * v;
        }
    return (double)a->bias + (double)a->alpha / a->size * sum;
}

/* dx of channel c; dy and x are the offsets of channel 0. */
static double gradient(const struct kern_problem *p,
                       const struct kern_args *args, int64_t dy, int64_t x,
                       int64_t c)
{
    const struct kern_lrn *a = &p->attr.lrn;
    const struct kern_tensor *tdy = &p->in[0], *tx = &p->in[1];
    const int64_t below = (a->size - 1) / 2, above = a->size - 1 - below;
    const double beta = (double)a->beta;
    double sum = 0;

    /* Channel i's window holds c where i - below <= c <= i + above. */
    for (int64_t i = c - above; i <= c + below; i++)
        if (i >= 0 && i < tx->dim[1])
            sum += ref_load(tdy->dtype, args->in[0], dy + i * tdy->stride[1]) *
                   ref_load(tx->dtype, args->in[1], x + i * tx->stride[1]) *
                   pow(denominator(p, args->in[1], x, i), -beta - 1);
    return ref_load(tdy->dtype, args->in[0], dy + c * tdy->stride[1]) *
               pow(denominator(p, args->in[1], x, c), -beta) -
           2 * (double)a->alpha * beta / a->size *
               ref_load(tx->dtype, args->in[1], x + c * tx->stride[1]) * sum;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *dy = &p->in[0], *x = &p->in[1], *dx = &p->out[0];
    const struct kern_tensor *residual = kern_problem_in(p, 2);
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, dx->rank, dx->dim);
    ref_walk_add(&w, dy);
    ref_walk_add(&w, x);
    ref_walk_add(&w, dx);
    if (residual)
        ref_walk_add(&w, residual);
    for (; !w.done; ref_walk_next(&w)) {
        const int64_t c = w.index[1];
        ref_store(dx->dtype, args->out[0], w.offset[2],
                  gradient(p, args, w.offset[0] - c * dy->stride[1],
                           w.offset[1] - c * x->stride[1], c) +
                      ref_optional(residual, args->in[2], w.offset[3], 0));
    }
    return 0;
}

KERN_FUNCTIONS(lrn_dgrad_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
