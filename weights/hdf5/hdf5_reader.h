/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader of HDF5 files in memory: the subset that h5py and Keras write.
 *
 * Read: superblocks 0 to 3 after a user block of any legal size; object
 * headers 1 and 2; groups as symbol tables, link messages and dense links;
 * attributes in headers and dense; integers, IEEE floats (bfloat16 too),
 * strings of fixed and variable length, h5py's booleans, arrays of those;
 * contiguous, compact and chunked data with every chunk index; deflate,
 * shuffle and fletcher32.  Everything else is refused by its name: external
 * links and files, virtual datasets, other filters, compound types, ...
 *
 * Files are untrusted.  No address is followed without a check against
 * the file; levels of trees must decrease; memory in addition to the file is
 * counted and may not exceed the file's size plus HDF5_SPARE_MEMORY; and every
 * block looked at takes from a budget that is proportional to the file, so that
 * no arrangement of shared or repeated blocks costs more time than a large file
 * would.
 */
#ifndef WEIGHTS_HDF5_HDF5_READER_H
#define WEIGHTS_HDF5_HDF5_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"
#include "libinfer/graph/constant.h"

#define HDF5_SPARE_MEMORY ((size_t)48 << 20)

struct hdf5_file;

/* True where the bytes hold an HDF5 signature at offset 0, 512, 1024, ... */
bool hdf5_probe(const unsigned char *data, size_t bytes);

/* Opens the HDF5 file that lies at data inside blob, which is referenced until
 * hdf5_close() and by every constant that views it. */
int hdf5_open(struct blob *blob, unsigned char *data, size_t bytes,
              struct infer_error *err, struct hdf5_file **out);
void hdf5_close(struct hdf5_file *f); /* NULL is fine */
/* Address of the root group's object header. */
uint64_t hdf5_root(const struct hdf5_file *f);

/* ---- groups -------------------------------------------------------- */

enum hdf5_link_kind { HDF5_HARD_LINK, HDF5_SOFT_LINK, HDF5_EXTERNAL_LINK };

/* name points into the file, is UTF-8 as far as the file is honest, holds no
 * NUL and is not terminated. */
struct hdf5_link {
    const char *name;
    size_t name_bytes;
    enum hdf5_link_kind kind;
    uint64_t address; /* object header, hard links only */
};

/* All links of one group, ordered by name (bytes, then length). */
struct hdf5_links {
    struct hdf5_link *link;
    size_t count, capacity;
};
int hdf5_links_read(struct hdf5_file *f, uint64_t group,
                    struct infer_error *err, struct hdf5_links *out);
void hdf5_links_clear(struct hdf5_file *f, struct hdf5_links *links);
const struct hdf5_link *hdf5_links_find(const struct hdf5_links *links,
                                        const char *name, size_t name_bytes);

/* Follows hard links along a '/'-separated path below group.  1 and *address
 * where it is there, 0 where it is not, else a negative code: "." and ".." are
 * no names, and soft and external links are refused, never followed. */
int hdf5_find(struct hdf5_file *f, uint64_t group, const char *path,
              struct infer_error *err, uint64_t *address);

/* ---- objects ------------------------------------------------------- */

enum hdf5_object_kind { HDF5_GROUP, HDF5_DATASET, HDF5_NAMED_TYPE };

struct hdf5_message {
    unsigned type, flags;
    const unsigned char *data;
    size_t bytes;
};
/* The messages of one object header, continuations included. */
struct hdf5_object {
    uint64_t address;
    struct hdf5_message *message;
    size_t count, capacity;
};
int hdf5_object_read(struct hdf5_file *f, uint64_t address,
                     struct infer_error *err, struct hdf5_object *out);
void hdf5_object_clear(struct hdf5_file *f, struct hdf5_object *object);
enum hdf5_object_kind hdf5_object_kind(const struct hdf5_object *object);

/* ---- types and spaces ---------------------------------------------- */

enum hdf5_class {
    HDF5_UNSUPPORTED, /* the word is in struct hdf5_type */
    HDF5_NUMBER,
    HDF5_STRING,     /* fixed length */
    HDF5_VLEN_STRING /* in the global heap */
};

/* Type of one element; array types add their dimensions after those of the
 * dataspace. */
struct hdf5_type {
    enum hdf5_class kind;
    const char *unsupported; /* "compound", for messages */
    bool opaque;
    enum infer_dtype dtype; /* numbers */
    bool big_endian;
    bool space_padded; /* fixed strings: trailing blanks are no text */
    size_t size;       /* bytes of one number, string or heap reference */
    int array_rank;
    int64_t array_dim[INFER_MAX_RANK];
};

struct hdf5_space {
    bool null; /* no element at all (h5py.Empty) */
    int rank;
    int64_t dim[INFER_MAX_RANK];
    int64_t max_dim[INFER_MAX_RANK]; /* -1: unlimited */
};

