/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions, their gradients and dense layers with an accumulator
 * (kernels/table/accumulator.h): each output by itself, its terms in the stated
 * order. */
#include "kernels/ref/conv/accumulated.h"
#include "kernels/ref/conv/product.h"
#include "kernels/ref/window.h"

/* Sums on three levels, as bit patterns. */
struct sum {
    uint32_t chunk, run, total;
    int64_t terms;
};

struct accumulated {
    const struct kern_problem *p;
    const struct kern_args *args;
    struct ref_table table;
    struct ref_window w; /* not of a dense layer */
    int kind, lower;
};

static uint32_t add(const struct accumulated *v, uint32_t a, uint32_t b)
{
    return accumulator_add(v->kind, v->lower, a, b);
}

/* The next term: the product of element x of in[0] and element w of in[1]. */
static void take(const struct accumulated *v, struct sum *s, bool inside,
                 int64_t x, int64_t w)
{
    const struct kern_problem *p = v->p;

    if (inside)
        s->chunk =
            add(v, s->chunk,
                float_bits((float)ref_product(
                    &v->table, ref_load(p->in[0].dtype, v->args->in[0], x),
                    ref_load(p->in[1].dtype, v->args->in[1], w))));
    if (++s->terms % ACCUMULATOR_CHUNK == 0) {
        s->run = add(v, s->run, s->chunk);
        s->chunk = 0;
    }
    if (s->terms % ACCUMULATOR_RUN == 0) {
        s->total = add(v, s->total, s->run);
        s->run = 0;
    }
}

static float total(const struct accumulated *v, const struct sum *s)
{
    const uint32_t run = add(v, s->run, s->chunk);

    return float_of_bits(add(v, s->total, run));
}

/* Position along dimension d of the input that tap r of output o meets; -1:
 * none.  Of a transposed convolution o and the input are those of its y and x.
 */
static int64_t meet(const struct accumulated *v, int d, int64_t o, int64_t r)
{
    const struct ref_window *w = &v->w;
    int64_t i = ref_window_tap(w, d, o, r);

    if (v->p->op == KERN_CONV_TRANSPOSE_FPROP) {
        i = o + w->pad[d] - r * w->dilation[d];
        if (i < 0 || i % w->step[d])
            return -1;
        i /= w->step[d];
    }
    return ref_window_in_input(w, d, i) ? i : -1;
}

/* The offset in x of what the pixel o and the tap r meet; *inside: there is
 * such. */
static int64_t meet_all(const struct accumulated *v, const int64_t *o,
                        const int64_t *r, bool *inside)
{
    int64_t at = 0;

    *inside = true;
    for (int d = 0; d < 3; d++) {
        const int64_t i = meet(v, d, o[d], r[d]);
        *inside = *inside && i >= 0;
        at += i * v->w.x_stride[d];
    }
    return at;
}

/* Moves to the next of three indices, the last one innermost; false behind the
 * last. */
static bool next(int64_t *at, const int64_t *extent)
{
    for (int d = 2; d >= 0; d--) {
        if (++at[d] < extent[d])
            return true;
        at[d] = 0;
    }
    return false;
}

/* Output (n, k, o) of a convolution or of its transpose. */
static float sum_window(const struct accumulated *v, int64_t n, int64_t k,
                        const int64_t *o)
{
    const struct kern_problem *p = v->p;
    const bool transposed = p->op == KERN_CONV_TRANSPOSE_FPROP;
    const struct kern_tensor *x = &p->in[0], *w = &p->in[1];
    const int64_t groups = p->attr.conv.groups;
    const int64_t channels = x->dim[1] / groups;
    const int64_t group = k / (p->out[0].dim[1] / groups);
    const int64_t in_group = k % (p->out[0].dim[1] / groups);
    int64_t r[3] = {0};
    struct sum s = {0};

    do {
        bool inside;
        const int64_t at = meet_all(v, o, r, &inside) + n * x->stride[0];
        const int64_t tap = r[0] * v->w.w_stride[0] + r[1] * v->w.w_stride[1] +
                            r[2] * v->w.w_stride[2];
        for (int64_t c = 0; c < channels; c++)
            take(v, &s, inside, at + (group * channels + c) * x->stride[1],
                 transposed ? tap + (group * channels + c) * w->stride[0] +
                                  in_group * w->stride[1]
                            : tap + k * w->stride[0] + c * w->stride[1]);
    } while (next(r, v->w.kernel));
    return total(v, &s);
}

