/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of PyTorch on one line each: what is accepted, with type and shape
 * of the tensors, and what is refused in which words.
 *
 *     } Vw/ ctorch/float32/ s .
 *
 * is a pickle after its first two bytes: opcodes and their arguments, "/" for
 * the end of a line and %89 for a byte that is no letter.  Beside it are the
 * records data/0, six floats, and data/1, four integers of 64 bits.  @NAME=TEXT
 * gives the record NAME (version, byteorder) another text.
 */
#include "tests/unit/weights/lines/tensors.h"

extern const struct weights_format weights_format_pytorch;

static void add_token(struct maker *m, const char *p)
{
    for (; *p; p++) {
        char *end = NULL, hex[3] = "";

        if (*p == '%' && p[1] && p[2]) {
            snprintf(hex, sizeof hex, "%s", p + 1);
            maker_int(m, strtoul(hex, &end, 16), 1);
            p += 2;
        } else {
            maker_int(m, *p == '/' ? '\n' : (unsigned char)*p, 1);
        }
    }
}

/* A record whose text is `own`, unless the line gives another. */
static void add_record(struct zipmaker *z, const char *line, const char *record,
                       const char *own)
{
    struct maker m = {0};
    char token[128], name[32];

    while (next_token(&line, token, sizeof token)) {
        const size_t n = strlen(record);

        if (token[0] == '@' && strncmp(token + 1, record, n) == 0 &&
            token[n + 1] == '=') {
            add_token(&m, token + n + 2);
            own = NULL;
        }
    }
    if (own)
        maker_text(&m, own);
    snprintf(name, sizeof name, "net/%s", record);
    zipmaker_add(z, name, m.data ? m.data : (const void *)"", m.bytes);
    maker_clear(&m);
}

static int read_line(const char *line, char *said, size_t room)
{
    static const float floats[6] = {0, 1, 2, 3, 4, 5};
    static const int64_t integers[4] = {0, 1, 2, 3};
    struct zipmaker z = {0};
    struct maker m = {0};
    const char *whole = line;
    char token[128];
    int rc;

    maker_text(&m, "\x80\2");
    while (next_token(&line, token, sizeof token))
        if (token[0] != '@')
            add_token(&m, token);
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    add_record(&z, whole, "byteorder", "little");
    zipmaker_add(&z, "net/data/0", floats, sizeof floats);
    zipmaker_add(&z, "net/data/1", integers, sizeof integers);
    add_record(&z, whole, "version", "3\n");
    zipmaker_end(&z);
    rc = read_tensors(&weights_format_pytorch, z.file.data, z.file.bytes, said,
                      room);
    zipmaker_clear(&z);
    maker_clear(&m);
    return rc;
}

#define TABLE "tests/unit/weights/lines/pickle.def"
#include "tests/unit/weights/importer/table.h"