/* Text of a string array; every entry is terminated, and bytes[] counts what
 * lies before the terminator (there is no other NUL in it). */
struct hdf5_strings {
    char **text;
    size_t *bytes;
    size_t count;
    size_t charged;
};
void hdf5_strings_clear(struct hdf5_file *f, struct hdf5_strings *strings);

/* ---- attributes ---------------------------------------------------- */

struct hdf5_attribute {
    const char *name; /* in the file, not terminated */
    size_t name_bytes;
    struct hdf5_type type;
    struct hdf5_space space;
    const unsigned char *data;
    size_t bytes;
};

/* Calls fn for each attribute of the object; fn returns 0 to go on, 1 to stop
 * early, or a negative code.  Returns what fn returned last. */
typedef int hdf5_attribute_fn(void *user, const struct hdf5_attribute *a,
                              struct infer_error *err);
int hdf5_attributes_each(struct hdf5_file *f, const struct hdf5_object *object,
                         hdf5_attribute_fn *fn, void *user,
                         struct infer_error *err);
/* 1 where found, 0 where absent, or a negative code. */
int hdf5_attribute_find(struct hdf5_file *f, const struct hdf5_object *object,
                        const char *name, struct infer_error *err,
                        struct hdf5_attribute *out);
int hdf5_attribute_strings(struct hdf5_file *f, const struct hdf5_attribute *a,
                           struct infer_error *err, struct hdf5_strings *out);
/* A numeric attribute as a constant of its own memory. */
int hdf5_attribute_numbers(struct hdf5_file *f, const struct hdf5_attribute *a,
                           struct infer_error *err, struct constant **out);

/* ---- datasets ------------------------------------------------------ */

enum hdf5_layout { HDF5_COMPACT, HDF5_CONTIGUOUS, HDF5_CHUNKED };
enum hdf5_chunk_index {
    HDF5_INDEX_BTREE1,
    HDF5_INDEX_SINGLE,
    HDF5_INDEX_IMPLICIT,
    HDF5_INDEX_FIXED_ARRAY,
    HDF5_INDEX_EXTENSIBLE_ARRAY,
    HDF5_INDEX_BTREE2
};

#define HDF5_MAX_FILTERS 32
struct hdf5_filters {
    int count;
    unsigned id[HDF5_MAX_FILTERS];     /* 1 deflate, 2 shuffle, 3 fletcher32 */
    uint32_t client[HDF5_MAX_FILTERS]; /* first client value */
};

struct hdf5_dataset {
    uint64_t address; /* of its object header */
    struct hdf5_type type;
    struct hdf5_space space;
    enum hdf5_layout layout;
    uint64_t data_address;        /* contiguous; chunk index */
    const unsigned char *compact; /* compact */
    size_t compact_bytes;
    bool size_known;
    uint64_t stated_bytes; /* contiguous, where size_known */
    int chunk_rank;
    uint64_t chunk_dim[INFER_MAX_RANK];
    uint64_t chunk_element; /* element bytes as the layout states them */
    enum hdf5_chunk_index index;
    bool plain_edges;     /* chunks across the edge are not filtered */
    bool single_filtered; /* single chunk: size and mask are stated */
    uint64_t single_bytes;
    uint32_t single_mask;
    struct hdf5_filters filters;
    const unsigned char *fill; /* NULL: zero; type.size * array bytes */
    size_t fill_bytes;
};

/* Reads what the object header says and checks it, but no data. */
int hdf5_dataset_open(struct hdf5_file *f, uint64_t address,
                      struct infer_error *err, struct hdf5_dataset *out);
/* Reads a dataset of opaque elements as numbers of the same size, least
 * significant byte first: Keras keeps bfloat16 so. */
int hdf5_dataset_retype(struct hdf5_file *f, struct hdf5_dataset *d,
                        enum infer_dtype dtype, struct infer_error *err);
/* Bytes of the whole array, or EMEMORY where that overflows. */
int hdf5_dataset_bytes(const struct hdf5_dataset *d, struct infer_error *err,
                       size_t *bytes);
/* A numeric dataset.  The constant views the file where the data lie there as
 * they are needed, else it has memory of its own. */
int hdf5_dataset_numbers(struct hdf5_file *f, const struct hdf5_dataset *d,
                         struct infer_error *err, struct constant **out);
/* True where no page of memory holds parts of two arrays that were handed out:
 * each may be given back to the system (constant_give_back()) once no array is
 * read any more. */
bool hdf5_arrays_are_apart(const struct hdf5_file *f);
int hdf5_dataset_strings(struct hdf5_file *f, const struct hdf5_dataset *d,
                         struct infer_error *err, struct hdf5_strings *out);

#endif
