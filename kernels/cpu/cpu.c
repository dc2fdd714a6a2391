/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over strided tensors, and the state of rows that need only the number
 * of threads. */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

int cpu_prepare(struct kern_exec *e, const struct kern_device *d,
                struct infer_error *err)
{
    struct cpu_state *s = malloc(sizeof *s);

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    s->threads = d->threads;
    e->state = s;
    return 0;
}

void cpu_release(struct kern_exec *e)
{
    free(e->state);
    e->state = NULL;
}

int cpu_need_f32(const struct kern_problem *p, struct infer_error *why)
{
    bool f32 = true;

    for (int i = 0; i < p->n_in; i++)
        f32 = f32 && (!kern_problem_in(p, i) || cpu_is_f32(&p->in[i]));
    for (int i = 0; i < p->n_out; i++)
        f32 = f32 && (!kern_problem_out(p, i) || cpu_is_f32(&p->out[i]));
    return f32 ? 0 : error_set(why, INFER_EUNSUPPORTED, "takes F32 only");
}

/* Loops inside a parallel region run on the thread that meets them, which is
 * OpenMP's default. */
void kern_cpu_each(int threads, int64_t n, void (*fn)(void *context, int64_t i),
                   void *context)
{
    int64_t i;

    (void)threads; /* of use with OpenMP only */
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) if (n > 1)
    for (i = 0; i < n; i++)
        fn(context, i);
}

void kern_cpu_all(int threads, void (*fn)(void))
{
    (void)threads;
#pragma omp parallel num_threads(threads)
    fn();
}

/* ---- walks --------------------------------------------------------- */

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

static void swap_dims(struct cpu_walk *w, int i, int j)
{
    int64_t t = w->dim[i];
    int k;

    w->dim[i] = w->dim[j];
    w->dim[j] = t;
    for (k = 0; k < w->operands; k++) {
        t = w->stride[k][i];
        w->stride[k][i] = w->stride[k][j];
        w->stride[k][j] = t;
    }
}

/* Insertion sort: the longest stride of operand 0 first. */
static void sort_dims(struct cpu_walk *w)
{
    int i, j;

    for (i = 1; i < w->rank; i++)
        for (j = i; j > 0 &&
                    magnitude(w->stride[0][j - 1]) < magnitude(w->stride[0][j]);
             j--)
            swap_dims(w, j - 1, j);
}

static bool mergeable(const struct cpu_walk *w, int outer, int inner)
{
    int k;

    for (k = 0; k < w->operands; k++)
        if (w->stride[k][outer] != w->dim[inner] * w->stride[k][inner])
            return false;
    return true;
}

static void merge_dims(struct cpu_walk *w)
{
    int i, k, last = 0;

    for (i = 1; i < w->rank; i++) {
        if (mergeable(w, last, i)) {
            w->dim[last] *= w->dim[i];
        } else {
            last++;
            w->dim[last] = w->dim[i];
        }
        for (k = 0; k < w->operands; k++)
            w->stride[k][last] = w->stride[k][i];
    }
    w->rank = last + 1;
}

void cpu_walk_init(struct cpu_walk *w, int operands,
                   const struct kern_tensor *const *t)
{
    int i, k;

    memset(w, 0, sizeof *w);
    w->operands = operands;
    w->weight = 1;
    for (i = 0; i < t[0]->rank; i++) {
        if (t[0]->dim[i] == 1)
            continue;
        w->dim[w->rank] = t[0]->dim[i];
        for (k = 0; k < operands; k++) {
            /* Operands of lower rank are aligned to the right. */
            const int d = i - (t[0]->rank - t[k]->rank);

            w->stride[k][w->rank] =
                d < 0 || t[k]->dim[d] == 1 ? 0 : t[k]->stride[d];
        }
        w->rank++;
    }
    if (w->rank == 0) {
        w->rank = 1;
        w->dim[0] = 1;
    }
    sort_dims(w);
    merge_dims(w);
}

/* One thread's part: rows [from, to) of the flattened outer dimensions and
 * elements [first, last) of the innermost. */
struct part {
    int64_t from, to, first, last;
};

