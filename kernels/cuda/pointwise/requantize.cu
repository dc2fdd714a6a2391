/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of integers times a factor in fixed point: one thread an element, in a
 * loop over the grid.  No shared memory. */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/integer.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/quant/requantize.h"

struct requantize_args {
    struct cuda_strided<5> walk; /* y, x, multiplier, shift, addend */
    const void *x;
    const int32_t *multiplier, *shift, *addend;
    void *y;
    enum infer_dtype from, to;
    struct kern_requantize attr;
};

static __device__ __forceinline__ void
requantize_element(const struct requantize_args &a, const int64_t *at)
{
    const int32_t x =
        a.from == INFER_I32
            ? ((const int32_t *)a.x)[at[1]]
            : requantize_integer((double)load_any(a.from, a.x, at[1]));
    const int32_t m = a.multiplier[at[2]], s = a.shift[at[3]];
    const bool fits = requantize_fits(m, s);
    const int32_t v =
        requantize(&a.attr, a.attr.once, a.attr.wide, x, fits ? m : 0,
                   fits ? s : 0, a.addend ? a.addend[at[4]] : 0);

    if (a.to == INFER_I32)
        ((int32_t *)a.y)[at[0]] = v;
    else
        store_any(a.to, a.y, at[0], (double)v);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)p;
    (void)d;
    (void)why;
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *addend = kern_problem_in(p, 3);
    const struct kern_tensor *const t[5] = {&p->out[0], &p->in[0], &p->in[1],
                                            &p->in[2],
                                            addend ? addend : &p->in[2]};
    struct requantize_args a = {};

    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    a.x = args->in[0];
    a.multiplier = (const int32_t *)args->in[1];
    a.shift = (const int32_t *)args->in[2];
    a.addend = addend ? (const int32_t *)args->in[3] : NULL;
    a.y = args->out[0];
    a.from = p->in[0].dtype;
    a.to = p->out[0].dtype;
    a.attr = p->attr.requantize;
    return walk_launch<requantize_element>(a, args, err);
}

KERN_FUNCTIONS(requantize_cuda_walk) = {
    .supports = supports,
    .launch = launch,
};
