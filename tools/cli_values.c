/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes, times, shapes and words, as command lines have them. */
#include "tools/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text.h"

bool cli_int(const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < min || value > max)
        return false;
    *out = value;
    return true;
}

/* True for "M" and "MiB" where unit is "M". */
static bool unit_is(const char *text, const char *unit)
{
    const size_t length = strlen(unit);

    return strncmp(text, unit, length) == 0 &&
           (text[length] == '\0' ||
            (length > 0 && strcmp(text + length, "iB") == 0));
}

bool cli_size(const char *text, int64_t *out)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    char *end;
    double value = strtod(text, &end);

    if (cli_int(text, 0, INT64_MAX, out))
        return true;
    if (end == text || !(value >= 0))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++, value *= 1024)
        if (unit_is(end, units[i]) && value < 9e18) {
            *out = (int64_t)value;
            return true;
        }
    return false;
}

bool cli_double(const char *text, double *out)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text)
        return false;
    if (*end == '/') {
        const char *below = end + 1;
        double divisor = strtod(below, &end);

        if (end == below || divisor == 0)
            return false;
        value /= divisor;
    }
    if (*end != '\0' || !isfinite(value))
        return false;
    *out = value;
    return true;
}

bool cli_seconds(const char *text, double *out)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"", 1}, {"m", 60}};
    char *end;
    double value = strtod(text, &end);
    size_t i;

    if (end == text || !isfinite(value) || value < 0)
        return false;
    for (i = 0; i < sizeof(units) / sizeof(*units); i++)
        if (strcmp(end, units[i].unit) == 0) {
            *out = value * units[i].seconds;
            return isfinite(*out);
        }
    return false;
}

int cli_doubles(const char *text, double *out, int capacity)
{
    char word[64];
    int n = 0;

    for (;;) {
        size_t length = strcspn(text, ",");

        if (n == capacity || length >= sizeof(word))
            return -1;
        memcpy(word, text, length);
        word[length] = '\0';
        if (!cli_double(word, &out[n++]))
            return -1;
        if (text[length] == '\0')
            return n;
        text += length + 1;
    }
}

bool cli_shape(const char *text, char **name, int *rank, int64_t *dim)
{
    const char *colon = strrchr(text, ':');
    const char *s = colon != NULL ? colon + 1 : text;
    bool bracket = *s == '[';
    int n = 0;

    *name = NULL;
    if (bracket)
        s++;
    while (!bracket || *s != ']' || n > 0) { /* "[]" is one number */
        char *end;
        long long value;

        errno = 0;
        value = strtoll(s, &end, 10);
        if (end == s || errno != 0 || n == INFER_MAX_RANK || value == 0 ||
            value < -1)
            return false;
        dim[n++] = value;
        s = end;
        if (*s != (bracket ? ',' : 'x'))
            break;
        s++;
    }
    if (bracket && *s++ != ']')
        return false;
    if (*s != '\0')
        return false;
    *rank = n;
    if (colon != NULL && colon > text) {
        *name = strndup(text, (size_t)(colon - text));
        return *name != NULL;
    }
    return true;
}

int cli_word(const char *text, const char *const *words)
{
    int i;

    for (i = 0; words[i] != NULL; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    return -1;
}

const char *cli_nearest(const char *text, const char *const *words)
{
    size_t limit = strlen(text) / 3 + 1, best = limit + 1;
    const char *nearest = NULL;
    int i;

    for (i = 0; words[i] != NULL; i++) {
        size_t distance = text_distance(text, words[i]);

        if (distance < best) {
            best = distance;
            nearest = words[i];
        }
    }
    return nearest;
}

const char *cli_bytes(double bytes, char *buf, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int i = 0;

    while (bytes >= 1024 && i < 4) {
        bytes /= 1024;
        i++;
    }
    snprintf(buf, size, i == 0 ? "%.0f %s" : "%.1f %s", bytes, units[i]);
    return buf;
}
