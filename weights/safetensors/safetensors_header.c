/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A header is
 *
 *     {"__metadata__": {"key": "text", ...},
 *      "name": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}, ...}
 *
 * and may hold millions of entries.  This parser knows that one form: it keeps
 * no tree, takes integers as integers (1e3 and 3.0 are none), and has no depth
 * to recurse into.
 */
#include "weights/safetensors/safetensors_header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "libinfer/graph/model_layout.h"
#include "weights/bytes.h"
#include "weights/pytorch/pickle_text.h"
#include "weights/weights.h"

struct cursor {
    const unsigned char *text;
    size_t bytes, at;
    struct infer_error *err;
    struct safetensors_header *header;
};

static int bad(struct cursor *c, const char *what)
{
    return error_set(c->err, INFER_EFORMAT, "header, byte %zu: %s", c->at,
                     what);
}

static int expect(struct cursor *c, char wanted)
{
    char what[] = "'?' was expected";

    what[1] = wanted;
    return bytes_take_char(c->text, c->bytes, &c->at, wanted) ? 0
                                                              : bad(c, what);
}

/* ---- strings ------------------------------------------------------- */

static int put_byte(struct cursor *c, unsigned char byte)
{
    struct safetensors_header *h = c->header;
    size_t capacity;
    char *names;

    if (h->names_bytes == h->names_capacity) {
        capacity = h->names_capacity + h->names_capacity / 2 + 256;
        names = realloc(h->names, capacity);
        if (!names)
            return error_set(c->err, INFER_EMEMORY, "out of memory");
        h->names = names;
        h->names_capacity = capacity;
    }
    h->names[h->names_bytes++] = (char)byte;
    return 0;
}

static int take_hex4(struct cursor *c, uint32_t *out)
{
    uint32_t value = 0;
    int i;

    for (i = 0; i < 4; i++, c->at++) {
        unsigned char ch = c->at < c->bytes ? c->text[c->at] : 0;
        uint32_t digit = ch >= '0' && ch <= '9'   ? (uint32_t)(ch - '0')
                         : ch >= 'a' && ch <= 'f' ? (uint32_t)(ch - 'a' + 10)
                         : ch >= 'A' && ch <= 'F' ? (uint32_t)(ch - 'A' + 10)
                                                  : 16;

        if (digit > 15)
            return bad(c, "a malformed \\u escape");
        value = value << 4 | digit;
    }
    *out = value;
    return 0;
}

/* \uXXXX, or a pair of them for code points above U+FFFF. */
static int take_unicode_escape(struct cursor *c)
{
    unsigned char utf8[4];
    uint32_t high = 0, low = 0;
    size_t n, i;
    int rc = take_hex4(c, &high);

    if (rc < 0)
        return rc;
    if (high >= 0xd800 && high < 0xdc00) {
        if (c->bytes - c->at < 2 || c->text[c->at] != '\\' ||
            c->text[c->at + 1] != 'u')
            return bad(c, "half a surrogate pair");
        c->at += 2;
        rc = take_hex4(c, &low);
        if (rc < 0)
            return rc;
        if (low < 0xdc00 || low > 0xdfff)
            return bad(c, "half a surrogate pair");
        high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }
    if (high == 0)
        return bad(c, "a NUL in a string");
    n = pickle_text_utf8(high, utf8);
    if (n == 0)
        return bad(c, "half a surrogate pair");
    for (i = 0; i < n; i++)
        if ((rc = put_byte(c, utf8[i])) < 0)
            return rc;
    return 0;
}

static int take_escape(struct cursor *c)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    unsigned char ch = c->at < c->bytes ? c->text[c->at] : 0;
    const char *simple = ch ? strchr(from, ch) : NULL;

    c->at++;
    if (simple)
        return put_byte(c, (unsigned char)to[simple - from]);
    if (ch == 'u')
        return take_unicode_escape(c);
    c->at--;
    return bad(c, "an unknown escape");
}

/* Appends the string, and a NUL, to names; *out is its offset there.  The text
 * as a whole is UTF-8 already. */
