/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Gemm and MatMul.  A product with a constant matrix becomes dense, whose
 * weight is stored K,C; everything that concerns the weight alone is folded
 * into it. */
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/onnx.h"

static int out_of_memory(struct infer_error *err)
{
    return error_set(err, INFER_EMEMORY, "out of memory");
}

/* c * factor; takes c over, returns a new reference or NULL. */
static struct constant *scaled(struct constant *c, float factor)
{
    struct constant *wide, *own;
    int64_t i, n;

    if (!c || factor == 1.0f)
        return c;
    wide = constant_convert(c, INFER_F32);
    constant_unref(c);
    own = wide ? constant_writable(wide) : NULL;
    if (!own) {
        constant_unref(wide);
        return NULL;
    }
    n = constant_count(own);
    for (i = 0; i < n; i++)
        scalar_store(INFER_F32, own->data, i,
                     scalar_load(INFER_F32, own->data, i) * (double)factor);
    return own;
}

/* A rank-2 constant as the weight of dense: transposed where the columns of
 * the matrix are the outputs. */
static int add_weight(struct onnx_import *im, struct constant *c,
                      bool transpose, float factor, int *value,
                      struct infer_error *err)
{
    static const int swap[] = {1, 0};
    struct constant *w =
        transpose ? constant_transpose(c, swap) : constant_ref(c);

    w = scaled(w, factor);
    if (!w)
        return out_of_memory(err);
    return onnx_add_constant(im, w, value, err);
}

/* ---- Gemm ---------------------------------------------------------- */

struct gemm {
    float alpha, beta;
    bool trans_a, trans_b;
    int a, b;           /* values of the graph */
    struct constant *w; /* b, where it is constant */
    int64_t outputs;
};

/* The matrix as the weight of dense; one that is so already stays the tensor
 * that it is, with its name. */
static int gemm_weight(struct onnx_import *im, const struct gemm *g, int *out,
                       struct infer_error *err)
{
    if (g->trans_b && g->alpha == 1.0f)
        return onnx_input(im, 1, out, err);
    return add_weight(im, g->w, !g->trans_b, g->alpha, out, err);
}

/* c as a bias vector of `outputs` elements, which it may be already; *out is
 * -1 where it is none. */
static int bias_vector(struct onnx_import *im, const struct gemm *g, int *out,
                       struct infer_error *err)
{
    int64_t n, i;
    struct constant *c, *r;
    int rc = onnx_input_constant(im, 2, &c, err);

    *out = -1;
    if (rc < 0 || !c || !scalar_is_float(c->dtype))
        return rc;
    n = constant_count(c);
    if (c->rank > 2 || (c->rank == 2 && c->dim[0] != 1) ||
        (n != 1 && n != g->outputs))
        return 0;
    if (n == g->outputs && c->rank == 1 && g->beta == 1.0f)
        return onnx_input(im, 2, out, err);
    if (n == g->outputs) {
        r = constant_reshape(c, 1, &g->outputs);
        if (!r)
            return out_of_memory(err);
    } else {
        rc = onnx_new_constant(im, INFER_F32, 1, &g->outputs, err, &r);
        if (rc < 0)
            return rc;
        for (i = 0; i < g->outputs; i++)
            scalar_store(INFER_F32, r->data, i,
                         scalar_load(c->dtype, c->data, 0));
    }
    r = scaled(r, g->beta);
    return r ? onnx_add_constant(im, r, out, err) : out_of_memory(err);
}

/* y + beta c, where c is not a plain bias. */
static int add_addend(struct onnx_import *im, const struct gemm *g, int y,
                      struct infer_error *err)
{
    int c, rc = onnx_input(im, 2, &c, err);

    if (rc == 0 && g->beta != 1.0f)
        rc = onnx_emit_unary(im, KERN_LINEAR, g->beta, 0.0f, c, -1, &c, err);
    if (rc < 0)
        return rc;
    return onnx_emit_binary(im, KERN_ADD, y, c, 0, NULL, err);
}

static int gemm_dense(struct onnx_import *im, struct gemm *g,
                      struct infer_error *err)
{
    static const int64_t swap[] = {1, 0};
    bool addend = onnx_has_input(im, 2) && g->beta != 0.0f;
    int in[3] = {-1, -1, -1}, y, rc = 0;

    g->outputs = g->w->dim[g->trans_b ? 0 : 1];
    in[0] = g->a;
    if (g->trans_a)
        rc =
            onnx_emit_dims(im, GRAPH_TRANSPOSE, g->a, 2, swap, -1, &in[0], err);
    if (rc == 0)
        rc = gemm_weight(im, g, &in[1], err);
    if (rc == 0 && addend)
        rc = bias_vector(im, g, &in[2], err);
    if (rc < 0)
        return rc;
    addend = addend && in[2] < 0;
    rc = onnx_emit(im, GRAPH_DENSE, NULL, in, in[2] >= 0 ? 3 : 2,
                   addend ? -1 : 0, &y, err);
    if (rc == 0 && addend)
        rc = add_addend(im, g, y, err);
    return rc;
}

