/* SPDX-License-Identifier: Apache-2.0 */
/* Preprocessing of pictures by name and in words. */
#ifndef TOOLS_PREPROCESS_H
#define TOOLS_PREPROCESS_H

#include "libinfer/graph/graph.h"

/* imagenet, caffe, unit, signed, raw, raw-bgr; NULL-terminated. */
extern const char *const preprocess_presets[];

/* Sets scale, mean, std, colour, policy and resize of *p to those of a preset,
 * an index of preprocess_presets; the rest stays.  Returns how many channels it
 * is for: 3, or 1 for any number. */
int preprocess_set_preset(int which, struct graph_preprocess *p);
/* Presets that crop resize for inputs of 224 pixels: makes the shorter side fit
 * an input of height dim[2] and width dim[3] by the same factor (366 for 320),
 * where they are fixed. */
void preprocess_fit_preset(const int64_t *dim, struct graph_preprocess *p);

/* What the first input expects of pictures and, in brackets, who says so, or
 * that 0 to 1 is assumed: "shorter side 256 (bilinear), centre crop 224x224,
 * RGB, scale 1/255, mean ... (options)"; mean 0 and std 1 are left out.
 * False, and nothing, where that input is no picture. */
bool preprocess_text(const struct graph *g, const char *source, char *out,
                     size_t bytes);

#endif
