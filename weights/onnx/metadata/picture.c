/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an ONNX file says of the pictures that it expects: the metadata
 * Image.BitmapPixelFormat and Image.NominalPixelRange of ONNX's MetadataProps.
 */
#include "libinfer/graph/graph_json.h"
#include "weights/onnx/metadata/metadata.h"

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

void onnx_picture_apply(const struct pb_span *word, struct graph *g)
{
    const struct pb_span format = word[ONNX_PIXEL_FORMAT];
    const struct range *range = find_range(word[ONNX_PIXEL_RANGE]);
    struct graph_preprocess p = graph_preprocess_default();
    const struct graph_value *x;
    enum graph_color color;

    if ((format.bytes == 0 && word[ONNX_PIXEL_RANGE].bytes == 0) || !range ||
        !find_color(format, &color) || g->n_inputs == 0)
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
