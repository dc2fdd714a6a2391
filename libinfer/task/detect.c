/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes: the table of decoders, suppression of overlapping boxes, and the way
 * back to the picture. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/task/decoder.h"

/* Boxes that take part in suppression, whose work is quadratic: the best. */
#define MAX_BOXES 8192

/* ---- the table ----------------------------------------------------- */

static const struct task_decoder decoders[] = {
#define DECODER(name, suppress, score, text)                                   \
    {#name, suppress, score, text, name##_fits, name##_decode},
#include "libinfer/task/decoders.def"
#undef DECODER
};

#define N_DECODERS (sizeof decoders / sizeof *decoders)

const struct task_decoder *decoder_find(const char *name, size_t length)
{
    for (size_t i = 0; i < N_DECODERS; i++)
        if (strlen(decoders[i].name) == length &&
            memcmp(decoders[i].name, name, length) == 0)
            return &decoders[i];
    return NULL;
}

const struct task_decoder *decoder_of(const struct task_outputs *o)
{
    for (size_t i = 0; i < N_DECODERS; i++)
        if (decoders[i].fits(o))
            return &decoders[i];
    return NULL;
}

void decoder_names(char *text, size_t bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < N_DECODERS; i++) {
        strncat(text, i ? ", " : "", bytes - strlen(text) - 1);
        strncat(text, decoders[i].name, bytes - strlen(text) - 1);
    }
}

/* ---- elements ------------------------------------------------------ */

double entry_at(const struct task_entry *e, int64_t i)
{
    return scalar_load(e->array->dtype, e->array->data, e->first + i);
}

int entry_best(const struct task_entry *e, int64_t first, int64_t step,
               int64_t n, double *value)
{
    int best = 0;

    *value = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double x = entry_at(e, first + i * step);

        if (x > *value) {
            *value = x;
            best = (int)i;
        }
    }
    return best;
}

double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* ---- boxes --------------------------------------------------------- */

struct task_box *box_add(struct box_list *list, double score, int label)
{
    struct task_boxes *b = &list->boxes;

    if (!(score >= list->score) || list->rc < 0)
        return NULL;
    if (b->count == list->capacity) {
        const int capacity = list->capacity ? 2 * list->capacity : 64;
        struct task_box *more =
            realloc(b->box, (size_t)capacity * sizeof *more);

        if (!more) {
            list->rc = INFER_EMEMORY;
            return NULL;
        }
        b->box = more;
        list->capacity = capacity;
    }
    b->box[b->count] =
        (struct task_box){.score = (float)fmin(score, 1), .label = label};
    return &b->box[b->count++];
}

void box_corners(struct task_box *b, double left, double top, double right,
                 double bottom)
{
    b->left = (float)left;
    b->top = (float)top;
    b->right = (float)right;
    b->bottom = (float)bottom;
}

void box_centred(struct task_box *b, double x, double y, double width,
                 double height)
{
    box_corners(b, x - width / 2, y - height / 2, x + width / 2,
                y + height / 2);
}

static bool is_finite(const struct task_box *b)
{
    return isfinite(b->left) && isfinite(b->top) && isfinite(b->right) &&
           isfinite(b->bottom);
}

static int by_score(const void *a, const void *b)
{
    const struct task_box *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    if (x->top != y->top)
        return x->top < y->top ? -1 : 1;
    return (x->label > y->label) - (x->label < y->label);
}

static double area(const struct task_box *b)
{
    return fmax(0, (double)b->right - b->left) *
           fmax(0, (double)b->bottom - b->top);
}

static double overlap(const struct task_box *a, const struct task_box *b)
{
    const struct task_box both = {
        .left = fmaxf(a->left, b->left),
        .top = fmaxf(a->top, b->top),
        .right = fminf(a->right, b->right),
        .bottom = fminf(a->bottom, b->bottom),
    };
    const double common = area(&both);
    const double all = area(a) + area(b) - common;

    return all > 0 ? common / all : 0;
}

/* Greedy non-maximum suppression within each class. */
static void suppress(struct task_boxes *b, double iou)
{
    int kept = 0;

    if (b->count > MAX_BOXES)
        b->count = MAX_BOXES;
    for (int i = 0; i < b->count; i++) {
        bool good = true;

        for (int k = 0; good && k < kept; k++)
            good = b->box[k].label != b->box[i].label ||
                   overlap(&b->box[k], &b->box[i]) <= iou;
        if (good)
            b->box[kept++] = b->box[i];
    }
    b->count = kept;
}

int task_detect(const struct task *task, const struct task_outputs *o,
                const struct task_limits *limits, struct infer_error *err,
                struct task_boxes *out)
{
    const struct task_decoder *d = task->decoder;
    struct box_list list = {.score =
                                limits->score >= 0 ? limits->score : d->score};
    struct task_outputs with = *o;
    int kept = 0;

    with.detail = task->detail;
    if (!d->decode(&with, &list)) {
        free(list.boxes.box);
        return error_set(err, INFER_EUNSUPPORTED,
                         "the outputs are not those of detect:%s, which reads "
                         "%s",
                         d->name, d->text);
    }
    if (list.rc < 0) {
        free(list.boxes.box);
        return error_set(err, list.rc, "out of memory");
    }
    for (int i = 0; i < list.boxes.count; i++)
        if (is_finite(&list.boxes.box[i]))
            list.boxes.box[kept++] = list.boxes.box[i];
    list.boxes.count = kept;
    if (kept > 0)
        qsort(list.boxes.box, (size_t)kept, sizeof *list.boxes.box, by_score);
    if (d->suppress)
        suppress(&list.boxes, limits->iou);
    *out = list.boxes;
    return INFER_OK;
}

static float cut(double x, int side)
{
    return (float)fmin(fmax(x, 0), side);
}

void task_place(const struct preprocess_window *w,
                const struct infer_image *picture, struct task_boxes *boxes)
{
    for (int i = 0; i < boxes->count; i++) {
        struct task_box *b = &boxes->box[i];

        b->left = cut((b->left + w->left) * w->per_x, picture->width);
        b->right = cut((b->right + w->left) * w->per_x, picture->width);
        b->top = cut((b->top + w->top) * w->per_y, picture->height);
        b->bottom = cut((b->bottom + w->top) * w->per_y, picture->height);
        for (int k = 0; k < b->n_points; k++) {
            b->point[k][0] = (float)((b->point[k][0] + w->left) * w->per_x);
            b->point[k][1] = (float)((b->point[k][1] + w->top) * w->per_y);
        }
    }
}
