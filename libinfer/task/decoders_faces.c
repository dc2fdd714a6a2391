/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of detectors of faces, palms and persons: boxes with landmarks relative
 * to anchors or cells that no output holds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "libinfer/task/decoder.h"

/* Whether an element is no probability: then all are logits. */
static bool has_logits(const struct task_entry *e, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (entry_at(e, i) < 0 || entry_at(e, i) > 1)
            return true;
    return false;
}

/* ---- SCRFD --------------------------------------------------------- */

#define SCRFD_STRIDES 3 /* 8, 16, 32 */
#define SCRFD_POINTS  5

/* An output of one stride with `columns` numbers an anchor: rows of cells and
 * anchors, or planes of anchors and columns. */
struct scrfd_part {
    struct task_entry e;
    bool planes;
    int columns;
};

struct scrfd {
    int64_t width, height; /* cells */
    int anchors;
    struct scrfd_part score, box, points; /* points.columns may be 0 */
};

static bool scrfd_part(const struct task_outputs *o, const struct scrfd *s,
                       int columns, struct scrfd_part *out)
{
    const int64_t cells = s->width * s->height;

    out->columns = 0;
    for (int i = 0; i < o->count; i++) {
        struct task_entry *e = &out->e;

        if (!scalar_is_float(o->array[i].dtype))
            continue;
        out->planes = task_entry(o, i, 3, e) && e->dim[1] == s->height &&
                      e->dim[2] == s->width &&
                      e->dim[0] == (int64_t)s->anchors * columns;
        if (out->planes ||
            (task_entry(o, i, 2, e) && e->dim[0] == cells * s->anchors &&
             e->dim[1] == columns)) {
            out->columns = columns;
            return true;
        }
    }
    return false;
}

/* The outputs of a stride; false where they are not there. */
static bool scrfd_read(const struct task_outputs *o, int stride, int anchors,
                       struct scrfd *s)
{
    s->width = (o->width + stride - 1) / stride;
    s->height = (o->height + stride - 1) / stride;
    s->anchors = anchors;
    if (!scrfd_part(o, s, 1, &s->score) || !scrfd_part(o, s, 4, &s->box))
        return false;
    return scrfd_part(o, s, 2 * SCRFD_POINTS, &s->points) ||
           o->count == 2 * SCRFD_STRIDES;
}

/* Anchors a cell, 2 or 1; 0 where the outputs are others. */
static int scrfd_anchors(const struct task_outputs *o)
{
    if (o->count != 2 * SCRFD_STRIDES && o->count != 3 * SCRFD_STRIDES)
        return 0;
    for (int anchors = 2; anchors > 0; anchors--) {
        struct scrfd s;
        int found = 0;

        while (found < SCRFD_STRIDES && scrfd_read(o, 8 << found, anchors, &s))
            found++;
        if (found == SCRFD_STRIDES)
            return anchors;
    }
    return 0;
}

bool scrfd_fits(const struct task_outputs *o)
{
    return scrfd_anchors(o) > 0;
}

static double scrfd_at(const struct scrfd_part *p, const struct scrfd *s,
                       int64_t cell, int anchor, int column)
{
    const int64_t plane = (int64_t)anchor * p->columns + column;

    return entry_at(
        &p->e, p->planes ? plane * s->width * s->height + cell
                         : (cell * s->anchors + anchor) * p->columns + column);
}

/* Distances of the sides and landmarks from the cell's upper left corner, in
 * strides (Guo et al., SCRFD, arXiv:2105.04714). */
bool scrfd_decode(const struct task_outputs *o, struct box_list *list)
{
    const int anchors = scrfd_anchors(o);
    struct scrfd s;

    for (int k = 0; k < SCRFD_STRIDES; k++) {
        const int stride = 8 << k;

        if (anchors == 0 || !scrfd_read(o, stride, anchors, &s))
            return false;
        const int64_t cells = s.width * s.height;
        const bool logits = has_logits(&s.score.e, cells * anchors);

        for (int64_t i = 0; i < cells * anchors; i++) {
            const int64_t cell = i / anchors;
            const int a = (int)(i % anchors);
            const double x = (double)(cell % s.width) * stride;
            const double y = (double)(cell / s.width) * stride;
            const double raw = scrfd_at(&s.score, &s, cell, a, 0);
            struct task_box *b = box_add(list, logits ? sigmoid(raw) : raw, 0);

            if (!b)
                continue;
            box_corners(b, x - stride * scrfd_at(&s.box, &s, cell, a, 0),
                        y - stride * scrfd_at(&s.box, &s, cell, a, 1),
                        x + stride * scrfd_at(&s.box, &s, cell, a, 2),
                        y + stride * scrfd_at(&s.box, &s, cell, a, 3));
            b->n_points = s.points.columns / 2;
            for (int c = 0; c < s.points.columns; c++)
                b->point[c / 2][c % 2] =
                    (float)((c % 2 ? y : x) +
                            stride * scrfd_at(&s.points, &s, cell, a, c));
        }
    }
    return true;
}

