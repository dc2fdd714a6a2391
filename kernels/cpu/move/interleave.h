/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposition to rows of few columns: colours of pictures, shuffles of
 * channels.
 *
 * y has `cols` elements a row, one row after the other; x has columns, sx
 * elements apart.  Blocks of constant size are what the compiler makes shuffles
 * of vectors of.
 */
#ifndef KERNELS_CPU_MOVE_INTERLEAVE_H
#define KERNELS_CPU_MOVE_INTERLEAVE_H

#include <string.h>

#include "kernels/cpu/cpu.h"

/* Columns at most. */
#define INTERLEAVE_MOST 8

/* True if rows of so many columns have a block. */
static inline bool interleave_takes(int64_t cols)
{
    return cols == 2 || cols == 3 || cols == 4 || cols == INTERLEAVE_MOST;
}

/* bool NAME(TYPE *y, const TYPE *x, int64_t sx, int64_t rows, int64_t cols):
 * false, with nothing done, unless interleave_takes(cols).  BLOCK rows at once.
 */
#define CPU_INTERLEAVE(NAME, TYPE, BLOCK)                                      \
    CPU_INLINE void NAME##_rows(TYPE *y, const TYPE *x, int64_t sx,            \
                                int64_t rows, const int cols)                  \
    {                                                                          \
        int64_t i;                                                             \
                                                                               \
        for (i = 0; i + BLOCK <= rows; i += BLOCK) {                           \
            TYPE t[INTERLEAVE_MOST * BLOCK];                                   \
                                                                               \
            for (int k = 0; k < BLOCK; k++)                                    \
                for (int j = 0; j < cols; j++)                                 \
                    t[cols * k + j] = x[j * sx + i + k];                       \
            memcpy(y + cols * i, t, (size_t)(cols * BLOCK) * sizeof *t);       \
        }                                                                      \
        for (; i < rows; i++)                                                  \
            for (int j = 0; j < cols; j++)                                     \
                y[cols * i + j] = x[j * sx + i];                               \
    }                                                                          \
                                                                               \
    CPU_INLINE bool NAME(TYPE *y, const TYPE *x, int64_t sx, int64_t rows,     \
                         int64_t cols)                                         \
    {                                                                          \
        if (cols == 2)                                                         \
            NAME##_rows(y, x, sx, rows, 2);                                    \
        else if (cols == 3)                                                    \
            NAME##_rows(y, x, sx, rows, 3);                                    \
        else if (cols == 4)                                                    \
            NAME##_rows(y, x, sx, rows, 4);                                    \
        else if (cols == INTERLEAVE_MOST)                                      \
            NAME##_rows(y, x, sx, rows, INTERLEAVE_MOST);                      \
        return interleave_takes(cols);                                         \
    }

#endif
