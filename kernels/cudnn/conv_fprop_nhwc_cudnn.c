/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution, transposed convolution and dense layers as cuDNN's operation
 * graphs: the product, then residual, bias and activation in one graph where
 * some engine computes that, else in two.
 *
 * A dense layer is a 1x1 convolution over images of one pixel.  Weights are
 * packed with their channels innermost, as the activations lie.
 */
#include <string.h>

#include "kernels/cuda/conv.h"
#include "kernels/cudnn/solve.h"
#include "kernels/problem.h"
#include "kernels/scalar.h"

/* ---- shapes -------------------------------------------------------- */

/* The problem as a convolution: a transposed one computes the input of the
 * convolution whose output it is given. */
static void as_convolution(const struct kern_problem *p,
                           struct kern_problem *conv)
{
    memcpy(conv, p, sizeof(*conv));
    if (p->op != KERN_CONV_TRANSPOSE_FPROP)
        return;
    conv->op = KERN_CONV_FPROP;
    conv->in[CONV_X] = p->out[0];
    conv->out[0] = p->in[CONV_X];
    conv->n_in = 2;
}

static int read_geometry(const struct kern_problem *p, struct conv_geometry *g,
                         struct infer_error *why)
{
    struct kern_problem conv;

    as_convolution(p, &conv);
    return conv_geometry_read(&conv, g, why);
}

static int optional(const struct kern_problem *p, int i)
{
    return kern_problem_in(p, i) ? i : -1;
}

static int check(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *bias = kern_problem_in(p, CONV_BIAS);
    const struct kern_tensor *residual = kern_problem_in(p, CONV_RESIDUAL);
    struct conv_geometry g;
    int rc = conv_weights_packable(p, why);

    if (rc == 0)
        rc = read_geometry(p, &g, why);
    if (rc == 0 && bias &&
        (bias->dtype != INFER_F32 || !kern_tensor_is_dense(bias, KERN_NCHW)))
        rc = error_set(why, INFER_EUNSUPPORTED, "bias is not dense F32");
    if (rc == 0 && residual && p->op == KERN_CONV_TRANSPOSE_FPROP &&
        (residual->dtype != p->out[0].dtype ||
         !kern_tensor_is_dense(residual, KERN_NHWC)))
        rc = error_set(why, INFER_EUNSUPPORTED,
                       "residual does not lie as the output");
    if (rc == 0 && (g.m == 0 || g.n * g.h * g.w == 0))
        rc = error_set(why, INFER_EUNSUPPORTED, "a tensor is empty");
    return rc;
}

/* Of the convolution; out: what the row computes. */
struct shapes {
    struct cudnn_shape x, w, y, out;
    struct cudnn_window win;
};

/* Pads at the end are what the output's extent says: rows and columns that no
 * window reaches do not count. */
static void read_window(const struct conv_geometry *g, struct cudnn_window *win)
{
    const int64_t extent[2] = {g->h, g->w}, out[2] = {g->p, g->q};
    const int64_t size[2] = {g->r, g->s};

    win->rank = 2;
    win->stride[0] = g->stride_h;
    win->stride[1] = g->stride_w;
    win->dilation[0] = g->dilation_h;
    win->dilation[1] = g->dilation_w;
    win->pre[0] = g->pad_top;
    win->pre[1] = g->pad_left;
    for (int i = 0; i < 2; i++) {
        const int64_t reach = (out[i] - 1) * win->stride[i] +
                              (size[i] - 1) * win->dilation[i] + 1;
        const int64_t need = reach - extent[i] - win->pre[i];
        /* Equal pads are what most engines take, so where the end needs no
         * more, and one more window would not fit, it gets as many. */
        const int64_t equal = win->pre[i];
        const bool fits = need <= equal && equal - need < win->stride[i];

        win->size[i] = size[i];
        win->post[i] = fits ? equal : need > 0 ? need : 0;
    }
}

static void read_shapes(const struct kern_problem *p, struct shapes *s)
{
    const cudnnDataType_t t = cudnn_dtype(p->in[CONV_X].dtype);
    struct conv_geometry g;

    read_geometry(p, &g, NULL);
    const int64_t x[4] = {g.n, g.c, g.h, g.w}, y[4] = {g.n, g.k, g.p, g.q};
    const int64_t w[4] = {g.k, g.cg, g.r, g.s};
    s->x = cudnn_shape_nhwc(t, 4, x);
    s->w = cudnn_shape_nhwc(t, 4, w);
    s->y = cudnn_shape_nhwc(t, 4, y);
    s->out = p->op == KERN_CONV_TRANSPOSE_FPROP ? s->x : s->y;
    read_window(&g, &s->win);
}

/* ---- recipe -------------------------------------------------------- */

static void add_convolution(struct cudnn_graph *g, const struct shapes *s,
                            bool transposed, cudnnBackendDescriptor_t v)
{
    cudnnBackendDescriptor_t w =
        cudnn_graph_tensor(g, &s->w, CUDNN_IN + CONV_W);

    if (transposed)
        cudnn_graph_conv(g, &s->win, true, v, w,
                         cudnn_graph_tensor(g, &s->y, CUDNN_IN + CONV_X));
    else
        cudnn_graph_conv(g, &s->win, false,
                         cudnn_graph_tensor(g, &s->x, CUDNN_IN + CONV_X), w, v);
}

static void build(const struct kern_problem *p, enum cudnn_part part,
                  struct cudnn_graph *g)
{
    const bool transposed = p->op == KERN_CONV_TRANSPOSE_FPROP;
    const int bias = optional(p, CONV_BIAS);
    const int residual = optional(p, CONV_RESIDUAL);
    const bool rest = cudnn_has_epilogue(p, bias, residual);
    cudnnBackendDescriptor_t v;
    struct shapes s;

