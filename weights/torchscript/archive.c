/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of torch.jit.save():
 *
 *     NAME/data.pkl        the module: an object of its class, with attributes
 *     NAME/data/KEY        storages of its tensors
 *     NAME/constants.pkl   a tuple of the tensors that the code names c0, c1 ..
 *     NAME/constants/KEY   their storages
 *     NAME/code/ *.py      classes and functions, a file a module of Python
 *     NAME/byteorder       "little", where there is one
 *     NAME/traced_inputs.pkl  types and sizes of a trace's inputs
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "weights/torchscript/script.h"

#define MAX_PATH 1024
#define CODE     "code/"

static const char *const folders[TS_PICKLES] = {"data/", "constants/"};
static const char *const pickles[TS_PICKLES] = {"data.pkl", "constants.pkl"};

/* ---- finding the parts --------------------------------------------- */

bool ts_archive_probe(const struct zipfile *zip)
{
    bool code = false, data = false;

    for (size_t i = 0; i < zip->count; i++) {
        const char *name = zip->entry[i].name, *slash = strchr(name, '/');

        if (!slash)
            continue;
        data |= strcmp(slash + 1, "data.pkl") == 0;
        code |= strncmp(slash + 1, CODE, sizeof CODE - 1) == 0 &&
                text_ends(name, ".py");
    }
    return code && data;
}

static int find_folder(struct ts_archive *a, struct infer_error *err)
{
    for (size_t i = 0; i < a->zip.count; i++) {
        const char *name = a->zip.entry[i].name, *slash = strchr(name, '/');
        const size_t bytes = slash ? (size_t)(slash - name) + 1 : 0;

        if (!slash || strcmp(slash, "/data.pkl") != 0)
            continue;
        if (a->folder)
            return error_set(err, INFER_EFORMAT,
                             "two members are a data.pkl: '%s' and another",
                             name);
        if (bytes > MAX_PATH)
            return error_set(err, INFER_EFORMAT,
                             "the archive's folder has a name of %zu bytes",
                             bytes);
        a->folder = malloc(bytes + 1);
        if (!a->folder)
            return error_set(err, INFER_EMEMORY, "out of memory");
        memcpy(a->folder, name, bytes);
        a->folder[bytes] = 0;
    }
    return a->folder ? 0
                     : error_set(err, INFER_EFORMAT,
                                 "the archive has no FOLDER/data.pkl");
}

/* Index of FOLDER/name, or -1. */
static int64_t member(const struct ts_archive *a, const char *name)
{
    char path[2 * MAX_PATH + 16];
    const int n = snprintf(path, sizeof path, "%s%s", a->folder, name);

    return n > 0 && (size_t)n < sizeof path ? zipfile_find(&a->zip, path) : -1;
}

static int read_byteorder(struct ts_archive *a, struct infer_error *err)
{
    const int64_t i = member(a, "byteorder");
    struct zipfile_data data;
    int rc;

    if (i < 0)
        return 0;
    rc = zipfile_read(&a->zip, (size_t)i, err, &data);
    if (rc < 0)
        return rc;
    a->swapped = data.bytes >= 3 && memcmp(data.data, "big", 3) == 0;
    if (!a->swapped &&
        !(data.bytes >= 6 && memcmp(data.data, "little", 6) == 0))
        rc = error_set(err, INFER_EFORMAT, "unknown byte order");
    zipfile_data_clear(&data);
    return rc;
}

/* ---- pickles ------------------------------------------------------- */

static int load_storage(struct torch_source *source,
                        struct torch_storage *storage, struct infer_error *err)
{
    struct ts_archive *a = source->user;
    const int which = source == &a->source[TS_DATA] ? TS_DATA : TS_CONSTANTS;

    return torch_load_member(&a->zip, a->folder, folders[which], a->swapped,
                             storage, err);
}

/* Takes bytes of what the archive may take. */
static int take_room(struct ts_archive *a, size_t bytes,
                     struct infer_error *err)
{
    if (bytes > a->room)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the program is too long for its file");
    a->room -= bytes;
    return 0;
}

int ts_archive_read(struct ts_archive *a, const char *name,
                    struct infer_error *err, struct zipfile_data *out)
{
    const int64_t i = member(a, name);
    int rc;

    *out = (struct zipfile_data){.data = NULL};
    if (i < 0)
        return 0;
    rc = zipfile_read(&a->zip, (size_t)i, err, out);
    if (rc == 0 && (rc = take_room(a, out->bytes, err)) < 0)
        zipfile_data_clear(out);
    return rc;
}

