/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a problem is well-formed: shapes, types and attributes that fit
 * together.  Every row relies on it, so no kernel has to doubt a shape.  Here
 * is what holds for every operation; each one's own check: problem_window.c,
 * problem_plain.c, problem_train.c. */
#include "kernels/check/problem_check.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/quant/quant.h"

int problem_refuse(const struct kern_problem *p, struct infer_error *why,
                   int code)
{
    error_prefix(why, "%s", kern_op_name(p->op));
    return code;
}

/* ---- one tensor ---------------------------------------------------- */

/* True where every element lies within 2^62 bytes of the first. */
static bool reach_fits(const struct kern_tensor *t)
{
    int64_t reach = 1, bytes;

    for (int i = 0; i < t->rank; i++) {
        int64_t part;
        if (t->dim[i] == 0)
            return true;
        if (t->stride[i] == INT64_MIN)
            return false;
        const int64_t step = t->stride[i] < 0 ? -t->stride[i] : t->stride[i];
        if (!checked_mul_i64(t->dim[i] - 1, step, &part) ||
            !checked_add_i64(reach, part, &reach))
            return false;
    }
    return checked_mul_i64(reach, (int64_t)infer_dtype_size(t->dtype),
                           &bytes) &&
           bytes <= INT64_MAX / 2;
}

static int check_tensor(const struct kern_problem *p, const char *what, int i,
                        const struct kern_tensor *t, struct infer_error *why)
{
    int64_t count;

    if (infer_dtype_size(t->dtype) == 0)
        return REFUSE(p, why, "%s %d has no data type", what, i);
    if (t->rank < 0 || t->rank > KERN_MAX_RANK)
        return REFUSE(p, why, "%s %d has rank %d, supported 0 to %d", what, i,
                      t->rank, KERN_MAX_RANK);
    if (!checked_count(t->rank, t->dim, &count) || !reach_fits(t)) {
        char text[KERN_SHAPE_TEXT];
        return REFUSE(p, why, "%s %d has an impossible size %s", what, i,
                      kern_shape_text(t->rank, t->dim, text));
    }
    return 0;
}

/* True where no two elements lie in the same place: with the dimensions in the
 * order of their strides, each steps over all that the smaller ones reach.
 * Every view of a dense tensor (slice, permutation, split) does. */
static bool is_injective(const struct kern_tensor *t)
{
    int order[KERN_MAX_RANK], n = 0;
    int64_t reach = 0;

    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] == 0)
            return true;
        if (t->dim[i] == 1)
            continue;
        int at = n++;
        while (at > 0 &&
               llabs(t->stride[order[at - 1]]) > llabs(t->stride[i])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    for (int i = 0; i < n; i++) {
        const int64_t step = llabs(t->stride[order[i]]);
        if (step <= reach)
            return false;
        reach += (t->dim[order[i]] - 1) * step;
    }
    return true;
}

/* Counts, and each tensor that is there; `what`: "input" or "output". */
static int check_tensors(const struct kern_problem *p, const char *what,
                         const struct kern_tensor *t, int n, int min, int max,
                         struct infer_error *why)
{
    if (n < min || n > max)
        return REFUSE(p, why, "has %d %ss, expected %d to %d", n, what, min,
                      max);
    for (int i = 0; i < n; i++) {
        if (t[i].dtype == INFER_NONE && i >= min)
            continue;
        const int r = check_tensor(p, what, i, &t[i], why);
        if (r < 0)
            return r;
        if (t == p->out && !is_injective(&t[i]))
            return REFUSE(p, why, "elements of output %d share their place", i);
    }
    return 0;
}

/* ---- shapes -------------------------------------------------------- */

static bool same_shape(const struct kern_tensor *t, int rank,
                       const int64_t *dim)
{
    if (t->rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (t->dim[i] != dim[i])
            return false;
    return true;
}

int problem_expect_shape(const struct kern_problem *p, const char *what,
                         const struct kern_tensor *t, int rank,
                         const int64_t *dim, struct infer_error *why)
{
    char found[KERN_SHAPE_TEXT], expected[KERN_SHAPE_TEXT];

    if (!t || same_shape(t, rank, dim))
        return 0;
    return REFUSE(p, why, "%s has shape %s, expected %s", what,
                  kern_shape_text(t->rank, t->dim, found),
                  kern_shape_text(rank, dim, expected));
}

int problem_expect_like(const struct kern_problem *p, const char *what,
                        const struct kern_tensor *t,
                        const struct kern_tensor *as, struct infer_error *why)
{
    return problem_expect_shape(p, what, t, as->rank, as->dim, why);
}

/* Optional vectors of `count` elements: bias, scale, shift. */
int problem_expect_vectors(const struct kern_problem *p, int from, int to,
                           const char *what, int64_t count,
                           struct infer_error *why)
{
    for (int i = from; i <= to; i++) {
        const int r = problem_expect_shape(p, what, kern_problem_in(p, i), 1,
                                           &count, why);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- all operations ------------------------------------------------ */

static int check_epilogue(const struct kern_problem *p, struct infer_error *why)
{
    const int r = kern_op_residual(p->op);
    const int bad = problem_check_unary_kind(p, p->epilogue.act.kind, why);

    if (bad < 0)
        return bad;
    if (p->epilogue.act.kind != KERN_IDENTITY && !kern_op_info(p->op)->act)
        return REFUSE(p, why, "knows no activation behind it");
    return r < 0 ? 0
                 : problem_expect_like(p, "residual", kern_problem_in(p, r),
                                       &p->out[0], why);
}

int kern_problem_check(const struct kern_problem *p, struct infer_error *why)
{
    if ((int)p->op < 0 || p->op >= KERN_OP_COUNT)
        return error_set(why, INFER_EUNSUPPORTED, "unknown operation %d",
                         (int)p->op);
    const struct kern_op_info *info = kern_op_info(p->op);
    int r = check_tensors(p, "input", p->in, p->n_in, info->in.min,
                          info->in.max, why);
    if (r == 0)
        r = check_tensors(p, "output", p->out, p->n_out, info->out.min,
                          info->out.max, why);
    if (r == 0)
        r = info->check(p, why);
    if (r == 0)
        r = problem_check_product_table(p, why);
    if (r == 0)
        r = problem_check_quant(p, why);
    return r < 0 ? r : check_epilogue(p, why);
}
