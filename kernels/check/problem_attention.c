/* SPDX-License-Identifier: Apache-2.0 */
/* The check of attention. */
#include <string.h>

#include "kernels/check/problem_check.h"

/* A bias broadcasts to the scores: its dimensions are those or 1, and missing
 * ones are the first. */
static int check_bias(const struct kern_problem *p, int i, int rank,
                      const int64_t *scores, struct infer_error *why)
{
    const struct kern_tensor *b = kern_problem_in(p, i);

    if (!b)
        return 0;
    if (b->rank > rank)
        return REFUSE(p, why, "bias has rank %d beside scores of rank %d",
                      b->rank, rank);
    for (int d = 0; d < b->rank; d++) {
        const int64_t want = scores[rank - b->rank + d];

        if (b->dim[d] != 1 && b->dim[d] != want)
            return REFUSE(p, why,
                          "dimension %d of a bias is %lld, expected 1 or %lld",
                          d, (long long)b->dim[d], (long long)want);
    }
    return 0;
}

int problem_check_attention(const struct kern_problem *p,
                            struct infer_error *why)
{
    const struct kern_tensor *q = &p->in[KERN_ATTENTION_Q];
    const struct kern_tensor *k = &p->in[KERN_ATTENTION_K];
    const struct kern_tensor *v = &p->in[KERN_ATTENTION_V];
    const int r = q->rank;
    int64_t dim[KERN_MAX_RANK], scores[KERN_MAX_RANK];
    int rc;

    if (r < 3 || k->rank != r || v->rank != r)
        return REFUSE(p, why,
                      "q, k and v have ranks %d, %d and %d, expected "
                      "equal ones of at least 3",
                      r, k->rank, v->rank);
    memcpy(dim, q->dim, sizeof dim);
    dim[r - 3] = k->dim[r - 3];
    if (dim[r - 3] < 1)
        return REFUSE(p, why, "there is no key");
    rc = problem_expect_shape(p, "k", k, r, dim, why);
    dim[r - 1] = v->dim[r - 1];
    if (rc == 0)
        rc = problem_expect_shape(p, "v", v, r, dim, why);
    dim[r - 3] = q->dim[r - 3];
    if (rc == 0)
        rc = problem_expect_shape(p, "output", &p->out[0], r, dim, why);
    memcpy(scores, q->dim, sizeof scores);
    scores[r - 3] = q->dim[r - 2];
    scores[r - 2] = q->dim[r - 3];
    scores[r - 1] = k->dim[r - 3];
    for (int i = KERN_ATTENTION_BIAS; i < KERN_ATTENTION_INPUTS && rc == 0; i++)
        rc = check_bias(p, i, r, scores, why);
    return rc;
}
