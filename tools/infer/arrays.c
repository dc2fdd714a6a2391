/* SPDX-License-Identifier: Apache-2.0 */
/* Input and output arrays of a run. */
#include "tools/infer/infer_tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/scalar.h"
#include "kernels/base/text.h"
#include "libinfer/model/model.h"
#include "tools/npy.h"

/* Extent of a free spatial dimension without --input-shape. */
#define DEFAULT_EXTENT 224

/* Longest file name made from a tensor name, with its extension. */
#define NAME_BYTES 200

/* File of --load-inputs for the input at `position`; *out is NULL if there is
 * none. */
static int file_for(const struct tool_request *r, const char *name,
                    int position, struct infer_error *err,
                    const struct tool_named_file **out)
{
    int i;

    *out = NULL;
    for (i = 0; i < r->n_load; i++) {
        if (r->load[i].name != NULL ? strcmp(r->load[i].name, name) != 0
                                    : i != position)
            continue;
        if (*out != NULL)
            return error_set(err, INFER_EARGUMENT,
                             "--load-inputs: two files for input '%s'", name);
        *out = &r->load[i];
    }
    if (*out == NULL && r->n_load > 0)
        return error_set(err, INFER_EARGUMENT,
                         "--load-inputs: no file for input '%s'", name);
    return INFER_OK;
}

/* Shape of input `position` from the command line and the model. */
static int input_shape(const struct tool_request *r,
                       const struct infer_tensor_info *info, int position,
                       struct infer_array *a, struct infer_error *err)
{
    int i, k;

    a->rank = info->rank;
    for (k = 0; k < info->rank; k++)
        a->dim[k] = info->dim[k];
    for (i = 0; i < r->n_shape; i++) {
        if (r->shape[i].name != NULL ? strcmp(r->shape[i].name, info->name) != 0
                                     : i != position)
            continue;
        if (info->rank >= 0 && r->shape[i].rank != info->rank)
            return error_set(err, INFER_EARGUMENT,
                             "--input-shape: input '%s' has %d dimensions, "
                             "not %d",
                             info->name, info->rank, r->shape[i].rank);
        a->rank = r->shape[i].rank;
        memcpy(a->dim, r->shape[i].dim, sizeof(a->dim));
    }
    if (a->rank < 0)
        return error_set(err, INFER_EARGUMENT,
                         "the model leaves the shape of input '%s' open: name "
                         "one with --input-shape",
                         info->name);
    a->dtype = scalar_is_integer(info->dtype) ? info->dtype : INFER_F32;
    if (r->batch > 0 && a->rank > 0)
        a->dim[0] = r->batch;
    for (k = 0; k < a->rank; k++)
        if (a->dim[k] < 0)
            a->dim[k] = k == 0 ? 1 : k == 1 ? 3 : DEFAULT_EXTENT;
    return INFER_OK;
}

static int fill_input(const struct infer_tensor_info *info, uint64_t *seed,
                      struct infer_array *a, struct infer_error *err)
{
    const int rc = array_alloc("input", info->name, a, err);

    if (rc == INFER_OK)
        array_fill(a, seed);
    return rc;
}

/* Checks that every option for an input matches an input, by name or
 * position. */
static int check_input(const struct tool_run *run, const char *option,
                       const char *name, int position, struct infer_error *err)
{
    int i, n = infer_model_input_count(run->model);
    struct infer_tensor_info info;

    if (name == NULL && position >= n)
        return error_set(err, INFER_EARGUMENT,
                         "--%s: number %d, but the network has %d input%s",
                         option, position + 1, n, n == 1 ? "" : "s");
    for (i = 0; name != NULL && i < n; i++) {
        infer_model_input(run->model, i, &info);
        if (strcmp(info.name, name) == 0)
            name = NULL;
    }
    if (name == NULL)
        return INFER_OK;
    infer_model_input(run->model, 0, &info);
    return error_set(err, INFER_EARGUMENT,
                     "--%s: the network has no input '%s' (the first: '%s')",
                     option, name, info.name);
}

