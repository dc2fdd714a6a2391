/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of the input of a 2-D convolution with stride 1 is a convolution
 * of dy with stride 1.  Its filter is flipped, and inputs and outputs are
 * exchanged:
 *     dx[n,c,i] = sum of dy[n,k, i + r dilation - pad'] * w[k,c,R-1-r],
 *     pad' = (R - 1) dilation - pad.
 * Winograd's row computes it for 3x3 windows; pack() flips the weights and
 * packs them for that row.
 */
#include "config.h"

#include <stdlib.h>

#include "kernels/cpu/cpu.h"

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/problem.h"
#include "kernels/rows.h"

/* in[] of convolutions in either direction */
enum { X, W, BIAS, RESIDUAL };

/* The forward convolution with the same result. */
static int make_forward(const struct kern_problem *p, struct kern_problem *out,
                        struct infer_error *why)
{
    const struct kern_tensor *w = &p->in[W];
    struct kern_conv *a = &out->attr.conv;
    int i;

    if (p->in[X].rank != 4 || p->attr.conv.groups != 1 ||
        !(p->constant_in & 1u << W) || !cpu_is_dense(w, KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 2 spatial dimensions, one group and constant "
                         "dense F32 weights");
    *out = *p;
    out->op = KERN_CONV_FPROP;
    for (i = 0; i < 2; i++) {
        const int64_t reach = (w->dim[2 + i] - 1) * a->dilation[i];
        const int64_t begin = reach - a->pad_begin[i];
        const int64_t end =
            p->out[0].dim[2 + i] + reach - p->in[X].dim[2 + i] - begin;

        if (a->stride[i] != 1 || begin < 0 || end < 0 || begin > 1 << 20 ||
            end > 1 << 20)
            return error_set(why, INFER_EUNSUPPORTED,
                             "takes stride 1 and pads below the window");
        a->pad_begin[i] = (int)begin;
        a->pad_end[i] = (int)end;
    }
    const int64_t dim[4] = {w->dim[1], w->dim[0], w->dim[2], w->dim[3]};
    out->in[W] = kern_tensor_dense(INFER_F32, 4, dim, KERN_NCHW);
    return 0;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct kern_problem forward;
    const int r = make_forward(p, &forward, why);

    return r < 0 ? r
                 : kern_row_supports(
                       kern_row_at(KERN_ROW_conv2d_fprop_nhwc_f32_cpu_winograd),
                       &forward, d, why);
}

static void release(struct kern_exec *e)
{
    struct kern_exec *inner = e->state;

    if (!inner)
        return;
    kern_release(inner);
    free(inner);
    e->state = NULL;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct kern_problem forward;
    struct kern_exec *inner;
    int r = make_forward(&e->problem, &forward, err);

    if (r < 0)
        return r;
    inner = calloc(1, sizeof *inner);
    if (!inner)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    r = kern_prepare(kern_row_at(KERN_ROW_conv2d_fprop_nhwc_f32_cpu_winograd),
                     &forward, d, err, inner);
    if (r < 0) {
        free(inner);
        return r;
    }
    e->state = inner;
    e->workspace = inner->workspace;
    e->packed[W] = inner->packed[W];
    return 0;
}

/* to[c][k][r] = from[k][c][R - 1 - r], r over all of the window */
static void flip(const float *from, float *to, int64_t k, int64_t c,
                 int64_t window)
{
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < c; j++)
            for (int64_t r = 0; r < window; r++)
                to[(j * k + i) * window + r] =
                    from[(i * c + j) * window + window - 1 - r];
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct kern_exec *inner = e->state;
    const struct kern_tensor *w = &e->problem.in[W];
    float *flipped;
    int r;

    if (i != W)
        return error_set(err, INFER_EARGUMENT, "input %d is not packed", i);
    flipped = malloc((size_t)kern_tensor_count(w) * sizeof *flipped);
    if (!flipped)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    flip(src, flipped, w->dim[0], w->dim[1], w->dim[2] * w->dim[3]);
    r = inner->row->fn->pack(inner, W, flipped, dst, err);
    free(flipped);
    return r;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_exec *inner = e->state;

    return inner->row->fn->launch(inner, args, err);
}

KERN_FUNCTIONS(conv2d_dgrad_nhwc_f32_cpu_winograd) = {
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = release,
};
