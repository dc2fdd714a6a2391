/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the HDF5 reader share.  Terms and field names follow the
 * HDF5 File Format Specification, version 3. */
#ifndef WEIGHTS_HDF5_INTERNAL_H
#define WEIGHTS_HDF5_INTERNAL_H

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/hdf5/hdf5_reader.h"

/* An address of all ones, whatever its width: nothing is there. */
#define HDF5_UNDEFINED UINT64_MAX

/* Object header messages that mean something here. */
enum {
    HDF5_MSG_NIL = 0x00,
    HDF5_MSG_SPACE = 0x01,
    HDF5_MSG_LINK_INFO = 0x02,
    HDF5_MSG_TYPE = 0x03,
    HDF5_MSG_OLD_FILL = 0x04,
    HDF5_MSG_FILL = 0x05,
    HDF5_MSG_LINK = 0x06,
    HDF5_MSG_EXTERNAL_FILES = 0x07,
    HDF5_MSG_LAYOUT = 0x08,
    HDF5_MSG_GROUP_INFO = 0x0a,
    HDF5_MSG_FILTERS = 0x0b,
    HDF5_MSG_ATTRIBUTE = 0x0c,
    HDF5_MSG_SHARED_TABLE = 0x0f,
    HDF5_MSG_CONTINUATION = 0x10,
    HDF5_MSG_SYMBOL_TABLE = 0x11,
    HDF5_MSG_BTREE_K = 0x13,
    HDF5_MSG_DRIVER_INFO = 0x14,
    HDF5_MSG_ATTRIBUTE_INFO = 0x15,
    HDF5_MSG_FILE_SPACE = 0x17,
    HDF5_MSG_CACHE_IMAGE = 0x18,
    HDF5_MSG_LAST = 0x18
};
#define HDF5_MSG_FLAG_SHARED    0x02u
#define HDF5_MSG_FLAG_MUST_KNOW 0x80u

struct hdf5_file {
    struct blob *blob;
    unsigned char *data; /* at the base address */
    size_t bytes;        /* from the base address to the end */
    unsigned offset_size, length_size;
    uint64_t root;
    unsigned group_leaf_k, group_k, chunk_k;
    size_t memory, memory_limit; /* bytes held in addition to the file */
    size_t delivered;            /* bytes of arrays handed out so far */
    uint64_t work_left;          /* bytes that may still be looked at */
    /* For each piece of HDF5_CLAIM bytes of memory, counted from the piece that
     * data lies in, what an array has of it.  NULL: none so far. */
    unsigned char *claimed;
    bool overlap; /* a whole piece of one array has bytes of another */
};
/* The smallest page there is: pages that go back to the system are made of such
 * pieces, whole ones of one array. */
#define HDF5_CLAIM 4096
enum { HDF5_TOUCHED = 1, HDF5_WHOLE = 2 };

/* ---- hdf5.c: bounds, budgets, checksums ---------------------------- */

/* EFORMAT and EUNSUPPORTED with "HDF5, byte N: " before the text, N from the
 * start of the HDF5 part. */
int hdf5_fail(struct infer_error *err, int code, uint64_t address,
              const char *fmt, ...) ERROR_PRINTF(4, 5);
#define hdf5_malformed(err, ...) hdf5_fail(err, INFER_EFORMAT, __VA_ARGS__)
#define hdf5_unsupported(err, ...)                                             \
    hdf5_fail(err, INFER_EUNSUPPORTED, __VA_ARGS__)

/* The bytes of a block: bounds and the work budget are checked.  what is a
 * noun for the message. */
int hdf5_block(struct hdf5_file *f, uint64_t address, uint64_t bytes,
               const char *what, struct infer_error *err,
               const unsigned char **out);
int hdf5_work(struct hdf5_file *f, uint64_t units, struct infer_error *err);

/* Counted memory: malloc() and free() with the cap of the file.  The memory is
 * zeroed. */
int hdf5_alloc(struct hdf5_file *f, size_t bytes, struct infer_error *err,
               void **out);
void hdf5_release(struct hdf5_file *f, void *p, size_t bytes);
/* Makes room for one more element in an array of counted memory. */
int hdf5_grow(struct hdf5_file *f, void **array, size_t count, size_t *capacity,
              size_t element, struct infer_error *err);

