/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target on files, where it is not built for a fuzzer: to replay
 * what a fuzzer found, and to run a corpus under another tool.  NAME.pack.gz is
 * many inputs in one file: of each its length (4 bytes, little-endian) and its
 * bytes (tests/make/fuzz_packs.py).  Each
 * input of a pack is also changed: FUZZ_MUTANTS mutants (1), by the target's
 * mutator where it has one, else byte by byte; the same ones every time.  How
 * they end is compared with what was recorded (verdict.c). */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tests/fuzz/replay/verdict.h"

#define LARGEST_INPUT (1u << 20)

#pragma weak LLVMFuzzerCustomMutator

static long inputs;
static int mutants = 1;

/* ---- mutants ------------------------------------------------------- */

/* In the place of libFuzzer's: a bit, a byte, an insertion or a removal. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    static unsigned state = 1;
    const unsigned way = mutate_random(&state) % 4;
    const size_t at = size > 0 ? mutate_random(&state) % size : 0;

    if (size < max_size && (size == 0 || way == 0)) {
        memmove(data + at + 1, data + at, size - at);
        data[at] = (uint8_t)mutate_random(&state);
        return size + 1;
    }
    if (size > 1 && way == 1) {
        memmove(data + at, data + at + 1, size - at - 1);
        return size - 1;
    }
    if (size > 0 && way == 2)
        data[at] = (uint8_t)mutate_random(&state);
    else if (size > 0)
        data[at] ^= (uint8_t)(1u << mutate_random(&state) % 8);
    return size;
}

static size_t mutate(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    return LLVMFuzzerCustomMutator
               ? LLVMFuzzerCustomMutator(data, size, room, seed)
               : LLVMFuzzerMutate(data, size, room);
}

static void run(const unsigned char *data, size_t size, bool in_pack)
{
    verdict_begin();
    LLVMFuzzerTestOneInput(data, size);
    verdict_end(in_pack);
    inputs++;
}

/* Runs the target on a mutant of exactly its size, `changes` changes from the
 * input. */
static void run_mutant(const unsigned char *data, size_t size, int changes)
{
    const size_t room = size + 256;
    unsigned char *copy = malloc(room), *mutant;

    if (!copy)
        return;
    memcpy(copy, data, size);
    for (int i = 0; i < changes; i++)
        size = mutate(copy, size, room, (unsigned)inputs * 8 + (unsigned)i);
    if (size > room)
        abort();
    mutant = realloc(copy, size ? size : 1);
    if (mutant)
        run(mutant, size, true);
    free(mutant ? mutant : copy);
}

/* ---- files --------------------------------------------------------- */

static int fail(const char *path, unsigned char *data)
{
    fprintf(stderr, "%s: cannot be read\n", path);
    free(data);
    return 1;
}

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    unsigned char *data = NULL;
    long bytes = -1;

    if (file && fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) >= 0) {
        rewind(file);
        data = malloc((size_t)bytes + 1);
        if (data && fread(data, 1, (size_t)bytes, file) != (size_t)bytes)
            bytes = -1;
    }
    if (file)
        fclose(file);
    if (bytes < 0 || !data)
        return fail(path, data);
    run(data, (size_t)bytes, false);
    free(data);
    return 0;
}

/* The next input of a pack, of exactly its size; 0: the end; -1: damaged. */
static int next(gzFile pack, unsigned char **data, size_t *size)
{
    unsigned char head[4];
    const int got = gzread(pack, head, 4);

    if (got <= 0)
        return got;
    *size = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 |
            (size_t)head[3] << 24;
    *data =
        got == 4 && *size <= LARGEST_INPUT ? malloc(*size ? *size : 1) : NULL;
    if (!*data || gzread(pack, *data, (unsigned)*size) != (int)*size) {
        free(*data);
        return -1;
    }
    return 1;
}

static int replay_pack(const char *path)
{
    gzFile pack = gzopen(path, "rb");
    unsigned char *data;
    size_t size;
    int rc;

    if (!pack)
        return fail(path, NULL);
    while ((rc = next(pack, &data, &size)) > 0) {
        run(data, size, true);
        for (int i = 0; i < mutants; i++)
            run_mutant(data, size, 1 + i % 5);
        free(data);
    }
    gzclose(pack);
    return rc < 0 ? fail(path, NULL) : 0;
}

static int is_pack(const char *path)
{
    const size_t n = strlen(path);

    return n > 8 && strcmp(path + n - 8, ".pack.gz") == 0;
}

int main(int argc, char **argv)
{
    const char *text = getenv("FUZZ_MUTANTS");
    int i, rc = 0;

    if (text)
        mutants = atoi(text);
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE|NAME.pack.gz...\n", argv[0]);
        return 1;
    }
    if (!verdict_open())
        return 1;
    for (i = 1; i < argc; i++)
        rc |= is_pack(argv[i]) ? replay_pack(argv[i]) : replay(argv[i]);
    rc |= verdict_close();
    printf("%ld inputs\n", inputs);
    return rc;
}
