/* SPDX-License-Identifier: Apache-2.0 */
/* What the two containers of PyTorch, zip and legacy, have in common: storages
 * found by key, tensors that are views of them, and the search for the
 * state_dict in a checkpoint. */
#ifndef WEIGHTS_PYTORCH_TORCH_H
#define WEIGHTS_PYTORCH_TORCH_H

#include "weights/pytorch/pickle.h"
#include "weights/weights.h"
#include "weights/zip.h"

/* One storage: a dense array that tensors view. */
struct torch_storage {
    const unsigned char *key; /* characters inside the pickle */
    uint32_t key_bytes;
    uint32_t row;           /* its class */
    enum infer_dtype dtype; /* INFER_NONE: untyped, or unsupported */
    uint64_t count;         /* elements; bytes where untyped */
    bool untyped;
    /* Filled in by the container: data is aligned to 8. */
    bool loaded;
    struct blob *blob;
    unsigned char *data;
    size_t bytes;
    /* Bytes from the start that a constant shares already: later tensors that
     * overlap them are copied, so that no two constants share memory. */
    size_t lent;
};

struct torch_source {
    struct pickle *pickle;
    struct torch_storage *storage; /* sorted by key */
    size_t storages;
    uint64_t file_bytes;
    size_t copied; /* bytes of tensors that are no plain view */
    /* Loads a storage on its first use; NULL where all are loaded. */
    int (*load)(struct torch_source *source, struct torch_storage *storage,
                struct infer_error *err);
    void *user;
};

/* Collects the storages that the pickle refers to.  EFORMAT where one key
 * stands for two. */
int torch_source_init(struct torch_source *source, struct pickle *pickle,
                      uint64_t file_bytes, struct infer_error *err);
void torch_source_clear(struct torch_source *source);
struct torch_storage *torch_source_find(const struct torch_source *source,
                                        const unsigned char *key,
                                        uint32_t key_bytes);
/* Bytes that the storage must have; EFORMAT, or EUNSUPPORTED for element types
 * that have no name here. */
int torch_storage_bytes(const struct torch_storage *storage,
                        struct infer_error *err, size_t *out);
/* Puts the loaded bytes into native order and form. */
void torch_storage_settle(struct torch_storage *storage, bool swapped);

/* Loads a storage from the member ROOT FOLDER KEY of an archive; both end in a
 * slash. */
int torch_load_member(struct zipfile *zip, const char *root, const char *folder,
                      bool swapped, struct torch_storage *storage,
                      struct infer_error *err);

/* The dense row-major constant of a TENSOR or ARRAY node: a view of its
 * storage where it is one, else a copy.  name is for messages. */
int torch_tensor(struct torch_source *source, uint32_t node, const char *name,
                 struct infer_error *err, struct constant **out);

/* Finds the weights in the pickle's value and adds them to out->dict; notes
 * everything else as stripped. */
int torch_import_state(struct torch_source *source, struct infer_error *err,
                       struct weights_import *out);

/* Content tests and the reader of the container from before PyTorch 1.6. */
bool torch_legacy_probe(const struct blob *blob);
int torch_legacy_read(struct weights_file *file, struct infer_error *err,
                      struct weights_import *out);

#endif
