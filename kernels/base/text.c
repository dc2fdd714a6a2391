/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, and text that is safe on a terminal. */
#include "kernels/base/text.h"

#include <stdio.h>
#include <string.h>

size_t text_utf8(const void *text, size_t left, uint32_t *code)
{
    /* The least code point that needs so many bytes. */
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = text;
    size_t n, i;
    uint32_t c;

    if (left == 0)
        return 0;
    *code = s[0];
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (n > left)
        return 0;
    c = s[0] & (0x7fu >> n);
    for (i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *code = c;
    return n;
}

bool text_is_utf8(const void *text, size_t bytes)
{
    size_t at, n;
    uint32_t code;

    for (at = 0; at < bytes; at += n) {
        n = text_utf8((const unsigned char *)text + at, bytes - at, &code);
        if (n == 0)
            return false;
    }
    return true;
}

/* Controls of ASCII and of Latin-1, and the marks that reorder text. */
static bool is_unsafe(uint32_t c)
{
    return (c < 0x20 && c != '\n') || (c >= 0x7f && c < 0xa0) || c == 0x200e ||
           c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

/* keep: newlines stay. */
static size_t escape(char *out, size_t room, const char *text, bool keep)
{
    size_t left = strlen(text), used = 0, n;
    uint32_t code;

    while (left > 0) {
        n = text_utf8(text, left, &code);
        if (n == 0 || is_unsafe(code) || (code == '\n' && !keep)) {
            if (used + 5 > room)
                break;
            used += (size_t)sprintf(out + used, "\\x%02X",
                                    (unsigned)(unsigned char)*text);
            n = 1;
        } else {
            if (used + n + 1 > room)
                break;
            memcpy(out + used, text, n);
            used += n;
        }
        text += n;
        left -= n;
    }
    out[used] = '\0';
    return used;
}

size_t text_escape(char *out, size_t room, const char *text)
{
    return escape(out, room, text, true);
}

size_t text_escape_message(char *out, size_t room, const char *format,
                           const char *text)
{
    return escape(out, room, text,
                  strcmp(format, "%s") == 0 || strchr(format, '\n') != NULL);
}

bool text_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool text_ends(const char *text, const char *with)
{
    return text_part_ends(text, strlen(text), with);
}

bool text_part_ends(const char *text, size_t bytes, const char *with)
{
    const size_t n = strlen(with);

    return bytes >= n && memcmp(text + bytes - n, with, n) == 0;
}

#define LETTERS 63

size_t text_distance(const char *a, const char *b)
{
    size_t row[LETTERS + 1], la = strnlen(a, LETTERS), lb = strnlen(b, LETTERS);
    size_t i, j;

    for (j = 0; j <= lb; j++)
        row[j] = j;
    for (i = 1; i <= la; i++) {
        size_t corner = row[0];

        row[0] = i;
        for (j = 1; j <= lb; j++) {
            size_t best = corner + (a[i - 1] != b[j - 1]);

            corner = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[lb];
}
