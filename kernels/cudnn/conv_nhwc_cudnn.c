/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution in its three directions and dense layers as cuDNN's operation
 * graphs: the product, then residual, bias and activation in one graph where
 * some engine computes that, else in two.
 *
 * A transposed convolution is the gradient of a convolution's input, a dense
 * layer a 1x1 convolution over images of one pixel.  Weights lie with their
 * channels innermost, as the activations do: constant ones are packed so.
 *
 * cuDNN's compiled engines for 16 bits read the bias in 16 bits.  What that
 * rounds off a bias that cancels most of a sum is more than all else does (the
 * ResNet of MLPerf Tiny loses half of its accuracy to it), so the planner's
 * rows keep the bias in single precision, for which kernels are made while
 * planning, in half a second each.  The compiled engines are rows of their own
 * (bias16), to be compared with and for what the others do not compute.
 */
#include <string.h>

#include "kernels/base/scalar.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cudnn/solve.h"
#include "kernels/problem.h"

/* ---- shapes -------------------------------------------------------- */

static int read_geometry(const struct kern_problem *p, struct conv_geometry *g,
                         struct infer_error *why)
{
    struct kern_problem conv;

    cudnn_as_convolution(p, &conv);
    return conv_geometry_read(&conv, g, why);
}

static int optional(const struct kern_problem *p, int i)
{
    return kern_problem_in(p, i) ? i : -1;
}

static int bias_of(const struct kern_problem *p)
{
    return p->op == KERN_CONV_WGRAD ? -1 : optional(p, CONV_BIAS);
}

static int residual_of(const struct kern_problem *p)
{
    return optional(p, kern_op_residual(p->op));
}

/* ---- limits -------------------------------------------------------- */

/* Constant weights are packed; others lie as cuDNN wants them. */
static int check_weights(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *w = &p->in[CONV_W];

    if (p->constant_in & 1u << CONV_W)
        return conv_weights_packable(p, why);
    if (w->dtype != p->in[CONV_X].dtype || !kern_tensor_is_dense(w, KERN_NHWC))
        return error_set(why, INFER_EUNSUPPORTED,
                         "weights are neither constant nor of the input's "
                         "type and channels last");
    return 0;
}

static int check_gradient(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *dw = &p->out[0];

    if (dw->dtype != INFER_F32 && dw->dtype != p->in[CONV_X].dtype)
        return error_set(
            why, INFER_EUNSUPPORTED, "gradient is %s, supported F32 and %s",
            infer_dtype_name(dw->dtype), infer_dtype_name(p->in[CONV_X].dtype));
    if (!kern_tensor_is_dense(dw, KERN_NHWC))
        return error_set(why, INFER_EUNSUPPORTED,
                         "gradient does not lie dense, channels last");
    return 0;
}

