/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of torch.export's archives: what its files share. */
#ifndef WEIGHTS_ATEN_EXPORT_H
#define WEIGHTS_ATEN_EXPORT_H

#include "kernels/base/json.h"
#include "weights/aten/aten.h"
#include "weights/zip.h"

/* One tensor of the archive: its place in a member. */
struct export_tensor {
    const char *name; /* of the parameter, buffer or constant */
    size_t member;
    bool shared; /* with another tensor: loaded as a copy */
    enum infer_dtype dtype;
    int64_t raw_dtype; /* for messages */
    int rank;
    int64_t dim[INFER_MAX_RANK], stride[INFER_MAX_RANK], offset;
};

struct export_archive {
    struct zipfile zip;
    char *root;       /* of the members' names, with its slash; may be empty */
    cJSON *graph;     /* models/model.json */
    cJSON *config[2]; /* of the weights and the constants */
    struct export_tensor *tensor;
    size_t tensors;
    uint64_t bytes; /* of the archive */
};

/* A type as the graph has it (ScalarType), INFER_NONE for others. */
enum infer_dtype export_dtype(int64_t type);

/* Lists the tensors of the archive. */
int export_list_tensors(struct export_archive *a, struct infer_error *err);
void export_clear_tensors(struct export_archive *a);
/* The tensor of a name, or -1. */
int64_t export_find_tensor(const struct export_archive *a, const char *name);
/* As load() of struct aten_program. */
int export_load_tensor(struct onnx_import *im, void *archive, size_t index,
                       struct constant **out);

/* The program of the graph; strings and tensors stay the archive's. */
int export_read_graph(const struct export_archive *a, struct infer_error *err,
                      struct aten_program *out);

#endif