    read_shapes(p, &s);
    struct cudnn_shape wide = s.out;
    wide.dtype = CUDNN_DATA_FLOAT;
    if (part != CUDNN_WHOLE)
        v = cudnn_graph_tensor(g, &wide, CUDNN_SCRATCH);
    else if (rest)
        v = cudnn_graph_virtual(g, &s.out);
    else
        v = cudnn_graph_tensor(g, &s.out, CUDNN_OUT);
    if (part != CUDNN_SECOND)
        add_convolution(g, &s, transposed, v);
    if (part != CUDNN_FIRST && rest)
        cudnn_add_epilogue(g, p, &s.out, bias, residual, v);
}

static size_t scratch(const struct kern_problem *p)
{
    if (!cudnn_has_epilogue(p, optional(p, CONV_BIAS),
                            optional(p, CONV_RESIDUAL)))
        return 0;
    return (size_t)kern_tensor_count(&p->out[0]) * sizeof(float);
}

static const struct cudnn_recipe recipe = {
    .check = check, .build = build, .scratch = scratch, .products = true};
static const struct cudnn_recipe recipe_tf32 = {.check = check,
                                                .build = build,
                                                .scratch = scratch,
                                                .products = true,
                                                .tf32 = true};

/* ---- rows ---------------------------------------------------------- */

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    struct conv_geometry g;

    read_geometry(&e->problem, &g, err);
    if (i == CONV_BIAS) {
        scalar_convert(INFER_F32, src, e->problem.out[0].dtype, dst,
                       (size_t)kern_tensor_count(&e->problem.in[CONV_BIAS]));
        return 0;
    }
    conv_pack_rows(&g, e->problem.in[CONV_W].dtype, src,
                   e->problem.in[CONV_X].dtype, CONV_ROUND_TYPE, g.cg, g.depth,
                   dst);
    return 0;
}

static int prepare_with(const struct cudnn_recipe *r, struct kern_exec *e,
                        const struct kern_device *d, struct infer_error *err)
{
    struct conv_geometry g;

    read_geometry(&e->problem, &g, err);
    e->packed[CONV_W] = (size_t)g.k * (size_t)g.depth *
                        infer_dtype_size(e->problem.in[CONV_X].dtype);
    if (cudnn_rounds_bias(&e->problem, optional(&e->problem, CONV_BIAS))) {
        e->packed[CONV_BIAS] =
            (size_t)kern_tensor_count(&e->problem.in[CONV_BIAS]) *
            infer_dtype_size(e->problem.out[0].dtype);
        e->flags |= KERN_ROUNDS_BIAS;
    }
    return cudnn_recipe_prepare(r, e, d, err);
}

#define RECIPE_FUNCTIONS(suffix, recipe_)                                      \
    static int supports##suffix(const struct kern_problem *p,                  \
                                const struct kern_device *d,                   \
                                struct infer_error *why)                       \
    {                                                                          \
        return cudnn_recipe_supports(&recipe_, p, d, why);                     \
    }                                                                          \
    static int variants##suffix(const struct kern_problem *p,                  \
                                const struct kern_device *d,                   \
                                struct infer_error *err)                       \
    {                                                                          \
        return cudnn_recipe_variants(&recipe_, p, d, err);                     \
    }                                                                          \
    static int prepare##suffix(struct kern_exec *e,                            \
                               const struct kern_device *d,                    \
                               struct infer_error *err)                        \
    {                                                                          \
        return prepare_with(&recipe_, e, d, err);                              \
    }
RECIPE_FUNCTIONS(, recipe)
RECIPE_FUNCTIONS(_tf32, recipe_tf32)

#define ROW(symbol, operation, type, flags, suffix)                            \
    CUDNN_ROW(symbol, operation, type, flags, suffix, cudnn_recipe_launch,     \
              cudnn_recipe_release)

ROW(conv_fprop_nhwc_tf32_cudnn, KERN_CONV_FPROP, INFER_F32, KERN_TF32, _tf32)
ROW(conv_fprop_nhwc_f32_cudnn, KERN_CONV_FPROP, INFER_F32, 0, )
ROW(conv_fprop_nhwc_f16_cudnn, KERN_CONV_FPROP, INFER_F16, 0, )
ROW(conv_fprop_nhwc_bf16_cudnn, KERN_CONV_FPROP, INFER_BF16, 0, )
ROW(conv_transpose_fprop_nhwc_tf32_cudnn, KERN_CONV_TRANSPOSE_FPROP, INFER_F32,
    KERN_TF32, _tf32)
ROW(conv_transpose_fprop_nhwc_f32_cudnn, KERN_CONV_TRANSPOSE_FPROP, INFER_F32,
    0, )
ROW(conv_transpose_fprop_nhwc_f16_cudnn, KERN_CONV_TRANSPOSE_FPROP, INFER_F16,
    0, )
ROW(conv_transpose_fprop_nhwc_bf16_cudnn, KERN_CONV_TRANSPOSE_FPROP, INFER_BF16,
    0, )
ROW(dense_fprop_tf32_cudnn, KERN_DENSE_FPROP, INFER_F32, KERN_TF32, _tf32)
ROW(dense_fprop_f32_cudnn, KERN_DENSE_FPROP, INFER_F32, 0, )
ROW(dense_fprop_f16_cudnn, KERN_DENSE_FPROP, INFER_F16, 0, )
ROW(dense_fprop_bf16_cudnn, KERN_DENSE_FPROP, INFER_BF16, 0, )
