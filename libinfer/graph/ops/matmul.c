/* SPDX-License-Identifier: Apache-2.0 */
/* Dense layers and matrix products: attributes and shapes. */
#include <math.h>

#include "libinfer/graph/ops/op.h"

/* x: ...,C; w: K,C; bias: K; out: ...,K. */
int op_dense_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_type *x = &args->in[0], *w = &args->in[1];
    char xs[OP_TEXT], ws[OP_TEXT];
    int rc = op_need_float(args, err);

    if (rc < 0)
        return rc;
    if (x->rank == 0 || (w->rank >= 0 && w->rank != 2) ||
        (x->rank > 0 && w->rank == 2 &&
         !op_fits(x->dim[x->rank - 1], w->dim[1])))
        return error_set(err, INFER_EFORMAT,
                         "weight is %s and does not fit input %s",
                         op_text(w, ws), op_text(x, xs));
    rc = op_need_vector(args, 2, "bias", w->rank == 2 ? w->dim[0] : -1, err);
    if (rc < 0)
        return rc;
    op_same(args);
    if (x->rank > 0)
        args->out[0].dim[x->rank - 1] = w->rank == 2 ? w->dim[0] : -1;
    return INFER_OK;
}

int op_matmul_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct graph_type *a = &args->in[0], *b = &args->in[1];
    const struct kern_matmul *attr = &args->attr->matmul;
    struct graph_type batch_a = *a, batch_b = *b, *out = &args->out[0];
    char as[OP_TEXT], bs[OP_TEXT];
    int rc = op_need_float(args, err), ta, tb;

    if (rc < 0)
        return rc;
    if (!isfinite(attr->alpha))
        return error_set(err, INFER_EFORMAT, "alpha is not finite");
    out->dtype = a->dtype;
    if (a->rank < 0 || b->rank < 0)
        return INFER_OK;
    if (a->rank < 2 || b->rank < 2)
        return error_set(err, INFER_EFORMAT,
                         "factors are %s and %s, rank 2 or more is needed",
                         op_text(a, as), op_text(b, bs));
    ta = attr->transpose_a;
    tb = attr->transpose_b;
    if (!op_fits(a->dim[a->rank - (ta ? 2 : 1)],
                 b->dim[b->rank - (tb ? 1 : 2)]))
        return error_set(err, INFER_EFORMAT,
                         "factors %s%s and %s%s do not fit together",
                         op_text(a, as), ta ? " (transposed)" : "",
                         op_text(b, bs), tb ? " (transposed)" : "");
    batch_a.rank -= 2;
    batch_b.rank -= 2;
    rc = op_broadcast(&batch_a, &batch_b, out, err);
    if (rc < 0)
        return rc;
    out->dim[out->rank++] = a->dim[a->rank - (ta ? 1 : 2)];
    out->dim[out->rank++] = b->dim[b->rank - (tb ? 2 : 1)];
    return INFER_OK;
}

bool op_matmul_separable(const struct graph_separable_args *args)
{
    const struct kern_matmul *m = &args->attr->matmul;
    const int rank = args->out->rank;

    if (args->varies[0] && args->in[0]->rank != rank)
        return false;
    if (args->varies[1] && args->in[1]->rank != rank)
        return false;
    /* Of two matrices the rows of the first may be a batch. */
    return rank > 2 || (rank == 2 && !args->varies[1] && !m->transpose_a);
}
