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

/* State of a picture of a folder: the first reader decodes it; one of several
 * readers stores it. */
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
    /* Folders only: pictures are decoded at first use. */
    char **file;
    atomic_uchar *decoded; /* DATA_NOT_YET, ... */
    bool keep;             /* if all fit into memory; else pixels is NULL */
    uint64_t max_pixels;   /* of a file; 0: infer_image_load()'s default */
    struct graph_preprocess preprocess;
};

/* Picture size for folders, whose pictures can be resized. */
struct data_wish {
    int channels, height, width;
    uint64_t max_pixels;
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
void data_close(struct data_set *set); /* also an all-zero one */
/* Numbers the classes of folders as a network's labels are; where no folder has
 * the name of a label, nothing changes.  EFORMAT: only some have. */
int data_number_by(struct data_set *set, char *const *label, int labels,
                   struct infer_error *err);

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

/* The first bytes of a file, decompressed if gzip; returns how many, `most` at
 * most. */
int data_read_head(const char *path, size_t most, struct infer_error *err,
                   unsigned char *out, size_t *bytes);
/* A whole file, decompressed if gzip; max bytes at most.  A gzip file that may
 * become far larger is counted before it is kept; if its bytes are no multiple
 * of unit, *bytes tells them and *out is NULL. */
int data_read_file(const char *path, size_t max, size_t unit,
                   struct infer_error *err, unsigned char **out, size_t *bytes);
/* Path of folder/name or folder/name.gz, malloc()ed; NULL if neither exists. */
char *data_find(const char *folder, const char *name);
char *data_join(const char *folder, const char *name);

/* Checks that labels are below classes. */
int data_check_labels(const struct data_set *set, struct infer_error *err);

/* Each returns 1 if the folder (or file) holds its format, 0 if not, or a
 * negative code. */
int data_open_idx(const char *path, enum data_part part,
                  struct infer_error *err, struct data_set *out);
int data_open_cifar(const char *path, enum data_part part,
                    struct infer_error *err, struct data_set *out);
int data_open_folder(const char *path, enum data_part part,
                     const struct data_wish *wish, struct infer_error *err,
                     struct data_set *out);
/* A picture file as planes of the set's size, resized and cropped as infer
 * does. */
int data_decode(const struct data_set *set, const char *file, uint8_t *out,
                struct infer_error *err);

#endif