static int take_string(struct cursor *c, size_t *out)
{
    size_t start = c->header->names_bytes;
    int rc = expect(c, '"');

    if (rc < 0)
        return rc;
    for (;;) {
        unsigned char ch;

        if (c->at == c->bytes)
            return bad(c, "a string without an end");
        ch = c->text[c->at++];
        if (ch == '"')
            break;
        if (ch < ' ') {
            c->at--;
            return bad(c, "a control character in a string");
        }
        rc = ch == '\\' ? take_escape(c) : put_byte(c, ch);
        if (rc < 0)
            return rc;
    }
    *out = start;
    return put_byte(c, 0);
}

/* ---- numbers ------------------------------------------------------- */

static int take_integer(struct cursor *c, uint64_t *out)
{
    uint64_t value = 0;
    size_t start;

    bytes_skip_space(c->text, c->bytes, &c->at);
    start = c->at;
    while (c->at < c->bytes && c->text[c->at] >= '0' && c->text[c->at] <= '9') {
        unsigned digit = c->text[c->at] - '0';

        if (value > (UINT64_MAX - digit) / 10)
            return bad(c, "an integer beyond 64 bits");
        value = value * 10 + digit;
        c->at++;
    }
    if (c->at == start || (c->at - start > 1 && c->text[start] == '0') ||
        (c->at < c->bytes && strchr(".eExX", c->text[c->at]) && c->text[c->at]))
        return bad(c, "an integer of 0 or more was expected");
    *out = value;
    return 0;
}

static int take_shape(struct cursor *c, struct safetensors_entry *e)
{
    uint64_t dim = 0;
    int rc = expect(c, '[');

    e->rank = 0;
    if (rc < 0 || bytes_take_char(c->text, c->bytes, &c->at, ']'))
        return rc;
    for (;;) {
        rc = take_integer(c, &dim);
        if (rc < 0)
            return rc;
        if (dim > INT64_MAX)
            return bad(c, "a dimension beyond 63 bits");
        if (e->rank < INFER_MAX_RANK)
            e->dim[e->rank] = (int64_t)dim;
        if (e->rank < 1000000)
            e->rank++;
        if (bytes_take_char(c->text, c->bytes, &c->at, ']'))
            return 0;
        rc = expect(c, ',');
        if (rc < 0)
            return rc;
    }
}

static int take_offsets(struct cursor *c, struct safetensors_entry *e)
{
    int rc;

    if ((rc = expect(c, '[')) < 0 || (rc = take_integer(c, &e->begin)) < 0 ||
        (rc = expect(c, ',')) < 0 || (rc = take_integer(c, &e->end)) < 0)
        return rc;
    return expect(c, ']');
}

static int take_dtype(struct cursor *c, struct safetensors_entry *e)
{
    size_t at = 0, bytes;
    int rc = take_string(c, &at);

    if (rc < 0)
        return rc;
    bytes = c->header->names_bytes - at;
    c->header->names_bytes = at;
    if (bytes > sizeof e->dtype)
        return bad(c, "an unknown dtype");
    memcpy(e->dtype, c->header->names + at, bytes);
    return 0;
}

/* ---- objects ------------------------------------------------------- */

/* {"dtype": ..., "shape": ..., "data_offsets": ...}, each once. */
static int take_entry(struct cursor *c, struct safetensors_entry *e)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    unsigned seen = 0;
    size_t at = 0;
    int rc = expect(c, '{'), k;

    if (rc < 0)
        return rc;
    do {
        rc = take_string(c, &at);
        if (rc < 0)
            return rc;
        for (k = 0; k < 3; k++)
            if (strcmp(c->header->names + at, keys[k]) == 0)
                break;
        c->header->names_bytes = at;
        if (k == 3)
            return bad(c, "a tensor with an unknown property");
        if (seen & 1u << k)
            return bad(c, "a tensor with a property given twice");
        seen |= 1u << k;
        if ((rc = expect(c, ':')) < 0)
            return rc;
        rc = k == 0   ? take_dtype(c, e)
             : k == 1 ? take_shape(c, e)
                      : take_offsets(c, e);
        if (rc < 0)
            return rc;
    } while (bytes_take_char(c->text, c->bytes, &c->at, ','));
    if (seen != 7)
        return bad(c, "a tensor without dtype, shape or data_offsets");
    return expect(c, '}');
}

