/* SPDX-License-Identifier: Apache-2.0 */
/* Padding and cropping.  Cropping comes first: what is cropped away is never
 * repeated. */
#include "kernels/ref/ref.h"

/* i modulo n, >= 0. */
static int64_t wrap(int64_t i, int64_t n)
{
    const int64_t r = i % n;

    return r < 0 ? r + n : r;
}

/* The element that stands at position i of a line of n, or -1 for none. */
static int64_t source(enum kern_pad_mode mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n)
        return i;
    if (mode == KERN_PAD_CONSTANT)
        return -1;
    if (mode == KERN_PAD_EDGE)
        return i < 0 ? 0 : n - 1;
    if (mode == KERN_PAD_WRAP)
        return wrap(i, n);
    if (n == 1)
        return 0;
    /* Reflection: there and back again without the edges twice. */
    const int64_t r = wrap(i, 2 * (n - 1));
    return r < n ? r : 2 * (n - 1) - r;
}

/* Offset in x for an index of y, or false where the value is put there. */
static bool find(const struct kern_problem *p, const int64_t *index,
                 int64_t *offset)
{
    const struct kern_pad *a = &p->attr.pad;
    const struct kern_tensor *x = &p->in[0];

    *offset = 0;
    for (int d = 0; d < x->rank; d++) {
        const int64_t low = a->begin[d] < 0 ? -(int64_t)a->begin[d] : 0;
        const int64_t high = a->end[d] < 0 ? -(int64_t)a->end[d] : 0;
        const int64_t before = a->begin[d] > 0 ? a->begin[d] : 0;
        const int64_t i =
            source(a->mode, index[d] - before, x->dim[d] - low - high);
        if (i < 0)
            return false;
        *offset += (low + i) * x->stride[d];
    }
    return true;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *y = &p->out[0];
    const size_t size = infer_dtype_size(y->dtype);
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, y);
    for (; !w.done; ref_walk_next(&w)) {
        int64_t from;
        if (find(p, w.index, &from))
            ref_move(size, args->out[0], w.offset[0], args->in[0], from);
        else
            ref_store(y->dtype, args->out[0], w.offset[0],
                      (double)p->attr.pad.value);
    }
    return 0;
}

KERN_FUNCTIONS(pad_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
