/* SPDX-License-Identifier: Apache-2.0 */
/* COCO's average precision.  Each category is one pass: boxes and objects of an
 * image are matched, then all boxes of the category in order of their scores
 * make one curve of precision over recall for each threshold and size. */
#include "tools/infer/average_precision.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

#define THRESHOLDS 10
#define RECALLS    101
#define BEST       100 /* boxes of a category that count in an image */

static const double size_limit[AP_SIZES][2] = {
    {0, 1e10}, {0, 1024}, {1024, 9216}, {9216, 1e10}};
static const int best[3] = {1, 10, BEST};

/* A box of the category that counts. */
struct candidate {
    const struct ap_found *box;
    size_t order; /* equal scores keep the order of images, then of boxes */
    int rank;     /* of its image and category, from 0 */
    bool hit[AP_SIZES][THRESHOLDS], ignored[AP_SIZES][THRESHOLDS];
};

struct object {
    const struct ap_truth *truth;
    bool ignored, taken;
    size_t index; /* among the objects of the image as they are listed */
};

/* Memory of all passes. */
struct work {
    struct candidate *candidate;
    struct object *object;
    double *iou;       /* BEST x objects of an image */
    double *precision; /* of the curve */
    double *recall;
    double sum[AP_SIZES][THRESHOLDS]; /* precisions over categories */
    double recalled[AP_SIZES][THRESHOLDS][3];
    int counted[AP_SIZES];
};

/* numpy.linspace(.5, .95, 10) and linspace(0, 1, 101), bit for bit. */
static double threshold(int t)
{
    return t == THRESHOLDS - 1 ? 0.95 : t * ((0.95 - 0.5) / 9) + 0.5;
}

static double recall_at(int r)
{
    return r == RECALLS - 1 ? 1.0 : r * (1.0 / 100);
}

/* ---- order --------------------------------------------------------- */

static int by_place(int a_category, int a_image, int b_category, int b_image)
{
    if (a_category != b_category)
        return a_category < b_category ? -1 : 1;
    return a_image == b_image ? 0 : a_image < b_image ? -1 : 1;
}

static int truth_order(const void *a, const void *b)
{
    const struct ap_truth *x = *(const struct ap_truth *const *)a;
    const struct ap_truth *y = *(const struct ap_truth *const *)b;
    const int place = by_place(x->category, x->image, y->category, y->image);

    return place ? place : x < y ? -1 : x > y;
}

