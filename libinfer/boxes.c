/* SPDX-License-Identifier: Apache-2.0 */
/* Helper of infer.h for boxes: non-maximum suppression. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "include/infer.h"
#include "kernels/base/error.h"

struct ranked {
    float score;
    int index;
};

/* Best first; equal scores in the order of the boxes. */
static int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->index - y->index;
}

static double area(const float *box)
{
    const double w = (double)box[2] - (double)box[0];
    const double h = (double)box[3] - (double)box[1];

    return w > 0 && h > 0 ? w * h : 0;
}

/* Whether the intersection is more than `iou` of the union. */
static bool overlaps(const float *a, const float *b, double iou)
{
    const float common[4] = {fmaxf(a[0], b[0]), fmaxf(a[1], b[1]),
                             fminf(a[2], b[2]), fminf(a[3], b[3])};
    const double shared = area(common);

    return shared > iou * (area(a) + area(b) - shared);
}

static bool is_finite(const float *box)
{
    return isfinite(box[0]) && isfinite(box[1]) && isfinite(box[2]) &&
           isfinite(box[3]);
}

int infer_nms(const float *box, const float *score, const int32_t *label, int n,
              float least, float iou, int *keep, struct infer_error *err)
{
    struct ranked *order;
    int count = 0, kept = 0;

    if (n < 0 || (n > 0 && (!box || !score || !keep)) || !(iou >= 0))
        return error_set(err, INFER_EARGUMENT,
                         "boxes: %d boxes, iou %g, or an array is NULL", n,
                         (double)iou);
    order = malloc(n > 0 ? (size_t)n * sizeof *order : 1);
    if (!order)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < n; i++)
        if (score[i] >= least && is_finite(box + 4 * (size_t)i))
            order[count++] = (struct ranked){score[i], i};
    qsort(order, (size_t)count, sizeof *order, by_score);
    for (int i = 0; i < count; i++) {
        const int at = order[i].index;
        bool covered = false;

        for (int k = 0; k < kept && !covered; k++)
            covered = (!label || label[keep[k]] == label[at]) &&
                      overlaps(box + 4 * (size_t)keep[k], box + 4 * (size_t)at,
                               (double)iou);
        if (!covered)
            keep[kept++] = at;
    }
    free(order);
    return kept;
}
