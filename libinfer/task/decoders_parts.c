/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of YOLO v8 and later whose boxes have masks, points or an angle.  A
 * head is either one anchor a column (x y width height, a score for each class,
 * then `more` numbers), or one chosen box a row (left top right bottom, score,
 * class, then the same numbers), as exports with the suppression inside have.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "kernels/base/scalar.h"
#include "libinfer/task/decoder.h"

/* Chosen boxes of a picture. */
#define MIN_CHOSEN 10
#define MAX_CHOSEN 1000

struct yolo {
    struct task_entry e;
    int64_t n;           /* boxes */
    int64_t field, step; /* from a number of a box to the next, between boxes */
    int64_t classes;     /* scores of a box; 0: chosen boxes */
    int64_t more;        /* index of the first number behind */
};

/* The first output as a head with `more` numbers a box. */
static bool yolo_read(const struct task_outputs *o, int64_t more,
                      struct yolo *y)
{
    if (o->count < 1 || !task_entry(o, 0, 2, &y->e) ||
        !scalar_is_float(y->e.array->dtype))
        return false;
    const int64_t rows = y->e.dim[0], columns = y->e.dim[1];

    if (columns == 6 + more && rows >= MIN_CHOSEN && rows <= MAX_CHOSEN) {
        y->n = rows;
        y->field = 1;
        y->step = columns;
        y->classes = 0;
        y->more = 6;
        return true;
    }
    y->n = columns;
    y->field = columns;
    y->step = 1;
    y->classes = rows - 4 - more;
    y->more = rows - more;
    return y->classes > 0 && y->n > 0;
}

static double yolo_at(const struct yolo *y, int64_t box, int64_t field)
{
    return entry_at(&y->e, box * y->step + field * y->field);
}

/* A box whose score is large enough, or NULL.  `oriented`: chosen boxes have
 * their centre and sides, too. */
static struct task_box *yolo_box(const struct yolo *y, int64_t i, bool oriented,
                                 struct box_list *list)
{
    const double x[4] = {yolo_at(y, i, 0), yolo_at(y, i, 1), yolo_at(y, i, 2),
                         yolo_at(y, i, 3)};
    struct task_box *b;

    if (y->classes > 0) {
        double best;
        const int label = entry_best(&y->e, i * y->step + 4 * y->field,
                                     y->field, y->classes, &best);

        b = box_add(list, best, label);
    } else {
        list->chosen = true;
        b = box_add(list, yolo_at(y, i, 4), class_of(yolo_at(y, i, 5)));
    }
    if (b && (y->classes > 0 || oriented))
        box_centred(b, x[0], x[1], x[2], x[3]);
    else if (b)
        box_corners(b, x[0], x[1], x[2], x[3]);
    return b;
}

/* ---- masks --------------------------------------------------------- */

/* The maps that a box's mask is a weighted sum of. */
static bool prototypes(const struct task_outputs *o, struct task_entry *e)
{
    return o->count == 2 && task_entry(o, 1, 3, e) &&
           scalar_is_float(e->array->dtype) && e->dim[0] > 0 &&
           e->dim[0] <= TASK_MAX_COEFS && e->dim[1] > 0 && e->dim[2] > 0;
}

bool yoloseg_fits(const struct task_outputs *o)
{
    struct task_entry e;
    struct yolo y;

    return prototypes(o, &e) && e.dim[0] == TASK_MAX_COEFS &&
           yolo_read(o, e.dim[0], &y) && (y.classes == 0 || cells_fit(o, y.n));
}

bool yoloseg_decode(const struct task_outputs *o, struct box_list *list)
{
    struct task_entry e;
    struct yolo y;

    if (!prototypes(o, &e) || !yolo_read(o, e.dim[0], &y))
        return false;
    for (int64_t i = 0; i < y.n; i++) {
        struct task_box *b = yolo_box(&y, i, false, list);

        if (!b)
            continue;
        b->n_coefs = (int)e.dim[0];
        for (int k = 0; k < b->n_coefs; k++)
            b->coef[k] = (float)yolo_at(&y, i, y.more + k);
    }
    return true;
}

bool box_prototypes(const struct task_outputs *o, const struct task_box *b,
                    struct task_entry *e)
{
    return b->n_coefs > 0 && prototypes(o, e) && e->dim[0] == b->n_coefs;
}

/* ---- points -------------------------------------------------------- */

/* Points and numbers of each (x, y and maybe a score) of the detail "17x3". */
static bool point_shape(const struct task_outputs *o, int shape[2])
{
    int end = 0;

    shape[0] = 17;
    shape[1] = 3;
    if (!o->detail)
        return true;
    return sscanf(o->detail, "%3dx%1d%n", &shape[0], &shape[1], &end) == 2 &&
           !o->detail[end] && shape[0] > 0 && shape[0] <= TASK_MAX_POINTS &&
           (shape[1] == 2 || shape[1] == 3);
}

/* One class and the 17 points of COCO's persons. */
bool yolopose_fits(const struct task_outputs *o)
{
    struct yolo y;

    return o->count == 1 && yolo_read(o, 51, &y) &&
           (y.classes == 0 || (y.classes == 1 && cells_fit(o, y.n)));
}

bool yolopose_decode(const struct task_outputs *o, struct box_list *list)
{
    struct yolo y;
    int shape[2];

    if (!point_shape(o, shape) || !yolo_read(o, shape[0] * shape[1], &y))
        return false;
    for (int64_t i = 0; i < y.n; i++) {
        struct task_box *b = yolo_box(&y, i, false, list);

        if (!b)
            continue;
        b->n_points = shape[0];
        b->point_scores = shape[1] == 3;
        for (int k = 0; k < shape[0]; k++)
            for (int c = 0; c < shape[1]; c++)
                b->point[k][c] =
                    (float)yolo_at(&y, i, y.more + k * shape[1] + c);
    }
    return true;
}

/* ---- angles -------------------------------------------------------- */

/* Its shape is also that of one class more. */
bool yoloobb_fits(const struct task_outputs *o)
{
    (void)o;
    return false;
}

/* The angle (radians) turns the box about its centre, x towards y. */
bool yoloobb_decode(const struct task_outputs *o, struct box_list *list)
{
    static const double sign[4][2] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}};
    struct yolo y;

    if (!yolo_read(o, 1, &y))
        return false;
    for (int64_t i = 0; i < y.n; i++) {
        struct task_box *b = yolo_box(&y, i, true, list);

        if (!b)
            continue;
        const double angle = yolo_at(&y, i, y.more);
        const double half[2] = {yolo_at(&y, i, 2) / 2, yolo_at(&y, i, 3) / 2};

        b->oriented = true;
        for (int k = 0; k < 4; k++) {
            const double u = sign[k][0] * half[0], v = sign[k][1] * half[1];

            b->corner[k][0] =
                (float)(yolo_at(&y, i, 0) + u * cos(angle) - v * sin(angle));
            b->corner[k][1] =
                (float)(yolo_at(&y, i, 1) + u * sin(angle) + v * cos(angle));
        }
        box_around(b);
    }
    return true;
}
