/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: files of the tools that are read by name: arrays, labels, gzip
 * and idx.  The first byte chooses (bits 0 and 1 the kind, bit 2 whether the
 * rest is put under gzip); the others are the file, for idx the first half the
 * pictures and the second the labels. */
#include <zlib.h>

#include "tests/fuzz/folder.h"
#include "tests/fuzz/fuzz.h"
#include "tools/labels.h"
#include "tools/npy.h"
#include "tools/train/data/data.h"

static void read_idx(const uint8_t *data, size_t size)
{
    static const char images[] = "train-images-idx3-ubyte";
    static const char labels[] = "train-labels-idx1-ubyte";
    const struct data_wish wish = {.channels = 1, .height = 28, .width = 28};
    struct data_set set;
    struct infer_error err;

    folder_put(images, data, size / 2);
    folder_put(labels, data + size / 2, size - size / 2);
    if (fuzz_tell(data_open(folder_path(), DATA_TRAIN, &wish, &err, &set), &err,
                  0) == 0)
        data_close(&set);
    folder_remove(images);
    folder_remove(labels);
}

/* The bytes under gzip, in a file: no mutation gets past its CRC. */
static void put_packed(const uint8_t *data, size_t size)
{
    char path[128];
    gzFile f = gzopen(folder_file("file", path), "wb1");

    if (!f || (size > 0 && gzwrite(f, data, (unsigned)size) != (int)size) ||
        gzclose(f) != Z_OK)
        abort();
}

static void read_one(int which, const char *path)
{
    struct infer_array array = {0};
    struct labels labels = {0};
    unsigned char *file = NULL;
    struct infer_error err;
    size_t bytes;

    if (which == 0 &&
        fuzz_tell(npy_read(path, NULL, &array, &err), &err, 0) == 0)
        free(array.data);
    if (which == 1 && fuzz_tell(labels_read(path, &err, &labels), &err, 0) == 0)
        labels_clear(&labels);
    if (which == 2 &&
        fuzz_tell(data_read_file(path, 1 << 20, 1, &err, &file, &bytes), &err,
                  0) == 0)
        free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[128];

    if (size < 1)
        return 0;
    folder_open();
    if ((data[0] & 3) == 3) {
        read_idx(data + 1, size - 1);
    } else {
        if (data[0] & 4)
            put_packed(data + 1, size - 1);
        else
            folder_put("file", data + 1, size - 1);
        read_one(data[0] & 3, folder_file("file", path));
        folder_remove("file");
    }
    folder_close();
    return 0;
}