static void walk_part(const struct cpu_walk *w, const struct part *part,
                      void *const *base, cpu_walk_fn *fn, const void *context)
{
    const int inner = w->rank - 1, next = w->rank - 2;
    int64_t index[KERN_MAX_RANK] = {0}, stride[CPU_MAX_OPERAND];
    int64_t row_stride[CPU_MAX_OPERAND], r = part->from, rest = part->from;
    int d, k;

    for (k = 0; k < w->operands; k++) {
        stride[k] = w->stride[k][inner];
        row_stride[k] = next < 0 ? 0 : w->stride[k][next];
    }
    for (d = next; d >= 0; d--) {
        index[d] = rest % w->dim[d];
        rest /= w->dim[d];
    }
    while (r < part->to) {
        int64_t rows = next < 0 ? 1 : w->dim[next] - index[next];
        float *at[CPU_MAX_OPERAND];

        if (rows > part->to - r)
            rows = part->to - r;
        for (k = 0; k < w->operands; k++) {
            int64_t offset = part->first * stride[k];

            for (d = 0; d <= next; d++)
                offset += index[d] * w->stride[k][d];
            at[k] = (float *)base[k] + offset;
        }
        fn(context, rows, part->last - part->first, at, row_stride, stride);
        r += rows;
        if (next >= 0)
            index[next] += rows;
        for (d = next; d > 0 && index[d] == w->dim[d]; d--) {
            index[d] = 0;
            index[d - 1]++;
        }
    }
}

void cpu_walk_run(const struct cpu_walk *w, int threads, void *const *base,
                  cpu_walk_fn *fn, const void *context)
{
    const int64_t inner = w->dim[w->rank - 1];
    int64_t rows = 1;
    int i, count;

    for (i = 0; i < w->rank - 1; i++)
        rows *= w->dim[i];
    count = cpu_threads(threads, rows * inner * w->weight);
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (i = 0; i < count; i++) {
        struct part part = {0, rows, 0, inner};

        if (rows >= count)
            cpu_share(rows, i, count, &part.from, &part.to);
        else
            cpu_share(inner, i, count, &part.first, &part.last);
        if (part.from < part.to && part.first < part.last)
            walk_part(w, &part, base, fn, context);
    }
}

int cpu_walk_problem(const struct kern_exec *e, const struct kern_args *args,
                     cpu_walk_fn *fn, const void *context)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *t[CPU_MAX_OPERAND] = {&p->out[0]};
    void *base[CPU_MAX_OPERAND] = {args->out[0]};
    struct cpu_walk w;
    int n = 1;

    if (kern_tensor_count(t[0]) == 0)
        return 0;
    for (int i = 0; i < p->n_in; i++)
        if (kern_problem_in(p, i)) {
            t[n] = &p->in[i];
            base[n++] = (void *)args->in[i];
        }
    for (int i = 1; i < p->n_out; i++)
        if (kern_problem_out(p, i)) {
            t[n] = &p->out[i];
            base[n++] = args->out[i];
        }
    cpu_walk_init(&w, n, t);
    cpu_walk_run(&w, cpu_threads_of(e), base, fn, context);
    return 0;
}

/* One block, through t where there is a residual or y is not contiguous. */
static void walk_block(const struct cpu_blocks *b, float *const *at,
                       const int64_t *stride, int64_t n, float *t)
{
    const bool direct = !b->residual && stride[0] == 1;
    const int last = b->operands - 1;
    float *y = direct ? at[0] : t, *r = b->residual ? at[last] : NULL;
    int64_t i;

    b->compute(b->context, at, stride, y, n);
    if (!b->residual || stride[last] == 1)
        cpu_epilogue(b->epilogue, y, r, n);
    else
        for (i = 0; i < n; i++)
            cpu_epilogue(b->epilogue, y + i, r + i * stride[last], 1);
    if (!direct)
        for (i = 0; i < n; i++)
            at[0][i * stride[0]] = y[i];
}

void cpu_walk_blocks(const void *context, int64_t rows, int64_t n,
                     float *const *at, const int64_t *row_stride,
                     const int64_t *stride)
{
    const struct cpu_blocks *b = context;
    float t[CPU_BLOCK];
    int64_t r, i;
    int k;

    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i += CPU_BLOCK) {
            float *block[CPU_MAX_OPERAND];

            for (k = 0; k < b->operands; k++)
                block[k] = at[k] + r * row_stride[k] + i * stride[k];
            walk_block(b, block, stride, n - i < CPU_BLOCK ? n - i : CPU_BLOCK,
                       t);
        }
}

void cpu_copy(const void *from, void *to, int64_t n, int threads)
{
    const int count = cpu_threads(threads, n);
    int i;

#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (i = 0; i < count; i++) {
        int64_t first, last;

        cpu_share(n, i, count, &first, &last);
        memcpy((float *)to + first, (const float *)from + first,
               (size_t)(last - first) * sizeof(float));
    }
}

void cpu_act_parallel(const struct kern_unary *act, float *y, int64_t n,
                      int threads)
{
    const int count = cpu_threads(threads, n);
    int i;

#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (i = 0; i < count; i++) {
        int64_t first, last;

        cpu_share(n, i, count, &first, &last);
        cpu_act(act, y + first, y + first, last - first);
    }
}
