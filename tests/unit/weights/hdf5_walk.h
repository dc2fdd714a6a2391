/* SPDX-License-Identifier: Apache-2.0 */
/* Visits everything in an HDF5 file: for tests and the fuzz target.
 *
 * Every group, attribute and dataset is read; unsupported parts are counted
 * and passed over, anything else ends the walk.  Groups that hold themselves
 * end at a depth of 32. */
#ifndef TESTS_UNIT_WEIGHTS_HDF5_WALK_H
#define TESTS_UNIT_WEIGHTS_HDF5_WALK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/hdf5/hdf5_reader.h"

struct walk {
    struct hdf5_file *f;
    int groups, datasets, attributes, unsupported;
    char path[4096];
    /* May be NULL.  Exactly one of numbers and strings is set. */
    void (*seen)(struct walk *w, const char *kind,
                 const struct constant *numbers,
                 const struct hdf5_strings *strings);
    void *user;
};

/* What is not supported is no fault. */
static inline int walk_pass(struct walk *w, int rc)
{
    if (rc != INFER_EUNSUPPORTED)
        return rc;
    w->unsupported++;
    return 0;
}

static inline int walk_attribute(void *user, const struct hdf5_attribute *a,
                                 struct infer_error *err)
{
    struct walk *w = user;
    const size_t length = strlen(w->path);
    int rc;

    w->attributes++;
    snprintf(w->path + length, sizeof w->path - length, "@%.*s",
             (int)(a->name_bytes & 0xff), a->name);
    if (a->type.kind == HDF5_NUMBER) {
        struct constant *c;
        rc = hdf5_attribute_numbers(w->f, a, err, &c);
        if (rc == 0) {
            if (w->seen)
                w->seen(w, "attribute", c, NULL);
            constant_unref(c);
        }
    } else {
        struct hdf5_strings s;
        rc = hdf5_attribute_strings(w->f, a, err, &s);
        if (rc == 0) {
            if (w->seen)
                w->seen(w, "attribute", NULL, &s);
            hdf5_strings_clear(w->f, &s);
        }
    }
    w->path[length] = '\0';
    return walk_pass(w, rc);
}

static inline int walk_dataset(struct walk *w, uint64_t address,
                               struct infer_error *err)
{
    struct hdf5_dataset d;
    int rc = hdf5_dataset_open(w->f, address, err, &d);

    w->datasets++;
    if (rc < 0)
        return walk_pass(w, rc);
    if (d.type.kind == HDF5_NUMBER) {
        struct constant *c;
        rc = hdf5_dataset_numbers(w->f, &d, err, &c);
        if (rc == 0) {
            if (w->seen)
                w->seen(w, "dataset", c, NULL);
            constant_unref(c);
        }
    } else {
        struct hdf5_strings s;
        rc = hdf5_dataset_strings(w->f, &d, err, &s);
        if (rc == 0) {
            if (w->seen)
                w->seen(w, "dataset", NULL, &s);
            hdf5_strings_clear(w->f, &s);
        }
    }
    return walk_pass(w, rc);
}

static inline int walk_object(struct walk *w, uint64_t address, int depth,
                              struct infer_error *err)
{
    struct hdf5_object o;
    struct hdf5_links links;
    int rc = hdf5_object_read(w->f, address, err, &o);

    if (rc < 0)
        return walk_pass(w, rc);
    const enum hdf5_object_kind kind = hdf5_object_kind(&o);
    rc = walk_pass(w, hdf5_attributes_each(w->f, &o, walk_attribute, w, err));
    hdf5_object_clear(w->f, &o);
    if (rc < 0 || kind == HDF5_NAMED_TYPE)
        return rc;
    if (kind == HDF5_DATASET)
        return walk_dataset(w, address, err);
    w->groups++;
    if (depth == 32)
        return 0;
    rc = hdf5_links_read(w->f, address, err, &links);
    if (rc < 0)
        return walk_pass(w, rc);
    for (size_t i = 0; rc == 0 && i < links.count; i++) {
        const struct hdf5_link *l = &links.link[i];
        const size_t length = strlen(w->path);
        if (l->kind != HDF5_HARD_LINK) {
            w->unsupported++;
            continue;
        }
        snprintf(w->path + length, sizeof w->path - length, "/%.*s",
                 (int)(l->name_bytes & 0xfff), l->name);
        rc = walk_object(w, l->address, depth + 1, err);
        w->path[length] = '\0';
    }
    hdf5_links_clear(w->f, &links);
    return rc;
}

/* The whole file in `bytes` bytes at data, which is copied. */
static inline int walk_bytes(const void *data, size_t bytes, struct walk *w,
                             struct infer_error *err)
{
    unsigned char *copy = malloc(bytes ? bytes : 1);

    if (copy == NULL)
        return INFER_EMEMORY;
    if (bytes)
        memcpy(copy, data, bytes);
    struct blob *blob = blob_new(copy, bytes);
    if (blob == NULL)
        return INFER_EMEMORY;
    int rc = hdf5_open(blob, copy, bytes, err, &w->f);
    blob_unref(blob);
    if (rc < 0)
        return rc;
    rc = walk_object(w, hdf5_root(w->f), 0, err);
    hdf5_close(w->f);
    return rc;
}

#endif
