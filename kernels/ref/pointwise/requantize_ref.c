/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of integers times a factor in fixed point. */
#include "kernels/ref/ref.h"
#include "kernels/quant/requantize.h"

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_requantize *a = &p->attr.requantize;
    const struct kern_tensor *y = &p->out[0];
    const int32_t *multiplier = args->in[1], *shift = args->in[2];
    const int32_t *addend = kern_problem_in(p, 3) ? args->in[3] : NULL;
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, y);
    for (int i = 0; i < (addend ? 4 : 3); i++)
        ref_walk_add(&w, &p->in[i]);
    for (; !w.done; ref_walk_next(&w)) {
        const int32_t x = requantize_integer(
            ref_load(p->in[0].dtype, args->in[0], w.offset[1]));
        const int32_t m = multiplier[w.offset[2]], s = shift[w.offset[3]];
        const int32_t v = addend ? addend[w.offset[4]] : 0;
        const bool fits = requantize_fits(m, s);

        ref_store(
            y->dtype, args->out[0], w.offset[0],
            requantize(a, a->once, a->wide, x, fits ? m : 0, fits ? s : 0, v));
    }
    return 0;
}

KERN_FUNCTIONS(requantize_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
