/* SPDX-License-Identifier: Apache-2.0 */
/* What is true of a problem: the reference on types that hold every value. */
#include <stdlib.h>

#include "kernels/table/product_factors.h"
#include "kernels/base/error.h"
#include "kernels/quant/quant.h"
#include "kernels/reference.h"
#include "tools/verify/verify.h"

/* Operations that move elements: their tensors are of one type. */
static bool moves(enum kern_op op)
{
    return op == KERN_WHERE || op == KERN_GATHER || op == KERN_PAD ||
           op == KERN_GATHER_ELEMENTS || op == KERN_SCATTER_ELEMENTS;
}

/* A type that holds every value of a problem's tensor; single precision for
 * inputs, where it will do, because the reference reads that quickly. */
static enum infer_dtype wide_dtype(const struct kern_problem *p,
                                   enum infer_dtype dtype, bool out)
{
    if (!scalar_is_float(dtype))
        return dtype;
    /* Beside a scale the type says what the elements stand for. */
    if (dtype == INFER_F8E4M3 && !out && (quant_of(p) || quant_is_scaled(p)))
        return dtype;
    return out || dtype == INFER_F64 || moves(p->op) ? INFER_F64 : INFER_F32;
}

static void *widen(const struct kern_problem *p, struct kern_tensor *t,
                   bool out)
{
    const enum infer_dtype dtype = wide_dtype(p, t->dtype, out);

    *t = kern_tensor_dense(dtype, t->rank, t->dim, KERN_NCHW);
    return calloc((size_t)kern_tensor_count(t) + 1, infer_dtype_size(dtype));
}

bool reference_new(struct reference *t, const struct kern_problem *p)
{
    *t = (struct reference){.p = *p};
    bool ok = true;
    if (product_factors_of(p)) /* the reference reads the table */
        t->p.in[product_factors_in(p->op)].dtype = INFER_NONE;
    for (int i = 0; i < p->n_out && ok; i++)
        if (kern_problem_out(p, i)) {
            t->out[i] = widen(p, &t->p.out[i], true);
            ok = t->out[i] != NULL;
        }
    for (int i = 0; i < p->n_in && ok; i++)
        if (kern_problem_in(&t->p, i)) {
            t->in[i] = widen(p, &t->p.in[i], false);
            ok = t->in[i] != NULL;
        }
    return ok;
}

void reference_free(struct reference *t)
{
    for (int i = 0; i < KERN_MAX_IN; i++)
        free(t->in[i]);
    for (int i = 0; i < KERN_MAX_OUT; i++)
        free(t->out[i]);
    *t = (struct reference){0};
}

void reference_set(struct reference *t, int i, enum infer_dtype dtype,
                   const void *dense)
{
    if (!t->in[i])
        return;
    scalar_convert(dtype, dense, t->p.in[i].dtype, t->in[i],
                   (size_t)kern_tensor_count(&t->p.in[i]));
}

/* Bit j of (n, i, p): y(n, 8 i + j, p) is above 0. */
static void take_signs(const struct kern_tensor *signs, uint8_t *to,
                       enum infer_dtype dtype, const void *y)
{
    const int64_t bytes = kern_tensor_count(signs);
    int64_t inner = 1;

    for (int d = 2; d < signs->rank; d++)
        inner *= signs->dim[d];
    for (int64_t at = 0; at < bytes; at++) {
        const int64_t first = at / inner * 8 * inner + at % inner;
        unsigned byte = 0;
        for (int j = 0; j < 8; j++)
            byte |= (unsigned)(scalar_load(dtype, y, first + j * inner) > 0)
                    << j;
        to[at] = (uint8_t)byte;
    }
}

void reference_follow(struct reference *t, int o, enum infer_dtype dtype,
                      const void *result)
{
    if (t->p.op == KERN_BATCH_NORM_TRAIN && o == 5)
        take_signs(&t->p.out[o], t->out[o], dtype, result);
}

bool reference_run(const struct reference *t, struct infer_error *err)
{
    struct kern_args args = {0};

    for (int i = 0; i < KERN_MAX_IN; i++)
        args.in[i] = t->in[i];
    for (int i = 0; i < KERN_MAX_OUT; i++)
        args.out[i] = t->out[i];
    return kern_reference_run(&t->p, &args, err) == 0;
}
