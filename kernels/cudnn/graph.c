/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and operations of graphs: see graph.h. */
#include <string.h>

#include "kernels/cudnn/descriptor.h"

/* The error of an FFT depends on the whole tile: windows with few terms would
 * lose more than in their sums.  The FFT pays only above that. */
#define FOURIER_WINDOW 5

/* Activations and packed weights start at multiples of this; it lets engines
 * move 16 bytes at a time. */
#define ALIGNMENT 16

struct cudnn_shape cudnn_shape_nhwc(cudnnDataType_t dtype, int rank,
                                    const int64_t *dim)
{
    struct cudnn_shape s = {.dtype = dtype, .rank = rank};
    int64_t stride = dim[1];

    memcpy(s.dim, dim, (size_t)rank * sizeof(*dim));
    s.stride[1] = 1;
    for (int i = rank - 1; i > 1; i--) {
        s.stride[i] = stride;
        stride *= dim[i];
    }
    s.stride[0] = stride;
    return s;
}

static void set_real(struct cudnn_graph *g, cudnnBackendDescriptor_t d,
                     cudnnBackendAttributeName_t name, double value)
{
    cudnn_set(g, d, name, CUDNN_TYPE_DOUBLE, 1, &value);
}

static const cudnnDataType_t single = CUDNN_DATA_FLOAT;

/* ---- tensors ------------------------------------------------------- */

cudnnBackendDescriptor_t cudnn_graph_tensor(struct cudnn_graph *g,
                                            const struct cudnn_shape *shape,
                                            int64_t uid)
{
    const int64_t alignment = ALIGNMENT;
    const bool is_virtual = uid >= CUDNN_VIRTUAL;
    cudnnBackendDescriptor_t t = cudnn_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    cudnn_set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
              &shape->dtype);
    cudnn_set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, shape->rank,
              shape->dim);
    cudnn_set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, shape->rank,
              shape->stride);
    cudnn_set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    cudnn_set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
              &alignment);
    cudnn_set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
              &is_virtual);
    cudnn_finalize(g, t);
    if (g->rc == 0 && !is_virtual)
        g->uid[g->n_uids++] = uid;
    return t;
}

/* A scalar operand, read from the graph when a plan runs. */
static cudnnBackendDescriptor_t number(struct cudnn_graph *g, int rank,
                                       float value)
{
    const bool by_value = true;
    const int64_t ones[CUDNN_MAX_RANK] = {1, 1, 1, 1, 1};
    const int64_t uid = CUDNN_VALUE + g->n_values;
    cudnnBackendDescriptor_t t = cudnn_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    cudnn_set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
              &single);
    cudnn_set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, ones);
    cudnn_set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, ones);
    cudnn_set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    cudnn_set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
              &(int64_t){sizeof(float)});
    cudnn_set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1,
              &by_value);
    cudnn_finalize(g, t);
    if (g->rc == 0) {
        g->value[g->n_values++] = value;
        g->uid[g->n_uids++] = uid;
    }
    return t;
}

cudnnBackendDescriptor_t cudnn_graph_virtual(struct cudnn_graph *g,
                                             const struct cudnn_shape *shape)
{
    struct cudnn_shape s = *shape;

    s.dtype = CUDNN_DATA_FLOAT;
    return cudnn_graph_tensor(g, &s, g->next_virtual++);
}

/* ---- operations ---------------------------------------------------- */

static void add_operation(struct cudnn_graph *g, cudnnBackendDescriptor_t op)
{
    cudnn_finalize(g, op);
    if (g->rc == 0)
        g->op[g->n_ops++] = op;
}