/* The network that the tensors are of. */
static int take_graph(struct cursor *c, const char *text)
{
    if (c->header->graph)
        return bad(c, "a second " MODEL_KEY_GRAPH);
    c->header->graph = strdup(text);
    return c->header->graph ? 0
                            : error_set(c->err, INFER_EMEMORY, "out of memory");
}

/* {"key": "text", ...}; what "format" says goes into the report. */
static int take_metadata(struct cursor *c)
{
    size_t key = 0, value = 0;
    int rc = expect(c, '{');

    if (rc < 0 || bytes_take_char(c->text, c->bytes, &c->at, '}'))
        return rc;
    do {
        if ((rc = take_string(c, &key)) < 0 || (rc = expect(c, ':')) < 0 ||
            (rc = take_string(c, &value)) < 0)
            return rc;
        if (strcmp(c->header->names + key, "format") == 0)
            snprintf(c->header->detail, sizeof c->header->detail, "%.64s",
                     c->header->names + value);
        if (strcmp(c->header->names + key, MODEL_KEY_GRAPH) == 0 &&
            (rc = take_graph(c, c->header->names + value)) < 0)
            return rc;
        c->header->names_bytes = key;
    } while (bytes_take_char(c->text, c->bytes, &c->at, ','));
    return expect(c, '}');
}

static int add_entry(struct cursor *c, const struct safetensors_entry *e)
{
    struct safetensors_header *h = c->header;
    struct safetensors_entry *entry;
    size_t capacity;

    if (h->count >= WEIGHTS_MAX_TENSORS)
        return error_set(c->err, INFER_EFORMAT, "more than %d tensors",
                         WEIGHTS_MAX_TENSORS);
    if (h->count == h->capacity) {
        capacity = h->capacity + h->capacity / 2 + 16;
        entry = realloc(h->entry, capacity * sizeof *entry);
        if (!entry)
            return error_set(c->err, INFER_EMEMORY, "out of memory");
        h->entry = entry;
        h->capacity = capacity;
    }
    h->entry[h->count++] = *e;
    return 0;
}

static int take_header(struct cursor *c)
{
    bool metadata = false;
    size_t name = 0;
    int rc = expect(c, '{');

    if (rc < 0 || bytes_take_char(c->text, c->bytes, &c->at, '}'))
        return rc;
    do {
        struct safetensors_entry e = {0};

        if ((rc = take_string(c, &name)) < 0 || (rc = expect(c, ':')) < 0)
            return rc;
        if (strcmp(c->header->names + name, "__metadata__") == 0) {
            if (metadata)
                return bad(c, "a second __metadata__");
            metadata = true;
            c->header->names_bytes = name;
            rc = take_metadata(c);
        } else {
            e.name = name;
            rc = take_entry(c, &e);
            if (rc == 0)
                rc = add_entry(c, &e);
        }
        if (rc < 0)
            return rc;
    } while (bytes_take_char(c->text, c->bytes, &c->at, ','));
    return expect(c, '}');
}

int safetensors_header_read(const unsigned char *text, size_t bytes,
                            struct infer_error *err,
                            struct safetensors_header *out)
{
    struct safetensors_header header = {0};
    struct cursor c = {text, bytes, 0, err, &header};
    int rc;

    if (!text_is_utf8(text, bytes))
        return error_set(err, INFER_EFORMAT, "the header is not UTF-8");
    rc = take_header(&c);
    if (rc == 0) {
        bytes_skip_space(c.text, c.bytes, &c.at);
        if (c.at != bytes)
            rc = bad(&c, "something follows the header's end");
    }
    if (rc < 0) {
        safetensors_header_clear(&header);
        return rc;
    }
    *out = header;
    return 0;
}

void safetensors_header_clear(struct safetensors_header *header)
{
    free(header->entry);
    free(header->names);
    free(header->graph);
    *header = (struct safetensors_header){0};
}
