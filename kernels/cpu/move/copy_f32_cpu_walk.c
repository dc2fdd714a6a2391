/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies 4-byte elements between any strides: conversion between channels
 * first and channels last, slices, concatenation, transposition, shuffles.
 *
 * Where source and destination share their innermost dimension, rows are
 * copied; where they do not, the two innermost dimensions (of the destination
 * and of the source) are transposed in tiles that both fit in a few cache
 * lines, so that each line is used whole while it is in the L1 cache.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/move/interleave.h"

#include <string.h>

#include "kernels/base/error.h"

/* Side of a transposed tile: one cache line of 4-byte elements. */
#define TILE 16

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (p->in[0].dtype != p->out[0].dtype ||
        infer_dtype_size(p->in[0].dtype) != sizeof(float))
        return error_set(why, INFER_EUNSUPPORTED,
                         "copies elements of 4 bytes without conversion");
    return 0;
}

CPU_CLONES static void copy_strided(float *y, int64_t sy, const float *x,
                                    int64_t sx, int64_t n)
{
    int64_t i;

    for (i = 0; i < n; i++)
        y[i * sy] = x[i * sx];
}

static void copy_rows(const void *context, int64_t rows, int64_t n,
                      float *const *at, const int64_t *row_stride,
                      const int64_t *stride)
{
    int64_t r;

    (void)context;
    for (r = 0; r < rows; r++) {
        float *y = at[0] + r * row_stride[0];
        const float *x = at[1] + r * row_stride[1];

        if (stride[0] == 1 && stride[1] == 1)
            memcpy(y, x, (size_t)n * sizeof *y);
        else
            copy_strided(y, stride[0], x, stride[1], n);
    }
}

/* ---- transposition ------------------------------------------------- */

/* y[i * sy + j] = x[j * sx + i] for a full tile: rows of the source are read
 * whole, rows of the destination written whole. */
CPU_INLINE void tile_full(float *y, int64_t sy, const float *x, int64_t sx)
{
    float t[TILE][TILE];
    int i, j;

    for (j = 0; j < TILE; j++)
        memcpy(t[j], x + j * sx, sizeof t[j]);
    for (i = 0; i < TILE; i++)
        for (j = 0; j < TILE; j++)
            y[i * sy + j] = t[j][i];
}

CPU_INTERLEAVE(interleave, float, 16)

/* Transposes rows x cols elements: y rows of length cols, sy apart. */
CPU_CLONES static void transpose(float *y, int64_t sy, const float *x,
                                 int64_t sx, int64_t rows, int64_t cols)
{
    int64_t i, j, ti, tj;

    if (sy == cols && interleave(y, x, sx, rows, cols))
        return;
    for (i = 0; i < rows; i += TILE)
        for (j = 0; j < cols; j += TILE) {
            if (rows - i >= TILE && cols - j >= TILE) {
                tile_full(y + i * sy + j, sy, x + j * sx + i, sx);
                continue;
            }
            for (ti = i; ti < rows && ti < i + TILE; ti++)
                for (tj = j; tj < cols && tj < j + TILE; tj++)
                    y[ti * sy + tj] = x[tj * sx + ti];
        }
}

/* The walk without its dimensions `row` and `col`, over which each thread
 * transposes: col is innermost in y, row innermost in x. */
static void transpose_all(const struct cpu_walk *w, int row, int threads,
                          const float *x, float *y)
{
    const int col = w->rank - 1;
    const int64_t rows = w->dim[row], cols = w->dim[col];
    const int64_t bands = (rows + TILE - 1) / TILE;
    int64_t outer = 1;
    int d, i, count;

    for (d = 0; d < w->rank; d++)
        if (d != row && d != col)
            outer *= w->dim[d];
    count = cpu_threads(threads, outer * rows * cols);
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (i = 0; i < count; i++) {
        int64_t item, from, to, last;

        cpu_share(outer * bands, i, count, &from, &to);
        for (item = from; item < to; item = last) {
            int64_t rest = item / bands, oy = 0, ox = 0, r0, r1;
            int k;

            /* As many bands of the same outer index as there are. */
            last = (item / bands + 1) * bands;
            last = last < to ? last : to;
            for (k = w->rank - 1; k >= 0; k--) {
                if (k == row || k == col)
                    continue;
                oy += rest % w->dim[k] * w->stride[0][k];
                ox += rest % w->dim[k] * w->stride[1][k];
                rest /= w->dim[k];
            }
            r0 = item % bands * TILE;
            r1 = r0 + (last - item) * TILE;
            r1 = r1 < rows ? r1 : rows;
            transpose(y + oy + r0 * w->stride[0][row], w->stride[0][row],
                      x + ox + r0, w->stride[1][col], r1 - r0, cols);
        }
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *t[] = {&p->out[0], &p->in[0]};
    void *base[] = {args->out[0], (void *)args->in[0]};
    struct cpu_walk w;
    int inner, d;

    (void)err;
    if (kern_tensor_count(t[0]) == 0)
        return 0;
    cpu_walk_init(&w, 2, t);
    inner = w.rank - 1;
    if (w.stride[0][inner] == 1 && w.stride[1][inner] != 1)
        for (d = 0; d < inner; d++)
            if (w.stride[1][d] == 1) {
                transpose_all(&w, d, cpu_threads_of(e), base[1], base[0]);
                return 0;
            }
    cpu_walk_run(&w, cpu_threads_of(e), base, copy_rows, NULL);
    return 0;
}

KERN_FUNCTIONS(copy_f32_cpu_walk) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
