/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy best fit by size: the largest block first, each into the smallest
 * hole that is free during its whole life.  On convolutional networks this is
 * within a few per cent of the peak of live bytes. */
#include "libinfer/memory/arena.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"

/* The work grows with the square of the number of blocks; the smallest ones
 * beyond this number share no memory. */
#define ARENA_MAX_FITTED 8192

struct order {
    size_t bytes;
    int index;
};

static int compare_size(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

static bool aligned(size_t bytes, size_t *out)
{
    if (!checked_add(bytes, ARENA_ALIGN - 1, out))
        return false;
    *out &= ~(size_t)(ARENA_ALIGN - 1);
    return true;
}

/* The offset for `item` among `n` placed ones, which are sorted by offset. */
static bool fit(const struct arena_item *all, const int *placed, int n,
                const struct arena_item *item, size_t bytes, size_t *out)
{
    size_t end = 0, best = 0, best_gap = SIZE_MAX;
    bool found = false;
    int i;

    for (i = 0; i < n; i++) {
        const struct arena_item *p = &all[placed[i]];
        size_t p_end;

        if (p->last < item->first || p->first > item->last)
            continue;
        if (p->offset > end && p->offset - end >= bytes &&
            p->offset - end < best_gap) {
            best_gap = p->offset - end;
            best = end;
            found = true;
        }
        if (!checked_add(p->offset, p->bytes, &p_end) ||
            !aligned(p_end, &p_end))
            return false;
        if (p_end > end)
            end = p_end;
    }
    *out = found ? best : end;
    return true;
}

static void insert(const struct arena_item *all, int *placed, int n, int index)
{
    int at = n;

    while (at > 0 && all[placed[at - 1]].offset > all[index].offset)
        at--;
    memmove(placed + at + 1, placed + at, (size_t)(n - at) * sizeof *placed);
    placed[at] = index;
}

static int place(struct arena_item *item, const struct order *order,
                 int *placed, int n, bool reuse, size_t *total)
{
    size_t high = 0;
    int n_placed = 0, i;

    for (i = 0; i < n; i++) {
        struct arena_item *it = &item[order[i].index];
        size_t bytes, end;

        if (!aligned(it->bytes, &bytes))
            return INFER_EMEMORY;
        if (bytes == 0) {
            it->offset = 0;
            continue;
        }
        it->offset = high;
        if (reuse && i < ARENA_MAX_FITTED) {
            if (!fit(item, placed, n_placed, it, bytes, &it->offset))
                return INFER_EMEMORY;
            insert(item, placed, n_placed++, order[i].index);
        }
        if (!checked_add(it->offset, bytes, &end))
            return INFER_EMEMORY;
        if (end > high)
            high = end;
    }
    *total = high;
    return 0;
}

int arena_place(struct arena_item *item, int n, int reuse,
                struct infer_error *err, size_t *total)
{
    struct order *order = malloc(((size_t)n + 1) * sizeof *order);
    int *placed = malloc(((size_t)n + 1) * sizeof *placed);
    int i, rc = INFER_EMEMORY;

    if (order && placed) {
        for (i = 0; i < n; i++) {
            order[i].bytes = item[i].bytes;
            order[i].index = i;
        }
        qsort(order, (size_t)n, sizeof *order, compare_size);
        rc = place(item, order, placed, n, reuse != 0, total);
    }
    free(order);
    free(placed);
    return rc < 0 ? error_set(err, rc,
                              "activations: out of memory for %d "
                              "tensors",
                              n)
                  : 0;
}
