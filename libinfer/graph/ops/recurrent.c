/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers: attributes and shapes. */
#include "kernels/base/scalar.h"
#include "kernels/recurrent/recurrent.h"
#include "libinfer/graph/ops/op.h"

static int check_attributes(const struct kern_recurrent *a,
                            struct infer_error *err)
{
    if (!(a->clip >= 0) || a->clip > 0x1p100f)
        return error_set(err, INFER_EFORMAT, "clip is %g", (double)a->clip);
    if (a->cell != KERN_CELL_LSTM && (a->with_cell || a->input_forget))
        return error_set(err, INFER_EFORMAT,
                         "with_cell and input_forget are attributes of lstm");
    if (a->cell != KERN_CELL_GRU && a->reset_after)
        return error_set(err, INFER_EFORMAT,
                         "reset_after is an attribute of gru");
    for (int i = 0; i < 3; i++)
        if (kern_unary_info(a->act[i])->params > 0)
            return error_set(err, INFER_EFORMAT,
                             "function %d has parameters, which a recurrent "
                             "layer does not take",
                             i);
    return INFER_OK;
}

/* Input i, where it is given, is one of the cell's, and of a shape that may
 * be this one. */
static int check_input(const struct graph_shape_args *args, int i,
                       const char *what, bool belongs, int rank,
                       const int64_t *dim, struct infer_error *err)
{
    const struct graph_type *t = &args->in[i];
    const bool length = i == RECURRENT_LENGTH;
    bool fits = t->rank < 0 || t->rank == rank;
    char text[OP_TEXT];

    if (!op_has(args, i))
        return INFER_OK;
    if (!belongs)
        return error_set(err, INFER_EFORMAT, "%s of another cell", what);
    if (t->dtype != INFER_NONE &&
        (length ? !scalar_is_integer(t->dtype) || t->dtype == INFER_BOOL
                : !scalar_is_float(t->dtype)))
        return error_set(err, INFER_EFORMAT, "%s is %s", what,
                         infer_dtype_name(t->dtype));
    for (int d = 0; fits && d < t->rank; d++)
        fits = op_fits(t->dim[d], dim[d]);
    return fits ? INFER_OK
                : error_set(err, INFER_EFORMAT, "%s is %s and does not fit",
                            what, op_text(t, text));
}

static int check_inputs(const struct graph_shape_args *args, int64_t batch,
                        int64_t hidden, struct infer_error *err)
{
    const struct kern_recurrent *a = &args->attr->recurrent;
    const bool lstm = a->cell == KERN_CELL_LSTM;
    const int64_t state[2] = {batch, hidden}, peepholes[2] = {3, hidden};
    int rc = check_input(args, RECURRENT_BIAS, "bias", a->reset_after, 1,
                         &hidden, err);

    if (rc == 0)
        rc = check_input(args, RECURRENT_H, "h", true, 2, state, err);
    if (rc == 0)
        rc = check_input(args, RECURRENT_C, "c", lstm, 2, state, err);
    if (rc == 0)
        rc = check_input(args, RECURRENT_PEEPHOLE, "peepholes", lstm, 2,
                         peepholes, err);
    return rc < 0 ? rc
                  : check_input(args, RECURRENT_LENGTH, "lengths", true, 1,
                                state, err);
}

/* x: N,S,G H; weight: G H,H; out: N,S,H or N,S,2H. */
int op_recurrent_shape(struct graph_shape_args *args, struct infer_error *err)
{
    const struct kern_recurrent *a = &args->attr->recurrent;
    const struct graph_type *x = &args->in[0], *w = &args->in[1];
    const int gates = recurrent_gates(a->cell);
    struct graph_type *y = &args->out[0];
    char xs[OP_TEXT], ws[OP_TEXT];
    int64_t hidden;
    int rc = check_attributes(a, err);

    if (rc < 0)
        return rc;
    for (int i = 0; i < 2; i++)
        if (args->in[i].dtype != INFER_NONE &&
            !scalar_is_float(args->in[i].dtype))
            return error_set(err, INFER_EFORMAT, "input %d is %s", i,
                             infer_dtype_name(args->in[i].dtype));
    if ((x->rank >= 0 && x->rank != 3) || (w->rank >= 0 && w->rank != 2) ||
        (w->rank == 2 && w->dim[0] >= 0 && w->dim[1] >= 0 &&
         (w->dim[1] < 1 || w->dim[0] / gates != w->dim[1] ||
          w->dim[0] % gates != 0)) ||
        (x->rank == 3 && w->rank == 2 && !op_fits(x->dim[2], w->dim[0])))
        return error_set(err, INFER_EFORMAT,
                         "weight is %s and does not fit input %s",
                         op_text(w, ws), op_text(x, xs));
    hidden = w->rank == 2 ? w->dim[1] : -1;
    rc = check_inputs(args, x->rank == 3 ? x->dim[0] : -1, hidden, err);
    if (rc < 0)
        return rc;
    y->dtype = x->dtype;
    y->rank = 3;
    y->dim[0] = x->rank == 3 ? x->dim[0] : -1;
    y->dim[1] = x->rank == 3 ? x->dim[1] : -1;
    y->dim[2] = hidden < 0 ? -1 : a->with_cell ? 2 * hidden : hidden;
    return INFER_OK;
}

/* States and lengths are one for each sequence. */
bool op_recurrent_separable(const struct graph_separable_args *args)
{
    if (!args->varies[RECURRENT_X] || args->varies[RECURRENT_W])
        return false;
    for (int i = RECURRENT_BIAS; i < args->n_in; i++) {
        const bool batched =
            i == RECURRENT_H || i == RECURRENT_C || i == RECURRENT_LENGTH;

        if (args->in[i] && args->varies[i] != batched)
            return false;
    }
    return true;
}
