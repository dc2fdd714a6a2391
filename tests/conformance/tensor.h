/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that come as files, and the outputs of a run. */
#ifndef TESTS_CONFORMANCE_TENSOR_H
#define TESTS_CONFORMANCE_TENSOR_H

#include <stdbool.h>

#include "include/infer.h"
#include "libinfer/graph/constant.h"
#include "tests/unit/weights/protobuf_writer.h"

/* A whole file; false where it cannot be read. */
bool tensor_file_bytes(const char *path, struct pb_message *out);

/* A TensorProto file of ONNX's test data; NULL where there is none or where it
 * holds something else (a sequence, an optional).  *raw, where it is not NULL,
 * gets the bytes of the file. */
struct constant *tensor_file(const char *path, struct pb_message *raw);

/* Runs once to learn the sizes of the outputs and once more to have them.
 * out[i].data is to be freed, on failure too. */
int tensor_run(struct infer_session *session, const struct infer_array *in,
               int n_in, struct infer_array *out, int n_out,
               struct infer_error *err);

#endif
