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
double sigmoid(double x);

#define DECODER(name, suppress, score, text)                                   \
    bool name##_fits(const struct task_outputs *o);                            \
    bool name##_decode(const struct task_outputs *o, struct box_list *list);
#include "libinfer/task/decoders.def"
#undef DECODER

#endif
