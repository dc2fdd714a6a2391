/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of two convolutions: their parts, and the check. */
#include "kernels/chain/chain.h"

#include <string.h>

#include "kernels/check/problem_check.h"

/* ---- the parts ----------------------------------------------------- */

/* N,M and the output's extents: the second window is one pixel. */
static void middle_dims(const struct kern_problem *p, int64_t *dim)
{
    memcpy(dim, p->out[0].dim, (size_t)p->out[0].rank * sizeof dim[0]);
    dim[1] = p->in[CHAIN_W].dim[0];
}

/* Input i of the chain becomes input `to` of a part. */
static void take(const struct kern_problem *p, int i, struct kern_problem *out,
                 int to)
{
    const struct kern_tensor *t = kern_problem_in(p, i);

    if (!t)
        return;
    out->in[to] = *t;
    out->constant_in |= (p->constant_in >> i & 1) << to;
    out->n_in = to + 1;
}

static void begin(const struct kern_problem *p, struct kern_problem *out)
{
    memset(out, 0, sizeof *out);
    out->op = KERN_CONV_FPROP;
    out->n_out = 1;
    out->deterministic = p->deterministic;
    out->allow_tf32 = p->allow_tf32;
}

void chain_first(const struct kern_problem *p, enum infer_dtype middle,
                 enum kern_layout layout, struct kern_problem *out)
{
    int64_t dim[KERN_MAX_RANK];

    begin(p, out);
    take(p, CHAIN_X, out, 0);
    take(p, CHAIN_W, out, 1);
    take(p, CHAIN_BIAS, out, 2);
    middle_dims(p, dim);
    out->out[0] = kern_tensor_dense(middle, p->out[0].rank, dim, layout);
    out->attr.conv = p->attr.chain.conv;
    out->epilogue.act = p->attr.chain.act;
}

void chain_second(const struct kern_problem *p, enum infer_dtype middle,
                  enum kern_layout layout, struct kern_problem *out)
{
    int64_t dim[KERN_MAX_RANK];
    int i;

    begin(p, out);
    middle_dims(p, dim);
    out->in[0] = kern_tensor_dense(middle, p->out[0].rank, dim, layout);
    take(p, CHAIN_W2, out, 1);
    take(p, CHAIN_BIAS2, out, 2);
    take(p, CHAIN_RESIDUAL, out, 3);
    out->out[0] = p->out[0];
    out->attr.conv.groups = 1;
    for (i = 0; i < KERN_MAX_SPATIAL; i++)
        out->attr.conv.stride[i] = out->attr.conv.dilation[i] = 1;
    out->epilogue = p->epilogue;
}

/* ---- the check ----------------------------------------------------- */

int problem_check_chain(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[CHAIN_X], *w = &p->in[CHAIN_W];
    const struct kern_tensor *w2 = &p->in[CHAIN_W2];
    struct kern_problem part;
    int i, rc;

    if (x->rank < 3 || x->rank > 2 + KERN_MAX_SPATIAL || w->rank != x->rank ||
        w2->rank != x->rank || p->out[0].rank != x->rank)
        return REFUSE(
            p, why, "ranks %d, %d, %d and %d, expected one of 3 to %d", x->rank,
            w->rank, w2->rank, p->out[0].rank, 2 + KERN_MAX_SPATIAL);
    for (i = 2; i < w2->rank; i++)
        if (w2->dim[i] != 1)
            return REFUSE(p, why,
                          "the second window is %lld pixels along %d, "
                          "supported 1",
                          (long long)w2->dim[i], i - 2);
    rc = problem_check_unary_kind(p, p->attr.chain.act.kind, why);
    chain_first(p, x->dtype, KERN_NHWC, &part);
    if (rc == 0)
        rc = kern_problem_check(&part, why);
    chain_second(p, x->dtype, KERN_NHWC, &part);
    return rc < 0 ? rc : kern_problem_check(&part, why);
}
