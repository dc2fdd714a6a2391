/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a .npy file: the one form of Python literal that numpy writes,
 * and nothing else.  There is no nesting to recurse into. */
#include "weights/numpy/npy.h"

#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "weights/bytes.h"
#include "weights/numpy/numpy.h"

#define MAX_HEADER 10000 /* as numpy itself allows */
#define MAX_STRING 64

struct cursor {
    const unsigned char *text;
    size_t bytes, at;
    struct infer_error *err;
};

static int bad(struct cursor *c, const char *what)
{
    return error_set(c->err, INFER_EFORMAT, ".npy header, byte %zu: %s", c->at,
                     what);
}

/* 'text' or "text" without escapes, which no key or type needs. */
static int take_string(struct cursor *c, const unsigned char **text,
                       size_t *bytes)
{
    unsigned char quote;
    size_t start;

    bytes_skip_space(c->text, c->bytes, &c->at);
    if (c->at == c->bytes || (c->text[c->at] != '\'' && c->text[c->at] != '"'))
        return bad(c, "a string was expected");
    quote = c->text[c->at++];
    start = c->at;
    while (c->at < c->bytes && c->text[c->at] != quote) {
        if (c->text[c->at] < ' ' || c->text[c->at] == '\\')
            return bad(c, "a string with an escape or control character");
        c->at++;
    }
    if (c->at == c->bytes || c->at - start > MAX_STRING)
        return bad(c, "a string without an end");
    *text = c->text + start;
    *bytes = c->at++ - start;
    return 0;
}

static int take_descr(struct cursor *c, struct npy_header *h)
{
    const unsigned char *text = NULL;
    size_t bytes = 0;
    int rc;

    bytes_skip_space(c->text, c->bytes, &c->at);
    if (c->at < c->bytes && (c->text[c->at] == '[' || c->text[c->at] == '('))
        return error_set(c->err, INFER_EUNSUPPORTED,
                         ".npy: arrays of records are not supported");
    rc = take_string(c, &text, &bytes);
    if (rc < 0)
        return rc;
    if (!numpy_dtype(text, bytes, &h->dtype, &h->swapped))
        return error_set(c->err, INFER_EUNSUPPORTED,
                         ".npy: element type '%.*s' is not supported "
                         "(supported: f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 b1)",
                         (int)bytes, (const char *)text);
    return 0;
}

static bool take_word(struct cursor *c, const char *word)
{
    size_t n = strlen(word);

    bytes_skip_space(c->text, c->bytes, &c->at);
    if (c->bytes - c->at < n || memcmp(c->text + c->at, word, n) != 0)
        return false;
    c->at += n;
    return true;
}

static int take_bool(struct cursor *c, bool *out)
{
    if (take_word(c, "True"))
        *out = true;
    else if (take_word(c, "False"))
        *out = false;
    else
        return bad(c, "True or False was expected");
    return 0;
}

/* A decimal integer >= 0; Python 2 wrote long ones with an L. */
static int take_dimension(struct cursor *c, int64_t *out)
{
    int64_t value = 0;
    size_t start;

    bytes_skip_space(c->text, c->bytes, &c->at);
    start = c->at;
    for (; c->at < c->bytes && c->text[c->at] >= '0' && c->text[c->at] <= '9';
         c->at++)
        if (!checked_mul_i64(value, 10, &value) ||
            !checked_add_i64(value, c->text[c->at] - '0', &value))
            return bad(c, "a dimension beyond 64 bits");
    if (c->at == start)
        return bad(c, "a dimension was expected");
    if (c->at - start > 1 && c->text[start] == '0')
        return bad(c, "a dimension with a leading zero");
    if (c->at < c->bytes && c->text[c->at] == 'L')
        c->at++;
    *out = value;
    return 0;
}

/* (), (3,), (3, 4), (3, 4,); a lone (3) is no tuple. */
static int take_shape(struct cursor *c, struct npy_header *h)
{
    bool comma = true;
    int rc;

    if (!bytes_take_char(c->text, c->bytes, &c->at, '('))
        return bad(c, "a tuple was expected");
    h->rank = 0;
    while (!bytes_take_char(c->text, c->bytes, &c->at, ')')) {
        if (!comma)
            return bad(c, "a comma was expected");
        if (h->rank == INFER_MAX_RANK)
            return error_set(c->err, INFER_EUNSUPPORTED,
                             ".npy: more than %d dimensions", INFER_MAX_RANK);
        rc = take_dimension(c, &h->dim[h->rank++]);
        if (rc < 0)
            return rc;
        comma = bytes_take_char(c->text, c->bytes, &c->at, ',');
    }
    if (h->rank == 1 && !comma)
        return bad(c, "the shape is no tuple");
    if (!checked_count(h->rank, h->dim, &h->count))
        return bad(c, "the shape is beyond all memory");
    return 0;
}

static bool is_key(const unsigned char *text, size_t bytes, const char *key)
{
    return strlen(key) == bytes && memcmp(text, key, bytes) == 0;
}

/* One key and its value; seen gets the key's bit. */
static int take_item(struct cursor *c, struct npy_header *h, unsigned *seen)
{
    const unsigned char *key = NULL;
    size_t bytes = 0;
    unsigned bit;
    int rc = take_string(c, &key, &bytes);

    if (rc < 0)
        return rc;
    bit = is_key(key, bytes, "descr")           ? 1
          : is_key(key, bytes, "fortran_order") ? 2
          : is_key(key, bytes, "shape")         ? 4
                                                : 0;
    if (bit == 0)
        return bad(c, "an unknown key");
    if (*seen & bit)
        return bad(c, "a key that was there before");
    *seen |= bit;
    if (!bytes_take_char(c->text, c->bytes, &c->at, ':'))
        return bad(c, "':' was expected");
    if (bit == 1)
        return take_descr(c, h);
    if (bit == 2)
        return take_bool(c, &h->fortran);
    return take_shape(c, h);
}

int npy_header_read(const unsigned char *text, size_t bytes, bool utf8,
                    struct infer_error *err, struct npy_header *out)
{
    struct cursor c = {text, bytes, 0, err};
    struct npy_header h = {0};
    unsigned seen = 0;
    bool comma = true;
    int rc;

    if (bytes > MAX_HEADER)
        return error_set(err, INFER_EFORMAT,
                         ".npy header of %zu bytes (at most %d)", bytes,
                         MAX_HEADER);
    if (utf8 && !text_is_utf8(text, bytes))
        return error_set(err, INFER_EFORMAT, ".npy header: not UTF-8");
    if (!bytes_take_char(c.text, c.bytes, &c.at, '{'))
        return bad(&c, "a dictionary was expected");
    while (!bytes_take_char(c.text, c.bytes, &c.at, '}')) {
        if (!comma)
            return bad(&c, "a comma was expected");
        rc = take_item(&c, &h, &seen);
        if (rc < 0)
            return rc;
        comma = bytes_take_char(c.text, c.bytes, &c.at, ',');
    }
    bytes_skip_space(c.text, c.bytes, &c.at);
    if (c.at != bytes)
        return bad(&c, "something follows the dictionary");
    if (seen != 7)
        return bad(&c, "descr, fortran_order or shape is missing");
    *out = h;
    return 0;
}
