/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf's text format:
 *
 *     name: "net"  # a comment
 *     layer { name: 'conv1' convolution_param { pad: 1 kernel_size: [3, 3] } }
 *
 * Messages stand in braces or angle brackets, a colon before them is optional,
 * and so are commas and semicolons between fields.  Strings stay as they are
 * written, without the quotes.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/error.h"
#include "weights/caffe/caffe.h"

/* A field takes two bytes of text and some fifty of memory. */
#define MAX_FIELDS (1 << 20)

struct parser {
    const char *start, *at, *end;
    struct infer_error *err;
    struct caffe_text *out;
    int open[CAFFE_MAX_DEPTH]; /* messages that are open */
    int last[CAFFE_MAX_DEPTH]; /* the latest field of each, or -1 */
    int depth;
};

static int bad(const struct parser *p, const char *what)
{
    size_t line = 1;
    const char *c;

    for (c = p->start; c < p->at; c++)
        line += *c == '\n';
    return error_set(p->err, INFER_EFORMAT, "line %zu: %s", line, what);
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '+' ||
           c == '-';
}

/* Skips white space, comments and separators. */
static void skip(struct parser *p)
{
    while (p->at < p->end) {
        const char c = *p->at;

        if (c == '#')
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        else if (c == ' ' || (c >= '\t' && c <= '\r') || c == ',' || c == ';')
            p->at++;
        else
            break;
    }
}

/* Adds a field to the innermost message; its index, or negative. */
static int add_field(struct parser *p, struct layers_text name)
{
    struct caffe_text *t = p->out;
    const int last = p->last[p->depth - 1], at = t->count;
    struct caffe_field *field;

    if (at == MAX_FIELDS)
        return error_set(p->err, INFER_EUNSUPPORTED, "more than %d fields",
                         MAX_FIELDS);
    field = array_reserve(t->field, at, &t->capacity, sizeof(*field));
    if (field == NULL)
        return error_set(p->err, INFER_EMEMORY, "out of memory");
    t->field = field;
    t->field[at] = (struct caffe_field){name, {"", 0}, -1, -1, false};
    t->count++;
    if (last >= 0)
        t->field[last].next = at;
    else
        t->field[p->open[p->depth - 1]].child = at;
    p->last[p->depth - 1] = at;
    return at;
}

static int open_message(struct parser *p, int field)
{
    if (p->depth == CAFFE_MAX_DEPTH)
        return bad(p, "messages nest too deeply");
    p->out->field[field].message = true;
    p->open[p->depth] = field;
    p->last[p->depth++] = -1;
    return 0;
}

/* A word, number or string. */
static int read_scalar(struct parser *p, struct layers_text *out)
{
    const char quote = p->at < p->end ? *p->at : 0;
    const char *begin = p->at;

    if (quote != '"' && quote != '\'') {
        while (p->at < p->end && is_word(*p->at))
            p->at++;
        *out = (struct layers_text){begin, (size_t)(p->at - begin)};
        return out->bytes > 0 ? 0 : bad(p, "a value is due");
    }
    for (p->at++; p->at < p->end && *p->at != quote && *p->at != '\n'; p->at++)
        if (*p->at == '\\' && p->at + 1 < p->end && p->at[1] != '\n')
            p->at++;
    if (p->at >= p->end || *p->at != quote)
        return bad(p, "a string does not end");
    *out = (struct layers_text){begin + 1, (size_t)(p->at - begin - 1)};
    p->at++;
    return 0;
}

/* [value, value, ...]: as many fields of the same name; `field` is the first
 * of them. */
static int read_list(struct parser *p, struct layers_text name, int field)
{
    int rc = 0, n;

    p->at++;
    for (n = 0; rc == 0; n++) {
        skip(p);
        if (p->at < p->end && *p->at == ']') {
            p->at++;
            return n > 0 ? 0 : bad(p, "an empty list");
        }
        if (n > 0)
            field = add_field(p, name);
        if (field < 0)
            return field;
        rc = read_scalar(p, &p->out->field[field].value);
    }
    return rc;
}

static int read_field(struct parser *p)
{
    struct layers_text name;
    const char *begin = p->at;
    bool colon;
    int field;

    while (p->at < p->end && is_word(*p->at))
        p->at++;
    name = (struct layers_text){begin, (size_t)(p->at - begin)};
    if (name.bytes == 0)
        return bad(p, "the name of a field is due");
    skip(p);
    colon = p->at < p->end && *p->at == ':';
    if (colon) {
        p->at++;
        skip(p);
    }
    field = add_field(p, name);
    if (field < 0)
        return field;
    if (p->at < p->end && (*p->at == '{' || *p->at == '<')) {
        p->at++;
        return open_message(p, field);
    }
    if (!colon)
        return bad(p, "':' or '{' is due");
    if (p->at < p->end && *p->at == '[')
        return read_list(p, name, field);
    return read_scalar(p, &p->out->field[field].value);
}

int caffe_text_parse(const void *text, size_t bytes, struct infer_error *err,
                     struct caffe_text *out)
{
    struct parser p = {text, text, (const char *)text + bytes, err, out, {0},
                       {-1}, 1};
    int rc = 0;

    memset(out, 0, sizeof(*out));
    out->field = calloc(1, sizeof(*out->field));
    if (out->field == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    out->count = out->capacity = 1;
    out->field[0] = (struct caffe_field){{"", 0}, {"", 0}, -1, -1, true};
    while (rc == 0) {
        skip(&p);
        if (p.at == p.end)
            break;
        if (*p.at != '}' && *p.at != '>') {
            rc = read_field(&p);
        } else if (p.depth == 1) {
            rc = bad(&p, "a brace that nothing opened");
        } else {
            p.at++;
            p.depth--;
        }
    }
    if (rc == 0 && p.depth > 1)
        rc = bad(&p, "the text ends inside a message");
    if (rc < 0)
        caffe_text_clear(out);
    return rc;
}

void caffe_text_clear(struct caffe_text *text)
{
    free(text->field);
    memset(text, 0, sizeof(*text));
}

int caffe_find(const struct caffe_text *t, int message, const char *name,
               int after)
{
    int i = after;

    if (message < 0)
        return -1;
    i = after < 0 ? t->field[message].child : t->field[after].next;
    while (i >= 0 && !layers_text_is(t->field[i].name, name))
        i = t->field[i].next;
    return i;
}

/* Whether a layer opens at p. */
static bool opens_layer(const char *p, const char *end)
{
    if (end - p < 6 || memcmp(p, "layer", 5) != 0)
        return false;
    p += p[5] == 's' ? 6 : 5;
    while (p < end &&
           (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n' || *p == ':'))
        p++;
    return p < end && *p == '{';
}

bool caffe_text_probe(const void *text, size_t bytes)
{
    const char *p = text, *end = p + (bytes < 65536 ? bytes : 65536);
    bool begins = true; /* of a line */

    if (memchr(p, '\0', (size_t)(end - p)) != NULL)
        return false;
    for (; p < end; p++) {
        if (begins && opens_layer(p, end))
            return true;
        begins = *p == '\n' || (begins && (*p == ' ' || *p == '\t'));
    }
    return false;
}
