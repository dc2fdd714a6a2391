/* SPDX-License-Identifier: Apache-2.0 */
/* Indices of the largest or smallest elements along one axis, best first: of
 * equal elements the lower index, NaN as the largest.  The workspace holds a
 * heap of a line's indices. */
#include <math.h>

#include "kernels/ref/ref.h"

/* A line of x. */
struct top_line {
    const void *base;
    int64_t first, step;
    enum infer_dtype dtype;
    bool smallest;
};

/* -1, 0, 1: element i is below, like or above element j. */
static int order(const struct top_line *l, int64_t i, int64_t j)
{
    i = l->first + i * l->step;
    j = l->first + j * l->step;
    if (scalar_is_integer(l->dtype) && l->dtype != INFER_U64) {
        const int64_t a = scalar_load_i64(l->dtype, l->base, i);
        const int64_t b = scalar_load_i64(l->dtype, l->base, j);
        return (a > b) - (a < b);
    }
    if (l->dtype == INFER_U64) {
        const uint64_t a = ((const uint64_t *)l->base)[i];
        const uint64_t b = ((const uint64_t *)l->base)[j];
        return (a > b) - (a < b);
    }
    const double a = ref_load(l->dtype, l->base, i);
    const double b = ref_load(l->dtype, l->base, j);
    if (isnan(a) || isnan(b))
        return !!isnan(a) - !!isnan(b);
    return (a > b) - (a < b);
}

/* True where element i comes before element j. */
static bool before(const struct top_line *l, int64_t i, int64_t j)
{
    const int o = l->smallest ? -order(l, i, j) : order(l, i, j);

    return o > 0 || (o == 0 && i < j);
}

/* Moves the root of a heap, whose root comes first, into place. */
static void sift(const struct top_line *l, int64_t *heap, int64_t at, int64_t n)
{
    for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        const int64_t top = heap[at];

        if (child + 1 < n && before(l, heap[child + 1], heap[child]))
            child++;
        if (!before(l, heap[child], top))
            return;
        heap[at] = heap[child];
        heap[child] = top;
        at = child;
    }
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;

    (void)d;
    (void)err;
    e->workspace = (size_t)p->in[0].dim[p->attr.top_k.axis] * sizeof(int64_t);
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int axis = p->attr.top_k.axis;
    struct kern_tensor x = p->in[0], y = p->out[0];
    const int64_t n = x.dim[axis], k = y.dim[axis], step = y.stride[axis];
    struct top_line l = {args->in[0], 0, x.stride[axis], x.dtype,
                         p->attr.top_k.smallest};
    int64_t *heap = args->workspace;
    struct ref_walk w;

    (void)err;
    x.dim[axis] = y.dim[axis] = 1;
    ref_walk_start(&w, y.rank, y.dim);
    ref_walk_add(&w, &x);
    ref_walk_add(&w, &y);
    for (; !w.done && k > 0; ref_walk_next(&w)) {
        l.first = w.offset[0];
        for (int64_t i = 0; i < n; i++)
            heap[i] = i;
        for (int64_t i = n / 2; i-- > 0;)
            sift(&l, heap, i, n);
        for (int64_t place = 0; place < k; place++) {
            scalar_store_i64(y.dtype, args->out[0], w.offset[1] + place * step,
                             heap[0]);
            heap[0] = heap[n - place - 1];
            sift(&l, heap, 0, n - place - 1);
        }
    }
    return 0;
}

KERN_FUNCTIONS(top_k_ref) = {
    .supports = ref_supports_all,
    .prepare = prepare,
    .launch = launch,
};
