/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX LpPool, GlobalLpPool, Col2Im, MaxUnpool, MeanVarianceNormalization. */
#include <string.h>

#include "weights/onnx/composed/compose.h"
#include "weights/onnx/window.h"

/* ---- p-norms ------------------------------------------------------- */

static int read_p(struct onnx_import *im, double *p)
{
    const struct onnx_attr *a = onnx_attr(im, "p");
    int64_t whole = 2;
    float real = 2;

    if (a && a->type == ONNX_ATTR_FLOAT) /* before opset 2 */
        onnx_float(im, "p", &real);
    else
        onnx_int(im, "p", 1, INT32_MAX, &whole);
    *p = a && a->type == ONNX_ATTR_FLOAT ? (double)real : (double)whole;
    if (im->rc == 0 && !(*p > 0))
        return onnx_fail(im, INFER_EFORMAT, "p is %g", *p);
    return im->rc;
}

static int power(struct onnx_import *im, int x, double p)
{
    return p == 1 ? x
                  : compose_binary(im, KERN_POW, x,
                                   compose_number(im, INFER_F32, p));
}

/* With ceil_mode the last window may go on beyond the padding, unless it begins
 * there: pads of this many entries at the end say the same. */
static int pad_to_ceil(struct onnx_import *im, int spatial,
                       struct graph_pool *pool)
{
    struct kern_pool *p = &pool->pool;

    pool->ceil_mode = false;
    if (pool->auto_pad == GRAPH_PAD_VALID)
        pool->auto_pad = GRAPH_PAD_EXPLICIT;
    for (int d = 0; d < spatial && pool->auto_pad == GRAPH_PAD_EXPLICIT; d++) {
        const int64_t in = compose_dim(im, compose_input(im, 0), 2 + d);
        const int64_t size = (p->window[d] - 1) * (int64_t)p->dilation[d] + 1;
        const int64_t room = in + p->pad_begin[d] + p->pad_end[d] - size;
        int64_t last;

        if (im->rc < 0 || room < 0) /* the pool's own check refuses it */
            return im->rc;
        last = (room + p->stride[d] - 1) / p->stride[d] * p->stride[d];
        if (last >= in + p->pad_begin[d])
            last -= p->stride[d];
        last += size - in - p->pad_begin[d];
        if (last > INT32_MAX)
            return onnx_fail(im, INFER_EUNSUPPORTED, "pads of %lld entries",
                             (long long)last);
        p->pad_end[d] = last > 0 ? (int)last : 0;
    }
    return im->rc;
}

/* The sum of a window is its average, padding included, times its size. */
int onnx_import_lp_pool(struct onnx_import *im)
{
    union graph_attr attr;
    int x, spatial = 0;
    double p, n = 1;

    onnx_arity(im, 1, 1);
    read_p(im, &p);
    onnx_defaults(GRAPH_POOL, &attr);
    attr.pool.pool.kind = KERN_POOL_MAX; /* without count_include_pad */
    onnx_spatial_rank(im, &spatial);
    if (onnx_pool_attributes(im, spatial, &attr.pool) < 0)
        return im->rc;
    if (attr.pool.ceil_mode && pad_to_ceil(im, spatial, &attr.pool) < 0)
        return im->rc;
    attr.pool.pool.kind = KERN_POOL_AVERAGE;
    attr.pool.pool.count_include_pad = true;
    for (int d = 0; d < spatial; d++)
        n *= attr.pool.pool.window[d];
    x = power(im, compose_unary(im, KERN_ABS, compose_input(im, 0)), p);
    onnx_emit(im, GRAPH_POOL, &attr, &x, 1, -1, &x);
    return compose_output(im, 0, power(im, compose_linear(im, n, 0, x), 1 / p));
}

int onnx_import_global_lp_pool(struct onnx_import *im)
{
    int x;
    double p;

    onnx_arity(im, 1, 1);
    read_p(im, &p);
    x = compose_input(im, 0);
    compose_need_rank(im, x, 3, INFER_MAX_RANK);
    x = power(im, compose_unary(im, KERN_ABS, x), p);
    for (int d = 2; d < compose_rank(im, x); d++)
        x = compose_reduce(im, KERN_REDUCE_SUM, x, d);
    return compose_output(im, 0, power(im, x, 1 / p));
}

