/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of detectors that leave a grid for each stride. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "libinfer/task/decoder.h"

/* ---- YuNet --------------------------------------------------------- */

/* The four outputs of one stride. */
struct yunet {
    int64_t width, height; /* cells */
    struct task_entry cls, obj, box, points;
};

static bool yunet_part(const struct task_outputs *o, const char *word,
                       int stride, int64_t rows, int64_t columns,
                       struct task_entry *e)
{
    char name[32];

    snprintf(name, sizeof name, "%s_%d", word, stride);
    for (int i = 0; i < o->count; i++)
        if (o->array[i].name && strcmp(o->array[i].name, name) == 0)
            return task_entry(o, i, 2, e) && e->dim[0] == rows &&
                   e->dim[1] == columns;
    return false;
}

static bool yunet_read(const struct task_outputs *o, int stride,
                       struct yunet *y)
{
    y->width = o->width / stride;
    y->height = o->height / stride;
    const int64_t rows = y->width * y->height;

    return yunet_part(o, "cls", stride, rows, 1, &y->cls) &&
           yunet_part(o, "obj", stride, rows, 1, &y->obj) &&
           yunet_part(o, "bbox", stride, rows, 4, &y->box) &&
           yunet_part(o, "kps", stride, rows, 10, &y->points);
}

bool yunet_fits(const struct task_outputs *o)
{
    struct yunet y;

    return yunet_read(o, 8, &y) && yunet_read(o, 16, &y) &&
           yunet_read(o, 32, &y);
}

/* Score: geometric mean of class and objectness (OpenCV's FaceDetectorYN). */
bool yunet_decode(const struct task_outputs *o, struct box_list *list)
{
    struct yunet y;

    for (int stride = 8; stride <= 32; stride *= 2) {
        if (!yunet_read(o, stride, &y))
            return false;
        for (int64_t i = 0; i < y.width * y.height; i++) {
            const double c = fmin(fmax(entry_at(&y.cls, i), 0), 1);
            const double f = fmin(fmax(entry_at(&y.obj, i), 0), 1);
            const double col = (double)(i % y.width);
            const double row = (double)(i / y.width);
            struct task_box *b = box_add(list, sqrt(c * f), 0);

            if (!b)
                continue;
            box_centred(b, (col + entry_at(&y.box, 4 * i)) * stride,
                        (row + entry_at(&y.box, 4 * i + 1)) * stride,
                        exp(entry_at(&y.box, 4 * i + 2)) * stride,
                        exp(entry_at(&y.box, 4 * i + 3)) * stride);
            b->n_points = 5;
            for (int k = 0; k < 5; k++) {
                const int64_t at = 10 * i + 2 * k;

                b->point[k][0] =
                    (float)((col + entry_at(&y.points, at)) * stride);
                b->point[k][1] =
                    (float)((row + entry_at(&y.points, at + 1)) * stride);
            }
        }
    }
    return true;
}

/* ---- YuNet of 2021 ------------------------------------------------- */

/* Its priors: squares of these pixels at every cell of four strides. */
static const struct {
    int stride, count, side[3];
} yunet_priors[] = {{8, 3, {10, 16, 24}},
                    {16, 2, {32, 48}},
                    {32, 2, {64, 96}},
                    {64, 3, {128, 192, 256}}};

#define N_YUNET_PRIORS (sizeof yunet_priors / sizeof *yunet_priors)

/* Cells of a side: halved, rounded up at first and down then. */
static int64_t yunet_cells(int64_t side, int stride)
{
    return (side + 1) / 2 / (stride / 2);
}

static bool yunet2021_read(const struct task_outputs *o,
                           struct task_entry part[3])
{
    static const char *const name[] = {"loc", "conf", "iou"};
    static const int columns[] = {14, 2, 1};
    int64_t rows = 0;

    for (size_t k = 0; k < N_YUNET_PRIORS; k++)
        rows += yunet_priors[k].count *
                yunet_cells(o->width, yunet_priors[k].stride) *
                yunet_cells(o->height, yunet_priors[k].stride);
    for (int i = 0; i < 3; i++)
        if (i >= o->count || !o->array[i].name ||
            strcmp(o->array[i].name, name[i]) != 0 ||
            !task_entry(o, i, 2, &part[i]) || part[i].dim[0] != rows ||
            part[i].dim[1] != columns[i])
            return false;
    return true;
}

bool yunet2021_fits(const struct task_outputs *o)
{
    struct task_entry part[3];

    return yunet2021_read(o, part);
}

