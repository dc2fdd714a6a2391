/* SPDX-License-Identifier: Apache-2.0 */
/* What the outputs of a network say about a picture: classes, boxes, a map of
 * classes, another picture, depths, an embedding, or landmarks.
 *
 * The words of the tasks are task_words; "detect:NAME" names the decoder of the
 * boxes, a row of decoders.def, and "detect:NAME:DETAIL" tells it more.
 * "landmarks:3" reads a flat output as x, y and a third number of each point,
 * not as x and y. */
#ifndef LIBINFER_TASK_TASK_H
#define LIBINFER_TASK_TASK_H

#include <stdbool.h>

#include "include/infer.h"
#include "libinfer/image/preprocess.h"

enum task_kind {
    TASK_CLASSIFY,
    TASK_DETECT,
    TASK_SEGMENT,
    TASK_IMAGE,
    TASK_DEPTH,
    TASK_EMBEDDING,
    TASK_LANDMARKS
};

/* The words of enum task_kind, NULL-terminated. */
extern const char *const task_words[];

/* The outputs of one run, and the input that they belong to. */
struct task_outputs {
    const struct infer_array
        *array; /* with data, except for task_recognise() */
    int count;
    int64_t batch, entry;  /* pictures of the run; the one that is asked for */
    int64_t width, height; /* of the network's input, pixels */
    int64_t channels;      /* of the network's input */
    const char *detail;    /* of the task's word; NULL: none */
};

struct task_decoder;

struct task {
    enum task_kind kind;
    const struct task_decoder *decoder; /* TASK_DETECT only */
    const char *detail; /* for the decoder, or of landmarks; NULL: none */
};

/* Reads a task's word, which must outlive the task.  "detect" alone leaves the
 * decoder NULL.  EARGUMENT lists the words that are known. */
int task_parse(const char *word, struct infer_error *err, struct task *out);

/* The task that shapes and names of the outputs speak for.  Without a sign of
 * another it is TASK_CLASSIFY. */
struct task task_recognise(const struct task_outputs *o);

/* The task of a network that sees pictures, and in brackets who says so:
 * `source` if the graph stores it, else "by the outputs": "detect:yolov8 (by
 * the outputs)".  False, and nothing, where no shape of its outputs tells: the
 * first input is no picture, or its height and width are free. */
bool task_text(const struct graph *g, const char *source, char *text,
               size_t bytes);

/* Sets the decoder of a TASK_DETECT that has none.  EUNSUPPORTED: no decoder
 * knows these outputs; the text lists the outputs and the decoders. */
int task_find_decoder(const struct task_outputs *o, struct task *task,
                      struct infer_error *err);

/* ---- entries of outputs -------------------------------------------- */

/* The part of an output that belongs to one picture, without the dimension of
 * the batch. */
struct task_entry {
    const struct infer_array *array;
    int64_t first; /* index of its first element */
    int rank;
    int64_t dim[INFER_MAX_RANK];
};

/* The entry of rank `rank` in output i: the output has that rank itself (and
 * the batch is one picture), or one dimension more, the batch, in front.
 * False where neither holds. */
bool task_entry(const struct task_outputs *o, int i, int rank,
                struct task_entry *out);

/* ---- boxes --------------------------------------------------------- */

#define TASK_MAX_POINTS 133 /* of a whole body */
#define TASK_MAX_COEFS  32

/* A found object.  Coordinates are pixels: of the network's input as
 * task_detect() leaves them, of the picture after task_place(). */
struct task_box {
    float left, top, right, bottom;
    float score; /* 0 .. 1 */
    int label;   /* class */
    int n_points;
    bool point_scores;
    float point[TASK_MAX_POINTS][3]; /* x, y, score (0 .. 1) of landmarks */
    int n_coefs;
    float coef[TASK_MAX_COEFS]; /* its mask as a sum of prototypes */
    bool oriented;
    float corner[4]
                [2]; /* x, y of an oriented box; the sides above go round it */
};

struct task_boxes {
    struct task_box *box; /* best first; free() */
    int count;
};

struct task_limits {
    float score; /* boxes below this are dropped */
    float iou;   /* of two boxes of one class that overlap more, the worse is
                    dropped: intersection over union */
};

/* Decodes the boxes of one picture.  EUNSUPPORTED (the outputs are not what
 * the decoder reads), EMEMORY. */
int task_detect(const struct task *task, const struct task_outputs *o,
                const struct task_limits *limits, struct infer_error *err,
                struct task_boxes *out);

/* Sets mask[height*width] to 1 where the picture shows the object of a box that
 * task_place() has moved, within the box, and to 0 elsewhere.  EUNSUPPORTED:
 * the box has no mask; EMEMORY. */
int task_mask(const struct task_outputs *o, const struct task_box *box,
              const struct preprocess_window *window, int width, int height,
              uint8_t *mask, struct infer_error *err);

/* Moves boxes from the network's input to the picture that was fitted into it,
 * and cuts them at its edges. */
void task_place(const struct preprocess_window *window,
                const struct infer_image *picture, struct task_boxes *boxes);

/* ---- maps of classes ----------------------------------------------- */

/* Writes the class of every pixel of the picture to label[height*width], -1
 * where the network did not see it.  *classes: how many there are.
 * EUNSUPPORTED: the first output is no map. */
int task_segment(const struct task_outputs *o,
                 const struct preprocess_window *window, int width, int height,
                 int *label, int *classes, struct infer_error *err);

/* ---- pictures ------------------------------------------------------ */

/* Turns the first output into a picture: the preprocessing's scale, mean, std
 * and colour order are undone.  Where the network sees luminance only and the
 * picture has colours, the picture's colours are resized and kept.  *out:
 * infer_image_free().  EUNSUPPORTED: the output is no picture; EMEMORY. */
int task_image(const struct task_outputs *o, const struct graph_preprocess *p,
               const struct infer_image *picture, struct infer_error *err,
               struct infer_image *out);

/* ---- values -------------------------------------------------------- */

/* Writes the depth at every pixel of the picture to value[height*width], NaN
 * where the network did not see it: the first output, interpolated.
 * EUNSUPPORTED: it is no map. */
int task_depth(const struct task_outputs *o,
               const struct preprocess_window *window, int width, int height,
               float *value, struct infer_error *err);

/* The values of the first output that belong to the picture: *out has *count,
 * free().  EUNSUPPORTED, EMEMORY. */
int task_embedding(const struct task_outputs *o, struct infer_error *err,
                   float **out, int64_t *count);

struct task_landmarks {
    float (*point)[3]; /* x, y in pixels of the picture, score; free() */
    int count;
    bool scores; /* else the scores are 1 */
};

/* The points of the first output: rows of x, y and perhaps a score, in pixels
 * of the input or relative to it, or the largest cell of a map of each.
 * EUNSUPPORTED, EMEMORY. */
int task_landmarks(const struct task *task, const struct task_outputs *o,
                   const struct preprocess_window *window,
                   struct infer_error *err, struct task_landmarks *out);

#endif
