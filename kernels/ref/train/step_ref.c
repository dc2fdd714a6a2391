/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a training step: is it to count, and how is the next one scaled.
 */
#include <math.h>

#include "kernels/ref/ref.h"

/* norm: of the scaled gradients. */
static void move_on(const struct kern_step *a, double norm, double *s)
{
    const double scale = s[KERN_STEP_LOSS_SCALE];

    s[KERN_STEP_NORM] = norm / scale;
    if (!isfinite(norm)) {
        s[KERN_STEP_FACTOR] = 0;
        s[KERN_STEP_GOOD] = 0;
        s[KERN_STEP_SKIPPED]++;
        s[KERN_STEP_LOSS_SCALE] = fmax(1, scale * (double)a->backoff);
        return;
    }
    s[KERN_STEP_COUNT]++;
    s[KERN_STEP_GOOD]++;
    s[KERN_STEP_FACTOR] = 1 / scale;
    if (a->clip > 0 && s[KERN_STEP_NORM] > (double)a->clip)
        s[KERN_STEP_FACTOR] *= (double)a->clip / s[KERN_STEP_NORM];
    s[KERN_STEP_CORRECTION1] = 1 - pow((double)a->beta1, s[KERN_STEP_COUNT]);
    s[KERN_STEP_CORRECTION2] = 1 - pow((double)a->beta2, s[KERN_STEP_COUNT]);
    if (a->interval > 0 && s[KERN_STEP_GOOD] >= a->interval) {
        const double grown = scale * (double)a->growth;
        s[KERN_STEP_LOSS_SCALE] =
            a->max_scale > 0 ? fmin(grown, (double)a->max_scale) : grown;
        s[KERN_STEP_GOOD] = 0;
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *from = &p->in[1], *to = &p->out[0];
    double state[KERN_STEP_SIZE];

    (void)err;
    for (int i = 0; i < KERN_STEP_SIZE; i++)
        state[i] = ref_load(from->dtype, args->in[1], i * from->stride[0]);
    move_on(&p->attr.step, ref_load(p->in[0].dtype, args->in[0], 0), state);
    for (int i = 0; i < KERN_STEP_SIZE; i++)
        ref_store(to->dtype, args->out[0], i * to->stride[0], state[i]);
    if (kern_problem_in(p, 2)) {
        const uint64_t *random = args->in[2];
        uint64_t *next = args->out[1];
        const uint64_t seed = random[0], offset = random[p->in[2].stride[0]];
        next[0] = seed;
        next[p->out[1].stride[0]] = offset + 1;
    }
    return 0;
}

KERN_FUNCTIONS(step_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
