/* SPDX-License-Identifier: Apache-2.0 */
/* The table of formats, and reading a file in whichever it is. */
#include "weights/weights.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

#define WEIGHTS_FORMAT(symbol) extern const struct weights_format symbol;
#include "weights/formats.def"
#undef WEIGHTS_FORMAT

#define WEIGHTS_FORMAT(symbol) &(symbol),
static const struct weights_format *const formats[] = {
#include "weights/formats.def"
    NULL /* so that the table is never empty */
};
#undef WEIGHTS_FORMAT

size_t weights_format_count(void)
{
    return sizeof formats / sizeof *formats - 1;
}

const struct weights_format *weights_format_at(size_t i)
{
    return i < weights_format_count() ? formats[i] : NULL;
}

void weights_options_init(struct weights_options *options)
{
    *options = (struct weights_options){0};
}

void weights_import_init(struct weights_import *import)
{
    *import = (struct weights_import){0};
    weights_dict_init(&import->dict);
}

void weights_import_clear(struct weights_import *import)
{
    graph_free(import->graph);
    free(import->second);
    weights_dict_clear(&import->dict);
    weights_import_init(import);
}

/* The names of all rows, for messages. */
static void list_formats(char *text, size_t bytes)
{
    size_t i, used = 0;

    text[0] = 0;
    for (i = 0; formats[i]; i++) {
        size_t n = strlen(formats[i]->name);

        if (used + n + 3 > bytes)
            return;
        if (i > 0) {
            memcpy(text + used, ", ", 2);
            used += 2;
        }
        memcpy(text + used, formats[i]->name, n + 1);
        used += n;
    }
}

#define HTML_PAGE "an HTML page: download the file by its raw address"

/* What a file that no row knows is by its first bytes, and the way out; NULL.
 */
static const char *foreign(const struct weights_file *file)
{
    static const struct {
        const char *begin, *what;
    } table[] = {
        {"version https://git-lfs.github.com/",
         "a pointer of Git LFS: git lfs pull brings the file itself"},
        {"<!DOCTYPE", HTML_PAGE},
        {"<!doctype", HTML_PAGE},
        {"<html", HTML_PAGE},
        {"<?xml", "an XML file: OpenVINO's is not read; convert the ONNX file "
                  "that it was made from"},
        {"\x1f\x8b", "a gzip file: gunzip unpacks it"},
        {"BZh", "a bzip2 file: bunzip2 unpacks it"},
        {"\xfd"
         "7zXZ",
         "an xz file: unxz unpacks it"},
        {"\x28\xb5\x2f\xfd", "a Zstandard file: unzstd unpacks it"},
        {"7z\xbc\xaf", "a 7-Zip archive: unpack it"},
        {"\x89PNG", "a picture, not weights: infer -m MODEL runs on it"},
        {"\xff\xd8\xff", "a picture, not weights: infer -m MODEL runs on it"},
        {"GGUF", "GGUF, the format of llama.cpp's language models"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        const size_t n = strlen(table[i].begin);

        if (file->blob->bytes >= n &&
            memcmp(file->blob->data, table[i].begin, n) == 0)
            return table[i].what;
    }
    return NULL;
}

/* Scores below this are guesses: what the architecture says comes first. */
#define GUESS 50

/* The row that knows the content best, or NULL; *score is its. */
static const struct weights_format *recognise(const struct weights_file *file,
                                              int *score)
{
    const struct weights_format *best = NULL;

    *score = 0;
    for (size_t i = 0; formats[i]; i++) {
        const int own = formats[i]->probe(file);
        if (own > *score) {
            *score = own;
            best = formats[i];
        }
    }
    return best;
}

/* The row whose network options name as the architecture; NULL. */
static const struct weights_format *
of_architecture(const struct weights_options *options)
{
    const struct weights_format *format = NULL;
    struct infer_error ignored;
    struct weights_file arch;

    if (!options->arch ||
        weights_file_read(options->arch, 0, &ignored, &arch) < 0)
        return NULL;
    for (size_t i = 0; formats[i] && !format; i++)
        if (formats[i]->is_network && formats[i]->is_network(&arch))
            format = formats[i];
    weights_file_close(&arch);
    return format;
}

static int choose(const struct weights_file *file,
                  const struct weights_options *options,
                  struct infer_error *err, const struct weights_format **out)
{
    int score;
    const struct weights_format *best = recognise(file, &score), *other = NULL;
    const char *from = options->from;
    char known[256];
    size_t i;

    list_formats(known, sizeof known);
    if (!best && foreign(file))
        return error_set(err, INFER_EUNSUPPORTED, "%s", foreign(file));
    if (!from || strcmp(from, "auto") == 0) {
        if (score < GUESS)
            other = of_architecture(options);
        if (other)
            best = other;
        if (!best)
            return error_set(err, INFER_EUNSUPPORTED,
                             "the content is of no format known here "
                             "(supported: %s)",
                             known);
        *out = best;
        return 0;
    }
    for (i = 0; formats[i]; i++) {
        if (strcmp(formats[i]->name, from) != 0)
            continue;
        if (formats[i]->probe(file) <= 0 &&
            of_architecture(options) != formats[i])
            return error_set(err, INFER_EFORMAT,
                             "the content is not %s, which was asked for%s%s",
                             from, best ? "; it looks like " : "",
                             best ? best->name : "");
        *out = formats[i];
        return 0;
    }
    return error_set(err, INFER_EARGUMENT,
                     "no format is named '%s' (supported: %s)", from, known);
}

int weights_read(const char *path, const struct weights_options *options,
                 struct infer_error *err, struct weights_import *out)
{
    const struct weights_format *format = NULL;
    struct weights_options defaults;
    struct weights_import import;
    struct weights_file file;
    int rc = weights_file_read(path, 0, err, &file);

    if (rc < 0)
        return rc;
    if (!options) {
        weights_options_init(&defaults);
        options = &defaults;
    }
    weights_import_init(&import);
    import.bytes = file.blob->bytes;
    if (file.blob->bytes == 0)
        rc = error_set(err, INFER_EFORMAT, "the file is empty");
    else
        rc = choose(&file, options, err, &format);
    if (rc == 0) {
        import.format = format->name;
        rc = format->read(&file, options, err, &import);
    }
    weights_file_close(&file);
    if (rc < 0) {
        weights_import_clear(&import);
        error_prefix(err, "%s", path);
        return rc;
    }
    *out = import;
    return 0;
}

int weights_read_arrays(const char *path, struct infer_error *err,
                        struct weights_import *out)
{
    struct weights_options options;

    weights_options_init(&options);
    options.from = "npz";
    return weights_read(path, &options, err, out);
}
