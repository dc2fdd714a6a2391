/* SPDX-License-Identifier: Apache-2.0 */
/* An output that is a picture: style transfer, restoration, super-resolution.
 */
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/image/image.h"
#include "libinfer/task/decoder.h"

/* Most pixels of a side of an output. */
#define MAX_SIDE (1 << 16)

static uint8_t to_byte(double x)
{
    return x > 0 ? (uint8_t)fmin(nearbyint(x), 255) : 0; /* NaN is 0 */
}

/* Undoes (pixel * scale - mean) / std. */
static int from_planes(const struct task_entry *e,
                       const struct graph_preprocess *p,
                       struct infer_error *err, struct infer_image *out)
{
    const int channels = (int)e->dim[0];
    const int64_t plane = e->dim[1] * e->dim[2];
    const int rc =
        image_new((int)e->dim[2], (int)e->dim[1], channels, err, out);

    for (int c = 0; rc == INFER_OK && c < channels; c++) {
        const double scale = preprocess_scale(p, c);
        const double shift = preprocess_shift(p, c);
        uint8_t *to = out->pixels + preprocess_source(p, c, channels);

        for (int64_t i = 0; i < plane; i++)
            to[i * channels] =
                to_byte((entry_at(e, c * plane + i) - shift) / scale);
    }
    return rc;
}

/* Replaces the luminance of a picture (ITU-R BT.601, full range, as JPEG). */
static void set_luminance(struct infer_image *colour,
                          const struct infer_image *luminance)
{
    const size_t n = (size_t)colour->width * (size_t)colour->height;

    for (size_t i = 0; i < n; i++) {
        uint8_t *p = colour->pixels + 3 * i;
        const double y = 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
        const double more = luminance->pixels[i] - y;

        for (int c = 0; c < 3; c++)
            p[c] = to_byte(p[c] + more);
    }
}

/* Resizes a picture where its size differs, in place. */
static int resize_to(struct infer_image *image, int width, int height,
                     struct infer_error *err)
{
    struct infer_image resized;
    int rc;

    if (image->width == width && image->height == height)
        return INFER_OK;
    rc = image_resize(image, width, height, GRAPH_BICUBIC, err, &resized);
    if (rc < 0)
        return rc;
    infer_image_free(image);
    *image = resized;
    return INFER_OK;
}

/* The size that gives the picture its own proportions back where it was
 * stretched to the input. */
static void own_size(const struct task_outputs *o, const struct task_entry *e,
                     const struct graph_preprocess *p,
                     const struct infer_image *picture, int *width, int *height)
{
    const double x = (double)e->dim[2] / (double)o->width * picture->width;
    const double y = (double)e->dim[1] / (double)o->height * picture->height;

    *width = (int)e->dim[2];
    *height = (int)e->dim[1];
    if (p->policy == GRAPH_RESIZE_EXACT && x < MAX_SIDE && y < MAX_SIDE) {
        *width = (int)fmax(1, nearbyint(x));
        *height = (int)fmax(1, nearbyint(y));
    }
}

/* The colours of the picture at the size of the output, below its luminance. */
static int add_colours(const struct task_outputs *o,
                       const struct graph_preprocess *p,
                       const struct infer_image *picture,
                       struct infer_error *err, struct infer_image *image)
{
    struct graph_preprocess fit = *p;
    struct infer_image colour;
    int rc = image_new((int)o->width, (int)o->height, 3, err, &colour);

    if (rc < 0)
        return rc;
    fit.color = GRAPH_RGB;
    rc = preprocess_fit(&fit, picture, 3, (int)o->width, (int)o->height,
                        colour.pixels, err);
    if (rc == INFER_OK)
        rc = resize_to(&colour, image->width, image->height, err);
    if (rc < 0) {
        infer_image_free(&colour);
        return rc;
    }
    set_luminance(&colour, image);
    infer_image_free(image);
    *image = colour;
    return INFER_OK;
}

int task_image(const struct task_outputs *o, const struct graph_preprocess *p,
               const struct infer_image *picture, struct infer_error *err,
               struct infer_image *out)
{
    struct infer_image image = {0};
    struct task_entry e;
    int rc, width, height;

    if (o->count < 1 || !task_entry(o, 0, 3, &e) ||
        (e.dim[0] != 1 && e.dim[0] != 3) || e.dim[1] < 1 || e.dim[2] < 1 ||
        e.dim[1] > MAX_SIDE || e.dim[2] > MAX_SIDE)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the first output is no picture (1 or 3,H,W)");
    rc = from_planes(&e, p, err, &image);
    if (rc == INFER_OK && o->channels == 1 && e.dim[0] == 1 &&
        picture->channels == 3)
        rc = add_colours(o, p, picture, err, &image);
    own_size(o, &e, p, picture, &width, &height);
    if (rc == INFER_OK)
        rc = resize_to(&image, width, height, err);
    if (rc < 0)
        infer_image_free(&image);
    else
        *out = image;
    return rc;
}
