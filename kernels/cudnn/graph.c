/* SPDX-License-Identifier: Apache-2.0 */
/* Operation graphs: see graph.h. */
#include "kernels/cudnn/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What Fourier's transform loses belongs to a whole tile, so that windows with
 * few terms lose more than their sums would.  It pays above that anyway. */
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

/* ---- descriptors --------------------------------------------------- */

void cudnn_graph_init(struct cudnn_graph *g, const struct cudnn_library *lib,
                      bool ieee, struct infer_error *err)
{
    memset(g, 0, sizeof(*g));
    g->lib = lib;
    g->ieee = ieee;
    g->err = err;
    g->next_virtual = CUDNN_VIRTUAL;
}

void cudnn_graph_free(struct cudnn_graph *g)
{
    for (int i = 0; i < g->n_engines; i++)
        g->lib->cudnnBackendDestroyDescriptor(g->engine[i].config);
    for (int i = g->n_own; i-- > 0;)
        g->lib->cudnnBackendDestroyDescriptor(g->own[i]);
    free(g->engine);
    free(g->own);
    memset(g, 0, sizeof(*g));
}

static bool reserve(struct cudnn_graph *g)
{
    const int capacity = g->own_capacity ? 2 * g->own_capacity : 16;
    cudnnBackendDescriptor_t *own;

    if (g->n_own < g->own_capacity)
        return true;
    own = realloc(g->own, (size_t)capacity * sizeof(*own));
    if (!own) {
        g->rc = error_set(g->err, INFER_EMEMORY, "cuDNN: out of memory");
        return false;
    }
    g->own = own;
    g->own_capacity = capacity;
    return true;
}

/* A descriptor that the graph owns; NULL after a failure. */
static cudnnBackendDescriptor_t make(struct cudnn_graph *g,
                                     cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;

    if (g->rc < 0 || !reserve(g))
        return NULL;
    g->rc = CUDNN_CALL(g->err, g->lib, cudnnBackendCreateDescriptor(type, &d));
    if (g->rc < 0)
        return NULL;
    g->own[g->n_own++] = d;
    return d;
}

static void set(struct cudnn_graph *g, cudnnBackendDescriptor_t d,
                cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count,
                const void *value)
{
    if (g->rc == 0)
        g->rc =
            CUDNN_CALL(g->err, g->lib,
                       cudnnBackendSetAttribute(d, name, type, count, value));
}

static void set_descriptor(struct cudnn_graph *g, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value)
{
    set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_real(struct cudnn_graph *g, cudnnBackendDescriptor_t d,
                     cudnnBackendAttributeName_t name, double value)
{
    set(g, d, name, CUDNN_TYPE_DOUBLE, 1, &value);
}

static void finalize(struct cudnn_graph *g, cudnnBackendDescriptor_t d)
{
    if (g->rc == 0)
        g->rc = CUDNN_CALL(g->err, g->lib, cudnnBackendFinalize(d));
}

static const cudnnDataType_t single = CUDNN_DATA_FLOAT;

/* ---- tensors ------------------------------------------------------- */

cudnnBackendDescriptor_t cudnn_graph_tensor(struct cudnn_graph *g,
                                            const struct cudnn_shape *shape,
                                            int64_t uid)
{
    const int64_t alignment = ALIGNMENT;
    const bool is_virtual = uid >= CUDNN_VIRTUAL;
    cudnnBackendDescriptor_t t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
        &shape->dtype);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, shape->rank,
        shape->dim);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, shape->rank,
        shape->stride);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
        &alignment);
    set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    finalize(g, t);
    if (g->rc == 0 && !is_virtual)
        g->uid[g->n_uids++] = uid;
    return t;
}

/* A number that every element meets, read from the graph when a plan runs. */
static cudnnBackendDescriptor_t number(struct cudnn_graph *g, int rank,
                                       float value)
{
    const bool by_value = true;
    const int64_t ones[CUDNN_MAX_RANK] = {1, 1, 1, 1, 1};
    const int64_t uid = CUDNN_VALUE + g->n_values;
    cudnnBackendDescriptor_t t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &single);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, ones);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, ones);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
        &(int64_t){sizeof(float)});
    set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finalize(g, t);
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
    finalize(g, op);
    if (g->rc == 0)
        g->op[g->n_ops++] = op;
}