/* The weight (k, c, r), c counted in its group. */
static float sum_weight(const struct accumulated *v, int64_t k, int64_t c,
                        const int64_t *r)
{
    const struct kern_problem *p = v->p;
    const struct kern_tensor *x = &p->in[0], *dy = &p->in[1], *dw = &p->out[0];
    const int64_t group = k / (dw->dim[0] / p->attr.conv.groups);
    struct sum s = {0};

    for (int64_t n = 0; n < x->dim[0]; n++) {
        int64_t o[3] = {0};
        do {
            bool inside;
            const int64_t at = meet_all(v, o, r, &inside);
            take(v, &s, inside,
                 at + n * x->stride[0] +
                     (group * dw->dim[1] + c) * x->stride[1],
                 n * dy->stride[0] + k * dy->stride[1] +
                     o[0] * v->w.y_stride[0] + o[1] * v->w.y_stride[1] +
                     o[2] * v->w.y_stride[2]);
        } while (next(o, v->w.out));
    }
    return total(v, &s);
}

static float sum_columns(const struct accumulated *v, int64_t x, int64_t k)
{
    const struct kern_tensor *in = &v->p->in[0], *w = &v->p->in[1];
    struct sum s = {0};

    for (int64_t c = 0; c < w->dim[1]; c++)
        take(v, &s, true, x + c * in->stride[in->rank - 1],
             k * w->stride[0] + c * w->stride[1]);
    return total(v, &s);
}

/* The sum of the output that the walk is at. */
static float sum_at(const struct accumulated *v, const struct ref_walk *walk)
{
    const struct kern_problem *p = v->p;
    const int rank = p->out[0].rank;
    int64_t at[3] = {0};

    if (p->op == KERN_DENSE_FPROP)
        return sum_columns(v, walk->offset[2], walk->index[rank - 1]);
    for (int i = 2; i < rank; i++)
        at[3 - rank + i] = walk->index[i];
    return p->op == KERN_CONV_WGRAD
               ? sum_weight(v, walk->index[0], walk->index[1], at)
               : sum_window(v, walk->index[0], walk->index[1], at);
}

static void fill_window(struct accumulated *v)
{
    struct kern_problem fprop = *v->p;

    if (v->p->op == KERN_DENSE_FPROP)
        return;
    if (v->p->op == KERN_CONV_WGRAD) {
        fprop.op = KERN_CONV_FPROP;
        fprop.n_in = 2;
        fprop.in[1] = v->p->out[0];
        fprop.out[0] = v->p->in[1];
    }
    ref_window_conv(&v->w, &fprop);
}

void ref_accumulated_run(const struct kern_problem *p,
                         const struct kern_args *args)
{
    const int32_t *accumulator = args->in[accumulator_in(p->op)];
    const struct kern_tensor *y = &p->out[0];
    const bool wgrad = p->op == KERN_CONV_WGRAD;
    const struct kern_tensor *bias = wgrad ? NULL : kern_problem_in(p, 2);
    const int r = kern_op_residual(p->op);
    const struct kern_tensor *residual = kern_problem_in(p, r);
    const int channel = p->op == KERN_DENSE_FPROP ? y->rank - 1 : 1;
    struct accumulated v = {.p = p,
                            .args = args,
                            .table = ref_table_of(p, args),
                            .kind = accumulator[0],
                            .lower = accumulator[1]};
    struct kern_tensor rows = p->in[0];
    struct ref_walk walk;

    fill_window(&v);
    ref_walk_start(&walk, y->rank, y->dim);
    ref_walk_add(&walk, y);
    ref_walk_add(&walk, residual ? residual : y);
    if (p->op == KERN_DENSE_FPROP) {
        rows.dim[rows.rank - 1] = 1; /* broadcast */
        ref_walk_add(&walk, &rows);
    }
    for (; !walk.done; ref_walk_next(&walk)) {
        const int64_t k = walk.index[channel];
        const double b =
            ref_optional(bias, args->in[2], bias ? k * bias->stride[0] : 0, 0);
        const double add =
            ref_optional(residual, args->in[r < 0 ? 0 : r], walk.offset[1], 0);
        ref_store(
            y->dtype, args->out[0], walk.offset[0],
            ref_epilogue(&p->epilogue, (double)sum_at(&v, &walk) + b, add));
    }
}
