/* SPDX-License-Identifier: Apache-2.0 */
/* From a picture to an input tensor, as the model says. */
#include "libinfer/image.h"

#include <math.h>
#include <string.h>

#include "kernels/error.h"
#include "libinfer/model.h"

/* A model that says nothing gets its input's size and values in 0 .. 1. */
static const struct graph_preprocess by_default = {
    .present = true,
    .policy = GRAPH_RESIZE_EXACT,
    .scale = 1.0f / 255,
    .std = {1, 1, 1, 1},
};

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

static int atleast_one(double x)
{
    return x < 1 ? 1 : (int)x;
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
            at->height = atleast_one(p->resize * h / w);
        } else {
            at->width = atleast_one(p->resize * w / h);
            at->height = p->resize;
        }
    } else if (p->policy == GRAPH_RESIZE_SHORTER) {
        scale = fmax(width / w, height / h);
        at->width = atleast_one(round(w * scale));
        at->height = atleast_one(round(h * scale));
    } else if (p->policy == GRAPH_RESIZE_LETTERBOX) {
        scale = fmin(width / w, height / h);
        at->width = atleast_one(round(w * scale));
        at->height = atleast_one(round(h * scale));
    }
    at->left = centred(at->width, width);
    at->top = centred(at->height, height);
}

/* Writes the window of a resized picture as planes. */
static void write_planes(const struct graph_preprocess *p,
                         const struct infer_image *image,
                         const struct placement *at, int width, int height,
                         float *out)
{
    int channels = image->channels, c, x, y;
    uint8_t fill = p->policy == GRAPH_RESIZE_LETTERBOX ? p->fill : 0;

    for (c = 0; c < channels; c++) {
        int from = p->color == GRAPH_BGR ? channels - 1 - c : c;
        float scale = p->scale / p->std[c];
        float shift = -p->mean[c] / p->std[c];

        for (y = 0; y < height; y++) {
            int sy = y + at->top;
            bool inside = sy >= 0 && sy < image->height;

            for (x = 0; x < width; x++) {
                int sx = x + at->left;
                uint8_t pixel = fill;

                if (inside && sx >= 0 && sx < image->width)
                    pixel = image->pixels[((size_t)sy * (size_t)image->width +
                                           (size_t)sx) *
                                              (size_t)channels +
                                          (size_t)from];
                *out++ = (float)pixel * scale + shift;
            }
        }
    }
}

/* Height and width of the input, from the model or the caller. */
static int wanted_extent(const struct graph_value *v, const int64_t *shape_hw,
                         int64_t *hw, struct infer_error *err)
{
    int i;

    for (i = 0; i < 2; i++) {
        hw[i] = v->dim[2 + i];
        if (hw[i] < 0 && shape_hw != NULL)
            hw[i] = shape_hw[i];
        if (hw[i] < 1 || hw[i] > 1 << 20)
            return error_set(err, INFER_EARGUMENT,
                             "input '%s': height and width are free, and no "
                             "usable size was given",
                             v->name);
    }
    return INFER_OK;
}

/* Colour, size, window, values. */
static int convert(const struct graph_preprocess *p,
                   const struct infer_image *image, int channels, int width,
                   int height, float *out, struct infer_error *err)
{
    struct infer_image colored, resized = {0};
    struct placement at;
    int status;

    place(p, image, width, height, &at);
    if (p->policy == GRAPH_RESIZE_NONE &&
        (image->width != width || image->height != height))
        return error_set(err, INFER_EARGUMENT,
                         "the picture has %d x %d pixels, the model wants "
                         "exactly %d x %d",
                         image->width, image->height, width, height);
    status = image_convert(image, channels, err, &colored);
    if (status < 0)
        return status;
    if (at.width == colored.width && at.height == colored.height) {
        resized = colored;
    } else {
        status = image_resize(&colored, at.width, at.height, p->filter, err,
                              &resized);
        infer_image_free(&colored);
    }
    if (status == INFER_OK)
        write_planes(p, &resized, &at, width, height, out);
    infer_image_free(&resized);
    return status;
}

int infer_model_preprocess(const struct infer_model *model, int index,
                           const struct infer_image *image,
                           const int64_t *shape_hw, float *out, size_t bytes,
                           struct infer_error *err)
{
    const struct graph *g = infer_model_graph(model);
    const struct graph_preprocess *p;
    const struct graph_value *v;
    int64_t hw[2] = {0, 0};
    int status;

    if (index < 0 || index >= g->n_inputs)
        return error_set(err, INFER_EARGUMENT, "the model has no input %d",
                         index);
    v = &g->value[g->input[index]];
    if (v->rank != 4 || (v->dim[1] != 1 && v->dim[1] != 3))
        return error_set(err, INFER_EARGUMENT,
                         "input '%s' is no picture (N,1 or 3,H,W)", v->name);
    status = wanted_extent(v, shape_hw, hw, err);
    if (status < 0)
        return status;
    if (bytes / sizeof(*out) < (size_t)(v->dim[1] * hw[0] * hw[1]))
        return error_set(err, INFER_EARGUMENT,
                         "input '%s': %zu bytes are too few for %lld values",
                         v->name, bytes,
                         (long long)(v->dim[1] * hw[0] * hw[1]));
    p = g->preprocess[index].present ? &g->preprocess[index] : &by_default;
    return convert(p, image, (int)v->dim[1], (int)hw[1], (int)hw[0], out, err);
}