/* ---- RetinaFace ---------------------------------------------------- */

#define MAX_SIDES 4 /* anchors a cell */

/* Sides of the anchors of strides 8, 16 and 32: "16,32/64,128/256,512". */
struct retina_anchors {
    int count[3];
    double side[3][MAX_SIDES];
};

static bool retina_sides(const char *text, struct retina_anchors *a)
{
    const char *at = text ? text : "16,32/64,128/256,512";

    for (int k = 0; k < 3; k++) {
        for (a->count[k] = 0; a->count[k] < MAX_SIDES;) {
            char *end;
            const double side = strtod(at, &end);

            if (end == at || !(side > 0) || !isfinite(side))
                return false;
            a->side[k][a->count[k]++] = side;
            at = end;
            if (*at != ',')
                break;
            at++;
        }
        if (*at != (k < 2 ? '/' : '\0'))
            return false;
        at += k < 2;
    }
    return true;
}

/* Boxes (P,4), background and face (P,2) and landmarks (P,10), in any order. */
static bool retina_read(const struct task_outputs *o, struct retina_anchors *a,
                        struct task_entry part[3])
{
    int64_t rows = 0;
    int found = 0;

    if (o->count != 3 || !retina_sides(o->detail, a))
        return false;
    for (int k = 0; k < 3; k++) {
        const int stride = 8 << k;

        rows += a->count[k] * ((o->width + stride - 1) / stride) *
                ((o->height + stride - 1) / stride);
    }
    for (int i = 0; i < 3; i++) {
        struct task_entry e;

        if (!task_entry(o, i, 2, &e) || e.dim[0] != rows ||
            !scalar_is_float(e.array->dtype))
            return false;
        const int which = e.dim[1] == 4    ? 0
                          : e.dim[1] == 2  ? 1
                          : e.dim[1] == 10 ? 2
                                           : -1;

        if (which < 0)
            return false;
        part[which] = e;
        found |= 1 << which;
    }
    return found == 7;
}

bool retinaface_fits(const struct task_outputs *o)
{
    struct retina_anchors a;
    struct task_entry part[3];

    return retina_read(o, &a, part);
}

/* The face of row i, whose square anchor has its centre at x, y.  Variances 0.1
 * and 0.2, as SSD has them (Deng et al., RetinaFace, arXiv:1905.00641). */
static void retina_add(const struct task_entry part[3], int64_t i, double x,
                       double y, double side, bool logits,
                       struct box_list *list)
{
    const double none = entry_at(&part[1], 2 * i);
    const double face = entry_at(&part[1], 2 * i + 1);
    struct task_box *b = box_add(list, logits ? sigmoid(face - none) : face, 0);

    if (!b)
        return;
    box_centred(b, x + 0.1 * side * entry_at(&part[0], 4 * i),
                y + 0.1 * side * entry_at(&part[0], 4 * i + 1),
                side * exp(0.2 * entry_at(&part[0], 4 * i + 2)),
                side * exp(0.2 * entry_at(&part[0], 4 * i + 3)));
    b->n_points = 5;
    for (int c = 0; c < 10; c++)
        b->point[c / 2][c % 2] =
            (float)((c % 2 ? y : x) +
                    0.1 * side * entry_at(&part[2], 10 * i + c));
}

bool retinaface_decode(const struct task_outputs *o, struct box_list *list)
{
    struct retina_anchors a;
    struct task_entry part[3];
    int64_t i = 0;

    if (!retina_read(o, &a, part))
        return false;
    const bool logits = has_logits(&part[1], 2 * part[1].dim[0]);

    for (int k = 0; k < 3; k++) {
        const int stride = 8 << k;
        const int64_t width = (o->width + stride - 1) / stride;
        const int64_t height = (o->height + stride - 1) / stride;

        for (int64_t c = 0; c < width * height; c++)
            for (int n = 0; n < a.count[k]; n++)
                retina_add(part, i++, ((double)(c % width) + 0.5) * stride,
                           ((double)(c / width) + 0.5) * stride, a.side[k][n],
                           logits, list);
    }
    return true;
}

/* ---- MediaPipe ----------------------------------------------------- */

/* Anchors a cell of the strides 4, 8, 16 and 32: full range faces, short range
 * faces and palms, long range faces, persons. */
static const int blaze_anchors[][4] = {
    {1, 0, 0, 0}, {0, 2, 6, 0}, {0, 0, 2, 6}, {0, 2, 2, 6}};