static cudnnBackendDescriptor_t convolution(struct cudnn_graph *g,
                                            const struct cudnn_window *win)
{
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t rank = win->rank;
    cudnnBackendDescriptor_t c = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

    set(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
        &single);
    set(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
        &mode);
    set(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank);
    set(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, rank,
        win->pre);
    set(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, rank,
        win->post);
    set(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, rank,
        win->dilation);
    set(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, rank,
        win->stride);
    finalize(g, c);
    return c;
}

/* What cuDNN calls the parts of a convolution, by direction. */
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
    cudnnBackendDescriptor_t op = make(g, names[direction].type);

    g->direction = direction;
    for (int i = 0; i < win->rank; i++) {
        g->small_window = g->small_window || win->size[i] < FOURIER_WINDOW;
        g->uneven_pads = g->uneven_pads || win->pre[i] != win->post[i];
    }
    set_descriptor(g, op, names[direction].conv, conv);
    set_descriptor(g, op, names[direction].x, x);
    set_descriptor(g, op, names[direction].w, w);
    set_descriptor(g, op, names[direction].y, y);
    set(g, op, names[direction].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(g, op, names[direction].beta, CUDNN_TYPE_FLOAT, 1, &zero);
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
    cudnnBackendDescriptor_t r = make(g, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
    cudnnBackendDescriptor_t op;

    set(g, r, CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, 1, &mode);
    set(g, r, CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &single);
    set(g, r, CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION,
        1, &nan);
    set(g, r, CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, 1,
        &padding);
    set(g, r, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank);
    set(g, r, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, CUDNN_TYPE_INT64, rank,
        win->size);
    set(g, r, CUDNN_ATTR_RESAMPLE_STRIDES, CUDNN_TYPE_INT64, rank, win->stride);
    set(g, r, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_TYPE_INT64, rank,
        win->pre);
    set(g, r, CUDNN_ATTR_RESAMPLE_POST_PADDINGS, CUDNN_TYPE_INT64, rank,
        win->post);
    finalize(g, r);
    op = make(g, CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, r);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, y);
    add_operation(g, op);
}

static cudnnBackendDescriptor_t pointwise(struct cudnn_graph *g,
                                          cudnnPointwiseMode_t mode)
{
    cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);

    set(g, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(g, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &single);
    return d;
}

