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

int class_of(double x)
{
    return x >= 0 && x < 1e6 ? (int)x : 0;
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

void box_around(struct task_box *b)
{
    box_corners(b, b->corner[0][0], b->corner[0][1], b->corner[0][0],
                b->corner[0][1]);
    for (int k = 1; k < 4; k++) {
        b->left = fminf(b->left, b->corner[k][0]);
        b->right = fmaxf(b->right, b->corner[k][0]);
        b->top = fminf(b->top, b->corner[k][1]);
        b->bottom = fmaxf(b->bottom, b->corner[k][1]);
    }
}

static bool is_finite(const struct task_box *b)
{
    for (int k = 0; b->oriented && k < 4; k++)
        if (!isfinite(b->corner[k][0]) || !isfinite(b->corner[k][1]))
            return false;
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

/* An oriented box as a Gaussian of the same mean and covariance. */
struct gaussian {
    double x, y;
    double xx, yy, xy; /* covariance */
};

static struct gaussian gaussian_of(const struct task_box *b)
{
    const double u[2] = {b->corner[1][0] - b->corner[0][0],
                         b->corner[1][1] - b->corner[0][1]};
    const double v[2] = {b->corner[2][0] - b->corner[1][0],
                         b->corner[2][1] - b->corner[1][1]};

    return (struct gaussian){
        .x = 0.5 * (b->corner[0][0] + b->corner[2][0]),
        .y = 0.5 * (b->corner[0][1] + b->corner[2][1]),
        .xx = (u[0] * u[0] + v[0] * v[0]) / 12,
        .yy = (u[1] * u[1] + v[1] * v[1]) / 12,
        .xy = (u[0] * u[1] + v[0] * v[1]) / 12,
    };
}

/* 1 - the Hellinger distance of two oriented boxes (ProbIoU, arXiv 2106.06072),
 * as Ultralytics suppresses them. */
static double overlap_oriented(const struct task_box *a,
                               const struct task_box *b)
{
    const double tiny = 1e-7;
    const struct gaussian p = gaussian_of(a), q = gaussian_of(b);
    const double xx = p.xx + q.xx, yy = p.yy + q.yy, xy = p.xy + q.xy;
    const double dx = p.x - q.x, dy = p.y - q.y;
    const double det = xx * yy - xy * xy;
    const double own =
        fmax(p.xx * p.yy - p.xy * p.xy, 0) * fmax(q.xx * q.yy - q.xy * q.xy, 0);
    const double far =
        (xx * dy * dy + yy * dx * dx - 2 * xy * dx * dy) / (det + tiny) / 4;
    const double unlike = log(det / (4 * sqrt(own) + tiny) + tiny) / 2;
    const double distance = fmin(fmax(far + unlike, tiny), 100);

    return 1 - sqrt(1 - exp(-distance) + tiny);
}

/* True if box i overlaps an earlier one of its class, of which `kept` have been
 * moved to the front. */
static bool is_covered(const struct task_boxes *b, int i, int kept, double iou)
{
    for (int k = 0; k < kept; k++)
        if (b->box[k].label == b->box[i].label &&
            overlap(&b->box[k], &b->box[i]) > iou)
            return true;
    return false;
}

/* Of oriented boxes those that are dropped drop others, too. */
static bool is_covered_oriented(const struct task_boxes *b, int i, double iou)
{
    for (int k = 0; k < i; k++)
        if (b->box[k].label == b->box[i].label &&
            overlap_oriented(&b->box[k], &b->box[i]) > iou)
            return true;
    return false;
}

/* Greedy non-maximum suppression within each class; of oriented boxes the kind
 * without order (Ultralytics' fast_nms). */
static void suppress(struct task_boxes *b, double iou)
{
    int kept = 0;

    if (b->count > MAX_BOXES)
        b->count = MAX_BOXES;
    /* From the last on, so that the earlier ones still stand. */
    for (int i = b->count - 1; i >= 0 && b->box[i].oriented; i--)
        if (is_covered_oriented(b, i, iou))
            b->box[i].score = -1;
    for (int i = 0; i < b->count; i++)
        if (b->box[i].oriented ? b->box[i].score >= 0
                               : !is_covered(b, i, kept, iou))
            b->box[kept++] = b->box[i];
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
    if (d->suppress && !list.chosen)
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
        for (int k = 0; b->oriented && k < 4; k++) {
            b->corner[k][0] = (float)((b->corner[k][0] + w->left) * w->per_x);
            b->corner[k][1] = (float)((b->corner[k][1] + w->top) * w->per_y);
        }
        for (int k = 0; k < b->n_points; k++) {
            b->point[k][0] = (float)((b->point[k][0] + w->left) * w->per_x);
            b->point[k][1] = (float)((b->point[k][1] + w->top) * w->per_y);
        }
    }
}
