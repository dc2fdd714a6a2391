/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recurrent layer, step by step, through the product of vector.h.
 *
 * The weights are packed once into panels.  Threads divide the sequences; each
 * takes its own through all steps, one product for all of them a step, then the
 * functions of the gates, sequence by sequence.  Bits depend neither on the
 * threads nor on the other sequences.
 */
#include "config.h"

#include "kernels/cpu/conv/vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"
#include "kernels/recurrent/recurrent.h"

struct state {
    const struct vector_steps *steps;
    int threads;
    int64_t hidden, gates; /* gates: G H */
    /* Gates of the product with h; those behind them, of the GRU's h, are
     * multiplied with r h. */
    int64_t first;
    int64_t panels[2]; /* of both products */
};

/* Floats of one sequence: h, c, r h, gates. */
static int64_t floats_of(const struct state *s)
{
    return 3 * s->hidden + s->gates;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[RECURRENT_X], *y = &p->out[0];

    (void)d;
    if (!vector_steps())
        return error_set(why, INFER_EUNSUPPORTED, "needs AVX2 or AVX-512");
    for (int i = 0; i < p->n_in; i++)
        if (i != RECURRENT_LENGTH && kern_problem_in(p, i) &&
            !(i == RECURRENT_X ? cpu_is_f32(&p->in[i])
                               : cpu_is_dense(&p->in[i], KERN_NCHW)))
            return error_set(why, INFER_EUNSUPPORTED,
                             "takes F32, but for x dense");
    if (!(p->constant_in & 1u << RECURRENT_W))
        return error_set(why, INFER_EUNSUPPORTED, "takes constant weights");
    if (!cpu_is_f32(y) || (x->stride[2] != 1 && x->dim[2] != 1) ||
        (y->stride[2] != 1 && y->dim[2] != 1))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes gates and gives states side by side");
    for (int i = 0; i < 3; i++)
        if (!cpu_act_known(
                &(struct kern_unary){.kind = p->attr.recurrent.act[i]}))
            return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_recurrent *a = &p->attr.recurrent;
    struct state *s = calloc(1, sizeof *s);
    size_t values;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    s->steps = vector_steps();
    s->threads = d->threads;
    s->gates = p->in[RECURRENT_W].dim[0];
    s->hidden = p->in[RECURRENT_W].dim[1];
    s->first =
        a->cell == KERN_CELL_GRU && !a->reset_after ? 2 * s->hidden : s->gates;
    s->panels[0] = (s->first + s->steps->panel - 1) / s->steps->panel;
    s->panels[1] =
        (s->gates - s->first + s->steps->panel - 1) / s->steps->panel;
    if (!checked_mul((size_t)(s->panels[0] + s->panels[1]),
                     (size_t)s->steps->panel * sizeof(float), &values) ||
        !checked_mul(values, (size_t)s->hidden, &e->packed[RECURRENT_W]) ||
        !checked_mul((size_t)p->out[0].dim[0],
                     (size_t)floats_of(s) * sizeof(float), &e->workspace)) {
        free(s);
        return error_set(err, INFER_EMEMORY, "%s: too large", e->row->name);
    }
    e->state = s;
    return 0;
}

/* Rows [from, to) of w as [panel][H][NB]; gives what lies behind. */
static float *pack_rows(const struct state *s, const float *w, int64_t from,
                        int64_t to, float *u)
{
    for (; from < to; from += s->steps->panel)
        for (int64_t c = 0; c < s->hidden; c++)
            for (int64_t j = 0; j < s->steps->panel; j++)
                *u++ = from + j < to ? w[(from + j) * s->hidden + c] : 0;
    return u;
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct state *s = e->state;

    (void)i;
    (void)err;
    pack_rows(s, src, s->first, s->gates, pack_rows(s, src, 0, s->first, dst));
    return 0;
}

/* ---- functions of the gates ---------------------------------------- */

/* The memory of one sequence. */
struct sequence {
    const struct kern_recurrent *a;
    int64_t hidden;
    float *h, *c, *v, *u; /* v: r h; u: gates */
    const float *x, *bias, *peephole;
};

CPU_CLONES static void bound(float most, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = y[i] < -most ? -most : y[i];

        y[i] = v > most ? most : v;
    }
}

