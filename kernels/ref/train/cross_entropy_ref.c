/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, cross-entropy with smoothed labels, and the gradient of both. */
#include <math.h>

#include "kernels/ref/ref.h"

struct row {
    const struct kern_problem *p;
    const struct kern_args *args;
    int64_t n, label;
    double log_sum; /* log of the sum of exp(logit) */
};

static double logit(const struct row *r, int64_t c)
{
    const struct kern_tensor *x = &r->p->in[0];

    return ref_load(x->dtype, r->args->in[0],
                    r->n * x->stride[0] + c * x->stride[1]);
}

static double target(const struct row *r, int64_t c)
{
    const double smoothing = (double)r->p->attr.cross_entropy.smoothing;

    return smoothing / (double)r->p->in[0].dim[1] +
           (c == r->label ? 1 - smoothing : 0);
}

static double log_sum(const struct row *r)
{
    const int64_t classes = r->p->in[0].dim[1];
    double top = logit(r, 0), sum = 0;

    for (int64_t c = 1; c < classes; c++)
        if (logit(r, c) > top)
            top = logit(r, c);
    for (int64_t c = 0; c < classes; c++)
        sum += exp(logit(r, c) - top);
    return top + log(sum);
}

static double loss(const struct row *r)
{
    double sum = 0;

    for (int64_t c = 0; c < r->p->in[0].dim[1]; c++)
        if (target(r, c) > 0)
            sum += target(r, c) * (r->log_sum - logit(r, c));
    return sum;
}

static bool hit(const struct row *r)
{
    const double own = logit(r, r->label);

    for (int64_t c = 0; c < r->p->in[0].dim[1]; c++)
        if (c != r->label &&
            !(c < r->label ? logit(r, c) < own : logit(r, c) <= own))
            return false;
    return true;
}

static void store_gradient(const struct row *r, bool counts, double scale)
{
    const struct kern_tensor *dx = &r->p->out[1];

    for (int64_t c = 0; c < dx->dim[1]; c++)
        ref_store(dx->dtype, r->args->out[1],
                  r->n * dx->stride[0] + c * dx->stride[1],
                  counts
                      ? scale * (exp(logit(r, c) - r->log_sum) - target(r, c))
                      : 0);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *step = kern_problem_in(p, 2);
    const double loss_scale =
        ref_optional(step, args->in[2],
                     step ? KERN_STEP_LOSS_SCALE * step->stride[0] : 0, 1);
    const double scale = (double)p->attr.cross_entropy.scale * loss_scale;

    (void)err;
    for (int64_t n = 0; n < p->in[0].dim[0]; n++) {
        struct row r = {.p = p, .args = args, .n = n};
        r.label = scalar_load_i64(p->in[1].dtype, args->in[1],
                                  n * p->in[1].stride[0]);
        const bool counts = r.label >= 0 && r.label < p->in[0].dim[1];
        if (counts)
            r.log_sum = log_sum(&r);
        ref_store(p->out[0].dtype, args->out[0], n * p->out[0].stride[0],
                  counts ? loss(&r) : 0);
        if (kern_problem_out(p, 1))
            store_gradient(&r, counts, scale);
        if (kern_problem_out(p, 2))
            ref_store(p->out[2].dtype, args->out[2], n * p->out[2].stride[0],
                      counts && hit(&r));
    }
    return 0;
}

KERN_FUNCTIONS(cross_entropy_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