static int found_order(const void *a, const void *b)
{
    const struct ap_found *x = *(const struct ap_found *const *)a;
    const struct ap_found *y = *(const struct ap_found *const *)b;
    const int place = by_place(x->category, x->image, y->category, y->image);

    if (place != 0)
        return place;
    if (x->score > y->score || x->score < y->score)
        return x->score > y->score ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int candidate_order(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->box->score > y->box->score || x->box->score < y->box->score)
        return x->box->score > y->box->score ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Objects that are ignored come last. */
static int object_order(const void *a, const void *b)
{
    const struct object *x = a, *y = b;

    if (x->ignored != y->ignored)
        return x->ignored ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* ---- one image ----------------------------------------------------- */

/* Intersection over union; over the box itself where the object is a crowd. */
static double overlap(const double *d, const struct ap_truth *truth)
{
    const double *g = truth->box;
    const double w = fmin(d[2] + d[0], g[2] + g[0]) - fmax(d[0], g[0]);
    const double h = fmin(d[3] + d[1], g[3] + g[1]) - fmax(d[1], g[1]);
    const double own = d[2] * d[3];

    if (w <= 0 || h <= 0)
        return 0;
    return w * h / (truth->crowd ? own : own + g[2] * g[3] - w * h);
}

/* The object that a box finds: of those that are free (a crowd always is) the
 * one of the largest overlap, the last of equal ones; one that is ignored only
 * where no other fits.  NULL: none. */
static struct object *match(struct object *object, size_t n, const double *iou,
                            double least)
{
    struct object *found = NULL;

    for (size_t i = 0; i < n; i++) {
        struct object *o = &object[i];

        if (o->taken && !o->truth->crowd)
            continue;
        if (found != NULL && !found->ignored && o->ignored)
            break;
        if (iou[o->index] < least)
            continue;
        least = iou[o->index];
        found = o;
    }
    return found;
}

static bool outside(double area, int size)
{
    return area < size_limit[size][0] || area > size_limit[size][1];
}

static void match_size(struct work *w, struct candidate *c, size_t boxes,
                       size_t objects, int size)
{
    for (size_t i = 0; i < objects; i++) {
        struct object *o = &w->object[i];

        o->ignored = o->truth->crowd || outside(o->truth->area, size);
    }
    qsort(w->object, objects, sizeof *w->object, object_order);
    for (int t = 0; t < THRESHOLDS; t++) {
        for (size_t i = 0; i < objects; i++)
            w->object[i].taken = false;
        for (size_t d = 0; d < boxes; d++) {
            const double *box = c[d].box->box;
            struct object *o = match(w->object, objects, w->iou + d * objects,
                                     fmin(threshold(t), 1 - 1e-10));

            c[d].hit[size][t] = o != NULL;
            c[d].ignored[size][t] =
                o != NULL ? o->ignored : outside(box[2] * box[3], size);
            if (o != NULL)
                o->taken = true;
        }
    }
}

/* Matches boxes and objects of one category in one image. */
static void match_image(struct work *w, struct candidate *c, size_t boxes,
                        const struct ap_truth **truth, size_t objects)
{
    for (size_t i = 0; i < objects; i++)
        w->object[i] = (struct object){.truth = truth[i], .index = i};
    for (size_t d = 0; d < boxes; d++)
        for (size_t i = 0; i < objects; i++)
            w->iou[d * objects + i] = overlap(c[d].box->box, truth[i]);
    for (int size = 0; size < AP_SIZES; size++)
        match_size(w, c, boxes, objects, size);
}

/* ---- one category -------------------------------------------------- */

/* Mean precision at the 101 recalls; *last: the recall of all boxes. */
static double curve(struct work *w, size_t n, size_t objects, int size, int t,
                    int limit, double *last)
{
    size_t points = 0, at = 0;
    double hits = 0, misses = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        const struct candidate *c = &w->candidate[i];

        if (c->rank >= limit)
            continue;
        hits += c->hit[size][t] && !c->ignored[size][t];
        misses += !c->hit[size][t] && !c->ignored[size][t];
        w->recall[points] = hits / (double)objects;
        w->precision[points++] = hits / (misses + hits + DBL_EPSILON);
    }
    *last = points > 0 ? w->recall[points - 1] : 0;
    for (size_t i = points; i-- > 1;)
        if (w->precision[i] > w->precision[i - 1])
            w->precision[i - 1] = w->precision[i];
    for (int r = 0; r < RECALLS; r++) {
        while (at < points && w->recall[at] < recall_at(r))
            at++;
        sum += at < points ? w->precision[at] : 0;
    }
    return sum / RECALLS;
}

/* Adds a category's curves; its mean over the thresholds, -1: no objects. */
static double add_curves(struct work *w, size_t n, const size_t *objects)
{
    double mean = -1;

    qsort(w->candidate, n, sizeof *w->candidate, candidate_order);
    for (int size = 0; size < AP_SIZES; size++) {
        double all = 0;

        if (objects[size] == 0)
            continue;
        w->counted[size]++;
        for (int t = 0; t < THRESHOLDS; t++) {
            for (int k = 0; k < 3; k++) {
                double last;
                const double p =
                    curve(w, n, objects[size], size, t, best[k], &last);

                w->recalled[size][t][k] += last;
                if (best[k] != BEST)
                    continue;
                w->sum[size][t] += p;
                all += p;
            }
        }
        if (size == AP_ALL)
            mean = all / THRESHOLDS;
    }
    return mean;
}

/* Objects and boxes of a category, which both begin at these. */
static double measure(struct work *w, const struct ap_truth **truth,
                      size_t n_truth, const struct ap_found **found,
                      size_t n_found)
{
    size_t n = 0, objects[AP_SIZES] = {0};

    for (size_t i = 0; i < n_truth; i++)
        for (int size = 0; size < AP_SIZES; size++)
            objects[size] += !truth[i]->crowd && !outside(truth[i]->area, size);
    for (size_t i = 0, t = 0; i < n_found;) {
        const int image = found[i]->image;
        const size_t first = n;
        size_t end, objects_end;

        for (end = i; end < n_found && found[end]->image == image; end++)
            if (end - i < BEST) {
                w->candidate[n] = (struct candidate){
                    .box = found[end], .order = n, .rank = (int)(end - i)};
                n++;
            }
        while (t < n_truth && truth[t]->image < image)
            t++;
        for (objects_end = t;
             objects_end < n_truth && truth[objects_end]->image == image;)
            objects_end++;
        match_image(w, w->candidate + first, n - first, truth + t,
                    objects_end - t);
        t = objects_end;
        i = end;
    }
    return add_curves(w, n, objects);
}

/* ---- all of them --------------------------------------------------- */

static double mean_of(const double *value, size_t step, int n, int categories)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += value[(size_t)i * step];
    return categories > 0 ? sum / n / categories : -1;
}