static int check_epilogue(const struct kern_problem *p, struct infer_error *why)
{
    const int bias = bias_of(p), residual = residual_of(p);

    if (bias >= 0 && (p->in[bias].dtype != INFER_F32 ||
                      !kern_tensor_is_dense(&p->in[bias], KERN_NCHW)))
        return error_set(why, INFER_EUNSUPPORTED, "bias is not dense F32");
    /* read_geometry() has looked at that of a convolution. */
    if (residual >= 0 && cudnn_direction_of(p) != CUDNN_FPROP &&
        (p->in[residual].dtype != p->out[0].dtype ||
         !kern_tensor_is_dense(&p->in[residual], KERN_NHWC)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "residual does not lie as the output");
    return 0;
}

static int check(const struct kern_problem *p, struct infer_error *why)
{
    struct conv_geometry g;
    int rc = p->op == KERN_CONV_WGRAD ? check_gradient(p, why)
                                      : check_weights(p, why);

    if (rc == 0)
        rc = read_geometry(p, &g, why);
    if (rc == 0)
        rc = check_epilogue(p, why);
    if (rc == 0 && (g.m == 0 || g.n * g.h * g.w == 0))
        rc = error_set(why, INFER_EUNSUPPORTED, "a tensor is empty");
    return rc;
}

static int check_bias16(const struct kern_problem *p, struct infer_error *why)
{
    if (bias_of(p) < 0 || !(p->constant_in & 1u << CONV_BIAS))
        return error_set(why, INFER_EUNSUPPORTED, "there is no constant bias");
    return check(p, why);
}

/* ---- sizes --------------------------------------------------------- */

/* From so many pixels on, what Winograd's F(3x3, 4x4) loses in a gradient of
 * weights is below the bound of a sum: 79.4 sqrt((n / 16 + 25) / 3) against
 * n |x dy|, where values of mean 0 and variance 1 have |x dy| = 0.64
 * (tools/verify/bound_transform.c). */
#define WINOGRAD_TERMS 600

/* Shapes of the convolution; out: the row's output. */
struct shapes {
    bool ragged, few_terms;
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
    s->out = cudnn_direction_of(p) == CUDNN_DGRAD   ? s->x
             : cudnn_direction_of(p) == CUDNN_WGRAD ? s->w
                                                    : s->y;
    s->out.dtype = cudnn_dtype(p->out[0].dtype);
    s->ragged = g.cg % 8 != 0 || g.kg % 8 != 0;
    s->few_terms = g.m < WINOGRAD_TERMS || g.r > 3 || g.s > 3;
    read_window(&g, &s->win);
}

/* ---- recipe -------------------------------------------------------- */

static void add_convolution(const struct kern_problem *p,
                            const struct shapes *s, cudnnBackendDescriptor_t v,
                            struct cudnn_graph *g)
{
    const enum cudnn_direction d = cudnn_direction_of(p);
    const int x = CUDNN_IN + CONV_X;
    cudnnBackendDescriptor_t t[3] = {v, v, v}; /* x, w, y */

    if (d != CUDNN_DGRAD)
        t[0] = cudnn_graph_tensor(g, &s->x, x);
    if (d != CUDNN_WGRAD)
        t[1] = cudnn_graph_tensor(g, &s->w, CUDNN_IN + CONV_W);
    if (d != CUDNN_FPROP)
        t[2] = cudnn_graph_tensor(
            g, &s->y, d == CUDNN_WGRAD ? CUDNN_IN + CUDNN_WGRAD_DY : x);
    cudnn_graph_conv(g, &s->win, d, t[0], t[1], t[2]);
}

/* True if an operation follows the product; engines for 16 bits write 16 bits,
 * so that a wider gradient is a copy. */
static bool has_rest(const struct kern_problem *p)
{
    return cudnn_has_epilogue(p, bias_of(p), residual_of(p)) ||
           p->out[0].dtype != p->in[CONV_X].dtype;
}

static void build(const struct kern_problem *p, enum cudnn_subgraph which,
                  struct cudnn_graph *g)
{
    const bool rest = has_rest(p);
    cudnnBackendDescriptor_t v;
    struct shapes s;

    read_shapes(p, &s);
    g->ragged = s.ragged;
    g->few_terms = s.few_terms;
    g->narrow = p->in[CONV_X].dtype != INFER_F32;
    struct cudnn_shape wide = s.out;
    wide.dtype = CUDNN_DATA_FLOAT;
    if (which != CUDNN_WHOLE)
        v = cudnn_graph_tensor(g, &wide, CUDNN_SCRATCH);
    else if (rest)
        v = cudnn_graph_virtual(g, &s.out);
    else
        v = cudnn_graph_tensor(g, &s.out, CUDNN_OUT);
    if (which != CUDNN_SECOND)
        add_convolution(p, &s, v, g);
    if (which != CUDNN_FIRST && rest)
        cudnn_add_epilogue(g, p, &s.out, bias_of(p), residual_of(p), v);
}

/* No engine for 16 bits writes a wider gradient of weights by itself. */
static size_t scratch(const struct kern_problem *p)
{
    if (!has_rest(p) ||
        (p->op == KERN_CONV_WGRAD && p->in[CONV_X].dtype != INFER_F32))
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
static const struct cudnn_recipe recipe_bias16 = {.check = check_bias16,
                                                  .build = build,
                                                  .scratch = scratch,
                                                  .products = true,
                                                  .rounds_bias = true};

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
    const struct kern_problem *p = &e->problem;
    struct conv_geometry g;

    read_geometry(p, &g, err);
    if (p->op != KERN_CONV_WGRAD && p->constant_in & 1u << CONV_W)
        e->packed[CONV_W] = (size_t)g.k * (size_t)g.depth *
                            infer_dtype_size(p->in[CONV_X].dtype);
    if (r->rounds_bias)
        e->packed[CONV_BIAS] = (size_t)kern_tensor_count(&p->in[CONV_BIAS]) *
                               infer_dtype_size(p->out[0].dtype);
    return cudnn_recipe_prepare(r, e, d, err);
}

/* The functions of a row: those of its recipe. */
#define RECIPE_ROW(name, recipe_)                                              \
    static int supports_##name(const struct kern_problem *p,                   \
                               const struct kern_device *d,                    \
                               struct infer_error *why)                        \
    {                                                                          \
        return cudnn_recipe_supports(&recipe_, p, d, why);                     \
    }                                                                          \
    static int variants_##name(const struct kern_problem *p,                   \
                               const struct kern_device *d,                    \
                               struct infer_error *err)                        \
    {                                                                          \
        return cudnn_recipe_variants(&recipe_, p, d, err);                     \
    }                                                                          \
    static int prepare_##name(struct kern_exec *e,                             \
                              const struct kern_device *d,                     \
                              struct infer_error *err)                         \
    {                                                                          \
        return prepare_with(&recipe_, e, d, err);                              \
    }                                                                          \
    KERN_FUNCTIONS(name) = {                                                   \
        .supports = supports_##name,                                           \
        .variants = variants_##name,                                           \
        .prepare = prepare_##name,                                             \
        .pack = pack,                                                          \
        .launch = cudnn_recipe_launch,                                         \
        .release = cudnn_recipe_release,                                       \
    };
RECIPE_ROW(conv_nhwc_cudnn, recipe)
RECIPE_ROW(conv_nhwc_tf32_cudnn, recipe_tf32)
RECIPE_ROW(conv_nhwc_cudnn_bias16, recipe_bias16)