static int check_inputs(const struct tool_run *run, struct infer_error *err)
{
    const struct tool_request *r = run->request;
    int i, rc = INFER_OK;

    for (i = 0; rc == INFER_OK && i < r->n_load; i++)
        rc = check_input(run, "load-inputs", r->load[i].name, i, err);
    for (i = 0; rc == INFER_OK && i < r->n_shape; i++)
        rc = check_input(run, "input-shape", r->shape[i].name, i, err);
    return rc;
}

static int read_input(const struct tool_run *run,
                      const struct tool_named_file *file,
                      const struct infer_tensor_info *info,
                      struct infer_array *a, struct infer_error *err)
{
    const int64_t batch = run->request->batch;
    int rc = npy_read(file->path, info->name, a, err);

    if (rc < 0 || batch == 0 || (a->rank > 0 && a->dim[0] == batch))
        return rc;
    return error_set(err, INFER_EARGUMENT,
                     "%s: holds a batch of %" PRId64 ", --batch is %" PRId64,
                     file->path, a->rank > 0 ? a->dim[0] : 1, batch);
}

int tool_make_inputs(const struct tool_run *run, struct arrays *in,
                     struct infer_error *err)
{
    uint64_t seed = run->cli->seed;
    struct infer_tensor_info info[ARRAYS_MAX];
    bool made[ARRAYS_MAX];
    int i, n = infer_model_input_count(run->model);
    int rc = check_inputs(run, err);

    if (rc < 0)
        return rc;
    if (n > ARRAYS_MAX)
        return error_set(err, INFER_EUNSUPPORTED,
                         "%d inputs, at most %d are supported here", n,
                         ARRAYS_MAX);
    for (i = 0; i < n; i++) {
        const struct tool_named_file *file;
        struct infer_array *a = &in->item[i];

        memset(a, 0, sizeof(*a));
        infer_model_input(run->model, i, &info[i]);
        rc = file_for(run->request, info[i].name, i, err, &file);
        made[i] = rc == INFER_OK && file == NULL;
        if (rc == INFER_OK)
            rc = file != NULL ? read_input(run, file, &info[i], a, err)
                              : input_shape(run->request, &info[i], i, a, err);
        if (rc < 0)
            return rc;
        a->name = info[i].name;
        in->count = i + 1;
    }
    state_sizes(model_graph(run->model), made, in->item);
    for (i = 0; rc == INFER_OK && i < n; i++)
        if (made[i])
            rc = fill_input(&info[i], &seed, &in->item[i], err);
    return rc;
}

int tool_make_outputs(struct infer_session *session,
                      const struct infer_model *model, struct arrays *out,
                      struct infer_error *err)
{
    int i, n = infer_model_output_count(model);

    if (n > ARRAYS_MAX)
        return error_set(err, INFER_EUNSUPPORTED,
                         "%d outputs, at most %d are supported here", n,
                         ARRAYS_MAX);
    for (i = 0; i < n; i++) {
        struct infer_array *a = &out->item[i];
        struct infer_tensor_info info;
        int rc = infer_session_output(session, i, &info);

        if (rc < 0)
            return error_set(err, rc, "output %d is not planned", i);
        memset(a, 0, sizeof(*a));
        a->dtype = info.dtype;
        a->rank = info.rank;
        memcpy(a->dim, info.dim, sizeof(a->dim));
        rc = array_alloc("output", info.name, a, err);
        if (rc < 0)
            return rc;
        a->name = info.name;
        out->count = i + 1;
    }
    return INFER_OK;
}

