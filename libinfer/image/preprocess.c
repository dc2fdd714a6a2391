/* SPDX-License-Identifier: Apache-2.0 */
/* From a picture to an input tensor, by the model's description. */
#include "libinfer/image/image.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/image/preprocess.h"
#include "libinfer/model/model.h"

/* Most pixels of a resized picture before its crop: the default of
 * infer_image_load(). */
#define MAX_PIXELS 0x1p26

/* Pixels of a side of an input. */
#define MAX_SIDE (1 << 20)

/* Without a description: the input's size and values in 0 .. 1. */
static const struct graph_preprocess by_default = {
    .present = true,
    .policy = GRAPH_RESIZE_EXACT,
    .scale = 1.0f / 255,
    .std = {1, 1, 1, 1},
};

/* ---- size ---------------------------------------------------------- */

/* Where the wanted extent is cut out of, or placed in, the resized picture. */
struct placement {
    int width, height; /* resize to this */
    int left, top;     /* of the wanted window; negative: bars */
};

/* Half of a difference, halves to even as Python's round() in torchvision. */
static int centred(int outer, int inner)
{
    return (int)nearbyint((outer - inner) / 2.0);
}

/* A long strip of a picture may become longer than can be counted. */
static int extent(double x)
{
    return x < 1 ? 1 : x < INT_MAX ? (int)x : INT_MAX;
}

static void place(const struct graph_preprocess *p,
                  const struct infer_image *image, int width, int height,
                  struct placement *at)
{
    double w = image->width, h = image->height, scale;

    at->width = width;
    at->height = height;
    if (p->policy == GRAPH_RESIZE_SHORTER && p->resize > 0) {
        /* torchvision.transforms.Resize(size): the longer side is cut off. */
        if (w <= h) {
            at->width = p->resize;
            at->height = extent(p->resize * h / w);
        } else {
            at->width = extent(p->resize * w / h);
            at->height = p->resize;
        }
    } else if (p->policy == GRAPH_RESIZE_SHORTER) {
        scale = fmax(width / w, height / h);
        at->width = extent(round(w * scale));
        at->height = extent(round(h * scale));
    } else if (p->policy == GRAPH_RESIZE_LETTERBOX) {
        scale = fmin(width / w, height / h);
        at->width = extent(round(w * scale));
        at->height = extent(round(h * scale));
    }
    at->left = centred(at->width, width);
    at->top = centred(at->height, height);
}

/* Writes the window of a resized picture, with bars where it has none. */
static void cut_window(const struct graph_preprocess *p,
                       const struct infer_image *image,
                       const struct placement *at, int width, int height,
                       uint8_t *out)
{
    const uint8_t fill = p->policy == GRAPH_RESIZE_LETTERBOX ? p->fill : 0;
    const size_t channels = (size_t)image->channels;
    const int first = at->left < 0 ? -at->left : 0;
    const int visible = image->width - at->left;
    const int end = visible < width ? visible : width;

    for (int y = 0; y < height; y++) {
        const int sy = y + at->top;
        uint8_t *row = out + (size_t)y * (size_t)width * channels;

        if (end < width || first > 0 || sy < 0 || sy >= image->height)
            memset(row, fill, (size_t)width * channels);
        if (sy >= 0 && sy < image->height && first < end)
            memcpy(row + (size_t)first * channels,
                   image->pixels + ((size_t)sy * (size_t)image->width +
                                    (size_t)(first + at->left)) *
                                       channels,
                   (size_t)(end - first) * channels);
    }
}

/* Pixels as planes of values. */
static void write_planes(const struct graph_preprocess *p,
                         const uint8_t *pixels, int channels, size_t count,
                         float *out)
{
    for (int c = 0; c < channels; c++) {
        const uint8_t *from = pixels + preprocess_source(p, c, channels);
        const float scale = preprocess_scale(p, c);
        const float shift = preprocess_shift(p, c);

        for (size_t i = 0; i < count; i++)
            *out++ = (float)from[i * (size_t)channels] * scale + shift;
    }
}

/* Height and width of the input, from the model or the caller. */
static int wanted_extent(const struct graph_value *v, const int64_t *shape_hw,
                         int64_t *hw, struct infer_error *err)
{
    int i;

    for (i = 0; i < 2; i++) {
        hw[i] = v->dim[v->rank - 2 + i];
        if (hw[i] < 0 && shape_hw == NULL)
            return error_set(err, INFER_EARGUMENT,
                             "input '%s': height and width are free, and no "
                             "size was given",
                             v->name);
        if (hw[i] < 0)
            hw[i] = shape_hw[i];
        if (hw[i] < 1 || hw[i] > MAX_SIDE)
            return error_set(err, INFER_EARGUMENT,
                             "input '%s': a side of %lld pixels, 1 to %d are "
                             "possible",
                             v->name, (long long)hw[i], MAX_SIDE);
    }
    return INFER_OK;
}

/* The model's description of an input that takes pictures. */
struct wanted {
    const struct graph_preprocess *p;
    int channels, width, height;
    size_t count; /* pixels */
};

