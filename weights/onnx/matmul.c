/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Gemm and MatMul.  A product with a constant matrix becomes dense, whose
 * weight is stored K,C; everything that concerns the weight alone is folded
 * into it. */
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/onnx.h"

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

/* Matrices of fewer bytes are copied, which costs less than finding them. */
#define TURNED_BYTES ((size_t)1 << 16)

/* The transpose of an initializer that takes its place, so that a file and what
 * is made of it are not twice the weights.  False where others refer to the
 * matrix, or it is none of the file's. */
static bool turn_in_place(struct onnx_import *im, int v, struct constant *c,
                          struct constant **out)
{
    struct onnx_value *value = &im->value[v];

    if (!im->model || value->tensor.bytes == 0 || value->is_sparse ||
        value->narrow || value->graph >= 0 || value->state != ONNX_CONSTANT ||
        c->unfilled || c->viewed || c->bytes < TURNED_BYTES ||
        __atomic_load_n(&c->refs, __ATOMIC_ACQUIRE) != 2)
        return false;
    constant_unref(value->constant);
    value->constant = NULL;
    value->state = ONNX_LAZY;
    *out = constant_ref(onnx_tensor_turn(im->model, value->tensor));
    if (!*out)
        onnx_no_memory(im);
    return true;
}

/* The weight of dense of a matrix that was transposed in an earlier attempt or
 * for an earlier node, without loading the matrix.  False where there is none.
 */
static bool add_turned(struct onnx_import *im, int *value)
{
    const int v = onnx_value_find(im, im->node->in[1]);
    struct constant *c;

    if (im->rc < 0 || !im->model || v < 0 || im->value[v].state != ONNX_LAZY ||
        im->value[v].is_sparse)
        return false;
    *value = im->value[v].transposed - 1;
    if (*value >= 0)
        return true;
    c = onnx_tensor_turned(im->model, im->value[v].tensor);
    if (!c || !scalar_is_float(c->dtype))
        return false;
    im->held += c->bytes; /* as if it were loaded */
    if (onnx_charge(im, c->bytes) < 0 ||
        onnx_add_constant(im, constant_ref(c), value) < 0)
        return false;
    im->value[v].transposed = *value + 1;
    return true;
}

/* A rank-2 constant, which is input 1, as the weight of dense: transposed where
 * the columns of the matrix are the outputs; `keep`: beside the matrix.  Nodes
 * that read the same matrix, as steps of time do, share its transpose. */
