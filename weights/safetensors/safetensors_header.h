/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON header of a safetensors file. */
#ifndef WEIGHTS_SAFETENSORS_HEADER_H
#define WEIGHTS_SAFETENSORS_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"

struct safetensors_entry {
    size_t name;    /* offset into names, NUL-terminated there */
    char dtype[12]; /* as the file writes it */
    int rank;       /* may exceed INFER_MAX_RANK, then dim is cut off */
    int64_t dim[INFER_MAX_RANK];
    uint64_t begin, end; /* bytes of the buffer after the header */
};

struct safetensors_header {
    struct safetensors_entry *entry; /* in the order of the header */
    size_t count, capacity;
    char *names;
    size_t names_bytes, names_capacity;
    char detail[96]; /* "format" of __metadata__, if any */
    char *graph;     /* "infer.graph" of it, the JSON of a network; or NULL */
};

/* Parses the whole header strictly; shapes and ranges are only read, not
 * compared with anything.  EFORMAT names the byte of the header. */
int safetensors_header_read(const unsigned char *text, size_t bytes,
                            struct infer_error *err,
                            struct safetensors_header *out);
void safetensors_header_clear(struct safetensors_header *header);

#endif