/* bytes: of the caller's buffer, for values of `size` bytes each. */
static int find_wanted(const struct infer_model *model, int index,
                       const int64_t *shape_hw, const void *out, size_t bytes,
                       size_t size, struct wanted *w, struct infer_error *err)
{
    const struct graph *g;
    const struct graph_value *v;
    int64_t hw[2] = {0, 0};
    int rc;

    if (model == NULL || out == NULL)
        return error_set(err, INFER_EARGUMENT, "no model or no room given");
    g = model_graph(model);
    rc = preprocess_check(g, index, err);
    if (rc < 0)
        return rc;
    v = &g->value[g->input[index]];
    rc = wanted_extent(v, shape_hw, hw, err);
    if (rc < 0)
        return rc;
    w->p = preprocess_of(g, index);
    w->channels = (int)v->dim[v->rank - 3];
    w->height = (int)hw[0];
    w->width = (int)hw[1];
    w->count = (size_t)hw[0] * (size_t)hw[1];
    if (bytes / size / (size_t)w->channels < w->count)
        return error_set(err, INFER_EARGUMENT,
                         "input '%s': %zu bytes are too few for %zu values",
                         v->name, bytes, w->count * (size_t)w->channels);
    return INFER_OK;
}

/* ---- for the rest of the library ----------------------------------- */

const struct graph_preprocess *preprocess_of(const struct graph *g, int index)
{
    return g->preprocess[index].present ? &g->preprocess[index] : &by_default;
}

bool preprocess_dims(int rank, const int64_t *dim, int64_t out[4])
{
    if (rank != 4 && !(rank == 3 && dim[0] == 3))
        return false;
    out[0] = 1;
    for (int i = 0; i < rank; i++)
        out[4 - rank + i] = dim[i];
    return out[1] == 1 || out[1] == 3;
}

int preprocess_check(const struct graph *g, int index, struct infer_error *err)
{
    const struct graph_value *v;
    int64_t dim[4];

    if (index < 0 || index >= g->n_inputs)
        return error_set(err, INFER_EARGUMENT, "the model has no input %d",
                         index);
    v = &g->value[g->input[index]];
    if (!preprocess_dims(v->rank, v->dim, dim))
        return error_set(err, INFER_EARGUMENT,
                         "input '%s' is no picture (N,1 or 3,H,W, or 3,H,W)",
                         v->name);
    return INFER_OK;
}

void preprocess_open_size(const struct graph_preprocess *p,
                          const struct infer_image *image, int64_t *height,
                          int64_t *width)
{
    struct placement at = {.width = image->width, .height = image->height};

    if (p->policy == GRAPH_RESIZE_SHORTER && p->resize > 0)
        place(p, image, image->width, image->height, &at);
    *height = at.height;
    *width = at.width;
}

struct preprocess_window preprocess_window_of(const struct graph_preprocess *p,
                                              const struct infer_image *image,
                                              int width, int height)
{
    struct placement at;

    place(p, image, width, height, &at);
    return (struct preprocess_window){at.left, at.top,
                                      (double)image->width / at.width,
                                      (double)image->height / at.height};
}

int preprocess_source(const struct graph_preprocess *p, int c, int channels)
{
    return p->color == GRAPH_BGR ? channels - 1 - c : c;
}

float preprocess_scale(const struct graph_preprocess *p, int c)
{
    return p->scale / p->std[c];
}

float preprocess_shift(const struct graph_preprocess *p, int c)
{
    return -p->mean[c] / p->std[c];
}

int preprocess_fit(const struct graph_preprocess *p,
                   const struct infer_image *image, int channels, int width,
                   int height, uint8_t *out, struct infer_error *err)
{
    struct infer_image colored, resized = {0};
    struct placement at;
    int rc;

    if (image == NULL || image->pixels == NULL || image->width < 1 ||
        image->height < 1 || (image->channels != 1 && image->channels != 3))
        return error_set(err, INFER_EARGUMENT,
                         "no picture, or not of 1 or 3 channels");
    place(p, image, width, height, &at);
    if ((double)at.width * at.height > MAX_PIXELS)
        return error_set(err, INFER_EMEMORY,
                         "a picture of %d x %d pixels would be resized to "
                         "%d x %d",
                         image->width, image->height, at.width, at.height);
    if (p->policy == GRAPH_RESIZE_NONE &&
        (image->width != width || image->height != height))
        return error_set(err, INFER_EARGUMENT,
                         "the picture has %d x %d pixels, the model wants "
                         "exactly %d x %d",
                         image->width, image->height, width, height);
    rc = image_convert(image, channels, err, &colored);
    if (rc < 0)
        return rc;
    if (at.width == colored.width && at.height == colored.height) {
        resized = colored;
    } else {
        rc = image_resize(&colored, at.width, at.height, p->filter, err,
                          &resized);
        infer_image_free(&colored);
    }
    if (rc == INFER_OK)
        cut_window(p, &resized, &at, width, height, out);
    infer_image_free(&resized);
    return rc;
}

/* ---- for everybody ------------------------------------------------- */

int infer_model_fit(const struct infer_model *model, int index,
                    const struct infer_image *image, const int64_t *shape_hw,
                    uint8_t *out, size_t bytes, struct infer_error *err)
{
    struct wanted w;
    const int rc = find_wanted(model, index, shape_hw, out, bytes, 1, &w, err);

    return rc < 0 ? rc
                  : preprocess_fit(w.p, image, w.channels, w.width, w.height,
                                   out, err);
}

int infer_model_preprocess(const struct infer_model *model, int index,
                           const struct infer_image *image,
                           const int64_t *shape_hw, float *out, size_t bytes,
                           struct infer_error *err)
{
    struct infer_image window;
    struct wanted w;
    int rc =
        find_wanted(model, index, shape_hw, out, bytes, sizeof(*out), &w, err);

    if (rc == INFER_OK)
        rc = image_new(w.width, w.height, w.channels, err, &window);
    if (rc < 0)
        return rc;
    rc = preprocess_fit(w.p, image, w.channels, w.width, w.height,
                        window.pixels, err);
    if (rc == INFER_OK)
        write_planes(w.p, window.pixels, w.channels, w.count, out);
    infer_image_free(&window);
    return rc;
}
