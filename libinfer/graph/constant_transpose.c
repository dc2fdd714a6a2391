/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants with their axes in another order, in place.
 *
 * A filter of TensorFlow, (R,S,C,K), is a matrix of M = R*S*C rows and K
 * columns. It becomes (K,C,R,S) in three steps, with 1 MiB of memory beside it:
 *
 *   1. Each panel of P rows is transposed, through a copy: K runs of P
 * elements.
 *   2. The runs are a matrix of M/P rows and K columns, whose elements are
 * runs; it is transposed by following the cycles of the permutation.
 *   3. Each of the K rows, (R,S,C) so far, gets the order (C,R,S), through a
 * copy.
 */
#include "libinfer/graph/constant.h"

#include <stdlib.h>
#include <string.h>

/* A panel, and the shortest run that is worth moving. */
#define MAX_PANEL  ((size_t)1 << 20)
#define LEAST_RUN  8
#define LEAST_SIZE ((size_t)1 << 20)

/* Columns of a tile: its lines of 64 bytes stay in the first cache. */
#define TILE 16

/* to[c][r] = from[r][c]; elements of 4 bytes. */
static void transpose_words(const uint32_t *from, uint32_t *to, size_t rows,
                            size_t columns)
{
    for (size_t c0 = 0; c0 < columns; c0 += TILE)
        for (size_t r = 0; r < rows; r++)
            for (size_t c = c0; c < c0 + TILE && c < columns; c++)
                to[c * rows + r] = from[r * columns + c];
}

static void transpose_panels(unsigned char *data, size_t rows, size_t columns,
                             size_t run, unsigned char *panel)
{
    const size_t bytes = run * columns * 4;

    for (size_t r = 0; r < rows; r += run) {
        unsigned char *at = data + r * columns * 4;

        memcpy(panel, at, bytes);
        transpose_words((const uint32_t *)(void *)panel, (uint32_t *)(void *)at,
                        run, columns);
    }
}

/* Runs [rows][columns] become [columns][rows]; done: a byte a run, all 0. */
static void transpose_runs(unsigned char *data, size_t rows, size_t columns,
                           size_t bytes, unsigned char *done,
                           unsigned char *kept)
{
    for (size_t first = 0; first < rows * columns; first++) {
        size_t to = first;

        if (done[first])
            continue;
        memcpy(kept, data + first * bytes, bytes);
        for (;;) {
            /* Run `to` of the result is [to % rows][to / rows] of the data. */
            const size_t from = to % rows * columns + to / rows;

            done[to] = 1;
            if (from == first)
                break;
            memcpy(data + to * bytes, data + from * bytes, bytes);
            to = from;
        }
        memcpy(data + to * bytes, kept, bytes);
    }
}

/* Each row of a dense tensor of 4-byte elements, whose dimensions are dim[0 ..
 * n-1], gets the order order[]. */
static void reorder_rows(unsigned char *data, size_t rows, int n,
                         const int64_t *dim, const int *order, uint32_t *copy)
{
    size_t step[INFER_MAX_RANK], own[INFER_MAX_RANK], count = 1;

    for (int i = n - 1; i >= 0; i--) {
        own[i] = count;
        count *= (size_t)dim[i];
    }
    for (int i = 0; i < n; i++)
        step[i] = own[order[i]];
    for (size_t r = 0; r < rows; r++) {
        uint32_t *row = (uint32_t *)(void *)(data + r * count * 4);
        int64_t index[INFER_MAX_RANK] = {0};
        size_t from = 0;

        memcpy(copy, row, count * 4);
        for (size_t k = 0; k < count; k++) {
            row[k] = copy[from];
            for (int d = n - 1; d >= 0; d--) {
                from += step[d];
                if (++index[d] < dim[order[d]])
                    break;
                from -= step[d] * (size_t)dim[order[d]];
                index[d] = 0;
            }
        }
    }
}

/* The longest run of rows that divides them and makes a panel. */
static size_t run_of(size_t rows, size_t columns)
{
    size_t run = MAX_PANEL / (columns * 4);

    while (run > 1 && rows % run != 0)
        run--;
    return run;
}

/* Whether the last axis comes first. */
static bool is_filter(const struct constant *c, const int *order)
{
    return c->rank >= 2 && order[0] == c->rank - 1 &&
           infer_dtype_size(c->dtype) == 4 && c->bytes >= LEAST_SIZE &&
           c->data != NULL && !c->unfilled && c->viewed == NULL &&
           (uintptr_t)c->data % 4 == 0 &&
           __atomic_load_n(&c->refs, __ATOMIC_ACQUIRE) == 1;
}

/* Axes 0 .. rank-2 in the order that they have behind the first. */
static bool is_reordered(const struct constant *c, const int *order)
{
    for (int i = 1; i < c->rank; i++)
        if (order[i] != i - 1)
            return true;
    return false;
}

bool constant_transpose_here(struct constant *c, const int *order)
{
    unsigned char *done, *work;
    size_t rows, columns, run, most;
    int64_t dim[INFER_MAX_RANK];

    if (!is_filter(c, order))
        return false;
    columns = (size_t)c->dim[c->rank - 1];
    rows = c->bytes / 4 / columns;
    run = run_of(rows, columns);
    if (run < LEAST_RUN)
        return false;
    /* A panel, a run, or a row. */
    most = run * columns > rows ? run * columns : rows;
    if (most * 4 > 2 * MAX_PANEL)
        return false;
    work = malloc(most * 4);
    done = calloc(rows / run * columns, 1);
    if (work == NULL || done == NULL) {
        free(work);
        free(done);
        return false;
    }
    transpose_panels(c->data, rows, columns, run, work);
    if (rows > run)
        transpose_runs(c->data, rows / run, columns, run * 4, done, work);
    if (is_reordered(c, order))
        reorder_rows(c->data, columns, c->rank - 1, c->dim, order + 1,
                     (uint32_t *)(void *)work);
    free(work);
    free(done);
    for (int i = 0; i < c->rank; i++)
        dim[i] = c->dim[order[i]];
    memcpy(c->dim, dim, (size_t)c->rank * sizeof *dim);
    return true;
}
