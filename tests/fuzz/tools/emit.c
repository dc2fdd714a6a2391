/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a model file, whose checksums are repaired, as C.  Names of the
 * file reach the text as comments and identifiers alone: outside comments and
 * strings no byte stands there that C does not have, none is open at the end,
 * and no constant is written as a word. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libinfer/graph/model_file.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate/header.h"
#include "tests/fuzz/tools/tensors.h"
#include "tools/emit/emit.h"

/* Behind a comment or string that begins at p; p itself where none does. */
static const char *skip(const char *p)
{
    if (p[0] == '/' && p[1] == '*') {
        p = strstr(p + 2, "*/");
        if (!p)
            abort();
        return p + 2;
    }
    if (*p == '"') {
        for (p++; *p != '"'; p++)
            if (*p == '\0' || *p == '\n' || (*p == '\\' && *++p == '\0'))
                abort();
        return p + 1;
    }
    return p;
}

static void check_text(const char *p)
{
    while (*p) {
        const char *next = skip(p);
        size_t word = 0;

        if (next != p) {
            p = next;
            continue;
        }
        if ((*p < ' ' && *p != '\n') || *p > '~' || strchr("@`$", *p))
            abort();
        while (isalnum((unsigned char)p[word]) || p[word] == '_')
            word++;
        if (word == 3 && (memcmp(p, "nan", 3) == 0 || memcmp(p, "inf", 3) == 0))
            abort();
        p += word ? word : 1;
    }
}

static void check_file(const char *name)
{
    char path[128];
    FILE *f = fopen(folder_file(name, path), "rb");
    char *text;
    long bytes;

    if (!f || fseek(f, 0, SEEK_END) < 0 || (bytes = ftell(f)) < 0)
        abort();
    rewind(f);
    text = calloc(1, (size_t)bytes + 1);
    if (!text || fread(text, 1, (size_t)bytes, f) != (size_t)bytes)
        abort();
    check_text(text);
    free(text);
    fclose(f);
    folder_remove(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *copy = malloc(size + 1);
    const int fd = memfd_create("model", MFD_CLOEXEC);
    struct infer_error err;
    struct graph *g;
    char path[128];

    if (!copy || fd < 0)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    header_repair(copy, size);
    if (write(fd, copy, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    folder_open();
    if (model_file_read(path, &err, &g) == 0) {
        tensors_repair(g);
        if (emit_c(g, folder_file("net.c", path), &err, NULL) == 0) {
            check_file("net.c");
            check_file("net.h");
        }
        graph_free(g);
    }
    folder_close();
    close(fd);
    free(copy);
    return 0;
}
