/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a network by its path or name, whatever holds it. */
#include "weights/weights.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "libinfer/graph/model_file.h"
#include "weights/arch.h"

enum content { CONTENT_OTHER, CONTENT_MODEL, CONTENT_ARCH };

/* Classifies a file by its first bytes: model_file_write() puts "infer.version"
 * first, and an architecture file is a JSON object that names "infer" early. */
static enum content content_of(const char *path)
{
    static const char mark[] = "{\"__metadata__\":{\"infer.version\"";
    enum content content = CONTENT_OTHER;
    char head[512] = "";
    struct stat st;
    size_t got;
    FILE *f;

    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return CONTENT_OTHER;
    f = fopen(path, "rb");
    if (f == NULL)
        return CONTENT_OTHER;
    got = fread(head, 1, sizeof(head) - 1, f);
    fclose(f);
    if (got >= 8 + sizeof(mark) &&
        memcmp(head + 8, mark, sizeof(mark) - 1) == 0)
        content = CONTENT_MODEL;
    else if (head[strspn(head, " \t\r\n")] == '{' &&
             strstr(head, "\"infer\"") != NULL)
        content = CONTENT_ARCH;
    return content;
}

/* The file of a folder that TensorFlow wrote: a SavedModel. */
static bool saved_model(const char *folder, char *path, size_t bytes)
{
    const int n = snprintf(path, bytes, "%s/saved_model.pb", folder);
    struct stat st;

    return n > 0 && (size_t)n < bytes && stat(folder, &st) == 0 &&
           S_ISDIR(st.st_mode) && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int weights_network_open(const char *path,
                         const struct weights_options *options,
                         struct infer_error *err, struct weights_network *out)
{
    const bool given =
        options->from != NULL && strcmp(options->from, "auto") != 0;
    char inside[4096];
    struct stat st;
    int rc;

    memset(out, 0, sizeof(*out));
    out->path = path;
    weights_import_init(&out->import);
    if (strcmp(path, "-") == 0 && stat(path, &st) < 0)
        return error_set(err, INFER_EARGUMENT,
                         "-: weights are read from a file, not from standard "
                         "input");
    /* A bare word that is no file is the name of an architecture. */
    if (stat(path, &st) < 0 &&
        (arch_find(path) != NULL || path[strcspn(path, "./")] == '\0'))
        return arch_open(path, NULL, err, &out->graph);
    switch (given ? CONTENT_OTHER : content_of(path)) {
    case CONTENT_MODEL:
        out->bytes = (uint64_t)st.st_size;
        return model_file_read(path, err, &out->graph);
    case CONTENT_ARCH:
        return model_file_read_arch(path, err, &out->graph);
    case CONTENT_OTHER:
        break;
    }
    if (saved_model(path, inside, sizeof(inside)))
        path = inside;
    rc = weights_read(path, options, err, &out->import);
    if (rc < 0)
        return rc;
    out->graph = out->import.graph;
    out->import.graph = NULL; /* moved */
    out->bytes = out->import.bytes;
    return INFER_OK;
}

void weights_network_close(struct weights_network *network)
{
    graph_free(network->graph);
    weights_import_clear(&network->import);
    memset(network, 0, sizeof(*network));
}
