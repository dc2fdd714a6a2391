/* SPDX-License-Identifier: Apache-2.0 */
/* idx files (MNIST and its kin): 0, 0, type, rank, big-endian sizes, data.
 * http://yann.lecun.com/exdb/mnist/ describes the format. */
#include "tools/train/data/data.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"

#define TYPE_U8   8
#define MAX_BYTES ((size_t)4 << 30)

#define MAX_RANK 3

struct idx {
    unsigned char *file; /* malloc()ed */
    int64_t dim[MAX_RANK];
    size_t bytes; /* of the whole file, from its header */
    const unsigned char *data;
};

static int64_t big_endian(const unsigned char *p)
{
    return (int64_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

/* Checks the header against the file before anything else is read. */
static int parse(struct idx *x, const unsigned char *head, size_t bytes,
                 int rank, const char *path, struct infer_error *err)
{
    const size_t begin = 4 + 4 * (size_t)rank;
    int64_t count;

    if (bytes < 4 || head[0] != 0 || head[1] != 0)
        return error_set(err, INFER_EFORMAT,
                         "%s: no idx file: it does not start with two zero "
                         "bytes",
                         path);
    if (head[2] != TYPE_U8)
        return error_set(err, INFER_EFORMAT,
                         "%s: elements of type 0x%02x; supported: 0x08, bytes",
                         path, head[2]);
    if (head[3] != rank || bytes < begin)
        return error_set(err, INFER_EFORMAT,
                         "%s: has %d dimensions, expected %d: is it the other "
                         "one of images and labels?",
                         path, head[3], rank);
    for (int i = 0; i < rank; i++)
        x->dim[i] = big_endian(head + 4 + 4 * i);
    if (!checked_count(rank, x->dim, &count) || (uint64_t)count > MAX_BYTES)
        return error_set(err, INFER_EFORMAT,
                         "%s: its header tells of %lld pictures or labels of "
                         "more than %zu bytes: it is damaged; fetch it again",
                         path, (long long)x->dim[0], MAX_BYTES);
    x->bytes = begin + (size_t)count;
    return 0;
}

/* Sizes and bytes that the header tells of. */
static int read_head(const char *path, int rank, struct infer_error *err,
                     struct idx *out)
{
    unsigned char head[4 + 4 * MAX_RANK];
    size_t bytes;
    const int rc =
        data_read_head(path, 4 + 4 * (size_t)rank, err, head, &bytes);

    return rc < 0 ? rc : parse(out, head, bytes, rank, path, err);
}

/* x->file is to be freed after an error too. */
static int read_body(const char *path, int rank, struct infer_error *err,
                     struct idx *x)
{
    size_t bytes;
    const int rc =
        data_read_file(path, x->bytes, x->bytes, err, &x->file, &bytes);

    if (rc < 0)
        return rc;
    if (bytes != x->bytes)
        return error_set(err, INFER_EFORMAT,
                         "%s: its header tells of %lld pictures or labels in "
                         "%zu bytes, but it holds %zu: the file is cut off; "
                         "fetch it again",
                         path, (long long)x->dim[0], x->bytes, bytes);
    x->data = x->file + 4 + 4 * (size_t)rank;
    return 0;
}

/* Whether the headers fit each other. */
static int check_pair(const struct idx *images, const struct idx *labels,
                      const char *images_path, const char *labels_path,
                      struct infer_error *err)
{
    if (images->dim[0] != labels->dim[0])
        return error_set(err, INFER_EFORMAT,
                         "%s holds %lld labels, but %s holds %lld pictures: "
                         "they are not of one set",
                         labels_path, (long long)labels->dim[0], images_path,
                         (long long)images->dim[0]);
    if (images->dim[1] < 1 || images->dim[2] < 1 || images->dim[1] > 16384 ||
        images->dim[2] > 16384)
        return error_set(err, INFER_EFORMAT, "%s: pictures of %lld x %lld",
                         images_path, (long long)images->dim[2],
                         (long long)images->dim[1]);
    return 0;
}

static int join(const struct idx *images, const struct idx *labels,
                const char *images_path, struct infer_error *err,
                struct data_set *out)
{
    const int64_t count = images->dim[0];

    out->count = count;
    out->channels = 1;
    out->height = (int)images->dim[1];
    out->width = (int)images->dim[2];
    out->pixels = malloc((size_t)count * data_bytes(out) + 1);
    out->label = malloc((size_t)count * sizeof(*out->label) + 1);
    if (!out->pixels || !out->label)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", images_path);
    memcpy(out->pixels, images->data, (size_t)count * data_bytes(out));
    for (int64_t i = 0; i < count; i++) {
        out->label[i] = labels->data[i];
        if (labels->data[i] >= out->classes)
            out->classes = labels->data[i] + 1;
    }
    return 1;
}

int data_open_idx(const char *path, enum data_part part,
                  struct infer_error *err, struct data_set *out)
{
    static const char *const names[2][2] = {
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
        {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}};
    char *images = data_find(path, names[part][0]);
    char *labels = data_find(path, names[part][1]);
    struct idx x = {0}, y = {0};
    int rc = 0;

    if (images && !labels)
        rc = error_set(err, INFER_EIO, "%s: %s is not beside it", images,
                       names[part][1]);
    else if (labels && !images)
        rc = error_set(err, INFER_EIO, "%s: %s is not beside it", labels,
                       names[part][0]);
    if (rc == 0 && images) {
        /* The pictures last: few bytes of gzip may hold many. */
        rc = read_head(images, 3, err, &x);
        if (rc == 0)
            rc = read_head(labels, 1, err, &y);
        if (rc == 0)
            rc = check_pair(&x, &y, images, labels, err);
        if (rc == 0)
            rc = read_body(labels, 1, err, &y);
        if (rc == 0)
            rc = read_body(images, 3, err, &x);
        if (rc == 0)
            rc = join(&x, &y, images, err, out);
    }
    free(x.file);
    free(y.file);
    free(images);
    free(labels);
    return rc;
}