/* Function k of the cell, behind the clip. */
static void apply(const struct sequence *q, int k, float *y, int64_t n)
{
    const struct kern_unary f = {.kind = q->a->act[k]};

    if (q->a->clip > 0)
        bound(q->a->clip, y, n);
    cpu_act(&f, y, y, n);
}

/* y += a b */
CPU_CLONES static void add_product(const float *a, const float *b, float *y,
                                   int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += a[i] * b[i];
}

CPU_CLONES static void multiply(const float *a, const float *b, float *y,
                                int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

CPU_CLONES static void from_one(const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = 1 - x[i];
}

/* h = (1 - z) g + z h */
CPU_CLONES static void blend(const float *z, const float *g, float *h,
                             int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        h[i] = (1 - z[i]) * g[i] + z[i] * h[i];
}

/* c = f c + i g */
CPU_CLONES static void carry(const float *f, const float *i, const float *g,
                             float *c, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        c[j] = f[j] * c[j] + i[j] * g[j];
}

/* The GRU's gates z and r, and r h where that is multiplied. */
static void open_gru(const struct sequence *q)
{
    const int64_t n = q->hidden;

    cpu_add(q->x, q->u, 2 * n);
    apply(q, 0, q->u, 2 * n);
    if (!q->a->reset_after)
        multiply(q->u + n, q->h, q->v, n);
}

static void close_gru(const struct sequence *q)
{
    const int64_t n = q->hidden;
    float *r = q->u + n, *g = q->u + 2 * n;

    if (q->a->reset_after) {
        if (q->bias)
            cpu_add(q->bias, g, n);
        multiply(r, g, g, n);
    }
    cpu_add(q->x + 2 * n, g, n);
    apply(q, 1, g, n);
    blend(q->u, g, q->h, n);
}

static void close_lstm(const struct sequence *q)
{
    const struct kern_unary output = {.kind = q->a->act[2]};
    const int64_t n = q->hidden;
    float *i = q->u, *o = i + n, *f = o + n, *g = f + n;

    cpu_add(q->x, q->u, 4 * n);
    if (q->peephole) {
        add_product(q->peephole, q->c, i, n);
        add_product(q->peephole + 2 * n, q->c, f, n);
    }
    apply(q, 0, i, n);
    if (q->a->input_forget)
        from_one(i, f, n);
    else
        apply(q, 0, f, n);
    apply(q, 1, g, n);
    carry(f, i, g, q->c, n);
    if (q->peephole)
        add_product(q->peephole + n, q->c, o, n);
    apply(q, 0, o, n);
    cpu_act(&output, q->c, q->h, n);
    multiply(o, q->h, q->h, n);
}

static void close_step(const struct sequence *q)
{
    if (q->a->cell == KERN_CELL_GRU) {
        close_gru(q);
    } else if (q->a->cell == KERN_CELL_LSTM) {
        close_lstm(q);
    } else {
        cpu_add(q->x, q->u, q->hidden);
        apply(q, 1, q->u, q->hidden);
        memcpy(q->h, q->u, (size_t)q->hidden * sizeof(float));
    }
}

/* ---- launch -------------------------------------------------------- */

/* One launch.  Its memory: h of all sequences, c, r h, gates. */
struct run {
    const struct kern_exec *e;
    const struct kern_args *args;
    const struct state *s;
    int64_t count; /* sequences */
    float *memory;
};

static struct sequence sequence_of(const struct run *r, int64_t n)
{
    const struct kern_problem *p = &r->e->problem;
    const int64_t hidden = r->s->hidden;

    return (struct sequence){
        .a = &p->attr.recurrent,
        .hidden = hidden,
        .h = r->memory + n * hidden,
        .c = r->memory + (r->count + n) * hidden,
        .v = r->memory + (2 * r->count + n) * hidden,
        .u = r->memory + 3 * r->count * hidden + n * r->s->gates,
        .bias = kern_problem_in(p, RECURRENT_BIAS) ? r->args->in[RECURRENT_BIAS]
                                                   : NULL,
        .peephole = kern_problem_in(p, RECURRENT_PEEPHOLE)
                        ? r->args->in[RECURRENT_PEEPHOLE]
                        : NULL};
}

static void start(const struct run *r, int in, int64_t n, float *to)
{
    const size_t bytes = (size_t)r->s->hidden * sizeof(float);

    if (kern_problem_in(&r->e->problem, in))
        memcpy(to, (const float *)r->args->in[in] + n * r->s->hidden, bytes);
    else
        memset(to, 0, bytes);
}

/* Panels [from, to) of product `which` of sequences [first, last). */
static void product(const struct run *r, int which, int64_t first, int64_t last,
                    int64_t from, int64_t to)
{
    static const struct vector_epilogue plain = {
        .low = -INFINITY, .high = INFINITY, .bounded = true};
    const struct state *s = r->s;
    const struct sequence q = sequence_of(r, first);
    const struct vector_rows rows = {.x = which ? q.v : q.h,
                                     .x_step = s->hidden,
                                     .y = which ? q.u + s->first : q.u,
                                     .y_step = s->gates};
    const float *u = (const float *)r->args->in[RECURRENT_W] +
                     (which ? s->panels[0] * s->steps->panel * s->hidden : 0);

    if (from < to && first < last)
        s->steps->rows(&rows, last - first, &plain, u, s->hidden,
                       which ? s->gates - s->first : s->first, from, to);
}

/* Whether sequence n has a step at place t. */
static bool goes_on(const struct run *r, int64_t n, int64_t t)
{
    const struct kern_tensor *l =
        kern_problem_in(&r->e->problem, RECURRENT_LENGTH);

    return !l || t < scalar_load_i64(l->dtype, r->args->in[RECURRENT_LENGTH],
                                     n * l->stride[0]);
}

static void begin_sequences(const struct run *r, int64_t first, int64_t last)
{
    for (int64_t n = first; n < last; n++) {
        const struct sequence q = sequence_of(r, n);

        start(r, RECURRENT_H, n, q.h);
        start(r, RECURRENT_C, n, q.c);
    }
}

/* Between the two products: the gates that the second one waits for. */
static void open_sequences(const struct run *r, int64_t first, int64_t last,
                           int64_t t)
{
    const struct kern_tensor *x = &r->e->problem.in[RECURRENT_X];

    for (int64_t n = first; n < last; n++) {
        struct sequence q = sequence_of(r, n);

        q.x = (const float *)r->args->in[RECURRENT_X] + n * x->stride[0] +
              t * x->stride[1];
        open_gru(&q);
    }
}

static void close_sequences(const struct run *r, int64_t first, int64_t last,
                            int64_t t)
{
    const struct kern_tensor *x = &r->e->problem.in[RECURRENT_X];
    const struct kern_tensor *y = &r->e->problem.out[0];
    const size_t bytes = (size_t)r->s->hidden * sizeof(float);

    for (int64_t n = first; n < last; n++) {
        struct sequence q = sequence_of(r, n);
        float *to =
            (float *)r->args->out[0] + n * y->stride[0] + t * y->stride[1];

        q.x = (const float *)r->args->in[RECURRENT_X] + n * x->stride[0] +
              t * x->stride[1];
        if (goes_on(r, n, t))
            close_step(&q);
        memcpy(to, q.h, bytes);
        if (q.a->with_cell)
            memcpy(to + q.hidden, q.c, bytes);
    }
}

/* All steps of sequences [first, last) by one thread. */
static void run_alone(const struct run *r, int64_t first, int64_t last)
{
    const struct kern_recurrent *a = &r->e->problem.attr.recurrent;
    const int64_t steps = r->e->problem.out[0].dim[1];

    begin_sequences(r, first, last);
    for (int64_t k = 0; k < steps; k++) {
        const int64_t t = recurrent_place(a, k, steps);

        product(r, 0, first, last, 0, r->s->panels[0]);
        if (a->cell == KERN_CELL_GRU)
            open_sequences(r, first, last, t);
        product(r, 1, first, last, 0, r->s->panels[1]);
        close_sequences(r, first, last, t);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    const struct run r = {.e = e,
                          .args = args,
                          .s = s,
                          .count = e->problem.out[0].dim[0],
                          .memory = args->workspace};
    const int64_t work =
        r.count * e->problem.out[0].dim[1] * s->gates * s->hidden / 16;
    int count = cpu_threads(s->threads, work);

    (void)err;
    if (count > r.count)
        count = (int)r.count;
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (int i = 0; i < count; i++) {
        int64_t from, to;

        cpu_share(r.count, i, count, &from, &to);
        run_alone(&r, from, to);
    }
    return 0;
}

KERN_FUNCTIONS(recurrent_f32_cpu_steps) = {
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = cpu_release,
};
