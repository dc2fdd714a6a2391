/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows. */
#include "tools/emit/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"

/* Makes room for so many bytes and a NUL. */
static bool reserve(struct emit_text *t, size_t bytes)
{
    size_t need, want;
    char *at;

    if (t->failed || !checked_add(t->n, bytes, &need) ||
        !checked_add(need, 1, &need)) {
        t->failed = true;
        return false;
    }
    if (need <= t->capacity)
        return true;
    if (!checked_mul(need, 2, &want))
        want = need;
    at = realloc(t->at, want);
    if (!at) {
        t->failed = true;
        return false;
    }
    t->at = at;
    t->capacity = want;
    return true;
}

void emit_text_put(struct emit_text *t, const char *text, size_t bytes)
{
    if (!reserve(t, bytes))
        return;
    memcpy(t->at + t->n, text, bytes);
    t->n += bytes;
    t->at[t->n] = '\0';
}

void emit_text_add(struct emit_text *t, const char *format, ...)
{
    char small[256];
    va_list args, again;
    int n;

    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(small, sizeof(small), format, args);
    if (n < 0) {
        t->failed = true;
    } else if ((size_t)n < sizeof(small)) {
        emit_text_put(t, small, (size_t)n);
    } else if (reserve(t, (size_t)n)) {
        vsnprintf(t->at + t->n, (size_t)n + 1, format, again);
        t->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void emit_text_clear(struct emit_text *t)
{
    free(t->at);
    memset(t, 0, sizeof(*t));
}

const char *emit_text_of(const struct emit_text *t)
{
    return t->at ? t->at : "";
}
