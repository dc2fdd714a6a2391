/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weight importer: trained files in, one graph out.
 *
 *     reader (one a format)  ->  [architecture]  ->  passes  ->  writer
 *
 * A reader recognises its format by content and gives either a whole graph
 * (ONNX, Keras with its configuration, networks of two files) or a dictionary
 * of bare tensors (state_dict, safetensors, npz, weights-only HDF5), to which
 * weights_bind() adds an architecture.  Adding a format is one file and one row
 * of formats.def.
 *
 * Every file is untrusted: see the limits in each reader.  Nothing is executed,
 * fetched, or opened outside the folder of the model.
 */
#ifndef WEIGHTS_WEIGHTS_H
#define WEIGHTS_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"
#include "libinfer/graph/constant.h"
#include "libinfer/graph/graph.h"

/* ---- dictionaries of bare tensors ---------------------------------- */

/* In one dictionary.  An entry takes some 400 bytes, however small its tensor:
 * all of them fit into 64 MiB in addition to the file.  The largest networks
 * have thousands. */
#define WEIGHTS_MAX_TENSORS 131072

/* Bytes of a tensor's name.  Names are compared with those of every built-in
 * architecture, piece by piece between their dots: a time that grows with the
 * square of the length. */
#define WEIGHTS_MAX_NAME 4096

struct weights_entry {
    char *name; /* UTF-8, no NUL inside */
    struct constant *value;
};

/* Entries keep the order of the file; names are unique. */
struct weights_dict {
    struct weights_entry *entry;
    size_t count, capacity;
    /* Open-addressing hash index of names; managed by weights_dict_*. */
    uint32_t *slot;
    size_t slots;
    /* Entries of the file other than weights (optimiser state, epochs, ...):
     * names and bytes, for the report of what was stripped. */
    struct weights_stripped *stripped;
    size_t stripped_count, stripped_capacity;
};

struct weights_stripped {
    char *name;
    size_t bytes;
    const char *why; /* static text: "optimiser state", ... */
};

void weights_dict_init(struct weights_dict *dict);
void weights_dict_clear(struct weights_dict *dict);
/* Copies name, takes the reference to value (released on failure).  EFORMAT
 * where the name is there already or the dictionary is full, EMEMORY. */
int weights_dict_add(struct weights_dict *dict, const char *name,
                     struct constant *value, struct infer_error *err);
/* NULL where absent. */
struct constant *weights_dict_find(const struct weights_dict *dict,
                                   const char *name);
/* Gives up all entries; what was stripped stays. */
void weights_dict_drop_entries(struct weights_dict *dict);
int weights_dict_strip(struct weights_dict *dict, const char *name,
                       size_t bytes, const char *why);

/* ---- files --------------------------------------------------------- */

/* A whole file in private memory.  The blob may be modified by its reader
 * (payloads are moved into alignment in place). */
struct weights_file {
    const char *path;
    struct blob *blob;
};

/* Reads a regular file.  Folders, devices and FIFOs are refused, and so is
 * anything over max_bytes (0: half of the physical memory). */
int weights_file_read(const char *path, uint64_t max_bytes,
                      struct infer_error *err, struct weights_file *out);
void weights_file_close(struct weights_file *file);

/* ---- readers ------------------------------------------------------- */

/* The layout of bare weights in their file, and the order of the inputs of a
 * dense layer after a flattened picture.  AUTO: by the shapes, see layout.c. */
enum weights_layout {
    WEIGHTS_LAYOUT_AUTO,
    WEIGHTS_CHANNELS_FIRST, /* PyTorch: K,C,R,S */
    WEIGHTS_CHANNELS_LAST   /* TensorFlow: R,S,C,K */
};
enum weights_dense_order {
    WEIGHTS_DENSE_AUTO, /* HWC where the layout is channels last */
    WEIGHTS_DENSE_HWC,
    WEIGHTS_DENSE_CHW
};

struct weights_options {
    const char *from; /* row name of formats.def, or NULL/"auto" */
    /* Architecture file or built-in name, or NULL; for weights whose format has
     * its network in a second file (Darknet, Caffe), that file. */
    const char *arch;
    enum weights_layout layout;
    enum weights_dense_order dense_order;
    int input_count; /* --input-shape, by position or name */
    const struct weights_input_shape *input_shape;
    int input_type_count; /* --input-type, likewise */
    const struct weights_input_type *input_type;
    int input_value_count; /* --input-value, by name */
    struct weights_input_value *input_value;
    bool partial; /* weights_bind() passes over what does not fit */
    /* TensorFlow Lite: activations beside weights of 8 bits are rounded as its
     * kernels do at run time. */
    bool dynamic_range;
    bool bare; /* the tensors alone, even of a file that has its network */
    /* Recurrent layers of a fixed number of steps become nodes that have
     * gradients, a form in C and approximate products. */
    bool unroll;
};

struct weights_input_shape {
    const char *name; /* NULL: by position */
    int rank;
    int64_t dim[INFER_MAX_RANK];
};

/* For inputs whose type the file does not state. */
struct weights_input_type {
    const char *name; /* NULL: by position */
    enum infer_dtype dtype;
};

/* Inputs that become constants: one number for all elements, or each element's
 * in the order of a row-major array. */
struct weights_input_value {
    const char *name;
    int count;
    const double *value;
    bool used; /* the reader has found the input */
};

void weights_options_init(struct weights_options *options);

/* What one file gave. */
struct weights_import {
    const char *format;  /* row name */
    char detail[128];    /* "opset 13, pytorch 1.11", for the report */
    struct graph *graph; /* NULL for bare weights */
    struct weights_dict dict;
    /* Bytes of every file read. */
    uint64_t bytes;
    bool arch_read; /* the reader took the network from options->arch */
    char *second;   /* path of a file beside it that was read too, or NULL */
};
void weights_import_init(struct weights_import *import);
void weights_import_clear(struct weights_import *import);

struct weights_format {
    const char *name;        /* "onnx" */
    const char *description; /* "ONNX model, opset 1 to 24" */
    /* Looks at the content alone; 0 no .. 100 certain. */
    int (*probe)(const struct weights_file *file);
    /* Of formats with the network in one file and the weights in another: true
     * for the network, false for the weights.  NULL: a single file. */
    bool (*is_network)(const struct weights_file *file);
    int (*read)(struct weights_file *file,
                const struct weights_options *options, struct infer_error *err,
                struct weights_import *out);
};

size_t weights_format_count(void);
const struct weights_format *weights_format_at(size_t i);

/* Reads path in whatever format it is.  Every error text starts with the
 * path. */
int weights_read(const char *path, const struct weights_options *options,
                 struct infer_error *err, struct weights_import *out);
/* Arrays of an .npy or .npz file, whatever its name. */
int weights_read_arrays(const char *path, struct infer_error *err,
                        struct weights_import *out);

/* A network or bare weights, from a model file, an architecture file, the name
 * of a built-in architecture, or any format above. */
struct weights_network {
    const char *path;
    struct graph *graph;          /* NULL for bare weights */
    struct weights_import import; /* zeroed unless weights_read() made it */
    uint64_t bytes;               /* of the files */
};
/* True for a file of text: an architecture, or the network of a format that has
 * its weights in another file.  False where it cannot be read. */
bool weights_is_text(const char *path);
int weights_network_open(const char *path,
                         const struct weights_options *options,
                         struct infer_error *err, struct weights_network *out);
void weights_network_close(struct weights_network *network);

#endif