static int gemm_product(struct onnx_import *im, const struct gemm *g,
                        struct infer_error *err)
{
    bool addend = onnx_has_input(im, 2) && g->beta != 0.0f;
    union graph_attr attr;
    int in[2], y, rc;

    onnx_defaults(GRAPH_MATMUL, &attr);
    attr.matmul.transpose_a = g->trans_a;
    attr.matmul.transpose_b = g->trans_b;
    attr.matmul.alpha = g->alpha;
    in[0] = g->a;
    in[1] = g->b;
    rc = onnx_emit(im, GRAPH_MATMUL, &attr, in, 2, addend ? -1 : 0, &y, err);
    if (rc == 0 && addend)
        rc = add_addend(im, g, y, err);
    return rc;
}

int onnx_import_gemm(struct onnx_import *im, int param, struct infer_error *err)
{
    struct gemm g = {1.0f, 1.0f, false, false, -1, -1, NULL, 0};
    struct graph_type a, b;
    int rc = onnx_arity(im, 2, 3, err);

    (void)param;
    onnx_ignore(im, "broadcast"); /* before opset 7; c always broadcasts */
    if (rc == 0)
        rc = onnx_float(im, "alpha", &g.alpha, err);
    if (rc == 0)
        rc = onnx_float(im, "beta", &g.beta, err);
    if (rc == 0)
        rc = onnx_flag(im, "transA", &g.trans_a, err);
    if (rc == 0)
        rc = onnx_flag(im, "transB", &g.trans_b, err);
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &a, err);
    if (rc == 0)
        rc = onnx_input_type(im, 1, 0, &b, err);
    if (rc < 0)
        return rc;
    if (a.rank != 2 || b.rank != 2)
        return error_set(err, INFER_EFORMAT,
                         "matrices of rank %d and %d, expected 2", a.rank,
                         b.rank);
    rc = onnx_input(im, 0, &g.a, err);
    if (rc == 0)
        rc = onnx_input_constant(im, 1, &g.w, err);
    if (rc < 0)
        return rc;
    if (g.w && scalar_is_float(g.w->dtype))
        return gemm_dense(im, &g, err);
    rc = onnx_input(im, 1, &g.b, err);
    if (rc < 0)
        return rc;
    return gemm_product(im, &g, err);
}

/* ---- MatMul -------------------------------------------------------- */

/* A vector on the left is a row, on the right a column; the dimension added
 * for it is taken away from the result. */
static int product_of_vectors(struct onnx_import *im, int rank_a, int rank_b,
                              const int *in, struct infer_error *err)
{
    static const int64_t front = 0, back = 1;
    int64_t axes[2];
    int both[2], n = 0, y, rc = 0;

    both[0] = in[0];
    both[1] = in[1];
    if (rank_a == 1) {
        axes[n++] = -2;
        rc = onnx_emit_dims(im, GRAPH_UNSQUEEZE, in[0], 1, &front, -1, &both[0],
                            err);
    }
    if (rc == 0 && rank_b == 1) {
        axes[n++] = -1;
        rc = onnx_emit_dims(im, GRAPH_UNSQUEEZE, in[1], 1, &back, -1, &both[1],
                            err);
    }
    if (rc == 0)
        rc = onnx_emit(im, GRAPH_MATMUL, NULL, both, 2, -1, &y, err);
    if (rc < 0)
        return rc;
    return onnx_emit_dims(im, GRAPH_SQUEEZE, y, n, axes, 0, NULL, err);
}

int onnx_import_matmul(struct onnx_import *im, int param,
                       struct infer_error *err)
{
    struct graph_type a, b;
    struct constant *w;
    int in[2], rc = onnx_arity(im, 2, 2, err);

    (void)param;
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &a, err);
    if (rc == 0)
        rc = onnx_input_type(im, 1, 0, &b, err);
    if (rc == 0)
        rc = onnx_input_constant(im, 1, &w, err);
    if (rc < 0)
        return rc;
    if (a.rank < 1 || b.rank < 1)
        return error_set(err, INFER_EFORMAT, "a factor is a scalar");
    rc = onnx_input(im, 0, &in[0], err);
    if (rc == 0 && w && b.rank == 2 && a.rank >= 2 &&
        scalar_is_float(w->dtype) && scalar_is_float(a.dtype)) {
        rc = add_weight(im, w, true, 1.0f, &in[1], err);
        if (rc < 0)
            return rc;
        return onnx_emit(im, GRAPH_DENSE, NULL, in, 2, 0, NULL, err);
    }
    if (rc == 0)
        rc = onnx_input(im, 1, &in[1], err);
    if (rc < 0)
        return rc;
    if (a.rank == 1 || b.rank == 1)
        return product_of_vectors(im, a.rank, b.rank, in, err);
    return onnx_emit(im, GRAPH_MATMUL, NULL, in, 2, 0, NULL, err);
}
