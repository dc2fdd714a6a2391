/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of tensors on one line each: what is accepted, with type and shape of
 * the tensors, and what is refused in which words.
 *
 *     safetensors {'a':{'dtype':'F32','shape':[2],'data_offsets':[0,8]}} +8
 *     npz v1 {'descr':'<f4','fortran_order':False,'shape':(2,3),} +24
 *
 * are a header with single quotes and the bytes behind it, all 1; of a .npz
 * file's member, `;` begins the next one.  v1: the version of the .npy format;
 * v0: a member that does not begin as one; `-`: the header does not end its
 * line.
 */
#include "tests/unit/weights/lines/tensors.h"

extern const struct weights_format weights_format_safetensors,
    weights_format_npz;

/* A header up to the next ";", and how many bytes follow it. */
static size_t take_header(const char **line, struct text *header, int *version,
                          bool quotes)
{
    size_t bytes = 0;
    char token[128];

    while (next_token(line, token, sizeof token) && strcmp(token, ";") != 0) {
        char *end = token + 1;

        if (token[0] == '+')
            bytes = strtoul(token + 1, &end, 10);
        else if (token[0] == 'v')
            *version = (int)strtol(token + 1, &end, 10);
        if (end > token + 1 && *end == '\0')
            continue;
        for (char *p = token; quotes && *p; p++)
            *p = *p == '\'' ? '"' : *p;
        put(header, "%s%s", header->bytes ? " " : "", token);
    }
    assert_true(bytes <= 4096);
    return bytes;
}

static void put_ones(struct maker *m, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        maker_int(m, 1, 1);
}

static void put_member(struct zipmaker *z, const char **line, int number)
{
    struct text header = {"", 0};
    struct maker m = {0};
    char name[16];
    int version = 1;
    const size_t bytes = take_header(line, &header, &version, false);

    if (header.bytes >= 2 && strcmp(header.data + header.bytes - 2, " -") == 0)
        header.bytes -= 2;
    else
        put(&header, "\n");
    maker_text(&m, version == 0 ? "\x93NUMPX" : "\x93NUMPY");
    maker_int(&m, (uint64_t)version, 2);
    maker_int(&m, header.bytes, version == 1 ? 2 : 4);
    maker_bytes(&m, header.data, header.bytes);
    put_ones(&m, bytes);
    snprintf(name, sizeof name, "m%d.npy", number);
    zipmaker_add(z, name, m.data, m.bytes);
    maker_clear(&m);
}

static int read_line(const char *line, char *said, size_t room)
{
    struct zipmaker z = {0};
    struct maker m = {0};
    char kind[16];
    int rc, n = 0;

    next_token(&line, kind, sizeof kind);
    if (strcmp(kind, "npz") == 0) {
        while (*line)
            put_member(&z, &line, n++);
        zipmaker_end(&z);
        rc = read_tensors(&weights_format_npz, z.file.data, z.file.bytes, said,
                          room);
    } else {
        struct text header = {"", 0};
        const size_t bytes = take_header(&line, &header, &n, true);

        assert_string_equal(kind, "safetensors");
        maker_int(&m, header.bytes, 8);
        maker_text(&m, header.data);
        put_ones(&m, bytes);
        rc = read_tensors(&weights_format_safetensors, m.data, m.bytes, said,
                          room);
    }
    zipmaker_clear(&z);
    maker_clear(&m);
    return rc;
}

#define TABLE "tests/unit/weights/lines/headers.def"
#include "tests/unit/weights/importer/table.h"
