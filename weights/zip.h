/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Untrusted ZIP archives (.pth, .npz, .keras), in memory.
 *
 * Opening checks the whole directory before anything is used: one end record
 * that reaches the end of the file, every local header in agreement with the
 * central one, no two members overlapping, only stored and deflated members,
 * safe and distinct names, declared sizes within the caps below.  Nothing is
 * ever written to disk.
 */
#ifndef WEIGHTS_ZIP_H
#define WEIGHTS_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"
#include "libinfer/graph/constant.h"

/* Deflate cannot expand by more than 1032 to 1. */
#define ZIPFILE_MAX_RATIO 1032
/* Cap of what all deflated members may declare together:
 * base + factor * bytes of the archive. */
#define ZIPFILE_INFLATED_BASE   ((uint64_t)48 << 20)
#define ZIPFILE_INFLATED_FACTOR 16
/* Payloads are given at this alignment. */
#define ZIPFILE_ALIGN 16

struct zipfile_entry {
    char *name;      /* UTF-8, never empty, no NUL, no "..", relative */
    uint16_t method; /* 0 stored, 8 deflated */
    uint16_t flags;
    bool directory; /* name ends in '/' */
    uint32_t crc;
    uint64_t packed; /* bytes in the archive */
    uint64_t bytes;  /* bytes of the member */
    uint64_t header; /* offset of the local header */
    uint64_t at;     /* offset of the packed bytes */
    bool checked;    /* a stored member whose CRC was right */
};

struct zipfile {
    struct blob *blob;
    struct zipfile_entry *entry; /* in the order of the directory */
    size_t count;
    uint32_t *by_name; /* indices sorted by name */
};

/* A member's bytes: inside the archive's blob where stored, else in a blob of
 * their own.  Either way aligned to ZIPFILE_ALIGN and writable. */
struct zipfile_data {
    struct blob *blob; /* a reference: zipfile_data_clear() */
    unsigned char *data;
    size_t bytes;
};

/* True where the bytes start as an archive with members does. */
bool zipfile_probe(const struct blob *blob);

/* Takes its own reference to blob.  EFORMAT, EUNSUPPORTED (method, encryption,
 * several disks), EMEMORY. */
int zipfile_open(struct blob *blob, struct infer_error *err,
                 struct zipfile *out);
void zipfile_close(struct zipfile *zip);

/* Index of a member, or -1. */
int64_t zipfile_find(const struct zipfile *zip, const char *name);

/* Reads a member whole and checks its size and CRC.  A stored member may be
 * moved inside the blob, over its own local header, to be aligned; reading it
 * again gives the same place. */
int zipfile_read(struct zipfile *zip, size_t i, struct infer_error *err,
                 struct zipfile_data *out);
void zipfile_data_clear(struct zipfile_data *data);

#endif
