/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of infer.h for scores of classes. */
#include <math.h>

#include "include/infer.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/scalar.h"

/* An entry of the first dimension. */
struct entry {
    const struct infer_array *array;
    int64_t first, count;
};

static int find_entry(const struct infer_array *a, int64_t index,
                      struct infer_error *err, struct entry *out)
{
    int64_t count, entries;
    size_t bytes;

    if (!a || !a->data)
        return error_set(err, INFER_EARGUMENT, "scores: no data given");
    if (a->rank < 0 || a->rank > INFER_MAX_RANK ||
        !checked_count(a->rank, a->dim, &count) ||
        !checked_mul((size_t)count, infer_dtype_size(a->dtype), &bytes) ||
        infer_dtype_size(a->dtype) == 0 || bytes > a->bytes)
        return error_set(err, INFER_EARGUMENT,
                         "scores: shape and type do not fit in the %zu bytes "
                         "given",
                         a->bytes);
    entries = a->rank > 0 ? a->dim[0] : 1;
    if (index < 0 || index >= entries)
        return error_set(err, INFER_EARGUMENT,
                         "scores: entry %lld asked for, there are %lld",
                         (long long)index, (long long)entries);
    out->array = a;
    out->count = count / entries;
    out->first = index * out->count;
    return 0;
}

static double score_at(const struct entry *e, int64_t i)
{
    return scalar_load(e->array->dtype, e->array->data, e->first + i);
}

int infer_array_softmax(const struct infer_array *array, int64_t index,
                        double *p, int64_t n, struct infer_error *err)
{
    double max = -INFINITY, sum = 0;
    struct entry e;
    int64_t i;
    int rc = find_entry(array, index, err, &e);

    if (rc < 0)
        return rc;
    if (!p || n != e.count)
        return error_set(err, INFER_EARGUMENT,
                         "scores: room for %lld probabilities, expected %lld",
                         p ? (long long)n : 0LL, (long long)e.count);
    for (i = 0; i < n; i++)
        max = fmax(max, score_at(&e, i));
    /* Infinite scores share all of the probability; exp(inf - inf) is NaN. */
    for (i = 0; i < n; i++) {
        const double x = score_at(&e, i);

        p[i] = isinf(max) && x == max ? 1 : exp(x - max);
        sum += p[i];
    }
    for (i = 0; i < n; i++)
        p[i] /= sum;
    return 0;
}

/* Whether a comes before b, which stands before it in the array. */
static bool is_better(double a, double b)
{
    return isnan(b) ? !isnan(a) : a > b;
}

int infer_array_top_k(const struct infer_array *array, int64_t index, int k,
                      int64_t *place, double *value, struct infer_error *err)
{
    struct entry e;
    int have = 0, j;
    int rc = find_entry(array, index, err, &e);

    if (rc < 0)
        return rc;
    if (k < 0 || (!place && k > 0))
        return error_set(err, INFER_EARGUMENT,
                         "scores: room for %d places, expected 0 or more",
                         place || k < 0 ? k : 0);
    for (int64_t i = 0; k > 0 && i < e.count; i++) {
        const double x = score_at(&e, i);

        if (have == k && !is_better(x, score_at(&e, place[k - 1])))
            continue;
        if (have < k)
            have++;
        for (j = have - 1; j > 0 && is_better(x, score_at(&e, place[j - 1]));
             j--)
            place[j] = place[j - 1];
        place[j] = i;
    }
    for (j = 0; value && j < have; j++)
        value[j] = score_at(&e, place[j]);
    return have;
}
