/* SPDX-License-Identifier: Apache-2.0 */
/* Functions shared by the reference kernels. */
#include "kernels/ref/ref.h"

#include <string.h>

void ref_walk_start(struct ref_walk *w, int rank, const int64_t *dim)
{
    memset(w, 0, sizeof(*w));
    w->rank = rank;
    for (int i = 0; i < rank; i++) {
        w->dim[i] = dim[i];
        w->done = w->done || dim[i] == 0;
    }
}

void ref_walk_add(struct ref_walk *w, const struct kern_tensor *t)
{
    const int shift = w->rank - t->rank;

    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] != 1)
            w->stride[w->n][i + shift] = t->stride[i];
    w->n++;
}

void ref_walk_next(struct ref_walk *w)
{
    for (int d = w->rank - 1; d >= 0; d--) {
        for (int i = 0; i < w->n; i++)
            w->offset[i] += w->stride[i][d];
        if (++w->index[d] < w->dim[d])
            return;
        for (int i = 0; i < w->n; i++)
            w->offset[i] -= w->stride[i][d] * w->dim[d];
        w->index[d] = 0;
    }
    w->done = true;
}

double ref_dot(enum infer_dtype a_type, const void *a, int64_t sa,
               enum infer_dtype b_type, const void *b, int64_t sb, int64_t n)
{
    double sum = 0;

    if (a_type == INFER_F32 && b_type == INFER_F32) {
        const float *fa = a, *fb = b;
        for (int64_t i = 0; i < n; i++)
            sum += (double)fa[i * sa] * (double)fb[i * sb];
        return sum;
    }
    if (a_type == INFER_F64 && b_type == INFER_F64) {
        const double *da = a, *db = b;
        for (int64_t i = 0; i < n; i++)
            sum += da[i * sa] * db[i * sb];
        return sum;
    }
    for (int64_t i = 0; i < n; i++)
        sum += scalar_load(a_type, a, i * sa) * scalar_load(b_type, b, i * sb);
    return sum;
}

void ref_move(size_t size, void *to, int64_t i, const void *from, int64_t j)
{
    memcpy((char *)to + i * (int64_t)size,
           (const char *)from + j * (int64_t)size, size);
}

int64_t ref_add_i64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

int64_t ref_mul_i64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

void ref_wrap_i64(enum infer_dtype dtype, void *base, int64_t i, int64_t v)
{
    const size_t size = infer_dtype_size(dtype);

    if (dtype == INFER_BOOL)
        ((uint8_t *)base)[i] = v != 0;
    else if (size == 1)
        ((uint8_t *)base)[i] = (uint8_t)v;
    else if (size == 2)
        ((uint16_t *)base)[i] = (uint16_t)v;
    else if (size == 4)
        ((uint32_t *)base)[i] = (uint32_t)v;
    else
        ((uint64_t *)base)[i] = (uint64_t)v;
}

int ref_supports_all(const struct kern_problem *p, const struct kern_device *d,
                     struct infer_error *why)
{
    (void)p;
    (void)d;
    (void)why;
    return 0;
}

static bool is_wide(enum infer_dtype dtype)
{
    return dtype == INFER_I64 || dtype == INFER_U64;
}

int ref_supports_double(const struct kern_problem *p,
                        const struct kern_device *d, struct infer_error *why)
{
    (void)d;
    for (int i = 0; i < p->n_in; i++)
        if (is_wide(p->in[i].dtype))
            return error_set(why, INFER_EUNSUPPORTED,
                             "%s: input %d is %s, supported are floating "
                             "point and integers up to 32 bits",
                             kern_op_name(p->op), i,
                             infer_dtype_name(p->in[i].dtype));
    if (is_wide(p->out[0].dtype))
        return error_set(why, INFER_EUNSUPPORTED,
                         "%s: output is %s, supported are floating point and "
                         "integers up to 32 bits",
                         kern_op_name(p->op),
                         infer_dtype_name(p->out[0].dtype));
    return 0;
}
