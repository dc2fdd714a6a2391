/* SPDX-License-Identifier: Apache-2.0 */
/* CIFAR-10's binary version: records of one label byte and 3 x 32 x 32 bytes,
 * red, green, blue planes (https://www.cs.toronto.edu/~kriz/cifar.html). */
#include "tools/train/data/data.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"

#define SIDE      32
#define PICTURE   (3 * SIDE * SIDE)
#define RECORD    (1 + PICTURE)
#define CLASSES   10
#define MAX_BYTES ((size_t)RECORD * 1000000)
#define MAX_FILES 64 /* CIFAR-10 has 5 */

static bool is_batch(const char *name, enum data_part part)
{
    const char *begin = part == DATA_TRAIN ? "data_batch" : "test_batch";

    return text_begins(name, begin) &&
           (text_ends(name, ".bin") || text_ends(name, ".bin.gz"));
}

static int add_file(const char *path, struct infer_error *err,
                    struct data_set *out)
{
    unsigned char *file = NULL;
    uint8_t *pixels;
    int32_t *label;
    size_t bytes;
    int64_t count;
    int rc = data_read_file(path, MAX_BYTES, RECORD, err, &file, &bytes);

    if (rc < 0)
        return rc;
    count = (int64_t)(bytes / RECORD);
    if (bytes == 0 || bytes % RECORD != 0) {
        free(file);
        return error_set(err, INFER_EFORMAT,
                         "%s: %zu bytes are no whole number of CIFAR-10 "
                         "records of %d bytes: the file is cut off, or of "
                         "another set; fetch the binary version again",
                         path, bytes, RECORD);
    }
    pixels = realloc(out->pixels, (size_t)(out->count + count) * PICTURE);
    if (pixels)
        out->pixels = pixels;
    label = realloc(out->label, (size_t)(out->count + count) * sizeof(*label));
    if (label)
        out->label = label;
    if (!pixels || !label) {
        free(file);
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    }
    for (int64_t i = 0; i < count; i++) {
        out->label[out->count] = file[i * RECORD];
        memcpy(out->pixels + out->count * PICTURE, file + i * RECORD + 1,
               PICTURE);
        out->count++;
    }
    free(file);
    return 1;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Skips the .gz of a batch that is also there uncompressed. */
static bool is_copy(const char *name, const char *before)
{
    const size_t length = strlen(before);

    return strncmp(name, before, length) == 0 &&
           strcmp(name + length, ".gz") == 0;
}

/* Batch files of a folder, sorted by name. */
static int add_folder(const char *path, enum data_part part,
                      struct infer_error *err, struct data_set *out)
{
    char *name[MAX_FILES];
    int n = 0, rc = 0;
    const struct dirent *entry;
    DIR *dir = opendir(path);

    if (!dir)
        return 0;
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        if (!is_batch(entry->d_name, part))
            continue;
        if (n == MAX_FILES)
            rc = error_set(err, INFER_EFORMAT,
                           "%s: holds more than %d CIFAR-10 batches", path,
                           MAX_FILES);
        else if (!(name[n] = data_join(path, entry->d_name)))
            rc = error_set(err, INFER_EMEMORY, "out of memory");
        else
            n++;
    }
    closedir(dir);
    qsort(name, (size_t)n, sizeof(name[0]), by_name);
    for (int i = 0; rc >= 0 && i < n; i++)
        if (i == 0 || !is_copy(name[i], name[i - 1]))
            rc = add_file(name[i], err, out);
    for (int i = 0; i < n; i++)
        free(name[i]);
    return rc;
}

int data_open_cifar(const char *path, enum data_part part,
                    struct infer_error *err, struct data_set *out)
{
    int rc;

    out->channels = 3;
    out->height = out->width = SIDE;
    out->classes = CLASSES;
    if (text_ends(path, ".bin") || text_ends(path, ".bin.gz"))
        rc = part == DATA_TRAIN ? add_file(path, err, out) : 0;
    else
        rc = add_folder(path, part, err, out);
    if (rc == 0)
        out->channels = out->height = out->width = out->classes = 0;
    return rc;
}
