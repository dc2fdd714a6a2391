/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates: Caffe's policies, cosine annealing (Loshchilov and Hutter,
 * 2016) and one cycle (Smith, 2018, with the numbers of PyTorch). */
#include "tools/train/policy.h"

#include <math.h>
#include <string.h>

const char *const policy_names[] = {"fixed", "step",   "exp",      "inv",
                                    "poly",  "cosine", "onecycle", NULL};

#define PI 3.14159265358979323846

void policy_init(struct policy *p, enum policy_kind kind, double rate)
{
    memset(p, 0, sizeof(*p));
    p->kind = kind;
    p->rate = rate;
    p->gamma = kind == POLICY_STEP ? 0.1 : kind == POLICY_EXP ? 0.9999 : 0.0001;
    p->power = kind == POLICY_POLY ? 1.0 : 0.75;
}

static int64_t marks_passed(const struct policy *p, int64_t t)
{
    int64_t n = 0;

    if (p->marks == 1)
        return p->mark[0] > 0 ? t / p->mark[0] : 0;
    for (int i = 0; i < p->marks; i++)
        n += t >= p->mark[i];
    return n;
}

/* Half a cosine wave from a (at 0) to b (at 1). */
static double anneal(double a, double b, double at)
{
    return b + (a - b) / 2 * (1 + cos(PI * at));
}

/* Rises during 30 per cent of the steps from rate / 25, then falls to a
 * 250,000th of the rate. */
static double one_cycle(const struct policy *p, double t, double total)
{
    const double start = p->rate / 25, end = start / 1e4;
    const double top = 0.3 * total - 1;

    if (t <= top)
        return anneal(start, p->rate, top > 0 ? t / top : 1);
    return anneal(p->rate, end, (t - top) / (total - 1 - top));
}

double policy_rate(const struct policy *p, int64_t step)
{
    const double t = (double)(step - p->warmup);
    const double total = (double)(p->total - p->warmup);

    if (step < p->warmup)
        return p->rate * (double)(step + 1) / (double)p->warmup;
    switch (p->kind) {
    case POLICY_FIXED:
        break;
    case POLICY_STEP:
        return p->rate *
               pow(p->gamma, (double)marks_passed(p, step - p->warmup));
    case POLICY_EXP:
        return p->rate * pow(p->gamma, t);
    case POLICY_INV:
        return p->rate * pow(1 + p->gamma * t, -p->power);
    case POLICY_POLY:
        return p->rate * pow(1 - t / total, p->power);
    case POLICY_COSINE:
        return anneal(p->rate, p->final, t / total);
    case POLICY_ONECYCLE:
        return one_cycle(p, t, total);
    }
    return p->rate;
}
