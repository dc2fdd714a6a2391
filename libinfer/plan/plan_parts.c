/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on more elements than a GPU's rows number.
 *
 * Rows for convolutions, pools and resizes number elements, those of padding
 * included, with 32 bits.  Where a batch has more, the operation is done in
 * parts of the batch: each is a step of its own, which reads a part of the
 * inputs and writes a part of the output.
 */
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/input_scale.h"
#include "libinfer/plan/plan.h"

/* Elements that a row numbers. */
#define MOST INT32_MAX

/* Elements of an image, the padding of these pads included; INT64_MAX where
 * that overflows. */
static int64_t image_elements(const struct kern_tensor *t, const int *begin,
                              const int *end)
{
    size_t n = 1;

    for (int i = 1; i < t->rank; i++) {
        const int64_t pads =
            i < 2 || !begin ? 0 : (int64_t)begin[i - 2] + end[i - 2];
        const int64_t extent = t->dim[i] + (pads > 0 ? pads : 0);

        if (!checked_mul(n, (size_t)extent, &n) || n > INT64_MAX)
            return INT64_MAX;
    }
    return (int64_t)n;
}

/* The most elements that one image has in any tensor of the operation. */
static int64_t largest_image(const struct plan_emit *e)
{
    const struct kern_conv *c =
        e->p.op == KERN_CONV_FPROP ? &e->p.attr.conv : NULL;
    const int64_t in = image_elements(&e->in[0].t, c ? c->pad_begin : NULL,
                                      c ? c->pad_end : NULL);
    const int64_t out = image_elements(&e->p.out[0], NULL, NULL);

    return in > out ? in : out;
}

static bool is_divisible(const struct plan_emit *e)
{
    return (e->p.op == KERN_CONV_FPROP ||
            e->p.op == KERN_CONV_TRANSPOSE_FPROP ||
            e->p.op == KERN_POOL_FPROP || e->p.op == KERN_RESIZE) &&
           e->in[0].t.dim[0] == e->p.out[0].dim[0];
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

bool plan_in_parts(const struct plan *plan, const struct plan_emit *e,
                   int64_t *images)
{
    int64_t one, most, parts;

    if (plan->config->device->ops->host_memory || !is_divisible(e))
        return false;
    one = largest_image(e);
    if (one < 1 || one > MOST || e->in[0].t.dim[0] <= MOST / one)
        return false;
    /* Eights of images begin where rows want tensors aligned. */
    most = MOST / one;
    if (most >= 8)
        most = most / 8 * 8;
    parts = divide_up(e->in[0].t.dim[0], most);
    *images = divide_up(e->in[0].t.dim[0], parts);
    if (most >= 8)
        *images = divide_up(*images, 8) * 8;
    return true;
}

/* Inputs that have an image for each of the output. */
static bool has_images(const struct plan_emit *e, int i)
{
    return i == 0 || i == e->residual ||
           (e->p.op == KERN_CONV_FPROP && i == INPUT_SCALE_IN);
}

int plan_emit_parts(struct plan *plan, int node, const struct plan_emit *e,
                    int64_t images, struct infer_error *err, struct view *out)
{
    const struct kern_tensor *t = &e->p.out[0];
    struct plan_emit part;
    struct view from, into;
    int rc =
        plan_buffer(plan, node, t->dtype, t->rank, t->dim, KERN_NHWC, err, out);

    for (int64_t first = 0; rc == 0 && first < t->dim[0]; first += images) {
        const int64_t count =
            t->dim[0] - first < images ? t->dim[0] - first : images;

        memcpy(&part, e, sizeof part);
        for (int i = 0; i < e->p.n_in; i++)
            if (has_images(e, i) && e->in[i].t.dtype != INFER_NONE)
                part.in[i] = view_slice(&e->in[i], 0, first, 1, count);
        part.p.out[0].dim[0] = count;
        part.value = -1;
        into = view_slice(out, 0, first, 1, count);
        part.into = &into;
        rc = plan_emit(plan, node, &part, err, &from);
        if (rc == 0 && (from.buffer != into.buffer || !view_same(&from, &into)))
            rc = plan_copy_to(plan, node, &from, &into, err);
    }
    return rc;
}
