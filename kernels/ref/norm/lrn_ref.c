/* SPDX-License-Identifier: Apache-2.0 */
/* Local response normalisation across channels. */
#include <math.h>

#include "kernels/ref/ref.h"

/* Sum of squares of the channels around c; at is the offset of channel 0. */
static double energy(const struct kern_tensor *x, const void *base, int64_t at,
                     int64_t c, int size)
{
    const int64_t below = (size - 1) / 2;
    const int64_t above = size - 1 - below;
    const int64_t first = c > below ? c - below : 0;
    const int64_t last = c + above < x->dim[1] ? c + above : x->dim[1] - 1;
    double sum = 0;

    for (int64_t i = first; i <= last; i++) {
        const double v = ref_load(x->dtype, base, at + i * x->stride[1]);
        sum += v * v;
    }
    return sum;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const struct kern_lrn *a = &p->attr.lrn;
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, x);
    ref_walk_add(&w, y);
    for (; !w.done; ref_walk_next(&w)) {
        const int64_t c = w.index[1];
        const double sum =
            energy(x, args->in[0], w.offset[0] - c * x->stride[1], c, a->size);
        const double scale = (double)a->bias + (double)a->alpha / a->size * sum;
        ref_store(y->dtype, args->out[0], w.offset[1],
                  ref_load(x->dtype, args->in[0], w.offset[0]) /
                      pow(scale, (double)a->beta));
    }
    return 0;
}

KERN_FUNCTIONS(lrn_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
