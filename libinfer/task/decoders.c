/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of detectors whose boxes stand in the outputs: one anchor, one row (or
 * one column). */
#include <math.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "libinfer/task/decoder.h"

/* Numbers of boxes of a network that has suppressed overlaps itself.  A row of
 * class scores is shorter than the least. */
#define MIN_LISTED 10
#define MAX_LISTED 1000

/* Least number of boxes that are known by their shape alone. */
#define MIN_ANCHORS 50

/* Largest coordinate of a relative box; in pixels it would be no box. */
#define RELATIVE 2.0

/* Cells of the grids of strides `first`, 2 * first, ... `last` over the input;
 * 0 if a side is no multiple of the largest stride. */
static int64_t cells(const struct task_outputs *o, int first, int last)
{
    int64_t n = 0;

    if (o->width % last || o->height % last)
        return 0;
    for (int stride = first; stride <= last; stride *= 2)
        n += (o->width / stride) * (o->height / stride);
    return n;
}

bool cells_fit(const struct task_outputs *o, int64_t n)
{
    return n > 0 && (n == cells(o, 8, 32) || n == cells(o, 8, 64) ||
                     n == cells(o, 4, 32) || n == cells(o, 4, 64) ||
                     n == cells(o, 16, 32));
}

/* The only output as rows and columns. */
static bool single(const struct task_outputs *o, struct task_entry *e)
{
    return o->count == 1 && task_entry(o, 0, 2, e) && e->dim[0] > 0 &&
           e->dim[1] > 0 && scalar_is_float(e->array->dtype);
}

/* ---- YOLO ---------------------------------------------------------- */

bool yolov5_fits(const struct task_outputs *o)
{
    struct task_entry e;

    return single(o, &e) && e.dim[1] > 5 && e.dim[0] % 3 == 0 &&
           cells_fit(o, e.dim[0] / 3);
}

/* x y width height objectness classes..., in pixels. */
bool yolov5_decode(const struct task_outputs *o, struct box_list *list)
{
    struct task_entry e;

    if (!single(o, &e) || e.dim[1] < 6)
        return false;
    for (int64_t i = 0, at = 0; i < e.dim[0]; i++, at += e.dim[1]) {
        double best;
        const int label = entry_best(&e, at + 5, 1, e.dim[1] - 5, &best);
        struct task_box *b = box_add(list, best * entry_at(&e, at + 4), label);

        if (b)
            box_centred(b, entry_at(&e, at), entry_at(&e, at + 1),
                        entry_at(&e, at + 2), entry_at(&e, at + 3));
    }
    return true;
}

bool yolov8_fits(const struct task_outputs *o)
{
    struct task_entry e;

    return single(o, &e) && e.dim[0] > 4 && cells_fit(o, e.dim[1]);
}

/* Columns of x y width height classes..., in pixels. */
bool yolov8_decode(const struct task_outputs *o, struct box_list *list)
{
    struct task_entry e;

    if (!single(o, &e) || e.dim[0] < 5)
        return false;
    const int64_t m = e.dim[1];

    for (int64_t i = 0; i < m; i++) {
        double best;
        const int label = entry_best(&e, i + 4 * m, m, e.dim[0] - 4, &best);
        struct task_box *b = box_add(list, best, label);

        if (b)
            box_centred(b, entry_at(&e, i), entry_at(&e, i + m),
                        entry_at(&e, i + 2 * m), entry_at(&e, i + 3 * m));
    }
    return true;
}

bool yolox_fits(const struct task_outputs *o)
{
    struct task_entry e;

    return single(o, &e) && e.dim[1] > 5 && e.dim[0] == cells(o, 8, 32);
}

/* Whether the sides of rows are pixels.  As logarithms of cells the largest
 * would be a box of more than the input. */
