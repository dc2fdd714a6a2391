/* SPDX-License-Identifier: Apache-2.0 */
/* A recurrent layer, step by step.  State and gates stay in double. */
#include <math.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/ref/ref.h"

/* One sequence: its state, H each, and what enters the gates, G H. */
struct sequence {
    const struct kern_problem *p;
    const struct kern_recurrent *a;
    const struct kern_args *args;
    int64_t n, hidden;
    double *h, *c, *next; /* next: of h */
    double *x, *u;        /* of x, of the state */
};

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    size_t values;

    (void)d;
    /* Three states, and x and u of four gates at most. */
    if (!checked_mul((size_t)e->problem.in[RECURRENT_W].dim[1],
                     3 + 2 * RECURRENT_GATES, &values) ||
        !checked_mul(values, sizeof(double), &e->workspace))
        return error_set(err, INFER_EMEMORY,
                         "recurrent: does not fit in memory");
    return 0;
}

/* Element (row, i) of an input of rank 2, or `absent`. */
static double at2(const struct sequence *s, int in, int64_t row, int64_t i)
{
    const struct kern_tensor *t = kern_problem_in(s->p, in);

    return ref_optional(t, s->args->in[in],
                        t ? row * t->stride[0] + i * t->stride[1] : 0, 0);
}

static double function(const struct sequence *s, int k, double v)
{
    const struct kern_unary f = {.kind = s->a->act[k]};
    const double clip = (double)s->a->clip;

    if (clip > 0 && k < 2)
        v = v < -clip ? -clip : v > clip ? clip : v;
    return ref_unary(&f, v);
}

/* u = rows [from, to) of w times v. */
static void multiply(const struct sequence *s, const double *v, int64_t from,
                     int64_t to)
{
    const struct kern_tensor *w = &s->p->in[RECURRENT_W];

    for (int64_t i = from; i < to; i++) {
        const char *row =
            (const char *)s->args->in[RECURRENT_W] +
            i * w->stride[0] * (int64_t)infer_dtype_size(w->dtype);

        s->u[i] =
            ref_dot(INFER_F64, v, 1, w->dtype, row, w->stride[1], s->hidden);
    }
}

static void step_rnn(const struct sequence *s)
{
    multiply(s, s->h, 0, s->hidden);
    for (int64_t i = 0; i < s->hidden; i++)
        s->next[i] = function(s, 1, s->x[i] + s->u[i]);
}

static void step_gru(const struct sequence *s)
{
    const struct kern_tensor *bias = kern_problem_in(s->p, RECURRENT_BIAS);
    const int64_t n = s->hidden;
    double *z = s->x, *r = s->x + n, *g = s->x + 2 * n;

    multiply(s, s->h, 0, s->a->reset_after ? 3 * n : 2 * n);
    for (int64_t i = 0; i < 2 * n; i++)
        s->x[i] = function(s, 0, s->x[i] + s->u[i]);
    if (!s->a->reset_after) {
        for (int64_t i = 0; i < n; i++)
            s->next[i] = r[i] * s->h[i];
        multiply(s, s->next, 2 * n, 3 * n);
    }
    for (int64_t i = 0; i < n; i++) {
        double u = s->u[2 * n + i];

        if (s->a->reset_after)
            u = r[i] * (u + ref_optional(bias, s->args->in[RECURRENT_BIAS],
                                         bias ? i * bias->stride[0] : 0, 0));
        s->next[i] = (1 - z[i]) * function(s, 1, g[i] + u) + z[i] * s->h[i];
    }
}

static void step_lstm(const struct sequence *s)
{
    const int64_t n = s->hidden;

    multiply(s, s->h, 0, 4 * n);
    for (int64_t i = 0; i < n; i++) {
        const double c = s->c[i];
        double gate[4];

        for (int k = 0; k < 4; k++)
            gate[k] = s->x[k * n + i] + s->u[k * n + i];
        gate[0] =
            function(s, 0, gate[0] + at2(s, RECURRENT_PEEPHOLE, 0, i) * c);
        gate[2] =
            s->a->input_forget
                ? 1 - gate[0]
                : function(s, 0,
                           gate[2] + at2(s, RECURRENT_PEEPHOLE, 2, i) * c);
        s->c[i] = gate[2] * c + gate[0] * function(s, 1, gate[3]);
        gate[1] = function(
            s, 0, gate[1] + at2(s, RECURRENT_PEEPHOLE, 1, i) * s->c[i]);
        s->next[i] = gate[1] * function(s, 2, s->c[i]);
    }
}

/* The step at place t. */
static void step(const struct sequence *s, int64_t t)
{
    const struct kern_tensor *x = &s->p->in[RECURRENT_X];
    const int64_t at = s->n * x->stride[0] + t * x->stride[1];

    for (int64_t i = 0; i < x->dim[2]; i++)
        s->x[i] =
            ref_load(x->dtype, s->args->in[RECURRENT_X], at + i * x->stride[2]);
    switch (s->a->cell) {
    case KERN_CELL_RNN:
        step_rnn(s);
        break;
    case KERN_CELL_GRU:
        step_gru(s);
        break;
    case KERN_CELL_LSTM:
    case KERN_CELL_COUNT:
        step_lstm(s);
        break;
    }
    memcpy(s->h, s->next, (size_t)s->hidden * sizeof *s->h);
}

static void run(const struct sequence *s)
{
    const struct kern_tensor *y = &s->p->out[0];
    const struct kern_tensor *l = kern_problem_in(s->p, RECURRENT_LENGTH);
    const int64_t steps = y->dim[1];
    const int64_t length =
        l ? scalar_load_i64(l->dtype, s->args->in[RECURRENT_LENGTH],
                            s->n * l->stride[0])
          : steps;

    for (int64_t i = 0; i < s->hidden; i++) {
        s->h[i] = at2(s, RECURRENT_H, s->n, i);
        s->c[i] = at2(s, RECURRENT_C, s->n, i);
    }
    for (int64_t k = 0; k < steps; k++) {
        const int64_t t = recurrent_place(s->a, k, steps);
        const int64_t at = s->n * y->stride[0] + t * y->stride[1];

        if (t < length)
            step(s, t);
        for (int64_t i = 0; i < y->dim[2]; i++)
            ref_store(y->dtype, s->args->out[0], at + i * y->stride[2],
                      i < s->hidden ? s->h[i] : s->c[i - s->hidden]);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct sequence s = {.p = p, .a = &p->attr.recurrent, .args = args};

    (void)err;
    s.hidden = p->in[RECURRENT_W].dim[1];
    s.h = (double *)args->workspace;
    s.c = s.h + s.hidden;
    s.next = s.c + s.hidden;
    s.x = s.next + s.hidden;
    s.u = s.x + RECURRENT_GATES * s.hidden;
    for (s.n = 0; s.n < p->out[0].dim[0]; s.n++)
        run(&s);
    return 0;
}

KERN_FUNCTIONS(recurrent_ref) = {
    .supports = ref_supports_all,
    .prepare = prepare,
    .launch = launch,
};