static void summarize(const struct work *w, struct ap_result *out)
{
    for (int size = 0; size < AP_SIZES; size++) {
        out->ap[size] = mean_of(w->sum[size], 1, THRESHOLDS, w->counted[size]);
        out->ar_size[size] =
            mean_of(&w->recalled[size][0][2], 3, THRESHOLDS, w->counted[size]);
    }
    out->ap50 = mean_of(&w->sum[AP_ALL][0], 1, 1, w->counted[AP_ALL]);
    out->ap75 = mean_of(&w->sum[AP_ALL][5], 1, 1, w->counted[AP_ALL]);
    for (int k = 0; k < 3; k++)
        out->ar[k] = mean_of(&w->recalled[AP_ALL][0][k], 3, THRESHOLDS,
                             w->counted[AP_ALL]);
}

static void measure_all(struct work *w, const struct ap_truth **truth,
                        size_t n_truth, const struct ap_found **found,
                        size_t n_found, int categories, double *by_category)
{
    for (int k = 0; k < categories; k++) {
        size_t t = 0, f = 0;
        double ap;

        while (t < n_truth && truth[t]->category == k)
            t++;
        while (f < n_found && found[f]->category == k)
            f++;
        ap = measure(w, truth, t, found, f);
        if (by_category != NULL)
            by_category[k] = ap;
        truth += t, n_truth -= t;
        found += f, n_found -= f;
    }
}

/* The most objects that a category has in one image. */
static size_t most_objects(const struct ap_truth **t, size_t n)
{
    size_t most = 0, run = 0;

    for (size_t i = 0; i < n; i++) {
        const bool same =
            i > 0 && by_place(t[i]->category, t[i]->image, t[i - 1]->category,
                              t[i - 1]->image) == 0;

        run = same ? run + 1 : 1;
        most = run > most ? run : most;
    }
    return most;
}

/* Both lists are in order. */
static int allocate(struct work *w, const struct ap_truth **t, size_t n_truth,
                    size_t n_found)
{
    const size_t most = most_objects(t, n_truth);

    w->candidate = calloc(n_found + 1, sizeof *w->candidate);
    w->object = calloc(most + 1, sizeof *w->object);
    w->iou = calloc(most + 1, BEST * sizeof *w->iou);
    w->precision = calloc(n_found + 1, sizeof *w->precision);
    w->recall = calloc(n_found + 1, sizeof *w->recall);
    return w->candidate && w->object && w->iou && w->precision && w->recall
               ? INFER_OK
               : INFER_EMEMORY;
}

int average_precision(const struct ap_truth *truth, size_t n_truth,
                      const struct ap_found *found, size_t n_found,
                      int categories, struct infer_error *err,
                      struct ap_result *out, double *by_category)
{
    struct work w = {0};
    const struct ap_truth **t = calloc(n_truth + 1, sizeof *t);
    const struct ap_found **f = calloc(n_found + 1, sizeof *f);
    int rc = INFER_OK;

    if (t == NULL || f == NULL) {
        rc = INFER_EMEMORY;
    } else {
        for (size_t i = 0; i < n_truth; i++)
            t[i] = &truth[i];
        for (size_t i = 0; i < n_found; i++)
            f[i] = &found[i];
        qsort(t, n_truth, sizeof *t, truth_order);
        qsort(f, n_found, sizeof *f, found_order);
        rc = allocate(&w, t, n_truth, n_found);
    }
    if (rc == INFER_OK) {
        measure_all(&w, t, n_truth, f, n_found, categories, by_category);
        summarize(&w, out);
    } else {
        error_set(err, INFER_EMEMORY, "out of memory");
    }
    free(t);
    free(f);
    free(w.candidate);
    free(w.object);
    free(w.iou);
    free(w.precision);
    free(w.recall);
    return rc;
}
