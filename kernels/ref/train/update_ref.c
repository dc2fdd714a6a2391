/* SPDX-License-Identifier: Apache-2.0 */
/* One step of an optimiser over a flat range of weights. */
#include <math.h>

#include "kernels/ref/ref.h"

enum { W, DW, RATE, STEP, M, V, AVERAGE };

/* One weight and what belongs to it. */
struct weight {
    double w, g, m, v, average;
};

static double element(const struct kern_problem *p,
                      const struct kern_args *args, int i, int64_t at,
                      double absent)
{
    const struct kern_tensor *t = kern_problem_in(p, i);

    return ref_optional(t, args->in[i], t ? at * t->stride[0] : 0, absent);
}

static void adam(struct weight *x, const struct kern_update *a, double rate,
                 double c1, double c2)
{
    x->m = (double)a->beta1 * x->m + (1 - (double)a->beta1) * x->g;
    x->v = (double)a->beta2 * x->v + (1 - (double)a->beta2) * x->g * x->g;
    x->w -= rate * (x->m / c1) / (sqrt(x->v / c2) + (double)a->epsilon);
}

/* m = momentum m + d, or d itself. */
static double momentum(struct weight *x, const struct kern_update *a, bool has,
                       double d)
{
    if (!has)
        return d;
    x->m = (double)a->beta1 * x->m + d;
    return a->nesterov ? d + (double)a->beta1 * x->m : x->m;
}

static void update(struct weight *x, const struct kern_problem *p,
                   const struct kern_args *args)
{
    const struct kern_update *a = &p->attr.update;
    const double rate = element(p, args, RATE, 0, 0);
    const double decay = (double)a->decay;
    const bool has_m = kern_problem_in(p, M) != NULL;

    if (a->kind == KERN_UPDATE_ADAMW)
        x->w -= rate * decay * x->w;
    else
        x->g += decay * x->w;
    switch (a->kind) {
    case KERN_UPDATE_SGD:
        x->w -= rate * momentum(x, a, has_m, x->g);
        break;
    case KERN_UPDATE_RMSPROP:
        x->v = (double)a->beta2 * x->v + (1 - (double)a->beta2) * x->g * x->g;
        x->w -= rate *
                momentum(x, a, has_m, x->g / (sqrt(x->v) + (double)a->epsilon));
        break;
    case KERN_UPDATE_ADAM:
    case KERN_UPDATE_ADAMW:
        adam(x, a, rate, element(p, args, STEP, KERN_STEP_CORRECTION1, 1),
             element(p, args, STEP, KERN_STEP_CORRECTION2, 1));
        break;
    case KERN_UPDATE_NONE:
    case KERN_UPDATE_KIND_COUNT:
        break;
    }
}

static void store(const struct kern_problem *p, const struct kern_args *args,
                  int o, int64_t i, double v)
{
    const struct kern_tensor *t = kern_problem_out(p, o);

    if (t)
        ref_store(t->dtype, args->out[o], i * t->stride[0], v);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_update *a = &p->attr.update;
    const double factor = element(p, args, STEP, KERN_STEP_FACTOR, 1);
    const double keep = (double)a->average_decay;

    (void)err;
    for (int64_t i = 0; i < p->in[W].dim[0]; i++) {
        struct weight x = {.w = element(p, args, W, i, 0),
                           .g = element(p, args, DW, i, 0) * factor,
                           .m = element(p, args, M, i, 0),
                           .v = element(p, args, V, i, 0),
                           .average = element(p, args, AVERAGE, i, 0)};
        if (factor != 0) {
            if (a->kind != KERN_UPDATE_NONE)
                update(&x, p, args);
            x.average = keep * x.average + (1 - keep) * x.w;
        }
        store(p, args, KERN_UPDATE_W, i, x.w);
        store(p, args, KERN_UPDATE_M, i, x.m);
        store(p, args, KERN_UPDATE_V, i, x.v);
        store(p, args, KERN_UPDATE_AVERAGE, i, x.average);
        store(p, args, KERN_UPDATE_COPY, i, x.w);
    }
    return 0;
}

KERN_FUNCTIONS(update_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