/* ---- Col2Im -------------------------------------------------------- */

/* A weight that puts column c n + k of channel c to place k of its window. */
static int unit_weight(struct onnx_import *im, int64_t channels, int64_t n,
                       int spatial, const int64_t *window)
{
    int64_t dim[2 + KERN_MAX_SPATIAL] = {0, 1};
    float *data;
    int value;

    if (!checked_mul_i64(channels, n, &dim[0])) {
        onnx_fail(im, INFER_EFORMAT, "too many columns");
        return -1;
    }
    for (int d = 0; d < spatial; d++)
        dim[2 + d] = window[d];
    value = compose_floats(im, 2 + spatial, dim, &data);
    for (int64_t i = 0; value >= 0 && i < dim[0]; i++)
        data[i * n + i % n] = 1;
    return value;
}

/* N, C n, L: columns of windows of n elements at L places.  A transposed
 * convolution, each column with a window of its own, sums them into pictures.
 */
int onnx_import_col2im(struct onnx_import *im)
{
    int64_t image[INFER_MAX_RANK], window[INFER_MAX_RANK], n = 1;
    int64_t places[2 + KERN_MAX_SPATIAL] = {0, 0};
    int n_image = -1, n_window = -1, x, in[2];
    union graph_attr attr;

    onnx_arity(im, 3, 3);
    onnx_defaults(GRAPH_CONV_TRANSPOSE, &attr);
    onnx_input_ints(im, 1, "the picture's size", KERN_MAX_SPATIAL, image,
                    &n_image);
    onnx_input_ints(im, 2, "the window's size", KERN_MAX_SPATIAL, window,
                    &n_window);
    x = compose_input(im, 0);
    if (compose_need_rank(im, x, 3, 3) < 0)
        return im->rc;
    if (n_image < 1 || n_image != n_window)
        return onnx_fail(im, INFER_EFORMAT,
                         "%d sizes of pictures and %d of "
                         "windows",
                         n_image, n_window);
    onnx_spatial_ints(im, "strides", n_image, 1, attr.conv.conv.stride);
    onnx_spatial_ints(im, "dilations", n_image, 1, attr.conv.conv.dilation);
    onnx_pads(im, n_image, &attr.conv.auto_pad, attr.conv.conv.pad_begin,
              attr.conv.conv.pad_end);
    for (int d = 0; d < n_image && im->rc == 0; d++) {
        const struct kern_conv *c = &attr.conv.conv;
        const int64_t pad = (int64_t)c->pad_begin[d] + c->pad_end[d];
        int64_t left;

        if (image[d] < 1 || window[d] < 1 || image[d] > OP_MAX_STEP ||
            window[d] > OP_MAX_STEP || !checked_mul_i64(n, window[d], &n))
            return onnx_fail(im, INFER_EFORMAT, "windows of %lld in %lld",
                             (long long)window[d], (long long)image[d]);
        left = image[d] + pad - (window[d] - 1) * (int64_t)c->dilation[d] - 1;
        if (left < 0)
            return onnx_fail(im, INFER_EFORMAT, "windows of %lld in %lld",
                             (long long)window[d], (long long)image[d]);
        places[2 + d] = left / c->stride[d] + 1;
        /* What no window reaches at the end stays 0. */
        attr.conv.output_pad[d] = (int)(left % c->stride[d]);
    }
    if (im->rc == 0 && compose_dim(im, x, 1) % n)
        return onnx_fail(im, INFER_EFORMAT, "%lld columns of %lld",
                         (long long)compose_dim(im, x, 1), (long long)n);
    attr.conv.conv.groups = (int)(compose_dim(im, x, 1) / n);
    in[0] = compose_reshape(im, x, 2 + n_image, places);
    in[1] = unit_weight(im, compose_dim(im, x, 1) / n, n, n_image, window);
    return onnx_emit(im, GRAPH_CONV_TRANSPOSE, &attr, in, 2, 0, NULL);
}

/* ---- MaxUnpool ----------------------------------------------------- */

