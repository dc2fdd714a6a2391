/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates as a function of the step. */
#ifndef TOOLS_TRAIN_POLICY_H
#define TOOLS_TRAIN_POLICY_H

#include <stdint.h>

enum policy_kind {
    POLICY_FIXED,   /* rate */
    POLICY_STEP,    /* rate * gamma^(marks passed) */
    POLICY_EXP,     /* rate * gamma^t */
    POLICY_INV,     /* rate * (1 + gamma t)^-power */
    POLICY_POLY,    /* rate * (1 - t / T)^power */
    POLICY_COSINE,  /* from rate to final along half a cosine */
    POLICY_ONECYCLE /* PyTorch's OneCycleLR: up to rate, then down */
};
extern const char *const policy_names[]; /* NULL-terminated, in that order */

#define POLICY_MAX_MARKS 16

/* t counts steps from the end of the warm-up, T is their number. */
struct policy {
    enum policy_kind kind;
    double rate;
    double gamma, power;
    double final;   /* cosine: the last rate */
    int64_t total;  /* steps, warm-up included */
    int64_t warmup; /* steps in which the rate rises linearly to `rate` */
    int64_t mark[POLICY_MAX_MARKS]; /* step: at which t the rate falls; a */
    int marks;                      /* single one is a period */
};

/* Caffe's gamma and power for the kind, everything else 0. */
void policy_init(struct policy *p, enum policy_kind kind, double rate);
/* The rate of step 0 .. total-1. */
double policy_rate(const struct policy *p, int64_t step);

#endif
