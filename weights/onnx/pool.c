/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX pooling. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"
#include "weights/onnx/window.h"

static int pool_attributes(struct onnx_import *im, int spatial,
                           struct graph_pool *pool, struct infer_error *err)
{
    int rc;

    if (!onnx_has_attr(im, "kernel_shape"))
        return error_set(err, INFER_EFORMAT,
                         "attribute 'kernel_shape' is missing");
    rc = onnx_spatial_ints(im, "kernel_shape", spatial, 1, pool->pool.window,
                           err);
    if (rc == 0)
        rc = onnx_spatial_ints(im, "strides", spatial, 1, pool->pool.stride,
                               err);
    if (rc == 0)
        rc = onnx_spatial_ints(im, "dilations", spatial, 1, pool->pool.dilation,
                               err);
    if (rc == 0)
        rc = onnx_pads(im, spatial, &pool->auto_pad, pool->pool.pad_begin,
                       pool->pool.pad_end, err);
    if (rc == 0)
        rc = onnx_flag(im, "ceil_mode", &pool->ceil_mode, err);
    if (rc == 0 && pool->pool.kind == KERN_POOL_AVERAGE)
        rc = onnx_flag(im, "count_include_pad", &pool->pool.count_include_pad,
                       err);
    return rc;
}

int onnx_import_pool(struct onnx_import *im, int kind, struct infer_error *err)
{
    union graph_attr attr;
    int i, in, spatial = 0;
    int rc = onnx_arity(im, 1, 1, err);

    onnx_defaults(GRAPH_POOL, &attr);
    attr.pool.pool.kind = (enum kern_pool_kind)kind;
    for (i = 0; i < KERN_MAX_SPATIAL; i++) {
        attr.pool.pool.stride[i] = 1;
        attr.pool.pool.dilation[i] = 1;
    }
    if (rc == 0)
        rc = onnx_spatial_rank(im, &spatial, err);
    if (rc == 0)
        rc = pool_attributes(im, spatial, &attr.pool, err);
    onnx_ignore(im, "storage_order"); /* of Indices alone */
    if (rc == 0)
        rc = onnx_drop_outputs(im, 1, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    return onnx_emit(im, GRAPH_POOL, &attr, &in, 1, 0, NULL, err);
}

int onnx_import_global_pool(struct onnx_import *im, int kind,
                            struct infer_error *err)
{
    union graph_attr attr;
    int in, spatial;
    int rc = onnx_arity(im, 1, 1, err);

    onnx_defaults(GRAPH_POOL, &attr);
    attr.pool.pool.kind = (enum kern_pool_kind)kind;
    memset(attr.pool.pool.window, 0, sizeof(attr.pool.pool.window));
    if (rc == 0)
        rc = onnx_spatial_rank(im, &spatial, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    return onnx_emit(im, GRAPH_POOL, &attr, &in, 1, 0, NULL, err);
}
