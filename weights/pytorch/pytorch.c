/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch files.  Since 1.6 they are zip archives:
 *
 *     NAME/data.pkl        the pickled value; tensors refer to storages
 *     NAME/data/KEY        one storage each, stored, little-endian
 *     NAME/version         "3\n"
 *     NAME/byteorder       "little", where there is one
 *
 * TorchScript's archives are the same and hold NAME/constants.pkl and
 * NAME/code/ as well.  This reader takes their weights, those of data.pkl, for
 * an architecture; weights/torchscript reads the program.
 *
 * Files from before are in legacy.c.  A bare pickle of numpy arrays is
 * read too.
 *
 * Untrusted: the pickle machine executes nothing; every tensor is checked
 * against its storage, every storage against its record.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "weights/bytes.h"
#include "weights/pytorch/torch.h"
#include "weights/zip.h"

#define MAX_VERSION 10 /* of the archive; PyTorch itself refuses above */
#define MAX_KEY     256
#define MAX_FOLDER  4096

/* Ends the name of a member of what torch.export.save() writes (.pt2). */
#define EXPORTED "/archive_format"

struct archive {
    struct zipfile zip;
    char *folder; /* with its slash */
    bool swapped; /* written on a big-endian machine */
};

/* ---- probing ------------------------------------------------------- */

/* Looks at the directory; where that is damaged, at the first member. */
static int probe_zip(const struct blob *blob)
{
    struct zipfile zip;
    size_t i, first;
    int score = 5; /* some archive: at least the zip errors get told */

    if (zipfile_open((struct blob *)(uintptr_t)blob, NULL, &zip) == 0) {
        for (i = 0; i < zip.count; i++)
            if (text_ends(zip.entry[i].name, "/data.pkl") ||
                strcmp(zip.entry[i].name, "data.pkl") == 0)
                score = 95;
        zipfile_close(&zip);
        return score;
    }
    if (blob->bytes >= 30) {
        first = bytes_le16(blob->data + 26);
        if (first <= blob->bytes - 30 &&
            text_part_ends((const char *)blob->data + 30, first, "data.pkl"))
            score = 60;
    }
    return score;
}

static bool is_tar(const struct blob *blob)
{
    return blob->bytes >= 512 && memcmp(blob->data + 257, "ustar", 5) == 0;
}

static int probe(const struct weights_file *file)
{
    const struct blob *blob = file->blob;

    if (zipfile_probe(blob))
        return probe_zip(blob);
    if (torch_legacy_probe(blob))
        return 95;
    if (is_tar(blob))
        return 30;
    /* A pickle with a header, and an end. */
    if (blob->bytes >= 4 && blob->data[0] == 0x80 && blob->data[1] <= 5 &&
        blob->data[blob->bytes - 1] == '.')
        return 20;
    return 0;
}

/* ---- the archive --------------------------------------------------- */

/* All members lie in one folder, which holds one data.pkl. */
static int find_folder(struct archive *a, struct infer_error *err)
{
    const char *folder = NULL;
    size_t i, length = 0;

    for (i = 0; i < a->zip.count; i++) {
        const char *name = a->zip.entry[i].name, *slash = strchr(name, '/');

        if (slash && strcmp(slash, EXPORTED) == 0)
            return error_set(err, INFER_EUNSUPPORTED,
                             "the file is a program of torch.export, which the "
                             "format pt2 reads");
        if (!slash || strcmp(slash, "/data.pkl") != 0)
            continue;
        if (folder)
            return error_set(err, INFER_EFORMAT,
                             "two members are a data.pkl: '%s' and another",
                             name);
        folder = name;
        length = (size_t)(slash - name) + 1;
    }
    if (!folder)
        return error_set(err, INFER_EFORMAT,
                         "the archive has no FOLDER/data.pkl: it is no "
                         "PyTorch file");
    if (length > MAX_FOLDER)
        return error_set(err, INFER_EFORMAT,
                         "the archive's folder has a name of %zu bytes",
                         length);
    for (i = 0; i < a->zip.count; i++)
        if (strncmp(a->zip.entry[i].name, folder, length) != 0)
            return error_set(err, INFER_EFORMAT,
                             "member '%s' lies outside the folder of "
                             "data.pkl",
                             a->zip.entry[i].name);
    a->folder = malloc(length + 1);
    if (!a->folder)
        return error_set(err, INFER_EMEMORY, "out of memory");
    memcpy(a->folder, folder, length);
    a->folder[length] = 0;
    return 0;
}