static void add_pointwise(struct cudnn_graph *g, cudnnBackendDescriptor_t d,
                          cudnnBackendDescriptor_t x,
                          cudnnBackendDescriptor_t b,
                          cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t op;

    finalize(g, d);
    op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
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

bool cudnn_graph_knows(enum kern_unary_kind kind)
{
    switch (kind) {
    case KERN_IDENTITY:
    case KERN_RELU:
    case KERN_LEAKY_RELU:
    case KERN_CLIP:
    case KERN_SIGMOID:
    case KERN_TANH:
    case KERN_SILU:
    case KERN_ELU:
    case KERN_SOFTPLUS:
    case KERN_GELU:
    case KERN_GELU_TANH:
        return true;
    default:
        return false;
    }
}

void cudnn_graph_unary(struct cudnn_graph *g, const struct kern_unary *act,
                       const struct cudnn_shape *shape,
                       cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y)
{
    const double a = (double)act->a, b = (double)act->b;
    cudnnBackendDescriptor_t d = NULL;

    switch (act->kind) {
    case KERN_IDENTITY:
        add_pointwise(g, pointwise(g, CUDNN_POINTWISE_ADD), x,
                      number(g, shape->rank, 0), y);
        return;
    case KERN_RELU:
        d = pointwise(g, CUDNN_POINTWISE_RELU_FWD);
        break;
    case KERN_LEAKY_RELU:
        d = pointwise(g, CUDNN_POINTWISE_RELU_FWD);
        set_real(g, d, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, a);
        break;
    case KERN_CLIP:
        if (act->a == 0 && !g->ieee) {
            add_capped_relu(g, act->b, shape, x, y);
            return;
        }
        d = pointwise(g, CUDNN_POINTWISE_RELU_FWD);
        set_real(g, d, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, a);
        set_real(g, d, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, b);
        break;
    case KERN_SIGMOID:
        d = pointwise(g, CUDNN_POINTWISE_SIGMOID_FWD);
        break;
    case KERN_TANH:
        d = pointwise(g, CUDNN_POINTWISE_TANH_FWD);
        break;
    case KERN_SILU:
        d = pointwise(g, CUDNN_POINTWISE_SWISH_FWD);
        set_real(g, d, CUDNN_ATTR_POINTWISE_SWISH_BETA, a);
        break;
    case KERN_ELU:
        d = pointwise(g, CUDNN_POINTWISE_ELU_FWD);
        set_real(g, d, CUDNN_ATTR_POINTWISE_ELU_ALPHA, a);
        break;
    case KERN_SOFTPLUS:
        d = pointwise(g, CUDNN_POINTWISE_SOFTPLUS_FWD);
        set_real(g, d, CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, 1);
        break;
    case KERN_GELU:
        d = pointwise(g, CUDNN_POINTWISE_GELU_FWD);
        break;
    case KERN_GELU_TANH:
        d = pointwise(g, CUDNN_POINTWISE_GELU_APPROX_TANH_FWD);
        break;
    default: /* cudnn_graph_knows() */
        break;
    }
    add_pointwise(g, d, x, NULL, y);
}

/* ---- engines ------------------------------------------------------- */

static bool has_note(const int *notes, int64_t n, int note)
{
    for (int64_t i = 0; i < n; i++)
        if (notes[i] == note)
            return true;
    return false;
}

/* The settings of an engine as text: " k2=1 k3=0". */
static void describe_knobs(const struct cudnn_graph *g,
                           cudnnBackendDescriptor_t config, char *text,
                           size_t bytes)
{
    enum { MAX_KNOBS = CUDNN_KNOB_TYPE_COUNTS };
    const struct cudnn_library *lib = g->lib;
    cudnnBackendDescriptor_t knob[MAX_KNOBS];
    int64_t n = 0, made = 0;
    size_t used = 0;

    while (made < MAX_KNOBS && lib->cudnnBackendCreateDescriptor(
                                   CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                                   &knob[made]) == CUDNN_STATUS_SUCCESS)
        made++;
    if (lib->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &n,
                                      knob) != CUDNN_STATUS_SUCCESS)
        n = 0;
    for (int64_t i = 0; i < n && i < made && used < bytes; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_SPLIT_K;
        int64_t value = 0, one = 0;

        lib->cudnnBackendGetAttribute(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                      CUDNN_TYPE_KNOB_TYPE, 1, &one, &type);
        lib->cudnnBackendGetAttribute(knob[i],
                                      CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                      CUDNN_TYPE_INT64, 1, &one, &value);
        used += (size_t)snprintf(text + used, bytes - used, " k%d=%lld",
                                 (int)type, (long long)value);
    }
    while (made > 0)
        lib->cudnnBackendDestroyDescriptor(knob[--made]);
}

/* What engines of cuDNN 9.19 get wrong on an H200, as checkkern found;
 * compiled: while planning. */
static bool is_faulty(const struct cudnn_graph *g, int64_t index, bool compiled)
{
    /* Off by up to a place of BF16 where the result takes the place of what is
     * added to it. */
    if (index == 39 && g->adds)
        return true;
    /* These compute with as much padding at the end as at the beginning. */
    if (g->uneven_pads && !compiled &&
        ((g->direction == CUDNN_WGRAD && (index == 1 || index == 20)) ||
         (g->direction == CUDNN_DGRAD && index == 50)))
        return true;
    /* Leaves zeros. */
    return g->direction == CUDNN_WGRAD && compiled && g->ragged;
}

