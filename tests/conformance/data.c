/* SPDX-License-Identifier: Apache-2.0 */
/* MNIST's idx.gz and CIFAR-10's binary batches. */
#include "tests/conformance/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

/* Reads an idx file: its header must be `rank` sizes of unsigned bytes.
 * Returns the bytes of the first `limit` items, or NULL. */
static uint8_t *read_idx(const char *path, int rank, int limit, int *count)
{
    gzFile f = gzopen(path, "rb");
    unsigned char head[16];
    uint8_t *data = NULL;
    size_t item = 1;
    int i;

    if (f == NULL ||
        gzread(f, head, 4u + 4u * (unsigned)rank) != 4 + 4 * rank ||
        head[2] != 8 || head[3] != rank)
        goto done;
    *count = head[4] << 24 | head[5] << 16 | head[6] << 8 | head[7];
    if (*count > limit)
        *count = limit;
    for (i = 1; i < rank; i++)
        item *= (size_t)(head[4 + 4 * i + 2] << 8 | head[4 + 4 * i + 3]);
    data = malloc(item * (size_t)*count);
    if (data != NULL && gzread(f, data, (unsigned)(item * (size_t)*count)) !=
                            (int)(item * (size_t)*count)) {
        free(data);
        data = NULL;
    }
done:
    if (f != NULL)
        gzclose(f);
    if (data == NULL)
        fprintf(stderr, "%s: cannot be read\n", path);
    return data;
}

int dataset_mnist(const char *folder, int limit, struct dataset *out)
{
    char path[4096];
    int labels = 0;

    memset(out, 0, sizeof(*out));
    out->channels = 1;
    out->height = out->width = 28;
    snprintf(path, sizeof(path), "%s/mnist/t10k-images-idx3-ubyte.gz", folder);
    out->pixel = read_idx(path, 3, limit, &out->count);
    snprintf(path, sizeof(path), "%s/mnist/t10k-labels-idx1-ubyte.gz", folder);
    out->label = read_idx(path, 1, limit, &labels);
    if (out->pixel == NULL || out->label == NULL || labels != out->count) {
        dataset_free(out);
        return -1;
    }
    return 0;
}

int dataset_cifar10(const char *folder, int limit, struct dataset *out)
{
    enum { BYTES = 3 * 32 * 32 };
    unsigned char row[1 + BYTES];
    char path[4096];
    FILE *f;

    memset(out, 0, sizeof(*out));
    out->channels = 3;
    out->height = out->width = 32;
    snprintf(path, sizeof(path), "%s/cifar10/test_batch_first1000.bin", folder);
    f = fopen(path, "rb");
    out->pixel = malloc((size_t)limit * BYTES);
    out->label = malloc((size_t)limit);
    if (f == NULL || out->pixel == NULL || out->label == NULL) {
        fprintf(stderr, "%s: cannot be read\n", path);
        if (f != NULL)
            fclose(f);
        dataset_free(out);
        return -1;
    }
    while (out->count < limit && fread(row, 1, sizeof(row), f) == sizeof(row)) {
        out->label[out->count] = row[0];
        memcpy(out->pixel + (size_t)out->count * BYTES, row + 1, BYTES);
        out->count++;
    }
    fclose(f);
    return 0;
}

void dataset_free(struct dataset *d)
{
    free(d->pixel);
    free(d->label);
    memset(d, 0, sizeof(*d));
}