cJSON *tool_outputs_json(const struct arrays *out)
{
    cJSON *json = cJSON_CreateObject();
    int i, k;

    for (i = 0; i < out->count; i++) {
        const struct infer_array *a = &out->item[i];
        cJSON *item = cJSON_AddObjectToObject(json, a->name);
        cJSON *shape, *data;
        int64_t j, n = array_count(a);

        cJSON_AddStringToObject(item, "dtype", infer_dtype_name(a->dtype));
        shape = cJSON_AddArrayToObject(item, "shape");
        for (k = 0; k < a->rank; k++)
            json_append(shape, cJSON_CreateNumber((double)a->dim[k]));
        data = cJSON_AddArrayToObject(item, "data");
        for (j = 0; j < n; j++)
            json_append(data,
                        cJSON_CreateNumber(scalar_load(a->dtype, a->data, j)));
    }
    return json;
}

/* File name for a tensor name; different tensors may get the same one. */
static void file_name(const char *name, char *out, size_t bytes)
{
    size_t i;

    for (i = 0; name[i] != '\0' && i + 1 < bytes; i++) {
        unsigned char c = (unsigned char)name[i];

        out[i] = c > ' ' && c < 0x7f && strchr("/\\:*?\"<>|", c) == NULL
                     ? (char)c
                     : '_';
    }
    out[i] = '\0';
}

/* True if an earlier output has the same file name. */
static bool is_taken(const struct arrays *out, int output, const char *name)
{
    char other[NAME_BYTES];
    int i;

    for (i = 0; i < output; i++) {
        file_name(out->item[i].name, other, sizeof(other));
        if (strcmp(name, other) == 0)
            return true;
    }
    return false;
}

static int export_folder(const char *path, const struct arrays *out,
                         struct infer_error *err)
{
    int i, rc = tool_make_folder(path, err);

    for (i = 0; rc == INFER_OK && i < out->count; i++) {
        char name[NAME_BYTES], number[16] = "", file[4096];

        file_name(out->item[i].name, name, sizeof(name));
        if (is_taken(out, i, name))
            snprintf(number, sizeof(number), "%d-", i);
        snprintf(file, sizeof(file), "%s/%s%s.npy", path, number, name);
        rc = npy_write(file, &out->item[i], err);
    }
    return rc;
}

bool tool_exports_folder(const char *path)
{
    return path != NULL && strcmp(path, "-") != 0 &&
           !text_ends(path, ".json") && !text_ends(path, ".npy") &&
           !text_ends(path, ".npz");
}

int tool_export(const char *path, const struct arrays *out,
                struct infer_error *err)
{
    if (strcmp(path, "-") == 0) {
        cli_print_json(tool_outputs_json(out), true);
        return INFER_OK;
    }
    if (text_ends(path, ".json"))
        return cli_write_json(path, tool_outputs_json(out), true, err);
    if (text_ends(path, ".npz"))
        return error_set(err, INFER_EARGUMENT,
                         "%s: outputs are written as .npy, .json or into a "
                         "folder",
                         path);
    if (text_ends(path, ".npy")) {
        if (out->count != 1)
            return error_set(err, INFER_EARGUMENT,
                             "%s: the network has %d outputs: name a .json "
                             "file or a folder",
                             path, out->count);
        return npy_write(path, &out->item[0], err);
    }
    return export_folder(path, out, err);
}

int tool_dump_layers(struct infer_session *session, const char *folder,
                     struct infer_error *err)
{
    const char *name;
    int i;

    for (i = 0; (name = infer_session_tensor_name(session, i)) != NULL; i++) {
        struct infer_array a = {0};
        char safe[NAME_BYTES], file[4096];
        int rc = infer_session_read(session, name, &a, err);

        if (rc < 0)
            return rc;
        a.data = malloc(a.bytes > 0 ? a.bytes : 1);
        if (a.data == NULL)
            return error_set(err, INFER_EMEMORY, "out of memory");
        rc = infer_session_read(session, name, &a, err);
        file_name(name, safe, sizeof(safe));
        snprintf(file, sizeof(file), "%s/%04d-%s.npy", folder, i, safe);
        if (rc == INFER_OK)
            rc = npy_write(file, &a, err);
        free(a.data);
        if (rc < 0)
            return rc;
    }
    return INFER_OK;
}
