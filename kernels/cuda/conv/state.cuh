/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of rows whose state is what they read from the problem: one
 * reader checks the limits and fills in the state, for supports() and
 * prepare() alike. */
#ifndef KERNELS_CUDA_CONV_STATE_CUH
#define KERNELS_CUDA_CONV_STATE_CUH

#include <stdlib.h>

#include "kernels/cuda/cuda_rt.h"

/* Fills in S for a variant of the problem; readers of rows without variants
 * ignore the number.  0, or INFER_EUNSUPPORTED with the reason in
 * *why. */
template <class S>
using state_reader = int(const struct kern_problem *p,
                         const struct kern_device *d, int variant, S *s,
                         struct infer_error *why);

/* supports() of a row that takes every problem that READ takes. */
template <class S, state_reader<S> *READ>
static int state_supports(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    S s = {};

    return READ(p, d, 0, &s, why);
}

/* prepare(): allocates and reads the state; cuda_state_release() frees it.
 * DECLARE states the bytes of packed weights and workspace, and the name of the
 * variant. */
template <class S, state_reader<S> *READ,
          void (*DECLARE)(struct kern_exec *e, const S *s)>
static int state_prepare(struct kern_exec *e, const struct kern_device *d,
                         struct infer_error *err)
{
    S *s = (S *)calloc(1, sizeof(*s));
    const int rc =
        s ? READ(&e->problem, d, e->variant, s, err)
          : error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);

    if (rc < 0) {
        free(s);
        return rc;
    }
    e->state = s;
    DECLARE(e, s);
    return 0;
}

/* The row `symbol` of functions called NAME_supports() and so on, with
 * NAME_launch() for activations of type T.  count: variants(), or NULL. */
#define STATE_ROW(symbol, name, T, count)                                      \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = name##_supports,                                           \
        .estimate = name##_estimate,                                           \
        .variants = count,                                                     \
        .prepare = name##_prepare,                                             \
        .pack = name##_pack,                                                   \
        .launch = name##_launch<T>,                                            \
        .release = cuda_state_release,                                         \
    };

#endif
