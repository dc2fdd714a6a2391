/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/onnx/metadata/metadata.h"

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
    static const char *const key[ONNX_METADATA] = {
        [ONNX_PIXEL_FORMAT] = "Image.BitmapPixelFormat",
        [ONNX_PIXEL_RANGE] = "Image.NominalPixelRange",
        [ONNX_STRIDE] = "stride",
        [ONNX_NAMES] = "names",
        [ONNX_TASK] = "task",
        [ONNX_HEAD] = "head",
        [ONNX_POINTS] = "kpt_shape"};
    struct pb_span entry[2] = {{0}, {0}};
    const int rc = pb_each_in(outer, field, entry_field, entry, err);

    for (int i = 0; rc == 0 && i < ONNX_METADATA; i++)
        if (pb_span_is(entry[0], key[i]))
            m->metadata[i] = entry[1];
    return rc;
}

int onnx_metadata_apply(const struct onnx_model *m, struct graph *g,
                        struct infer_error *err)
{
    onnx_picture_apply(m->metadata, g);
    return onnx_ultralytics_apply(m->metadata, g, err);
}
