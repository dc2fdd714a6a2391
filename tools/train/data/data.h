/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labelled pictures: MNIST's idx files, CIFAR-10's binary batches, folders of
 * pictures by class.
 *
 * All are 8-bit planes C,H,W and a class 0 .. classes-1.  Files come from
 * strangers: sizes are checked against the file before memory is taken.
 */
#ifndef TOOLS_TRAIN_DATA_DATA_H
#define TOOLS_TRAIN_DATA_DATA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/infer.h"
#include "libinfer/graph/graph.h"

/* A picture of a folder is decoded by whoever needs it first, and kept by one
 * of those who decoded it. */
enum { DATA_NOT_YET, DATA_BEING_KEPT, DATA_KEPT };

enum data_part { DATA_TRAIN, DATA_TEST };

struct data_set {
    char *path; /* for messages */
    int64_t count;
    int channels, height, width;
    int classes;
    char **class_name; /* of folders; NULL: numbers */
    uint8_t *pixels;   /* count * channels * height * width */
    int32_t *label;
    /* Folders: pictures are decoded when they are first asked for. */
    char **file;
    atomic_uchar *decoded; /* DATA_NOT_YET, ... */
    bool keep;             /* in pixels, once decoded; else pixels is NULL */
    struct graph_preprocess preprocess;
};

/* What the network wants of folders, whose pictures can be made to fit. */
struct data_wish {
    int channels, height, width;
    struct graph_preprocess preprocess;
};

/* Opens the part of a folder, recognised by what is in it:
 *   train-images-idx3-ubyte and train-labels-idx1-ubyte, t10k-... (or with
 *   .gz); data_batch*.bin, test_batch*.bin (or with .gz); train/CLASS/...,
 *   test/CLASS/... or val/CLASS/...
 * For training also CLASS/... itself, or one .bin file: pictures that nothing
 * divides into parts.
 * DATA_ABSENT: there is nothing of that part, which err says in full; EIO,
 * EFORMAT: what is there is broken. */
#define DATA_ABSENT 1
int data_open(const char *path, enum data_part part,
              const struct data_wish *wish, struct infer_error *err,
              struct data_set *out);
void data_close(struct data_set *set); /* also one that is all zero */

/* The planes of picture i, in `scratch` (of one picture) or in the set.  By any
 * thread. */
int data_picture(struct data_set *set, int64_t i, uint8_t *scratch,
                 struct infer_error *err, const uint8_t **out);

/* Bytes of one picture. */
static inline size_t data_bytes(const struct data_set *set)
{
    return (size_t)set->channels * (size_t)set->height * (size_t)set->width;
}

/* ---- for the formats ----------------------------------------------- */

/* The first bytes of a file, decompressed where it is gzip: as many of `most`
 * as there are. */
int data_read_head(const char *path, size_t most, struct infer_error *err,
                   unsigned char *out, size_t *bytes);
/* A whole file, decompressed where it is gzip.  At most max bytes. */
int data_read_file(const char *path, size_t max, struct infer_error *err,
                   unsigned char **out, size_t *bytes);
/* folder/name, or folder/name.gz: malloc()ed; NULL where neither is there. */
char *data_find(const char *folder, const char *name);
char *data_join(const char *folder, const char *name);

/* Labels must be below classes. */
int data_check_labels(const struct data_set *set, struct infer_error *err);

/* Each returns 1 where the folder (or file) holds its format, 0 where it does
 * not, or a negative code. */
int data_open_idx(const char *path, enum data_part part,
                  struct infer_error *err, struct data_set *out);
int data_open_cifar(const char *path, enum data_part part,
                    struct infer_error *err, struct data_set *out);
int data_open_folder(const char *path, enum data_part part,
                     const struct data_wish *wish, struct infer_error *err,
                     struct data_set *out);
/* A file of a folder as planes of the set's size, cut as infer would. */
int data_decode(const struct data_set *set, const char *file, uint8_t *out,
                struct infer_error *err);

#endif
