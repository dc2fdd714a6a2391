/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables of a SavedModel: variables/variables.index, a sorted-string
 * table of BundleEntryProto by name, and variables/variables.data-K-of-N.
 */
#ifndef WEIGHTS_TENSORFLOW_BUNDLE_H
#define WEIGHTS_TENSORFLOW_BUNDLE_H

#include "weights/onnx/proto.h"

struct tf_bundle_entry {
    struct pb_span name;  /* made in the bundle's arena */
    struct pb_span value; /* BundleEntryProto, inside the index */
    struct constant *loaded;
};

struct tf_bundle {
    const char *path; /* of saved_model.pb; not owned */
    struct blob *index;
    struct tf_bundle_entry *entry; /* sorted by name */
    int n_entries, capacity;
    size_t made; /* bytes of names */
    int64_t shards;
    struct onnx_arena arena;
    uint64_t bytes; /* read so far, of all files */
    struct weights_external external;
};

/* Reads the index beside the model file `path`; 0 where there is none: the
 * bundle is empty then. */
int tf_bundle_open(const char *path, struct infer_error *err,
                   struct tf_bundle *b);
/* Takes over the reference to an index that is in memory. */
int tf_bundle_parse(struct blob *index, const char *path,
                    struct infer_error *err, struct tf_bundle *b);
void tf_bundle_close(struct tf_bundle *b);
/* True where the entry is there; its BundleEntryProto in *out. */
bool tf_bundle_find(const struct tf_bundle *b, struct pb_span name,
                    struct pb_span *out);
/* True where the span is an entry of this bundle. */
bool tf_bundle_has(const struct tf_bundle *b, struct pb_span entry);
/* Reads an entry's tensor, once; a new reference. */
int tf_bundle_load(struct tf_bundle *b, struct pb_span entry,
                   struct infer_error *err, struct constant **out);
/* Gives up the reference to a tensor that was loaded; nobody may load it
 * again. */
void tf_bundle_forget(struct tf_bundle *b, struct pb_span entry);

#endif
