/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of TorchScript's source. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/syntax.h"

#define MAX_NUMBER 64 /* characters of a number */

int ts_bad(struct ts_lexer *l, const char *what)
{
    return error_set(l->err, INFER_EFORMAT, "%s:%u: %s", l->file->path, l->line,
                     what);
}

int ts_lexer_open(struct ts_lexer *l, const unsigned char *data, size_t bytes)
{
    l->at = data;
    l->end = data + bytes;
    l->line = 1;
    l->brackets = l->indents = l->pending = 0;
    l->indent[0] = 0;
    l->line_start = true;
    return bytes > TS_MAX_SOURCE ? ts_bad(l, "the file is too long")
                                 : ts_next(l);
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static int peek(const struct ts_lexer *l, size_t ahead)
{
    return (size_t)(l->end - l->at) > ahead ? l->at[ahead] : -1;
}

/* ---- lines --------------------------------------------------------- */

static void skip_comment(struct ts_lexer *l)
{
    while (peek(l, 0) >= 0 && peek(l, 0) != '\n')
        l->at++;
}

/* The blanks at the start of a line that is not empty; -1 at the end. */
static int blanks(struct ts_lexer *l)
{
    for (;;) {
        int n = 0;

        while (peek(l, 0) == ' ') {
            l->at++;
            n++;
        }
        if (peek(l, 0) == '#')
            skip_comment(l);
        if (peek(l, 0) == '\r' && peek(l, 1) == '\n')
            l->at++;
        if (peek(l, 0) < 0)
            return -1;
        if (peek(l, 0) != '\n')
            return n;
        l->at++;
        l->line++;
    }
}

/* The token that the depth of a new line makes.  1: none. */
static int start_line(struct ts_lexer *l)
{
    const int n = blanks(l), depth = n < 0 ? 0 : n;

    l->line_start = false;
    if (depth > l->indent[l->indents]) {
        if (l->indents == TS_MAX_NESTING)
            return ts_bad(l, "blocks are nested too deep");
        l->indent[++l->indents] = depth;
        l->token = TS_INDENT;
        return 0;
    }
    while (depth < l->indent[l->indents]) {
        l->indents--;
        l->pending++;
    }
    if (depth != l->indent[l->indents])
        return ts_bad(l, "the line stands between two blocks");
    return 1;
}

/* ---- numbers and text ---------------------------------------------- */

static int number(struct ts_lexer *l)
{
    char text[MAX_NUMBER + 1];
    size_t n = 0;
    bool real = false;
    char *end;
    int c;

    for (; (c = peek(l, n)) >= 0; n++) {
        const bool exponent = n > 0 && (text[n - 1] == 'e');

        if (!is_digit(c) && c != '.' && c != 'e' &&
            !(exponent && (c == '-' || c == '+')))
            break;
        if (n == MAX_NUMBER)
            return ts_bad(l, "a number is too long");
        real |= !is_digit(c);
        text[n] = (char)c;
    }
    text[n] = 0;
    l->at += n;
    errno = 0;
    l->token = real ? TS_FLOAT : TS_INT;
    if (real)
        l->f = strtod(text, &end);
    else
        l->i = strtoll(text, &end, 10);
    if (*end || (!real && errno) || (c >= 0 && is_letter(c)))
        return ts_bad(l, c == 'j' ? "complex numbers are not supported"
                                  : "a number is malformed");
    return 0;
}

static int hex_digit(int c)
{
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The character of an escape behind its backslash, or -1. */
static int escape(struct ts_lexer *l)
{
    static const char letters[] = "abfnrtv\\'\"";
    static const char values[] = "\a\b\f\n\r\t\v\\'\"";
    const int c = peek(l, 0);
    const char *found = c > 0 ? strchr(letters, c) : NULL;
    int value = 0, digits = 0;

    if (found) {
        l->at++;
        return (unsigned char)values[found - letters];
    }
    if (c == 'x') {
        if (hex_digit(peek(l, 1)) < 0 || hex_digit(peek(l, 2)) < 0)
            return -1;
        value = 16 * hex_digit(peek(l, 1)) + hex_digit(peek(l, 2));
        l->at += 3;
        return value;
    }
    while (digits < 3 && peek(l, 0) >= '0' && peek(l, 0) <= '7') {
        value = 8 * value + (peek(l, 0) - '0');
        l->at++;
        digits++;
    }
    return digits > 0 && value < 256 ? value : -1;
}

static int text(struct ts_lexer *l)
{
    const int quote = *l->at++;
    const unsigned char *close = l->at;
    unsigned char *to;
    size_t n = 0;
    int c;

    while (close < l->end && *close != quote && *close != '\n')
        close += *close == '\\' && close + 1 < l->end ? 2 : 1;
    if (close >= l->end || *close != quote)
        return ts_bad(l, "a text has no end");
    to = onnx_alloc(l->arena, (size_t)(close - l->at) + 1);
    if (!to)
        return error_set(l->err, INFER_EMEMORY, "out of memory");
    while (l->at < close) {
        c = *l->at++;
        if (c == '\\' && (c = escape(l)) < 0)
            return ts_bad(l, "a text has an unknown escape");
        to[n++] = (unsigned char)c;
    }
    l->at = close + 1;
    l->token = TS_TEXT;
    l->text = (struct pb_span){to, n};
    return 0;
}

/* ---- tokens -------------------------------------------------------- */

static int sign(struct ts_lexer *l, int c)
{
    l->token = TS_SIGN;
    l->sign = c;
    l->at++;
    if (c == '-' && peek(l, 0) == '>') {
        l->at++;
        l->sign = '>';
    }
    if (strchr("([{", c))
        l->brackets++;
    if (strchr(")]}", c) && --l->brackets < 0)
        return ts_bad(l, "a bracket is closed that was not opened");
    return 0;
}

/* Over blanks, and over ends of lines within brackets. */
static void skip_blanks(struct ts_lexer *l)
{
    for (;;) {
        const int c = peek(l, 0);

        if (c == '#')
            skip_comment(l);
        else if (c == ' ' || c == '\r' || (c == '\n' && l->brackets > 0))
            l->at++;
        else
            return;
        if (c == '\n')
            l->line++;
    }
}

int ts_next(struct ts_lexer *l)
{
    const unsigned char *start;
    int c;

    if (l->line_start) {
        const int rc = start_line(l);

        if (rc <= 0)
            return rc;
    }
    if (l->pending > 0) {
        l->pending--;
        l->token = TS_DEDENT;
        return 0;
    }
    skip_blanks(l);
    c = peek(l, 0);
    if (c < 0 && l->token != TS_NEWLINE && l->token != TS_DEDENT &&
        l->token != TS_END) {
        l->line_start = true; /* the last line has no end of its own */
        l->token = TS_NEWLINE;
        return 0;
    }
    if (c < 0) {
        l->token = TS_END;
        return 0;
    }
    if (c == '\n') {
        l->at++;
        l->line++;
        l->line_start = true;
        l->token = TS_NEWLINE;
        return 0;
    }
    if (c == '"' || c == '\'')
        return text(l);
    if (is_digit(c) || (c == '.' && is_digit(peek(l, 1))))
        return number(l);
    if (is_letter(c)) {
        start = l->at;
        while (is_letter(peek(l, 0)) || is_digit(peek(l, 0)))
            l->at++;
        l->token = TS_WORD;
        l->text =
            (struct pb_span){(unsigned char *)start, (size_t)(l->at - start)};
        return 0;
    }
    if (strchr("()[]{},:.=-", c) && c)
        return sign(l, c);
    return ts_bad(l, "a character that TorchScript does not have");
}
