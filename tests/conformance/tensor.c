/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that come as files, and the outputs of a run. */
#include "tests/conformance/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/proto.h"

bool tensor_file_bytes(const char *path, struct pb_message *out)
{
    FILE *f = fopen(path, "rb");
    long size;

    if (!f)
        return false;
    if (fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0) {
        fclose(f);
        return false;
    }
    rewind(f);
    out->size = (size_t)size;
    out->capacity = out->size + 1;
    out->data = malloc(out->size + 1);
    if (out->data && fread(out->data, 1, out->size, f) != out->size) {
        free(out->data);
        out->data = NULL;
    }
    fclose(f);
    return out->data != NULL;
}

struct constant *tensor_file(const char *path, struct pb_message *raw)
{
    struct infer_error err = {0};
    struct constant *c = NULL;
    struct pb_message b, copy = {0};
    struct blob *blob;

    if (!tensor_file_bytes(path, &b))
        return NULL;
    pb_raw(&copy, b.data, b.size);
    blob = blob_new(b.data, b.size);
    if (!blob || onnx_tensor_read(blob, &err, &c) < 0)
        c = NULL;
    blob_unref(blob);
    if (raw && c)
        *raw = copy;
    else
        pb_free(&copy);
    return c;
}

int tensor_run(struct infer_session *session, const struct infer_array *in,
               int n_in, struct infer_array *out, int n_out,
               struct infer_error *err)
{
    int i, status = infer_session_run(session, in, n_in, out, n_out, err);

    for (i = 0; i < n_out && status == INFER_OK; i++) {
        out[i].data = calloc(1, out[i].bytes + 1);
        if (!out[i].data)
            status = error_set(err, INFER_EMEMORY, "no memory for the outputs");
    }
    if (status == INFER_OK)
        status = infer_session_run(session, in, n_in, out, n_out, err);
    return status;
}