/* Index of FOLDER/name, or -1. */
static int64_t member(const struct archive *a, const char *name)
{
    char path[MAX_FOLDER + MAX_KEY + 16];

    snprintf(path, sizeof path, "%s%s", a->folder, name);
    return zipfile_find(&a->zip, path);
}

/* Reads a short text record; 0 where it is missing. */
static int read_text(struct archive *a, const char *name,
                     struct infer_error *err, char *text, size_t bytes)
{
    int64_t i = member(a, name);
    struct zipfile_data data;
    int rc;

    text[0] = 0;
    if (i < 0)
        return 0;
    rc = zipfile_read(&a->zip, (size_t)i, err, &data);
    if (rc < 0)
        return rc;
    if (data.bytes >= bytes || memchr(data.data, 0, data.bytes))
        rc = error_set(err, INFER_EFORMAT, "record '%s' is malformed", name);
    else {
        memcpy(text, data.data, data.bytes);
        text[data.bytes] = 0;
        text[strcspn(text, "\r\n")] = 0;
        rc = 1;
    }
    zipfile_data_clear(&data);
    return rc;
}

static int check_records(struct archive *a, struct infer_error *err)
{
    char text[32];
    int rc;

    rc = read_text(a, "byteorder", err, text, sizeof text);
    if (rc < 0)
        return rc;
    a->swapped = strcmp(text, "big") == 0;
    if (rc > 0 && !a->swapped && strcmp(text, "little") != 0)
        return error_set(err, INFER_EFORMAT, "unknown byte order '%s'", text);
    rc = read_text(a, "version", err, text, sizeof text);
    if (rc <= 0)
        return rc;
    if (text[0] == 0 || strspn(text, "0123456789") != strlen(text))
        return error_set(err, INFER_EFORMAT, "the version '%s' is no number",
                         text);
    if (strlen(text) > 2 || atoi(text) > MAX_VERSION)
        return error_set(err, INFER_EUNSUPPORTED,
                         "archive version %s is not supported (supported: up "
                         "to %d)",
                         text, MAX_VERSION);
    return 0;
}

int torch_load_member(struct zipfile *zip, const char *root, const char *folder,
                      bool swapped, struct torch_storage *storage,
                      struct infer_error *err)
{
    char name[MAX_FOLDER + MAX_KEY + 16];
    struct zipfile_data data;
    size_t wanted = 0;
    int64_t i;
    int rc = torch_storage_bytes(storage, err, &wanted), n;

    if (rc < 0)
        return rc;
    if (storage->key_bytes > MAX_KEY ||
        memchr(storage->key, 0, storage->key_bytes))
        return error_set(err, INFER_EFORMAT,
                         "the key of its storage is malformed");
    n = snprintf(name, sizeof name, "%s%s%.*s", root, folder,
                 (int)storage->key_bytes, (const char *)storage->key);
    i = n > 0 && (size_t)n < sizeof name ? zipfile_find(zip, name) : -1;
    if (i < 0 && wanted == 0)
        return 0;
    if (i < 0)
        return error_set(err, INFER_EFORMAT, "the archive has no record '%s'",
                         name + strlen(root));
    if (zip->entry[i].bytes != wanted)
        return error_set(err, INFER_EFORMAT,
                         "record '%s' has %llu bytes, but its storage needs "
                         "%zu",
                         name + strlen(root),
                         (unsigned long long)zip->entry[i].bytes, wanted);
    rc = zipfile_read(zip, (size_t)i, err, &data);
    if (rc < 0)
        return rc;
    storage->blob = data.blob;
    storage->data = data.data;
    storage->bytes = data.bytes;
    torch_storage_settle(storage, swapped);
    return 0;
}

