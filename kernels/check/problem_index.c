/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the problems that select along an axis: elements by their indices,
 * running sums, the largest elements, boxes. */
#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "kernels/check/problem_check.h"

/* in[1] are indices into x along an axis: integers, as many dimensions as x,
 * and elsewhere than along the axis no more of them than x has elements. */
static int check_indices(const struct kern_problem *p, int axis,
                         struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *index = &p->in[1];
    const int r = problem_check_axis(p, axis, why);

    if (r < 0)
        return r;
    if (!scalar_is_integer(index->dtype) || index->dtype == INFER_BOOL)
        return REFUSE(p, why, "indices are %s, expected integers",
                      infer_dtype_name(index->dtype));
    if (index->rank != x->rank)
        return REFUSE(p, why, "indices have rank %d, expected %d", index->rank,
                      x->rank);
    for (int i = 0; i < x->rank; i++)
        if (i != axis && index->dim[i] > x->dim[i])
            return REFUSE(p, why, "%lld indices for %lld elements along %d",
                          (long long)index->dim[i], (long long)x->dim[i], i);
    if (x->dim[axis] == 0 && kern_tensor_count(index) > 0)
        return REFUSE(p, why, "has no element to name along %d", axis);
    return 0;
}

int problem_check_gather_elements(const struct kern_problem *p,
                                  struct infer_error *why)
{
    int r = check_indices(p, p->attr.gather.axis, why);

    if (r == 0)
        r = problem_check_same_dtype(p, 0, why);
    return r < 0 ? r
                 : problem_expect_like(p, "output", &p->out[0], &p->in[1], why);
}

int problem_check_scatter_elements(const struct kern_problem *p,
                                   struct infer_error *why)
{
    const enum kern_scatter_kind kind = p->attr.scatter.kind;
    int r = check_indices(p, p->attr.scatter.axis, why);

    if (r == 0 && ((int)kind < 0 || kind > KERN_SCATTER_MAX))
        return REFUSE(p, why, "unknown kind %d", (int)kind);
    for (int i = 0; i <= 2 && r == 0; i += 2)
        r = problem_check_same_dtype(p, i, why);
    if (r == 0)
        r = problem_expect_like(p, "update", &p->in[2], &p->in[1], why);
    return r < 0 ? r : problem_check_like_input(p, why);
}

int problem_check_cumulate(const struct kern_problem *p,
                           struct infer_error *why)
{
    const int r = problem_check_axis(p, p->attr.cumulate.axis, why);

    if (r < 0)
        return r;
    if (scalar_is_integer(p->in[0].dtype) != scalar_is_integer(p->out[0].dtype))
        return REFUSE(p, why, "input is %s and the output %s",
                      infer_dtype_name(p->in[0].dtype),
                      infer_dtype_name(p->out[0].dtype));
    return problem_check_like_input(p, why);
}

static int check_numbers(const struct kern_problem *p, struct infer_error *why)
{
    if (p->out[0].dtype != INFER_I64)
        return REFUSE(p, why, "output is %s, expected I64",
                      infer_dtype_name(p->out[0].dtype));
    return 0;
}

int problem_check_top_k(const struct kern_problem *p, struct infer_error *why)
{
    const int axis = p->attr.top_k.axis;
    struct kern_tensor y = p->in[0];
    int r = problem_check_axis(p, axis, why);

    if (r == 0)
        r = check_numbers(p, why);
    if (r < 0)
        return r;
    if (p->out[0].rank == y.rank)
        y.dim[axis] = p->out[0].dim[axis];
    if (y.dim[axis] > p->in[0].dim[axis])
        return REFUSE(p, why, "%lld are to be chosen among %lld elements",
                      (long long)y.dim[axis], (long long)p->in[0].dim[axis]);
    return problem_expect_like(p, "output", &p->out[0], &y, why);
}

int problem_check_nms(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *boxes = &p->in[0], *scores = &p->in[1];
    const struct kern_tensor *y = &p->out[0];
    int64_t classes, shape[2];

    if (boxes->rank != 3 || scores->rank != 3 || y->rank != 2)
        return REFUSE(p, why, "ranks %d, %d and %d, expected 3, 3 and 2",
                      boxes->rank, scores->rank, y->rank);
    if (boxes->dim[2] != 4 || boxes->dim[0] != scores->dim[0] ||
        boxes->dim[1] != scores->dim[2] || boxes->dim[1] > INT32_MAX)
        return REFUSE(p, why,
                      "%lldx%lldx%lld boxes do not fit %lldx%lldx%lld scores",
                      (long long)boxes->dim[0], (long long)boxes->dim[1],
                      (long long)boxes->dim[2], (long long)scores->dim[0],
                      (long long)scores->dim[1], (long long)scores->dim[2]);
    if (!scalar_is_float(boxes->dtype) || !scalar_is_float(scores->dtype))
        return REFUSE(p, why, "boxes are %s and scores %s, expected reals",
                      infer_dtype_name(boxes->dtype),
                      infer_dtype_name(scores->dtype));
    if (!checked_mul_i64(scores->dim[0], scores->dim[1], &classes) ||
        classes > INT32_MAX)
        return REFUSE(p, why, "too many classes");
    if (classes == 0 ? y->dim[0] != 0 : y->dim[0] % classes != 0)
        return REFUSE(p, why, "%lld rows for %lld images and classes",
                      (long long)y->dim[0], (long long)classes);
    shape[0] = y->dim[0];
    shape[1] = 3;
    const int r = check_numbers(p, why);
    return r < 0 ? r : problem_expect_shape(p, "output", y, 2, shape, why);
}