/* Reads what an engine is and whether it may be used. */
static bool examine(const struct cudnn_graph *g, bool deterministic,
                    struct cudnn_engine *e)
{
    const struct cudnn_library *lib = g->lib;
    cudnnBackendDescriptor_t engine = NULL;
    int note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT] = {0};
    int behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT] = {0};
    int64_t n = 0, notes = 0, behaviors = 0, index = -1;

    if (lib->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                                          &engine) != CUDNN_STATUS_SUCCESS)
        return false;
    lib->cudnnBackendGetAttribute(e->config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                  &engine);
    lib->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                  CUDNN_TYPE_INT64, 1, &n, &index);
    lib->cudnnBackendGetAttribute(
        engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &notes, note);
    lib->cudnnBackendGetAttribute(
        engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
        CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &behaviors, behavior);
    lib->cudnnBackendDestroyDescriptor(engine);
    const bool rounds =
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    /* Engine 50 of 9.19 varies too, in its gradients, without a note. */
    const bool varies =
        index == 50 ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    const bool compiled =
        has_note(behavior, behaviors, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
    const bool fourier = has_note(note, notes, CUDNN_NUMERICAL_NOTE_FFT);
    /* Engine 17 of 9.19 transforms too, in gradients of weights, without a
     * note. */
    const bool transforms =
        fourier || (index == 17 && g->direction == CUDNN_WGRAD) ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_WINOGRAD) ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4) ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6) ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
    e->flags = (varies ? KERN_NONDETERMINISTIC : 0u) |
               (transforms ? KERN_INEXACT : 0u);
    const int used =
        snprintf(e->name, sizeof(e->name), "eng%lld", (long long)index);
    describe_knobs(g, e->config, e->name + used,
                   sizeof(e->name) - (size_t)used);
    return n == 1 &&
           !has_note(note, notes,
                     CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
           !has_note(behavior, behaviors,
                     CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER) &&
           !(rounds && g->ieee) && !(varies && deterministic) &&
           !is_faulty(g, index, compiled) && !(fourier && g->small_window);
}

static bool is_known(const struct cudnn_graph *g, const char *name)
{
    for (int i = 0; i < g->n_engines; i++)
        if (strcmp(g->engine[i].name, name) == 0)
            return true;
    return false;
}

/* Takes the engine over, or drops it. */
static void consider(struct cudnn_graph *g, bool deterministic,
                     cudnnBackendDescriptor_t config)
{
    struct cudnn_engine e = {.config = config};

    if (examine(g, deterministic, &e) && !is_known(g, e.name))
        g->engine[g->n_engines++] = e;
    else
        g->lib->cudnnBackendDestroyDescriptor(config);
}

static int collect(struct cudnn_graph *g, bool deterministic,
                   cudnnBackendDescriptor_t heuristic, int64_t count)
{
    const struct cudnn_library *lib = g->lib;
    cudnnBackendDescriptor_t *config =
        calloc((size_t)count, sizeof(cudnnBackendDescriptor_t));
    struct cudnn_engine *engine =
        realloc(g->engine,
                (size_t)(g->n_engines + count) * sizeof(struct cudnn_engine));
    int64_t made = 0, got = 0;
    int rc = 0;

    if (engine)
        g->engine = engine;
    if (!config || !engine)
        rc = error_set(g->err, INFER_EMEMORY, "cuDNN: out of memory");
    while (rc == 0 && made < count) {
        rc = CUDNN_CALL(g->err, lib,
                        cudnnBackendCreateDescriptor(
                            CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[made]));
        made += rc == 0;
    }
    if (rc == 0)
        rc = CUDNN_CALL(g->err, lib,
                        cudnnBackendGetAttribute(heuristic,
                                                 CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                 count, &got, config));
    for (int64_t i = 0; i < made; i++)
        if (rc == 0 && i < got)
            consider(g, deterministic, config[i]);
        else
            lib->cudnnBackendDestroyDescriptor(config[i]);
    free(config);
    return rc;
}

/* Adds what one mode of the heuristics offers; that it offers nothing is no
 * failure. */
