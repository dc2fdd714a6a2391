/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a detector found in a picture: the boxes that infer(1) prints, in pixels
 * of the picture, after non-maximum suppression, for the networks that it knows
 * (YOLO, SSD, DETR, faces, ...).
 *
 *     struct infer_boxes boxes;
 *
 *     if (infer_image_load("photo.jpg", 0, &err, &image) < 0 ||
 *         infer_model_preprocess(model, 0, &image, NULL, x, sizeof x, &err) < 0
 * || infer_session_run(session, &in, 1, out, n_out, &err) < 0 ||
 *         infer_detect(model, out, n_out, &image, NULL, &err, &boxes) < 0)
 *         return fprintf(stderr, "%s\n", err.text), 2;
 *     for (int i = 0; i < boxes.count; i++)
 *         printf("%d %.2f\n", boxes.box[i].label, (double)boxes.box[i].score);
 *     infer_boxes_free(&boxes);
 *
 * Errors, threads and struct sizes: as in infer.h.  The interface is new: until
 * version 1.0 it may change with a minor version.
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
 * size is read.  options: NULL for the defaults. boxes: to be freed by
 * infer_boxes_free(); nothing is left after a failure. Errors: EARGUMENT (a
 * NULL or an array without data, another number of outputs, the input is no
 * picture or its size is free, the task is another one), EUNSUPPORTED (no
 * decoder reads these outputs; the text lists them), EMEMORY. */
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
