/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures that vary from epoch to epoch. */
#ifndef TOOLS_TRAIN_DATA_AUGMENT_H
#define TOOLS_TRAIN_DATA_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/train/data/random.h"

struct augment {
    bool flip;    /* left to right, half of them */
    int crop;     /* pixels of zero padding round the cut; 0: none */
    int cutout;   /* side of a square set to zero; 0: none */
    bool affine;  /* turned, resized, shifted */
    double turn;  /* at most so many degrees either way */
    double scale; /* at most this part larger or smaller */
    double shift; /* at most this part of the side */
};

/* Reads "flip,crop:4,cutout:8,affine:15:0.2:0.1" (numbers optional) or "none".
 * False where a word is not known: *bad points at it. */
bool augment_parse(const char *text, struct augment *out, const char **bad);
/* Bytes of scratch that augment_apply() needs for one picture. */
size_t augment_scratch(int channels, int height, int width);
/* Changes the planes in place. */
void augment_apply(const struct augment *a, struct random *r, uint8_t *planes,
                   int channels, int height, int width, uint8_t *scratch);

#endif
