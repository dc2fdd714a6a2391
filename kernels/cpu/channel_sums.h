/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over channels on a CPU: batch normalisation in training, its gradient,
 * gradients of biases.
 *
 * Channels lie side by side.  So that loops are long whatever the number of
 * channels, several pixels in a row count as one wide row: element i of it
 * belongs to channel i % channels, and vectors of channels are repeated to the
 * same width.  Sums are kept for each element of a wide row, in single
 * precision over a few rows and in double beyond that.
 *
 * The rows are divided into parts that depend on the shape alone: the same
 * bits for any number of threads.
 */
#ifndef KERNELS_CPU_CHANNEL_SUMS_H
#define KERNELS_CPU_CHANNEL_SUMS_H

#include "kernels/cpu/cpu.h"

/* Rows whose sums are kept in single precision. */
#define CHANNEL_ROWS 32

struct channel_shape {
    int64_t channels, pixels;
    int64_t wide; /* channels * pixels of a wide row */
    int64_t rows; /* whole ones; the remainder is a shorter one */
    int64_t rest; /* elements of the shorter row */
    int parts, threads;
};

/* Fails where x is not dense with channels last. */
bool channel_shape_of(const struct kern_tensor *x, int threads,
                      struct channel_shape *s);

/* Floats that a vector as wide as a row takes in a workspace: whole lines of 64
 * bytes. */
size_t channel_row_floats(const struct channel_shape *s);

/* The sums of two quantities over each channel. */
struct channel_sums {
    const struct channel_shape *shape;
    /* Adds rows [0, rows) of n elements from element `at` on to a[] and
     * b[]. */
    void (*add)(const struct channel_sums *s, int64_t at, int64_t rows,
                int64_t n, float *a, float *b);
    const void *context;
};

/* Bytes of workspace for channel_sum(); it ends 64-byte aligned. */
size_t channel_sum_bytes(const struct channel_shape *s);
/* Fills total[0 .. channels) and total[channels .. 2 channels), which lies in
 * the workspace. */
const double *channel_sum(const struct channel_sums *s, void *workspace);

/* Repeats v[channels] in place to the width of a row. */
void channel_widen(const struct channel_shape *s, float *v);

/* Calls fn for all rows, from several threads: rows of n elements from element
 * `at` on. */
void channel_each(const struct channel_shape *s,
                  void (*fn)(const void *context, int64_t at, int64_t rows,
                             int64_t n),
                  const void *context);

#endif
