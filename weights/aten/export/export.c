/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of torch.export.save()'s archives (.pt2), of PyTorch 2.8 and
 * later: a zip with
 *
 *     NAME/archive_format                          "pt2"
 *     NAME/models/model.json                       the graph
 *     NAME/data/weights/model_weights_config.json  where each weight lies
 *     NAME/data/weights/weight_0 ...               bytes of storages
 *     NAME/data/constants/...                      the same for constants
 *
 * The graph is of PyTorch's operators, see aten.h.  Nothing is executed; sample
 * inputs, which are a pickle, are not read.
 */
#include "weights/aten/export/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/text.h"

#define FORMAT  "archive_format"
#define MODELS  "models/"
#define WEIGHTS "data/weights/"
#define CONSTS  "data/constants/"

/* ---- finding the parts --------------------------------------------- */

/* Length of NAME/ where the member is NAME/archive_format or archive_format. */
static bool is_format(const char *name, size_t *root)
{
    const char *slash = strchr(name, '/');

    *root = slash ? (size_t)(slash - name) + 1 : 0;
    return strcmp(name + *root, FORMAT) == 0;
}

static int probe(const struct weights_file *file)
{
    struct zipfile zip;
    size_t root;
    int score = 0;

    if (!zipfile_probe(file->blob) || zipfile_open(file->blob, NULL, &zip) < 0)
        return 0;
    for (size_t i = 0; i < zip.count; i++)
        if (is_format(zip.entry[i].name, &root))
            score = 98;
    zipfile_close(&zip);
    return score;
}

static int find_root(struct export_archive *a, struct infer_error *err)
{
    size_t root;

    for (size_t i = 0; i < a->zip.count; i++)
        if (is_format(a->zip.entry[i].name, &root)) {
            a->root = malloc(root + 1);
            if (!a->root)
                return error_set(err, INFER_EMEMORY, "out of memory");
            memcpy(a->root, a->zip.entry[i].name, root);
            a->root[root] = 0;
            return 0;
        }
    return error_set(err, INFER_EFORMAT, "the archive has no '%s'", FORMAT);
}

/* The one member FOLDER*ENDING, or -1; two are refused. */
static int find_one(const struct export_archive *a, const char *folder,
                    const char *ending, struct infer_error *err, int64_t *out)
{
    const size_t root = strlen(a->root), n = strlen(folder);

    *out = -1;
    for (size_t i = 0; i < a->zip.count; i++) {
        const char *name = a->zip.entry[i].name;

        if (strncmp(name, a->root, root) != 0 ||
            strncmp(name + root, folder, n) != 0 || !text_ends(name, ending))
            continue;
        if (*out >= 0)
            return error_set(err, INFER_EUNSUPPORTED,
                             "the archive holds several networks: %s and %s",
                             a->zip.entry[*out].name, name);
        *out = (int64_t)i;
    }
    return 0;
}

static int read_json(struct export_archive *a, const char *folder,
                     const char *ending, struct infer_error *err, cJSON **out)
{
    struct zipfile_data data;
    int64_t i;
    int rc = find_one(a, folder, ending, err, &i);

    if (rc < 0 || i < 0)
        return rc;
    rc = zipfile_read(&a->zip, (size_t)i, err, &data);
    if (rc < 0)
        return rc;
    rc = json_parse_within((const char *)data.data, data.bytes,
                           a->zip.blob->bytes, true, err, out);
    if (rc < 0)
        error_prefix(err, "%s", a->zip.entry[i].name + strlen(a->root));
    zipfile_data_clear(&data);
    return rc;
}

/* ---- reading ------------------------------------------------------- */

static int open_archive(struct export_archive *a, struct infer_error *err)
{
    int rc = find_root(a, err);

    if (rc == 0)
        rc = read_json(a, MODELS, ".json", err, &a->graph);
    if (rc == 0 && !a->graph)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "the archive has no models/*.json: it holds compiled "
                       "code, or is of PyTorch before 2.8; save it with "
                       "torch.export.save() of a newer one");
    if (rc == 0)
        rc = read_json(a, WEIGHTS, "_weights_config.json", err, &a->config[0]);
    if (rc == 0)
        rc = read_json(a, CONSTS, "_constants_config.json", err, &a->config[1]);
    return rc < 0 ? rc : export_list_tensors(a, err);
}

static void close_archive(struct export_archive *a)
{
    export_clear_tensors(a);
    cJSON_Delete(a->graph);
    cJSON_Delete(a->config[0]);
    cJSON_Delete(a->config[1]);
    free(a->root);
    zipfile_close(&a->zip);
}

static int read_program(struct export_archive *a,
                        const struct weights_options *options,
                        struct infer_error *err, struct weights_import *out)
{
    struct aten_program program = {.load = export_load_tensor, .user = a};
    const char *version = json_string(a->graph, "torch_version");
    int rc = export_read_graph(a, err, &program);

    if (rc == 0)
        rc = aten_import(&program, options, err, &out->graph);
    if (rc == 0)
        snprintf(out->detail, sizeof out->detail,
                 "exported by PyTorch %.32s, %d nodes, %zu tensors",
                 version ? version : "(unknown)", program.n_nodes, a->tensors);
    onnx_arena_clear(&program.arena);
    return rc;
}

static int read_export(struct weights_file *file,
                       const struct weights_options *options,
                       struct infer_error *err, struct weights_import *out)
{
    struct export_archive a = {.bytes = file->blob->bytes};
    struct infer_error local;
    int rc;

    if (!err)
        err = &local;
    rc = zipfile_open(file->blob, err, &a.zip);
    if (rc < 0)
        return rc;
    rc = open_archive(&a, err);
    if (rc == 0)
        rc = read_program(&a, options, err, out);
    close_archive(&a);
    return rc;
}

const struct weights_format weights_format_export = {
    .name = "pt2",
    .description =
        "PyTorch program of torch.export (.pt2), PyTorch 2.8 and later",
    .probe = probe,
    .read = read_export,
};
