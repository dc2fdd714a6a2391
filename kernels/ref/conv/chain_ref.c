/* SPDX-License-Identifier: Apache-2.0 */
/* A chain of two convolutions: one after the other by the reference of
 * convolution, with the middle tensor kept in double. */
#include <stdlib.h>

#include "kernels/base/checked.h"
#include "kernels/chain/chain.h"
#include "kernels/ref/ref.h"

extern const struct kern_functions conv_fprop_ref;

struct state {
    struct kern_exec part[2];
    size_t middle; /* bytes */
};

static int prepare_parts(struct kern_exec *e, const struct kern_device *d,
                         struct state *s, struct infer_error *err)
{
    size_t more = 0;
    int i, rc = 0;

    chain_first(&e->problem, INFER_F64, KERN_NCHW, &s->part[0].problem);
    chain_second(&e->problem, INFER_F64, KERN_NCHW, &s->part[1].problem);
    s->middle =
        (size_t)kern_tensor_count(&s->part[0].problem.out[0]) * sizeof(double);
    for (i = 0; i < 2 && rc == 0; i++) {
        s->part[i].row = e->row;
        rc = conv_fprop_ref.prepare(&s->part[i], d, err);
        if (s->part[i].workspace > more)
            more = s->part[i].workspace;
    }
    if (rc == 0 && !checked_add(s->middle, more, &e->workspace))
        return error_set(err, INFER_EMEMORY, "chain: does not fit in memory");
    return rc;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s = calloc(1, sizeof *s);
    int rc;

    if (!s)
        return error_set(err, INFER_EMEMORY, "chain: out of memory");
    rc = prepare_parts(e, d, s, err);
    if (rc < 0)
        free(s);
    else
        e->state = s;
    return rc;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    unsigned char *const after = (unsigned char *)args->workspace + s->middle;
    const struct kern_args first = {
        .in = {args->in[CHAIN_X], args->in[CHAIN_W], args->in[CHAIN_BIAS]},
        .out = {args->workspace},
        .workspace = after,
        .stream = args->stream};
    const struct kern_args second = {.in = {args->workspace, args->in[CHAIN_W2],
                                            args->in[CHAIN_BIAS2],
                                            args->in[CHAIN_RESIDUAL]},
                                     .out = {args->out[0]},
                                     .workspace = after,
                                     .stream = args->stream};
    int rc = conv_fprop_ref.launch(&s->part[0], &first, err);

    return rc < 0 ? rc : conv_fprop_ref.launch(&s->part[1], &second, err);
}

static void release(struct kern_exec *e)
{
    free(e->state);
    e->state = NULL;
}

KERN_FUNCTIONS(chain_ref) = {
    .supports = ref_supports_double,
    .prepare = prepare,
    .launch = launch,
    .release = release,
};
