/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a detector found in a picture: the boxes that infer(1) prints, in pixels
 * of the picture, after non-maximum suppression, for the networks that it knows
 * (YOLO, SSD, DETR, faces, ...).
 *
 * infer_model_preprocess() makes the input of a picture, infer_session_run()
 * the outputs, and infer_detect() the boxes.  samples/detect.c is a program.
 *
 * Errors, threads, struct sizes and what a soname promises: as in infer.h.
 */
#ifndef INFER_DETECT_H
#define INFER_DETECT_H

#include "infer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A found object.  Coordinates are pixels of the picture, cut at its edges. */
struct infer_box {
    float left, top, right, bottom;
    float score;     /* 0 to 1 */
    int label;       /* class, for infer_model_label() */
    int oriented;    /* not 0: `corner` is the box, the sides go round it */
    int n_points;    /* landmarks */
    float *point;    /* n_points rows of x, y, score (1: unknown), or NULL */
    float corner[8]; /* x, y of four corners */
};

struct infer_boxes {
    struct infer_box *box; /* the best first */
    int count;
};

struct infer_detect_options {
    size_t size; /* of this struct, set by infer_detect_options_init() */
    /* Boxes below this score are dropped.  -1: the decoder's own limit. */
    float score;
    /* Of two boxes of one class whose intersection over union is larger the
     * worse is dropped.  0.45. */
    float iou;
    /* "detect:NAME" names the decoder, as --task of wconv(1) does.  NULL: what
     * the model stores, else what shapes and names of the outputs tell. */
    const char *task;
    /* Pictures of the run, and which of them is asked for.  1 and 0. */
    int64_t batch, entry;
    /* Height and width of the input if the model leaves them free, else NULL.
     */
    const int64_t *shape_hw;
};

/* Fills in the size and the defaults that are named above; the sized function
 * is for bindings, as that of infer_session_options. */
void infer_detect_options_init_sized(struct infer_detect_options *options,
                                     size_t size);
static inline void
infer_detect_options_init(struct infer_detect_options *options)
{
    infer_detect_options_init_sized(options, sizeof *options);
}

/* Decodes the outputs of one run.
 * model: whose first input is a picture (N,C,H,W, or C,H,W).  out: all n_out
 * outputs in the model's order, as infer_session_run() filled them; names may
 * be NULL.  picture: what infer_model_preprocess() made the input of; only its
 * size is read.  options: NULL for the defaults.
 * boxes: to be freed by infer_boxes_free().  *boxes is emptied first, and is
 * empty after a failure; what it held before is not freed.
 * Errors: EARGUMENT (a NULL or an array without data, another number of
 * outputs, the input is no picture or its size is free, the task is another
 * one), EUNSUPPORTED (no decoder reads these outputs, the text lists them; an
 * option that this release does not know is set), EMEMORY. */
int infer_detect(const struct infer_model *model, const struct infer_array *out,
                 int n_out, const struct infer_image *picture,
                 const struct infer_detect_options *options,
                 struct infer_error *err, struct infer_boxes *boxes);
/* Frees the boxes with their points; all zero and NULL are fine. */
void infer_boxes_free(struct infer_boxes *boxes);

#ifdef __cplusplus
}
#endif

#endif
