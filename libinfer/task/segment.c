/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of classes. */
#include <math.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/task/decoder.h"

/* The first output: planes of scores, one plane of a probability, or classes
 * themselves. */
struct map {
    struct task_entry e;
    int64_t planes, width, height;
    bool labels; /* the values are classes */
};

static bool map_read(const struct task_outputs *o, struct map *m)
{
    const bool integer = o->count > 0 && scalar_is_integer(o->array[0].dtype);

    if (o->count > 0 && task_entry(o, 0, 3, &m->e)) {
        m->planes = m->e.dim[0];
        m->height = m->e.dim[1];
        m->width = m->e.dim[2];
    } else if (o->count > 0 && task_entry(o, 0, 2, &m->e)) {
        m->planes = 1;
        m->height = m->e.dim[0];
        m->width = m->e.dim[1];
    } else {
        return false;
    }
    m->labels = integer && m->planes == 1;
    return m->planes > 0 && m->height > 0 && m->width > 0 &&
           m->planes <= INT16_MAX;
}

static int class_at(const struct map *m, int64_t y, int64_t x)
{
    const int64_t plane = m->width * m->height, at = y * m->width + x;
    double value;

    if (m->labels) {
        value = entry_at(&m->e, at);
        return value >= 0 && value < INT16_MAX ? (int)value : -1;
    }
    if (m->planes == 1) /* the probability, or its logit, of a foreground */
        return entry_at(&m->e, at) > 0.5;
    return entry_best(&m->e, at, plane, m->planes, &value);
}

/* The cell of a map that shows coordinate x of the input; -1: none does. */
static int64_t cell(double x, int64_t extent, int64_t cells)
{
    const double at = floor(x * (double)cells / (double)extent);

    return at < 0 || at >= (double)cells ? -1 : (int64_t)at;
}

int task_segment(const struct task_outputs *o,
                 const struct preprocess_window *w, int width, int height,
                 int *label, int *classes, struct infer_error *err)
{
    struct map m;

    if (!map_read(o, &m))
        return error_set(err, INFER_EUNSUPPORTED,
                         "the first output is no map of classes (C,H,W or "
                         "H,W)");
    *classes = m.planes > 1 ? (int)m.planes : 2;
    for (int y = 0; y < height; y++) {
        const int64_t row =
            cell((y + 0.5) / w->per_y - w->top, o->height, m.height);

        for (int x = 0; x < width; x++) {
            const int64_t column =
                cell((x + 0.5) / w->per_x - w->left, o->width, m.width);
            int *out = &label[(size_t)y * (size_t)width + (size_t)x];

            *out = row < 0 || column < 0 ? -1 : class_at(&m, row, column);
            if (*out >= *classes)
                *classes = *out + 1;
        }
    }
    return INFER_OK;
}
