/* SPDX-License-Identifier: Apache-2.0 */
/* Window operations of 1 to 3 dimensions, brought to 3. */
#include "kernels/ref/window.h"

#include <string.h>

/* Where spatial dimension i of a problem stands among depth, height, width. */
static int place(int spatial, int i)
{
    return 3 - spatial + i;
}

static void fill(struct ref_window *w, const struct kern_problem *p,
                 const int *step, const int *dilation, const int *pad,
                 const int *pad_end)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const int spatial = x->rank - 2;

    memset(w, 0, sizeof(*w));
    for (int d = 0; d < 3; d++)
        w->in[d] = w->out[d] = w->kernel[d] = w->step[d] = w->dilation[d] = 1;
    for (int i = 0; i < spatial; i++) {
        const int d = place(spatial, i);
        w->in[d] = x->dim[i + 2];
        w->out[d] = y->dim[i + 2];
        w->step[d] = step[i];
        w->dilation[d] = dilation[i];
        w->pad[d] = pad[i];
        w->pad_end[d] = pad_end[i];
        w->x_stride[d] = x->stride[i + 2];
        w->y_stride[d] = y->stride[i + 2];
    }
}

void ref_window_conv(struct ref_window *w, const struct kern_problem *p)
{
    const struct kern_conv *c = &p->attr.conv;
    const int spatial = p->in[0].rank - 2;
    const int r = kern_op_residual(p->op);
    const struct kern_tensor *residual = r < 0 ? NULL : kern_problem_in(p, r);

    fill(w, p, c->stride, c->dilation, c->pad_begin, c->pad_end);
    for (int i = 0; i < spatial; i++) {
        const int d = place(spatial, i);
        w->kernel[d] = p->in[1].dim[i + 2];
        w->w_stride[d] = p->in[1].stride[i + 2];
        w->r_stride[d] = residual ? residual->stride[i + 2] : 0;
    }
}

void ref_window_pool(struct ref_window *w, const struct kern_problem *p)
{
    const struct kern_pool *a = &p->attr.pool;
    const int spatial = p->in[0].rank - 2;

    fill(w, p, a->stride, a->dilation, a->pad_begin, a->pad_end);
    for (int i = 0; i < spatial; i++)
        w->kernel[place(spatial, i)] = a->window[i];
}

void ref_window_range(const struct ref_window *w, int d, int64_t r, int64_t m,
                      int64_t n, int64_t *lo, int64_t *hi)
{
    const int64_t base = r * w->dilation[d] - w->pad[d];
    const int64_t step = w->step[d];

    *lo = base >= 0 ? 0 : (-base + step - 1) / step;
    *hi = m - base <= 0 ? 0 : (m - base - 1) / step + 1;
    if (*hi > n)
        *hi = n;
    if (*lo > *hi)
        *lo = *hi;
}
