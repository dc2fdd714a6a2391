/* SPDX-License-Identifier: Apache-2.0 */
/* The second output of ONNX's MaxPool: where each maximum stood. */
#include <math.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/onnx/composed/compose.h"
#include "weights/onnx/window.h"

/* Elements of a window: each is a comparison of its own. */
#define MAX_TAPS 64

struct indices {
    const struct kern_pool *pool;
    int spatial, taps;
    int64_t in[INFER_MAX_RANK], out[INFER_MAX_RANK];
    int64_t step[KERN_MAX_SPATIAL]; /* of a spatial dimension, in elements */
    int64_t plane;                  /* elements of a picture's channel */
    /* The places are within each channel, as PyTorch counts them: an attribute
     * that only its readers set.  Batch and channels may be free then. */
    bool within;
};

/* Place of tap t along each spatial dimension of the window. */
static void tap_at(const struct indices *s, int t, int64_t *at)
{
    for (int d = s->spatial - 1; d >= 0; d--) {
        at[d] = (int64_t)(t % s->pool->window[d]) * s->pool->dilation[d];
        t /= s->pool->window[d];
    }
}

static int measure(struct onnx_import *im, const struct graph_pool *pool, int x,
                   int y, bool columns, struct indices *s)
{
    s->pool = &pool->pool;
    s->taps = 1;
    s->plane = 1;
    if (pool->auto_pad != GRAPH_PAD_EXPLICIT)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "indices of a pool with auto_pad");
    for (int d = s->within ? 2 : 0; d < s->spatial + 2; d++) {
        s->in[d] = compose_dim(im, x, d);
        s->out[d] = compose_dim(im, y, d);
    }
    for (int i = 0; i < s->spatial && im->rc == 0; i++) {
        const int d = columns ? i : s->spatial - 1 - i;

        s->step[d] = s->plane;
        if (!checked_mul_i64(s->plane, s->in[2 + d], &s->plane) ||
            (s->taps *= s->pool->window[d]) > MAX_TAPS)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "indices of a window of more than %d elements",
                             MAX_TAPS);
    }
    return im->rc;
}

/* x with what the windows reach beyond it, which is never the largest. */
static int padded(struct onnx_import *im, const struct indices *s, int x)
{
    for (int d = 0; d < s->spatial && im->rc == 0; d++) {
        const int64_t begin = s->pool->pad_begin[d];
        const int64_t reach =
            (s->out[2 + d] - 1) * s->pool->stride[d] +
            (int64_t)(s->pool->window[d] - 1) * s->pool->dilation[d] + 1;
        const int64_t end = reach - begin - s->in[2 + d];

        if (end > INT32_MAX)
            onnx_fail(im, INFER_EFORMAT, "a window that reaches too far");
        else if (begin > 0 || end > 0)
            x = compose_pad(im, x, 2 + d, (int)begin, end > 0 ? (int)end : 0,
                            -INFINITY);
    }
    return x;
}

/* The elements that tap t of every window sees. */
static int seen_by(struct onnx_import *im, const struct indices *s, int x,
                   const int64_t *at)
{
    for (int d = 0; d < s->spatial; d++)
        x = compose_slice(im, x, 2 + d, at[d],
                          at[d] + (s->out[2 + d] - 1) * s->pool->stride[d] + 1,
                          s->pool->stride[d]);
    return x;
}

/* Where they stand in a picture's channel: 1,1,P,Q. */
static int places(struct onnx_import *im, const struct indices *s,
                  const int64_t *at)
{
    int64_t dim[INFER_MAX_RANK] = {1, 1}, index[KERN_MAX_SPATIAL] = {0}, *data;
    int64_t count = 1;
    int value;

    for (int d = 0; d < s->spatial; d++)
        count *= dim[2 + d] = s->out[2 + d];
    value = compose_i64(im, s->spatial + 2, dim, &data);
    for (int64_t i = 0; im->rc == 0 && i < count; i++) {
        data[i] = 0;
        for (int d = 0; d < s->spatial; d++)
            data[i] += s->step[d] * (index[d] * s->pool->stride[d] + at[d] -
                                     s->pool->pad_begin[d]);
        for (int d = s->spatial - 1; d >= 0; d--) {
            if (++index[d] < s->out[2 + d])
                break;
            index[d] = 0;
        }
    }
    return value;
}

/* The first element of each channel of each picture: N,C,1,1. */
static int channel_starts(struct onnx_import *im, const struct indices *s)
{
    int64_t dim[INFER_MAX_RANK] = {0}, count, *data;
    int value;

    for (int d = 0; d < s->spatial + 2; d++)
        dim[d] = d < 2 ? s->in[d] : 1;
    if (!checked_mul_i64(dim[0], dim[1], &count))
        count = 0;
    value = compose_i64(im, s->spatial + 2, dim, &data);
    for (int64_t i = 0; im->rc == 0 && i < count; i++)
        data[i] = i * s->plane;
    return value;
}

int onnx_pool_indices(struct onnx_import *im, const struct graph_pool *pool,
                      int spatial, int x, int y)
{
    struct indices s = {.spatial = spatial};
    int64_t order = 0, at[KERN_MAX_SPATIAL];
    int best = -1, index = -1, part, larger;

    onnx_int(im, "storage_order", 0, 1, &order);
    onnx_flag(im, "aten_within_channels", &s.within);
    if (im->rc == 0 && compose_dtype(im, x) != INFER_F32)
        return onnx_fail(im, INFER_EUNSUPPORTED, "indices of integers");
    if (im->rc < 0 || measure(im, pool, x, y, order == 1, &s) < 0)
        return im->rc;
    x = padded(im, &s, x);
    for (int t = 0; t < s.taps && im->rc == 0; t++) {
        tap_at(&s, t, at);
        part = seen_by(im, &s, x, at);
        if (t == 0) {
            best = part;
            index = places(im, &s, at);
            if (!s.within)
                index = compose_expand(im, index, spatial + 2, s.out);
            continue;
        }
        /* The first of equal ones counts. */
        larger = compose_binary(im, KERN_GREATER, part, best);
        best = compose_where(im, larger, part, best);
        index = compose_where(im, larger, places(im, &s, at), index);
    }
    if (!s.within)
        index = compose_binary(im, KERN_ADD, index, channel_starts(im, &s));
    else if (s.taps == 1)
        onnx_fail(im, INFER_EUNSUPPORTED, "indices of windows of one element");
    return compose_output(im, 1, index);
}
