/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms that made cuDNN's name, each a row of its own, through
 * cudnnConvolutionForward().
 *
 * They are here to be compared with: bare convolutions only, in the layout that
 * the row names.  The newer engines behind the graph interface are what the
 * planner uses.  No cuDNN has the algorithm that its header calls direct, and
 * 9.19 has no fused Winograd for Hopper.
 */
#include "kernels/cudnn/library.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/conv.h"
#include "kernels/problem.h"
#include "kernels/scalar.h"

#define REFUSE(why, ...) error_set(why, INFER_EUNSUPPORTED, __VA_ARGS__)

struct state {
    int ordinal;
    cudnnConvolutionFwdAlgo_t algo;
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

/* The geometry of a problem in either layout. */
static int read(const struct kern_problem *p, enum kern_layout *layout,
                struct conv_geometry *g, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[CONV_X], *y = &p->out[0];
    struct kern_problem q;
    int rc;

    *layout =
        kern_tensor_is_dense(x, KERN_NHWC) && kern_tensor_is_dense(y, KERN_NHWC)
            ? KERN_NHWC
            : KERN_NCHW;
    if (!kern_tensor_is_dense(x, *layout) || !kern_tensor_is_dense(y, *layout))
        return REFUSE(why, "activations do not lie dense in one layout");
    memcpy(&q, p, sizeof(q));
    q.in[CONV_X] = kern_tensor_dense(x->dtype, x->rank, x->dim, KERN_NHWC);
    q.out[0] = kern_tensor_dense(y->dtype, y->rank, y->dim, KERN_NHWC);
    rc = conv_weights_packable(p, why);
    if (rc == 0)
        rc = conv_geometry_read(&q, g, why);
    if (rc < 0)
        return rc;
    if (g->m == 0 || g->n * g->h * g->w == 0)
        return REFUSE(why, "a tensor is empty");
    if (!pads_alike(g->h, g->p, g->r, g->stride_h, g->dilation_h, g->pad_top) ||
        !pads_alike(g->w, g->q, g->s, g->stride_w, g->dilation_w, g->pad_left))
        return REFUSE(why, "pads differ at both ends");
    return 0;
}

static int check_epilogue(const struct kern_problem *p, struct infer_error *why)
{
    if (kern_problem_in(p, CONV_BIAS) || kern_problem_in(p, CONV_RESIDUAL) ||
        p->epilogue.act.kind != KERN_IDENTITY)
        return REFUSE(why, "computes convolutions alone, without bias, "
                           "residual and activation");
    return 0;
}

/* What transforms lose belongs to a whole tile: Winograd's for windows above
 * 3x3 multiply it by hundreds, and Fourier's cost small windows more than
 * they have terms.  Neither is a rival of kernels that keep the accuracy of
 * their type there, and nobody would use them for that. */
static int check_window(cudnnConvolutionFwdAlgo_t algo,
                        const struct conv_geometry *g, struct infer_error *why)
{
    const bool winograd = algo == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
    const bool fourier = algo == CUDNN_CONVOLUTION_FWD_ALGO_FFT ||
                         algo == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING;

    if (winograd && (g->r != 3 || g->s != 3))
        return REFUSE(why, "takes windows of 3x3, found %dx%d", g->r, g->s);
    if (fourier && (g->r < 3 || g->s < 3))
        return REFUSE(why, "takes windows from 3x3 on, found %dx%d", g->r,
                      g->s);
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

static int ask_workspace(const struct cudnn_library *lib, const struct state *s,
                         struct infer_error *err, size_t *out)
{
    struct cudnn_lane *lane;
    cudnnHandle_t handle;
    int rc = cudnn_enter_planning(s->ordinal, err, &lane, &handle);

    if (rc < 0)
        return rc;
    rc = CUDNN_CALL(err, lib,
                    cudnnGetConvolutionForwardWorkspaceSize(
                        handle, s->x, s->w, s->conv, s->y, s->algo, out));
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
        rc = check_window(s->algo, &g, err);
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

static int supports_with(cudnnConvolutionFwdAlgo_t algo,
                         const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    struct state s = {.algo = algo};
    size_t workspace;
    const int rc = state_fill(p, d->ordinal, why, &s, &workspace);

    if (rc == 0)
        state_free(&s);
    return cudnn_refuse(why, rc);
}

static int prepare_with(cudnnConvolutionFwdAlgo_t algo, struct kern_exec *e,
                        const struct kern_device *d, struct infer_error *err)
{
    const struct kern_tensor *w = &e->problem.in[CONV_W];
    struct state *s = calloc(1, sizeof(*s));
    int rc;

    if (!s)
        return error_set(err, INFER_EMEMORY, "cuDNN: out of memory");
    s->algo = algo;
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

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct cudnn_library *lib = cudnn_library(err);
    const struct state *s = e->state;
    const float one = 1, zero = 0;
    struct cudnn_lane *lane;
    cudnnHandle_t handle;
    int rc = cudnn_enter(s->ordinal, args->stream, err, &lane, &handle);

    if (rc < 0)
        return rc;
    rc = CUDNN_CALL(err, lib,
                    cudnnConvolutionForward(
                        handle, &one, s->x, args->in[CONV_X], s->w,
                        args->in[CONV_W], s->conv, s->algo, args->workspace,
                        e->workspace, &zero, s->y, args->out[0]));
    cudnn_leave(lane);
    return rc;
}

#define ALGORITHM(name_, algo)                                                 \
    static int supports_##name_(const struct kern_problem *p,                  \
                                const struct kern_device *d,                   \
                                struct infer_error *why)                       \
    {                                                                          \
        return supports_with(algo, p, d, why);                                 \
    }                                                                          \
    static int prepare_##name_(struct kern_exec *e,                            \
                               const struct kern_device *d,                    \
                               struct infer_error *err)                        \
    {                                                                          \
        return prepare_with(algo, e, d, err);                                  \
    }
ALGORITHM(implicit_gemm, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM)
ALGORITHM(precomp_gemm, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)
ALGORITHM(gemm, CUDNN_CONVOLUTION_FWD_ALGO_GEMM)
ALGORITHM(fft, CUDNN_CONVOLUTION_FWD_ALGO_FFT)
ALGORITHM(fft_tiling, CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING)
ALGORITHM(winograd_nonfused, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED)

#define ROW(symbol, name_, type, layout_, flags_)                              \
    const struct kern_row symbol = {.name = #symbol,                           \
                                    .op = KERN_CONV_FPROP,                     \
                                    .backend = INFER_BACKEND_CUDNN,            \
                                    .layout = layout_,                         \
                                    .dtype = type,                             \
                                    .acc = INFER_F32,                          \
                                    .min_sm = CUDNN_MIN_SM(type, 0),           \
                                    .flags = KERN_BASELINE | (flags_),         \
                                    .supports = supports_##name_,              \
                                    .prepare = prepare_##name_,                \
                                    .pack = pack,                              \
                                    .launch = launch,                          \
                                    .release = release};

ROW(conv2d_fprop_nhwc_f32_cudnn_implicit_gemm, implicit_gemm, INFER_F32,
    KERN_NHWC, 0)
ROW(conv2d_fprop_nhwc_f32_cudnn_precomp_gemm, precomp_gemm, INFER_F32,
    KERN_NHWC, 0)
ROW(conv2d_fprop_nchw_f32_cudnn_gemm, gemm, INFER_F32, KERN_NCHW, 0)
ROW(conv2d_fprop_nchw_f32_cudnn_fft, fft, INFER_F32, KERN_NCHW, KERN_INEXACT)
ROW(conv2d_fprop_nchw_f32_cudnn_fft_tiling, fft_tiling, INFER_F32, KERN_NCHW,
    KERN_INEXACT)
ROW(conv2d_fprop_nchw_f32_cudnn_winograd_nonfused, winograd_nonfused, INFER_F32,
    KERN_NCHW, KERN_INEXACT)
ROW(conv2d_fprop_nhwc_f16_cudnn_implicit_gemm, implicit_gemm, INFER_F16,
    KERN_NHWC, 0)
ROW(conv2d_fprop_nhwc_f16_cudnn_precomp_gemm, precomp_gemm, INFER_F16,
    KERN_NHWC, 0)
ROW(conv2d_fprop_nchw_f16_cudnn_gemm, gemm, INFER_F16, KERN_NCHW, 0)
ROW(conv2d_fprop_nchw_f16_cudnn_fft, fft, INFER_F16, KERN_NCHW, KERN_INEXACT)
ROW(conv2d_fprop_nchw_f16_cudnn_fft_tiling, fft_tiling, INFER_F16, KERN_NCHW,
    KERN_INEXACT)
ROW(conv2d_fprop_nchw_f16_cudnn_winograd_nonfused, winograd_nonfused, INFER_F16,
    KERN_NCHW, KERN_INEXACT)
