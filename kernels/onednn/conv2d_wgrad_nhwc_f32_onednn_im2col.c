/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of a convolution's weights as matrix products:
 *
 *     dw (K x CRS, row-major) = sum over blocks of images of
 *         dy^T (K x pixels) * columns (pixels x CRS)
 *
 * dy with channels last is pixels x K as it lies.  The columns, one row an
 * output pixel and in it what the window sees in the order of dw, are gathered
 * into the workspace for as many images as fit into COLUMN_BYTES; a 1x1 window
 * with stride 1 and no pads (a dense layer) reads x itself.  oneDNN's sgemm
 * multiplies; it may allocate memory for packing.
 */
#include "config.h"

#include <string.h>

#include <omp.h>

#include "kernels/cpu/cpu.h"
#include "kernels/onednn/primitive.h"

#include "kernels/base/error.h"
#include "kernels/problem.h"

/* in[] */
enum { X, DY, RESIDUAL };

/* About a core's share of the last-level cache. */
#define COLUMN_BYTES ((int64_t)2 << 20)

static bool is_pointwise(const struct kern_problem *p)
{
    const struct kern_conv *a = &p->attr.conv;

    for (int i = 0; i < 2; i++)
        if (p->out[0].dim[2 + i] != 1 || a->stride[i] != 1 ||
            a->pad_begin[i] != 0 || a->pad_end[i] != 0 ||
            p->in[DY].dim[2 + i] != p->in[X].dim[2 + i])
            return false;
    return true;
}

/* Pixels of dy, in all and of an image; elements of a column row. */
static int64_t image_pixels(const struct kern_problem *p)
{
    return p->in[DY].dim[2] * p->in[DY].dim[3];
}

static int64_t columns(const struct kern_problem *p)
{
    const int64_t *w = p->out[0].dim;

    return w[1] * w[2] * w[3];
}

static int64_t images_at_once(const struct kern_problem *p)
{
    const int64_t each = image_pixels(p) * columns(p) * (int64_t)sizeof(float);
    const int64_t n = each > 0 ? COLUMN_BYTES / each : 1;

    return n < 1 ? 1 : n < p->in[X].dim[0] ? n : p->in[X].dim[0];
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (p->in[X].rank != 4)
        return onednn_refuse(why, "takes 2 spatial dimensions");
    if (p->attr.conv.groups != 1)
        return onednn_refuse(why, "takes one group");
    if (!cpu_is_f32(&p->in[DY]) || !cpu_is_f32(&p->out[0]))
        return onednn_refuse(why, "takes F32");
    if (!kern_tensor_is_dense(&p->in[X], KERN_NHWC) ||
        !kern_tensor_is_dense(&p->in[DY], KERN_NHWC))
        return onednn_refuse(why, "takes dense channels-last activations");
    if (!kern_tensor_is_dense(&p->out[0], KERN_NCHW) ||
        !cpu_is_dense(kern_problem_in(p, RESIDUAL), KERN_NCHW))
        return onednn_refuse(why, "takes dense row-major weights");
    if (kern_tensor_count(&p->in[DY]) == 0 || columns(p) == 0)
        return onednn_refuse(why, "takes no empty tensors");
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;

    if (!is_pointwise(p))
        e->workspace =
            (size_t)(images_at_once(p) * image_pixels(p) * columns(p)) *
            sizeof(float);
    return cpu_prepare(e, d, err);
}

/* The window's elements at one output pixel: channels of an input pixel go to
 * places R * S apart. */
static void gather(const struct kern_problem *p, const float *image, int64_t oh,
                   int64_t ow, float *row)
{
    const struct kern_conv *a = &p->attr.conv;
    const int64_t c = p->in[X].dim[1], h = p->in[X].dim[2], w = p->in[X].dim[3];
    const int64_t r = p->out[0].dim[2], s = p->out[0].dim[3];

    for (int64_t i = 0; i < r; i++)
        for (int64_t k = 0; k < s; k++) {
            const int64_t y =
                oh * a->stride[0] + i * a->dilation[0] - a->pad_begin[0];
            const int64_t x =
                ow * a->stride[1] + k * a->dilation[1] - a->pad_begin[1];
            float *to = row + i * s + k;

            if (y < 0 || y >= h || x < 0 || x >= w) {
                for (int64_t n = 0; n < c; n++)
                    to[n * r * s] = 0;
                continue;
            }
            for (int64_t n = 0; n < c; n++)
                to[n * r * s] = image[(y * w + x) * c + n];
        }
}

/* Columns of images [first, first + count). */
static void gather_all(const struct kern_problem *p, int threads,
                       const float *x, int64_t first, int64_t count, float *to)
{
    const int64_t pixels = image_pixels(p), width = p->in[DY].dim[3];
    const int64_t image = p->in[X].dim[1] * p->in[X].dim[2] * p->in[X].dim[3];
    const int64_t depth = columns(p);
    int64_t i;

#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (i = 0; i < count * pixels; i++) {
        const int64_t at = i % pixels;

        gather(p, x + (first + i / pixels) * image, at / width, at % width,
               to + i * depth);
    }
}

/* dw = dy^T col + beta dw over so many pixels. */
static int multiply(const struct kern_problem *p, const float *dy,
                    const float *col, int64_t pixels, float beta, float *dw,
                    struct infer_error *err)
{
    const int64_t k = p->in[DY].dim[1], depth = columns(p);

    return onednn_status(onednn_sgemm('T', 'N', k, depth, pixels, 1.0f, dy, k,
                                      col, depth, beta, dw, depth),
                         "dnnl_sgemm", err);
}

static int multiply_all(const struct kern_problem *p,
                        const struct kern_args *args, int threads, float beta,
                        struct infer_error *err)
{
    const int64_t images = p->in[X].dim[0], pixels = image_pixels(p);
    const int64_t step = images_at_once(p);
    const float *dy = args->in[DY];
    int r = 0;

    if (is_pointwise(p))
        return multiply(p, dy, args->in[X], images * pixels, beta, args->out[0],
                        err);
    for (int64_t n = 0; r == 0 && n < images; n += step) {
        const int64_t count = images - n < step ? images - n : step;

        gather_all(p, threads, args->in[X], n, count, args->workspace);
        r = multiply(p, dy + n * pixels * p->in[DY].dim[1], args->workspace,
                     count * pixels, n == 0 ? beta : 1.0f, args->out[0], err);
    }
    return r;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const bool add = kern_problem_in(p, RESIDUAL) != NULL;
    const int threads = cpu_threads_of(e), before = omp_get_max_threads();
    int r;

    if (add && args->in[RESIDUAL] != args->out[0])
        memcpy(args->out[0], args->in[RESIDUAL],
               (size_t)kern_tensor_count(&p->out[0]) * sizeof(float));
    /* The setting belongs to the application: it is put back. */
    omp_set_num_threads(threads);
    r = multiply_all(p, args, threads, add ? 1.0f : 0.0f, err);
    omp_set_num_threads(before);
    return r;
}

KERN_FUNCTIONS(conv2d_wgrad_nhwc_f32_onednn_im2col) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
