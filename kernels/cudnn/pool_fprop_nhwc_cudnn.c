/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling as cuDNN's resampling operation, with an activation after it.
 *
 * The overhang of ceil mode becomes padding at the end, which never wins a
 * maximum and does not count in an average that leaves padding out; in one that
 * counts padding it may not, so that is refused.
 *
 * There is no row for BF16: engine 3 of cuDNN 9.19 writes beyond such outputs
 * where the channels are a multiple of 8.
 */
#include "kernels/cudnn/solve.h"
#include "kernels/problem.h"

#define REFUSE(why, ...) error_set(why, INFER_EUNSUPPORTED, __VA_ARGS__)

/* A 1-D problem is a 2-D one of height 1. */
struct window {
    int64_t extent, out, size, stride, begin, end;
};

static struct window window_at(const struct kern_problem *p, int i)
{
    const struct kern_pool *a = &p->attr.pool;

    return (struct window){.extent = p->in[0].dim[i + 2],
                           .out = p->out[0].dim[i + 2],
                           .size = a->window[i],
                           .stride = a->stride[i],
                           .begin = a->pad_begin[i],
                           .end = a->pad_end[i]};
}

/* Padding after the input that the last window reaches. */
static int64_t reach_after(const struct window *w)
{
    return (w->out - 1) * w->stride + w->size - w->begin - w->extent;
}

static int check_axis(const struct kern_problem *p, int i,
                      struct infer_error *why)
{
    const struct window w = window_at(p, i);
    const bool counts = p->attr.pool.kind == KERN_POOL_AVERAGE &&
                        p->attr.pool.count_include_pad;

    if (p->attr.pool.dilation[i] != 1)
        return REFUSE(why, "dilated windows are not supported");
    if (w.begin < 0 || w.end < 0)
        return REFUSE(why, "negative pads are not supported");
    if (w.begin >= w.size || reach_after(&w) >= w.size)
        return REFUSE(why, "windows without elements are not supported");
    if (counts && reach_after(&w) > w.end)
        return REFUSE(why, "windows beyond counted pads are not supported");
    return 0;
}

static int check(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    int rc = 0;

    if (x->rank < 3 || x->rank > 5)
        return REFUSE(why, "takes 1 to 3 spatial dimensions, found %d",
                      x->rank - 2);
    if (x->dtype != y->dtype)
        return REFUSE(why, "input is %s and output %s",
                      infer_dtype_name(x->dtype), infer_dtype_name(y->dtype));
    if (!kern_tensor_is_dense(x, KERN_NHWC) ||
        !kern_tensor_is_dense(y, KERN_NHWC))
        return REFUSE(why, "activations do not lie dense, channels last");
    if (kern_tensor_count(x) == 0 || kern_tensor_count(y) == 0)
        return REFUSE(why, "tensors are empty");
    for (int i = 0; rc == 0 && i < x->rank - 2; i++)
        rc = check_axis(p, i, why);
    return rc;
}

static struct cudnn_shape shape_of(const struct kern_tensor *t)
{
    int64_t dim[CUDNN_MAX_RANK] = {t->dim[0], t->dim[1], 1, t->dim[2]};

    if (t->rank == 3)
        return cudnn_shape_nhwc(cudnn_dtype(t->dtype), 4, dim);
    return cudnn_shape_nhwc(cudnn_dtype(t->dtype), t->rank, t->dim);
}

static void read_window(const struct kern_problem *p, struct cudnn_window *win)
{
    const int from = p->in[0].rank == 3 ? 1 : 0;

    win->rank = p->in[0].rank - 2 + from;
    win->size[0] = win->stride[0] = 1;
    win->pre[0] = win->post[0] = 0;
    for (int i = from; i < win->rank; i++) {
        const struct window w = window_at(p, i - from);
        const int64_t after = reach_after(&w);

        win->size[i] = w.size;
        win->stride[i] = w.stride;
        win->pre[i] = w.begin;
        /* What no window reaches does not matter; equal pads are what more
         * engines take. */
        win->post[i] = after <= w.begin && w.begin - after < w.stride ? w.begin
                       : after > 0                                    ? after
                                                                      : 0;
    }
}

static void build(const struct kern_problem *p, enum cudnn_subgraph which,
                  struct cudnn_graph *g)
{
    const struct cudnn_shape x = shape_of(&p->in[0]), y = shape_of(&p->out[0]);
    const bool rest = cudnn_has_epilogue(p, -1, -1);
    struct cudnn_shape wide = y;
    struct cudnn_window win;
    cudnnBackendDescriptor_t v;

    read_window(p, &win);
    wide.dtype = CUDNN_DATA_FLOAT;
    if (which != CUDNN_WHOLE)
        v = cudnn_graph_tensor(g, &wide, CUDNN_SCRATCH);
    else if (rest)
        v = cudnn_graph_virtual(g, &y);
    else
        v = cudnn_graph_tensor(g, &y, CUDNN_OUT);
    if (which != CUDNN_SECOND)
        cudnn_graph_pool(g, &win, &p->attr.pool,
                         cudnn_graph_tensor(g, &x, CUDNN_IN), v);
    if (which != CUDNN_FIRST && rest)
        cudnn_add_epilogue(g, p, &y, -1, -1, v);
}

static size_t scratch(const struct kern_problem *p)
{
    return cudnn_has_epilogue(p, -1, -1)
               ? (size_t)kern_tensor_count(&p->out[0]) * sizeof(float)
               : 0;
}

static const struct cudnn_recipe recipe = {
    .check = check, .build = build, .scratch = scratch};

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    return cudnn_recipe_supports(&recipe, p, d, why);
}

static int variants(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *err)
{
    return cudnn_recipe_variants(&recipe, p, d, err);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    return cudnn_recipe_prepare(&recipe, e, d, err);
}

KERN_FUNCTIONS(pool_fprop_nhwc_cudnn) = {
    .supports = supports,
    .variants = variants,
    .prepare = prepare,
    .launch = cudnn_recipe_launch,
    .release = cudnn_recipe_release,
};
