/* SPDX-License-Identifier: Apache-2.0 */
/* Error reports: one bounded text, safe to print on a terminal. */
#include "kernels/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/text.h"

/* A report that is full keeps this much room for "... and N more". */
#define TAIL_ROOM 32

static void format_line(char *out, size_t room, const char *fmt, va_list args)
{
    char raw[sizeof(((struct infer_error *)0)->text)];

    vsnprintf(raw, sizeof(raw), fmt, args);
    text_escape_message(out, room, fmt, raw);
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
    char raw[512], prefix[512], old[sizeof(err->text)];
    size_t used = 0, prefix_length;
    const char *line = old;
    va_list args;

    if (err == NULL)
        return;
    va_start(args, fmt);
    vsnprintf(raw, sizeof(raw), fmt, args);
    va_end(args);
    text_escape_message(prefix, sizeof(prefix), "", raw); /* one line */
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
