/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the byte reader that is too long to be inline. */
#include "weights/bytes.h"

void bytes_skip_space(const unsigned char *text, size_t bytes, size_t *at)
{
    while (*at < bytes && (text[*at] == ' ' || text[*at] == '\t' ||
                           text[*at] == '\n' || text[*at] == '\r'))
        ++*at;
}

bool bytes_take_char(const unsigned char *text, size_t bytes, size_t *at,
                     char wanted)
{
    bytes_skip_space(text, bytes, at);
    if (*at == bytes || text[*at] != (unsigned char)wanted)
        return false;
    ++*at;
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
