/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout by a counter-based generator: forwards and backwards alike. */
#include "kernels/base/philox.h"
#include "kernels/ref/ref.h"

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_dropout *a = &p->attr.dropout;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const uint64_t *random = args->in[1];
    const uint64_t seed = random[0], offset = random[p->in[1].stride[0]];
    const uint32_t threshold = philox_threshold(a->ratio);
    const double factor = 1 / (1 - (double)a->ratio);
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, x);
    ref_walk_add(&w, y);
    for (int64_t i = 0; !w.done; ref_walk_next(&w), i++) {
        const struct philox_words r =
            philox_dropout(seed, offset, a->stream, i);
        const double v = ref_load(x->dtype, args->in[0], w.offset[0]);
        ref_store(y->dtype, args->out[0], w.offset[1],
                  r.word[i & 3] >= threshold ? v * factor : 0);
    }
    return 0;
}

KERN_FUNCTIONS(dropout_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
