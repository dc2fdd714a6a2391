/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that a process takes at its peak for one file, and hostile files made
 * by code. */
#ifndef TESTS_UNIT_RUNTIME_BUDGET_H
#define TESTS_UNIT_RUNTIME_BUDGET_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "include/infer.h"
#include "tests/unit/test.h"

#ifndef __has_feature /* gcc defines a macro instead */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define BUDGET_MEASURED 0 /* the sanitizer's own memory hides it */
#else
#define BUDGET_MEASURED 1
#endif

/* What a refused file may take: twice the file and this. */
#define BUDGET_BASE ((uint64_t)64 << 20)

/* Reads the file as the library does; 0 or a negative code. */
typedef int budget_reader(const char *path, struct infer_error *err);

struct budget_result {
    uint64_t file, peak; /* bytes */
    int rc;              /* of the reader, at most 0 */
    int signal;          /* that ended the process; 0: none */
    struct infer_error err;
};

/* VmHWM of this process, bytes. */
static inline uint64_t budget_peak(void)
{
    unsigned long long kib = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "VmHWM: %llu kB", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return (uint64_t)kib * 1024;
}

/* Reads the file in a process of its own. */
static inline struct budget_result budget_measure(budget_reader *read_file,
                                                  const char *path)
{
    struct budget_result r = {0};
    struct stat st;
    int to[2], status;
    pid_t child;

    assert_int_equal(pipe(to), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        r.rc = read_file(path, &r.err);
        r.peak = budget_peak();
        _exit(write(to[1], &r, sizeof(r)) == sizeof(r) ? 0 : 98);
    }
    close(to[1]);
    if (read(to[0], &r, sizeof(r)) != sizeof(r))
        r.rc = -99;
    close(to[0]);
    assert_true(waitpid(child, &status, 0) == child);
    r.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    r.file = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    return r;
}

/* Whether the file was read, or refused within the budget. */
static inline bool budget_holds(const struct budget_result *r)
{
    return r->signal == 0 && r->rc != -99 &&
           (r->rc == 0 || !BUDGET_MEASURED ||
            r->peak <= 2 * r->file + BUDGET_BASE);
}

/* ---- pictures ------------------------------------------------------ */

static inline void budget_put(FILE *f, const void *data, size_t bytes)
{
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
}

static inline void budget_be32(FILE *f, uint32_t v)
{
    const unsigned char b[4] = {(unsigned char)(v >> 24),
                                (unsigned char)(v >> 16),
                                (unsigned char)(v >> 8), (unsigned char)v};

    budget_put(f, b, 4);
}

static inline void budget_chunk(FILE *f, const char *type, const void *data,
                                size_t bytes)
{
    uint32_t crc = (uint32_t)crc32(0, (const Bytef *)type, 4);

    budget_be32(f, (uint32_t)bytes);
    budget_put(f, type, 4);
    if (bytes > 0) {
        budget_put(f, data, bytes);
        crc = (uint32_t)crc32(crc, data, (uInt)bytes);
    }
    budget_be32(f, crc);
}

/* The signature and IHDR; type: 0 gray, 3 palette. */
static inline void budget_png_head(FILE *f, uint32_t side, int depth, int type)
{
    unsigned char h[13] = {0};
    int i;

    budget_put(f, "\x89PNG\r\n\x1a\n", 8);
    for (i = 0; i < 4; i++)
        h[i] = h[4 + i] = (unsigned char)(side >> (24 - 8 * i));
    h[8] = (unsigned char)depth;
    h[9] = (unsigned char)type;
    budget_chunk(f, "IHDR", h, 13);
    if (type == 3)
        budget_chunk(f, "PLTE", "\0\0\0\xff\xff\xff", 6);
}

/* Black rows of a 1-bit picture, the last of them `less` bytes short. */
static inline void budget_png_rows(FILE *f, uint32_t side, size_t less)
{
    const size_t bytes = (size_t)side * (side / 8 + 1) - less;
    unsigned char *raw = calloc(bytes, 1), *packed;
    uLongf n = compressBound(bytes);

    packed = malloc(n);
    assert_non_null(raw);
    assert_non_null(packed);
    assert_int_equal(compress2(packed, &n, raw, bytes, 9), Z_OK);
    budget_chunk(f, "IDAT", packed, n);
    budget_chunk(f, "IEND", NULL, 0);
    free(raw);
    free(packed);
}

static inline void budget_segment(FILE *f, int marker, const void *data,
                                  size_t bytes)
{
    const unsigned char head[4] = {0xff, (unsigned char)marker,
                                   (unsigned char)((bytes + 2) >> 8),
                                   (unsigned char)(bytes + 2)};

    budget_put(f, head, 4);
    budget_put(f, data, bytes);
}

/* A progressive JPEG of three components: a DC scan of each if dc, then
 * `scans` AC scans, all of them blocks that change nothing. */
static inline void budget_jpeg(FILE *f, unsigned side, bool dc, int scans)
{
    unsigned char q[65] = {0}, frame[15], table[19] = {0};
    const unsigned blocks = (side / 8) * (side / 8);
    unsigned char *data = calloc(blocks / 8 + 2, 1);
    int i;

    assert_non_null(data);
    memset(q + 1, 1, 64);
    budget_put(f, "\xff\xd8", 2);
    budget_segment(f, 0xdb, q, 65);
    memcpy(frame, "\x08\0\0\0\0\x03\x01\x11\0\x02\x11\0\x03\x11\0", 15);
    frame[1] = frame[3] = (unsigned char)(side >> 8);
    frame[2] = frame[4] = (unsigned char)side;
    budget_segment(f, 0xc2, frame, 15);
    table[1] = 1; /* one code of one bit: 0, which says: nothing changes */
    budget_segment(f, 0xc4, table, 18);
    table[0] = 0x10;
    budget_segment(f, 0xc4, table, 18);
    for (i = 0; i < scans + (dc ? 3 : 0); i++) {
        const bool first = dc && i < 3;
        const unsigned char at = (unsigned char)(1 + i / 3 % 63);
        const unsigned char scan[6] = {
            1, (unsigned char)(1 + i % 3), 0, first ? 0 : at, first ? 0 : at,
            0};

        budget_segment(f, 0xda, scan, 6);
        budget_put(f, data, blocks / 8);
    }
    budget_put(f, "\xff\xd9", 2);
    free(data);
}

#endif
