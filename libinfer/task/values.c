/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs that are values themselves: depth, embeddings, landmarks. */
#include <math.h>
#include <stdlib.h>

#include "kernels/base/error.h"
#include "libinfer/task/decoder.h"

/* Relative coordinates lie within the input, or a little beside it. */
#define RELATIVE_MAX 1.5

/* ---- depth --------------------------------------------------------- */

/* The value at x, y of a map, coordinates of cells' centres: between four. */
static double between(const struct task_entry *e, int64_t width, int64_t height,
                      double x, double y)
{
    const double cx = fmin(fmax(x, 0), (double)(width - 1));
    const double cy = fmin(fmax(y, 0), (double)(height - 1));
    const int64_t x0 = (int64_t)cx, y0 = (int64_t)cy;
    const int64_t x1 = x0 + (x0 + 1 < width), y1 = y0 + (y0 + 1 < height);
    const double fx = cx - (double)x0, fy = cy - (double)y0;

    return (1 - fy) * ((1 - fx) * entry_at(e, y0 * width + x0) +
                       fx * entry_at(e, y0 * width + x1)) +
           fy * ((1 - fx) * entry_at(e, y1 * width + x0) +
                 fx * entry_at(e, y1 * width + x1));
}

int task_depth(const struct task_outputs *o, const struct preprocess_window *w,
               int width, int height, float *value, struct infer_error *err)
{
    struct task_entry e;
    int64_t columns, rows;

    if (o->count < 1 ||
        ((!task_entry(o, 0, 3, &e) || e.dim[0] != 1) &&
         !task_entry(o, 0, 2, &e)) ||
        e.dim[e.rank - 1] < 2 || e.dim[e.rank - 2] < 2)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the first output is no map of depths (1,H,W or H,W)");
    columns = e.dim[e.rank - 1];
    rows = e.dim[e.rank - 2];
    for (int y = 0; y < height; y++) {
        const double at_y = ((y + 0.5) / w->per_y - w->top) / (double)o->height;

        for (int x = 0; x < width; x++) {
            const double at_x =
                ((x + 0.5) / w->per_x - w->left) / (double)o->width;
            const bool seen = at_x >= 0 && at_x < 1 && at_y >= 0 && at_y < 1;

            value[(size_t)y * (size_t)width + (size_t)x] =
                seen ? (float)between(&e, columns, rows,
                                      at_x * (double)columns - 0.5,
                                      at_y * (double)rows - 0.5)
                     : NAN;
        }
    }
    return INFER_OK;
}

/* ---- embeddings ---------------------------------------------------- */

int task_embedding(const struct task_outputs *o, struct infer_error *err,
                   float **out, int64_t *count)
{
    const struct infer_array *a = &o->array[0];
    struct task_entry e;

    *count = 1;
    if (o->count < 1 || a->rank < 2 || !task_entry(o, 0, a->rank - 1, &e))
        return error_set(err, INFER_EUNSUPPORTED,
                         "the first output has no values of each picture");
    for (int d = 0; d < e.rank; d++)
        *count *= e.dim[d];
    *out = malloc((size_t)(*count > 0 ? *count : 1) * sizeof **out);
    if (*out == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int64_t i = 0; i < *count; i++)
        (*out)[i] = (float)entry_at(&e, i);
    return INFER_OK;
}

/* ---- landmarks ----------------------------------------------------- */

/* Numbers of a point, as the detail of the task says, and 2 by default. */
static int64_t numbers_of(const char *detail)
{
    return detail != NULL && detail[0] == '3' ? 3 : 2;
}

/* The centre of the largest value of each map, and that value. */
static void read_maps(const struct task_outputs *o, const struct task_entry *e,
                      struct task_landmarks *out)
{
    const int64_t cells = e->dim[1] * e->dim[2];

    for (int k = 0; k < out->count; k++) {
        double best;
        const int64_t at = entry_best(e, k * cells, 1, cells, &best);
        const double x = (double)(at % e->dim[2]) + 0.5;
        const double y = (double)(at / e->dim[2]) + 0.5;

        out->point[k][0] = (float)(x / (double)e->dim[2] * (double)o->width);
        out->point[k][1] = (float)(y / (double)e->dim[1] * (double)o->height);
        out->point[k][2] = (float)best;
    }
}

/* Rows of x, y and perhaps a score. */
static void read_rows(const struct task_outputs *o, const struct task_entry *e,
                      int64_t numbers, struct task_landmarks *out)
{
    double largest = 0;

    for (int k = 0; k < out->count; k++)
        for (int c = 0; c < 2; c++)
            largest = fmax(largest, fabs(entry_at(e, k * numbers + c)));
    const bool relative = largest <= RELATIVE_MAX;

    for (int k = 0; k < out->count; k++) {
        const double x = entry_at(e, k * numbers);
        const double y = entry_at(e, k * numbers + 1);

        out->point[k][0] = (float)(relative ? x * (double)o->width : x);
        out->point[k][1] = (float)(relative ? y * (double)o->height : y);
        out->point[k][2] =
            numbers == 3 ? (float)entry_at(e, k * numbers + 2) : 1;
    }
}

/* The entry of the first output that can be points, and how many there are; 0:
 * there are none. */
static int64_t find_points(const struct task *task,
                           const struct task_outputs *o, struct task_entry *e,
                           int64_t *numbers)
{
    *numbers = numbers_of(task->detail);
    if (o->count < 1)
        return 0;
    if (task_entry(o, 0, 2, e) && (e->dim[1] == 2 || e->dim[1] == 3)) {
        *numbers = e->dim[1];
        return e->dim[0];
    }
    if (task_entry(o, 0, 3, e) && e->dim[1] > 1 && e->dim[2] > 1) {
        *numbers = 0; /* maps */
        return e->dim[0];
    }
    if (task_entry(o, 0, 1, e) && e->dim[0] % *numbers == 0)
        return e->dim[0] / *numbers;
    return 0;
}

int task_landmarks(const struct task *task, const struct task_outputs *o,
                   const struct preprocess_window *w, struct infer_error *err,
                   struct task_landmarks *out)
{
    struct task_entry e;
    int64_t numbers;
    const int64_t count = find_points(task, o, &e, &numbers);

    *out = (struct task_landmarks){.count = 0};
    if (count < 1 || count > INT16_MAX)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the first output is no list of points (K,2 or K,3 or "
                         "a map of each)");
    out->point = calloc((size_t)count, sizeof *out->point);
    if (out->point == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    out->count = (int)count;
    out->scores = numbers != 2;
    if (numbers == 0)
        read_maps(o, &e, out);
    else
        read_rows(o, &e, numbers, out);
    for (int k = 0; k < out->count; k++) {
        out->point[k][0] = (float)((out->point[k][0] + w->left) * w->per_x);
        out->point[k][1] = (float)((out->point[k][1] + w->top) * w->per_y);
    }
    return INFER_OK;
}
