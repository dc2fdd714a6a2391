/* SPDX-License-Identifier: Apache-2.0 */
/* Error reports: one bounded text, safe to print on a terminal. */
#include "kernels/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A report that is full keeps this much room for "... and N more". */
#define TAIL_ROOM 32

/* Length of the valid UTF-8 sequence at s (RFC 3629), or 0. */
static int utf8_length(const unsigned char *s)
{
    unsigned code;
    int n, i;

    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf) {
        n = 2;
        code = s[0] & 0x1fu;
    } else if ((s[0] & 0xf0) == 0xe0) {
        n = 3;
        code = s[0] & 0x0fu;
    } else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
        n = 4;
        code = s[0] & 0x07u;
    } else {
        return 0;
    }
    for (i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    if ((n == 3 && code < 0x800) || (n == 4 && code < 0x10000) ||
        code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    /* C1 controls, and the marks that reorder text on a terminal. */
    if ((code >= 0x80 && code < 0xa0) || code == 0x200e || code == 0x200f ||
        (code >= 0x202a && code <= 0x202e) ||
        (code >= 0x2066 && code <= 0x2069))
        return 0;
    return n;
}

/* Copies text to out, escaping what a terminal must not see.  Returns the
 * bytes written, the final NUL not counted; stops before a piece that does not
 * fit. */
static size_t copy_escaped(char *out, size_t room, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t used = 0;

    while (*s != '\0') {
        int n = utf8_length(s);

        if (n == 1 && ((*s < 0x20 && *s != '\n') || *s == 0x7f))
            n = 0;
        if (n == 0) {
            if (used + 5 > room)
                break;
            used += (size_t)sprintf(out + used, "\\x%02X", *s);
            s++;
        } else {
            if (used + (size_t)n + 1 > room)
                break;
            memcpy(out + used, s, (size_t)n);
            used += (size_t)n;
            s += n;
        }
    }
    out[used] = '\0';
    return used;
}

static void format_line(char *out, size_t room, const char *fmt, va_list args)
{
    char raw[sizeof(((struct infer_error *)0)->text)];

    vsnprintf(raw, sizeof(raw), fmt, args);
    copy_escaped(out, room, raw);
}

int error_set(struct infer_error *err, int code, const char *fmt, ...)
{
    va_list args;

    if (err == NULL)
        return code;
    err->code = code;
    va_start(args, fmt);
    format_line(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    return code;
}

/* Counts one more line that did not fit. */
static void count_more(struct infer_error *err, size_t used)
{
    char *tail = strstr(err->text, "\n... and ");
    unsigned long more = 0;

    if (tail != NULL && sscanf(tail, "\n... and %lu more", &more) != 1)
        tail = NULL;
    if (tail == NULL)
        tail = err->text + used;
    snprintf(tail, TAIL_ROOM, "\n... and %lu more", more + 1);
}

int error_add(struct infer_error *err, int code, const char *fmt, ...)
{
    char line[1024];
    size_t used, length;
    va_list args;

    if (err == NULL)
        return code;
    if (err->code == INFER_OK) {
        err->code = code;
        err->text[0] = '\0';
    }
    va_start(args, fmt);
    format_line(line, sizeof(line), fmt, args);
    va_end(args);
    used = strlen(err->text);
    length = strlen(line);
    if (strstr(err->text, "\n... and ") != NULL ||
        used + length + 2 + TAIL_ROOM > sizeof(err->text)) {
        count_more(err, used);
        return err->code;
    }
    if (used > 0)
        err->text[used++] = '\n';
    memcpy(err->text + used, line, length + 1);
    return err->code;
}

void error_prefix(struct infer_error *err, const char *fmt, ...)
{
    char prefix[512], old[sizeof(err->text)];
    size_t used = 0, prefix_length;
    const char *line = old;
    va_list args;

    if (err == NULL)
        return;
    va_start(args, fmt);
    format_line(prefix, sizeof(prefix), fmt, args);
    va_end(args);
    prefix_length = strlen(prefix);
    memcpy(old, err->text, sizeof(old));
    while (*line != '\0') {
        size_t length = strcspn(line, "\n");
        bool more = line[length] == '\n';

        if (used + prefix_length + 2 + 1 >= sizeof(err->text))
            break;
        used += (size_t)snprintf(err->text + used, sizeof(err->text) - used,
                                 "%s: ", prefix);
        if (length > sizeof(err->text) - used - 2)
            length = sizeof(err->text) - used - 2;
        memcpy(err->text + used, line, length);
        used += length;
        line += strcspn(line, "\n");
        if (more) {
            err->text[used++] = '\n';
            line++;
        }
    }
    err->text[used] = '\0';
}

void error_clear(struct infer_error *err)
{
    if (err == NULL)
        return;
    err->code = INFER_OK;
    err->text[0] = '\0';
}