static int add_weight(struct onnx_import *im, struct constant *c,
                      bool transpose, bool keep, float factor, int *value)
{
    static const int swap[] = {1, 0};
    const int v = onnx_value_find(im, im->node->in[1]);
    struct constant *w;

    *value = -1;
    if (im->rc < 0)
        return im->rc;
    if (factor != 1.0f)
        onnx_fill(im, c);
    else if (im->value[v].transposed) {
        *value = im->value[v].transposed - 1;
        return 0;
    }
    if (!c->unfilled && onnx_charge(im, c->bytes) < 0)
        return im->rc;
    if (!transpose)
        w = constant_ref(c);
    else if (keep || !turn_in_place(im, v, c, &w))
        w = constant_transpose(c, swap);
    if (im->rc == 0)
        onnx_add_constant(im, scaled(w, factor), value);
    if (factor == 1.0f && im->rc == 0)
        im->value[v].transposed = *value + 1;
    return im->rc;
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
static int gemm_weight(struct onnx_import *im, const struct gemm *g, int *out)
{
    if (g->trans_b && g->alpha == 1.0f)
        return onnx_input(im, 1, out);
    return add_weight(im, g->w, !g->trans_b, true, g->alpha, out);
}

/* c as a bias vector of `outputs` elements, which it may be already; *out is
 * -1 where it is none. */
static int bias_vector(struct onnx_import *im, const struct gemm *g, int *out)
{
    int64_t n, i;
    struct constant *c, *r;

    *out = -1;
    if (onnx_input_constant(im, 2, &c) < 0 || !c || !scalar_is_float(c->dtype))
        return im->rc;
    n = constant_count(c);
    if (c->rank > 2 || (c->rank == 2 && c->dim[0] != 1) ||
        (n != 1 && n != g->outputs))
        return 0;
    if (n == g->outputs && c->rank == 1 && g->beta == 1.0f)
        return onnx_input(im, 2, out);
    if (n == g->outputs) {
        r = constant_reshape(c, 1, &g->outputs);
    } else {
        if (onnx_new_constant(im, INFER_F32, 1, &g->outputs, &r) < 0)
            return im->rc;
        for (i = 0; i < g->outputs; i++)
            scalar_store(INFER_F32, r->data, i,
                         scalar_load(c->dtype, c->data, 0));
    }
    return onnx_add_constant(im, scaled(r, g->beta), out);
}

/* y + beta c, where c is not a plain bias. */
static int add_addend(struct onnx_import *im, const struct gemm *g, int y)
{
    int c;

    onnx_input(im, 2, &c);
    if (g->beta != 1.0f)
        onnx_emit_unary(im, KERN_LINEAR, g->beta, 0.0f, c, -1, &c);
    return onnx_emit_binary(im, KERN_ADD, y, c, 0, NULL);
}

static int gemm_dense(struct onnx_import *im, struct gemm *g)
{
    static const int64_t swap[] = {1, 0};
    bool addend = onnx_has_input(im, 2) && g->beta != 0.0f;
    int in[3] = {-1, -1, -1}, y;

    g->outputs = g->w->dim[g->trans_b ? 0 : 1];
    in[0] = g->a;
    if (g->trans_a)
        onnx_emit_dims(im, GRAPH_TRANSPOSE, g->a, 2, swap, -1, &in[0]);
    gemm_weight(im, g, &in[1]);
    if (addend)
        bias_vector(im, g, &in[2]);
    addend = addend && in[2] < 0;
    onnx_emit(im, GRAPH_DENSE, NULL, in, in[2] >= 0 ? 3 : 2, addend ? -1 : 0,
              &y);
    return addend ? add_addend(im, g, y) : im->rc;
}

static int gemm_product(struct onnx_import *im, const struct gemm *g)
{
    bool addend = onnx_has_input(im, 2) && g->beta != 0.0f;
    union graph_attr attr;
    int in[2], y;

    onnx_defaults(GRAPH_MATMUL, &attr);
    attr.matmul.transpose_a = g->trans_a;
    attr.matmul.transpose_b = g->trans_b;
    attr.matmul.alpha = g->alpha;
    in[0] = g->a;
    in[1] = g->b;
    onnx_emit(im, GRAPH_MATMUL, &attr, in, 2, addend ? -1 : 0, &y);
    return addend ? add_addend(im, g, y) : im->rc;
}

int onnx_import_gemm(struct onnx_import *im)
{
    struct gemm g = {1.0f, 1.0f, false, false, -1, -1, NULL, 0};
    struct graph_type a, b;

    onnx_arity(im, 2, 3);
    onnx_ignore(im, "broadcast"); /* before opset 7; c always broadcasts */
    onnx_float(im, "alpha", &g.alpha);
    onnx_float(im, "beta", &g.beta);
    onnx_flag(im, "transA", &g.trans_a);
    onnx_flag(im, "transB", &g.trans_b);
    onnx_input_type(im, 0, 0, &a);
    if (onnx_input_type(im, 1, 0, &b) < 0)
        return im->rc;
    if (a.rank != 2 || b.rank != 2)
        return onnx_fail(im, INFER_EFORMAT,
                         "matrices of rank %d and %d, expected 2", a.rank,
                         b.rank);
    onnx_input(im, 0, &g.a);
    if (onnx_input_weight(im, 1, &g.w) < 0)
        return im->rc;
    if (g.w && scalar_is_float(g.w->dtype))
        return gemm_dense(im, &g);
    onnx_input(im, 1, &g.b);
    return gemm_product(im, &g);
}

/* ---- MatMul -------------------------------------------------------- */

/* A vector on the left is a row, on the right a column; the dimension added
 * for it is taken away from the result. */
static int product_of_vectors(struct onnx_import *im, int rank_a, int rank_b,
                              const int *in)
{
    static const int64_t front = 0, back = 1;
    int64_t axes[2];
    int both[2], n = 0, y;

    both[0] = in[0];
    both[1] = in[1];
    if (rank_a == 1) {
        axes[n++] = -2;
        onnx_emit_dims(im, GRAPH_UNSQUEEZE, in[0], 1, &front, -1, &both[0]);
    }
    if (rank_b == 1) {
        axes[n++] = -1;
        onnx_emit_dims(im, GRAPH_UNSQUEEZE, in[1], 1, &back, -1, &both[1]);
    }
    onnx_emit(im, GRAPH_MATMUL, NULL, both, 2, -1, &y);
    return onnx_emit_dims(im, GRAPH_SQUEEZE, y, n, axes, 0, NULL);
}

int onnx_import_matmul(struct onnx_import *im)
{
    struct graph_type a, b;
    struct constant *w;
    int in[2];

    onnx_arity(im, 2, 2);
    onnx_input_type(im, 0, 0, &a);
    if (im->rc == 0 && a.rank >= 2 && scalar_is_float(a.dtype) &&
        add_turned(im, &in[1])) {
        onnx_input(im, 0, &in[0]);
        return onnx_emit(im, GRAPH_DENSE, NULL, in, 2, 0, NULL);
    }
    onnx_input_type(im, 1, 0, &b);
    if (onnx_input_weight(im, 1, &w) < 0)
        return im->rc;
    if (a.rank < 1 || b.rank < 1)
        return onnx_fail(im, INFER_EFORMAT, "a factor is a scalar");
    if (scalar_is_integer(a.dtype) && a.dtype == b.dtype)
        return onnx_import_integer_matmul(im);
    onnx_input(im, 0, &in[0]);
    if (w && b.rank == 2 && a.rank >= 2 && scalar_is_float(w->dtype) &&
        scalar_is_float(a.dtype)) {
        add_weight(im, w, true, false, 1.0f, &in[1]);
        return onnx_emit(im, GRAPH_DENSE, NULL, in, 2, 0, NULL);
    }
    if (onnx_input(im, 1, &in[1]) < 0)
        return im->rc;
    if (a.rank == 1 || b.rank == 1)
        return product_of_vectors(im, a.rank, b.rank, in);
    return onnx_emit(im, GRAPH_MATMUL, NULL, in, 2, 0, NULL);
}
