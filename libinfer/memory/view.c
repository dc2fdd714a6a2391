/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on views. */
#include "libinfer/memory/view.h"

#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/scalar.h"

int view_dense(int buffer, enum infer_dtype dtype, int rank, const int64_t *dim,
               enum kern_layout layout, size_t *bytes, struct view *out)
{
    size_t total = infer_dtype_size(dtype);
    bool empty = false;
    int i;

    /* Sizes of 0 do not excuse the others: strides are products as well. */
    for (i = 0; i < rank; i++) {
        if (dim[i] == 0)
            empty = true;
        else if (dim[i] < 0 || !checked_mul(total, (size_t)dim[i], &total))
            return INFER_EUNSUPPORTED;
    }
    if (total > PTRDIFF_MAX / 2)
        return INFER_EUNSUPPORTED;
    memset(out, 0, sizeof *out);
    out->buffer = buffer;
    out->t = kern_tensor_dense(dtype, rank, dim, layout);
    *bytes = empty ? 0 : total;
    return 0;
}

enum kern_layout view_layout(const struct kern_tensor *t)
{
    int i;

    if (t->rank < 3 || kern_tensor_is_dense(t, KERN_NHWC))
        return KERN_NHWC;
    if (kern_tensor_is_dense(t, KERN_NCHW))
        return KERN_NCHW;
    if (t->dim[1] == 1)
        return KERN_NCHW;
    for (i = 2; i < t->rank; i++)
        if (t->dim[i] > 1 && t->stride[i] != 0 && t->stride[i] < t->stride[1])
            return KERN_NCHW;
    return t->stride[1] == 1 ? KERN_NHWC : KERN_NCHW;
}

void view_order_as(const struct kern_tensor *order, struct kern_tensor *t)
{
    int axis[KERN_MAX_RANK];
    int64_t stride = 1;

    for (int i = 0; i < t->rank; i++) {
        int at = i;

        /* Broadcast dimensions, of stride 0, stay behind those before them. */
        for (; at > 0 && order->stride[i] > order->stride[axis[at - 1]] &&
               order->dim[i] > 1;
             at--)
            axis[at] = axis[at - 1];
        axis[at] = i;
    }
    for (int k = t->rank - 1; k >= 0; k--) {
        t->stride[axis[k]] = stride;
        stride *= t->dim[axis[k]];
    }
}

bool view_same(const struct view *a, const struct view *b)
{
    int i;

    if (a->buffer != b->buffer || a->offset != b->offset ||
        a->t.rank != b->t.rank || a->t.dtype != b->t.dtype)
        return false;
    for (i = 0; i < a->t.rank; i++)
        if (a->t.dim[i] != b->t.dim[i] ||
            (a->t.dim[i] > 1 && a->t.stride[i] != b->t.stride[i]))
            return false;
    return true;
}

/* Strides of the new dims [n0, n1) that cover the old dims [o0, o1), whose
 * products are equal; false where the old ones are not walkable as one. */
static bool reshape_group(const struct kern_tensor *t, int o0, int o1,
                          struct kern_tensor *out, int n0, int n1)
{
    int64_t stride;
    int k;

    for (k = o0; k + 1 < o1; k++)
        if (t->stride[k] != t->dim[k + 1] * t->stride[k + 1])
            return false;
    stride = t->stride[o1 - 1];
    for (k = n1 - 1; k >= n0; k--) {
        out->stride[k] = stride;
        stride *= out->dim[k];
    }
    return true;
}

bool view_reshape(const struct view *v, int rank, const int64_t *dim,
                  struct view *out)
{
    struct kern_tensor old = {.rank = 0}, new = {.dtype = v->t.dtype};
    int i, oi = 0, oj, ni = 0, nj;

    if (kern_tensor_count(&v->t) == 0)
        return false;
    for (i = 0; i < v->t.rank; i++)
        if (v->t.dim[i] != 1) {
            old.dim[old.rank] = v->t.dim[i];
            old.stride[old.rank++] = v->t.stride[i];
        }
    new.rank = rank;
    for (i = 0; i < rank; i++) {
        new.dim[i] = dim[i];
        new.stride[i] = 1;
    }
    /* Walk both shapes group by group of equal product; dims of size 1 of the
     * new shape join the group after them. */
    while (oi < old.rank && ni < rank) {
        int64_t op = old.dim[oi], np = dim[ni];

        for (oj = oi + 1, nj = ni + 1; op != np;)
            if (op < np) {
                if (oj == old.rank)
                    return false;
                op *= old.dim[oj++];
            } else {
                if (nj == rank)
                    return false;
                np *= dim[nj++];
            }
        if (!reshape_group(&old, oi, oj, &new, ni, nj))
            return false;
        oi = oj;
        ni = nj;
    }
    *out = *v;
    out->t = new;
    return true;
}

struct view view_permute(const struct view *v, const int64_t *order)
{
    struct view out = *v;
    int i;

