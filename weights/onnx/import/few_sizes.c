/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks that leave sizes open and take one size, or a few next to it.
 *
 * A classifier whose last pool has a window of 7x7 before a flattened dense
 * layer takes pictures of 224 to 255 pixels; one that adds positions to patches
 * of 16 takes 224 to 239; one whose last filter covers what is left takes few
 * sizes.  Exported with free height and width such a file conflicts with itself
 * at all the sizes that are tried otherwise.  So usual sizes are tried one by
 * one.  The sizes around the first that is taken are the probes, from the
 * least to the largest, so that what is one number at all of them is one number
 * at those in between.  Sizes beyond them stay open only where no such number
 * is another there; else the size that was found is the only one.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/import.h"

/* Behind both ends of the sizes of a slot. */
#define FAR_BEYOND 96
/* Work on constants in all attempts together, of which each may do 2e9: a few
 * bytes of a file may ask for that. */
#define MAX_WORK 4e9

struct search {
    struct onnx_import *settings;
    struct pb_span name;
    struct onnx_few_sizes window;
    bool other_reason;            /* a refusal that is no conflict of shapes */
    struct onnx_numbers *numbers; /* NULL, or where those of imports go */
    double work;                  /* on constants, so far */
};

/* One import at the sizes fixed[] of the window.  1: it is taken; 0: it is not;
 * EMEMORY, or EUNSUPPORTED where the attempts so far were too much work. */
static int takes(struct search *s)
{
    struct onnx_import settings = *s->settings;
    struct infer_error err;
    struct graph *g = NULL;
    bool choice;
    int rc;

    if (s->work > MAX_WORK)
        return INFER_EUNSUPPORTED;
    settings.window = &s->window;
    settings.fixed_sizes = true;
    settings.freed_batch = settings.odd_sizes = settings.small_sizes = false;
    settings.numbers = s->numbers;
    settings.refused_numbers = true;
    settings.err = &err;
    rc = onnx_attempt(&settings, s->name, &choice, &g);
    graph_free(g);
    s->work += settings.worked;
    s->other_reason = rc < 0 && rc != INFER_EFORMAT;
    if (rc == INFER_EMEMORY)
        *s->settings->err = err;
    return rc == 0 ? 1 : rc == INFER_EMEMORY ? rc : 0;
}

/* Whether the sizes are taken with some moved by `by`: those of the slots of
 * the mask. */
static int takes_moved(struct search *s, unsigned slots, int64_t by)
{
    int rc;

    for (int i = 0; i < INFER_MAX_RANK; i++)
        s->window.fixed[i] += slots >> i & 1 ? by : 0;
    rc = takes(s);
    for (int i = 0; i < INFER_MAX_RANK; i++)
        s->window.fixed[i] -= slots >> i & 1 ? by : 0;
    return rc;
}

/* Sizes at which the network is read, slot 0 having the least; the search ends
 * where another reason than sizes is in the way.  1: found; 0: none; as
 * takes().
 */
static int find_size(struct search *s)
{
    /* Pictures of the least size first where there are two: lines of text,
     * then people and faces. */
    static const short usual[][2] = {
        {224, 224}, {32, 32},   {64, 64},   {128, 128}, {256, 256},
        {299, 299}, {96, 96},   {112, 112}, {160, 160}, {192, 192},
        {384, 384}, {512, 512}, {32, 128},  {32, 100},  {48, 192},
        {64, 256},  {48, 320},  {256, 128}, {256, 192}, {384, 288}};
    const unsigned free = s->settings->free_slots;

    for (size_t k = 0; k < sizeof usual / sizeof usual[0]; k++) {
        const short *size = usual[k];
        int n = 0;

        if (size[0] != size[1] && (free & (free - 1)) == 0)
            continue; /* one size is open */
        for (int i = 1; i < INFER_MAX_RANK; i++) {
            s->window.fixed[i] = size[n > 0];
            n += (int)(free >> i & 1);
        }
        s->window.fixed[0] = size[0] < size[1] ? size[0] : size[1];
        const int rc = takes(s);

        if (rc != 0 || s->other_reason)
            return rc;
    }
    return 0;
}

/* The slots whose sizes have to be near those found, in *near; the others take
 * any.  1: they are known; 0: they are not told apart; as takes(). */
static int find_near(struct search *s, unsigned free, unsigned *near)
{
    *near = 0;
    for (int i = 1; i < INFER_MAX_RANK; i++) {
        const unsigned slot = 1u << i;
        int one, two;

        if (!(free & slot))
            continue;
        one = takes_moved(s, slot, FAR_BEYOND);
        two = one < 0 ? one : takes_moved(s, slot, FAR_BEYOND + 67);
        if (two < 0)
            return two;
        if (one != two)
            return 0;
        *near |= one ? 0 : slot;
    }
    return *near != 0;
}

/* How far the sizes of the slots may move together, in steps of `sign`.
 * 1: *out is set; 0: as far as it is tried; as takes(). */
static int find_end(struct search *s, unsigned near, int sign, int64_t *out)
{
    int64_t taken = 0, refused = FAR_BEYOND;
    int rc;

    if (sign < 0 && refused > s->window.fixed[0])
        refused = s->window.fixed[0];
    else if ((rc = takes_moved(s, near, sign * refused)) != 0)
        return rc < 0 ? rc : 0;
    while (refused - taken > 1) {
        const int64_t middle = (taken + refused) / 2;

        rc = takes_moved(s, near, sign * middle);
        if (rc < 0)
            return rc;
        *(rc ? &taken : &refused) = middle;
    }
    *out = taken;
    return 1;
}