/* Jenkins' lookup3, the checksum of all newer metadata. */
uint32_t hdf5_checksum(const unsigned char *data, size_t bytes);
/* Compares it with the four bytes that follow. */
int hdf5_check(uint64_t address, const unsigned char *data, size_t bytes,
               const char *what, struct infer_error *err);

/* A cursor over bytes that were bounds-checked as a whole.  Reading past the
 * end gives zeros and sets bad, which is asked once at the end. */
struct hdf5_cursor {
    const unsigned char *at, *end;
    bool bad;
};
struct hdf5_cursor hdf5_cursor(const unsigned char *data, size_t bytes);
/* n bytes, or NULL. */
const unsigned char *hdf5_skip(struct hdf5_cursor *c, size_t n);
/* Little-endian number of n <= 8 bytes. */
uint64_t hdf5_uint(struct hdf5_cursor *c, unsigned n);
/* An address; HDF5_UNDEFINED where it is all ones. */
uint64_t hdf5_address(struct hdf5_cursor *c, const struct hdf5_file *f);
uint64_t hdf5_length(struct hdf5_cursor *c, const struct hdf5_file *f);
size_t hdf5_left(const struct hdf5_cursor *c);

/* Bytes that a number up to limit needs. */
unsigned hdf5_bytes_for(uint64_t limit);
/* Position of the highest bit; 0 for 0. */
unsigned hdf5_log2(uint64_t v);

/* ---- btree.c -------------------------------------------------- */

/* fn: 0 go on, 1 stop, negative fail; the walk returns the same. */
typedef int hdf5_btree1_fn(void *user, const unsigned char *key, uint64_t child,
                           struct infer_error *err);
/* Version 1, in order of keys.  type 0: group, 1: chunks; max_entries: 2k. */
int hdf5_btree1_walk(struct hdf5_file *f, uint64_t address, unsigned type,
                     size_t key_bytes, unsigned max_entries, hdf5_btree1_fn *fn,
                     void *user, struct infer_error *err);

typedef int hdf5_btree2_fn(void *user, const unsigned char *record,
                           size_t bytes, struct infer_error *err);
/* Version 2, in order of records.  type must be that of the header. */
int hdf5_btree2_walk(struct hdf5_file *f, uint64_t address, unsigned type,
                     hdf5_btree2_fn *fn, void *user, struct infer_error *err);

/* ---- heap.c --------------------------------------------------- */

/* A terminated name in a local heap. */
int hdf5_local_name(struct hdf5_file *f, uint64_t heap, uint64_t offset,
                    struct infer_error *err, const char **name, size_t *bytes);
/* An object of a global heap collection. */
int hdf5_global_object(struct hdf5_file *f, uint64_t collection, uint64_t index,
                       struct infer_error *err, const unsigned char **data,
                       size_t *bytes);

#define HDF5_HEAP_CHECKED 1024
struct hdf5_heap {
    uint64_t address;
    unsigned id_bytes, offset_bytes, length_bytes;
    bool checksums;
    uint64_t huge_tree, root_block;
    unsigned width, root_rows, max_bits;
    uint64_t start_bytes, max_direct_bytes, max_managed;
    /* Direct blocks whose checksum was found right, hashed by address: the
     * address plus one, 0 for none. */
    uint64_t checked[HDF5_HEAP_CHECKED];
};
int hdf5_heap_open(struct hdf5_file *f, uint64_t address,
                   struct infer_error *err, struct hdf5_heap *out);
/* The object of a heap ID of h->id_bytes bytes. */
int hdf5_heap_object(struct hdf5_file *f, struct hdf5_heap *h,
                     const unsigned char *id, struct infer_error *err,
                     const unsigned char **data, size_t *bytes);

/* ---- dense.c -------------------------------------------------- */

/* A kind of dense storage: how its info message and its records look. */
struct hdf5_dense {
    const char *what;     /* "link" */
    unsigned index_bytes; /* of the highest creation index in the message */
    unsigned record_type; /* of the name index */
    unsigned before_id, after_id; /* bytes round the heap ID of a record */
    bool has_flags;               /* message flags follow the ID */
};
/* One object of the heap: its message's bytes.  Non-zero ends the walk. */
typedef int hdf5_dense_fn(struct hdf5_file *f, uint64_t heap,
                          const unsigned char *data, size_t bytes, void *user,
                          struct infer_error *err);
int hdf5_dense_each(struct hdf5_file *f, const struct hdf5_message *m,
                    uint64_t address, const struct hdf5_dense *kind,
                    hdf5_dense_fn *fn, void *user, struct infer_error *err);

