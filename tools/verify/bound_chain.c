/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a row of chains may be from the reference.
 *
 * Middle values have the bound of their convolution and may be rounded to the
 * type of the activations.  What they have lost reaches an output through the
 * second weights' magnitudes; the second sum is bounded as any other.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/chain/chain.h"
#include "tools/verify/verify.h"

/* The parts of a chain, with arrays of their own. */
struct parts {
    struct reference first, second, lost;
    double *middle, *middle_tol, *y_lost;
    void *magnitude; /* of the second weights */
};

static bool allocate(struct parts *s, const struct reference *t)
{
    const size_t middle = (size_t)kern_tensor_count(&s->first.p.out[0]);
    const size_t y = (size_t)kern_tensor_count(&t->p.out[0]);
    const struct kern_tensor *w = &t->p.in[CHAIN_W2];

    s->middle = calloc(middle + 1, sizeof(double));
    s->middle_tol = calloc(middle + 1, sizeof(double));
    s->y_lost = calloc(y + 1, sizeof(double));
    s->magnitude =
        calloc((size_t)kern_tensor_count(w) + 1, infer_dtype_size(w->dtype));
    return s->middle && s->middle_tol && s->y_lost && s->magnitude;
}

static void release(struct parts *s)
{
    free(s->middle);
    free(s->middle_tol);
    free(s->y_lost);
    free(s->magnitude);
}

static void connect(struct parts *s, const struct reference *t)
{
    const struct kern_tensor *w = &t->p.in[CHAIN_W2];

    s->first.in[0] = t->in[CHAIN_X];
    s->first.in[1] = t->in[CHAIN_W];
    s->first.in[2] = t->in[CHAIN_BIAS];
    s->first.out[0] = s->middle;
    s->second.in[0] = s->middle;
    s->second.in[1] = t->in[CHAIN_W2];
    s->second.in[2] = t->in[CHAIN_BIAS2];
    s->second.in[3] = t->in[CHAIN_RESIDUAL];
    s->second.out[0] = t->out[0];
    for (int64_t i = 0; i < kern_tensor_count(w); i++)
        scalar_store(w->dtype, s->magnitude, i,
                     fabs(scalar_load(w->dtype, t->in[CHAIN_W2], i)));
    s->lost.p = s->second.p;
    s->lost.p.n_in = 2;
    memset(&s->lost.p.epilogue, 0, sizeof s->lost.p.epilogue);
    s->lost.in[0] = s->middle_tol;
    s->lost.in[1] = s->magnitude;
    s->lost.out[0] = s->y_lost;
}

static bool fill(struct parts *s, const struct kern_exec *e, double *tol,
                 struct infer_error *err)
{
    const enum infer_dtype dtype = e->problem.in[CHAIN_X].dtype;
    const double unit = bound_unit(dtype), tiny = bound_tiny(dtype);
    const double steepest = kern_unary_steepest(&s->second.p.epilogue.act);
    struct kern_exec part = *e;

    chain_first(&e->problem, dtype, KERN_NHWC, &part.problem);
    if (!reference_run(&s->first, err) ||
        !bound_fill(&s->first, 0, &part, s->middle_tol, err))
        return false;
    for (int64_t i = 0; i < kern_tensor_count(&s->first.p.out[0]); i++)
        s->middle_tol[i] +=
            unit * (fabs(s->middle[i]) + s->middle_tol[i]) + tiny;
    chain_second(&e->problem, dtype, KERN_NHWC, &part.problem);
    if (!bound_fill(&s->second, 0, &part, tol, err) ||
        !reference_run(&s->lost, err))
        return false;
    for (int64_t i = 0; i < kern_tensor_count(&s->second.p.out[0]); i++)
        tol[i] += steepest * s->y_lost[i];
    return true;
}

bool bound_chain(const struct reference *t, const struct kern_exec *e,
                 double *tol, struct infer_error *err)
{
    struct parts s;
    bool ok;

    memset(&s, 0, sizeof s);
    chain_first(&t->p, INFER_F64, KERN_NCHW, &s.first.p);
    chain_second(&t->p, INFER_F64, KERN_NCHW, &s.second.p);
    ok = allocate(&s, t);
    if (ok) {
        connect(&s, t);
        ok = fill(&s, e, tol, err);
    }
    release(&s);
    return ok;
}
