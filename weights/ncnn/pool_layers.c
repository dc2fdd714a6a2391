/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn: pooling. */
#include "kernels/base/error.h"
#include "weights/ncnn/ncnn.h"

/* Sizes are rounded up by padding at the end, which an average counts where it
 * counts padding at all. */
static void pad_tail(struct ncnn *n, int x, struct kern_pool *p)
{
    int i;

    for (i = 0; i < 2; i++) {
        const int64_t in = layers_known(&n->b, x, 2 + i);
        const int64_t room =
            in + p->pad_begin[i] + p->pad_end[i] - p->window[i];
        const int64_t tail = room % p->stride[i];

        if (n->b.status == 0 && tail > 0)
            p->pad_end[i] += p->stride[i] - (int)tail;
    }
}

static void read_pool(struct ncnn *n, int x, union graph_attr *attr)
{
    struct kern_pool *p = &attr->pool.pool;
    const int mode = ncnn_int(n, 5, 0, 3, 0);
    const int left = ncnn_int(n, 3, 0, NCNN_MAX_STEP, 0);
    const int top = ncnn_int(n, 13, 0, NCNN_MAX_STEP, left);

    p->count_include_pad = ncnn_int(n, 6, 0, 1, 0) != 0;
    p->window[1] = ncnn_int(n, 1, 1, NCNN_MAX_STEP, 1);
    p->window[0] = ncnn_int(n, 11, 1, NCNN_MAX_STEP, p->window[1]);
    p->stride[1] = ncnn_int(n, 2, 1, NCNN_MAX_STEP, 1);
    p->stride[0] = ncnn_int(n, 12, 1, NCNN_MAX_STEP, p->stride[1]);
    if (mode >= 2) {
        attr->pool.auto_pad =
            mode == 2 ? GRAPH_PAD_SAME_UPPER : GRAPH_PAD_SAME_LOWER;
        /* An average leaves out what the layer states as padding, which is not
         * what the mode adds. */
        if (p->kind == KERN_POOL_AVERAGE && !p->count_include_pad &&
            (left != 0 || top != 0 || ncnn_int(n, 14, 0, NCNN_MAX_STEP, 0) ||
             ncnn_int(n, 15, 0, NCNN_MAX_STEP, 0)))
            layers_fail(&n->b, INFER_EUNSUPPORTED, "padding beside pad_mode %d",
                        mode);
        p->count_include_pad = true;
        return;
    }
    p->pad_begin[0] = top;
    p->pad_begin[1] = left;
    p->pad_end[1] = ncnn_int(n, 14, 0, NCNN_MAX_STEP, left);
    p->pad_end[0] = ncnn_int(n, 15, 0, NCNN_MAX_STEP, top);
    if (mode == 0 && (p->stride[0] > 1 || p->stride[1] > 1))
        pad_tail(n, x, p);
}

/* ---- adaptive pooling ---------------------------------------------- */

/* Window i of m over `size` entries of an axis begins at floor(i size / m) and
 * ends at ceil((i + 1) size / m). */
static int windows(struct ncnn *n, int x, int axis, int64_t size, int64_t m,
                   enum kern_reduce_kind kind)
{
    union graph_attr attr = layers_defaults(GRAPH_REDUCE);
    int part[GRAPH_MAX_PARTS];

    if (m > GRAPH_MAX_PARTS)
        return layers_fail(&n->b, INFER_EUNSUPPORTED,
                           "adaptive pooling to %lld pixels", (long long)m);
    attr.reduce.kind = kind;
    attr.reduce.keep_dims = true;
    attr.reduce.n_axes = 1;
    attr.reduce.axis[0] = axis;
    for (int64_t i = 0; i < m; i++) {
        part[i] = layers_slice(&n->b, "window", x, axis, i * size / m,
                               ((i + 1) * size + m - 1) / m, 1);
        part[i] =
            layers_emit(&n->b, GRAPH_REDUCE, "reduce", &attr, &part[i], 1);
    }
    attr = layers_defaults(GRAPH_CONCAT);
    attr.axis.axis = axis;
    return layers_emit(&n->b, GRAPH_CONCAT, "windows", &attr, part, (int)m);
}

/* One axis after the other: every window is a box, so that the mean of means is
 * the mean. */
static int adaptive(struct ncnn *n, int x, union graph_attr *attr)
{
    struct kern_pool *p = &attr->pool.pool;
    const bool max = p->kind == KERN_POOL_MAX;
    int64_t size[2], to[2];
    bool plain = true;

    to[1] = ncnn_int(n, 8, NCNN_NONE, NCNN_MAX_STEP, 0);
    to[0] = ncnn_int(n, 18, NCNN_NONE, NCNN_MAX_STEP, (int)to[1]);
    if (to[0] == 1 && to[1] == 1)
        return layers_emit(&n->b, GRAPH_POOL, "", attr, &x, 1);
    for (int i = 0; i < 2; i++) {
        size[i] = layers_known(&n->b, x, 2 + i);
        if (to[i] == NCNN_NONE)
            to[i] = size[i];
        if (n->b.status == 0 && to[i] < 1)
            layers_fail(&n->b, INFER_EFORMAT, "adaptive pooling to %lld pixels",
                        (long long)to[i]);
        if (n->b.status < 0)
            return -1;
        plain = plain && size[i] % to[i] == 0;
        p->window[i] = p->stride[i] = (int)(size[i] / to[i]);
    }
    if (plain)
        return layers_emit(&n->b, GRAPH_POOL, "", attr, &x, 1);
    for (int i = 0; i < 2; i++)
        if (to[i] != size[i])
            x = windows(n, x, 2 + i, size[i], to[i],
                        max ? KERN_REDUCE_MAX : KERN_REDUCE_MEAN);
    return x;
}

/* The mean or maximum of all pixels is a vector. */
void ncnn_pooling(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const bool global = ncnn_int(n, 4, 0, 1, 0) != 0;
    union graph_attr attr = layers_defaults(GRAPH_POOL);
    int y;

    (void)arg;
    attr.pool.pool.kind =
        ncnn_int(n, 0, 0, 1, 0) == 0 ? KERN_POOL_MAX : KERN_POOL_AVERAGE;
    if (!global && ncnn_int(n, 7, 0, 1, 0) != 0) {
        ends->out[0] = adaptive(n, ends->in[0], &attr);
        return;
    }
    if (!global)
        read_pool(n, ends->in[0], &attr);
    y = layers_emit(&n->b, GRAPH_POOL, "", &attr, ends->in, 1);
    ends->out[0] = global ? layers_flatten(&n->b, "vector", y) : y;
}
