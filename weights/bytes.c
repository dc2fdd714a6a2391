/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the byte reader that are too long to be inline. */
#include "weights/bytes.h"

/* Length of the well-formed UTF-8 sequence at p, or 0 (Unicode table 3-7). */
static size_t utf8_sequence(const unsigned char *p, size_t left)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t n, i;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (n > left)
        return 0;
    if (p[0] == 0xe0)
        low = 0xa0;
    else if (p[0] == 0xed)
        high = 0x9f;
    else if (p[0] == 0xf0)
        low = 0x90;
    else if (p[0] == 0xf4)
        high = 0x8f;
    if (p[1] < low || p[1] > high)
        return 0;
    for (i = 2; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

bool bytes_is_utf8(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    size_t at = 0, n;

    while (at < bytes) {
        n = utf8_sequence(p + at, bytes - at);
        if (n == 0)
            return false;
        at += n;
    }
    return true;
}

void bytes_swap(void *data, size_t n, size_t size)
{
    unsigned char *p = data, t;
    size_t i, j;

    if (size < 2)
        return;
    for (i = 0; i < n; i++, p += size) {
        for (j = 0; j < size / 2; j++) {
            t = p[j];
            p[j] = p[size - 1 - j];
            p[size - 1 - j] = t;
        }
    }
}
