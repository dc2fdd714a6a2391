/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes, text and masks drawn on a picture of 3 channels. */
#ifndef LIBINFER_TASK_DRAW_H
#define LIBINFER_TASK_DRAW_H

#include "include/infer.h"
#include "libinfer/task/task.h"

/* The colour of a class: neighbours differ. */
void draw_colour(int label, uint8_t rgb[3]);

/* The frame of a box (oriented or not), its points (17: a person with limbs;
 * points with a score below one half are left out), and above it a line of
 * text.  What lies outside the picture is not drawn; bytes of the text beyond
 * ASCII are drawn as "?". */
void draw_box(struct infer_image *image, const struct task_box *box,
              const char *text);
/* The same with the text in another row: 0 above the box, 1 below its upper
 * side, 2 one line lower, and so on. */
void draw_box_row(struct infer_image *image, const struct task_box *box,
                  const char *text, int row);
/* The pixels of that text; right and bottom are the first beyond it. */
struct draw_place {
    int left, top, right, bottom;
};
struct draw_place draw_place_of(const struct infer_image *image,
                                const struct task_box *box, const char *text,
                                int row);

/* Squares at points, x and y; those whose third number is below one half are
 * left out. */
void draw_landmarks(struct infer_image *image, float (*point)[3], int count);

/* Mixes the colour of a class into the pixels of mask[height*width] that are
 * not 0, half and half. */
void draw_mask(struct infer_image *image, const uint8_t *mask, int label);

/* Mixes the colour of each pixel's class into the picture, half and half.
 * label[height*width]; classes -1 and `clear` leave the picture as it is. */
void draw_labels(struct infer_image *image, const int *label, int clear);

/* Line `row` of a legend in the upper left corner: text on the colour of a
 * class. */
void draw_legend(struct infer_image *image, int row, int label,
                 const char *text);

#endif
