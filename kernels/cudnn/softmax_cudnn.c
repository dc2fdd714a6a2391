/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax and its logarithm.  The tensor is seen as outer x axis x inner:
 * cuDNN's N, C and H with W of 1.
 *
 * In 16 bits cuDNN (9.19) takes the maximum off in 16 bits too, which costs up
 * to 1 % of small probabilities: only single precision is offered.
 */
#include "kernels/cudnn/library.h"

#include <limits.h>
#include <stdlib.h>

#include "kernels/problem.h"

struct state {
    int ordinal;
    cudnnTensorDescriptor_t tensor;
};

/* outer, axis and inner with their strides; false where the dimensions around
 * the axis lie at several strides. */
static bool view(const struct kern_problem *p, int64_t dim[3],
                 int64_t stride[3])
{
    const struct kern_tensor *x = &p->in[0];
    const int axis = p->attr.softmax.axis;

    dim[0] = dim[2] = 1;
    dim[1] = x->dim[axis];
    for (int i = 0; i < x->rank; i++)
        if (i != axis)
            dim[i < axis ? 0 : 2] *= x->dim[i];
    if (kern_tensor_is_dense(x, KERN_NCHW)) {
        stride[2] = 1;
        stride[1] = dim[2];
        stride[0] = dim[1] * dim[2];
        return true;
    }
    /* Channels last: along the channels, all pixels are alike. */
    if (!kern_tensor_is_dense(x, KERN_NHWC) || axis != 1)
        return false;
    dim[0] *= dim[2];
    dim[2] = 1;
    stride[0] = dim[1];
    stride[1] = stride[2] = 1;
    return true;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    int64_t dim[3], stride[3];

    (void)d;
    if (!cudnn_library(why))
        return cudnn_refuse(why, INFER_EDEVICE);
    if (x->dtype != y->dtype)
        return error_set(
            why, INFER_EUNSUPPORTED, "softmax: input is %s and output %s",
            infer_dtype_name(x->dtype), infer_dtype_name(y->dtype));
    for (int i = 0; i < x->rank; i++)
        if (x->dim[i] > 1 && x->stride[i] != y->stride[i])
            return error_set(why, INFER_EUNSUPPORTED,
                             "softmax: input and output lie differently");
    if (!view(p, dim, stride))
        return error_set(why, INFER_EUNSUPPORTED,
                         "softmax: does not lie dense around its axis");
    if (kern_tensor_count(x) == 0 || kern_tensor_count(x) > INT_MAX)
        return error_set(why, INFER_EUNSUPPORTED,
                         "softmax: takes 1 to 2^31 - 1 elements");
    return 0;
}

static void release(struct kern_exec *e)
{
    const struct cudnn_library *lib = cudnn_library(NULL);
    struct state *s = e->state;

    if (!s)
        return;
    if (s->tensor)
        lib->cudnnDestroyTensorDescriptor(s->tensor);
    cudnn_unhold(s->ordinal);
    free(s);
    e->state = NULL;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const struct cudnn_library *lib = cudnn_library(err);
    struct state *s = calloc(1, sizeof(*s));
    int64_t dim[3], stride[3];
    int rc;

    if (!s)
        return error_set(err, INFER_EMEMORY, "cuDNN: out of memory");
    rc = cudnn_hold(d->ordinal, err);
    if (rc < 0) {
        free(s);
        return rc;
    }
    s->ordinal = d->ordinal;
    e->state = s;
    view(&e->problem, dim, stride);
    rc = CUDNN_CALL(err, lib, cudnnCreateTensorDescriptor(&s->tensor));
    if (rc == 0)
        rc = CUDNN_CALL(err, lib,
                        cudnnSetTensor4dDescriptorEx(
                            s->tensor, cudnn_dtype(e->problem.in[0].dtype),
                            (int)dim[0], (int)dim[1], (int)dim[2], 1,
                            (int)stride[0], (int)stride[1], (int)stride[2], 1));
    if (rc < 0)
        release(e);
    return rc;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct cudnn_library *lib = cudnn_library(err);
    const struct state *s = e->state;
    const cudnnSoftmaxAlgorithm_t algo = e->problem.attr.softmax.log
                                             ? CUDNN_SOFTMAX_LOG
                                             : CUDNN_SOFTMAX_ACCURATE;
    const float one = 1, zero = 0;
    struct cudnn_lane *lane;
    cudnnHandle_t handle;
    int rc = cudnn_enter(s->ordinal, args->stream, err, &lane, &handle);

    if (rc < 0)
        return rc;
    rc =
        CUDNN_CALL(err, lib,
                   cudnnSoftmaxForward(handle, algo, CUDNN_SOFTMAX_MODE_CHANNEL,
                                       &one, s->tensor, args->in[0], &zero,
                                       s->tensor, args->out[0]));
    cudnn_leave(lane);
    return rc;
}

KERN_FUNCTIONS(softmax_f32_cudnn) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = release,
};