static bool has_pixels(const struct task_outputs *o, const struct task_entry *e)
{
    const double most =
        1 + log((double)(o->width > o->height ? o->width : o->height));
    bool large = false;

    for (int64_t i = 0; i < e->dim[0]; i++)
        for (int64_t at = i * e->dim[1] + 2; at < i * e->dim[1] + 4; at++) {
            if (entry_at(e, at) < 0)
                return false;
            large = large || entry_at(e, at) > most;
        }
    return large;
}

/* Offsets in cells, logarithms of sides in cells, objectness, classes; or the
 * same with boxes in pixels (YOLOX's --decode_in_inference), of one grid, too.
 */
bool yolox_decode(const struct task_outputs *o, struct box_list *list)
{
    struct task_entry e;
    int64_t row = 0;

    if (!single(o, &e) || e.dim[1] < 6)
        return false;
    const int first = e.dim[0] == cells(o, 8, 32) ? 8 : 16;

    if (first == 16 && e.dim[0] != cells(o, 16, 16))
        return false;
    const bool pixels = has_pixels(o, &e);

    for (int stride = first; stride <= (first == 8 ? 32 : 16); stride *= 2)
        for (int64_t y = 0; y < o->height / stride; y++)
            for (int64_t x = 0; x < o->width / stride; x++, row++) {
                const int64_t at = row * e.dim[1];
                double best;
                const int label =
                    entry_best(&e, at + 5, 1, e.dim[1] - 5, &best);
                struct task_box *b =
                    box_add(list, best * entry_at(&e, at + 4), label);

                if (b && pixels)
                    box_centred(b, entry_at(&e, at), entry_at(&e, at + 1),
                                entry_at(&e, at + 2), entry_at(&e, at + 3));
                else if (b)
                    box_centred(b, ((double)x + entry_at(&e, at)) * stride,
                                ((double)y + entry_at(&e, at + 1)) * stride,
                                exp(entry_at(&e, at + 2)) * stride,
                                exp(entry_at(&e, at + 3)) * stride);
            }
    return true;
}

bool end2end_fits(const struct task_outputs *o)
{
    struct task_entry e;

    return single(o, &e) && e.dim[1] == 6 && e.dim[0] >= MIN_LISTED &&
           e.dim[0] <= MAX_LISTED;
}

/* left top right bottom score class, in pixels. */
bool end2end_decode(const struct task_outputs *o, struct box_list *list)
{
    struct task_entry e;

    if (!single(o, &e) || e.dim[1] != 6)
        return false;
    for (int64_t i = 0, at = 0; i < e.dim[0]; i++, at += 6) {
        struct task_box *b =
            box_add(list, entry_at(&e, at + 4), class_of(entry_at(&e, at + 5)));

        if (b)
            box_corners(b, entry_at(&e, at), entry_at(&e, at + 1),
                        entry_at(&e, at + 2), entry_at(&e, at + 3));
    }
    return true;
}

/* Queries of RT-DETR and its kin; tokens of other transformers have other
 * numbers. */
bool rtdetr_fits(const struct task_outputs *o)
{
    struct task_entry e;

    return single(o, &e) && e.dim[1] > 4 &&
           (e.dim[0] == 100 || e.dim[0] == 300 || e.dim[0] == 900);
}

/* Relative x y width height, then a score for each class; of the detail
 * "chosen" the best score and its class. */
bool rtdetr_decode(const struct task_outputs *o, struct box_list *list)
{
    const bool chosen = o->detail && strcmp(o->detail, "chosen") == 0;
    const double w = (double)o->width, h = (double)o->height;
    struct task_entry e;

    if (!single(o, &e) || e.dim[1] < 5 || (chosen && e.dim[1] != 6) ||
        (o->detail && !chosen))
        return false;
    for (int64_t i = 0, at = 0; i < e.dim[0]; i++, at += e.dim[1]) {
        double best;
        int label = entry_best(&e, at + 4, 1, e.dim[1] - 4, &best);
        struct task_box *b;

        if (chosen) {
            best = entry_at(&e, at + 4);
            label = class_of(entry_at(&e, at + 5));
        }
        b = box_add(list, best, label);
        if (b)
            box_centred(b, entry_at(&e, at) * w, entry_at(&e, at + 1) * h,
                        entry_at(&e, at + 2) * w, entry_at(&e, at + 3) * h);
    }
    return true;
}