static cudnnBackendDescriptor_t convolution(struct cudnn_graph *g,
                                            const struct cudnn_window *win)
{
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t rank = win->rank;
    cudnnBackendDescriptor_t c =
        cudnn_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

    cudnn_set(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
              &single);
    cudnn_set(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
              CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    cudnn_set(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1,
              &rank);
    cudnn_set(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, rank,
              win->pre);
    cudnn_set(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64,
              rank, win->post);
    cudnn_set(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, rank,
              win->dilation);
    cudnn_set(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64,
              rank, win->stride);
    cudnn_finalize(g, c);
    return c;
}

/* cuDNN's names of the parts of a convolution, by direction. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
} names[] = {
    [CUDNN_FPROP] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [CUDNN_DGRAD] =
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [CUDNN_WGRAD] =
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

void cudnn_graph_conv(struct cudnn_graph *g, const struct cudnn_window *win,
                      enum cudnn_direction direction,
                      cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                      cudnnBackendDescriptor_t y)
{
    const float one = 1, zero = 0;
    cudnnBackendDescriptor_t conv = convolution(g, win);
    cudnnBackendDescriptor_t op = cudnn_make(g, names[direction].type);

    g->direction = direction;
    for (int i = 0; i < win->rank; i++) {
        g->small_window = g->small_window || win->size[i] < FOURIER_WINDOW;
        g->uneven_pads = g->uneven_pads || win->pre[i] != win->post[i];
    }
    cudnn_set_descriptor(g, op, names[direction].conv, conv);
    cudnn_set_descriptor(g, op, names[direction].x, x);
    cudnn_set_descriptor(g, op, names[direction].w, w);
    cudnn_set_descriptor(g, op, names[direction].y, y);
    cudnn_set(g, op, names[direction].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    cudnn_set(g, op, names[direction].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    add_operation(g, op);
}

void cudnn_graph_pool(struct cudnn_graph *g, const struct cudnn_window *win,
                      const struct kern_pool *pool, cudnnBackendDescriptor_t x,
                      cudnnBackendDescriptor_t y)
{
    const bool max = pool->kind == KERN_POOL_MAX;
    const cudnnResampleMode_t mode =
        max                       ? CUDNN_RESAMPLE_MAXPOOL
        : pool->count_include_pad ? CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING
                                  : CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
    const cudnnPaddingMode_t padding = max ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD;
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    const int64_t rank = win->rank;
    cudnnBackendDescriptor_t r =
        cudnn_make(g, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
    cudnnBackendDescriptor_t op;

    cudnn_set(g, r, CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, 1,
              &mode);
    cudnn_set(g, r, CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
              &single);
    cudnn_set(g, r, CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION,
              CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
    cudnn_set(g, r, CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE,
              1, &padding);
    cudnn_set(g, r, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1,
              &rank);
    cudnn_set(g, r, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, CUDNN_TYPE_INT64, rank,
              win->size);
    cudnn_set(g, r, CUDNN_ATTR_RESAMPLE_STRIDES, CUDNN_TYPE_INT64, rank,
              win->stride);
    cudnn_set(g, r, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_TYPE_INT64, rank,
              win->pre);
    cudnn_set(g, r, CUDNN_ATTR_RESAMPLE_POST_PADDINGS, CUDNN_TYPE_INT64, rank,
              win->post);
    cudnn_finalize(g, r);
    op = cudnn_make(g, CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
    cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, r);
    cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x);
    cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, y);
    add_operation(g, op);
}

static cudnnBackendDescriptor_t pointwise(struct cudnn_graph *g,
                                          cudnnPointwiseMode_t mode)
{
    cudnnBackendDescriptor_t d =
        cudnn_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);

    cudnn_set(g, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1,
              &mode);
    cudnn_set(g, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
              &single);
    return d;
}

static void add_pointwise(struct cudnn_graph *g, cudnnBackendDescriptor_t d,
                          cudnnBackendDescriptor_t x,
                          cudnnBackendDescriptor_t b,
                          cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t op;

    cudnn_finalize(g, d);
    op = cudnn_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                         d);
    cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_operation(g, op);
}

void cudnn_graph_add(struct cudnn_graph *g, cudnnBackendDescriptor_t a,
                     cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y)
{
    add_pointwise(g, pointwise(g, CUDNN_POINTWISE_ADD), a, b, y);
}

/* min(max(x, 0), b) as two operations: engines that make kernels for a graph
 * know these, while few know a clipped ReLU.  For IEEE products the latter are
 * the better ones. */
static void add_capped_relu(struct cudnn_graph *g, float b,
                            const struct cudnn_shape *shape,
                            cudnnBackendDescriptor_t x,
                            cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t v = cudnn_graph_virtual(g, shape);

    add_pointwise(g, pointwise(g, CUDNN_POINTWISE_RELU_FWD), x, NULL, v);
    add_pointwise(g, pointwise(g, CUDNN_POINTWISE_MIN), v,
                  number(g, shape->rank, b), y);
}

/* Attributes of a function in cuDNN in addition to its mode. */
enum act_param { ACT_NONE, ACT_A, ACT_ONE };

/* The functions that cuDNN has; identity and clip take more than a mode. */
static const struct {
    enum kern_unary_kind kind;
    cudnnPointwiseMode_t mode;
    enum act_param param;
    cudnnBackendAttributeName_t attribute; /* of the parameter */
} activations[] = {
    {KERN_IDENTITY, CUDNN_POINTWISE_ADD, ACT_NONE, CUDNN_ATTR_POINTWISE_MODE},
    {KERN_RELU, CUDNN_POINTWISE_RELU_FWD, ACT_NONE, CUDNN_ATTR_POINTWISE_MODE},
    {KERN_LEAKY_RELU, CUDNN_POINTWISE_RELU_FWD, ACT_A,
     CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE},
    {KERN_CLIP, CUDNN_POINTWISE_RELU_FWD, ACT_A,
     CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP},
    {KERN_SIGMOID, CUDNN_POINTWISE_SIGMOID_FWD, ACT_NONE,
     CUDNN_ATTR_POINTWISE_MODE},
    {KERN_TANH, CUDNN_POINTWISE_TANH_FWD, ACT_NONE, CUDNN_ATTR_POINTWISE_MODE},
    {KERN_SILU, CUDNN_POINTWISE_SWISH_FWD, ACT_A,
     CUDNN_ATTR_POINTWISE_SWISH_BETA},
    {KERN_ELU, CUDNN_POINTWISE_ELU_FWD, ACT_A, CUDNN_ATTR_POINTWISE_ELU_ALPHA},
    {KERN_SOFTPLUS, CUDNN_POINTWISE_SOFTPLUS_FWD, ACT_ONE,
     CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA},
    {KERN_GELU, CUDNN_POINTWISE_GELU_FWD, ACT_NONE, CUDNN_ATTR_POINTWISE_MODE},
    {KERN_GELU_TANH, CUDNN_POINTWISE_GELU_APPROX_TANH_FWD, ACT_NONE,
     CUDNN_ATTR_POINTWISE_MODE},
};

enum { ACTIVATIONS = sizeof activations / sizeof activations[0] };

/* ACTIVATIONS for a function that cuDNN lacks. */
static int activation_of(enum kern_unary_kind kind)
{
    int i = 0;

    while (i < ACTIVATIONS && activations[i].kind != kind)
        i++;
    return i;
}

bool cudnn_graph_knows(enum kern_unary_kind kind)
{
    return activation_of(kind) < ACTIVATIONS;
}

/* act: one that cudnn_graph_knows(). */
void cudnn_graph_unary(struct cudnn_graph *g, const struct kern_unary *act,
                       const struct cudnn_shape *shape,
                       cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y)
{
    const double a = (double)act->a, b = (double)act->b;
    const int i = activation_of(act->kind);

    if (act->kind == KERN_IDENTITY) {
        add_pointwise(g, pointwise(g, CUDNN_POINTWISE_ADD), x,
                      number(g, shape->rank, 0), y);
        return;
    }
    if (act->kind == KERN_CLIP && act->a == 0 && !g->ieee) {
        add_capped_relu(g, act->b, shape, x, y);
        return;
    }
    const cudnnBackendDescriptor_t d = pointwise(g, activations[i].mode);
    if (activations[i].param != ACT_NONE)
        set_real(g, d, activations[i].attribute,
                 activations[i].param == ACT_A ? a : 1);
    if (act->kind == KERN_CLIP)
        set_real(g, d, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, b);
    add_pointwise(g, d, x, NULL, y);
}