static int load_storage(struct torch_source *source,
                        struct torch_storage *storage, struct infer_error *err)
{
    struct archive *a = source->user;

    return torch_load_member(&a->zip, a->folder, "data/", a->swapped, storage,
                             err);
}

static int import_pickle(struct archive *a, const unsigned char *data,
                         size_t bytes, uint64_t file_bytes,
                         struct infer_error *err, struct weights_import *out)
{
    struct torch_source source;
    struct pickle pickle;
    int rc = pickle_read(data, bytes, err, &pickle);

    if (rc < 0)
        return rc;
    if (pickle.used != bytes)
        rc = error_set(err, INFER_EFORMAT,
                       "pickle: %zu bytes follow its end at byte %zu",
                       bytes - pickle.used, pickle.used);
    else
        rc = torch_source_init(&source, &pickle, file_bytes, err);
    if (rc < 0) {
        pickle_clear(&pickle);
        return rc;
    }
    if (!a && source.storages > 0)
        rc = error_set(err, INFER_EFORMAT,
                       "a bare pickle refers to storages that it does not "
                       "hold");
    source.load = load_storage;
    source.user = a;
    if (rc == 0)
        rc = torch_import_state(&source, err, out);
    torch_source_clear(&source);
    pickle_clear(&pickle);
    return rc;
}

static int read_archive(struct archive *a, uint64_t file_bytes,
                        struct infer_error *err, struct weights_import *out)
{
    struct zipfile_data data;
    int rc;

    if ((rc = find_folder(a, err)) < 0 || (rc = check_records(a, err)) < 0 ||
        (rc = zipfile_read(&a->zip, (size_t)member(a, "data.pkl"), err,
                           &data)) < 0)
        return rc;
    rc = import_pickle(a, data.data, data.bytes, file_bytes, err, out);
    zipfile_data_clear(&data);
    if (rc == INFER_EFORMAT && out->dict.count == 0 &&
        member(a, "constants.pkl") >= 0)
        error_add(
            err, rc,
            "the file is a TorchScript program: one that was frozen keeps "
            "its weights without names; save the network's state_dict() "
            "instead, or export it to ONNX");
    return rc;
}

static int read_zip(struct weights_file *file, struct infer_error *err,
                    struct weights_import *out)
{
    struct archive a = {0};
    int rc = zipfile_open(file->blob, err, &a.zip);

    if (rc < 0)
        return rc;
    rc = read_archive(&a, file->blob->bytes, err, out);
    snprintf(out->detail, sizeof out->detail, "%s, %zu tensors",
             rc == 0 && member(&a, "constants.pkl") >= 0
                 ? "weights of a TorchScript program"
                 : "zip archive",
             out->dict.count);
    free(a.folder);
    zipfile_close(&a.zip);
    return rc;
}

static int read(struct weights_file *file,
                const struct weights_options *options, struct infer_error *err,
                struct weights_import *out)
{
    int rc;

    (void)options;
    if (zipfile_probe(file->blob))
        return read_zip(file, err, out);
    if (torch_legacy_probe(file->blob))
        return torch_legacy_read(file, err, out);
    if (is_tar(file->blob))
        return error_set(err, INFER_EUNSUPPORTED,
                         "PyTorch files that are tar archives (before 0.1.10) "
                         "are not read; load and save it with a newer "
                         "PyTorch");
    rc = import_pickle(NULL, file->blob->data, file->blob->bytes,
                       file->blob->bytes, err, out);
    snprintf(out->detail, sizeof out->detail, "bare pickle, %zu arrays",
             out->dict.count);
    return rc;
}

const struct weights_format weights_format_pytorch = {
    .name = "pytorch",
    .description =
        "PyTorch state_dict, checkpoint or network (.pth, .pt), zip or legacy",
    .probe = probe,
    .read = read,
};