/* ---- DETR ---------------------------------------------------------- */

/* The output of a name, as an entry of a rank. */
static bool named(const struct task_outputs *o, const char *name, int rank,
                  struct task_entry *e)
{
    for (int i = 0; i < o->count; i++)
        if (o->array[i].name && strcmp(o->array[i].name, name) == 0)
            return task_entry(o, i, rank, e);
    return false;
}

static bool detr_read(const struct task_outputs *o, struct task_entry *logits,
                      struct task_entry *boxes)
{
    return (named(o, "logits", 2, logits) ||
            named(o, "pred_logits", 2, logits)) &&
           named(o, "pred_boxes", 2, boxes) && boxes->dim[1] == 4 &&
           boxes->dim[0] == logits->dim[0] && logits->dim[1] > 1;
}

bool detr_fits(const struct task_outputs *o)
{
    struct task_entry logits, boxes;

    return detr_read(o, &logits, &boxes);
}

/* Softmax over classes, of which the last is "no object"; relative boxes. */
bool detr_decode(const struct task_outputs *o, struct box_list *list)
{
    struct task_entry l, e;

    if (!detr_read(o, &l, &e))
        return false;
    for (int64_t i = 0; i < l.dim[0]; i++) {
        const double w = (double)o->width, h = (double)o->height;
        const int64_t at = i * l.dim[1];
        double best, all = 0, none;
        const int label = entry_best(&l, at, 1, l.dim[1] - 1, &best);
        struct task_box *b;

        none = entry_at(&l, at + l.dim[1] - 1);
        for (int64_t c = 0; c < l.dim[1]; c++)
            all += exp(entry_at(&l, at + c) - fmax(best, none));
        b = box_add(list, exp(best - fmax(best, none)) / all, label);
        if (b)
            box_centred(b, entry_at(&e, 4 * i) * w, entry_at(&e, 4 * i + 1) * h,
                        entry_at(&e, 4 * i + 2) * w,
                        entry_at(&e, 4 * i + 3) * h);
    }
    return true;
}

/* ---- boxes and scores apart ---------------------------------------- */

static bool holds(const struct infer_array *a, const char *word)
{
    return a->name && strstr(a->name, word);
}

/* Two outputs with as many rows: boxes of four columns, and scores. */
static bool scored_read(const struct task_outputs *o, struct task_entry *boxes,
                        struct task_entry *scores)
{
    struct task_entry e[2];
    int box;

    if (o->count != 2 || !task_entry(o, 0, 2, &e[0]) ||
        !task_entry(o, 1, 2, &e[1]) || e[0].dim[0] != e[1].dim[0] ||
        !scalar_is_float(e[0].array->dtype) ||
        !scalar_is_float(e[1].array->dtype))
        return false;
    if (e[0].dim[1] == 4 && e[1].dim[1] == 4)
        box = holds(e[0].array, "box") || holds(e[1].array, "score") ? 0 : 1;
    else
        box = e[0].dim[1] == 4 ? 0 : 1;
    *boxes = e[box];
    *scores = e[1 - box];
    return boxes->dim[1] == 4 && scores->dim[1] > 0;
}

bool scored_fits(const struct task_outputs *o)
{
    struct task_entry boxes, scores;

    return scored_read(o, &boxes, &scores) && boxes.dim[0] >= MIN_ANCHORS;
}

/* How scores are meant, told by all of them: rows of probabilities sum to one
 * and begin with the background. */
struct scores {
    bool softmax; /* first column: background */
    bool logits;  /* of independent classes */
};

static struct scores kind_of_scores(const struct task_entry *e)
{
    struct scores s = {e->dim[1] > 1, false};

