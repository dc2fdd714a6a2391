/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling, windowed and global: attributes and shapes. */
#include "libinfer/graph/ops/op.h"

static bool is_global(const struct graph_pool *pool, int spatial)
{
    int i;

    for (i = 0; i < spatial; i++)
        if (pool->pool.window[i] != 0)
            return false;
    return true;
}

/* The window is the whole input. */
static int resolve_global(int spatial, const int64_t *in_extent,
                          struct kern_pool *out, int64_t *out_extent,
                          struct infer_error *err)
{
    int i;

    for (i = 0; i < spatial; i++) {
        if (in_extent[i] == 0 || in_extent[i] > INT32_MAX)
            return error_set(err, INFER_EFORMAT,
                             "global pooling over %lld elements",
                             (long long)in_extent[i]);
        out->window[i] = in_extent[i] < 0 ? 0 : (int)in_extent[i];
        out->stride[i] = 1;
        out->dilation[i] = 1;
        out->pad_begin[i] = out->pad_end[i] = 0;
        out_extent[i] = 1;
    }
    return INFER_OK;
}

int op_pool_resolve(const struct graph_pool *pool, int spatial,
                    const int64_t *in_extent, struct kern_pool *out,
                    int64_t *out_extent, struct infer_error *err)
{
    int i;

    *out = pool->pool;
    if (is_global(pool, spatial))
        return resolve_global(spatial, in_extent, out, out_extent, err);
    for (i = 0; i < spatial; i++) {
        struct op_window w = {
            .in = in_extent[i],
            .window = pool->pool.window[i],
            .stride = pool->pool.stride[i],
            .dilation = pool->pool.dilation[i],
            .pad_begin = pool->pool.pad_begin[i],
            .pad_end = pool->pool.pad_end[i],
        };
        int rc = op_need_range("window", w.window, 1, OP_MAX_STEP, err);

        if (rc == INFER_OK)
            rc = op_window_extent(pool->auto_pad, pool->ceil_mode, &w,
                                  &out_extent[i], err);
        if (rc < 0)
            return rc;
        out->pad_begin[i] = w.pad_begin;
        out->pad_end[i] = w.pad_end;
    }
    return INFER_OK;
}

int op_pool_shape(struct graph_shape_args *args, struct infer_error *err)
{
    static const int64_t unknown[KERN_MAX_SPATIAL] = {-1, -1, -1};
    const struct graph_type *x = &args->in[0];
    int spatial = x->rank > 0 ? x->rank - 2 : 1, rc, i;
    int64_t extent[KERN_MAX_SPATIAL] = {-1, -1, -1};
    struct kern_pool resolved;

    rc = op_need_spatial(x, err);
    if (rc == INFER_OK)
        rc = op_pool_resolve(&args->attr->pool, spatial,
                             x->rank > 0 ? x->dim + 2 : unknown, &resolved,
                             extent, err);
    if (rc < 0)
        return rc;
    op_same(args);
    for (i = 0; i < x->rank - 2; i++)
        args->out[0].dim[2 + i] = extent[i];
    return INFER_OK;
}
