/* SPDX-License-Identifier: Apache-2.0 */
/* Words and numbers in the text files of networks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights/layers/layers.h"

bool layers_text_is(struct layers_text t, const char *word)
{
    return t.bytes == strlen(word) && memcmp(t.data, word, t.bytes) == 0;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct layers_text layers_text_trim(struct layers_text t)
{
    while (t.bytes > 0 && is_space(t.data[0])) {
        t.data++;
        t.bytes--;
    }
    while (t.bytes > 0 && is_space(t.data[t.bytes - 1]))
        t.bytes--;
    return t;
}

bool layers_text_cut(struct layers_text *t, char mark, struct layers_text *part)
{
    const char *at;

    if (t->bytes == 0)
        return false;
    at = memchr(t->data, mark, t->bytes);
    *part = *t;
    if (at == NULL) {
        t->data += t->bytes;
        t->bytes = 0;
        return true;
    }
    part->bytes = (size_t)(at - t->data);
    t->bytes -= part->bytes + 1;
    t->data = at + 1;
    return true;
}

/* Copies a number that has only these characters. */
static bool copy_number(struct layers_text t, const char *allowed,
                        char buffer[64])
{
    size_t i;

    t = layers_text_trim(t);
    if (t.bytes == 0 || t.bytes > 63)
        return false;
    for (i = 0; i < t.bytes; i++)
        if (t.data[i] == '\0' || strchr(allowed, t.data[i]) == NULL)
            return false;
    memcpy(buffer, t.data, t.bytes);
    buffer[t.bytes] = '\0';
    return true;
}

bool layers_text_int(struct layers_text t, int64_t min, int64_t max,
                     int64_t *out)
{
    char buffer[64], *end;
    long long v;

    if (!copy_number(t, "+-0123456789", buffer))
        return false;
    v = strtoll(buffer, &end, 10); /* saturates */
    if (*end != '\0' || v < min || v > max)
        return false;
    *out = v;
    return true;
}

bool layers_text_float(struct layers_text t, float *out)
{
    char buffer[64], *end;
    float v;

    if (!copy_number(t, "+-.eEfF0123456789", buffer))
        return false;
    v = strtof(buffer, &end);
    if (end == buffer || !isfinite(v))
        return false;
    if ((*end == 'f' || *end == 'F') && end[1] == '\0')
        end++;
    if (*end != '\0')
        return false;
    *out = v;
    return true;
}