    for (int64_t i = 0; i < e->dim[0]; i++) {
        double sum = 0;

        for (int64_t c = 0; c < e->dim[1]; c++) {
            const double x = entry_at(e, i * e->dim[1] + c);

            s.logits = s.logits || x < 0 || x > 1;
            sum += x;
        }
        s.softmax = s.softmax && fabs(sum - 1) < 1e-2;
    }
    s.softmax = s.softmax && !s.logits;
    return s;
}

/* True if no coordinate of a box that is shown is as large as pixels are. */
static bool is_relative(const struct box_list *list, int first)
{
    for (int i = first; i < list->boxes.count; i++) {
        const struct task_box *b = &list->boxes.box[i];

        if (fabs(b->left) > RELATIVE || fabs(b->top) > RELATIVE ||
            fabs(b->right) > RELATIVE || fabs(b->bottom) > RELATIVE)
            return false;
    }
    return true;
}

static void to_pixels(const struct task_outputs *o, struct box_list *list,
                      int first)
{
    for (int i = first; i < list->boxes.count; i++) {
        struct task_box *b = &list->boxes.box[i];

        b->left *= (float)o->width;
        b->right *= (float)o->width;
        b->top *= (float)o->height;
        b->bottom *= (float)o->height;
    }
}

/* left top right bottom, relative or in pixels. */
bool scored_decode(const struct task_outputs *o, struct box_list *list)
{
    struct task_entry e, s;

    if (!scored_read(o, &e, &s))
        return false;
    const struct scores kind = kind_of_scores(&s);
    const int first = list->boxes.count;
    const int skip = kind.softmax ? 1 : 0;

    for (int64_t i = 0; i < e.dim[0]; i++) {
        double best;
        const int label =
            entry_best(&s, i * s.dim[1] + skip, 1, s.dim[1] - skip, &best);
        struct task_box *b =
            box_add(list, kind.logits ? sigmoid(best) : best, label);

        if (b)
            box_corners(b, entry_at(&e, 4 * i), entry_at(&e, 4 * i + 1),
                        entry_at(&e, 4 * i + 2), entry_at(&e, 4 * i + 3));
    }
    if (is_relative(list, first))
        to_pixels(o, list, first);
    return true;
}

/* ---- lists --------------------------------------------------------- */

/* Three outputs in any order: boxes (K,4), whole numbers (K), numbers (K).  How
 * many of the K are meant may be a fourth; the others' scores are 0. */
static bool listed_read(const struct task_outputs *o, struct task_entry *boxes,
                        struct task_entry *labels, struct task_entry *scores)
{
    int found = 0;

    if (o->count != 3 &&
        !(o->count == 4 && o->array[3].rank == 1 && o->array[3].dim[0] == 1 &&
          scalar_is_integer(o->array[3].dtype)))
        return false;
    for (int i = 0; i < 3; i++) {
        const bool integer = scalar_is_integer(o->array[i].dtype);
        struct task_entry e;

        if (!integer && task_entry(o, i, 2, &e) && e.dim[1] == 4) {
            *boxes = e;
            found |= 1;
        } else if (task_entry(o, i, 1, &e)) {
            *(integer ? labels : scores) = e;
            found |= integer ? 2 : 4;
        }
    }
    return found == 7 && boxes->dim[0] == labels->dim[0] &&
           boxes->dim[0] == scores->dim[0];
}

bool listed_fits(const struct task_outputs *o)
{
    struct task_entry boxes, labels, scores;

    return listed_read(o, &boxes, &labels, &scores);
}

bool listed_decode(const struct task_outputs *o, struct box_list *list)
{
    struct task_entry e, l, s;

    if (!listed_read(o, &e, &l, &s))
        return false;
    for (int64_t i = 0; i < e.dim[0]; i++) {
        struct task_box *b =
            box_add(list, entry_at(&s, i), (int)entry_at(&l, i));

        if (b)
            box_corners(b, entry_at(&e, 4 * i), entry_at(&e, 4 * i + 1),
                        entry_at(&e, 4 * i + 2), entry_at(&e, 4 * i + 3));
    }
    return true;
}
