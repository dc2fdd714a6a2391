/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an ONNX file says of the pictures that it expects: the metadata
 * Image.BitmapPixelFormat and Image.NominalPixelRange of ONNX's MetadataProps.
 */
#include "libinfer/graph/graph_json.h"
#include "weights/onnx/onnx.h"

static int entry_field(void *user, const struct pb_reader *r,
                       const struct pb_field *f, struct infer_error *err)
{
    struct pb_span *entry = user; /* key, value */

    if (f->number != 1 && f->number != 2)
        return 0;
    entry[f->number - 1] = f->span;
    return pb_expect(r, f, PB_BYTES, "a metadata entry", err);
}

int onnx_metadata_read(struct onnx_model *m, const struct pb_reader *outer,
                       const struct pb_field *field, struct infer_error *err)
{
    struct pb_span entry[2] = {{0}, {0}};
    int rc = pb_each_in(outer, field, entry_field, entry, err);

    if (rc == 0 && pb_span_is(entry[0], "Image.BitmapPixelFormat"))
        m->pixel_format = entry[1];
    if (rc == 0 && pb_span_is(entry[0], "Image.NominalPixelRange"))
        m->pixel_range = entry[1];
    return rc;
}

/* (pixel * scale - mean) / std for a pixel in 0 .. 255. */
struct range {
    const char *word;
    float scale, mean, std;
};

static const struct range *find_range(struct pb_span word)
{
    static const struct range ranges[] = {
        {"NominalRange_0_255", 1, 0, 1},
        {"Normalized_0_1", 1.0f / 255, 0, 1},
        {"Normalized_1_1", 1.0f / 255, 0.5f, 0.5f},
        {"NominalRange_16_235", 219.0f / 255, -16, 1}};

    /* Without the word a file with a pixel format takes 0 .. 255. */
    if (word.bytes == 0)
        return &ranges[0];
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (pb_span_is(word, ranges[i].word))
            return &ranges[i];
    return NULL;
}

/* False for a format that no picture here has. */
static bool find_color(struct pb_span word, enum graph_color *color)
{
    *color = GRAPH_RGB;
    if (word.bytes == 0 || pb_span_is(word, "Rgb8"))
        return true;
    *color = GRAPH_BGR;
    if (pb_span_is(word, "Bgr8"))
        return true;
    *color = GRAPH_GRAY;
    return pb_span_is(word, "Gray8");
}

void onnx_metadata_apply(const struct onnx_model *m, struct graph *g)
{
    const struct range *range = find_range(m->pixel_range);
    struct graph_preprocess p = graph_preprocess_default();
    const struct graph_value *x;
    enum graph_color color;

    if ((m->pixel_format.bytes == 0 && m->pixel_range.bytes == 0) || !range ||
        !find_color(m->pixel_format, &color) || g->n_inputs == 0)
        return;
    x = &g->value[g->input[0]];
    if (x->rank != 4 || x->dim[1] != (color == GRAPH_GRAY ? 1 : 3))
        return;
    p.color = color;
    p.scale = range->scale;
    for (int i = 0; i < 4; i++) {
        p.mean[i] = range->mean;
        p.std[i] = range->std;
    }
    g->preprocess[0] = p;
}