static int read_pickle(struct ts_archive *a, int which, struct infer_error *err)
{
    struct pickle *p = &a->pickle[which];
    int rc = ts_archive_read(a, pickles[which], err, &a->text[which]);

    if (rc == 0 && !a->text[which].data)
        return 0;
    if (rc == 0)
        rc = pickle_read(a->text[which].data, a->text[which].bytes, err, p);
    if (rc == 0) {
        a->there[which] = true;
        rc = torch_source_init(&a->source[which], p, a->zip.blob->bytes, err);
        a->source[which].load = load_storage;
        a->source[which].user = a;
    }
    if (rc < 0)
        error_prefix(err, "%s", pickles[which]);
    return rc;
}

void ts_archive_rewind(struct ts_archive *a)
{
    for (int which = 0; which < TS_PICKLES; which++) {
        struct torch_source *s = &a->source[which];

        s->copied = 0;
        for (size_t i = 0; i < s->storages; i++)
            s->storage[i].lent = 0;
    }
}

/* ---- code ---------------------------------------------------------- */

/* __torch__.a.b -> code/__torch__/a/b.py */
static int path_of(struct pb_span module, char *path, size_t room)
{
    size_t n = sizeof CODE - 1;

    if (module.bytes + n + 4 > room)
        return -1;
    memcpy(path, CODE, n);
    for (size_t i = 0; i < module.bytes; i++)
        path[n++] = (char)(module.data[i] == '.' ? '/' : module.data[i]);
    memcpy(path + n, ".py", 4);
    return memchr(path, 0, n) ? -1 : 0;
}

static int read_module(struct ts_archive *a, size_t i, const char *path,
                       struct infer_error *err)
{
    const size_t before = a->arena.bytes;
    struct ts_file *file = onnx_alloc(&a->arena, sizeof *file);
    char *copy = onnx_alloc(&a->arena, strlen(path) + 1);
    int rc;

    if (!file || !copy)
        return error_set(err, INFER_EMEMORY, "out of memory");
    memcpy(copy, path, strlen(path) + 1);
    file->path = copy;
    if (!a->code[i].data) {
        rc = zipfile_read(&a->zip, i, err, &a->code[i]);
        if (rc == 0)
            rc = take_room(a, a->code[i].bytes, err);
        if (rc < 0)
            return rc;
    }
    a->arena.limit = before + a->room;
    rc = ts_parse(file, a->code[i].data, a->code[i].bytes, &a->arena, &a->nodes,
                  err);
    a->arena.limit = 0;
    a->arena.full = false;
    if (rc == 0)
        rc = take_room(a, a->arena.bytes - before, err);
    if (rc == 0)
        a->file[i] = file;
    return rc;
}

int ts_archive_module(struct ts_archive *a, struct pb_span module,
                      struct infer_error *err, const struct ts_file **out)
{
    char path[MAX_PATH];
    int64_t i;
    int rc = 0;

    *out = NULL;
    if (path_of(module, path, sizeof path) < 0)
        return 0;
    i = member(a, path);
    if (i < 0 || a->zip.entry[i].directory)
        return 0;
    if (!a->file[i])
        rc = read_module(a, (size_t)i, path, err);
    *out = a->file[i];
    return rc;
}

/* ---- the whole ----------------------------------------------------- */

static int open_parts(struct ts_archive *a, struct infer_error *err)
{
    int rc;

    if ((rc = find_folder(a, err)) < 0 || (rc = read_byteorder(a, err)) < 0)
        return rc;
    a->code = calloc(a->zip.count + 1, sizeof *a->code);
    a->file = calloc(a->zip.count + 1, sizeof *a->file);
    if (!a->code || !a->file)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int which = 0; which < TS_PICKLES && rc == 0; which++)
        rc = read_pickle(a, which, err);
    return rc;
}

int ts_archive_open(struct blob *blob, struct infer_error *err,
                    struct ts_archive *out)
{
    int rc;

    *out = (struct ts_archive){.room = TS_MAX_BYTES};
    if (!checked_add(out->room, blob->bytes, &out->room))
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = zipfile_open(blob, err, &out->zip);
    if (rc < 0)
        return rc;
    rc = open_parts(out, err);
    if (rc < 0)
        ts_archive_close(out);
    return rc;
}

void ts_archive_close(struct ts_archive *a)
{
    for (int which = 0; which < TS_PICKLES; which++) {
        torch_source_clear(&a->source[which]);
        if (a->there[which])
            pickle_clear(&a->pickle[which]);
        if (a->text[which].data)
            zipfile_data_clear(&a->text[which]);
    }
    for (size_t i = 0; a->code && i < a->zip.count; i++)
        if (a->code[i].data)
            zipfile_data_clear(&a->code[i]);
    free(a->code);
    free(a->file);
    free(a->folder);
    onnx_arena_clear(&a->arena);
    zipfile_close(&a->zip);
    *a = (struct ts_archive){.swapped = false};
}
