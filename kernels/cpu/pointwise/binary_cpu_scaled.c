/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sum, difference and product of tensors of which some are integers of 8 bits
 * with scales (kernels/quant/quant.h), broadcast to each other: the values of a
 * run, then the function, then the integers.
 */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/bytes.h"

#include <string.h>

static bool is_known(enum kern_binary_kind kind)
{
    return kind == KERN_ADD || kind == KERN_SUB || kind == KERN_MUL;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    float low, high;

    (void)d;
    if (!quant_is_scaled(p) || !bytes_known(&p->in[0]) ||
        !bytes_known(&p->in[1]) || !bytes_known(&p->out[0]))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes I8, U8 and F32 with scales");
    if (!is_known(p->attr.binary.kind) ||
        !cpu_act_bounds(&p->epilogue.act, &low, &high))
        return error_set(why, INFER_EUNSUPPORTED,
                         "adds, subtracts and multiplies, with a bounded "
                         "activation");
    return 0;
}

/* a = a kind b, within limits.  Not inlined: the compiler must not join the
 * sum with the products that made a and b. */
CPU_CLONES static void combine(enum kern_binary_kind kind, float *restrict a,
                               const float *restrict b, float low, float high,
                               int64_t n)
{
    if (kind == KERN_ADD) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            a[i] += b[i];
    } else if (kind == KERN_SUB) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            a[i] -= b[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            a[i] *= b[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float v = a[i] < low ? low : a[i];

        a[i] = v > high ? high : v;
    }
}

struct job {
    const struct kern_problem *p;
    const struct kern_args *args;
    struct bytes_lines lines;
    struct bytes_scale a, b, y;
    float low, high; /* the activation */
    int64_t rows;    /* lines that are handled at once, at most */
};

/* The dimension outside of a line: a line's neighbours along it are the next
 * lines. */
static int outer_of(const struct job *j)
{
    return j->lines.walk.rank - 2;
}

static bool repeats(const struct job *j, int k)
{
    return j->lines.walk.stride[k][outer_of(j)] == 0;
}

/* How many short lines fill a run: those of a tensor must follow each other in
 * memory, or be one line, as a gate of one number a channel is. */
static int64_t rows_of(const struct job *j)
{
    const struct cpu_walk *w = &j->lines.walk;
    const int outer = outer_of(j);
    const int64_t n = w->dim[outer + 1];

    if (outer < 0 || j->lines.pieces != 1 || n > BYTES_RUN / 2)
        return 1;
    for (int k = 0; k < 3; k++)
        if ((w->stride[k][outer + 1] != 1 || w->stride[k][outer] != n) &&
            (k == 0 || !repeats(j, k)))
            return 1;
    return BYTES_RUN / n;
}

/* The values of `rows` lines of n elements. */
static void load(const struct job *j, int k, const struct bytes_scale *s,
                 const void *x, int64_t n, int64_t rows, float *v)
{
    const bool once = rows > 1 && repeats(j, k);

    bytes_load(s, x, bytes_lines_step(&j->lines, k), v, once ? n : n * rows);
    for (int64_t r = 1; once && r < rows; r++)
        memcpy(v + r * n, v, (size_t)n * sizeof *v);
}

static void run_lines(const struct job *j, int64_t line, int64_t rows)
{
    const struct bytes_lines *l = &j->lines;
    float a[BYTES_RUN], b[BYTES_RUN];
    int64_t at[CPU_MAX_OPERAND];
    const int64_t n = bytes_lines_at(l, line, at);

    for (int64_t i = 0; i < n; i += BYTES_RUN) {
        const int64_t m = n - i < BYTES_RUN ? n - i : BYTES_RUN;

        load(j, 1, &j->a,
             bytes_at(j->args->in[0], j->a.dtype,
                      at[1] + i * bytes_lines_step(l, 1)),
             m, rows, a);
        load(j, 2, &j->b,
             bytes_at(j->args->in[1], j->b.dtype,
                      at[2] + i * bytes_lines_step(l, 2)),
             m, rows, b);
        combine(j->p->attr.binary.kind, a, b, j->low, j->high, m * rows);
        bytes_store(&j->y, a,
                    bytes_at(j->args->out[0], j->y.dtype,
                             at[0] + i * bytes_lines_step(l, 0)),
                    bytes_lines_step(l, 0), m * rows);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *t[3] = {&p->out[0], &p->in[0], &p->in[1]};
    const struct kern_quant *q = &p->quant;
    const int count =
        cpu_threads(cpu_threads_of(e), kern_tensor_count(&p->out[0]));
    struct job j = {.p = p,
                    .args = args,
                    .a = {p->in[0].dtype, q->x_scale, q->x_zero},
                    .b = {p->in[1].dtype, q->residual_scale, q->residual_zero},
                    .y = {p->out[0].dtype, q->y_scale, q->y_zero}};
    int64_t along, parts; /* lines along the outer dimension; groups of them */

    (void)err;
    (void)count; /* of use with OpenMP only */
    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    (void)cpu_act_bounds(&p->epilogue.act, &j.low, &j.high);
    bytes_lines_init(&j.lines, 3, t);
    j.rows = rows_of(&j);
    along = j.rows > 1 ? j.lines.walk.dim[outer_of(&j)] : 1;
    parts = (along + j.rows - 1) / j.rows;
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (int64_t i = 0; i < j.lines.count / along * parts; i++) {
        const int64_t first = i % parts * j.rows, left = along - first;

        run_lines(&j, i / parts * along + first, left < j.rows ? left : j.rows);
    }
    return 0;
}

KERN_FUNCTIONS(binary_cpu_scaled) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
