/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and strings as protocol 0 writes them. */
#include "weights/pytorch/pickle_text.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

int pickle_text_int(const unsigned char *text, size_t bytes, int64_t *out)
{
    bool negative = bytes > 0 && text[0] == '-', fits = true;
    size_t i = bytes > 0 && (text[0] == '-' || text[0] == '+');
    int64_t value = 0;

    if (i == bytes)
        return -1;
    for (; i < bytes; i++) {
        int64_t digit = text[i] - '0';

        if (!is_digit(text[i]))
            return -1;
        fits = fits && checked_mul_i64(value, 10, &value) &&
               checked_add_i64(value, negative ? -digit : digit, &value);
    }
    *out = value;
    return fits ? 0 : 1;
}

/* What Python's repr() of a float gives; strtod() alone would also take hex
 * and locale forms. */
bool pickle_text_float(const unsigned char *text, size_t bytes, double *out)
{
    char copy[64], *end;
    size_t i;

    if (bytes == 0 || bytes >= sizeof copy)
        return false;
    for (i = 0; i < bytes; i++)
        if (!is_digit(text[i]) && !strchr("+-.eEinfa", text[i]))
            return false;
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    if (memchr(copy, 0, bytes))
        return false;
    *out = strtod(copy, &end);
    return end == copy + bytes;
}

static int hex_value(unsigned char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* `count` hexadecimal digits. */
static bool take_hex(const unsigned char *text, size_t left, size_t count,
                     uint32_t *out)
{
    uint32_t value = 0;
    size_t i;

    if (left < count)
        return false;
    for (i = 0; i < count; i++) {
        int digit = hex_value(text[i]);

        if (digit < 0)
            return false;
        value = value << 4 | (uint32_t)digit;
    }
    *out = value;
    return true;
}

/* One escape after the backslash; returns the characters used, or 0. */
static size_t take_escape(const unsigned char *text, size_t left,
                          unsigned char *out)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *simple;
    uint32_t value = 0;
    size_t i;

    if (left == 0 || text[0] == 0)
        return 0;
    simple = strchr(from, text[0]);
    if (simple) {
        *out = (unsigned char)to[simple - from];
        return 1;
    }
    if (text[0] == 'x') {
        if (!take_hex(text + 1, left - 1, 2, &value))
            return 0;
        *out = (unsigned char)value;
        return 3;
    }
    for (i = 0; i < 3 && i < left && text[i] >= '0' && text[i] <= '7'; i++)
        value = value * 8 + (text[i] - '0');
    if (i == 0 || value > 255)
        return 0;
    *out = (unsigned char)value;
    return i;
}

bool pickle_text_string(const unsigned char *text, size_t bytes,
                        unsigned char *out, size_t *out_bytes)
{
    size_t i, n = 0, used;

    if (bytes < 2 || (text[0] != '\'' && text[0] != '"') ||
        text[bytes - 1] != text[0])
        return false;
    for (i = 1; i < bytes - 1; n++) {
        if (text[i] == text[0])
            return false;
        if (text[i] != '\\') {
            out[n] = text[i++];
            continue;
        }
        used = take_escape(text + i + 1, bytes - 2 - i, &out[n]);
        if (used == 0)
            return false;
        i += 1 + used;
    }
    *out_bytes = n;
    return true;
}

size_t pickle_text_utf8(uint32_t c, unsigned char *out)
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (unsigned char)(0xc0 | c >> 6);
        out[1] = (unsigned char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    if (c < 0x10000) {
        out[0] = (unsigned char)(0xe0 | c >> 12);
        out[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (unsigned char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (unsigned char)(0xf0 | c >> 18);
    out[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (unsigned char)(0x80 | (c & 0x3f));
    return 4;
}

bool pickle_text_unicode(const unsigned char *text, size_t bytes,
                         unsigned char *out, size_t *out_bytes)
{
    size_t i = 0, n = 0, digits, used;
    uint32_t c;

    while (i < bytes) {
        c = text[i++];
        if (c == '\\' && i < bytes && (text[i] == 'u' || text[i] == 'U')) {
            digits = text[i] == 'u' ? 4 : 8;
            if (!take_hex(text + i + 1, bytes - i - 1, digits, &c))
                return false;
            i += 1 + digits;
        }
        used = pickle_text_utf8(c, out + n);
        if (used == 0)
            return false;
        n += used;
    }
    *out_bytes = n;
    return true;
}
