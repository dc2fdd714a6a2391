/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes that free dimensions have while a graph is imported. */
#include "weights/onnx/import.h"

/* Multiples of 64 above the least size.  Those of one slot differ modulo 3, so
 * that rounding after a stride of 3 shows, and any two slots are once in one
 * order, once in the other: the larger one is not always the same. */
static int64_t multiple(const struct onnx_import *im, int probe, int slot)
{
    const int s = (slot - INFER_MAX_RANK) % 9;

    if (slot < INFER_MAX_RANK)
        return probe == 1   ? 9 - slot
               : probe == 4 ? slot + (im->odd_sizes ? 9 : 10)
                            : slot + 4 * probe;
    return probe == 3 ? 28 - s : probe == 4 ? s : s + 8 + 4 * probe;
}

static bool has_window(const struct onnx_import *im, int slot)
{
    return im->window && slot < INFER_MAX_RANK && im->window->high[slot] > 0;
}

/* A size of the window: both ends come first, and no two slots have the same
 * at one probe if there are as many sizes. */
static int64_t in_window(const struct onnx_few_sizes *w, int probe, int slot)
{
    static const int sixths[] = {0, 6, 2, 5, 3};
    const int64_t width = w->high[slot] - w->low[slot];

    return w->low[slot] + width * sixths[(probe + slot) % 5] / 6;
}

/* Sizes of a free dimension at the probes.  Each free dimension gets sizes of
 * its own, so that no two are ever mistaken for one another.  Spatial ones are
 * large and divide well, as some networks need them.  Where the network takes
 * it, the second is above a multiple of 32 by 1, 3, ... and the third below
 * by as much, each dimension by a number of its own: one of them stays odd when
 * it is halved again and again upwards, the other when downwards, so that
 * "twice this tensor" and "as large as that one" are two things at every
 * stride, and what is missing to a multiple tells the dimensions apart.  The
 * binary digits of the last two alternate in several ways, so that multiples of
 * 2, 4, 8, ... of what such strides leave are different numbers.
 * Attention between all pixels is beyond any memory at these sizes; smaller
 * ones are tried after them. */
int64_t onnx_probe_size(const struct onnx_import *im, int probe, int slot)
{
    static const signed char others[2][INFER_MAX_RANK] = {
        {0, 11, 21, 19, 13, 25, 7, 29}, {0, -21, -22, -27, -19, -11, -25, -13}};
    const int64_t k = multiple(im, probe, slot);
    const int more = (2 * slot - 3) % 61;
    const int add = !im->odd_sizes || probe == 0 ? 0
                    : probe == 1                 ? more
                    : probe == 2                 ? -more
                                 : others[probe - 3][slot % INFER_MAX_RANK];

    /* No progression, which rounded sizes of the others may be. */
    if (slot == 0)
        return probe < 3 ? probe + 1 : 8 - probe;
    if (has_window(im, slot))
        return in_window(im->window, probe, slot);
    return im->small_sizes ? 64 + 32 * k + add : 256 + 64 * k + add;
}

/* Sizes that are no probe: odd ones, multiples of 32 and small ones, each in
 * falling order, which is not that of most probes. */
int64_t onnx_fixed_size(const struct onnx_import *im, int slot)
{
    static const short size[3][16] = {
        {3, 211, 197, 173, 151, 139, 127, 109, 97, 83, 71, 67, 61, 59, 53, 47},
        {2, 544, 512, 448, 416, 352, 320, 256, 224, 608, 640, 704, 736, 800,
         832, 896},
        {2, 37, 29, 23, 19, 17, 13, 11, 31, 41, 43, 47, 53, 59, 61, 67}};

    if (im->check == ONNX_CHECK_ONE)
        return slot == 0 ? 1 : onnx_probe_size(im, 1, slot);
    if (im->check > 0 && has_window(im, slot))
        return in_window(im->window, im->check + 2 * slot, slot);
    if (im->check == 0 && im->window && slot > 0 && slot < INFER_MAX_RANK)
        return im->window->fixed[slot];
    return im->check == 0
               ? onnx_probe_size(im, 1, slot)
               : size[im->check - 1][slot < 16 ? slot : 9 + slot % 7];
}