/* The face of row i, whose prior has its centre at x, y. */
static void yunet2021_add(const struct task_entry part[3], int64_t i, double x,
                          double y, double side, struct box_list *list)
{
    const double iou = fmin(fmax(entry_at(&part[2], i), 0), 1);
    struct task_box *b =
        box_add(list, sqrt(fmax(entry_at(&part[1], 2 * i + 1), 0) * iou), 0);

    if (!b)
        return;
    i *= 14;
    /* Variances 0.1 and 0.2, as OpenCV's FaceDetectorYN 4.5 reads them. */
    box_centred(b, x + 0.1 * side * entry_at(&part[0], i),
                y + 0.1 * side * entry_at(&part[0], i + 1),
                side * exp(0.1 * entry_at(&part[0], i + 2)),
                side * exp(0.2 * entry_at(&part[0], i + 3)));
    b->n_points = 5;
    for (int k = 0; k < 5; k++) {
        b->point[k][0] =
            (float)(x + 0.1 * side * entry_at(&part[0], i + 4 + 2 * k));
        b->point[k][1] =
            (float)(y + 0.1 * side * entry_at(&part[0], i + 5 + 2 * k));
    }
}

bool yunet2021_decode(const struct task_outputs *o, struct box_list *list)
{
    struct task_entry part[3];
    int64_t i = 0;

    if (!yunet2021_read(o, part))
        return false;
    for (size_t k = 0; k < N_YUNET_PRIORS; k++) {
        const int stride = yunet_priors[k].stride;
        const int64_t width = yunet_cells(o->width, stride);

        for (int64_t c = 0; c < width * yunet_cells(o->height, stride); c++)
            for (int p = 0; p < yunet_priors[k].count; p++)
                yunet2021_add(part, i++, ((double)(c % width) + 0.5) * stride,
                              ((double)(c / width) + 0.5) * stride,
                              yunet_priors[k].side[p], list);
    }
    return true;
}

/* ---- NanoDet ------------------------------------------------------- */

/* Scores and distances of one stride, which stand beside each other. */
struct nanodet {
    int64_t width, height, bins;
    struct task_entry cls, distance;
};

/* The grid of a stride that begins at output i.  A picture's sides need not be
 * multiples of the stride: grids are rounded up. */
static bool nanodet_read(const struct task_outputs *o, int i, int stride,
                         struct nanodet *g)
{
    g->width = (o->width + stride - 1) / stride;
    g->height = (o->height + stride - 1) / stride;
    if (i + 1 >= o->count || !task_entry(o, i, 2, &g->cls) ||
        !task_entry(o, i + 1, 2, &g->distance))
        return false;
    g->bins = g->distance.dim[1] / 4;
    return g->cls.dim[0] == g->width * g->height &&
           g->distance.dim[0] == g->cls.dim[0] && g->bins > 1 &&
           g->distance.dim[1] == 4 * g->bins && g->cls.dim[1] > 0;
}

bool nanodet_fits(const struct task_outputs *o)
{
    struct nanodet g;

    if (o->count < 6 || o->count > 8 || o->count % 2)
        return false;
    for (int i = 0, stride = 8; i < o->count; i += 2, stride *= 2)
        if (!nanodet_read(o, i, stride, &g))
            return false;
    return true;
}

/* Expectation of a distance under the softmax of its bins (Li et al.,
 * Generalized Focal Loss, arXiv:2006.04388), in strides. */
static double expected(const struct task_entry *e, int64_t first, int64_t bins)
{
    double best, sum = 0, mean = 0;

    (void)entry_best(e, first, 1, bins, &best);
    for (int64_t k = 0; k < bins; k++) {
        const double p = exp(entry_at(e, first + k) - best);

        sum += p;
        mean += p * (double)k;
    }
    return mean / sum;
}

bool nanodet_decode(const struct task_outputs *o, struct box_list *list)
{
    struct nanodet g;

    for (int i = 0, stride = 8; i < o->count; i += 2, stride *= 2) {
        if (!nanodet_read(o, i, stride, &g))
            return false;
        for (int64_t k = 0; k < g.width * g.height; k++) {
            double best, d[4];
            const int label =
                entry_best(&g.cls, k * g.cls.dim[1], 1, g.cls.dim[1], &best);
            const double x = ((double)(k % g.width) + 0.5) * stride;
            const double y = ((double)(k / g.width) + 0.5) * stride;
            struct task_box *b = box_add(list, best, label);

            if (!b)
                continue;
            for (int side = 0; side < 4; side++)
                d[side] = stride * expected(&g.distance,
                                            (4 * k + side) * g.bins, g.bins);
            box_corners(b, x - d[0], y - d[1], x + d[2], y + d[3]);
        }
    }
    return true;
}

/* ---- Darknet ------------------------------------------------------- */

#define MAX_ANCHORS 32

