/* SPDX-License-Identifier: Apache-2.0 */
/* The table of decoders of boxes, for the files of this folder. */
#ifndef LIBINFER_TASK_DECODER_H
#define LIBINFER_TASK_DECODER_H

#include "libinfer/task/task.h"

/* Boxes while they are collected. */
struct box_list {
    struct task_boxes boxes;
    int capacity;
    float score; /* least score that is kept */
    bool chosen; /* the network has dropped overlapping boxes itself */
    int rc;
};

/* A new box with the given score and class, points absent; NULL if its score
 * is too small (or no number), or memory is short, which list->rc tells. */
struct task_box *box_add(struct box_list *list, double score, int label);
/* The two ways of writing four numbers. */
void box_corners(struct task_box *b, double left, double top, double right,
                 double bottom);
void box_centred(struct task_box *b, double x, double y, double width,
                 double height);

/* Sets the sides of an oriented box to go round its corners. */
void box_around(struct task_box *b);
/* The prototypes of a box's mask; false where it has none. */
bool box_prototypes(const struct task_outputs *o, const struct task_box *b,
                    struct task_entry *e);

struct task_decoder {
    const char *name;
    bool suppress;
    float score;
    const char *text;
    bool (*fits)(const struct task_outputs *o);
    /* False: the outputs do not have the shapes that it reads. */
    bool (*decode)(const struct task_outputs *o, struct box_list *list);
};

/* NULL where there is none of that name, or none that fits. */
const struct task_decoder *decoder_find(const char *name, size_t length);
const struct task_decoder *decoder_of(const struct task_outputs *o);
/* "a, b, c". */
void decoder_names(char *text, size_t bytes);

/* Element of an entry. */
double entry_at(const struct task_entry *e, int64_t i);
/* Index of the largest of n elements from `first`, `step` apart; its value in
 * *value.  NaN is never the largest. */
int entry_best(const struct task_entry *e, int64_t first, int64_t step,
               int64_t n, double *value);
/* The class that an output names as a number; 0 for what is none. */
int class_of(double x);
double sigmoid(double x);
/* Whether n is the number of cells of a detector's grids over the input: one
 * grid a stride, strides from 4, 8 or 16 to 32, or from 4 or 8 to 64. */
bool cells_fit(const struct task_outputs *o, int64_t n);

#define DECODER(name, suppress, score, text)                                   \
    bool name##_fits(const struct task_outputs *o);                            \
    bool name##_decode(const struct task_outputs *o, struct box_list *list);
#include "libinfer/task/decoders.def"
#undef DECODER

#endif
