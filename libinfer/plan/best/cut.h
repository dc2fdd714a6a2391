/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which layers of a network compute in 8 bits and which in floats, at least
 * time: a minimum cut.
 *
 * A layer takes its time in the type that it is given.  A tensor between
 * layers of both types is converted once: from floats if its maker has floats
 * and a reader wants 8 bits, and to floats if its maker has 8 bits and a reader
 * wants floats.  Both are submodular, so that the cut is the optimum of these
 * sums (D. Greig, B. Porteous, A. Seheult, J. R. Statist. Soc. B 51, 1989).
 */
#ifndef LIBINFER_PLAN_BEST_CUT_H
#define LIBINFER_PLAN_BEST_CUT_H

#include <stdbool.h>

#include "include/infer.h"

/* A tensor that has a form of 8 bits. */
struct cut_tensor {
    int maker;                   /* a layer; -1: it is made of floats anyway */
    int reader, n_reader;        /* a part of cut.reader */
    bool floats_read;            /* somebody reads floats anyway */
    double quantise, dequantise; /* seconds of a conversion */
};

struct cut {
    int n;                        /* layers */
    const double *floats, *bytes; /* seconds of each in either type */
    int n_tensors;
    const struct cut_tensor *tensor;
    const int *reader; /* layers */
};

/* Seconds of a choice; bytes[i]: layer i computes in 8 bits. */
double cut_seconds(const struct cut *c, const bool *bytes);

/* The choice of least time; of equal ones that with the fewest layers in 8
 * bits.  EMEMORY. */
int cut_choose(const struct cut *c, struct infer_error *err, bool *bytes);

#endif