/* One head: "SCALE*W,H,W,H" of the task's detail. */
struct head {
    double scale;
    int n;
    double anchor[MAX_ANCHORS][2];
};

/* Reads the next head; false at the end, or where it is malformed. */
static bool next_head(const char **text, struct head *h)
{
    char *end;

    if (!**text)
        return false;
    h->scale = strtod(*text, &end);
    if (*end != '*' || !isfinite(h->scale))
        return false;
    for (h->n = 0; h->n < MAX_ANCHORS && (*end == '*' || *end == ','); h->n++) {
        h->anchor[h->n][0] = strtod(end + 1, &end);
        if (*end != ',')
            return false;
        h->anchor[h->n][1] = strtod(end + 1, &end);
    }
    *text = *end == '/' ? end + 1 : end;
    return h->n > 0 && (*end == '\0' || (*end == '/' && end[1]));
}

/* Without the anchors nothing tells them from other planes. */
bool darknet_fits(const struct task_outputs *o)
{
    (void)o;
    return false;
}

/* The boxes of one anchor, whose planes begin at `first` (Redmon and Farhadi,
 * YOLOv3, arXiv:1804.02767; the scale of offsets is YOLOv4's). */
static void darknet_anchor(const struct task_outputs *o,
                           const struct task_entry *e, int64_t first,
                           int64_t classes, const double side[2], double scale,
                           struct box_list *list)
{
    const int64_t h = e->dim[1], w = e->dim[2], plane = h * w;

    for (int64_t i = 0; i < plane; i++) {
        const int64_t at = first + i;
        double best, x, y;
        const int label = entry_best(e, at + 5 * plane, plane, classes, &best);
        struct task_box *b = box_add(
            list, sigmoid(best) * sigmoid(entry_at(e, at + 4 * plane)), label);

        if (!b)
            continue;
        x = (sigmoid(entry_at(e, at)) - 0.5) * scale + 0.5;
        y = (sigmoid(entry_at(e, at + plane)) - 0.5) * scale + 0.5;
        box_centred(b, ((double)(i % w) + x) / (double)w * (double)o->width,
                    ((double)(i / w) + y) / (double)h * (double)o->height,
                    exp(entry_at(e, at + 2 * plane)) * side[0],
                    exp(entry_at(e, at + 3 * plane)) * side[1]);
    }
}

bool darknet_decode(const struct task_outputs *o, struct box_list *list)
{
    const char *text = o->detail ? o->detail : "";
    struct task_entry e;
    struct head head;

    for (int i = 0; i < o->count; i++) {
        if (!next_head(&text, &head) || !task_entry(o, i, 3, &e) ||
            e.dim[0] % head.n || e.dim[0] / head.n < 6)
            return false;
        const int64_t planes = e.dim[0] / head.n;

        for (int k = 0; k < head.n; k++)
            darknet_anchor(o, &e, k * planes * e.dim[1] * e.dim[2], planes - 5,
                           head.anchor[k], head.scale, list);
    }
    return !*text; /* as many heads as outputs */
}

/* ---- FastestDet ---------------------------------------------------- */

static bool fastestdet_read(const struct task_outputs *o, struct task_entry *e)
{
    return o->count == 1 && task_entry(o, 0, 3, e) && e->dim[0] > 5 &&
           scalar_is_float(e->array->dtype);
}

/* Its shape is also that of a coarse map of classes. */
bool fastestdet_fits(const struct task_outputs *o)
{
    (void)o;
    return false;
}

/* Planes: objectness, tanh of the centre's offset in cells, sigmoid of the
 * relative sides, class probabilities. */
bool fastestdet_decode(const struct task_outputs *o, struct box_list *list)
{
    struct task_entry e;

    if (!fastestdet_read(o, &e))
        return false;
    const int64_t h = e.dim[1], w = e.dim[2], plane = h * w;

    for (int64_t i = 0; i < plane; i++) {
        double best;
        const int label =
            entry_best(&e, i + 5 * plane, plane, e.dim[0] - 5, &best);
        const double score =
            pow(fmax(entry_at(&e, i), 0), 0.6) * pow(fmax(best, 0), 0.4);
        struct task_box *b = box_add(list, score, label);

        if (b)
            box_centred(b,
                        ((double)(i % w) + tanh(entry_at(&e, i + plane))) /
                            (double)w * (double)o->width,
                        ((double)(i / w) + tanh(entry_at(&e, i + 2 * plane))) /
                            (double)h * (double)o->height,
                        sigmoid(entry_at(&e, i + 3 * plane)) * (double)o->width,
                        sigmoid(entry_at(&e, i + 4 * plane)) *
                            (double)o->height);
    }
    return true;
}