    for (i = 0; i < v->t.rank; i++) {
        out.t.dim[i] = v->t.dim[order[i]];
        out.t.stride[i] = v->t.stride[order[i]];
    }
    return out;
}

struct view view_slice(const struct view *v, int axis, int64_t begin,
                       int64_t step, int64_t count)
{
    struct view out = *v;

    out.t.dim[axis] = count;
    if (count > 0) {
        out.offset += begin * v->t.stride[axis];
        out.t.stride[axis] =
            count > 1 ? step * v->t.stride[axis] : v->t.stride[axis];
    }
    return out;
}

struct view view_raise(const struct view *v, int rank)
{
    struct view out = *v;
    int shift = rank - v->t.rank, i;

    if (shift <= 0)
        return out;
    out.t.rank = rank;
    for (i = rank - 1; i >= shift; i--) {
        out.t.dim[i] = v->t.dim[i - shift];
        out.t.stride[i] = v->t.stride[i - shift];
    }
    for (i = shift - 1; i >= 0; i--) {
        out.t.dim[i] = 1;
        out.t.stride[i] =
            out.t.rank > i + 1 ? out.t.dim[i + 1] * out.t.stride[i + 1] : 1;
    }
    return out;
}

struct view view_drop(const struct view *v, int axis)
{
    struct view out = *v;
    int i;

    out.t.rank--;
    for (i = axis; i < out.t.rank; i++) {
        out.t.dim[i] = v->t.dim[i + 1];
        out.t.stride[i] = v->t.stride[i + 1];
    }
    out.t.dim[out.t.rank] = 0;
    out.t.stride[out.t.rank] = 0;
    return out;
}

struct view view_split(const struct view *v, int axis, int64_t outer)
{
    struct view out = *v;
    int64_t inner = outer > 0 ? v->t.dim[axis] / outer : 0;
    int i;

    out.t.rank++;
    for (i = out.t.rank - 1; i > axis + 1; i--) {
        out.t.dim[i] = v->t.dim[i - 1];
        out.t.stride[i] = v->t.stride[i - 1];
    }
    out.t.dim[axis] = outer;
    out.t.stride[axis] = inner * v->t.stride[axis];
    out.t.dim[axis + 1] = inner;
    out.t.stride[axis + 1] = v->t.stride[axis];
    return out;
}

struct view view_expand(const struct view *v, const int64_t *dim)
{
    struct view out = *v;
    int i;

    for (i = 0; i < v->t.rank; i++)
        if (v->t.dim[i] != dim[i]) {
            out.t.dim[i] = dim[i];
            out.t.stride[i] = 0;
        }
    return out;
}

void view_coalesce(struct kern_tensor *a, struct kern_tensor *b)
{
    int i, n = 0;

    for (i = 0; i < a->rank; i++) {
        if (a->dim[i] == 1)
            continue;
        if (n > 0 && a->stride[n - 1] == a->dim[i] * a->stride[i] &&
            b->stride[n - 1] == a->dim[i] * b->stride[i]) {
            a->dim[n - 1] *= a->dim[i];
            a->stride[n - 1] = a->stride[i];
            b->dim[n - 1] = a->dim[n - 1];
            b->stride[n - 1] = b->stride[i];
            continue;
        }
        a->dim[n] = b->dim[n] = a->dim[i];
        a->stride[n] = a->stride[i];
        b->stride[n++] = b->stride[i];
    }
    if (n == 0) {
        a->dim[0] = b->dim[0] = 1;
        a->stride[0] = b->stride[0] = 1;
        n = 1;
    }
    for (i = n; i < KERN_MAX_RANK; i++)
        a->dim[i] = b->dim[i] = a->stride[i] = b->stride[i] = 0;
    a->rank = b->rank = n;
}

void view_gather(const struct kern_tensor *t, const void *base,
                 enum infer_dtype dtype, void *dst)
{
    const int64_t count = kern_tensor_count(t);
    int64_t index[KERN_MAX_RANK] = {0}, at = 0, i;
    int k;

    if (count > 0 && kern_tensor_is_dense(t, KERN_NCHW)) {
        scalar_convert(t->dtype, base, dtype, dst, (size_t)count);
        return;
    }
    for (i = 0; i < count; i++) {
        if (scalar_is_integer(dtype) && scalar_is_integer(t->dtype))
            scalar_store_i64(dtype, dst, i,
                             scalar_load_i64(t->dtype, base, at));
        else
            scalar_store(dtype, dst, i, scalar_load(t->dtype, base, at));
        for (k = t->rank - 1; k >= 0; k--) {
            at += t->stride[k];
            if (++index[k] < t->dim[k])
                break;
            at -= index[k] * t->stride[k];
            index[k] = 0;
        }
    }
}

int64_t view_reach_below(const struct kern_tensor *t)
{
    int64_t below = 0;
    int i;

    for (i = 0; i < t->rank; i++)
        if (t->stride[i] < 0 && t->dim[i] > 1)
            below -= (t->dim[i] - 1) * t->stride[i];
    return below;
}