/* ---- object.c ------------------------------------------------- */

/* The only message of a type, or NULL; EFORMAT where there are several. */
int hdf5_object_message(const struct hdf5_object *object, unsigned type,
                        struct infer_error *err,
                        const struct hdf5_message **out);
/* The same with a shared message resolved: its data lie in *out. */
int hdf5_object_shared(struct hdf5_file *f, const struct hdf5_object *object,
                       unsigned type, struct infer_error *err,
                       struct hdf5_message *out, bool *found);
/* Resolves the data of a message that is flagged as shared. */
int hdf5_resolve_shared(struct hdf5_file *f, unsigned type,
                        const unsigned char *data, size_t bytes,
                        struct infer_error *err, struct hdf5_message *out);

/* ---- type.c --------------------------------------------------- */

/* address is for messages only. */
int hdf5_type_parse(struct hdf5_file *f, uint64_t address,
                    const unsigned char *data, size_t bytes,
                    struct infer_error *err, struct hdf5_type *out);
int hdf5_space_parse(struct hdf5_file *f, uint64_t address,
                     const unsigned char *data, size_t bytes,
                     struct infer_error *err, struct hdf5_space *out);
/* Elements of the space times those of an array type; EMEMORY on overflow. */
int hdf5_count(const struct hdf5_type *type, const struct hdf5_space *space,
               struct infer_error *err, size_t *count);
/* Shape of the two together: EUNSUPPORTED above INFER_MAX_RANK. */
int hdf5_shape(const struct hdf5_type *type, const struct hdf5_space *space,
               struct infer_error *err, int *rank, int64_t *dim);
/* Turns numbers as they lie in the file into those of the host, in place. */
void hdf5_to_host(const struct hdf5_type *type, unsigned char *data,
                  size_t count);
/* True where numbers in the file are those of the host. */
bool hdf5_is_host(const struct hdf5_type *type);
int hdf5_decode_strings(struct hdf5_file *f, const struct hdf5_type *type,
                        const unsigned char *data, size_t count,
                        struct infer_error *err, struct hdf5_strings *out);

/* ---- filter.c ------------------------------------------------- */

int hdf5_filters_parse(struct hdf5_file *f, uint64_t address,
                       const unsigned char *data, size_t bytes,
                       struct infer_error *err, struct hdf5_filters *out);
/* Two buffers, each as large as a chunk ever is between two filters. */
struct hdf5_scratch {
    unsigned char *a, *b;
    size_t capacity;
};
/* Undoes the filters of one chunk but those in mask.  *out points at raw_bytes
 * bytes in `in` or the scratch buffers. */
int hdf5_filters_undo(struct hdf5_file *f, const struct hdf5_filters *filters,
                      uint32_t mask, uint64_t address, const unsigned char *in,
                      size_t in_bytes, size_t raw_bytes,
                      struct hdf5_scratch *scratch, struct infer_error *err,
                      const unsigned char **out);

/* ---- index.c, array.c ------------------------------------ */

struct hdf5_chunk {
    uint64_t address;
    uint64_t bytes;                  /* in the file */
    uint32_t mask;                   /* filters that were left out */
    uint64_t scaled[INFER_MAX_RANK]; /* position in chunks */
};
typedef int hdf5_chunk_fn(void *user, const struct hdf5_chunk *chunk,
                          struct infer_error *err);
/* Every chunk that exists, each once. */
int hdf5_chunks_each(struct hdf5_file *f, const struct hdf5_dataset *d,
                     size_t chunk_bytes, hdf5_chunk_fn *fn, void *user,
                     struct infer_error *err);

/* Elements of a fixed or extensible array by index, undefined ones left out.
 * bytes is that of the file where filtered, else chunk_bytes. */
typedef int hdf5_element_fn(void *user, uint64_t index,
                            const struct hdf5_chunk *chunk,
                            struct infer_error *err);
int hdf5_fixed_array_each(struct hdf5_file *f, uint64_t address, bool filtered,
                          size_t chunk_bytes, hdf5_element_fn *fn, void *user,
                          struct infer_error *err);
int hdf5_extensible_array_each(struct hdf5_file *f, uint64_t address,
                               bool filtered, size_t chunk_bytes,
                               hdf5_element_fn *fn, void *user,
                               struct infer_error *err);

#endif