#define N_BLAZE (sizeof blaze_anchors / sizeof *blaze_anchors)

/* Boxes with 4, 6 or 7 points (P,4+2k), and scores (P,1).  NULL where the
 * outputs are others. */
static const int *blaze_read(const struct task_outputs *o,
                             struct task_entry *box, struct task_entry *score)
{
    struct task_entry e[2];

    if (o->count != 2 || !task_entry(o, 0, 2, &e[0]) ||
        !task_entry(o, 1, 2, &e[1]) || e[0].dim[0] != e[1].dim[0] ||
        !scalar_is_float(e[0].array->dtype) ||
        !scalar_is_float(e[1].array->dtype))
        return NULL;
    const int first = e[0].dim[1] == 1 ? 1 : 0;

    *box = e[first];
    *score = e[1 - first];
    if (score->dim[1] != 1 ||
        (box->dim[1] != 12 && box->dim[1] != 16 && box->dim[1] != 18))
        return NULL;
    for (size_t k = 0; k < N_BLAZE; k++) {
        int64_t rows = 0;

        for (int s = 0; s < 4; s++)
            rows += blaze_anchors[k][s] * (o->width / (4 << s)) *
                    (o->height / (4 << s));
        if (rows == box->dim[0])
            return blaze_anchors[k];
    }
    return NULL;
}

bool blazeface_fits(const struct task_outputs *o)
{
    struct task_entry box, score;

    return blaze_read(o, &box, &score) != NULL;
}

/* Offsets in pixels from the cell's centre; sides in pixels (Bazarevsky et al.,
 * BlazeFace, arXiv:1907.05047). */
bool blazeface_decode(const struct task_outputs *o, struct box_list *list)
{
    struct task_entry e, score;
    const int *const anchors = blaze_read(o, &e, &score);
    int64_t i = 0;

    if (anchors == NULL)
        return false;
    const int columns = (int)e.dim[1];
    const bool logits = has_logits(&score, score.dim[0]);

    for (int s = 0; s < 4; s++) {
        const int stride = 4 << s;
        const int64_t width = o->width / stride;
        const int64_t n = anchors[s] * width * (o->height / stride);

        for (int64_t k = 0; k < n; k++, i++) {
            const int64_t cell = k / anchors[s];
            const double x = ((double)(cell % width) + 0.5) * stride;
            const double y = ((double)(cell / width) + 0.5) * stride;
            const double raw = entry_at(&score, i);
            struct task_box *b = box_add(list, logits ? sigmoid(raw) : raw, 0);

            if (!b)
                continue;
            box_centred(b, x + entry_at(&e, i * columns),
                        y + entry_at(&e, i * columns + 1),
                        entry_at(&e, i * columns + 2),
                        entry_at(&e, i * columns + 3));
            b->n_points = (columns - 4) / 2;
            for (int c = 4; c < columns; c++)
                b->point[c / 2 - 2][c % 2] =
                    (float)((c % 2 ? y : x) + entry_at(&e, i * columns + c));
        }
    }
    return true;
}

/* ---- centres ------------------------------------------------------- */

/* Maps of one size: heat of each class, sides, offsets and perhaps landmarks.
 */
struct centres {
    int64_t width, height;
    struct task_entry heat, sides, offset, points;
};

static bool is_called(const struct infer_array *a, const char *const *words)
{
    for (int i = 0; a->name && words[i]; i++)
        if (strstr(a->name, words[i]))
            return true;
    return false;
}

static bool same_size(const struct task_entry *a, const struct task_entry *b)
{
    return a->dim[1] == b->dim[1] && a->dim[2] == b->dim[2];
}

/* The three maps of CenterNet by their names ("hm", "wh", "reg"); by their
 * order where the decoder was named (`stated`). */
static bool centres_read(const struct task_outputs *o, bool stated,
                         struct centres *c)
{
    static const char *const words[3][5] = {
        {"hm", "heat", "center", "cls", NULL},
        {"wh", "size", "scale", NULL},
        {"reg", "off", NULL},
    };
    static const int order[3] = {2, 1, 0};
    struct task_entry part[3];
    bool named = o->count == 3, taken[3] = {false};

    if (o->count != 3)
        return false;
    for (int k = 0; k < 3; k++) {
        int at = -1;

        /* "center_offset" has a word of the heat map too: each is one. */
        for (int i = 0; i < 3; i++)
            if (!taken[i] && is_called(&o->array[i], words[order[k]]))
                at = i;
        if (at >= 0)
            taken[at] = true;
        named = named && at >= 0 && task_entry(o, at, 3, &part[order[k]]);
    }
    for (int k = 0; k < 3 && !named; k++)
        if (!stated || !task_entry(o, k, 3, &part[k]))
            return false;
    *c = (struct centres){part[0].dim[2], part[0].dim[1], part[0],
                          part[1],        part[2],        {0}};
    return c->sides.dim[0] == 2 && c->offset.dim[0] == 2 &&
           same_size(&c->heat, &c->sides) && same_size(&c->heat, &c->offset) &&
           c->width > 1 && c->height > 1 && c->width <= o->width &&
           c->height <= o->height;
}

