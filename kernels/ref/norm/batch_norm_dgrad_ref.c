/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of batch normalisation in training.  With z = xn * scale + shift +
 * residual, xn = (x - mean) * inverse, and means over the channel:
 * dx = scale * inverse * (dz - mean(dz) - xn * mean(dz * xn)). */
#include "kernels/ref/ref.h"

enum { DY, X, SCALE, MEAN, INVERSE, Y, DSCALE, DSHIFT };

static double vector(const struct kern_problem *p, const struct kern_args *args,
                     int i, int64_t c)
{
    const struct kern_tensor *t = kern_problem_in(p, i);

    return ref_optional(t, args->in[i], t ? c * t->stride[0] : 0, 0);
}

static void add(struct ref_walk *w, const struct kern_tensor *t, int64_t c)
{
    struct kern_tensor one = *t;

    one.dim[1] = 1;
    ref_walk_add(w, &one);
    w->offset[w->n - 1] = c * t->stride[1];
}

/* in[5] is not y but its signs. */
static bool has_signs(const struct kern_problem *p)
{
    return p->in[Y].dtype == INFER_U8;
}

/* All elements of channel c: dy, x and, where they are there, y or its signs.
 */
static void start_channel(struct ref_walk *w, const struct kern_problem *p,
                          int64_t c)
{
    struct kern_tensor one = p->in[X];

    one.dim[1] = 1;
    ref_walk_start(w, one.rank, one.dim);
    add(w, &p->in[DY], c);
    add(w, &p->in[X], c);
    if (kern_problem_in(p, Y))
        add(w, &p->in[Y], has_signs(p) ? c / 8 : c);
}

/* dy through the activation. */
static double dz_at(const struct kern_problem *p, const struct kern_args *args,
                    const struct ref_walk *w, int64_t c)
{
    const double dy = ref_load(p->in[DY].dtype, args->in[DY], w->offset[0]);

    if (!kern_problem_in(p, Y))
        return dy;
    if (has_signs(p))
        return ((const uint8_t *)args->in[Y])[w->offset[2]] >> c % 8 & 1 ? dy
                                                                         : 0;
    return dy * ref_unary_derivative_from_output(
                    &p->epilogue.act,
                    ref_load(p->in[Y].dtype, args->in[Y], w->offset[2]));
}

static double xn_at(const struct kern_problem *p, const struct kern_args *args,
                    const struct ref_walk *w, int64_t c)
{
    return (ref_load(p->in[X].dtype, args->in[X], w->offset[1]) -
            vector(p, args, MEAN, c)) *
           vector(p, args, INVERSE, c);
}

/* Where the element of a walk lies in an output. */
static int64_t place(const struct kern_tensor *t, const struct ref_walk *w,
                     int64_t c)
{
    int64_t at = c * t->stride[1];

    for (int i = 0; i < t->rank; i++)
        at += w->index[i] * t->stride[i];
    return at;
}

static void store_dx(const struct kern_problem *p, const struct kern_args *args,
                     int64_t c, double mean_dz, double mean_dz_xn)
{
    const struct kern_tensor *dx = &p->out[0];
    const struct kern_tensor *dr = kern_problem_out(p, 3);
    const double factor =
        vector(p, args, SCALE, c) * vector(p, args, INVERSE, c);
    struct ref_walk w;

    for (start_channel(&w, p, c); !w.done; ref_walk_next(&w)) {
        const double dz = dz_at(p, args, &w, c);
        const double xn = xn_at(p, args, &w, c);
        ref_store(dx->dtype, args->out[0], place(dx, &w, c),
                  factor * (dz - mean_dz - xn * mean_dz_xn));
        if (dr)
            ref_store(dr->dtype, args->out[3], place(dr, &w, c), dz);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;

    (void)err;
    for (int64_t c = 0; c < p->in[X].dim[1]; c++) {
        double dshift = 0, dscale = 0, count = 0;
        struct ref_walk w;
        for (start_channel(&w, p, c); !w.done; ref_walk_next(&w)) {
            const double dz = dz_at(p, args, &w, c);
            dshift += dz;
            dscale += dz * xn_at(p, args, &w, c);
            count++;
        }
        store_dx(p, args, c, dshift / count, dscale / count);
        ref_store(p->out[1].dtype, args->out[1], c * p->out[1].stride[0],
                  dscale + vector(p, args, DSCALE, c));
        ref_store(p->out[2].dtype, args->out[2], c * p->out[2].stride[0],
                  dshift + vector(p, args, DSHIFT, c));
    }
    return 0;
}

KERN_FUNCTIONS(batch_norm_dgrad_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
