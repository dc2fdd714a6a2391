/* SPDX-License-Identifier: Apache-2.0 */
/* Random changes of training pictures. */
#ifndef TOOLS_TRAIN_DATA_AUGMENT_H
#define TOOLS_TRAIN_DATA_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/train/data/random.h"

struct augment {
    bool flip;    /* horizontal flip with probability 1/2 */
    int crop;     /* zero padding before the random crop, pixels; 0: no crop */
    int cutout;   /* side of a square set to zero; 0: none */
    bool affine;  /* rotation, scaling, shift */
    double turn;  /* largest rotation, either direction */
    double scale; /* largest relative change of size */
    double shift; /* largest shift as a share of the side */
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