static void ask(struct cudnn_graph *g, const struct cudnn_target *target,
                bool deterministic, cudnnBackendHeurMode_t mode)
{
    cudnnBackendDescriptor_t h = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t count = 0;

    set_descriptor(g, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->operations);
    set(g, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
#if CUDNN_VERSION >= 90800
    if (target->device)
        set_descriptor(g, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target->device);
#else
    (void)target;
#endif
    if (g->rc < 0)
        return;
    if (g->lib->cudnnBackendFinalize(h) != CUDNN_STATUS_SUCCESS ||
        g->lib->cudnnBackendGetAttribute(
            h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
            &count, NULL) != CUDNN_STATUS_SUCCESS ||
        count <= 0)
        return;
    g->rc = collect(g, deterministic, h, count);
}

int cudnn_graph_finish(struct cudnn_graph *g, const struct cudnn_target *target,
                       bool deterministic)
{
    g->operations = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, g->operations, CUDNN_ATTR_OPERATIONGRAPH_OPS,
        CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->op);
    if (target->handle)
        set(g, g->operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
            CUDNN_TYPE_HANDLE, 1, &target->handle);
    finalize(g, g->operations);
    ask(g, target, deterministic, CUDNN_HEUR_MODE_A);
    ask(g, target, deterministic, CUDNN_HEUR_MODE_FALLBACK);
    if (g->rc == 0 && g->n_engines == 0)
        g->rc = error_set(g->err, INFER_EUNSUPPORTED,
                          "cuDNN: no engine computes this");
    g->err = NULL; /* the caller's, who is done */
    return g->rc;
}

/* ---- plans --------------------------------------------------------- */

int cudnn_plan_new(const struct cudnn_graph *g, int i,
                   const struct cudnn_target *target, struct infer_error *err,
                   struct cudnn_plan *out)
{
    const struct cudnn_library *lib = g->lib;
    cudnnBackendDescriptor_t plan = NULL;
    int64_t bytes = 0, n = 0;
    int rc = CUDNN_CALL(err, lib,
                        cudnnBackendCreateDescriptor(
                            CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan));

    if (rc < 0)
        return rc;
    rc =
        CUDNN_CALL(err, lib,
                   cudnnBackendSetAttribute(
                       plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->engine[i].config));
    if (rc == 0 && target->handle)
        rc = CUDNN_CALL(
            err, lib,
            cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                     CUDNN_TYPE_HANDLE, 1, &target->handle));
#if CUDNN_VERSION >= 90800
    if (rc == 0 && target->device)
        rc = CUDNN_CALL(err, lib,
                        cudnnBackendSetAttribute(
                            plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target->device));
#endif
    if (rc == 0)
        rc = CUDNN_CALL(err, lib, cudnnBackendFinalize(plan));
    if (rc == 0)
        rc = CUDNN_CALL(err, lib,
                        cudnnBackendGetAttribute(
                            plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                            CUDNN_TYPE_INT64, 1, &n, &bytes));
    if (rc < 0) {
        lib->cudnnBackendDestroyDescriptor(plan);
        return rc;
    }
    out->plan = plan;
    out->workspace = bytes > 0 ? (size_t)bytes : 0;
    return 0;
}

void cudnn_plan_free(const struct cudnn_library *lib, struct cudnn_plan *plan)
{
    if (plan->plan)
        lib->cudnnBackendDestroyDescriptor(plan->plan);
    plan->plan = NULL;
}

int cudnn_plan_run(const struct cudnn_graph *g, const struct cudnn_plan *plan,
                   cudnnHandle_t handle, void *const *pointer, void *workspace,
                   struct infer_error *err)
{
    const struct cudnn_library *lib = g->lib;
    cudnnBackendDescriptor_t pack = NULL;
    int rc = CUDNN_CALL(err, lib,
                        cudnnBackendCreateDescriptor(
                            CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));

    if (rc < 0)
        return rc;
    rc = CUDNN_CALL(
        err, lib,
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                 CUDNN_TYPE_INT64, g->n_uids, g->uid));
    if (rc == 0)
        rc = CUDNN_CALL(err, lib,
                        cudnnBackendSetAttribute(
                            pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                            CUDNN_TYPE_VOID_PTR, g->n_uids, pointer));
    if (rc == 0)
        rc = CUDNN_CALL(
            err, lib,
            cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                     CUDNN_TYPE_VOID_PTR, 1, &workspace));
    if (rc == 0)
        rc = CUDNN_CALL(err, lib, cudnnBackendFinalize(pack));
    if (rc == 0)
        rc =
            CUDNN_CALL(err, lib, cudnnBackendExecute(handle, plan->plan, pack));
    lib->cudnnBackendDestroyDescriptor(pack);
    return rc;
}