/* The size of the pool's input, which the indices count in. */
static int unpooled(struct onnx_import *im, int x, int *spatial, int64_t *dim)
{
    int window[KERN_MAX_SPATIAL] = {0}, stride[KERN_MAX_SPATIAL] = {1, 1, 1};
    int begin[KERN_MAX_SPATIAL] = {0}, end[KERN_MAX_SPATIAL] = {0};
    enum graph_auto_pad auto_pad;

    if (!onnx_has_attr(im, "kernel_shape"))
        return onnx_fail(im, INFER_EFORMAT,
                         "attribute 'kernel_shape' is missing");
    onnx_spatial_rank(im, spatial);
    onnx_spatial_ints(im, "kernel_shape", *spatial, 1, window);
    onnx_spatial_ints(im, "strides", *spatial, 1, stride);
    onnx_pads(im, *spatial, &auto_pad, begin, end);
    for (int d = 0; d < 2; d++)
        dim[d] = compose_dim(im, x, d);
    for (int d = 0; d < *spatial; d++)
        dim[2 + d] = (compose_dim(im, x, 2 + d) - 1) * stride[d] + window[d] -
                     ((int64_t)begin[d] + end[d]);
    return im->rc;
}

/* Zeros behind the result, up to the stated size. */
static int fill_up(struct onnx_import *im, int y, const int64_t *dim, int rank)
{
    int64_t want[INFER_MAX_RANK];
    int n = -1;

    onnx_input_ints(im, 2, "the output's shape", INFER_MAX_RANK, want, &n);
    if (im->rc == 0 && n != rank)
        onnx_fail(im, INFER_EFORMAT, "%d sizes of the output", n);
    for (int d = 0; d < rank && im->rc == 0; d++) {
        if (want[d] < dim[d] || want[d] - dim[d] > OP_MAX_STEP)
            onnx_fail(im, INFER_EFORMAT, "an output size of %lld for %lld",
                      (long long)want[d], (long long)dim[d]);
        else if (want[d] > dim[d])
            y = compose_pad(im, y, d, 0, (int)(want[d] - dim[d]), 0);
    }
    return y;
}

/* Values at indices into the whole flattened result, zeros elsewhere. */
int onnx_import_max_unpool(struct onnx_import *im)
{
    int64_t dim[INFER_MAX_RANK], total = 1;
    const int64_t line = -1;
    int x, y, rank = 0;
    float *data;

    onnx_arity(im, 2, 3);
    x = compose_input(im, 0);
    if (unpooled(im, x, &rank, dim) < 0)
        return im->rc;
    rank += 2;
    for (int d = 0; d < rank; d++)
        if (dim[d] < 1 || !checked_mul_i64(total, dim[d], &total))
            return onnx_fail(im, INFER_EFORMAT, "an output size of %lld",
                             (long long)dim[d]);
    y = compose_floats(im, 1, &total, &data);
    y = compose_scatter(im, y,
                        compose_reshape(im, compose_input(im, 1), 1, &line),
                        compose_reshape(im, x, 1, &line), 0, KERN_SCATTER_SET);
    y = compose_reshape(im, y, rank, dim);
    if (onnx_has_input(im, 2))
        y = fill_up(im, y, dim, rank);
    return compose_output(im, 0, y);
}

/* ---- MeanVarianceNormalization ------------------------------------- */

/* (x - mean) / (deviation + 1e-9) over the axes, 0, 2 and 3 by default. */
int onnx_import_mean_variance(struct onnx_import *im)
{
    int64_t axes[INFER_MAX_RANK] = {0, 2, 3};
    int x, mean, square, n = 3;

    onnx_arity(im, 1, 1);
    onnx_ints(im, "axes", INFER_MAX_RANK, axes, &n);
    x = mean = compose_input(im, 0);
    for (int i = 0; i < n && im->rc == 0; i++) {
        if (axes[i] < -INFER_MAX_RANK || axes[i] >= INFER_MAX_RANK)
            return onnx_fail(im, INFER_EFORMAT, "axis %lld",
                             (long long)axes[i]);
        mean = compose_reduce(im, KERN_REDUCE_MEAN, mean, (int)axes[i]);
    }
    x = compose_binary(im, KERN_SUB, x, mean);
    square = compose_binary(im, KERN_MUL, x, x);
    for (int i = 0; i < n && im->rc == 0; i++)
        square = compose_reduce(im, KERN_REDUCE_MEAN, square, (int)axes[i]);
    square = compose_linear(im, 1, 1e-9, compose_unary(im, KERN_SQRT, square));
    return compose_output(im, 0, compose_binary(im, KERN_DIV, x, square));
}