/* Sizes that are multiples of those found show a network that takes more than
 * the window.  1: there are none. */
static int is_alone(struct search *s, unsigned near)
{
    const int64_t size = s->window.fixed[0];
    const int larger = takes_moved(s, near, size);
    const int rc = larger ? larger : takes_moved(s, near, -size / 2);

    return rc < 0 ? rc : rc == 0;
}

/* The numbers that the window leaves as they are: *rc is below 0 where it could
 * not be imported. */
static struct onnx_numbers numbers_of(struct search *s, int *rc)
{
    struct onnx_import settings = *s->settings;
    struct onnx_numbers numbers = {NULL, 0};
    struct infer_error err;
    struct graph *g = NULL;
    bool choice;

    settings.window = &s->window;
    settings.numbers = &numbers;
    settings.err = &err;
    *rc = onnx_attempt(&settings, s->name, &choice, &g);
    graph_free(g);
    if (*rc == INFER_EMEMORY)
        *s->settings->err = err;
    return numbers;
}

/* Whether numbers of the file that are constant within the window are others
 * beyond it.  Sizes out there may be taken again, as 32x1568 by a network of 49
 * patches that takes 224x224, and the graph would hold the wrong numbers.
 * 1: they are, or that is not known; 0: none was found; as takes(). */
static int numbers_change(struct search *s, unsigned near)
{
    const int64_t moves[] = {FAR_BEYOND + 67, -(s->window.fixed[0] / 2)};
    struct onnx_numbers now = {NULL, 0};
    int rc = 0;
    const struct onnx_numbers inside = numbers_of(s, &rc);

    rc = rc < 0 && rc != INFER_EMEMORY ? 1 : rc;
    s->numbers = &now;
    for (int i = 1; i < INFER_MAX_RANK; i++)
        for (size_t k = 0; near >> i & 1 && rc == 0 && k < 2; k++) {
            rc = takes_moved(s, 1u << i, moves[k]);
            if (rc >= 0)
                rc = onnx_numbers_differ(&inside, &now) != NULL;
        }
    s->numbers = NULL;
    free(inside.item);
    free(now.item);
    return rc;
}

/* Networks of a number of patches take half the height at twice the width.
 * 0 where the graph is right there, too. */
static int compare_swapped(struct search *s, unsigned near,
                           const struct graph *g)
{
    struct onnx_few_sizes at = s->window;
    int rc = 0;

    for (int i = 1; i < INFER_MAX_RANK && rc == 0; i++) {
        if (!(near >> i & 1) || near == 1u << i)
            continue;
        for (int d = 1; d < INFER_MAX_RANK; d++)
            at.fixed[d] = d == i          ? s->window.fixed[d] / 2
                          : near >> d & 1 ? 2 * s->window.fixed[d]
                                          : s->window.fixed[d];
        rc = onnx_verify_at(s->settings, s->name, &at, g);
    }
    return rc;
}

/* Leaves the one size that was found. */
static void fix_inputs(const struct search *s, unsigned near, struct graph *g)
{
    for (int i = 0; i < g->n_inputs; i++) {
        struct graph_value *v = &g->value[g->input[i]];

        for (int d = 1; d < v->rank; d++)
            if (v->dim[d] < 0 && near >> d & 1)
                v->dim[d] = s->window.fixed[d];
    }
}

/* A graph at the sizes of the window is right at no others where it holds
 * numbers of them, or where one size is all there is to judge by. */
static int secure(struct search *s, unsigned near, bool one_size,
                  struct graph *g)
{
    const int rc = one_size ? 1 : numbers_change(s, near);

    if (rc > 0)
        fix_inputs(s, near, g);
    return rc == 0 ? compare_swapped(s, near, g) : rc < 0 ? rc : 0;
}

int onnx_import_few_sizes(struct onnx_import *settings, struct pb_span name,
                          struct graph **out)
{
    const struct infer_error first = *settings->err;
    struct search s = {settings, name, {{0}, {0}, {0}}, false, NULL, 0};
    int64_t low = 0, high = 0;
    unsigned near = 0;
    int rc = find_size(&s);

    if (rc > 0)
        rc = find_near(&s, settings->free_slots, &near);
    if (rc > 0)
        rc = find_end(&s, near, -1, &low);
    if (rc > 0)
        rc = find_end(&s, near, 1, &high);
    if (rc > 0)
        rc = is_alone(&s, near);
    if (rc == INFER_EMEMORY)
        return rc;
    if (rc > 0) {
        for (int i = 1; i < INFER_MAX_RANK; i++)
            if (near >> i & 1) {
                s.window.low[i] = s.window.fixed[i] - low;
                s.window.high[i] = s.window.fixed[i] + high;
            }
        settings->window = &s.window;
        rc = onnx_import_large_or_small(settings, name, out);
        settings->window = NULL;
        if (rc == 0)
            rc = secure(&s, near, low + high == 0, *out);
        if (rc == 0 || rc == INFER_EMEMORY)
            return rc;
        graph_free(*out);
        *out = NULL;
    }
    *settings->err = first;
    return first.code;
}
