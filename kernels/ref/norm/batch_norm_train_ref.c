/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation in training: by the batch's own statistics. */
#include <math.h>

#include "kernels/bn_stats.h"
#include "kernels/ref/ref.h"

struct statistics {
    double mean, var, count; /* var: that of the elements, / count */
};

/* All elements of channel c. */
static void start_channel(struct ref_walk *w, const struct kern_tensor *x,
                          int64_t c)
{
    struct kern_tensor one = *x;

    one.dim[1] = 1;
    ref_walk_start(w, one.rank, one.dim);
    ref_walk_add(w, &one);
    w->offset[0] = c * x->stride[1];
}

static struct statistics measure(const struct kern_tensor *x, const void *base,
                                 int64_t c)
{
    struct statistics m = {0, 0, 0};
    struct ref_walk w;

    for (start_channel(&w, x, c); !w.done; ref_walk_next(&w)) {
        m.mean += ref_load(x->dtype, base, w.offset[0]);
        m.count++;
    }
    m.mean /= m.count;
    for (start_channel(&w, x, c); !w.done; ref_walk_next(&w)) {
        const double d = ref_load(x->dtype, base, w.offset[0]) - m.mean;
        m.var += d * d;
    }
    m.var /= m.count;
    return m;
}

/* The same from the moments of parts. */
static struct statistics join(const struct kern_tensor *x,
                              const struct kern_tensor *t, const void *base,
                              int64_t c)
{
    struct statistics m = {0, 0, (double)(kern_tensor_count(x) / x->dim[1])};
    const int64_t pixels = kern_tensor_count(x) / x->dim[1];
    const int64_t part = bn_stats_part(t->dim[0], pixels);

    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < t->dim[0]; i++) {
            const int64_t left = pixels - i * part;
            const double n = (double)(left < part ? left : part);
            const int64_t at = i * t->stride[0] + c * t->stride[2];
            const double mean = ref_load(t->dtype, base, at);
            if (pass == 0)
                m.mean += n * mean / m.count;
            else
                m.var += (ref_load(t->dtype, base, at + t->stride[1]) +
                          n * (mean - m.mean) * (mean - m.mean)) /
                         m.count;
        }
    return m;
}

/* Moves running statistic i of channel c towards the batch's. */
static void move(const struct kern_problem *p, const struct kern_args *args,
                 int i, int64_t c, double batch)
{
    const struct kern_tensor *from = kern_problem_in(p, i), *to = &p->out[i];

    if (!from)
        return;
    const double v = ref_load(from->dtype, args->in[i], c * from->stride[0]);
    ref_store(to->dtype, args->out[i], c * to->stride[0],
              v + (double)p->attr.norm.momentum * (batch - v));
}

static double vector(const struct kern_problem *p, const struct kern_args *args,
                     int i, int64_t c)
{
    return ref_load(p->in[i].dtype, args->in[i], c * p->in[i].stride[0]);
}

/* Bit c % 8 of the byte that holds it; channels come in order. */
static void store_sign(void *signs, int64_t at, int64_t c, bool positive)
{
    uint8_t *byte = (uint8_t *)signs + at;
    const unsigned before = c % 8 == 0 ? 0 : *byte;

    *byte = (uint8_t)(before | (unsigned)positive << c % 8);
}

static void normalise(const struct kern_problem *p,
                      const struct kern_args *args, int64_t c, double mean,
                      double inverse)
{
    const struct kern_tensor *residual = kern_problem_in(p, 5);
    const struct kern_tensor *signs = kern_problem_out(p, 5);
    struct kern_tensor x = p->in[0], y = p->out[0], r;
    const double scale = vector(p, args, 1, c), shift = vector(p, args, 2, c);
    struct ref_walk w;

    x.dim[1] = y.dim[1] = 1;
    ref_walk_start(&w, y.rank, y.dim);
    ref_walk_add(&w, &x);
    ref_walk_add(&w, &y);
    if (residual) {
        r = *residual;
        r.dim[1] = 1;
        ref_walk_add(&w, &r);
        w.offset[2] = c * r.stride[1];
    }
    const int sign = w.n;
    if (signs) {
        r = *signs;
        r.dim[1] = 1;
        ref_walk_add(&w, &r);
        w.offset[sign] = c / 8 * r.stride[1];
    }
    w.offset[0] = c * x.stride[1];
    w.offset[1] = c * y.stride[1];
    for (; !w.done; ref_walk_next(&w)) {
        const double v = ref_load(x.dtype, args->in[0], w.offset[0]);
        ref_store(
            y.dtype, args->out[0], w.offset[1],
            ref_epilogue(&p->epilogue, (v - mean) * inverse * scale + shift,
                         ref_optional(residual, args->in[5], w.offset[2], 0)));
        if (signs)
            store_sign(args->out[5], w.offset[sign], c,
                       ref_load(y.dtype, args->out[0], w.offset[1]) > 0);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0];

    (void)err;
    for (int64_t c = 0; c < x->dim[1]; c++) {
        const struct statistics m =
            bn_stats_of(p) ? join(x, bn_stats_of(p), args->in[6], c)
                           : measure(x, args->in[0], c);
        const double inverse = 1 / sqrt(m.var + (double)p->attr.norm.epsilon);
        /* One element has no variance to estimate: 0, not 0 / 0. */
        const double free = m.count > 1 ? m.count - 1 : 1;
        ref_store(p->out[1].dtype, args->out[1], c * p->out[1].stride[0],
                  m.mean);
        ref_store(p->out[2].dtype, args->out[2], c * p->out[2].stride[0],
                  inverse);
        move(p, args, 3, c, m.mean);
        move(p, args, 4, c, m.var * m.count / free);
        normalise(p, args, c, m.mean, inverse);
    }
    return 0;
}

KERN_FUNCTIONS(batch_norm_train_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
