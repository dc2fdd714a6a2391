/* SPDX-License-Identifier: Apache-2.0 */
/* The check of recurrent layers. */
#include <math.h>

#include "kernels/base/scalar.h"
#include "kernels/check/problem_check.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/unary.h"

static int check_attributes(const struct kern_problem *p,
                            struct infer_error *why)
{
    const struct kern_recurrent *a = &p->attr.recurrent;

    if ((int)a->cell < 0 || a->cell >= KERN_CELL_COUNT)
        return REFUSE(p, why, "unknown cell %d", (int)a->cell);
    if (!(a->clip >= 0) || !isfinite(a->clip))
        return REFUSE(p, why, "clip is %g", (double)a->clip);
    if (a->cell != KERN_CELL_LSTM && (a->with_cell || a->input_forget))
        return REFUSE(p, why, "an attribute of LSTM alone");
    if (a->cell != KERN_CELL_GRU && a->reset_after)
        return REFUSE(p, why, "an attribute of GRU alone");
    for (int i = 0; i < 3; i++) {
        const int rc = problem_check_unary_kind(p, a->act[i], why);

        if (rc < 0)
            return rc;
        if (kern_unary_info(a->act[i])->params > 0)
            return REFUSE(p, why, "a function with parameters");
    }
    return 0;
}

/* Input i, where it is there, is of this shape and belongs to the cell. */
static int check_input(const struct kern_problem *p, int i, const char *what,
                       bool belongs, int rank, const int64_t *dim,
                       struct infer_error *why)
{
    const struct kern_tensor *t = kern_problem_in(p, i);

    if (!t)
        return 0;
    if (!belongs)
        return REFUSE(p, why, "%s of another cell", what);
    if (i == RECURRENT_LENGTH
            ? !scalar_is_integer(t->dtype) || t->dtype == INFER_BOOL
            : !scalar_is_float(t->dtype))
        return REFUSE(p, why, "%s: %s", what, infer_dtype_name(t->dtype));
    return problem_expect_shape(p, what, t, rank, dim, why);
}

int problem_check_recurrent(const struct kern_problem *p,
                            struct infer_error *why)
{
    const struct kern_recurrent *a = &p->attr.recurrent;
    const struct kern_tensor *x = &p->in[RECURRENT_X];
    const struct kern_tensor *w = &p->in[RECURRENT_W];
    const bool lstm = a->cell == KERN_CELL_LSTM;
    int64_t hidden;
    int rc = check_attributes(p, why);

    if (rc < 0)
        return rc;
    if (x->rank != 3 || w->rank != 2 || w->dim[1] < 1)
        return REFUSE(p, why,
                      "x of rank %d, expected 3, weights of rank %d, "
                      "expected 2",
                      x->rank, w->rank);
    hidden = w->dim[1];
    if (w->dim[0] != recurrent_gates(a->cell) * hidden ||
        x->dim[2] != w->dim[0])
        return REFUSE(p, why, "%lld gates of x and %lld of weights for %lld",
                      (long long)x->dim[2], (long long)w->dim[0],
                      (long long)hidden);
    if (!scalar_is_float(x->dtype) || !scalar_is_float(w->dtype) ||
        !scalar_is_float(p->out[0].dtype))
        return REFUSE(p, why, "takes floats");
    {
        const int64_t state[2] = {x->dim[0], hidden};
        const int64_t peepholes[2] = {3, hidden};
        const int64_t y[3] = {x->dim[0], x->dim[1],
                              a->with_cell ? 2 * hidden : hidden};

        rc = check_input(p, RECURRENT_BIAS, "bias", a->reset_after, 1, &hidden,
                         why);
        if (rc == 0)
            rc = check_input(p, RECURRENT_H, "h", true, 2, state, why);
        if (rc == 0)
            rc = check_input(p, RECURRENT_C, "c", lstm, 2, state, why);
        if (rc == 0)
            rc = check_input(p, RECURRENT_PEEPHOLE, "peepholes", lstm, 2,
                             peepholes, why);
        if (rc == 0)
            rc = check_input(p, RECURRENT_LENGTH, "lengths", true, 1, state,
                             why);
        return rc < 0
                   ? rc
                   : problem_expect_shape(p, "output", &p->out[0], 3, y, why);
    }
}