bool centernet_fits(const struct task_outputs *o)
{
    struct centres c;

    return centres_read(o, false, &c);
}

/* No neighbour of the same class has a larger score. */
static bool is_peak(const struct task_entry *heat, int64_t plane, int64_t x,
                    int64_t y)
{
    const int64_t h = heat->dim[1], w = heat->dim[2];
    const double own = entry_at(heat, (plane * h + y) * w + x);

    for (int64_t v = y > 0 ? y - 1 : 0; v <= y + 1 && v < h; v++)
        for (int64_t u = x > 0 ? x - 1 : 0; u <= x + 1 && u < w; u++)
            if (entry_at(heat, (plane * h + v) * w + u) > own)
                return false;
    return true;
}

/* Peaks of the heat; offsets and sides in cells (Zhou et al., Objects as
 * Points, arXiv:1904.07850). */
bool centernet_decode(const struct task_outputs *o, struct box_list *list)
{
    struct centres c;

    if (!centres_read(o, true, &c))
        return false;
    const int64_t n = c.width * c.height;
    const bool logits = has_logits(&c.heat, c.heat.dim[0] * n);
    const double per_x = (double)o->width / (double)c.width;
    const double per_y = (double)o->height / (double)c.height;

    for (int64_t k = 0; k < c.heat.dim[0] * n; k++) {
        const int64_t i = k % n, x = i % c.width, y = i / c.width;
        const double raw = entry_at(&c.heat, k);
        const double score = logits ? sigmoid(raw) : raw;

        if (!(score >= list->score) || !is_peak(&c.heat, k / n, x, y))
            continue;
        struct task_box *b = box_add(list, score, (int)(k / n));

        if (b)
            box_centred(b, ((double)x + entry_at(&c.offset, i)) * per_x,
                        ((double)y + entry_at(&c.offset, n + i)) * per_y,
                        entry_at(&c.sides, i) * per_x,
                        entry_at(&c.sides, n + i) * per_y);
    }
    return true;
}

/* Heat (1), logarithms of height and width (2), offsets in y and x (2) and
 * landmarks (10), in this order. */
static bool centerface_read(const struct task_outputs *o, struct centres *c)
{
    static const int planes[] = {1, 2, 2, 10};
    struct task_entry *const part[] = {&c->heat, &c->sides, &c->offset,
                                       &c->points};

    if (o->count != 4)
        return false;
    for (int i = 0; i < 4; i++)
        if (!task_entry(o, i, 3, part[i]) || part[i]->dim[0] != planes[i] ||
            !scalar_is_float(part[i]->array->dtype) ||
            !same_size(&c->heat, part[i]))
            return false;
    c->width = c->heat.dim[2];
    c->height = c->heat.dim[1];
    return c->width > 1 && c->height > 1 && c->width <= o->width &&
           c->height <= o->height;
}

bool centerface_fits(const struct task_outputs *o)
{
    struct centres c;

    return centerface_read(o, &c);
}

/* Sides in cells, landmarks relative to the box (Xu et al., CenterFace,
 * arXiv:1911.03599). */
bool centerface_decode(const struct task_outputs *o, struct box_list *list)
{
    struct centres c;

    if (!centerface_read(o, &c))
        return false;
    const int64_t n = c.width * c.height;
    const double per_x = (double)o->width / (double)c.width;
    const double per_y = (double)o->height / (double)c.height;

    for (int64_t i = 0; i < n; i++) {
        struct task_box *b = box_add(list, entry_at(&c.heat, i), 0);

        if (!b)
            continue;
        const double h = exp(entry_at(&c.sides, i)) * per_y;
        const double w = exp(entry_at(&c.sides, n + i)) * per_x;
        const double y =
            ((double)(i / c.width) + 0.5 + entry_at(&c.offset, i)) * per_y;
        const double x =
            ((double)(i % c.width) + 0.5 + entry_at(&c.offset, n + i)) * per_x;

        box_centred(b, x, y, w, h);
        b->n_points = 5;
        for (int k = 0; k < 5; k++) {
            b->point[k][0] =
                (float)(x - w / 2 +
                        w * entry_at(&c.points, (2 * k + 1) * n + i));
            b->point[k][1] =
                (float)(y - h / 2 + h * entry_at(&c.points, 2 * k * n + i));
        }
    }
    return true;
}
