/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the inputs that training gives a meaning of their own: statistics,
 * labels, the state of a run. */
#include <math.h>

#include "tools/verify/verify.h"

/* 0.5 .. 1.5 */
static double positive(struct rng *rng)
{
    return 1 + rng_real(rng) / 2;
}

static double step_value(enum kern_step_field field, struct rng *rng)
{
    switch (field) {
    case KERN_STEP_COUNT:
    case KERN_STEP_SKIPPED:
    case KERN_STEP_GOOD:
        return (double)rng_range(rng, 0, 9);
    case KERN_STEP_LOSS_SCALE:
        return (double)((int64_t)1 << rng_range(rng, 0, 8));
    case KERN_STEP_FACTOR:
        return rng_chance(rng, 20) ? 0 : positive(rng);
    case KERN_STEP_CORRECTION1:
    case KERN_STEP_CORRECTION2:
    case KERN_STEP_NORM:
    case KERN_STEP_SIZE:
        break;
    }
    return positive(rng);
}

static double norm_value(struct rng *rng)
{
    if (rng_chance(rng, 25))
        return rng_chance(rng, 50) ? INFINITY : NAN;
    return positive(rng) * 10;
}

static bool is_state(const struct kern_problem *p, int i)
{
    return (p->op == KERN_STEP && i == 1) || (p->op == KERN_UPDATE && i == 3) ||
           (p->op == KERN_CROSS_ENTROPY && i == 2);
}

bool data_train(const struct kern_problem *p, int i, int64_t at,
                struct rng *rng, double *out)
{
    if (p->op < KERN_CONV_WGRAD)
        return false;
    if (p->in[i].dtype == INFER_U64) /* seed and offset */
        *out = (double)rng_range(rng, 0, 1 << 30);
    else if (p->in[i].dtype == INFER_U8) /* signs, eight bits of them */
        *out = (double)rng_range(rng, 0, 255);
    else if (is_state(p, i))
        *out = step_value((enum kern_step_field)at, rng);
    else if (p->op == KERN_CROSS_ENTROPY && i == 1)
        *out = (double)rng_range(rng, -1, p->in[0].dim[1]);
    else if (p->op == KERN_STEP)
        *out = norm_value(rng);
    else if (p->op == KERN_BATCH_NORM_TRAIN && i == 6) /* mean, squares */
        *out = at / p->in[6].dim[2] % 2 ? 8 * positive(rng) : rng_real(rng);
    else if (p->op == KERN_UPDATE && i == 2) /* rate */
        *out = 0.1 * positive(rng);
    else if ((p->op == KERN_UPDATE && i == 5) || /* v, var, 1 / deviation */
             ((p->op == KERN_BATCH_NORM_TRAIN ||
               p->op == KERN_BATCH_NORM_DGRAD) &&
              i == 4))
        *out = positive(rng);
    else
        return false;
    return true;
}
