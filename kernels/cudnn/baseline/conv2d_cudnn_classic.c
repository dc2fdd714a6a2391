/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN's classic algorithms, each a row of its own, through
 * cudnnConvolutionForward(), -BackwardData() and -BackwardFilter().
 *
 * kbench compares with them: bare convolutions only, in the layout that the row
 * names, weights and their gradient in the type of the activations.  Plans use
 * the newer engines of the graph interface.  No cuDNN has the algorithm that
 * its header calls direct, and 9.19 has no fused Winograd for Hopper. Gradients
 * summed by atomic additions (algorithm 0 of both, 3 of the weights') differ
 * from run to run; in 16 bits each of the additions rounds, so there they are
 * no rows.
 */
#include "kernels/cudnn/library.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/problem.h"

#define REFUSE(why, ...) error_set(why, INFER_EUNSUPPORTED, __VA_ARGS__)

/* An algorithm of a direction, by its number in that direction's enumeration,
 * and its transform. */
struct algorithm {
    enum cudnn_direction direction;
    int number;
    enum { PLAIN, FOURIER, WINOGRAD } transform;
};

struct state {
    int ordinal;
    const struct algorithm *algorithm;
    enum kern_layout layout;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
};

/* ---- limits -------------------------------------------------------- */

/* Pads at the end for which cuDNN, which pads both ends alike, computes the
 * same output. */
static bool pads_alike(int64_t extent, int64_t out, int64_t size,
                       int64_t stride, int64_t dilation, int64_t pad)
{
    const int64_t window = (size - 1) * dilation + 1;

    return pad >= 0 && extent + 2 * pad >= window &&
           (extent + 2 * pad - window) / stride + 1 == out;
}

/* The geometry of a convolution in either layout. */
static int read(const struct kern_problem *p, enum kern_layout *layout,
                struct conv_geometry *g, struct infer_error *why)
{
    struct kern_problem conv;
    struct kern_tensor *x = &conv.in[CONV_X], *y = &conv.out[0];
    int rc;

    cudnn_as_convolution(p, &conv);
    *layout =
        kern_tensor_is_dense(x, KERN_NHWC) && kern_tensor_is_dense(y, KERN_NHWC)
            ? KERN_NHWC
            : KERN_NCHW;
    if (!kern_tensor_is_dense(x, *layout) || !kern_tensor_is_dense(y, *layout))
        return REFUSE(why, "activations do not lie dense in one layout");
    *x = kern_tensor_dense(x->dtype, x->rank, x->dim, KERN_NHWC);
    *y = kern_tensor_dense(y->dtype, y->rank, y->dim, KERN_NHWC);
    rc = conv_geometry_read(&conv, g, why);
    if (rc < 0)
        return rc;
    if (g->m == 0 || g->n * g->h * g->w == 0)
        return REFUSE(why, "a tensor is empty");
    if (!pads_alike(g->h, g->p, g->r, g->stride_h, g->dilation_h, g->pad_top) ||
        !pads_alike(g->w, g->q, g->s, g->stride_w, g->dilation_w, g->pad_left))
        return REFUSE(why, "pads differ at both ends");
    return 0;
}

static bool packs(const struct kern_problem *p)
{
    return p->op != KERN_CONV_WGRAD && p->constant_in & 1u << CONV_W;
}

/* Constant weights are packed; others, and gradients, lie as the activations
 * do. */
static int check_weights(const struct kern_problem *p, enum kern_layout layout,
                         struct infer_error *why)
{
    const struct kern_tensor *w =
        p->op == KERN_CONV_WGRAD ? &p->out[0] : &p->in[CONV_W];

    if (packs(p))
        return conv_weights_packable(p, why);
    if (w->dtype != p->in[CONV_X].dtype || !kern_tensor_is_dense(w, layout))
        return REFUSE(why, "weights or their gradient are not of the "
                           "activations' type and layout");
    return 0;
}

static int check_epilogue(const struct kern_problem *p, struct infer_error *why)
{
    const bool bias =
        p->op != KERN_CONV_WGRAD && kern_problem_in(p, CONV_BIAS) != NULL;

    if (bias || kern_problem_in(p, kern_op_residual(p->op)) ||
        p->epilogue.act.kind != KERN_IDENTITY)
        return REFUSE(why, "computes convolutions alone, without bias, "
                           "residual and activation");
    return 0;
}

/* The error of a transform depends on the whole tile.  Winograd's above 3x3
 * multiply it by hundreds; an FFT loses more on small windows than their sums,
 * except in gradients of weights.  There neither is as accurate as its type,
 * and so no baseline. */
static int check_window(const struct algorithm *a,
                        const struct conv_geometry *g, struct infer_error *why)
{
    if (a->transform == WINOGRAD && (g->r != 3 || g->s != 3))
        return REFUSE(why, "takes windows of 3x3, found %dx%d", g->r, g->s);
    if (a->transform == FOURIER && a->direction != CUDNN_WGRAD &&
        (g->r < 3 || g->s < 3))
        return REFUSE(why, "takes windows from 3x3 on, found %dx%d", g->r,
                      g->s);
    return 0;
}

/* Gradients in 16 bits are summed from parts of 16 bits where channels do not
 * fill vectors; algorithm 1 of dgrad does so now and then whatever they are, by
 * more than F16 allows, so that there it is no row. */
static int check_channels(const struct algorithm *a,
                          const struct kern_problem *p,
                          const struct conv_geometry *g,
                          struct infer_error *why)
{
    if (a->direction != CUDNN_FPROP && a->transform == PLAIN &&
        p->in[CONV_X].dtype != INFER_F32 && (g->cg % 8 != 0 || g->kg % 8 != 0))
        return REFUSE(why, "takes channels in eights, found %d and %d", g->cg,
                      g->kg);
    return 0;
}

/* ---- descriptors --------------------------------------------------- */

static void state_free(struct state *s)
{
    const struct cudnn_library *lib = cudnn_library(NULL);

    if (s->x)
        lib->cudnnDestroyTensorDescriptor(s->x);
    if (s->y)
        lib->cudnnDestroyTensorDescriptor(s->y);
    if (s->w)
        lib->cudnnDestroyFilterDescriptor(s->w);
    if (s->conv)
        lib->cudnnDestroyConvolutionDescriptor(s->conv);
}

static int describe(const struct cudnn_library *lib, cudnnDataType_t t,
                    enum kern_layout layout, int n, int c, int h, int w,
                    struct infer_error *err, cudnnTensorDescriptor_t *out)
{
    const bool last = layout == KERN_NHWC;
    int rc = CUDNN_CALL(err, lib, cudnnCreateTensorDescriptor(out));

    if (rc < 0)
        return rc;
    return CUDNN_CALL(err, lib,
                      cudnnSetTensor4dDescriptorEx(
                          *out, t, n, c, h, w, c * h * w, last ? 1 : h * w,
                          last ? w * c : w, last ? c : 1));
}

static int describe_filter(const struct cudnn_library *lib, cudnnDataType_t t,
                           const struct conv_geometry *g, struct state *s,
                           struct infer_error *err)
{
    int rc = CUDNN_CALL(err, lib, cudnnCreateFilterDescriptor(&s->w));

    if (rc < 0)
        return rc;
    return CUDNN_CALL(err, lib,
                      cudnnSetFilter4dDescriptor(s->w, t,
                                                 s->layout == KERN_NHWC
                                                     ? CUDNN_TENSOR_NHWC
                                                     : CUDNN_TENSOR_NCHW,
                                                 g->k, g->cg, g->r, g->s));
}

static int describe_conv(const struct cudnn_library *lib, enum infer_dtype t,
                         const struct conv_geometry *g, struct state *s,
                         struct infer_error *err)
{
    const cudnnMathType_t math =
        t == INFER_F32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
    int rc = CUDNN_CALL(err, lib, cudnnCreateConvolutionDescriptor(&s->conv));

    if (rc == 0)
        rc = CUDNN_CALL(err, lib,
                        cudnnSetConvolution2dDescriptor(
                            s->conv, g->pad_top, g->pad_left, g->stride_h,
                            g->stride_w, g->dilation_h, g->dilation_w,
                            CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    if (rc == 0)
        rc = CUDNN_CALL(err, lib,
                        cudnnSetConvolutionGroupCount(s->conv, g->groups));
    if (rc == 0)
        rc = CUDNN_CALL(err, lib, cudnnSetConvolutionMathType(s->conv, math));
    return rc;
}

static int unknown_direction(struct infer_error *err)
{
    return error_set(err, INFER_EUNSUPPORTED, "cuDNN: unknown direction");
}

static int workspace_of(const struct cudnn_library *lib, const struct state *s,
                        cudnnHandle_t handle, struct infer_error *err,
                        size_t *out)
{
    const int algo = s->algorithm->number;

    switch (s->algorithm->direction) {
    case CUDNN_FPROP:
        return CUDNN_CALL(err, lib,
                          cudnnGetConvolutionForwardWorkspaceSize(
                              handle, s->x, s->w, s->conv, s->y,
                              (cudnnConvolutionFwdAlgo_t)algo, out));
    case CUDNN_DGRAD:
        return CUDNN_CALL(err, lib,
                          cudnnGetConvolutionBackwardDataWorkspaceSize(
                              handle, s->w, s->y, s->conv, s->x,
                              (cudnnConvolutionBwdDataAlgo_t)algo, out));
    case CUDNN_WGRAD:
        return CUDNN_CALL(err, lib,
                          cudnnGetConvolutionBackwardFilterWorkspaceSize(
                              handle, s->x, s->y, s->conv, s->w,
                              (cudnnConvolutionBwdFilterAlgo_t)algo, out));
    }
    return unknown_direction(err);
}

static int ask_workspace(const struct cudnn_library *lib, const struct state *s,
                         struct infer_error *err, size_t *out)
{
    struct cudnn_lane *lane;
    cudnnHandle_t handle;
    int rc = cudnn_enter_planning(s->ordinal, err, &lane, &handle);

    if (rc < 0)
        return rc;
    rc = workspace_of(lib, s, handle, err, out);
    cudnn_leave(lane);
    return rc;
}

/* Fills all of s but the algorithm, which is given; to be freed by the caller
 * where that succeeds. */
static int state_fill(const struct kern_problem *p, int ordinal,
                      struct infer_error *err, struct state *s,
                      size_t *workspace)
{
    const struct cudnn_library *lib = cudnn_library(err);
    const cudnnDataType_t t = cudnn_dtype(p->in[CONV_X].dtype);
    struct conv_geometry g;
    int rc;

    if (!lib)
        return INFER_EDEVICE;
    rc = check_epilogue(p, err);
    if (rc == 0)
        rc = read(p, &s->layout, &g, err);
    if (rc == 0)
        rc = check_weights(p, s->layout, err);
    if (rc == 0)
        rc = check_window(s->algorithm, &g, err);
    if (rc == 0)
        rc = check_channels(s->algorithm, p, &g, err);
    if (rc < 0)
        return rc;
    s->ordinal = ordinal;
    rc = describe(lib, t, s->layout, g.n, g.c, g.h, g.w, err, &s->x);
    if (rc == 0)
        rc = describe(lib, t, s->layout, g.n, g.k, g.p, g.q, err, &s->y);
    if (rc == 0)
        rc = describe_filter(lib, t, &g, s, err);
    if (rc == 0)
        rc = describe_conv(lib, p->in[CONV_X].dtype, &g, s, err);
    if (rc == 0)
        rc = ask_workspace(lib, s, err, workspace);
    if (rc < 0)
        state_free(s);
    return rc;
}

/* ---- rows ---------------------------------------------------------- */

static int supports_with(const struct algorithm *algorithm,
                         const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    struct state s = {.algorithm = algorithm};
    size_t workspace;
    const int rc = state_fill(p, d->ordinal, why, &s, &workspace);

    if (rc == 0)
        state_free(&s);
    return cudnn_refuse(why, rc);
}

static int prepare_with(const struct algorithm *algorithm, struct kern_exec *e,
                        const struct kern_device *d, struct infer_error *err)
{
    const struct kern_tensor *w = &e->problem.in[CONV_W];
    struct state *s = calloc(1, sizeof(*s));
    int rc;

    if (!s)
        return error_set(err, INFER_EMEMORY, "cuDNN: out of memory");
    s->algorithm = algorithm;
    rc = state_fill(&e->problem, d->ordinal, err, s, &e->workspace);
    if (rc == 0) {
        rc = cudnn_hold(d->ordinal, err);
        if (rc < 0)
            state_free(s);
    }
    if (rc < 0) {
        free(s);
        return rc;
    }
    if (packs(&e->problem))
        e->packed[CONV_W] = (size_t)kern_tensor_count(w) *
                            infer_dtype_size(e->problem.in[CONV_X].dtype);
    e->state = s;
    return 0;
}

static void release(struct kern_exec *e)
{
    struct state *s = e->state;

    if (!s)
        return;
    state_free(s);
    cudnn_unhold(s->ordinal);
    free(s);
    e->state = NULL;
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct conv_geometry g;
    enum kern_layout layout;

    (void)i;
    read(p, &layout, &g, err);
    if (layout == KERN_NHWC)
        conv_pack_rows(&g, p->in[CONV_W].dtype, src, p->in[CONV_X].dtype,
                       CONV_ROUND_TYPE, g.cg, g.depth, dst);
    else
        scalar_convert(p->in[CONV_W].dtype, src, p->in[CONV_X].dtype, dst,
                       (size_t)kern_tensor_count(&p->in[CONV_W]));
    return 0;
}

static int run(const struct cudnn_library *lib, const struct kern_exec *e,
               const struct kern_args *args, cudnnHandle_t handle,
               struct infer_error *err)
{
    const struct state *s = e->state;
    const int algo = s->algorithm->number;
    const float one = 1, zero = 0;

    switch (s->algorithm->direction) {
    case CUDNN_FPROP:
        return CUDNN_CALL(err, lib,
                          cudnnConvolutionForward(
                              handle, &one, s->x, args->in[CONV_X], s->w,
                              args->in[CONV_W], s->conv,
                              (cudnnConvolutionFwdAlgo_t)algo, args->workspace,
                              e->workspace, &zero, s->y, args->out[0]));
    case CUDNN_DGRAD:
        return CUDNN_CALL(
            err, lib,
            cudnnConvolutionBackwardData(
                handle, &one, s->w, args->in[CONV_W], s->y, args->in[CONV_X],
                s->conv, (cudnnConvolutionBwdDataAlgo_t)algo, args->workspace,
                e->workspace, &zero, s->x, args->out[0]));
    case CUDNN_WGRAD:
        return CUDNN_CALL(err, lib,
                          cudnnConvolutionBackwardFilter(
                              handle, &one, s->x, args->in[CUDNN_WGRAD_X], s->y,
                              args->in[CUDNN_WGRAD_DY], s->conv,
                              (cudnnConvolutionBwdFilterAlgo_t)algo,
                              args->workspace, e->workspace, &zero, s->w,
                              args->out[0]));
    }
    return unknown_direction(err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct cudnn_library *lib = cudnn_library(err);
    const struct state *s = e->state;
    struct cudnn_lane *lane;
    cudnnHandle_t handle;
    int rc = cudnn_enter(s->ordinal, args->stream, err, &lane, &handle);

    if (rc < 0)
        return rc;
    rc = run(lib, e, args, handle, err);
    cudnn_leave(lane);
    return rc;
}

#define ALGORITHM(name_, direction_, number_, transform_)                      \
    static const struct algorithm name_ = {                                    \
        .direction = direction_, .number = number_, .transform = transform_};  \
    static int supports_##name_(const struct kern_problem *p,                  \
                                const struct kern_device *d,                   \
                                struct infer_error *why)                       \
    {                                                                          \
        return supports_with(&name_, p, d, why);                               \
    }                                                                          \
    static int prepare_##name_(struct kern_exec *e,                            \
                               const struct kern_device *d,                    \
                               struct infer_error *err)                        \
    {                                                                          \
        return prepare_with(&name_, e, d, err);                                \
    }                                                                          \
    KERN_FUNCTIONS(conv2d_cudnn_##name_) = {                                   \
        .supports = supports_##name_,                                          \
        .prepare = prepare_##name_,                                            \
        .pack = pack,                                                          \
        .launch = launch,                                                      \
        .release = release,                                                    \
    };
#define FWD(name_)    CUDNN_CONVOLUTION_FWD_ALGO_##name_
#define DATA(name_)   CUDNN_CONVOLUTION_BWD_DATA_ALGO_##name_
#define FILTER(name_) CUDNN_CONVOLUTION_BWD_FILTER_ALGO_##name_
ALGORITHM(fprop_implicit_gemm, CUDNN_FPROP, FWD(IMPLICIT_GEMM), PLAIN)
ALGORITHM(fprop_precomp_gemm, CUDNN_FPROP, FWD(IMPLICIT_PRECOMP_GEMM), PLAIN)
ALGORITHM(fprop_gemm, CUDNN_FPROP, FWD(GEMM), PLAIN)
ALGORITHM(fprop_fft, CUDNN_FPROP, FWD(FFT), FOURIER)
ALGORITHM(fprop_fft_tiling, CUDNN_FPROP, FWD(FFT_TILING), FOURIER)
ALGORITHM(fprop_winograd_nonfused, CUDNN_FPROP, FWD(WINOGRAD_NONFUSED),
          WINOGRAD)
ALGORITHM(dgrad_algo0, CUDNN_DGRAD, DATA(0), PLAIN)
ALGORITHM(dgrad_algo1, CUDNN_DGRAD, DATA(1), PLAIN)
ALGORITHM(dgrad_fft, CUDNN_DGRAD, DATA(FFT), FOURIER)
ALGORITHM(dgrad_fft_tiling, CUDNN_DGRAD, DATA(FFT_TILING), FOURIER)
ALGORITHM(dgrad_winograd_nonfused, CUDNN_DGRAD, DATA(WINOGRAD_NONFUSED),
          WINOGRAD)
ALGORITHM(wgrad_algo0, CUDNN_WGRAD, FILTER(0), PLAIN)
ALGORITHM(wgrad_algo1, CUDNN_WGRAD, FILTER(1), PLAIN)
ALGORITHM(wgrad_algo3, CUDNN_WGRAD, FILTER(3), PLAIN)
ALGORITHM(wgrad_fft, CUDNN_WGRAD, FILTER(FFT), FOURIER)
ALGORITHM(wgrad_fft_tiling, CUDNN_WGRAD, FILTER(FFT_TILING), FOURIER)
ALGORITHM(wgrad_winograd_nonfused, CUDNN_WGRAD, FILTER(WINOGRAD_NONFUSED),
          WINOGRAD)
