/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations. */
#include "kernels/op.h"

#include "kernels/check/problem_check.h"

/* ---- flops --------------------------------------------------------- */

static double product(const struct kern_tensor *t, int from)
{
    double n = 1;

    for (int i = from; i < t->rank; i++)
        n *= (double)t->dim[i];
    return n;
}

/* Each output takes C/groups * window products. */
static double fprop_flops(const struct kern_problem *p)
{
    return 2 * product(&p->out[0], 0) * product(&p->in[1], 1);
}

/* Each input takes K/groups * window products. */
static double transpose_flops(const struct kern_problem *p)
{
    return 2 * product(&p->in[0], 0) * product(&p->in[1], 1);
}

/* Each element of dy takes C/groups * window products. */
static double wgrad_flops(const struct kern_problem *p)
{
    return 2 * product(&p->in[1], 0) * product(&p->out[0], 1);
}

static double matmul_flops(const struct kern_problem *p)
{
    const struct kern_tensor *a = &p->in[0];

    if (a->rank < 1)
        return 0;
    if (a->rank < 2 || !p->attr.matmul.transpose_a)
        return 2 * product(&p->out[0], 0) * (double)a->dim[a->rank - 1];
    return 2 * product(&p->out[0], 0) * (double)a->dim[a->rank - 2];
}

/* Both products. */
static double attention_flops(const struct kern_problem *p)
{
    const struct kern_tensor *q = &p->in[KERN_ATTENTION_Q];
    const struct kern_tensor *v = &p->in[KERN_ATTENTION_V];
    const int r = q->rank;

    if (r < 3 || v->rank != r)
        return 0;
    return 2 * product(q, 0) / (double)q->dim[r - 1] * (double)v->dim[r - 3] *
           (double)(q->dim[r - 1] + v->dim[r - 1]);
}

/* Both layers of each image. */
static double squeeze_excite_flops(const struct kern_problem *p)
{
    return 2 * (double)p->in[0].dim[0] *
           (product(&p->in[1], 0) + product(&p->in[2], 0));
}

/* Both convolutions. */
static double chain_flops(const struct kern_problem *p)
{
    const double pixels = product(&p->out[0], 0) /
                          (double)(p->out[0].dim[1] ? p->out[0].dim[1] : 1);

    return 2 * pixels * (product(&p->in[1], 0) + product(&p->in[2], 0));
}

/* Each step multiplies the state with the weights. */
static double recurrent_flops(const struct kern_problem *p)
{
    const struct kern_tensor *x = &p->in[0];

    return x->rank != 3 ? 0
                        : 2 * (double)x->dim[0] * (double)x->dim[1] *
                              product(&p->in[1], 0);
}

/* ---- the table ----------------------------------------------------- */

#define IN(i) ((i) + 1)
/* Bits first to last. */
#define VECTORS(first, last) ((2u << (last)) - (1u << (first)))

static const struct kern_op_info infos[KERN_OP_COUNT] = {
#define KERN_OP(op, word, ...) [op] = {.name = #word, __VA_ARGS__},
#include "kernels/ops.def"
};

const struct kern_op_info *kern_op_info(enum kern_op op)
{
    static const struct kern_op_info unknown = {.name = "unknown"};

    return (int)op < 0 || op >= KERN_OP_COUNT ? &unknown : &infos[op];
}

const char *kern_op_name(enum kern_op op)
{
    return kern_op_info(op)->name;
}

int kern_op_residual(enum kern_op op)
{
    return kern_op_info(op)->residual - 1;
}

int kern_op_in_place(enum kern_op op, int o)
{
    return kern_op_info(op)->in_place[o] - 1;
}

bool kern_op_is_vector(enum kern_op op, int i)
{
    return kern_op_info(op)->vectors >> i & 1;
}

double kern_problem_flops(const struct kern_problem *p)
{
    const struct kern_op_info *info = kern_op_info(p->op);

    return info->flops ? info->flops(p) : 0;
}
