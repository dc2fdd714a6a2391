/* SPDX-License-Identifier: Apache-2.0 */
/* Masks of boxes: a weighted sum of prototypes, positive on the object. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/task/decoder.h"

/* The sum of the prototypes: a map of width x height. */
struct sum {
    float *at;
    int64_t width, height;
};

static int sum_make(const struct task_entry *e, const struct task_box *box,
                    struct infer_error *err, struct sum *out)
{
    const int64_t n = e->dim[1] * e->dim[2];

    *out = (struct sum){calloc((size_t)n, sizeof(float)), e->dim[2], e->dim[1]};
    if (!out->at)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int k = 0; k < box->n_coefs; k++)
        for (int64_t i = 0; i < n; i++)
            out->at[i] += box->coef[k] * (float)entry_at(e, k * n + i);
    return INFER_OK;
}

/* Two neighbours of a coordinate of the map, and the share of the second. */
struct between {
    int64_t first, second;
    float share;
};

static struct between between(double x, int64_t n)
{
    const double at = fmin(fmax(x, 0), (double)(n - 1));
    const int64_t first = (int64_t)at;

    return (struct between){first, first + 1 < n ? first + 1 : first,
                            (float)(at - (double)first)};
}

/* Bilinear, between the centres of the map's cells. */
static float sum_at(const struct sum *s, struct between x, struct between y)
{
    const float *row[2] = {s->at + y.first * s->width,
                           s->at + y.second * s->width};
    float side[2];

    for (int i = 0; i < 2; i++)
        side[i] =
            row[i][x.first] + x.share * (row[i][x.second] - row[i][x.first]);
    return side[0] + y.share * (side[1] - side[0]);
}

static int pixel(float x, int side)
{
    return (int)fminf(fmaxf(x, 0), (float)side);
}

int task_mask(const struct task_outputs *o, const struct task_box *box,
              const struct preprocess_window *w, int width, int height,
              uint8_t *mask, struct infer_error *err)
{
    struct task_entry e;
    struct sum s;

    memset(mask, 0, (size_t)width * (size_t)height);
    if (!box_prototypes(o, box, &e))
        return error_set(err, INFER_EUNSUPPORTED, "the box has no mask");
    const int rc = sum_make(&e, box, err, &s);
    if (rc < 0)
        return rc;
    const double per_x = (double)s.width / (double)o->width;
    const double per_y = (double)s.height / (double)o->height;
    const int right = pixel(ceilf(box->right), width);
    const int bottom = pixel(ceilf(box->bottom), height);

    for (int y = pixel(box->top, height); y < bottom; y++) {
        const struct between row =
            between(((y + 0.5) / w->per_y - w->top) * per_y - 0.5, s.height);

        for (int x = pixel(box->left, width); x < right; x++) {
            const struct between column = between(
                ((x + 0.5) / w->per_x - w->left) * per_x - 0.5, s.width);

            mask[(size_t)y * (size_t)width + (size_t)x] =
                sum_at(&s, column, row) > 0;
        }
    }
    free(s.at);
    return INFER_OK;
}
