/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX pooling. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"
#include "weights/onnx/window.h"

/* A window that lies in the padding as a whole has no value. */
static int check_pads(struct onnx_import *im, int spatial,
                      const struct kern_pool *pool)
{
    for (int d = 0; d < spatial && im->rc == 0; d++)
        for (int k = 0; k < 2; k++) {
            const int pad = k ? pool->pad_end[d] : pool->pad_begin[d];

            if (pad >= pool->window[d])
                return onnx_fail(im, INFER_EFORMAT,
                                 "pads of %d for a window of %d", pad,
                                 pool->window[d]);
        }
    return im->rc;
}

int onnx_pool_attributes(struct onnx_import *im, int spatial,
                         struct graph_pool *pool)
{
    if (!onnx_has_attr(im, "kernel_shape"))
        return onnx_fail(im, INFER_EFORMAT,
                         "attribute 'kernel_shape' is missing");
    onnx_spatial_ints(im, "kernel_shape", spatial, 1, pool->pool.window);
    onnx_spatial_ints(im, "strides", spatial, 1, pool->pool.stride);
    onnx_spatial_ints(im, "dilations", spatial, 1, pool->pool.dilation);
    onnx_pads(im, spatial, &pool->auto_pad, pool->pool.pad_begin,
              pool->pool.pad_end);
    check_pads(im, spatial, &pool->pool);
    onnx_flag(im, "ceil_mode", &pool->ceil_mode);
    if (pool->pool.kind == KERN_POOL_AVERAGE)
        onnx_flag(im, "count_include_pad", &pool->pool.count_include_pad);
    return im->rc;
}

int onnx_import_pool(struct onnx_import *im)
{
    union graph_attr attr;
    int spatial = 0, x, y;

    onnx_arity(im, 1, 1);
    onnx_defaults(GRAPH_POOL, &attr);
    attr.pool.pool.kind = (enum kern_pool_kind)im->param;
    onnx_spatial_rank(im, &spatial);
    onnx_pool_attributes(im, spatial, &attr.pool);
    onnx_ignore(im, "storage_order"); /* of Indices alone */
    if (attr.pool.pool.kind != KERN_POOL_MAX || !onnx_has_output(im, 1)) {
        onnx_drop_outputs(im, 1);
        return onnx_emit_node(im, GRAPH_POOL, &attr, 1);
    }
    onnx_input(im, 0, &x);
    if (onnx_emit(im, GRAPH_POOL, &attr, &x, 1, 0, &y) < 0)
        return im->rc;
    return onnx_pool_indices(im, &attr.pool, spatial, x, y);
}

int onnx_import_global_pool(struct onnx_import *im)
{
    union graph_attr attr;
    int spatial;

    onnx_arity(im, 1, 1);
    onnx_defaults(GRAPH_POOL, &attr);
    attr.pool.pool.kind = (enum kern_pool_kind)im->param;
    memset(attr.pool.pool.window, 0, sizeof(attr.pool.pool.window));
    onnx_spatial_rank(im, &spatial);
    return onnx_emit_node(im, GRAPH_POOL, &attr, 1);
}
