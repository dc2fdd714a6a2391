/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FlatBuffers, read in place and with every offset checked.
 *
 * A table is a place in the file with a list of field offsets (its vtable)
 * elsewhere; a field is a number in the table or an offset to a vector, a
 * string or another table.  Offsets are unsigned and point forward, so that
 * what a chain of them visits lies ever further back in the file; nothing here
 * follows more than one.
 *
 * Whatever does not lie inside the file sets `damaged` to its place and reads
 * as absent: callers look at fb_damaged() once for each object that they have
 * read.
 */
#ifndef WEIGHTS_TFLITE_FLATBUFFER_H
#define WEIGHTS_TFLITE_FLATBUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fb {
    const unsigned char *data;
    size_t bytes;
    bool damaged;
    size_t damaged_at; /* the first place that is wrong */
};

/* A table; fields of an absent one (bytes 0) all read as absent. */
struct fb_table {
    struct fb *file;
    size_t at;
    size_t vtable;
    unsigned vtable_bytes;
};

/* Elements in place; count 0 where the field is absent. */
struct fb_vector {
    struct fb *file;
    size_t at; /* of element 0 */
    size_t count;
    bool present;
};

void fb_open(struct fb *file, const void *data, size_t bytes);
/* The table that the first offset of the file names. */
struct fb_table fb_root(struct fb *file);

/* Numbers; `otherwise` where field number `id` is absent. */
uint8_t fb_u8(const struct fb_table *t, int id, uint8_t otherwise);
int32_t fb_i32(const struct fb_table *t, int id, int32_t otherwise);
uint32_t fb_u32(const struct fb_table *t, int id, uint32_t otherwise);
uint64_t fb_u64(const struct fb_table *t, int id, uint64_t otherwise);
float fb_f32(const struct fb_table *t, int id, float otherwise);
bool fb_bool(const struct fb_table *t, int id);

bool fb_has(const struct fb_table *t, int id);
/* An absent table where the field is absent. */
struct fb_table fb_sub(const struct fb_table *t, int id);
/* Elements of `size` bytes: numbers, or 4 for offsets to tables. */
struct fb_vector fb_list(const struct fb_table *t, int id, size_t size);

/* Element i, which must be below count. */
int32_t fb_list_i32(const struct fb_vector *v, size_t i);
int64_t fb_list_i64(const struct fb_vector *v, size_t i);
float fb_list_f32(const struct fb_vector *v, size_t i);
struct fb_table fb_list_table(const struct fb_vector *v, size_t i);
const unsigned char *fb_list_data(const struct fb_vector *v);

#endif
