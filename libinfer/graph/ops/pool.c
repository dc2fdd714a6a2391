/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling, windowed and global: attributes and shapes. */
#include "libinfer/graph/ops/op.h"

_Static_assert(offsetof(struct kern_pool, pad_end) ==
                   offsetof(struct kern_pool, pad_begin) +
                       sizeof(((struct kern_pool *)0)->pad_begin),
               "GRAPH_FIELD_PADS wants the ends right behind the begins");

static const char *const kind_names[] = {"max", "average", NULL};

static const struct graph_field pool_fields[] = {
    OP_ENUM("kind", pool.pool.kind, kind_names),
    OP_LIST("window", INTS, pool.pool.window, KERN_MAX_SPATIAL),
    OP_LIST("stride", INTS, pool.pool.stride, KERN_MAX_SPATIAL),
    OP_LIST("dilation", INTS, pool.pool.dilation, KERN_MAX_SPATIAL),
    OP_LIST("pad", PADS, pool.pool.pad_begin, KERN_MAX_SPATIAL),
    OP_ENUM("auto_pad", pool.auto_pad, op_auto_pad_names),
    OP_FIELD("ceil_mode", BOOL, pool.ceil_mode),
    OP_FIELD("count_include_pad", BOOL, pool.pool.count_include_pad),
    OP_END,
};

static void pool_defaults(union graph_attr *attr)
{
    int i;

    for (i = 0; i < KERN_MAX_SPATIAL; i++) {
        attr->pool.pool.stride[i] = 1;
        attr->pool.pool.dilation[i] = 1;
    }
}

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
        int status = op_need_range("window", w.window, 1, OP_MAX_STEP, err);

        if (status == INFER_OK)
            status = op_window_extent(pool->auto_pad, pool->ceil_mode, &w,
                                      &out_extent[i], err);
        if (status < 0)
            return status;
        out->pad_begin[i] = w.pad_begin;
        out->pad_end[i] = w.pad_end;
    }
    return INFER_OK;
}

static int pool_shape(struct graph_shape_args *args, struct infer_error *err)
{
    static const int64_t unknown[KERN_MAX_SPATIAL] = {-1, -1, -1};
    const struct graph_type *x = &args->in[0];
    int spatial = x->rank > 0 ? x->rank - 2 : 1, status, i;
    int64_t extent[KERN_MAX_SPATIAL];
    struct kern_pool resolved;
    char text[OP_TEXT];

    if (x->rank >= 0 && (x->rank < 3 || x->rank > 2 + KERN_MAX_SPATIAL))
        return error_set(err, INFER_EFORMAT,
                         "input is %s, rank 3, 4 or 5 is "
                         "needed",
                         op_text(x, text));
    status = op_pool_resolve(&args->attr->pool, spatial,
                             x->rank > 0 ? x->dim + 2 : unknown, &resolved,
                             extent, err);
    if (status < 0)
        return status;
    op_same(args);
    for (i = 0; i < x->rank - 2; i++)
        args->out[0].dim[2 + i] = extent[i];
    return INFER_OK;
}

const struct graph_op_info graph_op_pool = {
    .name = "pool",
    .inputs = "x",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .activation = true,
    .field = pool_fields,
    .defaults = pool_defaults,
    .infer_shape = pool_shape,
    .apart = op_separable_first,
};
