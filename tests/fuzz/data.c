/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: files of the tools that are read by name: arrays, labels, gzip
 * and idx.  The first byte chooses; the others are the file, for idx the first
 * half the pictures and the second the labels. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tools/labels.h"
#include "tools/npy.h"
#include "tools/train/data/data.h"

static void put(const char *path, const uint8_t *data, size_t size)
{
    FILE *f = fopen(path, "wb");

    if (!f || (size > 0 && fwrite(data, 1, size, f) != size))
        abort();
    fclose(f);
}

static void read_idx(const char *folder, const uint8_t *data, size_t size)
{
    const struct data_wish wish = {.channels = 1, .height = 28, .width = 28};
    struct data_set set;
    struct infer_error err;
    char images[96], labels[96];

    snprintf(images, sizeof images, "%s/train-images-idx3-ubyte", folder);
    snprintf(labels, sizeof labels, "%s/train-labels-idx1-ubyte", folder);
    put(images, data, size / 2);
    put(labels, data + size / 2, size - size / 2);
    if (data_open(folder, DATA_TRAIN, &wish, &err, &set) == 0)
        data_close(&set);
    unlink(images);
    unlink(labels);
}

static void read_one(int which, const char *path)
{
    struct infer_array array = {0};
    struct labels labels = {0};
    unsigned char *file = NULL;
    struct infer_error err;
    size_t bytes;

    if (which == 0 && npy_read(path, NULL, &array, &err) == 0)
        free(array.data);
    if (which == 1 && labels_read(path, &err, &labels) == 0)
        labels_clear(&labels);
    if (which == 2 &&
        data_read_file(path, 1 << 20, 1, &err, &file, &bytes) == 0)
        free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char folder[64];
    char path[80];

    if (size < 1)
        return 0;
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "%s/fuzz-data-%ld",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
                 (long)getpid());
    }
    if (mkdir(folder, 0700) < 0)
        abort();
    if ((data[0] & 3) == 3) {
        read_idx(folder, data + 1, size - 1);
    } else {
        snprintf(path, sizeof path, "%s/file", folder);
        put(path, data + 1, size - 1);
        read_one(data[0] & 3, path);
        unlink(path);
    }
    rmdir(folder);
    return 0;
}
