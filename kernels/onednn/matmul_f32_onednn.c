/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batched matrix product through oneDNN's matmul; transposition is a matter
 * of strides, alpha an output scale.
 */
#include "config.h"

#include "kernels/onednn/primitive.h"

#include "kernels/base/error.h"

/* Gives t the rank of the product by leading dimensions of size 1, and swaps
 * its last two dimensions where asked. */
static bool describe_operand(const struct kern_tensor *t, int rank, bool swap,
                             dnnl_memory_desc_t *out)
{
    struct kern_tensor v = {.dtype = t->dtype, .rank = rank};
    const int lead = rank - t->rank;
    int64_t outer = 1;
    int i;

    if (lead < 0 || t->rank < 2)
        return false;
    for (i = 0; i < t->rank; i++) {
        v.dim[lead + i] = t->dim[i];
        v.stride[lead + i] = t->stride[i];
        if (t->dim[i] * t->stride[i] > outer)
            outer = t->dim[i] * t->stride[i];
    }
    for (i = 0; i < lead; i++) {
        v.dim[i] = 1;
        v.stride[i] = outer;
    }
    if (swap) {
        const int m = rank - 2, n = rank - 1;
        const int64_t dim = v.dim[m], stride = v.stride[m];

        v.dim[m] = v.dim[n];
        v.stride[m] = v.stride[n];
        v.dim[n] = dim;
        v.stride[n] = stride;
    }
    return onednn_describe(&v, out);
}

/* oneDNN 2.6 fails at run time on a batch of single rows; y^T = b^T a^T, which
 * has single columns, works. */
static bool exchanged(const struct kern_problem *p)
{
    const struct kern_tensor *y = &p->out[0];

    return y->rank >= 2 && y->dim[y->rank - 2] == 1;
}

static int make_plan(const struct kern_problem *p, int threads,
                     dnnl_primitive_desc_t *pd, struct infer_error *err)
{
    const struct kern_matmul *a = &p->attr.matmul;
    const int rank = p->out[0].rank;
    const bool t = exchanged(p);
    dnnl_memory_desc_t x, w, y;
    dnnl_primitive_attr_t attr;
    dnnl_matmul_desc_t product;
    int r;

    if (!describe_operand(&p->in[0], rank, a->transpose_a != t, &x) ||
        !describe_operand(&p->in[1], rank, a->transpose_b != t, &w) ||
        !describe_operand(&p->out[0], rank, t, &y))
        return onednn_refuse(err, "takes F32 matrices of rank 2 to 6 with "
                                  "positive strides");
    r = onednn_status(
        dnnl_matmul_desc_init(&product, t ? &w : &x, t ? &x : &w, NULL, &y),
        "dnnl_matmul_desc_init", err);
    if (r == 0)
        r = onednn_attributes(p, false, a->alpha, err, &attr);
    if (r < 0)
        return r;
    r = onednn_choose(&product, attr, threads, err, pd);
    dnnl_primitive_attr_destroy(attr);
    return r;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    dnnl_primitive_desc_t pd;
    int r = make_plan(p, d->threads, &pd, why);

    if (r == 0)
        dnnl_primitive_desc_destroy(pd);
    return r < 0 ? INFER_EUNSUPPORTED : 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct onednn_primitive *x;
    dnnl_primitive_desc_t pd;
    int r = make_plan(&e->problem, d->threads, &pd, err);

    if (r < 0)
        return r;
    r = onednn_create(pd, d->threads, err, &x);
    if (r == 0) {
        e->state = x;
        const int first = exchanged(&e->problem);

        onednn_bind(x, DNNL_ARG_SRC, ONEDNN_IN(first),
                    dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0));
        onednn_bind(x, DNNL_ARG_WEIGHTS, ONEDNN_IN(!first),
                    dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
        onednn_bind(x, DNNL_ARG_DST, ONEDNN_OUT(0),
                    dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0));
        e->workspace = onednn_bind_scratchpad(x, pd);
        r = onednn_finish(x, err);
    }
    dnnl_primitive_desc_destroy(pd);
    if (r < 0)
        onednn_release(e);
    return r;
}

KERN_FUNCTIONS(matmul_f32_onednn) = {
    .supports = supports,
    .prepare = prepare,
    .launch = onednn_launch,
    .release = onednn_release,
};
